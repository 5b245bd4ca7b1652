//! How the chunks of a new array are encoded, in the words of Zarr's own metadata: what a user may say of it, checked and made complete.
//!
//! Version 3: <https://zarr-specs.readthedocs.io/en/latest/v3/core/index.html>, and its registered codecs. Version 2:
//! <https://zarr-specs.readthedocs.io/en/latest/v2/v2.0.html>, with the compressors of numcodecs. What is left out of a configuration is filled in
//! as zarr-python does, so that the metadata of an output says everything.

use crate::fields::Fields;
use crate::v2::{Order, V2};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Encoding of the chunks of a new array.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// Blosc with LZ4 and byte shuffle.
    #[default]
    Default,
    /// None.
    None,
    /// Zstandard, with its level.
    Zstd(i32),
    /// Gzip, with its level.
    Gzip(u32),
    /// The codecs of a chunk (of a chunk in a shard) in the form of the metadata of Zarr v3, complete.
    Codecs(Vec<CodecMetadata>),
    /// Zarr v2.
    V2(V2),
}

/// A dtype that is stored and not computed with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StoredDType {
    /// Floats of 16 bits, which are float32 in memory.
    Float16,
}

/// A codec in the form of the metadata of Zarr v3.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CodecMetadata {
    /// Its name.
    pub name: String,
    /// Its parameters.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub configuration: Map<String, Value>,
}

/// An end of a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ShardEnd {
    Start,
    #[default]
    End,
}

/// The index of a shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShardIndex {
    /// Where in the shard it is.
    pub index_location: ShardEnd,
    /// How it is encoded: `bytes`, and `crc32c` or nothing.
    pub index_codecs: Vec<CodecMetadata>,
}

/// What `codecs` of an output say.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// The codecs of a chunk, or of a chunk in a shard.
    pub codecs: Vec<CodecMetadata>,
    /// If there are shards by `sharding_indexed`: the shape of a chunk in a shard, if it is said, and the index.
    pub sharding: Option<(Option<Vec<u64>>, ShardIndex)>,
}

const KNOWN: &str = "transpose, bytes, blosc, zstd, gzip, crc32c and sharding_indexed";
const BLOSC: [&str; 5] = ["lz4", "lz4hc", "blosclz", "zstd", "zlib"];
const SHUFFLES: [&str; 3] = ["noshuffle", "shuffle", "bitshuffle"];

impl CodecMetadata {
    fn new(name: &str, configuration: Value) -> CodecMetadata {
        let configuration = if let Value::Object(map) = configuration { map } else { Map::new() };
        CodecMetadata { name: name.into(), configuration }
    }

    fn parse(value: &Value) -> Result<CodecMetadata, String> {
        if let Some(name) = value.as_str() {
            return Ok(CodecMetadata::new(name, Value::Null));
        }
        let map = value.as_object().ok_or_else(|| format!("a codec is a mapping with `name` and `configuration`, not {value}"))?;
        if let Some(key) = map.keys().find(|k| !["name", "configuration"].contains(&k.as_str())) {
            return Err(format!("a codec has `name` and `configuration`, not `{key}`"));
        }
        let name = map.get("name").and_then(Value::as_str).ok_or_else(|| format!("the codec {value} has no `name`"))?;
        match map.get("configuration") {
            None | Some(Value::Null | Value::Object(_)) => {}
            Some(other) => return Err(format!("the `configuration` of the codec {name} is a mapping, not {other}")),
        }
        Ok(CodecMetadata::new(name, map.get("configuration").cloned().unwrap_or(Value::Null)))
    }

    /// True for a codec of arrays, which keeps them arrays.
    fn is_of_arrays(&self) -> bool {
        self.name == "transpose"
    }

    /// As it is in metadata.
    pub fn to_json(&self) -> Value {
        if self.configuration.is_empty() {
            json!({"name": self.name})
        } else {
            json!({"name": self.name, "configuration": self.configuration})
        }
    }

