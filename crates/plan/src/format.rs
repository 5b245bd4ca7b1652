//! The serialised types. A change here changes the wire format: raise [`FORMAT`] and regenerate `docs/plan.schema.json`.

use crate::Note;
use crate::codecs::{Codec, ShardIndex, StoredDType};
use crate::fill::ChunkKeys;
use chunkwise_kernels::{ArrayType, Kernel};
use chunkwise_types::{ArrayAccess, AxisChunks, ChunkGrid, DType, Region, Scalar, StoreOptions};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// The format of the plans that this version writes and runs.
pub const FORMAT: &str = "chunkwise-plan/1";

/// Everything that a run needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Always [`FORMAT`].
    pub format: String,
    /// The limits that it was planned for.
    pub spec: PlanSpec,
    /// Every stored array, by a name that is unique in the plan.
    pub arrays: BTreeMap<String, PlanArray>,
    /// The stages; a stage reads only inputs and what earlier stages write.
    pub stages: Vec<Stage>,
    /// The groups that outputs are in, with the coordinates that are written beside them. An output of which no group is named here, and that
    /// lies in a folder, still makes that folder a group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<crate::PlanGroup>,
}

/// Limits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanSpec {
    /// Bytes that one worker may use, everything included.
    pub allowed_mem: u64,
    /// Bytes of it that are kept for the program itself.
    pub reserved_mem: u64,
    /// Tasks that one worker is meant to run at once.
    pub workers: u64,
    /// URL of the folder for intermediates, events and reports.
    pub work_dir: String,
    /// How object stores are reached, by URL prefix; of several that fit a URL the longest counts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub storage: BTreeMap<String, StoreOptions>,
}

/// What an array is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ArrayRole {
    /// Read only.
    Input,
    /// Written and read by the run, deleted after it.
    Intermediate,
    /// Published when it is complete.
    Output,
}

/// A stored array.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PlanArray {
    /// Its purpose.
    pub role: ArrayRole,
    /// Where it is. An intermediate's is relative to the run's folder.
    pub url: String,
    /// Element type.
    pub dtype: DType,
    /// Lengths of the axes.
    pub shape: Vec<u64>,
    /// The grid of stored objects: chunks, or shards where there are any.
    pub grid: ChunkGrid,
    /// Sharded arrays: the shape of the chunks inside a shard, which can be read one by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_chunk: Option<Vec<u64>>,
    /// How its chunks can be read. If this is left out, tasks are taken to read whole chunks.
    #[serde(default, skip_serializing_if = "ArrayAccess::is_default")]
    pub access: ArrayAccess,
    /// Bytes of encoded data that a task may have under way to or from this array's store at once, beside what it has decoded. Object
    /// stores take their time for each request, so many have to be under way; for files this is 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub in_flight: u64,
    /// Inputs: the metadata document as the storage layer keeps it, so that tasks need not read it again. May be left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<serde_json::Value>,
    /// Outputs and intermediates: how it is encoded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<Encoding>,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// How a new array is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Encoding {
    /// Shape of a chunk (of an inner chunk if `shards` is given).
    pub chunks: Vec<u64>,
    /// Shape of a shard, a multiple of `chunks`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shards: Option<Vec<u64>>,
    /// How a chunk is encoded.
    #[serde(default)]
    pub codec: Codec,
    /// The dtype that is stored, if it is another one than is computed with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_dtype: Option<StoredDType>,
    /// Shards: their index, if it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<ShardIndex>,
    /// The keys of chunks, if they are not the usual ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_keys: Option<ChunkKeys>,
    /// The value of chunks that are not stored; 0 if it is left out, which Zarr v2 knows as `null`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fill_value: Option<Scalar>,
    /// Names of the axes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dimension_names: Option<Vec<Option<String>>>,
    /// User attributes.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    pub attributes: serde_json::Map<String, serde_json::Value>,
}

/// Blockwise or rechunk. A rechunk stage is a blockwise stage with the identity program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StageKind {
    /// Evaluates a program.
    Blockwise,
    /// Copies into another grid.
    Rechunk,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// A name for people.
    pub name: String,
    /// Its kind.
    pub kind: StageKind,
    /// What every task evaluates.
    pub program: Program,
    /// What is written. All grids have the same number of task regions on each axis (a missing trailing axis counts as 1).
    pub outputs: Vec<StageOutput>,
    /// Upper bound of the bytes that a task uses, without the reserved memory.
    pub projected_mem: u64,
    /// What it is expected to cost.
    pub cost: Cost,
    /// The user's operations that it runs, and why they are here: for `--explain`.
    #[serde(default)]
    pub notes: Vec<Note>,
}

