//! Clusters whose clients are written in Python: Dask and Ray. A program of the package `chunkwise`, the bridge, is their client. It gets one
//! JSON document a line, and answers each with one:
//!
//! ```text
//! {"do": "begin", "cluster": "dask", "threads": 1, "options": {...}, "env": {}}      {"slots": 8}
//! {"do": "submit", "parts": [{"name": "b1x2_0", "arguments": [...]}, ...],
//!  "memory": 2000000000}                                                       {"slots": 8}
//! {"do": "look"}                                                               {"slots": 8, "ended": [{"part": "b1x2_0", "code": 0}, ...]}
//! {"do": "cancel", "parts": ["b1x2_0"]}                                        {"slots": 8}
//! ```
//!
//! An answer may be `{"error": "..."}` instead, which ends the run. The bridge ends its workers, and then itself, when its input is closed:
//! at the end of a run, and when the driver is killed.

use super::{Engine, Job, Open, State};
use crate::RunError;
use crate::executors::{Executor, Factory, Host, Opening, OptionError, Options};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long the bridge may take to answer. A client of a cluster gives up sooner, with a reason.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long the bridge may take to end its workers.
const FAREWELL: Duration = Duration::from_secs(15);
/// How long is waited for what a program that has ended said last.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The lines of the bridge's log that are kept for an error.
const LINES: usize = 12;

/// Options of the executors `dask` and `ray`.
#[derive(Debug, Clone)]
pub struct BridgeOptions {
    cluster: &'static str,
    /// How the client finds the cluster.
    client: BTreeMap<&'static str, String>,
    /// Variables of the workers.
    env: BTreeMap<String, String>,
    threads: usize,
    tasks: usize,
    queued: Option<usize>,
    /// Bytes that a worker may use, if it is not the memory of the plan.
    memory: Option<u64>,
    poll: Duration,
    python: Option<PathBuf>,
}

impl BridgeOptions {
    /// Options of the executor `dask`.
    pub(crate) fn dask(options: &mut Options<'_>) -> Result<BridgeOptions, OptionError> {
        BridgeOptions::read("dask", &["address", "scheduler_file", "program"], options)
    }

    /// Options of the executor `ray`.
    pub(crate) fn ray(options: &mut Options<'_>) -> Result<BridgeOptions, OptionError> {
        BridgeOptions::read("ray", &["address", "program"], options)
    }

    fn read(cluster: &'static str, client: &[&'static str], options: &mut Options<'_>) -> Result<BridgeOptions, OptionError> {
        options.pipelines_may_set(&["tasks", "threads", "queued", "poll"])?;
        Ok(BridgeOptions {
            cluster,
            client: client.iter().filter_map(|key| Some((*key, options.text(key)?))).collect(),
            env: options.pairs("env")?.into_iter().collect(),
            threads: options.at_once("threads")?.unwrap_or(1),
            tasks: options.count("tasks")?.unwrap_or(1),
            queued: options.count("queued")?,
            memory: options.size("mem")?,
            poll: options.seconds("poll")?.unwrap_or(Duration::from_millis(200)),
            python: options.text("python").map(PathBuf::from),
        })
    }
}

impl Factory for BridgeOptions {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Executor>, RunError> {
        let at = &opening.context.run_dir;
        if !at.is_remote() && self.client.get("address").is_some_and(|a| !is_here(a)) {
            tracing::warn!("the work directory '{at}' is a folder, which all workers must reach under the same path");
        }
        opening.through(Bridge::start(self.clone(), opening.host)?)
    }
}

/// True if an address is one of this machine.
fn is_here(address: &str) -> bool {
    ["127.0.0.1", "localhost", "[::1]", "auto", "local"].iter().any(|here| address.contains(here))
}

#[derive(Serialize)]
#[serde(tag = "do", rename_all = "lowercase")]
enum Request<'a> {
    Begin {
        cluster: &'a str,
        version: &'a str,
        threads: usize,
        options: &'a BTreeMap<&'static str, String>,
        env: &'a BTreeMap<String, String>,
    },
    Submit {
        parts: Vec<PartRequest>,
        memory: u64,
    },
    Look,
    Cancel {
        parts: &'a [&'a str],
    },
}

