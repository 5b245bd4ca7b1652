//! Inputs that must not change while they are read, and how one state of an input is told from another.

use crate::meta::{document_of, same};
use crate::world::{nanoseconds, now};
use crate::{ArrayIo, ArrayMeta, Location, StorageError, Store, Stores};
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// The state of an object, as its store describes it beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    /// Bytes.
    pub size: u64,
    /// When it was written, or put at this place if that was later: nanoseconds since 1970.
    pub modified: u64,
    /// The entity tag of an object store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

impl Stamp {
    /// The stamp of a file.
    pub(crate) fn of_file(meta: &std::fs::Metadata) -> Stamp {
        Stamp { size: meta.len(), modified: said(meta), etag: None }
    }

    /// The stamp of an object in an object store.
    pub(crate) fn of_object(meta: &object_store::ObjectMeta) -> Stamp {
        let modified = u64::try_from(meta.last_modified.timestamp_nanos_opt().unwrap_or(0)).unwrap_or(0);
        Stamp { size: meta.size, modified, etag: meta.e_tag.clone() }
    }

    /// True if the object has the state of another stamp.
    pub fn is(&self, other: &Stamp) -> bool {
        match (&self.etag, &other.etag) {
            (Some(a), Some(b)) => a == b,
            _ => (self.size, self.modified) == (other.size, other.modified),
        }
    }
}

/// When a file was written, by its own time. Copies may keep that time. Then it is the time at which the file was made.
fn said(meta: &std::fs::Metadata) -> u64 {
    let of = |time: std::io::Result<SystemTime>| time.map_or(0, nanoseconds);
    of(meta.modified()).max(of(meta.created()))
}

/// When a file was written. Archives may contain times in the future. Then the system's own time of the last change is used.
pub(crate) fn modified(meta: &std::fs::Metadata) -> u64 {
    said(meta).min(changed(meta))
}

/// When the system last changed a file: its bytes or its permissions.
#[cfg(unix)]
fn changed(meta: &std::fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let (seconds, rest) = (meta.ctime(), meta.ctime_nsec());
    u64::try_from(seconds).ok().and_then(|s| s.checked_mul(1_000_000_000)?.checked_add(u64::try_from(rest).ok()?)).unwrap_or(u64::MAX)
}

#[cfg(not(unix))]
fn changed(_: &std::fs::Metadata) -> u64 {
    u64::MAX
}

/// The clocks of object stores may differ from ours by this much, in nanoseconds, and they give whole seconds.
const CLOCKS: u64 = 2_000_000_000;
/// Times that are later than this by our clock, in nanoseconds, mean nothing: in files, and in object stores.
const FUTURE: [u64; 2] = [0, 3_600_000_000_000];

/// A time after which an input must not be written, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Since {
    /// By the clock of this machine.
    Ours(u64),
    /// By the clock of the store.
    Theirs(u64),
}

const SECOND: u64 = 1_000_000_000;

impl Since {
    /// The time by the clock of a store, remote or not, with an allowance for the difference of two clocks.
    fn at(self, remote: bool) -> u64 {
        match self {
            Since::Ours(time) if remote => time.saturating_add(CLOCKS),
            // A time in whole seconds, as in an answer of S3, means any time in that second. Listings may be more exact.
            Since::Theirs(time) if remote && time.is_multiple_of(SECOND) => time.saturating_add(SECOND - 1),
            Since::Ours(time) | Since::Theirs(time) => time,
        }
    }
}

/// Notes that are taken while an input is read.
#[derive(Debug)]
pub struct InputWatch {
    /// Objects that were written after this time, by the clock of the store, are newer than what was read before: nanoseconds since 1970.
    since: AtomicU64,
    /// How many chunks were missing. It starts at one, so that each process checks each input once.
    missed: AtomicU64,
    /// How many of these were missing when the array was last seen to exist.
    confirmed: AtomicU64,
}

impl Default for InputWatch {
    fn default() -> Self {
        InputWatch { since: AtomicU64::new(u64::MAX), missed: AtomicU64::new(1), confirmed: AtomicU64::new(0) }
    }
}

impl InputWatch {
    /// From now on, objects of an input that were written after a time are refused.
    pub fn set_since(&self, location: &Location, time: Since) {
        self.since.store(time.at(location.is_remote()), Ordering::Relaxed);
    }

