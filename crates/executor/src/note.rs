//! Notes tell other processes that a process is doing something that they may want to do, too. Leases, claims and group locks are notes.
//!
//! A note is an object in storage. Another process that finds it stops, unless the holder of the note is known to be gone: its process does
//! not exist on this machine or, if it is on another machine, it has not renewed its note for [`STALE`], by the clock of the store that has
//! the note. The holder of a note renews it by compare and swap. So a process that slept notices that another one has taken over its note.
//! A holder stops acting when its note was not renewed for [`FENCE`].

use crate::RunError;
use chunkwise_storage::{Moment, StorageError, Store, machine, now, process, process_start};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often a note is renewed.
pub(crate) const RENEW: Duration = Duration::from_secs(10);
/// After how many seconds without renewal a note counts as abandoned.
pub(crate) const STALE: u64 = 60;
/// How long its holder may act after it requested the last renewal. Requests that it has sent by then may take until the note is stale.
pub(crate) const FENCE: Duration = Duration::from_secs(45);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Note {
    /// The machine, its present boot, and the namespace of its process ids.
    pub machine: String,
    pub pid: u32,
    /// When the process was started, in ticks of the kernel, because ids are used again.
    started: Option<u64>,
    /// How many notes the process left before this one. A process may have several drivers.
    #[serde(default)]
    number: u64,
    /// Seconds since 1970, by the clock of its machine.
    pub renewed: u64,
    /// How often it was renewed.
    #[serde(default)]
    times: u64,
}

/// The number of notes that this process has taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

fn seconds() -> u64 {
    now() / 1_000_000_000
}

impl Note {
    /// A new note of this process.
    pub fn mine() -> Note {
        let (pid, number) = (process(), TAKEN.fetch_add(1, Ordering::Relaxed));
        Note { machine: machine(), pid, started: process_start(pid), number, renewed: seconds(), times: 0 }
    }

    /// True if it belongs to the same driver, whenever it was renewed.
    pub fn is(&self, other: &Note) -> bool {
        let who = |n: &Note| (n.machine.clone(), n.pid, n.started, n.number);
        who(self) == who(other)
    }

    /// The holder, for messages.
    pub fn holder(&self) -> String {
        format!("process {} on {}", self.pid, self.machine.split(' ').next().unwrap_or("?"))
    }

    /// True if its process is on this machine.
    pub fn is_here(&self) -> bool {
        self.machine == machine()
    }

    /// True if its process runs, as far as is known. `key` is the object of the note.
    ///
    /// # Errors
    /// When storage fails.
    pub fn alive(&self, store: &Store, key: &str) -> Result<bool, StorageError> {
        if self.is_here() {
            return Ok(process_start(self.pid).is_some_and(|s| self.started.is_none_or(|mine| mine == s)));
        }
        Ok(store.age(key)?.is_some_and(|age| age.as_secs() < STALE))
    }
}

/// The content of a note.
pub(crate) trait Noted: Serialize + DeserializeOwned + Send {
    /// True if a folder with nothing else in it is deleted with the note.
    const WITH_FOLDER: bool = false;
    /// The note itself.
    fn note(&self) -> &Note;
    /// The same, for renewal.
    fn note_mut(&mut self) -> &mut Note;
}

impl Noted for Note {
    fn note(&self) -> &Note {
        self
    }
    fn note_mut(&mut self) -> &mut Note {
        self
    }
}

fn text(noted: &impl Noted) -> Vec<u8> {
    serde_json::to_vec(noted).unwrap_or_default()
}

/// A note that this process holds.
pub(crate) struct Held<N> {
    pub store: Store,
    pub key: String,
    pub noted: N,
    /// The content of the object, as far as is known.
    text: Vec<u8>,
    /// When its last renewal was requested.
    pub renewed: Moment,
}

/// The result of a renewal.
pub(crate) enum Renewed {
    /// It is renewed.
    Done,
    /// Another process holds it now, or it was deleted.
    Lost(Option<Note>),
}

/// Leaves a note, unless there is one whose holder is `alive`. Then that note is the result. If several processes replace an abandoned
/// note, one succeeds, provided that the store supports compare and swap.
///
/// # Errors
/// When storage fails.
pub(crate) fn take<N: Noted>(
    store: &Store,
    key: &str,
    noted: N,
    alive: impl Fn(&N) -> Result<bool, StorageError>,
) -> Result<Result<Held<N>, N>, StorageError> {
    let own = text(&noted);
    loop {
        let renewed = Moment::now();
        let held = |noted| Ok(Ok(Held { store: store.clone(), key: key.into(), noted, text: own.clone(), renewed }));
        if store.create(key, &own)? {
            return held(noted);
        }
        let Some(found) = store.get(key)? else { continue };
        if let Ok(other) = serde_json::from_slice::<N>(&found) {
            // A request that is repeated after an error may find what it has written itself.
            if other.note() == noted.note() {
                return held(noted);
            }
            if alive(&other)? {
                return Ok(Err(other));
            }
        }
        let renewed = Moment::now();
        if store.swap(key, &found, &own)? {
            return Ok(Ok(Held { store: store.clone(), key: key.into(), noted, text: own, renewed }));
        }
    }
}

