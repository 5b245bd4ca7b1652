//! Numbers that are written in an expression, where they meet a dtype.
//!
//! The rule is NumPy 2's: a number takes the dtype of the array that it meets, and one that this dtype cannot hold is an error. It never
//! wraps. A comparison is the exception, because its answer is known: no `uint8` is below -1.

use crate::OpError;
use crate::elementwise::Operand;
use chunkwise_kernels::ElementOp;
use chunkwise_types::{DType, Scalar};

/// The narrowest dtype that holds all that `dtype` holds, and the number as well.
fn wider(dtype: DType, value: Scalar) -> DType {
    let mut all = DType::ALL;
    // Integers first, by width; those of a width are signed first.
    all.sort_by_key(|d| (d.is_inexact(), d.size(), d.kind() as u8));
    all.into_iter().find(|&d| d != DType::Bool && dtype.promote(d) == Some(d) && value.fits(d)).unwrap_or(DType::Float64)
}

/// What is wrong with a number for a dtype.
fn misfit(value: Scalar, dtype: DType) -> String {
    match (value, dtype.integer_range()) {
        (Scalar::Complex(..), _) => format!("{value} is complex and does not fit the dtype {dtype}"),
        (Scalar::Float(v), Some(_)) if v.fract() != 0.0 => format!("{value} is not a whole number and does not fit the dtype {dtype}"),
        (_, Some((least, greatest))) => format!("{value} does not fit the dtype {dtype}, whose range is {least} to {greatest}"),
        _ => format!("{value} does not fit the dtype {dtype}, whose values are False and True"),
    }
}

/// Refuses a value that stands in an array of this dtype but does not fit it. `fix` says what to write, given a dtype that would do.
pub(crate) fn check(value: Scalar, dtype: DType, operation: &str, fix: impl Fn(DType) -> String) -> Result<(), OpError> {
    if value.fits(dtype) {
        return Ok(());
    }
    Err(OpError::new(operation, format!("the value {}; {}", misfit(value, dtype), fix(wider(dtype, value)))))
}

/// The advice to convert the array.
pub(crate) fn convert(dtype: DType) -> String {
    format!("convert the array first, such as astype(x, \"{dtype}\")")
}

/// The advice to make an array of another dtype.
pub(crate) fn choose(dtype: DType) -> String {
    format!("choose a dtype that holds it, such as dtype=\"{dtype}\"")
}

/// The comparison with the arguments exchanged.
fn turned(op: ElementOp) -> ElementOp {
    match op {
        ElementOp::Less => ElementOp::Greater,
        ElementOp::LessEqual => ElementOp::GreaterEqual,
        ElementOp::Greater => ElementOp::Less,
        ElementOp::GreaterEqual => ElementOp::LessEqual,
        other => other,
    }
}

/// A comparison with a number beyond the range of the dtype as one with the end of the range, which has the same answer everywhere.
///
/// It still depends on the array, so the result has its chunks, names and coordinates.
fn bounded(op: ElementOp, value: i128, (least, greatest): (i128, i128)) -> (ElementOp, i128) {
    use ElementOp::*;
    if value < least {
        (if matches!(op, Greater | GreaterEqual | NotEqual) { GreaterEqual } else { Less }, least)
    } else {
        (if matches!(op, Less | LessEqual | NotEqual) { LessEqual } else { Greater }, greatest)
    }
}

/// True for functions that compare.
pub fn compares(op: ElementOp) -> bool {
    use ElementOp::*;
    matches!(op, Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual)
}

/// The function and its arguments such that every number fits the dtype that it is cast to.
///
/// # Errors
/// If a number does not fit, or an integer would be raised to a negative power.
pub(crate) fn settle(op: ElementOp, args: &[Operand], casts: &[DType]) -> Result<(ElementOp, Vec<Operand>), OpError> {
    let (mut op, name, mut args) = (op, op.name(), args.to_vec());
    for i in 0..args.len() {
        let Operand::Scalar(value) = args[i] else { continue };
        if let (ElementOp::Pow, 1, Scalar::Int(v), true) = (op, i, value, casts[i].is_integer())
            && v < 0
        {
            return Err(OpError::new(name, format!("{NEGATIVE_POWER}; write {v}.0 for a power of floating-point numbers")));
        }
        // As a bool, a number is only asked whether it is zero.
        if casts[i] == DType::Bool || value.fits(casts[i]) {
            continue;
        }
        match (value, casts[i].integer_range()) {
            (Scalar::Int(v), Some(range)) if compares(op) => {
                let (found, v) = bounded(if i == 0 { turned(op) } else { op }, v, range);
                op = if i == 0 { turned(found) } else { found };
                args[i] = Operand::Scalar(Scalar::Int(v));
            }
            _ => check(value, casts[i], name, convert)?,
        }
    }
    Ok((op, args))
}

/// Why an integer is not raised to a negative power.
const NEGATIVE_POWER: &str = "integers to negative integer powers are not allowed, because the results are no integers";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_dtype_that_holds_both() {
        let int = Scalar::Int;
        for (dtype, value, wanted) in [
            (DType::UInt8, int(300), DType::Int16),
            (DType::UInt8, int(-1), DType::Int16),
            (DType::Int8, int(200), DType::Int16),
            (DType::UInt16, int(-1), DType::Int32),
            (DType::UInt32, int(1 << 40), DType::Int64),
            (DType::UInt64, int(-1), DType::Float64),
            (DType::Int64, int(1 << 70), DType::Float64),
            (DType::Int16, Scalar::Float(f64::NAN), DType::Float32),
            (DType::Int32, Scalar::Float(0.5), DType::Float64),
            (DType::Bool, int(2), DType::Int8),
            (DType::Float32, Scalar::Complex(0.0, 1.0), DType::Complex64),
        ] {
            assert_eq!(wider(dtype, value), wanted, "{dtype} and {value}");
        }
    }

    #[test]
    fn comparisons_beyond_the_range_are_exact() {
        use ElementOp::*;
        let holds = |op, x: i128, y: i128| match op {
            Equal => x == y,
            NotEqual => x != y,
            Less => x < y,
            LessEqual => x <= y,
            Greater => x > y,
            _ => x >= y,
        };
        for op in [Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual] {
            for value in [-1000, -1, 256, 1000] {
                for x in [0, 1, 255] {
                    let (same, bound) = bounded(op, value, (0, 255));
                    assert_eq!(holds(same, x, bound), holds(op, x, value), "{x} {} {value}", op.name());
                    assert_eq!(holds(turned(op), value, x), holds(op, x, value));
                }
            }
        }
    }

    #[test]
    fn refusals_name_the_number_the_range_and_the_fix() {
        let error = check(Scalar::Int(300), DType::UInt8, "add", convert).unwrap_err().to_string();
        assert_eq!(
            error,
            "add: the value 300 does not fit the dtype uint8, whose range is 0 to 255; convert the array first, such as astype(x, \"int16\")"
        );
        let error = check(Scalar::Float(f64::NAN), DType::Int32, "pad", convert).unwrap_err().to_string();
        assert!(error.contains("nan is not a whole number") && error.contains("float64"), "{error}");
        let error = check(Scalar::Complex(1.0, -2.0), DType::Float32, "full", choose).unwrap_err().to_string();
        assert!(error.contains("(1.0 - 2.0j) is complex") && error.contains("dtype=\"complex64\""), "{error}");
    }
}
