//! Engines that tell little about their jobs. Storage decides what is done: the reports that workers have left there, and the chunks that
//! these name. The engine's state of a job only explains tasks that have no report.

#[cfg(feature = "aws-batch")]
mod aws_batch;
mod bridge;
mod command;
mod engine;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod silence;
mod slurm;
#[cfg(test)]
mod tests;

#[cfg(feature = "aws-batch")]
pub(crate) use aws_batch::AwsBatchOptions;
pub(crate) use bridge::BridgeOptions;
pub(crate) use command::CommandOptions;
pub use engine::{Engine, Job, Open, State};
pub(crate) use engine::{permissions, quoted};
#[cfg(feature = "kubernetes")]
pub(crate) use kubernetes::KubernetesOptions;
pub(crate) use slurm::SlurmOptions;

use super::reports::Inbox;
use super::{Assignment, Executor, Update};
use crate::RunError;
use crate::worker::{Answer, Exit, ranges_text, skew};
use chunkwise_plan::{TaskReport, WrittenChunk};
use chunkwise_storage::{Store, at_once};
use chunkwise_task::{ErrorClass, TaskContext, TaskError};
use chunkwise_types::ByteSize;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a cancelled job may take to end.
const PATIENCE: Duration = Duration::from_secs(30);
fn job_name(id: &str) -> String {
    format!("chunkwise-{id}")
}

/// Cuts the attempts of a job into parts of nearly the same length, at most `each`, in the same way as a worker does.
fn cut(mut job: Vec<Assignment>, each: usize) -> Vec<Vec<Assignment>> {
    let (total, n) = (job.len(), job.len().div_ceil(each));
    let mut parts: Vec<Vec<Assignment>> = (0..n).rev().map(|i| job.split_off((total as u128 * i as u128 / n as u128) as usize)).collect();
    parts.reverse();
    parts
}

/// A part of a job that has not ended.
struct Part {
    handle: String,
    /// Its number in the job.
    index: usize,
    /// Bytes that its worker may use.
    memory: u64,
    /// Attempts that have not ended.
    open: Vec<Assignment>,
    /// Whether we have cancelled it.
    cancelled: bool,
}

/// Runs tasks through an engine.
pub struct BatchExecutor<E: Engine> {
    ctx: Arc<TaskContext>,
    engine: E,
    store: Store,
    id: String,
    /// Attempts that are waiting to be submitted together.
    pending: Vec<Assignment>,
    since: Instant,
    parts: BTreeMap<String, Part>,
    /// Attempts that have not ended, submitted or not.
    open: usize,
    inbox: Inbox,
    /// Attempts that were stopped before they were submitted.
    unsent: Vec<u64>,
    asked: Instant,
    cancelled: Option<Instant>,
    python: Option<PathBuf>,
}

impl<E: Engine> BatchExecutor<E> {
    /// Workers may run functions of Python that are stored beside the plan, with this interpreter.
    pub fn with_python(mut self, python: Option<PathBuf>) -> BatchExecutor<E> {
        self.python = python;
        self
    }

    /// An executor for a plan.
    ///
    /// # Errors
    /// When the folder of the run cannot be opened.
    pub fn new(ctx: Arc<TaskContext>, engine: E) -> Result<BatchExecutor<E>, RunError> {
        let (store, id) = (ctx.stores().open(&ctx.run_dir)?, ctx.plan.id());
        let now = Instant::now();
        Ok(BatchExecutor {
            ctx,
            engine,
            store,
            id,
            pending: Vec::new(),
            since: now,
            parts: BTreeMap::new(),
            open: 0,
            inbox: Inbox::default(),
            unsent: Vec::new(),
            asked: now,
            cancelled: None,
            python: None,
        })
    }

