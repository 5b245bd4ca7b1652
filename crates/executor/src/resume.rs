//! Finds out which tasks are done, by what is stored.

use crate::log::Reports;
use crate::needs::Producers;
use crate::readiness::Done;
use chunkwise_plan::ArrayRole;
use chunkwise_storage::{StorageError, StoredChunk, at_once};
use chunkwise_task::TaskContext;
use std::collections::HashMap;

/// A task is done when every stored chunk of its outputs exists as its report says: with the same size and, in files, the same checksum, or
/// in object stores the same entity tag. A chunk that is empty, torn, changed or not reported counts as missing. A task also counts as done
/// if its intermediates are not needed any more.
///
/// The second result is the existing chunks, including those of unfinished tasks.
pub(crate) fn finished(ctx: &TaskContext, mut reports: Reports) -> Result<(Vec<Done>, Reports), StorageError> {
    let stages = &ctx.plan.stages;
    let mut stored: HashMap<&str, HashMap<Vec<u64>, StoredChunk>> = HashMap::new();
    for o in stages.iter().flat_map(|s| &s.outputs) {
        stored.insert(&o.array, ctx.array(&o.array).tagged_chunks()?);
    }
    let same = |a: &Option<String>, b: &Option<String>| a.is_none() || b.is_none() || a == b;
    reports.retain(|(array, chunk), w| {
        let found = stored.get(array.as_str()).and_then(|s| s.get(chunk));
        w.bytes > 0 && found.is_some_and(|s| s.bytes == w.bytes && same(&s.etag, &w.etag))
    });
    forget_damaged(ctx, &mut reports)?;
    let mut all: Vec<Done> = Vec::new();
    for stage in stages {
        let mut done = Done::new(stage.tasks());
        for task in 0..stage.tasks() {
            let whole = stage.outputs.iter().zip(stage.task_regions(task)).all(|(o, region)| {
                let touched = ctx.plan.arrays[&o.array].grid.touched(&region);
                (0..touched.volume()).all(|k| {
                    let index: Vec<u64> =
                        chunkwise_types::unravel(k, &touched.shape).iter().zip(&touched.start).map(|(a, b)| a + b).collect();
                    reports.contains_key(&(o.array.clone(), index))
                })
            });
            if whole {
                done.set(task);
            }
        }
        all.push(done);
    }
    skip_unneeded(ctx, &mut all);
    Ok((all, reports))
}

/// Forgets chunks in files whose content has changed. Object stores keep checksums themselves, and entity tags tell which objects were
/// replaced.
fn forget_damaged(ctx: &TaskContext, reports: &mut Reports) -> Result<(), StorageError> {
    let local = |array: &str| !ctx.array_location(array).is_remote();
    let chunks: Vec<_> = reports.iter().filter(|((array, _), _)| local(array)).collect();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(READERS);
    let parts: Vec<&[_]> = chunks.chunks(chunks.len().div_ceil(threads).max(1)).collect();
    let damaged = at_once(&parts, |part| {
        let mut found = Vec::new();
        for (key, written) in part.iter() {
            if ctx.array(&key.0).chunk_sum(&key.1)? != u64::from_str_radix(&written.xxh3, 16).ok() {
                found.push((*key).clone());
            }
        }
        Ok(found)
    });
    for part in damaged {
        for key in part? {
            reports.remove(&key);
        }
    }
    Ok(())
}

/// The largest number of threads that read files. More threads would not make a disk faster.
const READERS: usize = 16;

/// The largest number of tasks whose needs are examined. Each takes some microseconds.
const LOOKED_UP: u64 = 200_000;

/// Marks tasks as done if their results are not needed any more: those of intermediates that only finished tasks read.
fn skip_unneeded(ctx: &TaskContext, all: &mut [Done]) {
    let plan = &ctx.plan;
    let producers = Producers::new(plan);
    let temporary = |s: usize| plan.stages[s].outputs.iter().all(|o| plan.arrays[&o.array].role == ArrayRole::Intermediate);
    let readers = |s: usize| (s + 1..plan.stages.len()).any(|r| plan.stages[r].reads().any(|a| producers.of(a) == Some(s)));
    let (mut needed, mut left): (Vec<Done>, u64) = (plan.stages.iter().map(|s| Done::new(s.tasks())).collect(), LOOKED_UP);
    for s in (0..plan.stages.len()).rev() {
        if temporary(s) && readers(s) {
            (0..plan.stages[s].tasks()).filter(|&t| !needed[s].get(t)).for_each(|t| all[s].set(t));
        }
        let undone = plan.stages[s].tasks() - all[s].count();
        if undone > left {
            // Everything that it reads may be needed.
            plan.stages[s].reads().filter_map(|a| producers.of(a)).for_each(|p| needed[p].set_all());
            continue;
        }
        left -= undone;
        for t in (0..plan.stages[s].tasks()).filter(|&t| !all[s].get(t)) {
            producers.find::<()>(plan, s, t, &temporary, &mut |p, task| {
                needed[p].set(task);
                None
            });
        }
    }
}
