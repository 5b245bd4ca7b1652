//! Values from Python as stored arrays that the engine reads.

use crate::array::Lazy;
use crate::errors::Failure;
use crate::function::Called;
use crate::mounted::Mounted;
use crate::runtime::Runtime;
use chunkwise::kernels::Block;
use chunkwise::results::LARGE;
use chunkwise::storage::{ArrayIo, ArrayMeta, CodecChoice, Elements, Location, NewArray, Owner, Stores, at_once, new_meta, publish_array};
use chunkwise::types::{MAX_RANK, Region};
use chunkwise::{DType, Error};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What arrays need for as long as there are any.
pub enum Held {
    Values(Values),
    Function(Called),
    Mounted(Mounted),
    /// What runs that compute it may use, as Python says it.
    Spec(Py<PyAny>),
}

/// A store that is deleted when no array reads it any more.
pub struct Values {
    stores: Stores,
    location: Location,
}

impl Drop for Values {
    fn drop(&mut self) {
        // Nobody could be told. What is left is in a folder of temporary files, or goes with the process.
        let _ = self.stores.open(&self.location).and_then(|s| s.delete_prefix(""));
    }
}

/// A URL in a folder that no other array of any process has.
pub fn fresh(folder: &str, what: &str) -> Result<Location, Error> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("{what}-{}-{}.zarr", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    Ok(Location::parse(&format!("{}/{name}", folder.trim_end_matches('/')), None)?)
}

/// An array of the values in a buffer (C order, native endian), which are copied into a store in `folder` chunk by chunk.
#[pyfunction]
pub fn held(
    py: Python<'_>,
    data: PyBuffer<u8>,
    dtype: &str,
    shape: Vec<u64>,
    chunks: Vec<u64>,
    folder: &str,
    runtime: &Runtime,
) -> PyResult<Lazy> {
    let dtype: DType = dtype.parse().map_err(PyValueError::new_err)?;
    let bytes = chunkwise::types::volume(&shape).saturating_mul(dtype.size());
    if !data.is_c_contiguous() || data.len_bytes() as u64 != bytes || chunks.len() != shape.len() || shape.len() > MAX_RANK {
        return Err(PyValueError::new_err("the buffer does not hold an array of this shape"));
    }
    // SAFETY: the buffer is contiguous, and held for as long as the slice is used.
    let values = unsafe { std::slice::from_raw_parts(data.buf_ptr().cast::<u8>(), data.len_bytes()) };
    let location = fresh(folder, "array").map_err(Failure::from)?;
    let stores = runtime.stores();
    let held = Values { stores: stores.clone(), location: location.clone() };
    let made = py.detach(|| -> Result<_, Error> {
        let meta = new_meta(&NewArray::plain(dtype, &shape, &chunks, CodecChoice::None))?;
        let io = ArrayIo::new(stores, &location, &meta)?;
        if bytes > 0 {
            let indices: Vec<Vec<u64>> = Region::full(&meta.grid.counts()).indices().collect();
            let threads = if bytes < LARGE as u64 { 1 } else { std::thread::available_parallelism().map_or(1, usize::from) };
            let parts: Vec<&[Vec<u64>]> = indices.chunks(indices.len().div_ceil(threads)).collect();
            let copy = |part: &&[Vec<u64>]| part.iter().try_for_each(|index| held_chunk(&io, &meta, index, (values, &shape)));
            at_once(&parts, copy).into_iter().collect::<Result<(), Error>>()?;
        }
        publish_array(stores, &location, &meta)?;
        runtime.engine().array(location.as_str(), None)
    });
    Ok(Lazy::new(made.map_err(Failure::from)?, vec![Arc::new(Held::Values(held))]))
}

/// Stores a chunk of values: as a block that is read where it is, if the array is in memory.
fn held_chunk(io: &ArrayIo, meta: &ArrayMeta, index: &[u64], (values, shape): (&[u8], &[u64])) -> Result<(), Error> {
    let region = meta.grid.region(index);
    let elements = Elements { data: values, shape, start: &region.start };
    if io.shares() && region.shape[..] == meta.grid.stored_shape()[..] {
        let block = Block::from_bytes_with(meta.dtype, &region.shape, |out| {
            elements.copy(&region.shape, out, meta.dtype.size() as usize);
            Ok::<(), Error>(())
        })?;
        if let Some(data) = block.shared_bytes() {
            let owner: Owner = Arc::new(block);
            if io.put_shared(index, &data, &owner)?.is_some() {
                return Ok(());
            }
        }
    }
    io.write_chunk(index, elements)?;
    Ok(())
}
