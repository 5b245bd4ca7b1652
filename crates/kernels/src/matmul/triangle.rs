//! One half of the product of a matrix with itself transposed.
//!
//! GEMM of blocks beside the diagonal would pack every row once for each block, and blocks on the diagonal compute twice what is needed.
//! Here all rows are packed once, in panels that GEMM reads as they lie since they are short and their lines are aligned, and the blocks on
//! the diagonal are no larger than a kernel's registers ask for. (Unaligned, products of `float64` took a fifth longer with AVX-512.)

use super::{DEPTH, Product};
use ndarray::{ArrayView2, ArrayViewMut2, s};
use std::ops::Range;

/// The longest side: the panels must stay in the caches.
pub(super) const SIDE: usize = 1024;
/// Rows of a panel: once or twice the registers of a kernel, the most of which GEMM does not pack the other operand again.
const PANEL: usize = 48;
/// Rows of a block on the diagonal, half of whose work is lost.
pub(super) const STEP: usize = 16;
/// Panels that are multiplied with another one while that is in the caches.
const GROUP: usize = 3;
/// Bytes of a line of the caches.
const LINE: usize = 64;

/// Cuts `n` into ranges of `size`; the last one is between a third and four thirds of it, as GEMM sums in another order where a side is 1.
fn ranges(n: usize, size: usize) -> impl Iterator<Item = Range<usize>> {
    let count = n.saturating_sub(size / 3) / size + 1;
    (0..count).map(move |i| i * size..if i + 1 == count { n } else { (i + 1) * size })
}

/// Elements of the panels of so many rows and summed elements.
pub(super) fn packed(rows: usize, summed: usize) -> usize {
    (rows + STEP) * DEPTH.min(summed) + LINE
}

/// `c += a aᵀ` on and below the diagonal of `c`. What is above it is left undefined.
pub(super) fn add<T: Product>(mut c: ArrayViewMut2<'_, T>, a: ArrayView2<'_, T>) {
    let (n, summed) = a.dim();
    // One block: there is nothing to share, and panels would be larger than the rows.
    if n <= STEP {
        return T::block(c, a, a.reversed_axes());
    }
    let rows: Vec<Range<usize>> = ranges(n, PANEL).collect();
    // Panels have lengths of whole lines, for elements of four bytes and more.
    let stride = |rows: &Range<usize>| rows.len().next_multiple_of(STEP);
    let mut memory = vec![T::default(); packed(n, summed)];
    // Whole elements up to a line's beginning, which an allocator may put out of reach: then the panels are only slower.
    let skipped = memory.as_ptr().align_offset(LINE).min(LINE);
    for k in (0..summed).step_by(DEPTH) {
        let part = a.slice(s![.., k..summed.min(k + DEPTH)]);
        let depth = part.ncols();
        let panel = |rows: &Range<usize>| skipped + rows.start * depth..skipped + rows.start * depth + stride(rows) * depth;
        for rows in &rows {
            if let Ok(to) = ArrayViewMut2::from_shape((depth, stride(rows)), &mut memory[panel(rows)]) {
                pack(to, part.slice(s![rows.clone(), ..]));
            }
        }
        let at = |rows: &Range<usize>| ArrayView2::from_shape((depth, stride(rows)), &memory[panel(rows)]);
        for first in (0..rows.len()).step_by(GROUP) {
            let group = first..rows.len().min(first + GROUP);
            for j in 0..group.end {
                for i in group.start.max(j)..group.end {
                    let (Ok(left), Ok(right)) = (at(&rows[i]), at(&rows[j])) else { continue };
                    let mut c = c.slice_mut(s![rows[i].clone(), rows[j].clone()]);
                    if i != j {
                        T::block(c, left.slice(s![.., ..rows[i].len()]).reversed_axes(), right.slice(s![.., ..rows[j].len()]));
                        continue;
                    }
                    for step in ranges(rows[i].len(), STEP) {
                        let (columns, c) = (..step.end, c.slice_mut(s![step.clone(), ..step.end]));
                        T::block(c, left.slice(s![.., step]).reversed_axes(), right.slice(s![.., columns]));
                    }
                }
            }
        }
    }
}

/// Copies rows to the columns of a panel, a few elements of all of them at a time: either side may run across the memory.
fn pack<T: Product>(mut to: ArrayViewMut2<'_, T>, rows: ArrayView2<'_, T>) {
    let (n, depth) = rows.dim();
    for k in (0..depth).step_by(STEP) {
        let range = k..depth.min(k + STEP);
        to.slice_mut(s![range.clone(), ..n]).assign(&rows.slice(s![.., range]).reversed_axes());
    }
}
