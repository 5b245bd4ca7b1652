//! Scalar functions that the standard library lacks or defines differently from NumPy.

// `!(a < b)` is true of NaN, on purpose.
#![allow(clippy::neg_cmp_op_on_partial_ord)]

use crate::cast::To;
use num_complex::{Complex32, Complex64};

/// Integer arithmetic that wraps and never panics.
pub(super) trait Int: Copy {
    /// Quotient rounded down; 0 for a division by 0.
    fn floor_div(self, b: Self) -> Self;
    /// Remainder with the sign of the divisor; 0 for a division by 0.
    fn floor_rem(self, b: Self) -> Self;
    /// Power; the exponent is not negative.
    fn power(self, b: Self) -> Self;
    /// 0 for shifts outside the width.
    fn left(self, b: Self) -> Self;
    /// 0 or -1 for shifts outside the width.
    fn right(self, b: Self) -> Self;
    /// -1, 0 or 1.
    fn sign(self) -> Self;
    /// Magnitude.
    fn magnitude(self) -> Self;
    /// The number times -1.
    fn negated(self) -> Self;
    /// The number times itself.
    fn squared(self) -> Self;
}

/// Division of 64-bit integers through floats: processors divide vectors of those.
pub(super) trait Divide: Sized {
    /// The quotient rounded down and its remainder; true if the numbers are not such that this holds.
    fn divided(self, b: Self) -> ((Self, Self), bool);
}

macro_rules! divide {
    ($($t:ident: |$x:ident| $small:expr, |$r:ident, $b:ident| $below:expr;)*) => {$(impl Divide for $t {
        #[inline(always)]
        fn divided(self, b: Self) -> ((Self, Self), bool) {
            let small = |$x: Self| $small;
            let good = small(self) & small(b) & (b != 0);
            let q = if good { self as f64 / b as f64 } else { 0.0 };
            // SAFETY: a number below 2^52 in magnitude by one that is at least 1, or 0.
            let q = unsafe { q.to_int_unchecked::<$t>() };
            let ($r, $b) = (self.wrapping_sub(q.wrapping_mul(b)), b);
            // Truncated so far; with other signs the quotient rounded down is one less.
            let below = $below;
            let down = if below { 1 } else { 0 };
            ((q.wrapping_sub(down), $r.wrapping_add(if below { b } else { 0 })), !good)
        }
    })*};
}
// The quotient of numbers below 2^52 is rounded, but not across an integer: see `floor_by_floats`.
divide! {
    i64: |x| (x.wrapping_add(1 << 52) as u64) < 1 << 53, |r, b| (r != 0) & ((r < 0) != (b < 0));
    u64: |x| x < 1 << 52, |_r, _b| false;
}

macro_rules! power_loop {
    ($base:expr, $exp:expr) => {{
        let (mut base, mut exp, mut acc) = ($base, $exp, 1);
        while exp > 0 {
            if exp & 1 == 1 {
                acc = base.wrapping_mul(acc);
            }
            base = base.wrapping_mul(base);
            exp >>= 1;
        }
        acc
    }};
}

