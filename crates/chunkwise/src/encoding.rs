//! How outputs are encoded: from what the file says in the words of Zarr's metadata to what the planner is asked for.

use crate::pipeline::codec_named;
use chunkwise_ops::Array;
use chunkwise_ops::cf::{self, Packing};
use chunkwise_pipeline::{Document, Output, PipelineError, Spanned};
use chunkwise_plan::{ChunkKeys, Codec, KeyName, Order, Separator, ShardIndex, StoredDType, V2, parse_codecs, parse_fill};
use chunkwise_types::{DType, Scalar};
use serde_json::Value;

/// How an output is encoded.
pub(crate) struct Encoded {
    pub codec: Codec,
    /// What the codecs say of shards: the shape of a chunk in a shard, and the index.
    pub sharding: Option<(Option<Vec<u64>>, ShardIndex)>,
    pub chunk_keys: Option<ChunkKeys>,
    pub fill_value: Option<Scalar>,
    pub stored_dtype: Option<StoredDType>,
}

/// The keys that belong to one version of Zarr, and the version.
const VERSIONS: [(&str, u64); 6] =
    [("codecs", 3), ("chunk_key_encoding", 3), ("compressor", 2), ("filters", 2), ("order", 2), ("dimension_separator", 2)];

struct Place<'a> {
    doc: &'a Document,
    output: &'a Output,
}

impl<'a> Place<'a> {
    fn get(&self, key: &str) -> Option<&'a Spanned<Value>> {
        self.output.encoding.get(key)
    }

    fn error(&self, at: &Spanned<Value>, problem: impl std::fmt::Display) -> PipelineError {
        self.doc.error(at.span.clone(), format!("the output '{}': {problem}", self.output.url.value), "here")
    }

    /// The value of a key, read.
    fn read<T>(&self, key: &str, parse: impl Fn(&Value) -> Result<T, String>) -> Result<Option<T>, PipelineError> {
        let Some(at) = self.get(key) else { return Ok(None) };
        parse(&at.value).map(Some).map_err(|e| self.error(at, e))
    }
}

/// Reads how an output is encoded.
pub(crate) fn of(doc: &Document, output: &Output, array: &Array) -> Result<Encoded, PipelineError> {
    let place = Place { doc, output };
    let version = |v: &Value| match v.as_u64() {
        Some(n @ 2..=3) => Ok(n),
        _ => Err(format!("`zarr_format` is 2 or 3, not {v}")),
    };
    let format = place.read("zarr_format", version)?.unwrap_or(3);
    for (key, of) in VERSIONS {
        if let Some(at) = place.get(key).filter(|_| of != format) {
            let e = place.error(at, format!("`{key}` belongs to Zarr v{of}, and the output is of Zarr v{format}"));
            let instead = "in Zarr v2 write `compressor`, `filters` and `dimension_separator`";
            return Err(e.with_help(if of == 2 { "add `zarr_format: 2`" } else { instead }));
        }
    }
    let said = place.read("dtype", parse_dtype)?;
    if let Some((at, said)) = place.get("dtype").zip(said) {
        if said.big_endian && format == 3 {
            let e = place.error(at, "a dtype of Zarr v3 has no byte order");
            return Err(e.with_help("the codec `bytes` has: `codecs: [{name: bytes, configuration: {endian: big}}]`"));
        }
        if said.dtype != array.dtype() {
            let said = if said.half { "float16, which is stored of float32" } else { said.dtype.name() };
            let e = place.error(at, format!("`dtype` says {said}, but the array is {}; convert it with astype", array.dtype()));
            return Err(e.with_help("or pack it: with `_FillValue` for NaN, and `scale_factor` and `add_offset` if there are any"));
        }
    }
    let (big_endian, half) = said.map_or((false, false), |s| (s.big_endian && s.dtype.size() > 1, s.half));
    let item = if half { 2 } else { array.dtype().size() };
    let fill_value = place.read("fill_value", |v| match parse_fill(v, array.dtype())? {
        fill if half && fill.as_f64().is_finite() && fill.as_f64().abs() >= 65_520.0 => Err(format!("float16 does not hold {v}")),
        fill => Ok(fill),
    })?;
    let stored_dtype = half.then_some(StoredDType::Float16);
    let short = match &output.codec {
        None => None,
        Some(name) => Some(codec_named(&name.value).ok_or_else(|| {
            let message = format!("there is no codec '{}'; there are blosc, none, zstd and gzip", name.value);
            let e = doc.error(name.span.clone(), message, "this codec");
            e.with_help("for other codecs, levels and options write `codecs`, a list as in a zarr.json")
        })?),
    };
    let long = if format == 2 { "compressor" } else { "codecs" };
    if let (Some(_), Some(at)) = (&short, place.get(long)) {
        return Err(place.error(at, format!("an output has `codec` or `{long}`, not both")));
    }
    if format == 2 {
        let separator = place.read("dimension_separator", Separator::parse)?;
        let chunk_keys = separator.map(|separator| ChunkKeys { name: KeyName::V2, separator });
        let codec = Codec::V2(V2 { big_endian, ..version_2(&place, short)? });
        return Ok(Encoded { codec, sharding: None, chunk_keys, fill_value, stored_dtype });
    }
    let chunk_keys = place.read("chunk_key_encoding", ChunkKeys::parse)?;
    let chain = place.read("codecs", |v| parse_codecs(v, item, array.rank()))?;
    let (codec, sharding) = match chain {
        Some(chain) => (Codec::Codecs(chain.codecs), chain.sharding),
        None => (short.unwrap_or_default(), None),
    };
    Ok(Encoded { codec, sharding, chunk_keys, fill_value, stored_dtype })
}

