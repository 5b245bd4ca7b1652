//! Chunks that are being written: to object stores while the next ones are computed, into files several at a time.

use crate::boxes::Elements;
use crate::chunks::ArrayIo;
use crate::folder::Folder;
use crate::pending::Pending;
use crate::remote::Sent;
use crate::shared::Owner;
use crate::{ChunkWritten, StorageError};
use bytes::Bytes;
use std::collections::VecDeque;

/// Chunks that are being written, within a budget of encoded bytes. A value `T` belongs to each chunk and is returned when the chunk is
/// written.
///
/// If this is dropped, chunks that are not written yet may stay unwritten.
pub struct Uploads<T> {
    sent: VecDeque<(Pending<Sent>, u64, T)>,
    folder: Option<Open<T>>,
    done: Vec<(T, Option<String>)>,
    held: u64,
    budget: u64,
    puts: u64,
}

/// A folder whose chunks are being written, and the values that belong to them.
struct Open<T> {
    io: ArrayIo,
    folder: Folder,
    key: String,
    tags: Vec<T>,
}

/// The largest number of requests at once, however small the chunks are.
const MAX_REQUESTS: usize = 128;

impl<T: Clone> Uploads<T> {
    /// At most `budget` bytes at a time, or one larger chunk.
    pub fn new(budget: u64) -> Uploads<T> {
        Uploads { sent: VecDeque::new(), folder: None, done: Vec::new(), held: 0, budget, puts: 0 }
    }

    /// From now on, chunks appear together if they are files: all chunks of the row of `first`, which must be in a folder of their own.
    /// This has no effect if they are not, or if the folder exists already.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn begin(&mut self, io: &ArrayIo, first: &[u64]) -> Result<(), StorageError> {
        self.end()?;
        let key = io.chunk_key(first);
        let mut parts = key.rsplit('/').map(str::parse);
        let own = first.len() > 1 && first.iter().rev().take(2).all(|i| parts.next() == Some(Ok(*i)));
        let folder = if own { io.store().folder(&key)? } else { None };
        self.folder = folder.map(|folder| Open { io: io.clone(), folder, key, tags: Vec::new() });
        Ok(())
    }

    /// Makes the chunks visible that were sent since [`Uploads::begin`]. The next `begin` and [`Uploads::finish`] do the same.
    ///
    /// # Errors
    /// When they cannot.
    pub fn end(&mut self) -> Result<(), StorageError> {
        if let Some(Open { io, folder, key, tags }) = self.folder.take() {
            io.store().publish(folder, &key)?;
            self.done.extend(tags.into_iter().map(|tag| (tag, None)));
        }
        Ok(())
    }

    /// Encodes a chunk and starts to write it; see [`ArrayIo::write_chunk`]. Waits for older chunks while there is no room. In a filesystem
    /// the chunk is written when this returns, or at the [`end`](Uploads::end) of its folder. [`Uploads::written`] or [`Uploads::finish`]
    /// returns the value that belongs to the chunk.
    ///
    /// # Errors
    /// An error of this chunk or of one that was sent earlier.
    pub fn send(
        &mut self,
        io: &ArrayIo,
        index: &[u64],
        elements: Elements<'_>,
        tag: impl FnOnce(&ChunkWritten) -> T,
    ) -> Result<T, StorageError> {
        let (written, encoded) = io.encode_chunk(index, elements)?;
        let n = written.bytes;
        while !self.sent.is_empty() && (self.held + n > self.budget || self.sent.len() >= MAX_REQUESTS) {
            self.wait()?;
        }
        let tag = tag(&written);
        if let Some(Open { folder, tags, .. }) = &mut self.folder {
            io.store().put_in(folder, &written.key, &encoded)?;
            self.puts += 1;
            tags.push(tag.clone());
            return Ok(tag);
        }
        match io.store().start_put(&written.key, encoded)? {
            Some(pending) => {
                self.held += n;
                self.sent.push_back((pending, n, tag.clone()));
            }
            None => {
                // It is a file, or it stays in memory instead of going to an object store.
                self.puts += u64::from(!io.store().is_remote());
                self.done.push((tag.clone(), None));
            }
        }
        Ok(tag)
    }

    /// Stores a chunk without a copy, if it can be; see [`ArrayIo::put_shared`].
    ///
    /// # Errors
    /// When the store fails.
    pub fn share(
        &mut self,
        io: &ArrayIo,
        index: &[u64],
        (data, owner): (&Bytes, &Owner),
        tag: impl FnOnce(&ChunkWritten) -> T,
    ) -> Result<Option<T>, StorageError> {
        let Some(written) = io.put_shared(index, data, owner)? else { return Ok(None) };
        let tag = tag(&written);
        self.puts += 1;
        self.done.push((tag.clone(), None));
        Ok(Some(tag))
    }

    fn wait(&mut self) -> Result<(), StorageError> {
        if let Some((pending, n, tag)) = self.sent.pop_front() {
            self.held -= n;
            let sent = pending.wait()?;
            self.puts += sent.requests;
            self.done.push((tag, sent.etag));
        }
        Ok(())
    }

    /// The chunks that were written since the last call, with the entity tags of object stores. This does not wait.
    ///
    /// # Errors
    /// When one could not be written.
    pub fn written(&mut self) -> Result<Vec<(T, Option<String>)>, StorageError> {
        while self.sent.front().is_some_and(|(pending, ..)| pending.is_done()) {
            self.wait()?;
        }
        Ok(std::mem::take(&mut self.done))
    }

    /// Waits until all chunks are written, and returns those that no call has returned yet.
    ///
    /// # Errors
    /// When one could not be written.
    pub fn finish(&mut self) -> Result<Vec<(T, Option<String>)>, StorageError> {
        self.end()?;
        while !self.sent.is_empty() {
            self.wait()?;
        }
        Ok(std::mem::take(&mut self.done))
    }

    /// The number of requests so far.
    pub fn puts(&self) -> u64 {
        self.puts
    }
}
