//! Contraction of two arrays: products summed over shared indices, in steps of any windows of those indices.
//!
//! Every axis carries a label. A label of both inputs and the output is a *batch* index, one of an input and the output is a
//! *row* (input 0) or a *column* (input 1), one of both inputs alone is *contracted*; one of a single input alone is summed
//! out of that input first. What remains is a stack of matrix products. Where the axes of a group lie evenly in memory they
//! are one axis of a strided GEMM; an operand is copied only if its own layout prevents that, and an output whose rows and
//! columns interleave is looped over.
//!
//! Where both operands are the same elements in memory, so that the second is the first transposed, the product is symmetric: only
//! the half below the diagonal is computed, and the other half is copied from it in the end.

use crate::block::slice_of;
use crate::kind::{Along, Evaluation, Foldable, KernelKind, Rounds, Traits, Types, Work};
use crate::matmul::{Product, matmul, mirror, panels, threads};
use crate::{ArrayType, Block, BlockElement, Demand, DemandList, Fold, Kernel, KernelError, Part, ReduceOp, ViewAxis, Window, check};
use chunkwise_types::{AxisChunks, DType, Region};
use ndarray::{ArrayD, ArrayViewD, ArrayViewMutD, Axis, CowArray, Ix2, IxDyn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::smallvec;

/// An einsum of two inputs of the same dtype, which is also the output's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Contract {
    /// The labels of the axes of input 0.
    pub a: Vec<u32>,
    /// The labels of the axes of input 1.
    pub b: Vec<u32>,
    /// The labels of the axes of the output. Labels that are not here are summed over.
    pub out: Vec<u32>,
    /// Partial sums: a contracted label and the segments of its range. The output has one more axis, the first, with an element for
    /// each segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<(u32, AxisChunks)>,
}

fn place(labels: &[u32], label: u32) -> Option<usize> {
    labels.iter().position(|&l| l == label)
}

impl Contract {
    /// The contracted labels in the order of their first appearance in `a`, then `b`.
    pub fn contracted(&self) -> Vec<u32> {
        let mut out: Vec<u32> = Vec::new();
        for &l in self.a.iter().chain(&self.b) {
            if !self.out.contains(&l) && !out.contains(&l) {
                out.push(l);
            }
        }
        out
    }

    /// The lengths of the contracted indices, in their order.
    pub fn contracted_lengths(&self, inputs: &[ArrayType]) -> Vec<u64> {
        let of = |l| place(&self.a, l).map(|i| inputs[0].shape[i]).or_else(|| place(&self.b, l).map(|i| inputs[1].shape[i])).unwrap_or(1);
        self.contracted().into_iter().map(of).collect()
    }

    /// Refuses labels that occur twice on one operand, outputs from nowhere, and axes of equal label and unequal length.
    pub fn check(&self, inputs: &[ArrayType]) -> Result<(), KernelError> {
        let invalid = |what: String| Err(KernelError::Invalid(format!("contract: {what}")));
        let [a, b] = inputs else { return invalid("takes two inputs".into()) };
        for labels in [&self.a, &self.b, &self.out] {
            if labels.iter().enumerate().any(|(i, l)| labels[..i].contains(l)) {
                return invalid(format!("a label occurs twice in {labels:?}"));
            }
        }
        if self.a.len() != a.shape.len() || self.b.len() != b.shape.len() {
            return invalid("one label for each axis is needed".into());
        }
        if a.dtype != b.dtype {
            return invalid(format!("the inputs are {} and {}", a.dtype, b.dtype));
        }
        if let Some(l) = self.out.iter().find(|l| !self.a.contains(l) && !self.b.contains(l)) {
            return invalid(format!("output label {l} is on no input"));
        }
        if let Some((l, cuts)) = &self.segments
            && self.contracted().iter().zip(self.contracted_lengths(inputs)).all(|(c, n)| c != l || !cuts.cuts(n))
        {
            return invalid(format!("its segments do not cut a contracted label {l}"));
        }
        for (i, &l) in self.a.iter().enumerate() {
            if let Some(j) = place(&self.b, l)
                && a.shape[i] != b.shape[j]
            {
                return invalid(format!("label {l} has length {} and {}", a.shape[i], b.shape[j]));
            }
        }
        Ok(())
    }

