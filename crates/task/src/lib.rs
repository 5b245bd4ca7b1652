//! The one stateless task function that every executor calls.
//!
//! `run_task(plan, stage, task)` resolves the regions, reads, evaluates phase by phase and tile by tile as
//! [`chunkwise_plan::schedule`] says, and writes whole chunks. Running it twice, or twice at once, leaves the same bytes.

mod context;
mod error;
mod evaluate;
#[cfg(test)]
mod evaluate_tests;
mod inputs;
mod read;
mod run;
mod tiles;
mod watch;

pub use chunkwise_kernels::Cores;
pub use context::TaskContext;
pub use error::{ErrorClass, TaskError};
pub use inputs::Inputs;
pub use run::{run_task, task_need};
pub use watch::Watch;
