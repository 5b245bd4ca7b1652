//! The pieces of intermediate arrays: an object for each writing task, which its readers read in parts.
//!
//! An intermediate is stored as one shard a task, with inner chunks of the shape that its readers ask for. So neither side touches
//! more objects than it has tasks, and a reader that wants a thin slice of every shard does not decode the rest.

use crate::cost::{amplification, reads};
use crate::stages::Draft;
use crate::tasks::fit;
use chunkwise_plan::schedule::{Pass, Schedule};
use chunkwise_plan::{ArrayRole, Stage};
use chunkwise_types::{ChunkGrid, Region};

/// Reading an intermediate this much too often is not worth smaller pieces.
const WORTH: f64 = 1.2;
/// Smaller pieces cost more in requests and headers than they save.
const MIN_PIECE: u64 = 16 << 10;
/// Larger pieces take memory to decode.
const MAX_PIECE: u64 = 8 << 20;

/// The largest box of an array that a task of a stage reads at once.
pub(crate) fn demanded(stage: &Stage, array: &str) -> Option<Vec<u64>> {
    let counts = stage.task_counts();
    if counts.contains(&0) {
        return None;
    }
    let middle: Vec<u64> = counts.iter().map(|n| (n - 1) / 2).collect();
    let schedule = Schedule::new(stage, &stage.task_regions(chunkwise_types::ravel(&middle, &counts)));
    let mut best: Option<Region> = None;
    let mut look = |pass: &Pass| {
        let boxes = stage.program.steps.iter().zip(&pass.demands).filter(|(s, _)| s.read.as_deref() == Some(array)).flat_map(|(_, d)| d);
        for b in boxes.filter(|b| !b.is_empty()) {
            if best.as_ref().is_none_or(|a| a.volume() < b.volume()) {
                best = Some(b.clone());
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
    best.map(|r| r.shape.into_vec())
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
    for writer in 0..draft.stages.len() {
        if !draft.watch.goes_on() {
            return;
        }
        for o in 0..draft.stages[writer].outputs.len() {
            relay(draft, writer, o);
        }
    }
}

/// Gives one intermediate the pieces that its readers want, where they read it too often as it is.
fn relay(draft: &mut Draft, writer: usize, o: usize) {
    let name = draft.stages[writer].outputs[o].array.clone();
    let Some(array) = draft.arrays.get(&name).filter(|a| a.role == ArrayRole::Intermediate).cloned() else { return };
    let readers: Vec<usize> = (0..draft.stages.len()).filter(|&s| draft.stages[s].reads().any(|n| n == name)).collect();
    let again = |draft: &Draft| -> f64 {
        readers.iter().filter_map(|&s| reads(&draft.arrays, &draft.stages[s]).get(name.as_str()).map(|r| r.amplification())).sum()
    };
    let before = again(draft);
    let item = array.dtype.size();
    let stored = chunkwise_types::volume(&array.read_grid().stored_shape()).saturating_mul(item);
    if before <= WORTH * readers.len() as f64 && stored <= MAX_PIECE {
        return;
    }
    let wants: Vec<Vec<u64>> = readers.iter().filter_map(|&s| demanded(&draft.stages[s], &name)).collect();
    let Some(want) = wants.into_iter().reduce(|a, b| a.iter().zip(&b).map(|(x, y)| *x.min(y)).collect()) else { return };
    let mut want = want;
    let mut falls = draft.watch.falling("halving pieces");
    while chunkwise_types::volume(&want).saturating_mul(item) > MAX_PIECE && falls.goes_on(chunkwise_types::volume(&want)) {
        // The slowest axes first, so that a piece is a run of what is read.
        let Some(axis) = (0..want.len()).find(|&i| want[i] > 1) else { break };
        want[axis] = want[axis].div_ceil(2);
    }
    let region = draft.stages[writer].outputs[o].tasks.stored_shape();
    let (inner, shard) = pieces(&array.shape, &region, &want);
    if chunkwise_types::volume(&inner) * item < MIN_PIECE.min(stored) || inner == shard {
        return;
    }
    let kept = (draft.stages.clone(), draft.arrays.clone());
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
    let better = again(draft) <= before
        && fit(draft, &mut stage)
        && amplification(&draft.arrays, &stage) <= amplification(&kept.1, &kept.0[writer]) * 1.01;
    if better {
        draft.stages[writer] = stage;
    } else {
        (draft.stages, draft.arrays) = kept;
    }
}
