//! An executor with its options, and how it is opened for a plan.

use super::batch::{BatchExecutor, Engine};
use super::{Executor, Host, ThreadExecutor};
use crate::RunError;
use chunkwise_plan::Plan;
use chunkwise_storage::MemoryTier;
use chunkwise_task::TaskContext;
use chunkwise_types::PROGRAM_SCHEME;
use std::fmt::Debug;
use std::sync::Arc;

/// A plan that an executor is opened for. Its tasks run in other processes.
pub struct Opening<'a> {
    /// The open plan.
    pub context: Arc<TaskContext>,
    /// How many tasks are to run at once, if the user has said so.
    pub workers: Option<usize>,
    /// The program that drives the run.
    pub host: &'a Host,
}

impl Opening<'_> {
    /// How many tasks run at once if the options of the executor do not say.
    pub fn at_once(&self) -> usize {
        self.workers.unwrap_or(self.context.plan.spec.workers as usize).max(1)
    }

    /// An executor that runs tasks through an engine.
    ///
    /// # Errors
    /// When the folder of the run cannot be opened.
    pub fn through<E: Engine + 'static>(&self, engine: E) -> Result<Box<dyn Executor>, RunError> {
        Ok(Box::new(BatchExecutor::new(self.context.clone(), engine)?.with_python(self.host.python.clone())))
    }
}

/// An executor with its options. It is opened for each plan that it runs.
pub trait Factory: Debug + Send + Sync {
    /// The executor for a plan.
    ///
    /// # Errors
    /// When it cannot be started: its service does not answer, or the program of its workers is not known.
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Executor>, RunError>;
}

/// The executor that the user has chosen, with its options. The choice changes neither a plan nor its results.
#[derive(Debug, Clone)]
pub enum Choice {
    /// Threads of this process.
    Threads,
    /// Workers in other processes, here or elsewhere.
    Workers(Arc<dyn Factory>),
}

impl Choice {
    /// Opens a plan for this executor. `workers` tasks run at once, unless the options say otherwise.
    ///
    /// # Errors
    /// When the plan cannot be opened, or its stores are not shared between processes.
    pub fn open(&self, host: &Host, plan: Plan, workers: Option<usize>) -> Result<(Arc<TaskContext>, Box<dyn Executor>), RunError> {
        let stores = &host.stores;
        let bad = |e| RunError::Task { source: Box::new(e), outputs: Vec::new() };
        let factory = match self {
            Choice::Threads => {
                let threads = workers.unwrap_or(plan.spec.workers as usize).max(1);
                let memory = MemoryTier::new(plan.spec.task_budget());
                let context = TaskContext::open(stores, plan).and_then(|c| c.with_functions(&host.functions)?.with_memory(&memory));
                let context = Arc::new(context.map_err(bad)?);
                let executor = ThreadExecutor::new(context.clone(), threads, memory);
                return Ok((context, Box::new(executor)));
            }
            Choice::Workers(factory) => factory,
        };
        let mut urls = std::iter::once(&plan.spec.work_dir).chain(plan.arrays.values().map(|a| &a.url));
        if let Some(problem) = urls.find_map(|url| of_one_process(url)) {
            return Err(RunError::Executor(problem));
        }
        let context = Arc::new(TaskContext::open(stores, plan).map_err(bad)?);
        let executor = factory.open(&Opening { context: context.clone(), workers, host })?;
        Ok((context, executor))
    }
}

/// Why workers cannot use a place, if only this process has it.
fn of_one_process(url: &str) -> Option<String> {
    if url.starts_with("memory:") {
        return Some(format!("'{url}' is memory of one process, which workers do not share; use a folder or a bucket"));
    }
    let own = url.split_once("://").is_some_and(|(scheme, _)| scheme == PROGRAM_SCHEME);
    own.then(|| {
        format!(
            "'{url}' is a store of the program that opened it, which workers do not share; open the array with the executor that is to read \
             it, or use the executor 'threads'"
        )
    })
}
