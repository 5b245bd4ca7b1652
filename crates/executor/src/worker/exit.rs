//! How a worker ends.

use super::WorkerError;
use chunkwise_task::ErrorClass;

/// The end of a worker, and its exit code. An engine need not understand the codes, because storage decides what is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exit {
    /// Every task is done.
    Done,
    /// It was told to stop. Unfinished tasks are handed back.
    Stopped,
    /// A task failed in a way that may pass.
    Transient,
    /// A task needs more memory or disk.
    Resource,
    /// A task failed for good.
    Permanent,
    /// Plan and worker, or driver and worker, have different versions or plans.
    Skew,
    /// The worker could not start: the plan cannot be read, an array cannot be opened.
    Unusable,
}

impl Exit {
    /// Every end.
    pub const ALL: [Exit; 7] = [Exit::Done, Exit::Stopped, Exit::Transient, Exit::Resource, Exit::Permanent, Exit::Skew, Exit::Unusable];

    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Unusable => 1,
            Exit::Permanent => 10,
            Exit::Transient => 11,
            Exit::Resource => 12,
            Exit::Skew => 13,
            Exit::Stopped => 14,
        }
    }

    /// The meaning of an exit code.
    pub fn of_code(code: i32) -> Option<Exit> {
        Exit::ALL.into_iter().find(|e| i32::from(e.code()) == code)
    }

    /// In words.
    pub fn meaning(self) -> &'static str {
        match self {
            Exit::Done => "all tasks are done",
            Exit::Stopped => "it was told to stop",
            Exit::Transient => "a task failed in a way that may pass",
            Exit::Resource => "a task needs more memory or disk",
            Exit::Permanent => "a task failed for good",
            Exit::Skew => "its version or its plan is not the driver's",
            Exit::Unusable => "it could not start",
        }
    }

    /// The exit for a failed task of this class.
    pub fn of(class: ErrorClass) -> Exit {
        match class {
            ErrorClass::Transient | ErrorClass::Lost => Exit::Transient,
            ErrorClass::Resource => Exit::Resource,
            ErrorClass::Permanent => Exit::Permanent,
            ErrorClass::Cancelled => Exit::Stopped,
        }
    }
}

impl From<&WorkerError> for Exit {
    fn from(e: &WorkerError) -> Exit {
        match e {
            WorkerError::Skew(_) => Exit::Skew,
            WorkerError::Storage(s) if s.is_transient() => Exit::Transient,
            WorkerError::Task(t) if t.class() == ErrorClass::Transient => Exit::Transient,
            _ => Exit::Unusable,
        }
    }
}
