//! The pieces of intermediate arrays: an object for each writing task, which later tasks read in parts.
//!
//! An intermediate is stored as one shard a task, with inner chunks of the shape that its readers ask for. So neither side touches
//! more objects than it has tasks, and a reader that wants a thin slice of every shard does not decode the rest.

use crate::cost::{amplification, reads};
use crate::stages::Draft;
use crate::tasks::fit;
use chunkwise_plan::schedule::{Pass, Schedule};
use chunkwise_plan::{ArrayRole, Stage};
use chunkwise_types::{ChunkGrid, Region};
use std::collections::HashMap;

/// Reading an intermediate this much too often is not worth smaller pieces.
const WORTH: f64 = 1.2;
/// Smaller pieces cost more in requests and headers than they save.
const MIN_PIECE: u64 = 16 << 10;
/// Larger pieces take memory to decode.
const MAX_PIECE: u64 = 8 << 20;

/// The largest box of an array that a task of a stage reads at once.
pub(crate) fn demanded(stage: &Stage, array: &str) -> Option<Vec<u64>> {
    boxes(stage).remove(array)
}

/// The largest box of each array that a task of a stage reads at once.
fn boxes(stage: &Stage) -> HashMap<String, Vec<u64>> {
    let counts = stage.task_counts();
    if counts.contains(&0) {
        return HashMap::new();
    }
    let middle: Vec<u64> = counts.iter().map(|n| (n - 1) / 2).collect();
    let schedule = Schedule::new(stage, &stage.task_regions(chunkwise_types::ravel(&middle, &counts)));
    let mut best: HashMap<&str, Region> = HashMap::new();
    let mut look = |pass: &Pass| {
        for (step, regions) in stage.program.steps.iter().zip(&pass.demands) {
            let Some(array) = step.read.as_deref() else { continue };
            for b in regions.iter().filter(|b| !b.is_empty()) {
                if best.get(array).is_none_or(|a| a.volume() < b.volume()) {
                    best.insert(array, b.clone());
                }
            }
        }
    };
    for phase in &schedule.phases {
        let n = phase.windows.len();
        for window in (0..n.min(16)).filter_map(|i| phase.windows.get(i.saturating_mul(n) / n.min(16))) {
            look(&schedule.step_pass(&stage.program, phase, &window));
        }
    }
    look(&schedule.output_pass(&stage.program));
    best.into_iter().map(|(array, region)| (array.to_string(), region.shape.into_vec())).collect()
}

/// How the stages read each array, worked out when it is asked for: a stage may read thousands.
struct Reading {
    /// By array, the stages that read it.
    readers: HashMap<String, Vec<usize>>,
    /// By stage, how often it reads each array.
    again: Vec<Option<HashMap<String, f64>>>,
    /// By stage, the largest box that it reads of each array.
    boxes: Vec<Option<HashMap<String, Vec<u64>>>>,
}

impl Reading {
    fn new(stages: &[Stage]) -> Reading {
        let mut readers: HashMap<String, Vec<usize>> = HashMap::new();
        for (s, stage) in stages.iter().enumerate() {
            for array in stage.reads() {
                let all = readers.entry(array.to_string()).or_default();
                if all.last() != Some(&s) {
                    all.push(s);
                }
            }
        }
        Reading { readers, again: vec![None; stages.len()], boxes: vec![None; stages.len()] }
    }

    fn readers(&self, array: &str) -> &[usize] {
        self.readers.get(array).map_or(&[], Vec::as_slice)
    }

    /// How often the average byte of an array is read, by each of its readers, added up.
    fn again(&mut self, draft: &Draft, array: &str) -> f64 {
        let Reading { readers, again, .. } = self;
        let of = |&s: &usize| {
            let found = again[s].get_or_insert_with(|| {
                reads(&draft.arrays, &draft.stages[s]).into_iter().map(|(array, r)| (array.to_string(), r.amplification())).collect()
            });
            found.get(array).copied()
        };
        readers.get(array).into_iter().flatten().filter_map(of).sum()
    }

    /// A box that is as small on each axis as that of one of its readers.
    fn wanted(&mut self, draft: &Draft, array: &str) -> Option<Vec<u64>> {
        let Reading { readers, boxes: found, .. } = self;
        let of = |&s: &usize| found[s].get_or_insert_with(|| boxes(&draft.stages[s])).get(array).cloned();
        let wants = readers.get(array).into_iter().flatten().filter_map(of);
        wants.reduce(|a, b| a.iter().zip(&b).map(|(x, y)| *x.min(y)).collect())
    }

