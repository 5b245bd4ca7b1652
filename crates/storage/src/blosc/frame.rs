//! Where the blocks of a Blosc buffer are, so that each is read and decoded alone.

use super::{HEADER, Header, invalid, number};
use chunkwise_types::{BLOSC_LARGEST, BLOSC_MOST};
use std::ops::Range;

/// Where the blocks of a buffer are.
pub(crate) struct Frame {
    header: Header,
    /// Where the encoded bytes of every block start and end; empty if the elements are stored as they are.
    places: Vec<[u32; 2]>,
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
        let invalid = || E::from(invalid());
        let mut first = [0u8; HEADER];
        if size < HEADER as u64 {
            return Err(invalid());
        }
        read(0, &mut first)?;
        let header = Header::read(&first, size, bytes)?;
        let Header { block, encoded, .. } = header;
        if header.stored || bytes == 0 {
            return Ok(Some(Frame { header, places: Vec::new() }));
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
        Ok(Some(Frame { header, places }))
    }

    /// Where the elements are in the object, if they are stored as they are.
    pub fn plain(&self) -> Option<u64> {
        self.places.is_empty().then_some(HEADER as u64)
    }

    /// The block with the decoded byte `at`, as a range of decoded bytes.
    pub fn block(&self, at: usize) -> Range<usize> {
        let start = at - at % self.header.block;
        start..(start + self.header.block).min(self.header.bytes)
    }

    /// Decodes a [`Frame::block`] into `out`. `scratch` is used for the encoded bytes.
    pub fn decode<E: From<String>>(
        &self,
        block: &Range<usize>,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
        mut read: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let [start, end] = self.places[block.start / self.header.block];
        let size = (end - start) as usize;
        if scratch.len() < size {
            scratch.resize(size, 0);
        }
        read(start.into(), &mut scratch[..size])?;
        Ok(self.header.decode_block(&scratch[..size], out)?)
    }
}
