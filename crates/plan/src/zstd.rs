//! The window of zstd: what decoding a chunk from its beginning on takes.

use crate::PlanArray;
use chunkwise_types::zstd_window_log;
use serde_json::Value;

/// Tables of a decoder, a block of its output, and what is read of the file at a time.
const TABLES: u64 = 1 << 20;

/// Bytes that a reader keeps of a chunk of `chunk` bytes which it decodes from its beginning on, if the array's codec is zstd over plain
/// elements. The window is a bound for the level: the storage layer refuses streams with a larger one.
pub(crate) fn streaming(array: &PlanArray, chunk: u64) -> Option<u64> {
    let document = array.metadata.as_ref()?.get("metadata")?;
    let named = |codec: &Value| ["name", "id"].iter().any(|key| codec.get(key).and_then(Value::as_str) == Some("zstd"));
    let codec = [document.pointer("/codecs/1"), document.get("compressor")].into_iter().flatten().find(|codec| named(codec))?;
    let level = codec.pointer("/configuration/level").or_else(|| codec.get("level")).and_then(Value::as_i64).unwrap_or(0);
    Some((1u64 << zstd_window_log(level)).min(chunk) + TABLES)
}
