//! Chunks that are one compressed stream over the elements as they are in memory. A reader decodes them from their beginning, a few rows at
//! a time, and keeps a window of the stream instead of the chunk.

use std::ops::Range;

/// Encoded bytes that are read at a time.
const INPUT: usize = 256 << 10;

/// The progress of a decoder in one call.
pub(crate) struct Step {
    /// Bytes of the input that it has taken.
    pub read: usize,
    /// Bytes that it has decoded.
    pub written: usize,
    /// The stream could end here. More input would be another frame.
    pub ended: bool,
}

/// A decoder that gets its input and the room for its output piece by piece.
pub(crate) trait Decode: Send + Sync {
    /// Begins again, with the first byte of a stream.
    fn reset(&mut self) -> Result<(), String>;
    /// Decodes as much as the input and the room allow.
    fn step(&mut self, input: &[u8], out: &mut [u8]) -> Result<Step, String>;
}

/// A chunk that is decoded from its beginning.
pub(crate) struct Stream {
    decoder: Box<dyn Decode>,
    input: Vec<u8>,
    /// The part of the input that is not decoded yet.
    left: Range<usize>,
    /// Encoded bytes that were read so far, and all encoded bytes.
    read: u64,
    size: u64,
    /// Decoded bytes so far, and all decoded bytes.
    done: usize,
    bytes: usize,
    /// The stream could end here. More input would be another frame.
    ended: bool,
}

impl Stream {
    /// A stream of `size` encoded and `bytes` decoded bytes.
    pub fn new(size: u64, bytes: usize, decoder: Box<dyn Decode>) -> Stream {
        let input = vec![0; INPUT.min(usize::try_from(size).unwrap_or(INPUT))];
        Stream { decoder, input, left: 0..0, read: 0, size, done: 0, bytes, ended: false }
    }

    /// Goes to a position, from the beginning if it has passed that position. `fetch` reads encoded bytes from a position.
    pub fn seek<E: From<String>>(&mut self, at: usize, mut fetch: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        if at < self.done {
            self.decoder.reset()?;
            (self.left, self.read, self.done, self.ended) = (0..0, 0, 0, false);
        }
        let mut unwanted = vec![0; (at - self.done).min(INPUT)];
        while self.done < at {
            let n = (at - self.done).min(unwanted.len());
            self.read(&mut unwanted[..n], &mut fetch)?;
        }
        Ok(())
    }

