//! Arithmetic on numbers, as Python does it.
//!
//! What two numbers make is a number again. It has no dtype of its own, so `u + 7 // 2` is what `u + 3` is. What Python refuses is
//! refused, and so are integers of more than 128 bits.

use crate::{BinaryOp, UnaryOp};
use chunkwise_types::Scalar;

const LARGE: &str = "the result has more than 128 bits; write a number as a float, such as 1e40";
const ZERO: &str = "division by zero; write inf or nan for what a floating-point division gives";

/// A unary operation.
pub(crate) fn unary(op: UnaryOp, value: Scalar) -> Result<Scalar, String> {
    Ok(match (op, value) {
        (UnaryOp::Invert, Scalar::Bool(v)) => Scalar::Bool(!v),
        (_, Scalar::Bool(v)) => unary(op, Scalar::Int(v.into()))?,
        (UnaryOp::Pos, v) => v,
        (UnaryOp::Neg, Scalar::Int(v)) => Scalar::Int(v.checked_neg().ok_or(LARGE)?),
        (UnaryOp::Neg, Scalar::Float(v)) => Scalar::Float(-v),
        (UnaryOp::Neg, Scalar::Complex(re, im)) => Scalar::Complex(-re, -im),
        (UnaryOp::Invert, Scalar::Int(v)) => Scalar::Int(!v),
        (UnaryOp::Invert, v) => return Err(format!("~ takes integers and bool, not {v}")),
    })
}

/// A binary operation on numbers; not a matrix product.
pub(crate) fn binary(op: BinaryOp, a: Scalar, b: Scalar) -> Result<Scalar, String> {
    match (a, b) {
        (Scalar::Bool(x), Scalar::Bool(y)) => match op {
            BinaryOp::BitAnd => Ok(Scalar::Bool(x & y)),
            BinaryOp::BitOr => Ok(Scalar::Bool(x | y)),
            BinaryOp::BitXor => Ok(Scalar::Bool(x ^ y)),
            _ => integers(op, x.into(), y.into()),
        },
        (Scalar::Bool(_) | Scalar::Int(_), Scalar::Bool(_) | Scalar::Int(_)) => integers(op, a.as_i128(), b.as_i128()),
        (Scalar::Complex(..), _) | (_, Scalar::Complex(..)) => complex(op, a, b),
        _ => floats(op, a.as_f64(), b.as_f64()),
    }
}

fn compared(op: BinaryOp, order: Option<std::cmp::Ordering>) -> Option<Scalar> {
    Some(Scalar::Bool(match op {
        BinaryOp::Lt => order.is_some_and(std::cmp::Ordering::is_lt),
        BinaryOp::Le => order.is_some_and(std::cmp::Ordering::is_le),
        BinaryOp::Gt => order.is_some_and(std::cmp::Ordering::is_gt),
        BinaryOp::Ge => order.is_some_and(std::cmp::Ordering::is_ge),
        BinaryOp::Eq => order.is_some_and(std::cmp::Ordering::is_eq),
        BinaryOp::Ne => order.is_none_or(std::cmp::Ordering::is_ne),
        _ => return None,
    }))
}

