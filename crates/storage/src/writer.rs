//! Writes an object piece by piece, so that it need not fit into memory. It appears as a whole, or not at all.

use crate::{StorageError, Store, local};
use object_store::{MultipartUpload, ObjectStoreExt};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

/// Bytes that are sent to an object store at once. All parts but the last must have at least 5 MiB.
const PIECE: usize = 8 << 20;

enum To {
    /// A file that has another name until it is whole.
    File { file: BufWriter<File>, staged: PathBuf, path: PathBuf },
    /// An object store, with bytes that are not sent yet.
    Object { upload: Option<Box<dyn MultipartUpload>>, held: Vec<u8> },
}

/// An object that is being written. If it is not finished, nothing of it is left.
pub struct ObjectWriter {
    store: Store,
    key: String,
    to: To,
    finished: bool,
}

impl Store {
    /// Starts to write an object.
    ///
    /// # Errors
    /// When nothing can be written there.
    pub fn writer(&self, key: &str) -> Result<ObjectWriter, StorageError> {
        let to = match self.file(key) {
            Some(path) => {
                let staged = local::staging(&path);
                let folder = path.parent().unwrap_or(&path);
                let made = std::fs::create_dir_all(folder).and_then(|()| File::options().write(true).create_new(true).open(&staged));
                let file = BufWriter::new(made.map_err(|e| StorageError::of_io("write", self.url(key), &e))?);
                To::File { file, staged, path }
            }
            None => To::Object { upload: None, held: Vec::new() },
        };
        Ok(ObjectWriter { store: self.clone(), key: key.into(), to, finished: false })
    }
}

/// Sends the collected bytes.
fn send(store: &Store, key: &str, upload: &mut Option<Box<dyn MultipartUpload>>, held: &mut Vec<u8>) -> Result<(), StorageError> {
    let upload = match upload {
        Some(upload) => upload,
        None => {
            let path = store.key(key)?;
            upload.insert(store.wait("write", key, store.remote.store.put_multipart(&path))?)
        }
    };
    let part = upload.put_part(std::mem::take(held).into());
    store.wait("write", key, part)
}

impl ObjectWriter {
    /// Appends bytes.
    ///
    /// # Errors
    /// When the store fails.
    pub fn write(&mut self, data: &[u8]) -> Result<(), StorageError> {
        let ObjectWriter { store, key, to, .. } = self;
        match to {
            To::File { file, .. } => file.write_all(data).map_err(|e| StorageError::of_io("write", store.url(key), &e)),
            To::Object { upload, held } => {
                held.extend_from_slice(data);
                if held.len() >= PIECE { send(store, key, upload, held) } else { Ok(()) }
            }
        }
    }

    /// Makes the object visible.
    ///
    /// # Errors
    /// When the store fails.
    pub fn finish(mut self) -> Result<(), StorageError> {
        let ObjectWriter { store, key, to, .. } = &mut self;
        match to {
            To::File { file, staged, path } => {
                let done = file.flush().and_then(|()| std::fs::rename(&*staged, &*path));
                done.map_err(|e| StorageError::of_io("write", store.url(key), &e))?;
            }
            To::Object { upload: None, held } => store.put(key, Cow::Owned(std::mem::take(held)))?,
            To::Object { upload, held } => {
                if !held.is_empty() {
                    send(store, key, upload, held)?;
                }
                if let Some(upload) = upload {
                    store.wait("write", key, upload.complete())?;
                }
            }
        }
        self.finished = true;
        Ok(())
    }
}

impl Drop for ObjectWriter {
    fn drop(&mut self) {
        if self.finished {
            return;
        }
        let ObjectWriter { store, key, to, .. } = self;
        match to {
            To::File { staged, .. } => {
                let _ = std::fs::remove_file(staged);
            }
            To::Object { upload: Some(upload), .. } => {
                let _ = store.wait("write", key, upload.abort());
            }
            To::Object { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Location, Stores};

    fn writes(url: &str) {
        let store = Stores::new().open(&Location::parse(url, None).unwrap()).unwrap();
        let line = vec![b'x'; 3 << 20];
        for pieces in [0, 1, 7] {
            let mut writer = store.writer("deep/object").unwrap();
            (0..pieces).for_each(|_| writer.write(&line).unwrap());
            // The object does not exist before it is whole, and the old one stays until then.
            let before = store.size("deep/object").unwrap();
            assert_ne!(before, Some((pieces * line.len()) as u64));
            writer.finish().unwrap();
            assert_eq!(store.get("deep/object").unwrap().unwrap().len(), pieces * line.len());
        }
        drop(store.writer("deep/other").unwrap());
        assert_eq!(store.everything().unwrap(), ["deep/object"]);
    }

    #[test]
    fn whole_or_not_at_all() {
        writes("memory:writer");
        let folder = tempfile::tempdir().unwrap();
        writes(folder.path().to_str().unwrap());
    }
}
