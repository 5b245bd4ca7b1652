//! Stores that a program implements itself, such as one that reads through a library that the engine does not know. They can only be read, key by key.

use crate::remote::Remote;
use crate::{Location, StorageError};
use bytes::Bytes;
use chunkwise_types::PROGRAM_SCHEME;
use futures::stream::{BoxStream, StreamExt};
use object_store::path::Path as Key;
use object_store::{CopyOptions, Error, GetOptions, GetRange, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta};
use object_store::{ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::io::ErrorKind;
use std::ops::Range;
use std::sync::Arc;

/// The name of these stores in errors.
const NAME: &str = "program";

/// Objects that a program finds by their keys.
pub trait ProgramStore: Send + Sync + 'static {
    /// An object, or a range of it; `None` if there is no such object. Calls block, and many may be under way.
    ///
    /// # Errors
    /// Whatever prevents an answer. A task that gets one is repeated, unless it has no permission.
    fn get(&self, key: &str, range: Option<&GetRange>) -> Result<Option<Part>, std::io::Error>;
}

/// What a program found.
pub struct Part {
    /// The bytes that were asked for.
    pub data: Bytes,
    /// Where in the object they begin.
    pub start: u64,
    /// Bytes of the whole object.
    pub size: u64,
}

/// The stores of a program, by their names: `program://NAME/KEY`. Clones share everything.
///
/// ```
/// use chunkwise_storage::{Part, ProgramStore, ProgramStores, Stores};
/// struct Greeting;
/// impl ProgramStore for Greeting {
///     fn get(&self, key: &str, range: Option<&object_store::GetRange>) -> Result<Option<Part>, std::io::Error> {
///         assert!(range.is_none(), "the whole object is asked for");
///         Ok((key == "a/hello").then(|| Part { data: "world".into(), start: 0, size: 5 }))
///     }
/// }
/// let (stores, own) = (Stores::new(), ProgramStores::default());
/// stores.with_program_stores(own.clone());
/// let at = own.add("greeting", Greeting)?;
/// assert_eq!(at.as_str(), "program://greeting");
/// assert_eq!(stores.open(&at.join("a"))?.get("hello")?.as_deref(), Some(&b"world"[..]));
/// assert!(Stores::new().open(&at).is_err());
/// # Ok::<(), chunkwise_storage::StorageError>(())
/// ```
#[derive(Clone, Default)]
pub struct ProgramStores(Arc<Mutex<HashMap<String, Arc<Remote>>>>);

impl ProgramStores {
    /// Adds a store. Handles to which these stores are given ([`crate::Stores::with_program_stores`]) read from it until it is removed.
    ///
    /// # Errors
    /// When the name is not one that a URL may have.
    pub fn add(&self, name: &str, store: impl ProgramStore) -> Result<Location, StorageError> {
        let location = Location::parse(&format!("{PROGRAM_SCHEME}://{name}"), None)?;
        let remote = Remote::of_program(Arc::new(Adapter(Arc::new(store))), name);
        self.0.lock().insert(name.into(), Arc::new(remote));
        Ok(location)
    }

    /// Forgets a store. What has it open keeps it.
    pub fn remove(&self, name: &str) {
        self.0.lock().remove(name);
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<Remote>> {
        self.0.lock().get(name).cloned()
    }
}

/// As the rest of this crate reads it.
struct Adapter(Arc<dyn ProgramStore>);

impl fmt::Debug for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

impl fmt::Display for Adapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

fn failed(key: &Key, e: std::io::Error) -> Error {
    let path = key.to_string();
    match e.kind() {
        ErrorKind::PermissionDenied => Error::PermissionDenied { path, source: e.into() },
        _ => Error::Generic { store: NAME, source: e.into() },
    }
}

fn read_only<T>() -> object_store::Result<T> {
    Err(Error::Generic { store: NAME, source: "it can only be read".into() })
}

#[async_trait::async_trait]
impl ObjectStore for Adapter {
    async fn get_opts(&self, location: &Key, options: GetOptions) -> object_store::Result<GetResult> {
        let (store, key) = (self.0.clone(), location.clone());
        // For a size alone, the first byte is read.
        let range = if options.head { Some(GetRange::Bounded(0..1)) } else { options.range };
        let asked = tokio::task::spawn_blocking(move || store.get(key.as_ref(), range.as_ref()));
        let found = asked.await.map_err(|e| Error::Generic { store: NAME, source: e.into() })?.map_err(|e| failed(location, e))?;
        let Some(Part { data, start, size }) = found else {
            return Err(Error::NotFound { path: location.to_string(), source: "there is no such object".into() });
        };
        Ok(GetResult {
            meta: ObjectMeta { location: location.clone(), last_modified: Default::default(), size, e_tag: None, version: None },
            range: start..start + data.len() as u64,
            payload: GetResultPayload::Stream(futures::stream::once(async { Ok(data) }).boxed()),
            attributes: Default::default(),
            extensions: Default::default(),
        })
    }

    async fn get_ranges(&self, location: &Key, ranges: &[Range<u64>]) -> object_store::Result<Vec<Bytes>> {
        let get = |range: &Range<u64>| {
            let options = GetOptions { range: Some(GetRange::Bounded(range.clone())), ..Default::default() };
            async move { self.get_opts(location, options).await?.bytes().await }
        };
        futures::future::try_join_all(ranges.iter().map(get)).await
    }

