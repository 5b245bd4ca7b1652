//! One worker process.

use super::cgroup::MemoryGroup;
use crate::executors::Assignment;
use crate::worker::{Answer, Exit, Order};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Messages from the threads that listen to workers.
pub(super) enum Heard {
    /// A worker has answered.
    Answer(u64, Box<Answer>),
    /// A worker has written something that is not an answer. It is not trusted any more.
    Nonsense(u64, String),
    /// A worker has closed its output: it has ended, or is about to.
    End(u64),
}

/// How much of a worker's standard error is kept.
const TAIL: usize = 4096;

/// A worker and its running tasks.
pub(super) struct Worker {
    pub running: BTreeMap<u64, Assignment>,
    /// It takes no second task beside this one.
    pub alone: bool,
    pub greeted: bool,
    /// The deadline for its last order.
    pub until: Option<Instant>,
    /// Why we killed it.
    pub killed: Option<String>,
    child: Child,
    input: Option<ChildStdin>,
    group: Option<MemoryGroup>,
    /// The largest memory that the driver has seen, if no group holds the worker.
    seen: Memory,
    /// The driver has killed it for its memory.
    over: bool,
    errors: Arc<Mutex<Vec<u8>>>,
}

/// Memory of a process in bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Memory {
    /// Its own pages, without mapped files.
    own: u64,
    /// Its peak memory, with mapped files.
    peak: u64,
}

impl Memory {
    /// As Linux reports it; `None` on other systems, or if the process has ended.
    fn of(pid: u32) -> Option<Memory> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let bytes = |key: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(key))?;
            line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kb| kb * 1024)
        };
        Some(Memory { own: bytes("RssAnon:")? + bytes("RssShmem:")?, peak: bytes("VmHWM:")? })
    }
}

/// How a worker ended.
pub(super) struct End {
    /// A sentence for a message.
    pub detail: String,
    /// The kernel, or the driver, killed it for memory.
    pub out_of_memory: bool,
    /// The exit code, if it is one of a worker.
    pub exit: Option<Exit>,
}

impl Worker {
    pub fn start(id: u64, mut command: Command, group: Option<MemoryGroup>, heard: &Sender<Heard>) -> std::io::Result<Worker> {
        // The worker gets a process group of its own. So Ctrl-C reaches only the driver, which then tells its workers, and the whole group
        // can be killed at once.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(Err(e)) = group.as_ref().map(|g| g.add(child.id())) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(e);
        }
        let (input, output, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let errors = Arc::new(Mutex::new(Vec::new()));
        if let Some(output) = output {
            let heard = heard.clone();
            std::thread::spawn(move || {
                for line in BufReader::new(output).lines() {
                    let Ok(line) = line else { break };
                    let said = match serde_json::from_str(&line) {
                        Ok(answer) => Heard::Answer(id, Box::new(answer)),
                        Err(_) => Heard::Nonsense(id, line.chars().take(200).collect()),
                    };
                    if heard.send(said).is_err() {
                        break;
                    }
                }
                let _ = heard.send(Heard::End(id));
            });
        }
        if let Some(mut stderr) = stderr {
            let tail = errors.clone();
            std::thread::spawn(move || {
                let mut buffer = [0u8; 1024];
                while let Ok(n @ 1..) = stderr.read(&mut buffer) {
                    if let Ok(mut tail) = tail.lock() {
                        tail.extend_from_slice(&buffer[..n]);
                        let cut = tail.len().saturating_sub(TAIL);
                        tail.drain(..cut);
                    }
                }
            });
        }
        Ok(Worker {
            running: BTreeMap::new(),
            alone: false,
            greeted: false,
            until: None,
            killed: None,
            child,
            input,
            group,
            seen: Memory::default(),
            over: false,
            errors,
        })
    }

    /// Sends an order. A failure is not an error, because the end of the worker will be noticed.
    pub fn order(&mut self, order: &Order) {
        if let (Some(input), Ok(mut line)) = (&mut self.input, serde_json::to_vec(order)) {
            line.push(b'\n');
            let _ = input.write_all(&line).and_then(|()| input.flush());
        }
    }

    /// Asks it to end: to hand back its tasks or, if it has none, to exit.
    pub fn terminate(&mut self, patience: Duration) {
        self.signal(Signal::TERM);
        self.until.get_or_insert(Instant::now() + patience);
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(pid, signal);
        }
    }

    /// Kills it and all processes that it has started.
    pub fn kill(&mut self, why: &str) {
        self.killed.get_or_insert_with(|| why.into());
        self.signal(Signal::KILL);
    }

    /// Checks the memory of a worker that no group holds, and kills the worker if it uses more than it may.
    pub fn watch(&mut self, limit: u64) {
        self.seen = Memory::of(self.child.id()).unwrap_or(self.seen);
        if self.seen.own > limit && self.killed.is_none() {
            self.over = true;
            self.kill("it used too much memory");
        }
    }

    /// True if the system holds it to its memory.
    pub fn has_group(&self) -> bool {
        self.group.is_some()
    }

    pub fn peak(&self) -> u64 {
        self.group.as_ref().and_then(MemoryGroup::peak).unwrap_or(self.seen.peak)
    }

    /// Waits for its end, which is near, and says how it ended.
    pub fn end(mut self) -> End {
        self.input = None;
        let status = self.wait(Duration::from_secs(5));
        let out_of_memory = self.over || (self.killed.is_none() && self.group.as_ref().is_some_and(|g| g.kills() > 0));
        // The thread that reads its last output may be a moment late.
        std::thread::sleep(Duration::from_millis(5));
        let words = self.errors.lock().map(|e| String::from_utf8_lossy(&e).trim().to_string()).unwrap_or_default();
        let exit = status.and_then(|s| s.code()).and_then(Exit::of_code);
        let mut detail = match (&self.killed, status) {
            (Some(why), _) => format!("its worker was killed: {why}"),
            (_, _) if out_of_memory => "its worker was killed by the system for using too much memory".into(),
            (_, Some(s)) => format!("its worker ended {}", describe(s, exit)),
            (_, None) => "its worker closed its output and was killed".into(),
        };
        if !words.is_empty() && self.killed.is_none() {
            detail = format!("{detail}, saying: {words}");
        }
        End { detail, out_of_memory, exit }
    }

    fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Err(_) => return None,
                Ok(None) if Instant::now() >= deadline => {
                    self.signal(Signal::KILL);
                    let _ = self.child.wait();
                    return None;
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}

fn describe(status: ExitStatus, exit: Option<Exit>) -> String {
    match (status.signal(), status.code(), exit) {
        (Some(9), _, _) => "by signal 9 (somebody killed it)".into(),
        (Some(n), _, _) => format!("by signal {n}"),
        (_, Some(code), Some(known)) => format!("with code {code} ({})", known.meaning()),
        (_, Some(code), None) => format!("with code {code}"),
        _ => "without a code".into(),
    }
}

impl Drop for Worker {
    /// No process is left behind. A worker ends by itself when its pipe is closed, and is killed if it does not.
    fn drop(&mut self) {
        self.input = None;
        self.wait(Duration::from_secs(if self.running.is_empty() { 2 } else { 0 }));
    }
}
