//! Element-wise functions: NumPy 2 promotion with weak Python scalars, and broadcasting.

pub use crate::literal::compares;
use crate::{Array, OpError, literal};
use chunkwise_kernels::{ArrayType, Create, ElementOp, Kernel, ViewAxis};
use chunkwise_types::{AxisChunks, ChunkGrid, DType, Scalar};
use std::cmp::Ordering;

/// An argument: an array, or a scalar that takes the dtype of the arrays that it meets.
#[derive(Debug, Clone)]
pub enum Operand {
    /// An array.
    Array(Array),
    /// A scalar.
    Scalar(Scalar),
}

impl From<&Array> for Operand {
    fn from(a: &Array) -> Self {
        Operand::Array(a.clone())
    }
}

impl From<Scalar> for Operand {
    fn from(s: Scalar) -> Self {
        Operand::Scalar(s)
    }
}

/// The array as another dtype (NumPy's `astype`).
pub fn astype(a: &Array, dtype: DType) -> Result<Array, OpError> {
    if a.dtype() == dtype {
        return Ok(a.clone());
    }
    Array::apply(Kernel::Cast, &[a], ArrayType::new(dtype, a.shape().to_vec()), a.chunks().clone(), a.dims().to_vec(), "astype")
}

/// The array broadcast to a shape, by NumPy's rules. Shapes: `a` aligns with the last axes of `shape`.
pub fn broadcast_to(a: &Array, shape: &[u64]) -> Result<Array, OpError> {
    let bad = || OpError::new("broadcast_to", format!("shape {:?} cannot be broadcast to {shape:?}", a.shape()));
    if a.shape() == shape {
        return Ok(a.clone());
    }
    let new = shape.len().checked_sub(a.rank()).ok_or_else(bad)?;
    let (mut axes, mut chunks, mut dims) = (Vec::new(), Vec::new(), Vec::new());
    for (i, &n) in shape.iter().enumerate() {
        if i < new {
            axes.push(ViewAxis::New);
            chunks.push(AxisChunks::regular(n, n));
            dims.push(None);
            continue;
        }
        let k = i - new;
        if a.shape()[k] != n && a.shape()[k] != 1 {
            return Err(bad());
        }
        axes.push(ViewAxis::In(k));
        chunks.push(if a.shape()[k] == n { a.chunks().0[k].clone() } else { AxisChunks::regular(n, n) });
        dims.push(a.dims()[k].clone());
    }
    Array::apply(Kernel::View { axes }, &[a], ArrayType::new(a.dtype(), shape.to_vec()), ChunkGrid(chunks), dims, "broadcast_to")
}

/// The common shape of several.
pub fn broadcast_shape(operation: &str, shapes: &[&[u64]]) -> Result<Vec<u64>, OpError> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for s in shapes {
        for (i, &n) in s.iter().enumerate() {
            let o = &mut out[rank - s.len() + i];
            if *o == 1 {
                *o = n;
            } else if n != 1 && n != *o {
                return Err(OpError::new(
                    operation,
                    format!("the shapes {shapes:?} do not broadcast: axis lengths {o} and {n} differ and neither is 1"),
                ));
            }
        }
    }
    Ok(out)
}

/// The names of the axes of a broadcast, aligned from the last axis; two names for one axis are an error.
fn merged_dims(operation: &str, arrays: &[&Array], rank: usize) -> Result<Vec<Option<String>>, OpError> {
    let mut out: Vec<(Option<String>, u64)> = vec![(None, 1); rank];
    for a in arrays {
        for (i, (name, &n)) in a.dims().iter().zip(a.shape()).enumerate() {
            let slot = &mut out[rank - a.rank() + i];
            match (&slot.0, name) {
                (None, Some(_)) => slot.0.clone_from(name),
                // An axis of length 1 is broadcast, and has the name of the one that it meets.
                (Some(x), Some(y)) if x != y && slot.1 == 1 && n != 1 => slot.0.clone_from(name),
                (Some(x), Some(y)) if x != y && n != 1 => {
                    return Err(OpError::new(
                        operation,
                        format!("axes '{x}' and '{y}' meet; align them with permute_dims or expand_dims first"),
                    ));
                }
                _ => {}
            }
            slot.1 = slot.1.max(n);
        }
    }
    Ok(out.into_iter().map(|(name, _)| name).collect())
}

