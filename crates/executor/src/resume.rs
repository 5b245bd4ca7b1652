//! Which tasks are done, decided by what storage holds.

use crate::log::Reports;
use crate::readiness::Done;
use chunkwise_storage::StorageError;
use chunkwise_task::TaskContext;
use std::collections::{HashMap, HashSet};

/// A task is done when every stored chunk of its outputs is there, with the size that its report says. A zero-length, torn or
/// unreported chunk counts as missing. A stage whose intermediates were already deleted is done when all that read them are.
///
/// The second result is the chunks that are there, also of tasks that are not done.
pub(crate) fn finished(ctx: &TaskContext, mut reports: Reports) -> Result<(Vec<Done>, Reports), StorageError> {
    let stages = &ctx.plan.stages;
    let mut stored: HashMap<&str, HashMap<Vec<u64>, u64>> = HashMap::new();
    for o in stages.iter().flat_map(|s| &s.outputs) {
        stored.insert(&o.array, ctx.array(&o.array).stored_chunks()?);
    }
    reports.retain(|(array, chunk), w| {
        w.bytes > 0 && stored.get(array.as_str()).and_then(|s| s.get(chunk)).is_some_and(|&size| size == w.bytes)
    });
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
    for s in (0..stages.len()).rev() {
        let outputs: HashSet<&str> = stages[s].outputs.iter().map(|o| o.array.as_str()).collect();
        let temporary = outputs.iter().all(|a| ctx.plan.arrays[*a].role == chunkwise_plan::ArrayRole::Intermediate);
        let mut readers = (s + 1..stages.len()).filter(|&r| stages[r].reads().any(|a| outputs.contains(a))).peekable();
        if temporary && readers.peek().is_some() && readers.all(|r| all[r].all()) {
            all[s].set_all();
        }
    }
    Ok((all, reports))
}
