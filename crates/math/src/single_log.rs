//! The logarithms and inverse hyperbolic functions for `f32`, computed in `f32`. The methods are those of [`crate::log`].

use crate::arch::Arch;
use crate::bits::{horner32, select};
use crate::coefficients::*;
use crate::single::{TWO_23, biased_power};

const SQRT_HALF: u32 = 0x3f35_04f3;
const ONE: u32 = 0x3f80_0000;
const MANTISSA: u32 = 0x007f_ffff;
const INTEGER: u32 = 0x4b00_0000;

/// x = 2^k m with sqrt(1/2) <= m < sqrt(2), for positive normal x.
#[inline(always)]
pub(crate) fn normal_parts(x: f32) -> (f32, f32) {
    let t = x.to_bits().wrapping_add(ONE - SQRT_HALF);
    let m = f32::from_bits((t & MANTISSA).wrapping_add(SQRT_HALF));
    (f32::from_bits((t >> 23) | INTEGER) - (TWO_23 + 127.0), m)
}

/// As [`normal_parts`], subnormal numbers included.
#[inline(always)]
pub(crate) fn parts(x: f32) -> (f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let (k, m) = normal_parts(select(tiny, x * 16_777_216.0, x));
    (k - select(tiny, 24.0, 0.0), m)
}

/// log(1 + f) - f
#[inline(always)]
fn beyond_first<A: Arch>(f: f32) -> f32 {
    let z = f * f;
    A::fma32(z * f, horner32::<A, _>(f, &LOG_F32), -0.5 * z)
}

#[inline(always)]
fn specials(x: f32, y: f32) -> f32 {
    let y = select(x < f32::INFINITY, y, x);
    let y = select(x < 0.0, f32::NAN, y);
    select(x == 0.0, f32::NEG_INFINITY, y)
}

/// k ln 2 + log(1 + f)
#[inline(always)]
fn combine<A: Arch>(k: f32, f: f32) -> f32 {
    A::fma32(k, LN2_F32[0], f + A::fma32(k, LN2_F32[1], beyond_first::<A>(f)))
}

#[inline(always)]
pub(crate) fn log<A: Arch>(x: f32) -> f32 {
    let (k, m) = parts(x);
    specials(x, combine::<A>(k, m - 1.0))
}

/// (k ln 2 + log(1 + f)) c with c = 1 / log(base) and kc = ln 2 c, whose products with k are exact.
#[inline(always)]
fn combine_base<A: Arch>(k: f32, f: f32, c: f32, kc: f32, kc_low: f32) -> f32 {
    let g = beyond_first::<A>(f);
    A::fma32(k, kc, A::fma32(f, c, A::fma32(k, kc_low, g * c)))
}

/// The same for base 2, exact at powers of two.
#[inline(always)]
fn combine_two<A: Arch>(k: f32, f: f32) -> f32 {
    let g = beyond_first::<A>(f);
    k + A::fma32(f, LOG2_E_F32[0], g * LOG2_E_F32[0])
}

#[inline(always)]
pub(crate) fn log2<A: Arch>(x: f32) -> f32 {
    let (k, m) = parts(x);
    specials(x, combine_two::<A>(k, m - 1.0))
}

#[inline(always)]
pub(crate) fn log10<A: Arch>(x: f32) -> f32 {
    let (k, m) = parts(x);
    specials(x, combine_base::<A>(k, m - 1.0, LOG10_E_F32[0], LOG10_2_F32[0], LOG10_2_F32[1]))
}

/// True for positive, normal, finite numbers, for which `quick` forms are valid.
#[inline(always)]
pub(crate) fn regular(x: f32) -> bool {
    const SMALLEST: u32 = f32::MIN_POSITIVE.to_bits();
    x.to_bits().wrapping_sub(SMALLEST) < f32::INFINITY.to_bits() - SMALLEST
}

#[inline(always)]
pub(crate) fn log_quick<A: Arch>(x: f32) -> (f32, bool) {
    let (k, m) = normal_parts(x);
    (combine::<A>(k, m - 1.0), regular(x))
}

#[inline(always)]
pub(crate) fn log2_quick<A: Arch>(x: f32) -> (f32, bool) {
    let (k, m) = normal_parts(x);
    (combine_two::<A>(k, m - 1.0), regular(x))
}

#[inline(always)]
pub(crate) fn log10_quick<A: Arch>(x: f32) -> (f32, bool) {
    let (k, m) = normal_parts(x);
    (combine_base::<A>(k, m - 1.0, LOG10_E_F32[0], LOG10_2_F32[0], LOG10_2_F32[1]), regular(x))
}

