//! The driver: it prepares a run before the first task, and publishes the outputs after the last one. In between, the scheduler works.

use crate::checksums::{self, Sums};
use crate::claims::{self, Claims, NOTES};
use crate::edited::{self, DEFINITIONS, Definitions};
use crate::executors::Executor;
use crate::function::CANCELLED;
use crate::groups;
use crate::lease::Lease;
use crate::log::{Log, Reports, read_reports};
use crate::readiness::{Done, Readiness};
use crate::scheduler::{Parts, Scheduler};
use crate::worker::REPORTS;
use crate::{Event, RunError, RunReport, StageInfo, inputs, replace, resume, run_folder};
use chunkwise_plan::{ArrayRole, Requests};
use chunkwise_storage::{REPLACED, StorageError, at_once, check_readable, check_writable};
use chunkwise_task::{Inputs, TaskContext, TaskError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
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
    /// How often a task is tried again after a failure that may pass, and, counted separately, after its worker was lost.
    pub retries: u32,
    /// How long one attempt at a task may take.
    pub task_timeout: Option<Duration>,
    /// The largest number of second copies of slow tasks, as a fraction of the finished tasks. 0: no copies.
    pub backup_share: f64,
    /// The definitions in the pipeline. A resumed run compares them.
    pub definitions: Definitions,
    /// Objects that workers read beside the plan, by their keys in the folder of the run. They are deleted with it.
    pub attachments: BTreeMap<String, Vec<u8>>,
    /// A task is slow if it runs this many deviations longer than the median of its stage,
    pub backup_deviations: f64,
    /// and at least this long.
    pub backup_after: Duration,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions {
            resume: false,
            overwrite: false,
            keep: false,
            retries: 3,
            task_timeout: None,
            backup_share: 0.05,
            definitions: Definitions::new(),
            attachments: BTreeMap::new(),
            backup_deviations: 5.0,
            backup_after: Duration::from_secs(5),
        }
    }
}

/// Runs plans.
pub struct Driver;

/// Resident memory of this process in bytes, now and at its peak; 0 if the system does not say.
pub(crate) fn memory() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let bytes = |name: &str| {
        let kb = status.lines().find_map(|l| l.strip_prefix(name)?.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kb.map_or(0, |kb| kb * 1024)
    };
    (bytes("VmRSS:"), bytes("VmHWM:"))
}

/// Largest resident memory of this process so far, in bytes; 0 if the system does not say.
pub fn peak_memory() -> u64 {
    memory().1
}

/// A failure outside of the tasks.
pub(crate) fn unusable(e: TaskError) -> RunError {
    RunError::Task { source: Box::new(e), outputs: Vec::new() }
}

/// The names of the outputs of a plan.
pub(crate) fn outputs(ctx: &TaskContext) -> Vec<&str> {
    ctx.plan.arrays.iter().filter(|(_, a)| a.role == ArrayRole::Output).map(|(n, _)| n.as_str()).collect()
}

/// A run that has begun.
pub(crate) struct Begun {
    /// Tasks that are done already.
    pub done: Vec<Done>,
    /// Chunks that exist already.
    pub have: Reports,
    /// True if this continues an earlier run of the plan.
    pub resumed: bool,
    /// Why there is no earlier run to continue, if there should be one.
    pub note: Option<String>,
    /// The claims on the outputs, if the run has a driver.
    pub claims: Option<Claims>,
    /// The inputs at the beginning of the run.
    pub inputs: Inputs,
}

/// The object in a run's folder that says that the run replaces existing outputs. The process that resumes or publishes the run reads it.
pub(crate) const OVERWRITES: &str = "overwrites.json";

/// True if the run was begun with the right to replace outputs.
fn overwrites(ctx: &TaskContext) -> Result<bool, RunError> {
    Ok(ctx.stores().open(&ctx.run_dir)?.get(OVERWRITES)?.is_some())
}

/// Checks that inputs can be read and outputs written. It is better to know this now than after hours.
fn permitted(ctx: &TaskContext) -> Result<(), RunError> {
    let input = |source| RunError::Place { what: "an input cannot be read", source };
    let output = |source| RunError::Place { what: "an output cannot be written", source };
    let mut remote = BTreeMap::new();
    for (name, array) in &ctx.plan.arrays {
        let at = ctx.array_location(name);
        match array.role {
            ArrayRole::Input => check_readable(at).map_err(input)?,
            // One output of each folder: rights to write are given by prefixes.
            ArrayRole::Output if at.is_remote() => {
                remote.entry(at.parent().map(|folder| folder.to_string())).or_insert(at);
            }
            ArrayRole::Output => check_writable(ctx.stores(), at).map_err(output)?,
            ArrayRole::Intermediate => {}
        }
    }
    // Coordinates and metadata are written there at the end.
    for group in groups::places(ctx.stores(), &ctx.plan)?.iter().filter(|g| !g.is_remote()) {
        check_writable(ctx.stores(), group).map_err(output)?;
    }
    let remote: Vec<_> = remote.into_values().collect();
    at_once(&remote, |at| check_writable(ctx.stores(), at)).into_iter().collect::<Result<(), _>>().map_err(output)
}

