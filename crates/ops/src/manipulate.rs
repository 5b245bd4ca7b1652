//! Axes and shapes: permuting, joining, flipping, rolling, padding, reshaping.

use crate::support::{axis_list, axis_number, bad, cast, drop_axes, gather, gather_one, insert_axes, joined, merge_dims, padded, sliced, view};
use crate::{Array, OpError};
use chunkwise_kernels::{ArrayType, AxisMap, ElementOp, Kernel, PadMode, ViewAxis};
use chunkwise_types::{AxisChunks, ChunkGrid, DType, Scalar, volume};

/// The axes in another order; reversed if none is given (Array API `permute_dims`).
///
/// ```
/// use chunkwise_ops::{create, manipulate::permute_dims};
/// use chunkwise_types::Scalar;
/// let x = create::full(&[2, 3, 4], Scalar::Int(0), None, None)?;
/// assert_eq!(permute_dims(&x, Some(&[2, 0, 1]))?.shape(), [4, 2, 3]);
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
pub fn permute_dims(x: &Array, axes: Option<&[i64]>) -> Result<Array, OpError> {
    let op = "permute_dims";
    let order: Vec<usize> = match axes {
        None => (0..x.rank()).rev().collect(),
        Some(list) => {
            axis_list(op, Some(list), x.rank())?;
            if list.len() != x.rank() {
                return bad(op, format!("{} axes are given for an array of {}", list.len(), x.rank()));
            }
            list.iter().map(|&a| axis_number(op, a, x.rank())).collect::<Result<_, _>>()?
        }
    };
    let shape = order.iter().map(|&i| x.shape()[i]).collect();
    let dims = order.iter().map(|&i| x.dims()[i].clone()).collect();
    view(x, order.into_iter().map(ViewAxis::In).collect(), shape, dims, op)
}

/// New axes of length 1 at these places of the result (NumPy `expand_dims`).
pub fn expand_dims(x: &Array, axes: &[i64]) -> Result<Array, OpError> {
    let places = axis_list("expand_dims", Some(axes), x.rank() + axes.len())?;
    insert_axes(x, &places, &[], "expand_dims")
}

/// Without these axes, which must have length 1; without all such axes for `None` (NumPy `squeeze`).
pub fn squeeze(x: &Array, axes: Option<&[i64]>) -> Result<Array, OpError> {
    let list = match axes {
        None => (0..x.rank()).filter(|&i| x.shape()[i] == 1).collect(),
        Some(_) => axis_list("squeeze", axes, x.rank())?,
    };
    if let Some(&a) = list.iter().find(|&&a| x.shape()[a] != 1) {
        return bad("squeeze", format!("axis {a} has length {}, not 1", x.shape()[a]));
    }
    drop_axes(x, &list, "squeeze")
}

/// The arrays one after another along an axis (Array API `concat`). Lengths of the other axes must agree.
pub fn concat(arrays: &[Array], axis: i64) -> Result<Array, OpError> {
    let op = "concat";
    let Some(first) = arrays.first() else { return bad(op, "needs at least one array") };
    let axis = axis_number(op, axis, first.rank())?;
    let (mut dims, mut dtype) = (first.dims().to_vec(), first.dtype());
    for (k, a) in arrays.iter().enumerate() {
        let fits = a.rank() == first.rank() && (0..a.rank()).all(|i| i == axis || a.shape()[i] == first.shape()[i]);
        if !fits {
            return bad(op, format!("array {k} has the shape {:?}, which does not continue {:?} along axis {axis}", a.shape(), first.shape()));
        }
        for (d, other) in dims.iter_mut().zip(a.dims()) {
            *d = merge_dims(op, d, other)?;
        }
        dtype = dtype.promote(a.dtype()).ok_or_else(|| OpError::new(op, format!("{dtype} and {} do not mix", a.dtype())))?;
    }
    let ready = arrays.iter().map(|a| cast(a, dtype, op)).collect::<Result<Vec<_>, _>>()?;
    if let [only] = &ready[..] {
        return Ok(only.clone());
    }
    let mut grid = first.chunks().clone();
    grid.0[axis] = joined(ready.iter().map(|a| &a.chunks().0[axis]));
    let inputs: Vec<&Array> = ready.iter().collect();
    Array::apply(Kernel::Concat { axis }, &inputs, ArrayType::new(dtype, grid.shape()), grid, dims, op)
}

