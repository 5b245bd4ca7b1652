//! Element-wise functions of truth: comparisons, choices, logic and bits, and those of parts and dtypes.

use super::elementwise::{apply, element};
use super::parameter::{Default, Parameter, x};
use super::{Attributes, Category, Kind, Operation, Times};
use crate::Value;
use crate::elementwise::{astype, clip, isclose};
use crate::value::fail;
use chunkwise_kernels::ElementOp;

static CHOICE: Category = Category {
    title: "Comparison and choice",
    about: r#"
Comparisons give bool. Times may be compared with dates: `t.time >= "2020-02-01"`. Any comparison with NaN is false, but `!=`, which is true.
"#,
};
static LOGIC: Category = Category {
    title: "Logic and bits",
    about: r#"
For conditions write `&`, `|`, `^` and `~` with the comparisons in parentheses: `(v > 0) & (v < 2)`. The functions with `logical` take numbers too:
all but 0 are true.
"#,
};
static PARTS: Category = Category { title: "Complex numbers and dtypes", about: "" };

/// `isclose(x, y)`.
fn close() -> Operation {
    let operand = |name| Parameter::new(name, Kind::Operand);
    let tolerance = |name, value| Parameter::or(name, Kind::Number, Default::Float(value));
    let equal_nan = Parameter::or("equal_nan", Kind::Flag, Default::Flag(false));
    let parameters = [operand("x"), operand("y"), tolerance("rtol", 1e-5), tolerance("atol", 1e-8), equal_nan];
    Operation::new(
        "isclose",
        &CHOICE,
        r#"
Whether `|x - y| <= atol + rtol |y|`, or both are the same infinity. With `equal_nan` two NaN are close, too.

>>> isclose(v, v + 1e-9)
bool (4) [True, True, True, True]
# numpy: np.isclose(v, v + 1e-9)
>>> isclose(w, w)
bool (4) [True, False, True, True]
# numpy: np.isclose(w, w)
>>> all(isclose(w, w + 0.1, atol=0.2, equal_nan=True))
bool () True
# numpy: np.allclose(w, w + 0.1, atol=0.2, equal_nan=True)
"#,
        parameters,
        |c| {
            let given = |name| c.operand(name)?.map_or_else(|| fail(format!("isclose() needs {name}")), Ok);
            let number = |name| Ok::<f64, crate::CallError>(c.number(name)?.map_or(0.0, |s| s.as_f64()));
            Ok(isclose(&given("x")?, &given("y")?, number("rtol")?, number("atol")?, c.flag("equal_nan")?)?)
        },
    )
    .no_times("a tolerance without a unit")
}

/// `where(condition, x, y)`.
fn choice() -> Operation {
    let parameters = [Parameter::new("condition", Kind::Other), Parameter::new("x", Kind::Operand), Parameter::new("y", Kind::Operand)];
    let op = ElementOp::Where;
    Operation {
        element: Some(op),
        attributes: Attributes::Common,
        times: Times::AlikeOrNone,
        ..Operation::new(
            op.name(),
            &CHOICE,
            r#"
`x` where the condition is true, else `y`. The condition is an array of bool, or of numbers, of which all but 0 are true; `x` and `y` are arrays or
numbers. `where(condition, x, nan)` is `x.where(condition)` of xarray: it makes missing values, which reductions then leave out.

>>> where(t > 20, t, nan)
float64 (time: 6, lat: 2) [[nan, nan], [22, nan], [21, nan], [25, nan], [24, nan], [26, nan]]
# xarray: t.where(t > 20)
>>> mean(where(v > 0, v, nan))
float64 () 1.5
# numpy: v[v > 0].mean()
>>> where(v < 0, 0, v)
float64 (4) [0, 0, 0.5, 2.5]
# numpy: np.where(v < 0, 0, v)
"#,
            parameters,
            move |c| {
                let out = apply(op, c)?;
                // A user who writes NaN into a choice means that there is nothing.
                let nothing = |v: &Value| matches!(v, Value::Scalar(s) if s.as_f64().is_nan());
                Ok(if c.of_kind(Kind::Operand).any(nothing) { out.with_missing() } else { out })
            },
        )
    }
}

