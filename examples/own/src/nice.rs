//! An executor of one's own: workers on this machine with a low priority, which leave the processors to others.
//!
//! An [`Engine`] only starts workers, says how they ended, and ends them. Everything else is left to Chunkwise: order, retries, time limits,
//! resuming, and reading from storage what is done.

use chunkwise::executor::{Engine, Executor, Factory, Job, Open, Opening, OptionError, Options, RunError, State};
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The options of the executor: `--executor-option level=10`.
#[derive(Debug)]
pub struct Nice {
    level: u8,
    workers: Option<usize>,
}

impl Nice {
    /// Reads the options. A pipeline, which may come from another person, may say how many workers there are.
    pub fn read(options: &mut Options<'_>) -> Result<Nice, OptionError> {
        options.pipelines_may_set(&["workers"])?;
        Ok(Nice { level: options.parsed("level", "a number from 0 to 19")?.unwrap_or(19), workers: options.at_once("workers")? })
    }
}

impl Factory for Nice {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Executor>, RunError> {
        let workers = self.workers.unwrap_or(opening.at_once());
        let program = opening.host.worker_program(None)?;
        opening.through(Workers { level: self.level, most: workers, program, jobs: 0, running: BTreeMap::new() })
    }
}

/// The engine, for one run.
struct Workers {
    level: u8,
    most: usize,
    program: PathBuf,
    jobs: u64,
    running: BTreeMap<String, Child>,
}

impl Engine for Workers {
    fn name(&self) -> &str {
        "nice"
    }

    fn capacity(&self) -> usize {
        self.most
    }

    fn widest(&self) -> usize {
        self.most
    }

    fn tasks_per_part(&self) -> usize {
        1
    }

    fn every(&self) -> Duration {
        Duration::from_millis(50)
    }

    fn submit(&mut self, job: &Job<'_>) -> Result<String, RunError> {
        self.jobs += 1;
        let handle = format!("n{}x{}", std::process::id(), self.jobs);
        for k in 0..job.parts.len() {
            let name = format!("{handle}_{k}");
            let mut command = Command::new("nice");
            command.args(["-n", &self.level.to_string()]).arg(&self.program).args(job.part(k, &name, 1)).arg("--tied");
            // A worker that is tied to its input ends when this process does.
            command.stdin(Stdio::piped()).stdout(Stdio::null());
            let child = command.spawn().map_err(|e| RunError::Executor(format!("`nice` cannot be started: {e}")))?;
            self.running.insert(name, child);
        }
        Ok(handle)
    }

    fn states(&mut self, _jobs: &Open) -> Result<Vec<(String, State)>, RunError> {
        let mut ended = Vec::new();
        self.running.retain(|name, child| {
            let state = match child.try_wait() {
                Ok(None) => return true,
                Ok(Some(status)) => match status.code() {
                    Some(code) => State::Exited(code),
                    None => State::Lost(format!("signal {} ended it", status.signal().unwrap_or(0))),
                },
                Err(e) => State::Lost(e.to_string()),
            };
            ended.push((name.clone(), state));
            false
        });
        Ok(ended)
    }

    fn cancel(&mut self, part: &str) {
        // It may be killed at any time: the task writes whole chunks, and another attempt begins again.
        if let Some(child) = self.running.get_mut(part) {
            let _ = child.kill();
        }
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        for child in self.running.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
