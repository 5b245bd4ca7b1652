//! Reads regions: only the byte ranges that are needed, if the format allows it, decoded directly into the destination.

use crate::StorageError;
use crate::boxes;
use crate::chunks::ArrayIo;
use crate::cursor::Cursor;
use crate::object::Object;
use crate::shard::{Entries, Entry, ShardError, ShardLayout};
use bytes::Bytes;
use chunkwise_types::{ChunkGrid, Region, ravel};

/// What a read has transferred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadStats {
    /// Encoded bytes.
    pub bytes_read: u64,
    /// Chunks.
    pub chunks: u64,
    /// Objects or ranges that were requested.
    pub gets: u64,
    /// Sizes that were requested.
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

/// Ranges of an object that are nearer to each other than this are read as one.
pub const READ_GAP: u64 = 64 << 10;
/// Encoded bytes of one shard that are in memory at once, unless a single inner chunk is larger.
pub const READ_BUFFER: u64 = 8 << 20;
/// The same of a shard in a file, which takes no longer in smaller parts.
pub const SHARD_BUFFER: u64 = 2 << 20;

/// Chunks of more decoded bytes than this are decoded block by block.
pub(crate) const BLOCKWISE: usize = 1 << 20;

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
        // Block by block, so that only the needed part of a large chunk is decoded, and it is copied from cache.
        if inner.codec.is_blosc() && inner.shard.is_none() && inner.codec.bytes > BLOCKWISE {
            return self.read_piece(region, &mut Cursor::default(), out);
        }
        for index in inner.meta.grid.touched(region).indices() {
            self.read_one(&index, region, out, &mut stats)?;
        }
        Ok(stats)
    }

    /// Reads the part of a region that lies in one chunk.
    pub(crate) fn read_one(&self, index: &[u64], region: &Region, out: &mut [u8], stats: &mut ReadStats) -> Result<(), StorageError> {
        let inner = &*self.0;
        let chunk = inner.meta.grid.region(index);
        let Some(common) = chunk.intersect(region) else { return Ok(()) };
        let (from, at) = (common.relative_to(&chunk), common.relative_to(region).start);
        let (key, to) = (self.chunk_key(index), (&region.shape[..], &at[..]));
        (stats.chunks, stats.gets) = (stats.chunks + 1, stats.gets + 1);
        let found = if inner.shard.is_none() && !inner.raw {
            self.read_encoded(&key, (&from, &chunk.shape), out, to)?
        } else {
            match (inner.store.open_object(&key)?, &inner.shard) {
                (None, _) => None,
                (Some(object), Some(layout)) => Some(self.read_shard(&object, layout, &key, &from, out, to)?),
                (Some(object), None) => Some(self.read_raw(&object, &key, &from, out, to)?),
            }
        };
        match found {
            Some(n) => stats.bytes_read += n,
            None => {
                self.may_be_absent(&key)?;
                self.fill(out, to, &from.shape);
            }
        }
        Ok(())
    }

    /// Reads and decodes a chunk for a region of it. `None` if it is not stored. `clipped` is the shape of the part of the chunk that lies
    /// in the array.
    fn read_encoded(
        &self,
        key: &str,
        (from, clipped): (&Region, &[u64]),
        out: &mut [u8],
        to: (&[u64], &[u64]),
    ) -> Result<Option<u64>, StorageError> {
        let ArrayIo(inner) = self;
        let item = inner.meta.dtype.size() as usize;
        let shared = inner.cache.as_ref().filter(|_| from.shape[..] != inner.codec.shape[..]);
        let name = || inner.store.url(key);
        if let Some(data) = shared.and_then(|cache| cache.cached(&name())) {
            boxes::copy(&data, (&inner.codec.shape, &from.start), out, to, &from.shape, item);
            return Ok(Some(0));
        }
        let damaged = |e| self.corrupt(key, e);
        // A large chunk is held as a whole only in memory that nothing else needs, for readers of its other parts.
        let large = inner.store.is_local() && inner.codec.is_large_stream();
        let room = shared.filter(|_| large).and_then(|cache| cache.room_for(inner.codec.bytes as u64, inner.codec.most()));
        if large
            && room.is_none()
            && let Some(decoder) = inner.codec.decoder().map_err(damaged)?
        {
            return self.read_through(key, decoder, (from, clipped), out, to);
        }
        let Some(data) = inner.store.get_at_most(key, inner.codec.most())? else { return Ok(None) };
        let n = data.len() as u64;
        match shared {
            Some(cache) => {
                let data = inner.codec.decode(data).map_err(damaged)?;
                boxes::copy(&data, (&inner.codec.shape, &from.start), out, to, &from.shape, item);
                // The reservation for decoding would leave no room to keep the chunk.
                drop(room);
                cache.cache(name(), data.into());
            }
            None => inner.codec.decode_box(data, &from.start, &from.shape, out, to).map_err(damaged)?,
        }
        Ok(Some(n))
    }

    /// Reads the inner chunks of a shard that a region of it needs, and returns how many bytes that took.
    fn read_shard(
        &self,
        object: &Object,
        layout: &ShardLayout,
        key: &str,
        from: &Region,
        out: &mut [u8],
        to: (&[u64], &[u64]),
    ) -> Result<u64, StorageError> {
        let store = &self.0.store;
        let grid = ChunkGrid::regular(&self.0.meta.grid.stored_shape(), &layout.codec.shape);
        let chunks: Vec<Vec<u64>> = grid.touched(from).indices().collect();
        let numbers: Vec<u64> = chunks.iter().map(|i| ravel(i, &layout.counts)).collect();
        let Entries { entries, bytes: mut read } = match layout.read_entries(object, store, key, &numbers) {
            Ok(found) => found,
            Err(ShardError::Damaged(detail)) => return Err(self.corrupt(key, detail)),
            Err(ShardError::Storage(e)) => return Err(e),
        };
        let mut wanted: Vec<(Entry, Vec<u64>)> = entries.into_iter().zip(chunks).collect();
        wanted.sort_by_key(|(e, _)| e.offset);
        let buffered = if store.is_remote() { READ_BUFFER } else { SHARD_BUFFER };
        let mut k = 0;
        while k < wanted.len() {
            let (first, chunk) = &wanted[k];
            if *first == Entry::MISSING {
                self.place_inner(key, from, chunk, None, out, to)?;
                k += 1;
                continue;
            }
            let mut end = first.offset + first.len;
            let mut n = 1;
            while let Some((e, _)) = wanted.get(k + n).filter(|(e, _)| *e != Entry::MISSING) {
                if e.offset > end.saturating_add(READ_GAP) || e.offset + e.len > first.offset + buffered {
                    break;
                }
                end = end.max(e.offset + e.len);
                n += 1;
            }
            let mut buffer = vec![0u8; (end - first.offset) as usize];
            read += object.read(store, key, first.offset, &mut buffer)?;
            let buffer = Bytes::from(buffer);
            for (e, chunk) in &wanted[k..k + n] {
                let at = (e.offset - first.offset) as usize;
                self.place_inner(key, from, chunk, Some(buffer.slice(at..at + e.len as usize)), out, to)?;
            }
            k += n;
        }
        Ok(read)
    }

    /// Copies the part of an inner chunk that lies in a region of its shard to the destination. Without data, the fill value is used.
    pub(crate) fn place_inner(
        &self,
        key: &str,
        from: &Region,
        chunk: &[u64],
        data: Option<Bytes>,
        out: &mut [u8],
        to: (&[u64], &[u64]),
    ) -> Result<(), StorageError> {
        let Some(layout) = &self.0.shard else { return Ok(()) };
        let chunk = ChunkGrid::regular(&self.0.meta.grid.stored_shape(), &layout.codec.shape).region(chunk);
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
    }

    pub(crate) fn fill(&self, out: &mut [u8], to: (&[u64], &[u64]), shape: &[u64]) {
        let (item, value) = (self.0.meta.dtype.size() as usize, self.0.codec.fill());
        // The runs of a region in one buffer are those of a copy onto itself.
        let _ = boxes::runs(shape, item, to, to, |_, t, n| {
            out[t..t + n].chunks_exact_mut(item).for_each(|e| e.copy_from_slice(value));
            Ok::<(), std::convert::Infallible>(())
        });
    }
}
