//! Reading regions: only the byte ranges that are needed where the format allows it, decoded into place.

use crate::StorageError;
use crate::boxes;
use crate::chunks::ArrayIo;
use crate::cursor::Cursor;
use crate::shard::{Entries, Entry, ShardError, ShardLayout};
use chunkwise_types::{ChunkGrid, Region, ravel};
use std::ops::Range;

/// What a read moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Encoded bytes.
    pub bytes_read: u64,
    /// Chunks.
    pub chunks: u64,
    /// Objects or ranges that were asked for.
    pub gets: u64,
    /// Sizes that were asked for.
    pub heads: u64,
}

impl ReadStats {
    /// The sum of both.
    pub fn plus(self, other: ReadStats) -> ReadStats {
        ReadStats {
            bytes_read: self.bytes_read + other.bytes_read,
            chunks: self.chunks + other.chunks,
            gets: self.gets + other.gets,
            heads: self.heads + other.heads,
        }
    }
}

/// Ranges of an object that are nearer to each other than this are fetched as one.
pub const READ_GAP: u64 = 64 << 10;
/// Encoded bytes of one shard that are in memory at once, unless a single inner chunk is larger.
pub const READ_BUFFER: u64 = 8 << 20;

/// Chunks of more decoded bytes than this are decoded block by block.
pub(crate) const BLOCKWISE: usize = 1 << 20;

/// Runs that are read together at most, so that the list of them stays small.
const MAX_PIECES: usize = 1 << 14;

impl ArrayIo {
    /// Reads a region into `out`: C order, dense, native endian, `region.volume() * dtype.size()` bytes. Chunks that are not stored
    /// read as the fill value.
    ///
    /// # Errors
    /// When the store fails, or a chunk is damaged.
    pub fn read_region(&self, region: &Region, out: &mut [u8]) -> Result<ReadStats, StorageError> {
        let mut stats = ReadStats::default();
        let inner = &*self.0;
        let item = inner.meta.dtype.size();
        if out.len() as u64 != region.volume() * item {
            return Err(self.corrupt("", format!("{} bytes cannot hold {region}", out.len())));
        }
        if region.is_empty() {
            return Ok(stats);
        }
        if let Some(mut reader) = self.reader() {
            return reader.read_region(region, out);
        }
        // Block by block, so that a large chunk is decoded from cache, and only where it is needed.
        if inner.codec.is_blosc() && inner.shard.is_none() && inner.codec.bytes > BLOCKWISE {
            return self.read_piece(region, &mut Cursor::default(), out);
        }
        for index in inner.meta.grid.touched(region).indices() {
            self.read_one(&index, region, out, &mut stats)?;
        }
        Ok(stats)
    }

    /// Reads what a region needs of one chunk.
    pub(crate) fn read_one(&self, index: &[u64], region: &Region, out: &mut [u8], stats: &mut ReadStats) -> Result<(), StorageError> {
        let inner = &*self.0;
        {
            let chunk = inner.meta.grid.region(index);
            let Some(common) = chunk.intersect(region) else { return Ok(()) };
            let (from, to) = (common.relative_to(&chunk), common.relative_to(region));
            let key = self.chunk_key(index);
            (stats.chunks, stats.gets) = (stats.chunks + 1, stats.gets + 1);
            let found = match &inner.shard {
                Some(layout) => self.read_shard(layout, &key, &from, out, (&region.shape, &to.start))?,
                None if inner.raw => self.read_raw(&key, &from, out, (&region.shape, &to.start))?,
                None => self.read_encoded(&key, &from, out, (&region.shape, &to.start))?,
            };
            match found {
                Some(n) => stats.bytes_read += n,
                None => self.fill(out, (&region.shape, &to.start), &from.shape),
            }
        }
        Ok(())
    }

    /// Reads and decodes a chunk for a box of it. `None` if it is not stored.
    fn read_encoded(&self, key: &str, from: &Region, out: &mut [u8], to: (&[u64], &[u64])) -> Result<Option<u64>, StorageError> {
        let ArrayIo(inner) = self;
        let item = inner.meta.dtype.size() as usize;
        let shared = inner.cache.as_ref().filter(|_| from.shape != inner.codec.shape);
        let name = || inner.store.url(key);
        if let Some(data) = shared.and_then(|cache| cache.cached(&name())) {
            boxes::copy(&data, (&inner.codec.shape, &from.start), out, to, &from.shape, item);
            return Ok(Some(0));
        }
        let Some(data) = inner.store.get(key)? else { return Ok(None) };
        let n = data.len() as u64;
        let damaged = |e| self.corrupt(key, e);
        match shared {
            Some(cache) => {
                let data = inner.codec.decode(data).map_err(damaged)?;
                boxes::copy(&data, (&inner.codec.shape, &from.start), out, to, &from.shape, item);
                cache.cache(name(), data.into());
            }
            None => inner.codec.decode_box(data, &from.start, &from.shape, out, to).map_err(damaged)?,
        }
        Ok(Some(n))
    }

