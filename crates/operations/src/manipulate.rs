//! Shapes and orders: permutations, new axes, joining, flipping, rolling, padding, reshaping.

use crate::elementwise::{astype, elementwise};
use crate::index::{gather, slice, zero};
use crate::{Array, Coord, OpError, literal};
use chunkwise_kernels::{ArrayType, AxisMap, ElementOp, Kernel, PadMode, ViewAxis};
use chunkwise_types::{AxisChunks, ChunkGrid, Scalar};

/// The axes in another order, some of them new, of length 1 and without a name. Axes that are left out have length 1.
pub(crate) fn view(a: &Array, axes: Vec<ViewAxis>, operation: &str) -> Result<Array, OpError> {
    let (mut shape, mut chunks, mut dims) = (Vec::new(), Vec::new(), Vec::new());
    for axis in &axes {
        match axis {
            ViewAxis::In(i) => {
                shape.push(a.shape()[*i]);
                chunks.push(a.chunks().0[*i].clone());
                dims.push(a.dims()[*i].clone());
            }
            ViewAxis::New => {
                shape.push(1);
                chunks.push(AxisChunks::regular(1, 1));
                dims.push(None);
            }
        }
    }
    Array::apply(Kernel::View { axes }, &[a], ArrayType::new(a.dtype(), shape), ChunkGrid(chunks), dims, operation)
}

/// The axes in another order. That of an array whose axes are in another order already is one permutation, or none.
///
/// ```
/// use chunkwise_ops::{create, manipulate::permute_dims};
/// use chunkwise_types::{DType, Scalar};
/// let x = create::full(&[2, 3, 4], Scalar::Int(1), DType::Int8, None)?;
/// let moved = permute_dims(&x, &[2, 0, 1])?;
/// assert_eq!(moved.shape(), [4, 2, 3]);
/// assert_eq!(permute_dims(&moved, &[1, 2, 0])?.definition(), x.definition());
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// When `axes` is no order of the axes.
pub fn permute_dims(a: &Array, axes: &[usize]) -> Result<Array, OpError> {
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    if sorted != (0..a.rank()).collect::<Vec<_>>() {
        return Err(OpError::new("permute_dims", format!("{axes:?} is not an order of {} axes", a.rank())));
    }
    let out = view(a, axes.iter().map(|&i| ViewAxis::In(i)).collect(), "permute_dims")?;
    // xarray moves axes to the end and back.
    let Some((base, order)) = a.permutation() else { return Ok(out) };
    let both: Vec<usize> = axes.iter().map(|&i| order[i]).collect();
    match both.iter().copied().eq(0..base.rank()) {
        true => Ok(out.computed_as(base)),
        false => Ok(out.computed_as(&permute_dims(base, &both)?)),
    }
}

/// A new axis of length 1 before `axis`.
pub fn expand_dims(a: &Array, axis: usize) -> Result<Array, OpError> {
    if axis > a.rank() {
        return Err(OpError::new("expand_dims", format!("axis {axis} is out of bounds for {} axes", a.rank() + 1)));
    }
    let mut axes: Vec<ViewAxis> = (0..a.rank()).map(ViewAxis::In).collect();
    axes.insert(axis, ViewAxis::New);
    view(a, axes, "expand_dims")
}

/// The arrays without the coordinates that a new dimension of this name makes into its index, and that index: what each array has of it, where all do.
fn new_index(arrays: &[Array], dim: &str) -> (Vec<Array>, Option<Coord>) {
    let one = |a: &Array| -> Option<Coord> {
        let c = a.coord(dim).filter(|c| c.dims.is_empty())?;
        Some(Coord { dims: vec![dim.into()], shape: vec![1], ..(**c).clone() })
    };
    let parts: Option<Vec<Coord>> = arrays.iter().map(one).collect();
    let index = parts.and_then(|p| Coord::concat(&p.iter().collect::<Vec<_>>(), dim));
    let without = |a: &Array| match a.coord(dim) {
        Some(_) => a.with_coords(a.coords().iter().filter(|c| c.name != dim).cloned().collect()),
        None => a.clone(),
    };
    (arrays.iter().map(without).collect(), index)
}

fn not_twice(arrays: &[Array], dim: &str, operation: &str) -> Result<(), OpError> {
    match arrays.iter().any(|a| a.axis_named(dim).is_some()) {
        true => Err(OpError::new(operation, format!("there is a dimension '{dim}' already; the new one needs another name"))),
        false => Ok(()),
    }
}

