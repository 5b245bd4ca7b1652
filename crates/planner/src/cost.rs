//! Bytes and requests of a stage, from its middle task and those at the ends of its axes.

use crate::stages::Draft;
use chunkwise_plan::demand::{Demands, Regions};
use chunkwise_plan::runs::{GAP, runs};
use chunkwise_plan::schedule::Schedule;
use chunkwise_plan::{Cost, PlanArray, Stage, memory};
use chunkwise_types::{ArrayAccess, ChunkGrid, Region};
use std::collections::BTreeMap;

/// What all tasks of a stage read of one array.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Reads {
    /// Decoded bytes of what is fetched.
    pub bytes: u64,
    /// Ranges or objects that are fetched.
    pub gets: u64,
    /// Decoded bytes of the array itself.
    pub own: u64,
}

impl Reads {
    /// How often the average byte of the array is read.
    pub fn amplification(&self) -> f64 {
        self.bytes as f64 / self.own.max(1) as f64
    }
}

pub(crate) fn run(draft: &mut Draft) {
    for s in 0..draft.stages.len() {
        if !draft.watch.goes_on() {
            return;
        }
        let stage = &draft.stages[s];
        let reads = with_ends(&draft.arrays, stage);
        let written: Vec<&PlanArray> = stage.outputs.iter().filter_map(|o| draft.arrays.get(&o.array)).collect();
        let bytes_written = written.iter().map(|a| chunkwise_types::volume(&a.shape).saturating_mul(a.dtype.size())).sum();
        let puts = written.iter().map(|a| a.grid.count()).sum();
        draft.stages[s].cost = Cost { bytes_read: reads.bytes, bytes_written, gets: reads.gets, puts };
    }
}

/// What all tasks of a stage read, those at the ends of the axes for themselves: they may be smaller.
pub(crate) fn with_ends(arrays: &BTreeMap<String, PlanArray>, stage: &Stage) -> Reads {
    total(&most(arrays, stage, &|beside| kinds(&stage.task_counts(), beside)))
}

/// The sum over all arrays.
pub(crate) fn total(reads: &BTreeMap<&str, Reads>) -> Reads {
    reads.values().fold(Reads::default(), |a, r| Reads {
        bytes: a.bytes.saturating_add(r.bytes),
        gets: a.gets.saturating_add(r.gets),
        own: a.own.saturating_add(r.own),
    })
}

/// Bytes that one request asks for at most, but for a larger compressed chunk.
const LARGEST: f64 = (8u64 << 20) as f64;

/// The bytes and the ranges that are read of a box of `part` elements in a dense C-order block of `whole`: its runs, joined where they
/// are near to each other, cut where they are long. An element has `item` bytes and is not cut.
fn ranges(whole: &[u64], part: &[u64], item: f64) -> (f64, f64) {
    let (count, read) = runs(whole, part, item, GAP);
    let most = (LARGEST / item).floor().max(1.0) * item;
    (count * read, count * (read / most).ceil().max(1.0))
}

/// The bytes of the blocks that hold a box of a chunk, of which any can be decoded by itself.
fn in_blocks(whole: &[u64], part: &[u64], item: f64, block: f64) -> f64 {
    let (count, read) = runs(whole, part, item, block);
    let all = whole.iter().map(|&n| n as f64).product::<f64>() * item;
    // Wherever a run starts in its block, one more than it fills.
    (count * (read + block)).min(all)
}

/// For each axis, how much of the blocks that a region touches is in it, and how many blocks that is true of. Lengths are those of
/// `fine`, of whose chunks a block holds `per` on each axis.
fn parts(region: &Region, fine: &ChunkGrid, per: &[u64]) -> Vec<Vec<(u64, f64)>> {
    let touched = fine.touched(region);
    (0..per.len())
        .map(|axis| {
            let (start, end, per) = (touched.start[axis], touched.end(axis), per[axis].max(1));
            let (first, last) = (start / per, (end - 1) / per);
            let of = |block: u64| ((block + 1) * per).min(end) - (block * per).max(start);
            match last - first {
                0 => vec![(of(first), 1.0)],
                n => vec![(of(first), 1.0), (per, (n - 1) as f64), (of(last), 1.0)],
            }
        })
        .collect()
}

/// The sum of something over every block of a region, given for each axis what there is and how often.
fn sum(parts: &[Vec<(u64, f64)>], each: &mut dyn FnMut(&[u64]) -> (f64, f64)) -> (f64, f64) {
    let counts: Vec<u64> = parts.iter().map(|p| p.len() as u64).collect();
    let mut out = (0.0, 0.0);
    for k in 0..chunkwise_types::volume(&counts) {
        let index = chunkwise_types::unravel(k, &counts);
        let chosen: Vec<(u64, f64)> = parts.iter().zip(&index).map(|(p, &i)| p[i as usize]).collect();
        let times: f64 = chosen.iter().map(|(_, n)| n).product();
        if times > 0.0 {
            let (a, b) = each(&chosen.iter().map(|(n, _)| *n).collect::<Vec<_>>());
            out = (out.0 + a * times, out.1 + b * times);
        }
    }
    out
}