    /// Checked and complete, for an array of elements of `item` bytes and of this rank.
    fn complete(&self, item: u64, rank: usize) -> Result<CodecMetadata, String> {
        let fields = Fields { of: &self.name, map: &self.configuration };
        let configuration = match self.name.as_str() {
            "transpose" => {
                fields.known(&["order"])?;
                let order = self.configuration.get("order").and_then(Value::as_array).map(|list| list.iter().map(Value::as_u64).collect());
                let order: Option<Vec<u64>> = order.unwrap_or_default();
                let is_permutation = |o: &Vec<u64>| o.len() == rank && (0..rank as u64).all(|k| o.contains(&k));
                let order = order
                    .filter(is_permutation)
                    .ok_or_else(|| format!("`order` of the codec transpose is a list of the {rank} axes, each once, from 0 on"))?;
                json!({"order": order})
            }
            "bytes" => {
                fields.known(&["endian"])?;
                match fields.text("endian", &["little", "big"])? {
                    Some(endian) if item > 1 => json!({"endian": endian}),
                    None if item > 1 => {
                        return Err(format!("`endian` of the codec bytes is little or big; elements of {item} bytes need it"));
                    }
                    _ => Value::Null,
                }
            }
            "blosc" => {
                fields.known(&["cname", "clevel", "shuffle", "typesize", "blocksize"])?;
                let usual = if item > 1 { "shuffle" } else { "bitshuffle" };
                json!({
                    "typesize": fields.number("typesize", 1..=255)?.unwrap_or(item as i64),
                    "cname": fields.text("cname", &BLOSC)?.unwrap_or("zstd"),
                    "clevel": fields.number("clevel", 0..=9)?.unwrap_or(5),
                    "shuffle": fields.text("shuffle", &SHUFFLES)?.unwrap_or(usual),
                    "blocksize": fields.number("blocksize", 0..=i64::from(i32::MAX))?.unwrap_or(0),
                })
            }
            "zstd" => {
                fields.known(&["level", "checksum"])?;
                json!({"level": fields.number("level", -131_072..=22)?.unwrap_or(0), "checksum": fields.flag("checksum")?.unwrap_or(false)})
            }
            "gzip" => {
                fields.known(&["level"])?;
                json!({"level": fields.number("level", 0..=9)?.unwrap_or(5)})
            }
            "crc32c" => {
                fields.known(&[])?;
                Value::Null
            }
            "sharding_indexed" => return Err("sharding_indexed is the only codec of a list: put others among its own `codecs`".into()),
            other => return Err(format!("there is no codec '{other}' for writing; there are {KNOWN}")),
        };
        Ok(CodecMetadata::new(&self.name, configuration))
    }
}

/// The codecs of one chunk: any of arrays, then `bytes`, then any of bytes.
fn chunk_codecs(list: &[CodecMetadata], item: u64, rank: usize) -> Result<Vec<CodecMetadata>, String> {
    let out = list.iter().map(|c| c.complete(item, rank)).collect::<Result<Vec<_>, _>>()?;
    let bytes =
        out.iter().position(|c| c.name == "bytes").ok_or("the codecs have no `bytes`, which says the order of the bytes of an element")?;
    let sound = out.iter().enumerate().all(|(i, c)| match i.cmp(&bytes) {
        std::cmp::Ordering::Less => c.is_of_arrays(),
        std::cmp::Ordering::Equal => true,
        std::cmp::Ordering::Greater => !c.is_of_arrays() && c.name != "bytes",
    });
    if sound { Ok(out) } else { Err("the order of codecs is: transpose, then bytes (once), then blosc, zstd, gzip and crc32c".into()) }
}

impl ShardIndex {
    /// The index that is written if nothing is said of it.
    pub fn usual() -> ShardIndex {
        let bytes = CodecMetadata::new("bytes", json!({"endian": "little"}));
        ShardIndex { index_location: ShardEnd::End, index_codecs: vec![bytes, CodecMetadata::new("crc32c", Value::Null)] }
    }

