//! Notes are renewed on a thread of their own, whatever their holder does meanwhile: it may copy an array that is replaced, or wait for another run.

use crate::RunError;
use crate::note::{FENCE, Held, Note, Noted, RENEW, Renewed};
use chunkwise_storage::{Moment, Repeated, StorageError, repeat, sleep};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How often it is looked whether it is time to renew a note.
const LOOK: Duration = Duration::from_secs(5);

/// Until when a run may act: some time after the oldest of its notes was renewed. A machine that slept for longer finds it passed.
#[derive(Clone)]
pub struct Fence(Vec<Arc<AtomicU64>>);

impl Fence {
    fn new(renewed: Moment) -> Fence {
        Fence(vec![Arc::new(AtomicU64::new(renewed.nanoseconds()))])
    }

    /// True once nothing may be written any more, until the notes are renewed.
    pub fn passed(&self) -> bool {
        self.0.iter().any(|renewed| Moment::from_nanoseconds(renewed.load(Ordering::Relaxed)).elapsed() > FENCE)
    }

    /// Passed when one of the two is.
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
    /// The note is lost; with the note of the process that has it now, if that is known.
    lost: Option<Option<Note>>,
    /// Renewals are over.
    over: bool,
}

impl<N: Noted> State<N> {
    fn renew(&mut self, fence: &Fence) -> Result<(), StorageError> {
        match self.held.renew()? {
            Renewed::Done => fence.set(self.held.renewed.nanoseconds()),
            Renewed::Lost(to) => {
                self.lost = Some(to);
                // Nothing is that old.
                fence.set(0);
            }
        }
        Ok(())
    }

    fn due(&self) -> bool {
        !self.over && self.lost.is_none() && self.held.renewed.elapsed() >= RENEW
    }
}

/// A note that is renewed until this is dropped, which deletes it.
pub(crate) struct Renewals<N: Noted> {
    state: Arc<Mutex<State<N>>>,
    fence: Fence,
    thread: Option<Repeated>,
}

/// Locks the state. The thread that renews holds the lock for the time of some requests.
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
                // If it fails, it is tried again.
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

    /// Makes sure that the note is ours, and renews it if it was not for long.
    ///
    /// # Errors
    /// When it is not ours any more, or could not be renewed for so long that it may be another one's.
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
    /// As if it had slept for long.
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