    /// As [`Contract::check`], and refuses an output of another dtype or shape than comes out.
    pub(crate) fn check_output(&self, inputs: &[ArrayType], output: &ArrayType) -> Result<(), KernelError> {
        let [a, b] = inputs else { return check::invalid(format!("it needs 2 inputs and has {}", inputs.len())) };
        self.check(inputs)?;
        check::dtype(output, a.dtype)?;
        let length = |&l: &u32| place(&self.a, l).map(|i| a.shape[i]).or_else(|| place(&self.b, l).map(|i| b.shape[i]));
        let made: Vec<u64> = self.segments.iter().map(|(_, cuts)| cuts.count()).chain(self.out.iter().filter_map(length)).collect();
        check::shape(output, &made)
    }

    /// Which operands may have to be copied: those with a label to be summed out, or with several axes that must become one.
    pub(crate) fn copied(&self) -> [bool; 2] {
        let copied = |own: &[u32], other: &[u32]| {
            let count =
                |shared: bool, kept: bool| own.iter().filter(|l| other.contains(l) == shared && self.out.contains(l) == kept).count();
            count(false, false) > 0 || count(false, true) > 1 || count(true, false) > 1
        };
        [copied(&self.a, &self.b), copied(&self.b, &self.a)]
    }

    /// The ranges of the contracted indices that a region of the output needs.
    pub fn window(&self, inputs: &[ArrayType], region: &Region) -> Window {
        let mut out: Window = self.contracted_lengths(inputs).into_iter().map(|n| (0, n)).collect();
        if let Some((label, cuts)) = &self.segments
            && let Some(i) = place(&self.contracted(), *label)
        {
            out[i] = hull(cuts, region);
        }
        out
    }

    /// The regions of the two inputs that a region of the output needs in a window of the contracted indices.
    pub fn demand(&self, region: &Region, window: &Window) -> DemandList {
        let contracted = self.contracted();
        let skip = usize::from(self.segments.is_some());
        let range = |&l: &u32| match place(&self.out, l) {
            Some(i) => (region.start[i + skip], region.shape[i + skip]),
            None => place(&contracted, l).and_then(|i| window.get(i).copied()).unwrap_or((0, 0)),
        };
        let of = |input, labels: &[u32]| {
            let (start, shape) = labels.iter().map(range).unzip();
            Demand { input, region: Region { start, shape } }
        };
        smallvec![of(0, &self.a), of(1, &self.b)]
    }

    /// An accumulator of a region of the output.
    pub fn start(&self, inputs: &[ArrayType], output: &ArrayType, region: &Region) -> Result<Box<dyn Fold>, KernelError> {
        self.check(inputs)?;
        if let Some((label, cuts)) = &self.segments {
            return segmented(self, inputs, output, region, *label, cuts);
        }
        if region.rank() != self.out.len() {
            return Err(KernelError::Invalid(format!("contract: {region} is no region of the output")));
        }
        fn boxed<T: Product>(c: &Contract, region: &Region, dtype: DType) -> Result<Box<dyn Fold>, KernelError> {
            let acc = ArrayD::from_elem(crate::block::dims(&region.shape), T::default());
            Ok(Box::new(Contracting { contract: c.clone(), region: region.clone(), acc, dtype, half: Half::Empty }))
        }
        crate::with_dtype!(inputs[0].dtype, T => boxed::<T>(self, region, output.dtype))
    }
}