    async fn put_opts(&self, _: &Key, _: PutPayload, _: PutOptions) -> object_store::Result<PutResult> {
        read_only()
    }

    async fn put_multipart_opts(&self, _: &Key, _: PutMultipartOptions) -> object_store::Result<Box<dyn MultipartUpload>> {
        read_only()
    }

    fn delete_stream(&self, keys: BoxStream<'static, object_store::Result<Key>>) -> BoxStream<'static, object_store::Result<Key>> {
        keys.map(|_| read_only()).boxed()
    }

    fn list(&self, _: Option<&Key>) -> BoxStream<'static, object_store::Result<ObjectMeta>> {
        futures::stream::once(async { read_only() }).boxed()
    }

    async fn list_with_delimiter(&self, _: Option<&Key>) -> object_store::Result<ListResult> {
        read_only()
    }

    async fn copy_opts(&self, _: &Key, _: &Key, _: CopyOptions) -> object_store::Result<()> {
        read_only()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::Stores;

    /// Objects of a program, one of which it may not read.
    struct Table(HashMap<&'static str, Bytes>);

    impl ProgramStore for Table {
        fn get(&self, key: &str, range: Option<&GetRange>) -> Result<Option<Part>, std::io::Error> {
            match key {
                "secret" => return Err(std::io::Error::new(ErrorKind::PermissionDenied, "not for you")),
                "broken" => return Err(std::io::Error::other("it broke")),
                _ => {}
            }
            let Some(data) = self.0.get(key) else { return Ok(None) };
            let range = range.map_or(0..data.len() as u64, |r| r.as_range(data.len() as u64).unwrap());
            Ok(Some(Part { data: data.slice(range.start as usize..range.end as usize), start: range.start, size: data.len() as u64 }))
        }
    }

    fn table() -> (ProgramStores, Location) {
        let stores = ProgramStores::default();
        let at = stores.add("table-1", Table(HashMap::from([("a/0", Bytes::from_static(b"0123456789"))]))).unwrap();
        (stores, at)
    }

    #[test]
    fn objects_of_a_program_are_read_like_others() {
        let (programs, at) = table();
        let stores = Stores::new();
        stores.with_program_stores(programs.clone());
        let store = stores.open(&at.join("a")).unwrap();
        assert_eq!(store.get("0").unwrap().unwrap(), "0123456789");
        assert_eq!((store.get("1").unwrap(), store.size("0").unwrap(), store.size("1").unwrap()), (None, Some(10), None));
        let mut out = [0; 3];
        store.read_range("0", 4, &mut out).unwrap();
        assert_eq!(&out, b"456");
        assert!(store.get_at_most("0", 9).unwrap_err().to_string().contains("at most 9"));
        let root = stores.open(&at).unwrap();
        assert!(matches!(root.get("secret"), Err(StorageError::PermissionDenied { .. })));
        assert!(root.get("broken").unwrap_err().to_string().contains("it broke"));
    }

    /// A store that counts how many calls are under way.
    #[derive(Default)]
    struct Slow(Arc<Mutex<(usize, usize)>>);

    impl ProgramStore for Slow {
        fn get(&self, _: &str, _: Option<&GetRange>) -> Result<Option<Part>, std::io::Error> {
            {
                let mut now = self.0.lock();
                now.0 += 1;
                now.1 = now.1.max(now.0);
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
            self.0.lock().0 -= 1;
            Ok(Some(Part { data: Bytes::from_static(b"x"), start: 0, size: 1 }))
        }
    }

    #[test]
    fn few_large_objects_are_asked_for_at_once() {
        for (most, at_once) in [(8 << 20, 4), (1 << 20, 20), (64 << 20, 1)] {
            let (programs, counted) = (ProgramStores::default(), Arc::default());
            let at = programs.add("slow", Slow(Arc::clone(&counted))).unwrap();
            let stores = Stores::new();
            stores.with_program_stores(programs);
            let store = stores.open(&at).unwrap();
            let keys: Vec<String> = (0..20).map(|k| k.to_string()).collect();
            assert!(store.get_all_at_most(&keys, most).unwrap().iter().all(|found| found.as_deref() == Some(b"x")));
            let seen = counted.lock().1;
            assert!(seen <= at_once && seen > at_once / 4, "{seen} of objects of {most} bytes");
        }
    }

    #[test]
    fn it_can_only_be_read() {
        let (programs, at) = table();
        let stores = Stores::new();
        stores.with_program_stores(programs);
        let store = stores.open(&at).unwrap();
        for problem in [store.put("x", &b"y"[..]).err(), store.list("").err(), store.delete("a/0").err(), store.delete_prefix("").err()] {
            assert!(problem.unwrap().to_string().contains("can only be read"));
        }
    }

    #[test]
    fn other_programs_do_not_have_it() {
        let (programs, at) = table();
        for stores in [Stores::new(), Stores::from_env()] {
            let problem = stores.open(&at).err().unwrap().to_string();
            assert!(problem.contains("program://table-1") && problem.contains("the program"), "{problem}");
        }
        let stores = Stores::new();
        stores.with_program_stores(programs.clone());
        let open = stores.open(&at).unwrap();
        programs.remove("table-1");
        assert!(stores.open(&at).is_err());
        assert!(open.get("a/0").unwrap().is_some());
        assert!(programs.add("no name", Table(HashMap::new())).is_err());
    }
}
