//! Answers. They are small: the largest allowed one is a sixth of what a synchronous invocation can give back.

use chunkwise_plan::TaskReport;
use chunkwise_task::ErrorClass;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the function answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Answer {
    /// What became of tasks.
    RunTasks(RunTasksAnswer),
    /// A plan.
    Plan(PlanAnswer),
    /// How far a run is.
    Status(StatusAnswer),
    /// What was published.
    Finish(FinishAnswer),
    /// That functions will stop.
    Cancel(CancelAnswer),
    /// What was deleted.
    Clean(CleanAnswer),
}

/// What became of tasks.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunTasksAnswer {
    /// Always `chunkwise-answer/1`.
    pub format: String,
    /// The id that Lambda gave the invocation.
    pub request_id: String,
    /// The version of the function.
    pub version: String,
    /// Index of the stage.
    pub stage: usize,
    /// Tasks that are done.
    pub done: u64,
    /// Reports of these, unless they are too many; they are in storage, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<TaskReport>,
    /// The objects in the run's folder that hold all reports.
    pub stored: Vec<String>,
    /// Tasks that failed; of many, the first hundred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<FailedTask>,
    /// Tasks that were not tried to their end, as `tasks` of the next event: time was up, or the run was cancelled.
    pub rest: Vec<[u64; 2]>,
    /// True if nothing is left of the event's tasks.
    pub complete: bool,
    /// Somebody has cancelled the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cancelled: bool,
    /// Seconds that it took.
    pub seconds: f64,
    /// Seconds from the start of the process to its first event, in its first answer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init_seconds: Option<f64>,
    /// Tasks at once.
    pub threads: usize,
    /// The memory of the function, in bytes.
    pub memory: u64,
    /// The largest resident memory of the process so far, in bytes.
    pub peak_memory: u64,
}

/// A task that failed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FailedTask {
    /// Its number.
    pub task: u64,
    /// What may be done about it.
    pub class: ErrorClass,
    /// Why.
    pub detail: String,
}

/// A plan, and the batches in which its stages can be run one after another.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlanAnswer {
    /// Always `chunkwise-answer/1`.
    pub format: String,
    /// URL of the plan.
    pub plan: String,
    /// Its id.
    pub hash: String,
    /// URL of the run's folder.
    pub run: String,
    /// The stages. Each reads only inputs and what earlier ones write.
    pub stages: Vec<StageBatches>,
    /// URLs of the outputs.
    pub outputs: Vec<String>,
    /// Tasks of all stages.
    pub tasks: u64,
    /// Bytes that are projected to be read and written.
    pub bytes_read: u64,
    /// See `bytes_read`.
    pub bytes_written: u64,
    /// Objects that are projected to be read.
    pub gets: u64,
    /// Objects that are projected to be written.
    pub puts: u64,
    /// Bytes that a function needs: the largest task, and the program itself.
    pub projected_mem: u64,
    /// Nothing was stored.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
}

/// A stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageBatches {
    /// Its index.
    pub stage: usize,
    /// Its name.
    pub name: String,
    /// Its number of tasks.
    pub tasks: u64,
    /// Tasks that are done already (when a run is resumed).
    pub done: u64,
    /// Bytes that its largest task needs, without the program itself.
    pub projected_mem: u64,
    /// Ranges `[from, to)` of the tasks that are not done, one for each invocation; `tasks` of an event is a list of such ranges.
    pub batches: Vec<[u64; 2]>,
}

/// How far a run is, by what storage holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StatusAnswer {
    /// Always `chunkwise-answer/1`.
    pub format: String,
    /// The plan's id.
    pub hash: String,
    /// `planned` (nothing is stored), `unfinished` (something is), `cancelled`, or `published`.
    pub state: String,
    /// The stages.
    pub stages: Vec<StageStatus>,
    /// URLs of the outputs.
    pub outputs: Vec<String>,
    /// Failures that functions have reported; of many, the first twenty that were found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
}

/// How far a stage is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageStatus {
    /// Its index.
    pub stage: usize,
    /// Its name.
    pub name: String,
    /// Its number of tasks.
    pub tasks: u64,
    /// The chunks that it writes.
    pub chunks: u64,
    /// Those that are stored. Intermediates are deleted when the run is finished.
    pub stored: u64,
}

/// What was published.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FinishAnswer {
    /// Always `chunkwise-answer/1`.
    pub format: String,
    /// The plan's id.
    pub hash: String,
    /// URLs of the outputs, which can be opened now.
    pub outputs: Vec<String>,
}

/// That functions will stop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CancelAnswer {
    /// Always `chunkwise-answer/1`.
    pub format: String,
    /// The plan's id.
    pub hash: String,
}

/// What was deleted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CleanAnswer {
    /// Always `chunkwise-answer/1`.
    pub format: String,
    /// The plan's id.
    pub hash: String,
    /// Objects.
    pub objects: u64,
}