/// As [`normal_parts`], and 2^-k.
#[inline(always)]
fn scaled_parts(x: f32) -> (f32, f32, f32) {
    let t = x.to_bits().wrapping_add(ONE - SQRT_HALF);
    let (k, m) = normal_parts(x);
    (k, m, f32::from_bits((2 * ONE).wrapping_sub(t & !MANTISSA)))
}

/// For larger x, 1 + x is x.
const ONE_COUNTS: f32 = 1e9;

#[inline(always)]
pub(crate) fn log1p<A: Arch>(x: f32) -> f32 {
    let u = 1.0 + x;
    let (k, m, t) = scaled_parts(u);
    let f = select(x < ONE_COUNTS, A::fma32(t, x, t - 1.0), m - 1.0);
    let y = specials(u, combine::<A>(k, f));
    // This also keeps the sign of zero.
    select(x.abs() < 1e-9, x, y)
}

#[inline(always)]
pub(crate) fn log1p_quick<A: Arch>(x: f32) -> (f32, bool) {
    let (k, _, t) = scaled_parts(1.0 + x);
    (combine::<A>(k, A::fma32(t, x, t - 1.0)).copysign(x), (x > -1.0) & (x < ONE_COUNTS))
}

/// The scale for large arguments of asinh and acosh, and its compensation, as in [`crate::log`].
const LARGE: f32 = 1e5;
const LARGE_SCALE: f32 = 1.0 / 18_446_744_073_709_551_616.0;
const LARGE_EXTRA: f32 = 65.0;

/// k ln 2 + 2 atanh(s)
#[inline(always)]
fn sum<A: Arch>(k: f32, s: f32) -> f32 {
    let z = s * s;
    let tail = A::fma32(k, LN2_F32[1], s * z * horner32::<A, _>(z, &SERIES_F32));
    A::fma32(k, LN2_F32[0], A::fma32(2.0, s, tail))
}

/// log(w + l) + extra ln 2 or, where `small`, 2 atanh(num / den).
#[inline(always)]
fn inverse<A: Arch>(small: bool, num: f32, den: f32, w: f32, l: f32, extra: f32) -> f32 {
    let (k, m, t) = scaled_parts(w);
    let f = A::fma32(l, t, m - 1.0);
    let k = select(small, 0.0, k + extra);
    sum::<A>(k, select(small, num, f) / select(small, den, 2.0 + f))
}

/// log(a + sqrt(a^2 + 1)); near zero, 2 atanh(a / (1 + sqrt(a^2 + 1))).
#[inline(always)]
pub(crate) fn asinh<A: Arch>(x: f32) -> f32 {
    let a = x.abs();
    let large = a > LARGE;
    let q = A::fma32(a, a, 1.0).sqrt();
    let w = select(large, a * LARGE_SCALE, a + q);
    let l = select(large, 0.0, (q - w) + a);
    let y = inverse::<A>(a < 0.52, a, 1.0 + q, w, l, select(large, LARGE_EXTRA, 0.0));
    let y = select(a < f32::INFINITY, y, a);
    select(a < 1e-5, x, y.copysign(x))
}

/// log(x + sqrt(x^2 - 1)); near one, 2 atanh(sqrt((x - 1) / (x + 1))).
#[inline(always)]
pub(crate) fn acosh<A: Arch>(x: f32) -> f32 {
    let large = x > LARGE;
    let q = if A::FUSED { A::fma32(x, x, -1.0) } else { (x - 1.0) * (x + 1.0) }.sqrt();
    let w = select(large, x * LARGE_SCALE, x + q);
    let l = select(large, 0.0, (x - w) + q);
    let y = inverse::<A>(x < 1.06, q, x + 1.0, w, l, select(large, LARGE_EXTRA, 0.0));
    let y = select(x < f32::INFINITY, y, x);
    select(x < 1.0, f32::NAN, y)
}

/// (log(1 + a) - log(1 - a)) / 2 with one division. The power of two of the quotient comes from the bits of both.
#[inline(always)]
pub(crate) fn atanh<A: Arch>(x: f32) -> f32 {
    let a = x.abs();
    let (up, down) = (1.0 + a, 1.0 - a);
    let k = up.to_bits().wrapping_sub(down.to_bits()).wrapping_add(1 << 22) >> 23;
    let t = biased_power(k.wrapping_add(127));
    // (1 + a) - t (1 - a) with what the two sums lost; the product with a power of two is exact.
    let (up_low, down_low) = ((1.0 - up) + a, (1.0 - down) - a);
    let num = A::fma32(-t, down, up) + A::fma32(-t, down_low, up_low);
    let s = num / A::fma32(t, down, up);
    let y = 0.5 * sum::<A>(f32::from_bits(k | INTEGER) - TWO_23, s);
    let y = select(a < 1.0, y, select(a == 1.0, f32::INFINITY, f32::NAN));
    select(a < 1e-5, x, y.copysign(x))
}
