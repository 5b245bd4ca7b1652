//! Functions of one input.

use super::numeric::{Cplx, Int, RealMath, Squares};
use super::op::ElementOp;
use super::strip::{Buffer, Element, Found, Strip, checked1, found, map1, of_dtype, plain1};
use super::{complex, complex_limits, math};
use chunkwise_types::DType;
use num_complex::{Complex32, Complex64};

/// A loop that is compiled for every instruction set.
macro_rules! fast {
    ($a:ty => $b:ty: $f:expr) => { found!(map1::<$a, $b> -> $b: $f) };
}

/// A loop that is compiled for every instruction set, with another function where its own says that it does not hold.
macro_rules! checked {
    ($a:ty => $b:ty: $f:expr, $rare:expr) => { found!(checked1::<$a, $b> -> $b: $f, $rare) };
}

/// A loop around a function that does not vectorise.
macro_rules! plain {
    ($a:ty => $b:ty: $f:expr) => { found!(plain1::<$a, $b> -> $b: $f) };
}

/// The function of an input of this dtype.
pub(super) fn find(op: ElementOp, dtype: DType) -> Option<Found> {
    of_dtype!(dtype, op)
}

fn of_bool(op: ElementOp) -> Option<Found> {
    use ElementOp::*;
    match op {
        Abs | Real | Ceil | Floor | Trunc | Round => Some(Found::Same),
        LogicalNot | BitwiseInvert => fast!(bool => bool: |x| !x),
        Imag | Isinf | Isnan => plain!(bool => bool: |_| false),
        Isfinite => plain!(bool => bool: |_| true),
        _ => None,
    }
}

fn negative<T: Element + Int>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    map1::<T, T>(ins, n, out, Int::negated)
}

fn square<T: Element + Int>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    map1::<T, T>(ins, n, out, Int::squared)
}

fn inverted<T: Element + std::ops::Not<Output = T>>(ins: &[Strip<'_>], n: usize, out: &mut Buffer) -> Option<()> {
    map1::<T, T>(ins, n, out, |x| !x)
}

macro_rules! integer {
    ($name:ident, $t:ident, $u:ident) => {
        fn $name(op: ElementOp) -> Option<Found> {
            use ElementOp::*;
            match op {
                Conj | Positive | Real | Ceil | Floor | Trunc | Round => Some(Found::Same),
                Abs => fast!($t => $t: Int::magnitude),
                // The same of numbers with a sign and without one.
                Negative => found!(negative::<$u> -> $t),
                Square => found!(square::<$u> -> $t),
                BitwiseInvert => found!(inverted::<$u> -> $t),
                Sign => fast!($t => $t: Int::sign),
                Imag => plain!($t => $t: |_| 0 as $t),
                Isinf | Isnan => plain!($t => bool: |_| false),
                Isfinite => plain!($t => bool: |_| true),
                _ => None,
            }
        }
    };
}
integer!(of_i8, i8, u8);
integer!(of_i16, i16, u16);
integer!(of_i32, i32, u32);
integer!(of_i64, i64, u64);
integer!(of_u8, u8, u8);
integer!(of_u16, u16, u16);
integer!(of_u32, u32, u32);
integer!(of_u64, u64, u64);

macro_rules! float {
    ($name:ident, $t:ident) => {
        fn $name(op: ElementOp) -> Option<Found> {
            use ElementOp as E;
            match op {
                E::Conj | E::Positive | E::Real => Some(Found::Same),
                E::Abs => fast!($t => $t: $t::abs),
                E::Ceil => fast!($t => $t: $t::ceil),
                E::Floor => fast!($t => $t: $t::floor),
                E::Imag => plain!($t => $t: |_| 0.0 as $t),
                E::Isfinite => fast!($t => bool: |x: $t| x.is_finite()),
                E::Isinf => fast!($t => bool: |x: $t| x.is_infinite()),
                E::Isnan => fast!($t => bool: |x: $t| x.is_nan()),
                E::Negative => fast!($t => $t: |x: $t| -x),
                E::Reciprocal => fast!($t => $t: |x: $t| 1.0 / x),
                E::Round => fast!($t => $t: $t::round_ties_even),
                E::Sign => fast!($t => $t: RealMath::sign),
                E::Signbit => fast!($t => bool: |x: $t| x.is_sign_negative()),
                E::Sqrt => fast!($t => $t: $t::sqrt),
                E::Square => fast!($t => $t: |x: $t| x * x),
                E::Trunc => fast!($t => $t: $t::trunc),
                _ => math::$t::unary(op),
            }
        }
    };
}
float!(of_f32, f32);
float!(of_f64, f64);

macro_rules! complex {
    ($name:ident, $t:ident, $c:ident) => {
        fn $name(op: ElementOp) -> Option<Found> {
            use ElementOp as E;
            match op {
                E::Positive => Some(Found::Same),
                E::Conj => fast!($c => $c: |z: $c| z.conj()),
                E::Real => fast!($c => $t: |z: $c| z.re),
                E::Imag => fast!($c => $t: |z: $c| z.im),
                E::Abs => checked!($c => $t: Squares::magnitude, |z| z.re.hypot(z.im)),
                E::Isfinite => fast!($c => bool: |z: $c| z.re.is_finite() && z.im.is_finite()),
                E::Isinf => fast!($c => bool: |z: $c| z.re.is_infinite() || z.im.is_infinite()),
                E::Isnan => fast!($c => bool: |z: $c| z.re.is_nan() || z.im.is_nan()),
                E::Negative => fast!($c => $c: |z: $c| -z),
                E::Reciprocal => fast!($c => $c: |z: $c| Cplx::over($c::new(1.0, 0.0), z)),
                E::Round => fast!($c => $c: Cplx::round_even),
                E::Sign => plain!($c => $c: |z| complex::$t::limit(complex_limits::sign, z)),
                E::Sqrt => checked!($c => $c: Squares::root, |z: $c| complex::$t::limit(complex_limits::sqrt, z)),
                E::Square => fast!($c => $c: |z: $c| z * z),
                _ => complex::$t::unary(op),
            }
        }
    };
}
complex!(of_c32, f32, Complex32);
complex!(of_c64, f64, Complex64);
