//! The types of elements: what they sum in, and how they compare.

use super::lanes::rows_of;
use super::products;
use super::sink::Lines;
pub(super) use super::wide::Wide;
use crate::BlockElement;
use num_complex::{Complex32, Complex64};

/// The state of a sum that lives as long as the fold.
pub(crate) trait SumState<W: Wide>: Copy + Send {
    fn zero() -> Self;
    fn take(&mut self, x: W);
    fn value(self) -> W;
}

/// A plain sum: exact for integers, and for `float32` in `float64` far more exact than the result's own precision.
impl<W: Wide> SumState<W> for W {
    #[inline(always)]
    fn zero() -> Self {
        W::ZERO
    }
    #[inline(always)]
    fn take(&mut self, x: W) {
        *self = self.plus(x);
    }
    #[inline(always)]
    fn value(self) -> W {
        self
    }
}

/// A sum and what rounding lost of it.
impl<W: Wide> SumState<W> for (W, W) {
    #[inline(always)]
    fn zero() -> Self {
        (W::ZERO, W::ZERO)
    }
    #[inline(always)]
    fn take(&mut self, x: W) {
        W::compensated(&mut self.0, &mut self.1, x);
    }
    #[inline(always)]
    fn value(self) -> W {
        W::total(self.0, self.1)
    }
}

/// Any element: is it true, and what does it sum in?
pub(crate) trait Element: BlockElement {
    /// The type that sums and products are taken in.
    type Wide: Average;
    /// The state of a sum.
    type Sum: SumState<Self::Wide>;
    fn wide(self) -> Self::Wide;
    fn truthy(self) -> bool;
    /// False for NaN, in either part.
    #[inline(always)]
    fn valid(self) -> bool {
        true
    }
    /// Adds rows to sums, one a column.
    #[inline(always)]
    fn add_rows(sums: &mut [Self::Wide], lines: Lines<'_, Self>, rows: usize) {
        rows_of(sums, &|r| lines.get(r), rows, |sum, x, _| *sum = sum.plus(x.wide()));
    }
    /// Multiplies products by rows, one a column.
    #[inline(always)]
    fn multiply_rows(products: &mut [Self::Wide], lines: Lines<'_, Self>, rows: usize) {
        rows_of(products, &|r| lines.get(r), rows, |product, x, _| *product = product.times(x.wide()));
    }
}

/// An element with an order.
pub(crate) trait Ordered: Element + PartialOrd + bytemuck::NoUninit {
    const LOW: Self;
    const HIGH: Self;
    /// What min and max of no elements are in a group: NaN, or 0 where there is none.
    const NOTHING: Self;
    /// A count as wide as the element.
    type Age: Copy;
    const NEW: Self::Age;
    fn older(age: Self::Age) -> Self::Age;
    fn age(age: Self::Age) -> usize;
    /// An integer in the order of the elements, the same for both zeros; NaN apart.
    type Key: Copy + Ord;
    fn key(self) -> Self::Key;
    fn of(key: Self::Key) -> Self;
    fn nan(self) -> bool;
    fn real(self) -> f64;
}

macro_rules! keys {
    ($i:ty, $key:ty: |$x:ident| $to:expr, $from:expr) => {
        type Age = $i;
        const NEW: $i = 0;
        #[inline(always)]
        fn older(age: $i) -> $i {
            age.wrapping_add(1)
        }
        #[inline(always)]
        fn age(age: $i) -> usize {
            age as usize
        }
        type Key = $key;
        #[inline(always)]
        fn key(self) -> $key {
            let $x = self;
            $to
        }
        #[inline(always)]
        fn of($x: $key) -> Self {
            $from
        }
    };
}

macro_rules! ints {
    ($($t:ty, $i:ty => $w:ty),*) => {$(
        impl Element for $t {
            type Wide = $w;
            type Sum = $w;
            #[inline(always)]
            fn wide(self) -> $w { self as $w }
            #[inline(always)]
            fn truthy(self) -> bool { self != 0 }
        }
        impl Ordered for $t {
            const LOW: Self = <$t>::MIN;
            const HIGH: Self = <$t>::MAX;
            const NOTHING: Self = 0;
            keys!($i, $t: |x| x, x);
            #[inline(always)]
            fn nan(self) -> bool { false }
            #[inline(always)]
            fn real(self) -> f64 { self as f64 }
        }
    )*};
}
ints!(i8, u8 => i64, i16, u16 => i64, i32, u32 => i64, i64, u64 => i64, u8, u8 => u64, u16, u16 => u64, u32, u32 => u64, u64, u64 => u64);

