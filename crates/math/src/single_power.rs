//! pow for `f32`, as [`crate::power`] does it for `f64`: the logarithm as a sum of two numbers.

use crate::arch::Arch;
use crate::bits::{horner32, select};
use crate::coefficients::*;
use crate::single::{SHIFT, TWO_23, clamp, nearest, scale, small_expm1};
use crate::single_log::{normal_parts, parts, regular};

/// a b + c with one rounding of the product or better.
#[inline(always)]
fn exact<A: Arch>(a: f32, b: f32, c: f32) -> f32 {
    if A::FUSED { A::fma32(a, b, c) } else { (f64::from(a) * f64::from(b) + f64::from(c)) as f32 }
}

/// log(2^k m) as a sum of two numbers with about 31 bits, which a power of up to 2^127 needs, as [`crate::power`] has it.
#[inline(always)]
fn long_log<A: Arch>(k: f32, m: f32) -> (f32, f32) {
    let f = m - 1.0;
    let inverse = 1.0 / (2.0 + f);
    let s = f * inverse;
    // f - s (2 + f): the first difference is exact, both being close.
    let s_low = exact::<A>(-s, f, A::fma32(-2.0, s, f)) * inverse;
    let z = s * s;
    let q = horner32::<A, _>(z, &POW_F32);
    let v = A::fma32(z, q, 2.0);
    let v_low = exact::<A>(z, q, 2.0 - v);
    let h = s * v;
    let l = A::fma32(s, v_low, exact::<A>(s, v, -h));
    // The derivative 2 / (1 - s^2) for the low part of s.
    let l = A::fma32(s_low, A::fma32(z, 2.0487, 2.0), l);
    // The products with the first part of ln 2 are exact.
    let sum = A::fma32(k, LN2_F32[0], h);
    let low = A::fma32(k, LN2_F32[0], -sum) + h;
    (sum, low + A::fma32(k, LN2_F32[1], l))
}

/// exp(h + l) / 2^k, and k in the low bits.
#[inline(always)]
fn reduced_sum<A: Arch>(h: f32, l: f32) -> (f32, u32) {
    let (n, k) = nearest(A::fma32(h, LOG2_E_F32[0], SHIFT));
    let r = A::fma32(n, -LN2_F32[0], h);
    let r = r + A::fma32(n, -LN2_F32[1], l);
    (1.0 + small_expm1::<A>(r), k)
}

/// |y| is an integer, and an odd one.
#[inline(always)]
fn integer(y: f32) -> (bool, bool) {
    let b = y.abs();
    let half = 0.5 * b;
    let whole = (b >= TWO_23) | ((b + TWO_23) - TWO_23 == b);
    let even = (half >= TWO_23) | ((half + TWO_23) - TWO_23 == half);
    (whole, whole & !even)
}

#[inline(always)]
pub(crate) fn pow<A: Arch>(x: f32, y: f32) -> f32 {
    let a = x.abs();
    let infinite = f32::INFINITY;
    let (k, m) = parts(a);
    let (h, l) = long_log::<A>(k, m);
    let edge = select(a == 0.0, -infinite, a);
    let regular = (a > 0.0) & (a < infinite);
    let h = select(regular, h, edge);
    let l = select(regular, l, 0.0);
    // Beyond this bound of y every power but that of one is zero or infinite, and the product stays finite.
    let bounded = clamp(y, -1e12, 1e12);
    let p = bounded * h;
    let e = A::fma32(bounded, l, exact::<A>(bounded, h, -p));
    let e = select(p.abs() < 110.0, e, 0.0);
    let (power, k) = reduced_sum::<A>(clamp(p, -104.0, 89.0), e);
    let power = scale(power, k);
    let (whole, odd) = integer(y);
    let power = select((x < 0.0) & (a < infinite) & !whole, f32::NAN, power);
    let power = select(odd & x.is_sign_negative(), -power, power);
    let one = (x == 1.0) | (y == 0.0) | ((a == 1.0) & (y.abs() == infinite));
    select(one, 1.0, power)
}

/// y log(x) as a sum of two numbers, and whether [`pow_end`] makes the same of it as [`pow`]: for positive normal x and a result far
/// enough from the ends of the range.
#[inline(always)]
pub(crate) fn pow_begin<A: Arch>(x: f32, y: f32) -> (f32, f32, bool) {
    let (k, m) = normal_parts(x);
    let (h, l) = long_log::<A>(k, m);
    let p = y * h;
    (p, A::fma32(y, l, exact::<A>(y, h, -p)), regular(x) & (p.abs() < 87.0))
}

#[inline(always)]
pub(crate) fn pow_end<A: Arch>(h: f32, l: f32) -> f32 {
    let (y, k) = reduced_sum::<A>(h, l);
    f32::from_bits(y.to_bits().wrapping_add(k << 23))
}
