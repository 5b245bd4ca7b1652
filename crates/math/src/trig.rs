//! sin, cos, tan: the argument is reduced by a multiple of pi/2 in three parts (Cody and Waite), then polynomials on [-pi/4, pi/4].

use crate::arch::Arch;
use crate::bits::{SHIFT, horner, nearest, select, two_product, two_sum};
use crate::coefficients::*;

/// For larger arguments, three parts of pi/2 are not enough.
pub(crate) const LARGE: f64 = 134_217_728.0;
/// The same for `f32` arguments.
pub(crate) const LARGE_SHORT: f32 = 1_048_576.0;

/// x = n pi/2 + h + l; the low bits of n.
#[inline(always)]
fn reduce<A: Arch, const S: bool>(x: f64) -> (u64, f64, f64) {
    let (n, k) = nearest(A::fma(x, std::f64::consts::FRAC_2_PI, SHIFT));
    if S {
        let r = A::fma(n, -PIO2_SHORT[0], x);
        return (k, A::fma(n, -PIO2_SHORT[1], r), 0.0);
    }
    // n pi/2 is close to x, so subtracting the first part is exact.
    let (a, e) = if A::FUSED {
        (A::fma(n, -PIO2[0], x), 0.0)
    } else {
        let (p, e) = two_product::<A>(n, PIO2[0]);
        two_sum(x - p, -e)
    };
    let (p, e2) = two_product::<A>(n, PIO2[1]);
    let (h, l) = two_sum(a, -p);
    (k, h, (l + e) - A::fma(n, PIO2[2], e2))
}

/// sin(h + l)
#[inline(always)]
fn small_sin<A: Arch, const S: bool>(h: f64, l: f64, z: f64) -> f64 {
    if S { A::fma(h * z, horner::<A, _>(z, &SIN_SHORT), h) } else { h + A::fma(h * z, horner::<A, _>(z, &SIN), l * (1.0 - 0.5 * z)) }
}

/// cos(h + l)
#[inline(always)]
fn small_cos<A: Arch, const S: bool>(h: f64, l: f64, z: f64) -> f64 {
    let half = 0.5 * z;
    let w = 1.0 - half;
    if S {
        A::fma(z * z, horner::<A, _>(z, &COS_SHORT), w)
    } else {
        w + (((1.0 - w) - half) + A::fma(z * z, horner::<A, _>(z, &COS), -(h * l)))
    }
}

/// sin(x + quarters pi/2)
#[inline(always)]
fn wave<A: Arch, const S: bool>(x: f64, quarters: u64) -> f64 {
    let (k, h, l) = reduce::<A, S>(x);
    let k = k.wrapping_add(quarters);
    let z = h * h;
    let y = select(k & 1 == 0, small_sin::<A, S>(h, l, z), small_cos::<A, S>(h, l, z));
    f64::from_bits(y.to_bits() ^ ((k & 2) << 62))
}

#[inline(always)]
pub(crate) fn sin<A: Arch, const S: bool>(x: f64) -> f64 {
    // This also keeps the sign of zero.
    select(x.abs() < 1e-9, x, wave::<A, S>(x, 0))
}

#[inline(always)]
pub(crate) fn cos<A: Arch, const S: bool>(x: f64) -> f64 {
    wave::<A, S>(x, 1)
}

#[inline(always)]
pub(crate) fn tan<A: Arch, const S: bool>(x: f64) -> f64 {
    let (k, h, l) = reduce::<A, S>(x);
    let z = h * h;
    let (s, c) = (small_sin::<A, S>(h, l, z), small_cos::<A, S>(h, l, z));
    let even = k & 1 == 0;
    let y = select(even, s, -c) / select(even, c, s);
    select(x.abs() < 1e-9, x, y)
}
