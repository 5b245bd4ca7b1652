//! Task regions: unions of stored chunks, as large as one of the tasks that run at once may be.

use crate::cost::{amplification, reads, total};
use crate::materialise::blocks_of_tasks;
use crate::stages::Draft;
use chunkwise_plan::memory::{self, Need};
use chunkwise_plan::{ArrayRole, Note, PlanArray, Stage};
use chunkwise_types::{ArrayAccess, AxisChunks};
use std::collections::BTreeMap;

/// Bytes that a task should write at least, where its chunks are smaller than that.
const TASK_BYTES: u64 = 32 << 20;
/// The same where files are read, which takes no longer in smaller parts, and where each worker has fewer tasks than these: smaller tasks use
/// less memory, and the others wait for the last one.
const TASK_BYTES_OF_FILES: u64 = 4 << 20;
const MANY: u64 = 32;

pub(crate) fn run(draft: &mut Draft) {
    for s in 0..draft.stages.len() {
        if !draft.watch.goes_on() {
            return;
        }
        let mut stage = draft.stages[s].clone();
        // A stage that does not fit yet may do so with a copy to read from: `check` is the last word.
        choose(draft, &mut stage);
        draft.stages[s] = stage;
    }
}

/// Projects every stage again. The largest need is the last word on whether a plan fits.
pub(crate) fn check(draft: &mut Draft) {
    for s in 0..draft.stages.len() {
        if !draft.watch.goes_on() {
            return;
        }
        let mut stage = draft.stages[s].clone();
        project(draft, &mut stage);
        draft.stages[s] = stage;
    }
}

/// Chooses the task regions of a stage and projects its memory. True if it fits.
pub(crate) fn fit(draft: &mut Draft, stage: &mut Stage) -> bool {
    choose(draft, stage);
    project(draft, stage)
}

/// Chooses chunks small enough, a task for each, and projects the memory. True if it fits.
pub(crate) fn fit_small(draft: &mut Draft, stage: &mut Stage) -> bool {
    make_fit(draft, stage);
    steps(draft, stage);
    project(draft, stage)
}

/// Chooses task regions as large as they may be while all workers are busy, to be read from an array whose pieces follow them.
pub(crate) fn fit_narrow(draft: &mut Draft, stage: &mut Stage) {
    base(draft, stage);
    make_fit(draft, stage);
    let goal = draft.target();
    grow(draft, stage, goal);
    balance(draft, stage);
}

fn choose(draft: &mut Draft, stage: &mut Stage) {
    make_fit(draft, stage);
    let goal = match draft.reads_only(stage, |a| !a.is_remote()) {
        true => (written(draft, stage) / draft.spec.workers.max(1).saturating_mul(MANY)).clamp(TASK_BYTES_OF_FILES, TASK_BYTES),
        false => TASK_BYTES,
    };
    grow(draft, stage, goal.min(draft.target() / 6));
    widen(draft, stage);
    balance(draft, stage);
    level(draft, stage);
    steps(draft, stage);
}

/// Makes the stage fit: by smaller chunks, where they are free, or by shorter steps of its folds, whichever reads less.
fn make_fit(draft: &mut Draft, stage: &mut Stage) {
    let limit = limit(draft, stage);
    if memory::worst_need(&draft.arrays, stage).total <= limit {
        return;
    }
    let mut cut = stage.clone();
    let fits = steps(draft, &mut cut).total <= limit;
    let again = amplification(&draft.arrays, &cut);
    let before = draft.arrays.clone();
    shrink_chunks(draft, stage);
    let no_better = || again <= amplification(&draft.arrays, stage) || memory::worst_need(&draft.arrays, stage).total > limit;
    if fits && no_better() {
        (*stage, draft.arrays) = (cut, before);
    }
}

/// What a task may need: the budget, or a share where the chunks that are written are up to the planner alone.
fn limit(draft: &Draft, stage: &Stage) -> u64 {
    let inner = |array: &str| draft.arrays.get(array).is_some_and(|a| a.role == ArrayRole::Intermediate);
    if stage.outputs.iter().all(|o| inner(&o.array)) { draft.target() } else { draft.spec.task_budget() }
}

/// One stored chunk a task.
fn base(draft: &Draft, stage: &mut Stage) {
    for o in &mut stage.outputs {
        if let Some(array) = draft.arrays.get(&o.array) {
            o.tasks = array.grid.clone();
        }
    }
}