    /// Refuses an index that is not written.
    pub fn check(&self) -> Result<(), String> {
        let codecs = chunk_codecs(&self.index_codecs, 8, 1).map_err(|e| format!("`index_codecs`: {e}"))?;
        match codecs.as_slice() {
            _ if codecs != self.index_codecs => Err("`index_codecs` are not complete".into()),
            [_] => Ok(()),
            [_, crc] if crc.name == "crc32c" => Ok(()),
            _ => Err("`index_codecs` are bytes, and crc32c or nothing".into()),
        }
    }
}

impl Codec {
    /// Refuses codecs that cannot be written, or that are not complete.
    pub fn check(&self, item: u64, rank: usize) -> Result<(), String> {
        match self {
            Codec::Codecs(list) => {
                let whole = chunk_codecs(list, item, rank)?;
                let json = |list: &[CodecMetadata]| Value::from(list.iter().map(CodecMetadata::to_json).collect::<Vec<_>>());
                if whole == *list { Ok(()) } else { Err(format!("its codecs are not complete; write {}", json(&whole))) }
            }
            Codec::Zstd(level) if !(-131_072..=22).contains(level) => {
                Err(format!("there is no level {level} of zstd; there are -131072 to 22"))
            }
            Codec::Gzip(level) if *level > 9 => Err(format!("there is no level {level} of gzip; there are 0 to 9")),
            Codec::V2(v2) => v2.check(),
            _ => Ok(()),
        }
    }

    /// The version of Zarr.
    pub fn zarr_format(&self) -> u8 {
        if matches!(self, Codec::V2(_)) { 2 } else { 3 }
    }
}

/// Reads a list of codecs as in a `zarr.json`, for an array of elements of `item` bytes and of this rank.
///
/// # Errors
/// A sentence that says what is wrong and what is allowed.
pub fn parse_codecs(value: &Value, item: u64, rank: usize) -> Result<Chain, String> {
    let list = |value: &Value, what: &str| -> Result<Vec<CodecMetadata>, String> {
        let items = value.as_array().ok_or_else(|| format!("`{what}` is a list of codecs, as in a zarr.json"))?;
        items.iter().map(CodecMetadata::parse).collect()
    };
    let codecs = list(value, "codecs")?;
    let [shards] = codecs.as_slice() else { return Ok(Chain { codecs: chunk_codecs(&codecs, item, rank)?, sharding: None }) };
    if shards.name != "sharding_indexed" {
        return Ok(Chain { codecs: chunk_codecs(&codecs, item, rank)?, sharding: None });
    }
    let fields = Fields { of: &shards.name, map: &shards.configuration };
    fields.known(&["chunk_shape", "codecs", "index_codecs", "index_location"])?;
    let shape = match shards.configuration.get("chunk_shape") {
        None => None,
        Some(v) => {
            let lengths = v.as_array().and_then(|l| l.iter().map(|n| n.as_u64().filter(|n| *n > 0)).collect::<Option<Vec<u64>>>());
            let wanted = || format!("`chunk_shape` of the codec sharding_indexed is a list of {rank} positive lengths, not {v}");
            Some(lengths.filter(|l| l.len() == rank).ok_or_else(wanted)?)
        }
    };
    let inner = match shards.configuration.get("codecs") {
        Some(v) => list(v, "codecs")?,
        None => return Err("the codec sharding_indexed needs `codecs`: those of the chunks in a shard".into()),
    };
    if inner.iter().any(|c| c.name == "sharding_indexed") {
        return Err("shards in shards are not written".into());
    }
    let usual = ShardIndex::usual();
    let index_location = if fields.text("index_location", &["start", "end"])? == Some("start") { ShardEnd::Start } else { ShardEnd::End };
    let index_codecs = match shards.configuration.get("index_codecs") {
        Some(v) => chunk_codecs(&list(v, "index_codecs")?, 8, 1).map_err(|e| format!("`index_codecs`: {e}"))?,
        None => usual.index_codecs,
    };
    let index = ShardIndex { index_location, index_codecs };
    index.check()?;
    Ok(Chain { codecs: chunk_codecs(&inner, item, rank)?, sharding: Some((shape, index)) })
}