/// The arrays one after another along a new axis (NumPy `stack`).
pub fn stack(arrays: &[Array], axis: i64) -> Result<Array, OpError> {
    let Some(first) = arrays.first() else { return bad("stack", "needs at least one array") };
    if let Some(a) = arrays.iter().find(|a| a.shape() != first.shape()) {
        return bad("stack", format!("the shapes {:?} and {:?} differ", first.shape(), a.shape()));
    }
    let place = axis_number("stack", axis, first.rank() + 1)?;
    let raised = arrays.iter().map(|a| insert_axes(a, &[place], &[], "stack")).collect::<Result<Vec<_>, _>>()?;
    concat(&raised, place as i64)
}

/// The axes in reverse, all of them for `None` (NumPy `flip`).
pub fn flip(x: &Array, axes: Option<&[i64]>) -> Result<Array, OpError> {
    let list = axis_list("flip", axes, x.rank())?;
    let (mut maps, mut grid) = (vec![AxisMap::ALL; x.rank()], x.chunks().clone());
    for &a in list.iter().filter(|&&a| x.shape()[a] > 1) {
        let n = x.shape()[a];
        maps[a] = AxisMap::Slice { start: n - 1, step: -1 };
        grid.0[a] = sliced(&x.chunks().0[a], n - 1, -1, n);
    }
    if maps.iter().all(|m| *m == AxisMap::ALL) { Ok(x.clone()) } else { gather(x, maps, Scalar::Int(0), grid, "flip") }
}

/// `out[(i + shift) mod n] = x[i]` along each axis; of the flattened array if no axes are given (NumPy `roll`).
pub fn roll(x: &Array, shifts: &[i64], axes: Option<&[i64]>) -> Result<Array, OpError> {
    let Some(axes) = axes else {
        let flat = reshape(x, &[-1])?;
        let total = shifts.iter().try_fold(0i64, |a, &b| a.checked_add(b)).ok_or_else(|| OpError::new("roll", "the shift is too large"))?;
        let shape: Vec<i64> = x.shape().iter().map(|&n| n as i64).collect();
        return reshape(&roll(&flat, &[total], Some(&[0]))?, &shape);
    };
    if shifts.len() != axes.len() && shifts.len() != 1 {
        return bad("roll", format!("{} shifts are given for {} axes", shifts.len(), axes.len()));
    }
    let mut moved = vec![0i128; x.rank()];
    for (k, &a) in axes.iter().enumerate() {
        let shift = shifts.get(k).or(shifts.first()).copied().unwrap_or(0);
        moved[axis_number("roll", a, x.rank())?] += i128::from(shift);
    }
    let map = |(i, &s): (usize, &i128)| {
        let n = i128::from(x.shape()[i]);
        if n == 0 || s.rem_euclid(n) == 0 { AxisMap::ALL } else { AxisMap::Roll { shift: s.rem_euclid(n) as u64 } }
    };
    let maps: Vec<AxisMap> = moved.iter().enumerate().map(map).collect();
    if maps.iter().all(|m| *m == AxisMap::ALL) {
        return Ok(x.clone());
    }
    gather(x, maps, Scalar::Int(0), x.chunks().clone(), "roll")
}

/// Elements added before and after each axis (NumPy `pad`); `value` is used by the constant mode.
pub fn pad(x: &Array, widths: &[(u64, u64)], mode: PadMode, value: Scalar) -> Result<Array, OpError> {
    let op = "pad";
    if widths.len() != x.rank() {
        return bad(op, format!("{} pairs of widths are given for {} axes", widths.len(), x.rank()));
    }
    let (mut maps, mut grid) = (Vec::new(), Vec::new());
    for (i, &(before, after)) in widths.iter().enumerate() {
        if before.max(after) > 1 << 40 {
            return bad(op, "the widths are too large");
        }
        if mode != PadMode::Constant && x.shape()[i] == 0 && before + after > 0 {
            return bad(op, format!("axis {i} is empty: there is nothing to continue; use mode=\"constant\""));
        }
        maps.push(if before + after == 0 { AxisMap::ALL } else { AxisMap::Pad { before, mode } });
        grid.push(padded(&x.chunks().0[i], before, after));
    }
    if maps.iter().all(|m| *m == AxisMap::ALL) {
        return Ok(x.clone());
    }
    gather(x, maps, value, ChunkGrid(grid), op)
}

