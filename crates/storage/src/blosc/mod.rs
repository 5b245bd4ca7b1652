//! Blosc buffers, decoded block by block.
//!
//! Format: c-blosc 1, `README_CHUNK_FORMAT.rst`. After a header of 16 bytes there is a list of the starts of blocks, and then the blocks,
//! which do not depend on each other. A block is one compressed stream, or one for each byte of an element (it is "split"), each after its
//! length. The bytes, or bits, of elements may have been shuffled before. A buffer that would not shrink has no list, and its elements are
//! stored as they are.
//!
//! The blocks are decoded here, and not by C-Blosc. That library allocates two aligned blocks for each buffer, which glibc 2.36 cannot
//! give back to the next allocation of the same kind: a task grew by megabytes for which no memory was planned. Here a thread keeps one
//! block, and streams that are stored as they are need no copy.

mod blosclz;
mod frame;
mod streams;

pub(crate) use frame::Frame;

use crate::unshuffle;
use std::cell::RefCell;
use streams::Compressor;

const HEADER: usize = 16;
/// The version of the format, and of the format of every compressor.
const VERSIONS: [u8; 2] = [2, 1];
const SHUFFLED: u8 = 0x01;
const STORED: u8 = 0x02;
const BITS_SHUFFLED: u8 = 0x04;
const FROM_THE_FUTURE: u8 = 0x08;
const NOT_SPLIT: u8 = 0x10;
/// Elements with more bytes are not split, nor blocks with fewer elements.
const MOST_SPLITS: usize = 16;
const FEWEST_ELEMENTS: usize = 128;
/// A thread keeps the memory of blocks up to this size, which Blosc does not exceed by itself. It is in the allowance of every task.
const KEPT: usize = 2 << 20;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

fn invalid() -> String {
    "it is not a valid blosc buffer".into()
}

fn damaged() -> String {
    "blosc cannot decompress it".into()
}

/// The four bytes at `at` as a length or a place, neither of which is negative.
fn number(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..)?.first_chunk()?;
    usize::try_from(i32::from_le_bytes(*bytes)).ok()
}

/// Decompresses a Blosc buffer into `out`, which must have its decompressed size.
pub(crate) fn decode_into(data: &[u8], out: &mut [u8]) -> Result<(), String> {
    let header = Header::read(data, data.len() as u64, out.len())?;
    if header.stored {
        out.copy_from_slice(&data[HEADER..]);
        return Ok(());
    }
    if out.is_empty() {
        return Ok(());
    }
    for (i, block) in out.chunks_mut(header.block).enumerate() {
        let start = number(data, HEADER + 4 * i).ok_or_else(invalid)?;
        header.decode_block(data.get(start..).ok_or_else(invalid)?, block)?;
    }
    Ok(())
}

/// How elements were reordered before they were compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shuffle {
    None,
    /// The first bytes of all elements, then the second ones, and so on.
    Bytes,
    /// The first bits of all elements, then the second ones, and so on.
    Bits,
}

/// What the first 16 bytes of a buffer say.
#[derive(Debug, Clone, Copy)]
struct Header {
    /// Decoded bytes.
    bytes: usize,
    /// Decoded bytes of a block; the last one may have fewer.
    block: usize,
    /// Encoded bytes, with the header.
    encoded: usize,
    /// Bytes of an element.
    item: usize,
    /// The elements follow the header as they are.
    stored: bool,
    shuffle: Shuffle,
    split: bool,
    compressor: Compressor,
}

impl Header {
    /// The header at the beginning of `data`, if it is that of a buffer of `size` bytes that decodes to `bytes`.
    fn read(data: &[u8], size: u64, bytes: usize) -> Result<Header, String> {
        let header = Header::parse(data).filter(|h| h.encoded as u64 == size).ok_or_else(invalid)?;
        if header.bytes != bytes {
            return Err(format!("it decodes to {} bytes instead of {bytes}", header.bytes));
        }
        let fits = match header.stored {
            true => header.encoded == HEADER + bytes,
            false => bytes == 0 || (1..=bytes).contains(&header.block),
        };
        if fits { Ok(header) } else { Err(invalid()) }
    }

