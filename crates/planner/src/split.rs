//! Long folds become trees of two rounds, so that all workers are busy: the first folds segments of the input into partial
//! results, the second folds those.

use crate::cost::{reads, total};
use crate::stages::{Draft, natural};
use crate::tasks::{fit, fit_small};
use crate::watch::reach;
use chunkwise_kernels::{ArrayType, Contract, Kernel, ReduceOp};
use chunkwise_plan::{Cost, Note, Program, Stage, StageKind, StageOutput, Step, memory};
use chunkwise_types::{AxisChunks, ChunkGrid, DType};

/// Less input than this is not worth a second round.
pub(crate) const SMALL: u64 = 64 << 20;

pub(crate) fn run(draft: &mut Draft) {
    let mut s = 0;
    let watch = draft.watch;
    let mut falls = watch.falling("looking at stages");
    while s < draft.stages.len() && falls.goes_on((draft.stages.len() - s) as u64) {
        let stage = draft.stages[s].clone();
        if let Some((mut first, mut second)) = split(draft, &stage) {
            // Where the tree does not fit, the plain fold that fits stays.
            let arrays = draft.arrays.clone();
            if fit_small(draft, &mut first) && fit(draft, &mut second) {
                draft.stages[s] = second;
                draft.stages.insert(s, first);
                s += 1;
            } else {
                draft.arrays = arrays;
            }
        }
        s += 1;
    }
}

/// The function of the second round.
fn merge(function: ReduceOp) -> Option<ReduceOp> {
    match function {
        ReduceOp::Sum | ReduceOp::CountNonzero => Some(ReduceOp::Sum),
        ReduceOp::Prod | ReduceOp::Min | ReduceOp::Max | ReduceOp::Any | ReduceOp::All | ReduceOp::MergeMoments => Some(function),
        ReduceOp::Moments { .. } => Some(ReduceOp::MergeMoments),
        _ => None,
    }
}

fn split(draft: &mut Draft, stage: &Stage) -> Option<(Stage, Stage)> {
    let workers = draft.spec.workers.max(1);
    let bytes = total(&reads(&draft.arrays, stage)).bytes;
    if stage.tasks() == 0 || stage.tasks() >= 2 * workers || bytes < SMALL {
        return None;
    }
    let streamed: Vec<usize> = (0..stage.program.steps.len()).filter(|&k| stage.program.steps[k].stream.is_some()).collect();
    let first = *streamed.first()?;
    let stream = stage.program.steps[first].stream.clone()?;
    let axis = (0..stream.len()).max_by_key(|&i| stream[i].count())?;
    let blocks = stream[axis].count();
    let shared = draft.reads_only(stage, |a| memory::divisible(a) || memory::keeps(a));
    let per = blocks.div_ceil(rounds(stage, blocks, bytes, workers, shared)).max(1);
    let segments: Vec<AxisChunks> = stream
        .iter()
        .enumerate()
        .map(|(i, cut)| if i == axis { group(cut, per) } else { AxisChunks::regular(cut.len(), cut.len()) })
        .collect();
    let parts = segments[axis].count();
    if parts < 2 {
        return None;
    }
    let mut round1 = stage.program.clone();
    let mut round2 = Program::default();
    let mut outputs = Vec::new();
    let mut place = vec![usize::MAX; stage.program.steps.len()];
    let after = stage.program.dependents(&streamed);
    for &k in &streamed {
        let step = &stage.program.steps[k];
        // All folds must run in lockstep over the same range, and none may depend on another.
        if step.stream.as_ref() != Some(&stream) || after[k] {
            return None;
        }
        let Partial { kernel, then, axes, along, shape, dtype } = partial(&stage.program, step, &segments, axis)?;
        if chunkwise_types::volume(&shape).saturating_mul(dtype.size()).saturating_mul(2) > bytes {
            return None;
        }
        let mut block = shape.clone();
        block[along] = 1;
        let single = ChunkGrid(shape.iter().zip(&block).map(|(&n, &b)| AxisChunks::regular(n, b)).collect());
        let chunk = natural(draft.watch, &single, dtype.size(), 32 << 20);
        let name = format!("part{}-{}", draft.arrays.len(), then.name());
        let tasks = draft.intermediate(&name, dtype, &shape, chunk, None);
        let ty = ArrayType::new(dtype, shape.clone());
        round1.steps[k].kernel = Some(kernel);
        round1.steps[k].ty = ty.clone();
        outputs.push(StageOutput { step: k, array: name.clone(), tasks });
        round2.steps.push(Step { read: Some(name), kernel: None, inputs: Vec::new(), ty, stream: None });
        let cut = axes.iter().map(|&a| AxisChunks::regular(shape[a], if a == along { 1 } else { shape[a] })).collect();
        round2.steps.push(Step {
            read: None,
            kernel: Some(Kernel::Reduce { function: then, axes, segments: None }),
            inputs: vec![round2.steps.len() - 1],
            ty: step.ty.clone(),
            stream: Some(cut),
        });
        place[k] = round2.steps.len() - 1;
    }
    let counts: Vec<Vec<u64>> = outputs.iter().map(|o| o.tasks.counts()).collect();
    if counts.iter().any(|c| c[..c.len().min(counts[0].len())] != counts[0][..c.len().min(counts[0].len())]) {
        return None;
    }
    let round1 = pruned(round1, &mut outputs);
    // The rest of the program follows in the second round, reading other arrays again where it needs them.
    let needed = beside(&stage.program, &stage.outputs, &streamed);
    for k in 0..stage.program.steps.len() {
        if place[k] == usize::MAX && needed[k] {
            let mut step = stage.program.steps[k].clone();
            step.inputs = step.inputs.iter().map(|&i| place[i]).collect();
            round2.steps.push(step);
            place[k] = round2.steps.len() - 1;
        }
    }
    let second_outputs = stage.outputs.iter().map(|o| StageOutput { step: place[o.step], ..o.clone() }).collect();
    let notes = |round: &str| {
        let mut n: Vec<Note> = stage.notes.iter().filter(|n| !matches!(n, Note::Memory { .. })).cloned().collect();
        n.push(Note::Text(format!("{round} round of a tree over {parts} segments, so that all workers are busy")));
        n
    };
    let first = Stage {
        name: format!("{} (partial)", stage.name),
        kind: StageKind::Blockwise,
        program: round1,
        outputs,
        projected_mem: 0,
        cost: Cost::default(),
        notes: notes("first"),
    };
    let second = Stage { program: round2, outputs: second_outputs, notes: notes("second"), ..stage.clone() };
    Some((first, second))
}

