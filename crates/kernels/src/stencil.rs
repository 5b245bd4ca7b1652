//! Weighted sums and reductions over a window around each element.

use crate::elementwise::Arr;
use crate::kind::{Compute, Evaluation, KernelKind, Traits, Types, Work};
use crate::{ArrayType, Block, BlockElement, Demand, DemandList, KernelError, Part, ViewAxis, Window, cast, check};
use chunkwise_types::{DType, DTypeKind, Region};
use ndarray::{Array, ArrayViewD, ArrayViewMutD, Axis, IxDyn, Slice, Zip};
use num_complex::{Complex32, Complex64};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::smallvec;

/// A function of the window at each element. Nothing is padded: an axis of the input is `window - 1` longer than the output's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stencil {
    /// The length of the window on each axis, at least 1.
    pub window: Vec<u64>,
    /// The function.
    pub function: StencilOp,
}

/// What is computed from a window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StencilOp {
    /// The sum of the elements times these weights, in C order of the window (a correlation); weights of 0 are left out.
    Weights(Vec<f64>),
    /// The sum; integers wrap.
    Sum,
    /// The mean.
    Mean,
    /// The least element, NaN if there is one.
    Min,
    /// The greatest element, NaN if there is one.
    Max,
}

impl Stencil {
    /// The largest number of elements in a window.
    pub const MAX_WINDOW: u64 = 1 << 16;

    /// Refuses windows and weights that do not fit the input, and outputs that do not come out.
    pub(crate) fn check(&self, inputs: &[ArrayType], output: &ArrayType) -> Result<(), KernelError> {
        let input = check::one(inputs)?;
        if self.window.len() != input.shape.len() || self.window.contains(&0) {
            return check::invalid("a window needs a length of at least 1 for each axis of the input");
        }
        let count = chunkwise_types::volume(&self.window);
        if count > Self::MAX_WINDOW {
            return check::invalid(format!("a window may have at most {} elements", Self::MAX_WINDOW));
        }
        let kind = input.dtype.kind();
        let defined = match &self.function {
            StencilOp::Weights(w) if w.len() as u64 != count => {
                return check::invalid(format!("{} weights for a window of shape {:?}", w.len(), self.window));
            }
            StencilOp::Weights(_) | StencilOp::Mean => input.dtype.is_inexact(),
            StencilOp::Sum => kind != DTypeKind::Bool,
            StencilOp::Min | StencilOp::Max => kind != DTypeKind::Complex,
        };
        if !defined {
            return Err(KernelError::DType { op: "this stencil".into(), dtype: input.dtype });
        }
        let made: Option<Vec<u64>> = input.shape.iter().zip(&self.window).map(|(n, w)| n.checked_sub(w - 1)).collect();
        check::shape(output, &made.ok_or_else(|| KernelError::Invalid("the window is longer than the input".into()))?)?;
        check::dtype(output, input.dtype)
    }

    /// The region of the input that a region of the output needs.
    pub fn demand(&self, region: &Region) -> Region {
        let shape = region.shape.iter().zip(&self.window).map(|(n, w)| n + w.max(&1) - 1).collect();
        Region { start: region.start.clone(), shape }
    }
}

/// Elements that add up under weights.
trait Sums: BlockElement {
    fn plus(self, b: Self) -> Self;
    fn times(self, w: f64) -> Self;
}
/// Elements that have an order.
trait Ordered: BlockElement {
    fn larger(self, b: Self) -> Self;
    fn smaller(self, b: Self) -> Self;
}

macro_rules! sums {
    ($($t:ty: |$a:ident, $b:ident| $plus:expr, |$w:ident| $times:expr;)*) => {$(
        impl Sums for $t {
            #[inline]
            fn plus(self, $b: Self) -> Self { let $a = self; $plus }
            #[inline]
            fn times(self, $w: f64) -> Self { let $a = self; $times }
        }
    )*};
}
macro_rules! integers {
    ($($t:ty)*) => {$(
        // Weights never meet integers: the planner casts to a float dtype first, and `compute` refuses the rest.
        sums! { $t: |a, b| a.wrapping_add(b), |w| (a as f64 * w) as $t; }
        impl Ordered for $t {
            #[inline]
            fn larger(self, b: Self) -> Self { self.max(b) }
            #[inline]
            fn smaller(self, b: Self) -> Self { self.min(b) }
        }
    )*};
}
macro_rules! floats {
    ($($t:ty)*) => {$(
        sums! { $t: |a, b| a + b, |w| a * w as $t; }
        impl Ordered for $t {
            #[inline]
            fn larger(self, b: Self) -> Self { if self >= b || self.is_nan() { self } else { b } }
            #[inline]
            fn smaller(self, b: Self) -> Self { if self <= b || self.is_nan() { self } else { b } }
        }
    )*};
}
integers! { i8 i16 i32 i64 u8 u16 u32 u64 }
floats! { f32 f64 }
sums! { Complex32: |a, b| a + b, |w| a * w as f32; Complex64: |a, b| a + b, |w| a * w; }
impl Ordered for bool {
    fn larger(self, b: Self) -> Self {
        self | b
    }
    fn smaller(self, b: Self) -> Self {
        self & b
    }
}

