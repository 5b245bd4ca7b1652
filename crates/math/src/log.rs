//! log in three bases, log1p, asinh, acosh, atanh: x = 2^k m with m around 1, s = (m - 1) / (m + 1), a polynomial in s^2.

use crate::arch::Arch;
use crate::bits::{FULL, horner, power, select};
use crate::coefficients::*;

const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;
const ONE: u64 = 0x3ff0_0000_0000_0000;
const MANTISSA: u64 = 0x000f_ffff_ffff_ffff;
/// Combined with the low bits by `|`, this is the float 2^52 + integer.
const INTEGER: u64 = 0x4330_0000_0000_0000;
const TWO_52: f64 = 4_503_599_627_370_496.0;

/// x = 2^k m with sqrt(1/2) <= m < sqrt(2), for positive normal x.
#[inline(always)]
pub(crate) fn normal_parts(x: f64) -> (f64, f64) {
    let t = x.to_bits().wrapping_add(ONE - SQRT_HALF);
    let m = f64::from_bits((t & MANTISSA).wrapping_add(SQRT_HALF));
    (f64::from_bits((t >> 52) | INTEGER) - (TWO_52 + 1023.0), m)
}

/// As [`normal_parts`], subnormal numbers included.
#[inline(always)]
pub(crate) fn parts<const S: bool>(x: f64) -> (f64, f64) {
    if S {
        return normal_parts(x);
    }
    let tiny = x < f64::MIN_POSITIVE;
    let (k, m) = normal_parts(select(tiny, x * 18_014_398_509_481_984.0, x));
    (k - select(tiny, 54.0, 0.0), m)
}

/// (log((1+s)/(1-s)) - 2 s) / s
#[inline(always)]
fn series<A: Arch, const S: bool>(z: f64) -> f64 {
    z * if S { horner::<A, _>(z, &LOG_SHORT) } else { horner::<A, _>(z, &LOG) }
}

/// log(1 + f) - f for sqrt(1/2) - 1 <= f <= sqrt(2) - 1, as fdlibm arranges it.
#[inline(always)]
fn beyond_first<A: Arch, const S: bool>(f: f64) -> f64 {
    let s = f / (2.0 + f);
    let half_square = 0.5 * f * f;
    A::fma(s, half_square + series::<A, S>(s * s), -half_square)
}

/// k ln 2 + log(1 + f)
#[inline(always)]
fn combine<A: Arch, const S: bool>(k: f64, f: f64) -> f64 {
    let g = beyond_first::<A, S>(f);
    A::fma(k, LN2[0], f + A::fma(k, LN2[1], g))
}

/// The values at zero, below zero, at infinity and for NaN.
#[inline(always)]
fn specials(x: f64, y: f64) -> f64 {
    let y = select(x < f64::INFINITY, y, x);
    let y = select(x < 0.0, f64::NAN, y);
    select(x == 0.0, f64::NEG_INFINITY, y)
}

#[inline(always)]
pub(crate) fn log<A: Arch, const S: bool>(x: f64) -> f64 {
    let (k, m) = parts::<S>(x);
    specials(x, combine::<A, S>(k, m - 1.0))
}

/// True for positive, normal, finite numbers, for which `quick` forms are valid.
#[inline(always)]
pub(crate) fn regular(x: f64) -> bool {
    const SMALLEST: u64 = f64::MIN_POSITIVE.to_bits();
    x.to_bits().wrapping_sub(SMALLEST) < f64::INFINITY.to_bits() - SMALLEST
}

#[inline(always)]
pub(crate) fn log_quick<A: Arch>(x: f64) -> (f64, bool) {
    let (k, m) = normal_parts(x);
    (combine::<A, FULL>(k, m - 1.0), regular(x))
}

/// (k ln 2 + log(1 + f)) c with c = 1 / log(base) and kc = ln 2 c, whose products with k are exact.
#[inline(always)]
fn combine_base<A: Arch>(k: f64, f: f64, c: f64, kc: f64, kc_low: f64) -> f64 {
    let g = beyond_first::<A, FULL>(f);
    A::fma(k, kc, A::fma(f, c, A::fma(k, kc_low, g * c)))
}

/// The same for base 2, exact at powers of two.
#[inline(always)]
fn combine_two<A: Arch>(k: f64, f: f64) -> f64 {
    let g = beyond_first::<A, FULL>(f);
    k + A::fma(f, LOG2_E[0], g * LOG2_E[0])
}

#[inline(always)]
pub(crate) fn log2<A: Arch, const S: bool>(x: f64) -> f64 {
    let (k, m) = parts::<S>(x);
    specials(x, combine_two::<A>(k, m - 1.0))
}

#[inline(always)]
pub(crate) fn log2_quick<A: Arch>(x: f64) -> (f64, bool) {
    let (k, m) = normal_parts(x);
    (combine_two::<A>(k, m - 1.0), regular(x))
}

#[inline(always)]
pub(crate) fn log10<A: Arch, const S: bool>(x: f64) -> f64 {
    let (k, m) = parts::<S>(x);
    specials(x, combine_base::<A>(k, m - 1.0, LOG10_E[0], LOG10_2[0], LOG10_2[1]))
}

