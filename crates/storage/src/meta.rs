//! Reads and publishes the metadata of arrays.

use crate::access::access;
use crate::input::Stamp;
use crate::{Location, StorageError, Store, Stores};
use chunkwise_types::{ArrayAccess, ChunkGrid, DType, MAX_RANK, volume};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use zarrs::array::{Array, ArrayMetadata};

/// The attribute with the names of the dimensions of an array of Zarr v2.
pub(crate) const DIMENSIONS: &str = "_ARRAY_DIMENSIONS";

/// What a task has to know of an array to read and write its chunks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ArrayMeta {
    /// Element type.
    pub dtype: DType,
    /// Lengths of the axes.
    pub shape: Vec<u64>,
    /// The grid of stored objects: chunks, or shards.
    pub grid: ChunkGrid,
    /// The chunks inside a shard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_chunk: Option<Vec<u64>>,
    /// 2 or 3.
    pub zarr_format: u8,
    /// The metadata document (v3 `zarr.json`, or v2 `.zarray` with the attributes).
    pub metadata: Value,
    /// Names of the axes.
    pub dimension_names: Option<Vec<Option<String>>>,
    /// User attributes.
    pub attributes: Map<String, Value>,
}

impl ArrayMeta {
    /// The name and the bytes of an element as stored. Only for float16 are they smaller than in memory.
    pub fn stored_dtype(&self) -> (&'static str, u64) {
        if crate::half::is_half(&self.metadata) { ("float16", 2) } else { (self.dtype.name(), self.dtype.size()) }
    }

    /// How its chunks can be read.
    pub fn access(&self) -> ArrayAccess {
        let item = self.dtype.size();
        let chunk = self.inner_chunk.as_ref().map_or_else(|| volume(&self.grid.stored_shape()), |inner| volume(inner));
        access(&self.metadata, self.zarr_format, item, chunk.saturating_mul(item), self.inner_chunk.is_some())
    }
}

/// The largest metadata of a group in bytes, with that of all its arrays. In memory a byte of JSON takes sixteen bytes or more.
pub(crate) const MOST_OF_GROUP: u64 = 8 << 20;
/// The largest metadata of an array in bytes, attributes included. Memory holds several copies of it.
const MOST_OF_ARRAY: usize = 2 << 20;

/// The kind of a document, without a copy of the rest.
#[derive(Deserialize)]
struct Node {
    node_type: Option<String>,
}

/// The metadata of an array or a group of Zarr v3.
fn document(store: &Store, key: &str, url: &str) -> Result<Option<Value>, StorageError> {
    let Some(data) = store.get_at_most(key, MOST_OF_GROUP)? else { return Ok(None) };
    let is_group = |n: Node| n.node_type.as_deref() == Some("group");
    if data.len() > MOST_OF_ARRAY && serde_json::from_slice(&data).is_ok_and(is_group) {
        return Ok(Some(json!({"node_type": "group"})));
    }
    parsed(Some(&data), key, url)
}

fn parsed(data: Option<&bytes::Bytes>, key: &str, url: &str) -> Result<Option<Value>, StorageError> {
    let Some(data) = data else { return Ok(None) };
    if data.len() > MOST_OF_ARRAY {
        let detail = format!(
            "{key} has {} bytes, and at most {MOST_OF_ARRAY} are read; perhaps its attributes hold what should be an array",
            data.len()
        );
        return Err(StorageError::Metadata { url: url.into(), detail });
    }
    serde_json::from_slice(data)
        .map(Some)
        .map_err(|e| StorageError::Metadata { url: url.into(), detail: format!("{key} is not JSON: {e}") })
}

/// Opens an array of Zarr v3, or of v2 if there is none.
pub fn open_array(stores: &Stores, location: &Location) -> Result<ArrayMeta, StorageError> {
    let store = stores.open(location)?;
    let url = location.to_string();
    let bad = |detail: String| StorageError::Metadata { url: url.clone(), detail };
    // A file is not an array, and contains nothing.
    let file = location.local_path().filter(|p| !store.has_references() && p.is_file());
    if let Some(detail) = file.and_then(|_| crate::recognise::recognise(location)) {
        return Err(StorageError::Unsupported { url, detail });
    }
    if let Some(doc) = document(&store, "zarr.json", &url)? {
        return match doc.get("node_type").and_then(Value::as_str) {
            Some("array") => from_document(&url, doc, 3),
            Some("group") => Err(StorageError::Group { url }),
            _ => Err(bad("node_type is neither array nor group".into())),
        };
    }
    let found = store.get_all_at_most(&[".zarray", ".zattrs", ".zgroup"].map(String::from), MOST_OF_GROUP)?;
    let [array, attributes, group] = &found[..] else { return Err(StorageError::NotFound { url }) };
    if let Some(mut doc) = parsed(array.as_ref(), ".zarray", &url)? {
        let attributes = parsed(attributes.as_ref(), ".zattrs", &url)?.unwrap_or_else(|| json!({}));
        doc.as_object_mut().ok_or_else(|| bad(".zarray is not an object".into()))?.insert("attributes".into(), attributes);
        return from_document(&url, doc, 2);
    }
    if group.is_some() {
        return Err(StorageError::Group { url });
    }
    match crate::recognise::recognise(location) {
        Some(detail) => Err(StorageError::Unsupported { url, detail }),
        None => Err(StorageError::NotFound { url }),
    }
}

