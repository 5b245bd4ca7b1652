//! The lease of a run: one driver at a time runs a plan.
//!
//! Two drivers of one plan would delete each other's intermediates. So a driver leaves a note beside the folder of the run. Where the store cannot
//! compare and swap, two may take over a note that was left behind; then tasks still write whole, equal chunks, and one that misses a chunk
//! fails instead of reading it as zeros.

use crate::RunError;
use crate::claims::Claims;
use crate::note::{self, Note, STALE};
use crate::renewals::{Fence, Renewals};
use chunkwise_storage::{Location, Store};

/// The right to drive a run, until it is dropped.
pub(crate) struct Lease {
    /// The claims on the outputs of the run. They go first: a driver that finds no lease must find no claims.
    pub claims: Option<Claims>,
    own: Renewals<Note>,
    store: Store,
    key: String,
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
        let taken = note::take(&store, &key, note, |held: &Note| held.alive(&store, &key))?;
        match taken {
            Ok(held) => Ok(Some(Lease { claims: None, own: Renewals::of(held), store, key })),
            Err(other) => Err(RunError::Running { holder: other.holder(), seconds: STALE, url: store.url(&key) }),
        }
    }

    /// Makes sure that the run and its outputs are still this driver's.
    ///
    /// # Errors
    /// When they are not, or may not be, because this driver was silent for too long: a machine may sleep.
    pub fn check(&self) -> Result<(), RunError> {
        self.own.check()?;
        self.claims.as_ref().map_or(Ok(()), Claims::check)
    }

    /// When it was renewed last, by the clock of its store, if that is an object store: nanoseconds since 1970.
    ///
    /// # Errors
    /// When storage fails.
    pub fn renewed_at(&self) -> Result<Option<u64>, RunError> {
        Ok(self.store.written_at(&self.key)?)
    }

    /// Until when the run may write.
    pub fn fence(&self) -> Fence {
        let claims = self.claims.as_ref().and_then(Claims::fence);
        claims.into_iter().fold(self.own.fence(), Fence::and)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::note::tests::of_the_dead;

    #[test]
    fn who_was_replaced_says_so_and_leaves_the_note_alone() {
        let run = Location::parse("memory://lease/taken/run", None).unwrap();
        let slept = Lease::take_as(of_the_dead(), &run).unwrap().unwrap();
        let lease = Lease::take(&run).unwrap().unwrap();
        slept.own.forget_renewals();
        assert!(slept.fence().passed());
        assert!(matches!(slept.check(), Err(RunError::Lost { .. })));
        drop(slept);
        assert!(matches!(Lease::take(&run), Err(RunError::Running { .. })));
        assert!(!lease.fence().passed());
        lease.check().unwrap();
        drop(lease);
        assert!(Lease::take(&run).unwrap().is_some());
    }

    #[test]
    fn who_slept_goes_on_if_nobody_came() {
        let run = Location::parse("memory://lease/slept/run", None).unwrap();
        let slept = Lease::take(&run).unwrap().unwrap();
        slept.own.forget_renewals();
        slept.check().unwrap();
        assert!(!slept.fence().passed());
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
