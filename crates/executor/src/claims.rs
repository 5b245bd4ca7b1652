//! Which run an output belongs to while it is written: two runs at once would leave chunks of both.
//!
//! A run leaves a note in the folder of each of its outputs before it deletes or writes anything there, and takes it away at its end. Another run
//! that finds one stops, unless the first one is gone. The note of the first output is renewed for all.

use crate::RunError;
use crate::driver::Still;
use crate::note::{self, Held, Note, Noted, STALE};
use crate::renewals::{Fence, Renewals};
use chunkwise_storage::{Location, Moment, StorageError, Store, at_once, sleep};
use chunkwise_task::TaskContext;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The object in the folder of an output.
pub(crate) const CLAIM: &str = ".chunkwise-claim";
/// What such objects begin with.
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
            let store = Store::open(&Location::parse(&self.renewed_in, None)?)?;
            let Some(other) = note::read::<Claim>(&store, CLAIM)?.filter(|c| c.note.is(&self.note)) else { return Ok(None) };
            other.note.alive(&store, CLAIM).map(Some)
        };
        // Where the other note cannot be read, the run is not known to be gone.
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

/// What the outputs of a run are claimed by, until it is dropped.
pub(crate) struct Claims {
    /// That of the first output. A run without outputs has none.
    first: Option<Renewals<Claim>>,
    rest: Vec<Held<Claim>>,
}

impl Claims {
    /// Claims outputs.
    ///
    /// # Errors
    /// When another run writes to one, or storage fails; then none is claimed.
    pub fn take(ctx: &TaskContext, outputs: &[&str]) -> Result<Claims, RunError> {
        let stores: Vec<Store> = outputs.iter().map(|name| Store::open(ctx.array_location(name))).collect::<Result<_, _>>()?;
        let renewed_in = stores.first().map(|s| s.url("")).unwrap_or_default();
        let claim = Claim { run: ctx.plan.id(), note: Note::mine(), renewed_in };
        // The first one first: others of these are known to be renewed by it.
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

    /// Makes sure that the outputs are still ours.
    ///
    /// # Errors
    /// When another run has taken one over, or may have, because this one was silent for too long.
    pub fn check(&self) -> Result<(), RunError> {
        self.first.as_ref().map_or(Ok(()), Renewals::check)
    }

    /// Until when the outputs may be written to.
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

/// Refuses outputs that another run writes to, for a run that is prepared without a driver.
///
/// # Errors
/// When there is one.
pub(crate) fn check(ctx: &TaskContext, outputs: &[&str]) -> Result<(), RunError> {
    let look = |name: &&str| -> Result<(), RunError> {
        let store = Store::open(ctx.array_location(name))?;
        match note::read::<Claim>(&store, CLAIM)? {
            Some(held) if held.alive(&store)? => Err(refusal(&store, &held)),
            _ => Ok(()),
        }
    };
    at_once(outputs, look).into_iter().collect()
}

/// The right to write the coordinates and the metadata of a group, until it is dropped.
pub(crate) struct GroupLock(Renewals<Note>);

/// How long another run may take for a group.
const WAIT: Duration = Duration::from_secs(120);
/// How soon it is looked again, at first and at most.
const PAUSE: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

impl GroupLock {
    /// Waits for it, as long as `still` has nothing against it.
    ///
    /// # Errors
    /// When another run has it for too long, or storage fails; and those of `still`.
    pub fn wait(group: &Location, still: Still<'_>) -> Result<GroupLock, RunError> {
        let (store, began, mut pause) = (Store::open(group)?, Moment::now(), PAUSE[0]);
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

    /// Makes sure that it is still ours.
    ///
    /// # Errors
    /// When it is not, or may not be.
    pub fn check(&self) -> Result<(), RunError> {
        self.0.check()
    }
}
