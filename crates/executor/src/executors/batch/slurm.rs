//! Slurm: array jobs through `sbatch`. States come from `scontrol`, or from the accounting database for jobs that it has forgotten.

use super::silence::Silence;
use super::{Engine, Job, Open, State, quoted};
use crate::RunError;
use crate::executors::{Executor, Factory, Host, Opening, OptionError, Options};
use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The largest array, if the configuration does not say.
const MAX_ARRAY: usize = 1001;

/// Options of the executor `slurm`.
#[derive(Debug, Clone)]
pub struct SlurmOptions {
    partition: Option<String>,
    account: Option<String>,
    qos: Option<String>,
    time: Option<String>,
    memory: Option<u64>,
    threads: usize,
    tasks: usize,
    queued: usize,
    array: Option<usize>,
    poll: Duration,
    logs: Option<PathBuf>,
    arguments: Option<String>,
    program: Option<PathBuf>,
}

impl SlurmOptions {
    pub(crate) fn read(options: &mut Options<'_>) -> Result<SlurmOptions, OptionError> {
        options.pipelines_may_set(&["tasks", "time", "array", "queued", "poll"])?;
        Ok(SlurmOptions {
            partition: options.text("partition"),
            account: options.text("account"),
            qos: options.text("qos"),
            time: options.text("time"),
            memory: options.size("mem")?,
            threads: options.at_once("threads")?.unwrap_or(1),
            tasks: options.count("tasks")?.unwrap_or(1),
            queued: options.count("queued")?.unwrap_or(10_000),
            array: options.count("array")?,
            poll: options.seconds("poll")?.unwrap_or(Duration::from_secs(5)),
            logs: options.text("logs").map(PathBuf::from),
            arguments: options.text("sbatch"),
            program: options.text("program").map(PathBuf::from),
        })
    }
}

impl Factory for SlurmOptions {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Executor>, RunError> {
        opening.through(Slurm::new(self.clone(), opening.host)?)
    }
}

/// The engine of the executor `slurm`.
pub struct Slurm {
    options: SlurmOptions,
    program: PathBuf,
    widest: usize,
    /// The number of parts of each job.
    parts: HashMap<String, usize>,
    silence: Silence,
}

fn run(program: &str, arguments: &[&str], input: Option<&str>) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|e| format!("'{program}' cannot be started: {e}"))?;
    let written = match (input, child.stdin.take()) {
        (Some(text), Some(mut stdin)) => stdin.write_all(text.as_bytes()),
        _ => Ok(()),
    };
    let done = child.wait_with_output().map_err(|e| format!("'{program}': {e}"))?;
    let said = String::from_utf8_lossy(&done.stderr).trim().to_string();
    // If the program ends before it has read its input, its message is better than that of a broken pipe.
    match written {
        _ if !done.status.success() => Err(format!("'{program}' failed: {said}")),
        Err(e) => Err(format!("'{program}' takes no input: {e}")),
        Ok(()) => Ok(String::from_utf8_lossy(&done.stdout).into_owned()),
    }
}

impl Slurm {
    /// Finds the largest array that is allowed.
    pub(crate) fn new(options: SlurmOptions, host: &Host) -> Result<Slurm, RunError> {
        let config = run("scontrol", &["show", "config"], None).map_err(RunError::Executor)?;
        let value = |key: &str| {
            let (name, value) = config.lines().filter_map(|l| l.split_once('=')).find(|(k, _)| k.trim() == key)?;
            let _ = name;
            value.trim().parse::<usize>().ok()
        };
        // Indices start at 0 and are below MaxArraySize.
        let allowed = value("MaxArraySize").unwrap_or(MAX_ARRAY).max(1);
        let widest = options.array.map_or(allowed, |n| n.min(allowed));
        let program = host.worker_program(options.program.as_ref())?;
        Ok(Slurm { options, program, widest, parts: HashMap::new(), silence: Silence::default() })
    }

