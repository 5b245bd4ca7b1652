//! The messages between a driver and its workers, one JSON document a line: over pipes, or in the reports that workers leave in storage.

use chunkwise_plan::{FORMAT, TaskReport, WrittenChunk};
use chunkwise_task::{ErrorClass, TaskError};
use serde::{Deserialize, Serialize};

/// The version of this program. Driver and workers of one run must have the same.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The folder inside a run's folder in which workers leave their reports.
pub(crate) const REPORTS: &str = "reports";

/// An order of a driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Order {
    /// Run a task.
    Run {
        /// The number of this attempt.
        attempt: u64,
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
        /// Its chunks that exist already.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        have: Vec<WrittenChunk>,
    },
    /// Stop an attempt at its next chunk.
    Stop {
        /// The attempt.
        attempt: u64,
    },
}

/// A message of a worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The greeting of a worker.
    Hello {
        /// Of the program.
        version: String,
        /// Of plans.
        format: String,
        /// The plan that it has read.
        plan: String,
    },
    /// It has begun with a task.
    Started {
        /// The number of the attempt.
        attempt: u64,
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
    },
    /// A fraction of a running task is done.
    Did {
        /// The number of the attempt.
        attempt: u64,
        /// From 0 to 1.
        share: f64,
    },
    /// A running task has written a chunk.
    Wrote(TaskReport),
    /// A task is done.
    Done {
        /// The number of the attempt.
        attempt: u64,
        /// Its report.
        report: TaskReport,
    },
    /// A task failed.
    Failed {
        /// The number of the attempt.
        attempt: u64,
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
        /// The class of the failure.
        class: ErrorClass,
        /// Why.
        detail: String,
    },
    /// A task was not tried to its end, because the worker was told to stop.
    Returned {
        /// The number of the attempt.
        attempt: u64,
        /// Index of the stage.
        stage: usize,
        /// Number of the task.
        task: u64,
    },
}

impl Answer {
    /// The greeting of this program for a plan.
    pub fn hello(plan: &str) -> Answer {
        Answer::Hello { version: VERSION.into(), format: FORMAT.into(), plan: plan.into() }
    }

    /// How an attempt ended.
    pub fn of(attempt: u64, stage: usize, task: u64, result: Result<TaskReport, TaskError>) -> Answer {
        match result {
            Ok(report) => Answer::Done { attempt, report },
            Err(e) if e.class() == ErrorClass::Cancelled => Answer::Returned { attempt, stage, task },
            Err(e) => Answer::Failed { attempt, stage, task, class: e.class(), detail: e.to_string() },
        }
    }

    /// The attempt that has ended, and how.
    pub fn ended(self) -> Option<(u64, Result<TaskReport, TaskError>)> {
        Some(match self {
            Answer::Done { attempt, report } => (attempt, Ok(report)),
            Answer::Failed { attempt, class, detail, .. } => (attempt, Err(TaskError::Reported { class, detail })),
            Answer::Returned { attempt, .. } => (attempt, Err(TaskError::Cancelled)),
            _ => return None,
        })
    }
}

/// The difference between a driver and a worker; `None` if they fit together.
pub fn skew(version: &str, format: &str, plan: &str, wanted_plan: &str) -> Option<String> {
    let differ = |what: &str, worker: &str, driver: &str| Some(format!("the worker has {what} {worker}, but the driver has {driver}"));
    if version != VERSION {
        return differ("chunkwise", version, VERSION);
    }
    if format != FORMAT {
        return differ("the plan format", format, FORMAT);
    }
    if plan != wanted_plan { differ("the plan", plan, wanted_plan) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let orders = [Order::Run { attempt: 1, stage: 2, task: 3, have: vec![] }, Order::Stop { attempt: 1 }];
        for order in orders {
            let line = serde_json::to_string(&order).unwrap();
            assert_eq!(serde_json::from_str::<Order>(&line).unwrap(), order, "{line}");
        }
        let failed = Answer::of(7, 1, 2, Err(TaskError::Lost { stage: 1, task: 2, detail: "x".into() }));
        let back: Answer = serde_json::from_str(&serde_json::to_string(&failed).unwrap()).unwrap();
        let (attempt, result) = back.ended().unwrap();
        assert_eq!((attempt, result.unwrap_err().class()), (7, ErrorClass::Lost));
        let cancelled = Answer::of(7, 1, 2, Err(TaskError::Cancelled)).ended().unwrap().1;
        assert_eq!(cancelled.unwrap_err().class(), ErrorClass::Cancelled);
    }

    #[test]
    fn versions() {
        assert_eq!(skew(VERSION, FORMAT, "p", "p"), None);
        assert!(skew("0.0.0", FORMAT, "p", "p").unwrap().contains("0.0.0"));
        assert!(skew(VERSION, "chunkwise-plan/0", "p", "p").unwrap().contains("format"));
        assert!(skew(VERSION, FORMAT, "q", "p").unwrap().contains("plan"));
    }
}
