//! Functions of Python on the blocks of arrays.
//!
//! The engine calls an object of the package for each block: `chunkwise/_workers.py`, which hands the block to a worker process. Plans name it by
//! the hash of the function and never contain it.

use crate::array::Lazy;
use crate::buffer::View;
use crate::memory::Held;
use crate::work::key;
use chunkwise::kernels::{self, Block, FunctionError, Invocation, PadMode};
use chunkwise::ops::call::{self, Named, Output, Reduction};
use chunkwise::ops::stencil::Boundary;
use chunkwise::types::AxisChunks;
use chunkwise::{Array, DType};
use parking_lot::Mutex;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A function of Python and what it raised first in a run.
pub struct Called {
    named: Named,
    caller: Py<PyAny>,
    raised: Mutex<Option<PyErr>>,
}

/// A function of Python, as plans name it.
#[pyclass(frozen, module = "chunkwise._chunkwise")]
pub struct Function(Arc<Held>);

#[pymethods]
impl Function {
    /// `caller` is called with the number of the block on each axis, the numbers of blocks, the start and the shape of the output's region and the
    /// blocks of the inputs. It gives for each output its bytes, in C order, its dtype and its shape; and before these something that `caller.done`
    /// takes once they are copied.
    #[new]
    fn new(name: String, version: String, memory: u64, caller: Py<PyAny>) -> Function {
        let named = Named::new(name, version, memory);
        Function(Arc::new(Held::Function(Called { named, caller, raised: Mutex::new(None) })))
    }
}

impl Function {
    pub fn held(&self) -> Arc<Held> {
        self.0.clone()
    }

    fn named(&self) -> PyResult<&Named> {
        let Held::Function(called) = &*self.0 else { return Err(PyTypeError::new_err("no function")) };
        Ok(&called.named)
    }
}

/// One block that a function gives.
type Made = (PyBuffer<u8>, String, Vec<u64>);

impl Called {
    pub fn caller(&self, py: Python<'_>) -> Py<PyAny> {
        self.caller.clone_ref(py)
    }

    fn blocks(&self, py: Python<'_>, at: &Invocation<'_>, inputs: &[Block]) -> PyResult<Vec<Block>> {
        let views = inputs.iter().map(|b| Bound::new(py, View::of(b))).collect::<PyResult<Vec<_>>>()?;
        let (block, blocks) = (PyTuple::new(py, &at.block)?, PyTuple::new(py, &at.blocks)?);
        let (start, shape) = (PyTuple::new(py, &at.region.start[..])?, PyTuple::new(py, &at.region.shape[..])?);
        let (worker, made) = self.caller.bind(py).call1((block, blocks, start, shape, views))?.extract::<(Py<PyAny>, Vec<Made>)>()?;
        let copies = made.iter().map(|(bytes, dtype, shape)| copied(py, bytes, dtype, shape)).collect();
        // Only now may the next call of that process overwrite what this one has made.
        drop(made);
        self.caller.call_method1(py, "done", (worker,))?;
        copies
    }
}

fn copied(py: Python<'_>, bytes: &PyBuffer<u8>, dtype: &str, shape: &[u64]) -> PyResult<Block> {
    let dtype: DType = dtype.parse().map_err(PyValueError::new_err)?;
    let wanted = chunkwise::types::volume(shape).saturating_mul(dtype.size());
    if !bytes.is_c_contiguous() || bytes.len_bytes() as u64 != wanted {
        return Err(PyValueError::new_err("the bytes are not those of a block of this shape"));
    }
    // SAFETY: the buffer is contiguous, and held for as long as the slice is used.
    let values = unsafe { std::slice::from_raw_parts(bytes.buf_ptr().cast::<u8>(), bytes.len_bytes()) };
    py.detach(|| {
        Block::from_bytes_with(dtype, shape, |out| {
            out.copy_from_slice(values);
            Ok(())
        })
    })
}

/// A function in the registry of a runtime.
struct Registered(Arc<Held>);

impl kernels::Function for Registered {
    fn call(&self, at: &Invocation<'_>, inputs: &[Block]) -> Result<Vec<Block>, FunctionError> {
        let Held::Function(called) = &*self.0 else { return Err("it is no function".into()) };
        Python::attach(|py| {
            called.blocks(py, at, inputs).map_err(|e| {
                let text = told(py, &e);
                called.raised.lock().get_or_insert(e);
                text.into()
            })
        })
    }
}

/// An exception with its notes, which have the lines of the function: this is all that a driver on another machine sees of it.
fn told(py: Python<'_>, e: &PyErr) -> String {
    let notes = e.value(py).getattr("__notes__").and_then(|n| n.extract::<Vec<String>>()).unwrap_or_default();
    std::iter::once(e.to_string()).chain(notes).collect::<Vec<_>>().join("\n")
}

/// The functions that a run calls.
pub struct Calls(Vec<Arc<Held>>);