/// True if something exists at the place of an output.
fn is_there(ctx: &TaskContext, name: &str) -> Result<bool, RunError> {
    let found = ctx.stores().open(ctx.array_location(name))?.list("")?;
    // Notes do not count, and neither do objects with which stores were tried. A replaced array does count.
    Ok(found.iter().any(|(key, _)| !key.starts_with(NOTES) || key.starts_with(REPLACED)))
}

fn nothing_done(ctx: &TaskContext) -> Vec<Done> {
    ctx.plan.stages.iter().map(|s| Done::new(s.tasks())).collect()
}

/// The outputs that have unfinished tasks.
fn undone_outputs<'c>(ctx: &'c TaskContext, done: &[Done]) -> BTreeSet<&'c str> {
    let stages = ctx.plan.stages.iter().zip(done).filter(|(_, d)| !d.all());
    let written = stages.flat_map(|(stage, _)| stage.outputs.iter().map(|o| o.array.as_str()));
    written.filter(|name| ctx.plan.arrays[*name].role == ArrayRole::Output).collect()
}

/// Claims the outputs for a run that has a driver.
fn claim(ctx: &TaskContext, driven: bool) -> Result<Option<Claims>, RunError> {
    let names = outputs(ctx);
    if !driven {
        claims::check(ctx, &names)?;
        return Ok(None);
    }
    Claims::take(ctx, &names).map(Some)
}

/// Fails, with the reason, if a run may not go on.
pub(crate) type Still<'s> = &'s (dyn Fn() -> Result<(), RunError> + Sync);

