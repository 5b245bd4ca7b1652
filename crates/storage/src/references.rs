//! An array whose chunks are parts of another file, such as one of HDF5: a file of JSON has its metadata, and a list of where its chunks are.
//!
//! The list says how long the other file was and when it was written. So a file that has changed since is not read at old places.

use crate::input::Stamp;
use crate::world::{in_words, nanoseconds};
use crate::{Location, StorageError, Stores, local};
use bytes::Bytes;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the name of such a file ends.
const SUFFIX: &str = ".references";
/// Bytes of such a file at most: the list is held in memory.
const LARGEST: u64 = 16 << 20;
/// Lists that a handle keeps.
const KEPT: usize = 16;
/// The key of the metadata.
const DOCUMENT: &str = ".zarray";

/// The lists that were read last, by their files.
pub(crate) type Known = Mutex<Vec<(PathBuf, Arc<References>)>>;

/// Lists without files: what would be in them, by their places. Handles to which it is given read these as if the files were there. A data
/// set may consist of thousands of files, and on many file systems it takes a millisecond to make one more for each.
#[derive(Debug, Clone, Default)]
pub struct HeldReferences(Arc<Mutex<HashMap<PathBuf, Arc<References>>>>);

impl HeldReferences {
    /// Holds the content of a local file, which need not exist.
    ///
    /// # Errors
    /// When it is no list of chunks, or the place is not local.
    pub fn hold(&self, location: &Location, content: &[u8]) -> Result<(), StorageError> {
        let bad = |problem: String| StorageError::Url { url: location.to_string(), problem };
        let at = location.local_path().ok_or_else(|| bad("lists of chunks are in local files".into()))?;
        self.0.lock().insert(at, Arc::new(References::parse(content).map_err(bad)?));
        Ok(())
    }

    fn get(&self, at: &Path) -> Option<Arc<References>> {
        self.0.lock().get(at).cloned()
    }
}

/// The content of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
    /// The file with the chunks.
    path: PathBuf,
    /// Its bytes.
    size: u64,
    /// When it was written, by its own time: nanoseconds since 1970.
    modified: u64,
    /// The metadata of the array, of Zarr v2.
    metadata: Box<RawValue>,
    /// For each key the position in the file, and the number of bytes.
    chunks: HashMap<Box<str>, (u64, u64)>,
}

/// An array with its chunks in another file.
#[derive(Debug)]
pub(crate) struct References {
    list: Listed,
}

/// A chunk in the file.
pub(crate) struct Part<'a> {
    of: &'a References,
    at: u64,
    pub len: u64,
}

impl References {
    /// What a location is, if it is such a file, or one of those that are `held`.
    pub fn of(
        stores: &Stores,
        location: &Location,
        known: &Known,
        held: Option<&HeldReferences>,
    ) -> Result<Option<Arc<References>>, StorageError> {
        let Some(at) = location.local_path().filter(|_| location.as_str().ends_with(SUFFIX)) else { return Ok(None) };
        if let Some((_, found)) = known.lock().iter().find(|(of, _)| *of == at) {
            return Ok(Some(found.clone()));
        }
        if let Some(found) = held.and_then(|held| held.get(&at)) {
            found.check_allowed(stores)?;
            return Ok(Some(found));
        }
        // A folder may have such a name.
        if !at.is_file() {
            return Ok(None);
        }
        let url = location.to_string();
        let Some((data, _)) = local::read(&at, LARGEST).map_err(|e| StorageError::of_io("read", url.clone(), &e))? else {
            return Ok(None);
        };
        let bad = |problem: String| StorageError::Url { url: url.clone(), problem };
        let data = data.map_err(|size| bad(format!("the list of chunks has {size} bytes, and at most {LARGEST} are read")))?;
        let found = Arc::new(References::parse(&data).map_err(bad)?);
        found.check_allowed(stores)?;
        let mut known = known.lock();
        if known.len() >= KEPT {
            known.remove(0);
        }
        known.push((at, found.clone()));
        Ok(Some(found))
    }

