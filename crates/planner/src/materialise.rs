//! Which folds are stored.
//!
//! Everything else fuses. A fold is stored when the tasks that consume it would together compute it more than once: `u - mean(u)`
//! would read all of `u` in each of its tasks. It is also stored when a single task would, for every step of another fold or for every
//! tile: `max(abs(u - mean(u)))` would compute the mean for each chunk of `u` that the maximum takes. And a fold of much that is finished
//! before another one begins is stored, so that it has tasks of its own: `max(mean(u, axis=0))`. A zonal mean inside the chunks that are
//! there anyway is computed once, and fuses.
//!
//! What is made in blocks (a decomposition, a function of a user) is stored like a fold, and also where a task would need several of its
//! blocks at once. It fuses where a fold takes the blocks in turn.

use crate::cost::kinds;
use crate::graph::Graph;
use crate::split::{SMALL, splits};
use crate::stages::{Draft, Root, build, stream};
use chunkwise_kernels::{ArrayType, Node};
use chunkwise_plan::demand::{Demands, demands, is_fold};
use chunkwise_plan::schedule::{Pass, Phase, RECOMPUTE, Schedule};
use chunkwise_plan::{Program, Stage, Step, memory};
use chunkwise_types::{Region, unravel, volume};
use std::collections::HashSet;

pub(crate) fn run(graph: &Graph, draft: &mut Draft) {
    let watch = draft.watch;
    let users = users(graph);
    let mut k = 0;
    // Roots are appended while we look, so that what a stored node needs is looked at too. A node is stored once, so there is an end.
    let most = draft.roots.len() + graph.nodes.len();
    let mut looks = watch.falling("looking at what is stored");
    while k < draft.roots.len() && looks.goes_on(most.saturating_sub(k) as u64) {
        let mut falls = watch.falling("storing folds");
        while let Some(node) = recomputed(graph, draft, k) {
            if !falls.goes_on(draft.unstored(graph)) {
                return;
            }
            let node = smallest(graph, &users, draft, k, node);
            draft.store(graph, node);
        }
        k += 1;
    }
}

/// Stores the result of every operation that reads something, directly or through others.
pub(crate) fn everything(graph: &Graph, draft: &mut Draft) {
    let mut reads = vec![false; graph.nodes.len()];
    for (k, node) in graph.nodes.iter().enumerate() {
        reads[k] = node.source.is_some() || node.inputs.iter().any(|&i| reads[i]);
        if reads[k] && node.kernel.is_some() {
            draft.store(graph, k);
        }
    }
}

/// Stores the results of users' functions. A task that calls several of them needs the memory of all.
pub(crate) fn functions(graph: &Graph, draft: &mut Draft) {
    for (k, node) in graph.nodes.iter().enumerate() {
        if node.kernel.as_ref().is_some_and(|kernel| kernel.call().is_some()) {
            draft.store(graph, k);
        }
    }
}

/// What a task of a root in the middle of its grid computes, if nothing of it is streamed.
struct Task {
    program: Program,
    /// The graph node of each step.
    nodes: Vec<usize>,
    /// How many tasks there are.
    tasks: u64,
    wants: Vec<(usize, Region)>,
    types: Vec<Vec<ArrayType>>,
    needs: Demands,
    /// By step, the elements, or the blocks, that all tasks together compute.
    computed: Vec<f64>,
}

