//! Means and moments.

use super::elements::{Average, Element, Ordered, SumState, Wide};
use super::lanes::{pairwise, rows_of};
use super::reducers::{Reducer, Sum};
use super::sink::Lines;
use std::marker::PhantomData;

/// The mean. `SKIP` leaves NaN out.
pub(crate) struct Mean<T, const SKIP: bool>(PhantomData<T>);
impl<T: Element, const SKIP: bool> Reducer for Mean<T, SKIP> {
    type In = T;
    type Part = (T::Wide, f64);
    type Acc = (T::Sum, f64);
    type Out = <T::Wide as Average>::Out;
    /// Rows that are read twice stay in the cache.
    const ROWS: usize = if SKIP { 128 } else { Sum::<T, SKIP>::ROWS };
    fn part() -> Self::Part {
        (T::Wide::ZERO, 0.0)
    }
    fn acc() -> Self::Acc {
        (T::Sum::zero(), 0.0)
    }
    #[inline(always)]
    fn add(part: &mut Self::Part, x: T, _: isize) {
        let used = !SKIP || x.valid();
        *part = (part.0.plus(if used { x.wide() } else { T::Wide::ZERO }), part.1 + f64::from(u8::from(used)));
    }
    #[inline(always)]
    fn row(xs: &[T], _: isize, _: isize) -> Self::Part {
        let count = if SKIP { pairwise(xs, &|x: T| f64::from(u8::from(x.valid()))) } else { xs.len() as f64 };
        (Sum::<T, SKIP>::row(xs, 0, 0), count)
    }
    #[inline(always)]
    fn columns(parts: &mut [Self::Part], lines: Lines<'_, T>, rows: usize, _: isize, _: isize) {
        // Sums and counts apart, so that vectors of each are added.
        let mut sums = vec![T::Wide::ZERO; parts.len()];
        Sum::<T, SKIP>::columns(&mut sums, lines, rows, 0, 0);
        let mut counts = vec![if SKIP { 0.0 } else { rows as f64 }; parts.len()];
        if SKIP {
            rows_of(&mut counts, &|r| lines.get(r), rows, |n, x, _| *n += f64::from(u8::from(x.valid())));
        }
        for ((p, s), n) in parts.iter_mut().zip(sums).zip(counts) {
            *p = (p.0.plus(s), p.1 + n);
        }
    }
    #[inline(always)]
    fn merge(acc: &mut Self::Acc, part: Self::Part) {
        acc.0.take(part.0);
        acc.1 += part.1;
    }
    fn emit(acc: &Self::Acc, out: &mut Vec<Self::Out>) {
        out.push(acc.0.value().over(acc.1));
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
    /// Rows are read twice and stay in the cache.
    const ROWS: usize = 128;
    fn part() -> Moment {
        Moment::default()
    }
    fn acc() -> Moment {
        Moment::default()
    }
    #[inline(always)]
    fn add(part: &mut Moment, x: T, _: isize) {
        if !(SKIP && x.nan()) {
            *part = part.join(Moment { n: 1.0, mean: x.real(), m2: if x.real().is_finite() { 0.0 } else { f64::NAN } });
        }
    }
    #[inline(always)]
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
    #[inline(always)]
    fn columns(parts: &mut [Moment], lines: Lines<'_, T>, rows: usize, _: isize, _: isize) {
        let width = parts.len();
        let (mut n, mut mean, mut m2) = (vec![0.0f64; width], vec![0.0f64; width], vec![0.0f64; width]);
        for r in 0..rows {
            for ((n, s), &x) in n.iter_mut().zip(&mut mean).zip(lines.get(r)) {
                let used = !(SKIP && x.nan());
                *n += f64::from(u8::from(used));
                *s += if used { x.real() } else { 0.0 };
            }
        }
        for (n, s) in n.iter().zip(&mut mean) {
            *s = if *n == 0.0 { 0.0 } else { *s / n };
        }
        for r in 0..rows {
            for ((m2, mean), &x) in m2.iter_mut().zip(&mean).zip(lines.get(r)) {
                let d = if SKIP && x.nan() { 0.0 } else { x.real() - mean };
                *m2 += d * d;
            }
        }
        for (i, p) in parts.iter_mut().enumerate() {
            *p = p.join(Moment { n: n[i], mean: mean[i], m2: m2[i] });
        }
    }
    #[inline(always)]
    fn merge(acc: &mut Moment, part: Moment) {
        *acc = acc.join(part);
    }
    fn emit(acc: &Moment, out: &mut Vec<f64>) {
        out.extend([acc.n, acc.mean, acc.m2]);
    }
}
