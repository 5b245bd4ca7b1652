//! Stored arrays as lazy arrays.

use crate::Error;
use chunkwise_ops::{Array, Source};
use chunkwise_storage::{Location, open_array};
use std::path::Path;

/// Opens a Zarr array (v2 or v3) by URL or path; relative paths are relative to `base`, or to the current folder without it.
pub fn open(url: &str, base: Option<&Path>) -> Result<Array, Error> {
    let location = Location::parse(url, base)?;
    let meta = open_array(&location)?;
    let dims = meta.dimension_names.clone().unwrap_or_else(|| vec![None; meta.shape.len()]);
    let metadata = serde_json::to_value(&meta).map_err(|e| Error::Other(e.to_string()))?;
    let (dtype, grid) = (meta.dtype, meta.grid);
    Ok(Array::stored(Source { url: location.as_str().into(), metadata }, dtype, grid, dims))
}
