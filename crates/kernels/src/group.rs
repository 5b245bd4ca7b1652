//! Reductions of the elements with equal labels along one axis.
//!
//! Nothing is copied or sorted: runs of equal labels are reduced as slices, and where labels change quickly along the axis of
//! the fastest memory each element goes to its group directly. A group without members has the identity of the reduction
//! (sum 0, prod 1, count 0, any false, all true, moments 0); its mean, min and max are NaN for floats and 0 for integers.

use crate::kind::{Along, Evaluation, Foldable, KernelKind, Rounds, Traits, Types, Work};
use crate::reduce::{
    Accumulators, Average, Element, ROWS, Reducer, Shape, Sink, Sum, SumState, Target, accumulators, check_group, elements, emit,
    emit_with, strides, walk, with_inexact, with_reducer,
};
use crate::simd::{Loop, dispatch};
use crate::{ArrayType, Block, BlockElement, Demand, DemandList, Fold, KernelError, Part, ReduceOp, ViewAxis, Window, with_dtype};
use chunkwise_types::{AxisChunks, DType, Region};
use ndarray::{ArrayViewD, Axis, Slice};
use smallvec::smallvec;
use std::marker::PhantomData;
use std::ops::AddAssign;

/// The largest number of groups of one axis.
pub(crate) const MAX_GROUPS: u64 = 1 << 24;

/// The smallest range `(start, len)` of the axis that holds every member of the groups; `(0, 0)` if they have none.
pub(crate) fn window(labels: &[i64], start_group: u64, count: u64) -> (u64, u64) {
    let inside = |l: &i64| group_in(*l, start_group, count).is_some();
    match (labels.iter().position(inside), labels.iter().rposition(inside)) {
        (Some(a), Some(b)) => (a as u64, (b - a + 1) as u64),
        _ => (0, 0),
    }
}

/// As [`window`], inside a range `(start, len)` of the axis.
pub(crate) fn window_inside(labels: &[i64], start_group: u64, count: u64, (start, len): (u64, u64)) -> (u64, u64) {
    let inside = labels.get(start as usize..(start + len) as usize).unwrap_or_default();
    let (first, n) = window(inside, start_group, count);
    (start + first, n)
}

/// The group counted from `start`, if the label is one of `count` groups from there.
fn group_in(label: i64, start: u64, count: u64) -> Option<u64> {
    let l = u64::try_from(label).ok()?;
    l.checked_sub(start).filter(|&g| g < count)
}

/// Groups of so many elements are counted in 16 bits.
const MAX_GROUPS_U16: usize = u16::MAX as usize;

/// Bytes that the reduction of groups by labels keeps for each element of its result.
pub(crate) fn group_state(op: ReduceOp, input: DType, labels: &[i64]) -> u64 {
    match op {
        // See `Means`.
        ReduceOp::Mean { skip_nan } => {
            let missing = if labels.len() <= MAX_GROUPS_U16 { 2 } else { 4 };
            ReduceOp::Sum.state_bytes(input) + if skip_nan { missing } else { 0 }
        }
        other => other.state_bytes(input),
    }
}

/// Where elements go.
struct Place {
    op: ReduceOp,
    axis: usize,
    /// The first label in the window, and the group in the region of each index from there.
    first: u64,
    table: Vec<Option<u32>>,
    region: Region,
}

