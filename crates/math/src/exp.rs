//! exp, exp2, expm1, sinh, cosh, tanh: argument = n ln 2 + r, a polynomial in r, 2^n through the exponent bits.

use crate::arch::Arch;
use crate::bits::{FULL, SHIFT, biased_power, horner, nearest, power, select};
use crate::coefficients::*;

/// exp(r) - 1 for |r| <= ln(2)/2 as r + r^2 (...).
#[inline(always)]
fn small_expm1<A: Arch, const S: bool>(r: f64) -> f64 {
    let q = if S { horner::<A, _>(r, &EXP_SHORT) } else { horner::<A, _>(r, &EXP) };
    A::fma(r * r, q, r)
}

/// x = n ln 2 + r; n as a float and in the low bits of an integer.
#[inline(always)]
fn reduce<A: Arch>(x: f64) -> (f64, u64, f64) {
    let (n, k) = nearest(A::fma(x, LOG2_E[0], SHIFT));
    let r = A::fma(n, -LN2[0], x);
    (n, k, A::fma(n, -LN2[1], r))
}

/// Limits x to these bounds. NaN stays NaN.
#[inline(always)]
fn clamp(x: f64, low: f64, high: f64) -> f64 {
    let x = select(x > high, high, x);
    select(x < low, low, x)
}

/// y 2^k for -1077 <= k <= 1025 with one rounding: multiplies by two factors, of which the first is exact.
#[inline(always)]
fn scale<const S: bool>(y: f64, k: u64) -> f64 {
    if S {
        return y * power(k);
    }
    let k = k.wrapping_add(2046);
    let half = k >> 1;
    y * biased_power(half) * biased_power(k.wrapping_sub(half))
}

#[inline(always)]
pub(crate) fn exp<A: Arch, const S: bool>(x: f64) -> f64 {
    let x = if S { clamp(x, -120.0, 90.0) } else { clamp(x, -746.0, 710.0) };
    let (_, k, r) = reduce::<A>(x);
    scale::<S>(1.0 + small_expm1::<A, S>(r), k)
}

/// exp(h + l) / 2^k, and k in the low bits.
#[inline(always)]
fn reduced_sum<A: Arch>(h: f64, l: f64) -> (f64, u64) {
    let (n, k) = nearest(A::fma(h, LOG2_E[0], SHIFT));
    let r = A::fma(n, -LN2[0], h);
    let r = r + A::fma(n, -LN2[1], l);
    (1.0 + small_expm1::<A, FULL>(r), k)
}

/// exp(h + l) for |l| much smaller than h. h may be infinite; then l does not matter.
#[inline(always)]
pub(crate) fn exp_sum<A: Arch>(h: f64, l: f64) -> f64 {
    let l = select(h.abs() < 750.0, l, 0.0);
    let (y, k) = reduced_sum::<A>(clamp(h, -746.0, 710.0), l);
    scale::<FULL>(y, k)
}

/// As [`exp_sum`] where |h| < 700.
#[inline(always)]
pub(crate) fn exp_sum_quick<A: Arch>(h: f64, l: f64) -> f64 {
    let (y, k) = reduced_sum::<A>(h, l);
    f64::from_bits(y.to_bits().wrapping_add(k << 52))
}

#[inline(always)]
pub(crate) fn exp2<A: Arch, const S: bool>(x: f64) -> f64 {
    let x = if S { clamp(x, -160.0, 130.0) } else { clamp(x, -1076.0, 1025.0) };
    let (n, k) = nearest(x + SHIFT);
    let d = x - n;
    let r = A::fma(d, LN2_53[0], d * LN2_53[1]);
    scale::<S>(1.0 + small_expm1::<A, S>(r), k)
}

#[inline(always)]
pub(crate) fn expm1<A: Arch, const S: bool>(x: f64) -> f64 {
    let c = clamp(x, -60.0, 710.0);
    let (_, k, r) = reduce::<A>(c);
    let p = small_expm1::<A, S>(r);
    // A power less, and doubled, because n may be 1024.
    let t = power(k.wrapping_sub(1));
    let y = 2.0 * A::fma(t, p, t - 0.5);
    select(x.abs() < 1e-18, x, y)
}

/// Intermediate values for sinh and cosh of a >= 0: 2^n (sinh, cosh)(r) combined, divided by 4.
#[inline(always)]
fn parts<A: Arch, const S: bool>(a: f64) -> (f64, f64, f64, f64) {
    let (n, k, r) = reduce::<A>(select(a > 710.6, 710.6, a));
    let z = r * r;
    let sh = if S { horner::<A, _>(z, &SINH_SHORT) } else { horner::<A, _>(z, &SINH) };
    let ch = if S { horner::<A, _>(z, &COSH_SHORT) } else { horner::<A, _>(z, &COSH) };
    let up = power(k.wrapping_sub(2));
    // Beyond 2^-100 the negative power does not matter.
    let down = biased_power((1021.0 + SHIFT - select(n > 100.0, 100.0, n)).to_bits().wrapping_sub(SHIFT.to_bits()));
    (up, down, A::fma(r * z, sh, r), z * ch)
}

#[inline(always)]
pub(crate) fn sinh<A: Arch, const S: bool>(x: f64) -> f64 {
    let a = x.abs();
    let (up, down, sh, ch1) = parts::<A, S>(a);
    let (odd, even) = (up - down, up + down);
    let y = 2.0 * (odd + A::fma(odd, ch1, even * sh));
    select(a < 1e-9, x, y.copysign(x))
}

#[inline(always)]
pub(crate) fn cosh<A: Arch, const S: bool>(x: f64) -> f64 {
    let (up, down, sh, ch1) = parts::<A, S>(x.abs());
    let (odd, even) = (up - down, up + down);
    2.0 * (even + A::fma(even, ch1, odd * sh))
}

/// E / (E + 2) with E = exp(2 |x|) - 1.
#[inline(always)]
pub(crate) fn tanh<A: Arch, const S: bool>(x: f64) -> f64 {
    let d = 2.0 * x.abs();
    let (_, k, r) = reduce::<A>(select(d > 44.0, 44.0, d));
    let t = power(k);
    let e = A::fma(t, small_expm1::<A, S>(r), t - 1.0);
    (e / (e + 2.0)).copysign(x)
}
