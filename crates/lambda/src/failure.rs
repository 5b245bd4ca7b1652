//! Failures of invocations. A caller, or a state machine, decides by the type of the error.

use chunkwise::Error;
use chunkwise::executor::RunError;
use chunkwise::executor::function::{EventError, PERMANENT, REFUSED, RESOURCE, TRANSIENT};
use chunkwise::executor::worker::WorkerError;
use chunkwise::pipeline::LoadError;
use chunkwise::storage::StorageError;
use chunkwise::task::{ErrorClass, TaskError};
use lambda_runtime::Diagnostic;

/// The largest number of characters of a message.
const LONGEST: usize = 2000;

/// A function error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// One of `Refused`, `TransientError`, `ResourceError`, `PermanentError`.
    pub kind: &'static str,
    /// What happened, where, and what to do.
    pub message: String,
}

impl Failure {
    pub fn refused(message: impl Into<String>) -> Failure {
        Failure { kind: REFUSED, message: message.into() }
    }

    pub fn of_class(class: ErrorClass, message: String) -> Failure {
        let kind = match class {
            ErrorClass::Transient | ErrorClass::Lost | ErrorClass::Cancelled => TRANSIENT,
            ErrorClass::Resource => RESOURCE,
            ErrorClass::Permanent => PERMANENT,
        };
        Failure { kind, message }
    }
}

/// A text, cut to a limited length.
pub fn bounded(text: &str) -> String {
    match text.char_indices().nth(LONGEST) {
        Some((i, _)) => format!("{}...", &text[..i]),
        None => text.into(),
    }
}

impl From<Failure> for Diagnostic {
    fn from(f: Failure) -> Diagnostic {
        Diagnostic { error_type: f.kind.into(), error_message: bounded(&f.message) }
    }
}

impl From<EventError> for Failure {
    fn from(e: EventError) -> Failure {
        Failure::refused(e.to_string())
    }
}

fn storage_kind(e: &StorageError) -> &'static str {
    match e {
        StorageError::Url { .. } => REFUSED,
        e if e.is_transient() => TRANSIENT,
        _ => PERMANENT,
    }
}

fn task_kind(e: &TaskError) -> &'static str {
    match e {
        TaskError::Plan(_) => REFUSED,
        TaskError::Open { source, .. } | TaskError::Storage { source, .. } if matches!(source, StorageError::Url { .. }) => REFUSED,
        other => Failure::of_class(other.class(), String::new()).kind,
    }
}

impl From<StorageError> for Failure {
    fn from(e: StorageError) -> Failure {
        Failure { kind: storage_kind(&e), message: e.to_string() }
    }
}

impl From<TaskError> for Failure {
    fn from(e: TaskError) -> Failure {
        Failure { kind: task_kind(&e), message: e.to_string() }
    }
}

impl From<WorkerError> for Failure {
    fn from(e: WorkerError) -> Failure {
        match e {
            WorkerError::Task(e) => e.into(),
            WorkerError::Storage(e) => e.into(),
            other => Failure::refused(other.to_string()),
        }
    }
}

impl From<RunError> for Failure {
    fn from(e: RunError) -> Failure {
        let kind = match &e {
            RunError::OutputExists { .. }
            | RunError::Edited { .. }
            | RunError::NoRun { .. }
            | RunError::Running { .. }
            | RunError::Overlap { .. } => REFUSED,
            RunError::Place { source, .. } if !source.is_transient() => REFUSED,
            RunError::Place { source: s, .. } | RunError::Storage(s) => storage_kind(s),
            RunError::Task { source, .. } => task_kind(source),
            _ => PERMANENT,
        };
        Failure { kind, message: e.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(e: Error) -> Failure {
        match e {
            Error::Storage(e) => e.into(),
            Error::Task(e) => e.into(),
            Error::Run(e) => e.into(),
            // A pipeline that cannot be planned now cannot be planned the next time either.
            other => Failure::refused(other.to_string()),
        }
    }
}

impl From<LoadError> for Failure {
    fn from(e: LoadError) -> Failure {
        match e {
            LoadError::Pipeline(p) => Failure::refused(format!("the pipeline is wrong: {p}")),
            LoadError::Other(e) => e.into(),
        }
    }
}