/// `x ** 2` is by far the most common power, and a product is exact and fast.
fn squared(op: ElementOp, args: &[Operand]) -> (ElementOp, &[Operand]) {
    match (op, args) {
        (ElementOp::Pow, [Operand::Array(x), Operand::Scalar(exponent)])
            if x.dtype() != DType::Bool && (*exponent == Scalar::Int(2) || x.dtype().is_inexact() && *exponent == Scalar::Float(2.0)) =>
        {
            (ElementOp::Square, &args[..1])
        }
        _ => (op, args),
    }
}

/// Applies an element-wise function.
///
/// A scalar takes the dtype of the arrays that it meets, and it must fit it; comparisons are exact for every scalar.
///
/// ```
/// use chunkwise_kernels::ElementOp;
/// use chunkwise_ops::{create, elementwise::elementwise};
/// use chunkwise_types::{DType, Scalar};
/// let u = create::full(&[3], Scalar::Int(7), DType::UInt8, None)?;
/// let error = elementwise(ElementOp::Add, &[(&u).into(), Scalar::Int(300).into()]).unwrap_err();
/// assert!(error.to_string().contains("300 does not fit the dtype uint8"));
/// assert!(elementwise(ElementOp::Greater, &[(&u).into(), Scalar::Int(-1).into()]).is_ok());
/// # Ok::<(), chunkwise_ops::OpError>(())
/// ```
///
/// # Errors
/// If the number of arguments is wrong, the shapes do not broadcast, the dimension names clash, a dtype is not accepted, or a scalar does
/// not fit the dtype that it takes.
pub fn elementwise(op: ElementOp, args: &[Operand]) -> Result<Array, OpError> {
    let (op, args) = squared(op, args);
    let name = op.name();
    if args.len() != op.arity() {
        return Err(OpError::new(name, format!("it takes {} arguments, not {}", op.arity(), args.len())));
    }
    let arrays: Vec<&Array> = args.iter().filter_map(|a| if let Operand::Array(a) = a { Some(a) } else { None }).collect();
    // A condition does not take part in promotion.
    let first = usize::from(op == ElementOp::Where);
    let met = args[first..].iter().filter_map(|a| if let Operand::Array(a) = a { Some(a.dtype()) } else { None }).try_fold(
        None,
        |acc: Option<DType>, d| {
            Ok(Some(acc.map_or(Some(d), |x| x.promote(d)).ok_or_else(|| OpError::new(name, "these dtypes do not promote"))?))
        },
    )?;
    let dtypes: Vec<DType> = args
        .iter()
        .map(|a| match a {
            Operand::Array(a) => a.dtype(),
            Operand::Scalar(s) => met.map_or(s.default_dtype(), |d| s.dtype_with(d)),
        })
        .collect();
    let (casts, out) = op.result_dtype(&dtypes).map_err(|e| OpError::new(name, e.to_string()))?;
    let (op, args) = literal::settle(op, args, &casts)?;
    let shapes: Vec<&[u64]> = arrays.iter().map(|a| a.shape()).collect();
    let shape = broadcast_shape(name, &shapes)?;
    let dims = merged_dims(name, &arrays, shape.len())?;
    let bytes = |a: &Array| chunkwise_types::volume(a.shape()).saturating_mul(a.dtype().size());
    let chunk = |a: &Array| chunkwise_types::volume(&a.chunks().max_shape()).max(1);
    // Of equally large ones that which is stored, not looked up in a table of groups; then that in clearly smaller chunks.
    let largest = arrays.iter().copied().reduce(|a, b| match bytes(a).cmp(&bytes(b)).then(a.follows().cmp(&b.follows())) {
        Ordering::Greater => a,
        Ordering::Equal if chunk(a) * 2 <= chunk(b) => a,
        _ => b,
    });
    let chunks = match largest {
        Some(a) => broadcast_to(a, &shape)?.chunks().clone(),
        None => ChunkGrid::single(&shape),
    };
    let inputs = args
        .iter()
        .zip(casts)
        .map(|(a, dtype)| match a {
            Operand::Array(a) => broadcast_to(&astype(a, dtype)?, &shape),
            Operand::Scalar(value) => {
                let ty = ArrayType::new(dtype, shape.clone());
                Array::apply(Kernel::Create { what: Create::Full { value: *value } }, &[], ty, chunks.clone(), dims.clone(), "scalar")
            }
        })
        .collect::<Result<Vec<Array>, OpError>>()?;
    let inputs: Vec<&Array> = inputs.iter().collect();
    Array::apply(Kernel::Element { function: op }, &inputs, ArrayType::new(out, shape), chunks, dims, name)
}

