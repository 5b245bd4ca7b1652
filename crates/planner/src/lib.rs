//! From an expression graph to a plan.
//!
//! The passes, in order, are the body of [`plan`]: one a file, each a function on the printed intermediate form.
//!
//! 1. [`graph`]: common sub-expressions become one node; `rechunk` becomes the identity.
//! 2. [`materialise`]: which folds must be stored, because fused they would be computed again and again, or by too few tasks.
//! 3. [`stages`]: every stored node and output becomes the root of a stage; siblings, with the same tasks, share one.
//! 4. [`stages::stream`]: which folds of a stage take their input step by step.
//! 5. [`chunks`]: the chunks of outputs for which none were asked.
//! 6. [`tasks`]: task regions, so that memory stays inside the budget and chunks are read few times.
//! 7. [`layout`]: intermediates in the pieces that their readers ask for.
//! 8. [`rechunk`]: an intermediate copy where no task region can read the stored chunks without reading them again and again.
//! 9. [`split`]: long folds become trees, so that all workers are busy.
//! 10. [`cost`]: bytes and requests.
//! 11. [`names`]: stages are named after the outputs that they lead to.
//! 12. [`groups`]: the coordinates of the groups that outputs are in.
//!
//! [`budget`] chooses the budget that they are run for, [`cause`] says why none would do, and [`watch`] sees to it that they end.

mod budget;
mod cause;
mod chunks;
mod cost;
mod error;
mod graph;
mod groups;
mod layout;
mod materialise;
mod names;
mod rechunk;
mod split;
mod stages;
mod tasks;
#[cfg(test)]
mod tests;
mod watch;

use chunkwise_ops::Array;
use chunkwise_plan::{ChunkKeys, Codec, FORMAT, MAX_TASKS, Plan, PlanSpec, ShardIndex, StoredDType};
use chunkwise_types::Scalar;
pub use error::{LabelConflict, PlannerError};
use std::collections::BTreeMap;
pub use watch::TimeLimit;

/// An array that is asked for, and how it is to be stored.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where it is written, absolute.
    pub url: String,
    /// What is written.
    pub array: Array,
    /// Chunk lengths; the array's natural ones if absent.
    pub chunks: Option<Vec<u64>>,
    /// Where they are absent, small chunks may be joined, and very many put into shards.
    pub join: bool,
    /// Shard lengths.
    pub shards: Option<Vec<u64>>,
    /// How a chunk is encoded.
    pub codec: Codec,
    /// The dtype that is stored, if it is another one than is computed with.
    pub stored_dtype: Option<StoredDType>,
    /// The index of shards, if it is not the usual one.
    pub index: Option<ShardIndex>,
    /// The keys of chunks, if they are not the usual ones.
    pub chunk_keys: Option<ChunkKeys>,
    /// The value of chunks that are not stored, if it is said.
    pub fill_value: Option<Scalar>,
    /// User attributes.
    pub attributes: serde_json::Map<String, serde_json::Value>,
    /// Attributes of the group that it is in, if the run makes that.
    pub group_attributes: serde_json::Map<String, serde_json::Value>,
}

/// Whether operations share stages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fusion {
    /// Everything that can share a stage does.
    #[default]
    On,
    /// The results of users' functions are stored, and everything else shares stages.
    FunctionsApart,
    /// The result of every operation is stored.
    Off,
}

/// How a plan is made.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Whether operations share stages.
    pub fusion: Fusion,
    /// How long it may take.
    pub limit: TimeLimit<'a>,
    /// Bytes that a call of a function allocates, by the function's version, where they are known better than when the arrays were made.
    pub calls: &'a BTreeMap<String, u64>,
}

impl Options<'_> {
    /// All that can share a stage does, planning may take any time, and nothing more is known of functions.
    pub const DEFAULT: Options<'static> = Options { fusion: Fusion::On, limit: TimeLimit::NONE, calls: &BTreeMap::new() };
}

