//! The blocks of a Blosc buffer, decoded one by one.
//!
//! Format: c-blosc 1, `README_CHUNK_FORMAT.rst`. After a header of 16 bytes there is a list of the starts of blocks, and then the blocks,
//! which do not depend on each other. A buffer that would not shrink has no list, and its elements are stored as they are. A few blocks
//! with a header and a list of their own are a Blosc buffer again. In this form the library gets them, and decodes them.

use crate::codec::blosc_into;
use chunkwise_types::{BLOSC_LARGEST, BLOSC_MOST};
use std::ops::Range;

const HEADER: usize = 16;
const MEMCPYED: u8 = 0x2;
/// Where the blocks of a buffer are.
pub(crate) struct Frame {
    header: [u8; HEADER],
    /// Decoded bytes.
    bytes: usize,
    /// Decoded bytes of a block; the last one may have fewer.
    block: usize,
    /// Where the encoded bytes of every block start and end; empty if the elements are stored as they are.
    places: Vec<[u32; 2]>,
}

fn number(header: &[u8], at: usize) -> Option<usize> {
    let b = header.get(at..at + 4)?;
    usize::try_from(i32::from_le_bytes([b[0], b[1], b[2], b[3]])).ok()
}

impl Frame {
    /// Reads the header and the list of a buffer of `size` bytes that must decode to `bytes`. If its blocks are too large or too many to be
    /// decoded one by one, the result is `Ok(None)`, or an error if memory was `planned` for blocks only.
    pub fn open<E: From<String>>(
        size: u64,
        bytes: usize,
        planned: bool,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<Option<Frame>, E> {
        let invalid = || E::from("it is not a valid blosc buffer".to_string());
        let mut header = [0u8; HEADER];
        if size < HEADER as u64 {
            return Err(invalid());
        }
        read(0, &mut header)?;
        let (Some(decoded), Some(block), Some(encoded)) = (number(&header, 4), number(&header, 8), number(&header, 12)) else {
            return Err(invalid());
        };
        if encoded as u64 != size {
            return Err(invalid());
        }
        if decoded != bytes {
            return Err(E::from(format!("it decodes to {decoded} bytes instead of {bytes}")));
        }
        if header[2] & MEMCPYED != 0 {
            let whole = size == (bytes + HEADER) as u64;
            return if whole { Ok(Some(Frame { header, bytes, block: bytes.max(1), places: Vec::new() })) } else { Err(invalid()) };
        }
        if block == 0 || block > bytes {
            return Err(invalid());
        }
        let n = bytes.div_ceil(block);
        if block as u64 > BLOSC_LARGEST || n as u64 > BLOSC_MOST {
            let unlike =
                format!("it has {n} blocks of {block} bytes, for which no memory was planned: the codec in its metadata makes others");
            return if planned { Err(E::from(unlike)) } else { Ok(None) };
        }
        let first = (HEADER + 4 * n) as u64;
        if first > size {
            return Err(invalid());
        }
        let mut list = vec![0u8; 4 * n];
        read(HEADER as u64, &mut list)?;
        let starts: Option<Vec<u32>> = (0..n).map(|i| number(&list, 4 * i).map(|s| s as u32)).collect();
        drop(list);
        let starts = starts.filter(|s| s.iter().all(|s| (first..=size).contains(&u64::from(*s)))).ok_or_else(invalid)?;
        // Threads that compress together write their blocks in any order.
        let mut sorted = starts.clone();
        sorted.sort_unstable();
        let end = |s: u32| sorted.get(sorted.partition_point(|x| *x <= s)).copied().unwrap_or(encoded as u32);
        let places = starts.iter().map(|&s| [s, end(s)]).collect();
        Ok(Some(Frame { header, bytes, block, places }))
    }

    /// Where the elements are in the object, if they are stored as they are.
    pub fn plain(&self) -> Option<u64> {
        self.places.is_empty().then_some(HEADER as u64)
    }

    /// The blocks that are decoded together to get the decoded byte `at`, as a range of decoded bytes. If a block is not whole, the library
    /// needs a whole block in front of it.
    pub fn span(&self, at: usize) -> Range<usize> {
        let whole = self.bytes / self.block;
        let k = at / self.block;
        if self.bytes.is_multiple_of(self.block) || k + 1 < whole {
            k * self.block..(k + 1) * self.block
        } else {
            (whole - 1) * self.block..self.bytes
        }
    }

    /// Decodes a [`Frame::span`] into `out`. `scratch` is used for the encoded bytes.
    pub fn decode<E: From<String>>(
        &self,
        span: Range<usize>,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let places = &self.places[span.start / self.block..span.end.div_ceil(self.block)];
        let list = HEADER + 4 * places.len();
        let size = list + places.iter().map(|[start, end]| (end - start) as usize).sum::<usize>();
        if scratch.len() < size {
            scratch.resize(size, 0);
        }
        let scratch = &mut scratch[..size];
        scratch[..HEADER].copy_from_slice(&self.header);
        scratch[4..8].copy_from_slice(&(span.len() as u32).to_le_bytes());
        scratch[12..16].copy_from_slice(&(size as u32).to_le_bytes());
        let mut at = list;
        for (i, [start, end]) in places.iter().enumerate() {
            scratch[HEADER + 4 * i..][..4].copy_from_slice(&(at as u32).to_le_bytes());
            let n = (end - start) as usize;
            read(u64::from(*start), &mut scratch[at..at + n])?;
            at += n;
        }
        blosc_into(scratch, out).map_err(E::from)
    }
}
