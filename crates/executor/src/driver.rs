//! The driver: order, retries, resume, deletion of intermediates, publication.

use crate::log::{Log, read_reports};
use crate::readiness::{Done, Readiness};
use crate::{Event, RunError, RunReport, StageInfo, ThreadExecutor, resume};
use chunkwise_plan::{ArrayRole, Requests};
use chunkwise_storage::Store;
use chunkwise_task::{ErrorClass, TaskContext, TaskError, task_need};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How a run behaves.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// Go on with an unfinished run of the same plan.
    pub resume: bool,
    /// Replace outputs that exist.
    pub overwrite: bool,
    /// Keep intermediates.
    pub keep: bool,
    /// How often a task that fails in a way that may pass is tried again.
    pub retries: u32,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions { resume: false, overwrite: false, keep: false, retries: 3 }
    }
}

/// Runs plans.
pub struct Driver;

/// Largest resident memory of this process so far, in bytes; 0 where the system does not say.
fn peak_memory() -> u64 {
    std::fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|s| s.lines().find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()))
        .map_or(0, |kb| kb * 1024)
}

/// Exponential, with a jitter that is a function of the task so that runs can be repeated.
fn backoff(attempt: u32, task: u64) -> Duration {
    let jitter = (task.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54) as f64 / 1024.0;
    Duration::from_secs_f64((0.1 * f64::from(1u32 << attempt.min(8))) * (0.5 + jitter))
}

/// A failure outside of the tasks.
fn unusable(e: TaskError) -> RunError {
    RunError::Task { source: Box::new(e), outputs: Vec::new() }
}

impl Driver {
    /// Runs a plan to its end.
    pub fn run(
        ctx: Arc<TaskContext>,
        executor: &mut ThreadExecutor,
        options: &RunOptions,
        events: &mut dyn FnMut(&Event),
        cancel: &AtomicBool,
    ) -> Result<RunReport, RunError> {
        let started = Instant::now();
        let plan = &ctx.plan;
        let outputs: Vec<&str> = plan.arrays.iter().filter(|(_, a)| a.role == ArrayRole::Output).map(|(n, _)| n.as_str()).collect();
        let store = Store::open(&ctx.run_dir)?;
        let done = if options.resume {
            let (done, have) = resume::finished(&ctx, read_reports(&ctx.run_dir)?)?;
            executor.leave(have);
            done
        } else {
            let mut replaced = Vec::new();
            for name in &outputs {
                let url = ctx.array_location(name);
                let there = !Store::open(url)?.list("")?.is_empty();
                if there && !options.overwrite {
                    return Err(RunError::OutputExists { url: url.to_string() });
                }
                // Folders may be left of what a filesystem held.
                if there || !url.is_remote() {
                    replaced.push(name);
                }
            }
            for name in replaced {
                // First the metadata: a half-deleted array must not open.
                ctx.unpublish(name).map_err(unusable)?;
                ctx.clear(name).map_err(unusable)?;
            }
            store.delete_prefix("")?;
            plan.stages.iter().map(|s| Done::new(s.tasks())).collect()
        };
        let text = serde_json::to_vec_pretty(plan).unwrap_or_default();
        store.put("plan.json", text)?;
        let mut log = Log::open(&ctx.run_dir)?;
        let mut report = RunReport {
            id: plan.id(),
            skipped: done.iter().map(Done::count).sum(),
            requests: vec![Requests::default(); plan.stages.len()],
            ..RunReport::default()
        };
        let stages =
            plan.stages.iter().zip(&done).map(|(s, d)| StageInfo { name: s.name.clone(), tasks: s.tasks(), done: d.count() }).collect();
        events(&Event::RunStarted { id: report.id.clone(), stages });
        let mut ready = Readiness::new(&ctx, done);
        let result = Self::tasks(&ctx, &mut ready, executor, options, events, cancel, &mut log, &mut report);
        log.flush()?;
        if result.is_err() || options.keep {
            // What is only in memory would have to be made again by the run that goes on.
            let flushed = executor.memory().flush();
            if result.is_ok() {
                flushed?;
            }
        }
        report.bytes_spilled = executor.memory().spilled();
        result.map_err(|e| match e {
            RunError::Task { source, .. } => {
                RunError::Task { source, outputs: outputs.iter().map(|n| ctx.array_location(n).to_string()).collect() }
            }
            other => other,
        })?;
        for name in &outputs {
            let missing = plan.arrays[*name].grid.count().saturating_sub(ctx.array(name).stored_chunks()?.len() as u64);
            if missing > 0 {
                return Err(RunError::Incomplete { array: (*name).into(), missing });
            }
            Store::open(ctx.array_location(name))?.sweep()?;
            ctx.publish(name).map_err(unusable)?;
            let url = ctx.array_location(name).to_string();
            report.outputs.push(url.clone());
            events(&Event::ArrayPublished { url });
        }
        report.seconds = started.elapsed().as_secs_f64();
        report.peak_memory = peak_memory();
        events(&Event::RunFinished(report.clone()));
        Ok(report)
    }

