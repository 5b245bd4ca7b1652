//! Who runs a plan: one driver at a time.
//!
//! Two drivers of one plan would delete each other's intermediates. So a driver leaves a note beside the folder of the run. Where the store cannot
//! compare and swap, two may take over a note that was left behind; then tasks still write whole, equal chunks, and one that misses a chunk
//! fails instead of reading it as zeros.

use crate::RunError;
use crate::claims::Claims;
use crate::note::{self, Note, RENEW, STALE, now};
use chunkwise_storage::{Location, Store};
use std::time::Instant;

/// The right to drive a run, until it is dropped.
pub(crate) struct Lease {
    store: Store,
    key: String,
    note: Note,
    renewed: Instant,
    /// Of the outputs of the run.
    pub claims: Option<Claims>,
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
        // A request that is repeated after an error may find what it has written itself.
        if let Some(other) = note::take(&store, &key, &note, |held: &Note| Ok(held.alive() && *held != note))? {
            return Err(RunError::Running { holder: other.holder(), seconds: STALE, url: store.url(&key) });
        }
        Ok(Some(Lease { store, key, note, renewed: Instant::now(), claims: None }))
    }

    /// The note of another driver that has taken the run over.
    fn taken(&self) -> Result<Option<Note>, RunError> {
        Ok(note::read::<Note>(&self.store, &self.key)?.filter(|held| !held.is(&self.note)))
    }

    /// Renews it if it is time to.
    ///
    /// # Errors
    /// When another driver has taken the run over, because this one was silent for too long: a machine may sleep.
    pub fn beat(&mut self) -> Result<(), RunError> {
        if let Some(claims) = &mut self.claims {
            claims.beat()?;
        }
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
        // Who finds no lease must find no claims.
        drop(self.claims.take());
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
    fn who_was_replaced_says_so_and_leaves_the_note_alone() {
        let run = Location::parse("memory://lease/taken/run", None).unwrap();
        let mut note = Note::mine();
        (note.machine, note.renewed) = ("another".into(), 0);
        let mut slept = Lease::take_as(note, &run).unwrap().unwrap();
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
