//! Renews notes on a thread of their own, whatever their holder does meanwhile: it may copy an array that is replaced, or wait for another
//! run.

use crate::RunError;
use crate::note::{FENCE, Held, Note, Noted, RENEW, Renewed};
use chunkwise_storage::{Moment, Repeated, StorageError, repeat, sleep};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often the thread checks whether a note has to be renewed.
const LOOK: Duration = Duration::from_secs(5);

/// The time until which a run may act: some time after the oldest of its notes was renewed. If the machine slept for longer, the fence has
/// passed.
#[derive(Clone)]
pub struct Fence(Vec<Arc<AtomicU64>>);

impl Fence {
    fn new(renewed: Moment) -> Fence {
        Fence(vec![Arc::new(AtomicU64::new(renewed.nanoseconds()))])
    }

    /// True if nothing may be written until the notes are renewed.
    pub fn passed(&self) -> bool {
        self.0.iter().any(|renewed| Moment::from_nanoseconds(renewed.load(Ordering::Relaxed)).elapsed() > FENCE)
    }

    /// Combines two fences. The result has passed when one of them has.
    pub(crate) fn and(mut self, other: Fence) -> Fence {
        self.0.extend(other.0);
        self
    }

    fn set(&self, renewed: u64) {
        self.0.iter().for_each(|r| r.store(renewed, Ordering::Relaxed));
    }
}

struct State<N> {
    held: Held<N>,
    /// Set if the note is lost, with the note of the present holder, if that is known.
    lost: Option<Option<Note>>,
    /// True if renewals have ended.
    over: bool,
}

impl<N: Noted> State<N> {
    fn renew(&mut self, fence: &Fence) -> Result<(), StorageError> {
        match self.held.renew()? {
            Renewed::Done => fence.set(self.held.renewed.nanoseconds()),
            Renewed::Lost(to) => {
                self.lost = Some(to);
                // No note is that old.
                fence.set(0);
            }
        }
        Ok(())
    }

    fn due(&self) -> bool {
        !self.over && self.lost.is_none() && self.held.renewed.elapsed() >= RENEW
    }
}

/// A note that is renewed until this is dropped. Then the note is deleted.
pub(crate) struct Renewals<N: Noted> {
    state: Arc<Mutex<State<N>>>,
    fence: Fence,
    thread: Option<Repeated>,
}

/// Locks the state. The renewing thread may hold the lock during some requests.
fn locked<N>(state: &Mutex<State<N>>) -> MutexGuard<'_, State<N>> {
    loop {
        if let Some(guard) = state.try_lock() {
            return guard;
        }
        sleep(Duration::from_millis(2));
    }
}

impl<N: Noted + 'static> Renewals<N> {
    pub fn of(held: Held<N>) -> Renewals<N> {
        let fence = Fence::new(held.renewed);
        let state = Arc::new(Mutex::new(State { held, lost: None, over: false }));
        let (shared, fenced) = (state.clone(), fence.clone());
        let renew = move || {
            let mut state = locked(&shared);
            if state.due() {
                // If it fails, it is repeated.
                let _ = state.renew(&fenced);
            }
            !state.over && state.lost.is_none()
        };
        // Without a thread, `check` renews the note.
        let thread = repeat(LOOK, renew).ok();
        Renewals { state, fence, thread }
    }

    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Checks that the note is ours, and renews it if the last renewal was long ago.
    ///
    /// # Errors
    /// When it is not ours any more, or when it could not be renewed for so long that another process may hold it.
    pub fn check(&self) -> Result<(), RunError> {
        if !self.fence.passed() && self.thread.is_some() {
            return Ok(());
        }
        let mut state = locked(&self.state);
        let renewed = if self.fence.passed() && state.lost.is_none() || state.due() { state.renew(&self.fence) } else { Ok(()) };
        match (&state.lost, renewed) {
            (Some(to), _) => Err(state.held.lost(to.as_ref(), None)),
            (None, Err(e)) if self.fence.passed() => Err(state.held.lost(None, Some(format!("it cannot be renewed: {e}")))),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
impl<N: Noted> Renewals<N> {
    /// Pretends that the holder has slept for long.
    pub fn forget_renewals(&self) {
        let long_ago = Moment::now().before(2 * FENCE);
        locked(&self.state).held.renewed = long_ago;
        self.fence.set(long_ago.nanoseconds());
    }
}

impl<N: Noted> Drop for Renewals<N> {
    fn drop(&mut self) {
        let mut state = locked(&self.state);
        state.over = true;
        if state.lost.is_none() {
            state.held.release();
        }
    }
}
