//! What the metadata of a codec says about memory: the planner counts it, and the storage layer holds itself to it.

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