/// What encoding a chunk takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Encoder {
    /// A chunk is encoded from where it is, in one step. Else there are copies on the way, of which no more than two are there at once.
    pub one_step: bool,
    /// The chunk is stored as it is in memory.
    pub plain: bool,
    /// Bytes that compressors keep for themselves.
    pub scratch: u64,
}

/// Blocks that Blosc chooses by itself are not larger than this.
const USUAL_BLOCK: u64 = 1 << 20;

fn blosc(configuration: &Map<String, Value>, chunk: u64) -> u64 {
    let number = |key: &str| configuration.get(key).and_then(Value::as_u64).unwrap_or(0);
    let block = if number("blocksize") > 0 { number("blocksize") } else { USUAL_BLOCK }.min(chunk);
    // Blosc has levels of its own.
    let inside = match (configuration.get("cname").and_then(Value::as_str), number("clevel")) {
        (Some("zstd"), level) => crate::zstd::encoding(if level < 8 { 2 * level as i64 - 1 } else { 22 }, block),
        _ => 0,
    };
    // Smaller blocks are in the allowance.
    let blocks = if block > USUAL_BLOCK { 4 * block } else { 0 };
    inside.saturating_add(blocks)
}

/// What Blosc takes to decode a chunk in the blocks that its configuration asks for.
fn blosc_decoder(configuration: &Map<String, Value>, chunk: u64) -> u64 {
    chunkwise_types::blosc_scratch(configuration.get("blocksize").and_then(Value::as_u64).unwrap_or(0), chunk)
}

impl Codec {
    /// Bytes that decoding a chunk of so many bytes takes beside it and its encoded bytes, if they are many.
    pub(crate) fn decoder_scratch(&self, chunk: u64) -> u64 {
        match self {
            Codec::Default | Codec::None | Codec::Zstd(_) | Codec::Gzip(_) => 0,
            Codec::Codecs(list) => list.iter().map(|c| blosc_decoder(&c.configuration, chunk)).max().unwrap_or(0),
            Codec::V2(v2) => v2.compressor.as_ref().map_or(0, |c| blosc_decoder(c, chunk)),
        }
    }

    /// What encoding a chunk of so many bytes takes.
    pub(crate) fn encoder(&self, chunk: u64) -> Encoder {
        let simple = |scratch| Encoder { one_step: true, plain: false, scratch };
        match self {
            Codec::None => Encoder { one_step: true, plain: true, scratch: 0 },
            Codec::Default | Codec::Gzip(_) => simple(0),
            Codec::Zstd(level) => simple(crate::zstd::encoding(i64::from(*level), chunk)),
            Codec::Codecs(list) => {
                let of = |c: &CodecMetadata| match c.name.as_str() {
                    "zstd" => crate::zstd::encoding(c.configuration.get("level").and_then(Value::as_i64).unwrap_or(0), chunk),
                    "blosc" => blosc(&c.configuration, chunk),
                    _ => 0,
                };
                let scratch = list.iter().map(of).max().unwrap_or(0);
                let native = |c: &CodecMetadata| c.name == "bytes" && c.configuration.get("endian").is_none_or(|e| e == "little");
                let one_step = list.first().is_some_and(native) && list.len() <= 2;
                Encoder { one_step, plain: one_step && list.len() == 1, scratch }
            }
            Codec::V2(v2) => {
                let one_step = v2.filters.is_empty() && v2.order == Order::C && !v2.big_endian;
                let Some(c) = &v2.compressor else { return Encoder { one_step, plain: one_step, scratch: 0 } };
                let level = c.get("level").and_then(Value::as_i64).unwrap_or(0);
                let scratch = match c.get("id").and_then(Value::as_str) {
                    Some("zstd") => crate::zstd::encoding(level, chunk),
                    Some("blosc") => blosc(c, chunk),
                    // What `bzip2` says of itself: 400 kB and eight times its block.
                    Some("bz2") => (400 << 10) + 800_000 * level.unsigned_abs(),
                    _ => 0,
                };
                Encoder { one_step, plain: false, scratch }
            }
        }
    }
}
