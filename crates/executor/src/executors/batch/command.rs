//! Starts workers by a command of the user's, one for each part of the work.
//!
//! `{worker}` in it is the command line of the worker, quoted for a shell. Its pieces are available, too. The command must run until the
//! worker has ended, as `ssh`, `srun`, `docker run` and `kubectl run --attach` do, and end with its exit code.

use super::{Engine, Job, Open, State, quoted};
use crate::RunError;
use crate::executors::{Executor, Factory, Host, Opening, OptionError, Options};
use crate::worker::ranges_text;
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::{BTreeMap, VecDeque};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// How long a command may take to end after a request to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Options of the executor `command`.
#[derive(Debug, Clone)]
pub struct CommandOptions {
    command: String,
    parallel: Option<usize>,
    tasks: usize,
    threads: usize,
    poll: Duration,
    program: Option<PathBuf>,
}

const PLACES: [&str; 9] = ["worker", "plan", "hash", "version", "stage", "tasks", "name", "threads", "mem"];

impl CommandOptions {
    pub(crate) fn read(options: &mut Options<'_>) -> Result<CommandOptions, OptionError> {
        options.pipelines_may_set(&["parallel", "tasks", "threads", "poll"])?;
        let command = options
            .text("command")
            .ok_or_else(|| OptionError("executor 'command' needs the option command=..., such as command='ssh node1 {worker}'".into()))?;
        if !command.contains("{worker}") && !command.contains("{tasks}") {
            return Err(OptionError(format!(
                "the command has neither {{worker}} nor {{tasks}}, so no worker could know its tasks: {command}"
            )));
        }
        for name in command.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name) {
            let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase());
            if word && !PLACES.contains(&name) {
                return Err(OptionError(format!("the command has '{{{name}}}'; there are {{{}}}", PLACES.join("}, {"))));
            }
        }
        Ok(CommandOptions {
            command,
            parallel: options.count("parallel")?,
            tasks: options.count("tasks")?.unwrap_or(1),
            threads: options.at_once("threads")?.unwrap_or(1),
            poll: options.seconds("poll")?.unwrap_or(Duration::from_millis(200)),
            program: options.text("program").map(PathBuf::from),
        })
    }
}

struct Running {
    child: Child,
    /// When it was requested to end.
    asked: Option<Instant>,
}

impl Running {
    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, signal);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(Some(_))) {
            self.signal(Signal::KILL);
            let _ = self.child.wait();
        }
    }
}

impl Factory for CommandOptions {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Executor>, RunError> {
        opening.through(Command::new(self.clone(), opening.at_once(), opening.host)?)
    }
}

/// The engine of the executor `command`.
pub struct Command {
    options: CommandOptions,
    parallel: usize,
    program: PathBuf,
    jobs: u64,
    waiting: VecDeque<(String, String)>,
    running: BTreeMap<String, Running>,
    ended: Vec<(String, State)>,
}

impl Command {
    /// Runs `workers` commands at once, unless the options say otherwise.
    pub(crate) fn new(options: CommandOptions, workers: usize, host: &Host) -> Result<Command, RunError> {
        let program = host.worker_program(options.program.as_ref())?;
        let parallel = options.parallel.unwrap_or(workers);
        Ok(Command { options, parallel, program, jobs: 0, waiting: VecDeque::new(), running: BTreeMap::new(), ended: Vec::new() })
    }

    fn start(&mut self) {
        while self.running.len() < self.parallel
            && let Some((name, line)) = self.waiting.pop_front()
        {
            let mut shell = std::process::Command::new("/bin/sh");
            shell.args(["-c", &line]).stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
            match shell.spawn() {
                Ok(child) => {
                    self.running.insert(name, Running { child, asked: None });
                }
                Err(e) => self.ended.push((name, State::Lost(format!("/bin/sh cannot be started: {e}")))),
            }
        }
    }
}

impl Engine for Command {
    fn name(&self) -> &str {
        "command"
    }