/// Makes a plan. Nothing is read or written.
///
/// A plan that fits a budget fits every larger one ([`budget`]), and every loop has an end ([`watch`]).
///
/// # Errors
/// When a request contradicts itself, when a task would need more than the allowed memory however it is cut (the error names the
/// operations, the least memory that would do, and whose chunks are the cause), or when planning takes longer than it may.
pub fn plan(requests: &[Request], spec: PlanSpec, options: Options<'_>) -> Result<Plan, PlannerError> {
    let named = groups::named(requests);
    let groups = groups::run(&named)?;
    let requests = &groups::attributed(&named, &groups)[..];
    let graph = graph::Graph::new(requests.iter().map(|r| &r.array), options.calls);
    if let Some(r) = requests.iter().find(|r| graph.reads(&r.url)) {
        let problem = "it is read for this very computation: write to another place".into();
        return Err(PlannerError::Request { url: r.url.clone(), problem });
    }
    let within = |options: Options<'_>| {
        budget::within(&spec, &|budget| {
            let attempt = PlanSpec { allowed_mem: spec.reserved_mem.saturating_add(budget), ..spec.clone() };
            let mut made = passes(&graph, requests, attempt, options, &|_, _| {})?;
            made.plan.spec.allowed_mem = spec.allowed_mem;
            Ok(made)
        })
    };
    let mut plan = match within(options) {
        Err(PlannerError::Memory { .. }) if options.fusion == Fusion::On && graph.calls() > 1 => {
            within(Options { fusion: Fusion::FunctionsApart, ..options })
        }
        made => made,
    }?;
    plan.groups = groups;
    plan.validate().map_err(|e| PlannerError::Internal(e.to_string()))?;
    Ok(plan)
}

/// One attempt at a plan, for the memory that `spec` allows. It may need more. `after` sees what each pass leaves.
fn passes(
    graph: &graph::Graph,
    requests: &[Request],
    spec: PlanSpec,
    options: Options<'_>,
    after: &dyn Fn(&'static str, &stages::Draft<'_>),
) -> Result<budget::Attempt, PlannerError> {
    let watch = watch::Watch::new(options.limit);
    let mut draft = stages::Draft::new(graph, requests, spec, &watch)?;
    type Pass<'p> = &'p dyn Fn(&mut stages::Draft<'_>);
    let store = |draft: &mut stages::Draft<'_>| {
        match options.fusion {
            Fusion::On => {}
            Fusion::FunctionsApart => materialise::functions(graph, draft),
            Fusion::Off => materialise::everything(graph, draft),
        }
        materialise::run(graph, draft);
    };
    let build = |draft: &mut stages::Draft<'_>| stages::run(graph, draft);
    let all: [(&'static str, Pass<'_>); 10] = [
        ("materialise", &store),
        ("stages", &build),
        ("chunks", &chunks::run),
        ("tasks", &tasks::run),
        ("layout", &layout::run),
        ("rechunk", &rechunk::run),
        ("split", &split::run),
        ("check", &tasks::check),
        ("cost", &cost::run),
        ("names", &names::run),
    ];
    for (name, pass) in all {
        watch.enter(name);
        pass(&mut draft);
        watch.verdict()?;
        after(name, &draft);
    }
    let plan = Plan { format: FORMAT.into(), spec: draft.spec, arrays: draft.arrays, stages: draft.stages, groups: Vec::new() };
    let tasks = plan.stages.iter().fold(0u64, |n, s| n.saturating_add(s.tasks()));
    if tasks > MAX_TASKS {
        return Err(PlannerError::Tasks { tasks, most: MAX_TASKS });
    }
    plan.validate().map_err(|e| PlannerError::Internal(e.to_string()))?;
    let need = plan.stages.iter().map(|s| s.projected_mem).max().unwrap_or(0);
    Ok(budget::Attempt { plan, need })
}
