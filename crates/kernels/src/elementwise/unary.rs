//! Functions of one input.

use super::numeric::{Cplx, Int, RealMath};
use super::{Arr, ElementOp, map1, undefined};
use crate::{Block, BlockElement, KernelError};
use num_complex::{Complex32, Complex64};

pub(super) fn compute(op: ElementOp, block: &Block) -> Result<Block, KernelError> {
    match block {
        Block::Bool(a) => of_bool(op, a),
        Block::Int8(a) => of_i8(op, a),
        Block::Int16(a) => of_i16(op, a),
        Block::Int32(a) => of_i32(op, a),
        Block::Int64(a) => of_i64(op, a),
        Block::UInt8(a) => of_u8(op, a),
        Block::UInt16(a) => of_u16(op, a),
        Block::UInt32(a) => of_u32(op, a),
        Block::UInt64(a) => of_u64(op, a),
        Block::Float32(a) => of_f32(op, a),
        Block::Float64(a) => of_f64(op, a),
        Block::Complex64(a) => of_c32(op, a),
        Block::Complex128(a) => of_c64(op, a),
    }
}

fn of_bool(op: ElementOp, a: &Arr<bool>) -> Result<Block, KernelError> {
    use ElementOp::*;
    match op {
        Abs | Real | Ceil | Floor | Trunc | Round => Ok(Block::Bool(a.clone())),
        LogicalNot | BitwiseInvert => map1(a, |x| !x),
        Imag | Isinf | Isnan => map1(a, |_| false),
        Isfinite => map1(a, |_| true),
        _ => Err(undefined(op, bool::DTYPE)),
    }
}

macro_rules! integer {
    ($name:ident, $t:ident) => {
        fn $name(op: ElementOp, a: &Arr<$t>) -> Result<Block, KernelError> {
            use ElementOp::*;
            match op {
                Conj | Positive | Real | Ceil | Floor | Trunc | Round => Ok($t::wrap(a.clone())),
                Abs => map1(a, Int::magnitude),
                Negative => map1(a, $t::wrapping_neg),
                Sign => map1(a, Int::sign),
                Square => map1(a, |x: $t| x.wrapping_mul(x)),
                BitwiseInvert => map1(a, |x: $t| !x),
                Imag => map1(a, |_| 0 as $t),
                Isinf | Isnan => map1(a, |_| false),
                Isfinite => map1(a, |_| true),
                _ => Err(undefined(op, $t::DTYPE)),
            }
        }
    };
}
integer!(of_i8, i8);
integer!(of_i16, i16);
integer!(of_i32, i32);
integer!(of_i64, i64);
integer!(of_u8, u8);
integer!(of_u16, u16);
integer!(of_u32, u32);
integer!(of_u64, u64);

macro_rules! float {
    ($name:ident, $t:ident) => {
        fn $name(op: ElementOp, a: &Arr<$t>) -> Result<Block, KernelError> {
            use ElementOp as E;
            match op {
                E::Conj | E::Positive | E::Real => Ok($t::wrap(a.clone())),
                E::Abs => map1(a, $t::abs),
                E::Acos => map1(a, $t::acos),
                E::Acosh => map1(a, RealMath::arcosh),
                E::Asin => map1(a, $t::asin),
                E::Asinh => map1(a, RealMath::arsinh),
                E::Atan => map1(a, $t::atan),
                E::Atanh => map1(a, RealMath::artanh),
                E::Ceil => map1(a, $t::ceil),
                E::Cos => map1(a, $t::cos),
                E::Cosh => map1(a, $t::cosh),
                E::Exp => map1(a, $t::exp),
                E::Expm1 => map1(a, $t::exp_m1),
                E::Floor => map1(a, $t::floor),
                E::Imag => map1(a, |_| 0.0 as $t),
                E::Isfinite => map1(a, |x: $t| x.is_finite()),
                E::Isinf => map1(a, |x: $t| x.is_infinite()),
                E::Isnan => map1(a, |x: $t| x.is_nan()),
                E::Log => map1(a, $t::ln),
                E::Log1p => map1(a, $t::ln_1p),
                E::Log2 => map1(a, $t::log2),
                E::Log10 => map1(a, $t::log10),
                E::Negative => map1(a, |x: $t| -x),
                E::Reciprocal => map1(a, |x: $t| 1.0 / x),
                E::Round => map1(a, $t::round_ties_even),
                E::Sign => map1(a, RealMath::sign),
                E::Signbit => map1(a, |x: $t| x.is_sign_negative()),
                E::Sin => map1(a, $t::sin),
                E::Sinh => map1(a, $t::sinh),
                E::Sqrt => map1(a, $t::sqrt),
                E::Square => map1(a, |x: $t| x * x),
                E::Tan => map1(a, $t::tan),
                E::Tanh => map1(a, $t::tanh),
                E::Trunc => map1(a, $t::trunc),
                _ => Err(undefined(op, $t::DTYPE)),
            }
        }
    };
}
float!(of_f32, f32);
float!(of_f64, f64);

macro_rules! complex {
    ($name:ident, $t:ident, $c:ident) => {
        fn $name(op: ElementOp, a: &Arr<$c>) -> Result<Block, KernelError> {
            use ElementOp as E;
            match op {
                E::Positive => Ok($c::wrap(a.clone())),
                E::Conj => map1(a, |z: $c| z.conj()),
                E::Real => map1(a, |z: $c| z.re),
                E::Imag => map1(a, |z: $c| z.im),
                E::Abs => map1(a, |z: $c| z.re.hypot(z.im)),
                E::Acos => map1(a, |z: $c| z.acos()),
                E::Acosh => map1(a, |z: $c| z.acosh()),
                E::Asin => map1(a, |z: $c| z.asin()),
                E::Asinh => map1(a, |z: $c| z.asinh()),
                E::Atan => map1(a, |z: $c| z.atan()),
                E::Atanh => map1(a, |z: $c| z.atanh()),
                E::Cos => map1(a, |z: $c| z.cos()),
                E::Cosh => map1(a, |z: $c| z.cosh()),
                E::Exp => map1(a, |z: $c| z.exp()),
                E::Expm1 => map1(a, Cplx::exp_m1),
                E::Isfinite => map1(a, |z: $c| z.re.is_finite() && z.im.is_finite()),
                E::Isinf => map1(a, |z: $c| z.re.is_infinite() || z.im.is_infinite()),
                E::Isnan => map1(a, |z: $c| z.re.is_nan() || z.im.is_nan()),
                E::Log => map1(a, |z: $c| z.ln()),
                E::Log1p => map1(a, Cplx::ln_1p),
                E::Log2 => map1(a, |z: $c| z.ln() / std::$t::consts::LN_2),
                E::Log10 => map1(a, |z: $c| z.ln() / std::$t::consts::LN_10),
                E::Negative => map1(a, |z: $c| -z),
                E::Reciprocal => map1(a, |z: $c| Cplx::over($c::new(1.0, 0.0), z)),
                E::Round => map1(a, Cplx::round_even),
                E::Sign => map1(a, Cplx::sign),
                E::Sin => map1(a, |z: $c| z.sin()),
                E::Sinh => map1(a, |z: $c| z.sinh()),
                E::Sqrt => map1(a, |z: $c| z.sqrt()),
                E::Square => map1(a, |z: $c| z * z),
                E::Tan => map1(a, |z: $c| z.tan()),
                E::Tanh => map1(a, |z: $c| z.tanh()),
                _ => Err(undefined(op, $c::DTYPE)),
            }
        }
    };
}
complex!(of_c32, f32, Complex32);
complex!(of_c64, f64, Complex64);
