//! Events that a run sends to its watchers.

use chunkwise_plan::Requests;
use serde::Serialize;

/// A stage, as watchers see it.
#[derive(Debug, Clone, Serialize)]
pub struct StageInfo {
    /// Its name.
    pub name: String,
    /// Its number of tasks.
    pub tasks: u64,
    /// Tasks that an earlier run has finished.
    pub done: u64,
}

/// Something happened.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The run starts.
    RunStarted {
        /// The plan's id.
        id: String,
        /// The stages.
        stages: Vec<StageInfo>,
    },
    /// A task is done.
    TaskFinished {
        /// Index of its stage.
        stage: usize,
        /// Its number.
        task: u64,
        /// Encoded bytes that it read.
        bytes_read: u64,
        /// Encoded bytes that it wrote.
        bytes_written: u64,
        /// Wall time.
        seconds: f64,
    },
    /// A task failed and will be tried again.
    TaskRetried {
        /// Index of its stage.
        stage: usize,
        /// Its number.
        task: u64,
        /// Why.
        error: String,
        /// What kind of failure it was: `transient`, `resource` or `lost worker`.
        class: &'static str,
        /// Seconds to wait.
        wait: f64,
    },
    /// A task takes much longer than its siblings; a second copy of it was started.
    TaskBackup {
        /// Index of its stage.
        stage: usize,
        /// Its number.
        task: u64,
        /// How long it has been running, in seconds.
        seconds: f64,
        /// The median of its stage, in seconds.
        median: f64,
    },
    /// Something that the user should know.
    Warning {
        /// What.
        message: String,
    },
    /// An intermediate array is not needed any more.
    ArrayDeleted {
        /// The array.
        array: String,
    },
    /// An output is whole and can be opened.
    ArrayPublished {
        /// Its URL.
        url: String,
    },
    /// The use so far of a service that charges for use.
    Used(Usage),
    /// The progress of the run, from time to time.
    Progress(Progress),
    /// All is done.
    RunFinished(RunReport),
}

/// The progress of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Progress {
    /// Decoded bytes that all tasks read and write, by the projection of the plan.
    pub total: f64,
    /// The part of it that is done, including the known part of running tasks.
    pub done: f64,
    /// The part of it that was done before this run.
    pub before: f64,
    /// Seconds since the tasks began.
    pub seconds: f64,
    /// Resident memory of this process, if the tasks run in it. Otherwise the largest memory of a worker so far, or 0 if that is not known.
    pub memory: u64,
    /// The memory that a worker may use.
    pub allowed_mem: u64,
}

impl Progress {
    /// As long as less than this fraction is done, the remaining time cannot be estimated.
    const ENOUGH: f64 = 0.02;

    /// Bytes per second, once something is done.
    pub fn rate(&self) -> Option<f64> {
        let done = self.done - self.before;
        (done > 0.0 && self.seconds > 0.0).then(|| done / self.seconds)
    }

    /// Seconds that the rest takes at the present rate; `None` as long as that is not known.
    ///
    /// ```
    /// use chunkwise_executor::Progress;
    /// let half = Progress { total: 10e9, done: 6e9, before: 2e9, seconds: 8.0, ..Progress::default() };
    /// assert_eq!(half.left(), Some(8.0));
    /// assert_eq!(Progress { done: 2e9, ..half }.left(), None);
    /// ```
    pub fn left(&self) -> Option<f64> {
        let enough = self.done - self.before >= Self::ENOUGH * (self.total - self.before);
        self.rate().filter(|_| enough).map(|rate| (self.total - self.done).max(0.0) / rate)
    }
}

/// The use of a service that charges for use.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Invocations.
    pub invocations: u64,
    /// The sum of their durations in seconds, each multiplied by the memory of the function in GiB.
    pub gb_seconds: f64,
    /// Invocations that were refused because there were too many at once.
    pub throttled: u64,
    /// The region.
    pub region: String,
}

/// A run in numbers.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RunReport {
    /// The plan's id.
    pub id: String,
    /// Wall time.
    pub seconds: f64,
    /// Tasks that ran.
    pub tasks: u64,
    /// Tasks that an earlier run had finished.
    pub skipped: u64,
    /// Attempts that failed and were repeated.
    pub retries: u64,
    /// Second copies of tasks that took too long.
    pub backups: u64,
    /// The executor.
    pub executor: String,
    /// Encoded bytes read.
    pub bytes_read: u64,
    /// Encoded bytes written.
    pub bytes_written: u64,
    /// Bytes of intermediates that went to storage because they did not fit into memory beside the tasks.
    pub bytes_spilled: u64,
    /// Seconds that the tasks took, added up by stage.
    pub task_seconds: Vec<f64>,
    /// Requests of the tasks, by stage.
    pub requests: Vec<Requests>,
    /// Largest resident memory of the process so far in bytes, or of a worker if that is known and larger.
    pub peak_memory: u64,
    /// The use of a service that charges for use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
    /// URLs of the outputs.
    pub outputs: Vec<String>,
}
