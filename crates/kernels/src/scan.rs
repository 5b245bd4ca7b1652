//! Cumulative functions along an axis, in segments that are computed apart.
//!
//! The axis is cut into segments. A first pass reduces each segment, the results are scanned in turn, and the last pass scans each segment
//! from what was found of all segments before it (Blelloch, "Prefix sums and their applications", 1990). So a task needs its own segment and
//! one number for each of its lines. An element is computed in the same way whatever region asks for it: from the beginning of its segment.

use crate::block::from_vec;
use crate::kind::{Compute, Evaluation, KernelKind, Traits, Types, Work};
use crate::reduce::{Element, Ordered, SumState, Wide, with_inexact, with_real};
use crate::{ArrayType, Block, BlockElement, Demand, DemandList, KernelError, Part, ViewAxis, Window, check};
use chunkwise_types::{AxisChunks, DType, DTypeKind, Region, volume};
use num_complex::{Complex32, Complex64};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::smallvec;

/// A function of an element and all elements before it along an axis.
///
/// The first input is the array. A second input, if there is one, has an element for each segment: the function of all elements up to the end
/// of that segment. Without it every segment begins anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scan {
    /// The function.
    pub function: ScanOp,
    /// The axis.
    pub axis: usize,
    /// How the axis is cut.
    pub segments: AxisChunks,
    /// Only the last element of each segment is wanted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
}

/// What is computed of the elements so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ScanOp {
    /// The sum; integers wrap.
    Sum,
    /// The product; integers wrap.
    Prod,
    /// The least element, NaN if there is one.
    Min,
    /// The greatest element, NaN if there is one.
    Max,
    /// The last element that is not NaN.
    Last,
}

impl ScanOp {
    /// The name in pipelines.
    pub fn name(self) -> &'static str {
        match self {
            ScanOp::Sum => "cumulative_sum",
            ScanOp::Prod => "cumulative_prod",
            ScanOp::Min => "cumulative_min",
            ScanOp::Max => "cumulative_max",
            ScanOp::Last => "ffill",
        }
    }

    /// The dtype of what is carried from segment to segment: wider than the result, so that rounding does not add up.
    pub fn carried(self, dtype: DType) -> DType {
        match (self, dtype.kind()) {
            (ScanOp::Sum | ScanOp::Prod, DTypeKind::Float) => DType::Float64,
            (ScanOp::Sum | ScanOp::Prod, DTypeKind::Complex) => DType::Complex128,
            _ => dtype,
        }
    }

    /// True if it is defined for elements of this dtype.
    fn takes(self, dtype: DType) -> bool {
        match self {
            ScanOp::Sum | ScanOp::Prod => dtype.is_inexact() || matches!(dtype, DType::Int64 | DType::UInt64),
            ScanOp::Min | ScanOp::Max => dtype.kind() != DTypeKind::Complex,
            ScanOp::Last => dtype.is_inexact(),
        }
    }
}

/// What is known of the elements of one line so far.
trait State<T>: Copy {
    /// What is carried from one segment to the next.
    type Carried: BlockElement;
    /// Before the first element.
    const NONE: Self;
    fn of(carried: Self::Carried) -> Self;
    fn take(&mut self, x: T) -> T;
}

/// Elements of results, narrower than what they are computed in.
trait Narrow: Element {
    fn narrow(wide: Self::Wide) -> Self;
}
macro_rules! narrow {
    ($($t:ty: |$w:ident| $e:expr;)*) => {$(
        impl Narrow for $t {
            #[inline(always)]
            fn narrow($w: Self::Wide) -> Self { $e }
        }
    )*};
}
narrow! { i64: |w| w; u64: |w| w; f32: |w| w as f32; f64: |w| w; Complex64: |w| w; Complex32: |w| Complex32::new(w.re as f32, w.im as f32); }

#[derive(Clone, Copy)]
struct Sum<T: Element>(T::Sum);
impl<T: Narrow> State<T> for Sum<T>
where
    T::Sum: Start,
{
    type Carried = T::Wide;
    const NONE: Self = Sum(T::Sum::START);
    #[inline(always)]
    fn of(carried: T::Wide) -> Self {
        let mut sum = T::Sum::START;
        sum.take(carried);
        Sum(sum)
    }
    #[inline(always)]
    fn take(&mut self, x: T) -> T {
        self.0.take(x.wide());
        T::narrow(self.0.value())
    }
}

