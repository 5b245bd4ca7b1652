//! Functions of a window around each element: moving sums, means and extremes, and weighted sums.
//!
//! The window of `w` elements at index `i` begins at `i - w / 2`, so a window of even length reaches one element further back
//! than ahead. With a boundary the array is padded first and the result has its shape; without, the result has only the elements
//! whose window lies inside, `w - 1` fewer.

use crate::elementwise::{astype, elementwise};
use crate::manipulate::pad;
use crate::{Array, OpError, literal};
use chunkwise_kernels::{ArrayType, ElementOp, Kernel, PadMode, Stencil, StencilOp};
use chunkwise_types::{AxisChunks, ChunkGrid, DType, DTypeKind, Scalar};

/// What stands beyond the ends of an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Boundary {
    /// Nothing: the result is shorter.
    None,
    /// What [`pad`] puts there; the scalar is the value of [`PadMode::Constant`].
    Pad(PadMode, Scalar),
}

/// A function of the elements in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moving {
    /// The sum: int64 or uint64 of integers and bool, else the dtype of the input.
    Sum,
    /// The mean: float64 of integers and bool, else the dtype of the input.
    Mean,
    /// The least element, NaN if there is one; not for complex numbers.
    Min,
    /// The greatest element, NaN if there is one; not for complex numbers.
    Max,
}

impl Moving {
    /// The name in pipelines.
    pub fn name(self) -> &'static str {
        match self {
            Moving::Sum => "moving_sum",
            Moving::Mean => "moving_mean",
            Moving::Min => "moving_min",
            Moving::Max => "moving_max",
        }
    }
}

/// The largest number of elements in a window.
const MAX_WINDOW: u64 = Stencil::MAX_WINDOW;

fn check(a: &Array, window: &[u64], operation: &str) -> Result<(), OpError> {
    let bad = |p: String| Err(OpError::new(operation, p));
    if window.len() != a.rank() {
        return bad(format!("the window has {} axes, but the array has {}", window.len(), a.rank()));
    }
    if window.contains(&0) {
        return bad("a window must have at least one element".into());
    }
    match window.iter().try_fold(1u64, |v, &w| v.checked_mul(w)) {
        Some(v) if v <= MAX_WINDOW => Ok(()),
        _ => bad(format!("a window may have at most {MAX_WINDOW} elements")),
    }
}

/// The array with `(before, after)` elements more for each window, if there is a boundary.
fn extended(a: &Array, window: &[u64], boundary: Boundary, ahead: bool, operation: &str) -> Result<Array, OpError> {
    let Boundary::Pad(mode, value) = boundary else { return Ok(a.clone()) };
    if mode == PadMode::Constant {
        literal::check(value, a.dtype(), operation, literal::convert)?;
    }
    let sides = |&w: &u64| {
        let half = if ahead { (w - 1) / 2 } else { w / 2 };
        (half, w - 1 - half)
    };
    pad(a, &window.iter().map(sides).collect::<Vec<_>>(), mode, value)
}

/// One stencil without padding; `like` has the chunks that an axis of the same length keeps.
fn raw(a: &Array, window: Vec<u64>, function: StencilOp, like: &Array, operation: &str) -> Result<Array, OpError> {
    let (mut shape, mut chunks) = (Vec::new(), Vec::new());
    for (i, (&n, &w)) in a.shape().iter().zip(&window).enumerate() {
        // An axis of length zero has no element to put a window around.
        let fits = |len: &u64| *len > 0 || like.shape()[i] == 0;
        let Some(len) = (n + 1).checked_sub(w).filter(fits) else {
            return Err(OpError::new(operation, format!("a window of {w} is longer than axis {i}, which has {n} elements")));
        };
        shape.push(len);
        let own = &like.chunks().0[i];
        chunks.push(if own.len() == len { own.clone() } else { AxisChunks::regular(len, own.max().min(len)) });
    }
    let ty = ArrayType::new(a.dtype(), shape);
    Array::apply(Kernel::Stencil(Stencil { window, function }), &[a], ty, ChunkGrid(chunks), a.dims().to_vec(), operation)
}