/// Writes down what the largest task of a stage needs. True if that is inside the budget.
pub(crate) fn project(draft: &Draft, stage: &mut Stage) -> bool {
    let need = memory::worst_need(&draft.arrays, stage);
    stage.projected_mem = need.total;
    stage.notes.retain(|n| !matches!(n, Note::Memory { .. }));
    stage.notes.push(Note::Memory { memory: need });
    need.total <= draft.spec.task_budget()
}

/// A stage whose chunks were halved along one axis.
struct Halved {
    again: f64,
    need: u64,
    axis: usize,
    stage: Stage,
    arrays: BTreeMap<String, PlanArray>,
}

/// Halves the chunks that the user left to the planner while the stage does not fit, each time along the axis that leaves least to read
/// twice. Those of intermediates are halved further, until all workers can run, where that costs no reading.
fn shrink_chunks(draft: &mut Draft, stage: &mut Stage) {
    let plain = |array: &str| draft.arrays.get(array).is_some_and(|a| a.inner_chunk.is_none());
    if !stage.outputs.iter().all(|o| draft.free.contains(&o.array) && plain(&o.array)) {
        return;
    }
    let (budget, limit) = (draft.spec.task_budget(), limit(draft, stage));
    let mut need = memory::worst_need(&draft.arrays, stage).total;
    let mut again = amplification(&draft.arrays, stage);
    let mut blocks = blocks_of_tasks(stage);
    let mut falls = draft.watch.falling("halving chunks");
    while need > limit && falls.goes_on(need) {
        let Some(chunk) = stage.outputs.first().map(|o| o.tasks.max_shape()) else { return };
        let before = (stage.clone(), draft.arrays.clone());
        let mut best: Option<Halved> = None;
        for axis in (0..chunk.len()).filter(|&i| chunk[i] > 1) {
            halve(draft, stage, axis);
            let (n, a) = (memory::worst_need(&draft.arrays, stage).total, amplification(&draft.arrays, stage));
            // Among equals the longest axis, so that chunks stay compact.
            let better = best.as_ref().is_none_or(|b| a < b.again * 0.99 || (a < b.again * 1.01 && chunk[axis] > chunk[b.axis]));
            // The same blocks for more and more tasks: only if that frees memory.
            let frees = blocks_of_tasks(stage) <= blocks * 1.01 || (need > budget && n <= need / 10 * 9);
            if n < need && better && frees {
                best = Some(Halved { again: a, need: n, axis, stage: stage.clone(), arrays: draft.arrays.clone() });
            }
            (*stage, draft.arrays) = before.clone();
        }
        match best {
            Some(b) if need > budget || b.again <= again * 1.05 => {
                (again, need, *stage, draft.arrays) = (b.again, b.need, b.stage, b.arrays);
                blocks = blocks_of_tasks(stage);
            }
            _ => return,
        }
    }
}

/// Halves the chunks of all outputs of a stage along one axis.
fn halve(draft: &mut Draft, stage: &mut Stage, axis: usize) {
    for o in &mut stage.outputs {
        let Some(array) = draft.arrays.get_mut(&o.array) else { continue };
        if axis >= array.shape.len() {
            continue;
        }
        let size = o.tasks.0[axis].max().div_ceil(2).max(1);
        o.tasks.0[axis] = AxisChunks::regular(array.shape[axis], size);
        array.grid = o.tasks.clone();
        if let Some(e) = &mut array.encoding {
            e.chunks[axis] = size;
        }
    }
}

/// Multiplies the task regions along one axis, for all outputs; `None` if they cannot grow there.
fn multiplied(stage: &Stage, axis: usize, times: u64) -> Option<Stage> {
    let mut out = stage.clone();
    for o in &mut out.outputs {
        match o.tasks.0.get_mut(axis) {
            Some(AxisChunks::Regular { len, size }) if *size < *len => *size = size.saturating_mul(times),
            _ => return None,
        }
    }
    Some(out)
}

/// Bytes of the largest output of a stage.
pub(crate) fn written(draft: &Draft, stage: &Stage) -> u64 {
    let arrays = stage.outputs.iter().filter_map(|o| draft.arrays.get(&o.array));
    arrays.map(|a| chunkwise_types::volume(&a.shape).saturating_mul(a.dtype.size())).max().unwrap_or(0)
}