/// The range of the contracted index that the segments of a region cover.
fn hull(cuts: &AxisChunks, region: &Region) -> (u64, u64) {
    let (first, n) = match (region.start.first(), region.shape.first()) {
        (Some(&s), Some(&n)) if n > 0 && s + n <= cuts.count() => (s, n),
        _ => return (0, 0),
    };
    let ((start, _), (last, len)) = (cuts.bounds(first), cuts.bounds(first + n - 1));
    (start, last + len - start)
}

/// One contraction for each segment of a label.
struct Segmented {
    /// The axis of the label on each input.
    axes: [Option<usize>; 2],
    parts: Vec<((u64, u64), Box<dyn Fold>)>,
    region: Region,
    dtype: DType,
}

fn segmented(
    c: &Contract,
    inputs: &[ArrayType],
    output: &ArrayType,
    region: &Region,
    label: u32,
    cuts: &AxisChunks,
) -> Result<Box<dyn Fold>, KernelError> {
    if region.rank() != c.out.len() + 1 || region.end(0) > cuts.count() {
        return Err(KernelError::Invalid(format!("contract: {region} is no region of the output")));
    }
    let whole = Contract { segments: None, ..c.clone() };
    let of_one = ArrayType::new(output.dtype, output.shape.get(1..).unwrap_or_default().to_vec());
    let inside = Region::new(&region.start[1..], &region.shape[1..]);
    let parts = (region.start[0]..region.end(0))
        .map(|s| Ok((cuts.bounds(s), whole.start(inputs, &of_one, &inside)?)))
        .collect::<Result<_, KernelError>>()?;
    Ok(Box::new(Segmented { axes: [place(&c.a, label), place(&c.b, label)], parts, region: region.clone(), dtype: output.dtype }))
}