/// Bytes and requests of reading one region.
fn of_region(array: &PlanArray, region: &Region) -> (f64, f64) {
    let grid = array.read_grid();
    let touched = grid.touched(region);
    let item = array.dtype.size() as f64;
    let stored = array.grid.stored_shape();
    // Beyond some axes there are more kinds of blocks than it is worth to tell apart.
    let few = stored.len() <= 6;
    let elements = || ChunkGrid::regular(&array.shape, &vec![1; stored.len()]);
    if array.access == ArrayAccess::Raw && few {
        return sum(&parts(region, &elements(), &stored), &mut |part| ranges(&stored, part, item));
    }
    if let Some(block) = memory::blocks(array).filter(|_| few) {
        return sum(&parts(region, &elements(), &stored), &mut |part| (in_blocks(&stored, part, item, block as f64), 1.0));
    }
    let mut bytes = item;
    for axis in 0..touched.rank() {
        let (a, b) = (grid.0[axis].bounds(touched.start[axis]), grid.0[axis].bounds(touched.end(axis) - 1));
        bytes *= (b.0 + b.1 - a.0) as f64;
    }
    let inner = array.inner_chunk.as_ref().filter(|inner| few && inner.len() == stored.len() && !inner.contains(&0));
    if let Some(inner) = inner {
        // Of each shard the index, and inner chunks that lie together.
        let per: Vec<u64> = stored.iter().zip(inner).map(|(s, c)| s / c).collect();
        let chunk = inner.iter().map(|&n| n as f64).product::<f64>() * item;
        let (_, gets) = sum(&parts(region, &grid, &per), &mut |part| (0.0, 1.0 + ranges(&per, part, chunk).1));
        return (bytes, gets);
    }
    (bytes, touched.shape.iter().map(|&n| n as f64).product())
}

/// The index of a task in the middle, or of one beside it on every second axis, where no axis ends.
fn middle(counts: &[u64], beside: bool) -> Vec<u64> {
    let mut shift = false;
    let at = |&n: &u64| {
        let middle = n.saturating_sub(1) / 2;
        let moved = beside && shift;
        shift ^= n > 1;
        match n {
            // The next one would be the last.
            3 if moved => 0,
            _ if moved => (middle + 1).min(n.saturating_sub(2)),
            _ => middle,
        }
    };
    counts.iter().map(at).collect()
}

/// Tasks that stand for all, with how many they stand for: the middle one on each axis, and the last one, which may be smaller.
pub(crate) fn kinds(counts: &[u64], beside: bool) -> Vec<(u64, f64)> {
    let mut out = vec![(Vec::new(), 1.0)];
    // More kinds than that are not worth the time.
    let mut splits = 4;
    for (&n, middle) in counts.iter().zip(middle(counts, beside)) {
        let split = n > 1 && splits > 0;
        splits -= i32::from(split);
        let own = if split { vec![(middle, (n - 1) as f64), (n - 1, 1.0)] } else { vec![(middle, n as f64)] };
        let with = |(index, times): &(Vec<u64>, f64)| -> Vec<(Vec<u64>, f64)> {
            own.iter().map(|&(k, n)| (index.iter().copied().chain([k]).collect(), times * n)).collect()
        };
        out = out.iter().flat_map(with).collect();
    }
    out.into_iter().map(|(index, times)| (chunkwise_types::ravel(&index, counts), times)).collect()
}

/// What all tasks read of each array, taking the middle task for all, if they are more than a few.
pub(crate) fn reads<'a>(arrays: &'a BTreeMap<String, PlanArray>, stage: &Stage) -> BTreeMap<&'a str, Reads> {
    let counts = stage.task_counts();
    most(arrays, stage, &|beside| match chunkwise_types::volume(&counts) {
        0..=4 => kinds(&counts, beside),
        tasks => vec![(chunkwise_types::ravel(&middle(&counts, beside), &counts), tasks as f64)],
    })
}

/// What some tasks read, or those beside them if that is more. On the diagonal, or on the other one, a product of a matrix with its own
/// transpose reads half as much as elsewhere.
fn most<'a>(arrays: &'a BTreeMap<String, PlanArray>, stage: &Stage, tasks: &dyn Fn(bool) -> Vec<(u64, f64)>) -> BTreeMap<&'a str, Reads> {
    let (middle, beside) = (tasks(false), tasks(true));
    let first = sums(arrays, stage, &middle);
    if middle == beside {
        return first;
    }
    let second = sums(arrays, stage, &beside);
    if total(&second).bytes > total(&first).bytes { second } else { first }
}

