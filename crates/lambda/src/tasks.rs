//! `run_tasks`: what `chunkwise worker` does, inside the memory, the processors and the time of a function.

use crate::config::Config;
use crate::failure::{Failure, bounded};
use crate::serve::Invocation;
use chunkwise::ByteSize;
use chunkwise::executor::detached::is_cancelled;
use chunkwise::executor::driver::peak_memory;
use chunkwise::executor::function::{ANSWER_FORMAT, FailedTask, RESOURCE, RunTasksAnswer, RunTasksEvent, ranges};
use chunkwise::executor::worker::{Answer, Limits, Share, VERSION, Worker, run_share};
use chunkwise::storage::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Bytes of reports in an answer, at most; what is more is only in storage.
const MOST_REPORTED: usize = 512 << 10;
/// Failures in an answer, at most.
const MOST_FAILED: usize = 100;
/// How often a run is asked for if it was cancelled.
const LOOK: Duration = Duration::from_secs(5);
/// Of the time that is left, what is kept for stopping tasks, for reports and for the answer; at least and at most so long.
const MARGIN: f64 = 0.15;
const LEAST_MARGIN: f64 = 0.5;
const MOST_MARGIN: f64 = 8.0;

/// What is kept between invocations: the last plan, with its open arrays and decoded chunks. Only one, for it may use all memory.
#[derive(Default)]
pub struct Kept {
    open: Option<(String, Arc<Worker>)>,
}

impl Kept {
    fn worker(&mut self, config: &Config, e: &RunTasksEvent) -> Result<Arc<Worker>, Failure> {
        if let Some(driver) = e.driver_version.as_deref().filter(|d| *d != VERSION) {
            return Err(Failure::refused(format!(
                "the function has chunkwise {VERSION}, but the driver has {driver}; deploy the driver's version"
            )));
        }
        let key = format!("{} {}", e.plan, e.hash);
        if let Some((_, worker)) = self.open.as_ref().filter(|(k, _)| *k == key) {
            return Ok(worker.clone());
        }
        // First the old one, so that its chunks do not stand beside those of the new one.
        self.open = None;
        let limits = Limits { threads: config.processors, allowed_mem: Some(config.memory) };
        let worker = Arc::new(Worker::open(&e.plan, Some(&e.hash), None, &limits)?);
        self.open = Some((key, worker.clone()));
        Ok(worker)
    }
}

/// Refuses a stage whose tasks need more memory than there is.
pub fn check_memory(config: &Config, plan: &chunkwise::plan::Plan, stage: usize) -> Result<(), Failure> {
    let Some(s) = plan.stages.get(stage) else { return Ok(()) };
    let reserved = plan.spec.reserved_mem;
    let need = s.projected_mem.saturating_add(reserved);
    if need <= config.memory {
        return Ok(());
    }
    let message = format!(
        "stage {stage} ('{}') is projected to need {} for a task and {} for the program itself, together {}, and the function has {}; plan \
         with --allowed-mem {}, or give the function {} MB",
        s.name,
        ByteSize(s.projected_mem),
        ByteSize(reserved),
        ByteSize(need),
        ByteSize(config.memory),
        ByteSize(config.memory),
        need.div_ceil(1 << 20)
    );
    Err(Failure { kind: RESOURCE, message })
}

/// Sets `cancel` when somebody cancels the run; until `over`.
fn watch(run: Location, cancel: Arc<AtomicBool>, over: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        while !over.load(Ordering::Relaxed) {
            if is_cancelled(&run).unwrap_or(false) {
                cancel.store(true, Ordering::Relaxed);
                return;
            }
            std::thread::park_timeout(LOOK);
        }
    });
}

/// What the answers of the worker come to.
#[derive(Default)]
struct Sum {
    answer: RunTasksAnswer,
    bytes: usize,
    many: bool,
    rest: Vec<u64>,
    failures: usize,
}

impl Sum {
    fn add(&mut self, a: &Answer) {
        match a {
            Answer::Done { report, .. } => {
                self.answer.done += 1;
                self.bytes += serde_json::to_vec(report).map_or(0, |t| t.len());
                self.many |= self.bytes > MOST_REPORTED;
                if self.many {
                    self.answer.reports = Vec::new();
                } else {
                    self.answer.reports.push(report.clone());
                }
            }
            Answer::Failed { task, class, detail, .. } => {
                tracing::warn!(task, class = class.name(), error = detail, "a task failed");
                self.failures += 1;
                if self.answer.failed.len() < MOST_FAILED {
                    self.answer.failed.push(FailedTask { task: *task, class: *class, detail: bounded(detail) });
                } else {
                    // It is tried again with the others, and fails again if it must.
                    self.rest.push(*task);
                }
            }
            Answer::Returned { task, .. } => self.rest.push(*task),
            _ => {}
        }
    }
}

/// Runs tasks.
///
/// # Errors
/// When none can be run: no such plan or stage, too little memory; with `strict` also when one fails.
pub fn run(config: &Config, kept: &Mutex<Kept>, e: &RunTasksEvent, invocation: &Invocation) -> Result<RunTasksAnswer, Failure> {
    let began = Instant::now();
    let mut kept = kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let worker = kept.worker(config, e)?;
    check_memory(config, &worker.context.plan, e.stage)?;
    let left = invocation.deadline.saturating_duration_since(began).as_secs_f64();
    let margin = Duration::from_secs_f64((MARGIN * left).clamp(LEAST_MARGIN, MOST_MARGIN));
    let threads = e.threads.unwrap_or(config.processors);
    let share = Share {
        stage: e.stage,
        tasks: Some(e.tasks.iter().map(|r| r[0]..r[1]).collect()),
        part: None,
        name: None,
        folder: e.name.clone(),
        threads: Some(threads),
        timeout: e.task_timeout.and_then(|s| Duration::try_from_secs_f64(s).ok()),
        until: invocation.deadline.checked_sub(margin),
    };
    let (cancel, over) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    watch(worker.context.run_dir.clone(), cancel.clone(), over.clone());
    // A state machine takes 256 KiB, and has no use for reports.
    let mut sum = Sum { many: e.strict, ..Sum::default() };
    let shared = run_share(&worker, &share, &cancel, &mut |a| sum.add(a));
    over.store(true, Ordering::Relaxed);
    let shared = shared?;
    if shared.hangs {
        // Its memory is not free, and its thread is lost.
        kept.open = None;
    }
    let Sum { mut answer, mut rest, failures, .. } = sum;
    rest.sort_unstable();
    answer = RunTasksAnswer {
        format: ANSWER_FORMAT.into(),
        request_id: invocation.request_id.clone(),
        version: VERSION.into(),
        stage: e.stage,
        stored: shared.stored,
        complete: rest.is_empty() && failures == 0,
        rest: ranges(rest),
        cancelled: cancel.load(Ordering::Relaxed),
        seconds: began.elapsed().as_secs_f64(),
        init_seconds: invocation.init_seconds,
        threads,
        memory: config.memory,
        peak_memory: peak_memory(),
        ..answer
    };
    tracing::info!(
        stage = e.stage,
        tasks = e.task_count(),
        done = answer.done,
        failed = failures,
        peak_memory = answer.peak_memory,
        "tasks"
    );
    if e.strict && (answer.cancelled || failures > 0) {
        let worst = answer.failed.iter().max_by_key(|f| f.class as u8);
        return Err(match worst {
            _ if answer.cancelled => Failure::refused("the run was cancelled"),
            Some(f) => Failure::of_class(f.class, f.detail.clone()),
            None => Failure::refused("tasks failed"),
        });
    }
    Ok(answer)
}
