//! The lease of a run. It makes sure that one driver at a time runs a plan.
//!
//! Two drivers of one plan would delete each other's intermediates. So a driver leaves a note beside the folder of the run. If the store
//! does not support compare and swap, two drivers may take over an abandoned note. Then tasks still write whole, equal chunks, and a task
//! that misses a chunk fails instead of reading zeros.

use crate::RunError;
use crate::claims::Claims;
use crate::note::{self, Note, STALE};
use crate::renewals::{Fence, Renewals};
use chunkwise_storage::{Location, Store, Stores};

/// The lease of a run, until this is dropped.
pub(crate) struct Lease {
    /// The claims on the outputs of the run. They are dropped first: a driver that finds no lease must find no claims.
    pub claims: Option<Claims>,
    own: Renewals<Note>,
    store: Store,
    key: String,
}

impl Lease {
    /// Takes the lease of the run in a folder.
    pub fn take(stores: &Stores, run_dir: &Location) -> Result<Option<Lease>, RunError> {
        Lease::take_as(stores, Note::mine(), run_dir)
    }

    fn take_as(stores: &Stores, note: Note, run_dir: &Location) -> Result<Option<Lease>, RunError> {
        let Some(folder) = run_dir.parent() else { return Ok(None) };
        let store = stores.open(&folder)?;
        let key = format!("{}.lock", run_dir.name());
        let taken = note::take(&store, &key, note, |held: &Note| held.alive(&store, &key))?;
        match taken {
            Ok(held) => Ok(Some(Lease { claims: None, own: Renewals::of(held), store, key })),
            Err(other) => Err(RunError::Running { holder: other.holder(), seconds: STALE, url: store.url(&key) }),
        }
    }

    /// Checks that the run and its outputs still belong to this driver.
    ///
    /// # Errors
    /// When they do not, or may not because this driver was silent for too long. A machine may sleep.
    pub fn check(&self) -> Result<(), RunError> {
        self.own.check()?;
        self.claims.as_ref().map_or(Ok(()), Claims::check)
    }

    /// When it was last renewed, by the clock of its store, if that is an object store: nanoseconds since 1970.
    ///
    /// # Errors
    /// When storage fails.
    pub fn renewed_at(&self) -> Result<Option<u64>, RunError> {
        Ok(self.store.written_at(&self.key)?)
    }

    /// The time until which the run may write.
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
        let stores = Stores::new();
        let run = Location::parse("memory://lease/taken/run", None).unwrap();
        let slept = Lease::take_as(&stores, of_the_dead(), &run).unwrap().unwrap();
        let lease = Lease::take(&stores, &run).unwrap().unwrap();
        slept.own.forget_renewals();
        assert!(slept.fence().passed());
        assert!(matches!(slept.check(), Err(RunError::Lost { .. })));
        drop(slept);
        assert!(matches!(Lease::take(&stores, &run), Err(RunError::Running { .. })));
        assert!(!lease.fence().passed());
        lease.check().unwrap();
        drop(lease);
        assert!(Lease::take(&stores, &run).unwrap().is_some());
    }

    #[test]
    fn who_slept_goes_on_if_nobody_came() {
        let stores = Stores::new();
        let run = Location::parse("memory://lease/slept/run", None).unwrap();
        let slept = Lease::take(&stores, &run).unwrap().unwrap();
        slept.own.forget_renewals();
        slept.check().unwrap();
        assert!(!slept.fence().passed());
    }

    #[test]
    fn one_driver_holds_a_run() {
        let stores = Stores::new();
        let run = Location::parse("memory://lease/work/run", None).unwrap();
        let note = Note::mine();
        let lease = Lease::take_as(&stores, note.clone(), &run).unwrap().unwrap();
        // Another driver is told so, even in the same process. A request that is sent again is not another driver.
        assert!(matches!(Lease::take(&stores, &run), Err(RunError::Running { .. })));
        let again = Lease::take_as(&stores, note, &run).unwrap().unwrap();
        drop((lease, again));
        assert!(Lease::take(&stores, &run).unwrap().is_some());
    }
}