/// The elements of the output that are computed together, so that they stay in the cache from one offset to the next.
const TILE: usize = 16 * 1024;

/// Combines the shifted views of the input, one for each offset that has a weight.
fn windows<T: BlockElement>(
    a: &Arr<T>,
    window: &[u64],
    weights: &[(u64, f64)],
    first: fn(&mut ArrayViewMutD<'_, T>, &ArrayViewD<'_, T>, f64),
    next: impl Fn(T, T, f64) -> T + Copy,
) -> Block {
    let shape: Vec<usize> = a.shape().iter().zip(window).map(|(n, &w)| (n + 1).saturating_sub(w as usize)).collect();
    let mut out = Array::from_elem(IxDyn(&shape), T::default());
    let offsets: Vec<(Vec<usize>, f64)> =
        weights.iter().map(|&(k, w)| (chunkwise_types::unravel(k, window).into_iter().map(|i| i as usize).collect(), w)).collect();
    let tile = |mut out: ArrayViewMutD<'_, T>, row: usize| {
        for (n, (offset, w)) in offsets.iter().enumerate() {
            let mut view: ArrayViewD<'_, T> = a.view();
            for (axis, (&o, &len)) in offset.iter().zip(out.shape()).enumerate() {
                let o = if axis == 0 { o + row } else { o };
                view.slice_axis_inplace(Axis(axis), Slice::from(o..o + len));
            }
            if n == 0 {
                first(&mut out, &view, *w);
            } else {
                Zip::from(&mut out).and(&view).for_each(|x, &y| *x = next(*x, y, *w));
            }
        }
    };
    if shape.is_empty() {
        tile(out.view_mut(), 0);
    } else if !out.is_empty() {
        let rows = (TILE / (out.len() / shape[0])).max(1);
        for (i, part) in out.axis_chunks_iter_mut(Axis(0), rows).enumerate() {
            tile(part, i * rows);
        }
    }
    T::wrap(out.into_shared())
}

/// The elements at the first offset as they are.
fn plain<T: BlockElement>(out: &mut ArrayViewMutD<'_, T>, view: &ArrayViewD<'_, T>, _: f64) {
    out.assign(view);
}

/// The elements at the first offset times their weight.
fn scaled<T: Sums>(out: &mut ArrayViewMutD<'_, T>, view: &ArrayViewD<'_, T>, w: f64) {
    Zip::from(out).and(view).for_each(|x, &y| *x = y.times(w));
}

fn ordered<T: Ordered>(a: &Arr<T>, s: &Stencil, all: &[(u64, f64)]) -> Block {
    match s.function {
        StencilOp::Min => windows(a, &s.window, all, plain, |x, y, _| x.smaller(y)),
        _ => windows(a, &s.window, all, plain, |x, y, _| x.larger(y)),
    }
}

fn summed<T: Sums>(a: &Arr<T>, s: &Stencil, all: &[(u64, f64)]) -> Block {
    windows(a, &s.window, all, plain, |x, y, _| x.plus(y))
}

fn weighted<T: Sums>(a: &Arr<T>, s: &Stencil, all: &[(u64, f64)]) -> Block {
    let used: Vec<(u64, f64)> = match &s.function {
        StencilOp::Weights(weights) => (0..).zip(weights.iter().copied()).filter(|(_, w)| *w != 0.0).collect(),
        StencilOp::Mean => all.iter().map(|&(k, _)| (k, 1.0 / all.len() as f64)).collect(),
        _ => return summed(a, s, all),
    };
    windows(a, &s.window, &used, scaled, |x, y, w| x.plus(y.times(w)))
}

