//! The one scheduler. It gives ready tasks to an executor, and decides what follows from the end of each attempt.

mod attempts;
mod behind;
mod meter;
mod retry;
mod stragglers;

use crate::checksums::Sums;
use crate::executors::{Assignment, Executor, Update};
use crate::lease::Lease;
use crate::log::{Log, Reports};
use crate::readiness::Readiness;
use crate::{Event, RunError, RunOptions, RunReport};
use attempts::{Attempts, Stopped};
use behind::Behind;
use chunkwise_plan::{ArrayRole, TaskReport, WrittenChunk};
use chunkwise_storage::Moment;
use chunkwise_task::{ErrorClass, TaskContext, TaskError, task_need};
use meter::Meter;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use stragglers::Durations;

/// The longest pause between two rounds of the scheduler.
const TICK: Duration = Duration::from_millis(50);
/// How long an attempt that is not needed any more may take to stop.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often events about usage and progress are sent.
const USAGE: Duration = Duration::from_secs(1);
const PROGRESS: Duration = Duration::from_millis(250);

/// A run while its tasks run.
pub(crate) struct Scheduler<'a> {
    pub ctx: &'a TaskContext,
    pub executor: &'a mut dyn Executor,
    pub options: &'a RunOptions,
    pub events: &'a mut dyn FnMut(&Event),
    pub cancel: &'a AtomicBool,
    pub log: &'a mut Log,
    pub lease: &'a Lease,
    pub report: &'a mut RunReport,
    pub sums: &'a mut Sums,
    /// Chunks of an earlier run.
    pub have: Reports,
    ready: Readiness<'a>,
    attempts: Attempts,
    durations: Durations,
    later: Vec<(Moment, usize, u64)>,
    failure: Option<TaskError>,
    told_usage: Moment,
    meter: Meter,
    deleted: HashSet<String>,
    behind: Behind<'a>,
    /// Whether anything was saved, or nothing can be.
    saves: Option<bool>,
}

/// What the scheduler gets from a run.
pub(crate) struct Parts<'a> {
    pub ctx: &'a TaskContext,
    pub executor: &'a mut dyn Executor,
    pub options: &'a RunOptions,
    pub events: &'a mut dyn FnMut(&Event),
    pub cancel: &'a AtomicBool,
    pub log: &'a mut Log,
    pub lease: &'a Lease,
    pub report: &'a mut RunReport,
    pub sums: &'a mut Sums,
    pub have: Reports,
    pub ready: Readiness<'a>,
}