    /// Reads the runs of a box of a chunk that is stored as it is in memory. `None` if it is not stored.
    pub(crate) fn read_raw(&self, key: &str, from: &Region, out: &mut [u8], to: (&[u64], &[u64])) -> Result<Option<u64>, StorageError> {
        let inner = &*self.0;
        let item = inner.meta.dtype.size() as usize;
        let shape = &inner.codec.shape;
        match inner.store.size(key)? {
            None => return Ok(None),
            Some(n) if n != inner.codec.bytes as u64 => {
                return Err(self.corrupt(key, format!("it has {n} bytes instead of {}", inner.codec.bytes)));
            }
            Some(_) => {}
        }
        let mut spans: Vec<(Range<u64>, usize)> = Vec::new();
        let mut pieces: Vec<(usize, usize, usize)> = Vec::new();
        let mut read = 0u64;
        // Long runs are read into place; short ones are read together with the gaps between them, through a bounded buffer.
        let long = boxes::run_bytes(&from.shape, shape, to.0, item) as u64 >= READ_GAP;
        let mut missing = false;
        let mut flush = |pieces: &mut Vec<(usize, usize, usize)>, out: &mut [u8]| -> Result<(), StorageError> {
            let (Some(&(first, ..)), Some(&(last, _, n))) = (pieces.first(), pieces.last()) else { return Ok(()) };
            let mut buffer = vec![0u8; last + n - first];
            read += buffer.len() as u64;
            missing |= !inner.store.read_spans(key, &[(first as u64..(last + n) as u64, 0)], &mut buffer)?;
            for (s, t, n) in pieces.drain(..) {
                out[t..t + n].copy_from_slice(&buffer[s - first..s - first + n]);
            }
            Ok(())
        };
        boxes::runs(&from.shape, item, (shape, &from.start), to, |s, t, n| {
            if long {
                spans.push((s as u64..(s + n) as u64, t));
                return Ok(());
            }
            let apart = |&(first, ..): &(usize, usize, usize), &(last, _, m): &(usize, usize, usize)| {
                (s - last - m) as u64 > READ_GAP || (s + n - first) as u64 > READ_BUFFER
            };
            if let (Some(first), Some(last)) = (pieces.first(), pieces.last())
                && (apart(first, last) || pieces.len() >= MAX_PIECES)
            {
                flush(&mut pieces, out)?;
            }
            pieces.push((s, t, n));
            Ok(())
        })?;
        flush(&mut pieces, out)?;
        if !spans.is_empty() {
            read += spans.iter().map(|(r, _)| r.end - r.start).sum::<u64>();
            missing |= !inner.store.read_spans(key, &spans, out)?;
        }
        Ok((!missing).then_some(read))
    }

    /// Reads the inner chunks of a shard that a box of it needs. `None` if the shard is not stored.
    fn read_shard(
        &self,
        layout: &ShardLayout,
        key: &str,
        from: &Region,
        out: &mut [u8],
        to: (&[u64], &[u64]),
    ) -> Result<Option<u64>, StorageError> {
        let store = &self.0.store;
        let grid = ChunkGrid::regular(&self.0.meta.grid.stored_shape(), &layout.codec.shape);
        let chunks: Vec<Vec<u64>> = grid.touched(from).indices().collect();
        let numbers: Vec<u64> = chunks.iter().map(|i| ravel(i, &layout.counts)).collect();
        let Entries { entries, bytes: mut read } = match layout.read_entries(store, key, &numbers) {
            Ok(Some(found)) => found,
            Ok(None) => return Ok(None),
            Err(ShardError::Damaged(detail)) => return Err(self.corrupt(key, detail)),
            Err(ShardError::Storage(e)) => return Err(e),
        };
        let mut wanted: Vec<(Entry, Vec<u64>)> = entries.into_iter().zip(chunks).collect();
        wanted.sort_by_key(|(e, _)| e.offset);
        let place = |chunk: &[u64], data: Option<bytes::Bytes>, out: &mut [u8]| -> Result<(), StorageError> {
            let chunk = grid.region(chunk);
            let Some(common) = chunk.intersect(from) else { return Ok(()) };
            let inside = common.relative_to(&chunk);
            let at: Vec<u64> = common.relative_to(from).start.iter().zip(to.1).map(|(a, b)| a + b).collect();
            match data {
                Some(data) => layout
                    .codec
                    .decode_box(data, &inside.start, &inside.shape, out, (to.0, &at))
                    .map_err(|e| self.corrupt(key, format!("its inner chunk {:?}: {e}", chunk.start))),
                None => {
                    self.fill(out, (to.0, &at), &inside.shape);
                    Ok(())
                }
            }
        };
        let mut k = 0;
        while k < wanted.len() {
            let (first, chunk) = &wanted[k];
            if *first == Entry::MISSING {
                place(chunk, None, out)?;
                k += 1;
                continue;
            }
            let mut end = first.offset + first.len;
            let mut n = 1;
            while let Some((e, _)) = wanted.get(k + n).filter(|(e, _)| *e != Entry::MISSING) {
                if e.offset > end.saturating_add(READ_GAP) || e.offset + e.len > first.offset + READ_BUFFER {
                    break;
                }
                end = end.max(e.offset + e.len);
                n += 1;
            }
            let mut buffer = vec![0u8; (end - first.offset) as usize];
            if !store.read_spans(key, &[(first.offset..end, 0)], &mut buffer)? {
                return Ok(None);
            }
            read += buffer.len() as u64;
            let buffer = bytes::Bytes::from(buffer);
            for (e, chunk) in &wanted[k..k + n] {
                let at = (e.offset - first.offset) as usize;
                place(chunk, Some(buffer.slice(at..at + e.len as usize)), out)?;
            }
            k += n;
        }
        Ok(Some(read))
    }

    pub(crate) fn fill(&self, out: &mut [u8], to: (&[u64], &[u64]), shape: &[u64]) {
        let (item, value) = (self.0.meta.dtype.size() as usize, self.0.codec.fill());
        // The runs of a box in one buffer: those of a copy onto itself.
        let _ = boxes::runs(shape, item, to, to, |_, t, n| {
            out[t..t + n].chunks_exact_mut(item).for_each(|e| e.copy_from_slice(value));
            Ok::<(), std::convert::Infallible>(())
        });
    }
}