impl Fold for Segmented {
    fn fold(&mut self, parts: &[Part]) -> Result<(), KernelError> {
        for ((start, len), fold) in &mut self.parts {
            let cut: Option<Vec<Part>> = parts
                .iter()
                .zip(self.axes)
                .map(|(part, axis)| {
                    let Some(axis) = axis.filter(|&a| a < part.region.rank()) else { return Some(part.clone()) };
                    let mut range = part.region.clone();
                    let (a, b) = (range.start[axis].max(*start), range.end(axis).min(*start + *len));
                    (range.start[axis], range.shape[axis]) = (a, b.checked_sub(a).filter(|&n| n > 0)?);
                    let block = part.block.slice(&range.relative_to(&part.region));
                    Some(Part { region: range, block })
                })
                .collect();
            if let Some(cut) = cut {
                fold.fold(&cut)?;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Block, KernelError> {
        let mut out = Block::zeros(self.dtype, &self.region.shape);
        for (k, (_, fold)) in self.parts.into_iter().enumerate() {
            let mut place = Region::full(&self.region.shape);
            (place.start[0], place.shape[0]) = (k as u64, 1);
            if let Some(block) = fold.finish()?.contiguous().reshaped(&place.shape) {
                out.assign(&place, &block);
            }
        }
        Ok(out)
    }
}

/// A contraction under way.
struct Contracting<T> {
    contract: Contract,
    region: Region,
    acc: ArrayD<T>,
    dtype: DType,
    half: Half,
}

/// What of an accumulator holds sums.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Half {
    /// Nothing yet: it is all zeros.
    Empty,
    /// Of the matrices over these rows and columns, what is on and below the diagonal: all steps so far were symmetric.
    Lower(Vec<u32>, Vec<u32>),
    /// Everything.
    Whole,
}

impl<T: Product> Contracting<T> {
    /// Makes the upper half of a symmetric accumulator from the lower one.
    fn complete(&mut self) {
        if let Half::Lower(rows, columns) = std::mem::replace(&mut self.half, Half::Whole) {
            let out = &self.contract.out;
            let batch = out.iter().filter(|l| !rows.contains(l) && !columns.contains(l));
            let axes: Vec<usize> = batch.chain(&rows).chain(&columns).filter_map(|&l| place(out, l)).collect();
            let n = axes.len() - rows.len() - columns.len();
            let view = self.acc.view_mut().permuted_axes(IxDyn(&axes));
            mirror_all(merged_mut(merged_mut(view, n + rows.len(), axes.len()), n, n + rows.len()));
        }
    }
}

/// Mirrors every matrix of a stack of them.
fn mirror_all<T: Product>(mut stack: ArrayViewMutD<'_, T>) {
    if stack.ndim() > 2 {
        stack.axis_iter_mut(Axis(0)).for_each(mirror_all);
    } else if let Ok(c) = stack.into_dimensionality::<Ix2>() {
        mirror(c);
    }
}

impl<T: Product> Fold for Contracting<T> {
    fn fold(&mut self, parts: &[Part]) -> Result<(), KernelError> {
        let [a, b] = parts else { return Err(KernelError::Invalid("contract: a step has two parts".into())) };
        let c = self.contract.clone();
        // The range of every label that both parts and the region hold.
        let mut ranges: Vec<(u32, u64, u64)> = Vec::new();
        let sides = [(&c.a, &a.region), (&c.b, &b.region), (&c.out, &self.region)];
        for (labels, region) in sides {
            if labels.len() != region.rank() {
                return Err(KernelError::Invalid(format!("contract: {region} has the wrong rank")));
            }
            for (i, &l) in labels.iter().enumerate() {
                match ranges.iter_mut().find(|r| r.0 == l) {
                    None => ranges.push((l, region.start[i], region.end(i))),
                    Some(r) => (r.1, r.2) = (r.1.max(region.start[i]), r.2.min(region.end(i))),
                }
            }
        }
        if ranges.iter().any(|r| r.1 >= r.2) {
            return Ok(());
        }
        let local = |labels: &[u32], region: &Region| {
            let range = |l: &u32| ranges.iter().find(|r| r.0 == *l).map_or((0, 0), |r| (r.1, r.2 - r.1));
            let (start, shape) = labels.iter().map(range).unzip();
            slice_of(&Region { start, shape }.relative_to(region))
        };
        let av = summed(view::<T>(a)?.slice_move(local(&c.a, &a.region).as_slice()), &c.a, &|l| c.b.contains(&l) || c.out.contains(&l));
        let bv = summed(view::<T>(b)?.slice_move(local(&c.b, &b.region).as_slice()), &c.b, &|l| c.a.contains(&l) || c.out.contains(&l));
        let cut = local(&c.out, &self.region);
        let product = Pairing::new(&av, &bv, self.acc.slice_mut(cut.as_slice()), &c.out);
        let covers = self.acc.slice_mut(cut.as_slice()).len() == self.acc.len();
        let lower = match &self.half {
            Half::Empty | Half::Lower(..) if covers && product.symmetric(&av, &bv) => {
                Half::Lower(product.rows.clone(), product.columns.clone())
            }
            _ => Half::Whole,
        };
        if lower == Half::Whole {
            self.complete();
        }
        let bytes = |part: &Part| part.region.volume().saturating_mul(T::DTYPE.size());
        let threads = threads(bytes(a).saturating_add(bytes(b)));
        product.add(&av, &bv, self.acc.slice_mut(cut.as_slice()), &c.out, (lower != Half::Whole, threads));
        self.half = lower;
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<Block, KernelError> {
        self.complete();
        let block = T::wrap(self.acc.into_shared());
        Ok(if block.dtype() == self.dtype { block } else { crate::cast(&block, self.dtype) })
    }
}

fn view<T: BlockElement>(part: &Part) -> Result<ArrayViewD<'_, T>, KernelError> {
    let a = T::unwrap(&part.block).ok_or_else(|| KernelError::DType { op: "contract".into(), dtype: part.block.dtype() })?;
    if a.ndim() != part.region.rank() || a.shape().iter().zip(&part.region.shape).any(|(&n, &m)| n as u64 != m) {
        return Err(KernelError::Invalid(format!("contract: a block of shape {:?} for {}", a.shape(), part.region)));
    }
    Ok(a.view())
}

/// An operand with the labels of its axes.
struct Operand<'a, T> {
    array: CowArray<'a, T, IxDyn>,
    labels: Vec<u32>,
}

/// The operand after its labels that are not `used` elsewhere are summed out.
fn summed<'a, T: Product>(array: ArrayViewD<'a, T>, labels: &[u32], used: &dyn Fn(u32) -> bool) -> Operand<'a, T> {
    let mut out = Operand { array: CowArray::from(array), labels: labels.to_vec() };
    for axis in (0..labels.len()).rev().filter(|&i| !used(labels[i])) {
        let sum = out.array.fold_axis(Axis(axis), T::default(), |s, &x| s.plus(x));
        out.array = CowArray::from(sum);
        out.labels.remove(axis);
    }
    out
}

