//! Conversion between dtypes.

use crate::elementwise::strip::{Buffer, Element, Strip, StripFn, map1};
use crate::elementwise::{FusedOp, single};
use crate::{Block, with_dtype};
use chunkwise_types::DType;
use num_complex::{Complex, Complex32, Complex64};

/// A number that converts to `T` as NumPy's `astype` does.
trait To<T> {
    fn to(self) -> T;
}

macro_rules! numbers {
    ($($a:ty)*) => {$(
        numbers!(@row $a: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
        impl To<bool> for $a { #[inline(always)] fn to(self) -> bool { self != 0 as $a } }
        impl To<Complex32> for $a { #[inline(always)] fn to(self) -> Complex32 { Complex::new(self as f32, 0.0) } }
        impl To<Complex64> for $a { #[inline(always)] fn to(self) -> Complex64 { Complex::new(self as f64, 0.0) } }
        impl To<$a> for bool { #[inline(always)] fn to(self) -> $a { u8::from(self) as $a } }
        impl To<$a> for Complex32 { #[inline(always)] fn to(self) -> $a { self.re as $a } }
        impl To<$a> for Complex64 { #[inline(always)] fn to(self) -> $a { self.re as $a } }
    )*};
    (@row $a:ty: $($b:ty)*) => {$(
        impl To<$b> for $a { #[inline(always)] fn to(self) -> $b { self as $b } }
    )*};
}
numbers! { i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 }

macro_rules! pairs {
    ($($a:ty, $b:ty: |$x:ident| $e:expr;)*) => {$(
        impl To<$b> for $a { #[inline(always)] fn to(self) -> $b { let $x = self; $e } }
    )*};
}
pairs! {
    bool, bool: |x| x;
    bool, Complex32: |x| Complex::new(f32::from(u8::from(x)), 0.0);
    bool, Complex64: |x| Complex::new(f64::from(u8::from(x)), 0.0);
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

/// The conversion of strips.
pub(crate) fn strips(from: DType, to: DType) -> StripFn {
    with_dtype!(from, A => with_dtype!(to, B => convert::<A, B>))
}

/// The block converted to a dtype, with the semantics of NumPy's `astype`.
///
/// Integers wrap; floats are truncated towards zero, saturating where NumPy leaves the result undefined (NaN gives 0);
/// complex numbers lose their imaginary part; everything but 0 is true. The same dtype shares the buffer.
///
/// ```
/// use chunkwise_kernels::{Block, cast};
/// use chunkwise_types::DType;
/// let block = Block::zeros(DType::Float64, &[2, 3]);
/// assert_eq!(cast(&block, DType::Int16).dtype(), DType::Int16);
/// ```
pub fn cast(block: &Block, to: DType) -> Block {
    if block.dtype() == to {
        return block.clone();
    }
    let op = FusedOp { function: None, inputs: vec![0], dtype: to };
    single(&[block.dtype()], op, &[block]).unwrap_or_else(|e| {
        debug_assert!(false, "every dtype converts to every other: {e}");
        Block::zeros(to, &block.shape())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BlockElement;
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

    #[test]
    fn every_pair_keeps_one_and_the_shape() {
        for a in DType::ALL {
            for b in DType::ALL {
                let ones = crate::create::splat(chunkwise_types::Scalar::Int(1), a, &[2, 1, 3]);
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
