//! What is accumulated: one type for each reduction and element type.
//!
//! A reducer has three states. A *part* is what one pass over a run of memory keeps in registers or in a small row of
//! temporaries; an *accumulator* is what lives as long as the fold; `emit` makes output elements. Sums of floats are plain
//! `f64` sums in a part (pairwise, so that the error of a part is logarithmic in its length) and compensated in the
//! accumulator (Neumaier 1974): the result is nearly independent of how the input was tiled.

use crate::BlockElement;
use num_complex::{Complex32, Complex64};
use std::marker::PhantomData;

/// A reduction of elements of one type.
pub(crate) trait Reducer: 'static {
    /// The elements of the input.
    type In: BlockElement;
    /// The state of one pass over a run.
    type Part: Copy + Send;
    /// The state of the fold.
    type Acc: Copy + Send;
    /// The elements that come out, before the cast to the dtype of the output.
    type Out: BlockElement;
    /// Output elements for each accumulator.
    const WIDTH: usize = 1;

    fn part() -> Self::Part;
    fn acc() -> Self::Acc;
    /// Takes one element; `pos` is its flat index over the reduced axes.
    fn add(part: &mut Self::Part, x: Self::In, pos: isize);
    /// Reduces a run whose positions are `pos`, `pos + step`, ...
    fn row(xs: &[Self::In], pos: isize, step: isize) -> Self::Part {
        let mut part = Self::part();
        for (i, &x) in xs.iter().enumerate() {
            Self::add(&mut part, x, pos + step * i as isize);
        }
        part
    }
    /// Reduces `rows` rows column by column into `parts` (initialised, one a column); row `r` has position `pos + r * step`.
    fn columns<'a>(parts: &mut [Self::Part], row: &dyn Fn(usize) -> &'a [Self::In], rows: usize, pos: isize, step: isize) {
        for r in 0..rows {
            let at = pos + step * r as isize;
            for (p, &x) in parts.iter_mut().zip(row(r)) {
                Self::add(p, x, at);
            }
        }
    }
    fn merge(acc: &mut Self::Acc, part: Self::Part);
    fn emit(acc: &Self::Acc, out: &mut Vec<Self::Out>);
}

/// The state of a sum that lives as long as the fold.
pub(crate) trait SumState<W: Wide>: Copy + Send {
    fn zero() -> Self;
    fn take(&mut self, x: W);
    fn value(self) -> W;
}

/// A plain sum: exact for integers, and for `float32` in `float64` far more exact than the result's own precision.
impl<W: Wide> SumState<W> for W {
    fn zero() -> Self {
        W::ZERO
    }
    fn take(&mut self, x: W) {
        *self = self.plus(x);
    }
    fn value(self) -> W {
        self
    }
}

/// A sum and what rounding lost of it.
impl<W: Wide> SumState<W> for (W, W) {
    fn zero() -> Self {
        (W::ZERO, W::ZERO)
    }
    fn take(&mut self, x: W) {
        W::compensated(&mut self.0, &mut self.1, x);
    }
    fn value(self) -> W {
        W::total(self.0, self.1)
    }
}

/// Any element: is it true, and what does it sum in?
pub(crate) trait Element: BlockElement {
    /// The type that sums and products are taken in.
    type Wide: Average;
    /// The state of a sum.
    type Sum: SumState<Self::Wide>;
    fn wide(self) -> Self::Wide;
    fn truthy(self) -> bool;
    /// False for NaN, in either part.
    fn valid(self) -> bool {
        true
    }
}

/// An element with an order.
pub(crate) trait Ordered: Element + PartialOrd {
    const LOW: Self;
    const HIGH: Self;
    /// What min and max of no elements are in a group: NaN, or 0 where there is none.
    const NOTHING: Self;
    fn nan(self) -> bool;
    fn real(self) -> f64;
}

/// A type that sums and products are taken in.
pub(crate) trait Wide: BlockElement {
    const ZERO: Self;
    const ONE: Self;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Adds to a sum and keeps what rounding lost.
    fn compensated(sum: &mut Self, lost: &mut Self, x: Self) {
        let _ = lost;
        *sum = sum.plus(x);
    }
    fn total(sum: Self, lost: Self) -> Self {
        let _ = lost;
        sum
    }
}

macro_rules! wide_int {
    ($($t:ty),*) => {$(
        impl Wide for $t {
            const ZERO: Self = 0;
            const ONE: Self = 1;
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
        }
    )*};
}
wide_int!(i64, u64);