/// A view with its axes in the order of labels; all of them must be there.
fn arrange<'a, T>(view: ArrayViewD<'a, T>, labels: &[u32], order: &[u32]) -> ArrayViewD<'a, T> {
    let axes: Vec<usize> = order.iter().filter_map(|&l| place(labels, l)).collect();
    view.permuted_axes(IxDyn(&axes))
}

/// True if axes `from..to` step evenly, so that they can be one axis.
fn even(shape: &[usize], strides: &[isize], from: usize, to: usize) -> bool {
    let mut last: Option<(usize, isize)> = None;
    for i in (from..to).rev().filter(|&i| shape[i] != 1) {
        if let Some((n, s)) = last
            && strides[i] != n as isize * s
        {
            return false;
        }
        last = Some((shape[i], strides[i]));
    }
    true
}

/// Copies an operand, arranged as `order`, to C order unless `groups` of axes are even.
fn fitted<'a, T: Product>(view: ArrayViewD<'a, T>, groups: &[(usize, usize)]) -> CowArray<'a, T, IxDyn> {
    if groups.iter().all(|&(f, t)| even(view.shape(), view.strides(), f, t)) {
        return CowArray::from(view);
    }
    let standard = view.as_standard_layout().into_owned();
    CowArray::from(standard)
}

/// Merges axes `from..to` of an even group into one.
fn merged<'a, T>(mut view: ArrayViewD<'a, T>, from: usize, to: usize) -> ArrayViewD<'a, T> {
    if from == to {
        return view.insert_axis(Axis(from));
    }
    for _ in from + 1..to {
        view.merge_axes(Axis(from), Axis(from + 1));
        view = view.index_axis_move(Axis(from), 0);
    }
    view
}

/// As [`merged`], for writing.
fn merged_mut<'a, T>(mut view: ArrayViewMutD<'a, T>, from: usize, to: usize) -> ArrayViewMutD<'a, T> {
    if from == to {
        return view.insert_axis(Axis(from));
    }
    for _ in from + 1..to {
        view.merge_axes(Axis(from), Axis(from + 1));
        view = view.index_axis_move(Axis(from), 0);
    }
    view
}

/// How the labels of two operands and of an output make a stack of matrix products.
struct Pairing {
    /// Labels that are looped over.
    loops: Vec<u32>,
    rows: Vec<u32>,
    columns: Vec<u32>,
    /// The contracted labels.
    inner: Vec<u32>,
}

