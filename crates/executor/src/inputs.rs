//! Inputs of a run before its first task: they must be what the plan was made for, and what finished tasks have read.

use crate::RunError;
use crate::driver::unusable;
use crate::log::Reports;
use crate::needs::{Producers, reads_one};
use crate::readiness::Done;
use chunkwise_storage::StorageError;
use chunkwise_task::{Inputs, TaskContext, TaskError};
use std::collections::{HashMap, HashSet};

/// Tasks of which it is looked up what they have read, at most; it takes some microseconds each.
const LOOKED_UP: u64 = 200_000;

fn unusable_input(e: TaskError) -> RunError {
    match e {
        TaskError::Open { source, .. } => RunError::Place { what: "an input cannot be used", source },
        other => unusable(other),
    }
}

/// The inputs of a run that begins.
///
/// # Errors
/// When one is not there, or another one than the plan was made for.
pub(crate) fn look(ctx: &TaskContext) -> Result<Inputs, RunError> {
    Inputs::look(ctx).map_err(unusable_input)
}

/// Looks at the inputs of a run that goes on. A chunk that was written since may be read if no finished task has read it: the result is that of the
/// input as it is now. Chunks that an unfinished task has made are forgotten where it reads such a one.
///
/// # Errors
/// When a finished task has read a chunk that was written since, or an input is another array or none.
pub(crate) fn go_on(ctx: &TaskContext, done: &[Done], have: &mut Reports) -> Result<Inputs, RunError> {
    let anything = !have.is_empty() || done.iter().any(|d| d.count() > 0);
    let inputs = match Inputs::of_run(ctx)?.filter(|_| anything) {
        Some(mut inputs) => {
            let changed = inputs.changed(ctx).map_err(unusable_input)?;
            if !changed.is_empty() {
                for (name, chunks) in &changed {
                    check(ctx, name, chunks, done, have)?;
                }
                inputs.keep(ctx)?;
            }
            inputs
        }
        None => {
            let inputs = look(ctx)?;
            inputs.keep(ctx)?;
            inputs
        }
    };
    inputs.watch(ctx);
    Ok(inputs)
}

/// Refuses chunks of an input that finished tasks have read, and forgets what unfinished ones have made of them.
fn check(ctx: &TaskContext, name: &str, chunks: &HashSet<Vec<u64>>, done: &[Done], have: &mut Reports) -> Result<(), RunError> {
    let plan = &ctx.plan;
    let refuse = |detail: String| {
        let source = StorageError::InputChanged { url: ctx.array_location(name).to_string(), detail };
        Err(RunError::Place { what: "an input cannot be used", source })
    };
    let readers: Vec<usize> = (0..plan.stages.len()).filter(|&s| plan.stages[s].reads().any(|a| a == name)).collect();
    if readers.iter().map(|&s| done[s].count()).sum::<u64>() > LOOKED_UP {
        return refuse(format!("{} of its chunks were written after the run had begun", chunks.len()));
    }
    let grid = &plan.arrays[name].grid;
    for &s in &readers {
        for task in (0..plan.stages[s].tasks()).filter(|&t| done[s].get(t)) {
            if let Some(chunk) = reads_one(&plan.stages[s], task, name, grid, chunks) {
                let key = ctx.array(name).chunk_key(chunk);
                return refuse(format!("'{key}' was written after the run had begun, and finished tasks have read it"));
            }
        }
    }
    let producers = Producers::new(plan);
    let mut known: HashMap<(usize, u64), bool> = HashMap::new();
    have.retain(|(array, chunk), _| {
        let Some(s) = producers.of(array).filter(|s| readers.contains(s)) else { return true };
        let stage = &plan.stages[s];
        let Some(output) = stage.outputs.iter().find(|o| o.array == *array) else { return true };
        let touched = output.tasks.touched(&plan.arrays[array].grid.region(chunk));
        let mut index = touched.start;
        let counts = stage.task_counts();
        index.resize(counts.len(), 0);
        let task = chunkwise_types::ravel(&index, &counts);
        !*known.entry((s, task)).or_insert_with(|| reads_one(stage, task, name, grid, chunks).is_some())
    });
    Ok(())
}
