//! Functions of a window around each element (`map_overlap`).

use crate::support::{bad, cast, sliced};
use crate::{Array, OpError};
use chunkwise_kernels::{ArrayType, Kernel, PadMode, Stencil, StencilOp};
use chunkwise_types::{ChunkGrid, DType, DTypeKind, Scalar};

/// What stands beyond the edges.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Boundary {
    /// Nothing: the result is `window - 1` shorter.
    Valid,
    /// Padding by a rule; the scalar is the value of the constant rule.
    Pad(PadMode, Scalar),
}

/// `out[i] = function(x[i - w / 2], ..., x[i - w / 2 + w - 1])` for a window of `w` elements on each axis.
///
/// The window is centred; one of even length reaches one element further to the left, as in `scipy.ndimage`.
///
/// ```
/// use chunkwise_ops::{create, stencil::{Boundary, moving}};
/// use chunkwise_kernels::{PadMode, StencilOp};
/// use chunkwise_types::Scalar;
/// let x = create::full(&[9], Scalar::Float(1.0), None, None)?;
/// assert_eq!(moving(&x, &[3], StencilOp::Mean, Boundary::Valid)?.shape(), [7]);
/// assert_eq!(moving(&x, &[3], StencilOp::Max, Boundary::Pad(PadMode::Edge, Scalar::Int(0)))?.shape(), [9]);
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
pub fn moving(x: &Array, window: &[u64], function: StencilOp, boundary: Boundary) -> Result<Array, OpError> {
    let op = match &function {
        StencilOp::Weights(_) => "correlate",
        StencilOp::Sum => "moving_sum",
        StencilOp::Mean => "moving_mean",
        StencilOp::Min => "moving_min",
        StencilOp::Max => "moving_max",
    };
    if window.len() != x.rank() || window.contains(&0) {
        return bad(op, format!("needs a window of at least 1 for each of the {} axes", x.rank()));
    }
    let Some(size) = window.iter().try_fold(1u64, |a, &w| a.checked_mul(w)).filter(|&s| s <= 1 << 20) else {
        return bad(op, "the window is too large");
    };
    if let StencilOp::Weights(w) = &function
        && w.len() as u64 != size
    {
        return bad(op, format!("{} weights are given for a window of {size} elements", w.len()));
    }
    let dtype = match (&function, x.dtype().kind()) {
        (StencilOp::Min | StencilOp::Max, DTypeKind::Complex) => return bad(op, "complex numbers have no order"),
        (StencilOp::Min | StencilOp::Max, _) => x.dtype(),
        (StencilOp::Sum, DTypeKind::Bool | DTypeKind::Signed) => DType::Int64,
        (StencilOp::Sum, DTypeKind::Unsigned) => DType::UInt64,
        _ => x.dtype().to_inexact(),
    };
    let mut y = cast(x, dtype, op)?;
    if let Boundary::Pad(mode, value) = boundary {
        let widths: Vec<(u64, u64)> = window.iter().map(|&w| (w / 2, w - 1 - w / 2)).collect();
        y = crate::manipulate::pad(&y, &widths, mode, value)?;
    }
    let (mut shape, mut grid) = (Vec::new(), Vec::new());
    for (i, (&n, &w)) in y.shape().iter().zip(window).enumerate() {
        let Some(out) = (n + 1).checked_sub(w) else {
            return bad(op, format!("the window of {w} is longer than axis {i} with {n} elements"));
        };
        shape.push(out);
        grid.push(if out == x.shape()[i] { x.chunks().0[i].clone() } else { sliced(&y.chunks().0[i], 0, 1, out) });
    }
    let kernel = Kernel::Stencil(Stencil { window: window.to_vec(), function });
    Array::apply(kernel, &[&y], ArrayType::new(dtype, shape), ChunkGrid(grid), x.dims().to_vec(), op)
}
