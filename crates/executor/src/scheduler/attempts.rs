//! The running attempts, and the failures of each task.

use super::retry::Failures;
use chunkwise_storage::Moment;
use std::collections::{BTreeMap, HashMap};

/// Why an attempt was stopped.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Stopped {
    /// It took longer than the time limit, in seconds.
    Late(f64),
    /// Another attempt has finished the task.
    Superseded,
}

/// An attempt that runs, or waits in the queue of an engine.
pub(crate) struct Attempt {
    pub stage: usize,
    pub task: u64,
    /// When it began; `None` while it is in a queue.
    pub started: Option<Moment>,
    /// When and why it was told to stop.
    pub stopped: Option<(Moment, Stopped)>,
}

/// All attempts of a run that have not ended.
#[derive(Default)]
pub(crate) struct Attempts {
    next: u64,
    pub running: BTreeMap<u64, Attempt>,
    /// The number of running attempts of each task.
    copies: HashMap<(usize, u64), u32>,
    /// The failures of tasks that have failed at least once.
    pub failures: HashMap<(usize, u64), Failures>,
}

impl Attempts {
    pub fn start(&mut self, stage: usize, task: u64, queued: bool) -> u64 {
        self.next += 1;
        let started = (!queued).then(Moment::now);
        self.running.insert(self.next, Attempt { stage, task, started, stopped: None });
        *self.copies.entry((stage, task)).or_insert(0) += 1;
        self.next
    }

    pub fn end(&mut self, attempt: u64) -> Option<Attempt> {
        let ended = self.running.remove(&attempt)?;
        let id = (ended.stage, ended.task);
        if let Some(n) = self.copies.get_mut(&id) {
            *n -= 1;
            if *n == 0 {
                self.copies.remove(&id);
            }
        }
        Some(ended)
    }

    pub fn copies(&self, stage: usize, task: u64) -> u32 {
        self.copies.get(&(stage, task)).copied().unwrap_or(0)
    }

    /// The attempts at a task that still run.
    pub fn of(&self, stage: usize, task: u64) -> Vec<u64> {
        if self.copies(stage, task) == 0 {
            return Vec::new();
        }
        self.running.iter().filter(|(_, a)| (a.stage, a.task) == (stage, task)).map(|(&id, _)| id).collect()
    }
}
