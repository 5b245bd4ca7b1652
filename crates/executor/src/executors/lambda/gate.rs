//! How many invocations may run at once: as many as are wanted, until Lambda throttles.
//!
//! A refusal (429) reduces the number to seven tenths. This happens once a second at most, because invocations that were sent together are
//! refused together. Each answer raises the number a little: by a twentieth when all running invocations have answered once.

use std::time::{Duration, Instant};

const CUT: f64 = 0.7;
const RAISE: f64 = 0.05;
/// Refusals within this time count as one.
const TOGETHER: Duration = Duration::from_secs(1);
/// Pauses before refused invocations are sent again.
const FIRST_PAUSE: f64 = 0.1;
const LONGEST_PAUSE: f64 = 5.0;

/// The largest number of invocations at once.
pub(super) struct Gate {
    limit: f64,
    most: f64,
    cut: Option<Instant>,
    /// Reductions since the last answer.
    refused: u32,
    /// Since when there have been only refusals.
    since: Option<Instant>,
}

impl Gate {
    pub fn new(most: usize) -> Gate {
        let most = most.max(1) as f64;
        Gate { limit: most, most, cut: None, refused: 0, since: None }
    }

    pub fn limit(&self) -> usize {
        self.limit as usize
    }

    /// An invocation was accepted and has ended.
    pub fn answered(&mut self) {
        (self.refused, self.since) = (0, None);
        self.limit = (self.limit + (RAISE * self.limit).max(1.0) / self.limit).min(self.most);
    }

    /// An invocation was refused. Returns how long to wait before it is sent again. `jitter` is from 0 to 1.
    pub fn throttled(&mut self, now: Instant, flying: usize, jitter: f64) -> Duration {
        self.since.get_or_insert(now);
        if self.cut.is_none_or(|t| now.duration_since(t) >= TOGETHER) {
            self.cut = Some(now);
            self.refused += 1;
            // The running invocations were possible, so the limit goes to their number at once.
            self.limit = (self.limit.min(flying as f64) * CUT).max(1.0);
        }
        let pause = FIRST_PAUSE * f64::from(1u32 << self.refused.min(8));
        Duration::from_secs_f64(pause.min(LONGEST_PAUSE) * (0.5 + jitter))
    }

    /// How long there have been only refusals.
    pub fn starved(&self, now: Instant) -> Duration {
        self.since.map_or(Duration::ZERO, |t| now.duration_since(t))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adapts() {
        let (mut gate, mut now) = (Gate::new(1000), Instant::now());
        // A burst of refusals counts as one.
        for _ in 0..500 {
            gate.throttled(now, 1000, 0.5);
        }
        assert_eq!(gate.limit(), 700);
        now += TOGETHER;
        gate.throttled(now, 200, 0.5);
        assert_eq!(gate.limit(), 140);
        assert_eq!(gate.starved(now), TOGETHER);
        // All of them answered once, so the limit is a twentieth higher.
        (0..140).for_each(|_| gate.answered());
        assert!((145..150).contains(&gate.limit()), "{}", gate.limit());
        (0..20_000).for_each(|_| gate.answered());
        assert_eq!((gate.limit(), gate.starved(now)), (1000, Duration::ZERO));
        for _ in 0..100 {
            now += TOGETHER;
            let pause = gate.throttled(now, 0, 1.0).as_secs_f64();
            assert!(pause <= 1.5 * LONGEST_PAUSE);
        }
        assert_eq!(gate.limit(), 1);
    }
}