/// The output from the demanded block, which is converted to the output's dtype if it has another.
pub(crate) fn compute(s: &Stencil, out: DType, block: &Block) -> Result<Block, KernelError> {
    let shape = block.shape();
    if s.window.len() != shape.len() || s.window.contains(&0) {
        return Err(KernelError::Invalid(format!("a window of shape {:?} does not fit an array of shape {shape:?}", s.window)));
    }
    let count = chunkwise_types::volume(&s.window);
    if let StencilOp::Weights(w) = &s.function
        && w.len() as u64 != count
    {
        return Err(KernelError::Invalid(format!("{} weights for a window of shape {:?}", w.len(), s.window)));
    }
    let all: Vec<(u64, f64)> = (0..count).map(|k| (k, 1.0)).collect();
    let (name, float_only, order) = match s.function {
        StencilOp::Weights(_) => ("a weighted stencil", true, false),
        StencilOp::Mean => ("a mean stencil", true, false),
        StencilOp::Sum => ("a sum stencil", false, false),
        StencilOp::Min => ("a minimum stencil", false, true),
        StencilOp::Max => ("a maximum stencil", false, true),
    };
    let refuse = || KernelError::DType { op: name.into(), dtype: out };
    if float_only && !out.is_inexact() {
        return Err(refuse());
    }
    macro_rules! both {
        ($a:ident, $sums:ident) => {
            if order { ordered($a, s, &all) } else { $sums($a, s, &all) }
        };
    }
    Ok(match &cast(block, out) {
        Block::Bool(a) if order => ordered(a, s, &all),
        Block::Complex64(a) if !order => weighted(a, s, &all),
        Block::Complex128(a) if !order => weighted(a, s, &all),
        Block::Bool(_) | Block::Complex64(_) | Block::Complex128(_) => return Err(refuse()),
        Block::Int8(a) => both!(a, summed),
        Block::Int16(a) => both!(a, summed),
        Block::Int32(a) => both!(a, summed),
        Block::Int64(a) => both!(a, summed),
        Block::UInt8(a) => both!(a, summed),
        Block::UInt16(a) => both!(a, summed),
        Block::UInt32(a) => both!(a, summed),
        Block::UInt64(a) => both!(a, summed),
        Block::Float32(a) => both!(a, weighted),
        Block::Float64(a) => both!(a, weighted),
    })
}

impl KernelKind for Stencil {
    fn name(&self) -> &'static str {
        "stencil"
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        self.check(at.inputs, at.output)
    }

    fn demand(&self, _: Types<'_>, region: &Region, _: Option<&Window>) -> DemandList {
        smallvec![Demand { input: 0, region: self.demand(region) }]
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
        Evaluation::AtOnce(self)
    }
}

impl Compute for Stencil {
    fn compute(&self, at: Types<'_>, _: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        compute(self, at.output.dtype, &parts[0].block)
    }

