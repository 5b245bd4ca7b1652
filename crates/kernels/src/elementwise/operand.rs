//! Operands of fused programs: blocks seen through views, walked in one common order.

use super::strip::{Buffer, Element, LINE, Strip, append};
use crate::{Block, KernelError, ViewAxis, with_block};

/// The most elements of a strip.
pub(super) const MAX_STRIP: usize = 4096;

/// A block seen at another shape: its axes permuted, inserted, dropped and broadcast, without a copy.
///
/// ```
/// use chunkwise_kernels::{Block, Operand, ViewAxis};
/// use chunkwise_types::DType;
/// let row = Operand::new(Block::zeros(DType::Int8, &[3]));
/// assert!(row.viewed(&[ViewAxis::New, ViewAxis::In(0)], &[1000, 3]).is_ok());
/// ```
#[derive(Debug, Clone)]
pub struct Operand {
    block: Block,
    // Each axis has stride 0, or is an axis of the block with that axis' length and stride, which no other axis is. So every index
    // inside of the shape is an element of the block.
    shape: Vec<usize>,
    strides: Vec<isize>,
}

impl Operand {
    /// The block as it is.
    pub fn new(block: Block) -> Operand {
        let (shape, strides) = with_block!(&block, a => (a.shape().to_vec(), a.strides().to_vec()));
        Operand { block, shape, strides }
    }

    /// A block of one element, seen at any shape.
    pub fn splat(block: Block, shape: &[u64]) -> Result<Operand, KernelError> {
        let one = Operand::new(block);
        if one.shape.iter().any(|&n| n != 1) {
            return Err(KernelError::Invalid(format!("a block of shape {:?} is not one element", one.shape)));
        }
        let shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        Ok(Operand { block: one.block, strides: vec![0; shape.len()], shape })
    }

    /// The operand through a further view of this shape.
    ///
    /// # Errors
    /// If an axis is not one of the operand's with the same length or of length 1, or is taken twice.
    pub fn viewed(self, axes: &[ViewAxis], shape: &[u64]) -> Result<Operand, KernelError> {
        let bad = || KernelError::Invalid(format!("a block of shape {:?} cannot be viewed as {shape:?}", self.shape));
        if axes.len() != shape.len() {
            return Err(bad());
        }
        let mut used = vec![false; self.shape.len()];
        let mut strides = Vec::with_capacity(shape.len());
        for (axis, &n) in axes.iter().zip(shape) {
            strides.push(match *axis {
                ViewAxis::New => 0,
                ViewAxis::In(a) => match self.shape.get(a) {
                    Some(&len) if !used[a] && (len as u64 == n || len == 1) => {
                        used[a] = true;
                        if len == 1 { 0 } else { self.strides[a] }
                    }
                    _ => return Err(bad()),
                },
            });
        }
        if used.iter().zip(&self.shape).any(|(u, &n)| !u && n != 1) {
            return Err(bad());
        }
        Ok(Operand { shape: shape.iter().map(|&n| n as usize).collect(), strides, block: self.block })
    }

    /// The block under the views.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// True if this is the shape.
    pub(super) fn has_shape(&self, shape: &[u64]) -> bool {
        self.shape.len() == shape.len() && self.shape.iter().zip(shape).all(|(&a, &b)| a as u64 == b)
    }
}

/// Shorter inner axes are not walked row by row: what a strip costs by itself would show.
const SHORT_ROW: usize = 256;

/// Elements of a row that are copied before the next row's: few enough that their cache lines stay.
const TURNED: usize = 32;
/// The most bytes of a panel: a part of a second-level cache.
pub(super) const PANEL_BYTES: usize = 1 << 20;

/// The register of an operand that is not read in place.
#[derive(Default)]
pub(super) struct Gathered {
    pub register: Buffer,
    /// The register is full of the element at this offset.
    splat: Option<isize>,
    /// The register holds these rows.
    panel: Option<Panel>,
}

