//! `run_tasks`: the work of `chunkwise worker`, within the memory, the processors and the time of a function.

use crate::config::Config;
use crate::failure::{Failure, bounded};
use crate::serve::Invocation;
use chunkwise::ByteSize;
use chunkwise::executor::detached::is_cancelled;
use chunkwise::executor::driver::peak_memory;
use chunkwise::executor::function::{ANSWER_FORMAT, FailedTask, RESOURCE, RunTasksAnswer, RunTasksEvent, ranges};
use chunkwise::executor::worker::{Answer, Exit, Limits, Share, VERSION, Worker, run_share};
use chunkwise::storage::{Location, Stores};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The largest size of the reports in an answer, in bytes. Further reports are only in storage.
const MOST_REPORTED: usize = 512 << 10;
/// The largest number of failures in an answer.
const MOST_FAILED: usize = 100;
/// How often the function checks whether the run was cancelled.
const LOOK: Duration = Duration::from_secs(5);
/// The fraction of the remaining time that is kept for stopping tasks, for reports and for the answer, and its bounds.
const MARGIN: f64 = 0.15;
const LEAST_MARGIN: f64 = 0.5;
const MOST_MARGIN: f64 = 8.0;

/// The data that is kept between invocations: the last plan, with its open arrays and decoded chunks. It is only one plan, because it may
/// use all memory.
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
        // The old plan goes first, so that its chunks are not in memory beside those of the new one.
        self.open = None;
        let limits = Limits { threads: config.processors, allowed_mem: Some(config.memory) };
        let worker = Arc::new(Worker::open(config.runtime.stores(), &e.plan, Some(&e.hash), None, &limits)?);
        self.open = Some((key, worker.clone()));
        Ok(worker)
    }
}

/// Refuses a stage whose tasks need more memory than the function has.
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

/// A thread that sets `cancel` when the run is cancelled. It ends when this is dropped, so it cannot wake up in a later invocation.
struct Watch {
    over: Arc<AtomicBool>,
    thread: Thread,
}

