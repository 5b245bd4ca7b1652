//! Errors of the engine as exceptions that users of NumPy, Zarr and xarray expect.

use chunkwise::kernels::KernelError;
use chunkwise::storage::StorageError;
use chunkwise::task::TaskError;
use chunkwise::{Error, PlannerError, executor::RunError};
use pyo3::exceptions::{PyFileExistsError, PyFileNotFoundError, PyIndexError, PyOSError, PyPermissionError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// An error of this crate: one of the engine, or one that Python raised.
pub enum Failure {
    Engine(Box<Error>),
    Python(PyErr),
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        Failure::Engine(Box::new(e))
    }
}

impl From<PyErr> for Failure {
    fn from(e: PyErr) -> Failure {
        Failure::Python(e)
    }
}

impl From<Failure> for PyErr {
    fn from(e: Failure) -> PyErr {
        match e {
            Failure::Python(e) => e,
            Failure::Engine(e) => Python::attach(|py| exception(py, &e)),
        }
    }
}

/// The exception of a call that is refused.
pub fn refused(e: chunkwise::ops::CallError) -> PyErr {
    let e = e.into_op_error();
    operation(&e)
}

fn operation(e: &chunkwise::ops::OpError) -> PyErr {
    let text = e.to_string();
    if text.contains("out of bounds") && !text.contains("axis -") { PyIndexError::new_err(text) } else { PyValueError::new_err(text) }
}

fn storage(e: &StorageError) -> PyErr {
    let text = e.to_string();
    match e {
        StorageError::NotFound { .. } | StorageError::NoBucket { .. } | StorageError::InputGone { .. } => {
            PyFileNotFoundError::new_err(text)
        }
        StorageError::PermissionDenied { .. } | StorageError::Credentials { .. } => PyPermissionError::new_err(text),
        StorageError::DiskFull { .. } | StorageError::Gone { .. } | StorageError::Store { .. } => PyOSError::new_err(text),
        _ => PyValueError::new_err(text),
    }
}

/// Bytes that a plan needs, and what is allowed.
struct Shortage<'a> {
    need: u64,
    reserved: u64,
    allowed: u64,
    /// Bytes that would do.
    enough: u64,
    operations: &'a str,
}

/// `chunkwise.MemoryLimitError` with its numbers. The class is defined in Python, where its documentation and type are.
fn memory(py: Python<'_>, text: &str, s: &Shortage<'_>) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let class = py.import("chunkwise._errors")?.getattr("MemoryLimitError")?;
        let numbers = PyDict::new(py);
        numbers.set_item("needed", s.need)?;
        numbers.set_item("reserved", s.reserved)?;
        numbers.set_item("allowed", s.allowed)?;
        numbers.set_item("enough", s.enough)?;
        numbers.set_item("operations", s.operations)?;
        Ok(PyErr::from_value(class.call((text,), Some(&numbers))?))
    };
    made().unwrap_or_else(|e| e)
}

fn exception(py: Python<'_>, e: &Error) -> PyErr {
    let text = e.to_string();
    match e {
        Error::Storage(e) | Error::Run(RunError::Storage(e) | RunError::Place { source: e, .. }) => storage(e).replaced(py, text),
        Error::Op(e) => operation(e),
        Error::Planner(PlannerError::Memory { operations, need, reserved, allowed, least, .. }) => {
            let enough = least.saturating_mul(1_000_000);
            memory(py, &text, &Shortage { need: *need, reserved: *reserved, allowed: *allowed, enough, operations })
        }
        Error::Budget(allowed) => {
            let enough = 2 * chunkwise::RESERVED;
            memory(py, &text, &Shortage { need: 0, reserved: chunkwise::RESERVED, allowed: *allowed, enough, operations: "" })
        }
        Error::Run(RunError::OutputExists { .. }) => PyFileExistsError::new_err(in_python(&text)),
        Error::Run(RunError::Task { source, .. }) => match source.as_ref() {
            TaskError::Storage { source, .. } | TaskError::Open { source, .. } => storage(source).replaced(py, in_python(&text)),
            TaskError::Kernel { source: KernelError::Function { .. }, .. } => PyValueError::new_err(in_python(&text)),
            _ => PyRuntimeError::new_err(in_python(&text)),
        },
        Error::Task(TaskError::Storage { source, .. } | TaskError::Open { source, .. }) => storage(source).replaced(py, text),
        Error::Planner(PlannerError::Internal(_)) | Error::Run(_) => PyRuntimeError::new_err(in_python(&text)),
        _ => PyValueError::new_err(text),
    }
}

/// Options of the command under the names that they have in Python.
fn in_python(text: &str) -> String {
    text.replace("--overwrite", "overwrite=True").replace("--resume", "resume=True").replace("--work-dir", "work_dir")
}

trait Replaced {
    /// The same class of exception with another text.
    fn replaced(self, py: Python<'_>, text: String) -> PyErr;
}

impl Replaced for PyErr {
    fn replaced(self, py: Python<'_>, text: String) -> PyErr {
        PyErr::from_type(self.get_type(py), (text,))
    }
}
