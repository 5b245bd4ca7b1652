//! Products summed over axes, and the decomposition of a matrix.

use super::call::axis_of;
use super::parameter::{Default, Parameter, axis, x, y};
use super::reductions::PRODUCT;
use super::{Call, Category, Kind, Operation};
use crate::value::fail;
use crate::{Array, CallError, Value, einsum, linalg, qr};

static PRODUCTS: Category = Category { title: "Products", about: "" };

fn tensordot(c: &Call<'_>) -> Result<Array, CallError> {
    let (x, y) = (c.array("x")?, c.array("y")?);
    let (left, right) = c.read("axes", &[Kind::AxisPairs], |v, _| match v {
        Value::List(items) if items.len() == 2 => {
            let axes = |x: &Array, v: &Value| match v {
                Value::List(l) => l.iter().map(|v| axis_of(x, v, 0)).collect::<Result<Vec<_>, _>>(),
                v => Ok(vec![axis_of(x, v, 0)?]),
            };
            Ok((axes(&x, &items[0])?, axes(&y, &items[1])?))
        }
        other => {
            let n = other.int()?;
            if n < 0 || n as usize > x.rank().min(y.rank()) {
                return fail("there are not so many axes to sum over");
            }
            Ok(((x.rank() - n as usize..x.rank()).collect(), (0..n as usize).collect()))
        }
    })?;
    Ok(linalg::tensordot(&x, &y, &left, &right)?)
}

pub(super) fn operations() -> Vec<Operation> {
    let subscripts =
        Parameter::new("subscripts", Kind::Text).missing("einsum() needs its subscripts first, such as einsum(\"ij,jk->ik\", x, y)");
    let operations = vec![
        Operation::new("matmul", &PRODUCTS, r#"
The matrix product, `x @ y`, over the last dimension of `x` and the last but one of `y`. Dimensions before these are broadcast. Of integers it is an
integer. Dimensions keep their names; where both remaining ones have the same, the second has none.

>>> matmul(a, b)
int64 (2, 2) [[5, 11], [14, 23]]
# numpy: a @ b
"#, [x(), y()], |c| Ok(linalg::matmul(&c.array("x")?, &c.array("y")?)?)),
        Operation::new("vecdot", &PRODUCTS, r#"
The sum of products along one dimension. Complex numbers of `x` are conjugated.

>>> vecdot(i, j)
int64 () 164
# numpy: np.vecdot(i, j)
"#, [x(), y(), axis(-1)], |c| {
            let (x, y) = (c.array("x")?, c.array("y")?);
            Ok(linalg::vecdot(&x, &y, c.axis("axis", &x)?)?)
        }),
        Operation::new("outer", &PRODUCTS, r#"
All products of an element of one array with one of another, both of one dimension.

>>> outer(i, j[:2])
int64 (4, 2) [[24, 30], [12, 15], [20, 25], [48, 60]]
# numpy: np.outer(i, j[:2])
"#, [x(), y()], |c| Ok(linalg::outer(&c.array("x")?, &c.array("y")?)?)),
        Operation::new(
            "tensordot",
            &PRODUCTS,
            r#"
The sum of products over several dimensions: the last ones of `x` and the first ones of `y`, as many as `axes` says; or two lists of dimensions.

>>> tensordot(a, b, axes=1)
int64 (2, 2) [[5, 11], [14, 23]]
# numpy: np.tensordot(a, b, axes=1)
>>> tensordot(a, b, axes=[[0, 1], [1, 0]])
int64 () 28
# numpy: np.tensordot(a, b, axes=[[0, 1], [1, 0]])
"#,
            [x(), y(), Parameter::or("axes", Kind::AxisPairs, Default::Int(2))],
            tensordot,
        ),
        Operation::new(
            "einsum",
            &PRODUCTS,
            r#"
Sums of products after Einstein's convention: a letter for each dimension, and letters that are not in the result are summed over. Dimensions keep
their names.

>>> einsum("ij,jk->ik", a, b)
int64 (2, 2) [[5, 11], [14, 23]]
# numpy: np.einsum("ij,jk->ik", a, b)
>>> einsum("ij->ji", t)
float64 (lat: 2, time: 6) [[20, 22, 21, 25, 24, 26], [10, 11, 13, 14, 17, 19]]
# xarray: t.transpose("lat", "time")
"#,
            [subscripts, Parameter::new("operands", Kind::Rest).shown("x, y, ...")],
            |c| Ok(einsum::einsum(&c.text("subscripts")?, &c.rest()?)?),
        )
        .such_as("einsum(\"ij,jk->ik\", x, y)"),
        Operation::new("qr_q", &PRODUCTS, r#"
The orthogonal factor of the QR decomposition of a matrix with at least as many rows as columns.

>>> qr_q(b) @ qr_r(b)
float64 (3, 2) [[1, 0], [2, 1], [0, 3]]
# numpy: b.astype("float64")
"#, [x()], |c| Ok(qr::qr(&c.array("x")?)?.0)),
        Operation::new("qr_r", &PRODUCTS, r#"
The upper triangular factor of the QR decomposition.

>>> abs(qr_r(b))
float64 (2, 2) [[2.23607, 0.894427], [0, 3.03315]]
# numpy: np.abs(np.linalg.qr(b).R)
"#, [x()], |c| Ok(qr::qr(&c.array("x")?)?.1)),
    ];
    operations.into_iter().map(|o| o.no_times(PRODUCT)).collect()
}