    fn script(&self, job: &Job<'_>) -> String {
        let mut words = vec![self.program.display().to_string()];
        words.extend(job.arguments(self.options.threads));
        words.extend(["--tasks".into(), job.all_tasks()]);
        let line = words.iter().map(|w| quoted(w)).collect::<Vec<_>>().join(" ");
        let n = job.parts.len();
        format!(
            "#!/bin/sh\nexec {line} --array-index \"$SLURM_ARRAY_TASK_ID\" --array-size {n} --name \"${{SLURM_ARRAY_JOB_ID}}_${{SLURM_ARRAY_TASK_ID}}\"\n"
        )
    }
}

/// The value of `key=` in a line of `scontrol`.
fn field<'t>(line: &'t str, key: &str) -> Option<&'t str> {
    line.split_whitespace().find_map(|w| w.strip_prefix(key)?.strip_prefix('='))
}

/// Interprets a state and an exit code of Slurm.
fn state(name: &str, exit: &str, reason: &str) -> State {
    let (code, signal) = exit.split_once(':').unwrap_or((exit, "0"));
    let (code, signal) = (code.parse::<i32>().unwrap_or(1), signal.parse::<i32>().unwrap_or(0));
    match name.split_whitespace().next().unwrap_or(name).trim_end_matches('+') {
        "PENDING" | "RUNNING" | "COMPLETING" | "CONFIGURING" | "SUSPENDED" | "REQUEUED" | "RESIZING" | "SIGNALING" | "STAGE_OUT"
        | "STOPPED" | "SPECIAL_EXIT" | "REQUEUE_HOLD" | "REQUEUE_FED" | "RESV_DEL_HOLD" => State::Alive,
        "COMPLETED" => State::Exited(0),
        "OUT_OF_MEMORY" => State::OutOfMemory,
        "TIMEOUT" | "DEADLINE" => State::TimedOut,
        "FAILED" if signal == 0 && code <= 128 => State::Exited(code),
        "FAILED" => State::Lost(format!("signal {} ended it", if signal > 0 { signal } else { code - 128 })),
        other => State::Lost(format!(
            "Slurm says {other}{}",
            if reason.is_empty() || reason == "None" { String::new() } else { format!(" ({reason})") }
        )),
    }
}

impl Engine for Slurm {
    fn name(&self) -> &str {
        "slurm"
    }

    fn capacity(&self) -> usize {
        self.options.queued
    }

    fn widest(&self) -> usize {
        self.widest
    }

    fn tasks_per_part(&self) -> usize {
        self.options.tasks
    }

    fn memory(&self, job: &Job<'_>) -> u64 {
        self.options.memory.unwrap_or(job.allowed_mem)
    }

    fn every(&self) -> Duration {
        self.options.poll
    }

    fn clear(&mut self, name: &str) {
        if let Err(e) = run("scancel", &["--name", name], None) {
            tracing::warn!("{e}");
        }
    }

    fn submit(&mut self, job: &Job<'_>) -> Result<String, RunError> {
        let o = &self.options;
        // The memory of the worker, in the units of Slurm.
        let memory = self.memory(job).div_ceil(1 << 20);
        let output = match &o.logs {
            Some(folder) => folder.join("chunkwise-%A_%a.log").display().to_string(),
            None => "/dev/null".into(),
        };
        let mut arguments = vec![
            "--parsable".to_string(),
            "--no-requeue".into(),
            format!("--array=0-{}", job.parts.len() - 1),
            format!("--job-name={}", job.name),
            format!("--mem={memory}M"),
            format!("--cpus-per-task={}", o.threads),
            format!("--output={output}"),
            "--ntasks=1".into(),
        ];
        let named = [("partition", &o.partition), ("account", &o.account), ("qos", &o.qos), ("time", &o.time)];
        arguments.extend(named.into_iter().filter_map(|(k, v)| v.as_ref().map(|v| format!("--{k}={v}"))));
        arguments.extend(o.arguments.iter().flat_map(|a| a.split_whitespace().map(String::from)));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let said = run("sbatch", &arguments, Some(&self.script(job))).map_err(RunError::Executor)?;
        // "123", or "123;cluster".
        let handle = said.trim().split(';').next().unwrap_or_default().to_string();
        if handle.is_empty() || !handle.bytes().all(|b| b.is_ascii_digit()) {
            return Err(RunError::Executor(format!("sbatch gave no job number: {}", said.trim())));
        }
        self.parts.insert(handle.clone(), job.parts.len());
        Ok(handle)
    }

