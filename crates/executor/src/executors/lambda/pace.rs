//! How many tasks an invocation gets: as many as it does in a few seconds by the measured times, but never so many that other invocations
//! have none.

/// The weight of a new duration in the average.
const NEW: f64 = 0.1;

/// Average durations by stage.
pub(super) struct Pace {
    /// Seconds of a task; 0 if not known.
    mean: Vec<f64>,
    /// The number of tasks that an invocation finished in its time, if it could not finish all.
    cap: Vec<usize>,
    seconds: f64,
    most: usize,
    threads: usize,
}

impl Pace {
    /// `seconds` is the intended duration of an invocation of at most `most` tasks, of which `threads` run at once.
    pub fn new(stages: usize, seconds: f64, most: usize, threads: usize) -> Pace {
        Pace { mean: vec![0.0; stages], cap: vec![usize::MAX; stages], seconds, most, threads: threads.max(1) }
    }

    pub fn add(&mut self, stage: usize, seconds: f64) {
        let mean = &mut self.mean[stage];
        *mean = if *mean == 0.0 { seconds.max(1e-6) } else { *mean + NEW * (seconds - *mean) };
    }

    /// An invocation got too many tasks.
    pub fn slower(&mut self, stage: usize) {
        self.mean[stage] *= 2.0;
    }

    /// An invocation could not finish more than this many tasks.
    pub fn managed(&mut self, stage: usize, tasks: usize) {
        self.cap[stage] = tasks.max(1);
    }

    /// The expected duration of this many tasks in one invocation, in seconds; 0 if not known.
    pub fn expected(&self, stage: usize, tasks: usize) -> f64 {
        tasks.div_ceil(self.threads) as f64 * self.mean[stage]
    }

    /// The number of tasks that fill an invocation; one, as long as nothing is known.
    pub fn fill(&self, stage: usize) -> usize {
        let mean = self.mean[stage];
        if mean == 0.0 { 1 } else { ((self.seconds * self.threads as f64 / mean) as usize).clamp(1, self.most.min(self.cap[stage])) }
    }

    /// The number of tasks that fill an invocation, for any stage where it is known.
    pub fn most(&self) -> usize {
        (0..self.mean.len()).map(|s| self.fill(s)).max().unwrap_or(1)
    }

    /// The number of tasks of the next invocation, if `waiting` tasks wait and `free` invocations are free.
    pub fn size(&self, stage: usize, waiting: usize, free: usize) -> usize {
        self.fill(stage).min(waiting.div_ceil(free.max(1))).max(1)
    }

    /// Seconds until the `k`-th task of an invocation probably begins.
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
