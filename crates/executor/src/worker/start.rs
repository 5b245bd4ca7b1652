//! What a worker is told when it is started.

use super::{Exit, Limits, Share, Worker, WorkerError, array_index, end_with_parent, parse_ranges, run_share, serve};
use crate::executors::Host;
use serde::{Deserialize, Serialize};
use std::io::BufReader;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// The arguments of `chunkwise worker`, whose help describes them. Another program that is a worker takes the same.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Start {
    /// The plan: a path or URL.
    pub plan: String,
    /// The id that it must have.
    pub hash: Option<String>,
    /// The version of the driver, which must be this one's.
    pub driver_version: Option<String>,
    /// Tasks come from standard input, and answers go to standard output.
    pub stdin: bool,
    /// Index of the stage, if they do not.
    pub stage: Option<usize>,
    /// Tasks, such as `0..100,105`.
    pub tasks: Option<String>,
    /// Which part of these.
    pub array_index: Option<u64>,
    /// In how many parts they are cut.
    pub array_size: Option<u64>,
    /// The name of the worker in its reports.
    pub name: Option<String>,
    /// The name of the job whose part it is.
    pub job: Option<String>,
    /// Tasks that run at once.
    pub threads: usize,
    /// Bytes that the process may use.
    pub allowed_mem: Option<u64>,
    /// Seconds that one attempt at a task may take.
    pub task_timeout: Option<f64>,
    /// It ends at once when standard input is closed.
    pub tied: bool,
}

impl Start {
    /// Runs a worker to its end. `cancel` tells it to stop.
    ///
    /// # Errors
    /// When it cannot start, or its driver is gone.
    pub fn run(&self, host: &Host, cancel: &AtomicBool) -> Result<Exit, WorkerError> {
        if self.tied {
            end_with_input();
        }
        if self.stdin {
            end_with_parent();
        }
        let limits = Limits { threads: self.threads, allowed_mem: self.allowed_mem };
        let tasks = self.tasks.as_deref().map(parse_ranges).transpose().map_err(WorkerError::Usage)?;
        let timeout = self.task_timeout.map(Duration::try_from_secs_f64).transpose().map_err(|e| WorkerError::Usage(e.to_string()))?;
        let worker = Worker::open(host, &self.plan, self.hash.as_deref(), self.driver_version.as_deref(), &limits)?;
        if self.stdin {
            return serve(&worker, BufReader::new(std::io::stdin()), std::io::stdout(), cancel);
        }
        let stage =
            self.stage.ok_or_else(|| WorkerError::Usage("a worker needs a stage, or takes its tasks from standard input".into()))?;
        let part = self.array_size.map(|size| Ok::<_, WorkerError>((array_index(self.array_index)?, size))).transpose()?;
        let name = self.job.as_ref().zip(part).map(|(job, (index, _))| format!("{job}_{index}")).or_else(|| self.name.clone());
        let share = Share { stage, tasks, part, name, folder: None, threads: None, timeout, until: None };
        Ok(run_share(&worker, &share, cancel, &mut |_| {})?.exit)
    }
}

/// Ends this process when standard input is closed. A worker may be killed at any time, so it need not clean up.
fn end_with_input() {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(i32::from(Exit::Stopped.code()))
    });
}