/// The state of a sum of nothing.
trait Start {
    const START: Self;
}
impl<W: Wide> Start for W {
    const START: W = W::ZERO;
}
impl<W: Wide> Start for (W, W) {
    const START: (W, W) = (W::ZERO, W::ZERO);
}

#[derive(Clone, Copy)]
struct Prod<T: Element>(T::Wide);
impl<T: Narrow> State<T> for Prod<T> {
    type Carried = T::Wide;
    const NONE: Self = Prod(T::Wide::ONE);
    #[inline(always)]
    fn of(carried: T::Wide) -> Self {
        Prod(carried)
    }
    #[inline(always)]
    fn take(&mut self, x: T) -> T {
        self.0 = self.0.times(x.wide());
        T::narrow(self.0)
    }
}

#[derive(Clone, Copy)]
struct Extreme<T, const GREATEST: bool>(T);
impl<T: Ordered, const GREATEST: bool> State<T> for Extreme<T, GREATEST> {
    type Carried = T;
    const NONE: Self = Extreme(if GREATEST { T::LOW } else { T::HIGH });
    #[inline(always)]
    fn of(carried: T) -> Self {
        Extreme(carried)
    }
    #[inline(always)]
    fn take(&mut self, x: T) -> T {
        let stays = if GREATEST { self.0 >= x } else { self.0 <= x };
        self.0 = if stays || self.0.nan() { self.0 } else { x };
        self.0
    }
}

#[derive(Clone, Copy)]
struct Last<T>(T);
impl<T: Element + Missing> State<T> for Last<T> {
    type Carried = T;
    const NONE: Self = Last(T::MISSING);
    #[inline(always)]
    fn of(carried: T) -> Self {
        Last(carried)
    }
    #[inline(always)]
    fn take(&mut self, x: T) -> T {
        self.0 = if x.valid() { x } else { self.0 };
        self.0
    }
}

/// Elements among which NaN stands for what is missing.
trait Missing {
    const MISSING: Self;
}
macro_rules! missing {
    ($($t:ty: $e:expr;)*) => {$( impl Missing for $t { const MISSING: $t = $e; } )*};
}
missing! { f32: f32::NAN; f64: f64::NAN; Complex32: Complex32::new(f32::NAN, f32::NAN); Complex64: Complex64::new(f64::NAN, f64::NAN); }

/// Lines that are next to each other in memory and go on together.
const BESIDE: usize = 2048;
/// Lines of their own memory that go on together, so that no line waits for its own last sum.
const ABREAST: usize = 8;

/// A part of the axis that lies in one segment.
struct Piece {
    /// Where it begins in the input.
    from: usize,
    /// Its length.
    len: usize,
    /// How many of its first elements are not wanted.
    skipped: usize,
    /// Where the first one that is wanted lies in the output.
    to: usize,
    /// Where in the second input is what it begins from.
    carried: Option<usize>,
}

/// Arrays of three axes in C order: what is before the axis, the axis, and what is behind it.
struct Lines<'a, T, C> {
    x: &'a [T],
    carried: &'a [C],
    before: usize,
    /// The lengths of the axis in the input, the second input and the output.
    lengths: [usize; 3],
    behind: usize,
    ends: bool,
}

