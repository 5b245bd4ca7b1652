//! From an expression graph to a plan.
//!
//! The passes, in order, are the body of [`plan`]: one a file, each a function on the printed intermediate form.
//!
//! 1. [`graph`]: common sub-expressions become one node; `rechunk` becomes the identity.
//! 2. [`materialise`]: which folds must be stored, because fused they would be computed again and again, or by too few tasks.
//! 3. [`stages`]: every stored node and output becomes the root of a stage; siblings, with the same tasks, share one.
//! 4. [`stages::stream`]: which folds of a stage take their input step by step.
//! 5. [`tasks`]: task regions, so that memory stays inside the budget and chunks are read few times.
//! 6. [`layout`]: intermediates in the pieces that their readers ask for.
//! 7. [`rechunk`]: an intermediate copy where no task region can read the stored chunks without reading them again and again.
//! 8. [`split`]: long folds become trees, so that all workers are busy.
//! 9. [`cost`]: bytes and requests.

mod cost;
mod error;
mod graph;
mod layout;
mod materialise;
mod rechunk;
mod split;
mod stages;
mod tasks;

use chunkwise_ops::Array;
use chunkwise_plan::{Codec, FORMAT, Plan, PlanSpec};
pub use error::PlannerError;

/// An array that is asked for, and how it is to be stored.
#[derive(Debug, Clone)]
pub struct Request {
    /// Where it is written, absolute.
    pub url: String,
    /// What is written.
    pub array: Array,
    /// Chunk lengths; the array's natural ones if absent.
    pub chunks: Option<Vec<u64>>,
    /// Shard lengths.
    pub shards: Option<Vec<u64>>,
    /// Compression.
    pub codec: Codec,
    /// User attributes.
    pub attributes: serde_json::Map<String, serde_json::Value>,
}

/// Whether operations share stages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Fusion {
    /// Everything that can share a stage does.
    #[default]
    On,
    /// The result of every operation is stored.
    Off,
}

/// Makes a plan. Nothing is read or written.
///
/// # Errors
/// When a request contradicts itself, or when a task would need more than the allowed memory however it is cut; the error names the
/// operations, the two numbers and what would help.
pub fn plan(requests: &[Request], spec: PlanSpec, fusion: Fusion) -> Result<Plan, PlannerError> {
    let graph = graph::Graph::new(requests.iter().map(|r| &r.array));
    let mut draft = stages::Draft::new(&graph, requests, spec)?;
    if fusion == Fusion::Off {
        materialise::everything(&graph, &mut draft)?;
    }
    materialise::run(&graph, &mut draft)?;
    stages::run(&graph, &mut draft)?;
    tasks::run(&mut draft);
    layout::run(&mut draft);
    rechunk::run(&mut draft)?;
    split::run(&mut draft)?;
    tasks::check(&mut draft)?;
    cost::run(&mut draft);
    let plan = Plan { format: FORMAT.into(), spec: draft.spec, arrays: draft.arrays, stages: draft.stages };
    plan.validate().map_err(|e| PlannerError::Internal(e.to_string()))?;
    Ok(plan)
}