impl Wide for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn compensated(sum: &mut f64, lost: &mut f64, x: f64) {
        // TwoSum (Knuth): branch-free. Once an infinity or a NaN is in it, `lost` is NaN; see `total`.
        let t = *sum + x;
        let z = t - *sum;
        *lost += (*sum - (t - z)) + (x - z);
        *sum = t;
    }
    fn total(sum: f64, lost: f64) -> f64 {
        // An infinite or NaN sum stays what plain addition makes of it, as in NumPy.
        if sum.is_finite() && lost.is_finite() { sum + lost } else { sum }
    }
}

impl Wide for Complex64 {
    const ZERO: Self = Complex64::new(0.0, 0.0);
    const ONE: Self = Complex64::new(1.0, 0.0);
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn times(self, other: Self) -> Self {
        self * other
    }
    fn compensated(sum: &mut Self, lost: &mut Self, x: Self) {
        f64::compensated(&mut sum.re, &mut lost.re, x.re);
        f64::compensated(&mut sum.im, &mut lost.im, x.im);
    }
    fn total(sum: Self, lost: Self) -> Self {
        Complex64::new(f64::total(sum.re, lost.re), f64::total(sum.im, lost.im))
    }
}

macro_rules! ints {
    ($($t:ty => $w:ty),*) => {$(
        impl Element for $t {
            type Wide = $w;
            type Sum = $w;
            fn wide(self) -> $w { self as $w }
            fn truthy(self) -> bool { self != 0 }
        }
        impl Ordered for $t {
            const LOW: Self = <$t>::MIN;
            const HIGH: Self = <$t>::MAX;
            const NOTHING: Self = 0;
            fn nan(self) -> bool { false }
            fn real(self) -> f64 { self as f64 }
        }
    )*};
}
ints!(i8 => i64, i16 => i64, i32 => i64, i64 => i64, u8 => u64, u16 => u64, u32 => u64, u64 => u64);

macro_rules! floats {
    ($($t:ty => $sum:ty),*) => {$(
        impl Element for $t {
            type Wide = f64;
            type Sum = $sum;
            fn wide(self) -> f64 { self as f64 }
            fn truthy(self) -> bool { self != 0.0 }
            fn valid(self) -> bool { !self.is_nan() }
        }
        impl Ordered for $t {
            const LOW: Self = <$t>::NEG_INFINITY;
            const HIGH: Self = <$t>::INFINITY;
            const NOTHING: Self = <$t>::NAN;
            fn nan(self) -> bool { self.is_nan() }
            fn real(self) -> f64 { self as f64 }
        }
    )*};
}
floats!(f32 => f64, f64 => (f64, f64));

impl Element for bool {
    type Wide = i64;
    type Sum = i64;
    fn wide(self) -> i64 {
        i64::from(self)
    }
    fn truthy(self) -> bool {
        self
    }
}
impl Ordered for bool {
    const LOW: Self = false;
    const HIGH: Self = true;
    const NOTHING: Self = false;
    fn nan(self) -> bool {
        false
    }
    fn real(self) -> f64 {
        f64::from(u8::from(self))
    }
}

impl Element for Complex32 {
    type Wide = Complex64;
    type Sum = Complex64;
    fn wide(self) -> Complex64 {
        Complex64::new(f64::from(self.re), f64::from(self.im))
    }
    fn truthy(self) -> bool {
        self.re != 0.0 || self.im != 0.0
    }
    fn valid(self) -> bool {
        !self.is_nan()
    }
}
impl Element for Complex64 {
    type Wide = Complex64;
    type Sum = (Complex64, Complex64);
    fn wide(self) -> Complex64 {
        self
    }
    fn truthy(self) -> bool {
        self.re != 0.0 || self.im != 0.0
    }
    fn valid(self) -> bool {
        !self.is_nan()
    }
}

/// Folds with 16 independent lanes, which the compiler turns into vector registers.
fn lanes<T: Copy, P: Copy>(xs: &[T], start: P, add: impl Fn(P, T) -> P, join: impl Fn(P, P) -> P) -> P {
    const LANES: usize = 16;
    let mut lane = [start; LANES];
    let (blocks, rest) = xs.as_chunks::<LANES>();
    for block in blocks {
        for (l, &x) in lane.iter_mut().zip(block) {
            *l = add(*l, x);
        }
    }
    for (l, &x) in lane.iter_mut().zip(rest) {
        *l = add(*l, x);
    }
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lane[i] = join(lane[i], lane[i + width]);
        }
        width /= 2;
    }
    lane[0]
}

