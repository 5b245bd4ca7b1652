//! Reductions over axes: foldable in any order of steps and tiles.
//!
//! Internally every reduction keeps its reduced axes: an accumulator has the rank of the input, with one element along a
//! reduced axis for each segment (one, the whole axis, if there are no segments). A part is cut at the segment bounds, placed
//! by its coordinates and walked in the order of memory ([`walk`]); what is accumulated is a [`Reducer`].

mod check;
mod elements;
mod lanes;
mod moments;
mod op;
mod products;
mod reducers;
mod sink;
#[cfg(test)]
pub(crate) mod tests;
mod walk;
mod wide;

use crate::block::{from_vec, slice_of};
use crate::kind::{Along, Evaluation, Foldable, KernelKind, Rounds, Traits, Types, Work};
use crate::{ArrayType, Block, BlockElement, Demand, DemandList, Fold, Kernel, KernelError, Part, ViewAxis, Window};
use chunkwise_types::{AxisChunks, DType, PerAxis, Region, unravel, volume};
use ndarray::ArrayViewD;
use smallvec::smallvec;
use std::ops::Range;

pub(crate) use check::{check, check_group};
pub(crate) use elements::{Average, Element, Ordered, SumState};
use moments::Moment;
pub(crate) use moments::{Mean, Moments};
pub use op::ReduceOp;
pub(crate) use op::{with_inexact, with_real, with_reducer};
use reducers::Arg;
pub(crate) use reducers::{Count, Extreme, Prod, Reducer, Sum, Truth};
pub(crate) use sink::{Accumulators, Sink};
pub(crate) use walk::{Target, walk};
pub(crate) use wide::Wide;

/// The ranges of the reduced axes that a region of the output needs.
pub(crate) fn window(inputs: &[ArrayType], axes: &[usize], segments: Option<&[AxisChunks]>, region: &Region) -> Window {
    let Some(segments) = segments else {
        return axes.iter().map(|&a| (0, inputs[0].shape[a])).collect();
    };
    let hull = |(&a, s): (&usize, &AxisChunks)| {
        let (first, count) = (region.start[a], region.shape[a].min(s.count().saturating_sub(region.start[a])));
        if count == 0 {
            return (0, 0);
        }
        let ((start, _), (last, len)) = (s.bounds(first), s.bounds(first + count - 1));
        (start, last + len - start)
    };
    axes.iter().zip(segments).map(hull).collect()
}

/// The region of the input that a region of the output needs in a window of the reduced axes.
pub(crate) fn demand(function: &ReduceOp, axes: &[usize], segmented: bool, region: &Region, window: &Window) -> Region {
    let mut out = region.clone();
    if function.parts().is_some() {
        out.start.pop();
        out.shape.pop();
    }
    for (&a, &(start, len)) in axes.iter().zip(window) {
        if segmented {
            (out.start[a], out.shape[a]) = (start, len);
        } else {
            out.start.insert(a, start);
            out.shape.insert(a, len);
        }
    }
    if let Some(parts) = function.parts().filter(|_| function.takes_parts()) {
        out.start.push(0);
        out.shape.push(parts);
    }
    out
}

/// Where parts go: the accumulator of one region.
struct Layout {
    /// The region, with every axis of the input (without that of the moments); in segments along reduced axes.
    keep: Region,
    /// The segments of each reduced axis.
    segments: Vec<Option<AxisChunks>>,
    /// The position stride of each axis.
    pos: Vec<isize>,
}

/// One piece of a part: its range on each axis, counted from the part, and its target.
struct Piece {
    range: Vec<Range<usize>>,
    to: Target,
}