    fn parse(content: &[u8]) -> Result<References, String> {
        let list: Listed = serde_json::from_slice(content).map_err(|e| format!("it is no list of chunks: {e}"))?;
        if list.chunks.values().any(|(at, len)| at.saturating_add(*len) > list.size) {
            return Err("it is no list of chunks: one of them is not in its file".into());
        }
        if list.path.to_str().is_none() || !list.path.is_absolute() {
            return Err("it is no list of chunks: the path of the file is not absolute".into());
        }
        Ok(References { list })
    }

    /// Checks that a handle may read the file with the chunks.
    fn check_allowed(&self, stores: &Stores) -> Result<(), StorageError> {
        stores.check_allowed(&Location::parse(&self.list.path.to_string_lossy(), None)?)
    }

    /// The metadata, if that is its key. Its state is that of the file with the chunks, whenever the list was made.
    pub fn document(&self, key: &str) -> Option<(Bytes, Stamp)> {
        let stamp = Stamp { size: self.list.size, modified: self.list.modified, etag: None };
        (key == DOCUMENT).then(|| (Bytes::copy_from_slice(self.list.metadata.get().as_bytes()), stamp))
    }

    /// Where a chunk is.
    pub fn part(&self, key: &str) -> Option<Part<'_>> {
        self.list.chunks.get(key).map(|&(at, len)| Part { of: self, at, len })
    }

    /// The keys of all chunks, each with its bytes.
    pub fn chunks(&self) -> impl Iterator<Item = (String, u64)> {
        self.list.chunks.iter().map(|(key, &(_, len))| (key.to_string(), len))
    }

    /// All keys, each with its bytes.
    pub fn keys(&self) -> impl Iterator<Item = (String, u64)> {
        std::iter::once((DOCUMENT.into(), self.list.metadata.get().len() as u64)).chain(self.chunks())
    }

    /// True if the file was written after a time, in nanoseconds since 1970.
    pub fn newer(&self, time: u64) -> bool {
        std::fs::metadata(&self.list.path).is_ok_and(|meta| Stamp::of_file(&meta).modified > time)
    }

    fn url(&self) -> String {
        format!("file://{}", self.list.path.display())
    }

    fn failed(&self, e: &std::io::Error) -> StorageError {
        StorageError::of_io("read", self.url(), e)
    }
}