/// Pairwise sum of `value(x)`, in blocks of 128.
fn pairwise<T: Copy, W: Wide>(xs: &[T], value: &impl Fn(T) -> W) -> W {
    if xs.len() <= 128 {
        if xs.len() < 16 {
            return xs.iter().fold(W::ZERO, |a, &x| a.plus(value(x)));
        }
        return lanes(xs, W::ZERO, |a, x| a.plus(value(x)), W::plus);
    }
    let half = (xs.len() / 2).next_multiple_of(128).min(xs.len() - 1);
    let (a, b) = xs.split_at(half);
    pairwise(a, value).plus(pairwise(b, value))
}

pub(crate) struct Sum<T>(PhantomData<T>);
impl<T: Element> Reducer for Sum<T> {
    type In = T;
    type Part = T::Wide;
    type Acc = T::Sum;
    type Out = T::Wide;
    fn part() -> T::Wide {
        T::Wide::ZERO
    }
    fn acc() -> Self::Acc {
        T::Sum::zero()
    }
    fn add(part: &mut T::Wide, x: T, _: isize) {
        *part = part.plus(x.wide());
    }
    fn row(xs: &[T], _: isize, _: isize) -> T::Wide {
        pairwise(xs, &T::wide)
    }
    fn merge(acc: &mut Self::Acc, part: T::Wide) {
        acc.take(part);
    }
    fn emit(acc: &Self::Acc, out: &mut Vec<T::Wide>) {
        out.push(acc.value());
    }
}

/// What means come out as: those of integers are floats.
pub(crate) trait Average: Wide {
    type Out: BlockElement;
    fn over(self, n: f64) -> Self::Out;
}
macro_rules! averages {
    ($($t:ty => $o:ty: |$x:ident| $float:expr;)*) => {$(
        impl Average for $t {
            type Out = $o;
            fn over(self, n: f64) -> $o { let $x = self; $float / n }
        }
    )*};
}
averages! { i64 => f64: |x| x as f64; u64 => f64: |x| x as f64; f64 => f64: |x| x; Complex64 => Complex64: |x| x; }

/// The mean. `SKIP` leaves NaN out.
pub(crate) struct Mean<T, const SKIP: bool>(PhantomData<T>);
impl<T: Element, const SKIP: bool> Reducer for Mean<T, SKIP> {
    type In = T;
    type Part = (T::Wide, f64);
    type Acc = (T::Sum, f64);
    type Out = <T::Wide as Average>::Out;
    fn part() -> Self::Part {
        (T::Wide::ZERO, 0.0)
    }
    fn acc() -> Self::Acc {
        (T::Sum::zero(), 0.0)
    }
    fn add(part: &mut Self::Part, x: T, _: isize) {
        let used = !SKIP || x.valid();
        *part = (part.0.plus(if used { x.wide() } else { T::Wide::ZERO }), part.1 + f64::from(u8::from(used)));
    }
    fn row(xs: &[T], _: isize, _: isize) -> Self::Part {
        if !SKIP {
            return (pairwise(xs, &T::wide), xs.len() as f64);
        }
        let sum = pairwise(xs, &|x: T| if x.valid() { x.wide() } else { T::Wide::ZERO });
        (sum, pairwise(xs, &|x: T| f64::from(u8::from(x.valid()))))
    }
    fn merge(acc: &mut Self::Acc, part: Self::Part) {
        acc.0.take(part.0);
        acc.1 += part.1;
    }
    fn emit(acc: &Self::Acc, out: &mut Vec<Self::Out>) {
        out.push(acc.0.value().over(acc.1));
    }
}

pub(crate) struct Prod<T>(PhantomData<T>);
impl<T: Element> Reducer for Prod<T> {
    type In = T;
    type Part = T::Wide;
    type Acc = T::Wide;
    type Out = T::Wide;
    fn part() -> T::Wide {
        T::Wide::ONE
    }
    fn acc() -> T::Wide {
        T::Wide::ONE
    }
    fn add(part: &mut T::Wide, x: T, _: isize) {
        *part = part.times(x.wide());
    }
    fn row(xs: &[T], _: isize, _: isize) -> T::Wide {
        lanes(xs, T::Wide::ONE, |a, x| a.times(x.wide()), T::Wide::times)
    }
    fn merge(acc: &mut T::Wide, part: T::Wide) {
        *acc = acc.times(part);
    }
    fn emit(acc: &T::Wide, out: &mut Vec<T::Wide>) {
        out.push(*acc);
    }
}

