//! How many tasks an invocation gets: by what was measured, as many as it does in a few seconds, but never so many that other invocations have
//! none.

/// Weight of a new duration in the average.
const NEW: f64 = 0.1;

/// Average durations by stage.
pub(super) struct Pace {
    /// Seconds of a task; 0: not known.
    mean: Vec<f64>,
    /// Tasks that an invocation has managed in its time, where it could not manage all.
    cap: Vec<usize>,
    seconds: f64,
    most: usize,
    threads: usize,
}

impl Pace {
    /// `seconds` that an invocation is meant to take, of at most `most` tasks, of which `threads` run at once.
    pub fn new(stages: usize, seconds: f64, most: usize, threads: usize) -> Pace {
        Pace { mean: vec![0.0; stages], cap: vec![usize::MAX; stages], seconds, most, threads: threads.max(1) }
    }

    pub fn add(&mut self, stage: usize, seconds: f64) {
        let mean = &mut self.mean[stage];
        *mean = if *mean == 0.0 { seconds.max(1e-6) } else { *mean + NEW * (seconds - *mean) };
    }

    /// An invocation had too much to do.
    pub fn slower(&mut self, stage: usize) {
        self.mean[stage] *= 2.0;
    }

    /// An invocation could not manage more than so many.
    pub fn managed(&mut self, stage: usize, tasks: usize) {
        self.cap[stage] = tasks.max(1);
    }

    /// Seconds that so many tasks are expected to take in one invocation; 0 if that is not known.
    pub fn expected(&self, stage: usize, tasks: usize) -> f64 {
        tasks.div_ceil(self.threads) as f64 * self.mean[stage]
    }

    /// Tasks that fill an invocation; one, while nothing is known.
    pub fn fill(&self, stage: usize) -> usize {
        let mean = self.mean[stage];
        if mean == 0.0 { 1 } else { ((self.seconds * self.threads as f64 / mean) as usize).clamp(1, self.most.min(self.cap[stage])) }
    }

    /// Tasks that fill an invocation, of any stage that is known.
    pub fn most(&self) -> usize {
        (0..self.mean.len()).map(|s| self.fill(s)).max().unwrap_or(1)
    }

    /// Tasks for the next invocation, where `waiting` tasks are there for `free` invocations.
    pub fn size(&self, stage: usize, waiting: usize, free: usize) -> usize {
        self.fill(stage).min(waiting.div_ceil(free.max(1))).max(1)
    }

    /// Seconds after which the `k`-th task of an invocation probably begins.
    pub fn begins(&self, stage: usize, k: usize) -> f64 {
        (k / self.threads) as f64 * self.mean[stage]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches() {
        let mut pace = Pace::new(2, 3.0, 1000, 2);
        assert_eq!(pace.size(0, 5000, 10), 1);
        (0..50).for_each(|_| pace.add(0, 0.01));
        assert_eq!((pace.size(0, 50_000, 10), pace.size(0, 50, 10), pace.size(0, 3, 10)), (600, 5, 1));
        assert_eq!((pace.size(1, 5000, 10), pace.most()), (1, 600));
        (0..100).for_each(|_| pace.add(0, 60.0));
        assert_eq!(pace.size(0, 5000, 10), 1);
        pace.managed(1, 3);
        (0..50).for_each(|_| pace.add(1, 0.01));
        assert_eq!(pace.size(1, 5000, 10), 3);
        assert!(pace.begins(0, 1) == 0.0 && pace.begins(0, 2) > 50.0);
    }
}