impl Part<'_> {
    /// The file, where in it the chunk begins, and the metadata of the file.
    pub fn open(&self) -> Result<(File, u64, Metadata), StorageError> {
        let References { list, .. } = self.of;
        let Some((file, meta)) = local::open(&list.path).map_err(|e| self.of.failed(&e))? else {
            return Err(StorageError::InputGone { url: self.of.url(), machine: in_words() });
        };
        if meta.len() != list.size || meta.modified().map_or(0, nanoseconds) != list.modified {
            let detail = "it was written after the program had opened it; open it again".into();
            return Err(StorageError::InputChanged { url: self.of.url(), detail });
        }
        Ok((file, self.at, meta))
    }

    /// Its bytes, with the metadata of the file.
    pub fn read(&self) -> Result<(Bytes, Metadata), StorageError> {
        let (mut file, at, meta) = self.open()?;
        let mut data = Vec::with_capacity(usize::try_from(self.len).unwrap_or(0));
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| file.take(self.len).read_to_end(&mut data));
        let read = read.map_err(|e| self.of.failed(&e))? as u64;
        if read == self.len { Ok((data.into(), meta)) } else { Err(self.of.failed(&std::io::ErrorKind::UnexpectedEof.into())) }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use serde_json::json;

    /// A file of 100 bytes, and a list of parts of it.
    fn listed(of: &Path) -> (PathBuf, Location) {
        let (file, list) = (of.join("x.h5"), of.join("t.references"));
        std::fs::write(&file, (0..100).collect::<Vec<u8>>()).unwrap();
        let modified = nanoseconds(std::fs::metadata(&file).unwrap().modified().unwrap());
        let chunks = json!({"0.0": [10, 20], "1.0": [90, 10]});
        let content = json!({"path": file, "size": 100, "modified": modified, "metadata": {"zarr_format": 2}, "chunks": chunks});
        std::fs::write(&list, content.to_string()).unwrap();
        (file, Location::parse(list.to_str().unwrap(), None).unwrap())
    }

    #[test]
    fn chunks_are_parts_of_a_file() {
        let temp = tempfile::tempdir().unwrap();
        let (file, location) = listed(temp.path());
        let store = Stores::new().open(&location).unwrap();
        assert_eq!(store.get("0.0").unwrap().unwrap(), (10..30).collect::<Vec<u8>>());
        assert_eq!(store.get(".zarray").unwrap().unwrap(), r#"{"zarr_format":2}"#);
        assert_eq!((store.get("zarr.json").unwrap(), store.get_stamped(".zattrs").unwrap().is_none()), (None, true));
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
        assert_eq!(listed.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), [".zarray", "0.0", "1.0"]);
        assert!(store.put("0.0", &b"x"[..]).unwrap_err().to_string().contains("only be read"));
        std::fs::write(&file, "another").unwrap();
        assert!(matches!(store.get("0.0"), Err(StorageError::InputChanged { .. })));
        std::fs::remove_file(&file).unwrap();
        assert!(matches!(store.open_object("0.0"), Err(StorageError::InputGone { .. })));
    }

    #[test]
    fn lists_need_no_file() {
        let temp = tempfile::tempdir().unwrap();
        let (_, location) = listed(temp.path());
        let list = location.local_path().unwrap();
        let content = std::fs::read(&list).unwrap();
        std::fs::remove_file(&list).unwrap();
        let held = HeldReferences::default();
        held.hold(&location, &content).unwrap();
        assert!(held.hold(&location, b"{}").unwrap_err().to_string().contains("no list of chunks"));
        let (stores, others) = (Stores::new(), Stores::new());
        stores.with_references(held.clone());
        assert_eq!(stores.open(&location).unwrap().get("0.0").unwrap().unwrap(), (10..30).collect::<Vec<u8>>());
        assert_eq!(others.open(&location).unwrap().get("0.0").unwrap(), None);
        let restricted = Stores::new();
        restricted.with_references(held);
        restricted.restrict(&[location.to_string()]).unwrap();
        assert!(restricted.open(&location).is_err());
    }

    #[test]
    fn the_state_of_an_input_is_that_of_its_file() {
        let temp = tempfile::tempdir().unwrap();
        let (_, location) = listed(temp.path());
        let stamp = || Stores::new().open(&location).unwrap().get_stamped(".zarray").unwrap().unwrap().1;
        let before = stamp();
        // Another program has listed the same file, or used the list again.
        let list = File::options().append(true).open(location.local_path().unwrap()).unwrap();
        list.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60)).unwrap();
        assert_eq!(stamp(), before);
    }

    #[test]
    fn parts_of_what_may_not_be_opened_are_refused() {
        let temp = tempfile::tempdir().unwrap();
        let (_, location) = listed(temp.path());
        let stores = Stores::new();
        stores.restrict(&[location.to_string()]).unwrap();
        assert!(stores.open(&location).err().unwrap().to_string().contains("x.h5"));
    }

    #[test]
    fn chunks_of_a_file_that_was_written_since_are_newer() {
        let temp = tempfile::tempdir().unwrap();
        let (file, location) = listed(temp.path());
        let store = Stores::new().open(&location).unwrap();
        let written = Stamp::of_file(&std::fs::metadata(file).unwrap()).modified;
        assert_eq!((store.newer(written).unwrap().len(), store.newer(written - 1).unwrap().len()), (0, 2));
    }

    #[test]
    fn a_folder_may_have_such_a_name() {
        let temp = tempfile::tempdir().unwrap();
        let at = Location::parse(temp.path().join("x.references").to_str().unwrap(), None).unwrap();
        let store = Stores::new().open(&at).unwrap();
        store.put("0.0", &b"abc"[..]).unwrap();
        assert_eq!(Stores::new().open(&at).unwrap().get("0.0").unwrap().unwrap(), "abc");
    }
}