impl Layout {
    /// The pieces of a part, each inside one segment and inside the region.
    fn pieces(&self, part: &Region) -> Vec<Piece> {
        let rank = self.keep.rank();
        // For each axis the ranges (accumulator index, first input index, length).
        let cuts: Vec<Vec<(u64, u64, u64)>> = (0..rank)
            .map(|i| {
                let (start, end) = (part.start[i], part.end(i));
                match &self.segments[i] {
                    None => {
                        let (a, b) = (start.max(self.keep.start[i]), end.min(self.keep.end(i)));
                        if a < b { vec![(a - self.keep.start[i], a, b - a)] } else { Vec::new() }
                    }
                    Some(s) => s
                        .touched(start, part.shape[i])
                        .filter(|k| (self.keep.start[i]..self.keep.end(i)).contains(k))
                        .filter_map(|k| {
                            let (first, len) = s.bounds(k);
                            let (a, b) = (start.max(first), end.min(first + len));
                            (a < b).then(|| (k - self.keep.start[i], a, b - a))
                        })
                        .collect(),
                }
            })
            .collect();
        let counts: Vec<u64> = cuts.iter().map(|c| c.len() as u64).collect();
        let strides = strides(&self.keep.shape);
        (0..volume(&counts))
            .map(|k| {
                let chosen: Vec<(u64, u64, u64)> = unravel(k, &counts).iter().zip(&cuts).map(|(&j, c)| c[j as usize]).collect();
                let local = |i: usize| (chosen[i].1 - part.start[i]) as usize;
                Piece {
                    range: (0..rank).map(|i| local(i)..local(i) + chosen[i].2 as usize).collect(),
                    to: Target {
                        acc: (0..rank).map(|i| if self.segments[i].is_some() { 0 } else { strides[i] }).collect(),
                        pos: self.pos.clone(),
                        at: (0..rank).map(|i| chosen[i].0 as isize * strides[i]).sum(),
                        first: (0..rank).map(|i| chosen[i].1 as isize * self.pos[i]).sum(),
                    },
                }
            })
            .collect()
    }
}

/// C-order strides of a shape.
pub(crate) fn strides(shape: &[u64]) -> Vec<isize> {
    let mut out = vec![1isize; shape.len()];
    for i in (1..shape.len()).rev() {
        out[i - 1] = out[i].saturating_mul(shape[i].max(1) as isize);
    }
    out
}

/// A rectangular piece of a view.
fn cut<'a, T>(view: ArrayViewD<'a, T>, range: &[Range<usize>]) -> ArrayViewD<'a, T> {
    let (start, shape) = range.iter().map(|r| (r.start as u64, r.len() as u64)).unzip();
    view.slice_move(slice_of(&Region { start, shape }).as_slice())
}

/// What the output block is made from.
#[derive(Clone)]
pub(crate) struct Shape {
    /// The shape of the accumulators in the output, the axis of moments included in full.
    pub full: PerAxis,
    /// The range of the last axis that is wanted.
    pub last: Option<(u64, u64)>,
    /// The dtype that is wanted.
    pub dtype: DType,
}

/// New accumulators, written one by one: zeroed memory from the system would be mapped once to be read and again, at the cost of an
/// interrupt of every other core, to be written.
pub(crate) fn accumulators<R: Reducer>(n: u64) -> Vec<R::Acc> {
    let mut acc = Vec::with_capacity(n as usize);
    acc.resize_with(n as usize, R::acc);
    acc
}

/// Accumulators that are turned into output elements at a time.
const EMITTED: usize = 1 << 14;

/// The output block from accumulators in C order, converted a little at a time: beside the accumulators only the block is in memory.
pub(crate) fn emit<R: Reducer>(acc: &[R::Acc], shape: &Shape) -> Block {
    emit_with(acc.len(), R::WIDTH, shape, &mut |some, out| acc[some].iter().for_each(|a| R::emit(a, out)))
}

