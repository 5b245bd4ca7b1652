//! Writing whole chunks, each one whole or not at all.

use crate::StorageError;
use crate::boxes::Elements;
use crate::chunks::ArrayIo;
use crate::shard::ShardLayout;
use chunkwise_types::{ChunkGrid, Region, volume};
use std::borrow::Cow;
use xxhash_rust::xxh3::xxh3_64;

/// A chunk that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChunkWritten {
    /// Its key below the array.
    pub key: String,
    /// Stored bytes.
    pub bytes: u64,
    /// XXH3-64 of the stored bytes.
    pub xxh3: u64,
}

impl ArrayIo {
    /// Writes one stored chunk (a shard, if the array is sharded) from the elements of its region, clipped to the array. The chunk is
    /// written whole or not at all. It is stored even if every element is the fill value.
    ///
    /// # Errors
    /// When the elements do not fit the chunk, or the store fails.
    pub fn write_chunk(&self, index: &[u64], elements: Elements<'_>) -> Result<ChunkWritten, StorageError> {
        let (written, encoded) = self.encode_chunk(index, elements)?;
        self.0.store.put(&written.key, encoded)?;
        Ok(written)
    }

    /// The stored bytes of a chunk, and the report about them.
    pub(crate) fn encode_chunk<'e>(&self, index: &[u64], elements: Elements<'e>) -> Result<(ChunkWritten, Cow<'e, [u8]>), StorageError> {
        let inner = &*self.0;
        let key = self.chunk_key(index);
        let region = inner.meta.grid.region(index);
        if !elements.holds(&region.shape, inner.meta.dtype.size()) {
            let detail = format!("{} bytes of shape {:?} were to be written for {region}", elements.data.len(), elements.shape);
            return Err(self.corrupt(&key, detail));
        }
        let encoded = match &inner.shard {
            Some(layout) => self.encode_shard(layout, &region, elements).map(Cow::Owned),
            None => inner.codec.encode(elements, &region.shape),
        }
        .map_err(|e| self.corrupt(&key, format!("it cannot be encoded: {e}")))?;
        let (bytes, xxh3) = (encoded.len() as u64, xxh3_64(&encoded));
        Ok((ChunkWritten { key, bytes, xxh3 }, encoded))
    }

    /// Assembles a shard, one inner chunk after another. Beside the elements, only the encoded shard is in memory.
    fn encode_shard(&self, layout: &ShardLayout, region: &Region, elements: Elements<'_>) -> Result<Vec<u8>, String> {
        let item = self.0.meta.dtype.size();
        let grid = ChunkGrid::regular(&self.0.meta.grid.stored_shape(), &layout.codec.shape);
        let held = Region::full(&region.shape);
        let mut shard = layout.builder((volume(&region.shape) * item) as usize);
        for index in Region::full(&layout.counts).indices() {
            let Some(part) = grid.region(&index).intersect(&held) else {
                shard.skip();
                continue;
            };
            let start: Vec<u64> = elements.start.iter().zip(&part.start).map(|(a, b)| a + b).collect();
            let piece = Elements { data: elements.data, shape: elements.shape, start: &start };
            shard.push(&layout.codec.encode(piece, &part.shape)?);
        }
        Ok(shard.finish())
    }
}
