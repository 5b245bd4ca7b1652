//! Cumulative functions: of each element and all those before it along an axis.
//!
//! The axis is cut into segments. One stage reduces each, this function of the results says what each segment begins from, and another stage
//! scans the segments: the array is read twice and written once, whatever the length of the axis. An axis of few elements is one segment.

use crate::elementwise::{astype, elementwise};
use crate::manipulate::flip;
use crate::{Array, OpError};
use chunkwise_kernels::{ArrayType, ElementOp, Kernel, ReduceOp, Scan, ScanOp};
use chunkwise_types::{AxisChunks, ChunkGrid, DType, DTypeKind, Scalar};

/// Elements that a segment should have: the results of all segments are so much less than the array.
const ENOUGH: u64 = 64;
/// Elements that a segment has at least, however large they are together.
const LEAST: u64 = 8;
/// Bytes of a segment that are always worth a task of their own.
const LARGE: u64 = 64 << 20;
/// Bytes of a segment that are too few for a task.
const SMALL: u64 = 1 << 20;
/// Bytes of lines that are one segment.
const WHOLE: u64 = 16 << 20;

/// The segments of an axis: whole chunks.
fn segments(a: &Array, axis: usize) -> AxisChunks {
    let (chunks, n) = (&a.chunks().0[axis], a.shape()[axis]);
    let beside = a.chunks().0.iter().enumerate().filter(|(i, _)| *i != axis).map(|(_, c)| c.max().max(1));
    let row = beside.fold(a.dtype().size(), u64::saturating_mul).max(1);
    if row.saturating_mul(n) <= WHOLE || chunks.count() <= 1 {
        return AxisChunks::regular(n, n);
    }
    let enough = (LARGE / row).clamp(LEAST, ENOUGH).max(SMALL / row);
    match chunks {
        AxisChunks::Regular { len, size } => AxisChunks::regular(*len, size * enough.div_ceil(*size)),
        AxisChunks::Irregular(list) => {
            let mut joined: Vec<u64> = Vec::new();
            for &length in list {
                match joined.last_mut() {
                    Some(last) if *last < enough => *last += length,
                    _ => joined.push(length),
                }
            }
            AxisChunks::from_list(joined)
        }
    }
}

fn apply(scan: Scan, inputs: &[&Array]) -> Result<Array, OpError> {
    let (x, name) = (inputs[0], scan.function.name());
    let (mut shape, mut chunks) = (x.shape().to_vec(), x.chunks().0.clone());
    if scan.ends {
        shape[scan.axis] = scan.segments.count();
        chunks[scan.axis] = AxisChunks::regular(shape[scan.axis], 1);
    }
    let ty = ArrayType::new(x.dtype(), shape);
    Array::apply(Kernel::Scan(scan), inputs, ty, ChunkGrid(chunks), x.dims().to_vec(), name)
}

/// What each segment comes to by itself.
fn ends(a: &Array, function: ScanOp, axis: usize, segments: &AxisChunks) -> Result<Array, OpError> {
    let reduce = match function {
        ScanOp::Sum => ReduceOp::Sum,
        ScanOp::Prod => ReduceOp::Prod,
        ScanOp::Min => ReduceOp::Min,
        ScanOp::Max => ReduceOp::Max,
        ScanOp::Last => return apply(Scan { function, axis, segments: segments.clone(), ends: true }, &[a]),
    };
    let (mut shape, mut chunks) = (a.shape().to_vec(), a.chunks().0.clone());
    shape[axis] = segments.count();
    chunks[axis] = AxisChunks::regular(shape[axis], 1);
    let kernel = Kernel::Reduce { function: reduce, axes: vec![axis], segments: Some(vec![segments.clone()]) };
    let ty = ArrayType::new(function.carried(a.dtype()), shape);
    Array::apply(kernel, &[a], ty, ChunkGrid(chunks), a.dims().to_vec(), function.name())
}

fn scanned(a: &Array, function: ScanOp, axis: usize) -> Result<Array, OpError> {
    let segments = segments(a, axis);
    let scan = Scan { function, axis, segments: segments.clone(), ends: false };
    if segments.count() <= 1 {
        return apply(scan, &[a]);
    }
    let before = scanned(&ends(a, function, axis, &segments)?, function, axis)?;
    apply(scan, &[a, &before])
}

