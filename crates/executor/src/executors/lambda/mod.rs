//! AWS Lambda: tasks as invocations of a function, thousands at once, from one machine.
//!
//! ```text
//! scheduler ── attempts ──▶ pending ── batches by measured duration ──▶ invocations ──▶ answers
//!                              ▲                                            │
//!                              └──────── refused by Lambda (429) ───────────┘
//! ```
//!
//! An answer contains the reports of its tasks, so a driver that waits for answers does not read storage. If there is no answer (the
//! connection was lost, the function was killed), the reports that the invocation has left in storage count. The scheduler tries the other
//! tasks again, by the class of the failure. An invocation cannot be stopped, so an attempt that is not wanted any more is only forgotten.

mod gate;
mod invoke;
mod options;
mod pace;

pub use options::LambdaOptions;

use super::aws::{Aws, sentence};
use super::reports::Inbox;
use super::{Assignment, Executor, Factory, Opening, Update};
use crate::event::Usage;
use crate::function::{CANCELLED, EVENT_FORMAT, Event, RunTasksAnswer, RunTasksEvent, ranges};
use crate::worker::{Answer, REPORTS, VERSION};
use crate::{RunError, detached};
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_sdk_lambda::Client;
use aws_sdk_lambda::error::ProvideErrorMetadata;
use chunkwise_plan::TaskReport;
use chunkwise_task::{ErrorClass, TaskContext, TaskError};
use chunkwise_types::ByteSize;
use gate::Gate;
use invoke::{Caller, End, Outcome};
use pace::Pace;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long functions may take to hand back their tasks when the run is cancelled.
const PATIENCE: Duration = Duration::from_secs(12);
/// The largest number of attempts that are taken before there are invocations for them.
const AHEAD: usize = 100_000;
/// If Lambda is busy, it answers within this time. Until then, no task counts as started.
const ACCEPTED: Duration = Duration::from_millis(150);
/// How often a task may be handed back before it gets an invocation of its own.
const HANDED_BACK: u32 = 2;
/// Pause between two warnings of the same kind.
const WARN: Duration = Duration::from_secs(30);
/// An invocation of several tasks is overdue after this many seconds plus this many times the expected time.
const OVERDUE: (f64, f64) = (5.0, 4.0);
/// No tasks are taken back while more than this fraction of all invocations are overdue: then everything is slower than before.
const OVERDUE_SHARE: f64 = 0.1;
/// Memory and time limit of a function if the driver may not ask for them.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(900);

/// An invocation that has not ended.
struct Flight {
    /// Attempts that have not ended.
    open: Vec<Assignment>,
    stage: usize,
    began: Instant,
    /// The number of tasks that it was given.
    tasks: usize,
}

impl Factory for LambdaOptions {
    fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn Executor>, RunError> {
        Ok(Box::new(LambdaExecutor::new(opening.context.clone(), self.clone())?))
    }
}

/// Runs tasks as invocations.
pub(crate) struct LambdaExecutor {
    ctx: Arc<TaskContext>,
    id: String,
    /// Tells the invocations of this driver from those of others.
    nonce: String,
    trace: String,
    options: LambdaOptions,
    memory: u64,
    timeout: Duration,
    aws: Aws,
    caller: Caller,
    gate: Gate,
    pace: Pace,
    pending: VecDeque<Assignment>,
    /// Refused attempts, and until when they wait.
    refused: Vec<(Instant, Vec<Assignment>)>,
    flights: HashMap<u64, Flight>,
    /// Attempts that have not ended, with their invocation, or 0 if they have none.
    flight_of: HashMap<u64, u64>,
    /// When attempts probably begin.
    begins: BinaryHeap<Reverse<(Instant, u64, u64)>>,
    handed_back: HashMap<(usize, u64), u32>,
    next: u64,
    outcomes: Receiver<(u64, Outcome)>,
    sender: Sender<(u64, Outcome)>,
    out: Vec<Update>,
    usage: Usage,
    peak: u64,
    cancelled: Option<Instant>,
    warned: Option<Instant>,
    inbox: Inbox,
    asked: Instant,
    looked: Instant,
}

/// The number of processors of a function with this memory. This is also the number of tasks at once.
fn processors(memory: u64) -> usize {
    (((memory >> 20) + 884) / 1769).clamp(1, 6) as usize
}

