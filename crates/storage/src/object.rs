//! An object that is open for reading.

use crate::{StorageError, Store, local};
use bytes::Bytes;
use std::fs::File;

/// An object whose byte ranges can be read one after another.
pub(crate) enum Object {
    /// A file, or a part of one: where it begins, and its bytes.
    File { file: File, at: u64, len: u64 },
    /// The bytes.
    Memory(Bytes),
    /// The size of an object in an object store. Its ranges are requested one by one.
    Remote(u64),
}

impl Object {
    /// The bytes of the object.
    pub fn len(&self) -> u64 {
        match self {
            Object::File { len, .. } | Object::Remote(len) => *len,
            Object::Memory(data) => data.len() as u64,
        }
    }

    /// Fills `out` from a position in the object, and returns how many bytes that was.
    pub fn read(&self, store: &Store, key: &str, at: u64, out: &mut [u8]) -> Result<u64, StorageError> {
        let failed = |e| StorageError::of_io("read", store.url(key), &e);
        match self {
            Object::File { file, at: start, len } => {
                // The bytes behind a part belong to something else.
                if at.saturating_add(out.len() as u64) > *len {
                    return Err(failed(std::io::ErrorKind::UnexpectedEof.into()));
                }
                store.count_read(out.len() as u64);
                local::read_at(file, out, start + at).map_err(failed)?;
            }
            Object::Memory(data) => {
                let from = usize::try_from(at).ok().and_then(|at| data.get(at..)?.get(..out.len()));
                out.copy_from_slice(from.ok_or_else(|| failed(std::io::ErrorKind::UnexpectedEof.into()))?);
                // A chunk that is kept in memory was read before.
                if store.is_in_memory() {
                    store.count_read(out.len() as u64);
                }
            }
            Object::Remote(_) => store.read_range(key, at, out)?,
        }
        Ok(out.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::{Location, MemoryTier, Stores};

    #[test]
    fn ranges_are_the_same_wherever_the_object_is() {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::parse(folder.path().to_str().unwrap(), None).unwrap();
        let (tier, plain) = (MemoryTier::new(1000), Stores::new().open(&location).unwrap());
        let data: Vec<u8> = (0..=255).collect();
        plain.put("file", &data[..]).unwrap();
        plain.clone().with_memory(tier.clone()).put("held", &data[..]).unwrap();
        assert_eq!(plain.size("held").unwrap(), None);
        let store = plain.with_memory(tier);
        for key in ["file", "held"] {
            let object = store.open_object(key).unwrap().unwrap();
            assert_eq!(object.len(), 256);
            for (at, n) in [(0, 3), (10, 100), (253, 3), (256, 0)] {
                let mut out = vec![9; n];
                object.read(&store, key, at, &mut out).unwrap();
                assert_eq!(out, data[at as usize..][..n], "{key} {at} {n}");
            }
            assert!(object.read(&store, key, 254, &mut [0; 3]).is_err());
            assert!(object.read(&store, key, 1 << 60, &mut [0; 3]).is_err());
        }
        assert!(store.open_object("neither").unwrap().is_none());
    }
}