    /// Submits the collected attempts: one job for each stage, and one for each attempt that has to run alone.
    fn launch(&mut self) -> Result<(), RunError> {
        let mut groups: BTreeMap<(usize, bool), Vec<Assignment>> = BTreeMap::new();
        for a in self.pending.drain(..) {
            groups.entry((a.stage, a.alone)).or_default().push(a);
        }
        for ((stage, alone), mut work) in groups {
            work.sort_by_key(|a| a.task);
            let most = self.engine.widest();
            let each = if alone { 1 } else { self.engine.tasks_per_part().max(1) };
            while !work.is_empty() {
                let mut n = most.saturating_mul(each).min(work.len());
                // The list of tasks may be too long for a part.
                let text = |n: usize| ranges_text(&work[..n].iter().map(|a| a.task).collect::<Vec<_>>()).len();
                while n > 1 && text(n) > self.engine.longest() {
                    n = n.div_ceil(2);
                }
                let rest = work.split_off(n);
                let job = std::mem::replace(&mut work, rest);
                self.start(stage, cut(job, each), alone)?;
            }
        }
        Ok(())
    }

    fn start(&mut self, stage: usize, parts: Vec<Vec<Assignment>>, alone: bool) -> Result<(), RunError> {
        let spec = &self.ctx.plan.spec;
        let job = Job {
            plan: self.ctx.run_dir.join("plan.json").to_string(),
            hash: &self.id,
            stage,
            parts: parts.iter().map(|p| p.iter().map(|a| a.task).collect()).collect(),
            allowed_mem: spec.allowed_mem,
            reserved_mem: spec.reserved_mem,
            need: parts.iter().flatten().map(|a| a.need).max().unwrap_or(0),
            alone,
            name: job_name(&self.id),
            allow: self.ctx.stores().allowed(),
            python: self.python.clone(),
        };
        let memory = self.engine.memory(&job);
        let handle = self.engine.submit(&job)?;
        for (index, open) in parts.into_iter().enumerate() {
            self.parts.insert(format!("{handle}_{index}"), Part { handle: handle.clone(), index, memory, open, cancelled: false });
        }
        Ok(())
    }

    /// The jobs that have not ended.
    fn jobs(&self) -> Open {
        let mut jobs = Open::new();
        for p in self.parts.values() {
            jobs.entry(p.handle.clone()).or_default().push(p.index);
        }
        jobs
    }

    /// The reports of workers since the last call.
    fn reports(&mut self) -> Result<Vec<(String, Answer)>, RunError> {
        let (mut out, parts) = (Vec::new(), &self.parts);
        let whose = |key: &str| {
            let part = key.rsplit('/').next()?.split('-').next()?;
            parts.contains_key(part).then(|| part.to_string())
        };
        self.inbox.look(&self.store, whose, |part, answer| out.push((part.clone(), answer)))?;
        Ok(out)
    }

