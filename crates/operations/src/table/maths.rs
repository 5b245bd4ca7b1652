//! Element-wise functions of numbers: arithmetic, roots and logarithms, trigonometry, rounding.

use super::elementwise::element;
use super::{Attributes, Category, Operation, Times};
use chunkwise_kernels::ElementOp;

static ARITHMETIC: Category = Category { title: "Arithmetic", about: "Each of these has an operator, which is the usual way to write it." };
static ROOTS: Category = Category { title: "Roots, exponentials and logarithms", about: "" };
static TRIGONOMETRY: Category = Category {
    title: "Trigonometry",
    about: "Angles are in radians. `pi` is a number of the language, so `x * (pi / 180)` turns degrees into radians.",
};
static ROUNDING: Category = Category { title: "Rounding and signs", about: "" };

pub(super) fn operations() -> Vec<Operation> {
    vec![
        element(
            ElementOp::Abs,
            &ARITHMETIC,
            r#"
The absolute value, or of complex numbers the magnitude, which is real. Of integers it has their dtype. Another name is `absolute`.

>>> abs(v)
float64 (4) [1.5, 0.5, 0.5, 2.5]
# numpy: np.abs(v)
"#,
        )
        .aliases(&["absolute"])
        .quantity(Attributes::CommonUnits, Times::Refused),
        element(
            ElementOp::Add,
            &ARITHMETIC,
            r#"
The sum, `x + y`.

>>> add(i, j)
int64 (4) [10, 8, 6, 22]
# numpy: i + j
>>> t + t.lat
float64 (time: 6, lat: 2) [[30, 30], [32, 31], [31, 33], [35, 34], [34, 37], [36, 39]]
# xarray: t + t.lat
"#,
        )
        .quantity(Attributes::CommonUnits, Times::Refused),
        element(
            ElementOp::Subtract,
            &ARITHMETIC,
            r#"
The difference, `x - y`. Not for bool.

>>> subtract(i, j)
int64 (4) [2, -2, 4, 2]
# numpy: i - j
"#,
        )
        .quantity(Attributes::CommonDifference, Times::Alike),
        element(
            ElementOp::Multiply,
            &ARITHMETIC,
            r#"
The product, `x * y`.

>>> multiply(v, p)
float64 (4) [-0.75, -0.5, 1, 10]
# numpy: v * p
"#,
        ),
        element(
            ElementOp::Divide,
            &ARITHMETIC,
            r#"
The quotient, `x / y`; of integers it is float64. Division by zero gives an infinity or NaN. Another name is `true_divide`.

>>> divide(i, j)
float64 (4) [1.5, 0.6, 5, 1.2]
# numpy: i / j
"#,
        )
        .aliases(&["true_divide"]),
        element(
            ElementOp::FloorDivide,
            &ARITHMETIC,
            r#"
The quotient rounded down, `x // y`. Of integers it is an integer, and division by zero gives 0.

>>> floor_divide(v, 2)
float64 (4) [-1, -1, 0, 1]
# numpy: v // 2
"#,
        ),
        element(
            ElementOp::Remainder,
            &ARITHMETIC,
            r#"
What `floor_divide` leaves, `x % y`. It has the sign of the divisor. Another name is `mod`.

>>> remainder(v, 2)
float64 (4) [0.5, 1.5, 0.5, 0.5]
# numpy: v % 2
"#,
        )
        .aliases(&["mod"]),
        element(
            ElementOp::Pow,
            &ARITHMETIC,
            r#"
The power, `x ** y`. Of integers it is an integer, and a negative exponent is an error. Another name is `power`.

>>> pow(i, 2)
int64 (4) [36, 9, 25, 144]
# numpy: i ** 2
"#,
        )
        .aliases(&["power"]),
        element(
            ElementOp::Square,
            &ARITHMETIC,
            r#"
The square, `x ** 2`.

>>> square(v)
float64 (4) [2.25, 0.25, 0.25, 6.25]
# numpy: v ** 2
"#,
        ),
        element(
            ElementOp::Reciprocal,
            &ARITHMETIC,
            r#"
One divided by `x`; of integers it is float64.

>>> reciprocal(p)
float64 (4) [2, 1, 0.5, 0.25]
# numpy: 1 / p
"#,
        ),
        element(
            ElementOp::Negative,
            &ARITHMETIC,
            r#"
The number with the opposite sign, `-x`.

>>> negative(i)
int64 (4) [-6, -3, -5, -12]
# numpy: -i
"#,
        )
        .quantity(Attributes::CommonUnits, Times::Refused),
        element(
            ElementOp::Positive,
            &ARITHMETIC,
            r#"
The number as it is, `+x`.

>>> positive(i)
int64 (4) [6, 3, 5, 12]
# numpy: +i
"#,
        )
        .quantity(Attributes::All, Times::Ignored),
        element(
            ElementOp::Sqrt,
            &ROOTS,
            r#"
The square root. That of a negative real number is NaN; for a complex root write `sqrt(astype(x, "complex128"))`.

>>> sqrt(p)
float64 (4) [0.707107, 1, 1.41421, 2]
# numpy: np.sqrt(p)
"#,
        ),
        element(
            ElementOp::Hypot,
            &ROOTS,
            r#"
The length of a vector with parts `x` and `y`, `sqrt(x**2 + y**2)`, without overflow between.

>>> hypot(v, p)
float64 (4) [1.58114, 1.11803, 2.06155, 4.71699]
# numpy: np.hypot(v, p)
"#,
        ),
        element(
            ElementOp::Exp,
            &ROOTS,
            r#"
The exponential function, e to the power of `x`.

>>> exp(v)
float64 (4) [0.22313, 0.606531, 1.64872, 12.1825]
# numpy: np.exp(v)
"#,
        ),
        element(
            ElementOp::Expm1,
            &ROOTS,
            r#"
`exp(x) - 1`, exact for small `x`.

>>> expm1(v)
float64 (4) [-0.77687, -0.393469, 0.648721, 11.1825]
# numpy: np.expm1(v)
"#,
        ),
        element(
            ElementOp::Log,
            &ROOTS,
            r#"
The natural logarithm. That of 0 is -inf, that of a negative number NaN.

>>> log(p)
float64 (4) [-0.693147, 0, 0.693147, 1.38629]
# numpy: np.log(p)
"#,
        ),
        element(
            ElementOp::Log1p,
            &ROOTS,
            r#"
`log(1 + x)`, exact for small `x`.

>>> log1p(p)
float64 (4) [0.405465, 0.693147, 1.09861, 1.60944]
# numpy: np.log1p(p)
"#,
        ),
        element(
            ElementOp::Log2,
            &ROOTS,
            r#"
The logarithm to the base 2.

>>> log2(p)
float64 (4) [-1, 0, 1, 2]
# numpy: np.log2(p)
"#,
        ),
        element(
            ElementOp::Log10,
            &ROOTS,
            r#"
The logarithm to the base 10.

>>> log10(p)
float64 (4) [-0.30103, 0, 0.30103, 0.60206]
# numpy: np.log10(p)
"#,
        ),
        element(
            ElementOp::Logaddexp,
            &ROOTS,
            r#"
`log(exp(x) + exp(y))`, without overflow between.

>>> logaddexp(v, p)
float64 (4) [0.626928, 1.20141, 2.20141, 4.20141]
# numpy: np.logaddexp(v, p)
"#,
        ),
        element(
            ElementOp::Sin,
            &TRIGONOMETRY,
            r#"
The sine.

>>> sin(v)
float64 (4) [-0.997495, -0.479426, 0.479426, 0.598472]
# numpy: np.sin(v)
"#,
        ),
        element(
            ElementOp::Cos,
            &TRIGONOMETRY,
            r#"
The cosine. The example weights by area: the cosine of the latitude.

>>> cos(t.lat * (pi / 180))
float64 (lat: 2) [0.984808, 0.939693]
# xarray: np.cos(t.lat * (np.pi / 180))
"#,
        ),
        element(
            ElementOp::Tan,
            &TRIGONOMETRY,
            r#"
The tangent.

>>> tan(v)
float64 (4) [-14.1014, -0.546302, 0.546302, -0.747022]
# numpy: np.tan(v)
"#,
        ),
        element(
            ElementOp::Asin,
            &TRIGONOMETRY,
            r#"
The inverse of the sine, from -pi/2 to pi/2; NaN outside of -1 to 1. Another name is `arcsin`.

>>> asin(v / 3)
float64 (4) [-0.523599, -0.167448, 0.167448, 0.985111]
# numpy: np.asin(v / 3)
"#,
        )
        .aliases(&["arcsin"]),
        element(
            ElementOp::Acos,
            &TRIGONOMETRY,
            r#"
The inverse of the cosine, from 0 to pi; NaN outside of -1 to 1. Another name is `arccos`.

>>> acos(v / 3)
float64 (4) [2.0944, 1.73824, 1.40335, 0.585686]
# numpy: np.acos(v / 3)
"#,
        )
        .aliases(&["arccos"]),
        element(
            ElementOp::Atan,
            &TRIGONOMETRY,
            r#"
The inverse of the tangent, from -pi/2 to pi/2. Another name is `arctan`.

>>> atan(v)
float64 (4) [-0.982794, -0.463648, 0.463648, 1.19029]
# numpy: np.atan(v)
"#,
        )
        .aliases(&["arctan"]),
        element(
            ElementOp::Atan2,
            &TRIGONOMETRY,
            r#"
The angle of the point with the coordinates `y` and `x`, from -pi to pi: the first argument is `y`. Another name is `arctan2`.

>>> atan2(v, p)
float64 (4) [-1.24905, -0.463648, 0.244979, 0.558599]
# numpy: np.atan2(v, p)
"#,
        )
        .aliases(&["arctan2"]),
        element(
            ElementOp::Sinh,
            &TRIGONOMETRY,
            r#"
The hyperbolic sine.

>>> sinh(v)
float64 (4) [-2.12928, -0.521095, 0.521095, 6.0502]
# numpy: np.sinh(v)
"#,
        ),
        element(
            ElementOp::Cosh,
            &TRIGONOMETRY,
            r#"
The hyperbolic cosine.

>>> cosh(v)
float64 (4) [2.35241, 1.12763, 1.12763, 6.13229]
# numpy: np.cosh(v)
"#,
        ),
        element(
            ElementOp::Tanh,
            &TRIGONOMETRY,
            r#"
The hyperbolic tangent.

>>> tanh(v)
float64 (4) [-0.905148, -0.462117, 0.462117, 0.986614]
# numpy: np.tanh(v)
"#,
        ),
        element(
            ElementOp::Asinh,
            &TRIGONOMETRY,
            r#"
The inverse of the hyperbolic sine. Another name is `arcsinh`.

>>> asinh(v)
float64 (4) [-1.19476, -0.481212, 0.481212, 1.64723]
# numpy: np.asinh(v)
"#,
        )
        .aliases(&["arcsinh"]),
        element(
            ElementOp::Acosh,
            &TRIGONOMETRY,
            r#"
The inverse of the hyperbolic cosine; NaN below 1. Another name is `arccosh`.

>>> acosh(p)
float64 (4) [nan, 0, 1.31696, 2.06344]
# numpy: np.acosh(p)
"#,
        )
        .aliases(&["arccosh"]),
        element(
            ElementOp::Atanh,
            &TRIGONOMETRY,
            r#"
The inverse of the hyperbolic tangent; NaN outside of -1 to 1. Another name is `arctanh`.

>>> atanh(v / 3)
float64 (4) [-0.549306, -0.168236, 0.168236, 1.19895]
# numpy: np.atanh(v / 3)
"#,
        )
        .aliases(&["arctanh"]),
        element(
            ElementOp::Round,
            &ROUNDING,
            r#"
The nearest integer, and of two the even one. The dtype stays. It takes no number of digits: write `round(x * 100) / 100`.

>>> round(v)
float64 (4) [-2, 0, 0, 2]
# numpy: np.round(v)
"#,
        )
        .quantity(Attributes::CommonUnits, Times::Refused),
        element(
            ElementOp::Floor,
            &ROUNDING,
            r#"
The greatest integer that is not above `x`. The dtype stays: of floats it is a float.

>>> floor(v)
float64 (4) [-2, -1, 0, 2]
# numpy: np.floor(v)
"#,
        )
        .quantity(Attributes::CommonUnits, Times::Refused),
        element(
            ElementOp::Ceil,
            &ROUNDING,
            r#"
The least integer that is not below `x`. The dtype stays.

>>> ceil(v)
float64 (4) [-1, 0, 1, 3]
# numpy: np.ceil(v)
"#,
        )
        .quantity(Attributes::CommonUnits, Times::Refused),
        element(
            ElementOp::Trunc,
            &ROUNDING,
            r#"
`x` without its fraction. The dtype stays.

>>> trunc(v)
float64 (4) [-1, 0, 0, 2]
# numpy: np.trunc(v)
"#,
        )
        .quantity(Attributes::CommonUnits, Times::Refused),
        element(
            ElementOp::Sign,
            &ROUNDING,
            r#"
-1, 0 or 1 for negative, zero and positive numbers. For complex numbers it is the number divided by its magnitude.

>>> sign(v)
float64 (4) [-1, -1, 1, 1]
# numpy: np.sign(v)
"#,
        ),
        element(
            ElementOp::Signbit,
            &ROUNDING,
            r#"
Whether the sign is negative, also that of -0.0.

>>> signbit(v)
bool (4) [True, True, False, False]
# numpy: np.signbit(v)
"#,
        ),
        element(
            ElementOp::Copysign,
            &ROUNDING,
            r#"
The magnitude of `x` with the sign of `y`; of integers it is float64.

>>> copysign(p, v)
float64 (4) [-0.5, -1, 2, 4]
# numpy: np.copysign(p, v)
"#,
        ),
        element(
            ElementOp::Nextafter,
            &ROUNDING,
            r#"
The next float after `x` in the direction of `y`.

>>> nextafter(p, inf) > p
bool (4) [True, True, True, True]
# numpy: np.nextafter(p, np.inf) > p
"#,
        ),
    ]
}