/// The lesser (`MAX = false`) or the greater of two; a NaN wins.
fn extreme<T: Ordered, const MAX: bool>(a: T, b: T) -> T {
    let better = if MAX { b > a } else { b < a };
    if (better && !a.nan()) || b.nan() { b } else { a }
}

/// Min or max. The flag of the accumulator tells whether it has met an element.
pub(crate) struct Extreme<T, const MAX: bool>(PhantomData<T>);
impl<T: Ordered, const MAX: bool> Reducer for Extreme<T, MAX> {
    type In = T;
    type Part = T;
    type Acc = (T, bool);
    type Out = T;
    fn part() -> T {
        if MAX { T::LOW } else { T::HIGH }
    }
    fn acc() -> (T, bool) {
        (Self::part(), false)
    }
    fn add(part: &mut T, x: T, _: isize) {
        *part = extreme::<T, MAX>(*part, x);
    }
    fn row(xs: &[T], _: isize, _: isize) -> T {
        lanes(xs, Self::part(), extreme::<T, MAX>, extreme::<T, MAX>)
    }
    fn merge(acc: &mut (T, bool), part: T) {
        *acc = (extreme::<T, MAX>(acc.0, part), true);
    }
    fn emit(acc: &(T, bool), out: &mut Vec<T>) {
        out.push(if acc.1 { acc.0 } else { T::NOTHING });
    }
}

/// Any (`ALL = false`) or all. NaN is true.
pub(crate) struct Truth<T, const ALL: bool>(PhantomData<T>);
impl<T: Element, const ALL: bool> Reducer for Truth<T, ALL> {
    type In = T;
    type Part = bool;
    type Acc = bool;
    type Out = bool;
    fn part() -> bool {
        ALL
    }
    fn acc() -> bool {
        ALL
    }
    fn add(part: &mut bool, x: T, _: isize) {
        if ALL { *part &= x.truthy() } else { *part |= x.truthy() }
    }
    fn merge(acc: &mut bool, part: bool) {
        if ALL { *acc &= part } else { *acc |= part }
    }
    fn emit(acc: &bool, out: &mut Vec<bool>) {
        out.push(*acc);
    }
}

pub(crate) struct Count<T>(PhantomData<T>);
impl<T: Element> Reducer for Count<T> {
    type In = T;
    type Part = i64;
    type Acc = i64;
    type Out = i64;
    fn part() -> i64 {
        0
    }
    fn acc() -> i64 {
        0
    }
    fn add(part: &mut i64, x: T, _: isize) {
        *part += i64::from(x.truthy());
    }
    fn merge(acc: &mut i64, part: i64) {
        *acc += part;
    }
    fn emit(acc: &i64, out: &mut Vec<i64>) {
        out.push(*acc);
    }
}

/// The position of the extreme; the first one in C order, whatever order the tiles come in.
pub(crate) struct Arg<T, const MAX: bool>(PhantomData<T>);
impl<T: Ordered, const MAX: bool> Reducer for Arg<T, MAX> {
    type In = T;
    /// The value and its position; `isize::MAX` is none yet.
    type Part = (T, isize);
    type Acc = (T, isize);
    type Out = i64;
    fn part() -> (T, isize) {
        (Extreme::<T, MAX>::part(), isize::MAX)
    }
    fn acc() -> (T, isize) {
        Self::part()
    }
    fn add(part: &mut (T, isize), x: T, pos: isize) {
        let (old, at) = *part;
        let better = if MAX { x > old } else { x < old };
        let equal = x == old || (x.nan() && old.nan());
        if (better && !old.nan()) || (x.nan() && !old.nan()) || (equal && pos < at) {
            *part = (x, pos);
        }
    }
    fn row(xs: &[T], pos: isize, step: isize) -> (T, isize) {
        // The value first, with vectors; then a search for it.
        let value = Extreme::<T, MAX>::row(xs, 0, 0);
        let same = |x: &T| *x == value || (value.nan() && x.nan());
        let at = if step >= 0 { xs.iter().position(same) } else { xs.iter().rposition(same) };
        (value, at.map_or(isize::MAX, |i| pos + step * i as isize))
    }
    fn merge(acc: &mut (T, isize), part: (T, isize)) {
        if part.1 != isize::MAX {
            Self::add(acc, part.0, part.1);
        }
    }
    fn emit(acc: &(T, isize), out: &mut Vec<i64>) {
        out.push(if acc.1 == isize::MAX { 0 } else { acc.1 as i64 });
    }
}

