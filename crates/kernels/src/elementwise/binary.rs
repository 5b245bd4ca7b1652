//! Functions of two inputs.

use super::math;
use super::numeric::{Cplx, Divide, Int, RealMath};
use super::op::ElementOp;
use super::strip::{Buffer, Element, Found, Strip, StripFn, checked2, exchanged, found, map2, of_dtype, plain2};
use chunkwise_types::DType;
use num_complex::{Complex32, Complex64};

/// A loop that is compiled for every instruction set.
macro_rules! fast {
    ($a:ty, $b:ty => $c:ty: $f:expr) => { found!(map2::<$a, $b, $c> -> $c: $f) };
}

/// A loop that is compiled for every instruction set, with another function where its own says that it does not hold.
macro_rules! checked {
    ($t:ty: $f:expr, $rare:expr) => { found!(checked2::<$t, $t> -> $t: $f, $rare) };
}

/// A loop around a function that does not vectorise.
macro_rules! plain {
    ($t:ty: $f:expr) => { found!(plain2::<$t, $t, $t> -> $t: $f) };
}

/// The function of inputs of these dtypes.
pub(super) fn find(op: ElementOp, a: DType, b: DType) -> Option<Found> {
    match (a, b) {
        (DType::Int64, DType::UInt64) => return signed_unsigned(op),
        (DType::UInt64, DType::Int64) => return unsigned_signed(op),
        _ if a != b => return None,
        _ => {}
    }
    of_dtype!(a, op)
}

/// `x < y`, exactly also of signed with unsigned integers.
trait Less<B>: Copy {
    fn less(self, y: B) -> bool;
    fn less_equal(self, y: B) -> bool;
}

macro_rules! ordered {
    ($($t:ty)*) => {$(impl Less<$t> for $t {
        #[inline(always)]
        fn less(self, y: $t) -> bool { self < y }
        #[inline(always)]
        fn less_equal(self, y: $t) -> bool { self <= y }
    })*};
}
ordered! { bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 }

impl Less<u64> for i64 {
    #[inline(always)]
    fn less(self, y: u64) -> bool {
        (self < 0) | ((self as u64) < y)
    }
    #[inline(always)]
    fn less_equal(self, y: u64) -> bool {
        (self < 0) | (self as u64 <= y)
    }
}

impl Less<i64> for u64 {
    #[inline(always)]
    fn less(self, y: i64) -> bool {
        (y >= 0) & (self < y as u64)
    }
    #[inline(always)]
    fn less_equal(self, y: i64) -> bool {
        (y >= 0) & (self <= y as u64)
    }
}

fn less<A: Element + Less<B>, B: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    map2::<A, B, bool>(ins, n, out, Less::less)
}

fn less_equal<A: Element + Less<B>, B: Element>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    map2::<A, B, bool>(ins, n, out, Less::less_equal)
}

/// The comparisons by order: two loops do for four.
fn by_order<A: Element + Less<B>, B: Element + Less<A>>(op: ElementOp) -> Option<Found> {
    let run: StripFn = match op {
        ElementOp::Less => less::<A, B>,
        ElementOp::LessEqual => less_equal::<A, B>,
        ElementOp::Greater => |ins, n, out| exchanged(less::<B, A>, ins, n, out),
        ElementOp::GreaterEqual => |ins, n, out| exchanged(less_equal::<B, A>, ins, n, out),
        _ => return None,
    };
    Some(Found::Run(run, DType::Bool))
}

/// Exact comparisons of signed with unsigned integers.
fn signed_unsigned(op: ElementOp) -> Option<Found> {
    use ElementOp::*;
    match op {
        Equal => fast!(i64, u64 => bool: |x, y| (x >= 0) & (x as u64 == y)),
        NotEqual => fast!(i64, u64 => bool: |x, y| (x < 0) | (x as u64 != y)),
        _ => by_order::<i64, u64>(op),
    }
}

/// Exact comparisons of unsigned with signed integers.
fn unsigned_signed(op: ElementOp) -> Option<Found> {
    use ElementOp::*;
    match op {
        Equal => fast!(u64, i64 => bool: |x, y| (y >= 0) & (x == y as u64)),
        NotEqual => fast!(u64, i64 => bool: |x, y| (y < 0) | (x != y as u64)),
        _ => by_order::<u64, i64>(op),
    }
}

/// Powers of integers. `None` if an exponent is negative: the result is no integer, and the caller says so.
fn power<T: Element + Int + PartialOrd + Default>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    let exponents = T::of(*ins.get(1)?)?.get(..n)?;
    if exponents.iter().any(|&e| e < T::default()) {
        return None;
    }
    plain2::<T, T, T>(ins, n, out, Int::power)
}

/// The functions of two integers of this width that are the same whether they have a sign.
macro_rules! bits {
    ($($name:ident $u:ident)*) => {$(
        fn $name(op: ElementOp, made: DType) -> Option<Found> {
            use ElementOp::*;
            let run: StripFn = match op {
                Add => |ins, n, out| map2::<$u, $u, $u>(ins, n, out, $u::wrapping_add),
                Subtract => |ins, n, out| map2::<$u, $u, $u>(ins, n, out, $u::wrapping_sub),
                Multiply => |ins, n, out| map2::<$u, $u, $u>(ins, n, out, $u::wrapping_mul),
                BitwiseAnd => |ins, n, out| map2::<$u, $u, $u>(ins, n, out, |x, y| x & y),
                BitwiseOr => |ins, n, out| map2::<$u, $u, $u>(ins, n, out, |x, y| x | y),
                BitwiseXor => |ins, n, out| map2::<$u, $u, $u>(ins, n, out, |x, y| x ^ y),
                // A negative shift is one of more than the width.
                BitwiseLeftShift => |ins, n, out| map2::<$u, $u, $u>(ins, n, out, Int::left),
                _ => return equal::<$u>(op),
            };
            Some(Found::Run(run, made))
        }
    )*};
}
bits! { bits8 u8 bits16 u16 bits32 u32 bits64 u64 }

