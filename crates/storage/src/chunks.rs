//! The chunks of one array: keys, listings and checks. Reading is in `read`, writing in `write`.

use crate::codec::ChunkCodec;
use crate::object::Object;
use crate::shard::{Entry, ShardError, ShardLayout};
use crate::{ArrayMeta, InputWatch, Location, MemoryTier, StorageError, Store, Stores};
use chunkwise_types::{ArrayAccess, AxisChunks, unravel, volume};
use std::collections::HashMap;
use std::sync::Arc;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};
use zarrs::array::Array;

/// The chunks of one array. Cheap to clone.
#[derive(Clone)]
pub struct ArrayIo(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    array: Array<()>,
    pub meta: ArrayMeta,
    pub store: Store,
    pub url: String,
    /// The codec of a stored object: of a chunk, or of a whole shard.
    pub codec: ChunkCodec,
    pub shard: Option<ShardLayout>,
    pub raw: bool,
    /// Bytes that may be in flight from an object store at once.
    pub in_flight: u64,
    /// Where decoded chunks are kept for other readers.
    pub cache: Option<Arc<MemoryTier>>,
    /// Every chunk was written. A missing chunk has been deleted.
    pub complete: bool,
    /// For inputs: records what happens while they are read.
    pub watch: Option<Arc<InputWatch>>,
}

/// An entry of a listing of chunks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredChunk {
    /// Stored bytes.
    pub bytes: u64,
    /// The entity tag that an object store gives it, without quotes.
    pub etag: Option<String>,
}

/// A shard of at most this many bytes is verified after one request.
const ONE_REQUEST: u64 = 32 << 20;
/// The bytes in flight if no plan gives a number.
const IN_FLIGHT: u64 = 16 << 20;

/// The checksum of an object, as runs keep it: XXH3 with 64 bits.
///
/// ```
/// assert_ne!(chunkwise_storage::checksum(b"a"), chunkwise_storage::checksum(b"b"));
/// ```
pub fn checksum(object: &[u8]) -> u64 {
    xxh3_64(object)
}

impl ArrayIo {
    /// Opens the chunks of an array whose metadata is known.
    pub fn new(stores: &Stores, location: &Location, meta: &ArrayMeta) -> Result<ArrayIo, StorageError> {
        Self::of(stores.open(location)?, location, meta, None)
    }

    /// As [`ArrayIo::new`]. A chunk that was decoded for a part of it is kept while there is room.
    pub fn cached(stores: &Stores, location: &Location, meta: &ArrayMeta, tier: &Arc<MemoryTier>) -> Result<ArrayIo, StorageError> {
        Self::of(stores.open(location)?, location, meta, Some(tier.clone()))
    }

    /// As [`ArrayIo::new`]; the chunks stay in memory while there is room.
    pub fn in_memory(stores: &Stores, location: &Location, meta: &ArrayMeta, tier: &Arc<MemoryTier>) -> Result<ArrayIo, StorageError> {
        Self::of(stores.open(location)?.with_memory(tier.clone()), location, meta, None)
    }

    fn of(store: Store, location: &Location, meta: &ArrayMeta, cache: Option<Arc<MemoryTier>>) -> Result<ArrayIo, StorageError> {
        let url = location.to_string();
        let bad = |detail: String| StorageError::Metadata { url: url.clone(), detail };
        location.check_not_root()?;
        for a in &meta.grid.0 {
            match a {
                AxisChunks::Regular { size: 1.., .. } => {}
                AxisChunks::Regular { .. } => return Err(bad("a chunk has length 0".into())),
                AxisChunks::Irregular(_) => return Err(bad("the chunk grid is not regular".into())),
            }
        }
        let parsed = crate::meta::metadata_of(&meta.metadata).map_err(bad)?;
        let array = Array::new_with_metadata(Arc::new(()), "/", parsed).map_err(|e| bad(e.to_string()))?;
        let codec = ChunkCodec::of_array(meta).map_err(bad)?;
        let shard = ShardLayout::of(meta).map_err(bad)?;
        let in_flight = if store.is_remote() { IN_FLIGHT } else { 0 };
        Ok(ArrayIo(Arc::new(Inner {
            in_flight,
            complete: false,
            watch: None,
            array,
            meta: meta.clone(),
            store,
            codec,
            shard,
            raw: meta.access() == ArrayAccess::Raw,
            cache,
            url: url.clone(),
        })))
    }