#[inline(always)]
pub(crate) fn log10_quick<A: Arch>(x: f64) -> (f64, bool) {
    let (k, m) = normal_parts(x);
    (combine_base::<A>(k, m - 1.0, LOG10_E[0], LOG10_2[0], LOG10_2[1]), regular(x))
}

/// As [`normal_parts`], and 2^-k.
#[inline(always)]
fn scaled_parts(x: f64) -> (f64, f64, f64) {
    let t = x.to_bits().wrapping_add(ONE - SQRT_HALF);
    let (k, m) = normal_parts(x);
    (k, m, f64::from_bits((2 * ONE).wrapping_sub(t & !MANTISSA)))
}

/// For larger x, 1 + x is x.
const ONE_COUNTS: f64 = 1e17;

#[inline(always)]
pub(crate) fn log1p<A: Arch, const S: bool>(x: f64) -> f64 {
    let u = 1.0 + x;
    // (1 + x) / 2^k - 1 with one rounding: the power and its difference to one are exact as long as x matters.
    let (k, m, t) = scaled_parts(u);
    let f = select(x < ONE_COUNTS, A::fma(t, x, t - 1.0), m - 1.0);
    let y = specials(u, combine::<A, S>(k, f));
    select(x.abs() < 1e-17, x, y)
}

#[inline(always)]
pub(crate) fn log1p_quick<A: Arch>(x: f64) -> (f64, bool) {
    let (k, _, t) = scaled_parts(1.0 + x);
    (combine::<A, FULL>(k, A::fma(t, x, t - 1.0)).copysign(x), (x > -1.0) & (x < ONE_COUNTS))
}

/// Large arguments of asinh and acosh are multiplied by this, 2^-64, to stay in the range of floats,
const LARGE_SCALE: f64 = 1.0 / 18_446_744_073_709_551_616.0;
/// and this is added to their logarithms to compensate for it, and for the factor of two in log(2 x).
const LARGE_EXTRA: f64 = 65.0;

/// log(w + l) + extra ln 2 or, where `small`, 2 atanh(num / den).
#[inline(always)]
fn inverse<A: Arch, const S: bool>(small: bool, num: f64, den: f64, w: f64, l: f64, extra: f64) -> f64 {
    let (k, m, t) = scaled_parts(w);
    let f = A::fma(l, t, m - 1.0);
    let k = select(small, 0.0, k + extra);
    let s = select(small, num, f) / select(small, den, 2.0 + f);
    let tail = A::fma(k, LN2[1], s * series::<A, S>(s * s));
    A::fma(k, LN2[0], A::fma(2.0, s, tail))
}

/// log(a + sqrt(a^2 + 1)); near zero, 2 atanh(a / (1 + sqrt(a^2 + 1))).
#[inline(always)]
pub(crate) fn asinh<A: Arch, const S: bool>(x: f64) -> f64 {
    let a = x.abs();
    let large = a > 1e9;
    let q = A::fma(a, a, 1.0).sqrt();
    let w = select(large, a * LARGE_SCALE, a + q);
    let l = select(large, 0.0, if S { 0.0 } else { (q - w) + a });
    let y = inverse::<A, S>(a < 0.35, a, 1.0 + q, w, l, select(large, LARGE_EXTRA, 0.0));
    let y = select(a < f64::INFINITY, y, a);
    select(a < 1e-9, x, y.copysign(x))
}

/// log(x + sqrt(x^2 - 1)); near one, 2 atanh(sqrt((x - 1) / (x + 1))).
#[inline(always)]
pub(crate) fn acosh<A: Arch, const S: bool>(x: f64) -> f64 {
    let large = x > 1e9;
    let q = if A::FUSED { A::fma(x, x, -1.0) } else { (x - 1.0) * (x + 1.0) }.sqrt();
    let w = select(large, x * LARGE_SCALE, x + q);
    let l = select(large, 0.0, if S { 0.0 } else { (x - w) + q });
    let y = inverse::<A, S>(x < 1.06, q, x + 1.0, w, l, select(large, LARGE_EXTRA, 0.0));
    let y = select(x < f64::INFINITY, y, x);
    select(x < 1.0, f64::NAN, y)
}

/// (log(1 + a) - log(1 - a)) / 2 with one division. The power of two of the quotient comes from the bits of both.
#[inline(always)]
pub(crate) fn atanh<A: Arch, const S: bool>(x: f64) -> f64 {
    let a = x.abs();
    let (up, down) = (1.0 + a, 1.0 - a);
    // The bits of a float are its logarithm, up to an error of 0.086. Half is added for rounding.
    let k = up.to_bits().wrapping_sub(down.to_bits()).wrapping_add(1 << 51) >> 52;
    let t = power(k);
    // (1 + a) - t (1 - a), with the rounding errors of the two sums. The product with a power of two is exact.
    let (up_low, down_low) = ((1.0 - up) + a, (1.0 - down) - a);
    let num = A::fma(-t, down, up) + A::fma(-t, down_low, up_low);
    let s = num / A::fma(t, down, up);
    let k = f64::from_bits(k | INTEGER) - TWO_52;
    let tail = A::fma(k, LN2[1], s * series::<A, S>(s * s));
    let y = 0.5 * A::fma(k, LN2[0], A::fma(2.0, s, tail));
    let y = select(a < 1.0, y, select(a == 1.0, f64::INFINITY, f64::NAN));
    select(a < 1e-9, x, y.copysign(x))
}
