//! What sums and products are taken in.

use crate::BlockElement;
use num_complex::Complex64;

/// A type that sums and products are taken in.
pub(crate) trait Wide: BlockElement {
    const ZERO: Self;
    const ONE: Self;
    /// True for floats, whose sums are rounded.
    const ROUNDS: bool;
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// Adds to a sum and keeps what rounding lost.
    #[inline(always)]
    fn compensated(sum: &mut Self, lost: &mut Self, x: Self) {
        let _ = lost;
        *sum = sum.plus(x);
    }
    #[inline(always)]
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
            const ROUNDS: bool = false;
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn times(self, other: Self) -> Self { self.wrapping_mul(other) }
        }
    )*};
}
wide_int!(i64, u64);

impl Wide for f64 {
    const ZERO: Self = 0.0;
    const ONE: Self = 1.0;
    const ROUNDS: bool = true;
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self * other
    }
    #[inline(always)]
    fn compensated(sum: &mut f64, lost: &mut f64, x: f64) {
        // TwoSum (Knuth): branch-free. Once an infinity or a NaN is in it, `lost` is NaN; see `total`.
        let t = *sum + x;
        let z = t - *sum;
        *lost += (*sum - (t - z)) + (x - z);
        *sum = t;
    }
    #[inline(always)]
    fn total(sum: f64, lost: f64) -> f64 {
        // An infinite or NaN sum stays what plain addition makes of it, as in NumPy.
        if sum.is_finite() && lost.is_finite() { sum + lost } else { sum }
    }
}

impl Wide for Complex64 {
    const ZERO: Self = Complex64::new(0.0, 0.0);
    const ONE: Self = Complex64::new(1.0, 0.0);
    const ROUNDS: bool = true;
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        self * other
    }
    #[inline(always)]
    fn compensated(sum: &mut Self, lost: &mut Self, x: Self) {
        f64::compensated(&mut sum.re, &mut lost.re, x.re);
        f64::compensated(&mut sum.im, &mut lost.im, x.im);
    }
    #[inline(always)]
    fn total(sum: Self, lost: Self) -> Self {
        Complex64::new(f64::total(sum.re, lost.re), f64::total(sum.im, lost.im))
    }
}