/// Raises the limit of open connections of this process as far as the system allows.
fn raise_open_files() -> u64 {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

impl LambdaExecutor {
    /// Asks Lambda for the memory and the time of the function.
    pub fn new(ctx: Arc<TaskContext>, mut options: LambdaOptions) -> Result<LambdaExecutor, RunError> {
        let fail = |text: String| Err(RunError::Executor(text));
        if !ctx.run_dir.is_remote() && options.aws.endpoint.is_none() && std::env::var_os("AWS_ENDPOINT_URL").is_none() {
            return fail(format!("the work directory '{}' is on this machine, where functions cannot reach it; use a bucket", ctx.run_dir));
        }
        let aws = Aws::connect(&options.aws)?;
        let plain = aws_sdk_lambda::config::Builder::from(aws.config());
        let asking = Client::from_conf(plain.clone().build());
        let found = aws.wait(asking.get_function_configuration().function_name(&options.function).send());
        let (memory, timeout) = match found {
            Ok(f) => (f.memory_size().map(|m| (m as u64) << 20), f.timeout().map(|t| Duration::from_secs(t as u64))),
            // The right to invoke a function does not include the right to read its configuration.
            Err(e) if e.code().is_some_and(|c| c.contains("AccessDenied")) => (None, None),
            Err(e) => return fail(format!("the function '{}' cannot be used: {}", options.function, sentence(&e))),
        };
        let memory = options.memory.or(memory).unwrap_or(ctx.plan.spec.allowed_mem);
        let timeout = options.timeout.or(timeout).unwrap_or(DEFAULT_TIMEOUT);
        for (index, stage) in ctx.plan.stages.iter().enumerate() {
            let need = stage.projected_mem.saturating_add(ctx.plan.spec.reserved_mem);
            if need > memory {
                return fail(format!(
                    "stage {index} ('{}') is projected to need {} with the program itself, and the function '{}' has {}; plan with --allowed-mem \
                     {}, or give the function {} MB",
                    stage.name,
                    ByteSize(need),
                    options.function,
                    ByteSize(memory),
                    ByteSize(memory),
                    need.div_ceil(1 << 20)
                ));
            }
        }
        let files = raise_open_files();
        options.concurrency = options.concurrency.min(files.saturating_sub(200).max(1) as usize);
        let waits =
            TimeoutConfig::builder().connect_timeout(Duration::from_secs(10)).read_timeout(timeout + Duration::from_secs(30)).build();
        let config = plain
            .retry_config(RetryConfig::disabled())
            .timeout_config(waits)
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            .build();
        let client = Client::from_conf(config);
        let store = ctx.stores().open(&ctx.run_dir)?;
        let caller = Caller { client, function: options.function.clone(), asynchronous: options.asynchronous, store };
        let id = ctx.plan.id();
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let threads = processors(memory);
        let (sender, outcomes) = channel();
        Ok(LambdaExecutor {
            nonce: format!("{time:x}"),
            trace: format!("{:032x}", (u128::from(u64::from_str_radix(&id, 16).unwrap_or(1)) << 64) | (time & u128::from(u64::MAX))),
            id,
            memory,
            timeout,
            gate: Gate::new(options.concurrency),
            pace: Pace::new(ctx.plan.stages.len(), options.seconds, options.tasks, threads),
            ctx,
            options,
            usage: Usage { region: aws.region().into(), ..Usage::default() },
            aws,
            caller,
            pending: VecDeque::new(),
            refused: Vec::new(),
            flights: HashMap::new(),
            flight_of: HashMap::new(),
            begins: BinaryHeap::new(),
            handed_back: HashMap::new(),
            next: 0,
            outcomes,
            sender,
            out: Vec::new(),
            peak: 0,
            cancelled: None,
            warned: None,
            inbox: Inbox::default(),
            asked: Instant::now(),
            looked: Instant::now(),
        })
    }

    fn free(&self) -> usize {
        self.gate.limit().saturating_sub(self.flights.len())
    }

    fn end(&mut self, attempt: u64, result: Result<TaskReport, TaskError>) {
        self.flight_of.remove(&attempt);
        self.out.push(Update::Ended { attempt, result });
    }

    /// Sends the collected attempts, as far as there are free invocations.
    fn launch(&mut self) -> Result<(), RunError> {
        let now = Instant::now();
        if self.refused.iter().any(|(when, _)| *when <= now) {
            let (due, rest) = std::mem::take(&mut self.refused).into_iter().partition::<Vec<_>, _>(|(when, _)| *when <= now);
            self.refused = rest;
            for a in due.into_iter().flat_map(|(_, work)| work).rev() {
                self.pending.push_front(a);
            }
        }
        if self.pending.is_empty() || self.free() == 0 {
            return Ok(());
        }
        let mut groups: BTreeMap<(Reverse<usize>, bool), Vec<Assignment>> = BTreeMap::new();
        for a in self.pending.drain(..) {
            let alone = a.alone || self.handed_back.get(&(a.stage, a.task)).is_some_and(|n| *n >= HANDED_BACK);
            groups.entry((Reverse(a.stage), !alone)).or_default().push(a);
        }
        // Later stages come first, in the order of the scheduler. Attempts without an invocation wait.
        let mut left = Vec::new();
        for ((Reverse(stage), together), mut work) in groups {
            work.sort_by_key(|a| a.task);
            let free = self.free();
            let size = if together { self.pace.size(stage, work.len(), free) } else { 1 };
            let mut work = work.into_iter().peekable();
            while self.free() > 0 && work.peek().is_some() {
                let mut batch: Vec<Assignment> = Vec::with_capacity(size);
                while batch.len() < size
                    && let Some(a) = work.next_if(|a| batch.last().is_none_or(|b| b.task < a.task))
                {
                    batch.push(a);
                }
                self.invoke(stage, batch)?;
            }
            left.extend(work);
        }
        self.pending.extend(left);
        Ok(())
    }

    fn invoke(&mut self, stage: usize, work: Vec<Assignment>) -> Result<(), RunError> {
        self.next += 1;
        let (flight, now) = (self.next, Instant::now());
        let name = format!("{}_{flight}", self.nonce);
        let event = Event::RunTasks(RunTasksEvent {
            format: EVENT_FORMAT.into(),
            plan: self.ctx.run_dir.join("plan.json").as_str().into(),
            hash: self.id.clone(),
            driver_version: Some(VERSION.into()),
            stage,
            tasks: ranges(work.iter().map(|a| a.task)),
            name: Some(name.clone()),
            threads: work.iter().any(|a| a.alone).then_some(1),
            task_timeout: None,
            strict: false,
            trace: Some(format!("00-{}-{flight:016x}-01", self.trace)),
        });
        let event = serde_json::to_vec(&event).map_err(|e| RunError::Executor(e.to_string()))?;
        for (k, a) in work.iter().enumerate() {
            self.flight_of.insert(a.attempt, flight);
            if !self.options.asynchronous {
                let when = now + ACCEPTED + Duration::try_from_secs_f64(self.pace.begins(stage, k)).unwrap_or_default();
                self.begins.push(Reverse((when, a.attempt, flight)));
            }
        }
        self.flights.insert(flight, Flight { tasks: work.len(), open: work, stage, began: now });
        let (caller, sender) = (self.caller.clone(), self.sender.clone());
        self.aws.handle().spawn(async move {
            let outcome = caller.call(event, format!("{REPORTS}/{name}")).await;
            // If there is no receiver any more, the run is over.
            let _ = sender.send((flight, outcome));
        });
        Ok(())
    }

    /// Counts the cost of an invocation: the duration that it reports, or the time since it was sent.
    fn charge(&mut self, seconds: f64) {
        let billed = (seconds * 1000.0).ceil().max(1.0) / 1000.0;
        self.usage.invocations += 1;
        self.usage.gb_seconds += billed * self.memory as f64 / f64::from(1u32 << 30);
    }

    fn take(&mut self, flight: u64, outcome: Outcome) -> Result<(), RunError> {
        let Some(f) = self.flights.remove(&flight) else { return Ok(()) };
        let Flight { open, stage, began, tasks } = f;
        let took = began.elapsed().as_secs_f64();
        match outcome {
            Outcome::Accepted => {
                self.usage.invocations += 1;
                self.flights.insert(flight, Flight { open, stage, began, tasks });
            }
            Outcome::Answer(a) => {
                self.gate.answered();
                self.charge(a.seconds + a.init_seconds.unwrap_or(0.0));
                self.answered(open, stage, tasks, *a)?;
            }
            Outcome::Throttled(why) => {
                let jitter = (flight.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as f64 / 1024.0;
                let now = Instant::now();
                let pause = self.gate.throttled(now, self.flights.len(), jitter);
                self.usage.throttled += 1;
                for a in &open {
                    self.flight_of.insert(a.attempt, 0);
                }
                self.refused.push((now + pause, open));
                if self.gate.starved(now) > self.options.patience && self.flights.is_empty() {
                    let waited = self.gate.starved(now).as_secs();
                    return Err(RunError::Executor(format!("Lambda has refused every invocation for {waited} s: {why}")));
                }
                self.warn(format!("Lambda takes no more invocations now ({why}); going on with up to {} at once", self.gate.limit()));
            }
            Outcome::Unavailable(why) => {
                for a in open {
                    let detail = format!("stage {}, task {}: {why}", a.stage, a.task);
                    self.end(a.attempt, Err(TaskError::Reported { class: ErrorClass::Transient, detail }));
                }
            }
            Outcome::Broken { end, detail, done } => {
                self.charge(took);
                if matches!(end, End::TimedOut) && tasks > 1 {
                    self.pace.slower(stage);
                }
                let mut open = open;
                for report in done {
                    if let Some(i) = open.iter().position(|a| a.task == report.task) {
                        let a = open.swap_remove(i);
                        self.end(a.attempt, Ok(report));
                    }
                }
                for a in open {
                    let e = self.broken(&a, end, &detail);
                    self.end(a.attempt, Err(e));
                }
            }
            Outcome::Hopeless(why) => return Err(RunError::Executor(why)),
        }
        Ok(())
    }

    fn broken(&self, a: &Assignment, end: End, detail: &str) -> TaskError {
        let (stage, task, detail) = (a.stage, a.task, detail.to_string());
        let reported = |class, detail| TaskError::Reported { class, detail: format!("stage {stage}, task {task}: {detail}") };
        match end {
            End::Unanswered | End::Crashed => TaskError::Lost { stage, task, detail },
            End::TimedOut => reported(ErrorClass::Transient, format!("the function was killed at its time limit: {detail}")),
            End::Transient => reported(ErrorClass::Transient, detail),
            End::Permanent => reported(ErrorClass::Permanent, detail),
            End::OutOfMemory => TaskError::OutOfMemory {
                stage,
                task,
                detail: format!("the function was killed for using too much memory: {detail}"),
                projected: ByteSize(a.need),
                reserved: ByteSize(self.ctx.plan.spec.reserved_mem),
                limit: ByteSize(self.memory),
            },
        }
    }

    fn answered(&mut self, mut open: Vec<Assignment>, stage: usize, tasks: usize, a: RunTasksAnswer) -> Result<(), RunError> {
        if a.version != VERSION {
            return Err(RunError::Executor(format!("the function has chunkwise {}, but the driver has {VERSION}", a.version)));
        }
        self.peak = self.peak.max(a.peak_memory);
        let mut taken = |task: u64| open.iter().position(|o| o.task == task).map(|i| open.swap_remove(i));
        let mut ended = Vec::new();
        for report in a.reports {
            self.pace.add(stage, report.seconds);
            ended.extend(taken(report.task).map(|o| (o.attempt, Ok(report))));
        }
        for f in a.failed {
            ended.extend(taken(f.task).map(|o| (o.attempt, Err(TaskError::Reported { class: f.class, detail: f.detail }))));
        }
        let told = a.cancelled || self.cancelled.is_some();
        if !a.rest.is_empty() && a.done > 0 {
            self.pace.managed(stage, a.done as usize);
        }
        for task in a.rest.iter().flat_map(|r| r[0]..r[1]) {
            let Some(o) = taken(task) else { continue };
            let times = self.handed_back.entry((stage, task)).or_insert(0);
            // If the invocation has finished some tasks, its time was short, but not every task is long.
            *times += u32::from(!told && a.done == 0);
            let late = tasks == 1 && *times > HANDED_BACK;
            let result = if late { Err(self.too_long(stage, task)) } else { Err(TaskError::Cancelled) };
            ended.push((o.attempt, result));
        }
        for o in open {
            let detail = "the function answered without a word on it".to_string();
            ended.push((o.attempt, Err(TaskError::Lost { stage, task: o.task, detail })));
        }
        for (attempt, result) in ended {
            self.end(attempt, result);
        }
        if a.cancelled && self.cancelled.is_none() {
            let note = self.ctx.run_dir.join(CANCELLED);
            return Err(RunError::Executor(format!("the run was cancelled by somebody else ('{note}'); --resume goes on with it")));
        }
        Ok(())
    }

    fn too_long(&self, stage: usize, task: u64) -> TaskError {
        let seconds = self.timeout.as_secs();
        let detail = format!(
            "stage {stage}, task {task} does not end within the {seconds} s that the function may take; give it more time or memory, or plan \
             smaller tasks with less --allowed-mem"
        );
        TaskError::Reported { class: ErrorClass::Permanent, detail }
    }

    fn warn(&mut self, text: String) {
        if self.warned.is_none_or(|t| t.elapsed() > WARN) {
            self.warned = Some(Instant::now());
            self.out.push(Update::Warning(text));
        }
    }

    /// Takes back the tasks of overdue invocations. One of the tasks hangs or is slow. It is not known which one, and the others wait
    /// behind it. All are sent again, and the first result counts. An invocation with a single task is left to the scheduler, which starts
    /// a second copy.
    fn take_back(&mut self) {
        if self.looked.elapsed() < Duration::from_secs(1) {
            return;
        }
        self.looked = Instant::now();
        let late = |f: &Flight| {
            let expected = self.pace.expected(f.stage, f.tasks);
            f.tasks > 1 && !f.open.is_empty() && expected > 0.0 && f.began.elapsed().as_secs_f64() > OVERDUE.0 + OVERDUE.1 * expected
        };
        let overdue: Vec<u64> = self.flights.iter().filter(|(_, f)| late(f)).map(|(&n, _)| n).collect();
        if overdue.len() as f64 > (OVERDUE_SHARE * self.flights.len() as f64).max(1.0) {
            return;
        }
        for flight in overdue {
            let Some(f) = self.flights.get_mut(&flight) else { continue };
            for a in std::mem::take(&mut f.open) {
                *self.handed_back.entry((a.stage, a.task)).or_insert(0) += HANDED_BACK;
                self.end(a.attempt, Err(TaskError::Cancelled));
            }
        }
    }

    /// Reports attempts as started when they have probably begun.
    fn begin(&mut self) {
        let now = Instant::now();
        while self.begins.peek().is_some_and(|Reverse((when, ..))| *when <= now) {
            let Some(Reverse((_, attempt, flight))) = self.begins.pop() else { break };
            if self.flight_of.get(&attempt) == Some(&flight) {
                self.out.push(Update::Started { attempt });
            }
        }
    }

    /// Reads the reports of functions since the last call, if there are no answers.
    fn look(&mut self) -> Result<(), RunError> {
        let own = format!("{REPORTS}/{}_", self.nonce);
        let flight_of = |key: &str| key.strip_prefix(&own)?.split('/').next()?.parse::<u64>().ok();
        let mut heard = Vec::new();
        let flights = &self.flights;
        let whose = |key: &str| flight_of(key).filter(|f| flights.contains_key(f));
        let looked = self.inbox.look(&self.caller.store, whose, |&flight, answer| heard.push((flight, answer)));
        for (flight, answer) in heard {
            self.heard(flight, answer);
        }
        match looked {
            Err(e) if e.is_transient() => self.warn(format!("reports cannot be read now, and will be at the next look: {e}")),
            other => other?,
        }
        let limit = self.timeout * 2 + Duration::from_secs(60);
        let over: Vec<u64> = self.flights.iter().filter(|(_, f)| f.open.is_empty() || f.began.elapsed() > limit).map(|(&n, _)| n).collect();
        for flight in over {
            let Some(f) = self.flights.remove(&flight) else { continue };
            for a in f.open {
                let detail = format!("no report of it has come within {} s", limit.as_secs());
                self.end(a.attempt, Err(TaskError::Lost { stage: a.stage, task: a.task, detail }));
            }
        }
        Ok(())
    }

    fn heard(&mut self, flight: u64, answer: Answer) {
        let Some(f) = self.flights.get_mut(&flight) else { return };
        let (task, result) = match answer {
            Answer::Started { task, .. } => {
                self.out.extend(f.open.iter().filter(|a| a.task == task).map(|a| Update::Started { attempt: a.attempt }));
                return;
            }
            Answer::Done { report, .. } => (report.task, Ok(report)),
            Answer::Failed { task, class, detail, .. } => (task, Err(TaskError::Reported { class, detail })),
            Answer::Returned { task, .. } => (task, Err(TaskError::Cancelled)),
            Answer::Hello { .. } | Answer::Wrote(_) | Answer::Did { .. } => return,
        };
        let Some(i) = f.open.iter().position(|a| a.task == task) else { return };
        let a = f.open.swap_remove(i);
        if f.open.is_empty() {
            self.gate.answered();
        }
        if let Ok(r) = &result {
            self.pace.add(a.stage, r.seconds);
            // No answer tells how long the whole invocation took. Its tasks are most of it.
            self.usage.gb_seconds += r.seconds * self.memory as f64 / f64::from(1u32 << 30);
        }
        self.end(a.attempt, result);
    }
}

impl Executor for LambdaExecutor {
    fn name(&self) -> &str {
        "lambda"
    }

    fn room(&self) -> usize {
        if self.cancelled.is_some() {
            return 0;
        }
        let waiting = self.pending.len() + self.refused.iter().map(|(_, w)| w.len()).sum::<usize>();
        (self.free() * self.pace.most()).min(AHEAD).saturating_sub(waiting)
    }

    fn queues(&self) -> bool {
        true
    }

    fn submit(&mut self, work: Vec<Assignment>) -> Result<(), RunError> {
        for a in work {
            self.flight_of.insert(a.attempt, 0);
            self.pending.push_back(a);
        }
        Ok(())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Vec<Update>, RunError> {
        match self.cancelled {
            None => self.launch()?,
            Some(since) => {
                let refused = std::mem::take(&mut self.refused).into_iter().flat_map(|(_, w)| w);
                let waiting: Vec<Assignment> = self.pending.drain(..).chain(refused).collect();
                waiting.iter().for_each(|a| self.end(a.attempt, Err(TaskError::Cancelled)));
                if since.elapsed() > PATIENCE {
                    let flights = std::mem::take(&mut self.flights);
                    flights.into_values().flat_map(|f| f.open).for_each(|a| self.end(a.attempt, Err(TaskError::Cancelled)));
                }
            }
        }
        let timeout = if self.out.is_empty() { timeout } else { Duration::ZERO };
        if let Ok((flight, outcome)) = self.outcomes.recv_timeout(timeout) {
            self.take(flight, outcome)?;
            while let Ok((flight, outcome)) = self.outcomes.try_recv() {
                self.take(flight, outcome)?;
            }
        }
        self.begin();
        self.take_back();
        if self.options.asynchronous && self.asked.elapsed() >= self.options.poll {
            self.look()?;
            self.asked = Instant::now();
        }
        Ok(std::mem::take(&mut self.out))
    }

    fn stop(&mut self, attempt: u64, _hangs: bool) {
        let Some(flight) = self.flight_of.get(&attempt).copied() else { return };
        match self.flights.get_mut(&flight) {
            Some(f) => f.open.retain(|a| a.attempt != attempt),
            None => {
                self.pending.retain(|a| a.attempt != attempt);
                self.refused.iter_mut().for_each(|(_, w)| w.retain(|a| a.attempt != attempt));
            }
        }
        self.end(attempt, Err(TaskError::Cancelled));
    }

    fn cancel(&mut self) {
        if self.cancelled.is_none() {
            self.cancelled = Some(Instant::now());
            if !self.flights.is_empty() {
                // Functions notice this within seconds. If they do not, their writes do no harm.
                let _ = detached::cancel(self.ctx.stores(), &self.ctx.run_dir);
            }
        }
    }

    fn peak_memory(&self) -> u64 {
        self.peak
    }

    fn usage(&self) -> Option<Usage> {
        Some(self.usage.clone())
    }
}
