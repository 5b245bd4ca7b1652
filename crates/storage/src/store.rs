//! Objects by key under a location. Calls block; requests run on one small shared runtime.

use crate::object::Object;
use crate::{Location, MemoryTier, StorageError, local};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

type Handle = Arc<dyn ObjectStore>;

static RUNTIME: LazyLock<Result<tokio::runtime::Runtime, String>> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name("storage").enable_all().build().map_err(|e| e.to_string())
});
static HANDLES: LazyLock<Mutex<HashMap<String, Handle>>> = LazyLock::new(|| Mutex::new(HashMap::new()));
static COUNTS: [AtomicU64; 5] = [const { AtomicU64::new(0) }; 5];

/// Bytes of ranges that are fetched from an object store at a time.
const BATCH: u64 = 16 << 20;

/// Requests and bytes of this process so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Objects or ranges read.
    pub gets: u64,
    /// Objects written.
    pub puts: u64,
    /// Listings.
    pub lists: u64,
    /// Encoded bytes read.
    pub bytes_read: u64,
    /// Encoded bytes written.
    pub bytes_written: u64,
}

/// A folder of objects.
#[derive(Clone)]
pub struct Store {
    handle: Handle,
    prefix: String,
    location: Location,
    memory: Option<Arc<MemoryTier>>,
}

fn count(which: usize, n: u64) {
    COUNTS[which].fetch_add(n, Ordering::Relaxed);
}

fn open_handle(scheme: &str, bucket: &str) -> Result<Handle, object_store::Error> {
    Ok(match scheme {
        "memory" => Arc::new(object_store::memory::InMemory::new()),
        "s3" => {
            // Only prefixed variables: an unprefixed TIMEOUT of another program must not change how we open a bucket.
            Arc::new(object_store::aws::AmazonS3Builder::from_env().with_bucket_name(bucket).build()?)
        }
        _ => Arc::new(object_store::local::LocalFileSystem::new()),
    })
}

impl Store {
    /// Opens the folder; it need not exist.
    pub fn open(location: &Location) -> Result<Store, StorageError> {
        let url = location.as_str();
        let (scheme, rest) = url.split_once("://").unwrap_or(("file", url));
        let (bucket, prefix) = if scheme == "s3" { rest.split_once('/').unwrap_or((rest, "")) } else { ("", rest) };
        let key = format!("{scheme}://{bucket}");
        let mut handles = HANDLES.lock();
        let handle = match handles.get(&key) {
            Some(h) => h.clone(),
            None => {
                let h = open_handle(scheme, bucket).map_err(|e| StorageError::Url { url: url.into(), problem: e.to_string() })?;
                handles.insert(key, h.clone());
                h
            }
        };
        Ok(Store { handle, prefix: prefix.trim_matches('/').to_string(), location: location.clone(), memory: None })
    }

    /// The same folder, whose objects stay in memory while there is room.
    pub fn with_memory(self, tier: Arc<MemoryTier>) -> Store {
        Store { memory: Some(tier), ..self }
    }

    fn held(&self, key: &str) -> Option<Bytes> {
        self.memory.as_ref()?.get(&self.url(key))
    }

    /// The requests and bytes of this process so far.
    pub fn counters() -> Counters {
        let at = |i: usize| COUNTS[i].load(Ordering::Relaxed);
        Counters { gets: at(0), puts: at(1), lists: at(2), bytes_read: at(3), bytes_written: at(4) }
    }

    fn key(&self, key: &str) -> Result<Key, StorageError> {
        let full = if key.is_empty() { self.prefix.clone() } else { format!("{}/{key}", self.prefix) };
        Key::parse(full.trim_matches('/')).map_err(|e| StorageError::Url { url: self.url(key), problem: e.to_string() })
    }

    /// The file of a key, if this is the local filesystem.
    fn file(&self, key: &str) -> Option<PathBuf> {
        let folder = self.location.local_path()?;
        Some(if key.is_empty() { folder } else { folder.join(key) })
    }

    /// The URL of a key.
    pub fn url(&self, key: &str) -> String {
        self.location.join(key).to_string()
    }

