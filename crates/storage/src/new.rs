//! The metadata of new arrays.

use crate::meta::{DIMENSIONS, from_document};
use crate::{ArrayMeta, StorageError};
use chunkwise_types::{DType, DTypeKind, Scalar};
use serde_json::{Map, Value, json};

/// Compression of a new array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodecChoice {
    /// Blosc with LZ4, level 5, byte shuffle: the fastest that zarr-python, TensorStore and zarrs all read.
    Default,
    /// None.
    None,
    /// Zstandard.
    Zstd {
        /// Compression level.
        level: i32,
    },
    /// Gzip.
    Gzip {
        /// Compression level.
        level: u32,
    },
}

/// A new array.
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct NewArray {
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub chunks: Vec<u64>,
    pub shards: Option<Vec<u64>>,
    pub codec: CodecChoice,
    pub fill_value: Scalar,
    pub dimension_names: Option<Vec<Option<String>>>,
    pub attributes: Map<String, Value>,
}

impl NewArray {
    /// An array without shards, names and attributes, whose fill value is 0.
    pub fn plain(dtype: DType, shape: &[u64], chunks: &[u64], codec: CodecChoice) -> NewArray {
        let fill_value = if dtype == DType::Bool { Scalar::Bool(false) } else { Scalar::Int(0) };
        let (shape, chunks) = (shape.to_vec(), chunks.to_vec());
        NewArray { dtype, shape, chunks, shards: None, codec, fill_value, dimension_names: None, attributes: Map::new() }
    }
}

/// Unusual properties of a new array, in the words of its metadata.
#[derive(Debug, Clone, Default)]
pub struct Form {
    /// The codecs of a chunk (of an inner chunk, if there are shards), instead of [`NewArray::codec`].
    pub codecs: Option<Vec<Value>>,
    /// `index_location` and `index_codecs` of shards.
    pub index: Option<(String, Vec<Value>)>,
    /// Floats of 32 bits are stored as floats of 16 bits.
    pub half: bool,
    /// The name and the separator of `chunk_key_encoding`.
    pub chunk_keys: Option<(&'static str, &'static str)>,
    /// Zarr v2.
    pub v2: Option<V2Form>,
}

/// How an array of Zarr v2 is encoded. The keys of its chunks have the separator of [`Form::chunk_keys`].
#[derive(Debug, Clone)]
#[allow(missing_docs)]
pub struct V2Form {
    pub compressor: Value,
    pub filters: Value,
    pub order: &'static str,
    pub big_endian: bool,
    /// The fill value is `null`.
    pub no_fill: bool,
}

impl Default for V2Form {
    /// The version in which coordinates are written.
    fn default() -> Self {
        let compressor = json!({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0});
        V2Form { compressor, filters: Value::Null, order: "C", big_endian: false, no_fill: true }
    }
}

/// The fill value as Zarr v3 writes it.
fn fill_json(value: Scalar, dtype: DType) -> Value {
    let float = |v: f64| {
        if v.is_nan() {
            json!("NaN")
        } else if v.is_infinite() {
            json!(if v > 0.0 { "Infinity" } else { "-Infinity" })
        } else {
            json!(v)
        }
    };
    match dtype.kind() {
        chunkwise_types::DTypeKind::Bool => json!(value.as_bool()),
        chunkwise_types::DTypeKind::Float => float(value.as_f64()),
        chunkwise_types::DTypeKind::Complex => {
            let c = value.as_complex();
            json!([float(c.re), float(c.im)])
        }
        _ => {
            let v = value.as_i128();
            i64::try_from(v).map_or_else(|_| json!(u64::try_from(v).unwrap_or(0)), |v| json!(v))
        }
    }
}

/// The codecs of a chunk, from their short name.
fn short(codec: CodecChoice, item: u64) -> Vec<Value> {
    let bytes = if item == 1 { json!({"name": "bytes"}) } else { json!({"name": "bytes", "configuration": {"endian": "little"}}) };
    let mut codecs = vec![bytes];
    match codec {
        CodecChoice::Default => codecs.push(json!({"name": "blosc", "configuration": {
            "cname": "lz4", "clevel": 5, "shuffle": if item == 1 { "noshuffle" } else { "shuffle" },
            "typesize": item, "blocksize": 0}})),
        CodecChoice::None => {}
        CodecChoice::Zstd { level } => codecs.push(json!({"name": "zstd", "configuration": {"level": level, "checksum": false}})),
        CodecChoice::Gzip { level } => codecs.push(json!({"name": "gzip", "configuration": {"level": level}})),
    }
    codecs
}

