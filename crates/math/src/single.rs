//! The cheaper functions for `f32` in `f32`, where going through `f64` would cost more time than NumPy takes: twice the elements
//! a vector against an error of up to two units in the last place. The methods are those of the modules for `f64`.

use crate::arch::Arch;
use crate::bits::{horner32, select};
use crate::coefficients::*;

/// 1.5 * 2^23, as [`crate::bits::SHIFT`].
const SHIFT: f32 = 12_582_912.0;
const SQRT_HALF: u32 = 0x3f35_04f3;
const ONE: u32 = 0x3f80_0000;
const MANTISSA: u32 = 0x007f_ffff;
const INTEGER: u32 = 0x4b00_0000;
const TWO_23: f32 = 8_388_608.0;

/// The nearest integer as a float and in the low bits of a wrapped integer.
#[inline(always)]
fn nearest(shifted: f32) -> (f32, u32) {
    (shifted - SHIFT, shifted.to_bits().wrapping_sub(SHIFT.to_bits()))
}

/// 2^(k - 127) for 0 < k < 255.
#[inline(always)]
fn biased_power(k: u32) -> f32 {
    f32::from_bits(k << 23)
}

#[inline(always)]
fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = select(x > high, high, x);
    select(x < low, low, x)
}

/// y 2^k with one rounding.
#[inline(always)]
fn scale(y: f32, k: u32) -> f32 {
    let k = k.wrapping_add(254);
    let half = k >> 1;
    y * biased_power(half) * biased_power(k.wrapping_sub(half))
}

#[inline(always)]
fn small_expm1<A: Arch>(r: f32) -> f32 {
    A::fma32(r * r, horner32::<A, _>(r, &EXP_F32), r)
}

/// x = n ln 2 + r
#[inline(always)]
fn reduce<A: Arch>(x: f32) -> (u32, f32) {
    let (n, k) = nearest(A::fma32(x, LOG2_E_F32[0], SHIFT));
    (k, A::fma32(n, -LN2_F32[1], A::fma32(n, -LN2_F32[0], x)))
}

#[inline(always)]
pub(crate) fn exp<A: Arch>(x: f32) -> f32 {
    let (k, r) = reduce::<A>(clamp(x, -104.0, 89.0));
    scale(1.0 + small_expm1::<A>(r), k)
}

#[inline(always)]
pub(crate) fn exp2<A: Arch>(x: f32) -> f32 {
    let x = clamp(x, -151.0, 128.0);
    let (n, k) = nearest(x + SHIFT);
    scale(1.0 + small_expm1::<A>((x - n) * std::f32::consts::LN_2), k)
}

#[inline(always)]
pub(crate) fn expm1<A: Arch>(x: f32) -> f32 {
    let (k, r) = reduce::<A>(clamp(x, -30.0, 89.0));
    let t = biased_power(k.wrapping_add(126));
    let y = 2.0 * A::fma32(t, small_expm1::<A>(r), t - 0.5);
    select(x.abs() < 1e-9, x, y)
}

#[inline(always)]
pub(crate) fn tanh<A: Arch>(x: f32) -> f32 {
    let d = 2.0 * x.abs();
    let (k, r) = reduce::<A>(select(d > 20.0, 20.0, d));
    let t = biased_power(k.wrapping_add(127));
    let e = A::fma32(t, small_expm1::<A>(r), t - 1.0);
    (e / (e + 2.0)).copysign(x)
}

/// x = 2^k (1 + f), and log(1 + f) - f.
#[inline(always)]
fn log_parts<A: Arch>(x: f32) -> (f32, f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let t = select(tiny, x * 16_777_216.0, x).to_bits().wrapping_add(ONE - SQRT_HALF);
    let f = f32::from_bits((t & MANTISSA).wrapping_add(SQRT_HALF)) - 1.0;
    let k = f32::from_bits((t >> 23) | INTEGER) - select(tiny, TWO_23 + 151.0, TWO_23 + 127.0);
    let z = f * f;
    (k, f, A::fma32(z * f, horner32::<A, _>(f, &LOG_F32), -0.5 * z))
}

#[inline(always)]
fn specials(x: f32, y: f32) -> f32 {
    let y = select(x < f32::INFINITY, y, x);
    let y = select(x < 0.0, f32::NAN, y);
    select(x == 0.0, f32::NEG_INFINITY, y)
}

#[inline(always)]
pub(crate) fn log<A: Arch>(x: f32) -> f32 {
    let (k, f, g) = log_parts::<A>(x);
    specials(x, A::fma32(k, LN2_F32[0], f + A::fma32(k, LN2_F32[1], g)))
}

#[inline(always)]
fn log_base<A: Arch>(x: f32, c: [f32; 2], kc: [f32; 2]) -> f32 {
    let (k, f, g) = log_parts::<A>(x);
    let p = f * c[0];
    let e = if A::FUSED { A::fma32(f, c[0], -p) } else { (f64::from(f) * f64::from(c[0]) - f64::from(p)) as f32 };
    let rest = A::fma32(g, c[0], A::fma32(f, c[1], e));
    let h = k * kc[0];
    let sum = h + p;
    let low = p - (sum - h);
    specials(x, sum + (low + A::fma32(k, kc[1], rest)))
}

#[inline(always)]
pub(crate) fn log2<A: Arch>(x: f32) -> f32 {
    log_base::<A>(x, LOG2_E_F32, [1.0, 0.0])
}

#[inline(always)]
pub(crate) fn log10<A: Arch>(x: f32) -> f32 {
    log_base::<A>(x, LOG10_E_F32, LOG10_2_F32)
}

/// (1/2 or less of the way, asin's argument, asin - argument).
#[inline(always)]
fn asin_parts<A: Arch>(x: f32) -> (bool, f32, f32) {
    let a = x.abs();
    let small = a <= 0.5;
    let z = select(small, a * a, 0.5 * (1.0 - a));
    let t = select(small, a, z.sqrt());
    (small, t, t * z * horner32::<A, _>(z, &ASIN_F32))
}

#[inline(always)]
pub(crate) fn asin<A: Arch>(x: f32) -> f32 {
    let (small, t, p) = asin_parts::<A>(x);
    let large = PIO2_F32[0] - (2.0 * (t + p) - PIO2_F32[1]);
    select(small, t + p, large).copysign(x)
}

#[inline(always)]
pub(crate) fn acos<A: Arch>(x: f32) -> f32 {
    let (small, t, p) = asin_parts::<A>(x);
    let (s, q) = (t.copysign(x), p.copysign(x));
    let centre = PIO2_F32[0] - (s - (PIO2_F32[1] - q));
    let left = 2.0 * (PIO2_F32[0] - (t - (PIO2_F32[1] - p)));
    select(small, centre, select(x < 0.0, left, 2.0 * (t + p)))
}

#[inline(always)]
pub(crate) fn atan<A: Arch>(x: f32) -> f32 {
    let a = x.abs();
    let (low, high) = (a <= 0.4142, a > 2.4143);
    let top = select(low, a, select(high, -1.0, a - 1.0));
    let bottom = select(low, 1.0, select(high, a, a + 1.0));
    let turn = select(low, 0.0, select(high, PIO2_F32[0], 0.5 * PIO2_F32[0]));
    let turn_low = select(low, 0.0, select(high, PIO2_F32[1], 0.5 * PIO2_F32[1]));
    let t = top / bottom;
    let z = t * t;
    (turn + (t + (t * z * horner32::<A, _>(z, &ATAN_F32) + turn_low))).copysign(x)
}