impl Task {
    fn new(graph: &Graph, draft: &Draft, root: &Root) -> Task {
        let (program, nodes) = draft.program(graph, &[root.node]);
        let counts = root.tasks.counts();
        let types: Vec<_> = program.steps.iter().map(|s| program.input_types(s)).collect();
        let of = |index: &[u64]| vec![(program.steps.len() - 1, root.tasks.region(index))];
        let wants = of(&counts.iter().map(|n| n / 2).collect::<Vec<_>>());
        let needs = demands(&program, &types, &wants);
        // Tasks at the ends are smaller: the middle one cannot stand for them, or a fold of (7, 33) elements in chunks of (2, 16), that every
        // task computes its own part of, would seem to be computed 1.7 times.
        let mut computed = vec![0.0; program.steps.len()];
        let made = |k: usize, regions: &[Region]| made(&program.steps[k], &types[k], regions);
        let stored = |k: usize| program.steps[k].is_fold() || made(k, &[]).is_some();
        let looked_at: Vec<usize> = (0..program.steps.len()).filter(|&k| stored(k)).collect();
        if !looked_at.is_empty() {
            for (task, times) in kinds(&counts, false).into_iter().filter(|(_, times)| *times > 0.0) {
                let needs = demands(&program, &types, &of(&unravel(task, &counts)));
                looked_at.iter().for_each(|&k| computed[k] += times * made(k, &needs[k]).unwrap_or_else(|| elements(&needs[k])) as f64);
            }
        }
        Task { program, nodes, tasks: volume(&counts), wants, types, needs, computed }
    }

    /// The fold, or what is made in blocks, nearest to the leaves that the tasks would compute again and again.
    fn by_all_tasks(&self, graph: &Graph, draft: &Draft, root: &Root) -> Option<usize> {
        (0..self.program.steps.len() - 1).find(|&i| {
            let step = &self.program.steps[i];
            let made = |regions: &[Region]| made(step, &self.types[i], regions);
            let all = made(&[Region::full(&step.ty.shape)]).unwrap_or_else(|| volume(&step.ty.shape));
            let again = self.computed[i] / all.max(1) as f64;
            let blocks = made(&self.needs[i]);
            (self.tasks > 1 && (step.is_fold() || blocks.is_some()) && again > RECOMPUTE)
                || blocks.is_some_and(|n| n > 1 && !joint(step) && !self.in_turn(graph, draft, root, i, n))
        })
    }

    /// True if a fold takes the `needed` blocks of a step in turn, each once, and enough tasks can do so. Otherwise a task would hold all
    /// blocks at once, or one task would make all of them.
    fn in_turn(&self, graph: &Graph, draft: &Draft, root: &Root, i: usize, needed: u64) -> bool {
        let uses = |other: &Root| other.node != root.node && draft.program(graph, &[other.node]).1.contains(&self.nodes[i]);
        if draft.roots.iter().any(uses) {
            return false;
        }
        let stage = build(graph, draft, &[root]);
        let program = &stage.program;
        let step = &program.steps[i];
        let size = step.ty.dtype.size();
        let schedule = Schedule::of_program(program, self.wants.clone());
        if !schedule.output_pass(program).demands[i].is_empty() {
            return false;
        }
        let mut times = 0.0;
        for (pass, n) in schedule.phases.iter().flat_map(|phase| sampled(&schedule, program, phase)) {
            let blocks = made(step, &self.types[i], &pass.demands[i]).unwrap_or(0);
            if blocks > 1 && elements(&pass.demands[i]).saturating_mul(size) > draft.step_bytes() {
                return false;
            }
            times += blocks as f64 * n;
        }
        let enough = stage.tasks() >= 2 * draft.spec.workers.max(1) || splits(draft, &stage);
        times <= needed as f64 * 1.01 && enough && memory::worst_need(&draft.arrays, &stage).total <= draft.spec.task_budget()
    }

