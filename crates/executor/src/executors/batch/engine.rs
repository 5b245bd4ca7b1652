//! What an engine is: it starts workers, and tells little about them.

use crate::RunError;
use crate::worker::ranges_text;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Memory of a container that the kernel counts in addition to what its process may use.
#[cfg(any(feature = "kubernetes", feature = "aws-batch"))]
const HEADROOM: u64 = 64 << 20;

/// An array of workers that is to be started: part `k` runs the `k`-th list of tasks.
#[non_exhaustive]
#[derive(Debug)]
pub struct Job<'a> {
    /// URL of the plan.
    pub plan: String,
    /// Its id.
    pub hash: &'a str,
    /// Index of the stage.
    pub stage: usize,
    /// For each part, its tasks, ascending.
    pub parts: Vec<Vec<u64>>,
    /// The memory that one worker may use, in bytes.
    pub allowed_mem: u64,
    /// The part of it that is for the program itself.
    pub reserved_mem: u64,
    /// The projected memory of its largest task, in addition.
    pub need: u64,
    /// Its tasks were killed for memory before: they get all the memory that a worker may use.
    pub alone: bool,
    /// The name of all jobs of this run.
    pub name: String,
    /// What the driver allows, in the words of a command line.
    pub allow: Vec<String>,
    /// The interpreter of the driver, if workers may run functions of Python.
    pub python: Option<PathBuf>,
}

impl Job<'_> {
    /// The arguments of the workers of all parts, without the program. A worker needs in addition its tasks and its name: see
    /// [`Job::part`].
    pub fn arguments(&self, threads: usize) -> Vec<String> {
        let text = |s: &str| s.to_string();
        let mut words = vec![
            text("worker"),
            text("--plan"),
            self.plan.clone(),
            text("--hash"),
            text(self.hash),
            text("--driver-version"),
            text(crate::worker::VERSION),
            text("--stage"),
            self.stage.to_string(),
            text("--threads"),
            threads.to_string(),
        ];
        words.extend(permissions(self.allow.clone(), self.python.as_deref()));
        words
    }

    /// The arguments of the worker of part `k`, without the program. `name` is `<handle>_<k>`, where the handle is what [`Engine::submit`]
    /// returns.
    pub fn part(&self, k: usize, name: &str, threads: usize) -> Vec<String> {
        let tasks = self.parts.get(k).map(|tasks| ranges_text(tasks)).unwrap_or_default();
        let mut words = self.arguments(threads);
        words.extend(["--tasks".into(), tasks, "--name".into(), name.into()]);
        words
    }

    /// The tasks of all parts, as a worker reads them: it takes its part of them by `--array-index` and `--array-size`.
    pub fn all_tasks(&self) -> String {
        ranges_text(&self.parts.concat())
    }

    /// The memory that a worker with this many tasks at once may use, and the size of its container. `given` is the container's size if the
    /// user has chosen it.
    #[cfg(any(feature = "kubernetes", feature = "aws-batch"))]
    pub(crate) fn sizes(&self, threads: usize, given: Option<u64>) -> (u64, u64) {
        match given {
            Some(size) => (size.saturating_sub(HEADROOM), size),
            None => {
                let projected = self.reserved_mem.saturating_add(self.need.saturating_mul(threads as u64));
                let worker = if self.alone { self.allowed_mem } else { projected.min(self.allowed_mem) };
                (worker, worker.saturating_add(HEADROOM))
            }
        }
    }
}

/// For each job, the parts that have not ended.
pub type Open = BTreeMap<String, Vec<usize>>;

/// The state of a part, as the engine sees it.
#[derive(Debug, Clone, PartialEq)]
pub enum State {
    /// It waits or runs.
    Alive,
    /// It has ended, with an exit code of the worker.
    Exited(i32),
    /// It was killed for memory.
    OutOfMemory,
    /// It was killed at its time limit.
    TimedOut,
    /// It ended otherwise, for this reason.
    Lost(String),
}

/// An engine that starts workers somewhere, such as a batch system.
///
/// It only starts workers, says how those ended that it knows of, and ends them. Which tasks are done is read from storage, where workers
/// leave reports. Order, retries, time limits and resuming are left to the driver, so they are the same on all engines.
///
/// The crate `examples/own` has an engine, and shows how it gets a name.
pub trait Engine {
    /// Its name, as the user writes it.
    fn name(&self) -> &str;
    /// Tasks that may be submitted at once.
    fn capacity(&self) -> usize;
    /// The largest number of parts of one job.
    fn widest(&self) -> usize;
    /// The number of tasks of one part, if there are enough tasks.
    fn tasks_per_part(&self) -> usize;
    /// The memory of a worker of a job, in bytes.
    fn memory(&self, job: &Job<'_>) -> u64 {
        job.allowed_mem
    }
    /// The largest number of characters for the tasks of a job: the system does not accept a longer argument.
    fn longest(&self) -> usize {
        100_000
    }
    /// How often it is asked.
    fn every(&self) -> Duration;
    /// Ends the remaining jobs of this run if its driver was killed. They are found by name.
    fn clear(&mut self, _name: &str) {}
    /// Starts a job, and returns its handle: letters and digits only, and never the same again, for any driver of the run. The workers
    /// have to be called `<handle>_<part>`: a report counts only if it comes from a worker with such a name.
    ///
    /// # Errors
    /// When no job can ever be started. The run then ends.
    fn submit(&mut self, job: &Job<'_>) -> Result<String, RunError>;
    /// The states of the parts of some jobs, by name. A part that is not mentioned counts as alive.
    ///
    /// # Errors
    /// When the engine is gone for good. The run then ends.
    fn states(&mut self, jobs: &Open) -> Result<Vec<(String, State)>, RunError>;
    /// Warnings for the user since the last call.
    fn warnings(&mut self) -> Vec<String> {
        Vec::new()
    }
    /// Ends a part, which is named `<handle>_<part>`. Its worker gets SIGTERM if possible, so that it hands back its tasks.
    fn cancel(&mut self, part: &str);
    /// Ends jobs, with all of their parts.
    fn cancel_all(&mut self, jobs: &Open) {
        for (handle, parts) in jobs {
            parts.iter().for_each(|k| self.cancel(&format!("{handle}_{k}")));
        }
    }
}

/// The permissions of a worker: no more than those of its driver, whose environment may be another.
pub(crate) fn permissions(allowed: Vec<String>, python: Option<&Path>) -> impl Iterator<Item = String> {
    let python = python.map(|p| format!("--allow-python={}", p.display()));
    allowed.into_iter().flat_map(|word| ["--allow".into(), word]).chain(python)
}

/// A word, quoted for a shell.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}
