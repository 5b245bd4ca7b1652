//! Deletes files of ours and nothing else, and keeps an array that is replaced until the new one is whole.

use crate::replace::{METADATA, MOVING, Owned, REPLACED, replaceable};
use crate::{ArrayIo, StorageError, Store, local};
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;

/// The number of copies within a store that run at once.
const COPIES: usize = 32;

/// True for objects that this program puts beside the chunks for its own use: claims, and kept arrays.
fn is_own(key: &str) -> bool {
    key.starts_with(".chunkwise-")
}

impl Store {
    /// The keys of everything here, including unfinished files and links to files. Links to folders are keys, too: no link is followed.
    pub fn everything(&self) -> Result<Vec<String>, StorageError> {
        match self.file("") {
            Some(folder) => local::entries(&folder).map_err(|e| StorageError::of_io("list", self.url(""), &e)),
            None => Ok(self.list("")?.into_iter().map(|(key, _)| key).collect()),
        }
    }

    /// Deletes the objects whose keys are `ours`, and the folders that become empty. Returns how many objects that were, and the keys of
    /// all others. Links are never followed, except that the folder itself may be a link if `linked`.
    ///
    /// # Errors
    /// When storage fails, or the folder is a link and may not be one.
    pub fn delete_ours(&self, ours: &(dyn Fn(&str) -> bool + Sync), linked: bool) -> Result<(u64, Vec<String>), StorageError> {
        if let Some(folder) = self.file("") {
            return local::remove_ours(&folder, ours, linked).map_err(|e| StorageError::of_io("delete", self.url(""), &e));
        }
        let (delete, left): (Vec<String>, Vec<String>) = self.everything()?.into_iter().partition(|k| ours(k));
        Ok((self.delete_keys(&delete)?, left))
    }

    /// Deletes objects, several at once.
    fn delete_keys(&self, keys: &[String]) -> Result<u64, StorageError> {
        let paths = keys.iter().map(|k| self.key(k)).collect::<Result<Vec<_>, _>>()?;
        self.wait("delete", "", async {
            let paths = futures::stream::iter(paths.into_iter().map(Ok)).boxed();
            self.remote.store.delete_stream(paths).try_fold(0u64, |n, _| async move { Ok(n + 1) }).await
        })
    }

    /// Bytes that can still be written here, if the system says so.
    pub fn free_bytes(&self) -> Option<u64> {
        local::free_bytes(&self.file("")?)
    }

    /// Makes room for an array. If an array is here and whole, it is kept aside in its own folder; unfinished files are deleted. Returns
    /// true if an array is kept, by this run or by an earlier one.
    ///
    /// # Errors
    /// When storage fails; the old array can still be found then. Also the errors of `still`, which is called before anything is deleted in
    /// an object store.
    pub fn set_aside<E: From<StorageError>>(&self, owned: &Owned, still: &dyn Fn() -> Result<(), E>) -> Result<bool, E> {
        let failed = |e: &std::io::Error| StorageError::of_io("keep", self.url(""), e);
        let moving = self.file(MOVING).is_some_and(|f| f.is_dir());
        if owned.published || moving {
            if owned.published {
                // There is a whole array, so what is kept aside was replaced before that.
                self.drop_aside()?;
            }
            match self.file("") {
                Some(folder) => local::set_aside(&folder).map_err(|e| failed(&e))?,
                None => self.copy_aside(still)?,
            }
            return Ok(true);
        }
        self.delete_ours(&|key| owned.has(key) && !is_own(key), true)?;
        match self.file(REPLACED) {
            Some(folder) => Ok(folder.is_dir()),
            None => Ok(!self.list(REPLACED)?.is_empty()),
        }
    }

    /// Copies everything into the folder of kept arrays, and then deletes the originals, the metadata first.
    fn copy_aside<E: From<StorageError>>(&self, still: &dyn Fn() -> Result<(), E>) -> Result<(), E> {
        let keys: Vec<String> = self.everything()?.into_iter().filter(|k| !is_own(k)).collect();
        let pairs =
            keys.iter().map(|k| Ok((self.key(k)?, self.key(&format!("{REPLACED}/{k}"))?))).collect::<Result<Vec<_>, StorageError>>()?;
        self.wait("keep", "", async {
            let copies = pairs.iter().map(|(from, to)| self.remote.store.copy(from, to));
            futures::stream::iter(copies).buffer_unordered(COPIES).try_collect::<Vec<()>>().await
        })?;
        let (first, rest): (Vec<String>, Vec<String>) = keys.into_iter().partition(|k| METADATA.contains(&k.as_str()));
        // Copying takes long.
        still()?;
        self.delete_keys(&first)?;
        still()?;
        self.delete_keys(&rest)?;
        Ok(())
    }

    /// Deletes what [`Store::set_aside`] has kept, because the new array is whole. Files that others have put there since then stay.
    ///
    /// # Errors
    /// When storage fails.
    pub fn drop_aside(&self) -> Result<(), StorageError> {
        let at = self.location.join(REPLACED);
        match replaceable(self.stores(), &at, &serde_json::Value::Null) {
            Ok(owned) => self.stores().open(&at)?.delete_ours(&|key| owned.has(key), false).map(|_| ()),
            Err(StorageError::Kept { .. }) => Ok(()),
            Err(e) => Err(e),
        }
    }
}

impl ArrayIo {
    /// Deletes the chunks of an array of a run. Links are not followed.
    ///
    /// # Errors
    /// When storage fails.
    pub fn clear(&self) -> Result<(), StorageError> {
        let owned = Owned::of(&self.meta().metadata);
        self.store().forget("");
        self.store().delete_ours(&|key| owned.has(key), false).map(|_| ())
    }
}