/// The first round of one fold.
struct Partial {
    kernel: Kernel,
    /// What folds the partial results.
    then: ReduceOp,
    /// The axes of the partial results that the second round folds.
    axes: Vec<usize>,
    /// The axis that has an element for each segment.
    along: usize,
    shape: Vec<u64>,
    dtype: DType,
}

/// The first round of a fold whose contracted index number `axis` is cut into segments.
fn partial(program: &Program, step: &Step, segments: &[AxisChunks], axis: usize) -> Option<Partial> {
    match step.kernel.as_ref()? {
        Kernel::Reduce { function, axes, segments: None } => {
            let then = merge(*function)?;
            let dtype = match (function, step.ty.dtype) {
                (ReduceOp::Sum | ReduceOp::Prod, DType::Float32) => DType::Float64,
                (ReduceOp::Sum | ReduceOp::Prod, DType::Complex64) => DType::Complex128,
                (_, d) => d,
            };
            let mut shape = program.steps[step.inputs[0]].ty.shape.clone();
            if *function == ReduceOp::MergeMoments {
                shape.pop();
            }
            for (&a, s) in axes.iter().zip(segments) {
                shape[a] = s.count();
            }
            if matches!(function, ReduceOp::Moments { .. } | ReduceOp::MergeMoments) {
                shape.push(3);
            }
            let kernel = Kernel::Reduce { function: *function, axes: axes.clone(), segments: Some(segments.to_vec()) };
            Some(Partial { kernel, then, axes: axes.clone(), along: axes[axis], shape, dtype })
        }
        Kernel::Contract(c) if c.segments.is_none() => {
            let dtype = step.ty.dtype;
            let then = if dtype == DType::Bool { ReduceOp::Any } else { ReduceOp::Sum };
            let label = *c.contracted().get(axis)?;
            let shape: Vec<u64> = std::iter::once(segments[axis].count()).chain(step.ty.shape.iter().copied()).collect();
            let kernel = Kernel::Contract(Contract { segments: Some((label, segments[axis].clone())), ..c.clone() });
            Some(Partial { kernel, then, axes: vec![0], along: 0, shape, dtype })
        }
        _ => None,
    }
}

/// The steps that the outputs need, and no others.
fn pruned(program: Program, outputs: &mut [StageOutput]) -> Program {
    let starts: Vec<usize> = outputs.iter().map(|o| o.step).collect();
    let wanted = reach(&starts, program.steps.len(), |k| &program.steps[k].inputs);
    let mut place = vec![0; wanted.len()];
    let mut steps = Vec::new();
    for (k, mut step) in program.steps.into_iter().enumerate().filter(|(k, _)| wanted[*k]) {
        step.inputs.iter_mut().for_each(|i| *i = place[*i]);
        place[k] = steps.len();
        steps.push(step);
    }
    outputs.iter_mut().for_each(|o| o.step = place[o.step]);
    Program { steps }
}

/// The number of segments that finishes first: the time of the busiest worker against the bytes of the partial results. Where workers can share a
/// chunk, a worker that has finished helps the others. Else workers wait for half a segment on average, so that there may be more segments.
fn rounds(stage: &Stage, blocks: u64, bytes: u64, workers: u64, shared: bool) -> u64 {
    let partial: f64 = stage
        .program
        .steps
        .iter()
        .filter(|s| s.stream.is_some())
        .map(|s| chunkwise_types::volume(&s.ty.shape).saturating_mul(s.ty.dtype.size().max(8)) as f64)
        .sum();
    let cost = |n: u64| {
        let per = blocks.div_ceil(n);
        let busiest = blocks.div_ceil(per).div_ceil(workers) * per;
        let waiting = if shared { 0.0 } else { 0.5 * (per * workers) as f64 };
        ((busiest * workers) as f64 + waiting) / blocks as f64 * bytes as f64 + 4.0 * n as f64 * partial
    };
    let least = (2 * workers).max(bytes >> 30).min(256);
    let most = if shared { 8 } else { 16 } * workers;
    (least..=most.clamp(least, 256)).min_by(|&a, &b| cost(a).total_cmp(&cost(b))).unwrap_or(least)
}

/// Groups `per` chunks of a cut into one segment.
fn group(cut: &AxisChunks, per: u64) -> AxisChunks {
    match cut {
        AxisChunks::Regular { len, size } => AxisChunks::regular(*len, size.saturating_mul(per)),
        AxisChunks::Irregular(list) => AxisChunks::from_list(list.chunks(per as usize).map(|c| c.iter().sum()).collect()),
    }
}

/// The steps on paths from the outputs that do not pass through a streamed step.
fn beside(program: &Program, outputs: &[StageOutput], streamed: &[usize]) -> Vec<bool> {
    let starts: Vec<usize> = outputs.iter().map(|o| o.step).collect();
    reach(&starts, program.steps.len(), |k| if streamed.contains(&k) { &[] } else { &program.steps[k].inputs })
}