#[derive(Serialize)]
struct PartRequest {
    name: String,
    arguments: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Answered {
    #[serde(default)]
    slots: Option<usize>,
    #[serde(default)]
    ended: Vec<Ended>,
    #[serde(default)]
    warnings: Vec<String>,
    #[serde(default)]
    error: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Ended {
    part: String,
    /// The exit code of the worker, or the negative number of the signal that ended it.
    #[serde(default)]
    code: Option<i32>,
    #[serde(default)]
    memory: bool,
    #[serde(default)]
    lost: Option<String>,
}

impl Ended {
    fn state(&self) -> State {
        match (self.code, &self.lost) {
            _ if self.memory => State::OutOfMemory,
            (Some(signal), _) if signal < 0 => State::Lost(format!("signal {} ended it", -signal)),
            (Some(code), _) => State::Exited(code),
            (None, Some(why)) => State::Lost(why.clone()),
            (None, None) => State::Lost("it is gone".into()),
        }
    }
}

/// The last lines that a program has written to standard error.
type Log = Arc<Mutex<VecDeque<String>>>;

/// The engine of the executors `dask` and `ray`.
pub(crate) struct Bridge {
    options: BridgeOptions,
    child: Child,
    to: Option<ChildStdin>,
    from: Receiver<String>,
    log: Log,
    /// Reads what the program says, until its end.
    listener: Option<JoinHandle<()>>,
    /// Tasks that the cluster runs at once.
    slots: usize,
    /// Differs between drivers, also of one run.
    prefix: String,
    jobs: u64,
    warnings: Vec<String>,
}

/// The interpreter beside the program of workers, or else that on the path: the package has both.
fn interpreter(host: &Host) -> PathBuf {
    let beside = host.program.as_ref().and_then(|p| Some(p.canonicalize().ok()?.parent()?.join("python3")));
    beside.filter(|p| p.exists()).unwrap_or_else(|| PathBuf::from("python3"))
}

/// Reads lines on a thread, until the program ends.
fn lines(from: impl Read + Send + 'static, mut each: impl FnMut(String) + Send + 'static) -> JoinHandle<()> {
    std::thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).for_each(&mut each))
}