    /// Asks the engine first, and then reads storage: so reports that a part wrote before it ended are seen.
    fn look(&mut self) -> Result<Vec<Update>, RunError> {
        let jobs = self.jobs();
        let states: HashMap<String, State> =
            if jobs.is_empty() { HashMap::new() } else { self.engine.states(&jobs)?.into_iter().collect() };
        let reports = self.reports()?;
        let done: Vec<&TaskReport> =
            reports.iter().filter_map(|(_, a)| if let Answer::Done { report, .. } = a { Some(report) } else { None }).collect();
        let mut stored = stored(&self.ctx, &done).into_iter();
        let mut out: Vec<Update> = self.engine.warnings().into_iter().map(Update::Warning).collect();
        for (name, answer) in reports {
            let Some(part) = self.parts.get_mut(&name) else { continue };
            let (stage, task, result) = match answer {
                Answer::Hello { version, format, plan } => match skew(&version, &format, &plan, &self.id) {
                    Some(problem) => return Err(RunError::Executor(problem)),
                    None => continue,
                },
                Answer::Started { stage, task, .. } => {
                    out.extend(
                        part.open.iter().filter(|a| (a.stage, a.task) == (stage, task)).map(|a| Update::Started { attempt: a.attempt }),
                    );
                    continue;
                }
                // A resumed run reads these from the reports anyway.
                Answer::Wrote(_) | Answer::Did { .. } => continue,
                Answer::Done { report, .. } => {
                    let there = stored.next().unwrap_or(Ok(()));
                    (report.stage, report.task, there.map(|()| report))
                }
                Answer::Failed { stage, task, class, detail, .. } => (stage, task, Err(TaskError::Reported { class, detail })),
                Answer::Returned { stage, task, .. } => {
                    let detail = "its worker was told to stop, and handed it back".into();
                    let told = part.cancelled || self.cancelled.is_some();
                    (stage, task, Err(if told { TaskError::Cancelled } else { TaskError::Lost { stage, task, detail } }))
                }
            };
            if let Some(i) = part.open.iter().position(|a| (a.stage, a.task) == (stage, task)) {
                let a = part.open.swap_remove(i);
                self.open -= 1;
                out.push(Update::Ended { attempt: a.attempt, result });
            }
        }
        let late = self.cancelled.is_some_and(|t| t.elapsed() > PATIENCE);
        for (name, part) in &mut self.parts {
            let state = states.get(name).cloned().unwrap_or(State::Alive);
            let state = if late { State::Lost("it was cancelled".into()) } else { state };
            if state == State::Alive {
                continue;
            }
            if state == State::Exited(i32::from(Exit::Skew.code())) {
                return Err(RunError::Executor(format!("worker {name} cannot run the plan: {}", Exit::Skew.meaning())));
            }
            let told = part.cancelled || self.cancelled.is_some();
            let memory = part.memory;
            for a in part.open.drain(..) {
                self.open -= 1;
                let result = Err(if told { TaskError::Cancelled } else { unreported(&self.ctx, &a, name, &state, memory) });
                out.push(Update::Ended { attempt: a.attempt, result });
            }
        }
        self.parts.retain(|_, p| !p.open.is_empty());
        Ok(out)
    }
}

/// For each report, checks that every chunk that it names is stored with its size. The chunks of all reports are requested together.
fn stored(ctx: &TaskContext, reports: &[&TaskReport]) -> Vec<Result<(), TaskError>> {
    let check = |r: &TaskReport, w: &WrittenChunk| -> Result<(), TaskError> {
        let missing = |detail: &str| TaskError::Lost {
            stage: r.stage,
            task: r.task,
            detail: format!("its worker reported chunk {:?} of '{}', {detail}", w.chunk, w.array),
        };
        if !ctx.plan.arrays.contains_key(&w.array) {
            return Err(missing("an array that the plan does not have"));
        }
        let io = ctx.array(&w.array);
        let size = io.store().size(&io.chunk_key(&w.chunk));
        match size.map_err(|source| TaskError::Storage { stage: r.stage, task: r.task, source })? {
            Some(n) if n == w.bytes => Ok(()),
            Some(n) => Err(missing(&format!("which has {n} bytes instead of {}", w.bytes))),
            None => Err(missing("which is not there")),
        }
    };
    let chunks: Vec<(usize, &WrittenChunk)> = reports.iter().enumerate().flat_map(|(k, r)| r.written.iter().map(move |w| (k, w))).collect();
    let found = at_once(&chunks, |&(k, w)| {
        let panicked =
            |_| Err(TaskError::Bug { stage: reports[k].stage, task: reports[k].task, detail: "its chunks cannot be looked at".into() });
        catch_unwind(AssertUnwindSafe(|| check(reports[k], w))).unwrap_or_else(panicked)
    });
    let mut out: Vec<Result<(), TaskError>> = reports.iter().map(|_| Ok(())).collect();
    for ((k, _), result) in chunks.into_iter().zip(found) {
        if out[k].is_ok() {
            out[k] = result;
        }
    }
    out
}

