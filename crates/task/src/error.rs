//! Why a task failed, and what may be done about it.

/// What a caller can do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorClass {
    /// Trying again may help.
    Transient,
    /// More memory or disk is needed.
    Resource,
    /// Trying again gives the same error.
    Permanent,
    /// The run was cancelled.
    Cancelled,
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
    /// The run was cancelled.
    #[error("cancelled")]
    Cancelled,
}

impl TaskError {
    /// What the scheduler should do.
    pub fn class(&self) -> ErrorClass {
        match self {
            TaskError::Storage { source, .. } | TaskError::Open { source, .. } if source.is_transient() => ErrorClass::Transient,
            TaskError::Memory { .. } => ErrorClass::Resource,
            TaskError::Cancelled => ErrorClass::Cancelled,
            _ => ErrorClass::Permanent,
        }
    }
}
