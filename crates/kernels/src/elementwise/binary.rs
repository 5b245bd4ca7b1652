//! Functions of two inputs.

use super::math;
use super::numeric::{Cplx, Divide, Int, RealMath};
use super::op::ElementOp;
use super::strip::{Buffer, Element, Found, Strip, checked2, found, map2, of_dtype, plain2};
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

/// Exact comparisons of signed with unsigned integers.
fn signed_unsigned(op: ElementOp) -> Option<Found> {
    use ElementOp::*;
    match op {
        Equal => fast!(i64, u64 => bool: |x, y| (x >= 0) & (x as u64 == y)),
        NotEqual => fast!(i64, u64 => bool: |x, y| (x < 0) | (x as u64 != y)),
        Less => fast!(i64, u64 => bool: |x, y| (x < 0) | ((x as u64) < y)),
        LessEqual => fast!(i64, u64 => bool: |x, y| (x < 0) | (x as u64 <= y)),
        Greater => fast!(i64, u64 => bool: |x, y| (x >= 0) & (x as u64 > y)),
        GreaterEqual => fast!(i64, u64 => bool: |x, y| (x >= 0) & (x as u64 >= y)),
        _ => None,
    }
}

/// Exact comparisons of unsigned with signed integers.
fn unsigned_signed(op: ElementOp) -> Option<Found> {
    use ElementOp::*;
    match op {
        Equal => fast!(u64, i64 => bool: |x, y| (y >= 0) & (x == y as u64)),
        NotEqual => fast!(u64, i64 => bool: |x, y| (y < 0) | (x != y as u64)),
        Less => fast!(u64, i64 => bool: |x, y| (y >= 0) & (x < y as u64)),
        LessEqual => fast!(u64, i64 => bool: |x, y| (y >= 0) & (x <= y as u64)),
        Greater => fast!(u64, i64 => bool: |x, y| (y < 0) | (x > y as u64)),
        GreaterEqual => fast!(u64, i64 => bool: |x, y| (y < 0) | (x >= y as u64)),
        _ => None,
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

macro_rules! compare {
    ($op:expr, $t:ty) => {
        match $op {
            ElementOp::Equal => fast!($t, $t => bool: |x, y| x == y),
            ElementOp::NotEqual => fast!($t, $t => bool: |x, y| x != y),
            ElementOp::Less => fast!($t, $t => bool: |x, y| x < y),
            ElementOp::LessEqual => fast!($t, $t => bool: |x, y| x <= y),
            ElementOp::Greater => fast!($t, $t => bool: |x, y| x > y),
            ElementOp::GreaterEqual => fast!($t, $t => bool: |x, y| x >= y),
            _ => None,
        }
    };
}

fn of_bool(op: ElementOp) -> Option<Found> {
    use ElementOp::*;
    match op {
        Add | BitwiseOr | LogicalOr | Maximum => fast!(bool, bool => bool: |x, y| x | y),
        Multiply | BitwiseAnd | LogicalAnd | Minimum => fast!(bool, bool => bool: |x, y| x & y),
        BitwiseXor | LogicalXor => fast!(bool, bool => bool: |x, y| x ^ y),
        _ => compare!(op, bool),
    }
}

macro_rules! integer {
    (@divide $t:ident,, $f:ident, $k:tt) => { fast!($t, $t => $t: Int::$f) };
    (@divide $t:ident, wide, $f:ident, $k:tt) => {
        checked!($t: |x: $t, y: $t| { let (both, rare) = x.divided(y); (both.$k, rare) }, Int::$f)
    };
    ($name:ident, $t:ident $(, $wide:ident)?) => {
        fn $name(op: ElementOp) -> Option<Found> {
            use ElementOp::*;
            match op {
                Add => fast!($t, $t => $t: $t::wrapping_add),
                Subtract => fast!($t, $t => $t: $t::wrapping_sub),
                Multiply => fast!($t, $t => $t: $t::wrapping_mul),
                FloorDivide => integer!(@divide $t, $($wide)?, floor_div, 0),
                Remainder => integer!(@divide $t, $($wide)?, floor_rem, 1),
                Pow => Some(Found::Run(power::<$t>, <$t as crate::BlockElement>::DTYPE)),
                Maximum => fast!($t, $t => $t: |x: $t, y| x.max(y)),
                Minimum => fast!($t, $t => $t: |x: $t, y| x.min(y)),
                BitwiseAnd => fast!($t, $t => $t: |x: $t, y: $t| x & y),
                BitwiseOr => fast!($t, $t => $t: |x: $t, y: $t| x | y),
                BitwiseXor => fast!($t, $t => $t: |x: $t, y: $t| x ^ y),
                BitwiseLeftShift => fast!($t, $t => $t: Int::left),
                BitwiseRightShift => fast!($t, $t => $t: Int::right),
                _ => compare!(op, $t),
            }
        }
    };
}
integer!(of_i8, i8);
integer!(of_i16, i16);
integer!(of_i32, i32);
integer!(of_i64, i64, wide);
integer!(of_u8, u8);
integer!(of_u16, u16);
integer!(of_u32, u32);
integer!(of_u64, u64, wide);

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
                _ => compare!(op, $t),
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
