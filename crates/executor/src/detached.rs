//! Runs without a driver. A state machine, a scheduler or a person has the tasks run, stage by stage. This module does the work of a driver
//! before the first task and after the last one. Everything is in storage; nothing is remembered between these calls.

use crate::checksums::Sums;
use crate::driver::{begin, outputs, publish, unusable};
use crate::executors::answers;
use crate::function::{CANCELLED, StageBatches, StageStatus};
use crate::lease::Lease;
use crate::readiness::Done;
use crate::worker::{Answer, REPORTS};
use crate::{RunError, run_folder};
use chunkwise_plan::ArrayRole;
use chunkwise_storage::{Location, Stores};
use chunkwise_task::{Inputs, TaskContext};
use std::cmp::Reverse;

/// The largest number of batches of all stages together: a state machine carries them in a document of 256 KiB.
const MOST_BATCHES: u64 = 4000;
/// Bytes that a batch reads and writes, if tasks are small.
const BATCH_BYTES: u64 = 256 << 20;
/// Tasks of a batch, if tasks are small.
const BATCH_TASKS: u64 = 1000;
/// How many objects with reports are searched for failures, and how many failures are returned.
const LOOKED_AT: usize = 256;
const TOLD: usize = 20;

/// Prepares a run. Outputs that are replaced are deleted, the plan is stored, and the tasks are cut into batches of `batch` tasks. Without
/// `batch`, a suitable number is chosen.
///
/// # Errors
/// When an output exists and must not be replaced, or another process drives this run now.
pub fn start(ctx: &TaskContext, resume: bool, overwrite: bool, batch: Option<u64>) -> Result<Vec<StageBatches>, RunError> {
    run_folder::prepare(&ctx.plan)?;
    let lease = Lease::take(ctx.stores(), &ctx.run_dir)?;
    Ok(batches(ctx, &begin(ctx, lease.as_ref(), false, resume, overwrite, &Default::default(), &Default::default())?.done, batch))
}

/// The batches of a new run.
pub fn preview(ctx: &TaskContext, batch: Option<u64>) -> Vec<StageBatches> {
    let done: Vec<Done> = ctx.plan.stages.iter().map(|s| Done::new(s.tasks())).collect();
    batches(ctx, &done, batch)
}

fn batches(ctx: &TaskContext, done: &[Done], batch: Option<u64>) -> Vec<StageBatches> {
    let stages = &ctx.plan.stages;
    let most = (MOST_BATCHES / stages.len().max(1) as u64).max(1);
    let of = |(index, (stage, done)): (usize, (&chunkwise_plan::Stage, &Done))| {
        let tasks = stage.tasks();
        let left = tasks - done.count();
        let bytes = stage.cost.bytes_read.saturating_add(stage.cost.bytes_written) / tasks.max(1);
        let size = batch.unwrap_or((BATCH_BYTES / bytes.max(1)).clamp(1, BATCH_TASKS)).max(left.div_ceil(most)).max(1);
        StageBatches {
            stage: index,
            name: stage.name.clone(),
            tasks,
            done: done.count(),
            projected_mem: stage.projected_mem,
            batches: cut((0..tasks).filter(|t| !done.get(*t)), size),
        }
    };
    stages.iter().zip(done).enumerate().map(of).collect()
}

/// Ranges that hold `size` of the tasks each. Finished tasks between them are run again, which does no harm.
fn cut(tasks: impl Iterator<Item = u64>, size: u64) -> Vec<[u64; 2]> {
    let (mut out, mut held) = (Vec::<[u64; 2]>::new(), 0);
    for t in tasks {
        match out.last_mut() {
            // A long stretch of finished tasks is not run again.
            Some(r) if held < size && t - r[1] < size => (r[1], held) = (t + 1, held + 1),
            _ => {
                out.push([t, t + 1]);
                held = 1;
            }
        }
    }
    out
}

/// Publishes the outputs, and deletes the intermediates unless they are kept. Returns the URLs of the outputs.
///
/// # Errors
/// When a chunk is missing. Then the output is not published, and the message says to resume.
pub fn finish(ctx: &TaskContext) -> Result<Vec<String>, RunError> {
    let mut urls = Vec::new();
    let inputs = Inputs::of_run(ctx)?;
    publish(ctx, &Sums::new(&ctx.plan), inputs.as_ref(), &|| Ok(()), &mut |url| urls.push(url.to_string()))?;
    Ok(urls)
}

/// Deletes the intermediates of a run that is finished.
///
/// # Errors
/// When storage fails.
pub fn delete_intermediates(ctx: &TaskContext) -> Result<(), RunError> {
    for (name, _) in ctx.plan.arrays.iter().filter(|(_, a)| a.role == ArrayRole::Intermediate) {
        ctx.clear(name).map_err(unusable)?;
    }
    Ok(())
}