impl Pairing {
    fn new<T: Product>(a: &Operand<'_, T>, b: &Operand<'_, T>, c: ArrayViewMutD<'_, T>, out: &[u32]) -> Pairing {
        let has = |labels: &[u32], l: u32| labels.contains(&l);
        let pick = |keep: &dyn Fn(u32) -> bool| -> Vec<u32> { out.iter().copied().filter(|&l| keep(l)).collect() };
        let mut loops = pick(&|l| has(&a.labels, l) && has(&b.labels, l));
        let mut rows = pick(&|l| has(&a.labels, l) && !has(&b.labels, l));
        let mut columns = pick(&|l| has(&b.labels, l) && !has(&a.labels, l));
        // The contracted labels from slow to fast in `a`.
        let mut inner: Vec<(isize, u32)> =
            (0..a.labels.len()).filter(|&i| !has(out, a.labels[i])).map(|i| (-a.array.strides()[i].abs(), a.labels[i])).collect();
        inner.sort_by_key(|x| x.0);

        // Leading rows and columns become loops until what remains lies evenly in the output.
        let at = |l: u32| place(out, l).unwrap_or(0);
        let uneven = |group: &[u32]| {
            let shape: Vec<usize> = group.iter().map(|&l| c.shape()[at(l)]).collect();
            let strides: Vec<isize> = group.iter().map(|&l| c.strides()[at(l)]).collect();
            (0..group.len()).find(|&k| even(&shape, &strides, k, group.len())).unwrap_or(0)
        };
        for group in [&mut rows, &mut columns] {
            let k = uneven(group);
            loops.extend(group.drain(..k));
        }
        Pairing { loops, rows, columns, inner: inner.into_iter().map(|x| x.1).collect() }
    }

    /// The labels of an operand in the order in which it is multiplied.
    fn order(&self, labels: &[u32], first: &[u32], second: &[u32]) -> Vec<u32> {
        self.loops.iter().filter(|l| labels.contains(l)).chain(first).chain(second).copied().collect()
    }

    /// True if the second operand is the first one transposed, as the memory that they look at says.
    fn symmetric<T: Product>(&self, a: &Operand<'_, T>, b: &Operand<'_, T>) -> bool {
        let lies = |x: &Operand<'_, T>, order: Vec<u32>| -> Vec<(usize, isize)> {
            let axes = order.iter().filter_map(|&l| place(&x.labels, l));
            axes.map(|i| (x.array.shape()[i], x.array.strides()[i])).collect()
        };
        self.loops.iter().all(|l| a.labels.contains(l) && b.labels.contains(l))
            && std::ptr::eq(a.array.as_ptr(), b.array.as_ptr())
            && lies(a, self.order(&a.labels, &self.rows, &self.inner)) == lies(b, self.order(&b.labels, &self.columns, &self.inner))
    }

    /// `c += a b` over all labels; `how` says whether only the lower half is wanted, and how many threads may work.
    fn add<T: Product>(&self, a: &Operand<'_, T>, b: &Operand<'_, T>, c: ArrayViewMutD<'_, T>, out: &[u32], how: (bool, usize)) {
        let Pairing { loops, rows, columns, inner } = self;
        let (l, r) = (self.order(&a.labels, rows, inner), self.order(&b.labels, inner, columns));
        let (nl, nr) = (l.len() - rows.len() - inner.len(), r.len() - columns.len() - inner.len());
        let (m, n, k) = (rows.len(), columns.len(), inner.len());
        let av = fitted(arrange(a.array.view(), &a.labels, &l), &[(nl, nl + m), (nl + m, nl + m + k)]);
        let bv = fitted(arrange(b.array.view(), &b.labels, &r), &[(nr, nr + k), (nr + k, nr + k + n)]);
        let axes: Vec<usize> = loops.iter().chain(rows).chain(columns).filter_map(|&l| place(out, l)).collect();
        let cv = c.permuted_axes(IxDyn(&axes));
        let nc = loops.len();

        let av = merged(merged(av.view(), nl + m, nl + m + k), nl, nl + m);
        let bv = merged(merged(bv.view(), nr + k, nr + k + n), nr, nr + k);
        let cv = merged_mut(merged_mut(cv, nc + m, nc + m + n), nc, nc + m);
        let uses: Vec<(bool, bool)> = loops.iter().map(|x| (l.contains(x), r.contains(x))).collect();
        each(&uses, av, bv, cv, how);
    }
}

