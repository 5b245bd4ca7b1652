//! Arrays made from their index alone: nothing is read.

use crate::{Array, OpError, literal};
use chunkwise_kernels::{ArrayType, Create, Distribution, Kernel};
use chunkwise_types::{ChunkGrid, DType, Scalar};

fn make(what: Create, dtype: DType, shape: &[u64], chunks: Option<&[u64]>, operation: &str) -> Result<Array, OpError> {
    let grid = match chunks {
        Some(c) if c.len() != shape.len() => {
            return Err(OpError::new(
                operation,
                format!("an array with {} axes needs as many chunk lengths, not {}", shape.len(), c.len()),
            ));
        }
        Some(c) => ChunkGrid::regular(shape, c),
        None => ChunkGrid::single(shape),
    };
    Array::apply(Kernel::Create { what }, &[], ArrayType::new(dtype, shape.to_vec()), grid, vec![None; shape.len()], operation)
}

/// Every element is `value`.
///
/// # Errors
/// If the value does not fit the dtype.
pub fn full(shape: &[u64], value: Scalar, dtype: DType, chunks: Option<&[u64]>) -> Result<Array, OpError> {
    literal::check(value, dtype, "full", literal::choose)?;
    make(Create::Full { value }, dtype, shape, chunks, "full")
}

/// `start, start + step, ...` below `stop`: int64 for integers, or uint64 if only that holds them, else float64.
///
/// # Errors
/// If the step is zero, an element does not fit the dtype, or a number is complex.
pub fn arange(start: Scalar, stop: Scalar, step: Scalar, dtype: Option<DType>, chunks: Option<&[u64]>) -> Result<Array, OpError> {
    let bad = |problem: &str| OpError::new("arange", problem);
    let all = [start, stop, step];
    if all.iter().any(|s| matches!(s, Scalar::Complex(..))) {
        return Err(bad("complex numbers have no order"));
    }
    let endless = || bad("the step must not be zero, and the range must be finite");
    let integer = all.iter().all(|s| matches!(s, Scalar::Int(_) | Scalar::Bool(_)));
    // The number of elements, and the first and the last of them.
    let (n, ends) = if integer {
        let (a, b, s) = (start.as_i128(), stop.as_i128(), step.as_i128());
        let span = b.checked_sub(a).ok_or_else(endless)?;
        let n = span.checked_div(s).and_then(|q| q.checked_add(i128::from(span % s != 0 && (span < 0) == (s < 0)))).ok_or_else(endless)?;
        let last = a.checked_add((n - 1).max(0).checked_mul(s).ok_or_else(endless)?).ok_or_else(endless)?;
        (u64::try_from(n.max(0)).map_err(|_| endless())?, [Scalar::Int(a), Scalar::Int(last)])
    } else {
        let (a, b, s) = (start.as_f64(), stop.as_f64(), step.as_f64());
        let n = ((b - a) / s).ceil();
        if s == 0.0 || !n.is_finite() || n > 1e18 {
            return Err(endless());
        }
        (n.max(0.0) as u64, [start, Scalar::Float(a + (n - 1.0).max(0.0) * s)])
    };
    let natural = if ends.iter().all(|v| v.fits(DType::Int64)) { DType::Int64 } else { DType::UInt64 };
    let dtype = dtype.unwrap_or(if integer { natural } else { DType::Float64 });
    // With the first, the last and the step, all are whole numbers in the range.
    for value in ends.into_iter().filter(|_| n > 0) {
        literal::check(value, dtype, "arange", literal::choose)?;
    }
    if n > 1 && !dtype.is_inexact() && !step.fits(DType::Int64) && !step.fits(DType::UInt64) {
        return Err(bad(&format!("the step {step} is not a whole number, but the dtype is {dtype}; {}", literal::choose(DType::Float64))));
    }
    make(Create::Arange { start, step }, dtype, &[n], chunks, "arange")
}

/// `num` values from `start` to `stop`, with or without the end point: float64, or complex128 if an end is complex.
pub fn linspace(start: Scalar, stop: Scalar, num: u64, endpoint: bool, chunks: Option<&[u64]>) -> Result<Array, OpError> {
    let complex = [start, stop].iter().any(|s| matches!(s, Scalar::Complex(..)));
    let dtype = if complex { DType::Complex128 } else { DType::Float64 };
    make(Create::Linspace { start, stop, num, endpoint }, dtype, &[num], chunks, "linspace")
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
///
/// # Errors
/// If there are not as many as the shape has elements, or one does not fit the dtype.
pub fn constant(values: Vec<Scalar>, shape: &[u64], dtype: DType) -> Result<Array, OpError> {
    if values.len() as u64 != chunkwise_types::volume(shape) {
        return Err(OpError::new("constant", "the values do not fill the shape"));
    }
    values.iter().try_for_each(|v| literal::check(*v, dtype, "constant", literal::choose))?;
    make(Create::Constant { values }, dtype, shape, None, "constant")
}
