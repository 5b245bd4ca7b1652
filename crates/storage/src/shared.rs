//! Chunks in memory that belong to somebody else, too, such as a block: they are stored and read without a copy.

use crate::chunks::ArrayIo;
use crate::object::Object;
use crate::{ChunkWritten, StorageError};
use bytes::Bytes;
use chunkwise_types::Region;
use parking_lot::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// What the bytes of a chunk belong to.
pub type Owner = Arc<dyn Any + Send + Sync>;

/// The owners of objects of a store in memory, by their keys, with the bytes that are theirs.
#[derive(Default)]
pub(crate) struct Owners(Mutex<BTreeMap<String, (Bytes, Owner)>>);

impl Owners {
    pub fn put(&self, key: &str, data: Bytes, owner: Owner) {
        self.0.lock().insert(key.to_string(), (data, owner));
    }

    /// The owner of these very bytes: an object that was written again has others.
    pub fn of(&self, key: &str, data: &Bytes) -> Option<Owner> {
        let owners = self.0.lock();
        let (own, owner) = owners.get(key)?;
        (own.as_ptr() == data.as_ptr() && own.len() == data.len()).then(|| owner.clone())
    }

    /// Forgets an object, and all below it.
    pub fn forget(&self, key: &str) {
        let mut owners = self.0.lock();
        owners.remove(key);
        let below = if key.is_empty() { String::new() } else { format!("{key}/") };
        let gone: Vec<String> = owners.range(below.clone()..).map(|(k, _)| k.clone()).take_while(|k| k.starts_with(&below)).collect();
        gone.iter().for_each(|k| drop(owners.remove(k)));
    }
}

impl ArrayIo {
    /// True if its chunks can be stored and read without a copy: it is in memory, and they are stored as they are there.
    pub fn shares(&self) -> bool {
        self.0.raw && self.0.shard.is_none() && self.0.store.is_in_memory()
    }

    /// Stores a chunk as it is in memory, without a copy, if this is an array in memory whose chunks are stored so. `None` if it is not, or if the
    /// bytes are not those of a whole chunk: then nothing was written.
    ///
    /// # Errors
    /// When the store fails.
    pub fn put_shared(&self, index: &[u64], data: &Bytes, owner: &Owner) -> Result<Option<ChunkWritten>, StorageError> {
        let inner = &*self.0;
        if !self.shares() || data.len() != inner.codec.bytes {
            return Ok(None);
        }
        let key = self.chunk_key(index);
        inner.store.put_shared(&key, data.clone(), owner.clone())?;
        Ok(Some(ChunkWritten { key, bytes: data.len() as u64, xxh3: xxh3_64(data) }))
    }

    /// The owner of a chunk that holds a region, and the region of that chunk, if it was stored with [`ArrayIo::put_shared`].
    ///
    /// # Errors
    /// When the store fails.
    pub fn shared(&self, region: &Region) -> Result<Option<(Region, Owner)>, StorageError> {
        let inner = &*self.0;
        if !self.shares() || region.is_empty() {
            return Ok(None);
        }
        let touched = inner.meta.grid.touched(region);
        if touched.volume() != 1 {
            return Ok(None);
        }
        let key = self.chunk_key(&touched.start);
        let Some(Object::Memory(data)) = inner.store.open_object(&key)? else { return Ok(None) };
        let Some(owner) = inner.store.owner(&key, &data) else { return Ok(None) };
        inner.store.count_read(region.volume() * inner.meta.dtype.size());
        Ok(Some((inner.meta.grid.region(&touched.start), owner)))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{CodecChoice, Elements, Location, NewArray, Stores, new_meta};
    use chunkwise_types::DType;

    fn array(stores: &Stores, at: &str, codec: CodecChoice) -> ArrayIo {
        let new = NewArray::plain(DType::UInt8, &[4, 3], &[2, 3], codec);
        ArrayIo::new(stores, &Location::parse(at, None).unwrap(), &new_meta(&new).unwrap()).unwrap()
    }

    #[test]
    fn a_chunk_is_read_from_its_owner_until_it_is_written_again() {
        let stores = Stores::new();
        let io = array(&stores, "memory:a", CodecChoice::None);
        let (data, owner): (Bytes, Owner) = (Bytes::from(vec![1, 2, 3, 4, 5, 6]), Arc::new("mine"));
        let written = io.put_shared(&[1, 0], &data, &owner).unwrap().unwrap();
        assert_eq!(
            written,
            io.write_chunk(&[0, 0], Elements::whole(&data, &[2, 3])).map(|w| ChunkWritten { key: written.key.clone(), ..w }).unwrap()
        );
        let found = |start: [u64; 2], shape: [u64; 2]| io.shared(&Region::new(start, shape)).unwrap().map(|(region, _)| region);
        assert_eq!(found([3, 1], [1, 2]), Some(Region::new([2, 0], [2, 3])));
        // In two chunks, in one without an owner, and nothing.
        assert_eq!((found([1, 0], [2, 1]), found([0, 0], [1, 1]), found([2, 0], [0, 1])), (None, None, None));
        let mut out = [0; 12];
        io.read_region(&Region::new([0, 0], [4, 3]), &mut out).unwrap();
        assert_eq!(out, [1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6]);
        io.write_chunk(&[1, 0], Elements::whole(&data, &[2, 3])).unwrap();
        assert_eq!(found([3, 1], [1, 2]), None);
        io.put_shared(&[1, 0], &data, &owner).unwrap().unwrap();
        drop(data);
        assert_eq!(Arc::strong_count(&owner), 2);
        io.store().delete_prefix("").unwrap();
        assert_eq!((found([3, 1], [1, 2]), Arc::strong_count(&owner)), (None, 1));
    }

    #[test]
    fn what_is_encoded_or_elsewhere_has_no_owner() {
        let folder = tempfile::tempdir().unwrap();
        let (stores, owner): (Stores, Owner) = (Stores::new(), Arc::new(()));
        let data = Bytes::from(vec![7; 6]);
        for (at, codec) in [("memory:b", CodecChoice::Default), (folder.path().to_str().unwrap(), CodecChoice::None)] {
            assert_eq!(array(&stores, at, codec).put_shared(&[0, 0], &data, &owner).unwrap(), None);
        }
        assert_eq!(array(&stores, "memory:c", CodecChoice::None).put_shared(&[0, 0], &data.slice(1..), &owner).unwrap(), None);
    }
}