/// Runs the loops, then the matrix product.
fn each<T: Product>(
    uses: &[(bool, bool)],
    a: ArrayViewD<'_, T>,
    b: ArrayViewD<'_, T>,
    mut c: ArrayViewMutD<'_, T>,
    (lower, threads): (bool, usize),
) {
    let Some((&(in_a, in_b), rest)) = uses.split_first() else {
        let (a, b, c) = (a.into_dimensionality::<Ix2>(), b.into_dimensionality::<Ix2>(), c.into_dimensionality::<Ix2>());
        if let (Ok(a), Ok(b), Ok(c)) = (a, b, c) {
            matmul(c, a, b, lower, threads);
        }
        return;
    };
    for i in 0..c.shape()[0] {
        let a = if in_a { a.index_axis(Axis(0), i) } else { a.view() };
        let b = if in_b { b.index_axis(Axis(0), i) } else { b.view() };
        each(rest, a, b, c.index_axis_mut(Axis(0), i), (lower, threads));
    }
}

impl KernelKind for Contract {
    fn name(&self) -> &'static str {
        "contract"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        self.check_output(at.inputs, at.output)
    }

    fn demand(&self, at: Types<'_>, region: &Region, window: Option<&Window>) -> DemandList {
        window.map_or_else(|| self.demand(region, &self.window(at.inputs, region)), |window| self.demand(region, window))
    }

    fn traits(&self) -> Traits {
        Traits { turns: true, whole: true, ..Traits::PLAIN }
    }

    fn work(&self, at: Types<'_>) -> Work {
        let contracted: f64 = self.contracted_lengths(at.inputs).iter().map(|&n| n as f64).product();
        Work { bytes: 0.0, operations: 2.0 * chunkwise_types::volume(&at.output.shape) as f64 * contracted }
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

impl Foldable for Contract {
    fn indices(&self) -> Vec<Along> {
        let along = |l| [&self.a, &self.b].into_iter().enumerate().filter_map(|(input, own)| Some((input, place(own, l)?))).collect();
        self.contracted().into_iter().map(along).collect()
    }

    fn window(&self, at: Types<'_>, region: &Region) -> Window {
        self.window(at.inputs, region)
    }

    fn start(&self, at: Types<'_>, region: &Region) -> Result<Box<dyn Fold>, KernelError> {
        self.start(at.inputs, at.output, region)
    }

    fn accumulator(&self, at: Types<'_>, region: &Region) -> u64 {
        // A fold of segments joins its results.
        at.output_bytes(region).saturating_mul(if self.segments.is_some() { 2 } else { 1 })
    }

    fn fold_scratch(&self, at: Types<'_>, demanded: &[u64]) -> u64 {
        // An operand that is summed or does not lie evenly is copied; GEMM packs panels of both.
        let copies: Vec<u64> = demanded.iter().zip(self.copied()).map(|(&v, copied)| if copied { v } else { 0 }).collect();
        at.bytes(&copies).saturating_add(panels(at.bytes(demanded)))
    }

    fn reduces(&self) -> Option<Vec<usize>> {
        None
    }

    fn runs(&self, _: &Window) -> Vec<usize> {
        Vec::new()
    }

    fn rounds(&self, at: Types<'_>, segments: &[AxisChunks], cut: usize) -> Option<Rounds> {
        // Partial results are not cut again.
        if self.segments.is_some() {
            return None;
        }
        let (label, segments) = (*self.contracted().get(cut)?, segments.get(cut)?.clone());
        let shape = std::iter::once(segments.count()).chain(at.output.shape.iter().copied()).collect();
        let function = if at.output.dtype == DType::Bool { ReduceOp::Any } else { ReduceOp::Sum };
        Some(Rounds {
            first: Kernel::Contract(Contract { segments: Some((label, segments)), ..self.clone() }),
            partial: ArrayType::new(at.output.dtype, shape),
            along: 0,
            second: Kernel::Reduce { function, axes: vec![0], segments: None },
        })
    }
}

#[cfg(test)]
#[path = "contract_tests.rs"]
mod tests;
