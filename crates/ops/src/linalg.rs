//! Products summed over shared indices.

use crate::elementwise::unary;
use crate::support::{axis_number, bad, cast, drop_axes, kernel_error, merge_dims};
use crate::{Array, OpError, manipulate, reduce};
use chunkwise_kernels::{ArrayType, Contract, ElementOp, Kernel};
use chunkwise_types::ChunkGrid;

/// The contraction of labelled axes. A label of length 1 on one operand is broadcast to the other's.
fn contract(op: &str, a: &Array, la: Vec<u32>, b: &Array, lb: Vec<u32>, out: Vec<u32>) -> Result<Array, OpError> {
    let Some(dtype) = a.dtype().promote(b.dtype()) else { return bad(op, format!("{} and {} do not mix", a.dtype(), b.dtype())) };
    let length = |x: &Array, labels: &[u32], l: u32| labels.iter().position(|&k| k == l).map(|i| x.shape()[i]);
    let (mut drop_a, mut drop_b) = (Vec::new(), Vec::new());
    for (i, &l) in la.iter().enumerate() {
        let Some(n) = length(b, &lb, l) else { continue };
        let m = a.shape()[i];
        match (m == n, m, n) {
            (true, ..) => {}
            (_, 1, _) => drop_a.push(i),
            (_, _, 1) => drop_b.extend(lb.iter().position(|&k| k == l)),
            _ => return bad(op, format!("the shapes {:?} and {:?} do not fit: {m} elements meet {n}", a.shape(), b.shape())),
        }
    }
    drop_b.sort_unstable();
    let reduced = |x: &Array, labels: Vec<u32>, gone: &[usize]| -> Result<(Array, Vec<u32>), OpError> {
        let kept = (0..labels.len()).filter(|i| !gone.contains(i)).map(|i| labels[i]).collect();
        Ok((cast(&drop_axes(x, gone, op)?, dtype, op)?, kept))
    };
    let (a, la) = reduced(a, la, &drop_a)?;
    let (b, lb) = reduced(b, lb, &drop_b)?;
    let (mut grid, mut dims) = (Vec::new(), Vec::new());
    for &l in &out {
        let (i, j) = (la.iter().position(|&k| k == l), lb.iter().position(|&k| k == l));
        let Some(chunks) = i.map(|i| &a.chunks().0[i]).or_else(|| j.map(|j| &b.chunks().0[j])) else {
            return bad(op, "an output index is on no operand");
        };
        grid.push(chunks.clone());
        let none = None;
        dims.push(merge_dims(op, i.map_or(&none, |i| &a.dims()[i]), j.map_or(&none, |j| &b.dims()[j]))?);
    }
    // Two axes of one name (A Aᵀ) cannot both keep it.
    for i in 1..dims.len() {
        if dims[i].is_some() && dims[..i].contains(&dims[i]) {
            dims[i] = None;
        }
    }
    let kernel = Contract { a: la, b: lb, out };
    kernel.check(&[a.ty().clone(), b.ty().clone()]).map_err(kernel_error(op))?;
    let grid = ChunkGrid(grid);
    Array::apply(Kernel::Contract(kernel), &[&a, &b], ArrayType::new(dtype, grid.shape()), grid, dims, op)
}

/// `out[.., i, j] = Σ_k a[.., i, k] b[.., k, j]` with NumPy's rules for batches and one-dimensional operands.
///
/// ```
/// use chunkwise_ops::{create, linalg::matmul};
/// use chunkwise_types::Scalar;
/// let a = create::full(&[5, 4, 3], Scalar::Float(1.0), None, None)?;
/// let b = create::full(&[3], Scalar::Float(1.0), None, None)?;
/// assert_eq!(matmul(&a, &b)?.shape(), [5, 4]);
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
pub fn matmul(a: &Array, b: &Array) -> Result<Array, OpError> {
    let op = "matmul";
    if a.rank() == 0 || b.rank() == 0 {
        return bad(op, "needs at least one axis on both sides; use * for scalars");
    }
    let (ka, kb) = (a.shape()[a.rank() - 1], b.shape()[b.rank().saturating_sub(2)]);
    if ka != kb {
        return bad(op, format!("the shapes {:?} and {:?} do not fit: {ka} columns meet {kb} rows", a.shape(), b.shape()));
    }
    let (row, column, inner, first_batch) = (0u32, 1u32, 2u32, 3u32);
    // Batch labels count from the right.
    let batch = |rank: usize| (0..rank.saturating_sub(2) as u32).rev().map(|i| first_batch + i).collect::<Vec<u32>>();
    let (mut la, mut lb) = (batch(a.rank()), batch(b.rank()));
    let mut out = if la.len() >= lb.len() { la.clone() } else { lb.clone() };
    if a.rank() > 1 {
        la.push(row);
        out.push(row);
    }
    la.push(inner);
    lb.push(inner);
    if b.rank() > 1 {
        lb.push(column);
        out.push(column);
    }
    contract(op, a, la, b, lb, out)
}

