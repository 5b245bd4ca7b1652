//! Worker processes on this machine. The operating system holds each to its memory, or else the driver watches it.
//!
//! If a worker crashes or is killed, only its running tasks are lost. Tasks exchange all data through storage.

mod cgroup;
mod child;

use super::batch::permissions;
use super::{Assignment, Executor, Factory, Host, Opening, OptionError, Options, UnderWay, Update};
use crate::RunError;
use crate::worker::{Answer, Exit, Order, skew};
use cgroup::MemoryGroup;
use child::{Heard, Worker};
use chunkwise_task::{TaskContext, TaskError};
use chunkwise_types::ByteSize;
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

/// How long workers may take to hand back their tasks when a run is cancelled.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often the driver checks the memory of workers.
const LOOK: Duration = Duration::from_millis(20);
/// How many workers in a row may die before they have sent their greeting.
const FALSE_STARTS: u32 = 3;

/// How workers are held to their memory.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
enum Limit {
    /// By a cgroup, or else by the driver, with a warning.
    #[default]
    Auto,
    /// By a cgroup. Without one, there is no run.
    Cgroup,
    /// By the driver.
    Watch,
    /// By the projection alone.
    None,
}

/// Options of the executor `processes`.
#[derive(Debug, Clone, Default)]
pub struct ProcessOptions {
    processes: Option<usize>,
    threads: usize,
    limit: Limit,
    memory: Option<u64>,
    program: Option<PathBuf>,
}

impl ProcessOptions {
    pub(crate) fn read(options: &mut Options<'_>) -> Result<ProcessOptions, OptionError> {
        let limits = [("auto", Limit::Auto), ("cgroup", Limit::Cgroup), ("watch", Limit::Watch), ("none", Limit::None)];
        options.pipelines_may_set(&["processes", "threads"])?;
        Ok(ProcessOptions {
            processes: options.at_once("processes")?,
            threads: options.at_once("threads")?.unwrap_or(1),
            limit: options.one_of("memory_limit", &limits)?.unwrap_or_default(),
            memory: options.size("mem")?,
            program: options.text("program").map(PathBuf::from),
        })
    }
}

impl Factory for ProcessOptions {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Executor>, RunError> {
        Ok(Box::new(ProcessExecutor::new(opening.context.clone(), self.clone(), opening.workers, opening.host)?))
    }
}

/// A pool of worker processes that live as long as the run.
pub struct ProcessExecutor {
    ctx: Arc<TaskContext>,
    options: ProcessOptions,
    program: PathBuf,
    python: Option<PathBuf>,
    most: usize,
    workers: BTreeMap<u64, Worker>,
    next: u64,
    send: Sender<Heard>,
    heard: Receiver<Heard>,
    id: String,
    false_starts: u32,
    cancelled: bool,
    warned: bool,
    looked: Instant,
    peak: u64,
    said: VecDeque<Update>,
    /// The progress of each attempt.
    did: BTreeMap<u64, f64>,
}

impl ProcessExecutor {
    /// `workers` processes, unless the options give a number.
    pub fn new(ctx: Arc<TaskContext>, options: ProcessOptions, workers: Option<usize>, host: &Host) -> Result<ProcessExecutor, RunError> {
        let processors = || std::thread::available_parallelism().map_or(1, |n| n.get());
        let most = options.processes.unwrap_or_else(|| workers.unwrap_or_else(processors).div_ceil(options.threads)).max(1);
        let program = host.worker_program(options.program.as_ref())?;
        let (send, heard) = channel();
        let id = ctx.plan.id();
        Ok(ProcessExecutor {
            ctx,
            options,
            program,
            python: host.python.clone(),
            most,
            workers: BTreeMap::new(),
            next: 0,
            send,
            heard,
            id,
            false_starts: 0,
            cancelled: false,
            warned: false,
            looked: Instant::now(),
            peak: 0,
            said: VecDeque::new(),
            did: BTreeMap::new(),
        })
    }

    /// The limit of a worker in bytes, at which it is killed.
    fn limit(&self) -> u64 {
        self.options.memory.unwrap_or(self.ctx.plan.spec.allowed_mem)
    }