fn integers(op: BinaryOp, x: i128, y: i128) -> Result<Scalar, String> {
    if let Some(answer) = compared(op, Some(x.cmp(&y))) {
        return Ok(answer);
    }
    let whole = match op {
        BinaryOp::Add => x.checked_add(y),
        BinaryOp::Sub => x.checked_sub(y),
        BinaryOp::Mul => x.checked_mul(y),
        BinaryOp::BitAnd => Some(x & y),
        BinaryOp::BitOr => Some(x | y),
        BinaryOp::BitXor => Some(x ^ y),
        BinaryOp::Shl | BinaryOp::Shr if y < 0 => return Err("negative shift count".into()),
        BinaryOp::Shr => Some(x >> y.min(127)),
        BinaryOp::Shl if x == 0 => Some(0),
        BinaryOp::Shl => (y < 127).then(|| x << y).filter(|v| v >> y == x),
        BinaryOp::FloorDiv | BinaryOp::Mod | BinaryOp::Div if y == 0 => return Err(ZERO.into()),
        BinaryOp::FloorDiv => x.checked_div(y).map(|q| q - i128::from(x % y != 0 && (x < 0) != (y < 0))),
        BinaryOp::Mod => x.checked_rem(y).map(|r| if r != 0 && (r < 0) != (y < 0) { r + y } else { r }),
        BinaryOp::Pow if y >= 0 => match x {
            0 | 1 => Some(if y == 0 { 1 } else { x }),
            -1 => Some(if y % 2 == 0 { 1 } else { -1 }),
            _ => u32::try_from(y).ok().and_then(|y| x.checked_pow(y)),
        },
        _ => return floats(op, x as f64, y as f64),
    };
    whole.map(Scalar::Int).ok_or_else(|| LARGE.into())
}

fn floats(op: BinaryOp, x: f64, y: f64) -> Result<Scalar, String> {
    if let Some(answer) = compared(op, x.partial_cmp(&y)) {
        return Ok(answer);
    }
    // As Python: the remainder has the sign of the divisor, and the quotient fits it.
    let remainder = || {
        let r = x % y;
        if r == 0.0 { 0f64.copysign(y) } else { r + if (r < 0.0) != (y < 0.0) { y } else { 0.0 } }
    };
    Ok(Scalar::Float(match op {
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div | BinaryOp::FloorDiv | BinaryOp::Mod if y == 0.0 => return Err(ZERO.into()),
        BinaryOp::Div => x / y,
        BinaryOp::Mod => remainder(),
        BinaryOp::FloorDiv => {
            let q = (x - remainder()) / y;
            if q == 0.0 { 0f64.copysign(x / y) } else { q.round() }
        }
        BinaryOp::Pow if x == 0.0 && y < 0.0 => return Err(ZERO.into()),
        BinaryOp::Pow if x < 0.0 && x.is_finite() && y.is_finite() && y.fract() != 0.0 => {
            return complex(op, Scalar::Complex(x, 0.0), Scalar::Float(y));
        }
        BinaryOp::Pow => match x.powf(y) {
            v if v.is_infinite() && x.is_finite() && y.is_finite() => return Err(format!("{x:?} ** {y:?} is beyond the range of floats")),
            v => v,
        },
        _ => return Err(format!("{} takes integers and bool, not {x:?} and {y:?}", op.symbol())),
    }))
}