/// As [`emit`], where a function appends `width` elements for each accumulator of a range. The ranges come in order.
pub(crate) fn emit_with<O: BlockElement>(n: usize, width: usize, shape: &Shape, some: &mut dyn FnMut(Range<usize>, &mut Vec<O>)) -> Block {
    let out = if O::DTYPE == shape.dtype {
        let mut data = Vec::with_capacity(n * width);
        some(0..n, &mut data);
        O::wrap(from_vec(&shape.full, data))
    } else {
        let flat = [(n * width) as u64];
        let mut whole = Block::zeros(shape.dtype, &flat);
        for (k, first) in (0..n).step_by(EMITTED).enumerate() {
            let range = first..n.min(first + EMITTED);
            let mut data = Vec::with_capacity(range.len() * width);
            some(range, &mut data);
            let region = Region::new([(k * EMITTED * width) as u64], [data.len() as u64]);
            let piece = O::wrap(from_vec(&region.shape, data));
            whole.assign(&region, &crate::cast(&piece, shape.dtype));
        }
        whole.reshaped(&shape.full).unwrap_or(whole)
    };
    match (shape.last, shape.full.len().checked_sub(1)) {
        (Some((start, len)), Some(axis)) if len != shape.full[axis] => {
            let mut region = Region::full(&shape.full);
            (region.start[axis], region.shape[axis]) = (start, len);
            out.slice(&region)
        }
        _ => out,
    }
}

/// The elements of a part as the type of the reducer.
pub(crate) fn elements<T: BlockElement>(part: &Part, op: ReduceOp) -> Result<ArrayViewD<'_, T>, KernelError> {
    let a = T::unwrap(&part.block).ok_or_else(|| KernelError::DType { op: op.name().into(), dtype: part.block.dtype() })?;
    if a.ndim() != part.region.rank() || a.shape().iter().zip(&part.region.shape).any(|(&n, &m)| n as u64 != m) {
        return Err(KernelError::Invalid(format!("{}: a block of shape {:?} for {}", op.name(), a.shape(), part.region)));
    }
    Ok(a.view())
}

/// Reduces parts into the accumulators of a layout.
fn fold_parts<T: BlockElement>(op: ReduceOp, layout: &Layout, parts: &[Part], sink: &mut dyn Sink<T>) -> Result<(), KernelError> {
    for part in parts {
        let view = elements::<T>(part, op)?;
        for piece in layout.pieces(&part.region) {
            walk(cut(view.view(), &piece.range), piece.to, sink);
        }
    }
    Ok(())
}

/// A reduction under way.
struct Folding<R: Reducer> {
    op: ReduceOp,
    layout: Layout,
    acc: Vec<R::Acc>,
    shape: Shape,
}

impl<R: Reducer> Fold for Folding<R> {
    fn fold(&mut self, parts: &[Part]) -> Result<(), KernelError> {
        fold_parts(self.op, &self.layout, parts, &mut Accumulators::<R>(&mut self.acc))
    }
    fn finish(self: Box<Self>) -> Result<Block, KernelError> {
        Ok(emit::<R>(&self.acc, &self.shape))
    }
}

/// The merging of moments under way.
struct Merging {
    layout: Layout,
    acc: Vec<Moment>,
    shape: Shape,
}

impl Fold for Merging {
    fn fold(&mut self, parts: &[Part]) -> Result<(), KernelError> {
        for part in parts {
            let view = elements::<f64>(part, ReduceOp::MergeMoments)?;
            let rank = self.layout.keep.rank();
            if part.region.rank() != rank + 1 || part.region.shape[rank] != 3 {
                return Err(KernelError::Invalid(format!("merge_moments: {} does not hold all three moments", part.region)));
            }
            for mut piece in self.layout.pieces(&part.region) {
                piece.range.push(0..3);
                let sub = cut(view.view(), &piece.range);
                let shape: Vec<u64> = piece.range[..rank].iter().map(|r| r.len() as u64).collect();
                for (k, lane) in sub.lanes(ndarray::Axis(rank)).into_iter().enumerate() {
                    let index = unravel(k as u64, &shape);
                    let at = piece.to.at + index.iter().zip(&piece.to.acc).map(|(&i, s)| i as isize * s).sum::<isize>();
                    let slot = &mut self.acc[at as usize];
                    *slot = slot.join(Moment { n: lane[0], mean: lane[1], m2: lane[2] });
                }
            }
        }
        Ok(())
    }
    fn finish(self: Box<Self>) -> Result<Block, KernelError> {
        Ok(emit::<Moments<f64, false>>(&self.acc, &self.shape))
    }
}

