//! Why no plan can be made.

use chunkwise_types::ByteSize;
use std::time::Duration;

/// A plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlannerError {
    /// A task would be too large however it is cut.
    #[error(
        "stage '{stage}' ({operations}) needs {} for one task and {} for the program itself, but the allowed memory is {}; \
        allow at least {least} MB, or {advice}",
        ByteSize(*.need), ByteSize(*.reserved), ByteSize(*.allowed)
    )]
    Memory {
        /// The stage.
        stage: String,
        /// What it computes.
        operations: String,
        /// Bytes that its largest task needs at least.
        need: u64,
        /// Bytes kept for the program.
        reserved: u64,
        /// Bytes allowed.
        allowed: u64,
        /// The least that would have to be allowed, in megabytes (10⁶ bytes): a plan was made with it.
        least: u64,
        /// What would help besides more memory: whose chunks are the cause.
        advice: String,
    },
    /// A request is not possible.
    #[error("output '{url}': {problem}")]
    Request {
        /// The output.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Outputs of one group disagree about a dimension or a coordinate.
    #[error(transparent)]
    Labels(Box<LabelConflict>),
    /// There is no plan after all the time that planning may take.
    #[error(
        "planning took longer than {} s and was stopped in the pass '{pass}'; plan fewer outputs at once, or allow it more time",
        limit.as_secs()
    )]
    Time {
        /// Where it was.
        pass: &'static str,
        /// The longest time.
        limit: Duration,
    },
    /// No run can have so many tasks.
    #[error(
        "the plan has {tasks} tasks, and a run can have {most}: the array is too large for its chunks; compute a part of it, or write larger chunks, such as with \
        rechunk()"
    )]
    Tasks {
        /// The tasks of all stages.
        tasks: u64,
        /// The most that a run can have.
        most: u64,
    },
    /// The planner made a plan that is not valid: a bug.
    #[error("the planner made a plan that is not valid, which is a bug: {0}")]
    Internal(String),
}

impl PlannerError {
    /// True if there is a plan that cannot be run. With another budget it may be another plan.
    pub(crate) fn invalid(&self) -> bool {
        matches!(self, PlannerError::Internal(_) | PlannerError::Tasks { .. })
    }
}

/// Two outputs that cannot be in one group.
#[derive(Debug, thiserror::Error)]
#[error(
    "the outputs '{first}' and '{second}' cannot be in one group: {why} along '{dim}' (the first has {first_has}, the second {second_has}). \
     Write one of them into another group than '{group}', or give its dimension another name with `dims:`"
)]
pub struct LabelConflict {
    /// The group.
    pub group: String,
    /// The dimension or coordinate.
    pub dim: String,
    /// An output.
    pub first: String,
    /// Another output.
    pub second: String,
    /// What the first says of it.
    pub first_has: String,
    /// What the second says of it.
    pub second_has: String,
    /// Where they differ.
    pub why: String,
}