/// The sum of products over pairs of axes (NumPy `tensordot`).
pub fn tensordot(a: &Array, b: &Array, axes_a: &[i64], axes_b: &[i64]) -> Result<Array, OpError> {
    let op = "tensordot";
    if axes_a.len() != axes_b.len() {
        return bad(op, "needs as many axes of the one as of the other");
    }
    let mut la: Vec<u32> = (0..a.rank() as u32).collect();
    let mut lb: Vec<u32> = (0..b.rank() as u32).map(|i| 100 + i).collect();
    crate::support::axis_list(op, Some(axes_a), a.rank())?;
    crate::support::axis_list(op, Some(axes_b), b.rank())?;
    for (k, (&i, &j)) in axes_a.iter().zip(axes_b).enumerate() {
        let (i, j) = (axis_number(op, i, a.rank())?, axis_number(op, j, b.rank())?);
        if a.shape()[i] != b.shape()[j] {
            return bad(op, format!("axis {i} of length {} meets axis {j} of length {}", a.shape()[i], b.shape()[j]));
        }
        (la[i], lb[j]) = (200 + k as u32, 200 + k as u32);
    }
    let out = la.iter().chain(&lb).copied().filter(|&l| l < 200).collect();
    contract(op, a, la, b, lb, out)
}

/// `Σ conj(a) b` along one axis, the others broadcast (Array API `vecdot`).
pub fn vecdot(a: &Array, b: &Array, axis: i64) -> Result<Array, OpError> {
    let op = "vecdot";
    let low = a.rank().min(b.rank()) as i64;
    if axis >= 0 || axis < -low {
        return bad(op, format!("the axis must count from the end, from -{low} to -1"));
    }
    let a = if a.dtype().complex() == Some(a.dtype()) { unary(ElementOp::Conj, a)? } else { a.clone() };
    let labels = |rank: usize| (1..=rank as u32).rev().collect::<Vec<u32>>();
    let (la, lb) = (labels(a.rank()), labels(b.rank()));
    let summed = axis.unsigned_abs() as u32;
    let (n, m) = (a.shape()[a.rank() - summed as usize], b.shape()[b.rank() - summed as usize]);
    if n != m {
        return bad(op, format!("{n} elements meet {m}"));
    }
    let longer = if la.len() >= lb.len() { la.clone() } else { lb.clone() };
    contract(op, &a, la, b, lb, longer.into_iter().filter(|&l| l != summed).collect())
}

/// `out[i, j] = a[i] b[j]` of two one-dimensional arrays (NumPy `outer`).
pub fn outer(a: &Array, b: &Array) -> Result<Array, OpError> {
    if a.rank() != 1 || b.rank() != 1 {
        return bad("outer", format!("needs two one-dimensional arrays, not {:?} and {:?}", a.shape(), b.shape()));
    }
    contract("outer", a, vec![0], b, vec![1], vec![0, 1])
}

/// Index notation for one or two arrays: `einsum("tij,tjk->tik", a, b)` (NumPy `einsum`).
///
/// Every index is a letter; repeated indices on one array and `...` are refused.
pub fn einsum(subscripts: &str, arrays: &[Array]) -> Result<Array, OpError> {
    let op = "einsum";
    let text: String = subscripts.chars().filter(|c| !c.is_whitespace()).collect();
    let (left, right) = match text.split_once("->") {
        Some((l, r)) => (l, Some(r)),
        None => (text.as_str(), None),
    };
    let letters = |s: &str| -> Result<Vec<u32>, OpError> {
        match s.chars().find(|c| !c.is_ascii_alphabetic()) {
            Some('.') => bad(op, "'...' is not supported; name every axis"),
            Some(c) => bad(op, format!("'{c}' is not an index; use letters, ',' and '->'")),
            None => Ok(s.chars().map(u32::from).collect()),
        }
    };
    let inputs = left.split(',').map(letters).collect::<Result<Vec<_>, _>>()?;
    if inputs.len() != arrays.len() {
        return bad(op, format!("'{subscripts}' names {} arrays, but {} are given", inputs.len(), arrays.len()));
    }
    for (labels, x) in inputs.iter().zip(arrays) {
        if labels.len() != x.rank() {
            return bad(op, format!("{} indices are given for an array of shape {:?}", labels.len(), x.shape()));
        }
        if labels.iter().enumerate().any(|(i, l)| labels[..i].contains(l)) {
            return bad(op, "an index that occurs twice on one array is not supported");
        }
    }
    let out = match right {
        Some(r) => letters(r)?,
        None => {
            let all: Vec<u32> = inputs.concat();
            let mut once: Vec<u32> = all.iter().copied().filter(|l| all.iter().filter(|k| *k == l).count() == 1).collect();
            once.sort_unstable();
            once
        }
    };
    if let Some(l) = out.iter().enumerate().find(|(i, l)| out[..*i].contains(l) || !inputs.iter().any(|s| s.contains(l))).map(|(_, l)| *l) {
        return bad(op, format!("the output index '{}' occurs twice or on no array", char::from_u32(l).unwrap_or('?')));
    }
    match (&inputs[..], arrays) {
        ([labels], [x]) => {
            let gone: Vec<i64> = (0..labels.len()).filter(|&i| !out.contains(&labels[i])).map(|i| i as i64).collect();
            let summed = if gone.is_empty() { x.clone() } else { cast(&reduce::sum(x, Some(&gone), false, None)?, x.dtype(), op)? };
            let kept: Vec<u32> = labels.iter().copied().filter(|l| out.contains(l)).collect();
            let order: Vec<i64> = out.iter().filter_map(|l| kept.iter().position(|k| k == l)).map(|i| i as i64).collect();
            if kept == out { Ok(summed) } else { manipulate::permute_dims(&summed, Some(&order)) }
        }
        ([la, lb], [a, b]) => contract(op, a, la.clone(), b, lb.clone(), out),
        _ => bad(op, "takes one or two arrays"),
    }
}