/// The sum, mean, least or greatest element of the window around each element; one window length an axis.
///
/// ```
/// use chunkwise_ops::{create, stencil::{Boundary, Moving, moving}};
/// use chunkwise_kernels::PadMode;
/// use chunkwise_types::{DType, Scalar};
/// let x = create::full(&[9, 4], Scalar::Int(1), DType::Float64, None)?;
/// assert_eq!(moving(&x, Moving::Mean, &[3, 1], Boundary::None)?.shape(), [7, 4]);
/// let edge = Boundary::Pad(PadMode::Edge, Scalar::Int(0));
/// assert_eq!(moving(&x, Moving::Max, &[3, 2], edge)?.shape(), [9, 4]);
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// If the window does not fit the array, the dtype has no such function, or the constant boundary does not fit the dtype.
pub fn moving(a: &Array, function: Moving, window: &[u64], boundary: Boundary) -> Result<Array, OpError> {
    let name = function.name();
    check(a, window, name)?;
    let dtype = match (function, a.dtype().kind()) {
        (Moving::Min | Moving::Max, DTypeKind::Complex) => return Err(OpError::new(name, "complex numbers have no order")),
        (Moving::Min | Moving::Max, _) => a.dtype(),
        (Moving::Mean, _) => a.dtype().to_inexact(),
        (Moving::Sum, DTypeKind::Bool | DTypeKind::Signed) => DType::Int64,
        (Moving::Sum, DTypeKind::Unsigned) => DType::UInt64,
        (Moving::Sum, _) => a.dtype(),
    };
    let op = match function {
        Moving::Sum | Moving::Mean => StencilOp::Sum,
        Moving::Min => StencilOp::Min,
        Moving::Max => StencilOp::Max,
    };
    let mut out = extended(&astype(a, dtype)?, window, boundary, false, name)?;
    // These functions of a box are functions along one axis after the other: w1 + w2 steps and not w1 * w2.
    for (axis, &w) in window.iter().enumerate().filter(|(_, w)| **w > 1) {
        let mut line = vec![1; a.rank()];
        line[axis] = w;
        out = raw(&out, line, op.clone(), a, name)?;
    }
    if function == Moving::Mean {
        let count = chunkwise_types::volume(window) as f64;
        out = elementwise(ElementOp::Divide, &[(&out).into(), Scalar::Float(count).into()])?;
    }
    Ok(labelled(out, a, window, boundary, false))
}

/// The result with the labels of the elements that its windows are around.
fn labelled(out: Array, a: &Array, window: &[u64], boundary: Boundary, ahead: bool) -> Array {
    let mut coords = a.coords().clone();
    if boundary == Boundary::None {
        for (i, w) in window.iter().enumerate().filter(|(_, w)| **w > 1) {
            if let Some(dim) = &a.dims()[i] {
                let middle = if ahead { (w - 1) / 2 } else { w / 2 };
                coords = crate::coords::picked(coords, dim, out.shape()[i], &|k| Some(k + middle));
            }
        }
    }
    if coords.is_empty() { out } else { out.with_coords(coords) }
}

/// The sum of the elements around each element times weights, given in C order of the window.
///
/// `flipped` turns the weights round, which makes it a convolution: the weight with the least index meets the element furthest
/// ahead. Without, it is a correlation. The dtype is float64 for integers and bool, else that of the input. A weight of 0 leaves
/// its element out, NaN or not.
///
/// # Errors
/// If the weights do not fill the window, or the window does not fit the array.
pub fn weighted(a: &Array, window: &[u64], weights: &[f64], flipped: bool, boundary: Boundary) -> Result<Array, OpError> {
    let name = if flipped { "convolve" } else { "stencil" };
    check(a, window, name)?;
    if weights.len() as u64 != chunkwise_types::volume(window) {
        return Err(OpError::new(name, format!("{} weights for a window of shape {window:?}", weights.len())));
    }
    if weights.iter().any(|w| !w.is_finite()) {
        return Err(OpError::new(name, "the weights must be finite numbers"));
    }
    let mut weights = weights.to_vec();
    if flipped {
        weights.reverse();
    }
    let out = extended(&astype(a, a.dtype().to_inexact())?, window, boundary, flipped, name)?;
    let out = raw(&out, window.to_vec(), StencilOp::Weights(weights), a, name)?;
    Ok(labelled(out, a, window, boundary, flipped))
}
