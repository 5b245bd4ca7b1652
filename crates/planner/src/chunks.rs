//! The chunks of outputs that the user left to the planner.
//!
//! They are those of the input that the output follows. Small ones are joined, so that a result is not thousands of tiny files; and where
//! there are very many all the same, they are put into shards. What the machine has does not matter, as long as there is memory for it.

use crate::cost::with_ends;
use crate::stages::Draft;
use crate::tasks::{region_bytes, written};
use chunkwise_plan::{ArrayRole, PlanArray, memory};
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
        if !draft.watch.goes_on() {
            return;
        }
        let outputs = &draft.stages[s].outputs;
        let may = |name: &String| draft.join.contains(name) || draft.arrays.get(name).is_some_and(|a| a.role == ArrayRole::Intermediate);
        if outputs.iter().all(|o| may(&o.array)) && outputs.iter().any(|o| draft.join.contains(&o.array)) {
            // What cannot be read in larger chunks without reading more stays as it is.
            let mut by: Vec<usize> = outputs.iter().filter_map(|o| readers.get(&o.array)).flatten().copied().collect();
            by.push(s);
            let mut now = None;
            join(draft, s, &by, &mut now);
            // Zarr v2 has no shards.
            let v2 = |name: &String| draft.arrays.get(name).and_then(|a| a.encoding.as_ref()).is_some_and(|e| e.codec.zarr_format() == 2);
            if !draft.stages[s].outputs.iter().any(|o| v2(&o.array)) {
                as_sharded_input(draft, s, &by, &mut now);
                shard(draft, s, &by, &mut now);
            }
        }
    }
}

/// How often what some stages read is read again, where that is most.
fn again(draft: &Draft, stages: &[usize]) -> f64 {
    stages.iter().map(|&s| with_ends(&draft.arrays, &draft.stages[s]).amplification()).fold(0.0, f64::max)
}

/// What a stage costs as it is.
#[derive(Clone, Copy)]
struct Price {
    again: f64,
    need: u64,
}

fn price(draft: &Draft, s: usize, by: &[usize]) -> Price {
    Price { again: again(draft, by), need: memory::worst_need(&draft.arrays, &draft.stages[s]).total }
}

/// Changes the outputs of stage `s`, unless it would then need more than `most` bytes of memory, or one of the stages `by` would read more.
/// `now` is what it costs before, if that is known, and afterwards.
fn attempt(draft: &mut Draft, s: usize, by: &[usize], now: &mut Option<Price>, most: u64, change: impl Fn(&mut PlanArray)) -> bool {
    let before = now.unwrap_or_else(|| price(draft, s, by));
    let names: Vec<String> = draft.stages[s].outputs.iter().map(|o| o.array.clone()).collect();
    let kept: Vec<PlanArray> = names.iter().filter_map(|name| draft.arrays.get(name).cloned()).collect();
    let set = |draft: &mut Draft, o: usize, array: PlanArray| {
        draft.stages[s].outputs[o].tasks = array.grid.clone();
        draft.arrays.insert(names[o].clone(), array);
    };
    for (o, array) in kept.iter().enumerate() {
        let mut array = array.clone();
        change(&mut array);
        set(draft, o, array);
    }
    let then = price(draft, s, by);
    let good = then.need <= most.max(before.need) && then.again <= before.again * AGAIN;
    *now = Some(if good { then } else { before });
    if !good {
        kept.into_iter().enumerate().for_each(|(o, array)| set(draft, o, array));
    }
    good
}

/// The axis along which there are most chunks, the slowest of several, if there is more than one. An empty array has none at all.
fn longest(grid: &ChunkGrid) -> Option<usize> {
    let counts = grid.counts();
    (0..counts.len()).max_by_key(|&i| (counts[i], usize::MAX - i)).filter(|&i| counts[i] > 1 && !counts.contains(&0))
}

/// Doubles small chunks along one axis at a time.
fn join(draft: &mut Draft, s: usize, by: &[usize], now: &mut Option<Price>) {
    // What a task needs beside its chunk depends on where the data are. Chunks should not: a task may take more than its share.
    let (goal, most) = (JOINED.min(draft.target() / 6), draft.spec.task_budget());
    if region_bytes(&draft.stages[s]) >= goal {
        return;
    }
    let read = with_ends(&draft.arrays, &draft.stages[s]).bytes as f64 / written(draft, &draft.stages[s]).max(1) as f64;
    let watch = draft.watch;
    let mut falls = watch.falling("joining chunks of outputs");
    loop {
        let bytes = region_bytes(&draft.stages[s]);
        let Some(grid) = draft.stages[s].outputs.first().map(|o| o.tasks.clone()) else { return };
        let Some(axis) = longest(&grid).filter(|_| bytes < goal && bytes as f64 * read * 2.0 <= READ as f64) else { return };
        let doubled = grid.0[axis].max().saturating_mul(2);
        let change = |array: &mut PlanArray| set(array, axis, doubled);
        if !falls.goes_on(grid.count()) || !attempt(draft, s, by, now, most, change) {
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
fn as_sharded_input(draft: &mut Draft, s: usize, by: &[usize], now: &mut Option<Price>) {
    let Some((shape, chunk)) =
        draft.stages[s].outputs.first().and_then(|o| draft.arrays.get(&o.array)).map(|a| (&a.shape, a.grid.max_shape()))
    else {
        return;
    };
    let alike = |a: &&PlanArray| a.role == ArrayRole::Input && a.shape == *shape && a.grid.max_shape() == chunk;
    let inner = draft.stages[s].reads().filter_map(|name| draft.arrays.get(name)).filter(alike).find_map(|a| a.inner_chunk.clone());
    if let Some(inner) = inner.filter(|i| i.iter().zip(&chunk).all(|(i, c)| c.is_multiple_of(*i))) {
        attempt(draft, s, by, now, draft.target(), |array| set_shards(array, &inner, &chunk));
    }
}

/// Puts very many chunks into shards.
fn shard(draft: &mut Draft, s: usize, by: &[usize], now: &mut Option<Price>) {
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
        attempt(draft, s, by, now, draft.target(), |array| set_shards(array, &inner, &shard));
    }
}
