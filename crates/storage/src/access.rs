//! Finds out from its metadata how the chunks of an array can be read. No other module does so.

use crate::deflate::Wrapper;
use crate::half;
use chunkwise_types::{ArrayAccess, BLOSC_LARGEST, BLOSC_MOST, STREAM_TABLES, blosc_scratch};
use serde_json::Value;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The elements as they are in memory.
    Raw,
    /// Blosc over the elements as they are in memory.
    Blosc,
    /// Zstd over the elements as they are in memory, with its level if the metadata has one.
    Zstd(i64),
    /// Gzip or zlib over the elements as they are in memory.
    Deflate(Wrapper),
    /// Any other codecs that zarrs supports.
    Chain,
}

/// How the chunks of an array can be read. `bytes` is the decoded size of a chunk, or of an inner chunk if there are shards.
pub(crate) fn access(document: &Value, zarr_format: u8, item: u64, bytes: u64, sharded: bool) -> ArrayAccess {
    let whole = |in_place| ArrayAccess::Whole { in_place, scratch: scratch(document, bytes) };
    if sharded {
        return whole(false);
    }
    match kind_of(document, zarr_format, item) {
        Kind::Raw => ArrayAccess::Raw,
        Kind::Blosc => match compressor(document).and_then(|c| blosc_blocks(c, item, bytes)) {
            Some(block) => ArrayAccess::Blocks { block },
            None => whole(true),
        },
        Kind::Zstd(level) => ArrayAccess::Stream { kept: (1u64 << zstd_window_log(level)).min(bytes) + STREAM_TABLES },
        Kind::Deflate(_) => ArrayAccess::Stream { kept: STREAM_TABLES },
        Kind::Chain => whole(false),
    }
}

/// The configuration of the compressor, if the only other codec is `bytes`.
fn compressor(document: &Value) -> Option<&Value> {
    document.pointer("/codecs/1/configuration").or_else(|| document.get("compressor"))
}

/// Memory that Blosc needs to decode a chunk. It follows from the largest block size that any of its codecs asks for.
fn scratch(document: &Value, bytes: u64) -> u64 {
    fn largest(value: &Value) -> u64 {
        match value {
            Value::Object(map) => map.iter().map(|(k, v)| if k == "blocksize" { v.as_u64().unwrap_or(0) } else { largest(v) }).max(),
            Value::Array(list) => list.iter().map(largest).max(),
            _ => None,
        }
        .unwrap_or(0)
    }
    let found = ["codecs", "compressor"].iter().filter_map(|key| document.get(key)).map(largest).max().unwrap_or(0);
    blosc_scratch(found, bytes)
}

/// The level in the configuration of zstd, or the default of the library.
fn level(configuration: &Value) -> i64 {
    configuration.get("level").and_then(Value::as_i64).unwrap_or(0)
}

/// The codec of the chunks of an array.
pub(crate) fn kind_of(document: &Value, zarr_format: u8, item: u64) -> Kind {
    if half::is_half(document) || !native(document, zarr_format, item) {
        return Kind::Chain;
    }
    if zarr_format == 2 {
        let empty = |key| document.get(key).is_none_or(|v| v.is_null() || v.as_array().is_some_and(Vec::is_empty));
        if !empty("filters") {
            return Kind::Chain;
        }
        return match document.get("compressor") {
            None | Some(Value::Null) => Kind::Raw,
            Some(c) => match c.get("id").and_then(Value::as_str) {
                Some("blosc") => Kind::Blosc,
                Some("zstd") => Kind::Zstd(level(c)),
                Some("gzip") => Kind::Deflate(Wrapper::Gzip),
                Some("zlib") => Kind::Deflate(Wrapper::Zlib),
                _ => Kind::Chain,
            },
        };
    }
    let Some(codecs) = document.get("codecs").and_then(Value::as_array) else { return Kind::Chain };
    match codecs.as_slice() {
        [_] => Kind::Raw,
        [_, c] => match name(c) {
            "blosc" => Kind::Blosc,
            "zstd" => Kind::Zstd(level(c.get("configuration").unwrap_or(c))),
            "gzip" => Kind::Deflate(Wrapper::Gzip),
            "numcodecs.zlib" => Kind::Deflate(Wrapper::Zlib),
            _ => Kind::Chain,
        },
        _ => Kind::Chain,
    }
}

