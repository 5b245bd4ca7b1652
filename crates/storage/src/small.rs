//! Small arrays that are read and written as a whole: coordinates, of numbers or of texts.
//!
//! Texts are stored as zarr-python stores them in version 3: the data type `string` with the codec `vlen-utf8`
//! (<https://github.com/zarr-developers/zarr-extensions/tree/main/codecs/vlen-utf8>). Texts of a fixed length (`fixed_length_utf32`, and
//! `<U` of version 2) and those of version 2 with the filter `vlen-utf8` can be read, too.

use crate::chain::Steps;
use crate::meta::{DIMENSIONS, metadata_of};
use crate::{
    ArrayIo, CodecChoice, Elements, Form, Location, NewArray, StorageError, Stores, V2Form, new_meta_as, open_array, publish_array,
};
use chunkwise_types::{DType, Region, Scalar, unravel, volume};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use zarrs::array::{Array, ArrayMetadata, ArraySubset, BytesRepresentation, CodecOptions};
use zarrs::storage::store::MemoryStore;
use zarrs::storage::{StoreKey, WritableStorageTraits};

/// Elements in C order.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Numbers, in native byte order.
    Numbers(DType, Vec<u8>),
    /// Texts.
    Text(Vec<String>),
}

/// An array in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct SmallArray {
    /// The length of each axis.
    pub shape: Vec<u64>,
    /// The names of the axes.
    pub dims: Vec<Option<String>>,
    /// User attributes.
    pub attributes: Map<String, Value>,
    /// The elements.
    pub values: Values,
}

/// Reads an array of at most `limit` bytes. `None` if there is no array of this name.
///
/// # Errors
/// When the array exists but cannot be read, or is larger.
pub fn read_small(stores: &Stores, location: &Location, limit: u64) -> Result<Option<SmallArray>, StorageError> {
    let meta = match open_array(stores, location) {
        Ok(meta) => meta,
        Err(StorageError::NotFound { .. }) => return Ok(None),
        // Texts are not among the dtypes that can be computed with.
        Err(StorageError::Unsupported { url, detail }) => {
            let store = stores.open(location)?;
            return match read_text(stores, location, limit)? {
                Some((found, _)) => Ok(Some(found)),
                // A folder without metadata is not an array yet.
                None if store.get("zarr.json")?.is_none() && store.get(".zarray")?.is_none() => Ok(None),
                None => Err(StorageError::Unsupported { url, detail }),
            };
        }
        Err(e) => return Err(e),
    };
    let bytes = volume(&meta.shape).saturating_mul(meta.dtype.size());
    too_large(location, bytes, limit)?;
    // A chunk may be larger than the array, and is decoded as a whole.
    let chunk = meta.inner_chunk.clone().unwrap_or_else(|| meta.grid.stored_shape());
    too_large(location, volume(&chunk).saturating_mul(meta.dtype.size()), limit)?;
    let mut data = vec![0; bytes as usize];
    if bytes > 0 {
        ArrayIo::new(stores, location, &meta)?.read_region(&Region::full(&meta.shape), &mut data)?;
    }
    let mut attributes = meta.attributes;
    attributes.remove(DIMENSIONS);
    let dims = meta.dimension_names.unwrap_or_else(|| vec![None; meta.shape.len()]);
    Ok(Some(SmallArray { shape: meta.shape, dims, attributes, values: Values::Numbers(meta.dtype, data) }))
}

fn too_large(location: &Location, bytes: u64, limit: u64) -> Result<(), StorageError> {
    if bytes <= limit {
        return Ok(());
    }
    let detail = format!("it has {bytes} bytes, more than the {limit} that are kept in memory");
    Err(StorageError::Unsupported { url: location.to_string(), detail })
}