/// An accumulator of a region of the output.
pub(crate) fn start(
    function: &ReduceOp,
    axes: &[usize],
    segments: Option<&[AxisChunks]>,
    inputs: &[ArrayType],
    output: &ArrayType,
    region: &Region,
) -> Result<Box<dyn Fold>, KernelError> {
    let op = *function;
    let invalid = |what: &str| KernelError::Invalid(format!("{}: {what}", op.name()));
    let [input] = inputs else { return Err(invalid("takes one input")) };
    op.result_dtype(input.dtype)?;
    let rank = input.shape.len() - usize::from(op.takes_parts() && !input.shape.is_empty());
    if axes.iter().any(|&a| a >= rank) || axes.windows(2).any(|w| w[0] >= w[1]) {
        return Err(invalid("the axes must be ascending and axes of the input"));
    }
    if segments.is_some_and(|s| s.len() != axes.len() || s.iter().zip(axes).any(|(s, &a)| s.len() != input.shape[a])) {
        return Err(invalid("the segments must cover the reduced axes"));
    }
    let expected = rank - if segments.is_some() { 0 } else { axes.len() } + usize::from(op.parts().is_some());
    if region.rank() != expected {
        return Err(invalid(&format!("a region of rank {}, expected {expected}", region.rank())));
    }
    if !region.is_empty() && segments.is_none() && axes.iter().any(|&a| input.shape[a] == 0) && op.needs_elements() {
        return Err(invalid("no elements to reduce"));
    }

    // The output as it is wanted, and the accumulators with every axis of the input.
    let mut kept = region.clone();
    let mut shape = Shape { full: region.shape.clone(), last: None, dtype: output.dtype };
    if let Some(parts) = op.parts() {
        shape.last = kept.start.pop().zip(kept.shape.pop());
        if let Some(n) = shape.full.last_mut() {
            *n = parts;
        }
        if shape.last.is_some_and(|(s, n)| s + n > parts) {
            return Err(invalid(&format!("the last axis has length {parts}")));
        }
    }
    let mut layout = Layout { keep: kept, segments: vec![None; rank], pos: vec![0; rank] };
    for (i, &a) in axes.iter().enumerate() {
        let len = input.shape[a];
        layout.segments[a] = Some(segments.map_or(AxisChunks::regular(len, len), |s| s[i].clone()));
        if segments.is_none() {
            layout.keep.start.insert(a, 0);
            layout.keep.shape.insert(a, 1);
        }
    }
    let reduced: Vec<u64> = axes.iter().map(|&a| input.shape[a]).collect();
    if matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax) {
        for (&a, s) in axes.iter().zip(strides(&reduced)) {
            layout.pos[a] = s;
        }
    }

    fn boxed<R: Reducer>(op: ReduceOp, layout: Layout, shape: Shape) -> Result<Box<dyn Fold>, KernelError> {
        debug_assert!(size_of::<R::Acc>() as u64 <= op.state_bytes(R::In::DTYPE) * R::WIDTH as u64, "{op:?}");
        let acc = accumulators::<R>(layout.keep.volume());
        Ok(Box::new(Folding::<R> { op, layout, acc, shape }))
    }
    let dtype = input.dtype;
    // Without NaN there is nothing to leave out: integers have no loops of their own for that.
    let op = op.on(dtype);
    with_reducer!(op, dtype, R => boxed::<R>(op, layout, shape), match op {
        ReduceOp::ArgMin => with_real!(op, dtype, T => boxed::<Arg<T, false>>(op, layout, shape)),
        ReduceOp::ArgMax => with_real!(op, dtype, T => boxed::<Arg<T, true>>(op, layout, shape)),
        ReduceOp::Mean { skip_nan: false } => crate::with_dtype!(dtype, T => boxed::<Mean<T, false>>(op, layout, shape)),
        ReduceOp::Mean { skip_nan: true } => with_inexact!(dtype, T => boxed::<Mean<T, true>>(op, layout, shape)),
        ReduceOp::MergeMoments => {
            let acc = vec![Moment::default(); layout.keep.volume() as usize];
            Ok(Box::new(Merging { layout, acc, shape }))
        }
        _ => Err(invalid("has no accumulator")),
    })
}