impl<'a> Scheduler<'a> {
    pub fn new(parts: Parts<'a>) -> Scheduler<'a> {
        let Parts { ctx, executor, options, events, cancel, log, lease, report, sums, have, ready } = parts;
        let meter = Meter::new(&ctx.plan, &ready.done);
        let behind = Behind::new(&ctx.plan);
        let durations = Durations::new(ctx.plan.stages.len());
        let (attempts, later, deleted) = (Attempts::default(), Vec::new(), HashSet::new());
        Scheduler {
            ctx,
            executor,
            options,
            events,
            cancel,
            log,
            lease,
            report,
            sums,
            have,
            ready,
            attempts,
            durations,
            later,
            failure: None,
            told_usage: Moment::now(),
            meter,
            deleted,
            behind,
            saves: None,
        }
    }

    /// Runs every task.
    ///
    /// # Errors
    /// The first failure that cannot be repaired, after the running tasks have ended. Also an error if the run was cancelled.
    pub fn run(mut self) -> Result<(), RunError> {
        let mut told = false;
        loop {
            let cancelled = self.cancel.load(Ordering::Relaxed);
            let over = cancelled || self.failure.is_some();
            if !told && (cancelled || (over && self.executor.queues())) {
                self.executor.cancel();
                told = true;
            }
            if over {
                if self.attempts.running.is_empty() {
                    break;
                }
            } else {
                self.retry_due();
                self.submit()?;
                if self.attempts.running.is_empty() && self.ready.all_done() {
                    break;
                }
                self.back_up()?;
            }
            let updates = self.executor.wait(TICK)?;
            // The next steps may delete files that another driver needs, if there is one now.
            self.lease.check()?;
            for update in updates {
                self.take(update)?;
            }
            self.look_at_the_clock();
            self.tell_usage();
            if self.meter.is_due(PROGRESS) {
                let progress = self.meter.read(&self.ctx.plan, &self.ready.done, &*self.executor);
                (self.events)(&Event::Progress(progress));
                self.save()?;
            }
        }
        self.executor.settle();
        if self.failure.is_none() && self.ready.all_done() {
            let rest = self.behind.rest();
            self.delete(&rest)?;
        }
        // Late copies may have written to arrays that were deleted.
        if self.report.backups + self.report.retries > 0 || self.saves == Some(true) {
            for name in &self.deleted {
                self.ctx.clear(name).map_err(crate::driver::unusable)?;
            }
        }
        match self.failure {
            Some(e) => Err(RunError::Task { source: Box::new(e), outputs: Vec::new() }),
            None if !self.ready.all_done() => Err(RunError::Cancelled),
            None => Ok(()),
        }
    }

    fn tell_usage(&mut self) {
        if self.told_usage.elapsed() < USAGE {
            return;
        }
        self.told_usage = Moment::now();
        if let Some(usage) = self.executor.usage() {
            (self.events)(&Event::Used(usage));
        }
    }

    fn retry_due(&mut self) {
        let (now, ready) = (Moment::now(), &mut self.ready);
        self.later.retain(|&(when, s, t)| {
            let due = when <= now;
            if due {
                ready.again(s, t);
            }
            !due
        });
    }

    fn submit(&mut self) -> Result<(), RunError> {
        let mut work = Vec::new();
        for _ in 0..self.executor.room() {
            let Some((s, t)) = self.ready.next() else { break };
            let need = task_need(self.ctx, s, t);
            if !self.executor.admit(need)? {
                self.ready.again(s, t);
                if work.is_empty() && self.attempts.running.is_empty() {
                    return Err(RunError::Executor(
                        "tasks that hang hold the memory that the next task needs; run again with --resume".into(),
                    ));
                }
                break;
            }
            work.push(self.assignment(s, t, need));
        }
        if work.is_empty() { Ok(()) } else { self.executor.submit(work) }
    }

    fn assignment(&mut self, stage: usize, task: u64, need: u64) -> Assignment {
        let attempt = self.attempts.start(stage, task, self.executor.queues());
        let alone = self.attempts.failures.get(&(stage, task)).is_some_and(|f| f.killed());
        Assignment { attempt, stage, task, need, alone, have: self.left(stage, task) }
    }

    /// The chunks of a task from an earlier run.
    fn left(&self, stage: usize, task: u64) -> Vec<WrittenChunk> {
        if self.have.is_empty() {
            return Vec::new();
        }
        let s = &self.ctx.plan.stages[stage];
        let mut found = Vec::new();
        for (output, region) in s.outputs.iter().zip(s.task_regions(task)) {
            for index in self.ctx.plan.arrays[&output.array].grid.touched(&region).indices() {
                found.extend(self.have.get(&(output.array.clone(), index)).cloned());
            }
        }
        found
    }

    /// Starts second copies of tasks that take much longer than their siblings, if workers are idle.
    fn back_up(&mut self) -> Result<(), RunError> {
        let o = self.options;
        if o.backup_share <= 0.0 || !self.executor.separate() || self.executor.room() == 0 {
            return Ok(());
        }
        let most = (o.backup_share * self.report.tasks as f64).ceil() as u64;
        if self.report.backups >= most {
            return Ok(());
        }
        let mut worst: Option<(f64, f64, usize, u64)> = None;
        for a in self.attempts.running.values().filter(|a| a.stopped.is_none()) {
            let Some(seconds) = a.started.map(|t| t.elapsed().as_secs_f64()) else { continue };
            let Some((median, limit)) = self.durations.limit(a.stage, o.backup_deviations, o.backup_after.as_secs_f64()) else { continue };
            if seconds > limit && worst.is_none_or(|w| w.0 < seconds / limit) && self.attempts.copies(a.stage, a.task) == 1 {
                worst = Some((seconds / limit, median, a.stage, a.task));
            }
        }
        let Some((_, median, stage, task)) = worst else { return Ok(()) };
        let need = task_need(self.ctx, stage, task);
        if !self.executor.admit(need)? {
            return Ok(());
        }
        let first = self.attempts.of(stage, task).first().and_then(|a| self.attempts.running[a].started);
        let seconds = first.map_or(0.0, |t| t.elapsed().as_secs_f64());
        let work = self.assignment(stage, task, need);
        self.report.backups += 1;
        (self.events)(&Event::TaskBackup { stage, task, seconds, median });
        self.executor.submit(vec![work])
    }

    /// Stops attempts that exceed their time limit.
    fn look_at_the_clock(&mut self) {
        for (&id, a) in &mut self.attempts.running {
            let ran = a.started.map_or(Duration::ZERO, |t| t.elapsed());
            match a.stopped {
                None if self.options.task_timeout.is_some_and(|limit| ran > limit) => {
                    a.stopped = Some((Moment::now(), Stopped::Late(ran.as_secs_f64())));
                    self.executor.stop(id, true);
                }
                Some((when, Stopped::Superseded)) if when.elapsed() > PATIENCE => self.executor.stop(id, true),
                _ => {}
            }
        }
    }

    fn take(&mut self, update: Update) -> Result<(), RunError> {
        match update {
            Update::Started { attempt } => {
                if let Some(a) = self.attempts.running.get_mut(&attempt) {
                    a.started.get_or_insert_with(Moment::now);
                }
            }
            Update::Wrote(chunk) => self.log.add(&chunk)?,
            Update::Warning(message) => (self.events)(&Event::Warning { message }),
            Update::Ended { attempt, result } => {
                let Some(a) = self.attempts.end(attempt) else { return Ok(()) };
                let result = match (result, a.stopped) {
                    (Err(_), Some((_, Stopped::Late(seconds)))) => Err(TaskError::Timeout { stage: a.stage, task: a.task, seconds }),
                    (other, _) => other,
                };
                match result {
                    Ok(report) => self.succeeded(a.stage, a.task, report)?,
                    Err(e) => self.failed(a.stage, a.task, e),
                }
            }
        }
        Ok(())
    }

    fn succeeded(&mut self, stage: usize, task: u64, r: TaskReport) -> Result<(), RunError> {
        if self.ready.done[stage].get(task) {
            return Ok(());
        }
        self.log.add(&r)?;
        r.written.iter().for_each(|w| self.sums.add(&self.ctx.plan, w));
        self.durations.add(stage, r.seconds);
        let outputs = &self.ctx.plan.stages[stage].outputs;
        let bytes = |array: &str| r.written.iter().filter(|w| w.array == array).map(|w| w.bytes).sum();
        self.behind.finished(stage, r.seconds, outputs.iter().map(|o| (o.array.as_str(), bytes(&o.array))));
        self.report.tasks += 1;
        self.report.bytes_read += r.bytes_read;
        self.report.task_seconds[stage] += r.seconds;
        self.report.requests[stage] = self.report.requests[stage].plus(r.requests);
        let bytes_written = r.written.iter().map(|w| w.bytes).sum();
        self.report.bytes_written += bytes_written;
        (self.events)(&Event::TaskFinished { stage, task, bytes_read: r.bytes_read, bytes_written, seconds: r.seconds });
        self.ready.finish(stage, task);
        for other in self.attempts.of(stage, task) {
            if let Some(a) = self.attempts.running.get_mut(&other) {
                a.stopped = Some((Moment::now(), Stopped::Superseded));
            }
            self.executor.stop(other, false);
        }
        if !self.options.keep && self.ready.done[stage].all() { self.delete_unneeded() } else { Ok(()) }
    }

    fn failed(&mut self, stage: usize, task: u64, e: TaskError) {
        // Another attempt has finished the task, or still may.
        if self.ready.done[stage].get(task) || self.attempts.copies(stage, task) > 0 {
            return;
        }
        if e.class() == ErrorClass::Cancelled {
            // The task was handed back.
            self.ready.again(stage, task);
            return;
        }
        match self.attempts.failures.entry((stage, task)).or_default().again(&e, self.options.retries, task) {
            Some(wait) => {
                self.report.retries += 1;
                let (error, class) = (e.to_string(), e.class().name());
                (self.events)(&Event::TaskRetried { stage, task, error, class, wait: wait.as_secs_f64() });
                self.later.push((Moment::now().after(wait), stage, task));
            }
            None if self.failure.is_none() => self.failure = Some(e),
            None => {}
        }
    }

    /// Deletes the intermediates that only finished stages read.
    fn delete_unneeded(&mut self) -> Result<(), RunError> {
        let ctx = self.ctx;
        for (name, array) in &ctx.plan.arrays {
            if array.role != ArrayRole::Intermediate || self.deleted.contains(name) {
                continue;
            }
            let uses = |s: &chunkwise_plan::Stage| s.reads().any(|a| a == name) || s.outputs.iter().any(|o| o.array == *name);
            if self.ctx.plan.stages.iter().zip(&self.ready.done).filter(|(s, _)| uses(s)).all(|(_, d)| d.all()) {
                self.deleted.insert(name.clone());
                self.behind.pass(name);
            }
        }
        self.delete_passed()
    }

    /// Deletes the intermediates that no task reads, unless too much would be lost if this run were killed.
    fn delete_passed(&mut self) -> Result<(), RunError> {
        let unsaved = if self.behind.looks() { self.unsaved() } else { HashMap::new() };
        let arrays = self.behind.unneeded(&self.ready.done, &unsaved);
        self.delete(&arrays)
    }

    fn delete(&mut self, arrays: &[&str]) -> Result<(), RunError> {
        for array in arrays {
            self.ctx.clear(array).map_err(crate::driver::unusable)?;
            (self.events)(&Event::ArrayDeleted { array: array.to_string() });
        }
        Ok(())
    }

    /// The prefix of the names of an array's objects.
    fn place(&self, array: &str) -> String {
        format!("{}/", self.ctx.array_location(array).to_string().trim_end_matches('/'))
    }

    /// For each array, its bytes that are only in memory.
    fn unsaved(&self) -> HashMap<String, u64> {
        let names: Vec<String> = self.behind.arrays().map(String::from).collect();
        let places: Vec<String> = names.iter().map(|n| self.place(n)).collect();
        names.into_iter().zip(self.executor.unsaved(&places)).collect()
    }

    /// Writes intermediates to storage while tasks run, if their loss would cost too much.
    fn save(&mut self) -> Result<(), RunError> {
        if !self.behind.looks() || self.saves == Some(false) {
            return Ok(());
        }
        self.delete_passed()?;
        let unsaved = self.unsaved();
        let Some((array, bytes)) = self.behind.next(&self.ready.done, &unsaved) else { return Ok(()) };
        let array = self.place(array);
        self.saves = Some(true);
        if let Err(e) = self.executor.save(&array, bytes) {
            // The run goes on without saving.
            self.saves = Some(false);
            let message = format!("intermediates are in memory only, and would be lost if the run were killed: {e}");
            (self.events)(&Event::Warning { message });
        }
        Ok(())
    }
}
