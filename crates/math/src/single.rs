//! Cheap functions for `f32` that are computed in `f32`, because `f64` would take more time than NumPy. A vector has twice the elements,
//! and the error is up to three units in the last place. The methods are those of the modules for `f64`.

use crate::arch::Arch;
use crate::bits::{SHORT, horner32, select};
use crate::coefficients::*;

/// 1.5 * 2^23, as [`crate::bits::SHIFT`].
pub(crate) const SHIFT: f32 = 12_582_912.0;
pub(crate) const TWO_23: f32 = 8_388_608.0;

/// The nearest integer as a float and in the low bits of a wrapped integer.
#[inline(always)]
pub(crate) fn nearest(shifted: f32) -> (f32, u32) {
    (shifted - SHIFT, shifted.to_bits().wrapping_sub(SHIFT.to_bits()))
}

/// 2^(k - 127) for 0 < k < 255.
#[inline(always)]
pub(crate) fn biased_power(k: u32) -> f32 {
    f32::from_bits(k << 23)
}

#[inline(always)]
pub(crate) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = select(x > high, high, x);
    select(x < low, low, x)
}

/// y 2^k with one rounding.
#[inline(always)]
pub(crate) fn scale(y: f32, k: u32) -> f32 {
    let k = k.wrapping_add(254);
    let half = k >> 1;
    y * biased_power(half) * biased_power(k.wrapping_sub(half))
}

#[inline(always)]
pub(crate) fn small_expm1<A: Arch>(r: f32) -> f32 {
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
    let d = select(d > 20.0, 20.0, d);
    let (n, k) = nearest(A::fma32(d, LOG2_E_F32[0], SHIFT));
    // ln 2 in one piece. For large n, this loses as little as the slope of tanh there.
    let r = A::fma32(n, -std::f32::consts::LN_2, d);
    let t = biased_power(k.wrapping_add(127));
    let e = A::fma32(t, small_expm1::<A>(r), t - 1.0);
    (e / (e + 2.0)).copysign(x)
}

/// Intermediate values for sinh and cosh of a >= 0, as in [`crate::exp`].
#[inline(always)]
fn hyperbolic<A: Arch>(a: f32) -> (f32, f32, f32, f32) {
    let a = select(a > 89.5, 89.5, a);
    let (n, k) = nearest(A::fma32(a, LOG2_E_F32[0], SHIFT));
    let r = A::fma32(n, -LN2_F32[1], A::fma32(n, -LN2_F32[0], a));
    let z = r * r;
    let sh = A::fma32(r * z, horner32::<A, _>(z, &SINH_F32), r);
    let ch = z * horner32::<A, _>(z, &COSH_F32);
    let up = biased_power(k.wrapping_add(125));
    let down = biased_power((125.0 + SHIFT - select(n > 60.0, 60.0, n)).to_bits().wrapping_sub(SHIFT.to_bits()));
    (up - down, up + down, sh, ch)
}

#[inline(always)]
pub(crate) fn sinh<A: Arch>(x: f32) -> f32 {
    let a = x.abs();
    let (odd, even, sh, ch) = hyperbolic::<A>(a);
    let y = 2.0 * (odd + A::fma32(odd, ch, even * sh));
    // Half of a subnormal number would lose a bit.
    select(a < 1e-5, x, y.copysign(x))
}

#[inline(always)]
pub(crate) fn cosh<A: Arch>(x: f32) -> f32 {
    let (odd, even, sh, ch) = hyperbolic::<A>(x.abs());
    2.0 * (even + A::fma32(even, ch, odd * sh))
}

/// sin(x + quarters pi/2). The argument is reduced by n pi/2 as in [`tan`]. Without fused multiply-add, this is done in `f64`.
#[inline(always)]
fn wave<A: Arch>(x: f32, quarters: u32) -> f32 {
    let (n, k) = nearest(A::fma32(x, std::f32::consts::FRAC_2_PI, SHIFT));
    let r = A::fma32(n, -PIO2_PARTS_F32[1], A::fma32(n, -PIO2_PARTS_F32[0], x));
    let r = A::fma32(n, -PIO2_PARTS_F32[2], r);
    let z = r * r;
    let s = A::fma32(r * z, horner32::<A, _>(z, &SIN_F32), r);
    let c = A::fma32(z * z, horner32::<A, _>(z, &COS_F32), A::fma32(z, -0.5, 1.0));
    let k = k.wrapping_add(quarters);
    let y = select(k & 1 == 0, s, c);
    f32::from_bits(y.to_bits() ^ ((k & 2) << 30))
}

#[inline(always)]
pub(crate) fn sin<A: Arch>(x: f32) -> f32 {
    if !A::FUSED {
        return crate::trig::sin::<A, SHORT>(f64::from(x)) as f32;
    }
    // The parts of pi/2 have different signs, which loses the sign of zero.
    select(x == 0.0, x, wave::<A>(x, 0))
}

#[inline(always)]
pub(crate) fn cos<A: Arch>(x: f32) -> f32 {
    if A::FUSED { wave::<A>(x, 1) } else { crate::trig::cos::<A, SHORT>(f64::from(x)) as f32 }
}

/// The argument is reduced by n pi/2. The first difference is exact with fused multiply-add. Without it, this is done in `f64`.
#[inline(always)]
pub(crate) fn tan<A: Arch>(x: f32) -> f32 {
    if !A::FUSED {
        return crate::trig::tan::<A, SHORT>(f64::from(x)) as f32;
    }
    let (n, k) = nearest(A::fma32(x, std::f32::consts::FRAC_2_PI, SHIFT));
    let r = A::fma32(n, -PIO2_PARTS_F32[1], A::fma32(n, -PIO2_PARTS_F32[0], x));
    let r = A::fma32(n, -PIO2_PARTS_F32[2], r);
    let z = r * r;
    let t = A::fma32(r * z, horner32::<A, _>(z, &TAN_F32), r);
    let even = k & 1 == 0;
    let y = select(even, t, -1.0) / select(even, 1.0, t);
    select(x.abs() < 1e-5, x, y)
}

/// Whether |x| is at most 1/2, the argument of asin, and asin of it minus the argument.
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

/// For numbers up to 1e37 that are not both below 1e-37, apart from zero: see [`atan2_rare`].
#[inline(always)]
pub(crate) fn atan2<A: Arch>(y: f32, x: f32) -> f32 {
    let (a, b) = (y.abs(), x.abs());
    // If both are zero, any denominator will do.
    let b = select(a + b == 0.0, 1.0, b);
    let steep = a > b;
    let back = x.is_sign_negative();
    let t = select(steep, b, a) / select(steep, a, b);
    let t = select(steep ^ back, -t, t);
    let z = t * t;
    let rest = t * z * horner32::<A, _>(z, &TURN_F32);
    let turn = select(steep, PIO2_F32[0], select(back, 2.0 * PIO2_F32[0], 0.0));
    let turn_low = select(steep, PIO2_F32[1], select(back, 2.0 * PIO2_F32[1], 0.0));
    (turn + (t + (rest + turn_low))).copysign(y)
}

/// True if sums in [`atan2`] leave the range or quotients lose bits.
#[inline(always)]
pub(crate) fn atan2_rare(y: f32, x: f32) -> bool {
    let sum = y.abs() + x.abs();
    (sum > 1e37) | ((sum < 1e-37) & (sum > 0.0))
}