/// Values limited to `low..=high`; either may be absent. An integer bound that no value of the dtype exceeds limits nothing, as in NumPy.
pub fn clip(a: &Array, low: Option<Operand>, high: Option<Operand>) -> Result<Array, OpError> {
    let mut out = a.clone();
    let range = a.dtype().integer_range();
    let beyond = |bound: &Operand, high: bool| match (bound, range) {
        (Operand::Scalar(Scalar::Int(v)), Some((least, greatest))) => {
            if high {
                *v >= greatest
            } else {
                *v <= least
            }
        }
        _ => false,
    };
    let (low, high) = (low.filter(|v| !beyond(v, false)), high.filter(|v| !beyond(v, true)));
    if let Some(low) = low {
        out = elementwise(ElementOp::Maximum, &[Operand::Array(out), low])?;
    }
    if let Some(high) = high {
        out = elementwise(ElementOp::Minimum, &[Operand::Array(out), high])?;
    }
    Ok(out)
}

/// Where `|x - y| <= atol + rtol |y|`, or both are the same infinity; with `equal_nan` also where both are NaN. As NumPy's `isclose`.
///
/// # Errors
/// If the shapes do not broadcast, or the dimension names clash.
pub fn isclose(x: &Operand, y: &Operand, rtol: f64, atol: f64, equal_nan: bool) -> Result<Array, OpError> {
    let apply = |op, args: &[&Operand]| elementwise(op, &args.iter().map(|&a| a.clone()).collect::<Vec<_>>()).map(Operand::Array);
    let number = |v: f64| Operand::Scalar(Scalar::Float(v));
    // Differences of integers would wrap.
    let y = match y {
        Operand::Array(a) if !a.dtype().is_inexact() => Operand::Array(astype(a, DType::Float64)?),
        Operand::Scalar(s) => number(s.as_f64()),
        other => other.clone(),
    };
    let distance = apply(ElementOp::Abs, &[&apply(ElementOp::Subtract, &[x, &y])?])?;
    let scaled = apply(ElementOp::Multiply, &[&apply(ElementOp::Abs, &[&y])?, &number(rtol)])?;
    let near = apply(ElementOp::LessEqual, &[&distance, &apply(ElementOp::Add, &[&scaled, &number(atol)])?])?;
    let near = apply(ElementOp::LogicalAnd, &[&near, &apply(ElementOp::Isfinite, &[&y])?])?;
    let mut out = apply(ElementOp::LogicalOr, &[&near, &apply(ElementOp::Equal, &[x, &y])?])?;
    if equal_nan {
        let both = apply(ElementOp::LogicalAnd, &[&apply(ElementOp::Isnan, &[x])?, &apply(ElementOp::Isnan, &[&y])?])?;
        out = apply(ElementOp::LogicalOr, &[&out, &both])?;
    }
    match out {
        Operand::Array(a) => Ok(a),
        Operand::Scalar(_) => Err(OpError::new("isclose", "there is no array")),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn powers_of_two_are_products_where_they_are_the_same() {
        let chosen = |dtype: DType, exponent: Scalar| {
            let one = if dtype == DType::Bool { Scalar::Bool(true) } else { Scalar::Int(1) };
            let x = crate::create::full(&[3], one, dtype, None).unwrap();
            squared(ElementOp::Pow, &[(&x).into(), exponent.into()]).0
        };
        assert_eq!(chosen(DType::Float32, Scalar::Int(2)), ElementOp::Square);
        assert_eq!(chosen(DType::Float64, Scalar::Float(2.0)), ElementOp::Square);
        assert_eq!(chosen(DType::UInt8, Scalar::Int(2)), ElementOp::Square);
        // The results are floats, int64, and another number.
        assert_eq!(chosen(DType::UInt8, Scalar::Float(2.0)), ElementOp::Pow);
        assert_eq!(chosen(DType::Bool, Scalar::Int(2)), ElementOp::Pow);
        assert_eq!(chosen(DType::Float64, Scalar::Int(3)), ElementOp::Pow);
    }
}