/// The comparisons of what is equal.
fn equal<T: Element + PartialEq>(op: ElementOp) -> Option<Found> {
    match op {
        ElementOp::Equal => fast!(T, T => bool: |x, y| x == y),
        ElementOp::NotEqual => fast!(T, T => bool: |x, y| x != y),
        _ => None,
    }
}

fn compare<T: Element + PartialEq + Less<T>>(op: ElementOp) -> Option<Found> {
    equal::<T>(op).or_else(|| by_order::<T, T>(op))
}

fn of_bool(op: ElementOp) -> Option<Found> {
    use ElementOp::*;
    match op {
        Add | BitwiseOr | LogicalOr | Maximum => fast!(bool, bool => bool: |x, y| x | y),
        Multiply | BitwiseAnd | LogicalAnd | Minimum => fast!(bool, bool => bool: |x, y| x & y),
        BitwiseXor | LogicalXor => fast!(bool, bool => bool: |x, y| x ^ y),
        _ => compare::<bool>(op),
    }
}

macro_rules! integer {
    (@divide $t:ident,, $f:ident, $k:tt) => { fast!($t, $t => $t: Int::$f) };
    (@divide $t:ident, wide, $f:ident, $k:tt) => {
        checked!($t: |x: $t, y: $t| { let (both, rare) = x.divided(y); (both.$k, rare) }, Int::$f)
    };
    ($name:ident, $t:ident, $bits:ident $(, $wide:ident)?) => {
        fn $name(op: ElementOp) -> Option<Found> {
            use ElementOp::*;
            match op {
                FloorDivide => integer!(@divide $t, $($wide)?, floor_div, 0),
                Remainder => integer!(@divide $t, $($wide)?, floor_rem, 1),
                Pow => Some(Found::Run(power::<$t>, <$t as crate::BlockElement>::DTYPE)),
                Maximum => fast!($t, $t => $t: |x: $t, y| x.max(y)),
                Minimum => fast!($t, $t => $t: |x: $t, y| x.min(y)),
                BitwiseRightShift => fast!($t, $t => $t: Int::right),
                _ => by_order::<$t, $t>(op).or_else(|| $bits(op, <$t as crate::BlockElement>::DTYPE)),
            }
        }
    };
}
integer!(of_i8, i8, bits8);
integer!(of_i16, i16, bits16);
integer!(of_i32, i32, bits32);
integer!(of_i64, i64, bits64, wide);
integer!(of_u8, u8, bits8);
integer!(of_u16, u16, bits16);
integer!(of_u32, u32, bits32);
integer!(of_u64, u64, bits64, wide);

macro_rules! float {
    ($name:ident, $t:ident) => {
        fn $name(op: ElementOp) -> Option<Found> {
            use ElementOp::*;
            match op {
                Add => fast!($t, $t => $t: |x: $t, y: $t| x + y),
                Subtract => fast!($t, $t => $t: |x: $t, y: $t| x - y),
                Multiply => fast!($t, $t => $t: |x: $t, y: $t| x * y),
                Divide => fast!($t, $t => $t: |x: $t, y: $t| x / y),
                FloorDivide => checked!(
                    $t: |x: $t, y: $t| { let (m, rare) = x.remainder(y); (x.floor_div(y, m), rare) },
                    |x, y| x.floor_div(y, x % y)
                ),
                Remainder => checked!(
                    $t: |x: $t, y: $t| { let (m, rare) = x.remainder(y); (x.floor_rem(y, m), rare) },
                    |x, y| x.floor_rem(y, x % y)
                ),
                Maximum => fast!($t, $t => $t: RealMath::larger),
                Minimum => fast!($t, $t => $t: RealMath::smaller),
                Copysign => fast!($t, $t => $t: $t::copysign),
                Nextafter => fast!($t, $t => $t: RealMath::nextafter),
                Atan2 | Hypot | Logaddexp | Pow => math::$t::binary(op),
                _ => compare::<$t>(op),
            }
        }
    };
}
float!(of_f32, f32);
float!(of_f64, f64);

macro_rules! complex {
    ($name:ident, $c:ident) => {
        fn $name(op: ElementOp) -> Option<Found> {
            use ElementOp::*;
            match op {
                Add => fast!($c, $c => $c: |x: $c, y: $c| x + y),
                Subtract => fast!($c, $c => $c: |x: $c, y: $c| x - y),
                Multiply => fast!($c, $c => $c: |x: $c, y: $c| x * y),
                Divide => fast!($c, $c => $c: Cplx::over),
                Pow => plain!($c: Cplx::power),
                Equal => fast!($c, $c => bool: |x: $c, y: $c| (x.re == y.re) & (x.im == y.im)),
                NotEqual => fast!($c, $c => bool: |x: $c, y: $c| (x.re != y.re) | (x.im != y.im)),
                _ => None,
            }
        }
    };
}
complex!(of_c32, Complex32);
complex!(of_c64, Complex64);
