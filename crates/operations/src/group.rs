//! Reductions of elements with equal labels along one axis.
//!
//! As in xarray, NaN is left out unless the caller wants it in. Means come out of the fold itself, so
//! that what is stored between stages is as small as the result; variances come from merged moments (count, mean, M2).

use crate::create::constant;
use crate::elementwise::{astype, broadcast_to, elementwise};
use crate::index::item;
use crate::manipulate::{expand_dims, permute_dims};
use crate::{Array, OpError};
use chunkwise_kernels::{ArrayType, ElementOp, Kernel, ReduceOp};
use chunkwise_types::{AxisChunks, DType, DTypeKind, Scalar};
use std::collections::HashSet;

/// The groups of an axis.
#[derive(Debug, Clone, Copy)]
pub struct Groups<'a> {
    /// The axis.
    pub axis: usize,
    /// The group of every index of the axis; -1 is none.
    pub labels: &'a [i64],
    /// The number of groups, which is the length of the axis in the result.
    pub count: u64,
    /// The name of the axis in the result.
    pub dim: Option<&'a str>,
}

/// A reduction of the members of a group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum GroupOp {
    /// The sum, 0 without members: int64 or uint64 of integers and bool, else the dtype of the input.
    Sum,
    /// The product, 1 without members; dtypes as for the sum.
    Prod,
    /// The mean, NaN without members: float64 of integers and bool, else the dtype of the input.
    Mean,
    /// The mean squared deviation from the mean, `Σ |x - mean|² / (n - correction)`; real, and float64 of integers and bool.
    Var(f64),
    /// The square root of the variance.
    Std(f64),
    /// The least member, NaN without; not for complex numbers. Integers and bool have no NaN, so every group must have a member.
    Min,
    /// The greatest member, otherwise as the least.
    Max,
    /// The number of members that are not NaN, int64.
    Count,
    /// True if any member is not zero, as NaN is.
    Any,
    /// True if no member is zero.
    All,
}

impl GroupOp {
    /// The name in pipelines.
    pub fn name(self) -> &'static str {
        match self {
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
        }
    }
}

/// How many groups a chunk of the result should hold: about as many as one chunk of the input has.
///
/// Where labels only grow along the axis, a chunk of the input has its own groups, and the result is cut as the input is. Where
/// they come again, as the months of several years do, every chunk of the result needs chunks from everywhere.
fn group_chunks(chunks: &AxisChunks, labels: &[i64], groups: u64) -> AxisChunks {
    let size = chunks.max().max(1);
    let n = labels.len().max(1) as u64;
    let mut last = -1;
    let sorted = labels.iter().filter(|&&l| l >= 0).all(|&l| std::mem::replace(&mut last, l) <= l);
    let per = if sorted {
        (u128::from(groups) * u128::from(size) + u128::from(n) / 2) / u128::from(n)
    } else {
        let mut start = 0;
        let distinct = |len: u64| {
            let part = labels.get(start..start + len as usize).unwrap_or(&[]);
            start += len as usize;
            part.iter().filter(|&&l| l >= 0).collect::<HashSet<_>>().len()
        };
        chunks.to_list().into_iter().map(distinct).max().unwrap_or(1) as u128
    };
    AxisChunks::regular(groups, (per as u64).clamp(1, groups.max(1)))
}

fn raw(a: &Array, by: Groups<'_>, function: ReduceOp, dtype: DType, operation: &str) -> Result<Array, OpError> {
    let (mut shape, mut chunks, mut dims) = (a.shape().to_vec(), a.chunks().clone(), a.dims().to_vec());
    shape[by.axis] = by.count;
    chunks.0[by.axis] = group_chunks(&a.chunks().0[by.axis], by.labels, by.count);
    dims[by.axis] = by.dim.map(String::from);
    if let Some(parts) = function.parts() {
        shape.push(parts);
        chunks.0.push(AxisChunks::regular(parts, parts));
        dims.push(None);
    }
    let kernel = Kernel::Group { function, axis: by.axis, labels: by.labels.to_vec(), groups: by.count };
    Array::apply(kernel, &[a], ArrayType::new(dtype, shape), chunks, dims, operation)
}

/// The number of members of each group, NaN or not, with length 1 on the other axes.
fn members(a: &Array, by: Groups<'_>) -> Result<Array, OpError> {
    let mut counts = vec![0i128; by.count as usize];
    for &l in by.labels.iter().filter(|&&l| l >= 0) {
        counts[l as usize] += 1;
    }
    let mut out = constant(counts.into_iter().map(Scalar::Int).collect(), &[by.count], DType::Int64)?;
    for axis in (0..a.rank()).filter(|&i| i != by.axis) {
        out = expand_dims(&out, axis)?;
    }
    Ok(out)
}