impl Bridge {
    fn start(options: BridgeOptions, host: &Host) -> Result<Bridge, RunError> {
        let python = options.python.clone().unwrap_or_else(|| interpreter(host));
        let mut command = Command::new(&python);
        command.args(["-m", "chunkwise._clusters"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Ctrl-C is for the driver, which then ends the workers in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|e| {
            RunError::Executor(format!(
                "'{}' cannot be started: {e}; executor '{}' needs Python with the package chunkwise: --executor-option python=PATH",
                python.display(),
                options.cluster
            ))
        })?;
        let log = Log::default();
        let listener = child.stderr.take().map(|errors| {
            let log = log.clone();
            lines(errors, move |line| {
                tracing::debug!("{line}");
                let Ok(mut kept) = log.lock() else { return };
                kept.push_back(line);
                if kept.len() > LINES {
                    kept.pop_front();
                }
            })
        });
        let (send, from) = channel();
        if let Some(answers) = child.stdout.take() {
            lines(answers, move |line| {
                let _ = send.send(line);
            });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let prefix = format!("b{}x{:x}", std::process::id(), now.as_millis());
        let to = child.stdin.take();
        let mut bridge = Bridge { options, child, to, from, log, listener, slots: 1, prefix, jobs: 0, warnings: Vec::new() };
        let BridgeOptions { cluster, client, env, threads, .. } = bridge.options.clone();
        bridge.ask(&Request::Begin { cluster, version: crate::worker::VERSION, threads, options: &client, env: &env })?;
        Ok(bridge)
    }

    /// What is said of a bridge that does not answer.
    fn gone(&self, what: &str) -> RunError {
        let log: Vec<String> = self.log.lock().map(|log| log.iter().cloned().collect()).unwrap_or_default();
        let cluster = self.options.cluster;
        let missing = |package: &str| log.iter().any(|line| line.contains(&format!("No module named '{package}")));
        if missing("chunkwise") {
            return RunError::Executor(format!(
                "executor '{cluster}': its Python has no package chunkwise; install it there, or name another Python: --executor-option python=PATH"
            ));
        }
        let said = if log.is_empty() { String::new() } else { format!("; it said: {}", log.join("\n")) };
        RunError::Executor(format!("executor '{cluster}': the client of the cluster {what}{said}"))
    }

    /// Waits for the last words of a program that has ended: another thread reads them, and they say why. A child of the program can hold its pipe open, so the
    /// wait has an end.
    fn hear_out(&self) {
        let since = Instant::now();
        while self.listener.as_ref().is_some_and(|l| !l.is_finished()) && since.elapsed() < LAST_WORDS {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn ask(&mut self, request: &Request<'_>) -> Result<Answered, RunError> {
        let mut line = serde_json::to_vec(request).map_err(|e| RunError::Executor(e.to_string()))?;
        line.push(b'\n');
        let sent = self.to.as_mut().is_some_and(|to| to.write_all(&line).and_then(|()| to.flush()).is_ok());
        let heard = match sent {
            true => self.from.recv_timeout(PATIENCE),
            false => Err(RecvTimeoutError::Disconnected),
        };
        let line = match heard {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => return Err(self.gone(&format!("has not answered for {} s", PATIENCE.as_secs()))),
            Err(RecvTimeoutError::Disconnected) => {
                self.hear_out();
                return Err(self.gone("has ended"));
            }
        };
        let answer: Answered = serde_json::from_str(&line).map_err(|e| self.gone(&format!("answered '{line}': {e}")))?;
        if let Some(error) = answer.error {
            return Err(RunError::Executor(format!("executor '{}': {error}", self.options.cluster)));
        }
        self.slots = answer.slots.unwrap_or(self.slots).max(1);
        self.warnings.extend(answer.warnings.iter().cloned());
        Ok(answer)
    }
}

impl Engine for Bridge {
    fn name(&self) -> &str {
        self.options.cluster
    }

    /// Twice what runs, so that no worker waits for the driver.
    fn capacity(&self) -> usize {
        self.options.queued.unwrap_or_else(|| self.slots.saturating_mul(2).saturating_mul(self.options.tasks))
    }

    fn widest(&self) -> usize {
        self.capacity()
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

    fn submit(&mut self, job: &Job<'_>) -> Result<String, RunError> {
        self.jobs += 1;
        let handle = format!("{}x{}", self.prefix, self.jobs);
        let part = |k: usize| {
            let name = format!("{handle}_{k}");
            let mut arguments = job.part(k, &name, self.options.threads);
            arguments.push("--tied".into());
            PartRequest { name, arguments }
        };
        let parts = (0..job.parts.len()).map(part).collect();
        self.ask(&Request::Submit { parts, memory: self.memory(job) })?;
        Ok(handle)
    }

    fn states(&mut self, _jobs: &Open) -> Result<Vec<(String, State)>, RunError> {
        let answer = self.ask(&Request::Look)?;
        Ok(answer.ended.into_iter().map(|e| (e.part.clone(), e.state())).collect())
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }

    fn cancel(&mut self, part: &str) {
        // If it has ended, the next look says so.
        let _ = self.ask(&Request::Cancel { parts: &[part] });
    }

    fn cancel_all(&mut self, jobs: &Open) {
        let names: Vec<String> = jobs.iter().flat_map(|(handle, parts)| parts.iter().map(move |k| format!("{handle}_{k}"))).collect();
        let _ = self.ask(&Request::Cancel { parts: &names.iter().map(String::as_str).collect::<Vec<_>>() });
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.to.take();
        let since = Instant::now();
        while since.elapsed() < FAREWELL {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// A bridge whose interpreter is a shell script.
    fn start(script: &str) -> Result<Bridge, String> {
        let folder = tempfile::tempdir().unwrap();
        let python = folder.path().join("python3");
        // Another process writes it: a test that starts a program meanwhile would keep it open for writing, and it could not be run.
        let write = ["-c", "printf '#!/bin/sh\\n%s\\n' \"$1\" > \"$0\" && chmod +x \"$0\""];
        assert!(Command::new("sh").args(write).arg(&python).arg(script).status().unwrap().success());
        let given = [("python".to_string(), python.display().to_string()), ("address".into(), "tcp://127.0.0.1:1".into())].into();
        let options = BridgeOptions::dask(&mut Options::new("dask", &given, &BTreeMap::new())).unwrap();
        Bridge::start(options, &Host::default()).map_err(|e| e.to_string())
    }

    #[test]
    fn what_ends_a_part() {
        let state = |text: &str| serde_json::from_str::<Ended>(text).unwrap().state();
        assert_eq!(state(r#"{"part": "x", "code": 11}"#), State::Exited(11));
        assert_eq!(state(r#"{"part": "x", "code": -9}"#), State::Lost("signal 9 ended it".into()));
        assert_eq!(state(r#"{"part": "x", "memory": true}"#), State::OutOfMemory);
        assert_eq!(state(r#"{"part": "x", "lost": "the node is gone"}"#), State::Lost("the node is gone".into()));
    }

    #[test]
    fn answers_are_heard() {
        let script = r#"read a; echo '{"slots": 3}'; read a; echo '{"ended": [{"part": "p_0", "code": 0}], "warnings": ["slow"]}'; read a"#;
        let mut bridge = start(script).unwrap();
        assert_eq!(bridge.capacity(), 6);
        assert_eq!(bridge.states(&Open::new()).unwrap(), [("p_0".to_string(), State::Exited(0))]);
        assert_eq!(bridge.warnings(), ["slow"]);
        assert_eq!(bridge.warnings(), Vec::<String>::new());
    }

    #[test]
    fn a_client_that_fails_says_why() {
        let said = |script: &str| start(script).map(|_| ()).unwrap_err();
        assert_eq!(said(r#"read a; echo '{"error": "no scheduler at tcp://x"}'"#), "executor 'dask': no scheduler at tcp://x");
        let gone = said("echo 'ImportError: libfoo' >&2; exit 1");
        assert!(gone.contains("has ended") && gone.contains("libfoo"), "{gone}");
        let none = said("echo \"ModuleNotFoundError: No module named 'chunkwise'\" >&2; exit 1");
        assert!(none.contains("python=PATH"), "{none}");
        let odd = said("read a; echo hello; read a");
        assert!(odd.contains("answered 'hello'"), "{odd}");
    }
}