/// The present note, if it can be read.
///
/// # Errors
/// When storage fails.
pub(crate) fn read<N: DeserializeOwned>(store: &Store, key: &str) -> Result<Option<N>, StorageError> {
    Ok(store.get(key)?.and_then(|d| serde_json::from_slice(&d).ok()))
}

impl<N: Noted> Held<N> {
    /// Renews the note.
    ///
    /// # Errors
    /// When storage fails. Then it is not known whether the note is renewed.
    pub fn renew(&mut self) -> Result<Renewed, StorageError> {
        let renewed = Moment::now();
        let note = self.noted.note_mut();
        (note.renewed, note.times) = (seconds(), note.times + 1);
        let new = text(&self.noted);
        // Tries once more if the note is still ours but has another content than expected: the answer to a renewal was lost.
        for _ in 0..2 {
            if self.store.swap(&self.key, &self.text, &new)? {
                (self.text, self.renewed) = (new, renewed);
                return Ok(Renewed::Done);
            }
            let Some(found) = self.store.get(&self.key)? else { return Ok(Renewed::Lost(None)) };
            match serde_json::from_slice::<N>(&found) {
                Ok(other) if other.note().is(self.noted.note()) => self.text = found.to_vec(),
                other => return Ok(Renewed::Lost(other.ok().map(|n| n.note().clone()))),
            }
            if self.text == new {
                self.renewed = renewed;
                return Ok(Renewed::Done);
            }
        }
        let (action, url, detail) = ("write", self.store.url(&self.key), "somebody else writes to it".into());
        Err(StorageError::Store { action, url, detail, transient: true })
    }

    /// Deletes it, if it is still ours.
    pub fn release(&mut self) {
        // No other process can have taken over this note yet.
        if self.renewed.elapsed() < FENCE / 2 || matches!(self.renew(), Ok(Renewed::Done)) {
            let _ = if N::WITH_FOLDER { self.store.delete_alone(&self.key) } else { self.store.delete(&self.key) };
        }
    }

    /// The error of a run that has lost its note.
    pub fn lost(&self, to: Option<&Note>, detail: Option<String>) -> RunError {
        let place = self.store.url(&self.key);
        let detail = match (to, detail) {
            (Some(other), _) => format!("{} has taken it over", other.holder()),
            (None, Some(detail)) => detail,
            (None, None) => "somebody has deleted it".into(),
        };
        RunError::Lost { note: place, detail, seconds: FENCE.as_secs() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use chunkwise_storage::{Location, Stores};
    use std::time::Instant;

    /// A note of a process that has ended.
    pub fn of_the_dead() -> Note {
        Note { pid: u32::MAX, ..Note::mine() }
    }

    #[test]
    fn dead_processes_hold_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let store = Stores::new().open(&Location::parse(folder.path().to_str().unwrap(), None).unwrap()).unwrap();
        store.put("note", &b"x"[..]).unwrap();
        let alive = |note: &Note| note.alive(&store, "note").unwrap();
        let mine = Note::mine();
        assert!(alive(&mine));
        assert!(!alive(&of_the_dead()));
        assert!(!alive(&Note { started: Some(1), ..mine.clone() }));
        // The clock of the store counts, whatever the clock of another machine says.
        let elsewhere = Note { machine: "another".into(), renewed: 0, ..mine };
        assert!(alive(&elsewhere));
        let file = std::fs::File::options().write(true).open(folder.path().join("note")).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(STALE + 1)).unwrap();
        assert!(!alive(&Note { renewed: u64::MAX, ..elsewhere }));
    }

    #[test]
    fn a_process_that_nobody_waits_for_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let note = Note { pid: child.id(), started: process_start(child.id()), ..Note::mine() };
        let deadline = Instant::now() + Duration::from_secs(20);
        let store = Stores::new().open(&Location::parse("memory://notes", None).unwrap()).unwrap();
        let alive = || note.alive(&store, "x").unwrap();
        while alive() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!alive() && std::path::Path::new(&format!("/proc/{}", child.id())).exists());
        child.wait().unwrap();
    }

    #[test]
    fn a_renewal_without_an_answer_is_known_again() {
        let store = Stores::new().open(&Location::parse("memory://notes/renewed", None).unwrap()).unwrap();
        let mut held = take(&store, "note", Note::mine(), |_: &Note| Ok(true)).unwrap().ok().unwrap();
        let before = held.text.clone();
        assert!(matches!(held.renew(), Ok(Renewed::Done)));
        held.text = before;
        assert!(matches!(held.renew(), Ok(Renewed::Done)));
        let other = Note::mine();
        store.put("note", text(&other)).unwrap();
        assert!(matches!(held.renew(), Ok(Renewed::Lost(Some(to))) if to.is(&other)));
        held.renewed = Moment::now().before(FENCE);
        held.release();
        assert!(store.get("note").unwrap().is_some(), "it is the other one's");
        store.delete("note").unwrap();
        assert!(matches!(held.renew(), Ok(Renewed::Lost(None))));
    }
}
