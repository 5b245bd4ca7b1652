//! Random arrays and programs, of metadata alone: planning looks at no element.

use chunkwise_kernels::{ElementOp, ReduceOp, ScanOp};
use chunkwise_ops::stencil::{Boundary, Moving, moving};
use chunkwise_ops::{Array, OpError, Source, elementwise, linalg, lookup, manipulate, reduce, scan};
use chunkwise_plan::{Codec, Plan, PlanSpec};
use chunkwise_planner::{Options, PlannerError, Request, TimeLimit, plan};
use chunkwise_types::{ArrayAccess, ChunkGrid, DType, STREAM_TABLES, Scalar};
use proptest::prelude::*;
use serde_json::json;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

/// Memory for the program itself, as the facade has it.
pub const RESERVED: u64 = 64 << 20;

/// How chunks are stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stored {
    Raw,
    Zstd,
    Gzip,
    Blosc,
    /// In an order of bytes that no part of a chunk can be read in.
    BigEndian,
}

/// A stored array that is only declared.
pub fn declared(name: &str, dtype: DType, shape: &[u64], chunks: &[u64], stored: Stored) -> Array {
    let bytes = chunks.iter().product::<u64>() * dtype.size();
    let access = match stored {
        Stored::Raw => ArrayAccess::Raw,
        Stored::Zstd => ArrayAccess::Stream { kept: (8u64 << 20).min(bytes) + STREAM_TABLES },
        Stored::Gzip => ArrayAccess::Stream { kept: STREAM_TABLES },
        Stored::Blosc if bytes > 1 << 20 => ArrayAccess::Blocks { block: (128 << 10) * dtype.size().min(8) },
        Stored::Blosc => ArrayAccess::Whole { in_place: true, scratch: 0 },
        Stored::BigEndian => ArrayAccess::default(),
    };
    let source = Source { url: format!("file:///data/{name}"), access, inner_chunk: None, metadata: json!({"zarr_format": 3}) };
    Array::stored(source, dtype, ChunkGrid::regular(shape, chunks), vec![None; shape.len()])
}

/// A request for an output.
pub fn request(array: Array, chunks: Option<Vec<u64>>) -> Request {
    Request {
        url: "file:///out/y".into(),
        array,
        chunks,
        join: false,
        shards: None,
        codec: Codec::Default,
        stored_dtype: None,
        index: None,
        chunk_keys: None,
        fill_value: None,
        attributes: serde_json::Map::new(),
        group_attributes: serde_json::Map::new(),
    }
}

/// Plans with so many bytes and workers, for a folder of this machine. It may look at its clock a million times, each a second: milliseconds
/// of work mostly take less than a thousand.
pub fn planned(request: &Request, allowed: u64, workers: u64) -> Result<Plan, PlannerError> {
    planned_in("file:///work", request, allowed, workers)
}

/// As [`planned`], for another folder of intermediates.
pub fn planned_in(work_dir: &str, request: &Request, allowed: u64, workers: u64) -> Result<Plan, PlannerError> {
    let looks = Cell::new(0);
    let passed = || {
        looks.set(looks.get() + 1);
        Duration::from_secs(looks.get())
    };
    let limit = TimeLimit { most: Duration::from_secs(1_000_000), passed: &passed };
    let spec = PlanSpec { allowed_mem: allowed, reserved_mem: RESERVED, workers, work_dir: work_dir.into(), storage: BTreeMap::new() };
    plan(std::slice::from_ref(request), spec, Options { limit, ..Options::DEFAULT })
}