/// `x[i + 1] - x[i]` along an axis, `n` times (NumPy `diff`); different or not for bool.
pub fn diff(x: &Array, n: u64, axis: i64) -> Result<Array, OpError> {
    if x.rank() == 0 {
        return bad("diff", "needs at least one axis");
    }
    let axis = axis_number("diff", axis, x.rank())?;
    if n > 1000 {
        return bad("diff", format!("differences of order {n} are too deep"));
    }
    let op = if x.dtype() == DType::Bool { ElementOp::NotEqual } else { ElementOp::Subtract };
    let mut out = x.clone();
    for _ in 0..n {
        let Some(len) = out.shape()[axis].checked_sub(1) else { break };
        let part = |start| {
            let chunks = sliced(&out.chunks().0[axis], start, 1, len);
            gather_one(&out, axis, AxisMap::Slice { start: if len == 0 { 0 } else { start }, step: 1 }, chunks, "diff")
        };
        out = crate::elementwise::binary(op, part(1)?, part(0)?)?;
    }
    Ok(out)
}

/// The same elements in C order under another shape; one length may be -1 (NumPy `reshape`).
pub fn reshape(x: &Array, shape: &[i64]) -> Result<Array, OpError> {
    let op = "reshape";
    let size = volume(x.shape());
    let known = shape.iter().filter(|&&n| n >= 0).try_fold(1u64, |a, &n| a.checked_mul(n as u64)).unwrap_or(u64::MAX);
    let open = shape.iter().filter(|&&n| n < 0).count();
    if open > 1 || shape.iter().any(|&n| n < -1) {
        return bad(op, "one length at most can be -1, and none less");
    }
    let wrong = || OpError::new(op, format!("an array of {size} elements does not fit the shape {shape:?}"));
    let rest = if open == 0 { 1 } else { size.checked_div(known).ok_or_else(wrong)? };
    let to: Vec<u64> = shape.iter().map(|&n| if n < 0 { rest } else { n as u64 }).collect();
    if to.iter().try_fold(1u64, |a, &n| a.checked_mul(n)) != Some(size) {
        return Err(wrong());
    }
    if to == x.shape() {
        return Ok(x.clone());
    }
    // Chunks of about the same number of elements, cut from the first axis on.
    let mut left = volume(&x.chunks().max_shape()).max(1);
    let mut chunk = vec![1; to.len()];
    for (c, &n) in chunk.iter_mut().zip(&to).rev() {
        *c = n.clamp(1, left);
        left = (left / *c).max(1);
    }
    let grid = ChunkGrid::regular(&to, &chunk);
    let dims = vec![None; to.len()];
    Array::apply(Kernel::Reshape, &[x], ArrayType::new(x.dtype(), to), grid, dims, op)
}

/// Each element `n` times in a row along an axis (NumPy `repeat`).
pub fn repeat(x: &Array, n: u64, axis: i64) -> Result<Array, OpError> {
    let axis = axis_number("repeat", axis, x.rank())?;
    let len = x.shape()[axis];
    let Some(out) = len.checked_mul(n).filter(|&m| m < 1 << 28) else { return bad("repeat", "the result is too long") };
    let chunks = AxisChunks::regular(out, x.chunks().0[axis].max().saturating_mul(n).max(1));
    gather_one(x, axis, AxisMap::Take((0..out).map(|i| i / n).collect()), chunks, "repeat")
}

/// The array `n` times after itself along each axis (NumPy `tile`).
pub fn tile(x: &Array, times: &[u64]) -> Result<Array, OpError> {
    let missing = times.len().saturating_sub(x.rank());
    let mut out = insert_axes(x, &(0..missing).collect::<Vec<_>>(), &[], "tile")?;
    let lead = out.rank() - times.len();
    for (k, &n) in times.iter().enumerate() {
        if n > 4096 {
            return bad("tile", format!("{n} copies are too many"));
        }
        out = match n {
            0 => crate::index::take(&out, &[], (lead + k) as i64)?,
            _ => concat(&vec![out; n as usize], (lead + k) as i64)?,
        };
    }
    Ok(out)
}