/// What some tasks read of each array, each as often as it is said.
fn sums<'a>(arrays: &'a BTreeMap<String, PlanArray>, stage: &Stage, tasks: &[(u64, f64)]) -> BTreeMap<&'a str, Reads> {
    let mut out: BTreeMap<&str, Reads> = stage
        .reads()
        .filter_map(|name| arrays.get_key_value(name))
        .map(|(name, a)| {
            let own = chunkwise_types::volume(&a.shape).saturating_mul(a.dtype.size());
            (name.as_str(), Reads { own, ..Reads::default() })
        })
        .collect();
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for &(task, times) in tasks.iter().filter(|(_, times)| *times > 0.0) {
        let schedule = Schedule::new(stage, &stage.task_regions(task));
        let mut last: Demands = vec![Regions::new(); stage.program.steps.len()];
        let mut pass = |demands: Demands, scale: f64| {
            for (k, regions) in demands.iter().enumerate() {
                let Some((name, array)) = stage.program.steps[k].read.as_ref().and_then(|n| arrays.get_key_value(n)) else { continue };
                // What the step before has read as well is still there.
                if *regions != last[k] {
                    let sum = sums.entry(name).or_default();
                    for r in regions.iter().filter(|r| !r.is_empty()) {
                        let (b, g) = of_region(array, r);
                        *sum = (sum.0 + b * scale, sum.1 + g * scale);
                    }
                }
            }
            last = demands;
        };
        for phase in &schedule.phases {
            // Long streams are sampled: their steps are alike.
            let (n, sample) = (phase.windows.len(), phase.windows.len().min(16));
            for window in (0..sample).filter_map(|i| phase.windows.get(i.saturating_mul(n) / sample)) {
                pass(schedule.step_pass(&stage.program, phase, &window).demands, times * n as f64 / sample as f64);
            }
        }
        pass(schedule.output_pass(&stage.program).demands, times);
    }
    for (name, (bytes, gets)) in sums {
        if let Some(r) = out.get_mut(name) {
            (r.bytes, r.gets) = (bytes as u64, gets.round() as u64);
        }
    }
    out
}

/// How often the average byte of the inputs is read.
pub(crate) fn amplification(arrays: &BTreeMap<String, PlanArray>, stage: &Stage) -> f64 {
    total(&reads(arrays, stage)).amplification()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_a_box() {
        assert_eq!(ranges(&[4, 1000], &[4, 1000], 8.0), (32000.0, 1.0));
        // Short gaps are read over, long ones are not.
        assert_eq!(ranges(&[4, 1000], &[4, 10], 8.0), (24080.0, 1.0));
        assert_eq!(ranges(&[4, 100_000], &[4, 10], 8.0), (320.0, 4.0));
        assert_eq!(ranges(&[3, 4, 100_000], &[2, 4, 10], 8.0), (640.0, 8.0));
        assert_eq!(ranges(&[1 << 22], &[1 << 22], 8.0).1, 4.0);
        assert_eq!(ranges(&[], &[], 8.0), (8.0, 1.0));
    }

    #[test]
    fn blocks_of_a_box() {
        // A run reaches into one block more than it fills; all of a chunk is not more than that.
        assert_eq!(in_blocks(&[4, 1000, 1000], &[4, 10, 1000], 8.0, 1e5), 4.0 * 1.8e5);
        assert_eq!(in_blocks(&[4, 1000, 1000], &[1, 1000, 1000], 8.0, 1e5), 8.1e6);
        assert_eq!(in_blocks(&[4, 1000, 1000], &[4, 1000, 1000], 8.0, 1e5), 3.2e7);
        // What is between short rows is in the same blocks.
        assert_eq!(in_blocks(&[4, 1000, 1000], &[1, 10, 10], 8.0, 1e5), 9.0 * 8000.0 + 80.0 + 1e5);
    }

    #[test]
    fn kinds_stand_for_all_tasks() {
        assert_eq!(kinds(&[], false), [(0, 1.0)]);
        assert_eq!(kinds(&[1, 3], true), [(1, 2.0), (2, 1.0)]);
        assert_eq!((middle(&[3, 1, 3], false), middle(&[3, 1, 3], true)), (vec![1, 0, 1], vec![1, 0, 0]));
        assert_eq!((middle(&[4, 8, 2], false), middle(&[4, 8, 2], true)), (vec![1, 3, 0], vec![1, 4, 0]));
        assert_eq!(kinds(&[0], false), [(0, 0.0)]);
        for counts in [vec![5, 4], vec![2, 2, 2, 2, 2, 7]] {
            let found = kinds(&counts, counts.len() % 2 == 0);
            let all = chunkwise_types::volume(&counts);
            assert_eq!(found.iter().map(|k| k.1).sum::<f64>(), all as f64);
            assert!(found.len() <= 16 && found.iter().all(|k| k.0 < all));
        }
    }

    #[test]
    fn parts_of_blocks() {
        let grid = ChunkGrid::regular(&[100], &[1]);
        let region = Region::new([7], [50]);
        assert_eq!(parts(&region, &grid, &[10])[0], [(3, 1.0), (10, 4.0), (7, 1.0)]);
        assert_eq!(sum(&parts(&region, &grid, &[10]), &mut |p| (p[0] as f64, 1.0)), (50.0, 6.0));
    }
}
