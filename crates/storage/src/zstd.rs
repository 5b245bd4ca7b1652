//! Zstd over the elements as they are in memory.
//!
//! Format: RFC 8878. A stream states its window, which is how far back it refers and how much memory decoding takes. Writers of Zarr choose
//! levels and not windows, so the metadata only bounds the window. A stream with a larger window is refused if memory is planned for no
//! more.

use crate::stream::{Decode, Step};
use std::cell::RefCell;
use zstd::bulk::Decompressor;
use zstd::stream::raw::{DParameter, Decoder, Operation};

thread_local! {
    /// The tables of a decoder are larger than many chunks.
    static WHOLE: RefCell<Decompressor<'static>> = RefCell::default();
}

/// Decompresses `data` into `out`, which must have its decompressed size.
pub(crate) fn decode_into(data: &[u8], out: &mut [u8]) -> Result<(), String> {
    let n =
        WHOLE.with_borrow_mut(|decoder| decoder.decompress_to_buffer(data, out)).map_err(|e| format!("zstd cannot decompress it: {e}"))?;
    if n != out.len() {
        return Err(format!("it decodes to {n} bytes instead of {}", out.len()));
    }
    Ok(())
}

/// Decompresses `data` into `most` bytes at most.
pub(crate) fn decode_at_most(data: &[u8], most: usize) -> Result<Vec<u8>, String> {
    // The size that the stream claims may be smaller. It is not trusted if it is larger.
    let most = Decompressor::upper_bound(data).map_or(most, |claim| claim.min(most));
    let mut out = Vec::new();
    out.try_reserve_exact(most).map_err(|e| e.to_string())?;
    WHOLE
        .with_borrow_mut(|decoder| decoder.decompress_to_buffer(data, &mut out))
        .map_err(|e| format!("zstd cannot decompress it into {most} bytes: {e}"))?;
    Ok(out)
}

/// Decodes a chunk from its beginning.
pub(crate) struct Windowed {
    decoder: Decoder<'static>,
    /// The largest allowed window, as a power of two.
    log: u32,
}

impl Windowed {
    /// A decoder of streams whose window has at most `log` bits.
    pub fn new(log: u32) -> Result<Windowed, String> {
        let mut decoder = Decoder::new().map_err(|e| e.to_string())?;
        decoder.set_parameter(DParameter::WindowLogMax(log)).map_err(|e| e.to_string())?;
        Ok(Windowed { decoder, log })
    }
}

impl Decode for Windowed {
    fn reset(&mut self) -> Result<(), String> {
        self.decoder.reinit().map_err(|e| e.to_string())
    }

    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step, String> {
        let status = self.decoder.run_on_buffers(input, out).map_err(|e| {
            let text = e.to_string();
            let window = format!(": its window has more than the {} bytes that its level in the metadata stands for", 1u64 << self.log);
            format!("zstd cannot decompress it: {text}{}", if text.contains("too much memory") { window } else { String::new() })
        })?;
        Ok(Step { read: status.bytes_read, written: status.bytes_written, ended: status.remaining == 0 })
    }
}