/// Bytes of the largest region that a task writes.
pub(crate) fn region_bytes(stage: &Stage) -> u64 {
    stage
        .outputs
        .iter()
        .map(|o| chunkwise_types::volume(&o.tasks.max_shape()).saturating_mul(stage.program.steps[o.step].ty.dtype.size()))
        .max()
        .unwrap_or(0)
}

/// Groups small chunks into one task of at most `goal` bytes, the last axes first, inside the share of one of the tasks that run at
/// once.
fn grow(draft: &Draft, stage: &mut Stage, goal: u64) {
    let target = draft.target();
    let rank = stage.task_counts().len();
    for axis in (0..rank).rev() {
        let mut falls = draft.watch.falling("joining chunks");
        while falls.goes_on(stage.tasks()) {
            // Leave enough tasks for all workers.
            if stage.tasks() < 4 * draft.spec.workers.max(1) || region_bytes(stage) * 2 > goal {
                return;
            }
            let Some(next) = multiplied(stage, axis, 2) else { break };
            if next.tasks() >= stage.tasks() || memory::worst_need(&draft.arrays, &next).total > target {
                break;
            }
            *stage = next;
        }
    }
}

/// A region beyond one share keeps other tasks from running: it must leave at most this much of what is read.
const BEYOND: f64 = 0.7;

/// Bytes of files that are read and decoded in the time in which one byte of memory is used for the first time: a system that gives it to
/// a process clears it, and one that lies in a virtual machine may have to ask its host for it first (docs/benchmarks.md).
const FRESH: f64 = 4.0;

/// Grows the regions, beyond one share up to the whole budget, where chunks are read again and again.
fn widen(draft: &Draft, stage: &mut Stage) {
    let (budget, target) = (draft.spec.task_budget(), draft.target());
    let reads = total(&reads(&draft.arrays, stage));
    if reads.bytes < 16 << 20 {
        return;
    }
    // Memory that all tasks at once use, as bytes of files.
    let near = draft.reads_only(stage, |a| !a.is_remote());
    let fresh = |stage: &Stage, need: u64| match near {
        true => (budget / need.max(1)).min(draft.spec.workers).min(stage.tasks()).saturating_mul(need) as f64 * FRESH,
        false => 0.0,
    };
    let mut now = reads.amplification();
    let mut used = fresh(stage, memory::worst_need(&draft.arrays, stage).total);
    let mut falls = draft.watch.falling("widening regions");
    while now > 1.25 && falls.goes_on(stage.tasks()) {
        let rank = stage.task_counts().len();
        let best = (0..rank)
            .filter_map(|axis| {
                let mut next = multiplied(stage, axis, 2)?;
                // Shorter steps make room for a larger region: they read no more.
                let need = if raw(draft, &next) { steps(draft, &mut next) } else { memory::worst_need(&draft.arrays, &next) }.total;
                let a = amplification(&draft.arrays, &next);
                let enough = if need <= target { 0.95 } else { BEYOND };
                let more = fresh(&next, need);
                let pays = a < now * enough && (now - a) * reads.own as f64 >= more - used;
                (pays && need <= budget).then_some((a, more, next))
            })
            .min_by(|a, b| a.0.total_cmp(&b.0));
        match best {
            Some((a, more, next)) => (now, used, *stage) = (a, more, next),
            None => return,
        }
    }
}

/// Evens out the regions along each axis: as many as there are, of nearly equal length.
fn balance(draft: &Draft, stage: &mut Stage) {
    let rank = stage.task_counts().len();
    for axis in 0..rank {
        let mut next = stage.clone();
        for o in &mut next.outputs {
            let stored = draft.arrays.get(&o.array).map(|a| a.grid.0.get(axis).cloned());
            if let (Some(AxisChunks::Regular { len, size }), Some(Some(chunk))) = (o.tasks.0.get_mut(axis), stored)
                && *len > 0
            {
                let even = len.div_ceil(len.div_ceil(*size)).next_multiple_of(chunk.max().max(1));
                *size = (*size).min(even);
            }
        }
        if next.task_counts() == stage.task_counts() {
            *stage = next;
        }
    }
}

/// With more tasks than this for each worker, the workers end at about the same time anyway.
const TASKS_PER_WORKER: u64 = 8;