fn version_2(place: &Place<'_>, short: Option<Codec>) -> Result<V2, PipelineError> {
    let mut v2 = match short {
        None | Some(Codec::Default) => V2::usual(),
        Some(Codec::Zstd(level)) => V2::with("zstd", level.into()),
        Some(Codec::Gzip(level)) => V2::with("gzip", level.into()),
        Some(_) => V2::default(),
    };
    if let Some(compressor) = place.read("compressor", V2::parse_compressor)? {
        v2.compressor = compressor;
    }
    v2.filters = place.read("filters", V2::parse_filters)?.unwrap_or_default();
    let order = |v: &Value| match v.as_str() {
        Some("C") => Ok(Order::C),
        Some("F") => Ok(Order::F),
        _ => Err(format!("`order` is C or F, not {v}")),
    };
    v2.order = place.read("order", order)?.unwrap_or_default();
    Ok(v2)
}

/// The keys that say that values are packed.
const PACKING: [&str; 3] = ["scale_factor", "add_offset", "_FillValue"];

/// True if an output is to be packed, by a scale, an offset or a missing value.
pub(crate) fn is_packed(output: &Output) -> bool {
    PACKING.iter().any(|key| output.encoding.contains_key(*key))
}

/// The array as it is stored, if the output is to be packed.
pub(crate) fn packed(doc: &Document, output: &Output, array: Array) -> Result<Array, PipelineError> {
    let place = Place { doc, output };
    let Some(first) = PACKING.iter().find_map(|key| place.get(key)) else { return Ok(array) };
    let dtype = place.read("dtype", parse_dtype)?.map_or(array.dtype(), |s| s.dtype);
    let factor = |key: &str| place.read(key, |v| v.as_f64().ok_or_else(|| format!("`{key}` is a number, not {v}")));
    let fill = place.read("_FillValue", |v| parse_fill(v, dtype))?;
    let packing =
        Packing { scale: factor("scale_factor")?, offset: factor("add_offset")?, missing: fill.into_iter().collect(), unsigned: None };
    cf::encode(&array, &packing, dtype).map_err(|e| place.error(first, e))
}

/// A dtype as an output says it.
#[derive(Debug, Clone, Copy)]
struct Said {
    dtype: DType,
    big_endian: bool,
    /// Floats of 16 bits, of which the dtype in memory is float32.
    half: bool,
}

/// The dtype is a name, or written as in NumPy and Zarr v2: `>f4`.
fn parse_dtype(value: &Value) -> Result<Said, String> {
    let text = value.as_str().unwrap_or_default();
    let kinds = [('b', "bool"), ('i', "int"), ('u', "uint"), ('f', "float"), ('c', "complex")];
    let named = |text: &str| -> Option<DType> {
        let (kind, bytes) = (text.chars().next()?, text.get(1..)?.parse::<u64>().ok()?);
        let name = kinds.iter().find(|(k, _)| *k == kind)?.1;
        let dtype = if kind == 'b' { Some(DType::Bool) } else { format!("{name}{}", bytes.checked_mul(8)?).parse().ok() };
        dtype.filter(|d| d.size() == bytes)
    };
    let rest = text.strip_prefix(['<', '>', '|', '=']);
    let half = rest == Some("f2") || text == "float16";
    let found = match rest {
        _ if half => Some(DType::Float32),
        Some(rest) => named(rest),
        None => text.parse().ok(),
    };
    let wanted = || format!("`dtype` is a name such as float32, or has a byte order as in \">f4\"; it is not {value}");
    found.map(|dtype| Said { dtype, big_endian: text.starts_with('>'), half }).ok_or_else(wanted)
}
