//! Chunks that are parts of another file, such as those of HDF5: a folder with the metadata of an array, and a list of where its chunks are.
//!
//! The list says how long the file was and when it was written. So a file that has changed since is not read at old places.

use crate::input::Stamp;
use crate::world::{in_words, nanoseconds};
use crate::{Location, StorageError, Stores, local};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

/// How the name of such a folder ends.
const SUFFIX: &str = ".references";
/// The name of the list in the folder.
const LIST: &str = "chunks.json";
/// Bytes of a list at most: it is held in memory.
const LARGEST: u64 = 16 << 20;
/// Lists that a handle keeps.
const KEPT: usize = 16;

/// The lists that were read last, by their folders.
pub(crate) type Known = Mutex<Vec<(PathBuf, Arc<References>)>>;

/// Where the chunks of an array are.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct References {
    /// The file.
    path: PathBuf,
    /// Bytes of the file.
    size: u64,
    /// When it was written, by its own time: nanoseconds since 1970.
    modified: u64,
    /// For each key the position in the file, and the number of bytes.
    chunks: HashMap<Box<str>, (u64, u64)>,
}

/// A chunk in the file.
pub(crate) struct Part<'a> {
    list: &'a References,
    at: u64,
    pub len: u64,
}

impl References {
    /// The list in a folder; `None` if it is a folder like others.
    pub fn of(stores: &Stores, location: &Location, known: &Known) -> Result<Option<Arc<References>>, StorageError> {
        let Some(folder) = location.local_path().filter(|_| location.as_str().ends_with(SUFFIX)) else { return Ok(None) };
        if let Some((_, found)) = known.lock().iter().find(|(of, _)| *of == folder) {
            return Ok(Some(found.clone()));
        }
        let url = location.join(LIST).to_string();
        let found = local::read(&folder.join(LIST), LARGEST).map_err(|e| StorageError::of_io("read", url.clone(), &e))?;
        let Some((data, _)) = found else { return Ok(None) };
        let bad = |problem: String| StorageError::Url { url: url.clone(), problem };
        let data = data.map_err(|size| bad(format!("the list of chunks has {size} bytes, and at most {LARGEST} are read")))?;
        let list: References = serde_json::from_slice(&data).map_err(|e| bad(format!("it is no list of chunks: {e}")))?;
        if list.chunks.values().any(|(at, len)| at.saturating_add(*len) > list.size) {
            return Err(bad("it is no list of chunks: one of them is not in its file".into()));
        }
        let path = list.path.to_str().filter(|_| list.path.is_absolute());
        let path = path.ok_or_else(|| bad("it is no list of chunks: the path of the file is not absolute".into()))?;
        stores.check_allowed(&Location::parse(path, None)?)?;
        let list = Arc::new(list);
        let mut known = known.lock();
        if known.len() >= KEPT {
            known.remove(0);
        }
        known.push((folder, list.clone()));
        Ok(Some(list))
    }

    /// Where a chunk is.
    pub fn part(&self, key: &str) -> Option<Part<'_>> {
        self.chunks.get(key).map(|&(at, len)| Part { list: self, at, len })
    }

    /// The keys of all chunks, each with its bytes.
    pub fn keys(&self) -> impl Iterator<Item = (&str, u64)> {
        self.chunks.iter().map(|(key, &(_, len))| (&**key, len))
    }

    /// True if the file was written after a time, in nanoseconds since 1970.
    pub fn newer(&self, time: u64) -> bool {
        std::fs::metadata(&self.path).is_ok_and(|meta| Stamp::of_file(&meta).modified > time)
    }

    fn url(&self) -> String {
        format!("file://{}", self.path.display())
    }

    fn failed(&self, e: &std::io::Error) -> StorageError {
        StorageError::of_io("read", self.url(), e)
    }
}