    fn states(&mut self, jobs: &Open) -> Result<Vec<(String, State)>, RunError> {
        let mut out = Vec::new();
        for handle in jobs.keys() {
            match run("scontrol", &["show", "job", "-o", handle], None) {
                Ok(text) => {
                    self.silence.answer();
                    for line in text.lines() {
                        // Parts that wait together have one line with a range. It says nothing about any one of them.
                        let Some(part) = field(line, "ArrayTaskId").filter(|p| p.bytes().all(|b| b.is_ascii_digit())) else { continue };
                        let of = |key| field(line, key).unwrap_or_default();
                        out.push((format!("{handle}_{part}"), state(of("JobState"), of("ExitCode"), of("Reason"))));
                    }
                }
                Err(e) if e.contains("Invalid job id") => {
                    self.silence.answer();
                    let known = run("sacct", &["-n", "-P", "-X", "-j", handle, "-o", "JobID,State,ExitCode"], None).unwrap_or_default();
                    let lines: HashMap<&str, State> = known
                        .lines()
                        .filter_map(|l| {
                            let mut f = l.split('|');
                            Some((f.next()?, state(f.next()?, f.next()?, "")))
                        })
                        .collect();
                    for part in 0..self.parts.get(handle).copied().unwrap_or(0) {
                        let name = format!("{handle}_{part}");
                        let gone = State::Lost("Slurm does not know the job any more".into());
                        let found = lines.get(name.as_str()).cloned().unwrap_or(gone);
                        out.push((name, found));
                    }
                }
                Err(e) => self.silence.no_answer(e),
            }
        }
        let gone = |e| RunError::Executor(format!("{e}; the jobs go on, and --resume takes over what they have done"));
        self.silence.end().map_err(gone)?;
        Ok(out)
    }

    fn cancel(&mut self, part: &str) {
        if let Err(e) = run("scancel", &[part], None) {
            tracing::warn!("{e}");
        }
    }

    fn cancel_all(&mut self, jobs: &Open) {
        let handles: Vec<&str> = jobs.keys().map(String::as_str).collect();
        if let Err(e) = run("scancel", &handles, None) {
            tracing::warn!("{e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dies_before_it_has_read_says_why() {
        let script = "x".repeat(1 << 20);
        let dies = run("sh", &["-c", "echo 'no such partition' >&2; exit 1"], Some(&script));
        assert_eq!(dies, Err("'sh' failed: no such partition".into()));
        assert!(run("sh", &["-c", "exit 0"], Some(&script)).unwrap_err().contains("takes no input"));
        assert_eq!(run("wc", &["-c"], Some(&script)).unwrap().trim(), "1048576");
    }

    #[test]
    fn lines_of_scontrol() {
        let line = "JobId=5 ArrayJobId=4 ArrayTaskId=1 JobName=chunkwise JobState=OUT_OF_MEMORY Reason=OutOfMemory ExitCode=0:125";
        assert_eq!(field(line, "ArrayTaskId"), Some("1"));
        assert_eq!(state(field(line, "JobState").unwrap(), field(line, "ExitCode").unwrap(), ""), State::OutOfMemory);
        assert_eq!(state("FAILED", "11:0", ""), State::Exited(11));
        assert_eq!(state("FAILED", "0:9", ""), State::Lost("signal 9 ended it".into()));
        assert_eq!(state("FAILED", "137:0", ""), State::Lost("signal 9 ended it".into()));
        assert_eq!(state("COMPLETED", "0:0", "None"), State::Exited(0));
        assert_eq!(state("TIMEOUT", "0:15", "TimeLimit"), State::TimedOut);
        assert_eq!(state("RUNNING", "0:0", "None"), State::Alive);
        assert!(matches!(state("NODE_FAIL", "0:1", "NodeDown"), State::Lost(why) if why.contains("NODE_FAIL (NodeDown)")));
        assert!(matches!(state("CANCELLED by 0", "0:15", ""), State::Lost(_)));
    }
}