/// The fill value in its stored form.
fn fill_of(new: &NewArray, half: bool) -> Scalar {
    if half { Scalar::Float(crate::half::rounded(new.fill_value.as_f64())) } else { new.fill_value }
}

/// The metadata of a new array without unusual properties.
///
/// # Errors
/// As [`new_meta_as`].
pub fn new_meta(new: &NewArray) -> Result<ArrayMeta, StorageError> {
    new_meta_as(new, &Form::default())
}

/// The metadata of a new array.
///
/// # Errors
/// When such an array is not possible.
pub fn new_meta_as(new: &NewArray, form: &Form) -> Result<ArrayMeta, StorageError> {
    if let Some(v2) = &form.v2 {
        return version_2(new, v2, form.half, form.chunk_keys.map_or(".", |(_, separator)| separator));
    }
    let (name, separator) = form.chunk_keys.unwrap_or(("default", "/"));
    let codecs = form.codecs.clone().unwrap_or_else(|| short(new.codec, if form.half { 2 } else { new.dtype.size() }));
    let chunks: Vec<u64> = new.chunks.iter().map(|&c| c.max(1)).collect();
    let (stored, codecs) = match &new.shards {
        Some(shards) => {
            let usual = || ("end".into(), vec![json!({"name": "bytes", "configuration": {"endian": "little"}}), json!({"name": "crc32c"})]);
            let (index_location, index_codecs) = form.index.clone().unwrap_or_else(usual);
            let configuration =
                json!({"chunk_shape": chunks, "codecs": codecs, "index_codecs": index_codecs, "index_location": index_location});
            (shards.clone(), vec![json!({"name": "sharding_indexed", "configuration": configuration})])
        }
        None => (chunks, codecs),
    };
    let mut doc = json!({
        "zarr_format": 3, "node_type": "array", "shape": new.shape, "data_type": if form.half { "float16" } else { new.dtype.name() },
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": stored}},
        "chunk_key_encoding": {"name": name, "configuration": {"separator": separator}},
        "fill_value": fill_json(fill_of(new, form.half), new.dtype), "codecs": codecs, "attributes": new.attributes,
    });
    if let (Some(names), Some(object)) = (&new.dimension_names, doc.as_object_mut()) {
        object.insert("dimension_names".into(), json!(names));
    }
    from_document("a new array", doc, 3)
}

/// The name of a dtype in Zarr v2.
fn typestr(dtype: DType, big_endian: bool) -> String {
    let order = match (dtype.size(), big_endian) {
        (1, _) => '|',
        (_, true) => '>',
        (_, false) => '<',
    };
    let kind = match dtype.kind() {
        DTypeKind::Bool => 'b',
        DTypeKind::Signed => 'i',
        DTypeKind::Unsigned => 'u',
        DTypeKind::Float => 'f',
        DTypeKind::Complex => 'c',
    };
    format!("{order}{kind}{}", dtype.size())
}

fn version_2(new: &NewArray, v2: &V2Form, half: bool, separator: &str) -> Result<ArrayMeta, StorageError> {
    let chunks: Vec<u64> = new.chunks.iter().map(|&c| c.max(1)).collect();
    let fill_value = if v2.no_fill { Value::Null } else { fill_json(fill_of(new, half), new.dtype) };
    let dtype = if half { typestr(new.dtype, v2.big_endian).replace("f4", "f2") } else { typestr(new.dtype, v2.big_endian) };
    let mut doc = json!({
        "zarr_format": 2, "shape": new.shape, "chunks": chunks, "dtype": dtype, "compressor": v2.compressor,
        "fill_value": fill_value, "order": v2.order, "filters": v2.filters, "dimension_separator": separator,
    });
    let mut attributes = new.attributes.clone();
    // xarray names dimensions in this way in Zarr v2.
    if let Some(names) = new.dimension_names.as_ref().and_then(|d| d.iter().cloned().collect::<Option<Vec<String>>>()) {
        attributes.insert(DIMENSIONS.into(), names.into());
    }
    doc["attributes"] = attributes.into();
    from_document("a new array", doc, 2)
}
