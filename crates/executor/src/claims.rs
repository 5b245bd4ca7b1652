//! Claims on outputs: while a run writes an output, no other run may write it. Two runs at once would leave chunks of both.
//!
//! A run leaves a claim in the folder of each of its outputs before it deletes or writes anything there, and removes it at its end. Another
//! run that finds a claim stops, unless the first run is gone. Only the claim of the first output is renewed, for all of them.

use crate::RunError;
use crate::driver::Still;
use crate::note::{self, Held, Note, Noted, STALE};
use crate::renewals::{Fence, Renewals};
use chunkwise_storage::{Location, Moment, StorageError, Store, Stores, at_once, sleep};
use chunkwise_task::TaskContext;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The object in the folder of an output.
pub(crate) const CLAIM: &str = ".chunkwise-claim";
/// The prefix of such objects.
pub(crate) const NOTES: &str = ".chunkwise-";
/// The object in the folder of a group whose coordinates and metadata are being written.
pub(crate) const LOCK: &str = ".chunkwise-lock";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Claim {
    /// The id of the run.
    run: String,
    /// Its driver.
    note: Note,
    /// The folder whose claim is renewed.
    renewed_in: String,
}

impl Noted for Claim {
    const WITH_FOLDER: bool = true;
    fn note(&self) -> &Note {
        &self.note
    }
    fn note_mut(&mut self) -> &mut Note {
        &mut self.note
    }
}

impl Claim {
    /// True if its run goes on, as far as is known.
    fn alive(&self, at: &Store) -> Result<bool, StorageError> {
        if self.note.is_here() || self.renewed_in == at.url("") {
            return self.note.alive(at, CLAIM);
        }
        let renewed = || -> Result<Option<bool>, StorageError> {
            let store = at.stores().open(&Location::parse(&self.renewed_in, None)?)?;
            let Some(other) = note::read::<Claim>(&store, CLAIM)?.filter(|c| c.note.is(&self.note)) else { return Ok(None) };
            other.note.alive(&store, CLAIM).map(Some)
        };
        // If the other note cannot be read, the run is not known to be gone.
        Ok(renewed().map_or(true, |found| found.unwrap_or(false)))
    }
}

fn refusal(store: &Store, held: &Claim) -> RunError {
    RunError::Claimed {
        url: store.url("").trim_end_matches('/').into(),
        run: held.run.clone(),
        holder: held.note.holder(),
        seconds: STALE,
        claim: store.url(CLAIM),
    }
}

/// The claims on the outputs of a run. They end when this is dropped.
pub(crate) struct Claims {
    /// The claim on the first output. A run without outputs has none.
    first: Option<Renewals<Claim>>,
    rest: Vec<Held<Claim>>,
}

impl Claims {
    /// Claims outputs.
    ///
    /// # Errors
    /// When another run writes to an output, or storage fails. Then none is claimed.
    pub fn take(ctx: &TaskContext, outputs: &[&str]) -> Result<Claims, RunError> {
        let stores: Vec<Store> = outputs.iter().map(|name| ctx.stores().open(ctx.array_location(name))).collect::<Result<_, _>>()?;
        let renewed_in = stores.first().map(|s| s.url("")).unwrap_or_default();
        let claim = Claim { run: ctx.plan.id(), note: Note::mine(), renewed_in };
        // The first output is claimed first, because its claim is the one that is renewed for the others.
        let (first, rest) = stores.split_at(stores.len().min(1));
        let first = first.iter().map(|store| claim.take(store)).next().transpose()?.map(Renewals::of);
        let mut claims = Claims { first, rest: Vec::new() };
        let mut refused = None;
        for taken in at_once(rest, |store| claim.take(store)) {
            match taken {
                Ok(held) => claims.rest.push(held),
                Err(e) => refused = refused.or(Some(e)),
            }
        }
        refused.map_or(Ok(claims), Err)
    }

    /// Checks that the outputs are still ours.
    ///
    /// # Errors
    /// When another run has taken over an output, or may have done so because this run was silent for too long.
    pub fn check(&self) -> Result<(), RunError> {
        self.first.as_ref().map_or(Ok(()), Renewals::check)
    }

    /// The time until which the outputs may be written.
    pub fn fence(&self) -> Option<Fence> {
        self.first.as_ref().map(Renewals::fence)
    }
}

impl Claim {
    fn take(&self, store: &Store) -> Result<Held<Claim>, RunError> {
        note::take(store, CLAIM, self.clone(), |held| held.alive(store))?.map_err(|held| refusal(store, &held))
    }
}

impl Drop for Claims {
    fn drop(&mut self) {
        let rest: Vec<Mutex<Held<Claim>>> = std::mem::take(&mut self.rest).into_iter().map(Mutex::new).collect();
        at_once(&rest, |held| held.lock().release());
        self.first = None;
    }
}

/// Refuses outputs that another run writes to. For runs that are prepared without a driver.
///
/// # Errors
/// When there is one.
pub(crate) fn check(ctx: &TaskContext, outputs: &[&str]) -> Result<(), RunError> {
    let look = |name: &&str| -> Result<(), RunError> {
        let store = ctx.stores().open(ctx.array_location(name))?;
        match note::read::<Claim>(&store, CLAIM)? {
            Some(held) if held.alive(&store)? => Err(refusal(&store, &held)),
            _ => Ok(()),
        }
    };
    at_once(outputs, look).into_iter().collect()
}

/// The lock of a group: the right to write its coordinates and metadata, until this is dropped.
pub(crate) struct GroupLock(Renewals<Note>);

/// How long another run may take for a group.
const WAIT: Duration = Duration::from_secs(120);
/// Pauses between two checks: the first one and the longest one.
const PAUSE: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

impl GroupLock {
    /// Waits for the lock, unless `still` fails.
    ///
    /// # Errors
    /// When another run holds the lock for too long, or storage fails. Also the errors of `still`.
    pub fn wait(stores: &Stores, group: &Location, still: Still<'_>) -> Result<GroupLock, RunError> {
        let (store, began, mut pause) = (stores.open(group)?, Moment::now(), PAUSE[0]);
        let mine = Note::mine();
        loop {
            match note::take(&store, LOCK, mine.clone(), |held: &Note| held.alive(&store, LOCK))? {
                Ok(held) => return Ok(GroupLock(Renewals::of(held))),
                Err(held) if began.elapsed() > WAIT => {
                    let detail = format!(
                        "{} has been writing its coordinates for more than {} s; if it is certainly gone, delete '{}'",
                        held.holder(),
                        WAIT.as_secs(),
                        store.url(LOCK)
                    );
                    return Err(RunError::Group { url: group.to_string(), detail });
                }
                Err(_) => sleep(pause),
            }
            pause = (pause * 2).min(PAUSE[1]);
            still()?;
        }
    }

    /// Checks that the lock is still ours.
    ///
    /// # Errors
    /// When it is not, or may not be.
    pub fn check(&self) -> Result<(), RunError> {
        self.0.check()
    }
}
