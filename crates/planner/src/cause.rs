//! Why a task is as large as it is: which array would need smaller chunks.

use chunkwise_plan::{ArrayRole, PlanArray, Stage, memory};
use chunkwise_types::{AxisChunks, ByteSize, volume};
use std::collections::BTreeMap;

/// Chunks are made so many times smaller to see what that saves.
const SMALLER: u64 = 8;
/// Less than this saved is not worth to be said.
const WORTH: f64 = 0.95;

/// What would help besides more memory: smaller chunks of the array whose chunks are the cause.
pub(crate) fn cause(arrays: &BTreeMap<String, PlanArray>, stage: &Stage) -> String {
    let now = memory::worst_need(arrays, stage).total;
    let names = stage.reads().chain(stage.outputs.iter().map(|o| o.array.as_str()));
    let found = names.filter_map(|name| Some((smaller(arrays, stage, name)?, name))).min_by_key(|(need, _)| *need);
    let named = found.filter(|(need, _)| (*need as f64) < now as f64 * WORTH).and_then(|(_, name)| Some((name, arrays.get(name)?)));
    let Some((name, array)) = named else {
        return "make the arrays smaller: one task needs that much whatever their chunks are".into();
    };
    let shape = array.grid.stored_shape();
    let bytes = ByteSize(volume(&shape).saturating_mul(array.dtype.size()));
    let lengths = shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ");
    let name = name.split_once('-').map_or(name, |(_, n)| n);
    let what = if array.inner_chunk.is_some() { "shards" } else { "chunks" };
    match array.role {
        ArrayRole::Input => format!("store the input '{name}' in smaller {what}: those of {lengths} elements ({bytes}) are the cause"),
        _ => format!("ask for smaller {what} of the output '{name}': those of {lengths} elements ({bytes}) are the cause"),
    }
}

/// What a task would need if the chunks of an array were smaller along one axis, the one that helps most. `None` for arrays that the planner
/// stores as it likes.
fn smaller(arrays: &BTreeMap<String, PlanArray>, stage: &Stage, name: &str) -> Option<u64> {
    let array = arrays.get(name).filter(|a| a.role != ArrayRole::Intermediate)?;
    let lengths = array.grid.max_shape();
    let cut = |axis: usize| {
        let size = lengths[axis].div_ceil(SMALLER).max(1);
        let (mut arrays, mut stage) = (arrays.clone(), stage.clone());
        let array = arrays.get_mut(name)?;
        let cut = AxisChunks::regular(array.shape[axis], size);
        array.grid.0[axis] = cut.clone();
        if let Some(inner) = &mut array.inner_chunk {
            inner[axis] = inner[axis].min(size);
        }
        // All outputs have the same tasks.
        if stage.outputs.iter().any(|o| o.array == name) {
            for o in &mut stage.outputs {
                let tasks = o.tasks.0.get_mut(axis)?;
                *tasks = AxisChunks::regular(tasks.len(), size);
            }
        }
        Some(memory::worst_need(&arrays, &stage).total)
    };
    (0..lengths.len()).filter(|&axis| lengths[axis] > 1).filter_map(cut).min()
}
