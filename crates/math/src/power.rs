//! pow, hypot, logaddexp.

use crate::arch::Arch;
use crate::bits::{fast_two_sum, horner, select, two_product};
use crate::coefficients::*;
use crate::exp::{exp, exp_sum};
use crate::log::{log1p, normal_parts, parts};

/// log(x) of a positive finite x with about 66 bits: with s = (m - 1) / (m + 1) the terms up to s^3 of 2 atanh(s) are computed as
/// sums of two numbers.
#[inline(always)]
fn long_log<A: Arch>(x: f64) -> (f64, f64) {
    let (k, m) = parts::<false>(x);
    let f = m - 1.0;
    let (dh, dl) = fast_two_sum(1.0, m);
    let inverse = 1.0 / dh;
    let sh = f * inverse;
    let (p, e) = two_product::<A>(sh, dh);
    let sl = inverse * (((f - p) - e) - sh * dl);
    let (zh, e) = two_product::<A>(sh, sh);
    let zl = A::fma(2.0 * sh, sl, e);
    let t = A::fma(zh, horner::<A, _>(zh, &POW), TWO_FIFTHS[0]);
    let (p, e) = two_product::<A>(zh, t);
    let (uh, ul) = fast_two_sum(TWO_THIRDS[0], p);
    let ul = ul + (A::fma(zl, t, e) + TWO_THIRDS[1]);
    let (vh, e) = two_product::<A>(zh, uh);
    let vl = A::fma(zh, ul, A::fma(zl, uh, e));
    let (wh, wl) = fast_two_sum(2.0, vh);
    let wl = wl + vl;
    let (lh, e) = two_product::<A>(sh, wh);
    let ll = A::fma(sh, wl, A::fma(sl, wh, e));
    let (h, l) = fast_two_sum(k * LN2[0], lh);
    (h, l + A::fma(k, LN2[1], ll))
}

/// log(x) of a positive finite x with more than the 40 bits that powers in `f32` need.
#[inline(always)]
fn medium_log<A: Arch>(x: f64) -> f64 {
    let (k, m) = normal_parts(x);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s;
    A::fma(k, std::f64::consts::LN_2, A::fma(s * z, horner::<A, _>(z, &LOG_MEDIUM), 2.0 * s))
}

/// |y| is an integer, and an odd one.
#[inline(always)]
fn integer(y: f64) -> (bool, bool) {
    const TWO_52: f64 = 4_503_599_627_370_496.0;
    let b = y.abs();
    let half = 0.5 * b;
    let whole = (b >= TWO_52) | ((b + TWO_52) - TWO_52 == b);
    let even = (half >= TWO_52) | ((half + TWO_52) - TWO_52 == half);
    (whole, whole & !even)
}

#[inline(always)]
pub(crate) fn pow<A: Arch, const S: bool>(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let infinite = f64::INFINITY;
    let (h, l) = if S { (medium_log::<A>(a), 0.0) } else { long_log::<A>(a) };
    // Infinity and NaN go through as their own logarithms.
    let edge = select(a == 0.0, -infinite, a);
    let regular = (a > 0.0) & (a < infinite);
    let h = select(regular, h, edge);
    let l = select(regular, l, 0.0);
    let power = if S {
        exp::<A, S>(y * h)
    } else {
        // Beyond this bound of y every power but that of one is zero or infinite, and the product stays finite.
        let bounded = select(y > 1e30, 1e30, y);
        let bounded = select(bounded < -1e30, -1e30, bounded);
        let (p, e) = two_product::<A>(bounded, h);
        exp_sum::<A, S>(p, A::fma(bounded, l, e))
    };
    let (whole, odd) = integer(y);
    let power = select((x < 0.0) & (a < infinite) & !whole, f64::NAN, power);
    let power = select(odd & x.is_sign_negative(), -power, power);
    let one = (x == 1.0) | (y == 0.0) | ((a == 1.0) & (y.abs() == infinite));
    select(one, 1.0, power)
}

/// The naive formula, for magnitudes that squares do not take out of range: see [`hypot_rare`].
#[inline(always)]
pub(crate) fn hypot<A: Arch, const S: bool>(x: f64, y: f64) -> f64 {
    let (a, b) = (x.abs(), y.abs());
    let (high, low) = (select(a > b, a, b), select(a > b, b, a));
    let r = A::fma(high, high, low * low).sqrt();
    select((a == f64::INFINITY) | (b == f64::INFINITY), f64::INFINITY, r)
}

/// Where squares in [`hypot`] leave the range or lose bits.
#[inline(always)]
pub(crate) fn hypot_rare(x: f64, y: f64) -> bool {
    let sum = x.abs() + y.abs();
    (sum > 1e150) | ((sum < 1e-140) & (sum > 0.0))
}

/// log(exp(x) + exp(y)) = max + log1p(exp(min - max))
#[inline(always)]
pub(crate) fn logaddexp<A: Arch, const S: bool>(x: f64, y: f64) -> f64 {
    let high = select(x > y, x, y);
    // Not the minimum less the maximum: a NaN in either place comes through.
    let distance = -(x - y).abs();
    let sum = high + log1p::<A, S>(exp::<A, S>(distance));
    select(x == y, x + std::f64::consts::LN_2, sum)
}
