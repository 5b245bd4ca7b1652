//! The driver, its scheduler, the executors, and the worker.
//!
//! One [`Driver`] owns a run: it prepares the run and publishes the outputs. Its scheduler decides on the order of tasks, retries,
//! timeouts, second copies of slow tasks and events. An [`Executor`] only runs attempts, on threads of this process or in [`worker`]s
//! elsewhere.

pub mod checksums;
mod claims;
pub mod detached;
pub mod driver;
mod edited;
mod error;
mod event;
mod executors;
pub mod function;
pub mod groups;
mod inputs;
mod lease;
mod log;
mod needs;
mod note;
mod readiness;
mod renewals;
mod replace;
mod resume;
pub mod run_folder;
mod scheduler;
#[cfg(test)]
mod simulation;
pub mod worker;

pub use driver::{Driver, RunOptions};
pub use error::RunError;
pub use event::{Event, Progress, RunReport, StageInfo, Usage};
#[cfg(feature = "aws")]
pub use executors::aws;
pub use executors::{
    Assignment, BatchExecutor, Choice, Engine, Executor, Executors, Factory, Host, Job, LEFT_OUT, Open, Opening, OptionError, Options,
    State, ThreadExecutor, UnderWay, Update,
};
pub use log::{Journal, read_reports};
pub use renewals::Fence;
pub use replace::check_apart;