impl Calls {
    pub fn of(held: &[Arc<Held>]) -> Calls {
        Calls(held.iter().filter(|h| matches!(***h, Held::Function(_))).cloned().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn each(&self) -> impl Iterator<Item = &Called> {
        self.0.iter().filter_map(|h| if let Held::Function(called) = &**h { Some(called) } else { None })
    }

    /// What a runtime registers.
    pub fn registered(&self) -> impl Iterator<Item = (String, String, Arc<dyn kernels::Function>)> {
        self.0.iter().filter_map(|h| {
            let Held::Function(called) = &**h else { return None };
            let function: Arc<dyn kernels::Function> = Arc::new(Registered(h.clone()));
            Some((called.named.name.clone(), called.named.version.clone(), function))
        })
    }

    /// What workers elsewhere need of them: objects in the folder of the run.
    pub fn attachments(&self, py: Python<'_>) -> PyResult<BTreeMap<String, Vec<u8>>> {
        let stored = |called: &Called| Ok((key(&called.named.version), called.caller.call_method0(py, "stored")?.extract(py)?));
        self.each().map(stored).collect()
    }

    fn tell(&self, py: Python<'_>, what: &str) -> PyResult<()> {
        self.each().try_for_each(|called| called.caller.call_method0(py, what).map(drop))
    }

    /// Before a run.
    pub fn begin(&self, py: Python<'_>) -> PyResult<()> {
        self.each().for_each(|called| *called.raised.lock() = None);
        self.tell(py, "begin")
    }

    /// Ends the calls that are going on.
    pub fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.tell(py, "stop")
    }

    /// After a run.
    pub fn end(&self, py: Python<'_>) -> PyResult<()> {
        self.tell(py, "end")
    }

    /// What the first function that failed has raised.
    pub fn raised(&self) -> Option<PyErr> {
        self.each().find_map(|called| called.raised.lock().take())
    }
}

/// The labels of an output, its dtype, and the chunks of axes by label.
type Wanted = (Vec<u32>, String, BTreeMap<u32, Vec<u64>>);

fn dtype(name: &str) -> PyResult<DType> {
    name.parse().map_err(PyValueError::new_err)
}

fn refused(e: chunkwise::ops::OpError) -> PyErr {
    PyValueError::new_err(e.to_string())
}

fn lazy(array: Array, inputs: &[&Lazy], functions: &[&Function]) -> Lazy {
    let held = inputs.iter().flat_map(|l| l.held.iter()).chain(functions.iter().map(|f| &f.0));
    Lazy::new(array, held.cloned().collect())
}

/// What a function makes of the blocks of arrays. Axes with the same label belong together.
#[pyfunction]
pub fn blockwise(function: Bound<'_, Function>, outputs: Vec<Wanted>, inputs: Vec<(Bound<'_, Lazy>, Vec<u32>)>) -> PyResult<Vec<Lazy>> {
    let output = |(labels, name, chunks): Wanted| -> PyResult<Output> {
        let chunks = chunks.into_iter().map(|(label, list)| (label, AxisChunks::from_list(list))).collect();
        Ok(Output { labels, dtype: dtype(&name)?, chunks })
    };
    let outputs = outputs.into_iter().map(output).collect::<PyResult<Vec<_>>>()?;
    let labelled: Vec<_> = inputs.iter().map(|(a, labels)| (&a.get().array, labels.clone())).collect();
    let made = call::blockwise(function.get().named()?, &outputs, &labelled).map_err(refused)?;
    let lazies: Vec<&Lazy> = inputs.iter().map(|(a, _)| a.get()).collect();
    Ok(made.into_iter().map(|array| lazy(array, &lazies, &[function.get()])).collect())
}

/// What a function makes of each block and of elements around it.
#[pyfunction]
#[pyo3(signature = (function, array, depth, dtype_name, mode = None, fill = 0.0))]
pub fn map_overlap(
    function: Bound<'_, Function>,
    array: &Lazy,
    depth: Vec<u64>,
    dtype_name: &str,
    mode: Option<&str>,
    fill: f64,
) -> PyResult<Lazy> {
    let boundary = match mode {
        None => Boundary::None,
        Some(mode) => {
            let known = [
                ("constant", PadMode::Constant),
                ("edge", PadMode::Edge),
                ("reflect", PadMode::Reflect),
                ("symmetric", PadMode::Symmetric),
                ("wrap", PadMode::Wrap),
            ];
            let found = known.iter().find(|(name, _)| *name == mode);
            let (_, mode) = found.ok_or_else(|| PyValueError::new_err(format!("there is no boundary '{mode}'")))?;
            Boundary::Pad(*mode, chunkwise::types::Scalar::Float(fill))
        }
    };
    let made = call::map_overlap(function.get().named()?, &array.array, &depth, boundary, dtype(dtype_name)?).map_err(refused)?;
    Ok(lazy(made, &[array], &[function.get()]))
}

/// A reduction by three functions: of a block, of partial results, and of the last of these.
#[pyfunction]
pub fn reduce(
    functions: (Bound<'_, Function>, Bound<'_, Function>, Bound<'_, Function>),
    array: &Lazy,
    axes: Vec<usize>,
    dtypes: (String, String),
    keep: bool,
    at_once: u64,
) -> PyResult<Lazy> {
    let (chunk, combine, aggregate) = (functions.0.get(), functions.1.get(), functions.2.get());
    let reduction = Reduction {
        chunk: chunk.named()?.clone(),
        combine: combine.named()?.clone(),
        aggregate: aggregate.named()?.clone(),
        partial: dtype(&dtypes.0)?,
        dtype: dtype(&dtypes.1)?,
        at_once,
    };
    let made = call::reduce(&reduction, &array.array, &axes, keep).map_err(refused)?;
    Ok(lazy(made, &[array], &[chunk, combine, aggregate]))
}