pub(super) fn operations() -> Vec<Operation> {
    let alike = |op, text| element(op, &CHOICE, text).quantity(Attributes::None, Times::Alike);
    let asked = |op, text| element(op, &CHOICE, text).quantity(Attributes::None, Times::Ignored);
    let one_of = |op, text| element(op, &CHOICE, text).quantity(Attributes::Common, Times::Alike);
    let bound = |name| Parameter::or(name, Kind::Other, Default::None);
    let dtype = Parameter::new("dtype", Kind::DType).missing("astype() needs a dtype such as \"float32\"");
    vec![
        alike(ElementOp::Equal, r#"
Whether two numbers are equal, `x == y`.

>>> equal(i, 5)
bool (4) [False, False, True, False]
# numpy: i == 5
"#),
        alike(ElementOp::NotEqual, r#"
Whether two numbers differ, `x != y`.

>>> not_equal(i, 5)
bool (4) [True, True, False, True]
# numpy: i != 5
"#),
        alike(ElementOp::Less, r#"
Whether `x` is less than `y`, `x < y`.

>>> less(i, j)
bool (4) [False, True, False, False]
# numpy: i < j
"#),
        alike(ElementOp::LessEqual, r#"
`x <= y`.

>>> less_equal(i, j)
bool (4) [False, True, False, False]
# numpy: i <= j
"#),
        alike(ElementOp::Greater, r#"
`x > y`.

>>> greater(t.time, "2020-02-15")
bool (time: 6) [False, False, False, True, True, True]
# xarray: t.time > np.datetime64("2020-02-15")
"#),
        alike(ElementOp::GreaterEqual, r#"
`x >= y`.

>>> greater_equal(i, j)
bool (4) [True, False, True, True]
# numpy: i >= j
"#),
        one_of(ElementOp::Maximum, r#"
The greater of two numbers, element by element, or NaN if one is NaN. For the greatest element of one array see [max](#max).

>>> maximum(v, 0)
float64 (4) [0, 0, 0.5, 2.5]
# numpy: np.maximum(v, 0)
"#),
        one_of(ElementOp::Minimum, r#"
The lesser of two numbers, element by element, or NaN if one is NaN. For the least element of one array see [min](#min).

>>> minimum(i, j)
int64 (4) [4, 3, 1, 10]
# numpy: np.minimum(i, j)
"#),
        Operation::new("clip", &CHOICE, r#"
`x`, but nowhere below `low` nor above `high`; either may be `None`. The bounds are numbers or arrays, and the dtype is that of `x`. NaN stays NaN.

>>> clip(v, -1, 1)
float64 (4) [-1, -0.5, 0.5, 1]
# numpy: np.clip(v, -1, 1)
>>> clip(i, None, 5)
int64 (4) [5, 3, 5, 5]
# numpy: np.clip(i, None, 5)
"#, [x(), bound("low"), bound("high")], |c| {
            Ok(clip(&c.array("x")?, c.operand("low")?, c.operand("high")?)?)
        })
        .attributes(Attributes::Quantity),
        choice(),
        close(),
        asked(ElementOp::Isnan, r#"
Whether an element is NaN, as missing values are. An integer never is.

>>> isnan(m)
bool (time: 6) [False, True, False, False, True, True]
# xarray: m.isnull()
"#),
        asked(ElementOp::Isinf, r#"
Whether an element is infinite.

>>> isinf(w)
bool (4) [False, False, False, True]
# numpy: np.isinf(w)
"#),
        asked(ElementOp::Isfinite, r#"
Whether an element is neither NaN nor infinite.

>>> isfinite(w)
bool (4) [True, False, True, False]
# numpy: np.isfinite(w)
"#),
        element(ElementOp::LogicalAnd, &LOGIC, r#"
Whether both are true.

>>> logical_and(yes, no)
bool (4) [True, False, False, False]
# numpy: np.logical_and(yes, no)
"#),
        element(ElementOp::LogicalOr, &LOGIC, r#"
Whether at least one is true.

>>> logical_or(yes, no)
bool (4) [True, True, True, False]
# numpy: np.logical_or(yes, no)
"#),
        element(ElementOp::LogicalXor, &LOGIC, r#"
Whether just one is true.

>>> logical_xor(yes, no)
bool (4) [False, True, True, False]
# numpy: np.logical_xor(yes, no)
"#),
        element(ElementOp::LogicalNot, &LOGIC, r#"
Whether it is false.

>>> logical_not(v)
bool (4) [False, False, False, False]
# numpy: np.logical_not(v)
"#),
        element(ElementOp::BitwiseAnd, &LOGIC, r#"
The bits that both have, `x & y`. Of bool it is "and".

>>> bitwise_and(i, 3)
int64 (4) [2, 3, 1, 0]
# numpy: i & 3
"#),
        element(ElementOp::BitwiseOr, &LOGIC, r#"
The bits that one has, `x | y`. Of bool it is "or".

>>> bitwise_or(i, 3)
int64 (4) [7, 3, 7, 15]
# numpy: i | 3
"#),
        element(ElementOp::BitwiseXor, &LOGIC, r#"
The bits that just one has, `x ^ y`. Of bool it is "either, not both".

>>> bitwise_xor(i, 3)
int64 (4) [5, 0, 6, 15]
# numpy: i ^ 3
"#),
        element(ElementOp::BitwiseInvert, &LOGIC, r#"
All bits inverted, `~x`. Of bool it is "not". Another name is `invert`.

>>> bitwise_invert(i)
int64 (4) [-7, -4, -6, -13]
# numpy: ~i
>>> ~wet
bool (time: 6) [False, True, False, False, True, True]
# xarray: ~wet
"#).aliases(&["invert"]),
        element(ElementOp::BitwiseLeftShift, &LOGIC, r#"
The bits moved up by `y`, `x << y`: a multiplication by 2 to the power of `y`. Another name is `left_shift`.

>>> bitwise_left_shift(i, 2)
int64 (4) [24, 12, 20, 48]
# numpy: i << 2
"#).aliases(&["left_shift"]),
        element(ElementOp::BitwiseRightShift, &LOGIC, r#"
The bits moved down by `y`, `x >> y`: a division by 2 to the power of `y`, rounded down. Another name is `right_shift`.

>>> bitwise_right_shift(i, 1)
int64 (4) [3, 1, 2, 6]
# numpy: i >> 1
"#).aliases(&["right_shift"]),
        element(ElementOp::Real, &PARTS, r#"
The real part. Of a real number it is that number.

>>> real(z)
float64 (2) [3, 1]
# numpy: z.real
"#),
        element(ElementOp::Imag, &PARTS, r#"
The imaginary part. Of a complex128 array it is float64.

>>> imag(z)
float64 (2) [4, -1]
# numpy: z.imag
"#),
        element(ElementOp::Conj, &PARTS, r#"
The complex conjugate. Another name is `conjugate`.

>>> conj(z)
complex128 (2) [3-4j, 1+1j]
# numpy: z.conj()
"#).aliases(&["conjugate"]),
        Operation::new("astype", &PARTS, r#"
`x` with another dtype, which is given as text. Names, labels and attributes stay. Floats lose their fraction when they become integers, and NaN
becomes 0; see [numbers.md](numbers.md#overflow).

>>> astype(v, "int32")
int32 (4) [-1, 0, 0, 2]
# numpy: v.astype("int32")
"#, [x(), dtype], |c| {
            let x = c.array("x")?;
            let Some(dtype) = c.dtype()? else { return fail("astype() needs a dtype such as \"float32\"") };
            Ok(astype(&x, dtype)?)
        })
        .such_as("astype(x, \"float32\")")
        .attributes(Attributes::Quantity),
    ]
}