fn with_new(out: Array, axis: usize, dim: &str, index: Option<Coord>) -> Array {
    let mut dims = out.dims().to_vec();
    dims[axis] = Some(dim.into());
    let out = out.with_dims(dims);
    match index {
        Some(index) => out.with_coord(index),
        None => out,
    }
}

/// A new axis of length 1 before `axis`, with a name. A scalar coordinate of that name becomes its index, as in xarray.
///
/// # Errors
/// If the array has a dimension of that name, or not so many axes.
pub fn expand_dims_named(a: &Array, axis: usize, dim: &str) -> Result<Array, OpError> {
    let list = std::slice::from_ref(a);
    not_twice(list, dim, "expand_dims")?;
    let (plain, index) = new_index(list, dim);
    Ok(with_new(expand_dims(&plain[0], axis)?, axis, dim, index))
}

/// The arrays side by side along a new axis with a name. Scalar coordinates of that name become its index, as in xarray.
///
/// # Errors
/// If an array has a dimension of that name, or the shapes differ.
pub fn stack_named(arrays: &[Array], axis: usize, dim: &str) -> Result<Array, OpError> {
    not_twice(arrays, dim, "stack")?;
    let (plain, index) = new_index(arrays, dim);
    Ok(with_new(stack(&plain, axis)?, axis, dim, index))
}

/// An axis of length 1 removed.
pub fn squeeze(a: &Array, axis: usize) -> Result<Array, OpError> {
    if a.shape().get(axis) != Some(&1) {
        return Err(OpError::new("squeeze", format!("axis {axis} of shape {:?} does not have length 1", a.shape())));
    }
    view(a, (0..a.rank()).filter(|&i| i != axis).map(ViewAxis::In).collect(), "squeeze")
}

/// The arrays one after another along an axis.
pub fn concat(arrays: &[Array], axis: usize) -> Result<Array, OpError> {
    let bad = |p: &str| OpError::new("concat", p);
    let first = arrays.first().ok_or_else(|| bad("at least one array is needed"))?;
    let dtype = arrays.iter().try_fold(first.dtype(), |d, a| d.promote(a.dtype())).ok_or_else(|| bad("the dtypes do not promote"))?;
    let same = |a: &Array| a.rank() == first.rank() && (0..a.rank()).all(|i| i == axis || a.shape()[i] == first.shape()[i]);
    if axis >= first.rank() || !arrays.iter().all(same) {
        let shapes = arrays.iter().map(|a| format!("{:?}", a.shape())).collect::<Vec<_>>().join(" and ");
        return Err(bad(&format!("the arrays must have the same shape but for the axis along which they are joined, and have {shapes}")));
    }
    let parts = arrays.iter().map(|a| astype(a, dtype)).collect::<Result<Vec<_>, _>>()?;
    let mut shape = first.shape().to_vec();
    shape[axis] = arrays.iter().map(|a| a.shape()[axis]).sum();
    let mut chunks = first.chunks().clone();
    chunks.0[axis] = if arrays.iter().map(|a| a.chunks().0[axis].count()).sum::<u64>() > 4096 {
        AxisChunks::regular(shape[axis], chunks.0[axis].max())
    } else {
        AxisChunks::from_list(arrays.iter().flat_map(|a| a.chunks().0[axis].to_list()).collect())
    };
    Array::apply(
        Kernel::Concat { axis },
        &parts.iter().collect::<Vec<_>>(),
        ArrayType::new(dtype, shape),
        chunks,
        first.dims().to_vec(),
        "concat",
    )
}

/// The arrays side by side along a new axis.
pub fn stack(arrays: &[Array], axis: usize) -> Result<Array, OpError> {
    if arrays.windows(2).any(|w| w[0].shape() != w[1].shape()) {
        let shapes = arrays.iter().map(|a| format!("{:?}", a.shape())).collect::<Vec<_>>().join(" and ");
        return Err(OpError::new("stack", format!("the arrays must have the same shape, and have {shapes}")));
    }
    concat(&arrays.iter().map(|a| expand_dims(a, axis)).collect::<Result<Vec<_>, _>>()?, axis)
}

/// The order of the elements reversed along some axes.
pub fn flip(a: &Array, axes: &[usize]) -> Result<Array, OpError> {
    axes.iter().try_fold(a.clone(), |a, &axis| slice(&a, axis, None, None, Some(-1)))
}