pub(crate) fn name(codec: &Value) -> &str {
    codec.get("name").and_then(Value::as_str).or(codec.as_str()).unwrap_or_default()
}

/// True if the codecs of bytes, if there are any, are over the elements of a chunk as they are in memory.
pub(crate) fn native(document: &Value, zarr_format: u8, item: u64) -> bool {
    let little = cfg!(target_endian = "little");
    let text = |of: &Value, at: &str| of.pointer(at).and_then(Value::as_str).unwrap_or_default().to_string();
    if zarr_format == 2 {
        let dtype = text(document, "/dtype");
        return text(document, "/order") == "C" && (dtype.starts_with('|') || (little && dtype.starts_with('<')));
    }
    let first = document.get("codecs").and_then(Value::as_array).and_then(|codecs| codecs.first());
    first.is_some_and(|c| name(c) == "bytes" && (item == 1 || (little && text(c, "/configuration/endian") == "little")))
}

/// The largest window that a zstd stream of a level may have, as the power of two of its bytes.
///
/// Format: RFC 8878; the levels are those of `clevels.h` of zstd 1.5.
pub(crate) fn zstd_window_log(level: i64) -> u32 {
    // Versions differ below the highest levels, whose windows are 25, 26 and 27.
    match level {
        ..=19 => 23,
        20 => 25,
        21 => 26,
        _ => 27,
    }
}

/// The decoded size of the Blosc blocks in a chunk of `bytes` bytes, whose elements have `item` bytes, from the configuration of the codec.
/// It is `None` unless the configuration determines it and it pays off to decode a part of the chunk by its blocks: there must be several
/// blocks, none of them large, and not too many.
///
/// `compute_blocksize` of C-Blosc 1.21 chooses the size in this way: from the level, larger for codecs that compress well. All codecs but
/// zstd separate the bytes of elements, so their blocks are larger by a factor, the number of bytes of an element.
fn blosc_blocks(configuration: &Value, item: u64, bytes: u64) -> Option<u64> {
    let number = |key: &str| configuration.get(key).and_then(Value::as_u64);
    let item = number("typesize").unwrap_or(item).max(1);
    let block = chosen(configuration.get("cname")?.as_str()?, number("clevel")?, item, number("blocksize").unwrap_or(0));
    // The largest that C-Blosc chooses today. If the encoder was told to use larger blocks, whole chunks are decoded.
    let usual = BLOSC_LARGEST / 2;
    (bytes > usual && block <= usual && bytes.div_ceil(block) <= BLOSC_MOST).then_some(block)
}

fn chosen(cname: &str, level: u64, item: u64, asked: u64) -> u64 {
    let strong = matches!(cname, "lz4hc" | "zlib" | "zstd");
    let usual = (32 << 10) * if strong { 2 } else { 1 };
    let block = match (asked, level) {
        (1.., _) => asked.clamp(128, 1 << 30),
        (_, 0) => usual / 4,
        (_, 1) => usual / 2,
        (_, 2) => usual,
        (_, 3) => usual * 2,
        (_, 4 | 5) => usual * 4,
        (_, 9) if strong => usual * 16,
        _ => usual * 8,
    };
    if level == 0 || cname == "zstd" || item > 16 {
        return block;
    }
    (block.min(256 << 10) * item).clamp(64 << 10, 1 << 20)
}

#[cfg(test)]
mod tests {
    use super::{blosc_blocks, chosen, zstd_window_log};