    /// The same chunks, of which at most `bytes` are in flight from an object store at once. With 0 they are read one after another.
    pub fn with_in_flight(self, bytes: u64) -> ArrayIo {
        let in_flight = if self.0.store.is_remote() { bytes } else { 0 };
        match Arc::try_unwrap(self.0) {
            Ok(inner) => ArrayIo(Arc::new(Inner { in_flight, ..inner })),
            // Shared handles keep their value.
            Err(shared) => ArrayIo(shared),
        }
    }

    /// The same chunks, all of which must have been written. A missing chunk is then an error and not the fill value. So a reader that
    /// comes after the array was deleted cannot take its values for zeros.
    pub fn complete(self) -> ArrayIo {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => ArrayIo(Arc::new(Inner { complete: true, ..inner })),
            Err(shared) => ArrayIo(shared),
        }
    }

    /// The same chunks, as those of an input that must not change while it is read.
    pub fn watched(self, watch: &Arc<InputWatch>) -> ArrayIo {
        match Arc::try_unwrap(self.0) {
            Ok(inner) => {
                let (store, watch) = (inner.store.clone().with_watch(watch.clone()), Some(watch.clone()));
                ArrayIo(Arc::new(Inner { store, watch, ..inner }))
            }
            Err(shared) => ArrayIo(shared),
        }
    }

    /// An error if a missing chunk ought to be stored.
    pub(crate) fn may_be_absent(&self, key: &str) -> Result<(), StorageError> {
        if let Some(watch) = &self.0.watch {
            watch.miss();
        }
        if self.0.complete { Err(StorageError::Gone { array: self.0.url.clone(), key: key.into() }) } else { Ok(()) }
    }

    /// The key of a chunk, relative to the array.
    pub fn chunk_key(&self, index: &[u64]) -> String {
        self.0.array.chunk_key(index).as_str().to_string()
    }

    /// The folder of its objects.
    pub fn store(&self) -> &Store {
        &self.0.store
    }

    /// The metadata.
    pub fn meta(&self) -> &ArrayMeta {
        &self.0.meta
    }

    pub(crate) fn corrupt(&self, key: &str, detail: String) -> StorageError {
        StorageError::Corrupt { array: self.0.url.clone(), key: key.into(), detail }
    }

    /// The index of the chunk with this key.
    pub(crate) fn chunk_of(&self, key: &str) -> Option<Vec<u64>> {
        let counts = self.0.meta.grid.counts();
        // Keys end in the chunk's numbers, whatever precedes and separates them.
        let numbers: Vec<u64> = key.rsplit(['/', '.']).map_while(|p| p.parse().ok()).take(counts.len()).collect();
        let index: Vec<u64> = numbers.into_iter().rev().collect();
        let exists = index.len() == counts.len() && index.iter().zip(&counts).all(|(i, n)| i < n);
        (exists && self.chunk_key(&index) == key).then_some(index)
    }

    /// Every stored chunk with its size, by one listing.
    pub fn stored_chunks(&self) -> Result<HashMap<Vec<u64>, u64>, StorageError> {
        let all = self.0.store.list("")?;
        Ok(all.into_iter().filter_map(|(key, size)| Some((self.chunk_of(&key)?, size))).collect())
    }

    /// Every stored chunk with its size and, in object stores, its entity tag, by one listing.
    pub fn tagged_chunks(&self) -> Result<HashMap<Vec<u64>, StoredChunk>, StorageError> {
        let all = self.0.store.list_tagged("")?;
        Ok(all.into_iter().filter_map(|(key, bytes, etag)| Some((self.chunk_of(&key)?, StoredChunk { bytes, etag }))).collect())
    }

    /// The indices of the stored chunks, in the order of their numbers; `None` if the store cannot list them.
    pub fn stored_indices(&self) -> Result<Option<Vec<Vec<u64>>>, StorageError> {
        if !self.0.store.can_list() {
            return Ok(None);
        }
        let mut found: Vec<Vec<u64>> = self.0.store.keys()?.0.iter().filter_map(|key| self.chunk_of(key)).collect();
        found.sort_unstable();
        Ok(Some(found))
    }

    /// The number of stored chunks, and whether writers may have left unfinished files beside them; see [`Store::sweep`].
    pub fn count_stored(&self) -> Result<(u64, bool), StorageError> {
        let (keys, unfinished) = self.0.store.keys()?;
        Ok((keys.iter().filter(|key| self.chunk_of(key).is_some()).count() as u64, unfinished))
    }

    /// The checksum of a stored object, read in pieces; `None` if it is not stored.
    pub fn chunk_sum(&self, index: &[u64]) -> Result<Option<u64>, StorageError> {
        const PIECE: u64 = 4 << 20;
        let key = self.chunk_key(index);
        let Some(object) = self.0.store.open_object(&key)? else { return Ok(None) };
        let (mut sum, mut at) = (Xxh3::new(), 0);
        let mut piece = vec![0; object.len().min(PIECE) as usize];
        while at < object.len() {
            piece.truncate((object.len() - at).min(PIECE) as usize);
            at += object.read(&self.0.store, &key, at, &mut piece)?;
            sum.update(&piece);
        }
        Ok(Some(sum.digest()))
    }

    /// Reads and decodes a whole chunk, and returns its size and checksum; `None` if it is not stored. Of a shard, only one inner chunk at
    /// a time is in memory.
    pub fn verify_chunk(&self, index: &[u64]) -> Result<Option<(u64, u64)>, StorageError> {
        let (key, inner) = (self.chunk_key(index), &*self.0);
        if let Some(layout) = &inner.shard {
            return self.verify_shard(index, &key, layout);
        }
        let damaged = |e| self.corrupt(&key, e);
        let Some(data) = inner.store.get_at_most(&key, inner.codec.most())? else { return Ok(None) };
        let found = (data.len() as u64, xxh3_64(&data));
        inner.codec.check(data).map_err(damaged)?;
        Ok(Some(found))
    }

    fn verify_shard(&self, index: &[u64], key: &str, layout: &ShardLayout) -> Result<Option<(u64, u64)>, StorageError> {
        let store = &self.0.store;
        let Some(object) = store.open_object(key)? else { return Ok(None) };
        let size = object.len();
        // One request, if that is not too much.
        let whole = if size <= ONE_REQUEST {
            let mut data = vec![0; size as usize];
            object.read(store, key, 0, &mut data)?;
            Some(bytes::Bytes::from(data))
        } else {
            None
        };
        let Some(sum) = whole.as_ref().map(|d| xxh3_64(d)).map_or_else(|| self.chunk_sum(index), |s| Ok(Some(s)))? else { return Ok(None) };
        let object = whole.map_or(object, Object::Memory);
        let numbers: Vec<u64> = (0..volume(&layout.counts)).collect();
        let entries = match layout.read_entries(&object, store, key, &numbers) {
            Ok(found) => found.entries,
            Err(ShardError::Damaged(detail)) => return Err(self.corrupt(key, detail)),
            Err(ShardError::Storage(e)) => return Err(e),
        };
        for (k, e) in entries.iter().enumerate().filter(|(_, e)| **e != Entry::MISSING) {
            let mut part = vec![0; e.len as usize];
            object.read(store, key, e.offset, &mut part)?;
            let failed = |e| self.corrupt(key, format!("its inner chunk {:?}: {e}", unravel(k as u64, &layout.counts)));
            layout.codec.check(part.into()).map_err(failed)?;
        }
        Ok(Some((size, sum)))
    }
}
