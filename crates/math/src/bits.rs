//! Small branch-free functions that all others share.

use crate::arch::Arch;

/// Adding and subtracting 1.5 * 2^52 rounds to an integer and leaves it in the low bits.
pub(crate) const SHIFT: f64 = 6_755_399_441_055_744.0;

/// A constant argument that selects full precision (`false`) or the 30 bits that an `f32` result needs (`true`).
pub(crate) const FULL: bool = false;
/// See [`FULL`].
pub(crate) const SHORT: bool = true;

/// Computes both values, so that the compiler makes a blend.
#[inline(always)]
pub(crate) fn select<T>(condition: bool, yes: T, no: T) -> T {
    if condition { yes } else { no }
}

/// c[0] + c[1] x + c[2] x^2 + ... Even and odd powers are summed separately, so that the chain of dependent operations is half as long.
#[inline(always)]
pub(crate) fn horner<A: Arch, const N: usize>(x: f64, c: &[f64; N]) -> f64 {
    let square = x * x;
    // The two highest coefficients, then downwards by two.
    let (mut first, mut second) = (c[N - 1], c[N - 2]);
    let mut i = N - 2;
    while i >= 2 {
        first = A::fma(first, square, c[i - 1]);
        second = A::fma(second, square, c[i - 2]);
        i -= 2;
    }
    if i == 1 { A::fma(second, x, A::fma(first, square, c[0])) } else { A::fma(first, x, second) }
}

/// As [`horner`] for `f32`.
#[inline(always)]
pub(crate) fn horner32<A: Arch, const N: usize>(x: f32, c: &[f32; N]) -> f32 {
    let mut y = c[N - 1];
    let mut i = N - 1;
    while i > 0 {
        i -= 1;
        y = A::fma32(y, x, c[i]);
    }
    y
}

/// a + b as a sum of two numbers, without error (Knuth).
#[inline(always)]
pub(crate) fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let t = s - a;
    (s, (a - (s - t)) + (b - t))
}

/// a * b as a sum of two numbers: exact with fused multiply-add, otherwise by Dekker's splitting, which needs |a|, |b| < 2^970.
#[inline(always)]
pub(crate) fn two_product<A: Arch>(a: f64, b: f64) -> (f64, f64) {
    let p = a * b;
    if A::FUSED {
        (p, A::fma(a, b, -p))
    } else {
        let (ah, al) = split(a);
        let (bh, bl) = split(b);
        (p, ((ah * bh - p) + ah * bl + al * bh) + al * bl)
    }
}

/// The upper 26 bits and the rest.
#[inline(always)]
fn split(a: f64) -> (f64, f64) {
    let h = f64::from_bits(a.to_bits() & 0xffff_ffff_f800_0000);
    (h, a - h)
}

/// The integer nearest to x, |x| < 2^51, as a float and in the low bits of a wrapped integer.
#[inline(always)]
pub(crate) fn nearest(shifted: f64) -> (f64, u64) {
    (shifted - SHIFT, shifted.to_bits().wrapping_sub(SHIFT.to_bits()))
}

/// 2^(k - 1023) for 0 < k < 2047.
#[inline(always)]
pub(crate) fn biased_power(k: u64) -> f64 {
    f64::from_bits(k << 52)
}

/// 2^k for -1022 <= k <= 1023.
#[inline(always)]
pub(crate) fn power(k: u64) -> f64 {
    biased_power(k.wrapping_add(1023))
}