    fn group(&mut self) -> Result<Option<MemoryGroup>, RunError> {
        if matches!(self.options.limit, Limit::Watch | Limit::None) {
            return Ok(None);
        }
        match MemoryGroup::create(self.next, self.limit()) {
            Ok(group) => Ok(Some(group)),
            Err(e) if self.options.limit == Limit::Cgroup => {
                Err(RunError::Executor(format!("memory_limit=cgroup, but no cgroup can be made: {e}")))
            }
            Err(e) => {
                if !std::mem::replace(&mut self.warned, true) {
                    let text = format!(
                        "the driver looks at the memory of its workers now and then, for no cgroup can be made that holds them to it: {e}"
                    );
                    self.said.push_back(Update::Warning(text));
                }
                Ok(None)
            }
        }
    }

    /// Checks the workers that no group holds.
    fn watch(&mut self) {
        if self.options.limit == Limit::None || self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        let limit = self.limit();
        self.workers.values_mut().filter(|w| !w.has_group()).for_each(|w| w.watch(limit));
    }

    fn start(&mut self) -> Result<u64, RunError> {
        let group = self.group()?;
        let id = self.next;
        self.next += 1;
        let mut command = Command::new(&self.program);
        command.arg("worker").arg("--stdin").args(["--plan", &self.ctx.run_dir.join("plan.json").to_string(), "--hash", &self.id]);
        command
            .args(["--threads", &self.options.threads.to_string()])
            .args(permissions(self.ctx.stores().allowed(), self.python.as_deref()));
        let worker = Worker::start(id, command, group, &self.send)
            .map_err(|e| RunError::Executor(format!("a worker cannot be started as '{} worker': {e}", self.program.display())))?;
        self.workers.insert(id, worker);
        Ok(id)
    }

    /// A worker for an attempt: an idle one, a new one, or one with a free thread.
    fn place(&mut self, alone: bool) -> Result<u64, RunError> {
        let open = |w: &Worker| w.killed.is_none() && w.until.is_none();
        if let Some((&id, _)) = self.workers.iter().find(|(_, w)| open(w) && w.running.is_empty()) {
            return Ok(id);
        }
        if self.workers.len() < self.most {
            return self.start();
        }
        let threads = self.options.threads;
        let least = self.workers.iter().filter(|(_, w)| open(w) && !w.alone && w.running.len() < threads && !alone);
        match least.min_by_key(|(_, w)| w.running.len()).map(|(&id, _)| id) {
            Some(id) => Ok(id),
            // If there is no room for an attempt, or it needs a worker of its own, it gets another process.
            None => self.start(),
        }
    }

    fn hear(&mut self, heard: Heard) -> Result<(), RunError> {
        match heard {
            Heard::Answer(id, answer) => self.answer(id, *answer)?,
            Heard::Nonsense(id, line) => {
                if let Some(w) = self.workers.get_mut(&id) {
                    w.kill(&format!("it said what no worker says: {line}"));
                }
            }
            Heard::End(id) => self.ended(id)?,
        }
        Ok(())
    }

    fn answer(&mut self, id: u64, answer: Answer) -> Result<(), RunError> {
        let Some(w) = self.workers.get_mut(&id) else { return Ok(()) };
        match answer {
            Answer::Hello { version, format, plan } => {
                if let Some(problem) = skew(&version, &format, &plan, &self.id) {
                    return Err(RunError::Executor(format!("{problem} ('{}')", self.program.display())));
                }
                (w.greeted, self.false_starts) = (true, 0);
            }
            Answer::Started { attempt, .. } => self.said.push_back(Update::Started { attempt }),
            Answer::Did { attempt, share } => {
                self.did.insert(attempt, share);
            }
            Answer::Wrote(chunk) => self.said.push_back(Update::Wrote(chunk)),
            other => {
                let Some((attempt, result)) = other.ended() else { return Ok(()) };
                if w.running.remove(&attempt).is_some() {
                    w.alone &= !w.running.is_empty();
                    self.said.push_back(Update::Ended { attempt, result });
                }
            }
        }
        Ok(())
    }

