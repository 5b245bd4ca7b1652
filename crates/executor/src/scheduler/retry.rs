//! Decides what is tried again, when, and how often.

use chunkwise_task::{ErrorClass, TaskError};
use std::time::Duration;

/// The longest pause between two attempts, before jitter.
const LONGEST: f64 = 30.0;

/// Failures of one task.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Failures {
    passing: u32,
    lost: u32,
    killed: u32,
}

impl Failures {
    /// Counts a failure, and returns how long to wait before the next attempt; `None` if there is no other attempt.
    ///
    /// Failures that may pass (a connection, a timeout) and failures for which the task is not responsible (a lost worker) are tried again
    /// `retries` times, counted separately. A worker that was killed for memory may have been killed because of its neighbours, so the task
    /// has one more chance, alone. Bad data, a bug and a full disk do not pass.
    pub fn again(&mut self, e: &TaskError, retries: u32, task: u64) -> Option<Duration> {
        let (count, most) = match e.class() {
            ErrorClass::Transient => (&mut self.passing, retries),
            ErrorClass::Lost => (&mut self.lost, retries),
            ErrorClass::Resource if matches!(e, TaskError::OutOfMemory { .. }) => (&mut self.killed, retries.min(1)),
            ErrorClass::Resource | ErrorClass::Permanent | ErrorClass::Cancelled => return None,
        };
        *count += 1;
        (*count <= most).then(|| backoff(*count, task))
    }

    /// True if an attempt was killed for memory.
    pub fn killed(&self) -> bool {
        self.killed > 0
    }
}

/// Exponential pauses. The jitter is a function of task and attempt, so that runs can be repeated.
fn backoff(attempt: u32, task: u64) -> Duration {
    let mixed = (task ^ (u64::from(attempt) << 48)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54;
    let jitter = mixed as f64 / 1024.0;
    Duration::from_secs_f64((0.1 * f64::from(1u32 << attempt.min(16))).min(LONGEST) * (0.5 + jitter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(class: ErrorClass) -> TaskError {
        TaskError::Reported { class, detail: String::new() }
    }

    #[test]
    fn by_class() {
        let mut f = Failures::default();
        let tries = |f: &mut Failures, class| (0..10).take_while(|_| f.again(&failed(class), 3, 7).is_some()).count();
        assert_eq!(tries(&mut f, ErrorClass::Transient), 3);
        assert_eq!(tries(&mut f, ErrorClass::Lost), 3);
        for class in [ErrorClass::Permanent, ErrorClass::Resource, ErrorClass::Cancelled] {
            assert_eq!(tries(&mut f, class), 0, "{class:?}");
        }
        assert!(!f.killed());
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        for task in 0..100 {
            for attempt in 1..20 {
                let (pause, base) = (backoff(attempt, task).as_secs_f64(), (0.1 * f64::from(1u32 << attempt.min(16))).min(LONGEST));
                assert!((0.5 * base..1.5 * base).contains(&pause), "{attempt} {pause}");
            }
        }
        assert_ne!(backoff(1, 1), backoff(1, 2));
    }
}
