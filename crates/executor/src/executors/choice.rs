//! Executors by name.

#[cfg(feature = "aws-batch")]
use super::batch::{AwsBatch, AwsBatchOptions};
use super::batch::{BatchExecutor, Command, CommandOptions, Slurm, SlurmOptions};
#[cfg(feature = "kubernetes")]
use super::batch::{Kubernetes, KubernetesOptions};
#[cfg(feature = "lambda")]
use super::lambda::{LambdaExecutor, LambdaOptions};
use super::processes::{ProcessExecutor, ProcessOptions};
use super::{Executor, Host, OptionError, Options, ThreadExecutor};
use crate::RunError;
use chunkwise_plan::Plan;
use chunkwise_storage::MemoryTier;
use chunkwise_task::TaskContext;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The names of the executors of this build.
pub const EXECUTORS: &[&str] = &[
    "threads",
    "processes",
    "slurm",
    #[cfg(feature = "kubernetes")]
    "kubernetes",
    #[cfg(feature = "aws-batch")]
    "aws-batch",
    "command",
    #[cfg(feature = "lambda")]
    "lambda",
];

/// The executors that this build was compiled without, and the features of the crate that have them.
pub const LEFT_OUT: &[(&str, &str)] = &[
    #[cfg(not(feature = "kubernetes"))]
    ("kubernetes", "kubernetes"),
    #[cfg(not(feature = "aws-batch"))]
    ("aws-batch", "aws-batch"),
    #[cfg(not(feature = "lambda"))]
    ("lambda", "aws"),
];

/// What is said of an executor that this build does not have.
///
/// ```
/// assert!(chunkwise_executor::no_executor("thread").starts_with("there is no executor 'thread'; there are threads, "));
/// ```
pub fn no_executor(name: &str) -> String {
    match LEFT_OUT.iter().find(|(n, _)| *n == name) {
        Some((_, feature)) => format!(
            "this build has no executor '{name}': it was compiled without the feature '{feature}'. \
             `cargo install --locked --path crates/cli --features full` makes one that has all"
        ),
        None => format!("there is no executor '{name}'; there are {}", EXECUTORS.join(", ")),
    }
}

/// An executor with its options. The choice changes neither a plan nor its results.
#[derive(Debug, Clone)]
pub enum Choice {
    /// Threads of this process.
    Threads,
    /// Worker processes on this machine.
    Processes(ProcessOptions),
    /// Array jobs of Slurm.
    Slurm(SlurmOptions),
    /// Indexed Jobs of Kubernetes.
    #[cfg(feature = "kubernetes")]
    Kubernetes(Box<KubernetesOptions>),
    /// Array jobs of AWS Batch.
    #[cfg(feature = "aws-batch")]
    AwsBatch(Box<AwsBatchOptions>),
    /// Workers that a command of the user starts.
    Command(CommandOptions),
    /// Invocations of a function of AWS Lambda.
    #[cfg(feature = "lambda")]
    Lambda(LambdaOptions),
}

impl Choice {
    /// From its name, with options from the command line and from a pipeline.
    ///
    /// # Errors
    /// When there is no such executor, it has no such option, or a pipeline may not set the option.
    pub fn parse(name: &str, given: &BTreeMap<String, String>, pipeline: &BTreeMap<String, String>) -> Result<Choice, OptionError> {
        let mut options = Options::new(name, given, pipeline);
        let choice = match name {
            "threads" => Choice::Threads,
            "processes" => Choice::Processes(ProcessOptions::read(&mut options)?),
            "slurm" => Choice::Slurm(SlurmOptions::read(&mut options)?),
            #[cfg(feature = "kubernetes")]
            "kubernetes" => Choice::Kubernetes(Box::new(KubernetesOptions::read(&mut options)?)),
            #[cfg(feature = "aws-batch")]
            "aws-batch" => Choice::AwsBatch(Box::new(AwsBatchOptions::read(&mut options)?)),
            "command" => Choice::Command(CommandOptions::read(&mut options)?),
            #[cfg(feature = "lambda")]
            "lambda" => Choice::Lambda(LambdaOptions::read(&mut options)?),
            _ => return Err(OptionError(no_executor(name))),
        };
        options.end()?;
        Ok(choice)
    }

    /// Opens a plan for this executor. `workers` tasks run at once, unless the options say otherwise.
    ///
    /// # Errors
    /// When the plan cannot be opened, or its stores are not shared between processes.
    pub fn open(&self, host: &Host, plan: Plan, workers: Option<usize>) -> Result<(Arc<TaskContext>, Box<dyn Executor>), RunError> {
        let stores = &host.stores;
        let bad = |e| RunError::Task { source: Box::new(e), outputs: Vec::new() };
        let threads = workers.unwrap_or(plan.spec.workers as usize).max(1);
        if let Choice::Threads = self {
            let memory = MemoryTier::new(plan.spec.task_budget());
            let context = Arc::new(TaskContext::open(stores, plan).and_then(|c| c.with_memory(&memory)).map_err(bad)?);
            let executor = ThreadExecutor::new(context.clone(), threads, memory);
            return Ok((context, Box::new(executor)));
        }
        let urls = std::iter::once(&plan.spec.work_dir).chain(plan.arrays.values().map(|a| &a.url));
        if let Some(url) = urls.into_iter().find(|u| u.starts_with("memory:")) {
            return Err(RunError::Executor(format!(
                "'{url}' is memory of one process, which workers do not share; use a folder or a bucket"
            )));
        }
        let context = Arc::new(TaskContext::open(stores, plan).map_err(bad)?);
        let executor: Box<dyn Executor> = match self {
            Choice::Processes(o) => Box::new(ProcessExecutor::new(context.clone(), o.clone(), workers, host)?),
            Choice::Slurm(o) => Box::new(BatchExecutor::new(context.clone(), Slurm::new(o.clone(), host)?)?),
            #[cfg(feature = "kubernetes")]
            Choice::Kubernetes(o) => Box::new(BatchExecutor::new(context.clone(), Kubernetes::new((**o).clone())?)?),
            #[cfg(feature = "aws-batch")]
            Choice::AwsBatch(o) => Box::new(BatchExecutor::new(context.clone(), AwsBatch::new((**o).clone())?)?),
            Choice::Command(o) => Box::new(BatchExecutor::new(context.clone(), Command::new(o.clone(), threads, host)?)?),
            #[cfg(feature = "lambda")]
            Choice::Lambda(o) => Box::new(LambdaExecutor::new(context.clone(), o.clone())?),
            Choice::Threads => return Err(RunError::Executor("threads need no workers".into())),
        };
        Ok((context, executor))
    }
}