/// The error of a task whose worker has ended without a report of it.
fn unreported(ctx: &TaskContext, a: &Assignment, name: &str, state: &State, memory: u64) -> TaskError {
    let (stage, task) = (a.stage, a.task);
    let lost = |detail: String| TaskError::Lost { stage, task, detail };
    match state {
        State::Exited(0) => lost(format!("worker {name} ended without an error, but storage holds no report of the task")),
        State::Exited(code) => {
            let meaning = Exit::of_code(*code).map(|e| format!(" ({})", e.meaning())).unwrap_or_default();
            lost(format!("worker {name} ended with code {code}{meaning} and without a report of the task"))
        }
        State::OutOfMemory => {
            let spec = &ctx.plan.spec;
            let detail = format!("worker {name} was killed for using too much memory");
            let (projected, reserved, limit) = (ByteSize(a.need), ByteSize(spec.reserved_mem), ByteSize(memory));
            TaskError::OutOfMemory { stage, task, detail, projected, reserved, limit }
        }
        State::TimedOut => TaskError::Reported {
            class: ErrorClass::Transient,
            detail: format!("stage {stage}, task {task}: worker {name} was ended at the time limit of its job"),
        },
        State::Lost(why) => lost(format!("worker {name} is gone: {why}")),
        State::Alive => lost(format!("worker {name} is not known any more")),
    }
}

impl<E: Engine> Executor for BatchExecutor<E> {
    fn name(&self) -> &str {
        self.engine.name()
    }

    fn room(&self) -> usize {
        if self.cancelled.is_some() { 0 } else { self.engine.capacity().saturating_sub(self.open) }
    }

    fn queues(&self) -> bool {
        true
    }

    fn submit(&mut self, work: Vec<Assignment>) -> Result<(), RunError> {
        if self.pending.is_empty() {
            self.since = Instant::now();
        }
        if self.open == 0 && self.inbox.is_new() {
            // A resumed run has read them already.
            self.inbox.skip(&self.store)?;
            self.engine.clear(&job_name(&self.id));
        }
        self.open += work.len();
        self.pending.extend(work);
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Vec<Update>, RunError> {
        let every = self.engine.every();
        // Tasks become ready one by one, but jobs should hold many.
        if !self.pending.is_empty() && self.cancelled.is_none() && (self.parts.is_empty() || self.since.elapsed() >= every) {
            self.launch()?;
        }
        let mut out = Vec::new();
        if self.cancelled.is_some() {
            self.unsent.extend(self.pending.drain(..).map(|a| a.attempt));
        }
        self.open -= self.unsent.len();
        out.extend(self.unsent.drain(..).map(|attempt| Update::Ended { attempt, result: Err(TaskError::Cancelled) }));
        let next = every.saturating_sub(self.asked.elapsed());
        if next > timeout {
            std::thread::sleep(timeout);
            return Ok(out);
        }
        std::thread::sleep(next);
        self.asked = Instant::now();
        out.extend(self.look()?);
        Ok(out)
    }

    fn stop(&mut self, attempt: u64, hangs: bool) {
        if let Some(i) = self.pending.iter().position(|a| a.attempt == attempt) {
            self.pending.remove(i);
            self.unsent.push(attempt);
            return;
        }
        let found = self.parts.iter_mut().find(|(_, p)| p.open.iter().any(|a| a.attempt == attempt));
        let Some((name, part)) = found else { return };
        // The other tasks of that part would have to be run again.
        if (hangs || part.open.len() == 1) && !part.cancelled {
            part.cancelled = true;
            self.engine.cancel(name);
        }
    }

    fn cancel(&mut self) {
        if self.cancelled.is_none() {
            self.cancelled = Some(Instant::now());
            let jobs = self.jobs();
            self.parts.values_mut().for_each(|p| p.cancelled = true);
            self.engine.cancel_all(&jobs);
        }
    }
}

impl<E: Engine> Drop for BatchExecutor<E> {
    /// No job outlives its run.
    fn drop(&mut self) {
        self.parts.retain(|_, p| !p.cancelled);
        let jobs = self.jobs();
        if !jobs.is_empty() {
            self.engine.cancel_all(&jobs);
        }
    }
}
