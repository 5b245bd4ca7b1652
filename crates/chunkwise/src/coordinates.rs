//! Coordinate arrays beside the outputs, so that xarray opens them with their labels.

use crate::Error;
use crate::provenance::{Origin, Provenance};
use chunkwise_executor::checksums;
use chunkwise_kernels::Block;
use chunkwise_ops::Array;
use chunkwise_storage::{
    ArrayIo, ArrayMeta, CodecChoice, Elements, Location, NewArray, at_once, check_allowed, consolidate, ensure_group, new_meta, open_array,
    publish_array,
};
use chunkwise_types::{DType, Region, Scalar};
use std::collections::HashMap;

/// A one-dimensional array in memory.
pub(crate) struct Coordinate {
    pub meta: ArrayMeta,
    pub bytes: Vec<u8>,
}

/// Reads a one-dimensional coordinate; `None` if there is none.
pub(crate) fn read(location: &Location) -> Option<Coordinate> {
    let meta = open_array(location).ok().filter(|m| m.shape.len() == 1 && m.shape[0] <= 1 << 24)?;
    let mut bytes = vec![0; (meta.shape[0] * meta.dtype.size()) as usize];
    ArrayIo::new(location, &meta).ok()?.read_region(&Region::full(&meta.shape), &mut bytes).ok()?;
    Some(Coordinate { meta, bytes })
}

/// The values as floats.
pub(crate) fn as_floats(c: &Coordinate) -> Option<Vec<f64>> {
    let block = Block::from_bytes_with::<()>(c.meta.dtype, &c.meta.shape, |out| {
        out.copy_from_slice(&c.bytes);
        Ok(())
    })
    .ok()?;
    match chunkwise_kernels::cast(&block, DType::Float64) {
        Block::Float64(a) => Some(a.iter().copied().collect()),
        _ => None,
    }
}

fn write(
    at: &Location,
    dim: &str,
    dtype: DType,
    attributes: serde_json::Map<String, serde_json::Value>,
    bytes: &[u8],
) -> Result<(), Error> {
    let len = bytes.len() as u64 / dtype.size();
    let meta = new_meta(&NewArray {
        dtype,
        shape: vec![len],
        chunks: vec![len.max(1)],
        shards: None,
        codec: CodecChoice::Default,
        fill_value: Scalar::Int(0),
        dimension_names: Some(vec![Some(dim.into())]),
        attributes,
    })?;
    if len > 0 {
        let written = ArrayIo::new(at, &meta)?.write_chunk(&[0], Elements::whole(bytes, &[len]))?;
        checksums::write(at, [(written.key, format!("{:016x}", written.xxh3))].into_iter())?;
    }
    Ok(publish_array(at, &meta)?)
}

/// The coordinate of a stored axis at the indices of the origin. It lies beside the array that the axis is of, or else beside one of
/// the `sources`.
pub(crate) fn moved(origin: &Origin, name: &str, sources: &[Location]) -> Option<Coordinate> {
    let Origin::Stored { url, dim, len, indices } = origin else { return None };
    if dim != name || !origin.whole() {
        return None;
    }
    let own = Location::parse(url, None).ok()?;
    let groups = groups_of(std::iter::once(&own).chain(sources));
    let mut c = groups.into_iter().filter_map(|g| read(&g.join(dim))).find(|c| c.meta.shape[0] == *len)?;
    if let Some(list) = indices {
        let size = c.meta.dtype.size() as usize;
        c.bytes = list.iter().filter_map(|&i| c.bytes.chunks_exact(size).nth(i as usize)).flatten().copied().collect();
        c.meta.shape = vec![list.len() as u64];
    }
    Some(c)
}