/// A result of a stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StageOutput {
    /// The step of the program whose value is written.
    pub step: usize,
    /// The array that it is written to.
    pub array: String,
    /// The regions of the tasks: unions of whole stored chunks.
    pub tasks: ChunkGrid,
}

/// Projected cost of all tasks of a stage.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Decoded bytes of all chunks read.
    pub bytes_read: u64,
    /// Bytes before compression.
    pub bytes_written: u64,
    /// Objects read.
    pub gets: u64,
    /// Objects written.
    pub puts: u64,
}

/// The steps of a program in topological order.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Program {
    /// The steps.
    pub steps: Vec<Step>,
}

/// One value of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Reads this stored array; `kernel` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// Applies this kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// The steps whose values the kernel takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<usize>,
    /// Dtype and shape of the whole value.
    #[serde(rename = "type")]
    pub ty: ArrayType,
    /// The kernel is folded: how each contracted index is cut into steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<Vec<AxisChunks>>,
}

/// What a task says when it has finished.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TaskReport {
    /// Index of the stage.
    pub stage: usize,
    /// Number of the task.
    pub task: u64,
    /// Every chunk that was written.
    pub written: Vec<WrittenChunk>,
    /// Encoded bytes read.
    pub bytes_read: u64,
    /// Requests that it made.
    #[serde(default)]
    pub requests: Requests,
    /// Wall time in seconds.
    pub seconds: f64,
    /// Projected bytes of exactly this task.
    pub projected_mem: u64,
}

/// Requests to storage by kind. Repeated attempts of one request count once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Objects, or ranges of objects, that were asked for.
    pub gets: u64,
    /// Objects, or parts of objects, that were written.
    pub puts: u64,
    /// Sizes of objects that were asked for.
    pub heads: u64,
    /// Pages of listings.
    pub lists: u64,
}

impl Requests {
    /// The sum of both.
    pub fn plus(self, other: Requests) -> Requests {
        Requests {
            gets: self.gets + other.gets,
            puts: self.puts + other.puts,
            heads: self.heads + other.heads,
            lists: self.lists + other.lists,
        }
    }
}

/// A stored chunk with its checksum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WrittenChunk {
    /// The array of the plan.
    pub array: String,
    /// The chunk's place in the grid.
    pub chunk: Vec<u64>,
    /// Stored bytes.
    pub bytes: u64,
    /// XXH3-64 of the stored bytes, in hex.
    pub xxh3: String,
    /// The entity tag that an object store gave the object, without quotes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<String>,
}

impl Plan {
    /// Reads a plan and refuses one that cannot be run.
    pub fn from_json(text: &str) -> Result<Plan, crate::PlanError> {
        let plan: Plan = serde_json::from_str(text).map_err(crate::PlanError::parse)?;
        plan.validate()?;
        Ok(plan)
    }

    /// The identity of the plan: a hash of its canonical JSON, so that the same pipeline finds its run.
    pub fn id(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        Sha256::digest(&text).iter().take(8).map(|b| format!("{b:02x}")).collect()
    }

    /// The JSON Schema of the format.
    pub fn schema() -> serde_json::Value {
        schemars::schema_for!(Plan).to_value()
    }
}

impl PlanArray {
    /// True if its store is a file system: parts of what it holds are at hand.
    pub fn is_file(&self) -> bool {
        !self.is_remote() && (self.url.starts_with("file:") || !self.url.contains("://"))
    }

    /// True if each request to its store takes its time. The URL of an intermediate does not say where it is; what may be under way does.
    pub fn is_remote(&self) -> bool {
        self.in_flight > 0 || chunkwise_types::is_remote(&self.url)
    }

    /// The grid of what can be read by itself: chunks, also inside shards.
    pub fn read_grid(&self) -> ChunkGrid {
        match &self.inner_chunk {
            Some(inner) if inner.len() == self.shape.len() => ChunkGrid::regular(&self.shape, inner),
            _ => self.grid.clone(),
        }
    }
}

impl Stage {
    /// The number of task regions on each axis.
    pub fn task_counts(&self) -> Vec<u64> {
        self.outputs.iter().map(|o| o.tasks.counts()).max_by_key(Vec::len).unwrap_or_default()
    }

    /// The number of tasks.
    pub fn tasks(&self) -> u64 {
        chunkwise_types::volume(&self.task_counts())
    }

    /// What a task writes: for each output, its region.
    pub fn task_regions(&self, task: u64) -> Vec<Region> {
        let index = chunkwise_types::unravel(task, &self.task_counts());
        self.outputs.iter().map(|o| o.tasks.region(&index[..o.tasks.rank()])).collect()
    }

    /// The arrays that are read.
    pub fn reads(&self) -> impl Iterator<Item = &str> {
        self.program.steps.iter().filter_map(|s| s.read.as_deref())
    }
}
