//! Stored arrays as lazy arrays.

use crate::Error;
use chunkwise_ops::{Array, Definition, Source, cf};
use chunkwise_storage::{Location, open_array};
use std::path::Path;

/// Opens a Zarr array (v2 or v3) by URL or path; relative paths are relative to `base`, or to the current folder without it.
///
/// ```
/// let winds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data");
/// let u = chunkwise::open("winds.zarr/uwnd", Some(std::path::Path::new(winds)))?;
/// assert_eq!((u.dtype(), u.shape()), (chunkwise::DType::Float32, [132, 73, 144].as_slice()));
/// # Ok::<(), chunkwise::Error>(())
/// ```
pub fn open(url: &str, base: Option<&Path>) -> Result<Array, Error> {
    let location = Location::parse(url, base)?;
    let meta = open_array(&location)?;
    let dims = meta.dimension_names.clone().unwrap_or_else(|| vec![None; meta.shape.len()]);
    let metadata = serde_json::to_value(&meta).map_err(|e| Error::Other(e.to_string()))?;
    let (dtype, grid, mut attributes) = (meta.dtype, meta.grid, meta.attributes);
    // How xarray names dimensions in version 2.
    attributes.remove("_ARRAY_DIMENSIONS");
    Ok(Array::stored(Source { url: location.as_str().into(), metadata }, dtype, grid, dims).with_attributes(attributes))
}

/// The values that the stored values of an opened array stand for, by the CF conventions: scaled, shifted, NaN where missing.
pub fn decode_cf(array: &Array) -> Result<Array, Error> {
    let Definition::Stored(source) = array.definition() else { return Ok(array.clone()) };
    // In version 2 the fill value of the array is the CF fill value too, as for xarray.
    let v2 = source.metadata.get("zarr_format").and_then(serde_json::Value::as_u64) == Some(2);
    let fill = source.metadata.get("metadata").and_then(|m| m.get("fill_value")).filter(|_| v2);
    Ok(cf::decode(array, &cf::Packing::parse(array.attributes(), fill)?)?)
}
