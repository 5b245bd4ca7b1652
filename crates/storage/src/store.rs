//! Objects by key below a location. Calls block. Requests run on one small shared runtime.

use crate::counters::Count;
use crate::folder::Folder;
use crate::input::{self, InputWatch, Stamp};
use crate::object::Object;
use crate::references::References;
use crate::remote::{self, Fetched, Remote};
use crate::shared::Owner;
use crate::{Location, MemoryTier, StorageError, Stores, local};
use bytes::Bytes;
use chunkwise_types::PROGRAM_SCHEME;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;
use object_store::path::Path as Key;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

pub(crate) static RUNTIME: LazyLock<Result<tokio::runtime::Runtime, String>> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).thread_name("storage").enable_all().build().map_err(|e| e.to_string())
});

/// The number of objects on a page of a listing.
const PAGE: u64 = 1000;

/// A folder of objects.
#[derive(Clone)]
pub struct Store {
    stores: Stores,
    pub(crate) remote: Arc<Remote>,
    prefix: String,
    pub(crate) location: Location,
    pub(crate) memory: Option<Arc<MemoryTier>>,
    /// For inputs: objects that were written after the run began must not be read.
    watch: Option<Arc<InputWatch>>,
    /// If its chunks are parts of another file.
    references: Option<Arc<References>>,
}

impl Store {
    /// A folder in an open store.
    pub(crate) fn new(stores: Stores, remote: Arc<Remote>, location: &Location, references: Option<Arc<References>>) -> Store {
        let prefix = remote::parts(location).2.trim_matches('/').to_string();
        Store { stores, remote, prefix, location: location.clone(), memory: None, watch: None, references }
    }

    /// The handle that it was opened with.
    pub fn stores(&self) -> &Stores {
        &self.stores
    }

    pub(crate) fn count(&self, what: Count, n: u64) {
        self.stores.count(what, n);
    }

    /// The same folder. Its objects stay in memory while there is room.
    pub fn with_memory(self, tier: Arc<MemoryTier>) -> Store {
        Store { memory: Some(tier), ..self }
    }

    /// The same folder, without the objects in memory.
    pub(crate) fn without_memory(&self) -> Store {
        Store { memory: None, ..self.clone() }
    }

    /// The same folder. Its objects must not be written while they are read.
    pub(crate) fn with_watch(self, watch: Arc<InputWatch>) -> Store {
        Store { watch: Some(watch), ..self }
    }

