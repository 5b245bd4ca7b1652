//! What the metadata of a codec says about memory: the planner counts it, and the storage layer holds itself to it.

use serde_json::Value;

/// The largest window that a zstd stream of a level may have, as the power of two of its bytes.
///
/// Format: RFC 8878; levels as `clevels.h` of zstd 1.5 has them.
///
/// ```
/// assert_eq!(chunkwise_types::zstd_window_log(3), 23);
/// assert_eq!(chunkwise_types::zstd_window_log(22), 27);
/// ```
pub fn zstd_window_log(level: i64) -> u32 {
    // Versions differ below the highest levels, which have 25, 26 and 27.
    match level {
        ..=19 => 23,
        20 => 25,
        21 => 26,
        _ => 27,
    }
}

/// What decodes chunks from their beginning on keeps beside a window: tables, a block of its output, and what is read of a file at a time.
pub const STREAM_TABLES: u64 = 1 << 20;

/// Chunks in files of more decoded bytes than this are decoded from their beginning on where their codec can do that, whatever is wanted
/// of them, and are never held as a whole.
pub const LARGE_CHUNK: u64 = 64 << 20;

/// Blocks of Blosc that are at most so large are decoded one by one. What versions of C-Blosc choose by themselves is not larger.
pub const BLOSC_LARGEST: u64 = 2 << 20;

/// Buffers of Blosc with at most so many blocks are decoded block by block: where each is must be kept.
pub const BLOSC_MOST: u64 = 1 << 19;

/// Decoded bytes of the blocks of Blosc in a chunk of `bytes` bytes of elements of `item` bytes, by the configuration of its codec, where
/// that says enough and it is worth it to decode a part of the chunk by its blocks: there are several, none large, and not too many.
///
/// As `compute_blocksize` of C-Blosc 1.21 chooses them: from the level, larger for codecs that compress well, and for all codecs but zstd,
/// which take elements apart into their bytes, so many times larger as an element has bytes.
///
/// ```
/// let codec = serde_json::json!({"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0});
/// assert_eq!(chunkwise_types::blosc_blocks(&codec, 4, 128 << 20), Some(512 << 10));
/// assert_eq!(chunkwise_types::blosc_blocks(&codec, 4, 100 << 10), None);
/// ```
pub fn blosc_blocks(configuration: &Value, item: u64, bytes: u64) -> Option<u64> {
    let number = |key: &str| configuration.get(key).and_then(Value::as_u64);
    let item = number("typesize").unwrap_or(item).max(1);
    let block = chosen(configuration.get("cname")?.as_str()?, number("clevel")?, item, number("blocksize").unwrap_or(0));
    // The largest that C-Blosc chooses today. Larger blocks that it was asked for are left to the decoder of whole chunks.
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
    use super::chosen;

    #[test]
    fn blocks_are_those_that_the_library_writes() {
        // Read from bytes 8 to 12 of buffers of 8 MB that numcodecs wrote.
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