/// Division of integers that are exact in a float: the quotient of two numbers below 2^24 (2^53) is rounded, but never across an integer,
/// because one that is none is further from the next than rounding moves it. Processors divide vectors of floats, not of integers.
macro_rules! floor_by_floats {
    ($t:ty, $f:ty) => {
        #[inline(always)]
        fn floor_div(self, b: Self) -> Self {
            let q: Self = To::to((self as $f / b as $f).floor());
            // The one quotient that wraps is the least number by -1.
            let q = if b == (0 as Self).wrapping_sub(1) && <$t>::MIN != 0 { self.wrapping_neg() } else { q };
            if b == 0 { 0 } else { q }
        }
        #[inline(always)]
        fn floor_rem(self, b: Self) -> Self {
            let r = self.wrapping_sub(Int::floor_div(self, b).wrapping_mul(b));
            if b == 0 { 0 } else { r }
        }
    };
}
macro_rules! signed {
    ($($t:ty, $($f:ty)?;)*) => {$(impl Int for $t {
        signed! { @divide $t, $($f)? }
        #[inline(always)]
        fn power(self, b: Self) -> Self { power_loop!(self, b) }
        #[inline(always)]
        fn left(self, b: Self) -> Self {
            let x = self.wrapping_shl(b as u32);
            if (b >= 0) & (b < <$t>::BITS as Self) { x } else { 0 }
        }
        #[inline(always)]
        fn right(self, b: Self) -> Self {
            // A shift by the whole width less one leaves only the sign.
            let last = <$t>::BITS as Self - 1;
            self.wrapping_shr(if (b >= 0) & (b < last) { b } else { last } as u32)
        }
        #[inline(always)]
        fn sign(self) -> Self { Self::from(self > 0) - Self::from(self < 0) }
        #[inline(always)]
        fn magnitude(self) -> Self { self.wrapping_abs() }
        #[inline(always)]
        fn negated(self) -> Self { self.wrapping_neg() }
        #[inline(always)]
        fn squared(self) -> Self { self.wrapping_mul(self) }
    })*};
    (@divide $t:ty, $f:ty) => { floor_by_floats! { $t, $f } };
    (@divide $t:ty,) => {
        #[inline(always)]
        fn floor_div(self, b: Self) -> Self {
            if b == 0 {
                return 0;
            }
            let (q, r) = (self.wrapping_div(b), self.wrapping_rem(b));
            if r != 0 && (r < 0) != (b < 0) { q - 1 } else { q }
        }
        #[inline(always)]
        fn floor_rem(self, b: Self) -> Self {
            if b == 0 {
                return 0;
            }
            let r = self.wrapping_rem(b);
            if r != 0 && (r < 0) != (b < 0) { r + b } else { r }
        }
    };
}
macro_rules! unsigned {
    ($($t:ty, $($f:ty)?;)*) => {$(impl Int for $t {
        unsigned! { @divide $t, $($f)? }
        #[inline(always)]
        fn power(self, b: Self) -> Self { power_loop!(self, b) }
        #[inline(always)]
        fn left(self, b: Self) -> Self {
            let x = self.wrapping_shl(b as u32);
            if b < <$t>::BITS as Self { x } else { 0 }
        }
        #[inline(always)]
        fn right(self, b: Self) -> Self {
            let x = self.wrapping_shr(b as u32);
            if b < <$t>::BITS as Self { x } else { 0 }
        }
        #[inline(always)]
        fn sign(self) -> Self { Self::from(self != 0) }
        #[inline(always)]
        fn magnitude(self) -> Self { self }
        #[inline(always)]
        fn negated(self) -> Self { self.wrapping_neg() }
        #[inline(always)]
        fn squared(self) -> Self { self.wrapping_mul(self) }
    })*};
    (@divide $t:ty, $f:ty) => { floor_by_floats! { $t, $f } };
    (@divide $t:ty,) => {
        #[inline(always)]
        fn floor_div(self, b: Self) -> Self { self.checked_div(b).unwrap_or(0) }
        #[inline(always)]
        fn floor_rem(self, b: Self) -> Self { self.checked_rem(b).unwrap_or(0) }
    };
}
signed! { i8, f32; i16, f32; i32, f64; i64,; }
unsigned! { u8, f32; u16, f32; u32, f64; u64,; }

/// Real functions.
pub(super) trait RealMath: Copy {
    /// The remainder that has the sign of the dividend, without a loop or a branch; true if the numbers are not such that it holds.
    fn remainder(self, b: Self) -> (Self, bool);
    /// Quotient rounded down, as Python's `//`, from the remainder with the sign of the dividend.
    fn floor_div(self, b: Self, m: Self) -> Self;
    /// Remainder with the sign of the divisor, as Python's `%`, from the one with the sign of the dividend.
    fn floor_rem(self, b: Self, m: Self) -> Self;
    /// -1, 0, 1 or NaN.
    fn sign(self) -> Self;
    /// The next number towards `b`.
    fn nextafter(self, b: Self) -> Self;
    /// The greater, or NaN.
    fn larger(self, b: Self) -> Self;
    /// The lesser, or NaN.
    fn smaller(self, b: Self) -> Self;
}