impl Part<'_> {
    /// The file, where in it the chunk begins, and the metadata of the file.
    pub fn open(&self) -> Result<(File, u64, Metadata), StorageError> {
        let list = self.list;
        let Some((file, meta)) = local::open(&list.path).map_err(|e| list.failed(&e))? else {
            return Err(StorageError::InputGone { url: list.url(), machine: in_words() });
        };
        if meta.len() != list.size || meta.modified().map_or(0, nanoseconds) != list.modified {
            let detail = "it was written after the program had opened it; open it again".into();
            return Err(StorageError::InputChanged { url: list.url(), detail });
        }
        Ok((file, self.at, meta))
    }

    /// Its bytes, with the metadata of the file.
    pub fn read(&self) -> Result<(Bytes, Metadata), StorageError> {
        let (mut file, at, meta) = self.open()?;
        let mut data = Vec::with_capacity(usize::try_from(self.len).unwrap_or(0));
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.take(self.len).read_to_end(&mut data));
        let read = read.map_err(|e| self.list.failed(&e))? as u64;
        if read == self.len { Ok((data.into(), meta)) } else { Err(self.list.failed(&std::io::ErrorKind::UnexpectedEof.into())) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;
    use std::path::Path;

    /// A file of 100 bytes, and a folder with parts of it.
    fn folder(of: &Path) -> (PathBuf, Location) {
        let (file, folder) = (of.join("x.h5"), of.join("t.references"));
        std::fs::write(&file, (0..100).collect::<Vec<u8>>()).unwrap();
        std::fs::create_dir(&folder).unwrap();
        let modified = nanoseconds(std::fs::metadata(&file).unwrap().modified().unwrap());
        let list = json!({"path": file, "size": 100, "modified": modified, "chunks": {"0.0": [10, 20], "1.0": [90, 10]}});
        std::fs::write(folder.join(LIST), list.to_string()).unwrap();
        std::fs::write(folder.join(".zarray"), "{}").unwrap();
        (file, Location::parse(folder.to_str().unwrap(), None).unwrap())
    }

    #[test]
    fn chunks_are_parts_of_a_file() {
        let temp = tempfile::tempdir().unwrap();
        let (file, location) = folder(temp.path());
        let store = Stores::new().open(&location).unwrap();
        assert_eq!(store.get("0.0").unwrap().unwrap(), (10..30).collect::<Vec<u8>>());
        assert_eq!(store.get(".zarray").unwrap().unwrap(), "{}");
        assert_eq!((store.get("0.1").unwrap(), store.size("0.1").unwrap(), store.size("1.0").unwrap()), (None, None, Some(10)));
        assert!(store.get_at_most("0.0", 19).unwrap_err().to_string().contains("20 bytes"));
        let object = store.open_object("1.0").unwrap().unwrap();
        let mut out = [0; 4];
        object.read(&store, "1.0", 6, &mut out).unwrap();
        assert_eq!((object.len(), out), (10, [96, 97, 98, 99]));
        // What is behind a part belongs to something else.
        let object = store.open_object("0.0").unwrap().unwrap();
        assert!(object.read(&store, "0.0", 17, &mut out).is_err());
        let mut listed = store.list("").unwrap();
        listed.sort();
        assert_eq!(listed.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), [".zarray", "0.0", "1.0", LIST]);
        assert!(store.put("0.0", &b"x"[..]).unwrap_err().to_string().contains("only be read"));
        std::fs::write(&file, "another").unwrap();
        assert!(matches!(store.get("0.0"), Err(StorageError::InputChanged { .. })));
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(store.open_object("0.0"), Err(StorageError::InputGone { .. })));
    }

    #[test]
    fn parts_of_what_may_not_be_opened_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let (_, location) = folder(temp.path());
        let stores = Stores::new();
        stores.restrict(&[location.to_string()]).unwrap();
        assert!(stores.open(&location).err().unwrap().to_string().contains("x.h5"));
    }

    #[test]
    fn chunks_of_a_file_that_was_written_since_are_newer() {
        let temp = tempfile::tempdir().unwrap();
        let (file, location) = folder(temp.path());
        let store = Stores::new().open(&location).unwrap();
        let written = Stamp::of_file(&std::fs::metadata(file).unwrap()).modified;
        let newer = |time: u64| store.newer(time).unwrap().into_iter().filter(|key| key.ends_with(".0")).count();
        assert_eq!((newer(written), newer(written - 1)), (0, 2));
    }
}