impl<T: BlockElement, C: BlockElement> Lines<'_, T, C> {
    fn run<S: State<T, Carried = C>>(&self, pieces: &[Piece], out: &mut [T]) {
        let mut states = vec![S::NONE; BESIDE.min(self.behind).max(ABREAST)];
        for piece in pieces {
            if self.behind == 1 {
                for first in (0..self.before).step_by(ABREAST) {
                    self.abreast(piece, first..self.before.min(first + ABREAST), &mut states, out);
                }
            } else {
                for line in 0..self.before {
                    for first in (0..self.behind).step_by(BESIDE) {
                        self.beside(piece, line, first..self.behind.min(first + BESIDE), &mut states, out);
                    }
                }
            }
        }
    }

    fn begin<S: State<T, Carried = C>>(&self, piece: &Piece, line: usize, behind: usize) -> S {
        piece.carried.map_or(S::NONE, |k| S::of(self.carried[(line * self.lengths[1] + k) * self.behind + behind]))
    }

    /// Elements of a row behind the axis, one row after another.
    fn beside<S: State<T, Carried = C>>(&self, piece: &Piece, line: usize, row: std::ops::Range<usize>, states: &mut [S], out: &mut [T]) {
        let states = &mut states[..row.len()];
        states.iter_mut().zip(row.clone()).for_each(|(s, j)| *s = self.begin(piece, line, j));
        let [n, _, m] = self.lengths;
        for i in 0..piece.len {
            let from = (line * n + piece.from + i) * self.behind;
            let x = &self.x[from + row.start..from + row.end];
            let wanted = if self.ends { i + 1 == piece.len } else { i >= piece.skipped };
            if wanted {
                let at = piece.to + if self.ends { 0 } else { i - piece.skipped };
                let to = (line * m + at) * self.behind;
                let y = &mut out[to + row.start..to + row.end];
                y.iter_mut().zip(states.iter_mut().zip(x)).for_each(|(y, (s, &x))| *y = s.take(x));
            } else {
                states.iter_mut().zip(x).for_each(|(s, &x)| {
                    s.take(x);
                });
            }
        }
    }

    /// Lines that are whole in memory.
    fn abreast<S: State<T, Carried = C>>(&self, piece: &Piece, lines: std::ops::Range<usize>, states: &mut [S], out: &mut [T]) {
        let [n, _, m] = self.lengths;
        let mut of: [&[T]; ABREAST] = [&[]; ABREAST];
        let count = lines.len();
        for (k, line) in lines.clone().enumerate() {
            of[k] = &self.x[line * n + piece.from..line * n + piece.from + piece.len];
            states[k] = self.begin(piece, line, 0);
        }
        let skipped = if self.ends { piece.len.saturating_sub(1) } else { piece.skipped };
        for i in 0..skipped {
            states.iter_mut().zip(&of).take(count).for_each(|(state, x)| {
                state.take(x[i]);
            });
        }
        for i in skipped..piece.len {
            for (k, (state, x)) in states.iter_mut().zip(&of).enumerate().take(count) {
                out[(lines.start + k) * m + piece.to + i - skipped] = state.take(x[i]);
            }
        }
    }
}

impl Scan {
    /// The segments of a region of the output, and the range of the input's axis that it needs.
    fn needed(&self, region: &Region) -> (std::ops::Range<u64>, std::ops::Range<u64>) {
        let (start, len) = (region.start[self.axis], region.shape[self.axis]);
        if self.ends {
            let (last, n) = self.segments.bounds(start + len - 1);
            (start..start + len, self.segments.bounds(start).0..last + n)
        } else {
            let touched = self.segments.touched(start, len);
            (touched.clone(), self.segments.bounds(touched.start).0..start + len)
        }
    }

    /// The part of the second input that these segments begin from.
    fn before(segments: &std::ops::Range<u64>) -> std::ops::Range<u64> {
        segments.start.saturating_sub(1)..segments.end - 1
    }

    fn pieces(&self, region: &Region, carries: bool) -> Vec<Piece> {
        let (segments, range) = self.needed(region);
        let (first, from) = (Scan::before(&segments).start, region.start[self.axis]);
        let piece = |k: u64| {
            let (start, len) = self.segments.bounds(k);
            let (end, carried) = ((start + len).min(range.end), (carries && k > 0).then(|| (k - 1 - first) as usize));
            let (skipped, to) = if self.ends { (0, k - segments.start) } else { (from.saturating_sub(start), start.max(from) - from) };
            Piece { from: (start - range.start) as usize, len: (end - start) as usize, skipped: skipped as usize, to: to as usize, carried }
        };
        segments.clone().map(piece).collect()
    }

    fn lines<T: BlockElement, S: State<T>>(&self, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        let wrong = || KernelError::Invalid(format!("{} was given a block of another dtype", self.function.name()));
        let blocks: Vec<Block> = parts.iter().map(|p| p.block.contiguous()).collect();
        let x = blocks.first().and_then(T::unwrap).and_then(|a| a.as_slice()).ok_or_else(wrong)?;
        let carried = match blocks.get(1) {
            Some(block) => S::Carried::unwrap(block).and_then(|a| a.as_slice()).ok_or_else(wrong)?,
            None => &[],
        };
        let length = |p: Option<&Part>| p.map_or(0, |p| p.region.shape[self.axis] as usize);
        let lines = Lines {
            x,
            carried,
            before: volume(&region.shape[..self.axis]) as usize,
            lengths: [length(parts.first()), length(parts.get(1)), region.shape[self.axis] as usize],
            behind: volume(&region.shape[self.axis + 1..]) as usize,
            ends: self.ends,
        };
        let mut out = vec![T::default(); region.volume() as usize];
        lines.run::<S>(&self.pieces(region, parts.len() > 1), &mut out);
        Ok(T::wrap(from_vec(&region.shape, out)))
    }
}

