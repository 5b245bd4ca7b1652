//! The driver, and the executors of this machine.
//!
//! One [`Driver`] alone owns the order of tasks, retries, resume and events; an executor only runs what it is given. Per-task timeouts
//! and backup copies of stragglers belong into [`driver`], beside the retries.

pub mod driver;
mod error;
mod event;
mod log;
mod readiness;
mod resume;
mod threads;

pub use driver::{Driver, RunOptions};
pub use error::RunError;
pub use event::{Event, RunReport, StageInfo};
pub use log::read_reports;
pub use threads::{Completion, ThreadExecutor};
