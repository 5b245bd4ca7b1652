//! Functions of two inputs.

use super::numeric::{Cplx, Int, RealMath};
use super::{Arr, ElementOp, map2, typed, undefined};
use crate::{Block, BlockElement, KernelError};
use num_complex::{Complex32, Complex64};

pub(super) fn compute(op: ElementOp, a: &Block, b: &Block) -> Result<Block, KernelError> {
    match (a, b) {
        (Block::Int64(x), Block::UInt64(y)) => return mixed(op, x, y),
        (Block::UInt64(x), Block::Int64(y)) => return mixed(op, x, y),
        _ => {}
    }
    match a {
        Block::Bool(x) => of_bool(op, x, typed(op, b)?),
        Block::Int8(x) => of_i8(op, x, typed(op, b)?),
        Block::Int16(x) => of_i16(op, x, typed(op, b)?),
        Block::Int32(x) => of_i32(op, x, typed(op, b)?),
        Block::Int64(x) => of_i64(op, x, typed(op, b)?),
        Block::UInt8(x) => of_u8(op, x, typed(op, b)?),
        Block::UInt16(x) => of_u16(op, x, typed(op, b)?),
        Block::UInt32(x) => of_u32(op, x, typed(op, b)?),
        Block::UInt64(x) => of_u64(op, x, typed(op, b)?),
        Block::Float32(x) => of_f32(op, x, typed(op, b)?),
        Block::Float64(x) => of_f64(op, x, typed(op, b)?),
        Block::Complex64(x) => of_c32(op, x, typed(op, b)?),
        Block::Complex128(x) => of_c64(op, x, typed(op, b)?),
    }
}

/// Exact comparisons of signed with unsigned integers.
fn mixed<A: BlockElement + Into<i128>, B: BlockElement + Into<i128>>(op: ElementOp, a: &Arr<A>, b: &Arr<B>) -> Result<Block, KernelError> {
    use ElementOp::*;
    match op {
        Equal => map2(a, b, |x, y| x.into() == y.into()),
        NotEqual => map2(a, b, |x, y| x.into() != y.into()),
        Less => map2(a, b, |x, y| x.into() < y.into()),
        LessEqual => map2(a, b, |x, y| x.into() <= y.into()),
        Greater => map2(a, b, |x, y| x.into() > y.into()),
        GreaterEqual => map2(a, b, |x, y| x.into() >= y.into()),
        _ => Err(undefined(op, B::DTYPE)),
    }
}

/// Comparisons of two inputs of one ordered type.
fn compare<T: BlockElement + PartialOrd>(op: ElementOp, a: &Arr<T>, b: &Arr<T>) -> Result<Block, KernelError> {
    use ElementOp::*;
    match op {
        Equal => map2(a, b, |x, y| x == y),
        NotEqual => map2(a, b, |x, y| x != y),
        Less => map2(a, b, |x, y| x < y),
        LessEqual => map2(a, b, |x, y| x <= y),
        Greater => map2(a, b, |x, y| x > y),
        GreaterEqual => map2(a, b, |x, y| x >= y),
        _ => Err(undefined(op, T::DTYPE)),
    }
}

fn of_bool(op: ElementOp, a: &Arr<bool>, b: &Arr<bool>) -> Result<Block, KernelError> {
    use ElementOp::*;
    match op {
        Add | BitwiseOr | LogicalOr | Maximum => map2(a, b, |x, y| x | y),
        Multiply | BitwiseAnd | LogicalAnd | Minimum => map2(a, b, |x, y| x & y),
        BitwiseXor | LogicalXor => map2(a, b, |x, y| x ^ y),
        _ => compare(op, a, b),
    }
}

macro_rules! integer {
    ($name:ident, $t:ident) => {
        fn $name(op: ElementOp, a: &Arr<$t>, b: &Arr<$t>) -> Result<Block, KernelError> {
            use ElementOp::*;
            match op {
                Add => map2(a, b, $t::wrapping_add),
                Subtract => map2(a, b, $t::wrapping_sub),
                Multiply => map2(a, b, $t::wrapping_mul),
                FloorDivide => map2(a, b, Int::floor_div),
                Remainder => map2(a, b, Int::floor_rem),
                Pow => map2(a, b, Int::power),
                Maximum => map2(a, b, |x: $t, y| x.max(y)),
                Minimum => map2(a, b, |x: $t, y| x.min(y)),
                BitwiseAnd => map2(a, b, |x: $t, y: $t| x & y),
                BitwiseOr => map2(a, b, |x: $t, y: $t| x | y),
                BitwiseXor => map2(a, b, |x: $t, y: $t| x ^ y),
                BitwiseLeftShift => map2(a, b, Int::left),
                BitwiseRightShift => map2(a, b, Int::right),
                _ => compare(op, a, b),
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
        fn $name(op: ElementOp, a: &Arr<$t>, b: &Arr<$t>) -> Result<Block, KernelError> {
            use ElementOp::*;
            match op {
                Add => map2(a, b, |x: $t, y: $t| x + y),
                Subtract => map2(a, b, |x: $t, y: $t| x - y),
                Multiply => map2(a, b, |x: $t, y: $t| x * y),
                Divide => map2(a, b, |x: $t, y: $t| x / y),
                FloorDivide => map2(a, b, RealMath::floor_div),
                Remainder => map2(a, b, RealMath::floor_rem),
                Pow => map2(a, b, $t::powf),
                Maximum => map2(a, b, RealMath::larger),
                Minimum => map2(a, b, RealMath::smaller),
                Atan2 => map2(a, b, $t::atan2),
                Copysign => map2(a, b, $t::copysign),
                Hypot => map2(a, b, $t::hypot),
                Logaddexp => map2(a, b, RealMath::logaddexp),
                Nextafter => map2(a, b, RealMath::nextafter),
                _ => compare(op, a, b),
            }
        }
    };
}
float!(of_f32, f32);
float!(of_f64, f64);

macro_rules! complex {
    ($name:ident, $c:ident) => {
        fn $name(op: ElementOp, a: &Arr<$c>, b: &Arr<$c>) -> Result<Block, KernelError> {
            use ElementOp::*;
            match op {
                Add => map2(a, b, |x: $c, y: $c| x + y),
                Subtract => map2(a, b, |x: $c, y: $c| x - y),
                Multiply => map2(a, b, |x: $c, y: $c| x * y),
                Divide => map2(a, b, Cplx::over),
                Pow => map2(a, b, Cplx::power),
                Equal => map2(a, b, |x: $c, y: $c| x == y),
                NotEqual => map2(a, b, |x: $c, y: $c| x != y),
                _ => Err(undefined(op, $c::DTYPE)),
            }
        }
    };
}
complex!(of_c32, Complex32);
complex!(of_c64, Complex64);
