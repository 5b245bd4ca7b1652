//! Reductions of elements with equal labels, and the selection that undoes them.

use crate::create::constant;
use crate::elementwise::{astype, elementwise};
use crate::manipulate::expand_dims;
use crate::{Array, OpError};
use chunkwise_kernels::{ArrayType, ElementOp, Kernel, ReduceOp};
use chunkwise_types::{AxisChunks, DType, DTypeKind, Scalar};

fn raw(a: &Array, axis: usize, labels: &[i64], groups: u64, function: ReduceOp, dtype: DType, dim: Option<&str>) -> Result<Array, OpError> {
    let n = a.shape().get(axis).copied().unwrap_or(0);
    if axis >= a.rank() || n != labels.len() as u64 {
        return Err(OpError::new("groupby", format!("{} labels for an axis of length {n}", labels.len())));
    }
    if labels.iter().any(|&l| l >= groups as i64) {
        return Err(OpError::new("groupby", format!("a label is not below the number of groups, {groups}")));
    }
    let (mut shape, mut chunks, mut dims) = (a.shape().to_vec(), a.chunks().clone(), a.dims().to_vec());
    shape[axis] = groups;
    chunks.0[axis] = AxisChunks::regular(groups, groups);
    dims[axis] = dim.map(String::from);
    let kernel = Kernel::Group { function, axis, labels: labels.to_vec(), groups };
    Array::apply(kernel, &[a], ArrayType::new(dtype, shape), chunks, dims, &format!("groupby_{}", function.name()))
}

/// The reduction of each group along an axis. `labels[i]` is the group of index `i`, -1 for none; `dim` names the new axis.
pub fn groupby(a: &Array, axis: usize, labels: &[i64], groups: u64, function: ReduceOp, dim: Option<&str>) -> Result<Array, OpError> {
    let dtype = function.result_dtype(a.dtype()).map_err(|e| OpError::new("groupby", e.to_string()))?;
    raw(a, axis, labels, groups, function, dtype, dim)
}

/// The mean of each group; NaN for a group without members.
pub fn groupby_mean(a: &Array, axis: usize, labels: &[i64], groups: u64, dim: Option<&str>) -> Result<Array, OpError> {
    let out = a.dtype().to_inexact();
    let wide = if out.kind() == DTypeKind::Complex { DType::Complex128 } else { DType::Float64 };
    let input = if a.dtype().is_inexact() { a.clone() } else { astype(a, DType::Float64)? };
    let sum = raw(&input, axis, labels, groups, ReduceOp::Sum, wide, dim)?;
    let mut counts = vec![0i128; groups as usize];
    for &l in labels.iter().filter(|&&l| l >= 0) {
        counts[l as usize] += 1;
    }
    let mut count = constant(counts.into_iter().map(Scalar::Int).collect(), &[groups], DType::Float64)?;
    for _ in axis + 1..a.rank() {
        count = expand_dims(&count, count.rank())?;
    }
    astype(&elementwise(ElementOp::Divide, &[(&sum).into(), (&count).into()])?, out)
}
