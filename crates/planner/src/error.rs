//! Why no plan can be made.

use chunkwise_types::ByteSize;

/// A plan cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum PlannerError {
    /// A task would be too large however it is cut.
    #[error(
        "stage '{stage}' ({operations}) needs {} for one task and {} for the program itself, but the allowed memory is {}; allow at least {}, or {advice}",
        ByteSize(*.need), ByteSize(*.reserved), ByteSize(*.allowed), ByteSize(.need + .reserved)
    )]
    Memory {
        /// The stage.
        stage: String,
        /// What it computes.
        operations: String,
        /// Bytes that its largest task needs.
        need: u64,
        /// Bytes kept for the program.
        reserved: u64,
        /// Bytes allowed.
        allowed: u64,
        /// What would help besides more memory.
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
    /// The planner made a plan that is not valid: a bug.
    #[error("the planner made a plan that is not valid, which is a bug: {0}")]
    Internal(String),
}