impl Place {
    /// Adds parts to the accumulators of the region.
    fn fold<T: BlockElement>(&self, parts: &[Part], sink: &mut dyn Sink<T>) -> Result<(), KernelError> {
        for part in parts {
            let mut view = elements::<T>(part, self.op)?;
            if part.region.rank() != self.region.rank() {
                return Err(KernelError::Invalid(format!("group: the part {} has the wrong rank", part.region)));
            }
            let strides = strides(&self.region.shape);
            let mut at = 0isize;
            for i in (0..view.ndim()).filter(|&i| i != self.axis) {
                let (a, b) = (part.region.start[i].max(self.region.start[i]), part.region.end(i).min(self.region.end(i)));
                if a >= b {
                    view.slice_axis_inplace(Axis(i), Slice::from(0..0));
                    continue;
                }
                let from = (a - part.region.start[i]) as usize;
                view.slice_axis_inplace(Axis(i), Slice::from(from..from + (b - a) as usize));
                at += (a - self.region.start[i]) as isize * strides[i];
            }
            if view.is_empty() {
                continue;
            }
            let axis = self.axis;
            let start = part.region.start[axis];
            let label = |j: usize| {
                let k = (start + j as u64).checked_sub(self.first)?;
                self.table.get(k as usize).copied().flatten()
            };
            let n = view.shape()[axis];
            let groups: Vec<Option<u32>> = (0..n).map(label).collect();
            let runs: Vec<&[Option<u32>]> = groups.chunk_by(|a, b| a == b).collect();
            let step = view.strides()[axis].unsigned_abs();
            // The stride of an axis of length one says nothing.
            let innermost =
                n > 1 && (0..view.ndim()).all(|i| i == axis || view.shape()[i] == 1 || view.strides()[i].unsigned_abs() >= step);
            if innermost && runs.len() * 8 > n {
                let others: Vec<usize> = (0..view.ndim()).filter(|&i| i != axis).collect();
                let lengths: Vec<usize> = others.iter().map(|&i| view.shape()[i]).collect();
                let (mut index, mut base) = (vec![0usize; others.len()], at);
                for (k, lane) in view.lanes(Axis(axis)).into_iter().enumerate() {
                    // The lanes come in C order of the other axes.
                    for (place, &i) in others.iter().enumerate().rev().filter(|_| k > 0) {
                        index[place] += 1;
                        base += strides[i];
                        if index[place] < lengths[place] {
                            break;
                        }
                        base -= strides[i] * lengths[place] as isize;
                        index[place] = 0;
                    }
                    sink.scatter(lane, &groups, base, strides[axis]);
                }
                continue;
            }
            let mut j = 0;
            for run in runs {
                if let Some(g) = run[0] {
                    let mut to =
                        Target { acc: strides.clone(), pos: vec![0; strides.len()], at: at + g as isize * strides[axis], first: 0 };
                    to.acc[axis] = 0;
                    walk(view.slice_axis(Axis(axis), Slice::from(j..j + run.len())), to, sink);
                }
                j += run.len();
            }
        }
        Ok(())
    }
}

/// A grouping under way.
struct Grouping<R: Reducer> {
    place: Place,
    acc: Vec<R::Acc>,
    shape: Shape,
}

impl<R: Reducer> Fold for Grouping<R> {
    fn fold(&mut self, parts: &[Part]) -> Result<(), KernelError> {
        self.place.fold(parts, &mut Accumulators::<R>(&mut self.acc))
    }

    fn finish(self: Box<Self>) -> Result<Block, KernelError> {
        Ok(emit::<R>(&self.acc, &self.shape))
    }
}

/// A number of elements that are left out of a group.
trait Missed: Copy + Default + Send + Into<u32> + AddAssign + From<bool> + 'static {}
impl Missed for u16 {}
impl Missed for u32 {}

/// Counts what is left out.
struct Missing<T, N>(PhantomData<(T, N)>);

impl<T: Element, N: Missed> Reducer for Missing<T, N> {
    type In = T;
    type Part = N;
    type Acc = N;
    type Out = bool;
    fn part() -> N {
        N::default()
    }
    fn acc() -> N {
        N::default()
    }
    #[inline(always)]
    fn add(part: &mut N, x: T, _: isize) {
        *part += N::from(!x.valid());
    }
    #[inline(always)]
    fn merge(acc: &mut N, part: N) {
        *acc += part;
    }
    fn emit(acc: &N, out: &mut Vec<bool>) {
        out.push((*acc).into() > 0);
    }
}

/// True if one of the elements is NaN.
struct AnyNan<'a, T>(&'a [T]);

impl<T: Element> Loop for AnyNan<'_, T> {
    type Output = bool;
    #[inline(always)]
    fn run(self) -> bool {
        self.0.chunks(1024).any(|xs| xs.iter().fold(false, |found, x| found | !x.valid()))
    }
}

fn any_nan<T: Element>(view: ArrayViewD<'_, T>) -> bool {
    let nan = |xs: &[T]| dispatch(AnyNan(xs));
    match view.as_slice_memory_order() {
        Some(xs) => nan(xs),
        None => view.rows().into_iter().any(|row| row.as_slice().map_or_else(|| row.iter().any(|x| !x.valid()), nan)),
    }
}

/// What the means of groups leave out.
trait LeftOut<T: Element>: Send + 'static {
    /// Adds a part to the sums of its groups.
    fn fold(&mut self, place: &Place, part: &[Part], sums: &mut [T::Sum]) -> Result<(), KernelError>;
    /// How many elements the group of this sum misses.
    fn missing(&self, sum: usize) -> u32;
}

/// Nothing is left out.
struct Nothing;