    #[allow(clippy::too_many_arguments)]
    fn tasks(
        ctx: &TaskContext,
        ready: &mut Readiness<'_>,
        executor: &mut ThreadExecutor,
        options: &RunOptions,
        events: &mut dyn FnMut(&Event),
        cancel: &AtomicBool,
        log: &mut Log,
        report: &mut RunReport,
    ) -> Result<(), RunError> {
        let mut attempts: HashMap<(usize, u64), u32> = HashMap::new();
        let mut later: Vec<(Instant, usize, u64)> = Vec::new();
        let mut failure: Option<TaskError> = None;
        let mut deleted: HashSet<String> = HashSet::new();
        loop {
            let cancelled = cancel.load(Ordering::Relaxed);
            if cancelled {
                executor.cancel();
            }
            let now = Instant::now();
            later.retain(|&(when, s, t)| {
                let due = when <= now;
                if due {
                    ready.again(s, t);
                }
                !due
            });
            while !cancelled && failure.is_none() && !executor.full() {
                let Some((s, t)) = ready.next() else { break };
                let need = task_need(ctx, s, t);
                if !executor.admit(need)? {
                    ready.again(s, t);
                    break;
                }
                executor.submit(s, t, need);
            }
            if executor.idle() && (cancelled || failure.is_some() || ready.all_done()) {
                break;
            }
            let ended = executor.wait(Duration::from_millis(50));
            for chunk in executor.chunks() {
                log.add(&chunk)?;
            }
            let Some(done) = ended else { continue };
            let id = (done.stage, done.task);
            match done.result {
                Ok(r) => {
                    log.add(&r)?;
                    report.tasks += 1;
                    report.bytes_read += r.bytes_read;
                    report.requests[id.0] = report.requests[id.0].plus(r.requests);
                    let bytes_written = r.written.iter().map(|w| w.bytes).sum();
                    report.bytes_written += bytes_written;
                    events(&Event::TaskFinished { stage: id.0, task: id.1, bytes_read: r.bytes_read, bytes_written, seconds: r.seconds });
                    ready.finish(id.0, id.1);
                    if !options.keep && ready.done[id.0].all() {
                        Self::delete_unneeded(ctx, ready, &mut deleted, events)?;
                    }
                }
                Err(e) if e.class() == ErrorClass::Cancelled => {}
                Err(e) => {
                    let attempt = attempts.entry(id).or_insert(0);
                    *attempt += 1;
                    if e.class() == ErrorClass::Transient && *attempt <= options.retries {
                        let wait = backoff(*attempt, id.1);
                        report.retries += 1;
                        events(&Event::TaskRetried { stage: id.0, task: id.1, error: e.to_string(), wait: wait.as_secs_f64() });
                        later.push((now + wait, id.0, id.1));
                    } else if failure.is_none() {
                        failure = Some(e);
                    }
                }
            }
        }
        match failure {
            Some(e) => Err(RunError::Task { source: Box::new(e), outputs: Vec::new() }),
            None if !ready.all_done() => Err(RunError::Cancelled),
            None => Ok(()),
        }
    }

    /// Deletes the intermediates that only finished stages read.
    fn delete_unneeded(
        ctx: &TaskContext,
        ready: &Readiness<'_>,
        deleted: &mut HashSet<String>,
        events: &mut dyn FnMut(&Event),
    ) -> Result<(), RunError> {
        for (name, array) in &ctx.plan.arrays {
            if array.role != ArrayRole::Intermediate || deleted.contains(name) {
                continue;
            }
            let uses = |s: &chunkwise_plan::Stage| s.reads().any(|a| a == name) || s.outputs.iter().any(|o| o.array == *name);
            if ctx.plan.stages.iter().zip(&ready.done).filter(|(s, _)| uses(s)).all(|(_, d)| d.all()) {
                ctx.clear(name).map_err(unusable)?;
                deleted.insert(name.clone());
                events(&Event::ArrayDeleted { array: name.clone() });
            }
        }
        Ok(())
    }
}