/// Prepares the outputs and the folder of a run, with or without a driver.
pub(crate) fn begin(
    ctx: &TaskContext,
    lease: Option<&Lease>,
    driven: bool,
    resume: bool,
    overwrite: bool,
    definitions: &Definitions,
    attachments: &BTreeMap<String, Vec<u8>>,
) -> Result<Begun, RunError> {
    let still = || lease.map_or(Ok(()), Lease::check);
    let began_there = || lease.map_or(Ok(None), Lease::renewed_at);
    run_folder::check(&ctx.run_dir)?;
    let store = ctx.stores().open(&ctx.run_dir)?;
    // Anything that exists without a run of this plan is not ours. Workers leave reports even if there was no driver before.
    let planned = resume && store.get(run_folder::PLAN)?.is_some();
    let resumed = planned || resume && !store.list(REPORTS)?.is_empty();
    let mut note = None;
    let mut replaces = overwrite;
    let (claims, inputs);
    let mut files = vec![run_folder::marker(&ctx.run_dir)];
    let (done, have) = if resumed {
        permitted(ctx)?;
        replace::check_apart(ctx.stores(), &ctx.plan)?;
        replaces |= overwrites(ctx)?;
        groups::check(ctx.stores(), &ctx.plan, replaces)?;
        claims = claim(ctx, driven)?;
        store.delete(CANCELLED)?;
        let (mut done, mut have) = resume::finished(ctx, read_reports(ctx.stores(), &ctx.run_dir)?)?;
        let known = Inputs::of_run(ctx)?;
        // Without a driver, workers that were started by hand have left reports, but the state of the inputs was not recorded.
        if planned && known.is_none() && inputs::matter(&ctx.plan, &done, &have) {
            note = Some(format!("'{}', which says what the inputs were, is gone or damaged: all tasks are run again", Inputs::OBJECT));
            still()?;
            claims.as_ref().map_or(Ok(()), Claims::check)?;
            run_folder::clear(ctx.stores(), &ctx.run_dir)?;
            (done, have) = (nothing_done(ctx), Reports::new());
        }
        inputs = inputs::go_on(ctx, known, began_there()?, &done, &mut have)?;
        // Another run may have replaced and published them since. While they have chunks of both runs, no reader may open them.
        let undone: Vec<_> = undone_outputs(ctx, &done).into_iter().collect();
        let unpublished = at_once(&undone, |name| {
            lease.map_or(Ok(()), Lease::check)?;
            claims.as_ref().map_or(Ok(()), Claims::check)?;
            ctx.unpublish(name).map_err(unusable)
        });
        unpublished.into_iter().collect::<Result<(), RunError>>()?;
        (done, have)
    } else {
        let names = outputs(ctx);
        let mut replaced = Vec::new();
        let mut new = Vec::new();
        let there = at_once(&names, |name| is_there(ctx, name));
        for (name, there) in names.iter().zip(there) {
            let (url, there) = (ctx.array_location(name), there?);
            if !there {
                new.push(*name);
            }
            if there && !overwrite && resume {
                return Err(edited::refusal(ctx, url.to_string(), definitions)?);
            }
            if there && !overwrite {
                return Err(RunError::OutputExists { url: url.to_string() });
            }
            // Folders may be left of what a filesystem held.
            if there || !url.is_remote() {
                replaced.push(*name);
            }
        }
        if resume && !overwrite {
            note = edited::note(ctx, definitions)?;
        }
        // This comes before anything is deleted or computed.
        permitted(ctx)?;
        groups::check(ctx.stores(), &ctx.plan, overwrite)?;
        replace::look(ctx, &replaced)?;
        replace::check_apart(ctx.stores(), &ctx.plan)?;
        inputs = inputs::look(ctx, began_there()?)?;
        claims = claim(ctx, driven)?;
        // Another run may have ended since they were checked. Now that they are claimed, they cannot change any more.
        for (name, there) in new.iter().zip(at_once(&new, |name| is_there(ctx, name))) {
            match there? {
                true if !overwrite => return Err(RunError::OutputExists { url: ctx.array_location(name).to_string() }),
                true if !replaced.contains(name) => replaced.push(*name),
                _ => {}
            }
        }
        let replaced = replace::look(ctx, &replaced)?;
        let still = || still().and_then(|()| claims.as_ref().map_or(Ok(()), Claims::check));
        let made = at_once(&replaced, |(name, owned)| replace::make_room(ctx, name, owned, &still));
        for said in made {
            note = note.or(said?);
        }
        // Also deletes the remains of another run of this plan.
        still()?;
        run_folder::clear(ctx.stores(), &ctx.run_dir)?;
        files.push((Inputs::OBJECT, inputs.bytes()));
        inputs.watch(ctx);
        (nothing_done(ctx), Reports::new())
    };
    // This is written before there is a run that could be resumed: the run has something to delete at its end.
    if replaces {
        files.push((OVERWRITES, b"{}".to_vec()));
    }
    if !definitions.is_empty() {
        files.push((DEFINITIONS, serde_json::to_vec_pretty(definitions).unwrap_or_default()));
    }
    files.extend(attachments.iter().map(|(key, data)| (key.as_str(), data.clone())));
    // `None` stands for aborting the uploads that are no longer of use.
    let first: Vec<_> = files.iter().map(Some).chain([None]).collect();
    let written = at_once(&first, |file| match file {
        Some((key, data)) => store.put(key, &data[..]),
        None => replace::abort_uploads(ctx),
    });
    written.into_iter().collect::<Result<(), StorageError>>()?;
    still()?;
    store.put(run_folder::PLAN, serde_json::to_vec_pretty(&ctx.plan).unwrap_or_default())?;
    Ok(Begun { done, have, resumed, note, claims, inputs })
}

/// Writes the checksums of every output, of which `sums` are known. Only when all outputs are whole, it writes their metadata, and then the
/// coordinates and metadata of their groups. `inputs` are those of the beginning of the run, if they are known.
pub(crate) fn publish(
    ctx: &TaskContext,
    sums: &Sums,
    inputs: Option<&Inputs>,
    still: Still<'_>,
    tell: &mut dyn FnMut(&str),
) -> Result<(), RunError> {
    still()?;
    let names = outputs(ctx);
    // Checks and writes that happen at the same time: the inputs, the checksums, each output.
    enum Before<'n> {
        Inputs,
        Checksums,
        Output(&'n str),
    }
    let before: Vec<Before<'_>> =
        [Before::Inputs, Before::Checksums].into_iter().chain(names.iter().copied().map(Before::Output)).collect();
    let ready = at_once(&before, |what| {
        let name = match what {
            Before::Inputs => return inputs.map_or(Ok(()), |i| i.check_end(ctx)).map(|()| None).map_err(unusable),
            Before::Checksums => return checksums::write_outputs(ctx, sums).map(|()| None),
            Before::Output(name) => name,
        };
        let (stored, unfinished) = ctx.array(name).count_stored()?;
        let missing = ctx.plan.arrays[*name].grid.count().saturating_sub(stored);
        if missing > 0 {
            return Err(RunError::Incomplete { array: (*name).into(), missing });
        }
        Ok(Some(*name).filter(|_| unfinished))
    });
    let unfinished = ready.into_iter().collect::<Result<Vec<_>, RunError>>()?;
    // This comes after the checksums are written, which also have no final name until then.
    for name in unfinished.into_iter().flatten() {
        ctx.stores().open(ctx.array_location(name))?.sweep(true)?;
    }
    // Reports of workers that were killed while they wrote them. They are removed only when everything exists, because workers may be
    // active elsewhere.
    ctx.stores().open(&ctx.run_dir.join(REPORTS))?.sweep(false)?;
    replace::abort_uploads(ctx)?;
    let published = at_once(&names, |name| still().and_then(|()| ctx.publish(name).map_err(unusable)));
    for (name, published) in names.iter().zip(published) {
        published?;
        tell(&ctx.array_location(name).to_string());
    }
    let overwrites = overwrites(ctx)?;
    groups::publish(ctx.stores(), &ctx.plan, overwrites, still)?;
    still()?;
    if overwrites { replace::drop_replaced(ctx) } else { Ok(()) }
}