    /// Decodes the next bytes. After the last one the stream must end, and its checksum, if it has one, must be right.
    pub fn read<E: From<String>>(&mut self, out: &mut [u8], mut fetch: impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<(), E> {
        let mut n = 0;
        while n < out.len() {
            n += self.step(&mut out[n..], &mut fetch)?;
        }
        if self.done == self.bytes {
            while !(self.ended && self.left.is_empty() && self.read == self.size) {
                if self.step(&mut [0], &mut fetch)? > 0 {
                    return Err(format!("it decodes to more than {} bytes", self.bytes).into());
                }
            }
        }
        Ok(())
    }

    /// Decodes as much as the input allows, and returns how much that was.
    fn step<E: From<String>>(&mut self, out: &mut [u8], fetch: &mut impl FnMut(u64, &mut [u8]) -> Result<(), E>) -> Result<usize, E> {
        if self.left.is_empty() && self.read < self.size {
            let n = usize::try_from(self.size - self.read).unwrap_or(INPUT).min(self.input.len());
            fetch(self.read, &mut self.input[..n])?;
            (self.left, self.read) = (0..n, self.read + n as u64);
        }
        if self.left.is_empty() && self.ended {
            return Err(format!("it decodes to {} bytes instead of {}", self.done, self.bytes).into());
        }
        let step = self.decoder.step(&self.input[self.left.clone()], out)?;
        self.left.start += step.read;
        self.ended = step.ended;
        if step.read == 0 && step.written == 0 && !self.ended && self.read == self.size && self.left.is_empty() {
            return Err("it is cut off".to_string().into());
        }
        self.done += step.written;
        Ok(step.written)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::access::zstd_window_log;
    use crate::deflate::{self, Deflate, Wrapper};
    use crate::zstd::{Windowed, decode_at_most, decode_into};
    use fastrand::Rng;
    use std::io::Write;

    fn data(n: usize) -> Vec<u8> {
        let mut rng = Rng::with_seed(n as u64);
        (0..n).map(|i| if i / 1000 % 2 == 0 { rng.u8(..) } else { (i / 77) as u8 }).collect()
    }

    /// Reads a stream in pieces of random lengths. Some are skipped, and some are read again.
    fn pieces(encoded: &[u8], want: &[u8], decoder: Box<dyn Decode>, rng: &mut Rng) -> Result<(), String> {
        let mut stream = Stream::new(encoded.len() as u64, want.len(), decoder);
        let mut fetch = |at: u64, out: &mut [u8]| -> Result<(), String> {
            out.copy_from_slice(&encoded[at as usize..][..out.len()]);
            Ok(())
        };
        let mut back = 3;
        while stream.done < want.len() {
            let mut at = (stream.done + rng.usize(..3) / 2 * rng.usize(..100_000)).min(want.len() - 1);
            if back > 0 && rng.u8(..10) == 0 {
                (at, back) = (rng.usize(..want.len()), back - 1);
            }
            stream.seek(at, &mut fetch)?;
            let mut out = vec![0; rng.usize(1..700_000).min(want.len() - at)];
            stream.read(&mut out, &mut fetch)?;
            assert!(out == want[at..at + out.len()], "{at} of {}", want.len());
        }
        Ok(())
    }

    fn streamed(encoded: &[u8], want: &[u8], log: u32, rng: &mut Rng) -> Result<(), String> {
        pieces(encoded, want, Box::new(Windowed::new(log)?), rng)
    }

    fn deflated(want: &[u8], level: u32, wrapper: Wrapper) -> Vec<u8> {
        let level = flate2::Compression::new(level);
        match wrapper {
            Wrapper::Gzip => {
                let mut encoder = flate2::GzBuilder::new().filename("a name").comment("and more").write(Vec::new(), level);
                encoder.write_all(want).unwrap();
                encoder.finish().unwrap()
            }
            Wrapper::Zlib => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(want).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    #[test]
    fn gzip_and_zlib_are_what_was_encoded() {
        let mut rng = Rng::with_seed(1);
        for (n, level, wrapper) in [0, 1, 100, 131_072, 999_999, 5_000_000]
            .into_iter()
            .flat_map(|n| [0, 1, 6].map(|level| (n, level)))
            .flat_map(|(n, level)| [Wrapper::Gzip, Wrapper::Zlib].map(|wrapper| (n, level, wrapper)))
        {
            let want = data(n);
            let encoded = deflated(&want, level, wrapper);
            let mut whole = vec![0; n];
            deflate::decode_into(&encoded, &mut whole, wrapper).unwrap();
            assert!(whole == want);
            pieces(&encoded, &want, Box::new(Deflate::new(wrapper)), &mut rng).unwrap();
        }
    }

    #[test]
    fn members_of_gzip_may_follow_each_other() {
        let want = data(3_000_000);
        let encoded: Vec<u8> = want.chunks(1_234_567).flat_map(|part| deflated(part, 1, Wrapper::Gzip)).collect();
        let mut rng = Rng::with_seed(2);
        pieces(&encoded, &want, Box::new(Deflate::new(Wrapper::Gzip)), &mut rng).unwrap();
        let mut whole = vec![0; want.len()];
        deflate::decode_into(&encoded, &mut whole, Wrapper::Gzip).unwrap();
        assert!(whole == want);
    }

    #[test]
    fn damage_of_gzip_and_zlib_is_an_error() {
        let want = data(1_000_000);
        let mut rng = Rng::with_seed(3);
        for wrapper in [Wrapper::Gzip, Wrapper::Zlib] {
            let encoded = deflated(&want, 1, wrapper);
            let mut refused = |encoded: &[u8], bytes: usize| {
                let mut long = want.clone();
                long.resize(bytes, 0);
                let one = pieces(encoded, &long, Box::new(Deflate::new(wrapper)), &mut rng).unwrap_err();
                assert_eq!(deflate::decode_into(encoded, &mut vec![0; bytes], wrapper).unwrap_err(), one);
                one
            };
            for cut in [0, 1, 5, 100, encoded.len() - 1] {
                assert_eq!(refused(&encoded[..cut], want.len()), "it is cut off");
            }
            assert_eq!(refused(&encoded, 1_000_001), "it decodes to 1000000 bytes instead of 1000001");
            assert_eq!(refused(&encoded, 999_999), "it decodes to more than 999999 bytes");
            refused(&[&encoded[..], b"more"].concat(), want.len());
            // A checksum, and for gzip the length, come last.
            let mut damaged = encoded.clone();
            damaged[encoded.len() - if wrapper == Wrapper::Gzip { 8 } else { 4 }] ^= 1;
            refused(&damaged, want.len());
        }
    }

    #[test]
    fn streams_are_what_was_encoded() {
        let mut rng = Rng::with_seed(1);
        for n in [1, 100, 131_072, 999_999, 5_000_000] {
            let want = data(n);
            for level in [-5, 1, 3, 19] {
                let encoded = zstd::bulk::compress(&want, level).unwrap();
                let mut whole = vec![0; n];
                decode_into(&encoded, &mut whole).unwrap();
                assert!(whole == want);
                streamed(&encoded, &want, zstd_window_log(level.into()), &mut rng).unwrap();
            }
        }
    }

    #[test]
    fn frames_may_follow_each_other_and_have_checksums() {
        let want = data(3_000_000);
        let mut encoded = Vec::new();
        for part in want.chunks(1_234_567) {
            let mut encoder = zstd::Encoder::new(&mut encoded, 1).unwrap();
            encoder.include_checksum(true).unwrap();
            encoder.write_all(part).unwrap();
            encoder.finish().unwrap();
        }
        let mut rng = Rng::with_seed(2);
        streamed(&encoded, &want, 23, &mut rng).unwrap();
        decode_into(&encoded, &mut vec![0; want.len()]).unwrap();
        // The last bytes are a checksum.
        *encoded.last_mut().unwrap() ^= 1;
        assert!(streamed(&encoded, &want, 23, &mut rng).is_err());
        assert!(decode_into(&encoded, &mut vec![0; want.len()]).is_err());
    }

    #[test]
    fn damage_is_an_error() {
        let want = data(1_000_000);
        let encoded = zstd::bulk::compress(&want, 3).unwrap();
        let mut rng = Rng::with_seed(3);
        let refused = |encoded: &[u8], bytes: usize, rng: &mut Rng| {
            let mut long = want.clone();
            long.resize(bytes, 0);
            let one = streamed(encoded, &long[..bytes], 23, rng).unwrap_err();
            (one, decode_into(encoded, &mut vec![0; bytes]).unwrap_err())
        };
        for cut in [0, 1, 5, 100, encoded.len() - 1] {
            refused(&encoded[..cut], want.len(), &mut rng);
        }
        assert_eq!(refused(&encoded, 1_000_001, &mut rng).0, "it decodes to 1000000 bytes instead of 1000001");
        assert_eq!(refused(&encoded, 999_999, &mut rng).0, "it decodes to more than 999999 bytes");
        let longer = [&encoded[..], b"more"].concat();
        refused(&longer, want.len(), &mut rng);
        // A window that the level does not have: 16 MB, of which nothing must be taken.
        let mut encoder = zstd::Encoder::new(Vec::new(), 3).unwrap();
        encoder.window_log(24).unwrap();
        encoder.write_all(&want).unwrap();
        let wide = encoder.finish().unwrap();
        assert!(streamed(&wide, &want, 23, &mut rng).unwrap_err().contains("window"));
        // A header that claims a size which no machine has.
        let mut huge = vec![0x28, 0xB5, 0x2F, 0xFD, 0xE0];
        huge.extend((10u64.pow(15)).to_le_bytes());
        huge.extend([1, 0, 0]);
        refused(&huge, want.len(), &mut rng);
        let claim = decode_at_most(&huge, want.len()).unwrap_err();
        assert!(claim.contains("into 1000000 bytes"), "{claim}");
        assert!(decode_at_most(&encoded, want.len()).unwrap() == want && decode_at_most(&encoded, 2 * want.len()).unwrap() == want);
        assert!(decode_at_most(&encoded, want.len() - 1).is_err() && decode_at_most(b"nothing", 10).is_err());
    }
}