/// Texts of a fixed length as an array of code points with one more axis, which has the same bytes: its document, and the characters of a
/// text.
fn as_codes(doc: &Value) -> Option<(Value, u64)> {
    let mut doc = doc.clone();
    let object = doc.as_object_mut()?;
    let longer = |list: Option<&Value>, n: Value| {
        let mut list = list?.as_array()?.clone();
        list.push(n);
        Some(Value::Array(list))
    };
    let n = if object.get("zarr_format")?.as_u64()? == 3 {
        let dtype = object.get("data_type")?;
        if dtype.get("name")?.as_str()? != "fixed_length_utf32" {
            return None;
        }
        let n = dtype.pointer("/configuration/length_bytes")?.as_u64()? / 4;
        let chunks = longer(object.get("chunk_grid")?.pointer("/configuration/chunk_shape"), json!(n))?;
        object.insert("chunk_grid".into(), json!({"name": "regular", "configuration": {"chunk_shape": chunks}}));
        object.insert("data_type".into(), json!("uint32"));
        object.remove("dimension_names");
        n
    } else {
        let n = object.get("dtype")?.as_str()?.strip_prefix("<U")?.parse::<u64>().ok()?;
        if object.get("order")?.as_str()? != "C" {
            return None;
        }
        let chunks = longer(object.get("chunks"), json!(n))?;
        object.insert("chunks".into(), chunks);
        object.insert("dtype".into(), json!("<u4"));
        n
    };
    if !(1..1 << 18).contains(&n) {
        return None;
    }
    object.insert("fill_value".into(), json!(0));
    let shape = longer(object.get("shape"), json!(n))?;
    object.insert("shape".into(), shape);
    Some((doc, n))
}

/// The largest decoded size of a chunk of texts of any length. Only the chunk itself says how long they are.
const MOST_OF_TEXTS: u64 = 64 << 20;

fn text_of(codes: &[u32]) -> String {
    let text: String = codes.iter().map(|c| char::from_u32(*c).unwrap_or('\u{fffd}')).collect();
    text.trim_end_matches('\0').to_string()
}

/// The key of a chunk, with the size and the XXH3-64 of its stored bytes; `None` if it is not stored.
pub type TextChunk = (String, Option<(u64, u64)>);

/// The chunks of an array of texts, all of which can be decoded; `None` if it is not an array of texts. Such arrays have no
/// [`crate::ArrayMeta`], because texts cannot be computed with.
///
/// # Errors
/// When a chunk cannot be decoded, or the array has more than `limit` bytes.
pub fn text_chunks(stores: &Stores, location: &Location, limit: u64) -> Result<Option<Vec<TextChunk>>, StorageError> {
    Ok(read_text(stores, location, limit)?.map(|(_, chunks)| chunks))
}

/// The metadata without the last `steps` codecs, which are codecs of bytes.
fn without_steps(doc: &Value, steps: usize) -> Option<ArrayMetadata> {
    let mut doc = doc.clone();
    let object = doc.as_object_mut()?;
    let mut left = steps;
    if let Some(list) = object.get_mut("codecs").and_then(Value::as_array_mut) {
        list.truncate(list.len().saturating_sub(left));
    } else {
        if object.insert("compressor".into(), Value::Null).is_some_and(|c| !c.is_null()) {
            left = left.saturating_sub(1);
        }
        if let Some(filters) = object.get_mut("filters").and_then(Value::as_array_mut) {
            filters.truncate(filters.len().saturating_sub(left));
        }
    }
    metadata_of(&doc).ok()
}

/// Checks that bytes are this many texts in the form of `vlen-utf8`. The library believes the lengths in them.
fn check_texts(data: &[u8], count: u64) -> Result<(), String> {
    let number = |at: usize| data.get(at..at.checked_add(4)?).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes);
    if number(0).map(u64::from) != Some(count) {
        return Err(format!("it does not have the {count} texts of a chunk"));
    }
    let mut at = 4;
    for _ in 0..count {
        let end = number(at).and_then(|n| at.checked_add(4)?.checked_add(n as usize)).filter(|end| *end <= data.len());
        at = end.ok_or("its texts are longer than it is")?;
    }
    Ok(())
}

