//! Gzip and zlib over the elements as they are in memory.
//!
//! Formats: RFC 1950, 1951 and 1952. Both refer back at most 32 KiB.

use crate::stream::{Decode, Step};
use flate2::{Decompress, FlushDecompress, Status};

/// The window of both, as a power of two.
const WINDOW_LOG: u8 = 15;

/// The format around the compressed data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrapper {
    /// Gzip members, one after another.
    Gzip,
    /// One zlib stream.
    Zlib,
}

/// Decodes a chunk from its beginning.
pub(crate) struct Deflate {
    wrapper: Wrapper,
    decoder: Decompress,
    /// A member, or the stream, has ended.
    ended: bool,
}

impl Deflate {
    pub fn new(wrapper: Wrapper) -> Deflate {
        let decoder = match wrapper {
            Wrapper::Gzip => Decompress::new_gzip(WINDOW_LOG),
            Wrapper::Zlib => Decompress::new(true),
        };
        Deflate { wrapper, decoder, ended: false }
    }
}

impl Decode for Deflate {
    fn reset(&mut self) -> Result<(), String> {
        *self = Deflate::new(self.wrapper);
        Ok(())
    }

    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step, String> {
        if self.ended {
            match self.wrapper {
                _ if input.is_empty() => return Ok(Step { read: 0, written: 0, ended: true }),
                Wrapper::Gzip => self.reset()?,
                Wrapper::Zlib => return Err("it goes on behind the end of its zlib stream".into()),
            }
        }
        let (read, written) = (self.decoder.total_in(), self.decoder.total_out());
        let name = if self.wrapper == Wrapper::Gzip { "gzip" } else { "zlib" };
        let status = self.decoder.decompress(input, out, FlushDecompress::None);
        if status.map_err(|e| format!("{name} cannot decompress it: {e}"))? == Status::StreamEnd {
            self.ended = true;
        }
        let step = |before: u64, now: u64| (now - before) as usize;
        let (read, written) = (step(read, self.decoder.total_in()), step(written, self.decoder.total_out()));
        Ok(Step { read, written, ended: self.ended })
    }
}

/// Decompresses `data` into `out`, which must have its decompressed size.
pub(crate) fn decode_into(data: &[u8], out: &mut [u8], wrapper: Wrapper) -> Result<(), String> {
    let (mut decoder, mut read, mut done) = (Deflate::new(wrapper), 0, 0);
    let mut beyond = [0];
    loop {
        let full = done == out.len();
        let room = if full { &mut beyond[..] } else { &mut out[done..] };
        let step = decoder.step(&data[read..], room)?;
        if full && step.written > 0 {
            return Err(format!("it decodes to more than {} bytes", out.len()));
        }
        (read, done) = (read + step.read, done + step.written);
        match () {
            () if step.ended && read == data.len() && done == out.len() => return Ok(()),
            () if step.ended && read == data.len() => return Err(format!("it decodes to {done} bytes instead of {}", out.len())),
            () if step.read == 0 && step.written == 0 && !step.ended => return Err("it is cut off".into()),
            () => {}
        }
    }
}
