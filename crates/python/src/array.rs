//! The lazy array.

use crate::errors::Failure;
use crate::memory::Held;
use crate::runtime::Runtime;
use chunkwise::ops::{Array, Definition, OpError, index, lookup, manipulate};
use chunkwise::types::{AxisChunks, ChunkGrid};
use chunkwise::{Error, decode_cf};
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyEllipsis, PyInt, PyList, PySlice, PyTuple};
use std::sync::Arc;

/// A lazy array of the engine: an expression, and what it needs: the values in memory that it reads, and the functions that it calls.
#[pyclass(frozen, module = "chunkwise._chunkwise")]
#[derive(Clone)]
pub struct Lazy {
    pub array: Array,
    pub held: Vec<Arc<Held>>,
}

impl Lazy {
    /// Everything is held once.
    pub fn new(array: Array, mut held: Vec<Arc<Held>>) -> Lazy {
        held.sort_by_key(Arc::as_ptr);
        held.dedup_by(|a, b| Arc::ptr_eq(a, b));
        Lazy { array, held }
    }

    fn with(&self, array: Array) -> Lazy {
        Lazy { array, held: self.held.clone() }
    }
}

/// A stored array; with `decode`, unpacked by the CF conventions; without `labels`, no coordinates are read.
#[pyfunction]
#[pyo3(signature = (url, runtime, decode = false, labels = true))]
pub fn open(py: Python<'_>, url: &str, runtime: &Runtime, decode: bool, labels: bool) -> PyResult<Lazy> {
    // Who calls this is the person whose machine this is.
    runtime.stores().allow_named(url);
    let array = py.detach(|| opened(runtime, url, decode, labels));
    Ok(Lazy::new(array.map_err(Failure::from)?, Vec::new()))
}

/// As [`open`].
pub fn opened(runtime: &Runtime, url: &str, decode: bool, labels: bool) -> Result<Array, Error> {
    let stored = if labels { runtime.engine().array(url, None) } else { runtime.engine().array_alone(url) }?;
    if decode { decode_cf(&stored) } else { Ok(stored) }
}

/// One entry of an index expression.
enum Entry {
    At(i64),
    Slice([Option<i64>; 3]),
    Take(Vec<i64>),
    New,
}

fn whole(v: &Bound<'_, PyAny>) -> PyResult<i64> {
    v.extract().map_err(|_| PyIndexError::new_err(format!("the index {v} is too large")))
}

fn entry(v: &Bound<'_, PyAny>) -> PyResult<Entry> {
    if v.is_none() {
        return Ok(Entry::New);
    }
    if v.is_instance_of::<PyInt>() {
        return Ok(Entry::At(whole(v)?));
    }
    if v.is_instance_of::<PySlice>() {
        let part = |name: &str| -> PyResult<Option<i64>> {
            let v = v.getattr(name)?;
            // As of NumPy: anything with an index; beyond all arrays is the end.
            if v.is_none() { Ok(None) } else { v.call_method0("__index__")?.extract::<i128>().map(|n| Some(clamped(n))) }
        };
        return Ok(Entry::Slice([part("start")?, part("stop")?, part("step")?]));
    }
    if v.is_instance_of::<PyList>() {
        return Ok(Entry::Take(v.try_iter()?.map(|i| whole(&i?)).collect::<PyResult<_>>()?));
    }
    Err(PyTypeError::new_err(format!("{} is no index", v.get_type().name()?)))
}

fn clamped(n: i128) -> i64 {
    n.clamp(i128::from(i64::MIN / 4), i128::from(i64::MAX / 4)) as i64
}

/// Index errors are of NumPy's class.
fn outside(e: OpError) -> PyErr {
    if e.problem.contains("out of bounds") { PyIndexError::new_err(e.to_string()) } else { PyValueError::new_err(e.to_string()) }
}

#[pymethods]
impl Lazy {
    /// The same array, which is computed with this spec, and so is all that is made of it.
    fn with_spec(&self, spec: Py<PyAny>) -> Lazy {
        let mut held = self.held.clone();
        held.push(Arc::new(Held::Spec(spec)));
        Lazy::new(self.array.clone(), held)
    }

