//! pow, hypot, logaddexp.

use crate::arch::Arch;
use crate::bits::{FULL, horner, select, two_product};
use crate::coefficients::*;
use crate::exp::{exp, exp_sum, exp_sum_quick};
use crate::log::{log1p, normal_parts, parts, regular};

/// log(2^k m) as a sum of two numbers with about 64 bits, by log(m) = 2 atanh(s) = s (2 + s^2 (2/3 + ...)), s = (m - 1) / (m + 1). s, s^2
/// and both sums in parentheses are sums of two numbers. The second number of the result may be some units in the last place of the first
/// one.
#[inline(always)]
fn long_log<A: Arch>(k: f64, m: f64) -> (f64, f64) {
    let f = m - 1.0;
    let inverse = 1.0 / (2.0 + f);
    let s = f * inverse;
    // f - s (2 + f): the first difference is exact, because both are close.
    let rest = A::fma(-2.0, s, f);
    let rest = if A::FUSED {
        A::fma(-s, f, rest)
    } else {
        let (p, e) = two_product::<A>(s, f);
        (rest - p) - e
    };
    let s_low = rest * inverse;
    let (z, z_low) = two_product::<A>(s, s);
    let t = horner::<A, _>(z, &POW);
    let u = A::fma(z, t, TWO_THIRDS[0]);
    let u_low = A::fma(z, t, TWO_THIRDS[0] - u) + TWO_THIRDS[1];
    let v = A::fma(z, u, 2.0);
    let v_low = if A::FUSED {
        A::fma(z, u, 2.0 - v)
    } else {
        let (p, e) = two_product::<A>(z, u);
        ((2.0 - v) + p) + e
    };
    let v_low = A::fma(z_low, u, A::fma(z, u_low, v_low));
    let (h, l) = two_product::<A>(s, v);
    // The derivative 2 / (1 - s^2), to ten bits, for the low part of s.
    let l = A::fma(s_low, A::fma(z, 2.0487, 2.0), A::fma(s, v_low, l));
    // The products with the first part of ln 2 are exact.
    let sum = A::fma(k, LN2[0], h);
    let low = A::fma(k, LN2[0], -sum) + h;
    (sum, low + A::fma(k, LN2[1], l))
}

/// Whether |y| is an integer, and whether it is an odd one.
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
pub(crate) fn pow<A: Arch>(x: f64, y: f64) -> f64 {
    let a = x.abs();
    let infinite = f64::INFINITY;
    let (k, m) = parts::<FULL>(a);
    let (h, l) = long_log::<A>(k, m);
    // Infinity and NaN are their own logarithms.
    let edge = select(a == 0.0, -infinite, a);
    let regular = (a > 0.0) & (a < infinite);
    let h = select(regular, h, edge);
    let l = select(regular, l, 0.0);
    // For larger y, every power except that of one is zero or infinite. With this bound, the product stays finite.
    let bounded = select(y > 1e30, 1e30, y);
    let bounded = select(bounded < -1e30, -1e30, bounded);
    let (p, e) = two_product::<A>(bounded, h);
    let power = exp_sum::<A>(p, A::fma(bounded, l, e));
    let (whole, odd) = integer(y);
    let power = select((x < 0.0) & (a < infinite) & !whole, f64::NAN, power);
    let power = select(odd & x.is_sign_negative(), -power, power);
    let one = (x == 1.0) | (y == 0.0) | ((a == 1.0) & (y.abs() == infinite));
    select(one, 1.0, power)
}

/// y log(x) as a sum of two numbers, and whether [`pow_end`] then gives the result of [`pow`]: for positive normal x and a result that is
/// not close to the ends of the range.
#[inline(always)]
pub(crate) fn pow_begin<A: Arch>(x: f64, y: f64) -> (f64, f64, bool) {
    let (k, m) = normal_parts(x);
    let (h, l) = long_log::<A>(k, m);
    let (p, e) = two_product::<A>(y, h);
    (p, A::fma(y, l, e), regular(x) & (p.abs() < 700.0))
}

#[inline(always)]
pub(crate) fn pow_end<A: Arch>(h: f64, l: f64) -> f64 {
    exp_sum_quick::<A>(h, l)
}

/// The naive formula, for magnitudes whose squares stay in range: see [`hypot_rare`].
#[inline(always)]
pub(crate) fn hypot<A: Arch, const S: bool>(x: f64, y: f64) -> f64 {
    let (a, b) = (x.abs(), y.abs());
    let (high, low) = (select(a > b, a, b), select(a > b, b, a));
    let r = A::fma(high, high, low * low).sqrt();
    select((a == f64::INFINITY) | (b == f64::INFINITY), f64::INFINITY, r)
}

/// True if squares in [`hypot`] leave the range or lose bits.
#[inline(always)]
pub(crate) fn hypot_rare(x: f64, y: f64) -> bool {
    let sum = x.abs() + y.abs();
    (sum > 1e150) | ((sum < 1e-140) & (sum > 0.0))
}

/// log(exp(x) + exp(y)) = max + log1p(exp(min - max))
#[inline(always)]
pub(crate) fn logaddexp<A: Arch, const S: bool>(x: f64, y: f64) -> f64 {
    let high = select(x > y, x, y);
    // This is not the minimum minus the maximum, so that NaN in either place is kept.
    let distance = -(x - y).abs();
    let sum = high + log1p::<A, S>(exp::<A, S>(distance));
    select(x == y, x + std::f64::consts::LN_2, sum)
}
