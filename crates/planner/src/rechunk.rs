//! An intermediate copy of an array that a stage would otherwise read again and again.
//!
//! The copy has one object for each writing task, a shard with all its pieces; the pieces are what a reading task needs of it, so the
//! reader fetches byte ranges and neither side touches more objects than it has tasks. The data is read once and written once more.

use crate::cost::reads;
use crate::layout::{demanded, pieces};
use crate::stages::Draft;
use crate::tasks;
use chunkwise_kernels::ArrayType;
use chunkwise_plan::{Cost, Note, PlanArray, Program, Stage, StageKind, StageOutput, Step, memory};

/// Reading an array this many times costs more than copying it once.
const WORTH: f64 = 2.5;
/// Where there is a copy, reading the original this many times is too often.
const REUSE: f64 = 1.3;
/// Smaller arrays are cheap to read again.
const SMALL: u64 = 64 << 20;

/// A copy that a stage of the plan makes.
struct Made {
    source: String,
    copy: String,
}

pub(crate) fn run(draft: &mut Draft) {
    let mut made: Vec<Made> = Vec::new();
    let mut s = 0;
    let watch = draft.watch;
    let mut falls = watch.falling("looking at stages");
    while s < draft.stages.len() && falls.goes_on((draft.stages.len() - s) as u64) {
        for made in &made {
            if let Some(reader) = reuse(draft, s, made) {
                draft.stages[s] = reader;
            }
        }
        let mut falls = watch.falling("making copies");
        while let Some(name) = worst(draft, &draft.stages[s], &made) {
            // Each time one array fewer is read that is no copy.
            let originals = draft.stages[s].reads().filter(|name| !made.iter().any(|m| m.copy == **name)).count();
            if !falls.goes_on(originals as u64) {
                break;
            }
            let Some((copy, reader)) = insert(draft, s, &name) else { break };
            made.push(Made { source: name, copy: copy.outputs[0].array.clone() });
            draft.stages[s] = reader;
            draft.stages.insert(s, copy);
            s += 1;
        }
        s += 1;
    }
}

/// The array whose repeated reading costs most, if it costs more than a copy.
fn worst(draft: &Draft, stage: &Stage, made: &[Made]) -> Option<String> {
    let all = reads(&draft.arrays, stage);
    // A copy is as good as it gets.
    let copy = |name: &str| made.iter().any(|m| m.copy == name);
    let costly = all.into_iter().filter(|(name, r)| r.amplification() > WORTH && r.bytes > SMALL && !copy(name));
    costly.max_by_key(|(_, r)| r.bytes - r.own).map(|(name, _)| name.to_string())
}

/// The same stage reading another array in place of one.
fn reading(stage: &Stage, name: &str, instead: &str) -> Stage {
    let mut out = stage.clone();
    for step in &mut out.program.steps {
        if step.read.as_deref() == Some(name) {
            step.read = Some(instead.into());
        }
    }
    out
}

/// The stage reading a copy that there is already, if it reads less then.
fn reuse(draft: &mut Draft, s: usize, made: &Made) -> Option<Stage> {
    let now = reads(&draft.arrays, &draft.stages[s]).get(made.source.as_str())?.amplification();
    if now < REUSE {
        return None;
    }
    let mut reader = reading(&draft.stages[s], &made.source, &made.copy);
    let arrays = draft.arrays.clone();
    tasks::fit_narrow(draft, &mut reader);
    let then = reads(&draft.arrays, &reader).get(made.copy.as_str()).map_or(f64::MAX, |r| r.amplification());
    if then < now * 0.9 && tasks::project(draft, &mut reader) {
        reader.notes.push(Note::Text(format!("reads the copy of '{}' that an earlier stage makes", made.source)));
        return Some(reader);
    }
    draft.arrays = arrays;
    None
}

/// The copying stage and the stage that reads the copy, if both fit and the array is read less then.
fn insert(draft: &mut Draft, s: usize, name: &str) -> Option<(Stage, Stage)> {
    let again = reads(&draft.arrays, &draft.stages[s]).get(name).map_or(0.0, |r| r.amplification());
    let source = draft.arrays.get(name).cloned()?;
    let kept = draft.arrays.clone();
    // With the copy to read from, a task need not be large to read little twice: as large as lets all workers run at once.
    let copy_name = format!("copy{}-{name}", draft.arrays.len());
    let mut reader = reading(&draft.stages[s], name, &copy_name);
    let mut want = demanded(&draft.stages[s], name)?;
    for _ in 0..2 {
        copy_stage(draft, &copy_name, name, &source, &clipped(&source), &want);
        tasks::fit_narrow(draft, &mut reader);
        want = demanded(&reader, &copy_name).unwrap_or(want);
    }
    let budget = draft.spec.task_budget();
    let mut region = clipped(&source);
    let most: Vec<u64> = (0..region.len()).map(|i| source.shape[i].next_multiple_of(source.grid.0[i].max().max(1))).collect();
    let mut best: Option<Vec<u64>> = None;
    let watch = draft.watch;
    let mut falls = watch.falling("growing regions of a copy");
    let mut steps = 0u32;
    while falls.goes_on(most.iter().zip(&region).map(|(m, r)| m.saturating_sub(*r)).fold(1, u64::saturating_add)) {
        let candidate = copy_stage(draft, &copy_name, name, &source, &region, &want);
        let need = memory::worst_need(&draft.arrays, &candidate).total;
        // One chunk of the source may take the whole budget; more than that only if all workers can run.
        if need > if best.is_none() { budget } else { draft.target() } {
            break;
        }
        best = Some(region.clone());
        // Longer where the reader wants more than one piece along the axis: fewer, larger pieces.
        let Some(axis) = (0..region.len())
            .filter(|&i| region[i] < want[i].min(most[i]))
            .max_by(|&a, &b| (want[a] as f64 / region[a] as f64).total_cmp(&(want[b] as f64 / region[b] as f64)))
        else {
            break;
        };
        // Chunk by chunk, but not where there are very many small ones.
        steps += 1;
        let chunk = source.grid.0[axis].max().max(1) << (steps / 256).min(20);
        region[axis] = region[axis].saturating_add(chunk).min(most[axis]);
    }
    let Some(region) = best else {
        draft.arrays = kept;
        return None;
    };
    // The array of the draft is the last candidate's: make it that of the best one.
    let mut copy = copy_stage(draft, &copy_name, name, &source, &region, &want);
    let why = format!("a copy of '{name}' in pieces of {want:?}, because the next stage would read its chunks {again:.1} times");
    copy.notes.push(Note::Text(why));
    tasks::project(draft, &mut copy);
    let fits = tasks::project(draft, &mut reader);
    let now = reads(&draft.arrays, &reader).get(copy_name.as_str()).map_or(f64::MAX, |r| r.amplification());
    if !fits || now + 1.0 >= again {
        draft.arrays = kept;
        return None;
    }
    Some((copy, reader))
}

/// The shape of a chunk, no longer than the array.
fn clipped(source: &PlanArray) -> Vec<u64> {
    source.grid.max_shape().into_iter().map(|n| n.max(1)).collect()
}

/// A stage that copies `source` in task regions of `region`, in pieces of at most `want`.
fn copy_stage(draft: &mut Draft, copy: &str, name: &str, source: &PlanArray, region: &[u64], want: &[u64]) -> Stage {
    let (inner, shard) = pieces(&source.shape, region, want);
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
        notes: vec![Note::operations(Vec::new())],
    }
}
