//! Arguments from Python as values of the engine.

use crate::array::Lazy;
use crate::memory::Held;
use chunkwise::ops::Value;
use chunkwise::types::Scalar;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyComplex, PyFloat, PyInt, PyList, PySlice, PyString, PyTuple};
use std::sync::Arc;

/// Lists in lists, at most.
const DEPTH: usize = 64;

/// What an argument means. The stores in memory that its arrays read are put to `held`.
pub fn value(v: &Bound<'_, PyAny>, held: &mut Vec<Arc<Held>>) -> PyResult<Value> {
    deep(v, held, DEPTH)
}

fn deep(v: &Bound<'_, PyAny>, held: &mut Vec<Arc<Held>>, depth: usize) -> PyResult<Value> {
    let Some(depth) = depth.checked_sub(1) else { return Err(PyValueError::new_err("lists are nested too deeply")) };
    if let Ok(lazy) = v.cast::<Lazy>() {
        let lazy = lazy.get();
        held.extend(lazy.held.iter().cloned());
        return Ok(Value::Array(lazy.array.clone()));
    }
    if v.is_none() {
        return Ok(Value::None);
    }
    if let Ok(b) = v.cast::<PyBool>() {
        return Ok(b.is_true().into());
    }
    if v.is_instance_of::<PyInt>() {
        let n: i128 = v.extract().map_err(|_| PyValueError::new_err(format!("the integer {v} is too large")))?;
        return Ok(Value::Scalar(Scalar::Int(n)));
    }
    if v.is_instance_of::<PyFloat>() {
        return Ok(v.extract::<f64>()?.into());
    }
    if let Ok(c) = v.cast::<PyComplex>() {
        return Ok(Value::Scalar(Scalar::Complex(c.real(), c.imag())));
    }
    if let Ok(t) = v.cast::<PyString>() {
        return Ok(Value::Str(t.extract()?));
    }
    if v.is_instance_of::<PyList>() || v.is_instance_of::<PyTuple>() {
        let items = v.try_iter()?.map(|item| deep(&item?, held, depth));
        return Ok(Value::List(items.collect::<PyResult<_>>()?));
    }
    if v.is_instance_of::<PySlice>() {
        let part = |name: &str, held: &mut Vec<Arc<Held>>| deep(&v.getattr(name)?, held, depth);
        let parts = [part("start", held)?, part("stop", held)?, part("step", held)?];
        return Ok(Value::Slice(Box::new(parts)));
    }
    Err(PyTypeError::new_err(format!("{} is nothing that an operation takes", v.get_type().name()?)))
}
