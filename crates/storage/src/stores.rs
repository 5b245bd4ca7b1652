//! The handle through which all stores are opened.
//!
//! A program has one, or one for each part of it with rights of its own. A handle holds storage options, open connections, what the person
//! has allowed, the URL prefixes that may be opened, and the counters. Handles share nothing but threads for requests: one does not see the
//! options, the permissions or the `memory:` arrays of another. What a handle holds is freed when its last clone and the last store that it
//! opened are gone.

use crate::allowed::Prefixes;
use crate::counters::{Count, Counters, Counts};
use crate::program::ProgramStores;
use crate::references::{HeldReferences, Known, References};
use crate::remote::{self, Remote};
use crate::trust::{self, Trust};
use crate::{Location, StorageError, Store};
use chunkwise_types::{PROGRAM_SCHEME, StoreOptions};
use object_store::ObjectStore;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock};

/// Opens stores, with the options, permissions and prefixes that it was given. Clones share everything.
///
/// ```
/// use chunkwise_storage::{Location, Stores};
/// let (one, other) = (Stores::new(), Stores::new());
/// let at = Location::parse("memory:x", None)?;
/// one.open(&at)?.put("key", &b"value"[..])?;
/// assert!(one.clone().open(&at)?.get("key")?.is_some());
/// assert!(other.open(&at)?.get("key")?.is_none());
/// # Ok::<(), chunkwise_storage::StorageError>(())
/// ```
#[derive(Clone, Default)]
pub struct Stores(Arc<Inner>);

#[derive(Default)]
struct Inner {
    options: Mutex<BTreeMap<String, StoreOptions>>,
    open: Mutex<HashMap<String, Arc<Remote>>>,
    prefixes: Prefixes,
    counts: Counts,
    references: Known,
    held: OnceLock<HeldReferences>,
    programs: OnceLock<ProgramStores>,
    // Apart from the rest, because the clients of open stores hold it.
    trust: Arc<Trust>,
}

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stores").field("open", &self.0.open.lock().keys()).finish_non_exhaustive()
    }
}

impl Stores {
    /// A handle with defaults, under which files may choose nothing. Credentials still come from the environment, or from a profile in the
    /// options.
    pub fn new() -> Stores {
        Stores::default()
    }

    /// A handle with the permissions in the environment: `CHUNKWISE_ALLOW` and `CHUNKWISE_ENDPOINTS`. If they are not valid, opening and
    /// configuring with them is refused later, with a sentence that says why.
    pub fn from_env() -> Stores {
        Stores(Arc::new(Inner { trust: Arc::new(Trust::from_env()), ..Inner::default() }))
    }

    /// Opens a folder; it need not exist.
    ///
    /// # Errors
    /// When it is outside of the prefixes, or its store cannot be reached.
    pub fn open(&self, location: &Location) -> Result<Store, StorageError> {
        self.check_allowed(location)?;
        let references = References::of(self, location, &self.0.references, self.0.held.get())?;
        Ok(Store::new(self.clone(), self.remote(location)?, location, references))
    }

    /// Reads lists of chunks that have no files. Several handles may share them. Only the first call has an effect.
    pub fn with_references(&self, held: HeldReferences) {
        let _ = self.0.held.set(held);
    }

    /// Reads from stores of the program itself. Several handles may share them. Only the first call has an effect.
    pub fn with_program_stores(&self, programs: ProgramStores) {
        let _ = self.0.programs.set(programs);
    }

    /// Sets how the stores under some URL prefixes are reached, for everything that is opened from now on. The options come from a file: a
    /// pipeline, a plan, an event. A prefix that was configured before gets the new options. Arrays that are open keep theirs.
    ///
    /// # Errors
    /// When options contradict their prefix, or set something that only the person who runs this may set ([`Stores::allow`]).
    pub fn configure(&self, storage: &BTreeMap<String, StoreOptions>) -> Result<(), StorageError> {
        for (prefix, options) in storage {
            self.0.trust.check(prefix, options).map_err(trust::at_prefix(prefix))?;
        }
        self.0.options.lock().extend(storage.iter().map(|(k, v)| (k.clone(), v.clone())));
        Ok(())
    }

    /// As [`Stores::configure`], but for options that a program sets. Plans that are made with these options may be run with this handle.
    ///
    /// # Errors
    /// When options contradict their prefix.
    pub fn configure_by_program(&self, storage: &BTreeMap<String, StoreOptions>) -> Result<(), StorageError> {
        self.0.trust.allow_options(storage).map_err(|problem| StorageError::Url { url: "storage".into(), problem })?;
        self.configure(storage)
    }

    /// Allows what files may choose, by the words of a command line: `endpoint=URL`, `host=URL`, `profile=NAME`, `account=NAME`,
    /// `anonymous`.
    ///
    /// ```
    /// let stores = chunkwise_storage::Stores::new();
    /// stores.allow(&["endpoint=https://minio.lab:9000".into(), "anonymous".into()])?;
    /// assert!(stores.allow(&["everything".into()]).is_err());
    /// # Ok::<(), String>(())
    /// ```
    ///
    /// # Errors
    /// One sentence, if a word or the environment is not one of these.
    pub fn allow(&self, words: &[String]) -> Result<(), String> {
        self.0.trust.allow(words)
    }

    /// Allows reading from the web server of a URL that the person has named.
    pub fn allow_named(&self, url: &str) {
        self.0.trust.allow_named(url);
    }

    /// The permissions in the words of a command line: for workers, which may have another environment.
    pub fn allowed(&self) -> Vec<String> {
        self.0.trust.allowed()
    }

