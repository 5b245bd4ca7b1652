//! Slicing, integer indices and `take`.

use crate::manipulate::squeeze;
use crate::{Array, OpError};
use chunkwise_kernels::{ArrayType, AxisMap, Kernel};
use chunkwise_types::{AxisChunks, ChunkGrid, Scalar};

/// One entry of an index expression.
#[derive(Debug, Clone, PartialEq)]
pub enum Index {
    /// One element; the axis goes away. Negative counts from the end.
    At(i64),
    /// `start:stop:step` as in Python.
    Slice(Option<i64>, Option<i64>, Option<i64>),
    /// A list of elements.
    Take(Vec<i64>),
    /// A new axis of length 1.
    NewAxis,
    /// As many whole axes as are missing.
    Ellipsis,
}

/// Applies one map an axis, giving axes of these lengths.
pub(crate) fn gather(
    a: &Array,
    axes: Vec<AxisMap>,
    shape: Vec<u64>,
    chunks: ChunkGrid,
    fill: Scalar,
    operation: &str,
) -> Result<Array, OpError> {
    if axes.iter().all(|m| *m == AxisMap::ALL) && shape == a.shape() {
        return Ok(a.clone());
    }
    Array::apply(Kernel::Gather { axes, fill }, &[a], ArrayType::new(a.dtype(), shape), chunks, a.dims().to_vec(), operation)
}

pub(crate) fn zero(a: &Array) -> Scalar {
    match a.dtype().kind() {
        chunkwise_types::DTypeKind::Bool => Scalar::Bool(false),
        chunkwise_types::DTypeKind::Float => Scalar::Float(0.0),
        chunkwise_types::DTypeKind::Complex => Scalar::Complex(0.0, 0.0),
        _ => Scalar::Int(0),
    }
}

/// One element of an axis; the axis goes away.
pub fn item(a: &Array, axis: usize, index: i64) -> Result<Array, OpError> {
    let n = a.shape()[axis] as i64;
    if index < -n || index >= n {
        return Err(OpError::new("index", format!("index {index} is out of bounds for axis {axis} with length {n}")));
    }
    let start = index.rem_euclid(n) as u64;
    squeeze(&sliced(a, axis, AxisMap::Slice { start, step: 1 }, 1, AxisChunks::regular(1, 1))?, axis)
}

fn sliced(a: &Array, axis: usize, map: AxisMap, len: u64, cut: AxisChunks) -> Result<Array, OpError> {
    let mut axes = vec![AxisMap::ALL; a.rank()];
    axes[axis] = map;
    let (mut shape, mut chunks) = (a.shape().to_vec(), a.chunks().clone());
    shape[axis] = len;
    chunks.0[axis] = cut;
    gather(a, axes, shape, chunks, zero(a), "index")
}

/// Chunks of a slice: as many elements a chunk as the input's chunks hold.
///
/// A slice that holds no whole chunk keeps the length of one, so that it finds its grid again when it is padded.
fn slice_chunks(input: &AxisChunks, start: u64, step: i64, len: u64) -> AxisChunks {
    match input {
        _ if len == 0 => AxisChunks::regular(0, 1),
        AxisChunks::Regular { size, .. } if step.unsigned_abs() > 1 || (step == 1 && start.is_multiple_of(*size)) => {
            AxisChunks::regular(len, size.div_ceil(step.unsigned_abs()))
        }
        _ if input.count() > 4096 => AxisChunks::regular(len, input.max().min(len)),
        _ => {
            let (mut list, mut i) = (Vec::new(), 0);
            while i < len {
                let at = (start as i64 + step * i as i64) as u64;
                let (s, l) = input.bounds(input.find(at));
                let room = if step > 0 { (s + l - at).div_ceil(step as u64) } else { (at - s) / step.unsigned_abs() + 1 };
                list.push(room.min(len - i));
                i += room;
            }
            match input {
                AxisChunks::Regular { size, .. } if list.iter().all(|n| n < size) => AxisChunks::regular(len, *size),
                _ => AxisChunks::from_list(list),
            }
        }
    }
}

/// `start:stop:step` along an axis, with Python's rules.
pub fn slice(a: &Array, axis: usize, start: Option<i64>, stop: Option<i64>, step: Option<i64>) -> Result<Array, OpError> {
    let (n, step) = (a.shape()[axis] as i64, step.unwrap_or(1));
    if step == 0 {
        return Err(OpError::new("index", "a slice's step must not be zero"));
    }
    let (low, high) = if step > 0 { (0, n) } else { (-1, n - 1) };
    let clamp = |v: i64| (if v < 0 { v.saturating_add(n) } else { v }).clamp(low, high);
    let first = start.map_or(if step > 0 { low } else { high }, clamp);
    let last = stop.map_or(if step > 0 { high } else { low }, clamp);
    let len = if step > 0 { (last - first).max(0) as u64 } else { (first - last).max(0) as u64 }.div_ceil(step.unsigned_abs());
    let start = if len == 0 { 0 } else { first as u64 };
    sliced(a, axis, AxisMap::Slice { start, step }, len, slice_chunks(&a.chunks().0[axis], start, step, len))
}