    fn capacity(&self) -> usize {
        self.parallel.saturating_mul(2).saturating_mul(self.options.tasks)
    }

    fn widest(&self) -> usize {
        self.capacity()
    }

    fn tasks_per_part(&self) -> usize {
        self.options.tasks
    }

    fn every(&self) -> Duration {
        self.options.poll
    }

    fn submit(&mut self, job: &Job<'_>) -> Result<String, RunError> {
        self.jobs += 1;
        let handle = format!("c{}x{}", std::process::id(), self.jobs);
        for (k, tasks) in job.parts.iter().enumerate() {
            let (name, tasks) = (format!("{handle}_{k}"), ranges_text(tasks));
            let mut worker = vec![self.program.display().to_string()];
            worker.extend(job.part(k, &name, self.options.threads));
            let worker = worker.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ");
            let values = [
                worker,
                quoted(&job.plan),
                quoted(job.hash),
                quoted(crate::worker::VERSION),
                job.stage.to_string(),
                quoted(&tasks),
                quoted(&name),
                self.options.threads.to_string(),
                job.allowed_mem.to_string(),
            ];
            self.waiting.push_back((name, fill(&self.options.command, &values)));
        }
        self.start();
        Ok(handle)
    }

    fn states(&mut self, _jobs: &Open) -> Result<Vec<(String, State)>, RunError> {
        let mut ended = std::mem::take(&mut self.ended);
        self.running.retain(|name, r| {
            if r.asked.is_some_and(|t| t.elapsed() > PATIENCE) {
                r.signal(Signal::KILL);
            }
            let state = match r.child.try_wait() {
                Ok(None) => return true,
                Ok(Some(status)) => match (status.code(), status.signal()) {
                    // A shell returns this code if a signal has ended the command.
                    (Some(code), _) if code > 128 => State::Lost(format!("signal {} ended it", code - 128)),
                    (Some(code), _) => State::Exited(code),
                    (None, signal) => State::Lost(format!("signal {} ended it", signal.unwrap_or(0))),
                },
                Err(e) => State::Lost(e.to_string()),
            };
            ended.push((name.clone(), state));
            false
        });
        self.start();
        Ok(ended)
    }

    fn cancel(&mut self, part: &str) {
        if let Some(i) = self.waiting.iter().position(|(name, _)| name == part) {
            self.waiting.remove(i);
            self.ended.push((part.into(), State::Lost("it was cancelled before it started".into())));
        }
        if let Some(r) = self.running.get_mut(part) {
            r.signal(Signal::TERM);
            r.asked.get_or_insert_with(Instant::now);
        }
    }
}

/// Fills in the placeholders of the command in one pass. Inserted values are not examined again.
fn fill(template: &str, values: &[String; PLACES.len()]) -> String {
    let (mut out, mut rest) = (String::new(), template);
    while let Some(open) = rest.find('{') {
        out.push_str(&rest[..open]);
        rest = &rest[open..];
        let place = PLACES.iter().zip(values).find(|(p, _)| rest[1..].strip_prefix(**p).is_some_and(|r| r.starts_with('}')));
        match place {
            Some((p, value)) => {
                out.push_str(value);
                rest = &rest[p.len() + 2..];
            }
            None => {
                out.push('{');
                rest = &rest[1..];
            }
        }
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        let values = PLACES.map(|p| format!("<{p}>{{plan}}"));
        assert_eq!(fill("ssh n {worker} ${x} {stage}{", &values), "ssh n <worker>{plan} ${x} <stage>{plan}{");
    }

    #[test]
    fn options() {
        let read = |command: &str| {
            let given = [("command".to_string(), command.to_string())].into();
            CommandOptions::read(&mut Options::new("command", &given, &BTreeMap::new())).map(|_| ()).map_err(|e| e.0)
        };
        assert!(read("ssh n {worker}").is_ok());
        assert!(read("x {plan}").unwrap_err().contains("{tasks}"));
        assert!(read("x {worker} {stagee}").unwrap_err().contains("stagee"));
    }
}
