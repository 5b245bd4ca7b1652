//! One object that is open for reading.

use crate::{StorageError, Store, local};
use bytes::Bytes;
use std::fs::File;

/// An object whose byte ranges can be had one after another: a local file, or one that is in memory as a whole.
pub(crate) enum Object {
    /// A file and its size.
    File(File, u64),
    /// The bytes.
    Memory(Bytes),
}

impl Object {
    /// The bytes of the object.
    pub fn len(&self) -> u64 {
        match self {
            Object::File(_, size) => *size,
            Object::Memory(data) => data.len() as u64,
        }
    }

    /// Fills `out` from a place in the object, and says how many bytes the store was asked for.
    pub fn read(&self, store: &Store, key: &str, at: u64, out: &mut [u8]) -> Result<u64, StorageError> {
        let short = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        let done = match self {
            Object::File(file, _) => {
                store.count_read(out.len() as u64);
                local::read_at(file, out, at).map(|()| out.len() as u64)
            }
            Object::Memory(data) => match usize::try_from(at).ok().and_then(|at| data.get(at..)?.get(..out.len())) {
                Some(from) => {
                    out.copy_from_slice(from);
                    Ok(0)
                }
                None => Err(short()),
            },
        };
        done.map_err(|e| StorageError::of_io("read", store.url(key), &e))
    }
}