/// The progress of a run.
pub struct Progress {
    /// The stages.
    pub stages: Vec<StageStatus>,
    /// `planned`, `unfinished`, `cancelled` or `published`.
    pub state: &'static str,
    /// The last reported failures, the newest first.
    pub failures: Vec<String>,
}

/// Finds out how much of a run is stored. Listing takes a request for each thousand chunks.
///
/// # Errors
/// When storage fails.
pub fn progress(ctx: &TaskContext) -> Result<Progress, RunError> {
    let mut stages = Vec::new();
    for (index, stage) in ctx.plan.stages.iter().enumerate() {
        let (mut chunks, mut stored) = (0, 0);
        for o in &stage.outputs {
            chunks += ctx.plan.arrays[&o.array].grid.count();
            stored += ctx.array(&o.array).count_stored()?.0;
        }
        stages.push(StageStatus { stage: index, name: stage.name.clone(), tasks: stage.tasks(), chunks, stored });
    }
    let store = ctx.stores().open(&ctx.run_dir)?;
    let mut published = true;
    for name in outputs(ctx) {
        let store = ctx.stores().open(ctx.array_location(name))?;
        published &= store.get("zarr.json")?.is_some() || store.get(".zarray")?.is_some();
    }
    let state = if published {
        "published"
    } else if store.get(CANCELLED)?.is_some() {
        "cancelled"
    } else if stages.iter().any(|s| s.stored > 0) {
        "unfinished"
    } else {
        "planned"
    };
    let mut failures = Vec::new();
    if !published {
        let mut keys: Vec<String> = store.list(REPORTS)?.into_iter().map(|(k, _)| k).collect();
        // The newest come first, because they tell what has failed now. Others may come from a time before a resume.
        keys.sort_by_cached_key(|k| Reverse(age(k)));
        keys.truncate(LOOKED_AT);
        for data in store.get_all(&keys)?.into_iter().flatten() {
            for answer in answers(&data).into_iter().rev() {
                if let Answer::Failed { detail, .. } = answer
                    && failures.len() < TOLD
                {
                    failures.push(detail);
                }
            }
        }
    }
    Ok(Progress { stages, state, failures })
}

/// When a share of a stage was begun, and the number of this object among its reports. Names begin with a process, whose number means
/// nothing, or with the caller's name of the share. So the time and the number are searched from the end.
fn age(key: &str) -> (u128, u64) {
    let mut parts = key.strip_suffix(".jsonl").unwrap_or(key).rsplit('-');
    let number = parts.next().and_then(|n| n.parse().ok()).unwrap_or(0);
    (parts.next().and_then(|t| u128::from_str_radix(t, 16).ok()).unwrap_or(0), number)
}

/// Tells functions that run tasks of a run to hand back their unfinished tasks.
///
/// # Errors
/// When storage fails.
pub fn cancel(stores: &Stores, run: &Location) -> Result<(), RunError> {
    Ok(stores.open(run)?.put(CANCELLED, &b"{}"[..])?)
}

/// True if the run was cancelled.
///
/// # Errors
/// When storage fails.
pub fn is_cancelled(stores: &Stores, run: &Location) -> Result<bool, RunError> {
    Ok(stores.open(run)?.size(CANCELLED)?.is_some())
}

/// Deletes the files of a run in its folder, and returns the number of deleted objects. Outputs stay.
///
/// # Errors
/// When the folder does not belong to a run, another process drives the run now, or storage fails.
pub fn clean(stores: &Stores, run: &Location) -> Result<u64, RunError> {
    Ok(run_folder::clean(stores, run)?.objects)
}

#[cfg(test)]
mod tests {
    use super::{age, cut};

    #[test]
    fn reports_are_in_the_order_of_their_times() {
        let mut keys = ["reports/9-18ff-000001.jsonl", "reports/1a_2/10-1900-000000.jsonl", "reports/9-18ff-000000.jsonl", "reports/x"];
        keys.sort_by_key(|k| age(k));
        assert_eq!(keys, ["reports/x", "reports/9-18ff-000000.jsonl", "reports/9-18ff-000001.jsonl", "reports/1a_2/10-1900-000000.jsonl"]);
    }

    #[test]
    fn every_task_is_in_a_batch() {
        assert_eq!(cut(0..10, 4), [[0, 4], [4, 8], [8, 10]]);
        assert_eq!(cut(std::iter::empty(), 4), [[0u64; 2]; 0]);
        let left = [0, 1, 5, 6, 7, 100, 102, 103, 104, 105];
        let found = cut(left.into_iter(), 4);
        assert_eq!(found, [[0, 7], [7, 8], [100, 105], [105, 106]]);
        assert!(left.iter().all(|t| found.iter().any(|[a, b]| (a..b).contains(&t))));
    }
}