fn complex(op: BinaryOp, a: Scalar, b: Scalar) -> Result<Scalar, String> {
    let (x, y) = (a.as_complex(), b.as_complex());
    let zero = |z: Scalar| !z.as_bool();
    let z = match op {
        BinaryOp::Eq => return Ok(Scalar::Bool(x == y)),
        BinaryOp::Ne => return Ok(Scalar::Bool(x != y)),
        BinaryOp::Add => x + y,
        BinaryOp::Sub => x - y,
        BinaryOp::Mul => x * y,
        BinaryOp::Div if zero(b) => return Err(ZERO.into()),
        BinaryOp::Div => x / y,
        BinaryOp::Pow if zero(b) => return Ok(Scalar::Complex(1.0, 0.0)),
        BinaryOp::Pow if zero(a) && (y.re < 0.0 || y.im != 0.0) => return Err(ZERO.into()),
        BinaryOp::Pow if zero(a) => return Ok(Scalar::Complex(0.0, 0.0)),
        BinaryOp::Pow if y.im == 0.0 && y.re.fract() == 0.0 && y.re.abs() <= 100.0 => x.powi(y.re as i32),
        BinaryOp::Pow => x.powc(y),
        _ => return Err(format!("{} is not defined for the complex numbers {a} and {b}", op.symbol())),
    };
    Ok(Scalar::Complex(z.re, z.im))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BinaryOp as Op;

    fn int(v: i128) -> Scalar {
        Scalar::Int(v)
    }

    #[test]
    fn integers_as_python() {
        for (op, x, y, wanted) in [
            (Op::FloorDiv, 7, 2, int(3)),
            (Op::FloorDiv, -7, 2, int(-4)),
            (Op::Mod, -7, 2, int(1)),
            (Op::Mod, 7, -2, int(-1)),
            (Op::Mod, -8, 2, int(0)),
            (Op::Div, 7, 2, Scalar::Float(3.5)),
            (Op::Pow, 2, 100, int(1 << 100)),
            (Op::Pow, -1, 1 << 100, int(1)),
            (Op::Pow, 2, -1, Scalar::Float(0.5)),
            (Op::Shl, 1, 100, int(1 << 100)),
            (Op::Shl, -1, 100, int(-(1 << 100))),
            (Op::Shr, -5, 1000, int(-1)),
            (Op::Lt, 1, 2, Scalar::Bool(true)),
            (Op::BitXor, 6, 3, int(5)),
        ] {
            assert_eq!(binary(op, int(x), int(y)), Ok(wanted), "{x} {} {y}", op.symbol());
        }
    }

    #[test]
    fn what_has_no_value_is_refused() {
        for (op, x, y) in [
            (Op::Pow, int(10), int(400)),
            (Op::Add, int(i128::MAX), int(1)),
            (Op::Shl, int(1), int(127)),
            (Op::Shl, int(1), int(-1)),
            (Op::FloorDiv, int(i128::MIN), int(-1)),
            (Op::FloorDiv, int(1), int(0)),
            (Op::Div, Scalar::Float(1.0), int(0)),
            (Op::Pow, int(0), int(-1)),
            (Op::Pow, Scalar::Float(10.0), int(400)),
            (Op::BitAnd, Scalar::Float(1.0), int(1)),
            (Op::Lt, Scalar::Complex(0.0, 1.0), int(1)),
        ] {
            assert!(binary(op, x, y).is_err(), "{x} {} {y}", op.symbol());
        }
        assert!(unary(UnaryOp::Neg, int(i128::MIN)).is_err());
        assert!(unary(UnaryOp::Invert, Scalar::Float(1.0)).is_err());
    }

    #[test]
    fn bool_floats_and_complex_as_python() {
        assert_eq!(binary(Op::Add, Scalar::Bool(true), Scalar::Bool(true)), Ok(int(2)));
        assert_eq!(binary(Op::BitAnd, Scalar::Bool(true), Scalar::Bool(false)), Ok(Scalar::Bool(false)));
        assert_eq!(unary(UnaryOp::Invert, Scalar::Bool(true)), Ok(Scalar::Bool(false)));
        assert_eq!(unary(UnaryOp::Neg, Scalar::Bool(true)), Ok(int(-1)));
        let float = |op, x, y| binary(op, Scalar::Float(x), Scalar::Float(y));
        assert_eq!(float(Op::Mod, -7.5, 2.0), Ok(Scalar::Float(0.5)));
        assert_eq!(float(Op::FloorDiv, -7.5, 2.0), Ok(Scalar::Float(-4.0)));
        assert_eq!(float(Op::FloorDiv, 1.0, 0.1), Ok(Scalar::Float(9.0)));
        assert_eq!(float(Op::Ne, f64::NAN, f64::NAN), Ok(Scalar::Bool(true)));
        assert_eq!(binary(Op::Pow, Scalar::Complex(0.0, 1.0), int(2)), Ok(Scalar::Complex(-1.0, 0.0)));
        assert!(matches!(float(Op::Pow, -8.0, 1.0 / 3.0), Ok(Scalar::Complex(re, im)) if (re - 1.0).abs() < 1e-12 && im > 1.7));
    }
}
