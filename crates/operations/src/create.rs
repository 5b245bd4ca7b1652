//! Arrays made from their index alone: nothing is read.

use crate::{Array, OpError};
use chunkwise_kernels::{ArrayType, Create, Distribution, Kernel};
use chunkwise_types::{ChunkGrid, DType, Scalar};

fn make(what: Create, dtype: DType, shape: &[u64], chunks: Option<&[u64]>, operation: &str) -> Result<Array, OpError> {
    let grid = match chunks {
        Some(c) if c.len() != shape.len() => {
            return Err(OpError::new(operation, format!("{} chunk lengths for {} axes", c.len(), shape.len())));
        }
        Some(c) => ChunkGrid::regular(shape, c),
        None => ChunkGrid::single(shape),
    };
    Array::apply(Kernel::Create { what }, &[], ArrayType::new(dtype, shape.to_vec()), grid, vec![None; shape.len()], operation)
}

/// Every element is `value`.
pub fn full(shape: &[u64], value: Scalar, dtype: DType, chunks: Option<&[u64]>) -> Result<Array, OpError> {
    make(Create::Full { value }, dtype, shape, chunks, "full")
}

/// `start, start + step, ...` below `stop`.
pub fn arange(start: Scalar, stop: Scalar, step: Scalar, dtype: Option<DType>, chunks: Option<&[u64]>) -> Result<Array, OpError> {
    let integer = [start, stop, step].iter().all(|s| matches!(s, Scalar::Int(_) | Scalar::Bool(_)));
    let (a, b, s) = (start.as_f64(), stop.as_f64(), step.as_f64());
    let n = ((b - a) / s).ceil();
    if s == 0.0 || !n.is_finite() || n > 1e18 {
        return Err(OpError::new("arange", "the step must not be zero, and the range must be finite"));
    }
    let dtype = dtype.unwrap_or(if integer { DType::Int64 } else { DType::Float64 });
    make(Create::Arange { start, step }, dtype, &[n.max(0.0) as u64], chunks, "arange")
}

/// `num` values from `start` to `stop`, with or without the end point.
pub fn linspace(start: Scalar, stop: Scalar, num: u64, endpoint: bool, chunks: Option<&[u64]>) -> Result<Array, OpError> {
    make(Create::Linspace { start, stop, num, endpoint }, DType::Float64, &[num], chunks, "linspace")
}

/// Ones on diagonal `k`, zeros elsewhere.
pub fn eye(rows: u64, columns: u64, k: i64, dtype: DType, chunks: Option<&[u64]>) -> Result<Array, OpError> {
    make(Create::Eye { k }, dtype, &[rows, columns], chunks, "eye")
}

/// Random numbers from a counter-based generator: they depend on the seed and the index alone.
pub fn random(shape: &[u64], seed: u64, distribution: Distribution, dtype: DType, chunks: Option<&[u64]>) -> Result<Array, OpError> {
    make(Create::Random { seed, stream: 0, distribution }, dtype, shape, chunks, "random")
}

/// A small array of known values.
pub fn constant(values: Vec<Scalar>, shape: &[u64], dtype: DType) -> Result<Array, OpError> {
    if values.len() as u64 != chunkwise_types::volume(shape) {
        return Err(OpError::new("constant", "the values do not fill the shape"));
    }
    make(Create::Constant { values }, dtype, shape, None, "constant")
}
