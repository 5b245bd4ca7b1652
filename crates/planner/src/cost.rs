//! Bytes and requests of a stage, from its middle task.

use crate::stages::Draft;
use chunkwise_plan::schedule::Schedule;
use chunkwise_plan::{Cost, PlanArray, Stage};
use chunkwise_types::Region;
use std::collections::BTreeMap;

/// Runs of a raw chunk that are nearer to each other than this are read as one.
const GAP: f64 = 65536.0;

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
        let stage = &draft.stages[s];
        let reads = total(&reads(&draft.arrays, stage));
        let written: Vec<&PlanArray> = stage.outputs.iter().filter_map(|o| draft.arrays.get(&o.array)).collect();
        let bytes_written = written.iter().map(|a| chunkwise_types::volume(&a.shape).saturating_mul(a.dtype.size())).sum();
        let puts = written.iter().map(|a| a.grid.count()).sum();
        draft.stages[s].cost = Cost { bytes_read: reads.bytes, bytes_written, gets: reads.gets, puts };
    }
}

/// The sum over all arrays.
pub(crate) fn total(reads: &BTreeMap<&str, Reads>) -> Reads {
    reads.values().fold(Reads::default(), |a, r| Reads {
        bytes: a.bytes.saturating_add(r.bytes),
        gets: a.gets.saturating_add(r.gets),
        own: a.own.saturating_add(r.own),
    })
}

/// Bytes and requests of reading one region.
fn of_region(array: &PlanArray, region: &Region) -> (f64, f64) {
    let grid = array.read_grid();
    let touched = grid.touched(region);
    let stored = grid.stored_shape();
    let chunks: f64 = touched.shape.iter().map(|&n| n as f64).product();
    if array.raw {
        // Of each chunk the runs that are needed, joined over short gaps.
        let mut run = array.dtype.size() as f64;
        let (mut bytes, mut runs, mut joined) = (run, 1f64, true);
        for axis in (0..stored.len()).rev() {
            let (whole, part) = (stored[axis] as f64, region.shape[axis] as f64 / touched.shape[axis].max(1) as f64);
            let gap = (whole - part).max(0.0) * run;
            if !joined {
                runs *= part;
                bytes *= part;
            } else if gap <= GAP {
                bytes *= if gap == 0.0 { part } else { whole };
            } else {
                bytes *= part;
                joined = false;
            }
            run *= whole;
        }
        return (bytes * chunks, chunks * runs);
    }
    let mut bytes = array.dtype.size() as f64;
    for axis in 0..touched.rank() {
        let (a, b) = (grid.0[axis].bounds(touched.start[axis]), grid.0[axis].bounds(touched.end(axis) - 1));
        bytes *= (b.0 + b.1 - a.0) as f64;
    }
    (bytes, chunks)
}

/// What all tasks read of each array, taking the middle task for all.
pub(crate) fn reads<'a>(arrays: &'a BTreeMap<String, PlanArray>, stage: &Stage) -> BTreeMap<&'a str, Reads> {
    let counts = stage.task_counts();
    let tasks = chunkwise_types::volume(&counts) as f64;
    let mut sums: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    let mut out: BTreeMap<&str, Reads> = stage
        .reads()
        .filter_map(|name| arrays.get_key_value(name))
        .map(|(name, a)| {
            let own = chunkwise_types::volume(&a.shape).saturating_mul(a.dtype.size());
            (name.as_str(), Reads { own, ..Reads::default() })
        })
        .collect();
    if tasks == 0.0 {
        return out;
    }
    let middle: Vec<u64> = counts.iter().map(|n| (n - 1) / 2).collect();
    let schedule = Schedule::new(stage, &stage.task_regions(chunkwise_types::ravel(&middle, &counts)));
    let mut last: Vec<Vec<Region>> = vec![Vec::new(); stage.program.steps.len()];
    let mut pass = |demands: Vec<Vec<Region>>, scale: f64| {
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
        for i in 0..sample {
            let window = &phase.windows[i * n / sample];
            pass(schedule.step_pass(&stage.program, phase, window).demands, n as f64 / sample as f64);
        }
    }
    pass(schedule.output_pass(&stage.program).demands, 1.0);
    for (name, (bytes, gets)) in sums {
        if let Some(r) = out.get_mut(name) {
            (r.bytes, r.gets) = ((bytes * tasks) as u64, (gets * tasks) as u64);
        }
    }
    out
}

/// How often the average byte of the inputs is read.
pub(crate) fn amplification(arrays: &BTreeMap<String, PlanArray>, stage: &Stage) -> f64 {
    total(&reads(arrays, stage)).amplification()
}
