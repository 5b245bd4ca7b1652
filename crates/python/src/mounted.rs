//! Arrays in stores that only Python can read: the engine asks Python for encoded chunks, and does everything else itself.

use crate::array::{Lazy, opened};
use crate::errors::Failure;
use crate::memory::Held;
use crate::runtime::{PROGRAMS, Runtime};
use bytes::Bytes;
use chunkwise::Error;
use chunkwise::storage::{Part, ProgramStore};
use object_store::GetRange;
use pyo3::exceptions::PyPermissionError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::io::ErrorKind;
use std::sync::Arc;

/// A store of Python that is forgotten when no array reads it any more.
pub struct Mounted(String);

impl Drop for Mounted {
    fn drop(&mut self) {
        PROGRAMS.remove(&self.0);
    }
}

/// An object of Python with `get(key, start, stop)`, as `_mounted.py` has it.
struct PythonStore(Py<PyAny>);

impl ProgramStore for PythonStore {
    fn get(&self, key: &str, range: Option<&GetRange>) -> Result<Option<Part>, std::io::Error> {
        // A start below zero counts from the end.
        let (start, stop) = match range {
            None => (0, None),
            Some(GetRange::Bounded(range)) => (i128::from(range.start), Some(range.end)),
            Some(GetRange::Offset(start)) => (i128::from(*start), None),
            Some(GetRange::Suffix(n)) => (-i128::from(*n), None),
        };
        Python::attach(|py| -> PyResult<_> {
            let found = self.0.bind(py).call_method1("get", (key, start, stop))?;
            let found: Option<(PyBackedBytes, u64, u64)> = found.extract()?;
            Ok(found.map(|(data, start, size)| Part { data: Bytes::from_owner(data), start, size }))
        })
        .map_err(|e| Python::attach(|py| failed(py, &e)))
    }
}

fn failed(py: Python<'_>, e: &PyErr) -> std::io::Error {
    let kind = if e.is_instance_of::<PyPermissionError>(py) { ErrorKind::PermissionDenied } else { ErrorKind::Other };
    std::io::Error::new(kind, e.to_string())
}

/// The array at a path in a store, which is an object with `get(key, start, stop)`: the bytes of an object between two positions, where they begin,
/// and the bytes of the whole object, or `None` if there is no such object. No other store of any process has its `name`: plans of others must not seem to read it.
#[pyfunction]
#[pyo3(signature = (store, name, path, runtime, decode = false, labels = true))]
pub fn mounted(
    py: Python<'_>,
    store: Py<PyAny>,
    name: String,
    path: &str,
    runtime: &Runtime,
    decode: bool,
    labels: bool,
) -> PyResult<Lazy> {
    let (held, array) = py.detach(|| {
        let added = PROGRAMS.add(&name, PythonStore(store)).map_err(Error::from);
        // From here on it is forgotten again if the array cannot be opened.
        let held = Mounted(name);
        (held, added.and_then(|at| opened(runtime, at.join(path).as_str(), decode, labels)))
    });
    Ok(Lazy::new(array.map_err(Failure::from)?, vec![Arc::new(Held::Mounted(held))]))
}
