//! An intermediate copy of an array that a stage would otherwise read again and again.
//!
//! The copy has one object for each writing task, a shard with all its pieces; the pieces are what a reading task needs of it, so the
//! reader fetches byte ranges and neither side touches more objects than it has tasks. The data is read once and written once more.

use crate::PlannerError;
use crate::cost::{amplification, reads};
use crate::stages::Draft;
use crate::tasks::fit;
use chunkwise_kernels::ArrayType;
use chunkwise_plan::schedule::Schedule;
use chunkwise_plan::{Cost, PlanArray, Program, Stage, StageKind, StageOutput, Step, memory};
use chunkwise_types::{ByteSize, Region};

/// Reading an array this many times costs more than copying it once.
const WORTH: f64 = 2.5;
/// Smaller arrays are cheap to read again.
const SMALL: u64 = 64 << 20;

pub(crate) fn run(draft: &mut Draft) -> Result<(), PlannerError> {
    let mut s = 0;
    while s < draft.stages.len() {
        if amplification(&draft.arrays, &draft.stages[s]) > WORTH
            && reads(&draft.arrays, &draft.stages[s]).0 > SMALL
            && let Some((copy, reader)) = insert(draft, s)?
        {
            draft.stages[s] = reader;
            draft.stages.insert(s, copy);
            s += 1;
        }
        s += 1;
    }
    Ok(())
}

/// The largest box of an array that a task reads at once.
fn demanded(stage: &Stage, array: &str) -> Option<Vec<u64>> {
    let counts = stage.task_counts();
    let middle: Vec<u64> = counts.iter().map(|n| n.saturating_sub(1) / 2).collect();
    let schedule = Schedule::new(stage, &stage.task_regions(chunkwise_types::ravel(&middle, &counts)));
    if !schedule.phases.is_empty() {
        return None;
    }
    let pass = schedule.output_pass(&stage.program);
    let boxes = stage.program.steps.iter().zip(&pass.demands).filter(|(s, _)| s.read.as_deref() == Some(array)).flat_map(|(_, d)| d);
    boxes.max_by_key(|r| r.volume()).map(|r: &Region| r.shape.clone())
}

/// The copying stage and the stage that reads the copy, for the array that is read most.
fn insert(draft: &mut Draft, s: usize) -> Result<Option<(Stage, Stage)>, PlannerError> {
    let stage = draft.stages[s].clone();
    let budget = draft.spec.allowed_mem.saturating_sub(draft.spec.reserved_mem);
    let worst =
        stage.reads().filter_map(|n| Some((n.to_string(), draft.arrays.get(n)?))).max_by_key(|(_, a)| chunkwise_types::volume(&a.shape));
    let Some((name, source)) = worst.map(|(n, a)| (n, a.clone())) else { return Ok(None) };
    let Some(want) = demanded(&stage, &name) else { return Ok(None) };
    let copy_name = format!("copy{}-{name}", draft.arrays.len());
    let mut region = source.grid.max_shape();
    let mut best: Option<Stage> = None;
    loop {
        let candidate = copy_stage(draft, &copy_name, &name, &source, &region, &want);
        let fits = memory::worst_need(&draft.arrays, &candidate).total <= budget;
        if !fits {
            break;
        }
        best = Some(candidate);
        // Longer where the reader wants more than one piece along the axis: fewer, larger pieces.
        let Some(axis) = (0..region.len())
            .filter(|&i| region[i] < want[i])
            .max_by(|&a, &b| (want[a] as f64 / region[a] as f64).total_cmp(&(want[b] as f64 / region[b] as f64)))
        else {
            break;
        };
        let chunk = source.grid.0[axis].max().max(1);
        region[axis] = (region[axis] + chunk).min(source.shape[axis].next_multiple_of(chunk));
    }
    let Some(mut copy) = best else { return Ok(None) };
    // The array of the draft is the last candidate's: make it that of the best one.
    let region = copy.outputs[0].tasks.max_shape();
    copy = copy_stage(draft, &copy_name, &name, &source, &region, &want);
    copy.notes.push(format!(
        "a copy of '{name}' in pieces of {want:?}, because the next stage would read its chunks {:.1} times",
        amplification(&draft.arrays, &stage)
    ));
    let mut reader = stage;
    for step in &mut reader.program.steps {
        if step.read.as_deref() == Some(name.as_str()) {
            step.read = Some(copy_name.clone());
        }
    }
    let need = memory::worst_need(&draft.arrays, &copy);
    copy.projected_mem = need.total;
    copy.notes.push(format!("memory: {}", ByteSize(need.total)));
    reader.notes.retain(|n| !n.starts_with("memory:"));
    fit(draft, &mut reader)?;
    Ok(Some((copy, reader)))
}

/// A stage that copies `source` in task regions of `region`, in pieces of at most `want`.
fn copy_stage(draft: &mut Draft, copy: &str, name: &str, source: &PlanArray, region: &[u64], want: &[u64]) -> Stage {
    let mut inner = Vec::new();
    let mut shard = Vec::new();
    for axis in 0..region.len() {
        let (len, w) = (source.shape[axis].max(1), want[axis].min(region[axis]).max(1));
        if region[axis] >= len {
            // One shard covers the axis: it may be padded to a multiple of the pieces.
            let piece = w.min(len);
            inner.push(piece);
            shard.push(len.next_multiple_of(piece));
        } else {
            let piece = (1..=w).rev().find(|p| region[axis].is_multiple_of(*p)).unwrap_or(1);
            inner.push(piece);
            shard.push(region[axis]);
        }
    }
    let tasks = draft.intermediate(copy, source.dtype, &source.shape, inner, Some(shard));
    Stage {
        name: format!("rechunk {name}"),
        kind: StageKind::Rechunk,
        program: Program {
            steps: vec![Step {
                read: Some(name.into()),
                kernel: None,
                inputs: Vec::new(),
                ty: ArrayType::new(source.dtype, source.shape.clone()),
                stream: None,
            }],
        },
        outputs: vec![StageOutput { step: 0, array: copy.into(), tasks }],
        projected_mem: 0,
        cost: Cost::default(),
        notes: vec!["operations: copy".into()],
    }
}
