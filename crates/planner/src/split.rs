//! Long folds become trees of two rounds, so that all workers are busy: the first folds segments of the input into partial
//! results, the second folds those.

use crate::cost::{reads, total};
use crate::materialise::made;
use crate::stages::{Draft, natural};
use crate::tasks::{fit, fit_small};
use crate::watch::reach;
use chunkwise_kernels::{Node, Rounds};
use chunkwise_plan::{Cost, Note, Program, Stage, StageKind, StageOutput, Step, memory};
use chunkwise_types::{AxisChunks, ChunkGrid, volume};

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

/// How a fold becomes a tree.
struct Tree {
    /// The folds, which run in lockstep, each with its rounds.
    folds: Vec<(usize, Rounds)>,
    /// Segments of the input.
    parts: u64,
}

/// True if a stage can become a tree.
pub(crate) fn splits(draft: &Draft, stage: &Stage) -> bool {
    tree(draft, stage).is_some()
}

fn tree(draft: &Draft, stage: &Stage) -> Option<Tree> {
    let workers = draft.spec.workers.max(1);
    let program = &stage.program;
    // What is made in blocks takes its time, which nobody knows, whatever is read for it.
    let made: u64 = program
        .steps
        .iter()
        .filter(|step| made(step, &program.input_types(step), &[]).is_some())
        .map(|step| volume(&step.ty.shape).saturating_mul(step.ty.dtype.size()))
        .fold(0, u64::saturating_add);
    let bytes = total(&reads(&draft.arrays, stage)).bytes.max(made);
    if stage.tasks() == 0 || stage.tasks() >= 2 * workers || (bytes < SMALL && made == 0) {
        return None;
    }
    let streamed: Vec<usize> = (0..program.steps.len()).filter(|&k| program.steps[k].stream.is_some()).collect();
    let first = *streamed.first()?;
    let stream = program.steps[first].stream.clone()?;
    let axis = (0..stream.len()).max_by_key(|&i| stream[i].count())?;
    let blocks = stream[axis].count();
    let shared = made == 0 && draft.reads_only(stage, |a| memory::divisible(a) || memory::keeps(a));
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
    let after = program.dependents(&streamed);
    let mut folds = Vec::new();
    for &k in &streamed {
        let step = &program.steps[k];
        // All folds must run in lockstep over the same range, and none may depend on another.
        if step.stream.as_ref() != Some(&stream) || after[k] {
            return None;
        }
        let types = program.input_types(step);
        let rounds = Node { kernel: step.kernel.as_ref()?, inputs: &types, output: &step.ty }.rounds(&segments, axis)?;
        if volume(&rounds.partial.shape).saturating_mul(rounds.partial.dtype.size()).saturating_mul(2) > bytes {
            return None;
        }
        folds.push((k, rounds));
    }
    Some(Tree { folds, parts })
}

fn split(draft: &mut Draft, stage: &Stage) -> Option<(Stage, Stage)> {
    let Tree { folds, parts } = tree(draft, stage)?;
    let streamed: Vec<usize> = folds.iter().map(|(k, _)| *k).collect();
    let mut round1 = stage.program.clone();
    let mut round2 = Program::default();
    let mut outputs = Vec::new();
    let mut place = vec![usize::MAX; stage.program.steps.len()];
    for (k, Rounds { first, partial, along, second }) in folds {
        let step = &stage.program.steps[k];
        let pieces = partial.shape.iter().enumerate().map(|(i, &n)| AxisChunks::regular(n, if i == along { 1 } else { n }));
        let single = ChunkGrid(pieces.collect());
        let chunk = natural(draft.watch, &single, partial.dtype.size(), 32 << 20);
        let name = format!("part{}-{}", draft.arrays.len(), second.name());
        let tasks = draft.intermediate(&name, partial.dtype, &partial.shape, chunk, None);
        round1.steps[k].kernel = Some(first);
        round1.steps[k].ty = partial.clone();
        outputs.push(StageOutput { step: k, array: name.clone(), tasks });
        let indices = Node { kernel: &second, inputs: std::slice::from_ref(&partial), output: &step.ty }.indices();
        let cut = indices.iter().flatten().map(|&(_, axis)| single.0[axis].clone()).collect();
        round2.steps.push(Step { read: Some(name), kernel: None, inputs: Vec::new(), ty: partial, stream: None });
        round2.steps.push(Step {
            read: None,
            kernel: Some(second),
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
        .map(|s| volume(&s.ty.shape).saturating_mul(s.ty.dtype.size().max(8)) as f64)
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