    fn ended(&mut self, id: u64) -> Result<(), RunError> {
        let Some(mut w) = self.workers.remove(&id) else { return Ok(()) };
        self.peak = self.peak.max(w.peak());
        let (running, greeted, by_us) = (std::mem::take(&mut w.running), w.greeted, w.killed.is_some());
        let end = w.end();
        let explained = by_us || self.cancelled || (end.out_of_memory && !running.is_empty());
        if !greeted && !explained {
            self.false_starts += 1;
            let hopeless = matches!(end.exit, Some(Exit::Skew | Exit::Unusable)) || self.false_starts >= FALSE_STARTS;
            if hopeless {
                return Err(RunError::Executor(format!("workers do not start: {}", end.detail)));
            }
        }
        let (reserved, limit) = (ByteSize(self.ctx.plan.spec.reserved_mem), ByteSize(self.limit()));
        for (attempt, a) in running {
            let (stage, task, detail) = (a.stage, a.task, end.detail.clone());
            let failed = if self.cancelled || end.exit == Some(Exit::Stopped) {
                TaskError::Cancelled
            } else if end.out_of_memory {
                let projected = ByteSize(a.need);
                TaskError::OutOfMemory { stage, task, detail, projected, reserved, limit }
            } else {
                TaskError::Lost { stage, task, detail }
            };
            self.said.push_back(Update::Ended { attempt, result: Err(failed) });
        }
        Ok(())
    }
}

impl Executor for ProcessExecutor {
    fn name(&self) -> &str {
        "processes"
    }

    fn room(&self) -> usize {
        if self.cancelled {
            return 0;
        }
        let taken = |w: &Worker| if w.alone || w.until.is_some() { self.options.threads } else { w.running.len() };
        (self.most * self.options.threads).saturating_sub(self.workers.values().map(taken).sum())
    }

    fn submit(&mut self, work: Vec<Assignment>) -> Result<(), RunError> {
        for a in work {
            let id = self.place(a.alone)?;
            let Some(w) = self.workers.get_mut(&id) else { continue };
            w.alone |= a.alone;
            w.order(&Order::Run { attempt: a.attempt, stage: a.stage, task: a.task, have: a.have.clone() });
            w.running.insert(a.attempt, a);
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Vec<Update>, RunError> {
        if self.said.is_empty()
            && let Ok(first) = self.heard.recv_timeout(timeout.min(LOOK))
        {
            self.hear(first)?;
        }
        while let Ok(more) = self.heard.try_recv() {
            self.hear(more)?;
        }
        self.watch();
        let now = Instant::now();
        for w in self.workers.values_mut().filter(|w| w.until.is_some_and(|t| t < now)) {
            w.kill("it did not stop when it was told to");
        }
        let said: Vec<Update> = self.said.drain(..).collect();
        for update in &said {
            if let Update::Ended { attempt, .. } = update {
                self.did.remove(attempt);
            }
        }
        Ok(said)
    }

    fn stop(&mut self, attempt: u64, hangs: bool) {
        let Some(w) = self.workers.values_mut().find(|w| w.running.contains_key(&attempt)) else { return };
        if !hangs {
            w.order(&Order::Stop { attempt });
            return;
        }
        // The other tasks of that process are handed back, because they did nothing wrong.
        let others: Vec<u64> = w.running.keys().copied().filter(|&a| a != attempt).collect();
        for other in others {
            w.running.remove(&other);
            self.said.push_back(Update::Ended { attempt: other, result: Err(TaskError::Cancelled) });
        }
        w.kill("a task did not end in time");
    }

    fn cancel(&mut self) {
        self.cancelled = true;
        self.workers.values_mut().for_each(|w| w.terminate(PATIENCE));
    }

    fn under_way(&self) -> Vec<UnderWay> {
        let running = self.workers.values().flat_map(|w| &w.running);
        running.filter_map(|(&attempt, a)| Some(UnderWay { attempt, stage: a.stage, share: *self.did.get(&attempt)? })).collect()
    }

    fn peak_memory(&self) -> u64 {
        self.workers.values().map(Worker::peak).fold(self.peak, u64::max)
    }
}