impl KernelKind for Scan {
    fn name(&self) -> &'static str {
        self.function.name()
    }

    fn check(&self, at: Types<'_>) -> Result<(), KernelError> {
        let (x, carried) = match at.inputs {
            [x] => (x, None),
            [x, carried] if !self.ends => (x, Some(carried)),
            _ => return check::invalid(format!("{} has {} inputs", self.name(), at.inputs.len())),
        };
        if self.axis >= x.shape.len() || !self.segments.cuts(x.shape[self.axis]) {
            return check::invalid("the segments do not cut an axis of the input");
        }
        if !self.function.takes(x.dtype) {
            return Err(KernelError::DType { op: self.name().into(), dtype: x.dtype });
        }
        let mut ends = x.shape.clone();
        ends[self.axis] = self.segments.count();
        if let Some(c) = carried
            && *c != ArrayType::new(self.function.carried(x.dtype), ends.clone())
        {
            return check::invalid("what the segments begin from has another type than what they end with");
        }
        check::shape(at.output, if self.ends { &ends } else { &x.shape })?;
        check::dtype(at.output, x.dtype)
    }

    fn demand(&self, at: Types<'_>, region: &Region, _: Option<&Window>) -> DemandList {
        let (segments, range) = self.needed(region);
        let along = |input: usize, range: std::ops::Range<u64>| {
            let mut region = region.clone();
            (region.start[self.axis], region.shape[self.axis]) = (range.start, range.end - range.start);
            Demand { input, region }
        };
        let mut demands: DemandList = smallvec![along(0, range)];
        if at.inputs.len() > 1 && segments.end > 1 {
            demands.push(along(1, Scan::before(&segments)));
        }
        demands
    }

    fn traits(&self) -> Traits {
        // Tiles along the axis would begin at the segment's beginning again and again.
        Traits { whole: true, joint: true, ..Traits::PLAIN }
    }

    fn work(&self, at: Types<'_>) -> Work {
        Work::passing(at)
    }

    fn view(&self) -> Option<&[ViewAxis]> {
        None
    }

    fn blocks(&self, region: &Region) -> Option<u64> {
        let (segments, _) = self.needed(region);
        let lines = region.volume() / region.shape[self.axis].max(1);
        Some(lines.saturating_mul(segments.end - segments.start))
    }

    fn evaluation(&self) -> Evaluation<'_> {
        Evaluation::AtOnce(self)
    }
}

impl Compute for Scan {
    fn compute(&self, at: Types<'_>, region: &Region, parts: &[Part]) -> Result<Block, KernelError> {
        let dtype = at.output.dtype;
        match self.function {
            ScanOp::Sum | ScanOp::Prod => {
                let sums = self.function == ScanOp::Sum;
                match dtype {
                    DType::Int64 if sums => self.lines::<i64, Sum<i64>>(region, parts),
                    DType::Int64 => self.lines::<i64, Prod<i64>>(region, parts),
                    DType::UInt64 if sums => self.lines::<u64, Sum<u64>>(region, parts),
                    DType::UInt64 => self.lines::<u64, Prod<u64>>(region, parts),
                    _ if !dtype.is_inexact() => Err(KernelError::DType { op: self.name().into(), dtype }),
                    _ if sums => with_inexact!(dtype, T => self.lines::<T, Sum<T>>(region, parts)),
                    _ => with_inexact!(dtype, T => self.lines::<T, Prod<T>>(region, parts)),
                }
            }
            ScanOp::Min => with_real!(self.function, dtype, T => self.lines::<T, Extreme<T, false>>(region, parts)),
            ScanOp::Max => with_real!(self.function, dtype, T => self.lines::<T, Extreme<T, true>>(region, parts)),
            ScanOp::Last if !dtype.is_inexact() => Err(KernelError::DType { op: self.name().into(), dtype }),
            ScanOp::Last => with_inexact!(dtype, T => self.lines::<T, Last<T>>(region, parts)),
        }
    }

    fn scratch(&self, at: Types<'_>, region: &Region, demanded: &[u64]) -> u64 {
        // Blocks in another order are copied; the states are those of few lines.
        const STATES: u64 = 32 * BESIDE as u64;
        at.output_bytes(region).saturating_add(at.bytes(demanded)).saturating_add(STATES)
    }
}

#[cfg(test)]
#[path = "scan_tests.rs"]
mod tests;