/// The elements moved along an axis, those that leave one end coming in at the other.
pub fn roll(a: &Array, shift: i64, axis: usize) -> Result<Array, OpError> {
    let n = *a.shape().get(axis).ok_or_else(|| OpError::new("roll", format!("there is no axis {axis}")))? as i64;
    let shift = if n == 0 { 0 } else { shift.rem_euclid(n) as u64 };
    if shift == 0 {
        return Ok(a.clone());
    }
    let mut axes = vec![AxisMap::ALL; a.rank()];
    axes[axis] = AxisMap::Roll { shift };
    gather(a, axes, a.shape().to_vec(), a.chunks().clone(), zero(a), "roll")
}

/// The length of a whole chunk.
fn nominal(chunks: &AxisChunks) -> u64 {
    match chunks {
        AxisChunks::Regular { size, .. } => (*size).max(1),
        AxisChunks::Irregular(_) => chunks.max().max(1),
    }
}

/// Elements added before and after along every axis.
///
/// # Errors
/// If there is not a width for each axis, or the constant does not fit the dtype.
pub fn pad(a: &Array, widths: &[(u64, u64)], mode: PadMode, fill: Scalar) -> Result<Array, OpError> {
    if widths.len() != a.rank() {
        return Err(OpError::new("pad", format!("{} widths for {} axes", widths.len(), a.rank())));
    }
    let empty = widths.iter().zip(a.shape()).any(|(&(x, y), &n)| n == 0 && x + y > 0);
    if empty && mode != PadMode::Constant {
        return Err(OpError::new("pad", "an axis of length zero can only be padded with a constant"));
    }
    if mode == PadMode::Constant {
        literal::check(fill, a.dtype(), "pad", literal::convert)?;
    }
    let mut shape = a.shape().to_vec();
    let mut chunks = a.chunks().clone();
    let mut axes = Vec::new();
    for (i, &(before, after)) in widths.iter().enumerate() {
        if before == 0 && after == 0 {
            axes.push(AxisMap::ALL);
            continue;
        }
        shape[i] = shape[i]
            .checked_add(before)
            .and_then(|n| n.checked_add(after))
            .ok_or_else(|| OpError::new("pad", "the widths are too large"))?;
        let own = &a.chunks().0[i];
        // One chunk stays one, unless it would become a much larger one.
        let size = if own.count() <= 1 && shape[i] <= nominal(own).saturating_mul(2) { shape[i].max(nominal(own)) } else { nominal(own) };
        chunks.0[i] = AxisChunks::regular(shape[i], size);
        axes.push(AxisMap::Pad { before, mode });
    }
    gather(a, axes, shape, chunks, fill, "pad")
}

/// The whole array again and again along each axis. Missing `repetitions` are of the first axes, missing axes are new ones before.
pub fn tile(a: &Array, repetitions: &[u64]) -> Result<Array, OpError> {
    let new = repetitions.len().saturating_sub(a.rank());
    let a = (0..new).try_fold(a.clone(), |a, _| expand_dims(&a, 0))?;
    let mut times = vec![1; a.rank() - repetitions.len()];
    times.extend(repetitions);
    let (mut axes, mut shape, mut chunks) = (Vec::new(), Vec::new(), a.chunks().clone());
    for (i, &k) in times.iter().enumerate() {
        let n = a.shape()[i].checked_mul(k).ok_or_else(|| OpError::new("tile", "the repetitions are too many"))?;
        shape.push(n);
        // Going on at the beginning is what padding by wrapping does.
        axes.push(if k == 1 { AxisMap::ALL } else { AxisMap::Pad { before: 0, mode: PadMode::Wrap } });
        if k != 1 {
            chunks.0[i] = AxisChunks::regular(n, nominal(&a.chunks().0[i]));
        }
    }
    gather(&a, axes, shape, chunks, zero(&a), "tile")
}

/// Every element along an axis `times` times, one after the other.
pub fn repeat(a: &Array, times: u64, axis: usize) -> Result<Array, OpError> {
    let n = *a.shape().get(axis).ok_or_else(|| OpError::new("repeat", format!("there is no axis {axis}")))?;
    let len = n.checked_mul(times).ok_or_else(|| OpError::new("repeat", "the repetitions are too many"))?;
    if times == 1 {
        return Ok(a.clone());
    }
    let (mut axes, mut shape, mut chunks) = (vec![AxisMap::ALL; a.rank()], a.shape().to_vec(), a.chunks().clone());
    axes[axis] = AxisMap::Repeat { times: times.max(1) };
    shape[axis] = len;
    chunks.0[axis] = AxisChunks::regular(len, nominal(&a.chunks().0[axis]).saturating_mul(times));
    gather(a, axes, shape, chunks, zero(a), "repeat")
}