impl<T: Element> LeftOut<T> for Nothing {
    fn fold(&mut self, place: &Place, part: &[Part], sums: &mut [T::Sum]) -> Result<(), KernelError> {
        place.fold(part, &mut Accumulators::<Sum<T>>(sums))
    }
    fn missing(&self, _: usize) -> u32 {
        0
    }
}

/// NaN is left out: what groups miss is counted from the first NaN on.
struct Nans<N>(Option<Vec<N>>);

impl<T: Element, N: Missed> LeftOut<T> for Nans<N> {
    fn fold(&mut self, place: &Place, part: &[Part], sums: &mut [T::Sum]) -> Result<(), KernelError> {
        for part in part.chunks(1) {
            if any_nan(elements::<T>(&part[0], place.op)?) {
                let missing = self.0.get_or_insert_with(|| vec![N::default(); sums.len()]);
                place.fold(part, &mut Accumulators::<Missing<T, N>>(missing))?;
                place.fold(part, &mut Accumulators::<Sum<T, true>>(sums))?;
            } else {
                place.fold(part, &mut Accumulators::<Sum<T>>(sums))?;
            }
        }
        Ok(())
    }
    fn missing(&self, sum: usize) -> u32 {
        self.0.as_ref().map_or(0, |counts| counts[sum].into())
    }
}

/// The means of groups. How many elements a group has is known, so only sums are kept, and what groups miss.
struct Means<T: Element, L> {
    place: Place,
    sums: Vec<T::Sum>,
    left_out: L,
    shape: Shape,
}

impl<T: Element, L: LeftOut<T>> Fold for Means<T, L> {
    fn fold(&mut self, parts: &[Part]) -> Result<(), KernelError> {
        self.left_out.fold(&self.place, parts, &mut self.sums)
    }

    fn finish(self: Box<Self>) -> Result<Block, KernelError> {
        let Means { place: Place { table, region, axis, .. }, sums, left_out, shape } = *self;
        let mut sizes = vec![0.0; region.shape[axis] as usize];
        table.iter().flatten().for_each(|&g| sizes[g as usize] += 1.0);
        let (inner, mut group, mut left) = (strides(&region.shape)[axis] as usize, 0, 0);
        // In C order; a division of every index would cost more than that of the sum.
        let mut mean = |i: usize, out: &mut Vec<_>| {
            if left == 0 {
                (left, group) = (inner, if group < sizes.len() { group + 1 } else { 1 });
            }
            left -= 1;
            out.push(sums[i].value().over(sizes[group - 1] - f64::from(left_out.missing(i))));
        };
        Ok(emit_with(sums.len(), 1, &shape, &mut |some, out| some.for_each(|i| mean(i, out))))
    }
}

/// An accumulator of a region of the output, whose axis `axis` counts groups.
pub(crate) fn start(
    function: &ReduceOp,
    axis: usize,
    labels: &[i64],
    inputs: &[ArrayType],
    output: &ArrayType,
    region: &Region,
) -> Result<Box<dyn Fold>, KernelError> {
    let op = *function;
    let [input] = inputs else { return Err(KernelError::Invalid("group: takes one input".into())) };
    // Moments have an axis of their own, the last.
    let parts = op.parts();
    let mut kept = region.clone();
    let mut shape = Shape { full: region.shape.clone(), last: None, dtype: output.dtype };
    if let Some(parts) = parts {
        shape.last = kept.start.pop().zip(kept.shape.pop());
        if let Some(n) = shape.full.last_mut() {
            *n = parts;
        }
        if shape.last.is_none_or(|(s, n)| s + n > parts) {
            return Err(KernelError::Invalid(format!("group: the last axis of {} has length {parts}", op.name())));
        }
    }
    let region = &kept;
    if axis >= input.shape.len() || region.rank() != input.shape.len() || labels.len() as u64 != input.shape[axis] {
        return Err(KernelError::Invalid("group: one label for each index of an axis of the input is needed".into()));
    }
    let (first_group, count) = (region.start[axis], region.shape[axis]);
    if count > u64::from(u32::MAX) {
        return Err(KernelError::Invalid(format!("group: {count} groups are too many")));
    }
    let (first, len) = window(labels, first_group, count);
    let members = &labels[first as usize..(first + len) as usize];
    let table: Vec<Option<u32>> = members.iter().map(|&l| group_in(l, first_group, count).map(|g| g as u32)).collect();

    let place = Place { op, axis, first, table, region: region.clone() };
    fn boxed<R: Reducer>(place: Place, shape: Shape) -> Result<Box<dyn Fold>, KernelError> {
        debug_assert!(size_of::<R::Acc>() as u64 <= place.op.state_bytes(R::In::DTYPE) * R::WIDTH as u64, "{:?}", place.op);
        let acc = accumulators::<R>(place.region.volume());
        Ok(Box::new(Grouping::<R> { place, acc, shape }))
    }
    fn means<T: Element, L: LeftOut<T>>(place: Place, left_out: L, shape: Shape) -> Result<Box<dyn Fold>, KernelError> {
        let sums = accumulators::<Sum<T>>(place.region.volume());
        Ok(Box::new(Means::<T, L> { place, sums, left_out, shape }))
    }
    let dtype = input.dtype;
    let op = op.on(dtype);
    with_reducer!(op, dtype, R => boxed::<R>(place, shape), match op {
        ReduceOp::Mean { skip_nan: false } => with_dtype!(dtype, T => means::<T, _>(place, Nothing, shape)),
        ReduceOp::Mean { skip_nan: true } if labels.len() <= MAX_GROUPS_U16 => {
            with_inexact!(dtype, T => means::<T, _>(place, Nans::<u16>(None), shape))
        }
        ReduceOp::Mean { skip_nan: true } => with_inexact!(dtype, T => means::<T, _>(place, Nans::<u32>(None), shape)),
        _ => Err(KernelError::Invalid(format!("{} cannot be taken by group", op.name()))),
    })
}