/// Makes the regions of a copy a little longer where a worker would otherwise copy one more at the end, while the others have nothing to do:
/// threads share the reading of a region, not its writing.
fn level(draft: &Draft, stage: &mut Stage) {
    let (workers, counts) = (draft.spec.workers.max(1), stage.task_counts());
    let mut cut = (0..counts.len()).filter(|&axis| counts[axis] > 1);
    let ([step], [output], Some(axis), None) = (&stage.program.steps[..], &stage.outputs[..], cut.next(), cut.next()) else { return };
    let Some((array, &AxisChunks::Regular { len, size })) = draft.arrays.get(&output.array).zip(output.tasks.0.get(axis)) else { return };
    if step.read.is_none() || stage.tasks() > workers.saturating_mul(TASKS_PER_WORKER) {
        return;
    }
    // What the worker that ends last copies, along the axis.
    let longest = |size: u64| match (len / size / workers * size, len / size % workers) {
        (rounds, 0) => rounds + len % size,
        (rounds, _) => rounds + size,
    };
    let chunk = array.grid.0[axis].max().max(1);
    let sizes = (size.saturating_add(chunk)..size.saturating_mul(2)).step_by((size / 16).next_multiple_of(chunk).max(chunk) as usize);
    let longer = |size: u64| {
        let mut next = stage.clone();
        next.outputs[0].tasks.0[axis] = AxisChunks::regular(len, size);
        (memory::worst_need(&draft.arrays, &next).total <= draft.target()).then_some(next)
    };
    let mut best: Vec<u64> = sizes.filter(|&longer| longest(longer) * 20 <= longest(size) * 19).collect();
    best.sort_by_key(|&size| longest(size));
    if let Some(next) = best.into_iter().find_map(longer) {
        *stage = next;
    }
}

/// Halves the steps of folds while a task is larger than its share, over raw arrays, which can be read in parts; over others only while it
/// does not fit at all, for their chunks are decoded for every part of them. Returns what the task needs then.
fn steps(draft: &Draft, stage: &mut Stage) -> Need {
    let raw = raw(draft, stage);
    let (budget, target) = (draft.spec.task_budget(), draft.target());
    let mut need = memory::worst_need(&draft.arrays, stage);
    let mut blocks = blocks_of_tasks(stage);
    let again = |stage: &Stage| (amplification(&draft.arrays, stage) * 100.0).round();
    let too_large = |need: &Need| need.total > budget || (raw && need.total > target && need.leaves.max(need.tile) > draft.step_bytes());
    let mut falls = draft.watch.falling("halving steps");
    while too_large(&need) && falls.goes_on(need.total) {
        let mut streams: Vec<&Vec<AxisChunks>> = Vec::new();
        for stream in stage.program.steps.iter().filter_map(|s| s.stream.as_ref()) {
            if !streams.contains(&stream) {
                streams.push(stream);
            }
        }
        let shorter = |stream: &[AxisChunks], axis: usize| {
            let next = halved(stage, stream, axis)?;
            let less = Some(memory::worst_need(&draft.arrays, &next)).filter(|less| less.total < need.total)?;
            let made = blocks_of_tasks(&next);
            let frees = made <= blocks * 1.01 || (need.total > budget && less.total <= need.total / 10 * 9);
            frees.then_some((next, less, made))
        };
        // The slowest index of a raw array: its parts are long runs of the file. Of others that which leaves least to decode twice.
        let smaller = streams.into_iter().find_map(|stream| {
            let mut cuts = (0..stream.len()).filter_map(|axis| shorter(stream, axis));
            if raw { cuts.next() } else { cuts.min_by(|a, b| again(&a.0).total_cmp(&again(&b.0))) }
        });
        let Some((next, less, made)) = smaller else { break };
        (*stage, need, blocks) = (next, less, made);
    }
    need
}

/// True if any part of what a stage reads can be had by itself; small arrays stay in memory from one step to the next.
fn raw(draft: &Draft, stage: &Stage) -> bool {
    draft.reads_only(stage, |a| a.access == ArrayAccess::Raw || memory::keeps(a))
}

/// The stage with the steps halved along an axis that are cut like this, of all its folds; `None` if they are single elements there.
fn halved(stage: &Stage, stream: &[AxisChunks], axis: usize) -> Option<Stage> {
    if !matches!(stream[axis], AxisChunks::Regular { len, size } if size.min(len) > 1) {
        return None;
    }
    let mut next = stage.clone();
    for cut in next.program.steps.iter_mut().filter_map(|s| s.stream.as_mut()).filter(|c| **c == stream) {
        if let AxisChunks::Regular { len, size } = &mut cut[axis] {
            // A chunk may be longer than its axis.
            *size = (*size).min(*len).div_ceil(2);
        }
    }
    Some(next)
}