/// Reverses the order of negative integers.
macro_rules! turned {
    ($x:expr, $k:ty) => {{
        let x: $k = $x;
        x ^ (x >> (<$k>::BITS - 1)) & <$k>::MAX
    }};
}

macro_rules! floats {
    ($($t:ty, $i:ty, $k:ty => $sum:ty),*) => {$(
        impl Element for $t {
            type Wide = f64;
            type Sum = $sum;
            #[inline(always)]
            fn wide(self) -> f64 { self as f64 }
            #[inline(always)]
            fn truthy(self) -> bool { self != 0.0 }
            #[inline(always)]
            fn valid(self) -> bool { !self.is_nan() }
        }
        impl Ordered for $t {
            const LOW: Self = <$t>::NEG_INFINITY;
            const HIGH: Self = <$t>::INFINITY;
            const NOTHING: Self = <$t>::NAN;
            // The bits of floats are in their order, but for those of negative ones.
            keys!($i, $k: |x| turned!((x + 0.0).to_bits() as $k, $k), Self::from_bits(turned!(x, $k) as $i));
            #[inline(always)]
            fn nan(self) -> bool { self.is_nan() }
            #[inline(always)]
            fn real(self) -> f64 { self as f64 }
        }
    )*};
}
floats!(f32, u32, i32 => f64, f64, u64, i64 => (f64, f64));

impl Element for bool {
    type Wide = i64;
    type Sum = i64;
    #[inline(always)]
    fn wide(self) -> i64 {
        i64::from(self)
    }
    #[inline(always)]
    fn truthy(self) -> bool {
        self
    }
}
impl Ordered for bool {
    const LOW: Self = false;
    const HIGH: Self = true;
    const NOTHING: Self = false;
    keys!(u8, bool: |x| x, x);
    #[inline(always)]
    fn nan(self) -> bool {
        false
    }
    #[inline(always)]
    fn real(self) -> f64 {
        f64::from(u8::from(self))
    }
}

impl Element for Complex32 {
    type Wide = Complex64;
    type Sum = Complex64;
    #[inline(always)]
    fn wide(self) -> Complex64 {
        Complex64::new(f64::from(self.re), f64::from(self.im))
    }
    #[inline(always)]
    fn truthy(self) -> bool {
        self.re != 0.0 || self.im != 0.0
    }
    #[inline(always)]
    fn valid(self) -> bool {
        !self.is_nan()
    }
    #[inline(always)]
    fn add_rows<'a>(sums: &mut [Complex64], lines: Lines<'a, Self>, rows: usize) {
        // The parts are numbers of their own, of which the compiler makes vectors.
        let row = |r| -> &'a [f32] { bytemuck::cast_slice(lines.get(r)) };
        rows_of(bytemuck::cast_slice_mut::<_, f64>(sums), &row, rows, |sum, x, _| *sum += f64::from(x));
    }
    #[inline(always)]
    fn multiply_rows(products: &mut [Complex64], lines: Lines<'_, Self>, rows: usize) {
        products::multiply_rows(products, lines, rows);
    }
}
impl Element for Complex64 {
    type Wide = Complex64;
    type Sum = (Complex64, Complex64);
    #[inline(always)]
    fn wide(self) -> Complex64 {
        self
    }
    #[inline(always)]
    fn truthy(self) -> bool {
        self.re != 0.0 || self.im != 0.0
    }
    #[inline(always)]
    fn valid(self) -> bool {
        !self.is_nan()
    }
    #[inline(always)]
    fn add_rows<'a>(sums: &mut [Complex64], lines: Lines<'a, Self>, rows: usize) {
        // The parts are numbers of their own, of which the compiler makes vectors.
        let row = |r| -> &'a [f64] { bytemuck::cast_slice(lines.get(r)) };
        rows_of(bytemuck::cast_slice_mut::<_, f64>(sums), &row, rows, |sum, x, _| *sum += x);
    }
}

/// What means come out as: those of integers are floats.
pub(crate) trait Average: Wide {
    type Out: BlockElement;
    fn over(self, n: f64) -> Self::Out;
}
macro_rules! averages {
    ($($t:ty => $o:ty: |$x:ident| $float:expr;)*) => {$(
        impl Average for $t {
            type Out = $o;
            fn over(self, n: f64) -> $o { let $x = self; $float / n }
        }
    )*};
}
averages! { i64 => f64: |x| x as f64; u64 => f64: |x| x as f64; f64 => f64: |x| x; Complex64 => Complex64: |x| x; }