/// Functions of complex numbers that hold while squares stay in range; true where they do not.
pub(super) trait Squares: Sized {
    type Real;
    /// The magnitude.
    fn magnitude(self) -> (Self::Real, bool);
    /// The square root with a real part that is not negative, and the sign of the imaginary part.
    fn root(self) -> (Self, bool);
}

/// The root of the sum of two squares, and whether those leave the range of floats or lose bits.
#[inline(always)]
fn magnitude(x: f64, y: f64) -> (f64, bool) {
    let sum = x.abs() + y.abs();
    // Not `<`: NaN is rare as well, because one of the two may be infinite.
    ((x * x + y * y).sqrt(), !(sum < 1e150) | ((sum < 1e-140) & (sum != 0.0)))
}

/// The greater part by the half-angle formula, which cancels nothing, and the other from it.
#[inline(always)]
fn root(x: f64, y: f64) -> ((f64, f64), bool) {
    let (r, rare) = magnitude(x, y);
    let big = (0.5 * (x.abs() + r)).sqrt();
    let small = 0.5 * y.abs() / if big == 0.0 { 1.0 } else { big };
    let right = x >= 0.0;
    ((if right { big } else { small }, (if right { small } else { big }).copysign(y)), rare)
}

impl Squares for Complex32 {
    type Real = f32;
    #[inline(always)]
    fn magnitude(self) -> (f32, bool) {
        let (x, y) = (f64::from(self.re), f64::from(self.im));
        // The sum is exact enough to be rounded before its root is taken: 16 roots of `f32` take as long as 8 of `f64`.
        let exact = x * x + y * y;
        let sum = exact as f32;
        const SMALLEST: u32 = f32::MIN_POSITIVE.to_bits();
        let regular = sum.to_bits().wrapping_sub(SMALLEST) < f32::INFINITY.to_bits() - SMALLEST;
        (sum.sqrt(), !regular & (exact != 0.0))
    }
    #[inline(always)]
    fn root(self) -> (Self, bool) {
        let ((re, im), rare) = root(f64::from(self.re), f64::from(self.im));
        (Complex32::new(re as f32, im as f32), rare)
    }
}
impl Squares for Complex64 {
    type Real = f64;
    #[inline(always)]
    fn magnitude(self) -> (f64, bool) {
        magnitude(self.re, self.im)
    }
    #[inline(always)]
    fn root(self) -> (Self, bool) {
        let ((re, im), rare) = root(self.re, self.im);
        (Complex64::new(re, im), rare)
    }
}

/// Complex functions.
pub(super) trait Cplx: Copy {
    /// Quotient by Smith's method, as NumPy.
    fn over(self, b: Self) -> Self;
    /// Power, by squaring for small integer exponents as NumPy.
    fn power(self, b: Self) -> Self;
    /// `exp(z) - 1`.
    fn exp_m1(self) -> Self;
    /// `log(1 + z)`.
    fn ln_1p(self) -> Self;
    /// Both parts rounded, halves to even.
    fn round_even(self) -> Self;
}

