//! Products summed over shared indices.

use crate::align::agree;
use crate::elementwise::{astype, elementwise};
use crate::manipulate::{expand_dims, squeeze};
use crate::{Array, Labels, OpError};
use chunkwise_kernels::{ArrayType, Contract, ElementOp, Kernel};
use chunkwise_types::ChunkGrid;

/// Einsum of two arrays in numbered indices: those of `a` and `b` that are not in `out` are summed over.
pub fn contract(a: &Array, b: &Array, ia: &[u32], ib: &[u32], out: &[u32], operation: &str) -> Result<Array, OpError> {
    let bad = |p: String| OpError::new(operation, p);
    let dtype = a.dtype().promote(b.dtype()).ok_or_else(|| bad("the dtypes do not promote".into()))?;
    let find = |l: u32| -> Option<(&Array, usize)> {
        ia.iter().position(|&x| x == l).map(|i| (a, i)).or_else(|| ib.iter().position(|&x| x == l).map(|i| (b, i)))
    };
    for (i, l) in ia.iter().enumerate() {
        if let Some(j) = ib.iter().position(|x| x == l)
            && a.shape()[i] != b.shape()[j]
        {
            return Err(bad(format!(
                "axis {i} of the first array has length {}, but axis {j} of the second has {}",
                a.shape()[i],
                b.shape()[j]
            )));
        }
    }
    for (i, l) in ia.iter().enumerate() {
        let Some(j) = ib.iter().position(|x| x == l) else { continue };
        let index = |x: &Array, k: usize| x.dims()[k].as_deref().and_then(|d| x.index_of(d)).filter(|c| c.labels != Labels::Lost).cloned();
        if let (Some(x), Some(y)) = (index(a, i), index(b, j))
            && x.name == y.name
        {
            agree(operation, &x, &y)?;
        }
    }
    let (mut shape, mut chunks, mut dims) = (Vec::new(), Vec::new(), Vec::new());
    for &l in out {
        let (x, i) = find(l).ok_or_else(|| bad("an index of the output is in neither input".into()))?;
        shape.push(x.shape()[i]);
        chunks.push(x.chunks().0[i].clone());
        // Of an axis that both have, one may have the name only.
        let other = ib.iter().position(|&m| m == l).and_then(|j| b.dims()[j].clone());
        dims.push(x.dims()[i].clone().or(other));
    }
    let names: Vec<_> = dims.clone();
    for (i, d) in dims.iter_mut().enumerate() {
        // AᵀA has the same name twice: xarray wants names to differ.
        if d.is_some() && names[..i].contains(d) {
            *d = None;
        }
    }
    let kernel = Kernel::Contract(Contract { a: ia.to_vec(), b: ib.to_vec(), out: out.to_vec(), segments: None });
    let (a, b) = (astype(a, dtype)?, astype(b, dtype)?);
    Array::apply(kernel, &[&a, &b], ArrayType::new(dtype, shape), ChunkGrid(chunks), dims, operation)
}

/// The matrix product of the last two axes, the others broadcast; one-dimensional arrays count as a row or a column.
pub fn matmul(a: &Array, b: &Array) -> Result<Array, OpError> {
    if a.rank() == 0 || b.rank() == 0 {
        return Err(OpError::new("matmul", "a scalar has no matrix product; use *"));
    }
    let (row, column) = (a.rank() == 1, b.rank() == 1);
    let a = if row { expand_dims(a, 0)? } else { a.clone() };
    let b = if column { expand_dims(b, 1)? } else { b.clone() };
    let batch = crate::elementwise::broadcast_shape("matmul", &[&a.shape()[..a.rank() - 2], &b.shape()[..b.rank() - 2]])?;
    let widen = |x: &Array| {
        let shape: Vec<u64> = batch.iter().chain(&x.shape()[x.rank() - 2..]).copied().collect();
        crate::elementwise::broadcast_to(x, &shape)
    };
    let (a, b, n) = (widen(&a)?, widen(&b)?, batch.len() as u32);
    let with = |x: u32, y: u32| (0..n).chain([x, y]).collect::<Vec<u32>>();
    let out = contract(&a, &b, &with(n, n + 1), &with(n + 1, n + 2), &with(n, n + 2), "matmul")?;
    let out = if column { squeeze(&out, out.rank() - 1)? } else { out };
    if row { squeeze(&out, out.rank() - if column { 1 } else { 2 }) } else { Ok(out) }
}

/// Products summed over the given axes of both arrays.
pub fn tensordot(a: &Array, b: &Array, axes_a: &[usize], axes_b: &[usize]) -> Result<Array, OpError> {
    if axes_a.len() != axes_b.len() || axes_a.iter().any(|&x| x >= a.rank()) || axes_b.iter().any(|&x| x >= b.rank()) {
        return Err(OpError::new("tensordot", "the axes to sum over must be pairs of axes of the two arrays"));
    }
    let ia: Vec<u32> = (0..a.rank() as u32).collect();
    let ib: Vec<u32> =
        (0..b.rank()).map(|j| axes_b.iter().position(|&x| x == j).map_or((a.rank() + j) as u32, |k| axes_a[k] as u32)).collect();
    let out: Vec<u32> =
        ia.iter().filter(|&&l| !axes_a.contains(&(l as usize))).chain(ib.iter().filter(|&&l| l >= a.rank() as u32)).copied().collect();
    contract(a, b, &ia, &ib, &out, "tensordot")
}

/// The product of every element of one vector with every element of the other.
pub fn outer(a: &Array, b: &Array) -> Result<Array, OpError> {
    if a.rank() != 1 || b.rank() != 1 {
        return Err(OpError::new("outer", "both arrays must have one axis"));
    }
    // As in AᵀA, names differ.
    let b = if a.dims() == b.dims() { b.with_dims(vec![None]) } else { b.clone() };
    elementwise(ElementOp::Multiply, &[(&expand_dims(a, 1)?).into(), (&expand_dims(&b, 0)?).into()])
}

/// The sum of products along one axis; the first array is conjugated if it is complex.
pub fn vecdot(a: &Array, b: &Array, axis: usize) -> Result<Array, OpError> {
    let a = if a.dtype().kind() == chunkwise_types::DTypeKind::Complex { elementwise(ElementOp::Conj, &[a.into()])? } else { a.clone() };
    let product = elementwise(ElementOp::Multiply, &[(&a).into(), b.into()])?;
    if axis >= product.rank() {
        return Err(OpError::new("vecdot", format!("there is no axis {axis}")));
    }
    let total = crate::reduce::reduce(&product, chunkwise_kernels::ReduceOp::Sum, Some(&[axis]), false)?;
    astype(&total, product.dtype())
}
