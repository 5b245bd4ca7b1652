//! asin, acos, atan, atan2.

use crate::arch::Arch;
use crate::bits::{horner, select};
use crate::coefficients::*;
use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};

/// pi/2 is FRAC_PI_2 + this.
const PIO2_LOW: f64 = PIO2[1];

/// asin(t) - t for |t| <= 1/2, z = t^2.
#[inline(always)]
fn beyond_first<A: Arch, const S: bool>(t: f64, z: f64) -> f64 {
    t * z * if S { horner::<A, _>(z, &ASIN_SHORT) } else { horner::<A, _>(z, &ASIN) }
}

/// pi/2 - 2 asin(sqrt((1 - a) / 2)) for a above 1/2.
#[inline(always)]
pub(crate) fn asin<A: Arch, const S: bool>(x: f64) -> f64 {
    let a = x.abs();
    let small = a <= 0.5;
    let z = select(small, a * a, 0.5 * (1.0 - a));
    let t = select(small, a, z.sqrt());
    let p = beyond_first::<A, S>(t, z);
    let y = select(small, t + p, FRAC_PI_2 - (2.0 * (t + p) - PIO2_LOW));
    y.copysign(x)
}

/// pi/2 - asin(x); for x above 1/2, 2 asin(sqrt((1 - x) / 2)).
#[inline(always)]
pub(crate) fn acos<A: Arch, const S: bool>(x: f64) -> f64 {
    let a = x.abs();
    let small = a <= 0.5;
    let z = select(small, a * a, 0.5 * (1.0 - a));
    let t = select(small, x, z.sqrt());
    let p = beyond_first::<A, S>(t, z);
    let centre = FRAC_PI_2 - (t - (PIO2_LOW - p));
    let right = 2.0 * (t + p);
    let left = 2.0 * (FRAC_PI_2 - (t - (PIO2_LOW - p)));
    select(small, centre, select(x < 0.0, left, right))
}

/// The angle of (den, num), both >= 0, as a turn by 0, pi/4 or pi/2 and the arctangent of a quotient of at most tan(pi/8). The result is
/// (turn, its low part, the first term of the arctangent, the rest).
#[inline(always)]
fn angle<A: Arch, const S: bool>(num: f64, den: f64) -> (f64, f64, f64, f64) {
    let low = num <= 0.4142 * den;
    let high = num > 2.4143 * den;
    let top = select(low, num, select(high, -den, num - den));
    let bottom = select(low, den, select(high, num, num + den));
    let turn = select(low, 0.0, select(high, FRAC_PI_2, FRAC_PI_4));
    let turn_low = select(low, 0.0, select(high, PIO2_LOW, 0.5 * PIO2_LOW));
    let t = top / bottom;
    let z = t * t;
    let rest = t * z * if S { horner::<A, _>(z, &ATAN_SHORT) } else { horner::<A, _>(z, &ATAN) };
    (turn, turn_low, t, rest)
}

#[inline(always)]
pub(crate) fn atan<A: Arch, const S: bool>(x: f64) -> f64 {
    let (turn, turn_low, t, rest) = angle::<A, S>(x.abs(), 1.0);
    (turn + (t + (rest + turn_low))).copysign(x)
}

/// For numbers up to 2^1000 that are not both below 2^-1000, apart from zero: see [`atan2_rare`].
#[inline(always)]
pub(crate) fn atan2<A: Arch, const S: bool>(y: f64, x: f64) -> f64 {
    let (a, b) = (y.abs(), x.abs());
    // If both are zero, any denominator will do. If both are infinite, the quotient is one.
    let b = select(a + b == 0.0, 1.0, b);
    let infinite = (a == f64::INFINITY) & (b == f64::INFINITY);
    let (a, b) = (select(infinite, 1.0, a), select(infinite, 1.0, b));
    let (turn, turn_low, t, rest) = angle::<A, S>(a, b);
    let back = x.is_sign_negative();
    let (turn, turn_low) = (select(back, PI - turn, turn), select(back, 2.0 * PIO2_LOW - turn_low, turn_low));
    let (t, rest) = (select(back, -t, t), select(back, -rest, rest));
    (turn + (t + (rest + turn_low))).copysign(y)
}

/// True if sums or products in [`atan2`] leave the range.
#[inline(always)]
pub(crate) fn atan2_rare(y: f64, x: f64) -> bool {
    let (a, b) = (y.abs(), x.abs());
    let sum = a + b;
    (sum > 1e300) | ((sum < 1e-300) & (sum > 0.0))
}
