//! Notes that say which process does something, for others that want to do it, too.
//!
//! A note is an object in storage. Another process that finds it stops, unless the first one is known to be gone: its process does not exist on
//! this machine, or, of another machine, it has not renewed its note for [`STALE`].

use chunkwise_storage::{StorageError, Store, machine};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often it is renewed.
pub(crate) const RENEW: Duration = Duration::from_secs(10);
/// After how long without renewal it counts as left behind.
pub(crate) const STALE: u64 = 60;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The machine, this start of it, and the namespace of its process ids.
    pub machine: String,
    pid: u32,
    /// When the process was started, in the kernel's ticks: ids are used again.
    started: Option<u64>,
    /// How many leases the process took before: a process may have several drivers.
    #[serde(default)]
    number: u64,
    /// Seconds since 1970.
    pub renewed: u64,
}

/// Leases that this process took.
static TAKEN: AtomicU64 = AtomicU64::new(0);

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn process_start(pid: u32) -> Option<u64> {
    // Field 22; the name, field 2, is in brackets and may hold anything.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    // One that has ended, and that nobody has waited for, does nothing any more.
    fields.next().filter(|state| !matches!(*state, "Z" | "X" | "x"))?;
    fields.nth(18)?.parse().ok()
}

impl Note {
    /// One of this process.
    pub fn mine() -> Note {
        let pid = std::process::id();
        let number = TAKEN.fetch_add(1, Ordering::Relaxed);
        Note { machine: machine().into(), pid, started: process_start(pid), number, renewed: now() }
    }

    /// True if it is of the same driver, whenever it was renewed.
    pub fn is(&self, other: &Note) -> bool {
        let who = |n: &Note| (n.machine.clone(), n.pid, n.started, n.number);
        who(self) == who(other)
    }

    /// Whose it is, for messages.
    pub fn holder(&self) -> String {
        format!("process {} on {}", self.pid, self.machine.split(' ').next().unwrap_or("?"))
    }

    /// True if its process is of this machine.
    pub fn is_here(&self) -> bool {
        self.machine == machine()
    }

    /// True if its process runs, as far as is known.
    pub fn alive(&self) -> bool {
        if self.is_here() {
            return process_start(self.pid).is_some_and(|s| self.started.is_none_or(|mine| mine == s));
        }
        now() < self.renewed.saturating_add(STALE)
    }
}

/// Writes a note, unless there is one of somebody who is `alive`: that one is the result. Of several processes that replace one that is left
/// behind, one succeeds, where the store can compare and swap.
///
/// # Errors
/// When storage fails.
pub(crate) fn take<N: Serialize + DeserializeOwned>(
    store: &Store,
    key: &str,
    note: &N,
    alive: impl Fn(&N) -> Result<bool, StorageError>,
) -> Result<Option<N>, StorageError> {
    let text = serde_json::to_vec(note).unwrap_or_default();
    loop {
        if store.create(key, &text)? {
            return Ok(None);
        }
        let Some(found) = store.get(key)? else { continue };
        if let Ok(other) = serde_json::from_slice::<N>(&found)
            && alive(&other)?
        {
            return Ok(Some(other));
        }
        if store.swap(key, &found, &text)? {
            return Ok(None);
        }
    }
}

/// The note that is there, if it can be read.
///
/// # Errors
/// When storage fails.
pub(crate) fn read<N: DeserializeOwned>(store: &Store, key: &str) -> Result<Option<N>, StorageError> {
    Ok(store.get(key)?.and_then(|d| serde_json::from_slice(&d).ok()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn dead_processes_hold_nothing() {
        let mine = Note::mine();
        assert!(mine.alive());
        assert!(!Note { pid: u32::MAX, ..mine.clone() }.alive());
        assert!(!Note { started: Some(1), ..mine.clone() }.alive());
        let elsewhere = Note { machine: "another".into(), ..mine };
        assert!(elsewhere.alive());
        assert!(!Note { renewed: now() - STALE, ..elsewhere }.alive());
    }

    #[test]
    fn a_process_that_nobody_waits_for_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let note = Note { pid: child.id(), started: process_start(child.id()), ..Note::mine() };
        let deadline = Instant::now() + Duration::from_secs(20);
        while note.alive() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!note.alive() && std::path::Path::new(&format!("/proc/{}", child.id())).exists());
        child.wait().unwrap();
    }
}
