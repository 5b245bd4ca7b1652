//! Bytes and requests of a stage, from its middle task.

use crate::stages::Draft;
use chunkwise_plan::schedule::Schedule;
use chunkwise_plan::{Cost, PlanArray, Stage};
use chunkwise_types::Region;
use std::collections::BTreeMap;

pub(crate) fn run(draft: &mut Draft) {
    for s in 0..draft.stages.len() {
        let stage = &draft.stages[s];
        let (bytes_read, gets, _) = reads(&draft.arrays, stage);
        let written: Vec<&PlanArray> = stage.outputs.iter().filter_map(|o| draft.arrays.get(&o.array)).collect();
        let bytes_written = written.iter().map(|a| chunkwise_types::volume(&a.shape).saturating_mul(a.dtype.size())).sum();
        let puts = written.iter().map(|a| a.grid.count()).sum();
        draft.stages[s].cost = Cost { bytes_read, bytes_written, gets, puts };
    }
}

/// Decoded bytes of the chunks that all tasks read, the number of chunks, and the bytes of the arrays themselves.
pub(crate) fn reads(arrays: &BTreeMap<String, PlanArray>, stage: &Stage) -> (u64, u64, u64) {
    let counts = stage.task_counts();
    let tasks = chunkwise_types::volume(&counts);
    let own: u64 =
        stage.reads().filter_map(|name| arrays.get(name)).map(|a| chunkwise_types::volume(&a.shape).saturating_mul(a.dtype.size())).sum();
    if tasks == 0 {
        return (0, 0, own);
    }
    let middle: Vec<u64> = counts.iter().map(|n| (n - 1) / 2).collect();
    let regions = stage.task_regions(chunkwise_types::ravel(&middle, &counts));
    let schedule = Schedule::new(stage, &regions);
    // Decoded bytes and chunks of one pass.
    let pass_reads = |demands: &[Vec<Region>]| {
        let mut sum = (0f64, 0f64);
        for (k, regions) in demands.iter().enumerate() {
            let Some(array) = stage.program.steps[k].read.as_ref().and_then(|n| arrays.get(n)) else { continue };
            let grid = array.read_grid();
            for r in regions.iter().filter(|r| !r.is_empty()) {
                let touched = grid.touched(r);
                let (mut v, mut c) = (array.dtype.size() as f64, 1f64);
                for axis in 0..touched.rank() {
                    let (a, b) = (grid.0[axis].bounds(touched.start[axis]), grid.0[axis].bounds(touched.end(axis) - 1));
                    v *= (b.0 + b.1 - a.0) as f64;
                    c *= touched.shape[axis] as f64;
                }
                sum = (sum.0 + v, sum.1 + c);
            }
        }
        sum
    };
    let (mut bytes, mut chunks) = pass_reads(&schedule.output_pass(&stage.program).demands);
    for phase in &schedule.phases {
        // Long streams are sampled: their steps are alike.
        let (n, sample) = (phase.windows.len(), phase.windows.len().min(16));
        for i in 0..sample {
            let window = &phase.windows[i * n / sample];
            let (b, c) = pass_reads(&schedule.step_pass(&stage.program, phase, window).demands);
            let scale = n as f64 / sample as f64;
            bytes += b * scale;
            chunks += c * scale;
        }
    }
    ((bytes * tasks as f64) as u64, (chunks * tasks as f64) as u64, own)
}

/// How often the average byte of the inputs is read.
pub(crate) fn amplification(arrays: &BTreeMap<String, PlanArray>, stage: &Stage) -> f64 {
    let (read, _, own) = reads(arrays, stage);
    read as f64 / own.max(1) as f64
}