    /// Notes that a chunk is missing.
    pub(crate) fn miss(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of missing chunks, if it means that the array has to be checked.
    pub fn doubtful(&self) -> Option<u64> {
        let missed = self.missed.load(Ordering::Relaxed);
        (missed > self.confirmed.load(Ordering::Relaxed)).then_some(missed)
    }

    /// Notes that the array existed after this many chunks had been missing.
    pub fn confirm(&self, missed: u64) {
        self.confirmed.fetch_max(missed, Ordering::Relaxed);
    }

    /// Refuses an object that was written after the time.
    pub(crate) fn check(&self, store: &Store, key: &str, modified: u64) -> Result<(), StorageError> {
        let since = self.since.load(Ordering::Relaxed);
        // A time in the future does not mean that the object was written just now.
        if modified <= since || modified > now().saturating_add(FUTURE[usize::from(store.is_remote())]) {
            return Ok(());
        }
        Err(changed_after(store, key, modified - since))
    }
}

fn changed_after(store: &Store, key: &str, nanoseconds: u64) -> StorageError {
    let detail = format!("'{key}' was written {:.3} s after the run had begun", Duration::from_nanos(nanoseconds).as_secs_f64());
    StorageError::InputChanged { url: store.url("").trim_end_matches('/').into(), detail }
}

/// Checks that an array exists, with the metadata that is known of it.
///
/// # Errors
/// When the array no longer exists, or is another one. If the store cannot be listed, attributes are not compared, because the known ones
/// may come from consolidated metadata.
pub fn check_input(stores: &Stores, location: &Location, known: &ArrayMeta) -> Result<Stamp, StorageError> {
    let store = stores.open(location)?;
    let Some((mut found, stamp)) = document_of(&store, known.zarr_format, &location.to_string())? else {
        return Err(StorageError::InputGone { url: location.to_string(), machine: crate::world::in_words() });
    };
    let mut wanted = known.metadata.clone();
    if !store.can_list() {
        for doc in [&mut found, &mut wanted] {
            doc.as_object_mut().map(|o| o.remove("attributes"));
        }
    }
    match same(&wanted, &found) {
        None => Ok(stamp),
        Some(what) => {
            Err(StorageError::InputChanged { url: location.to_string(), detail: format!("its metadata is another one ({what})") })
        }
    }
}

/// True if an array is the same as before, or has only grown since.
///
/// # Errors
/// When it no longer exists, or cannot be read.
pub fn has_grown(stores: &Stores, location: &Location, known: &ArrayMeta) -> Result<bool, StorageError> {
    let store = stores.open(location)?;
    let Some((mut found, _)) = document_of(&store, known.zarr_format, &location.to_string())? else {
        return Err(StorageError::InputGone { url: location.to_string(), machine: crate::world::in_words() });
    };
    let mut was = known.metadata.clone();
    let lengths = |doc: &serde_json::Value| -> Vec<u64> {
        doc.get("shape").and_then(|s| s.as_array()).into_iter().flatten().filter_map(serde_json::Value::as_u64).collect()
    };
    let (before, now) = (lengths(&was), lengths(&found));
    let grown = before.len() == now.len() && before != now && before.iter().zip(&now).all(|(a, b)| a <= b);
    for doc in [&mut found, &mut was] {
        doc.as_object_mut().map(|o| (o.remove("attributes"), o.remove("shape")));
    }
    Ok(grown && same(&was, &found).is_none())
}

impl ArrayIo {
    /// The stored chunks that were written after a time. No chunks, if the store cannot be listed.
    ///
    /// # Errors
    /// When storage fails.
    pub fn written_since(&self, time: Since) -> Result<HashSet<Vec<u64>>, StorageError> {
        let store = self.store();
        if !store.can_list() {
            return Ok(HashSet::new());
        }
        Ok(store.newer(time.at(store.is_remote()))?.iter().filter_map(|key| self.chunk_of(key)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_second_is_any_time_in_it() {
        let second = 1_700_000_000 * SECOND;
        assert_eq!(Since::Theirs(second).at(true), second + SECOND - 1);
        assert_eq!(Since::Theirs(second + 1).at(true), second + 1);
        assert_eq!((Since::Theirs(second).at(false), Since::Ours(second).at(false)), (second, second));
        assert_eq!(Since::Ours(second).at(true), second + CLOCKS);
    }
}
