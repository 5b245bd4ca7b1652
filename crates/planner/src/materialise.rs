//! Which folds are stored.
//!
//! Everything else fuses. A fold is stored when the tasks that consume it would together compute it more than once: `u - mean(u)`
//! would read all of `u` in each of its tasks. It is also stored when a single task would, for every step of another fold or for every
//! tile: `max(abs(u - mean(u)))` would compute the mean for each chunk of `u` that the maximum takes. And a fold of much that is finished
//! before another one begins is stored, so that it has tasks of its own: `max(mean(u, axis=0))`. A zonal mean inside the chunks that are
//! there anyway is computed once, and fuses.

use crate::PlannerError;
use crate::graph::Graph;
use crate::split::SMALL;
use crate::stages::{Draft, stream};
use chunkwise_kernels::Kernel;
use chunkwise_plan::demand::demands;
use chunkwise_plan::memory;
use chunkwise_plan::schedule::{RECOMPUTE, Schedule};
use chunkwise_types::Region;

pub(crate) fn run(graph: &Graph, draft: &mut Draft) -> Result<(), PlannerError> {
    let mut k = 0;
    // Roots are appended while we look, so that what a stored node needs is looked at too.
    while k < draft.roots.len() {
        while let Some(node) = recomputed(graph, draft, k).or_else(|| inside(graph, draft, k)) {
            let node = smallest(graph, draft, node);
            draft.store(graph, node)?;
        }
        k += 1;
    }
    Ok(())
}

/// Stores the result of every operation that reads something, directly or through others.
pub(crate) fn everything(graph: &Graph, draft: &mut Draft) -> Result<(), PlannerError> {
    let mut reads = vec![false; graph.nodes.len()];
    for (k, node) in graph.nodes.iter().enumerate() {
        reads[k] = node.source.is_some() || node.inputs.iter().any(|&i| reads[i]);
        if reads[k] && node.kernel.is_some() {
            draft.store(graph, k)?;
        }
    }
    Ok(())
}

/// The fold or decomposition nearest to the leaves that the tasks of root `k` would compute again and again.
fn recomputed(graph: &Graph, draft: &Draft, k: usize) -> Option<usize> {
    let root = &draft.roots[k];
    let (program, nodes) = draft.program(graph, &[root.node]);
    let types: Vec<_> = program.steps.iter().map(|s| program.input_types(s)).collect();
    let counts = root.tasks.counts();
    let tasks = chunkwise_types::volume(&counts);
    let middle: Vec<u64> = counts.iter().map(|n| n / 2).collect();
    let d = demands(&program, &types, &[(program.steps.len() - 1, root.tasks.region(&middle))]);
    (0..program.steps.len() - 1).find_map(|i| {
        let step = &program.steps[i];
        let node = chunkwise_kernels::Node { kernel: step.kernel.as_ref()?, inputs: &types[i], output: &step.ty };
        let demanded: u64 = d[i].iter().map(chunkwise_types::Region::volume).sum();
        let whole = chunkwise_types::volume(&step.ty.shape).max(1);
        let again = demanded as f64 * tasks as f64 / whole as f64;
        // A task that needs several blocks of a decomposition would hold them all at once.
        let (blocks, decomposes) = match node.kernel {
            Kernel::Qr(q) => (q.rows.count(), true),
            _ => (1, false),
        };
        ((tasks > 1 && (node.foldable() || decomposes) && again > RECOMPUTE) || blocks > 1).then(|| nodes[i])
    })
}

/// The fold nearest to the leaves that a single task of root `k` would compute again and again, for every step of a later fold or for
/// every tile; or for which it would read much before a later fold begins.
fn inside(graph: &Graph, draft: &Draft, k: usize) -> Option<usize> {
    let root = &draft.roots[k];
    let (mut program, nodes) = draft.program(graph, &[root.node]);
    let volume = |regions: &[Region]| regions.iter().map(Region::volume).fold(0, u64::saturating_add);
    let middle: Vec<u64> = root.tasks.counts().iter().map(|n| n / 2).collect();
    let task = vec![(program.steps.len() - 1, root.tasks.region(&middle))];
    let types: Vec<_> = program.steps.iter().map(|s| program.input_types(s)).collect();
    let all = demands(&program, &types, &task);
    let fused = program.clone();
    stream(graph, &mut program, &nodes, &[root.node]);
    let before = |i: usize| {
        let mut above = vec![false; fused.steps.len()];
        let mut folds = false;
        for (j, step) in fused.steps.iter().enumerate().skip(i + 1) {
            above[j] = step.inputs.iter().any(|&input| input == i || above[input]);
            let node = |kernel| chunkwise_kernels::Node { kernel, inputs: &types[j], output: &step.ty };
            folds |= above[j] && step.kernel.as_ref().is_some_and(|kernel| node(kernel).foldable());
        }
        folds
    };
    let most = SMALL.min(draft.target());
    let much = |i: usize| {
        let needs = demands(&fused, &types, &all[i].iter().map(|region| (i, region.clone())).collect::<Vec<_>>());
        let leaves = (0..i).filter(|&k| fused.steps[k].read.is_some());
        leaves.map(|k| memory::bytes_of(&fused, k, &needs[k])).fold(0, u64::saturating_add) > most
    };
    let streamed = |i: &usize| program.steps[*i].stream.is_some();
    if let Some(first) = (0..program.steps.len()).filter(streamed).find(|&i| before(i) && much(i)) {
        return Some(nodes[first]);
    }
    let schedule = Schedule::of_program(&program, task);
    let steps = schedule.phases.iter().filter_map(|phase| {
        let window = phase.windows.get(phase.windows.len() / 2)?;
        Some((schedule.step_pass(&program, phase, &window), phase.windows.len()))
    });
    let mut often = vec![0.0f64; program.steps.len()];
    for (pass, times) in steps.chain([(schedule.output_pass(&program), 1)]) {
        for (i, by_tiles) in schedule.recomputed(&program, &pass).into_iter().enumerate() {
            let computed = by_tiles * volume(&pass.demands[i]) as f64 * times as f64;
            often[i] = often[i].max(computed / volume(&all[i]).max(1) as f64);
        }
    }
    (0..program.steps.len() - 1).find(|&i| often[i] > RECOMPUTE).map(|i| nodes[i])
}

/// Where the value of a fold is smallest: while a single element-wise operation uses it and the result is no larger, that result is
/// stored instead. So a mean is stored rather than its sum in a wider dtype, beside its count.
fn smallest(graph: &Graph, draft: &Draft, mut node: usize) -> usize {
    let bytes = |k: usize| {
        let ty = &graph.nodes[k].ty;
        chunkwise_types::volume(&ty.shape).saturating_mul(ty.dtype.size())
    };
    while !draft.roots.iter().any(|r| r.node == node) {
        let mut users = (0..graph.nodes.len()).filter(|&k| graph.nodes[k].inputs.contains(&node));
        let (Some(user), None) = (users.next(), users.next()) else { break };
        let mapped = matches!(graph.nodes[user].kernel, Some(Kernel::Element { .. } | Kernel::Cast));
        if !mapped || bytes(user) > bytes(node) {
            break;
        }
        node = user;
    }
    node
}