    fn scratch(&self, at: Types<'_>, region: &Region, _: &[u64]) -> u64 {
        at.output_bytes(region)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Block {
        f64::wrap(Array::from_shape_vec((3, 4), (0..12).map(f64::from).collect()).unwrap().into_dyn().into_shared())
    }

    fn run(window: &[u64], function: StencilOp, out: DType, block: &Block) -> Vec<f64> {
        let got = compute(&Stencil { window: window.to_vec(), function }, out, block).unwrap();
        assert_eq!(got.dtype(), out);
        f64::unwrap(&cast(&got, DType::Float64)).unwrap().iter().copied().collect()
    }

    #[test]
    fn every_function() {
        assert_eq!(run(&[2, 3], StencilOp::Sum, DType::Float64, &grid()), [18.0, 24.0, 42.0, 48.0]);
        assert_eq!(run(&[2, 2], StencilOp::Mean, DType::Float32, &grid()), [2.5, 3.5, 4.5, 6.5, 7.5, 8.5]);
        assert_eq!(run(&[3, 3], StencilOp::Min, DType::Int32, &grid()), [0.0, 1.0]);
        assert_eq!(run(&[3, 3], StencilOp::Max, DType::UInt8, &grid()), [10.0, 11.0]);
        let laplace = StencilOp::Weights(vec![0.0, 1.0, 0.0, 1.0, -4.0, 1.0, 0.0, 1.0, 0.0]);
        assert_eq!(run(&[3, 3], laplace, DType::Float64, &grid()), [0.0, 0.0]);
        // A correlation, not a convolution.
        assert_eq!(run(&[3, 2], StencilOp::Weights(vec![0.0, 2.0, 0.0, 0.0, 0.0, 0.0]), DType::Float64, &grid()), [2.0, 4.0, 6.0]);
        assert_eq!(run(&[3, 3], StencilOp::Weights(vec![0.0; 9]), DType::Float64, &grid()), [0.0, 0.0]);
    }

    #[test]
    fn tiles_agree_with_the_whole() {
        let n = 3 * TILE;
        let block = f64::wrap(Array::from_iter((0..n).map(|i| (i % 1000) as f64)).into_dyn().into_shared());
        let got = run(&[3], StencilOp::Weights(vec![1.0, 10.0, 100.0]), DType::Float64, &block);
        let want: Vec<f64> = (0..n - 2).map(|i| (i % 1000 + (i + 1) % 1000 * 10 + (i + 2) % 1000 * 100) as f64).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn what_is_refused() {
        use crate::check::tests::{check, ty};
        let kernel = |window: &[u64], function| crate::Kernel::Stencil(Stencil { window: window.to_vec(), function });
        let x = [ty(DType::Float64, &[4, 6])];
        let ok = |window: &[u64], function, shape: &[u64]| check(&kernel(window, function), &x, DType::Float64, shape).is_ok();
        assert!(ok(&[1, 3], StencilOp::Mean, &[4, 4]) && ok(&[4, 6], StencilOp::Sum, &[1, 1]) && ok(&[5, 1], StencilOp::Min, &[0, 6]));
        assert!(ok(&[1, 2], StencilOp::Weights(vec![1.0, 2.0]), &[4, 5]) && !ok(&[1, 2], StencilOp::Weights(vec![1.0]), &[4, 5]));
        assert!(!ok(&[1, 3], StencilOp::Mean, &[4, 6]) && !ok(&[3], StencilOp::Sum, &[2, 6]) && !ok(&[1, 1, 1], StencilOp::Sum, &[4, 6]));
        assert!(!ok(&[0, 1], StencilOp::Sum, &[4, 6]) && !ok(&[6, 1], StencilOp::Sum, &[0, 6]) && !ok(&[1, 3], StencilOp::Sum, &[4]));
        assert!(!ok(&[u64::MAX, 1], StencilOp::Sum, &[4, 6]) && !ok(&[u64::MAX, 2], StencilOp::Sum, &[4, 6]));
        let one = |function, input, output| check(&kernel(&[1], function), &[ty(input, &[3])], output, &[3]).is_ok();
        assert!(one(StencilOp::Max, DType::Bool, DType::Bool) && !one(StencilOp::Sum, DType::Bool, DType::Bool));
        assert!(!one(StencilOp::Max, DType::Complex64, DType::Complex64) && !one(StencilOp::Mean, DType::Int8, DType::Int8));
        assert!(!one(StencilOp::Sum, DType::Int8, DType::Int64));
        let long = [ty(DType::Int8, &[1 << 20])];
        assert!(check(&kernel(&[1 << 17], StencilOp::Sum), &long, DType::Int8, &[(1 << 20) - (1 << 17) + 1]).is_err());
    }

    #[test]
    fn special_cases() {
        let nan = f64::wrap(Array::from_vec(vec![1.0, f64::NAN, 0.0, 3.0]).into_dyn().into_shared());
        for function in [StencilOp::Min, StencilOp::Max] {
            let got = run(&[2], function, DType::Float64, &nan);
            assert!(got[0].is_nan() && got[1].is_nan() && !got[2].is_nan());
        }
        let bytes = Block::zeros(DType::Int8, &[0, 4]);
        assert!(run(&[1, 2], StencilOp::Sum, DType::Int8, &bytes).is_empty());
        let fail = |window: &[u64], function, out| compute(&Stencil { window: window.to_vec(), function }, out, &grid()).is_err();
        assert!(fail(&[2], StencilOp::Sum, DType::Float64));
        assert!(fail(&[2, 0], StencilOp::Sum, DType::Float64));
        assert!(fail(&[1, 1], StencilOp::Mean, DType::Int32));
        assert!(fail(&[1, 1], StencilOp::Max, DType::Complex64));
        assert!(fail(&[1, 1], StencilOp::Weights(vec![]), DType::Float64));
        let s = Stencil { window: vec![3, 1], function: StencilOp::Sum };
        assert_eq!(s.demand(&Region::new([4, 5], [2, 2])), Region::new([4, 5], [4, 2]));
    }
}
