//! Who runs a plan: one driver at a time.
//!
//! Two drivers of one plan would delete each other's intermediates. So a driver leaves a note beside the folder of the run, and another one
//! that finds it stops, unless the first one is known to be gone: its process does not exist on this machine, or, of another machine, it
//! has not renewed its note for [`STALE`]. Taking over such a note is not atomic everywhere; if two do it at once, tasks still write
//! whole, equal chunks, and one that misses a chunk fails instead of reading it as zeros.

use crate::RunError;
use chunkwise_storage::{Location, Store};
use serde::{Deserialize, Serialize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often it is renewed.
const RENEW: Duration = Duration::from_secs(10);
/// After how long without renewal it counts as left behind.
const STALE: u64 = 60;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Note {
    /// The machine, this start of it, and the namespace of its process ids.
    machine: String,
    pid: u32,
    /// When the process was started, in the kernel's ticks: ids are used again.
    started: Option<u64>,
    /// How many leases the process took before: a process may have several drivers.
    #[serde(default)]
    number: u64,
    /// Seconds since 1970.
    renewed: u64,
}

/// Leases that this process took.
static TAKEN: AtomicU64 = AtomicU64::new(0);

fn now() -> u64 {
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

fn machine() -> String {
    let read = |p: &str| std::fs::read_to_string(p).unwrap_or_default().trim().to_string();
    let space = std::fs::read_link("/proc/self/ns/pid").map(|p| p.display().to_string()).unwrap_or_default();
    format!("{} {} {space}", read("/proc/sys/kernel/hostname"), read("/proc/sys/kernel/random/boot_id"))
}

impl Note {
    fn mine() -> Note {
        let pid = std::process::id();
        let number = TAKEN.fetch_add(1, Ordering::Relaxed);
        Note { machine: machine(), pid, started: process_start(pid), number, renewed: now() }
    }

    /// True if it is of the same driver, whenever it was renewed.
    fn is(&self, other: &Note) -> bool {
        let who = |n: &Note| (n.machine.clone(), n.pid, n.started, n.number);
        who(self) == who(other)
    }

    fn holder(&self) -> String {
        format!("process {} on {}", self.pid, self.machine.split(' ').next().unwrap_or("?"))
    }

    fn alive(&self) -> bool {
        if self.machine == machine() {
            return process_start(self.pid).is_some_and(|s| self.started.is_none_or(|mine| mine == s));
        }
        now() < self.renewed.saturating_add(STALE)
    }
}

/// The right to drive a run, until it is dropped.
pub(crate) struct Lease {
    store: Store,
    key: String,
    note: Note,
    renewed: Instant,
}

impl Lease {
    /// Takes it for the run in a folder.
    pub fn take(run_dir: &Location) -> Result<Option<Lease>, RunError> {
        Lease::take_as(Note::mine(), run_dir)
    }

    fn take_as(note: Note, run_dir: &Location) -> Result<Option<Lease>, RunError> {
        let Some(folder) = run_dir.parent() else { return Ok(None) };
        let store = Store::open(&folder)?;
        let key = format!("{}.lock", run_dir.name());
        let text = || serde_json::to_vec(&note).unwrap_or_default();
        if !store.create(&key, &text())? {
            let held = store.get(&key)?.and_then(|d| serde_json::from_slice::<Note>(&d).ok());
            // A request that is repeated after an error may find what it has written itself.
            if let Some(other) = held.filter(|held| held.alive() && *held != note) {
                return Err(RunError::Running { holder: other.holder(), seconds: STALE, url: store.url(&key) });
            }
            store.put(&key, text())?;
        }
        Ok(Some(Lease { store, key, note, renewed: Instant::now() }))
    }

    /// The note of another driver that has taken the run over.
    fn taken(&self) -> Result<Option<Note>, RunError> {
        let held = self.store.get(&self.key)?.and_then(|d| serde_json::from_slice::<Note>(&d).ok());
        Ok(held.filter(|held| !held.is(&self.note)))
    }

    /// Renews it if it is time to.
    ///
    /// # Errors
    /// When another driver has taken the run over, because this one was silent for too long: a machine may sleep.
    pub fn beat(&mut self) -> Result<(), RunError> {
        if self.renewed.elapsed() > RENEW {
            if let Some(other) = self.taken()? {
                return Err(RunError::Running { holder: other.holder(), seconds: STALE, url: self.store.url(&self.key) });
            }
            self.renewed = Instant::now();
            self.note.renewed = now();
            self.store.put(&self.key, serde_json::to_vec(&self.note).unwrap_or_default())?;
        }
        Ok(())
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // One that was taken over is another driver's.
        if matches!(self.taken(), Ok(None)) {
            let _ = self.store.delete(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn who_was_replaced_says_so_and_leaves_the_note_alone() {
        let run = Location::parse("memory://lease/taken/run", None).unwrap();
        let mut slept = Lease::take_as(Note { machine: "another".into(), renewed: 0, ..Note::mine() }, &run).unwrap().unwrap();
        let lease = Lease::take(&run).unwrap().unwrap();
        slept.renewed = Instant::now().checked_sub(RENEW * 2).unwrap();
        assert!(matches!(slept.beat(), Err(RunError::Running { .. })));
        drop(slept);
        assert!(matches!(Lease::take(&run), Err(RunError::Running { .. })));
        drop(lease);
        assert!(Lease::take(&run).unwrap().is_some());
    }

    #[test]
    fn one_driver_holds_a_run() {
        let run = Location::parse("memory://lease/work/run", None).unwrap();
        let note = Note::mine();
        let lease = Lease::take_as(note.clone(), &run).unwrap().unwrap();
        // Another driver, also of this process, is told so; a request that is sent again is none.
        assert!(matches!(Lease::take(&run), Err(RunError::Running { .. })));
        let again = Lease::take_as(note, &run).unwrap().unwrap();
        drop((lease, again));
        assert!(Lease::take(&run).unwrap().is_some());
    }
}