/// Reads an array of texts; `None` if it is not one.
fn read_text(stores: &Stores, location: &Location, limit: u64) -> Result<Option<(SmallArray, Vec<TextChunk>)>, StorageError> {
    let store = stores.open(location)?;
    let bad = |detail: String| StorageError::Metadata { url: location.to_string(), detail };
    let parse = |data: Option<bytes::Bytes>| data.and_then(|d| serde_json::from_slice::<Value>(&d).ok());
    let (doc, v2) = match parse(store.get("zarr.json")?) {
        Some(doc) => (doc, false),
        None => match parse(store.get(".zarray")?) {
            Some(doc) => (doc, true),
            None => return Ok(None),
        },
    };
    let attributes = if v2 { parse(store.get(".zattrs")?) } else { doc.get("attributes").cloned() };
    let mut attributes = attributes.and_then(|a| a.as_object().cloned()).unwrap_or_default();
    let fixed = as_codes(&doc);
    let Ok(metadata) = metadata_of(fixed.as_ref().map_or(&doc, |f| &f.0)) else { return Ok(None) };
    let memory = Arc::new(MemoryStore::new());
    let Ok(array) = Array::new_with_metadata(memory.clone(), "/", metadata) else { return Ok(None) };
    // Their codecs of bytes are decoded here, into no more than can be right. zarrs gets the rest.
    let texts = |chunk: Vec<std::num::NonZeroU64>| BytesRepresentation::FixedSize(chunk.iter().fold(4, |a, n| n.get().saturating_mul(a)));
    let made = match &fixed {
        Some(_) => array.chunk_shape(&vec![0; array.shape().len()]).map_or(BytesRepresentation::UnboundedSize, texts),
        None => BytesRepresentation::UnboundedSize,
    };
    if let BytesRepresentation::FixedSize(bytes) = made {
        too_large(location, bytes, limit)?;
    }
    let steps = Steps::of(&array.codecs(), made);
    let Some(plain) = without_steps(fixed.as_ref().map_or(&doc, |f| &f.0), array.codecs().bytes_to_bytes_codecs().len()) else {
        return Ok(None);
    };
    let Ok(array) = Array::new_with_metadata(memory.clone(), "/", plain) else { return Ok(None) };
    let is_text = match (doc.get("data_type"), doc.get("filters").and_then(Value::as_array)) {
        (Some(t), _) => t.as_str().or_else(|| t.get("name")?.as_str()) == Some("string"),
        (None, Some(filters)) => filters.iter().any(|f| f.get("id").and_then(Value::as_str) == Some("vlen-utf8")),
        _ => false,
    };
    // For other codecs of texts, and for shards of them, nothing checks the lengths.
    let list = doc.get("codecs").or(doc.get("filters")).and_then(Value::as_array);
    let named = |c: &Value| c.as_str().or_else(|| c.get("name").or(c.get("id"))?.as_str()) == Some("vlen-utf8");
    if fixed.is_none() && !(is_text && list.is_some_and(|l| l.iter().any(named))) {
        return Ok(None);
    }
    let whole = array.shape().to_vec();
    let shape = if fixed.is_some() { whole[..whole.len() - 1].to_vec() } else { whole.clone() };
    too_large(location, volume(&whole).saturating_mul(if fixed.is_some() { 4 } else { 16 }), limit)?;
    // A chunk may be larger than the array.
    let chunk = array.chunk_shape(&vec![0; whole.len()]).map_err(|e| bad(e.to_string()))?;
    let chunk = chunk.iter().fold(1u64, |n, c| n.saturating_mul(c.get()));
    too_large(location, chunk.saturating_mul(if fixed.is_some() { 4 } else { 16 }), limit)?;
    let counts = array.chunk_grid_shape().to_vec();
    let (mut chunks, mut used) = (Vec::new(), 0);
    for k in 0..volume(&counts) {
        let key = array.chunk_key(&unravel(k, &counts));
        // The additional axis has one chunk, whose number is the last part of the key.
        let stored = match (fixed.is_some(), shape.is_empty()) {
            (true, true) => String::from(if v2 { "0" } else { "c" }),
            (true, false) => key.as_str().get(..key.as_str().len() - 2).unwrap_or_default().to_string(),
            (false, _) => key.as_str().to_string(),
        };
        if let Some(size) = store.size(&stored)? {
            too_large(location, size, limit)?;
        }
        let data = store.get_at_most(&stored, limit)?;
        chunks.push((stored, data.as_ref().map(|d| (d.len() as u64, xxhash_rust::xxh3::xxh3_64(d)))));
        if let Some(data) = data {
            let most = usize::try_from(limit.saturating_sub(used).min(MOST_OF_TEXTS)).unwrap_or(usize::MAX);
            let damaged = |detail| StorageError::Corrupt { array: location.to_string(), key: key.as_str().into(), detail };
            let data = steps.decode(data.into(), most, &CodecOptions::default()).map_err(damaged)?;
            if fixed.is_none() {
                check_texts(&data, chunk).map_err(damaged)?;
            }
            used += data.len() as u64;
            let key = StoreKey::new(key.as_str()).map_err(|e| bad(e.to_string()))?;
            memory.set(&key, data.into()).map_err(|e| bad(e.to_string()))?;
        }
    }
    let all = ArraySubset::new_with_shape(whole);
    let texts: Vec<String> = match &fixed {
        Some((_, n)) => {
            let codes: Vec<u32> = array.retrieve_array_subset(&all).map_err(|e| bad(e.to_string()))?;
            codes.chunks_exact(*n as usize).map(text_of).collect()
        }
        None => array.retrieve_array_subset(&all).map_err(|e| bad(e.to_string()))?,
    };
    let names =
        |v: Option<&Value>| -> Option<Vec<Option<String>>> { Some(v?.as_array()?.iter().map(|n| n.as_str().map(String::from)).collect()) };
    let dims = names(doc.get("dimension_names")).or_else(|| names(attributes.get(DIMENSIONS)));
    let dims = dims.filter(|d| d.len() == shape.len()).unwrap_or_else(|| vec![None; shape.len()]);
    attributes.remove(DIMENSIONS);
    Ok(Some((SmallArray { shape, dims, attributes, values: Values::Text(texts) }, chunks)))
}

