//! Whose an output is while it is written: two runs at once would leave chunks of both.
//!
//! A run leaves a note in the folder of each of its outputs before it deletes or writes anything there, and takes it away at its end. Another run
//! that finds one stops, unless the first one is gone. The note of the first output is renewed for all.

use crate::RunError;
use crate::note::{self, Note, RENEW, STALE, now};
use chunkwise_storage::{Location, StorageError, Store, at_once};
use chunkwise_task::TaskContext;
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// The object in the folder of an output.
pub(crate) const CLAIM: &str = ".chunkwise-claim";
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

impl Claim {
    /// True if its run goes on, as far as is known.
    fn alive(&self, at: &Store) -> Result<bool, StorageError> {
        if self.note.is_here() || self.renewed_in == at.url("") {
            return Ok(self.note.alive());
        }
        // Where it cannot be looked for, it is left alone for a while.
        let renewed = Location::parse(&self.renewed_in, None).and_then(|l| note::read::<Claim>(&Store::open(&l)?, CLAIM));
        match renewed {
            Ok(Some(other)) if other.note.is(&self.note) => Ok(other.note.alive()),
            Ok(_) => Ok(false),
            Err(_) => Ok(self.note.alive()),
        }
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
    claim: Claim,
    held: Vec<Store>,
    renewed: Instant,
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
        let taken = at_once(&stores, |store| claim.take(store));
        let mut claims = Claims { claim, held: Vec::new(), renewed: Instant::now() };
        let mut refused = None;
        for (store, taken) in stores.into_iter().zip(taken) {
            match taken {
                Ok(()) => claims.held.push(store),
                Err(e) => refused = refused.or(Some(e)),
            }
        }
        refused.map_or(Ok(claims), Err)
    }

    /// Renews the claims if it is time to.
    ///
    /// # Errors
    /// When another run has taken an output over, because this one was silent for too long: a machine may sleep.
    pub fn beat(&mut self) -> Result<(), RunError> {
        let Some(first) = self.held.first().filter(|_| self.renewed.elapsed() > RENEW) else { return Ok(()) };
        match note::read::<Claim>(first, CLAIM)? {
            Some(held) if !held.note.is(&self.claim.note) => return Err(refusal(first, &held)),
            _ => {}
        }
        self.renewed = Instant::now();
        self.claim.note.renewed = now();
        Ok(first.put(CLAIM, serde_json::to_vec(&self.claim).unwrap_or_default())?)
    }
}

impl Claim {
    fn take(&self, store: &Store) -> Result<(), RunError> {
        // A request that is repeated after an error may find what it has written itself.
        let alive = |held: &Claim| Ok(!held.note.is(&self.note) && held.alive(store)?);
        match note::take(store, CLAIM, self, alive)? {
            Some(held) => Err(refusal(store, &held)),
            None => Ok(()),
        }
    }
}

/// True if nobody can have taken a note over since it was renewed, or if looking says so.
fn still_ours(renewed: Instant, look: impl Fn() -> bool) -> bool {
    renewed.elapsed().as_secs() < STALE / 2 || look()
}

impl Drop for Claims {
    fn drop(&mut self) {
        at_once(&self.held, |store| {
            if still_ours(self.renewed, || matches!(note::read::<Claim>(store, CLAIM), Ok(Some(held)) if held.note.is(&self.claim.note))) {
                let _ = store.delete_alone(CLAIM);
            }
        });
    }
}

/// Refuses outputs that another run writes to, for those who prepare a run without a driver.
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
pub(crate) struct GroupLock {
    store: Store,
    note: Note,
    taken: Instant,
}

/// How long another run may take for a group.
const WAIT: std::time::Duration = std::time::Duration::from_secs(120);

impl GroupLock {
    /// Waits for it.
    ///
    /// # Errors
    /// When another run has it for too long, or storage fails.
    pub fn wait(group: &Location) -> Result<GroupLock, RunError> {
        let (store, mine, began) = (Store::open(group)?, Note::mine(), Instant::now());
        loop {
            match note::take(&store, LOCK, &mine, |held: &Note| Ok(held.alive() && *held != mine))? {
                None => return Ok(GroupLock { store, note: mine, taken: Instant::now() }),
                Some(held) if began.elapsed() > WAIT => {
                    let detail = format!(
                        "{} has been writing its coordinates for more than {} s; if it is certainly gone, delete '{}'",
                        held.holder(),
                        WAIT.as_secs(),
                        store.url(LOCK)
                    );
                    return Err(RunError::Group { url: group.to_string(), detail });
                }
                Some(_) => std::thread::sleep(std::time::Duration::from_millis(50)),
            }
        }
    }
}

impl Drop for GroupLock {
    fn drop(&mut self) {
        if still_ours(self.taken, || matches!(note::read::<Note>(&self.store, LOCK), Ok(Some(held)) if held.is(&self.note))) {
            let _ = self.store.delete(LOCK);
        }
    }
}