    /// The fold nearest to the leaves for which one task would read much before a later fold begins, or which it would compute again and
    /// again, for every step of a later fold or for every tile.
    fn by_one(&self, graph: &Graph, draft: &Draft, root: &Root) -> Option<usize> {
        let folds: Vec<bool> = self.program.steps.iter().map(Step::is_fold).collect();
        if !folds.contains(&true) {
            return None;
        }
        let mut program = self.program.clone();
        stream(graph, &mut program, &self.nodes, &[root.node], draft);
        let before = |i: usize| self.program.dependents(&[i]).iter().zip(&folds).any(|(after, fold)| *after && *fold);
        let most = SMALL.min(draft.target());
        let much = |i: usize| {
            let wants: Vec<_> = self.needs[i].iter().map(|region| (i, region.clone())).collect();
            memory::read_bytes(&self.program, &demands(&self.program, &self.types, &wants)) > most
        };
        let streamed = |i: &usize| program.steps[*i].stream.is_some();
        if let Some(first) = (0..program.steps.len()).filter(streamed).find(|&i| before(i) && much(i)) {
            return Some(first);
        }
        if !(0..folds.len()).any(|i| folds[i] && program.steps[i].stream.is_none()) {
            return None;
        }
        let schedule = Schedule::of_program(&program, self.wants.clone());
        let phases = schedule.phases.iter().map(|phase| sampled(&schedule, &program, phase));
        let mut often = vec![0.0f64; program.steps.len()];
        for passes in phases.chain([vec![(schedule.output_pass(&program), 1.0)]]) {
            let mut computed = vec![0.0; program.steps.len()];
            passes.iter().for_each(|(pass, times)| by_tiles(&schedule, &program, pass, *times, &mut computed));
            for (i, computed) in computed.into_iter().enumerate() {
                often[i] = often[i].max(computed / elements(&self.needs[i]).max(1) as f64);
            }
        }
        (0..program.steps.len() - 1).find(|&i| often[i] > RECOMPUTE)
    }
}

/// Some steps of a phase, each with how many it stands for. Long streams are sampled: their steps are alike.
fn sampled(schedule: &Schedule, program: &Program, phase: &Phase) -> Vec<(Pass, f64)> {
    let (n, sample) = (phase.windows.len(), phase.windows.len().min(8));
    let windows = (0..sample).filter_map(|i| phase.windows.get(i.saturating_mul(n) / sample));
    windows.map(|window| (schedule.step_pass(program, phase, &window), n as f64 / sample as f64)).collect()
}

/// Adds the elements of folds that are not streamed which the tiles of a pass compute.
fn by_tiles(schedule: &Schedule, program: &Program, pass: &Pass, times: f64, computed: &mut [f64]) {
    let local = |k: &usize| !pass.demands[*k].is_empty() && program.steps[*k].stream.is_none() && program.steps[*k].is_fold();
    let folds: Vec<usize> = (0..program.steps.len()).filter(local).collect();
    let mut add = |needs: &Demands, times: f64| folds.iter().for_each(|&k| computed[k] += elements(&needs[k]) as f64 * times);
    match pass.tiles.len() {
        _ if folds.is_empty() => {}
        1 => add(&pass.demands, times),
        _ => pass.tiles.kinds().iter().for_each(|(tile, n)| add(&schedule.needs(program, pass, tile), n * times)),
    }
}

/// How many blocks a step makes for these regions, if it is a decomposition or calls a function for each block.
pub(crate) fn made(step: &Step, inputs: &[ArrayType], regions: &[Region]) -> Option<u64> {
    let node = Node { kernel: step.kernel.as_ref()?, inputs, output: &step.ty };
    node.blocks(&Region::full(&step.ty.shape))?;
    Some(regions.iter().filter(|r| !r.is_empty()).filter_map(|r| node.blocks(r)).fold(0, u64::saturating_add))
}

/// Bytes that are needed of what is made in blocks.
pub(crate) fn made_bytes(program: &Program, types: &[Vec<ArrayType>], needs: &Demands) -> u64 {
    let makers = (0..program.steps.len()).filter(|&k| made(&program.steps[k], &types[k], &[]).is_some());
    makers.map(|k| memory::bytes_of(program, k, &needs[k])).fold(0, u64::saturating_add)
}