/// The elements with NaN replaced.
fn filled(a: &Array, value: f64) -> Result<Array, OpError> {
    let nan = elementwise(ElementOp::Isnan, &[a.into()])?;
    elementwise(ElementOp::Where, &[(&nan).into(), Scalar::Float(value).into(), a.into()])
}

/// Refuses groups without members where nothing can stand for them.
fn every_group_has_a_member(a: &Array, by: Groups<'_>, operation: &str) -> Result<(), OpError> {
    let used: HashSet<i64> = by.labels.iter().copied().collect();
    match (0..by.count as i64).find(|g| !used.contains(g)) {
        None => Ok(()),
        Some(group) => Err(OpError::new(
            operation,
            format!(
                "group {group} has no members, and {} has no missing value to stand for its result; \
                 astype(x, \"float64\") gives NaN there, and labels without gaps leave the group out",
                a.dtype()
            ),
        )),
    }
}

fn variance(a: &Array, by: Groups<'_>, correction: f64, skip_nan: bool, operation: &str) -> Result<Array, OpError> {
    if a.dtype().kind() == DTypeKind::Complex {
        // NaN in one part makes the element NaN, so both parts must leave it out.
        let whole = |op| -> Result<Array, OpError> {
            let part = elementwise(op, &[a.into()])?;
            let nan = elementwise(ElementOp::Isnan, &[a.into()])?;
            let part = elementwise(ElementOp::Where, &[(&nan).into(), Scalar::Float(f64::NAN).into(), (&part).into()])?;
            variance(&part, by, correction, skip_nan, operation)
        };
        return elementwise(ElementOp::Add, &[(&whole(ElementOp::Real)?).into(), (&whole(ElementOp::Imag)?).into()]);
    }
    let input = if a.dtype().is_inexact() { a.clone() } else { astype(a, DType::Float64)? };
    let moments = raw(&input, by, ReduceOp::Moments { skip_nan }, DType::Float64, operation)?;
    let (n, m2) = (item(&moments, a.rank(), 0)?, item(&moments, a.rank(), 2)?);
    let free = elementwise(ElementOp::Subtract, &[(&n).into(), Scalar::Float(correction).into()])?;
    let enough = elementwise(ElementOp::Greater, &[(&free).into(), Scalar::Float(0.0).into()])?;
    let ratio = elementwise(ElementOp::Divide, &[(&m2).into(), (&free).into()])?;
    let out = elementwise(ElementOp::Where, &[(&enough).into(), (&ratio).into(), Scalar::Float(f64::NAN).into()])?;
    astype(&out, a.dtype().to_inexact())
}

/// The reduction of each group along an axis. With `skip_nan`, elements that are NaN are left out.
///
/// ```
/// use chunkwise_ops::{create, group::{GroupOp, Groups, groupby}};
/// use chunkwise_types::{DType, Scalar};
/// let x = create::full(&[4, 3], Scalar::Int(1), DType::Float32, None)?;
/// let by = Groups { axis: 0, labels: &[0, 1, 0, -1], count: 2, dim: Some("month") };
/// let mean = groupby(&x, by, GroupOp::Mean, true)?;
/// assert_eq!((mean.shape(), mean.dtype()), (&[2, 3][..], DType::Float32));
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// If there is not one label for each index, a label is not below the number of groups, the dtype has no such reduction, or a group
/// without members has no value in the dtype.
pub fn groupby(a: &Array, by: Groups<'_>, function: GroupOp, skip_nan: bool) -> Result<Array, OpError> {
    let out = grouped(a, by, function, skip_nan)?;
    // Along the axis as it is stored, and moved only then: xarray moves axes to the end, where elements of a group are far apart.
    let Some((base, order)) = a.permutation() else { return Ok(out) };
    let as_stored = grouped(base, Groups { axis: order[by.axis], ..by }, function, skip_nan)?;
    Ok(out.computed_as(&permute_dims(&as_stored, &order)?))
}

