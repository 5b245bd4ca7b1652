//! The plan: the wire format between the planner, the driver and every executor.
//!
//! A plan is plain data. A stage holds a small expression program, its outputs, and for each output a grid of task regions; tasks
//! are never enumerated. [`schedule`], [`bands`], [`units`] and [`demand`] say how a program is evaluated for one task (in phases, steps,
//! bands, tiles and units), and [`memory`] walks the same schedule to bound what a task can use. The task function and the planner
//! share them, which is why the projection and the execution cannot drift apart.

mod access;
pub mod bands;
mod codecs;
pub mod demand;
mod error;
mod fields;
mod fill;
mod format;
mod labels;
pub mod memory;
mod note;
pub mod runs;
pub mod schedule;
pub mod units;
mod v2;
mod validate;
pub mod windows;
mod zstd;

pub use codecs::{Chain, Codec, CodecMetadata, ShardEnd, ShardIndex, StoredDType, parse_codecs};
pub use error::PlanError;
pub use fill::{ChunkKeys, KeyName, Separator, parse_fill};
pub use format::{
    ArrayRole, Cost, Encoding, FORMAT, Plan, PlanArray, PlanSpec, Program, Requests, Stage, StageKind, StageOutput, Step, TaskReport,
    WrittenChunk,
};
pub use labels::{CoordinateValues, MAX_BYTES, PlanCoordinate, PlanGroup};
pub use note::Note;
pub use v2::{Order, V2};
pub use validate::{MAX_TASKS, MAX_WORKERS};
