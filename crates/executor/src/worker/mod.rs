//! The worker: a process without state of its own that reads a plan and runs its tasks.
//!
//! Its tasks come over a pipe from a driver ([`serve`]), or are a share of a range that an engine gave it ([`run_share`]). In both cases
//! they are admitted by their projected memory, as in a run on threads, and each is reported in a line of its own.

mod exit;
mod pool;
mod protocol;
mod serve;
mod share;
mod start;

pub use exit::Exit;
pub use protocol::{Answer, Order, VERSION, skew};
pub use serve::serve;
pub use share::{Share, Shared, array_index, parse_ranges, ranges_text, run_share};
pub use start::Start;

pub(crate) use protocol::REPORTS;
#[cfg(test)]
pub(crate) use share::part_of;

use crate::executors::Host;
use chunkwise_plan::{Plan, PlanError};
use chunkwise_storage::{Location, MemoryTier, StorageError, Stores};
use chunkwise_task::{Inputs, TaskContext, TaskError};
use std::sync::Arc;

/// Has the system kill this process when its parent is gone, for whatever reason. If the system cannot do that, the closed pipe ends the
/// worker.
pub fn end_with_parent() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
}

/// The limits of a worker.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The number of tasks at once.
    pub threads: usize,
    /// The memory of the whole process in bytes, if it differs from the plan's.
    pub allowed_mem: Option<u64>,
}

/// A worker that cannot start.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The plan, or the driver, is not of this version.
    #[error("this worker cannot run the plan: {0}")]
    Skew(String),
    /// The plan does not exist, or its text is not a plan.
    #[error("the plan '{url}' cannot be read: {detail}")]
    NoPlan {
        /// Its URL.
        url: String,
        /// Why.
        detail: String,
    },
    /// The plan, or an array of it.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// Storage.
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The command line.
    #[error("{0}")]
    Usage(String),
}

/// The largest size of a plan in bytes.
const MAX_PLAN: u64 = 64 << 20;

/// Fetches a plan, and checks that it is the right one: `hash` is its id.
///
/// # Errors
/// When it cannot be read, is too large, is another one, or of another version.
pub fn read_plan(stores: &Stores, url: &str, hash: Option<&str>) -> Result<Plan, WorkerError> {
    let bad = |detail: String| WorkerError::NoPlan { url: url.into(), detail };
    let location = Location::parse(url, None)?;
    let folder = location.parent().ok_or_else(|| bad("it is no file".into()))?;
    let store = stores.open(&folder)?;
    let data = store.get(location.name())?.ok_or_else(|| bad("there is no such object".into()))?;
    if data.len() as u64 > MAX_PLAN {
        return Err(bad(format!("it has {} bytes, and {MAX_PLAN} are allowed", data.len())));
    }
    let plan = Plan::from_json(&String::from_utf8_lossy(&data)).map_err(|e| match e {
        PlanError::Version { .. } => WorkerError::Skew(e.to_string()),
        other => bad(other.to_string()),
    })?;
    let id = plan.id();
    match hash.filter(|h| *h != id) {
        Some(wanted) => {
            Err(WorkerError::Skew(format!("the plan at '{url}' is {id}, but {wanted} is wanted; it was replaced by another one")))
        }
        None => Ok(plan),
    }
}

/// A plan, opened for the tasks of this process.
pub struct Worker {
    /// The plan with its arrays.
    pub context: Arc<TaskContext>,
    memory: Arc<MemoryTier>,
    budget: u64,
    threads: usize,
    id: String,
}

impl Worker {
    /// Fetches a plan once, and checks that it is the right one: `hash` is its id, `driver` is the version of the driver that has started
    /// this worker.
    ///
    /// # Errors
    /// When the plan cannot be read, is another one, or of another version.
    pub fn open(host: &Host, url: &str, hash: Option<&str>, driver: Option<&str>, limits: &Limits) -> Result<Worker, WorkerError> {
        if let Some(driver) = driver.filter(|d| *d != VERSION) {
            return Err(WorkerError::Skew(format!("the worker has chunkwise {VERSION}, but the driver has {driver}")));
        }
        let plan = read_plan(&host.stores, url, hash)?;
        let id = plan.id();
        let allowed = limits.allowed_mem.unwrap_or(plan.spec.allowed_mem);
        let budget = allowed.saturating_sub(plan.spec.reserved_mem);
        let memory = MemoryTier::new(budget);
        let context = Arc::new(TaskContext::open(&host.stores, plan)?.with_functions(&host.functions)?.with_cache(&memory)?);
        // If tasks are run by hand, without a driver, there are none.
        if let Some(inputs) = Inputs::of_run(&context)? {
            inputs.watch(&context);
        }
        Ok(Worker { context, memory, budget, threads: limits.threads.max(1), id })
    }
}
