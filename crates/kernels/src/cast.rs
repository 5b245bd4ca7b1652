//! Conversion between dtypes, element by element and strip by strip.

// Both comparisons at once: the second must not be a branch.
#![allow(clippy::manual_range_contains)]

use crate::elementwise::strip::{Buffer, Element, Strip, StripFn, copy, map1, plain1};
use crate::with_dtype;
use chunkwise_types::DType;
use num_complex::{Complex, Complex32, Complex64};

/// A number that converts to `T` as NumPy's `astype` does.
pub(crate) trait To<T> {
    fn to(self) -> T;
}

/// Floats to integers, as `as` converts them, but in a form that becomes vectors: what `as` compiles to does not.
macro_rules! truncated {
    ($($a:ty: { $($b:ty, $wide:ty;)* })*) => {$($(
        impl To<$b> for $a {
            #[inline(always)]
            fn to(self) -> $b {
                // Exact: powers of 2, or 0.
                const LOW: $a = <$b>::MIN as $a;
                const END: $a = (<$b>::MAX / 2 + 1) as $a * 2.0;
                // The greatest integer, or where it is no float the one before.
                const EXACT: bool = <$b>::BITS < <$a>::MANTISSA_DIGITS;
                const HIGH: $a = if EXACT { END - 1.0 } else { END.next_down() };
                let x = if self.is_nan() { 0.0 } else { self };
                let x = if x > LOW { x } else { LOW };
                let x = if x < HIGH { x } else { HIGH };
                // SAFETY: the number lies in the range of the integer, which the wider integer holds.
                let whole = unsafe { x.to_int_unchecked::<$wide>() } as $b;
                if !EXACT && self >= END { <$b>::MAX } else { whole }
            }
        }
        impl To<$b> for Complex<$a> { #[inline(always)] fn to(self) -> $b { self.re.to() } }
    )*)*};
}
// Vectors of floats are converted to integers of at least 32 bits.
truncated! {
    f32: { i8, i32; i16, i32; i32, i32; i64, i64; u8, i32; u16, i32; u32, u32; u64, u64; }
    f64: { i8, i32; i16, i32; i32, i32; i64, i64; u8, i32; u16, i32; u32, u32; u64, u64; }
}

macro_rules! numbers {
    ($($a:ty: $($b:ty)*;)*) => {$(
        numbers!(@row $a: $($b)*);
        impl To<bool> for $a { #[inline(always)] fn to(self) -> bool { self != 0 as $a } }
        impl To<Complex32> for $a { #[inline(always)] fn to(self) -> Complex32 { Complex::new(self as f32, 0.0) } }
        impl To<Complex64> for $a { #[inline(always)] fn to(self) -> Complex64 { Complex::new(self as f64, 0.0) } }
        impl To<$a> for bool { #[inline(always)] fn to(self) -> $a { u8::from(self) as $a } }
    )*};
    (@row $a:ty: $($b:ty)*) => {$(
        impl To<$b> for $a { #[inline(always)] fn to(self) -> $b { self as $b } }
    )*};
}
numbers! {
    i8: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;
    i16: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;
    i32: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;
    i64: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;
    u8: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;
    u16: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;
    u32: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;
    u64: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64;
    f32: f32 f64;
    f64: f32 f64;
}

macro_rules! pairs {
    ($($a:ty, $b:ty: |$x:ident| $e:expr;)*) => {$(
        impl To<$b> for $a { #[inline(always)] fn to(self) -> $b { let $x = self; $e } }
    )*};
}
pairs! {
    bool, bool: |x| x;
    bool, Complex32: |x| Complex::new(f32::from(u8::from(x)), 0.0);
    bool, Complex64: |x| Complex::new(f64::from(u8::from(x)), 0.0);
    Complex32, f32: |x| x.re;
    Complex32, f64: |x| f64::from(x.re);
    Complex64, f32: |x| x.re as f32;
    Complex64, f64: |x| x.re;
    Complex32, bool: |x| x.re != 0.0 || x.im != 0.0;
    Complex64, bool: |x| x.re != 0.0 || x.im != 0.0;
    Complex32, Complex32: |x| x;
    Complex64, Complex64: |x| x;
    Complex32, Complex64: |x| Complex::new(f64::from(x.re), f64::from(x.im));
    Complex64, Complex32: |x| Complex::new(x.re as f32, x.im as f32);
}

fn convert<A: Element + To<B>, B: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    map1::<A, B>(ins, n, out, To::to)
}

/// As [`convert`], compiled for the baseline only: what has two parts is seldom converted.
fn converted_slowly<A: Element + To<B>, B: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    plain1::<A, B>(ins, n, out, To::to)
}

/// The dtype of another kind whose bits convert in the same way.
///
/// Integers wrap: of the result only the width matters, and of the number itself only where the result is wider, or a float.
fn alike(from: DType, to: DType) -> (DType, DType) {
    use DType::*;
    let unsigned = |d| match d {
        Int8 => UInt8,
        Int16 => UInt16,
        Int32 => UInt32,
        Int64 => UInt64,
        other => other,
    };
    match (from.is_integer(), to.is_integer()) {
        (true, true) if to.size() > from.size() => (from, unsigned(to)),
        (true, true) => (unsigned(from), unsigned(to)),
        (true, false) if to == Bool => (unsigned(from), to),
        (false, true) if from == Bool => (from, unsigned(to)),
        _ => (from, to),
    }
}

/// The conversion of strips.
pub(crate) fn strips(from: DType, to: DType) -> StripFn {
    let (from, to) = alike(from, to);
    macro_rules! between {
        ($run:ident: $($a:ident $x:ty => $($b:ident $y:ty)*;)*) => {
            match (from, to) {
                $($((DType::$a, DType::$b) => $run::<$x, $y>,)*)*
                (DType::Complex64, DType::Complex128) => convert::<Complex32, Complex64>,
                (DType::Complex128, DType::Complex64) => convert::<Complex64, Complex32>,
                (DType::Complex64, _) => with_dtype!(to, B => converted_slowly::<Complex32, B>),
                (DType::Complex128, _) => with_dtype!(to, B => converted_slowly::<Complex64, B>),
                (_, DType::Complex64) => with_dtype!(from, A => converted_slowly::<A, Complex32>),
                (_, DType::Complex128) => with_dtype!(from, A => converted_slowly::<A, Complex64>),
                // The same bits.
                _ => with_dtype!(to, T => copy::<T>),
            }
        };
    }
    between! { convert:
        Bool bool => UInt8 u8 UInt16 u16 UInt32 u32 UInt64 u64 Float32 f32 Float64 f64;
        Int8 i8 => UInt16 u16 UInt32 u32 UInt64 u64 Float32 f32 Float64 f64;
        Int16 i16 => UInt32 u32 UInt64 u64 Float32 f32 Float64 f64;
        Int32 i32 => UInt64 u64 Float32 f32 Float64 f64;
        Int64 i64 => Float32 f32 Float64 f64;
        UInt8 u8 => Bool bool UInt16 u16 UInt32 u32 UInt64 u64 Float32 f32 Float64 f64;
        UInt16 u16 => Bool bool UInt8 u8 UInt32 u32 UInt64 u64 Float32 f32 Float64 f64;
        UInt32 u32 => Bool bool UInt8 u8 UInt16 u16 UInt64 u64 Float32 f32 Float64 f64;
        UInt64 u64 => Bool bool UInt8 u8 UInt16 u16 UInt32 u32 Float32 f32 Float64 f64;
        Float32 f32 => Bool bool Int8 i8 Int16 i16 Int32 i32 Int64 i64 UInt8 u8 UInt16 u16 UInt32 u32 UInt64 u64 Float64 f64;
        Float64 f64 => Bool bool Int8 i8 Int16 i16 Int32 i32 Int64 i64 UInt8 u8 UInt16 u16 UInt32 u32 UInt64 u64 Float32 f32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockElement;
    use crate::{Block, cast};
    use ndarray::ArcArray;

    fn block<T: BlockElement>(data: &[T]) -> Block {
        T::wrap(ArcArray::from(data.to_vec()).into_dyn())
    }

    fn check<A: BlockElement, B: BlockElement>(from: &[A], want: &[B]) {
        let got = cast(&block(from), B::DTYPE);
        assert_eq!(B::unwrap(&got).unwrap().iter().copied().collect::<Vec<B>>(), want);
    }

    #[test]
    fn follows_astype() {
        check(&[1.9f64, -1.9, f64::NAN, 1e30], &[1i32, -1, 0, i32::MAX]);
        check(&[300i32, -1], &[44u8, 255]);
        check(&[-1i8], &[u64::MAX]);
        check(&[0.0f32, -0.0, 0.1, f32::NAN], &[false, false, true, true]);
        check(&[Complex::new(0.0f64, 2.0), Complex::new(1.5, 0.0)], &[true, true]);
        check(&[Complex::new(2.5f32, 7.0)], &[2i64]);
        check(&[true, false], &[Complex::new(1.0f32, 0.0), Complex::new(0.0, 0.0)]);
        check(&[256i32], &[true]);
        check(&[u64::MAX], &[u64::MAX as f32]);
    }

    /// Every float that is a bound of an integer, its neighbours, and the special ones.
    fn edges() -> Vec<f64> {
        let mut out = vec![0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1e-310, f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX];
        for bits in [7, 8, 15, 16, 31, 32, 63, 64] {
            let power = f64::from(bits).exp2();
            for x in [power - 1.5, power - 1.0, power - 0.5, power, power + 0.5, power + 1.0] {
                out.extend([x, x.next_up(), x.next_down(), f64::from((x as f32).next_up()), f64::from((x as f32).next_down())]);
            }
        }
        let negative: Vec<f64> = out.iter().map(|x| -x).collect();
        out.extend(negative);
        out
    }

    fn as_written(x: &[f64]) {
        let single: Vec<f32> = x.iter().map(|&x| x as f32).collect();
        macro_rules! all {
            ($($t:ty)*) => {$(
                check(x, &x.iter().map(|&x| x as $t).collect::<Vec<_>>());
                check(&single, &single.iter().map(|&x| x as $t).collect::<Vec<_>>());
                let z: Vec<Complex64> = x.iter().map(|&x| Complex::new(x, 3.0)).collect();
                check(&z, &x.iter().map(|&x| x as $t).collect::<Vec<_>>());
            )*};
        }
        all! { i8 i16 i32 i64 u8 u16 u32 u64 }
    }

    #[test]
    fn floats_saturate_at_every_bound() {
        as_written(&edges());
    }

    proptest::proptest! {
        #[test]
        fn floats_convert_as_the_language_does(bits in proptest::collection::vec(proptest::num::u64::ANY, 1..300), scale in 0i32..70) {
            as_written(&bits.iter().map(|&b| f64::from_bits(b)).collect::<Vec<_>>());
            // Bits of all kinds are hardly ever in range: numbers of one size as well.
            as_written(&bits.iter().map(|&b| (b as i64) as f64 / 2f64.powi(scale)).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_pair_keeps_one_and_the_shape() {
        for a in DType::ALL {
            for b in DType::ALL {
                let ones = Block::splat(chunkwise_types::Scalar::Int(1), a, &[2, 1, 3]);
                let got = cast(&ones, b);
                assert_eq!((got.dtype(), got.shape()), (b, vec![2, 1, 3]));
                assert_eq!(cast(&got, DType::Int8).as_bytes(), Some(&[1u8; 6][..]), "{a} to {b}");
            }
        }
    }

    #[test]
    fn keeps_the_logical_order_of_views() {
        let a = ndarray::Array::from_shape_vec((2, 3), (0..6).collect::<Vec<i32>>()).unwrap().into_shared();
        let got = cast(&i32::wrap(a.reversed_axes().into_dyn()), DType::UInt8).contiguous();
        assert_eq!(got.as_bytes(), Some(&[0u8, 3, 1, 4, 2, 5][..]));
    }
}
