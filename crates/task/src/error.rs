//! Why a task failed, and what may be done about it.

use chunkwise_storage::StorageError;
use chunkwise_types::ByteSize;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a caller can do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// Trying again may help.
    Transient,
    /// More memory or disk is needed.
    Resource,
    /// Trying again gives the same error.
    Permanent,
    /// The run was cancelled.
    Cancelled,
    /// The worker that ran the task is gone; the task itself may be fine.
    Lost,
}

impl ErrorClass {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            ErrorClass::Transient => "transient",
            ErrorClass::Resource => "resource",
            ErrorClass::Permanent => "permanent",
            ErrorClass::Cancelled => "cancelled",
            ErrorClass::Lost => "lost worker",
        }
    }
}

/// A task's failure.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// Reading or writing failed.
    #[error("stage {stage}, task {task}: {source}")]
    Storage {
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
        /// What storage says.
        source: chunkwise_storage::StorageError,
    },
    /// Opening an array failed.
    #[error("array '{array}': {source}")]
    Open {
        /// The array of the plan.
        array: String,
        /// What storage says.
        source: chunkwise_storage::StorageError,
    },
    /// A plan calls a function of a user that this program does not have.
    #[error(
        "stage {stage} ({name}) calls the function '{function}' in version '{version}', which this program {known}; run the plan, and start \
         its workers, from a program that registers it"
    )]
    NoFunction {
        /// Index of the stage.
        stage: usize,
        /// Its name.
        name: String,
        /// The function.
        function: String,
        /// The version that is wanted.
        version: String,
        /// What the program has instead.
        known: String,
    },
    /// A kernel refused its input.
    #[error("stage {stage}, task {task}, step {step}: {source}")]
    Kernel {
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
        /// Step of the program.
        step: usize,
        /// What the kernel says.
        source: chunkwise_kernels::KernelError,
    },
    /// The task would need more memory than a worker may use.
    #[error("stage {stage}, task {task} needs {need} bytes, but a worker may use {budget}; plan again with more allowed memory")]
    Memory {
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
        /// Bytes that it needs.
        need: u64,
        /// Bytes that there are.
        budget: u64,
    },
    /// There is no such stage or task.
    #[error("the plan has no stage {stage} with a task {task}")]
    NoSuchTask {
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
    },
    /// The plan is not valid.
    #[error(transparent)]
    Plan(#[from] chunkwise_plan::PlanError),
    /// A bug in this program.
    #[error("stage {stage}, task {task} failed by a bug in chunkwise, please report it: {detail}")]
    Bug {
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
        /// What the program says.
        detail: String,
    },
    /// A worker in another process says that the task failed.
    #[error("{detail}")]
    Reported {
        /// What the scheduler should do.
        class: ErrorClass,
        /// What the worker says.
        detail: String,
    },
    /// The worker that ran the task is gone.
    #[error("stage {stage}, task {task}: {detail}")]
    Lost {
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
        /// What is known of its end.
        detail: String,
    },
    /// The worker was killed because it used more memory than it may.
    #[error(
        "stage {stage}, task {task}: {detail}; the worker was held to {limit}, and the task was projected to need {projected} beside \
         the {reserved} of the program itself"
    )]
    OutOfMemory {
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
        /// What killed it.
        detail: String,
        /// The projection of exactly this task.
        projected: ByteSize,
        /// What is kept for the program itself.
        reserved: ByteSize,
        /// What the worker may use.
        limit: ByteSize,
    },
    /// The task took longer than the limit.
    #[error("stage {stage}, task {task} was stopped after {seconds:.1} s, the limit for a task (--task-timeout)")]
    Timeout {
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
        /// How long it ran.
        seconds: f64,
    },
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl TaskError {
    /// The stage and the task, of errors that have them.
    pub fn place(&self) -> Option<(usize, u64)> {
        match self {
            TaskError::Storage { stage, task, .. }
            | TaskError::Kernel { stage, task, .. }
            | TaskError::Memory { stage, task, .. }
            | TaskError::NoSuchTask { stage, task }
            | TaskError::Bug { stage, task, .. }
            | TaskError::Lost { stage, task, .. }
            | TaskError::OutOfMemory { stage, task, .. }
            | TaskError::Timeout { stage, task, .. } => Some((*stage, *task)),
            // As text, from another process: it begins as those above do.
            TaskError::Reported { detail, .. } => {
                let (stage, rest) = detail.strip_prefix("stage ")?.split_once(", task ")?;
                let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                Some((stage.parse().ok()?, rest[..digits].parse().ok()?))
            }
            TaskError::Open { .. } | TaskError::Plan(_) | TaskError::NoFunction { .. } | TaskError::Cancelled => None,
        }
    }

    /// What the scheduler should do.
    pub fn class(&self) -> ErrorClass {
        match self {
            TaskError::Storage { source, .. } | TaskError::Open { source, .. } if source.is_transient() => ErrorClass::Transient,
            TaskError::Storage { source: StorageError::DiskFull { .. }, .. } => ErrorClass::Resource,
            TaskError::Memory { .. } | TaskError::OutOfMemory { .. } => ErrorClass::Resource,
            TaskError::Reported { class, .. } => *class,
            TaskError::Timeout { .. } => ErrorClass::Transient,
            TaskError::Lost { .. } => ErrorClass::Lost,
            TaskError::Cancelled => ErrorClass::Cancelled,
            _ => ErrorClass::Permanent,
        }
    }
}