    /// An error if an object was written at a time at which it must not have been.
    pub(crate) fn seen(&self, key: &str, stamp: impl FnOnce() -> u64) -> Result<(), StorageError> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch.check(self, key, stamp()))
    }

    /// True if it is an object store. Answers take long there, so many requests should be in flight.
    pub(crate) fn is_remote(&self) -> bool {
        self.location.is_remote()
    }

    /// True if it can be listed. Web servers and stores of the program cannot, and nothing can be written to them.
    pub fn can_list(&self) -> bool {
        !self.remote.scheme.starts_with("http") && self.remote.scheme != PROGRAM_SCHEME
    }

    pub(crate) fn check_full(&self, action: &'static str, key: &str) -> Result<(), StorageError> {
        let listed = self.references.is_none() || action == "list";
        if self.can_list() && listed {
            return Ok(());
        }
        let detail = match action {
            _ if !listed => "its chunks are parts of another file, which can only be read",
            _ if self.remote.scheme == PROGRAM_SCHEME => "a store of the program can only be read, key by key",
            "list" => "a web server cannot be listed; name an array, or a group with consolidated metadata",
            _ => "http and https URLs can only be read; write to a folder, s3://, gs:// or az://",
        };
        let detail = detail.into();
        Err(StorageError::Store { action, url: self.url(key), detail, transient: false })
    }

    /// True if its chunks are parts of another file.
    pub(crate) fn has_references(&self) -> bool {
        self.references.is_some()
    }

    pub(crate) fn held(&self, key: &str) -> Option<Bytes> {
        self.memory.as_ref()?.get(&self.url(key))
    }

    pub(crate) fn key(&self, key: &str) -> Result<Key, StorageError> {
        let full = if key.is_empty() { self.prefix.clone() } else { format!("{}/{key}", self.prefix) };
        Key::parse(full.trim_matches('/')).map_err(|e| StorageError::Url { url: self.url(key), problem: e.to_string() })
    }

    /// True for a folder on this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.location.local_path().is_some()
    }

    /// True for an array of this process, at a URL of `memory:`, and nothing else.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.remote.scheme == "memory" && self.memory.is_none()
    }

    /// Writes an object in memory without a copy; see [`crate::shared`].
    pub(crate) fn put_shared(&self, key: &str, data: Bytes, owner: Owner) -> Result<(), StorageError> {
        let path = self.key(key)?;
        self.count(Count::Puts, 1);
        self.count(Count::BytesWritten, data.len() as u64);
        self.wait("write", key, self.remote.put(&path, data.clone()))?;
        self.remote.owners.put(path.as_ref(), data, owner);
        Ok(())
    }

    /// The owner of the bytes of an object in memory.
    pub(crate) fn owner(&self, key: &str, data: &Bytes) -> Option<Owner> {
        self.remote.owners.of(self.key(key).ok()?.as_ref(), data)
    }

    /// The file of a key, if this is the local filesystem.
    pub(crate) fn file(&self, key: &str) -> Option<PathBuf> {
        let folder = self.location.local_path()?;
        Some(if key.is_empty() { folder } else { folder.join(key) })
    }

    /// The URL of a key.
    pub fn url(&self, key: &str) -> String {
        self.location.join(key).to_string()
    }

    pub(crate) fn wait<T>(
        &self,
        action: &'static str,
        key: &str,
        f: impl Future<Output = Result<T, object_store::Error>>,
    ) -> Result<T, StorageError> {
        let runtime = RUNTIME.as_ref().map_err(|e| StorageError::Store {
            action,
            url: self.url(key),
            detail: format!("the runtime cannot start: {e}"),
            transient: false,
        })?;
        runtime.block_on(f).map_err(|e| StorageError::of(action, self.url(key), &e, &self.remote))
    }

    /// An object, `None` if there is none.
    pub fn get(&self, key: &str) -> Result<Option<Bytes>, StorageError> {
        self.get_at_most(key, u64::MAX)
    }

    /// As [`Store::get`]. An object of more than `most` bytes is an error, before it is read.
    pub fn get_at_most(&self, key: &str, most: u64) -> Result<Option<Bytes>, StorageError> {
        if let Some(data) = self.held(key) {
            return Ok(Some(data));
        }
        let path = self.key(key)?;
        self.count(Count::Gets, 1);
        if let Some(references) = &self.references {
            return self.get_part(references, key, most);
        }
        if let Some(file) = self.file(key) {
            let Some((data, meta)) = self.read_file(&file, key, most)? else { return Ok(None) };
            self.seen(key, || input::modified(&meta))?;
            return Ok(Some(data));
        }
        let found = self.fetched(key, &path, most)?;
        self.count_read(found.as_ref().map_or(0, |data| data.len() as u64));
        Ok(found)
    }

    fn fetched(&self, key: &str, path: &Key, most: u64) -> Result<Option<Bytes>, StorageError> {
        match self.wait("read", key, self.remote.get(path, None, most, |_| {})) {
            Ok(Fetched { data, stamp, .. }) => {
                self.seen(key, || stamp.modified)?;
                Ok(Some(data))
            }
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// As [`Store::get_at_most`], of an array whose chunks are parts of another file.
    fn get_part(&self, references: &References, key: &str, most: u64) -> Result<Option<Bytes>, StorageError> {
        if let Some((document, _)) = references.document(key) {
            return Ok(Some(document));
        }
        let Some(part) = references.part(key) else { return Ok(None) };
        if part.len > most {
            return Err(self.too_large(key, part.len, most));
        }
        let (data, meta) = part.read()?;
        self.count(Count::BytesRead, part.len);
        self.seen(key, || input::modified(&meta))?;
        Ok(Some(data))
    }

    /// A file of at most `most` bytes, with its metadata.
    fn read_file(&self, file: &Path, key: &str, most: u64) -> Result<Option<(Bytes, std::fs::Metadata)>, StorageError> {
        let found = local::read(file, most).map_err(|e| StorageError::of_io("read", self.url(key), &e))?;
        let Some((data, meta)) = found else { return Ok(None) };
        let data = data.map_err(|size| self.too_large(key, size, most))?;
        self.count(Count::BytesRead, data.len() as u64);
        Ok(Some((data.into(), meta)))
    }

    fn too_large(&self, key: &str, size: u64, most: u64) -> StorageError {
        let detail = format!("the object has {size} bytes, where at most {most} can be right");
        StorageError::Store { action: "read", url: self.url(key), detail, transient: false }
    }

    /// An object and its state, `None` if there is none.
    pub(crate) fn get_stamped(&self, key: &str) -> Result<Option<(Bytes, Stamp)>, StorageError> {
        let path = self.key(key)?;
        self.count(Count::Gets, 1);
        if let Some(references) = &self.references {
            return Ok(references.document(key));
        }
        if let Some(file) = self.file(key) {
            return Ok(self.read_file(&file, key, u64::MAX)?.map(|(data, meta)| (data, Stamp::of_file(&meta))));
        }
        match self.wait("read", key, self.remote.get(&path, None, u64::MAX, |_| {})) {
            Ok(Fetched { data, stamp, .. }) => {
                self.count(Count::BytesRead, data.len() as u64);
                Ok(Some((data, stamp)))
            }
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// The objects that were written after a time, in nanoseconds since 1970.
    pub(crate) fn newer(&self, time: u64) -> Result<Vec<String>, StorageError> {
        self.check_full("list", "")?;
        let path = self.key("")?;
        self.count(Count::Lists, 1);
        if let Some(references) = &self.references {
            return Ok(if references.newer(time) { references.chunks().map(|(key, _)| key).collect() } else { Vec::new() });
        }
        if let Some(folder) = self.file("") {
            return local::newer(&folder, time).map_err(|e| StorageError::of_io("list", self.url(""), &e));
        }
        let skip = if self.prefix.is_empty() { 0 } else { self.prefix.len() + 1 };
        self.wait("list", "", async {
            let (mut found, mut out) = (self.remote.store.list(Some(&path)), Vec::new());
            while let Some(object) = found.try_next().await? {
                if Stamp::of_object(&object).modified > time {
                    out.push(object.location.as_ref().get(skip..).unwrap_or_default().to_string());
                }
            }
            Ok(out)
        })
    }

    /// Several objects, requested at once if that helps.
    pub fn get_all(&self, keys: &[String]) -> Result<Vec<Option<Bytes>>, StorageError> {
        self.get_all_at_most(keys, u64::MAX)
    }

    /// As [`Store::get_all`]. An object of more than `most` bytes is an error, before it is read.
    pub fn get_all_at_most(&self, keys: &[String], most: u64) -> Result<Vec<Option<Bytes>>, StorageError> {
        if !self.is_remote() || self.memory.is_some() {
            return keys.iter().map(|k| self.get_at_most(k, most)).collect();
        }
        let asked: Vec<_> = keys.iter().map(|k| self.start_get(k, None, most, Arc::default())).collect::<Result<_, StorageError>>()?;
        asked.into_iter().map(|a| Ok(a.wait()?.map(|f| f.data))).collect()
    }

    /// Opens an object for reading, `None` if there is none.
    pub(crate) fn open_object(&self, key: &str) -> Result<Option<Object>, StorageError> {
        if let Some(data) = self.held(key) {
            return Ok(Some(Object::Memory(data)));
        }
        if self.is_in_memory() {
            // What is read of it counts, and not all of it.
            self.count(Count::Gets, 1);
            return Ok(self.fetched(key, &self.key(key)?, u64::MAX)?.map(Object::Memory));
        }
        let Some(file) = self.file(key) else { return Ok(self.size(key)?.map(Object::Remote)) };
        self.count(Count::Gets, 1);
        if let Some(references) = &self.references {
            let Some(part) = references.part(key) else { return Ok(None) };
            let (file, at, meta) = part.open()?;
            self.seen(key, || input::modified(&meta))?;
            return Ok(Some(Object::File { file, at, len: part.len }));
        }
        let opened = local::open(&file).map_err(|e| StorageError::of_io("read", self.url(key), &e))?;
        let Some((file, meta)) = opened else { return Ok(None) };
        self.seen(key, || input::modified(&meta))?;
        Ok(Some(Object::File { file, at: 0, len: meta.len() }))
    }

    /// Counts bytes that were read from an open object.
    pub(crate) fn count_read(&self, bytes: u64) {
        self.count(Count::BytesRead, bytes);
    }

    /// The size of an object, `None` if there is none.
    pub fn size(&self, key: &str) -> Result<Option<u64>, StorageError> {
        if let Some(data) = self.held(key) {
            return Ok(Some(data.len() as u64));
        }
        let path = self.key(key)?;
        self.count(Count::Heads, 1);
        if let Some(references) = &self.references {
            let document = references.document(key).map(|(document, _)| document.len() as u64);
            return Ok(document.or_else(|| references.part(key).map(|part| part.len)));
        }
        if let Some(file) = self.file(key) {
            return match std::fs::metadata(&file) {
                Ok(m) => Ok(m.is_file().then_some(m.len())),
                Err(e) if local::is_missing(&e) => Ok(None),
                Err(e) => Err(StorageError::of_io("read", self.url(key), &e)),
            };
        }
        match self.wait("read", key, self.remote.store.head(&path)) {
            Ok(meta) => Ok(Some(meta.size)),
            Err(StorageError::NotFound { .. }) => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Fills `out` from a position in an object that is not on this machine.
    pub(crate) fn read_range(&self, key: &str, at: u64, out: &mut [u8]) -> Result<(), StorageError> {
        let (path, n) = (self.key(key)?, out.len() as u64);
        self.count(Count::Gets, 1);
        let range = object_store::GetRange::Bounded(at..at.saturating_add(n));
        let Fetched { data: found, stamp, .. } = self.wait("read", key, self.remote.get(&path, Some(range), n, |_| {}))?;
        self.seen(key, || stamp.modified)?;
        if found.len() != out.len() {
            let detail = format!("bytes {at}+{n} were asked for, and {} came", found.len());
            return Err(StorageError::Store { action: "read", url: self.url(key), detail, transient: true });
        }
        self.count(Count::BytesRead, n);
        out.copy_from_slice(&found);
        Ok(())
    }

    /// Writes an object, whole or not at all.
    pub fn put<'a>(&self, key: &str, data: impl Into<Cow<'a, [u8]>>) -> Result<(), StorageError> {
        self.check_full("write", key)?;
        let (path, mut data) = (self.key(key)?, data.into());
        if let Some(tier) = &self.memory {
            match tier.put(&self.without_memory(), key, data) {
                Ok(()) => return Ok(()),
                Err(back) => data = back,
            }
        }
        self.count(Count::Puts, 1);
        self.count(Count::BytesWritten, data.len() as u64);
        if let Some(file) = self.file(key) {
            return local::write(&file, &data).map_err(|e| StorageError::of_io("write", self.url(key), &e));
        }
        self.remote.owners.forget(path.as_ref());
        let data = Bytes::from(data.into_owned());
        let sent = self.wait("write", key, self.remote.put(&path, data))?;
        self.count(Count::Puts, sent.requests - 1);
        Ok(())
    }

    /// Moves an object of another folder here, whole or not at all, without a copy of its bytes. False, and nothing has changed, if there is no such
    /// object, or if the two folders are not in one filesystem of this machine.
    pub fn take(&self, key: &str, from: &Store, from_key: &str) -> Result<bool, StorageError> {
        self.check_full("write", key)?;
        self.key(key)?;
        from.key(from_key)?;
        let (Some(source), Some(path)) = (from.file(from_key), self.file(key)) else { return Ok(false) };
        if self.memory.is_some() || from.memory.is_some() || !local::take(&source, &path) {
            return Ok(false);
        }
        self.count(Count::Puts, 1);
        Ok(true)
    }

    /// The folder of a key, if it is on this machine and does not exist yet. Files that are written into it appear together.
    pub(crate) fn folder(&self, key: &str) -> Result<Option<Folder>, StorageError> {
        self.key(key)?;
        match self.file(key).as_deref().and_then(Path::parent).filter(|_| self.memory.is_none()) {
            Some(folder) => Folder::new(folder).map_err(|e| StorageError::of_io("write", self.url(key), &e)),
            None => Ok(None),
        }
    }

    /// Writes an object into its folder.
    pub(crate) fn put_in(&self, folder: &Folder, key: &str, data: &[u8]) -> Result<(), StorageError> {
        self.count(Count::Puts, 1);
        self.count(Count::BytesWritten, data.len() as u64);
        let name = key.rsplit('/').next().unwrap_or(key);
        folder.write(name, data).map_err(|e| StorageError::of_io("write", self.url(key), &e))
    }

    /// Makes a folder visible. `key` belongs to it.
    pub(crate) fn publish(&self, folder: Folder, key: &str) -> Result<(), StorageError> {
        folder.publish().map_err(|e| StorageError::of_io("write", self.url(key), &e))
    }

    /// Writes a small object, unless it exists already. True if it was written. If several processes try at once, one succeeds, provided
    /// that the store supports this.
    pub fn create(&self, key: &str, data: &[u8]) -> Result<bool, StorageError> {
        self.check_full("write", key)?;
        let path = self.key(key)?;
        self.count(Count::Puts, 1);
        if let Some(file) = self.file(key) {
            return local::create(&file, data).map_err(|e| StorageError::of_io("write", self.url(key), &e));
        }
        let payload = || object_store::PutPayload::from(data.to_vec());
        let create = object_store::PutOptions::from(object_store::PutMode::Create);
        self.wait("write", key, async {
            match self.remote.store.put_opts(&path, payload(), create).await {
                Ok(_) => Ok(true),
                Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => Ok(false),
                Err(object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }) => {
                    self.remote.store.put(&path, payload()).await.map(|_| true)
                }
                Err(e) => Err(e),
            }
        })
    }

    /// Replaces an object if it still has the old bytes. True if it was replaced. If several processes try at once, one succeeds, provided
    /// that the store supports this.
    pub fn swap(&self, key: &str, old: &[u8], new: &[u8]) -> Result<bool, StorageError> {
        self.check_full("write", key)?;
        let path = self.key(key)?;
        self.count(Count::Puts, 1);
        if let Some(file) = self.file(key) {
            return local::swap(&file, old, new).map_err(|e| StorageError::of_io("write", self.url(key), &e));
        }
        let payload = || object_store::PutPayload::from(new.to_vec());
        self.wait("write", key, async {
            let found = match self.remote.store.get(&path).await {
                Err(object_store::Error::NotFound { .. }) => return Ok(false),
                other => other?,
            };
            let version = object_store::UpdateVersion { e_tag: found.meta.e_tag.clone(), version: found.meta.version.clone() };
            if found.bytes().await? != old {
                return Ok(false);
            }
            let update = object_store::PutOptions::from(object_store::PutMode::Update(version));
            match self.remote.store.put_opts(&path, payload(), update).await {
                Ok(_) => Ok(true),
                Err(
                    object_store::Error::Precondition { .. }
                    | object_store::Error::AlreadyExists { .. }
                    | object_store::Error::NotFound { .. },
                ) => Ok(false),
                Err(object_store::Error::NotImplemented { .. } | object_store::Error::NotSupported { .. }) => {
                    self.remote.store.put(&path, payload()).await.map(|_| true)
                }
                Err(e) => Err(e),
            }
        })
    }

    /// Removes the unfinished files of processes that were killed. If an array is `whole`, removes all unfinished files. Object stores have
    /// none.
    pub fn sweep(&self, whole: bool) -> Result<(), StorageError> {
        match self.file("") {
            Some(folder) => local::sweep(&folder, whole).map_err(|e| StorageError::of_io("delete", self.url(""), &e)),
            None => Ok(()),
        }
    }

    /// Deletes an object; it need not exist.
    pub fn delete(&self, key: &str) -> Result<(), StorageError> {
        self.check_full("delete", key)?;
        let path = self.key(key)?;
        if let Some(tier) = &self.memory {
            tier.delete(&self.url(key));
        }
        if let Some(file) = self.file(key) {
            return local::remove(&file).map_err(|e| StorageError::of_io("delete", self.url(key), &e));
        }
        self.remote.owners.forget(path.as_ref());
        match self.wait("delete", key, self.remote.store.delete(&path)) {
            Err(StorageError::NotFound { .. }) => Ok(()),
            other => other,
        }
    }

    /// Deletes an object, and its folder if that becomes empty.
    pub fn delete_alone(&self, key: &str) -> Result<(), StorageError> {
        self.delete(key)?;
        if let Some(folder) = self.file(key).as_deref().and_then(Path::parent) {
            // It is not empty, so it is still needed.
            let _ = std::fs::remove_dir(folder);
        }
        Ok(())
    }

    /// Forgets the objects in memory below a key.
    pub(crate) fn forget(&self, key: &str) {
        if let Some(tier) = &self.memory {
            tier.list(&self.url(key)).iter().for_each(|(url, _)| tier.delete(url));
        }
    }

    /// Deletes everything below a key, and returns how many objects that was.
    pub fn delete_prefix(&self, key: &str) -> Result<u64, StorageError> {
        self.check_full("delete", key)?;
        let path = self.key(key)?;
        self.forget(key);
        self.count(Count::Lists, 1);
        if let Some(folder) = self.file(key) {
            return local::remove_all(&folder).map_err(|e| StorageError::of_io("delete", self.url(key), &e));
        }
        self.remote.owners.forget(path.as_ref());
        self.wait("delete", key, async {
            let found = self.remote.store.list(Some(&path)).map_ok(|m| m.location).boxed();
            self.remote.store.delete_stream(found).try_fold(0u64, |n, _| async move { Ok(n + 1) }).await
        })
    }

    /// The keys of all objects here, and whether writers may have left unfinished files beside them.
    pub(crate) fn keys(&self) -> Result<(Vec<String>, bool), StorageError> {
        if let Some(references) = &self.references {
            return Ok((references.keys().map(|(key, _)| key).collect(), false));
        }
        let local = self.file("").filter(|_| self.memory.is_none());
        let Some(folder) = local else {
            let names = self.list("")?.into_iter().map(|(name, _)| name).collect();
            return Ok((names, self.is_local()));
        };
        let (names, unfinished) = local::names(&folder).map_err(|e| StorageError::of_io("list", self.url(""), &e))?;
        self.count(Count::Lists, 1 + names.len() as u64 / PAGE);
        Ok((names, unfinished))
    }

    /// Every object below a key with its size; keys are relative to this store.
    pub fn list(&self, key: &str) -> Result<Vec<(String, u64)>, StorageError> {
        Ok(self.listed(key, false)?.into_iter().map(|(name, size, _)| (name, size)).collect())
    }

    /// As [`Store::list`], with the entity tags that object stores give.
    pub(crate) fn list_tagged(&self, key: &str) -> Result<Vec<(String, u64, Option<String>)>, StorageError> {
        self.listed(key, true)
    }

    fn listed(&self, key: &str, tagged: bool) -> Result<Vec<(String, u64, Option<String>)>, StorageError> {
        self.check_full("list", key)?;
        let path = self.key(key)?;
        self.count(Count::Lists, 1);
        let mut out = if let Some(references) = &self.references {
            let within = |name: &str| key.is_empty() || name.strip_prefix(key).is_some_and(|rest| rest.starts_with('/'));
            references.keys().filter(|(name, _)| within(name)).map(|(name, size)| (name, size, None)).collect()
        } else if let Some(folder) = self.file(key) {
            let within = if key.is_empty() { String::new() } else { format!("{key}/") };
            let found = local::list(&folder).map_err(|e| StorageError::of_io("list", self.url(key), &e))?;
            found.into_iter().map(|(name, size)| (format!("{within}{name}"), size, None)).collect()
        } else {
            let found: Vec<_> = self.wait("list", key, self.remote.store.list(Some(&path)).try_collect())?;
            let skip = if self.prefix.is_empty() { 0 } else { self.prefix.len() + 1 };
            let tag = |m: &object_store::ObjectMeta| m.e_tag.as_deref().filter(|_| tagged).and_then(remote::plain_etag);
            let relative = |m: object_store::ObjectMeta| Some((m.location.as_ref().get(skip..)?.to_string(), m.size, tag(&m)));
            found.into_iter().filter_map(relative).collect::<Vec<_>>()
        };
        self.count(Count::Lists, out.len() as u64 / PAGE);
        if let Some(tier) = &self.memory {
            let base = self.url("x").len() - 1;
            let mut all: HashMap<String, _> = out.into_iter().map(|(name, size, tag)| (name, (size, tag))).collect();
            all.extend(tier.list(&self.url(key)).into_iter().filter_map(|(url, n)| Some((url.get(base..)?.to_string(), (n, None)))));
            out = all.into_iter().map(|(name, (size, tag))| (name, size, tag)).collect();
        }
        Ok(out)
    }

    /// The names of the folders directly below a key.
    pub fn list_dirs(&self, key: &str) -> Result<Vec<String>, StorageError> {
        self.check_full("list", key)?;
        let path = self.key(key)?;
        self.count(Count::Lists, 1);
        if self.references.is_some() {
            return Ok(Vec::new());
        }
        if let Some(folder) = self.file(key) {
            return local::folders(&folder).map_err(|e| StorageError::of_io("list", self.url(key), &e));
        }
        let found = self.wait("list", key, self.remote.store.list_with_delimiter(Some(&path)))?;
        Ok(found.common_prefixes.iter().filter_map(|p| p.filename().map(String::from)).collect())
    }
}