/// The group that an output belongs to; `None` if it is a store of its own, or lies in a folder that holds other files.
fn group_of(output: &Location) -> Option<Location> {
    let group = output.parent().filter(|g| !output.name().ends_with(".zarr") && check_allowed(g).is_ok())?;
    let metadata = ["zarr.json", ".zgroup", ".zattrs", ".zmetadata"];
    if let Some(entries) = group.local_path().and_then(|folder| std::fs::read_dir(folder).ok()) {
        let files: Vec<_> = entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_file())).map(|e| e.file_name()).collect();
        let is_group = files.iter().any(|f| f == "zarr.json" || f == ".zgroup");
        if !is_group && files.iter().any(|f| !metadata.iter().any(|m| f == m)) {
            return None;
        }
    }
    Some(group)
}

/// Makes the folders of outputs groups, so that a plan that was run without a pipeline leaves stores that can be opened.
pub(crate) fn make_groups(outputs: &[String]) -> Result<(), Error> {
    let locations = outputs.iter().map(|url| Location::parse(url, None)).collect::<Result<Vec<_>, _>>()?;
    let mut groups: Vec<Location> = locations.iter().filter_map(group_of).collect();
    groups.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    groups.dedup();
    for group in groups {
        ensure_group(&group, &serde_json::Map::new())?;
        consolidate(&group)?;
    }
    Ok(())
}

/// Writes the coordinates of an output's dimensions beside it, and the group's metadata.
///
/// A dimension that comes from a stored array has that array's coordinates at the places that it comes from. Others have those of the
/// same name and length beside one of the `sources`; `groups` are the values of dimensions that `groupby` made.
///
/// The group that the output is in, if it is in one, is given back: its metadata has yet to be consolidated.
pub(crate) fn finish(
    output: &Location,
    array: &Array,
    sources: &[Location],
    groups: &HashMap<String, Vec<i64>>,
) -> Result<Option<Location>, Error> {
    let Some(group) = group_of(output) else { return Ok(None) };
    ensure_group(&group, &serde_json::Map::new())?;
    let mut provenance = Provenance::default();
    let mut axes = Vec::new();
    for (axis, (dim, &len)) in array.dims().iter().zip(array.shape()).enumerate() {
        let Some(dim) = dim.as_ref().filter(|dim| group.join(dim) != *output) else { continue };
        axes.push((dim.as_str(), len, provenance.of(array, axis)));
    }
    let written = at_once(&axes, |(dim, len, origin)| label(&group.join(dim), dim, *len, origin, sources, groups));
    written.into_iter().collect::<Result<(), Error>>()?;
    Ok(Some(group))
}

/// Writes the coordinates of one axis, unless they are there.
fn label(
    at: &Location,
    dim: &str,
    len: u64,
    origin: &Origin,
    sources: &[Location],
    groups: &HashMap<String, Vec<i64>>,
) -> Result<(), Error> {
    if open_array(at).is_ok() {
        return Ok(());
    }
    if let Some(values) = groups.get(dim).filter(|v| v.len() as u64 == len) {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
        return write(at, dim, DType::Int64, serde_json::Map::new(), &bytes);
    }
    let found = match origin {
        Origin::Unknown => groups_of(sources).into_iter().filter_map(|g| read(&g.join(dim))).find(|c| c.meta.shape[0] == len),
        known => moved(known, dim, sources),
    };
    let Some(c) = found else { return Ok(()) };
    let mut attributes = c.meta.attributes;
    attributes.remove("_ARRAY_DIMENSIONS");
    write(at, dim, c.meta.dtype, attributes, &c.bytes)
}

/// Collects the metadata of some groups into their own documents, once for each.
pub(crate) fn consolidate_all(mut groups: Vec<Location>) -> Result<(), Error> {
    groups.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    groups.dedup();
    groups.iter().try_for_each(|g| Ok(consolidate(g)?))
}

/// The folders of some arrays, each once.
pub(crate) fn groups_of<'a>(arrays: impl IntoIterator<Item = &'a Location>) -> Vec<Location> {
    let mut out: Vec<Location> = Vec::new();
    for group in arrays.into_iter().filter_map(Location::parent) {
        if !out.contains(&group) {
            out.push(group);
        }
    }
    out
}