/// Bytes of the rows of partial results of a reduction.
pub(crate) const ROWS: u64 = 256 << 10;

/// The kernel.
pub(crate) struct Reduce<'a> {
    pub function: ReduceOp,
    pub axes: &'a [usize],
    pub segments: Option<&'a [AxisChunks]>,
}

impl KernelKind for Reduce<'_> {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        check(self.function, self.axes, self.segments, at.inputs, at.output)
    }

    fn demand(&self, at: Types<'_>, region: &Region, window: Option<&Window>) -> DemandList {
        let own = if window.is_none() { self.window(at, region) } else { Window::new() };
        let region = demand(&self.function, self.axes, self.segments.is_some(), region, window.unwrap_or(&own));
        smallvec![Demand { input: 0, region }]
    }

    fn traits(&self) -> Traits {
        Traits::PLAIN
    }

    fn work(&self, at: Types<'_>) -> Work {
        Work::passing(at)
    }

    fn view(&self) -> Option<&[ViewAxis]> {
        None
    }

    fn blocks(&self, _: &Region) -> Option<u64> {
        None
    }

    fn evaluation(&self) -> Evaluation<'_> {
        Evaluation::Folded(self)
    }
}

impl Foldable for Reduce<'_> {
    fn indices(&self) -> Vec<Along> {
        self.axes.iter().map(|&axis| smallvec![(0, axis)]).collect()
    }

    fn window(&self, at: Types<'_>, region: &Region) -> Window {
        window(at.inputs, self.axes, self.segments, region)
    }

    fn start(&self, at: Types<'_>, region: &Region) -> Result<Box<dyn Fold>, KernelError> {
        start(&self.function, self.axes, self.segments, at.inputs, at.output, region)
    }

    fn accumulator(&self, at: Types<'_>, region: &Region) -> u64 {
        region.volume().saturating_mul(self.function.state_bytes(at.inputs[0].dtype) + at.output.dtype.size())
    }

    fn fold_scratch(&self, _: Types<'_>, _: &[u64]) -> u64 {
        ROWS
    }

    fn reduces(&self) -> Option<Vec<usize>> {
        Some(self.axes.to_vec())
    }

    fn runs(&self, _: &Window) -> Vec<usize> {
        self.axes.to_vec()
    }

    fn rounds(&self, at: Types<'_>, segments: &[AxisChunks], cut: usize) -> Option<Rounds> {
        // Partial results are not cut again.
        if self.segments.is_some() {
            return None;
        }
        let function = self.function.merge()?;
        let (axes, along) = (self.axes.to_vec(), *self.axes.get(cut)?);
        let mut shape = at.inputs[0].shape.clone();
        if self.function.takes_parts() {
            shape.pop();
        }
        for (&axis, segments) in self.axes.iter().zip(segments) {
            shape[axis] = segments.count();
        }
        shape.extend(self.function.parts());
        Some(Rounds {
            first: Kernel::Reduce { function: self.function, axes: axes.clone(), segments: Some(segments.to_vec()) },
            partial: ArrayType::new(self.function.partial_dtype(at.output.dtype), shape),
            along,
            second: Kernel::Reduce { function, axes, segments: None },
        })
    }
}