/// The metadata document of an array as [`open_array`] keeps it, if there is one, and the stamp of the object.
pub(crate) fn document_of(store: &Store, zarr_format: u8, url: &str) -> Result<Option<(Value, Stamp)>, StorageError> {
    let key = if zarr_format == 3 { "zarr.json" } else { ".zarray" };
    let Some((data, stamp)) = store.get_stamped(key)? else { return Ok(None) };
    let Some(mut doc) = parsed(Some(&data), key, url)? else { return Ok(None) };
    if zarr_format == 3 {
        return Ok((doc.get("node_type").and_then(Value::as_str) == Some("array")).then_some((doc, stamp)));
    }
    let attributes = document(store, ".zattrs", url)?.unwrap_or_else(|| json!({}));
    if let Some(object) = doc.as_object_mut() {
        object.insert("attributes".into(), attributes);
    }
    Ok(Some((doc, stamp)))
}

/// The first place where two documents differ. Numbers may differ by rounding when they are read as text.
pub(crate) fn same(a: &Value, b: &Value) -> Option<String> {
    fn differ(at: &str, a: &Value, b: &Value) -> Option<String> {
        match (a, b) {
            (Value::Object(x), Value::Object(y)) => x
                .keys()
                .chain(y.keys().filter(|k| !x.contains_key(*k)))
                .find_map(|k| differ(k, x.get(k).unwrap_or(&Value::Null), y.get(k).unwrap_or(&Value::Null))),
            (Value::Array(x), Value::Array(y)) if x.len() == y.len() => x.iter().zip(y).find_map(|(a, b)| differ(at, a, b)),
            (Value::Number(x), Value::Number(y)) if x != y => match (x.as_f64(), y.as_f64()) {
                (Some(x), Some(y)) if (x - y).abs() <= 4.0 * f64::EPSILON * x.abs() && !x.is_nan() => None,
                _ => Some(at.into()),
            },
            _ => (a != b).then(|| at.into()),
        }
    }
    differ("the document", a, b)
}

fn lengths(v: Option<&Value>) -> Option<Vec<u64>> {
    v?.as_array()?.iter().map(Value::as_u64).collect()
}

/// The metadata in a document, in the form of the codec library.
pub(crate) fn metadata_of(doc: &Value) -> Result<ArrayMetadata, String> {
    // The library copies attributes, and does not need them.
    let kept =
        doc.as_object().map(|o| o.iter().filter(|(k, _)| *k != "attributes").map(|(k, v)| (k.clone(), v.clone())).collect::<Map<_, _>>());
    let mut doc = kept.map_or_else(|| doc.clone(), Value::Object);
    let is_complex = doc.get("dtype").and_then(Value::as_str).and_then(|d| d.get(1..2)) == Some("c");
    // The library has no default for these.
    if is_complex && doc.get("fill_value").is_some_and(Value::is_null) {
        doc["fill_value"] = json!([0.0, 0.0]);
    }
    // One element is in both orders. The library would transpose no axes, and that is undefined there.
    let is_scalar = doc.get("shape").and_then(Value::as_array).is_some_and(Vec::is_empty);
    if is_scalar && doc.get("order").is_some_and(|order| order == "F") {
        doc["order"] = json!("C");
    }
    serde_json::from_value(doc).map_err(|e| e.to_string())
}

