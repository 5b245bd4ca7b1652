//! Elements at positions that another array holds.

use crate::elementwise::{Operand, astype, broadcast_to, elementwise};
use crate::{Array, OpError};
use chunkwise_kernels::{ArrayType, ElementOp, Kernel, Points};
use chunkwise_types::{AxisChunks, ChunkGrid, DType, DTypeKind, Scalar};

const NAME: &str = "take_along_axis";

/// The elements of `a` at `positions` along an axis. The other axes of both are broadcast; the result has the shape that the positions have then.
///
/// The axis may be longer than memory: it is read in parts, whatever the positions are. Negative ones count from the end.
///
/// ```
/// use chunkwise_ops::{create, lookup::take_along_axis};
/// use chunkwise_types::{DType, Scalar};
/// let x = create::full(&[9, 4], Scalar::Int(1), DType::Int8, None)?;
/// let first = create::full(&[1, 4], Scalar::Int(0), DType::Int64, None)?;
/// assert_eq!(take_along_axis(&x, &first, 0)?.shape(), [1, 4]);
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// If the ranks differ, the other axes do not broadcast, the positions are no integers, or there are positions but no elements. A position that is out
/// of bounds is found when the plan runs.
pub fn take_along_axis(a: &Array, positions: &Array, axis: usize) -> Result<Array, OpError> {
    let fail = |text: String| Err(OpError::new(NAME, text));
    if axis >= a.rank() || a.rank() != positions.rank() {
        return fail(format!("axis {axis} of arrays of {} and {} dimensions", a.rank(), positions.rank()));
    }
    let at = match positions.dtype().kind() {
        DTypeKind::Signed | DTypeKind::Unsigned => positions.clone(),
        _ => return fail(format!("positions are integers, not {}", positions.dtype())),
    };
    // What is beyond int64 must not become a position from the end.
    let at = if at.dtype() == DType::UInt64 {
        elementwise(ElementOp::Minimum, &[(&at).into(), Operand::Scalar(Scalar::Int(i64::MAX.into()))])?
    } else {
        at
    };
    let at = astype(&at, DType::Int64)?;
    let mut shape = at.shape().to_vec();
    for i in (0..a.rank()).filter(|&i| i != axis) {
        let (n, m) = (a.shape()[i], shape[i]);
        if n != m && n != 1 && m != 1 {
            return fail(format!("the lengths {n} and {m} of axis {i} differ, and neither is 1"));
        }
        shape[i] = if n == 1 { m } else { n };
    }
    if a.shape()[axis] == 0 && chunkwise_types::volume(&shape) > 0 {
        return fail(format!("axis {axis} has no elements"));
    }
    // The chunks are those of the positions. Where these are broadcast, those of the elements fit better than one.
    let spread = broadcast_to(&at, &shape)?;
    let mut chunks = spread.chunks().clone();
    for i in (0..a.rank()).filter(|&i| i != axis && at.shape()[i] == 1 && a.shape()[i] == shape[i]) {
        chunks.0[i] = a.chunks().0[i].clone();
    }
    let names = a.dims().iter().zip(positions.dims()).map(|(x, p)| p.clone().or_else(|| x.clone())).collect();
    Array::apply(Kernel::Lookup { axis }, &[a, &spread], ArrayType::new(a.dtype(), shape), chunks, names, NAME)
}

/// Bytes of the elements of points that are one chunk.
const CHUNK: u64 = 16 << 20;

/// The elements at points, which have a position along each of some axes. The points are the first axis of the result, the other axes follow.
///
/// What is between the first and the last position of a chunk of points is read, along each axis.
///
/// ```
/// use chunkwise_ops::{create, lookup::points};
/// use chunkwise_types::{DType, Scalar};
/// let x = create::full(&[9, 4, 5], Scalar::Int(1), DType::Int8, None)?;
/// assert_eq!(points(&x, &[0, 2], vec![vec![8, 0, 3], vec![4, 4, 0]])?.shape(), [3, 4]);
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// If the axes do not ascend, or a position is not inside its axis.
pub fn points(a: &Array, axes: &[usize], positions: Vec<Vec<u64>>) -> Result<Array, OpError> {
    if axes.iter().any(|&i| i >= a.rank()) {
        return Err(OpError::new("points", format!("axes {axes:?} of an array of {} dimensions", a.rank())));
    }
    let rest: Vec<usize> = (0..a.rank()).filter(|i| !axes.contains(i)).collect();
    let count = positions.first().map_or(0, |p| p.len() as u64);
    let row = rest.iter().map(|&i| a.chunks().0[i].max().max(1)).fold(a.dtype().size(), u64::saturating_mul);
    let size = (CHUNK / row.max(1)).clamp(1, count.max(1));
    let shape = std::iter::once(count).chain(rest.iter().map(|&i| a.shape()[i])).collect();
    let chunks = std::iter::once(AxisChunks::regular(count, size)).chain(rest.iter().map(|&i| a.chunks().0[i].clone())).collect();
    let dims = std::iter::once(None).chain(rest.iter().map(|&i| a.dims()[i].clone())).collect();
    let kernel = Kernel::Points(Points { axes: axes.to_vec(), positions });
    Array::apply(kernel, &[a], ArrayType::new(a.dtype(), shape), ChunkGrid(chunks), dims, "points")
}