impl Watch {
    fn start(stores: Stores, run: Location, cancel: Arc<AtomicBool>) -> Watch {
        let over = Arc::new(AtomicBool::new(false));
        let until = over.clone();
        let handle = std::thread::spawn(move || {
            while !until.load(Ordering::Acquire) {
                if is_cancelled(&stores, &run).unwrap_or(false) {
                    cancel.store(true, Ordering::Relaxed);
                    return;
                }
                std::thread::park_timeout(LOOK);
            }
        });
        Watch { over, thread: handle.thread().clone() }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

/// The sum of the worker's answers.
#[derive(Default)]
struct Sum {
    answer: RunTasksAnswer,
    bytes: usize,
    many: bool,
    rest: Vec<u64>,
    failures: usize,
    /// The worst failure of the share, even if there are too many for the answer.
    worst: Option<(Exit, FailedTask)>,
}

impl Sum {
    fn add(&mut self, a: &Answer) {
        match a {
            Answer::Done { report, .. } => {
                self.answer.done += 1;
                if self.many {
                    return;
                }
                self.bytes += serde_json::to_vec(report).map_or(0, |t| t.len());
                self.many = self.bytes > MOST_REPORTED;
                if self.many {
                    self.answer.reports = Vec::new();
                } else {
                    self.answer.reports.push(report.clone());
                }
            }
            Answer::Failed { task, class, detail, .. } => {
                tracing::warn!(task, class = class.name(), error = detail, "a task failed");
                self.failures += 1;
                let failed = FailedTask { task: *task, class: *class, detail: bounded(detail) };
                let exit = Exit::of(*class);
                if self.worst.as_ref().is_none_or(|(worst, _)| *worst < exit) {
                    self.worst = Some((exit, failed.clone()));
                }
                if self.answer.failed.len() < MOST_FAILED {
                    self.answer.failed.push(failed);
                } else {
                    // It is tried again with the others.
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
/// When no task can be run: no such plan or stage, too little memory. With `strict`, also when a task fails.
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
    let cancel = Arc::new(AtomicBool::new(false));
    let watch = Watch::start(worker.context.stores().clone(), worker.context.run_dir.clone(), cancel.clone());
    // A state machine accepts 256 KiB, and does not use reports.
    let mut sum = Sum { many: e.strict, ..Sum::default() };
    let shared = run_share(&worker, &share, &cancel, &mut |a| sum.add(a));
    drop(watch);
    let shared = shared?;
    if shared.hangs {
        // Its memory is not free, and its thread is lost.
        kept.open = None;
    }
    let Sum { mut answer, mut rest, failures, worst, .. } = sum;
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
        return Err(match worst {
            Some((exit, f)) if !answer.cancelled && exit == shared.exit => Failure::of_class(f.class, f.detail),
            _ if answer.cancelled => Failure::refused("the run was cancelled"),
            _ => Failure::refused(format!("tasks failed: {}", shared.exit.meaning())),
        });
    }
    Ok(answer)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use chunkwise::task::ErrorClass;

    fn failed(task: u64, class: ErrorClass) -> Answer {
        Answer::Failed { attempt: 0, stage: 0, task, class, detail: format!("{} {task}", class.name()) }
    }

    #[test]
    fn the_worst_failure_is_told_however_many_there_are() {
        use ErrorClass::{Lost, Permanent, Resource, Transient};
        let worst = |classes: &[ErrorClass]| {
            let mut sum = Sum::default();
            classes.iter().zip(0..).for_each(|(c, task)| sum.add(&failed(task, *c)));
            assert_eq!((sum.failures, sum.answer.failed.len() + sum.rest.len()), (classes.len(), classes.len()));
            sum.worst.map(|(exit, f)| (exit, f.detail)).unwrap()
        };
        assert_eq!(worst(&[Transient, Resource, Lost]), (Exit::Resource, "resource 1".into()));
        assert_eq!(worst(&[Permanent, Lost, Permanent]), (Exit::Permanent, "permanent 0".into()));
        let mut many = vec![Transient; 3 * MOST_FAILED];
        many.push(Permanent);
        assert_eq!(worst(&many), (Exit::Permanent, format!("permanent {}", 3 * MOST_FAILED)));
    }

    #[test]
    fn reports_that_are_too_many_are_only_counted() {
        let report = serde_json::json!({"stage": 0, "task": 7, "written": [], "bytes_read": 0, "seconds": 0, "projected_mem": 0});
        let done = Answer::Done { attempt: 0, report: serde_json::from_value(report).unwrap() };
        let mut sum = Sum { many: true, ..Sum::default() };
        (0..10).for_each(|_| sum.add(&done));
        assert_eq!((sum.answer.done, sum.answer.reports.len(), sum.bytes), (10, 0, 0));
        let mut sum = Sum::default();
        while !sum.many {
            sum.add(&done);
        }
        let (done_first, bytes) = (sum.answer.done, sum.bytes);
        assert!(done_first > 1000 && sum.answer.reports.is_empty() && bytes > MOST_REPORTED);
        sum.add(&done);
        assert_eq!((sum.answer.done, sum.answer.reports.len(), sum.bytes), (done_first + 1, 0, bytes));
    }

    #[test]
    fn nobody_watches_a_run_after_its_work() {
        let cancel = Arc::new(AtomicBool::new(false));
        let nowhere = std::env::temp_dir().join("chunkwise-nowhere").display().to_string();
        drop(Watch::start(Stores::new(), Location::parse(&nowhere, None).unwrap(), cancel.clone()));
        let began = Instant::now();
        while Arc::strong_count(&cancel) > 1 {
            assert!(began.elapsed() < LOOK / 2, "the thread sleeps on");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!cancel.load(Ordering::Relaxed));
    }
}