/// True if most neighbours in a window of labels are members of the same group, so that a tile of many of them changes few accumulators.
fn in_runs(labels: &[i64], window: &Window) -> bool {
    let Some(&(start, len)) = window.first() else { return true };
    let members = labels.get(start as usize..start.saturating_add(len.min(256)) as usize).unwrap_or_default();
    members.windows(2).filter(|pair| pair[0] != pair[1]).count() * 4 < members.len()
}

/// The kernel.
pub(crate) struct Group<'a> {
    pub function: ReduceOp,
    pub axis: usize,
    pub labels: &'a [i64],
    pub groups: u64,
}

impl Group<'_> {
    /// The groups of a region of the output.
    fn of(&self, region: &Region) -> (u64, u64) {
        (region.start[self.axis], region.shape[self.axis])
    }
}

impl KernelKind for Group<'_> {
    fn name(&self) -> &'static str {
        "group"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        check_group(self.function, self.axis, self.labels, self.groups, at.inputs, at.output)
    }

    fn demand(&self, _: Types<'_>, region: &Region, window: Option<&Window>) -> DemandList {
        let range = window.map_or((0, self.labels.len() as u64), |w| w[0]);
        let (first, count) = self.of(region);
        let mut own = region.clone();
        if self.function.parts().is_some() {
            own.start.pop();
            own.shape.pop();
        }
        (own.start[self.axis], own.shape[self.axis]) = window_inside(self.labels, first, count, range);
        smallvec![Demand { input: 0, region: own }]
    }

    fn traits(&self) -> Traits {
        // The members of a group lie all over the axis.
        Traits { irregular: true, ..Traits::PLAIN }
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

impl Foldable for Group<'_> {
    fn indices(&self) -> Vec<Along> {
        vec![smallvec![(0, self.axis)]]
    }

    fn window(&self, _: Types<'_>, region: &Region) -> Window {
        let (first, count) = self.of(region);
        vec![window(self.labels, first, count)]
    }

    fn start(&self, at: Types<'_>, region: &Region) -> Result<Box<dyn Fold>, KernelError> {
        start(&self.function, self.axis, self.labels, at.inputs, at.output, region)
    }

    fn accumulator(&self, at: Types<'_>, region: &Region) -> u64 {
        let state = group_state(self.function, at.inputs[0].dtype, self.labels);
        region.volume().saturating_mul(state + at.output.dtype.size())
    }

    fn fold_scratch(&self, _: Types<'_>, _: &[u64]) -> u64 {
        // A row of partial results, and the table of labels.
        (self.labels.len() as u64).saturating_mul(8).saturating_add(ROWS)
    }

    fn reduces(&self) -> Option<Vec<usize>> {
        // Other labels are in other windows.
        None
    }

    fn runs(&self, window: &Window) -> Vec<usize> {
        if in_runs(self.labels, window) { vec![self.axis] } else { Vec::new() }
    }

    fn rounds(&self, _: Types<'_>, _: &[AxisChunks], _: usize) -> Option<Rounds> {
        // The groups are tasks enough in most cases, and partial results would have an axis more.
        None
    }
}
