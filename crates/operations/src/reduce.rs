//! Reductions over any axes.
//!
//! `mean` is a sum divided by a count; `var` merges (count, mean, M2) states (Chan, Golub and LeVeque 1983) in one pass; the `nan`
//! family replaces NaN by the neutral element first. Everything fuses into one stage.
//!
//! Whether NaN counts is the caller's choice; [`skipna_default`] is the default.

use crate::elementwise::{astype, elementwise};
use crate::index::item;
use crate::manipulate::expand_dims;
use crate::{Array, OpError};
use chunkwise_kernels::{ArrayType, ElementOp, Kernel, ReduceOp};
use chunkwise_types::{ChunkGrid, DType, DTypeKind, Scalar};

/// The axes of a reduction, ascending; all of them without a choice.
fn resolve(a: &Array, axes: Option<&[usize]>, operation: &str) -> Result<Vec<usize>, OpError> {
    let mut out = axes.map_or_else(|| (0..a.rank()).collect(), <[usize]>::to_vec);
    out.sort_unstable();
    if out.iter().any(|&x| x >= a.rank()) || out.windows(2).any(|w| w[0] == w[1]) {
        return Err(OpError::new(operation, format!("axes {out:?} are not distinct axes of an array with {} axes", a.rank())));
    }
    Ok(out)
}

/// The axes that were reduced put back with length 1 and their names, but without coordinates of another length, as in xarray.
fn restore(out: Array, a: &Array, axes: &[usize], keepdims: bool) -> Result<Array, OpError> {
    if !keepdims || axes.is_empty() {
        return Ok(out);
    }
    Ok(axes.iter().try_fold(out, |out, &axis| expand_dims(&out, axis))?.with_dims(a.dims().to_vec()).with_coords(a.coords().clone()))
}

fn raw(a: &Array, function: ReduceOp, axes: &[usize], dtype: DType, operation: &str) -> Result<Array, OpError> {
    let keep: Vec<usize> = (0..a.rank()).filter(|i| !axes.contains(i)).collect();
    let mut shape: Vec<u64> = keep.iter().map(|&i| a.shape()[i]).collect();
    let mut chunks: Vec<_> = keep.iter().map(|&i| a.chunks().0[i].clone()).collect();
    let mut dims: Vec<_> = keep.iter().map(|&i| a.dims()[i].clone()).collect();
    if matches!(function, ReduceOp::Moments { .. }) {
        shape.push(3);
        chunks.push(chunkwise_types::AxisChunks::regular(3, 3));
        dims.push(None);
    }
    let kernel = Kernel::Reduce { function, axes: axes.to_vec(), segments: None };
    Array::apply(kernel, &[a], ArrayType::new(dtype, shape), ChunkGrid(chunks), dims, operation)
}

/// What the reductions do with NaN by default: false is NumPy's rule, by which one NaN makes the result NaN; true leaves NaN out, as xarray does,
/// where NaN stands for missing values that were stored.
pub fn skipna_default(a: &Array) -> bool {
    a.has_missing()
}

/// One of the plain reductions: sum, prod, min, max, any, all, count_nonzero, argmin, argmax.
pub fn reduce(a: &Array, function: ReduceOp, axes: Option<&[usize]>, keepdims: bool) -> Result<Array, OpError> {
    let name = function.name();
    let axes = resolve(a, axes, name)?;
    let empty = axes.iter().any(|&x| a.shape()[x] == 0);
    if empty && matches!(function, ReduceOp::Min | ReduceOp::Max | ReduceOp::ArgMin | ReduceOp::ArgMax) {
        return Err(OpError::new(name, "an axis of length zero has no least or greatest element"));
    }
    let dtype = function.result_dtype(a.dtype()).map_err(|e| OpError::new(name, e.to_string()))?;
    restore(raw(a, function, &axes, dtype, name)?, a, &axes, keepdims)
}

fn count(a: &Array, axes: &[usize]) -> u64 {
    axes.iter().map(|&x| a.shape()[x]).product()
}

/// The arithmetic mean; NaN for no elements.
pub fn mean(a: &Array, axes: Option<&[usize]>, keepdims: bool) -> Result<Array, OpError> {
    let axes = resolve(a, axes, "mean")?;
    let out = a.dtype().to_inexact();
    let wide = if out.kind() == DTypeKind::Complex { DType::Complex128 } else { DType::Float64 };
    let input = if a.dtype().is_inexact() { a.clone() } else { astype(a, DType::Float64)? };
    let sum = raw(&input, ReduceOp::Sum, &axes, wide, "mean")?;
    let mean = elementwise(ElementOp::Divide, &[(&sum).into(), Scalar::Float(count(a, &axes) as f64).into()])?;
    restore(astype(&mean, out)?, a, &axes, keepdims)
}