    fn wait<T>(&self, action: &'static str, key: &str, f: impl Future<Output = Result<T, object_store::Error>>) -> Result<T, StorageError> {
        let runtime = RUNTIME.as_ref().map_err(|e| StorageError::Store {
            action,
            url: self.url(key),
            detail: format!("the runtime cannot start: {e}"),
            transient: false,
        })?;
        runtime.block_on(f).map_err(|e| StorageError::of(action, self.url(key), &e, self.location.local_path().is_some()))
    }

    /// An object, `None` if there is none.
    pub fn get(&self, key: &str) -> Result<Option<Bytes>, StorageError> {
        if let Some(data) = self.held(key) {
            return Ok(Some(data));
        }
        let path = self.key(key)?;
        count(0, 1);
        if let Some(file) = self.file(key) {
            return match std::fs::read(&file) {
                Ok(data) => {
                    count(3, data.len() as u64);
                    Ok(Some(data.into()))
                }
                Err(e) if local::is_missing(&e) => Ok(None),
                Err(e) => Err(StorageError::of_io("read", self.url(key), &e)),
            };
        }
        match self.wait("read", key, async { self.handle.get(&path).await?.bytes().await }) {
            Ok(data) => {
                count(3, data.len() as u64);
                Ok(Some(data))
            }
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Opens an object for reading, `None` if there is none. What is not a local file is read into memory.
    pub(crate) fn open_object(&self, key: &str) -> Result<Option<Object>, StorageError> {
        let Some(file) = self.file(key).filter(|_| self.held(key).is_none()) else {
            return Ok(self.get(key)?.map(Object::Memory));
        };
        count(0, 1);
        let opened = local::open(&file).map_err(|e| StorageError::of_io("read", self.url(key), &e))?;
        Ok(opened.map(|(file, size)| Object::File(file, size)))
    }

    /// Counts bytes that were read from an open object.
    pub(crate) fn count_read(&self, bytes: u64) {
        count(3, bytes);
    }

    /// The size of an object, `None` if there is none.
    pub fn size(&self, key: &str) -> Result<Option<u64>, StorageError> {
        if let Some(data) = self.held(key) {
            return Ok(Some(data.len() as u64));
        }
        let path = self.key(key)?;
        count(0, 1);
        if let Some(file) = self.file(key) {
            return match std::fs::metadata(&file) {
                Ok(m) => Ok(m.is_file().then_some(m.len())),
                Err(e) if local::is_missing(&e) => Ok(None),
                Err(e) => Err(StorageError::of_io("read", self.url(key), &e)),
            };
        }
        match self.wait("read", key, self.handle.head(&path)) {
            Ok(meta) => Ok(Some(meta.size)),
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Reads byte ranges of an object, each to its place in `out`. False if there is no such object.
    pub fn read_spans(&self, key: &str, spans: &[(Range<u64>, usize)], out: &mut [u8]) -> Result<bool, StorageError> {
        if let Some(data) = self.held(key) {
            for (range, at) in spans {
                let (Ok(start), Ok(end)) = (usize::try_from(range.start), usize::try_from(range.end)) else { continue };
                let piece = data.get(start..end).ok_or_else(|| {
                    let e = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                    StorageError::of_io("read", self.url(key), &e)
                })?;
                out[*at..*at + piece.len()].copy_from_slice(piece);
            }
            return Ok(true);
        }
        let path = self.key(key)?;
        count(0, 1);
        count(3, spans.iter().map(|(r, _)| r.end - r.start).sum());
        if let Some(file) = self.file(key) {
            return match local::read_spans(&file, spans, out) {
                Ok(()) => Ok(true),
                Err(e) if local::is_missing(&e) => Ok(false),
                Err(e) => Err(StorageError::of_io("read", self.url(key), &e)),
            };
        }
        // What is in flight is held beside the destination, so a batch is bounded.
        let mut rest = spans;
        while !rest.is_empty() {
            let ends = rest.iter().scan(0, |sum, (r, _)| {
                *sum += r.end - r.start;
                Some(*sum)
            });
            let n = ends.take_while(|&bytes| bytes <= BATCH).count().max(1);
            let ranges: Vec<Range<u64>> = rest[..n].iter().map(|(r, _)| r.clone()).collect();
            match self.wait("read", key, self.handle.get_ranges(&path, &ranges)) {
                Ok(data) => {
                    for (piece, (_, at)) in data.iter().zip(&rest[..n]) {
                        out[*at..*at + piece.len()].copy_from_slice(piece);
                    }
                }
                Err(StorageError::NotFound { .. }) => return Ok(false),
                Err(e) => return Err(e),
            }
            rest = &rest[n..];
        }
        Ok(true)
    }

    /// Writes an object, whole or not at all.
    pub fn put<'a>(&self, key: &str, data: impl Into<Cow<'a, [u8]>>) -> Result<(), StorageError> {
        let (path, mut data) = (self.key(key)?, data.into());
        if let Some(tier) = &self.memory {
            let plain = Store { memory: None, ..self.clone() };
            match tier.put(&plain, key, data) {
                Ok(()) => return Ok(()),
                Err(back) => data = back,
            }
        }
        count(1, 1);
        count(4, data.len() as u64);
        if let Some(file) = self.file(key) {
            return local::write(&file, &data).map_err(|e| StorageError::of_io("write", self.url(key), &e));
        }
        let data = Bytes::from(data.into_owned());
        self.wait("write", key, async { self.handle.put(&path, data.into()).await.map(|_| ()) })
    }

    /// Removes the unfinished writes of processes that were killed. Object stores have none.
    pub fn sweep(&self) -> Result<(), StorageError> {
        match self.file("") {
            Some(folder) => local::sweep(&folder).map_err(|e| StorageError::of_io("delete", self.url(""), &e)),
            None => Ok(()),
        }
    }

    /// Deletes an object; it need not exist.
    pub fn delete(&self, key: &str) -> Result<(), StorageError> {
        let path = self.key(key)?;
        if let Some(tier) = &self.memory {
            tier.delete(&self.url(key));
        }
        match self.wait("delete", key, self.handle.delete(&path)) {
            Err(StorageError::NotFound { .. }) => Ok(()),
            other => other,
        }
    }

    /// Deletes everything below a key, and says how many objects that was.
    pub fn delete_prefix(&self, key: &str) -> Result<u64, StorageError> {
        let path = self.key(key)?;
        if let Some(tier) = &self.memory {
            tier.list(&self.url(key)).iter().for_each(|(url, _)| tier.delete(url));
        }
        count(2, 1);
        let n = self.wait("delete", key, async {
            let found = self.handle.list(Some(&path)).map_ok(|m| m.location).boxed();
            self.handle.delete_stream(found).try_fold(0u64, |n, _| async move { Ok(n + 1) }).await
        })?;
        if let Some(folder) = self.location.local_path() {
            // Object stores have no folders; the empty ones that a filesystem keeps would look like arrays.
            let folder = if key.is_empty() { folder } else { folder.join(key) };
            let _ = std::fs::remove_dir_all(folder);
        }
        Ok(n)
    }

    /// Every object below a key with its size; keys are relative to this store.
    pub fn list(&self, key: &str) -> Result<Vec<(String, u64)>, StorageError> {
        let path = self.key(key)?;
        count(2, 1);
        let found: Vec<_> = self.wait("list", key, self.handle.list(Some(&path)).try_collect())?;
        let skip = if self.prefix.is_empty() { 0 } else { self.prefix.len() + 1 };
        let mut out: HashMap<String, u64> = found
            .into_iter()
            .filter_map(|m: object_store::ObjectMeta| Some((m.location.as_ref().get(skip..)?.to_string(), m.size)))
            .collect();
        if let Some(tier) = &self.memory {
            let base = self.url("").len() + 1;
            out.extend(tier.list(&self.url(key)).into_iter().filter_map(|(url, n)| Some((url.get(base..)?.to_string(), n))));
        }
        Ok(out.into_iter().collect())
    }

    /// The names of the folders directly below a key.
    pub fn list_dirs(&self, key: &str) -> Result<Vec<String>, StorageError> {
        let path = self.key(key)?;
        count(2, 1);
        let found = self.wait("list", key, self.handle.list_with_delimiter(Some(&path)))?;
        Ok(found.common_prefixes.iter().filter_map(|p| p.filename().map(String::from)).collect())
    }
}