/// The elements at `indices` along an axis, in that order.
pub fn take(a: &Array, indices: &[i64], axis: usize) -> Result<Array, OpError> {
    let n = *a.shape().get(axis).ok_or_else(|| OpError::new("take", format!("there is no axis {axis}")))? as i64;
    let list = indices
        .iter()
        .map(|&i| {
            if i >= -n && i < n {
                Ok(i.rem_euclid(n) as u64)
            } else {
                Err(OpError::new("take", format!("index {i} is out of bounds for length {n}")))
            }
        })
        .collect::<Result<Vec<u64>, _>>()?;
    let len = list.len() as u64;
    let size = a.chunks().0[axis].max().clamp(1, len.max(1));
    sliced(a, axis, AxisMap::Take(list), len, AxisChunks::regular(len, size))
}

/// Refuses an index by position that NumPy reads in another way than a table's rows and columns would be.
///
/// It pairs several lists up and takes single points, and where a slice keeps a list apart from a number it moves the axis of the list to
/// the front. By dimension name neither happens to anyone, so such an index needs no check.
///
/// ```
/// use chunkwise_ops::index::{Index, unambiguous};
/// assert!(unambiguous(&[Index::At(0), Index::Take(vec![1, 2])]).is_ok());
/// assert!(unambiguous(&[Index::Take(vec![0, 1]), Index::Take(vec![2, 3])]).is_err());
/// assert!(unambiguous(&[Index::At(0), Index::Ellipsis, Index::Take(vec![1, 2])]).is_err());
/// ```
///
/// # Errors
/// If there are several lists, or a list comes after a slice and a number is not beside it.
pub fn unambiguous(items: &[Index]) -> Result<(), OpError> {
    let list = |i: &Index| matches!(i, Index::Take(_));
    let keeps = |i: &Index| !list(i) && !matches!(i, Index::At(_));
    let Some(first) = items.iter().position(list) else { return Ok(()) };
    let refuse = |problem: &str| Err(OpError::new("index", problem));
    if items.iter().filter(|i| list(i)).count() > 1 {
        return refuse(
            "an index takes one list, because several can be read in two ways; for every combination index one axis at a time, such as \
             x[[0, 1]][:, [2, 3]] (NumPy would pair the lists up and take single points)",
        );
    }
    // From the first to the last of the list and the numbers.
    let ends = (items.iter().position(|i| !keeps(i)), items.iter().rposition(|i| !keeps(i)));
    let apart = if let (Some(from), Some(to)) = ends { items[from..=to].iter().any(keeps) } else { false };
    if apart && items[..first].iter().any(keeps) {
        return refuse(
            "a list and a number with a slice between them can be read in two ways; index one axis at a time, such as x[0][:, [1, 2]] \
             (NumPy would move the axis of the list to the front)",
        );
    }
    Ok(())
}

/// NumPy's basic indexing, and one-dimensional lists of integers, each along its own axis.
///
/// # Errors
/// If there are too many indices, or one is out of bounds.
pub fn index(a: &Array, items: &[Index]) -> Result<Array, OpError> {
    let used = items.iter().filter(|i| !matches!(i, Index::NewAxis | Index::Ellipsis)).count();
    if used > a.rank() {
        return Err(OpError::new("index", format!("{used} indices for {} axes", a.rank())));
    }
    if items.iter().filter(|i| **i == Index::Ellipsis).count() > 1 {
        return Err(OpError::new("index", "an index may have only one '...'"));
    }
    let (mut out, mut axis) = (a.clone(), 0);
    for entry in items {
        match entry {
            Index::At(i) => out = item(&out, axis, *i)?,
            Index::Slice(x, y, z) => {
                out = slice(&out, axis, *x, *y, *z)?;
                axis += 1;
            }
            Index::Take(list) => {
                out = take(&out, list, axis)?;
                axis += 1;
            }
            Index::NewAxis => {
                out = crate::manipulate::expand_dims(&out, axis)?;
                axis += 1;
            }
            Index::Ellipsis => axis += a.rank() - used,
        }
    }
    Ok(out)
}