/// The version of Zarr in which an array is written, and a setting that only this version has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Version {
    /// Version 2. Readers take its fill value, if there is one, for missing.
    V2(Option<Scalar>),
    /// Version 3.
    V3,
}

/// Writes an array as a single chunk. Returns the key of the chunk and its XXH3-64, unless there is no chunk.
///
/// # Errors
/// When storage fails.
pub fn write_small(
    stores: &Stores,
    location: &Location,
    array: &SmallArray,
    version: Version,
) -> Result<Option<(String, u64)>, StorageError> {
    let chunks: Vec<u64> = array.shape.iter().map(|n| (*n).max(1)).collect();
    let empty = volume(&array.shape) == 0;
    let list = match &array.values {
        Values::Text(list) => list,
        Values::Numbers(dtype, bytes) => {
            let new = NewArray {
                dtype: *dtype,
                shape: array.shape.clone(),
                chunks,
                shards: None,
                codec: CodecChoice::Default,
                fill_value: if let Version::V2(Some(fill)) = version { fill } else { Scalar::Int(0) },
                dimension_names: Some(array.dims.clone()),
                attributes: array.attributes.clone(),
            };
            let v2 = match version {
                Version::V2(fill) => Some(V2Form { no_fill: fill.is_none(), ..V2Form::default() }),
                Version::V3 => None,
            };
            let meta = new_meta_as(&new, &Form { v2, ..Form::default() })?;
            let written = if empty {
                None
            } else {
                let index = vec![0; array.shape.len()];
                let w = ArrayIo::new(stores, location, &meta)?.write_chunk(&index, Elements::whole(bytes, &array.shape))?;
                Some((w.key, w.xxh3))
            };
            publish_array(stores, location, &meta)?;
            return Ok(written);
        }
    };
    let store = stores.open(location)?;
    let numbers: Vec<&str> = array.shape.iter().map(|_| "0").collect();
    let (key, documents) = if version == Version::V3 {
        let doc = json!({
            "zarr_format": 3, "node_type": "array", "shape": array.shape, "data_type": "string",
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": "", "codecs": [{"name": "vlen-utf8", "configuration": {}}], "attributes": array.attributes, "dimension_names": array.dims,
        });
        (std::iter::once("c").chain(numbers).collect::<Vec<_>>().join("/"), vec![("zarr.json", doc)])
    } else {
        let doc = json!({
            "zarr_format": 2, "shape": array.shape, "chunks": chunks, "dtype": "|O", "compressor": null, "fill_value": null, "order": "C",
            "filters": [{"id": "vlen-utf8"}], "dimension_separator": ".",
        });
        let mut attributes = array.attributes.clone();
        attributes.insert(DIMENSIONS.into(), json!(array.dims));
        let key = if numbers.is_empty() { "0".into() } else { numbers.join(".") };
        (key, vec![(".zattrs", attributes.into()), (".zarray", doc)])
    };
    let mut written = None;
    if !empty {
        let mut data = (list.len() as u32).to_le_bytes().to_vec();
        for text in list {
            data.extend_from_slice(&(text.len() as u32).to_le_bytes());
            data.extend_from_slice(text.as_bytes());
        }
        written = Some((key.clone(), xxhash_rust::xxh3::xxh3_64(&data)));
        store.put(&key, data)?;
    }
    for (name, doc) in documents {
        store.put(name, serde_json::to_vec_pretty(&doc).unwrap_or_default())?;
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_texts() {
        let folder = tempfile::tempdir().unwrap();
        let at = Location::parse(&folder.path().display().to_string(), None).unwrap();
        let array = SmallArray {
            shape: vec![2],
            dims: vec![None],
            attributes: Map::new(),
            values: Values::Text(["ab", "c"].map(String::from).to_vec()),
        };
        write_small(&Stores::new(), &at, &array, Version::V3).unwrap();
        let store = Stores::new().open(&at).unwrap();
        let good = store.get("c/0").unwrap().unwrap();
        for (place, byte) in [(0, 3), (0, 1), (3, 0xff), (4, 200), (7, 0x80), (10, 2), (13, 0xff)] {
            let mut data = good.to_vec();
            data[place] = byte;
            store.put("c/0", data).unwrap();
            assert!(matches!(read_small(&Stores::new(), &at, 1 << 20), Err(StorageError::Corrupt { .. })), "{place}");
        }
        for end in 0..good.len() {
            store.put("c/0", &good[..end]).unwrap();
            assert!(read_small(&Stores::new(), &at, 1 << 20).is_err(), "{end}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| Location::parse(&folder.path().join(name).display().to_string(), None).unwrap();
        let dims = vec![Some("x".to_string())];
        for (name, shape, dims, values) in [
            ("text", vec![3], dims.clone(), Values::Text(["DJF", "", "größer"].map(String::from).to_vec())),
            ("one", vec![], vec![], Values::Text(vec!["a".into()])),
            ("none", vec![0], dims.clone(), Values::Text(Vec::new())),
            ("numbers", vec![2], dims, Values::Numbers(DType::Int16, vec![1, 0, 2, 0])),
        ] {
            let array = SmallArray { shape, dims, attributes: json!({"units": "K"}).as_object().cloned().unwrap(), values };
            for version in [Version::V3, Version::V2(None)] {
                let at = at(&format!("{name} {version:?}"));
                write_small(&Stores::new(), &at, &array, version).unwrap();
                assert_eq!(read_small(&Stores::new(), &at, 1 << 20).unwrap().as_ref(), Some(&array), "{name} {version:?}");
            }
        }
        assert_eq!(read_small(&Stores::new(), &at("nothing"), 100).unwrap(), None);
        assert!(read_small(&Stores::new(), &at("text V3"), 1).is_err());
    }
}