    fn parse(data: &[u8]) -> Option<Header> {
        let [version, inner, flags, item] = *data.first_chunk()?;
        let known = [version, inner] == VERSIONS && flags & FROM_THE_FUTURE == 0 && item > 0;
        let shuffle = match () {
            () if flags & SHUFFLED != 0 && item > 1 => Shuffle::Bytes,
            () if flags & BITS_SHUFFLED != 0 => Shuffle::Bits,
            () => Shuffle::None,
        };
        known.then_some(Header {
            bytes: number(data, 4)?,
            block: number(data, 8)?,
            encoded: number(data, 12)?,
            item: item.into(),
            stored: flags & STORED != 0,
            shuffle,
            split: flags & NOT_SPLIT == 0,
            compressor: Compressor::of(flags >> 5)?,
        })
    }

    /// Decodes one block into `out`. `data` begins with the block, and may go on behind it.
    fn decode_block(&self, data: &[u8], out: &mut [u8]) -> Result<(), String> {
        // The last block is not split if it is shorter than the others.
        let split = self.split && out.len() == self.block && self.item <= MOST_SPLITS && out.len() / self.item >= FEWEST_ELEMENTS;
        let n = if split { self.item } else { 1 };
        if !out.len().is_multiple_of(n) {
            return Err(damaged());
        }
        let part = out.len() / n;
        match self.shuffle {
            Shuffle::None => self.decode_streams(data, part, out),
            Shuffle::Bytes => with_scratch(out.len(), |scratch| {
                let mut rest = data;
                // The bytes of one place in all elements. With one stream, they are parts of it.
                let mut planes: [&[u8]; MOST_SPLITS] = Default::default();
                let planes = &mut planes[..n];
                for (plane, room) in planes.iter_mut().zip(scratch.chunks_exact_mut(part)) {
                    *plane = match stream(&mut rest, part)? {
                        Stream::Stored(bytes) => bytes,
                        Stream::Packed(packed) => self.compressor.decode_into(packed, room).map(|()| &*room)?,
                    };
                }
                match planes {
                    [whole] => unshuffle::bytes(self.item, whole, out),
                    planes => unshuffle::planes(planes, out),
                }
                Ok(())
            }),
            Shuffle::Bits => with_scratch(2 * out.len(), |scratch| {
                let (shuffled, scratch) = scratch.split_at_mut(out.len());
                self.decode_streams(data, part, shuffled)?;
                unshuffle::bits(self.item, shuffled, scratch, out);
                Ok(())
            }),
        }
    }

    /// Decodes the streams at the beginning of `data`, each of which has `part` bytes, one behind the other.
    fn decode_streams(&self, mut data: &[u8], part: usize, out: &mut [u8]) -> Result<(), String> {
        for out in out.chunks_exact_mut(part) {
            match stream(&mut data, part)? {
                Stream::Stored(bytes) => out.copy_from_slice(bytes),
                Stream::Packed(packed) => self.compressor.decode_into(packed, out)?,
            }
        }
        Ok(())
    }
}

enum Stream<'a> {
    Stored(&'a [u8]),
    Packed(&'a [u8]),
}

/// The next stream at the beginning of `data`, which decodes to `bytes` bytes. `data` goes on behind it.
fn stream<'a>(data: &mut &'a [u8], bytes: usize) -> Result<Stream<'a>, String> {
    let n = number(data, 0).ok_or_else(damaged)?;
    let (stream, rest) = data[4..].split_at_checked(n).ok_or_else(damaged)?;
    *data = rest;
    Ok(if n == bytes { Stream::Stored(stream) } else { Stream::Packed(stream) })
}

fn with_scratch(bytes: usize, run: impl FnOnce(&mut [u8]) -> Result<(), String>) -> Result<(), String> {
    if bytes > KEPT {
        let mut scratch = Vec::new();
        scratch.try_reserve_exact(bytes).map_err(|e| format!("a block of it has {bytes} bytes: {e}"))?;
        scratch.resize(bytes, 0);
        return run(&mut scratch);
    }
    SCRATCH.with_borrow_mut(|kept| {
        if kept.len() < bytes {
            kept.resize(bytes, 0);
        }
        run(&mut kept[..bytes])
    })
}

#[cfg(test)]
mod tests;