/// The variance with `correction` degrees of freedom taken off; `skip_nan` leaves NaN out, and is NaN where too few elements remain.
///
/// A complex number is NaN if one of its parts is.
pub fn var(a: &Array, axes: Option<&[usize]>, correction: f64, keepdims: bool, skip_nan: bool) -> Result<Array, OpError> {
    let axes = resolve(a, axes, "var")?;
    if a.dtype().kind() == DTypeKind::Complex {
        let part = |op| {
            let mut part = elementwise(op, &[a.into()])?;
            if skip_nan {
                // Both parts leave out the same elements.
                let nan = elementwise(ElementOp::Isnan, &[a.into()])?;
                part = elementwise(ElementOp::Where, &[(&nan).into(), Scalar::Float(f64::NAN).into(), (&part).into()])?;
            }
            var(&part, Some(&axes), correction, keepdims, skip_nan)
        };
        return elementwise(ElementOp::Add, &[(&part(ElementOp::Real)?).into(), (&part(ElementOp::Imag)?).into()]);
    }
    let input = if a.dtype().is_inexact() { a.clone() } else { astype(a, DType::Float64)? };
    let m = raw(&input, ReduceOp::Moments { skip_nan }, &axes, DType::Float64, "var")?;
    let last = m.rank() - 1;
    let (n, m2) = (item(&m, last, 0)?, item(&m, last, 2)?);
    let free = elementwise(ElementOp::Subtract, &[(&n).into(), Scalar::Float(correction).into()])?;
    // No freedom is 0/0 or x/0 for NumPy, but NaN for its functions that leave NaN out.
    let least = Scalar::Float(0.0);
    let free = elementwise(ElementOp::Maximum, &[(&free).into(), least.into()])?;
    let mut var = elementwise(ElementOp::Divide, &[(&m2).into(), (&free).into()])?;
    if skip_nan && correction > 0.0 {
        let enough = elementwise(ElementOp::Greater, &[(&free).into(), least.into()])?;
        var = elementwise(ElementOp::Where, &[(&enough).into(), (&var).into(), Scalar::Float(f64::NAN).into()])?;
    }
    restore(astype(&var, a.dtype().to_inexact())?, a, &axes, keepdims)
}

/// The square root of [`var`].
pub fn std(a: &Array, axes: Option<&[usize]>, correction: f64, keepdims: bool, skip_nan: bool) -> Result<Array, OpError> {
    elementwise(ElementOp::Sqrt, &[(&var(a, axes, correction, keepdims, skip_nan)?).into()])
}

/// The elements with NaN replaced.
fn without_nan(a: &Array, value: f64) -> Result<Array, OpError> {
    let nan = elementwise(ElementOp::Isnan, &[a.into()])?;
    elementwise(ElementOp::Where, &[(&nan).into(), Scalar::Float(value).into(), a.into()])
}

fn count_valid(a: &Array, axes: &[usize]) -> Result<Array, OpError> {
    let valid = elementwise(ElementOp::LogicalNot, &[(&elementwise(ElementOp::Isnan, &[a.into()])?).into()])?;
    raw(&valid, ReduceOp::CountNonzero, axes, DType::Int64, "count")
}

/// `nansum`, `nanprod`, `nanmin`, `nanmax`, `nanargmin`, `nanargmax`: the reduction without the NaN.
///
/// Of nothing but NaN the least and the greatest element are NaN, and their position is -1: values are not known when the run is planned, so it
/// cannot be refused as NumPy does.
pub fn nan_reduce(a: &Array, function: ReduceOp, axes: Option<&[usize]>, keepdims: bool) -> Result<Array, OpError> {
    if !a.dtype().is_inexact() {
        return reduce(a, function, axes, keepdims);
    }
    let neutral = match function {
        ReduceOp::Sum => 0.0,
        ReduceOp::Prod => 1.0,
        ReduceOp::Min | ReduceOp::ArgMin => f64::INFINITY,
        ReduceOp::Max | ReduceOp::ArgMax => f64::NEG_INFINITY,
        _ => return reduce(a, function, axes, keepdims),
    };
    let out = reduce(&without_nan(a, neutral)?, function, axes, keepdims)?;
    let nothing = match function {
        ReduceOp::Min | ReduceOp::Max => Scalar::Float(f64::NAN),
        ReduceOp::ArgMin | ReduceOp::ArgMax => Scalar::Int(-1),
        _ => return Ok(out),
    };
    let list = resolve(a, axes, function.name())?;
    let none = elementwise(ElementOp::Equal, &[(&restore(count_valid(a, &list)?, a, &list, keepdims)?).into(), Scalar::Int(0).into()])?;
    elementwise(ElementOp::Where, &[(&none).into(), nothing.into(), (&out).into()])
}

/// The mean of the elements that are not NaN.
pub fn nanmean(a: &Array, axes: Option<&[usize]>, keepdims: bool) -> Result<Array, OpError> {
    if !a.dtype().is_inexact() {
        return mean(a, axes, keepdims);
    }
    let list = resolve(a, axes, "nanmean")?;
    let wide = if a.dtype().kind() == DTypeKind::Complex { DType::Complex128 } else { DType::Float64 };
    let sum = raw(&without_nan(a, 0.0)?, ReduceOp::Sum, &list, wide, "nanmean")?;
    let mean = elementwise(ElementOp::Divide, &[(&sum).into(), (&count_valid(a, &list)?).into()])?;
    restore(astype(&mean, a.dtype())?, a, &list, keepdims)
}