/// How many blocks all tasks of a stage make of functions and decompositions, which make a block as a whole wherever a part of it is needed.
pub(crate) fn blocks_of_tasks(stage: &Stage) -> f64 {
    let program = &stage.program;
    let types: Vec<Vec<ArrayType>> = program.steps.iter().map(|s| program.input_types(s)).collect();
    let makers: Vec<usize> = (0..program.steps.len()).filter(|&k| made(&program.steps[k], &types[k], &[]).is_some()).collect();
    if makers.is_empty() {
        return 0.0;
    }
    // Tasks at the ends may need less.
    let schedule = Schedule::new(stage, &stage.task_regions(stage.tasks() / 2));
    let passes = schedule.phases.iter().flat_map(|phase| sampled(&schedule, program, phase));
    let blocks = |(pass, times): (Pass, f64)| {
        makers.iter().map(|&k| made(&program.steps[k], &types[k], &pass.demands[k]).unwrap_or(0) as f64).sum::<f64>() * times
    };
    passes.chain([(schedule.output_pass(program), 1.0)]).map(blocks).sum::<f64>() * stage.tasks() as f64
}

/// True if several of its blocks may be made at once.
fn joint(step: &Step) -> bool {
    step.kernel.as_ref().is_some_and(|kernel| kernel.traits().joint)
}

fn elements(regions: &[Region]) -> u64 {
    regions.iter().map(Region::volume).fold(0, u64::saturating_add)
}

/// By node, those that take its value.
fn users(graph: &Graph) -> Vec<Vec<usize>> {
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    for (k, n) in graph.nodes.iter().enumerate() {
        n.inputs.iter().for_each(|&input| users[input].push(k));
    }
    users.iter_mut().for_each(Vec::dedup);
    users
}

/// The node of root `k` that is to be stored next.
fn recomputed(graph: &Graph, draft: &Draft, k: usize) -> Option<usize> {
    let root = &draft.roots[k];
    let task = Task::new(graph, draft, root);
    let found = task.by_all_tasks(graph, draft, root).or_else(|| task.by_one(graph, draft, root))?;
    Some(task.nodes[found])
}

/// Where the value of a fold that root `k` needs is smallest: while a single element-wise operation uses it and the result is no larger, that
/// result is stored instead. So a mean is stored rather than its sum in a wider dtype, beside its count. But not with a fold that others use as
/// well: that is stored before, so both would not be computed in one reading. And not the root itself, which is stored already: that would
/// leave it to compute the fold as before.
fn smallest(graph: &Graph, users: &[Vec<usize>], draft: &Draft, k: usize, mut node: usize) -> usize {
    let bytes = |k: usize| {
        let ty = &graph.nodes[k].ty;
        volume(&ty.shape).saturating_mul(ty.dtype.size())
    };
    let mut falls = draft.watch.falling("looking for the smallest value of a fold");
    while !draft.roots.iter().any(|r| r.node == node) && falls.goes_on((graph.nodes.len() - node) as u64) {
        let &[user] = &users[node][..] else { break };
        let mapped = graph.nodes[user].kernel.as_ref().is_some_and(|kernel| kernel.traits().map.is_some());
        let mut beside = graph.nodes[user].inputs.iter().filter(|&&k| k != node);
        if !mapped || user == draft.roots[k].node || bytes(user) > bytes(node) || beside.any(|&k| shares_fold(graph, users, k)) {
            break;
        }
        node = user;
    }
    node
}

/// True if the value of a node comes from a fold, without another one between, that more than one operation uses.
fn shares_fold(graph: &Graph, users: &[Vec<usize>], node: usize) -> bool {
    let mut stack = vec![(node, false)];
    // A node is opened at most twice, so this ends.
    let mut seen = HashSet::new();
    while let Some((k, shared)) = stack.pop() {
        let n = &graph.nodes[k];
        let shared = shared || users[k].len() > 1;
        let fold = n.kernel.as_ref().is_some_and(|kernel| is_fold(kernel, &n.ty));
        if fold && shared {
            return true;
        }
        if !fold && seen.insert((k, shared)) {
            stack.extend(n.inputs.iter().map(|&input| (input, shared)));
        }
    }
    false
}
