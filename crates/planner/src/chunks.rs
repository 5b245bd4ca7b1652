//! The chunks of outputs that the user left to the planner.
//!
//! They are those of the input that the output follows. Small ones are joined, so that a result is not thousands of tiny files; and where
//! there are very many all the same, they are put into shards. What the machine has does not matter, as long as there is memory for it.

use crate::cost::with_ends;
use crate::stages::Draft;
use chunkwise_plan::{ArrayRole, PlanArray, Stage, memory};
use chunkwise_types::{ChunkGrid, volume};
use std::collections::HashMap;

/// Chunks of less than this many decoded bytes are joined: about a tenth of it or more is left when they are compressed.
const JOINED: u64 = 10_000_000;
/// A chunk for which more than this is read has enough to do: joined to others there would be fewer tasks.
const READ: u64 = 256 << 20;
/// More objects than this are put into shards.
const OBJECTS: u64 = 10_000;
/// Decoded bytes of a shard that the planner makes by itself, at most.
const SHARD: u64 = 128 << 20;
/// What is read twice because of it, of all that is read, is the price of larger chunks at most.
const AGAIN: f64 = 1.02;

/// By array, the stages that read it.
type Readers = HashMap<String, Vec<usize>>;

pub(crate) fn run(draft: &mut Draft) {
    let mut readers = Readers::new();
    for (s, stage) in draft.stages.iter().enumerate() {
        stage.reads().for_each(|name| readers.entry(name.to_string()).or_default().push(s));
    }
    for s in 0..draft.stages.len() {
        let outputs = &draft.stages[s].outputs;
        let may = |name: &String| draft.join.contains(name) || draft.arrays.get(name).is_some_and(|a| a.role == ArrayRole::Intermediate);
        if outputs.iter().all(|o| may(&o.array)) && outputs.iter().any(|o| draft.join.contains(&o.array)) {
            // What cannot be read in larger chunks without reading more stays as it is.
            let mut by: Vec<usize> = outputs.iter().filter_map(|o| readers.get(&o.array)).flatten().copied().collect();
            by.push(s);
            join(draft, s, &by);
            as_sharded_input(draft, s, &by);
            shard(draft, s, &by);
        }
    }
}

/// Decoded bytes of the largest object that a stage writes.
fn object(draft: &Draft, stage: &Stage) -> u64 {
    let arrays = stage.outputs.iter().filter_map(|o| draft.arrays.get(&o.array));
    arrays.map(|a| volume(&a.grid.max_shape()).saturating_mul(a.dtype.size())).max().unwrap_or(0)
}

/// How often what some stages read is read again, where that is most.
fn again(draft: &Draft, stages: &[usize]) -> f64 {
    stages.iter().map(|&s| with_ends(&draft.arrays, &draft.stages[s]).amplification()).fold(0.0, f64::max)
}

/// Changes the outputs of stage `s`, unless it would then need more than `most` bytes of memory, or one of the stages `by` would read more.
fn attempt(draft: &mut Draft, s: usize, by: &[usize], most: u64, change: impl Fn(&mut PlanArray)) -> bool {
    let kept = (draft.stages[s].clone(), draft.arrays.clone());
    let before = (again(draft, by), memory::worst_need(&draft.arrays, &draft.stages[s]).total);
    for o in 0..draft.stages[s].outputs.len() {
        let name = draft.stages[s].outputs[o].array.clone();
        if let Some(array) = draft.arrays.get_mut(&name) {
            change(array);
            draft.stages[s].outputs[o].tasks = array.grid.clone();
        }
    }
    let need = memory::worst_need(&draft.arrays, &draft.stages[s]).total;
    let good = need <= most.max(before.1) && again(draft, by) <= before.0 * AGAIN;
    if !good {
        (draft.stages[s], draft.arrays) = kept;
    }
    good
}

/// The axis along which there are most chunks, the slowest of several, if there is more than one.
fn longest(grid: &ChunkGrid) -> Option<usize> {
    let counts = grid.counts();
    (0..counts.len()).max_by_key(|&i| (counts[i], usize::MAX - i)).filter(|&i| counts[i] > 1)
}