impl Driver {
    /// Removes unfinished files of attempts in the outputs of a run that is done and has no workers left: files of copies that came too
    /// late, and of threads that hung.
    ///
    /// # Errors
    /// When storage fails.
    pub fn sweep(ctx: &TaskContext, report: &RunReport) -> Result<(), RunError> {
        if report.retries + report.backups > 0 {
            at_once(&outputs(ctx), |name| ctx.stores().open(ctx.array_location(name))?.sweep(true))
                .into_iter()
                .collect::<Result<(), _>>()?;
        }
        Ok(())
    }

    /// Runs a plan to its end.
    pub fn run(
        ctx: &TaskContext,
        executor: &mut dyn Executor,
        options: &RunOptions,
        events: &mut dyn FnMut(&Event),
        cancel: &AtomicBool,
    ) -> Result<RunReport, RunError> {
        let started = Instant::now();
        let plan = &ctx.plan;
        // In an object store, the lease is enough.
        if !ctx.run_dir.is_remote() {
            run_folder::prepare(&ctx.plan)?;
            check_writable(ctx.stores(), &ctx.run_dir)
                .map_err(|source| RunError::Place { what: "the work directory cannot be written", source })?;
        }
        let Some(mut lease) = Lease::take(ctx.stores(), &ctx.run_dir)? else {
            return Err(RunError::Executor(format!("the work directory '{}' is no folder", ctx.run_dir)));
        };
        let begun = begin(ctx, Some(&lease), true, options.resume, options.overwrite, &options.definitions, &options.attachments)?;
        let Begun { done, have, resumed, note, claims, inputs } = begun;
        lease.claims = claims;
        executor.guard(lease.fence());
        let mut log = Log::open(ctx.stores(), &ctx.run_dir, !resumed)?;
        if let Some(journal) = log.journal() {
            executor.keep(journal);
        }
        let mut sums = Sums::new(plan);
        have.values().for_each(|w| sums.add(plan, w));
        let mut report = RunReport {
            id: plan.id(),
            executor: executor.name().into(),
            skipped: done.iter().map(Done::count).sum(),
            task_seconds: vec![0.0; plan.stages.len()],
            requests: vec![Requests::default(); plan.stages.len()],
            ..RunReport::default()
        };
        let stages =
            plan.stages.iter().zip(&done).map(|(s, d)| StageInfo { name: s.name.clone(), tasks: s.tasks(), done: d.count() }).collect();
        events(&Event::RunStarted { id: report.id.clone(), stages });
        if let Some(message) = note {
            events(&Event::Warning { message });
        }
        let ready = Readiness::new(ctx, done);
        let (log_, lease_, report_, sums_) = (&mut log, &lease, &mut report, &mut sums);
        let parts = Parts { ctx, executor, options, events, cancel, log: log_, lease: lease_, report: report_, sums: sums_, have, ready };
        let result = Scheduler::new(parts).run();
        log.flush()?;
        // Otherwise the next run would have to make again what is only in memory. Publishing needs memory, too.
        let flushed = executor.flush();
        if result.is_ok() {
            flushed?;
        }
        report.bytes_spilled = executor.spilled();
        report.usage = executor.usage();
        result.map_err(|e| match e {
            RunError::Task { source, .. } => RunError::Task { source, outputs: replace::urls_with_kept(ctx) },
            other => other,
        })?;
        publish(ctx, &sums, Some(&inputs), &|| lease.check(), &mut |url| {
            report.outputs.push(url.to_string());
            events(&Event::ArrayPublished { url: url.to_string() });
        })?;
        report.seconds = started.elapsed().as_secs_f64();
        report.peak_memory = peak_memory().max(executor.peak_memory());
        events(&Event::RunFinished(report.clone()));
        Ok(report)
    }
}
