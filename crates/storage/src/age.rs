//! How old an object is, by the clock of the store that keeps it. The clocks of machines may be wrong by minutes.

use crate::{StorageError, Store, local};
use object_store::ObjectStoreExt;
use std::time::{Duration, SystemTime};

/// The object that is written to an object store to learn its time.
const CLOCK: &str = ".chunkwise-clock";

impl Store {
    /// When an object was written, by the clock of the store: nanoseconds since 1970. `None` if there is no such object, or if the store is
    /// a filesystem.
    ///
    /// # Errors
    /// When storage fails.
    pub fn written_at(&self, key: &str) -> Result<Option<u64>, StorageError> {
        if !self.is_remote() {
            return Ok(None);
        }
        Ok(self.get_stamped(key)?.map(|(_, stamp)| stamp.modified))
    }

    /// The time since an object was written; `None` if there is no such object. To learn the time of the store, another object is written
    /// beside it for a moment: stores do not tell the time otherwise.
    ///
    /// # Errors
    /// When storage fails.
    pub fn age(&self, key: &str) -> Result<Option<Duration>, StorageError> {
        let failed = |e: &std::io::Error| StorageError::of_io("look at", self.url(key), e);
        if let Some(file) = self.file(key) {
            let written = match std::fs::metadata(&file).and_then(|m| m.modified()) {
                Err(e) if local::is_missing(&e) => return Ok(None),
                other => other.map_err(|e| failed(&e))?,
            };
            let now = local::clock(&file).map_err(|e| failed(&e))?;
            return Ok(Some(now.duration_since(written).unwrap_or_default()));
        }
        let written = |key: &str| -> Result<Option<SystemTime>, StorageError> {
            let path = self.key(key)?;
            match self.wait("look at", key, self.remote.store.head(&path)) {
                Ok(meta) => Ok(Some(meta.last_modified.into())),
                Err(StorageError::NotFound { .. }) => Ok(None),
                Err(e) => Err(e),
            }
        };
        let Some(then) = written(key)? else { return Ok(None) };
        self.put(CLOCK, &b""[..])?;
        // Another process may have asked at the same time, and may have deleted the object already.
        let now = written(CLOCK)?;
        let _ = self.delete(CLOCK);
        Ok(Some(now.map_or(Duration::ZERO, |now| now.duration_since(then).unwrap_or_default())))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Location, Stores};
    use std::time::{Duration, SystemTime};

    #[test]
    fn files_are_as_old_as_they_say() {
        let folder = tempfile::tempdir().unwrap();
        let store = Stores::new().open(&Location::parse(folder.path().to_str().unwrap(), None).unwrap()).unwrap();
        assert_eq!(store.age("note").unwrap(), None);
        store.put("note", &b"x"[..]).unwrap();
        assert!(store.age("note").unwrap().unwrap() < Duration::from_secs(50));
        let file = std::fs::File::options().write(true).open(folder.path().join("note")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(100)).unwrap();
        assert!(store.age("note").unwrap().unwrap() >= Duration::from_secs(99));
        // Nothing is left beside it.
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let elsewhere = Stores::new().open(&Location::parse("memory://age", None).unwrap()).unwrap();
        assert_eq!(elsewhere.age("note").unwrap(), None);
        elsewhere.put("note", &b"x"[..]).unwrap();
        assert!(elsewhere.age("note").unwrap().unwrap() < Duration::from_secs(50));
        assert_eq!(elsewhere.list("").unwrap().len(), 1);
    }
}