    /// The specs of all arrays that it was made of.
    #[getter]
    fn specs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let spec = |held: &Arc<Held>| if let Held::Spec(spec) = &**held { Some(spec.clone_ref(py)) } else { None };
        PyList::new(py, self.held.iter().filter_map(spec).collect::<Vec<_>>())
    }

    /// What is called for the functions in it.
    #[getter]
    fn callers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let caller = |held: &Arc<Held>| if let Held::Function(called) = &**held { Some(called.caller(py)) } else { None };
        PyList::new(py, self.held.iter().filter_map(caller).collect::<Vec<_>>())
    }

    /// The name of the dtype.
    #[getter]
    fn dtype(&self) -> &'static str {
        self.array.dtype().name()
    }

    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array.shape())
    }

    /// For each axis the lengths of its chunks.
    #[getter]
    fn chunks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let axes = self.array.chunks().0.iter().map(|c| PyTuple::new(py, c.to_list())).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, axes)
    }

    /// The longest chunk of each axis.
    #[getter]
    fn chunksize<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array.chunks().max_shape())
    }

    /// The number of chunks along each axis.
    #[getter]
    fn numblocks<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array.chunks().counts())
    }

    #[getter]
    fn dims<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.array.dims())
    }

    /// The attributes as JSON.
    #[getter]
    fn attributes(&self) -> String {
        serde_json::Value::Object(self.array.attributes().clone()).to_string()
    }

    /// The names of the coordinates.
    #[getter]
    fn coordinates(&self) -> Vec<String> {
        self.array.coords().iter().map(|c| c.name.clone()).collect()
    }

    /// The word for the operation that made it.
    #[getter]
    fn operation(&self) -> &str {
        self.array.operation()
    }

    /// An identity that equal expressions need not share.
    #[getter]
    fn id(&self) -> u64 {
        self.array.id()
    }

    /// True if both are known to have the same elements, by how they are computed.
    fn same_elements(&self, other: &Lazy) -> bool {
        self.array.same_elements(&other.array)
    }

    /// The URL of the stored array that it is, if it is one.
    #[getter]
    fn url(&self) -> Option<&str> {
        if let Definition::Stored(source) = self.array.definition() { Some(&source.url) } else { None }
    }

    /// The same elements without names of dimensions, labels and attributes: arrays of NumPy have none.
    fn bare(&self) -> Lazy {
        let array = self.array.with_coords(Vec::new()).with_dims(vec![None; self.array.rank()]);
        self.with(array.with_attributes(serde_json::Map::new()).as_numbers())
    }

    /// The same array with other names of its dimensions.
    fn renamed(&self, dims: Vec<Option<String>>) -> PyResult<Lazy> {
        if dims.len() != self.array.rank() {
            return Err(PyValueError::new_err(format!("{} names for {} dimensions", dims.len(), self.array.rank())));
        }
        Ok(self.with(self.array.renamed(dims)))
    }

    /// The same array with other attributes, which are given as JSON.
    fn with_attributes(&self, json: &str) -> PyResult<Lazy> {
        let attributes = serde_json::from_str(json).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(self.with(self.array.with_attributes(attributes)))
    }

    /// The same elements in chunks of these lengths.
    fn rechunked(&self, chunks: Vec<Vec<u64>>) -> PyResult<Lazy> {
        let sum = |list: &[u64]| list.iter().try_fold(0u64, |a, &b| a.checked_add(b));
        if !chunks.iter().map(|c| sum(c)).eq(self.array.shape().iter().map(|&n| Some(n))) {
            let message = format!("the chunks {chunks:?} are not those of an array of shape {:?}", self.array.shape());
            return Err(PyValueError::new_err(message));
        }
        let grid = ChunkGrid(chunks.into_iter().map(AxisChunks::from_list).collect());
        grid.check(self.array.shape()).map_err(|e| PyValueError::new_err(e.to_string()))?;
        Ok(self.with(self.array.rechunked(grid)))
    }

    /// The elements that an index expression means: whole numbers, slices, lists of whole numbers, `None` and an ellipsis.
    fn index(&self, entries: &Bound<'_, PyTuple>) -> PyResult<Lazy> {
        let rank = self.array.rank();
        let dots = entries.iter().filter(|v| v.is_instance_of::<PyEllipsis>()).count();
        if dots > 1 {
            return Err(PyIndexError::new_err("an index can only have a single ellipsis ('...')"));
        }
        let named = entries.iter().filter(|v| !v.is_instance_of::<PyEllipsis>() && !v.is_none()).count();
        let Some(rest) = rank.checked_sub(named) else {
            return Err(PyIndexError::new_err(format!("too many indices: the array is {rank}-dimensional, but {named} were indexed")));
        };
        // From the last to the first, so that no axis moves before its turn.
        let mut out = self.array.clone();
        let (mut axis, mut steps) = (0, Vec::new());
        for v in entries.iter() {
            if v.is_instance_of::<PyEllipsis>() {
                axis += rest;
                continue;
            }
            let e = entry(&v)?;
            let here = axis;
            axis += usize::from(!matches!(e, Entry::New));
            steps.push((here, e));
        }
        for (axis, e) in steps.into_iter().rev() {
            out = match e {
                Entry::At(i) => index::item(&out, axis, i),
                Entry::Slice([start, stop, step]) => index::slice(&out, axis, start, stop, step),
                Entry::Take(list) => index::take(&out, &list, axis),
                Entry::New => manipulate::expand_dims(&out, axis),
            }
            .map_err(outside)?;
        }
        Ok(self.with(out))
    }

    /// The elements at points, whose positions along these axes are listed. The axis of the points comes first.
    fn points(&self, axes: Vec<usize>, positions: Vec<Vec<u64>>) -> PyResult<Lazy> {
        let out = lookup::points(&self.array, &axes, positions).map_err(outside)?;
        Ok(self.with(out.with_attributes(self.array.attributes().clone())))
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.array)
    }
}