/// Doubles small chunks along one axis at a time.
fn join(draft: &mut Draft, s: usize, by: &[usize]) {
    let written: u64 = {
        let arrays = draft.stages[s].outputs.iter().filter_map(|o| draft.arrays.get(&o.array));
        arrays.map(|a| volume(&a.shape).saturating_mul(a.dtype.size())).max().unwrap_or(0)
    };
    let read = with_ends(&draft.arrays, &draft.stages[s]).bytes as f64 / written.max(1) as f64;
    // What a task needs beside its chunk depends on where the data are. Chunks should not: a task may take more than its share.
    let (goal, most) = (JOINED.min(draft.target() / 6), draft.spec.task_budget());
    let watch = draft.watch;
    let mut falls = watch.falling("joining chunks of outputs");
    loop {
        let bytes = object(draft, &draft.stages[s]);
        let Some(grid) = draft.stages[s].outputs.first().map(|o| o.tasks.clone()) else { return };
        let Some(axis) = longest(&grid).filter(|_| bytes < goal && bytes as f64 * read * 2.0 <= READ as f64) else { return };
        let doubled = grid.0[axis].max().saturating_mul(2);
        let change = |array: &mut PlanArray| set(array, axis, doubled);
        if !falls.goes_on(grid.count()) || !attempt(draft, s, by, most, change) {
            return;
        }
    }
}

/// Gives an array chunks of another length along an axis.
fn set(array: &mut PlanArray, axis: usize, length: u64) {
    let mut chunk = array.grid.max_shape();
    let (Some(&len), Some(c)) = (array.shape.get(axis), chunk.get_mut(axis)) else { return };
    *c = length.min(len).max(1);
    array.grid = ChunkGrid::regular(&array.shape, &chunk);
    if let Some(e) = &mut array.encoding {
        e.chunks = chunk;
    }
}

/// Puts the chunks of an array into shards.
fn set_shards(array: &mut PlanArray, inner: &[u64], shard: &[u64]) {
    array.grid = ChunkGrid::regular(&array.shape, shard);
    array.inner_chunk = Some(inner.to_vec());
    if let Some(e) = &mut array.encoding {
        e.chunks = inner.to_vec();
        e.shards = Some(shard.to_vec());
    }
}

/// An output in the shards of an input has its inner chunks, too.
fn as_sharded_input(draft: &mut Draft, s: usize, by: &[usize]) {
    let Some((shape, chunk)) =
        draft.stages[s].outputs.first().and_then(|o| draft.arrays.get(&o.array)).map(|a| (&a.shape, a.grid.max_shape()))
    else {
        return;
    };
    let alike = |a: &&PlanArray| a.role == ArrayRole::Input && a.shape == *shape && a.grid.max_shape() == chunk;
    let inner = draft.stages[s].reads().filter_map(|name| draft.arrays.get(name)).filter(alike).find_map(|a| a.inner_chunk.clone());
    if let Some(inner) = inner.filter(|i| i.iter().zip(&chunk).all(|(i, c)| c.is_multiple_of(*i))) {
        attempt(draft, s, by, draft.target(), |array| set_shards(array, &inner, &chunk));
    }
}

/// Puts very many chunks into shards.
fn shard(draft: &mut Draft, s: usize, by: &[usize]) {
    let Some(array) = draft.stages[s].outputs.first().and_then(|o| draft.arrays.get(&o.array)) else { return };
    if array.inner_chunk.is_some() || array.grid.count() <= OBJECTS {
        return;
    }
    let (shape, inner, item) = (array.shape.clone(), array.grid.max_shape(), array.dtype.size());
    let most = SHARD.min(draft.target() / 6);
    let mut shard = inner.clone();
    let mut falls = draft.watch.falling("joining chunks to shards");
    loop {
        let grid = ChunkGrid::regular(&shape, &shard);
        let larger = volume(&shard).saturating_mul(item).saturating_mul(2);
        let Some(axis) = longest(&grid).filter(|_| grid.count() > OBJECTS && larger <= most && falls.goes_on(grid.count())) else { break };
        shard[axis] = shard[axis].saturating_mul(2);
    }
    if shard != inner {
        attempt(draft, s, by, draft.target(), |array| set_shards(array, &inner, &shard));
    }
}