macro_rules! real {
    ($t:ident, $c:ident) => {
        impl RealMath for $t {
            #[inline(always)]
            fn remainder(self, b: Self) -> (Self, bool) {
                // Where the quotient is below 2^53 (2^24), its integer part is right, or one too far from 0 if rounding carried it there.
                // The remainder of either is a number of the type, so that the fused operation is exact, and so is the correction.
                let q = (self / b).trunc();
                let r = if q == 0.0 { self } else { (-q).mul_add(b, self) };
                let over = (r != 0.0) & ((r < 0.0) != (self < 0.0));
                let r = if over { r + b.abs().copysign(self) } else { r };
                // Not `>=`: NaN is rare as well.
                (r, !(q.abs() < (1u64 << ($t::MANTISSA_DIGITS - 1)) as $t))
            }
            #[inline(always)]
            fn floor_div(self, b: Self, m: Self) -> Self {
                let d = (self - m) / b;
                let d = if (m != 0.0) & ((b < 0.0) != (m < 0.0)) { d - 1.0 } else { d };
                let f = d.floor();
                let f = if d - f > 0.5 { f + 1.0 } else { f };
                let f = if d == 0.0 { (0.0 as $t).copysign(self / b) } else { f };
                if b == 0.0 { self / b } else { f }
            }
            #[inline(always)]
            fn floor_rem(self, b: Self, m: Self) -> Self {
                let r = if (b < 0.0) != (m < 0.0) { m + b } else { m };
                if m == 0.0 { (0.0 as $t).copysign(b) } else { r }
            }
            #[inline(always)]
            fn sign(self) -> Self {
                if self > 0.0 {
                    1.0
                } else if self < 0.0 {
                    -1.0
                } else if self == 0.0 {
                    0.0
                } else {
                    self
                }
            }
            #[inline(always)]
            fn nextafter(self, b: Self) -> Self {
                if self == b {
                    b
                } else if self < b {
                    self.next_up()
                } else if self > b {
                    self.next_down()
                } else {
                    self + b
                }
            }
            #[inline(always)]
            fn larger(self, b: Self) -> Self {
                // One instruction makes the inner choice, in which a NaN on the left is lost.
                let greater = if self > b { self } else { b };
                if self.is_nan() { self } else { greater }
            }
            #[inline(always)]
            fn smaller(self, b: Self) -> Self {
                let lesser = if self < b { self } else { b };
                if self.is_nan() { self } else { lesser }
            }
        }

        impl Cplx for $c {
            #[inline(always)]
            fn over(self, b: Self) -> Self {
                // Both cases of Smith's method in one, so that it vectorises: the divisor's greater part is `big`.
                let (re, im) = (b.re.abs(), b.im.abs());
                let first = re >= im;
                let (big, small) = if first { (b.re, b.im) } else { (b.im, b.re) };
                let (p, q) = if first { (self.re, self.im) } else { (self.im, self.re) };
                let ratio = small / big;
                let scale = 1.0 / (big + small * ratio);
                let (x, y) = if first { (q, p * ratio) } else { (p * ratio, q) };
                let (out_re, out_im) = ((p + q * ratio) * scale, (x - y) * scale);
                let zero = (re == 0.0) & (im == 0.0);
                $c::new(if zero { self.re / re } else { out_re }, if zero { self.im / re } else { out_im })
            }
            fn power(self, b: Self) -> Self {
                let one = $c::new(1.0, 0.0);
                if b.re == 0.0 && b.im == 0.0 {
                    return one;
                }
                if self.re == 0.0 && self.im == 0.0 {
                    return if b.re > 0.0 { $c::new(0.0, 0.0) } else { $c::new($t::NAN, $t::NAN) };
                }
                if b.im == 0.0 && b.re.trunc() == b.re && b.re.abs() < 100.0 {
                    let (mut n, mut base, mut acc) = (b.re.abs() as u32, self, one);
                    while n > 0 {
                        if n & 1 == 1 {
                            acc *= base;
                        }
                        n >>= 1;
                        if n > 0 {
                            base *= base;
                        }
                    }
                    return if b.re < 0.0 { one.over(acc) } else { acc };
                }
                (b * self.ln()).exp()
            }
            #[inline(always)]
            fn exp_m1(self) -> Self {
                let s = (self.im / 2.0).sin();
                $c::new(self.re.exp_m1() * self.im.cos() - 2.0 * s * s, self.re.exp() * self.im.sin())
            }
            #[inline(always)]
            fn ln_1p(self) -> Self {
                let x = self.re + 1.0;
                let small = self.re.abs() < 0.5 && self.im.abs() < 0.5;
                let re = if small { 0.5 * (self.re * (2.0 + self.re) + self.im * self.im).ln_1p() } else { x.hypot(self.im).ln() };
                $c::new(re, self.im.atan2(x))
            }
            #[inline(always)]
            fn round_even(self) -> Self {
                $c::new(self.re.round_ties_even(), self.im.round_ties_even())
            }
        }
    };
}
real!(f32, Complex32);
real!(f64, Complex64);