    /// Restricts this handle to places at or below some URLs, for good. An empty list allows nothing.
    ///
    /// # Errors
    /// When a prefix is not a URL, or the handle is restricted already.
    pub fn restrict(&self, prefixes: &[String]) -> Result<(), StorageError> {
        self.0.prefixes.restrict(prefixes)
    }

    /// Refuses a place that this handle may not touch.
    ///
    /// # Errors
    /// When it is restricted, and the place is outside.
    pub fn check_allowed(&self, location: &Location) -> Result<(), StorageError> {
        self.0.prefixes.check(location)
    }

    /// The requests and bytes so far.
    pub fn counters(&self) -> Counters {
        self.0.counts.read()
    }

    /// Uses another store in place of the bucket of a location, for everything that is opened from now on.
    pub fn mount(&self, location: &Location, store: Arc<dyn ObjectStore>) {
        let (scheme, bucket, _) = remote::parts(location);
        self.0.open.lock().insert(self.name(location).0, Arc::new(Remote::mounted(store, scheme, bucket)));
    }

    /// The options of the longest matching prefix.
    pub(crate) fn options_of(&self, url: &str) -> StoreOptions {
        let fits = |prefix: &str| {
            let rest = url.strip_prefix(prefix.trim_end_matches('/')).filter(|_| !prefix.ends_with("://"));
            url.starts_with(prefix) && prefix.ends_with("://") || rest.is_some_and(|r| r.is_empty() || r.starts_with('/'))
        };
        let all = self.0.options.lock();
        all.iter().filter(|(p, _)| fits(p)).max_by_key(|(p, _)| p.len()).map(|(_, o)| o.clone()).unwrap_or_default()
    }

    /// The name of a store in the table of open stores, and its options.
    fn name(&self, location: &Location) -> (String, StoreOptions) {
        let (scheme, bucket, _) = remote::parts(location);
        let options = if bucket.is_empty() { StoreOptions::default() } else { self.options_of(location.as_str()) };
        (format!("{scheme}://{bucket} {}", serde_json::to_string(&options).unwrap_or_default()), options)
    }

    /// Opens the store of a location, or returns the one that is open already.
    pub(crate) fn remote(&self, location: &Location) -> Result<Arc<Remote>, StorageError> {
        let (scheme, bucket, _) = remote::parts(location);
        if scheme == PROGRAM_SCHEME
            && let Some(found) = self.0.programs.get().and_then(|programs| programs.get(bucket))
        {
            return Ok(found);
        }
        let (key, options) = self.name(location);
        if let Some(found) = self.0.open.lock().get(&key) {
            return Ok(found.clone());
        }
        let made = Remote::open(scheme, bucket, &options, &self.0.trust)
            .map_err(|problem| StorageError::Url { url: location.to_string(), problem })?;
        // If two threads open the same store at once, one store is kept.
        Ok(self.0.open.lock().entry(key).or_insert_with(|| Arc::new(made)).clone())
    }

    pub(crate) fn count(&self, what: Count, n: u64) {
        self.0.counts.add(what, n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_counts() {
        let with = |region: &str| StoreOptions { region: Some(region.into()), ..StoreOptions::default() };
        let all = [("s3://", "a"), ("s3://opt-bucket", "b"), ("s3://opt-bucket/deep/", "c")];
        let stores = Stores::new();
        stores.configure(&all.iter().map(|(p, r)| (p.to_string(), with(r))).collect()).unwrap();
        let region = |url: &str| stores.options_of(url).region.unwrap_or_default();
        assert_eq!(region("s3://other/x"), "a");
        assert_eq!(region("s3://opt-bucket"), "b");
        assert_eq!(region("s3://opt-bucket2/x"), "a");
        assert_eq!(region("s3://opt-bucket/deep/x"), "c");
        assert_eq!(region("s3://opt-bucket/deeper/x"), "b");
        assert_eq!(region("gs://opt-bucket/deep/x"), "");
        assert_eq!(Stores::new().options_of("s3://opt-bucket").region, None);
    }

    #[test]
    fn handles_share_nothing() {
        let (one, other) = (Stores::new(), Stores::new());
        let endpoint = StoreOptions { endpoint: Some("https://minio.lab".into()), ..StoreOptions::default() };
        let storage = BTreeMap::from([("s3://b".to_string(), endpoint)]);
        assert!(one.configure(&storage).is_err());
        one.configure_by_program(&storage).unwrap();
        one.configure(&storage).unwrap();
        assert!(other.configure(&storage).unwrap_err().to_string().contains("--allow endpoint="));
        one.restrict(&["memory:a".into()]).unwrap();
        assert!(one.restrict(&["memory:b".into()]).is_err());
        let at = |text: &str| Location::parse(text, None).unwrap();
        assert!(one.open(&at("memory:b")).is_err());
        let (mine, theirs) = (one.open(&at("memory:a")).unwrap(), other.open(&at("memory:a")).unwrap());
        mine.put("x", &b"abc"[..]).unwrap();
        assert_eq!((mine.get("x").unwrap().is_some(), theirs.get("x").unwrap()), (true, None));
        assert_eq!((one.counters().bytes_written, other.counters().bytes_written), (3, 0));
        assert_eq!((one.counters().gets, other.counters().gets), (1, 1));
    }

    #[test]
    fn a_handle_frees_what_it_holds() {
        let stores = Stores::new();
        let at = Location::parse("memory:x", None).unwrap();
        let store = stores.open(&at).unwrap();
        let held = Arc::downgrade(&stores.0);
        drop(stores);
        assert!(held.upgrade().is_some());
        drop(store);
        assert!(held.upgrade().is_none());
    }
}