/// Some whole rows of the walk.
struct Panel {
    /// The offset in the block of the row of index 0.
    outer: isize,
    rows: std::ops::Range<usize>,
    /// Where in the register the strip begins.
    at: usize,
}

impl Gathered {
    /// Forgets what the register holds: another block has another element at the same offset.
    pub fn forget(&mut self) {
        (self.splat, self.panel) = (None, None);
    }

    /// The strip that was gathered last.
    pub fn strip(&self, n: usize) -> Strip<'_> {
        match &self.panel {
            Some(panel) => self.register.range(panel.at, n),
            None => self.register.tail(n),
        }
    }
}

/// How a strip of an operand is had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Access {
    /// One element for all, of which a register is full.
    Splat,
    /// In place.
    InPlace,
    /// Copied into a register.
    Gather,
    /// Copied into a register some rows at a time, as many as share their cache lines: the elements of a row are far from each other, but
    /// the next row has those beside them. Row by row, each line would be loaded again for every element in it.
    Panel,
}

/// The order in which the elements of some operands are walked.
pub(super) struct Walk {
    /// The axes of the output in the order of its memory.
    pub order: Vec<usize>,
    /// Merged axes, the slowest first.
    dims: Vec<usize>,
    /// The strides of every operand along them.
    strides: Vec<Vec<isize>>,
    access: Vec<Access>,
    /// Strips lie inside of one row.
    rows: bool,
    total: usize,
}

/// The axes sorted by stride, slowest first; `None` if the operand says nothing about the order, having one element along all of them.
fn memory_order(o: &Operand) -> Option<Vec<usize>> {
    let mut axes: Vec<usize> = (0..o.shape.len()).filter(|&i| o.shape[i] > 1).collect();
    if axes.iter().all(|&i| o.strides[i] == 0) {
        return None;
    }
    axes.sort_by_key(|&i| std::cmp::Reverse(o.strides[i].unsigned_abs()));
    Some(axes)
}

impl Walk {
    /// The walk over operands of one shape. The order is that of C, unless `any` is given and all operands that are not broadcast lie in
    /// another order.
    pub fn new(shape: &[u64], operands: &[Operand], any: bool) -> Walk {
        let shape: Vec<usize> = shape.iter().map(|&n| n as usize).collect();
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if any {
            let full = |o: &&Operand| !o.shape.iter().zip(&o.strides).any(|(&n, &s)| n > 1 && s == 0);
            let mut orders = operands.iter().filter(full).filter_map(memory_order);
            let first = orders.next();
            if let Some(mut axes) = first.filter(|first| orders.all(|o| o == *first)) {
                axes.splice(0..0, order.iter().copied().filter(|&i| shape[i] <= 1));
                order = axes;
            }
        }
        let (mut dims, mut strides): (Vec<usize>, Vec<Vec<isize>>) = (Vec::new(), vec![Vec::new(); operands.len()]);
        for &i in order.iter().filter(|&&i| shape[i] != 1) {
            let n = shape[i];
            // An axis joins the one before if every operand goes on where that one steps to.
            let joins = !dims.is_empty()
                && operands.iter().zip(&strides).all(|(o, s)| s.last().is_some_and(|&outer| outer == o.strides[i] * n as isize));
            if joins {
                dims.last_mut().into_iter().for_each(|d| *d *= n);
                operands.iter().zip(&mut strides).for_each(|(o, s)| s.last_mut().into_iter().for_each(|s| *s = o.strides[i]));
            } else {
                dims.push(n);
                operands.iter().zip(&mut strides).for_each(|(o, s)| s.push(o.strides[i]));
            }
        }
        let rows = dims.last().is_some_and(|&n| n >= SHORT_ROW) || dims.len() <= 1;
        let access = strides
            .iter()
            .zip(operands)
            .map(|(s, o)| {
                let dense = || s.iter().rev().zip(dims.iter().rev()).try_fold(1, |want, (&s, &n)| (s == want).then_some(want * n as isize));
                match s.last() {
                    _ if s.iter().all(|&s| s == 0) => Access::Splat,
                    Some(0) if rows => Access::Splat,
                    Some(1) if rows => Access::InPlace,
                    _ if dense().is_some() => Access::InPlace,
                    _ if rows
                        && panel_rows(o) > 1
                        && s.iter().rev().nth(1) == Some(&1)
                        && dims.last().is_some_and(|&n| n * LINE <= PANEL_BYTES) =>
                    {
                        Access::Panel
                    }
                    _ => Access::Gather,
                }
            })
            .collect();
        Walk { order, total: shape.iter().product(), dims, strides, access, rows }
    }

