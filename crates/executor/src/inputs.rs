//! Checks the inputs of a run before its first task. They must be those that the plan was made for, and those that finished tasks have
//! read.

use crate::RunError;
use crate::driver::unusable;
use crate::log::Reports;
use crate::needs::{Producers, reads_one};
use crate::readiness::Done;
use chunkwise_plan::{ArrayRole, Plan};
use chunkwise_storage::StorageError;
use chunkwise_task::{Inputs, TaskContext, TaskError};
use std::collections::HashSet;

/// The largest number of tasks whose reads are examined. Each takes some microseconds.
const LOOKED_UP: u64 = 200_000;

fn unusable_input(e: TaskError) -> RunError {
    match e {
        TaskError::Open { source, .. } => RunError::Place { what: "an input cannot be used", source },
        other => unusable(other),
    }
}

/// The inputs of a new run. `began_there` is the time by the clock of an object store that it writes to.
///
/// # Errors
/// When an input does not exist, or is not the one that the plan was made for.
pub(crate) fn look(ctx: &TaskContext, began_there: Option<u64>) -> Result<Inputs, RunError> {
    Inputs::look(ctx, began_there).map_err(unusable_input)
}

/// True if anything exists already that may depend on inputs, so that their earlier state matters.
pub(crate) fn matter(plan: &Plan, done: &[Done], have: &Reports) -> bool {
    let anything = !have.is_empty() || done.iter().any(|d| d.count() > 0);
    anything && plan.arrays.values().any(|a| a.role == ArrayRole::Input)
}

/// Checks the inputs of a resumed run; `known` is their earlier state. A chunk that was written since may be read if no finished task
/// depends on it. Then the result is that of the input as it is now, and the chunks of unfinished tasks are made again.
///
/// # Errors
/// When a finished task depends on a chunk that was written since, or an input is another array or does not exist.
pub(crate) fn go_on(
    ctx: &TaskContext,
    known: Option<Inputs>,
    began_there: Option<u64>,
    done: &[Done],
    have: &mut Reports,
) -> Result<Inputs, RunError> {
    let inputs = match known.filter(|_| matter(&ctx.plan, done, have)) {
        Some(mut inputs) => {
            let changed = inputs.changed(ctx, began_there).map_err(unusable_input)?;
            if !changed.is_empty() {
                let used = used(&ctx.plan, done);
                for (name, chunks) in &changed {
                    check(ctx, name, chunks, used.as_deref())?;
                }
                forget_unfinished(&ctx.plan, done, have);
                inputs.keep(ctx)?;
            }
            inputs
        }
        None => {
            let inputs = look(ctx, began_there)?;
            inputs.keep(ctx)?;
            inputs
        }
    };
    inputs.watch(ctx);
    Ok(inputs)
}

/// For each stage, the tasks on which finished ones depend by way of intermediates, and these themselves; `None` if there are too many.
fn used(plan: &Plan, done: &[Done]) -> Option<Vec<Done>> {
    let producers = Producers::new(plan);
    let mut used: Vec<Done> = plan.stages.iter().map(|s| Done::new(s.tasks())).collect();
    let mut left = LOOKED_UP;
    for s in (0..plan.stages.len()).rev() {
        (0..plan.stages[s].tasks()).filter(|&t| done[s].get(t)).for_each(|t| used[s].set(t));
        left = left.checked_sub(used[s].count())?;
        for t in (0..plan.stages[s].tasks()).filter(|&t| used[s].get(t)).collect::<Vec<_>>() {
            producers.find::<()>(plan, s, t, &|_| true, &mut |p, task| {
                used[p].set(task);
                None
            });
        }
    }
    Some(used)
}

/// Refuses changed chunks of an input if a finished task depends on them.
fn check(ctx: &TaskContext, name: &str, chunks: &HashSet<Vec<u64>>, used: Option<&[Done]>) -> Result<(), RunError> {
    let plan = &ctx.plan;
    let refuse = |detail: String| {
        let source = StorageError::InputChanged { url: ctx.array_location(name).to_string(), detail };
        Err(RunError::Place { what: "an input cannot be used", source })
    };
    let Some(used) = used else {
        return refuse(format!("{} of its chunks were written after the run had begun", chunks.len()));
    };
    let grid = &plan.arrays[name].grid;
    for (stage, used) in plan.stages.iter().zip(used).filter(|(stage, _)| stage.reads().any(|a| a == name)) {
        for task in (0..stage.tasks()).filter(|&t| used.get(t)) {
            if let Some(chunk) = reads_one(stage, task, name, grid, chunks) {
                let key = ctx.array(name).chunk_key(chunk);
                return refuse(format!("'{key}' was written after the run had begun, and finished tasks have read it"));
            }
        }
    }
    Ok(())
}

/// Forgets the chunks of unfinished tasks, because they may depend on changed chunks.
fn forget_unfinished(plan: &Plan, done: &[Done], have: &mut Reports) {
    let producers = Producers::new(plan);
    have.retain(|(array, chunk), _| {
        let Some(s) = producers.of(array) else { return false };
        let stage = &plan.stages[s];
        let Some(output) = stage.outputs.iter().find(|o| o.array == *array) else { return false };
        let (mut index, counts) = (output.tasks.touched(&plan.arrays[array].grid.region(chunk)).start, stage.task_counts());
        index.resize(counts.len(), 0);
        done[s].get(chunkwise_types::ravel(&index, &counts))
    });
}
