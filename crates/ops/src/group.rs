//! Reductions of the elements with equal labels along one axis, and the way back.

use crate::reduce::averageable;
use crate::support::{axis_number, bad, cast, drop_axes, gather_one, insert_axes, kernel_error};
use crate::{Array, OpError, create, elementwise};
use chunkwise_kernels::{ArrayType, AxisMap, ElementOp, Kernel, ReduceOp};
use chunkwise_types::{AxisChunks, DType, DTypeKind, Scalar};

/// A reduction of the members of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GroupOp {
    /// The sum.
    Sum,
    /// The product.
    Prod,
    /// The mean; NaN without members.
    Mean,
    /// `Σ |x - mean|² / (n - correction)`, in two passes.
    Var(f64),
    /// The root of the variance.
    Std(f64),
    /// The least; NaN (integers: 0) without members.
    Min,
    /// The greatest; NaN (integers: 0) without members.
    Max,
    /// The number of members that are not NaN.
    Count,
    /// True if any member is not zero.
    Any,
    /// True if no member is zero.
    All,
}

fn grouped(x: &Array, axis: usize, labels: &[i64], groups: u64, function: ReduceOp, dtype: Option<DType>, op: &str) -> Result<Array, OpError> {
    let natural = function.result_dtype(x.dtype()).map_err(kernel_error(op))?;
    let mut grid = x.chunks().clone();
    grid.0[axis] = AxisChunks::regular(groups, groups);
    let kernel = Kernel::Group { function, axis, labels: labels.to_vec(), groups };
    let ty = ArrayType::new(dtype.unwrap_or(natural), grid.shape());
    Array::apply(kernel, &[x], ty, grid, x.dims().to_vec(), op)
}

/// The number of members of each group, with length 1 on the other axes.
fn counts(x: &Array, axis: usize, labels: &[i64], groups: u64, op: &str) -> Result<Array, OpError> {
    let mut n = vec![0i128; groups as usize];
    for &l in labels {
        if let Some(c) = usize::try_from(l).ok().and_then(|l| n.get_mut(l)) {
            *c += 1;
        }
    }
    let line = create::constant(&[groups], n.into_iter().map(Scalar::Int).collect(), DType::Int64)?;
    let places: Vec<usize> = (0..x.rank()).filter(|&i| i != axis).collect();
    insert_axes(&line, &places, &[], op)
}

/// The reduction of the elements of each group along an axis; label -1 belongs to none.
///
/// The axis of the result counts groups and keeps its name; see [`Array::with_dims`].
///
/// ```
/// use chunkwise_ops::{create, group::{GroupOp, groupby}};
/// use chunkwise_types::Scalar;
/// let x = create::full(&[4, 3], Scalar::Float(1.0), None, None)?;
/// assert_eq!(groupby(&x, 0, &[0, 1, 0, 1], 2, GroupOp::Mean)?.shape(), [2, 3]);
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
pub fn groupby(x: &Array, axis: i64, labels: &[i64], groups: u64, function: GroupOp) -> Result<Array, OpError> {
    let op = match function {
        GroupOp::Sum => "groupby_sum",
        GroupOp::Prod => "groupby_prod",
        GroupOp::Mean => "groupby_mean",
        GroupOp::Var(_) => "groupby_var",
        GroupOp::Std(_) => "groupby_std",
        GroupOp::Min => "groupby_min",
        GroupOp::Max => "groupby_max",
        GroupOp::Count => "groupby_count",
        GroupOp::Any => "groupby_any",
        GroupOp::All => "groupby_all",
    };
    let axis = axis_number(op, axis, x.rank())?;
    if labels.len() as u64 != x.shape()[axis] {
        return bad(op, format!("{} labels are given for an axis of length {}", labels.len(), x.shape()[axis]));
    }
    if groups > 1 << 24 {
        return bad(op, format!("{groups} groups are too many"));
    }
    if let Some(l) = labels.iter().find(|&&l| l < -1 || l >= groups as i64) {
        return bad(op, format!("label {l} is not a group from 0 to {}, nor -1 for none", groups as i64 - 1));
    }
    let simple = |function| grouped(x, axis, labels, groups, function, None, op);
    let n = || counts(x, axis, labels, groups, op);
    match function {
        GroupOp::Sum => simple(ReduceOp::Sum),
        GroupOp::Prod => simple(ReduceOp::Prod),
        GroupOp::Min => simple(ReduceOp::Min),
        GroupOp::Max => simple(ReduceOp::Max),
        GroupOp::Any => simple(ReduceOp::Any),
        GroupOp::All => simple(ReduceOp::All),
        GroupOp::Count => {
            let there = if x.dtype().is_inexact() {
                elementwise::unary(ElementOp::LogicalNot, &elementwise::unary(ElementOp::Isnan, x)?)?
            } else {
                // Without NaN the numbers are known.
                let mut shape = x.shape().to_vec();
                shape[axis] = groups;
                let out = elementwise::broadcast_to(&n()?, &shape)?;
                return Ok(out.with_dims(x.dims().to_vec()));
            };
            grouped(&there, axis, labels, groups, ReduceOp::CountNonzero, None, op)
        }
        GroupOp::Mean => {
            let (y, wide, out) = averageable(x, op)?;
            let sum = grouped(&y, axis, labels, groups, ReduceOp::Sum, Some(wide), op)?;
            cast(&sum.div(n()?)?, out, op)
        }
        GroupOp::Var(correction) | GroupOp::Std(correction) => {
            let wide = if x.dtype().kind() == DTypeKind::Complex { DType::Complex128 } else { DType::Float64 };
            let y = cast(x, wide, op)?;
            let mean = groupby(&y, axis as i64, labels, groups, GroupOp::Mean)?;
            let at: Vec<i64> = labels.iter().map(|&l| l.max(0)).collect();
            if groups == 0 {
                return cast(&grouped(&y, axis, labels, groups, ReduceOp::Sum, None, op)?, DType::Float64, op);
            }
            let away = elementwise::unary(ElementOp::Abs, &y.sub(select(&mean, axis as i64, &at)?)?)?;
            let squares = grouped(&elementwise::unary(ElementOp::Square, &away)?, axis, labels, groups, ReduceOp::Sum, None, op)?;
            let freedom = elementwise::binary(ElementOp::Maximum, n()?.sub(correction)?, 0.0)?;
            let mut v = squares.div(freedom)?;
            if matches!(function, GroupOp::Std(_)) {
                v = elementwise::unary(ElementOp::Sqrt, &v)?;
            }
            cast(&v, x.dtype().to_inexact().real(), op)
        }
    }
}

/// The group of each label along an axis: `out[.., i, ..] = x[.., labels[i], ..]`. The way back from [`groupby`].
pub fn select(x: &Array, axis: i64, labels: &[i64]) -> Result<Array, OpError> {
    let axis = axis_number("sel", axis, x.rank())?;
    let n = x.shape()[axis];
    let at = |&l: &i64| u64::try_from(l).ok().filter(|&l| l < n).ok_or_else(|| OpError::new("sel", format!("there is no group {l} among {n}")));
    let list = labels.iter().map(at).collect::<Result<Vec<u64>, _>>()?;
    let chunks = AxisChunks::regular(list.len() as u64, x.chunks().0[axis].max().max(1));
    gather_one(x, axis, AxisMap::Take(list), chunks, "sel")
}

/// One group, without the axis.
pub fn select_one(x: &Array, axis: i64, label: i64) -> Result<Array, OpError> {
    let axis = axis_number("sel", axis, x.rank())?;
    drop_axes(&select(x, axis as i64, &[label])?, &[axis], "sel")
}