/// The element `i` along an axis `times[i]` times.
pub fn repeat_each(a: &Array, times: &[u64], axis: usize) -> Result<Array, OpError> {
    let n = *a.shape().get(axis).ok_or_else(|| OpError::new("repeat", format!("there is no axis {axis}")))?;
    if times.len() as u64 != n {
        return Err(OpError::new("repeat", format!("{} numbers of repetitions for an axis of length {n}", times.len())));
    }
    if times.iter().try_fold(0u64, |s, &t| s.checked_add(t)).is_none_or(|s| s > 1 << 24) {
        return Err(OpError::new("repeat", "the repetitions are too many"));
    }
    let list: Vec<i64> = (0..).zip(times).flat_map(|(i, &t)| std::iter::repeat_n(i, t as usize)).collect();
    crate::index::take(a, &list, axis)
}

/// The `n`-th difference of neighbours along an axis.
pub fn diff(a: &Array, n: u64, axis: usize) -> Result<Array, OpError> {
    let op = if a.dtype() == chunkwise_types::DType::Bool { ElementOp::NotEqual } else { ElementOp::Subtract };
    (0..n.min(1024)).try_fold(a.clone(), |a, _| {
        let (later, earlier) = (slice(&a, axis, Some(1), None, None)?, slice(&a, axis, None, Some(-1), None)?);
        // The label of a difference is that of the later element, as in xarray.
        Ok(elementwise(op, &[(&later).into(), (&earlier).into()])?.with_coords(later.coords().clone()))
    })
}

/// For each axis of a new shape, the axis of the old one that it is: of the same length, with as many elements before it and after.
fn kept_by_reshape(old: &[u64], new: &[u64]) -> Vec<Option<usize>> {
    if old.contains(&0) {
        return vec![None; new.len()];
    }
    // Several axes of length 1 may stand in one place: they are known by their order, if there are as many of them.
    let keys = |shape: &[u64]| -> Vec<(u64, u64)> { (0..shape.len()).map(|i| (chunkwise_types::volume(&shape[..i]), shape[i])).collect() };
    let (old, new) = (keys(old), keys(new));
    let all = |keys: &[(u64, u64)], key| keys.iter().enumerate().filter(|(_, k)| **k == key).map(|(i, _)| i).collect::<Vec<_>>();
    let one = |(j, key): (usize, &(u64, u64))| {
        let (there, here) = (all(&old, *key), all(&new, *key));
        let nth = here.iter().position(|&i| i == j)?;
        there.get(nth).copied().filter(|_| there.len() == here.len())
    };
    new.iter().enumerate().map(one).collect()
}

/// The same elements in C order under another shape. Dimensions that stay what they are keep their names and coordinates.
pub fn reshape(a: &Array, shape: &[i64]) -> Result<Array, OpError> {
    let bad = || OpError::new("reshape", format!("{:?} cannot be reshaped to {shape:?}", a.shape()));
    let total = chunkwise_types::volume(a.shape());
    let known: u64 = shape.iter().filter(|&&n| n >= 0).map(|&n| n as u64).product();
    if shape.iter().filter(|&&n| n < 0).count() > 1 {
        return Err(bad());
    }
    let shape: Vec<u64> = shape.iter().map(|&n| if n >= 0 { n as u64 } else { total.checked_div(known).unwrap_or(0) }).collect();
    if chunkwise_types::volume(&shape) != total {
        return Err(bad());
    }
    if shape == a.shape() {
        return Ok(a.clone());
    }
    let from = kept_by_reshape(a.shape(), &shape);
    let kept = |i: usize| from.contains(&Some(i));
    // Where axes of length 1 come and go, every chunk stays what it is.
    let ones =
        (0..a.rank()).filter(|&i| !kept(i)).all(|i| a.shape()[i] == 1) && (0..shape.len()).all(|j| from[j].is_some() || shape[j] == 1);
    if ones && total > 0 {
        return view(a, from.into_iter().map(|i| i.map_or(ViewAxis::New, ViewAxis::In)).collect(), "reshape");
    }
    // Cut the leading axes only, so that what a chunk demands is one run of the input.
    let mut chunk = shape.clone();
    let target = chunkwise_types::volume(&a.chunks().max_shape()).max(1);
    for axis in 0..chunk.len() {
        let v = chunkwise_types::volume(&chunk);
        if v <= target {
            break;
        }
        chunk[axis] = (target * chunk[axis] / v).max(1);
    }
    let chunks = ChunkGrid::regular(&shape, &chunk);
    let dims = from.into_iter().map(|i| i.and_then(|i| a.dims()[i].clone())).collect();
    Array::apply(Kernel::Reshape, &[a], ArrayType::new(a.dtype(), shape), chunks, dims, "reshape")
}