    #[test]
    fn blocks_are_worth_it_in_large_chunks() {
        let codec = serde_json::json!({"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0});
        assert_eq!(blosc_blocks(&codec, 4, 128 << 20), Some(512 << 10));
        assert_eq!(blosc_blocks(&codec, 4, 100 << 10), None);
    }

    #[test]
    fn windows_grow_with_the_highest_levels() {
        assert_eq!(zstd_window_log(3), 23);
        assert_eq!(zstd_window_log(22), 27);
    }

    #[test]
    fn blocks_are_those_that_the_library_writes() {
        // These were read from bytes 8 to 12 of buffers of 8 MB that numcodecs wrote.
        for (cname, level, item, asked, block) in [
            ("lz4", 0, 1, 0, 8192),
            ("lz4", 0, 4, 0, 8192),
            ("lz4", 0, 8, 0, 8192),
            ("lz4", 0, 16, 0, 8192),
            ("lz4", 1, 1, 0, 65536),
            ("lz4", 1, 4, 0, 65536),
            ("lz4", 1, 4, 65536, 262144),
            ("lz4", 1, 4, 8388608, 1048576),
            ("lz4", 1, 8, 0, 131072),
            ("lz4", 1, 8, 65536, 524288),
            ("lz4", 1, 8, 8388608, 1048576),
            ("lz4", 1, 16, 0, 262144),
            ("lz4", 3, 1, 0, 65536),
            ("lz4", 3, 4, 0, 262144),
            ("lz4", 3, 8, 0, 524288),
            ("lz4", 3, 16, 0, 1048576),
            ("lz4", 5, 1, 0, 131072),
            ("lz4", 5, 4, 0, 524288),
            ("lz4", 5, 4, 65536, 262144),
            ("lz4", 5, 4, 8388608, 1048576),
            ("lz4", 5, 8, 0, 1048576),
            ("lz4", 5, 8, 65536, 524288),
            ("lz4", 5, 8, 8388608, 1048576),
            ("lz4", 5, 16, 0, 1048576),
            ("lz4", 7, 1, 0, 262144),
            ("lz4", 7, 4, 0, 1048576),
            ("lz4", 7, 8, 0, 1048576),
            ("lz4", 7, 16, 0, 1048576),
            ("lz4", 9, 1, 0, 262144),
            ("lz4", 9, 4, 0, 1048576),
            ("lz4", 9, 8, 0, 1048576),
            ("lz4", 9, 16, 0, 1048576),
            ("blosclz", 0, 4, 0, 8192),
            ("blosclz", 1, 4, 0, 65536),
            ("blosclz", 5, 4, 0, 524288),
            ("blosclz", 9, 4, 0, 1048576),
            ("lz4hc", 0, 4, 0, 16384),
            ("lz4hc", 1, 4, 0, 131072),
            ("lz4hc", 5, 4, 0, 1048576),
            ("lz4hc", 9, 4, 0, 1048576),
            ("zlib", 0, 4, 0, 16384),
            ("zlib", 1, 4, 0, 131072),
            ("zlib", 5, 4, 0, 1048576),
            ("zlib", 9, 4, 0, 1048576),
            ("zstd", 0, 1, 0, 16384),
            ("zstd", 0, 8, 0, 16384),
            ("zstd", 1, 1, 0, 32768),
            ("zstd", 1, 4, 65536, 65536),
            ("zstd", 1, 8, 0, 32768),
            ("zstd", 1, 8, 8388608, 8388608),
            ("zstd", 3, 1, 0, 131072),
            ("zstd", 3, 8, 0, 131072),
            ("zstd", 5, 1, 0, 262144),
            ("zstd", 5, 4, 65536, 65536),
            ("zstd", 5, 8, 0, 262144),
            ("zstd", 5, 8, 8388608, 8388608),
            ("zstd", 7, 1, 0, 524288),
            ("zstd", 7, 8, 0, 524288),
            ("zstd", 9, 1, 0, 1048576),
            ("zstd", 9, 8, 0, 1048576),
        ] {
            assert_eq!(chosen(cname, level, item, asked), block, "{cname} {level} {item} {asked}");
        }
    }
}