    /// The number of elements.
    pub fn total(&self) -> usize {
        self.total
    }

    /// The length of the strip at a position, of at most `most` elements.
    pub fn strip(&self, position: usize, most: usize) -> usize {
        let left = self.total - position;
        match self.dims.last() {
            Some(&row) if self.rows => {
                let pieces = row.div_ceil(most.max(1));
                let even = row.div_ceil(pieces).next_multiple_of(64).min(most.max(1));
                (row - position % row).min(even).min(left)
            }
            _ => most.min(left),
        }
    }

    /// True if the strips of an operand are read where they are.
    pub fn in_place(&self, operand: usize) -> bool {
        self.access[operand] == Access::InPlace
    }

    /// The index along the merged axes of a position.
    pub fn index(&self, mut position: usize, index: &mut Vec<usize>) {
        index.clear();
        index.resize(self.dims.len(), 0);
        for (slot, &n) in index.iter_mut().zip(&self.dims).rev() {
            *slot = position % n;
            position /= n;
        }
    }

    /// The elements of an operand that is read in place, from an index on.
    pub fn strip_of<'a>(&self, operand: usize, of: &'a Operand, index: &[usize], n: usize) -> Option<Strip<'a>> {
        fn go<T>(a: &ndarray::ArcArray<T, ndarray::IxDyn>, offset: isize, n: usize) -> &[T] {
            // SAFETY: the offset is that of an element of the block, by the invariant of `Operand`: the index lies inside of the shape.
            // The `n - 1` elements after it in the walk follow it in memory, because the operand is dense (`InPlace`). They are elements of
            // the block too, which lives as long as the slice. Views of strided arrays have no safe access to runs of their memory.
            unsafe { std::slice::from_raw_parts(a.as_ptr().offset(offset), n) }
        }
        if self.access[operand] != Access::InPlace {
            return None;
        }
        let offset = offset(index, &self.strides[operand]);
        Some(with_block!(&of.block, a => Element::strip(go(a, offset, n))))
    }

    /// Copies `n` elements of an operand from an index on into a register; of one element for all, as many as fit, once.
    pub fn gather(
        &self,
        operand: usize,
        of: &Operand,
        index: &[usize],
        n: usize,
        scratch: &mut Vec<usize>,
        to: &mut Gathered,
    ) -> Option<()> {
        fn one<T: Element>(a: &ndarray::ArcArray<T, ndarray::IxDyn>, offset: isize, most: usize, out: &mut Buffer) -> Option<()> {
            let out = T::vec(out)?;
            // SAFETY: the offset is that of an index inside of the shape, so by the invariant of `Operand` that of an element of the block.
            let x = unsafe { *a.as_ptr().offset(offset) };
            out.resize(out.capacity().min(out.len() + most), x);
            Some(())
        }
        fn go<T: Element>(
            a: &ndarray::ArcArray<T, ndarray::IxDyn>,
            (dims, strides): (&[usize], &[isize]),
            index: &mut [usize],
            n: usize,
            out: &mut Buffer,
        ) -> Option<()> {
            let (&row, &step) = (dims.last()?, strides.last()?);
            let last = dims.len() - 1;
            append(out, n, |mut out: &mut [std::mem::MaybeUninit<T>]| {
                while !out.is_empty() {
                    let run = (row - index[last]).min(out.len());
                    let (now, rest) = std::mem::take(&mut out).split_at_mut(run);
                    // SAFETY: the index lies inside of the shape, and `run` more steps along the last axis stay inside, so by the invariant
                    // of `Operand` every element read is one of the block.
                    unsafe {
                        let from = a.as_ptr().offset(offset(index, strides));
                        match step {
                            1 => {
                                let run = std::slice::from_raw_parts(from.cast::<std::mem::MaybeUninit<T>>(), run);
                                now.copy_from_slice(run);
                            }
                            _ => now.iter_mut().enumerate().for_each(|(i, o)| {
                                o.write(*from.offset(i as isize * step));
                            }),
                        }
                    }
                    out = rest;
                    index[last] += run;
                    for i in (1..=last).rev() {
                        if index[i] < dims[i] {
                            break;
                        }
                        index[i] = 0;
                        index[i - 1] += 1;
                    }
                }
            })
        }
        /// Copies rows of which the elements at one index are neighbours.
        fn turn<T: Element>(
            a: &ndarray::ArcArray<T, ndarray::IxDyn>,
            (from, step): (isize, isize),
            (rows, row): (usize, usize),
            out: &mut Buffer,
        ) -> Option<()> {
            append(out, rows * row, |out: &mut [std::mem::MaybeUninit<T>]| {
                for first in (0..row).step_by(TURNED) {
                    for (r, out) in out.chunks_exact_mut(row).enumerate() {
                        for (i, o) in (first..row).zip(&mut out[first..row.min(first + TURNED)]) {
                            // SAFETY: row `r` of the panel and column `i` are inside of the shape, so by the invariant of `Operand` this is
                            // an element of the block.
                            o.write(unsafe { *a.as_ptr().offset(from + r as isize + i as isize * step) });
                        }
                    }
                }
            })
        }
        if self.access[operand] == Access::Panel {
            let (strides, &[.., many, row], [.., r, column]) = (&self.strides[operand], &self.dims[..], index) else { return None };
            let outer = offset(index, strides) - *r as isize - *column as isize * strides.last()?;
            let known = to.panel.as_ref().filter(|p| p.outer == outer && p.rows.contains(r)).map(|p| p.rows.clone());
            let rows = match known {
                Some(rows) => rows,
                None => {
                    let rows = *r..many.min(r + panel_rows(of));
                    to.register.fit(of.block.dtype(), panel_rows(of) * row)?;
                    let from = (outer + *r as isize, *strides.last()?);
                    with_block!(&of.block, a => turn(a, from, (rows.len(), row), &mut to.register))?;
                    rows
                }
            };
            let at = to.register.len() - rows.len() * row + (r - rows.start) * row + column;
            to.panel = Some(Panel { outer, rows, at });
            return Some(());
        }
        if self.access[operand] == Access::Splat {
            let offset = offset(index, &self.strides[operand]);
            if to.splat == Some(offset) {
                return Some(());
            }
            to.register.clear();
            to.splat = Some(offset);
            let most = self.dims.last().copied().filter(|_| self.rows).unwrap_or(usize::MAX).clamp(n, MAX_STRIP);
            return with_block!(&of.block, a => one(a, offset, most, &mut to.register));
        }
        to.register.clear();
        scratch.clear();
        scratch.extend_from_slice(index);
        let shape = (self.dims.as_slice(), self.strides[operand].as_slice());
        with_block!(&of.block, a => go(a, shape, scratch, n, &mut to.register))
    }
}

/// The rows of a panel.
fn panel_rows(o: &Operand) -> usize {
    LINE / o.block.dtype().size() as usize
}

fn offset(index: &[usize], strides: &[isize]) -> isize {
    index.iter().zip(strides).map(|(&i, &s)| i as isize * s).sum()
}
