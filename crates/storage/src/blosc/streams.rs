//! The compressors of the streams in a Blosc buffer.

use super::{blosclz, damaged};
use crate::deflate::{self, Wrapper};
use crate::zstd;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compressor {
    BloscLz,
    /// LZ4 and LZ4HC, which have one format.
    Lz4,
    Snappy,
    Zlib,
    Zstd,
}

impl Compressor {
    /// The compressor of a number in the header.
    pub fn of(code: u8) -> Option<Compressor> {
        use Compressor::{BloscLz, Lz4, Snappy, Zlib, Zstd};
        [BloscLz, Lz4, Snappy, Zlib, Zstd].get(usize::from(code)).copied()
    }

    /// Decodes `data`, which must fill `out`.
    pub fn decode_into(self, data: &[u8], out: &mut [u8]) -> Result<(), String> {
        let whole = match self {
            Compressor::BloscLz => blosclz::decode_into(data, out).is_some(),
            Compressor::Lz4 => lz4(data, out),
            Compressor::Snappy => snap::raw::Decoder::new().decompress(data, out).is_ok_and(|n| n == out.len()),
            Compressor::Zlib => deflate::decode_into(data, out, Wrapper::Zlib).is_ok(),
            Compressor::Zstd => zstd::decode_into(data, out).is_ok(),
        };
        if whole { Ok(()) } else { Err(damaged()) }
    }
}

/// C, because it takes half the time of the safe decoder of `lz4_flex` (docs/benchmarks.md).
fn lz4(data: &[u8], out: &mut [u8]) -> bool {
    let (Ok(size), Ok(room)) = (i32::try_from(data.len()), i32::try_from(out.len())) else {
        return false;
    };
    // SAFETY: the function takes any input. It reads at most `size` bytes at `data` and writes at most `room` bytes at `out`. Both are live
    // slices of these lengths, and do not overlap.
    let n = unsafe { lz4_sys::LZ4_decompress_safe(data.as_ptr().cast(), out.as_mut_ptr().cast(), size, room) };
    n == room
}