/// Parses and checks a document.
pub(crate) fn from_document(url: &str, doc: Value, zarr_format: u8) -> Result<ArrayMeta, StorageError> {
    let bad = |detail: String| StorageError::Metadata { url: url.into(), detail };
    let unsupported = |detail: String| StorageError::Unsupported { url: url.into(), detail };
    let shape = lengths(doc.get("shape")).ok_or_else(|| bad("shape is missing or not a list of lengths".into()))?;
    if shape.len() > MAX_RANK || shape.iter().try_fold(16u64, |a, &n| a.checked_mul(n.max(1))).is_none_or(|n| n > 1 << 62) {
        return Err(bad(format!("the shape {shape:?} is too large")));
    }
    let chunks = if zarr_format == 3 {
        let grid = doc.get("chunk_grid");
        match grid.and_then(|g| g.get("name")).and_then(Value::as_str) {
            Some("regular") => {}
            other => {
                return Err(unsupported(format!(
                    "its chunk grid is '{}', and only regular grids are supported",
                    other.unwrap_or("missing")
                )));
            }
        }
        lengths(grid.and_then(|g| g.pointer("/configuration/chunk_shape")))
    } else {
        lengths(doc.get("chunks"))
    };
    let chunks = chunks.ok_or_else(|| bad("the chunk shape is missing or not a list of lengths".into()))?;
    if chunks.len() != shape.len() || chunks.contains(&0) {
        return Err(bad(format!("the chunk shape {chunks:?} does not fit the shape {shape:?}")));
    }
    let metadata = metadata_of(&doc).map_err(bad)?;
    let array = Array::new_with_metadata(std::sync::Arc::new(()), "/", metadata).map_err(|e| unsupported(e.to_string()))?;
    let name = array.data_type().to_string();
    // Floats of 16 bits become floats of 32 bits in memory.
    let half = crate::half::is_half(&doc);
    let dtype: DType = if half { "float32" } else { &name }.parse().or_else(|_| dtype_of(&array)).map_err(|_| {
        let stored = doc.get("data_type").or_else(|| doc.get("dtype")).map(Value::to_string).unwrap_or(name);
        unsupported(format!("its dtype {stored} is not supported"))
    })?;
    if chunks.iter().try_fold(dtype.size(), |a, &n| a.checked_mul(n)).is_none_or(|n| n >= 1 << 40) {
        return Err(bad(format!("a chunk of {chunks:?} is too large")));
    }
    // No part of any other shard can be read by itself, so such a shard is one chunk.
    let inner_chunk = match doc.get("codecs").and_then(Value::as_array).map(Vec::as_slice) {
        Some([shards]) if crate::shard::is_usual(shards) => lengths(shards.pointer("/configuration/chunk_shape")),
        _ => None,
    };
    let attributes = doc.get("attributes").and_then(Value::as_object).cloned().unwrap_or_default();
    let names = |v: Option<&Value>| -> Option<Vec<Option<String>>> {
        let list: Vec<Option<String>> = v?.as_array()?.iter().map(|n| n.as_str().map(String::from)).collect();
        (list.len() == shape.len()).then_some(list)
    };
    let dimension_names = names(doc.get("dimension_names")).or_else(|| names(attributes.get(DIMENSIONS)));
    Ok(ArrayMeta {
        dtype,
        grid: ChunkGrid::regular(&shape, &chunks),
        shape,
        inner_chunk,
        zarr_format,
        metadata: doc,
        dimension_names,
        attributes,
    })
}

/// The dtype of an array whose type has another name in Zarr v2.
fn dtype_of(array: &Array<()>) -> Result<DType, String> {
    let v3 = match array.metadata() {
        ArrayMetadata::V3(m) => m.data_type.name().to_string(),
        ArrayMetadata::V2(m) => zarrs::convert::array_metadata_v2_to_v3(m).map_err(|e| e.to_string())?.data_type.name().to_string(),
    };
    v3.parse()
}

/// Writes the metadata of an array: from now on it can be opened.
pub fn publish_array(stores: &Stores, location: &Location, meta: &ArrayMeta) -> Result<(), StorageError> {
    let text = |doc: &Value| {
        let bad = |e: serde_json::Error| StorageError::Metadata { url: location.to_string(), detail: e.to_string() };
        serde_json::to_vec_pretty(doc).map_err(bad)
    };
    let store = stores.open(location)?;
    if meta.zarr_format == 3 {
        return store.put("zarr.json", text(&meta.metadata)?);
    }
    let (array, attributes) = apart(&meta.metadata);
    store.put(".zattrs", text(&attributes)?)?;
    // This is written last. From then on, the array exists.
    store.put(".zarray", text(&array)?)
}

/// The two documents of an array of Zarr v2.
pub(crate) fn apart(doc: &Value) -> (Value, Value) {
    let mut array = doc.clone();
    let attributes = array.as_object_mut().and_then(|o| o.remove("attributes")).unwrap_or_else(|| json!({}));
    (array, attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_element_in_the_order_of_fortran() {
        let array = |order: &str| {
            json!({
                "zarr_format": 2, "shape": [], "chunks": [], "dtype": "<f8", "fill_value": 0, "order": order, "compressor": null, "filters": null,
            })
        };
        assert_eq!(from_document("x", array("F"), 2).unwrap().shape, from_document("x", array("C"), 2).unwrap().shape);
    }
}