/// One operation of a random program, on an axis.
fn applied(x: &Array, operation: u8, axis: u8) -> Result<Array, OpError> {
    let axes = &[usize::from(axis) % x.rank().max(1)];
    let one = Scalar::Float(1.0);
    match operation {
        2.. if x.rank() == 0 => Ok(x.clone()),
        0 => elementwise::elementwise(ElementOp::Sqrt, &[x.into()]),
        1 => elementwise::elementwise(ElementOp::Add, &[x.into(), one.into()]),
        2 => reduce::mean(x, Some(axes), false),
        3 => reduce::reduce(x, ReduceOp::Sum, Some(axes), false),
        4 => elementwise::elementwise(ElementOp::Subtract, &[x.into(), (&reduce::mean(x, Some(axes), true)?).into()]),
        5 => manipulate::permute_dims(x, &(0..x.rank()).rev().collect::<Vec<_>>()),
        6 => manipulate::reshape(x, &[-1]),
        7 => reduce::std(x, Some(axes), 0.0, false, false),
        8 => {
            let window: Vec<u64> = (0..x.rank()).map(|i| if i == axes[0] { 3 } else { 1 }).collect();
            moving(x, Moving::Mean, &window, Boundary::None)
        }
        9 => elementwise::elementwise(ElementOp::Divide, &[x.into(), (&reduce::reduce(x, ReduceOp::Max, None, false)?).into()]),
        10 => chunkwise_ops::index::slice(x, axes[0], None, None, Some(2)),
        11 => manipulate::concat(&[x.clone(), x.clone()], axes[0]),
        12 => reduce::reduce(x, ReduceOp::Max, Some(axes), true),
        13 => scan::cumulative(x, ScanOp::Sum, axes[0], false),
        14 if x.shape()[axes[0]] > 0 => lookup::take_along_axis(x, &reduce::reduce(x, ReduceOp::ArgMax, Some(axes), true)?, axes[0]),
        _ if x.rank() == 2 => linalg::matmul(x, &manipulate::permute_dims(x, &[1, 0])?),
        _ => manipulate::flip(x, axes),
    }
}

/// A random array, what is done to it, and how the result is stored.
#[derive(Debug, Clone)]
pub struct Case {
    axes: Vec<(u64, u64)>,
    stored: Stored,
    wide: bool,
    program: Vec<(u8, u8)>,
    /// Chunk lengths of the output, as parts of 64 of its axes.
    output: Option<Vec<u64>>,
    pub workers: u64,
}

impl Case {
    /// The request; operations that the array so far does not allow are left out.
    pub fn request(&self) -> Request {
        let (shape, chunks): (Vec<u64>, Vec<u64>) = self.axes.iter().copied().unzip();
        let dtype = if self.wide { DType::Float64 } else { DType::Float32 };
        let mut x = declared("x", dtype, &shape, &chunks, self.stored);
        for &(operation, axis) in &self.program {
            x = applied(&x, operation, axis).unwrap_or(x);
        }
        let chunks = self.output.as_ref().map(|parts| {
            let parts = parts.iter().copied().cycle();
            x.shape().iter().zip(parts).map(|(&n, part)| (n * part / 64).max(1)).collect()
        });
        request(x, chunks)
    }
}

/// Lengths of all sizes alike.
fn length(most: u32) -> impl Strategy<Value = u64> {
    (0..=most, 0..16u64).prop_map(|(power, more)| ((1 << power) * (16 + more) / 16).max(1))
}

/// Programs of at most so many operations.
pub fn cases(operations: usize) -> impl Strategy<Value = Case> {
    let stored = prop_oneof![Just(Stored::Raw), Just(Stored::Zstd), Just(Stored::Gzip), Just(Stored::Blosc), Just(Stored::BigEndian)];
    let axis = (length(11), length(10)).prop_map(|(n, chunk)| (n, chunk.min(n)));
    let output = proptest::option::of(proptest::collection::vec(1..=64u64, 4));
    let program = proptest::collection::vec((0..16u8, 0..4u8), 0..=operations);
    let workers = prop_oneof![Just(1u64), Just(2), Just(8)];
    (proptest::collection::vec(axis, 1..=4), stored, any::<bool>(), program, output, workers)
        .prop_map(|(axes, stored, wide, program, output, workers)| Case { axes, stored, wide, program, output, workers })
}