/// Count, mean and sum of squared deviations of a set.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Moment {
    pub n: f64,
    pub mean: f64,
    pub m2: f64,
}

impl Moment {
    /// The moments of the union of two disjoint sets (Chan, Golub and LeVeque 1983).
    pub fn join(self, b: Moment) -> Moment {
        if b.n == 0.0 {
            return self;
        }
        if self.n == 0.0 {
            return b;
        }
        let n = self.n + b.n;
        let d = b.mean - self.mean;
        // With infinities the difference of two means says nothing; the weighted sum is what NumPy's mean gives.
        let mean = if d.is_finite() { self.mean + d * (b.n / n) } else { self.mean * (self.n / n) + b.mean * (b.n / n) };
        Moment { n, mean, m2: self.m2 + b.m2 + d * d * (self.n * b.n / n) }
    }
}

/// Moments, by two passes over each part. `SKIP` leaves NaN out.
pub(crate) struct Moments<T, const SKIP: bool>(PhantomData<T>);
impl<T: Ordered, const SKIP: bool> Reducer for Moments<T, SKIP> {
    type In = T;
    type Part = Moment;
    type Acc = Moment;
    type Out = f64;
    const WIDTH: usize = 3;
    fn part() -> Moment {
        Moment::default()
    }
    fn acc() -> Moment {
        Moment::default()
    }
    fn add(part: &mut Moment, x: T, _: isize) {
        if !(SKIP && x.nan()) {
            *part = part.join(Moment { n: 1.0, mean: x.real(), m2: if x.real().is_finite() { 0.0 } else { f64::NAN } });
        }
    }
    fn row(xs: &[T], _: isize, _: isize) -> Moment {
        let mut out = Moment::default();
        // Pieces that stay in the cache between the passes.
        for xs in xs.chunks(4096) {
            let used = |x: T| !(SKIP && x.nan());
            let n = if SKIP { pairwise(xs, &|x| f64::from(u8::from(used(x)))) } else { xs.len() as f64 };
            if n == 0.0 {
                continue;
            }
            let mean = pairwise(xs, &|x| if used(x) { x.real() } else { 0.0 }) / n;
            let (d, m2) = (
                pairwise(xs, &|x| if used(x) { x.real() - mean } else { 0.0 }),
                pairwise(xs, &|x| if used(x) { (x.real() - mean) * (x.real() - mean) } else { 0.0 }),
            );
            out = out.join(Moment { n, mean, m2: if m2.is_finite() { (m2 - d * d / n).max(0.0) } else { f64::NAN } });
        }
        out
    }
    fn columns<'a>(parts: &mut [Moment], row: &dyn Fn(usize) -> &'a [T], rows: usize, _: isize, _: isize) {
        let width = parts.len();
        let (mut n, mut mean, mut m2) = (vec![0.0f64; width], vec![0.0f64; width], vec![0.0f64; width]);
        for r in 0..rows {
            for ((n, s), &x) in n.iter_mut().zip(&mut mean).zip(row(r)) {
                let used = !(SKIP && x.nan());
                *n += f64::from(u8::from(used));
                *s += if used { x.real() } else { 0.0 };
            }
        }
        for (n, s) in n.iter().zip(&mut mean) {
            *s = if *n == 0.0 { 0.0 } else { *s / n };
        }
        for r in 0..rows {
            for ((m2, mean), &x) in m2.iter_mut().zip(&mean).zip(row(r)) {
                let d = if SKIP && x.nan() { 0.0 } else { x.real() - mean };
                *m2 += d * d;
            }
        }
        for (i, p) in parts.iter_mut().enumerate() {
            *p = p.join(Moment { n: n[i], mean: mean[i], m2: m2[i] });
        }
    }
    fn merge(acc: &mut Moment, part: Moment) {
        *acc = acc.join(part);
    }
    fn emit(acc: &Moment, out: &mut Vec<f64>) {
        out.extend([acc.n, acc.mean, acc.m2]);
    }
}