    /// A stage is another one now, and so may what it writes be.
    fn forget(&mut self, draft: &Draft, stage: usize) {
        let outputs = draft.stages[stage].outputs.iter();
        for s in outputs.flat_map(|o| self.readers.get(&o.array).into_iter().flatten().copied()).chain([stage]) {
            (self.again[s], self.boxes[s]) = (None, None);
        }
    }
}

/// The inner chunks and the shard of an object that holds `region` of an array of this shape and is read in boxes of `want`.
pub(crate) fn pieces(shape: &[u64], region: &[u64], want: &[u64]) -> (Vec<u64>, Vec<u64>) {
    let (mut inner, mut shard) = (Vec::new(), Vec::new());
    for axis in 0..region.len() {
        let (len, w) = (shape[axis].max(1), want[axis].min(region[axis]).max(1));
        if region[axis] >= len {
            // One shard covers the axis: it may be padded to a multiple of the pieces.
            let piece = w.min(len);
            inner.push(piece);
            shard.push(len.next_multiple_of(piece));
        } else {
            let piece = largest_divisor(region[axis], w);
            inner.push(piece);
            shard.push(region[axis]);
        }
    }
    (inner, shard)
}

/// The largest divisor of `n` that is not larger than `most`. Divisors come in pairs, so there is no need to look beyond the root.
fn largest_divisor(n: u64, most: u64) -> u64 {
    (1..=n.isqrt()).filter(|d| n.is_multiple_of(*d)).flat_map(|d| [d, n / d]).filter(|d| *d <= most).max().unwrap_or(1)
}

pub(crate) fn run(draft: &mut Draft) {
    let mut reading = Reading::new(&draft.stages);
    for writer in 0..draft.stages.len() {
        for o in 0..draft.stages[writer].outputs.len() {
            if !draft.watch.goes_on() {
                return;
            }
            relay(draft, &mut reading, writer, o);
        }
    }
}

/// Gives one intermediate the pieces that its readers want, where they read it too often as it is.
fn relay(draft: &mut Draft, reading: &mut Reading, writer: usize, o: usize) {
    let name = draft.stages[writer].outputs[o].array.clone();
    let Some(array) = draft.arrays.get(&name).filter(|a| a.role == ArrayRole::Intermediate).cloned() else { return };
    let item = array.dtype.size();
    let stored = chunkwise_types::volume(&array.read_grid().stored_shape()).saturating_mul(item);
    let region = draft.stages[writer].outputs[o].tasks.stored_shape();
    // Smaller pieces would be too small, and there are no larger ones.
    if stored <= MIN_PIECE && array.inner_chunk.is_none() && region == array.grid.stored_shape() {
        return;
    }
    let before = reading.again(draft, &name);
    if before <= WORTH * reading.readers(&name).len() as f64 && stored <= MAX_PIECE {
        return;
    }
    let Some(mut want) = reading.wanted(draft, &name) else { return };
    let mut falls = draft.watch.falling("halving pieces");
    while chunkwise_types::volume(&want).saturating_mul(item) > MAX_PIECE && falls.goes_on(chunkwise_types::volume(&want)) {
        // The slowest axes first, so that a piece is a run of what is read.
        let Some(axis) = (0..want.len()).find(|&i| want[i] > 1) else { break };
        want[axis] = want[axis].div_ceil(2);
    }
    let (inner, shard) = pieces(&array.shape, &region, &want);
    if chunkwise_types::volume(&inner) * item < MIN_PIECE.min(stored) || inner == shard {
        return;
    }
    let kept = (draft.stages[writer].clone(), draft.arrays.clone());
    let grid = ChunkGrid::regular(&array.shape, &shard);
    if let Some(a) = draft.arrays.get_mut(&name) {
        a.grid = grid.clone();
        a.inner_chunk = Some(inner.clone());
        if let Some(e) = &mut a.encoding {
            e.chunks = inner;
            e.shards = Some(shard);
        }
    }
    draft.stages[writer].outputs[o].tasks = grid;
    let mut stage = draft.stages[writer].clone();
    reading.forget(draft, writer);
    let better = reading.again(draft, &name) <= before
        && fit(draft, &mut stage)
        && amplification(&draft.arrays, &stage) <= amplification(&kept.1, &kept.0) * 1.01;
    if better {
        draft.stages[writer] = stage;
    } else {
        (draft.stages[writer], draft.arrays) = kept;
    }
    reading.forget(draft, writer);
}