/// A function of each element and all elements before it along an axis. The shape is that of `a`.
///
/// The dtype of sums and products is int64 or uint64 for integers and bool, else that of `a`; that of the others is that of `a`. Sums of floats are
/// taken in float64 and keep what rounding lost. `skip_nan` leaves NaN out of sums and products.
///
/// ```
/// use chunkwise_kernels::ScanOp;
/// use chunkwise_ops::{create, scan};
/// use chunkwise_types::{DType, Scalar};
/// let x = create::full(&[9, 4], Scalar::Int(1), DType::Int8, None)?;
/// let sums = scan::cumulative(&x, ScanOp::Sum, 0, false)?;
/// assert_eq!((sums.shape(), sums.dtype()), (&[9, 4][..], DType::Int64));
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// If there is no such axis, or elements of the dtype have no order.
pub fn cumulative(a: &Array, function: ScanOp, axis: usize, skip_nan: bool) -> Result<Array, OpError> {
    let name = function.name();
    if axis >= a.rank() {
        return Err(OpError::new(name, format!("there is no axis {axis}; the array has {}", a.rank())));
    }
    let dtype = match (function, a.dtype().kind()) {
        (ScanOp::Min | ScanOp::Max, DTypeKind::Complex) => return Err(OpError::new(name, "complex numbers have no order")),
        (ScanOp::Sum | ScanOp::Prod, DTypeKind::Bool | DTypeKind::Signed) => DType::Int64,
        (ScanOp::Sum | ScanOp::Prod, DTypeKind::Unsigned) => DType::UInt64,
        (ScanOp::Last, _) if !a.dtype().is_inexact() => return Ok(a.clone()),
        _ => a.dtype(),
    };
    let mut x = astype(a, dtype)?;
    let neutral = match function {
        ScanOp::Sum => Some(0.0),
        ScanOp::Prod => Some(1.0),
        _ => None,
    };
    if let Some(neutral) = neutral.filter(|_| skip_nan && dtype.is_inexact()) {
        let nan = elementwise(ElementOp::Isnan, &[(&x).into()])?;
        x = elementwise(ElementOp::Where, &[(&nan).into(), Scalar::Float(neutral).into(), (&x).into()])?;
    }
    if a.shape()[axis] == 0 {
        return Ok(x);
    }
    let out = scanned(&x, function, axis)?;
    Ok(if a.coords().is_empty() { out } else { out.with_coords(a.coords().clone()) })
}

/// NaN replaced by the last element before it along an axis that is not NaN, or by the next one after it if `backwards`.
///
/// # Errors
/// If there is no such axis.
pub fn fill(a: &Array, axis: usize, backwards: bool) -> Result<Array, OpError> {
    let turned = |x: &Array| if backwards { flip(x, &[axis]) } else { Ok(x.clone()) };
    if axis >= a.rank() || !a.dtype().is_inexact() {
        return cumulative(a, ScanOp::Last, axis, false);
    }
    let out = turned(&cumulative(&turned(a)?, ScanOp::Last, axis, false)?)?;
    Ok(if a.coords().is_empty() { out } else { out.with_coords(a.coords().clone()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::create;

    /// How often segments are scanned in turn.
    fn levels(a: &Array) -> usize {
        match a.inputs() {
            [_, before] => 1 + levels(before),
            _ => 1,
        }
    }

    fn sums(shape: &[u64], chunks: ChunkGrid) -> Array {
        let x = create::full(shape, Scalar::Int(1), DType::Float64, None).unwrap().rechunked(chunks);
        cumulative(&x, ScanOp::Sum, 0, false).unwrap()
    }

    #[test]
    fn an_end_is_found_whatever_the_chunks() {
        let of = |shape: &[u64], chunks: &[u64]| levels(&sums(shape, ChunkGrid::regular(shape, chunks)));
        assert_eq!(of(&[1000], &[10]), 1);
        assert_eq!(of(&[3_000_000], &[100_000]), 2);
        // Of rows that are large by themselves, each level has an eighth of the one before.
        assert_eq!(of(&[100, 4000, 4000], &[1, 4000, 4000]), 3);
        assert_eq!(of(&[1 << 40], &[1]), 3);
        assert!(of(&[1 << 20, 1 << 30], &[1, 1 << 30]) < 10);
    }

    #[test]
    fn segments_are_whole_chunks() {
        let lengths = [vec![7; 100], vec![20, 1, 1, 80, 8]].concat();
        let n = lengths.iter().sum();
        let sums = sums(&[n, 300_000], ChunkGrid(vec![AxisChunks::from_list(lengths), AxisChunks::regular(300_000, 300_000)]));
        let crate::Definition::Apply(Kernel::Scan(scan)) = sums.definition() else { unreachable!() };
        assert!(scan.segments.cuts(n) && scan.segments.count() < 60);
        assert!((0..scan.segments.count()).all(|k| scan.segments.bounds(k).0 % 7 == 0 || scan.segments.bounds(k).0 > 700));
    }
}
