//! Products summed over axes, and the decomposition of a matrix.

use super::args::Args;
use crate::build::{BuildError, Value, at, fail};
use chunkwise_ops::{Array, einsum, linalg, qr};

/// Applies `matmul`, `outer`, `vecdot`, `tensordot`, `qr_q`, `qr_r` or `einsum`.
pub(super) fn call(a: &mut Args<'_>) -> Result<Array, BuildError> {
    let span = a.span;
    match a.function {
        "matmul" => linalg::matmul(&a.array(0, "x")?, &a.array(1, "y")?),
        "qr_q" => qr::qr(&a.array(0, "x")?).map(|(q, _)| q),
        "qr_r" => qr::qr(&a.array(0, "x")?).map(|(_, r)| r),
        "outer" => linalg::outer(&a.array(0, "x")?, &a.array(1, "y")?),
        "vecdot" => {
            let (x, y) = (a.array(0, "x")?, a.array(1, "y")?);
            linalg::vecdot(&x, &y, a.axis(&x, 2, -1, 0)?)
        }
        "tensordot" => {
            let (x, y) = (a.array(0, "x")?, a.array(1, "y")?);
            let (left, right) = match a.get(2, "axes") {
                Some(Value::List(items)) if items.len() == 2 => {
                    let axes = |x: &Array, v: &Value| match v {
                        Value::List(l) => l.iter().map(|v| a.axis_of(x, v, 0)).collect::<Result<Vec<_>, _>>(),
                        v => Ok(vec![a.axis_of(x, v, 0)?]),
                    };
                    (axes(&x, &items[0])?, axes(&y, &items[1])?)
                }
                other => {
                    let n = other.map_or(Ok(2), |v| v.int(span))?;
                    if n < 0 || n as usize > x.rank().min(y.rank()) {
                        return fail(span, "there are not so many axes to sum over");
                    }
                    ((x.rank() - n as usize..x.rank()).collect(), (0..n as usize).collect())
                }
            };
            linalg::tensordot(&x, &y, &left, &right)
        }
        _ => {
            let Some(subscripts) = a.text(0, "subscripts")? else {
                return fail(span, "einsum() needs its subscripts first, such as einsum(\"ij,jk->ik\", x, y)");
            };
            let operands = std::mem::take(&mut a.values).iter().skip(1).map(|v| v.array(span)).collect::<Result<Vec<_>, _>>()?;
            einsum::einsum(&subscripts, &operands)
        }
    }
    .map_err(at(span))
}