fn grouped(a: &Array, by: Groups<'_>, function: GroupOp, skip_nan: bool) -> Result<Array, OpError> {
    let name = function.name();
    let bad = |p: String| Err(OpError::new(name, p));
    let n = a.shape().get(by.axis).copied().unwrap_or(0);
    if by.axis >= a.rank() || n != by.labels.len() as u64 {
        return bad(format!("{} labels for an axis of length {n}", by.labels.len()));
    }
    if by.count > 1 << 24 {
        return bad(format!("{} groups are too many", by.count));
    }
    if let Some(l) = by.labels.iter().find(|&&l| l < -1 || l >= by.count as i64) {
        return bad(format!("the label {l} is neither a group below {} nor -1 for none", by.count));
    }
    if matches!(function, GroupOp::Min | GroupOp::Max) && !a.dtype().is_inexact() {
        every_group_has_a_member(a, by, name)?;
    }
    let inexact = a.dtype().is_inexact();
    let skip = skip_nan && inexact;
    let plain = |a: &Array, op: ReduceOp| {
        let dtype = op.result_dtype(a.dtype()).map_err(|e| OpError::new(name, e.to_string()))?;
        raw(a, by, op, dtype, name)
    };
    let there = || elementwise(ElementOp::LogicalNot, &[(&elementwise(ElementOp::Isnan, &[a.into()])?).into()]);
    match function {
        GroupOp::Sum if skip => plain(&filled(a, 0.0)?, ReduceOp::Sum),
        GroupOp::Prod if skip => plain(&filled(a, 1.0)?, ReduceOp::Prod),
        GroupOp::Sum => plain(a, ReduceOp::Sum),
        GroupOp::Prod => plain(a, ReduceOp::Prod),
        GroupOp::Any => plain(a, ReduceOp::Any),
        GroupOp::All => plain(a, ReduceOp::All),
        GroupOp::Mean => {
            let input = if inexact { a.clone() } else { astype(a, DType::Float64)? };
            plain(&input, ReduceOp::Mean { skip_nan: skip })
        }
        GroupOp::Var(correction) => variance(a, by, correction, skip, name),
        GroupOp::Std(correction) => elementwise(ElementOp::Sqrt, &[(&variance(a, by, correction, skip, name)?).into()]),
        GroupOp::Min | GroupOp::Max => {
            let (op, neutral) = if function == GroupOp::Min { (ReduceOp::Min, f64::INFINITY) } else { (ReduceOp::Max, f64::NEG_INFINITY) };
            if !skip || a.dtype().kind() == DTypeKind::Complex {
                return plain(a, op);
            }
            let none = elementwise(ElementOp::LogicalNot, &[(&plain(&there()?, ReduceOp::Any)?).into()])?;
            let out = plain(&filled(a, neutral)?, op)?;
            elementwise(ElementOp::Where, &[(&none).into(), Scalar::Float(f64::NAN).into(), (&out).into()])
        }
        GroupOp::Count if inexact => plain(&there()?, ReduceOp::CountNonzero),
        GroupOp::Count => {
            // Nothing to read: every element counts.
            let mut shape = a.shape().to_vec();
            shape[by.axis] = by.count;
            let mut dims = a.dims().to_vec();
            dims[by.axis] = by.dim.map(String::from);
            let out = broadcast_to(&members(a, by)?, &shape)?;
            let mut chunks = a.chunks().clone();
            chunks.0[by.axis] = AxisChunks::regular(by.count, by.count);
            Ok(out.rechunked(chunks).with_dims(dims))
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::Definition;
    use crate::create::full;

    /// The kernels from the result down to what is read.
    fn kernels(a: &Array) -> Vec<&'static str> {
        let own = match a.definition() {
            Definition::Apply(kernel) => kernel.name(),
            _ => "",
        };
        std::iter::once(own).chain(a.inputs().first().map(kernels).unwrap_or_default()).collect()
    }

    #[test]
    fn groups_are_made_along_the_axis_as_it_is_stored() {
        let x = full(&[4, 3, 2], Scalar::Float(1.0), DType::Float32, None).unwrap();
        let plain = Groups { axis: 0, labels: &[0, 1, 0, 1], count: 2, dim: None };
        let here = groupby(&x, plain, GroupOp::Mean, true).unwrap();
        // xarray moves the axis of the labels to the end, and that of the groups back.
        let moved = permute_dims(&x, &[1, 2, 0]).unwrap();
        let there = groupby(&moved, Groups { axis: 2, ..plain }, GroupOp::Mean, true).unwrap();
        assert_eq!(there.shape(), [3, 2, 2]);
        let back = permute_dims(&there, &[2, 0, 1]).unwrap();
        assert_eq!((back.shape(), kernels(&back)), (here.shape(), kernels(&here)));
        assert_eq!(kernels(&there)[1..], kernels(&here));
    }
}
