//! The functions of the expression language as methods.
//!
//! This file is made from the table of operations by `CHUNKWISE_WRITE=1 cargo test -p chunkwise-ops --test methods`.

use super::{Expr, Term, pairs};
use chunkwise_types::DType;

impl Expr {
    /// The absolute value, or of complex numbers the magnitude, which is real. Of integers it has their dtype. Another name is `absolute`.
    ///
    /// As `abs(x)` of the expression language.
    pub fn abs(&self) -> Expr {
        Expr::call("abs", [self.into()], [])
    }

    /// The sum, `x + y`.
    ///
    /// As `add(x, y)` of the expression language.
    pub fn add(&self, y: impl Into<Term>) -> Expr {
        Expr::call("add", [self.into(), y.into()], [])
    }

    /// The difference, `x - y`. Not for bool.
    ///
    /// As `subtract(x, y)` of the expression language.
    pub fn subtract(&self, y: impl Into<Term>) -> Expr {
        Expr::call("subtract", [self.into(), y.into()], [])
    }

    /// The product, `x * y`.
    ///
    /// As `multiply(x, y)` of the expression language.
    pub fn multiply(&self, y: impl Into<Term>) -> Expr {
        Expr::call("multiply", [self.into(), y.into()], [])
    }

    /// The quotient, `x / y`; of integers it is float64. Division by zero gives an infinity or NaN. Another name is `true_divide`.
    ///
    /// As `divide(x, y)` of the expression language.
    pub fn divide(&self, y: impl Into<Term>) -> Expr {
        Expr::call("divide", [self.into(), y.into()], [])
    }

    /// The quotient rounded down, `x // y`. Of integers it is an integer, and division by zero gives 0.
    ///
    /// As `floor_divide(x, y)` of the expression language.
    pub fn floor_divide(&self, y: impl Into<Term>) -> Expr {
        Expr::call("floor_divide", [self.into(), y.into()], [])
    }

    /// What `floor_divide` leaves, `x % y`. It has the sign of the divisor. Another name is `mod`.
    ///
    /// As `remainder(x, y)` of the expression language.
    pub fn remainder(&self, y: impl Into<Term>) -> Expr {
        Expr::call("remainder", [self.into(), y.into()], [])
    }

    /// The power, `x ** y`. Of integers it is an integer, and a negative exponent is an error. Another name is `power`.
    ///
    /// As `pow(x, y)` of the expression language.
    pub fn pow(&self, y: impl Into<Term>) -> Expr {
        Expr::call("pow", [self.into(), y.into()], [])
    }

    /// The square, `x ** 2`.
    ///
    /// As `square(x)` of the expression language.
    pub fn square(&self) -> Expr {
        Expr::call("square", [self.into()], [])
    }

    /// One divided by `x`; of integers it is float64.
    ///
    /// As `reciprocal(x)` of the expression language.
    pub fn reciprocal(&self) -> Expr {
        Expr::call("reciprocal", [self.into()], [])
    }

    /// The number with the opposite sign, `-x`.
    ///
    /// As `negative(x)` of the expression language.
    pub fn negative(&self) -> Expr {
        Expr::call("negative", [self.into()], [])
    }

    /// The number as it is, `+x`.
    ///
    /// As `positive(x)` of the expression language.
    pub fn positive(&self) -> Expr {
        Expr::call("positive", [self.into()], [])
    }

    /// The square root. That of a negative real number is NaN; for a complex root write `sqrt(astype(x, "complex128"))`.
    ///
    /// As `sqrt(x)` of the expression language.
    pub fn sqrt(&self) -> Expr {
        Expr::call("sqrt", [self.into()], [])
    }

    /// The length of a vector with parts `x` and `y`, `sqrt(x**2 + y**2)`, without overflow between.
    ///
    /// As `hypot(x, y)` of the expression language.
    pub fn hypot(&self, y: impl Into<Term>) -> Expr {
        Expr::call("hypot", [self.into(), y.into()], [])
    }

    /// The exponential function, e to the power of `x`.
    ///
    /// As `exp(x)` of the expression language.
    pub fn exp(&self) -> Expr {
        Expr::call("exp", [self.into()], [])
    }

    /// `exp(x) - 1`, exact for small `x`.
    ///
    /// As `expm1(x)` of the expression language.
    pub fn expm1(&self) -> Expr {
        Expr::call("expm1", [self.into()], [])
    }

    /// The natural logarithm. That of 0 is -inf, that of a negative number NaN.
    ///
    /// As `log(x)` of the expression language.
    pub fn log(&self) -> Expr {
        Expr::call("log", [self.into()], [])
    }

    /// `log(1 + x)`, exact for small `x`.
    ///
    /// As `log1p(x)` of the expression language.
    pub fn log1p(&self) -> Expr {
        Expr::call("log1p", [self.into()], [])
    }

    /// The logarithm to the base 2.
    ///
    /// As `log2(x)` of the expression language.
    pub fn log2(&self) -> Expr {
        Expr::call("log2", [self.into()], [])
    }

    /// The logarithm to the base 10.
    ///
    /// As `log10(x)` of the expression language.
    pub fn log10(&self) -> Expr {
        Expr::call("log10", [self.into()], [])
    }

    /// `log(exp(x) + exp(y))`, without overflow between.
    ///
    /// As `logaddexp(x, y)` of the expression language.
    pub fn logaddexp(&self, y: impl Into<Term>) -> Expr {
        Expr::call("logaddexp", [self.into(), y.into()], [])
    }

    /// The sine.
    ///
    /// As `sin(x)` of the expression language.
    pub fn sin(&self) -> Expr {
        Expr::call("sin", [self.into()], [])
    }

    /// The cosine. The example weights by area: the cosine of the latitude.
    ///
    /// As `cos(x)` of the expression language.
    pub fn cos(&self) -> Expr {
        Expr::call("cos", [self.into()], [])
    }

    /// The tangent.
    ///
    /// As `tan(x)` of the expression language.
    pub fn tan(&self) -> Expr {
        Expr::call("tan", [self.into()], [])
    }

    /// The inverse of the sine, from -pi/2 to pi/2; NaN outside of -1 to 1. Another name is `arcsin`.
    ///
    /// As `asin(x)` of the expression language.
    pub fn asin(&self) -> Expr {
        Expr::call("asin", [self.into()], [])
    }

    /// The inverse of the cosine, from 0 to pi; NaN outside of -1 to 1. Another name is `arccos`.
    ///
    /// As `acos(x)` of the expression language.
    pub fn acos(&self) -> Expr {
        Expr::call("acos", [self.into()], [])
    }

    /// The inverse of the tangent, from -pi/2 to pi/2. Another name is `arctan`.
    ///
    /// As `atan(x)` of the expression language.
    pub fn atan(&self) -> Expr {
        Expr::call("atan", [self.into()], [])
    }

    /// The angle of the point with the coordinates `y` and `x`, from -pi to pi: the first argument is `y`. Another name is `arctan2`.
    ///
    /// As `atan2(x, y)` of the expression language.
    pub fn atan2(&self, y: impl Into<Term>) -> Expr {
        Expr::call("atan2", [self.into(), y.into()], [])
    }

    /// The hyperbolic sine.
    ///
    /// As `sinh(x)` of the expression language.
    pub fn sinh(&self) -> Expr {
        Expr::call("sinh", [self.into()], [])
    }

    /// The hyperbolic cosine.
    ///
    /// As `cosh(x)` of the expression language.
    pub fn cosh(&self) -> Expr {
        Expr::call("cosh", [self.into()], [])
    }

    /// The hyperbolic tangent.
    ///
    /// As `tanh(x)` of the expression language.
    pub fn tanh(&self) -> Expr {
        Expr::call("tanh", [self.into()], [])
    }

    /// The inverse of the hyperbolic sine. Another name is `arcsinh`.
    ///
    /// As `asinh(x)` of the expression language.
    pub fn asinh(&self) -> Expr {
        Expr::call("asinh", [self.into()], [])
    }

    /// The inverse of the hyperbolic cosine; NaN below 1. Another name is `arccosh`.
    ///
    /// As `acosh(x)` of the expression language.
    pub fn acosh(&self) -> Expr {
        Expr::call("acosh", [self.into()], [])
    }

    /// The inverse of the hyperbolic tangent; NaN outside of -1 to 1. Another name is `arctanh`.
    ///
    /// As `atanh(x)` of the expression language.
    pub fn atanh(&self) -> Expr {
        Expr::call("atanh", [self.into()], [])
    }

    /// The nearest integer, and of two the even one. The dtype stays. It takes no number of digits: write `round(x * 100) / 100`.
    ///
    /// As `round(x)` of the expression language.
    pub fn round(&self) -> Expr {
        Expr::call("round", [self.into()], [])
    }

    /// The greatest integer that is not above `x`. The dtype stays: of floats it is a float.
    ///
    /// As `floor(x)` of the expression language.
    pub fn floor(&self) -> Expr {
        Expr::call("floor", [self.into()], [])
    }

    /// The least integer that is not below `x`. The dtype stays.
    ///
    /// As `ceil(x)` of the expression language.
    pub fn ceil(&self) -> Expr {
        Expr::call("ceil", [self.into()], [])
    }

    /// `x` without its fraction. The dtype stays.
    ///
    /// As `trunc(x)` of the expression language.
    pub fn trunc(&self) -> Expr {
        Expr::call("trunc", [self.into()], [])
    }

    /// -1, 0 or 1 for negative, zero and positive numbers. For complex numbers it is the number divided by its magnitude.
    ///
    /// As `sign(x)` of the expression language.
    pub fn sign(&self) -> Expr {
        Expr::call("sign", [self.into()], [])
    }

    /// Whether the sign is negative, also that of -0.0.
    ///
    /// As `signbit(x)` of the expression language.
    pub fn signbit(&self) -> Expr {
        Expr::call("signbit", [self.into()], [])
    }

    /// The magnitude of `x` with the sign of `y`; of integers it is float64.
    ///
    /// As `copysign(x, y)` of the expression language.
    pub fn copysign(&self, y: impl Into<Term>) -> Expr {
        Expr::call("copysign", [self.into(), y.into()], [])
    }

    /// The next float after `x` in the direction of `y`.
    ///
    /// As `nextafter(x, y)` of the expression language.
    pub fn nextafter(&self, y: impl Into<Term>) -> Expr {
        Expr::call("nextafter", [self.into(), y.into()], [])
    }

    /// Whether two numbers are equal, `x == y`.
    ///
    /// As `equal(x, y)` of the expression language.
    pub fn equal(&self, y: impl Into<Term>) -> Expr {
        Expr::call("equal", [self.into(), y.into()], [])
    }

    /// Whether two numbers differ, `x != y`.
    ///
    /// As `not_equal(x, y)` of the expression language.
    pub fn not_equal(&self, y: impl Into<Term>) -> Expr {
        Expr::call("not_equal", [self.into(), y.into()], [])
    }

    /// Whether `x` is less than `y`, `x < y`.
    ///
    /// As `less(x, y)` of the expression language.
    pub fn less(&self, y: impl Into<Term>) -> Expr {
        Expr::call("less", [self.into(), y.into()], [])
    }

    /// `x <= y`.
    ///
    /// As `less_equal(x, y)` of the expression language.
    pub fn less_equal(&self, y: impl Into<Term>) -> Expr {
        Expr::call("less_equal", [self.into(), y.into()], [])
    }

    /// `x > y`.
    ///
    /// As `greater(x, y)` of the expression language.
    pub fn greater(&self, y: impl Into<Term>) -> Expr {
        Expr::call("greater", [self.into(), y.into()], [])
    }

    /// `x >= y`.
    ///
    /// As `greater_equal(x, y)` of the expression language.
    pub fn greater_equal(&self, y: impl Into<Term>) -> Expr {
        Expr::call("greater_equal", [self.into(), y.into()], [])
    }

    /// The greater of two numbers, element by element, or NaN if one is NaN. For the greatest element of one array see max.
    ///
    /// As `maximum(x, y)` of the expression language.
    pub fn maximum(&self, y: impl Into<Term>) -> Expr {
        Expr::call("maximum", [self.into(), y.into()], [])
    }

    /// The lesser of two numbers, element by element, or NaN if one is NaN. For the least element of one array see min.
    ///
    /// As `minimum(x, y)` of the expression language.
    pub fn minimum(&self, y: impl Into<Term>) -> Expr {
        Expr::call("minimum", [self.into(), y.into()], [])
    }

    /// `x`, but nowhere below `low` nor above `high`; either may be `None`. The bounds are numbers or arrays, and the dtype is that of `x`. NaN stays NaN.
    ///
    /// As `clip(x, low=None, high=None)` of the expression language. [`Expr::call`] takes `low=None`, `high=None` too.
    pub fn clip(&self) -> Expr {
        Expr::call("clip", [self.into()], [])
    }

    /// `x` where the condition is true, else `y`. The condition is an array of bool, or of numbers, of which all but 0 are true; `x` and `y` are arrays or
    /// numbers. `where(condition, x, nan)` is `x.where(condition)` of xarray: it makes missing values, which reductions then leave out.
    ///
    /// As `where(condition, x, y)` of the expression language.
    pub fn where_(&self, x: impl Into<Term>, y: impl Into<Term>) -> Expr {
        Expr::call("where", [self.into(), x.into(), y.into()], [])
    }

    /// Whether `|x - y| <= atol + rtol |y|`, or both are the same infinity. With `equal_nan` two NaN are close, too.
    ///
    /// As `isclose(x, y, rtol=1e-5, atol=1e-8, equal_nan=False)` of the expression language. [`Expr::call`] takes `rtol=1e-5`, `atol=1e-8`, `equal_nan=False` too.
    pub fn isclose(&self, y: impl Into<Term>) -> Expr {
        Expr::call("isclose", [self.into(), y.into()], [])
    }

    /// Whether an element is NaN, as missing values are. An integer never is.
    ///
    /// As `isnan(x)` of the expression language.
    pub fn isnan(&self) -> Expr {
        Expr::call("isnan", [self.into()], [])
    }

    /// Whether an element is infinite.
    ///
    /// As `isinf(x)` of the expression language.
    pub fn isinf(&self) -> Expr {
        Expr::call("isinf", [self.into()], [])
    }

    /// Whether an element is neither NaN nor infinite.
    ///
    /// As `isfinite(x)` of the expression language.
    pub fn isfinite(&self) -> Expr {
        Expr::call("isfinite", [self.into()], [])
    }

    /// Whether both are true.
    ///
    /// As `logical_and(x, y)` of the expression language.
    pub fn logical_and(&self, y: impl Into<Term>) -> Expr {
        Expr::call("logical_and", [self.into(), y.into()], [])
    }

    /// Whether at least one is true.
    ///
    /// As `logical_or(x, y)` of the expression language.
    pub fn logical_or(&self, y: impl Into<Term>) -> Expr {
        Expr::call("logical_or", [self.into(), y.into()], [])
    }

    /// Whether just one is true.
    ///
    /// As `logical_xor(x, y)` of the expression language.
    pub fn logical_xor(&self, y: impl Into<Term>) -> Expr {
        Expr::call("logical_xor", [self.into(), y.into()], [])
    }

    /// Whether it is false.
    ///
    /// As `logical_not(x)` of the expression language.
    pub fn logical_not(&self) -> Expr {
        Expr::call("logical_not", [self.into()], [])
    }

    /// The bits that both have, `x & y`. Of bool it is "and".
    ///
    /// As `bitwise_and(x, y)` of the expression language.
    pub fn bitwise_and(&self, y: impl Into<Term>) -> Expr {
        Expr::call("bitwise_and", [self.into(), y.into()], [])
    }

    /// The bits that one has, `x | y`. Of bool it is "or".
    ///
    /// As `bitwise_or(x, y)` of the expression language.
    pub fn bitwise_or(&self, y: impl Into<Term>) -> Expr {
        Expr::call("bitwise_or", [self.into(), y.into()], [])
    }

    /// The bits that just one has, `x ^ y`. Of bool it is "either, not both".
    ///
    /// As `bitwise_xor(x, y)` of the expression language.
    pub fn bitwise_xor(&self, y: impl Into<Term>) -> Expr {
        Expr::call("bitwise_xor", [self.into(), y.into()], [])
    }

    /// All bits inverted, `~x`. Of bool it is "not". Another name is `invert`.
    ///
    /// As `bitwise_invert(x)` of the expression language.
    pub fn bitwise_invert(&self) -> Expr {
        Expr::call("bitwise_invert", [self.into()], [])
    }

    /// The bits moved up by `y`, `x << y`: a multiplication by 2 to the power of `y`. Another name is `left_shift`.
    ///
    /// As `bitwise_left_shift(x, y)` of the expression language.
    pub fn bitwise_left_shift(&self, y: impl Into<Term>) -> Expr {
        Expr::call("bitwise_left_shift", [self.into(), y.into()], [])
    }

    /// The bits moved down by `y`, `x >> y`: a division by 2 to the power of `y`, rounded down. Another name is `right_shift`.
    ///
    /// As `bitwise_right_shift(x, y)` of the expression language.
    pub fn bitwise_right_shift(&self, y: impl Into<Term>) -> Expr {
        Expr::call("bitwise_right_shift", [self.into(), y.into()], [])
    }

    /// The real part. Of a real number it is that number.
    ///
    /// As `real(x)` of the expression language.
    pub fn real(&self) -> Expr {
        Expr::call("real", [self.into()], [])
    }

    /// The imaginary part. Of a complex128 array it is float64.
    ///
    /// As `imag(x)` of the expression language.
    pub fn imag(&self) -> Expr {
        Expr::call("imag", [self.into()], [])
    }

    /// The complex conjugate. Another name is `conjugate`.
    ///
    /// As `conj(x)` of the expression language.
    pub fn conj(&self) -> Expr {
        Expr::call("conj", [self.into()], [])
    }

    /// `x` with another dtype, which is given as text. Names, labels and attributes stay. Floats lose their fraction when they become integers, and NaN
    /// becomes 0; see numbers.md.
    ///
    /// As `astype(x, dtype)` of the expression language.
    pub fn astype(&self, dtype: DType) -> Expr {
        Expr::call("astype", [self.into(), dtype.into()], [])
    }

    /// The sum. Of integers and bool it is int64 or uint64, of floats their dtype. Where all is left out it is 0.
    ///
    /// As `sum(x, dim=None, keepdims=False, skipna=None)` of the expression language. [`Expr::call`] takes `keepdims=False`, `skipna=None` too.
    pub fn sum(&self, dim: &[&str]) -> Expr {
        Expr::call("sum", [self.into()], [("dim", self.dims(dim))])
    }

    /// The product, with the dtypes of `sum`. Where all is left out it is 1.
    ///
    /// As `prod(x, dim=None, keepdims=False, skipna=None)` of the expression language. [`Expr::call`] takes `keepdims=False`, `skipna=None` too.
    pub fn prod(&self, dim: &[&str]) -> Expr {
        Expr::call("prod", [self.into()], [("dim", self.dims(dim))])
    }

    /// The mean. Of integers and bool it is float64, of floats their dtype.
    ///
    /// As `mean(x, dim=None, keepdims=False, skipna=None)` of the expression language. [`Expr::call`] takes `keepdims=False`, `skipna=None` too.
    pub fn mean(&self, dim: &[&str]) -> Expr {
        Expr::call("mean", [self.into()], [("dim", self.dims(dim))])
    }

    /// The variance: the mean square of the distance from the mean. The sum of squares is divided by the number of elements minus `correction`.
    ///
    /// As `var(x, dim=None, correction=0, keepdims=False, skipna=None)` of the expression language. [`Expr::call`] takes `correction=0`, `keepdims=False`, `skipna=None` too.
    pub fn var(&self, dim: &[&str]) -> Expr {
        Expr::call("var", [self.into()], [("dim", self.dims(dim))])
    }

    /// The standard deviation, which is the root of `var`. It has the units of `x`.
    ///
    /// As `std(x, dim=None, correction=0, keepdims=False, skipna=None)` of the expression language. [`Expr::call`] takes `correction=0`, `keepdims=False`, `skipna=None` too.
    pub fn std(&self, dim: &[&str]) -> Expr {
        Expr::call("std", [self.into()], [("dim", self.dims(dim))])
    }

    /// The least element. Not for complex numbers. Without elements it is an error.
    ///
    /// As `min(x, dim=None, keepdims=False, skipna=None)` of the expression language. [`Expr::call`] takes `keepdims=False`, `skipna=None` too.
    pub fn min(&self, dim: &[&str]) -> Expr {
        Expr::call("min", [self.into()], [("dim", self.dims(dim))])
    }

    /// The greatest element. Not for complex numbers. Without elements it is an error.
    ///
    /// As `max(x, dim=None, keepdims=False, skipna=None)` of the expression language. [`Expr::call`] takes `keepdims=False`, `skipna=None` too.
    pub fn max(&self, dim: &[&str]) -> Expr {
        Expr::call("max", [self.into()], [("dim", self.dims(dim))])
    }

    /// Whether any element is true, that is, not 0. NaN is true.
    ///
    /// As `any(x, dim=None, keepdims=False)` of the expression language. [`Expr::call`] takes `keepdims=False` too.
    pub fn any(&self, dim: &[&str]) -> Expr {
        Expr::call("any", [self.into()], [("dim", self.dims(dim))])
    }

    /// Whether all elements are true, that is, not 0. NaN is true.
    ///
    /// As `all(x, dim=None, keepdims=False)` of the expression language. [`Expr::call`] takes `keepdims=False` too.
    pub fn all(&self, dim: &[&str]) -> Expr {
        Expr::call("all", [self.into()], [("dim", self.dims(dim))])
    }

    /// How many elements are not 0, or of conditions, how many are true: int64. To count values that are not missing write `count_nonzero(~isnan(x), dim=...)`.
    ///
    /// As `count_nonzero(x, dim=None, keepdims=False)` of the expression language. [`Expr::call`] takes `keepdims=False` too.
    pub fn count_nonzero(&self, dim: &[&str]) -> Expr {
        Expr::call("count_nonzero", [self.into()], [("dim", self.dims(dim))])
    }

    /// The position of the least element as int64, the first one if there are several. Without `dim` the position is that in the flattened array. NaN is left out
    /// as for other reductions; where there is nothing but NaN, the position is -1. (xarray raises an error there, which a run that has begun could not.) Where NaN is not left
    /// out, the first NaN is the position, as in NumPy.
    ///
    /// As `argmin(x, dim=None, keepdims=False, skipna=None)` of the expression language. [`Expr::call`] takes `keepdims=False`, `skipna=None` too.
    pub fn argmin(&self, dim: &[&str]) -> Expr {
        Expr::call("argmin", [self.into()], [("dim", self.dims(dim))])
    }

    /// The position of the greatest element; see `argmin`.
    ///
    /// As `argmax(x, dim=None, keepdims=False, skipna=None)` of the expression language. [`Expr::call`] takes `keepdims=False`, `skipna=None` too.
    pub fn argmax(&self, dim: &[&str]) -> Expr {
        Expr::call("argmax", [self.into()], [("dim", self.dims(dim))])
    }

    /// `argmin` without NaN: the same as `skipna=True`.
    ///
    /// As `nanargmin(x, dim=None, keepdims=False)` of the expression language. [`Expr::call`] takes `keepdims=False` too.
    pub fn nanargmin(&self, dim: &[&str]) -> Expr {
        Expr::call("nanargmin", [self.into()], [("dim", self.dims(dim))])
    }

    /// `argmax` without NaN: the same as `skipna=True`.
    ///
    /// As `nanargmax(x, dim=None, keepdims=False)` of the expression language. [`Expr::call`] takes `keepdims=False` too.
    pub fn nanargmax(&self, dim: &[&str]) -> Expr {
        Expr::call("nanargmax", [self.into()], [("dim", self.dims(dim))])
    }

    /// `sum` without NaN: the same as `skipna=True`.
    ///
    /// As `nansum(x, dim=None, keepdims=False)` of the expression language. [`Expr::call`] takes `keepdims=False` too.
    pub fn nansum(&self, dim: &[&str]) -> Expr {
        Expr::call("nansum", [self.into()], [("dim", self.dims(dim))])
    }

    /// `prod` without NaN.
    ///
    /// As `nanprod(x, dim=None, keepdims=False)` of the expression language. [`Expr::call`] takes `keepdims=False` too.
    pub fn nanprod(&self, dim: &[&str]) -> Expr {
        Expr::call("nanprod", [self.into()], [("dim", self.dims(dim))])
    }

    /// `mean` without NaN. Where all is NaN it is NaN.
    ///
    /// As `nanmean(x, dim=None, keepdims=False)` of the expression language. [`Expr::call`] takes `keepdims=False` too.
    pub fn nanmean(&self, dim: &[&str]) -> Expr {
        Expr::call("nanmean", [self.into()], [("dim", self.dims(dim))])
    }

    /// `var` without NaN.
    ///
    /// As `nanvar(x, dim=None, correction=0, keepdims=False)` of the expression language. [`Expr::call`] takes `correction=0`, `keepdims=False` too.
    pub fn nanvar(&self, dim: &[&str]) -> Expr {
        Expr::call("nanvar", [self.into()], [("dim", self.dims(dim))])
    }

    /// `std` without NaN.
    ///
    /// As `nanstd(x, dim=None, correction=0, keepdims=False)` of the expression language. [`Expr::call`] takes `correction=0`, `keepdims=False` too.
    pub fn nanstd(&self, dim: &[&str]) -> Expr {
        Expr::call("nanstd", [self.into()], [("dim", self.dims(dim))])
    }

    /// `min` without NaN. Where all is NaN it is NaN.
    ///
    /// As `nanmin(x, dim=None, keepdims=False)` of the expression language. [`Expr::call`] takes `keepdims=False` too.
    pub fn nanmin(&self, dim: &[&str]) -> Expr {
        Expr::call("nanmin", [self.into()], [("dim", self.dims(dim))])
    }

    /// `max` without NaN. Where all is NaN it is NaN.
    ///
    /// As `nanmax(x, dim=None, keepdims=False)` of the expression language. [`Expr::call`] takes `keepdims=False` too.
    pub fn nanmax(&self, dim: &[&str]) -> Expr {
        Expr::call("nanmax", [self.into()], [("dim", self.dims(dim))])
    }

    /// The mean of each group.
    ///
    /// As `groupby_mean(x, by, axis=0, skipna=True)` of the expression language. [`Expr::call`] takes `axis=0`, `skipna=True` too.
    pub fn groupby_mean(&self, by: impl Into<Term>) -> Expr {
        Expr::call("groupby_mean", [self.into(), by.into()], [])
    }

    /// The sum of each group; 0 where all is left out.
    ///
    /// As `groupby_sum(x, by, axis=0, skipna=True)` of the expression language. [`Expr::call`] takes `axis=0`, `skipna=True` too.
    pub fn groupby_sum(&self, by: impl Into<Term>) -> Expr {
        Expr::call("groupby_sum", [self.into(), by.into()], [])
    }

    /// The product of each group; 1 where all is left out.
    ///
    /// As `groupby_prod(x, by, axis=0, skipna=True)` of the expression language. [`Expr::call`] takes `axis=0`, `skipna=True` too.
    pub fn groupby_prod(&self, by: impl Into<Term>) -> Expr {
        Expr::call("groupby_prod", [self.into(), by.into()], [])
    }

    /// How many elements of each group are not NaN: int64.
    ///
    /// As `groupby_count(x, by, axis=0)` of the expression language. [`Expr::call`] takes `axis=0` too.
    pub fn groupby_count(&self, by: impl Into<Term>) -> Expr {
        Expr::call("groupby_count", [self.into(), by.into()], [])
    }

    /// The least element of each group.
    ///
    /// As `groupby_min(x, by, axis=0, skipna=True)` of the expression language. [`Expr::call`] takes `axis=0`, `skipna=True` too.
    pub fn groupby_min(&self, by: impl Into<Term>) -> Expr {
        Expr::call("groupby_min", [self.into(), by.into()], [])
    }

    /// The greatest element of each group.
    ///
    /// As `groupby_max(x, by, axis=0, skipna=True)` of the expression language. [`Expr::call`] takes `axis=0`, `skipna=True` too.
    pub fn groupby_max(&self, by: impl Into<Term>) -> Expr {
        Expr::call("groupby_max", [self.into(), by.into()], [])
    }

    /// The variance of each group; `correction` as for `var`.
    ///
    /// As `groupby_var(x, by, axis=0, correction=0, skipna=True)` of the expression language. [`Expr::call`] takes `axis=0`, `correction=0`, `skipna=True` too.
    pub fn groupby_var(&self, by: impl Into<Term>) -> Expr {
        Expr::call("groupby_var", [self.into(), by.into()], [])
    }

    /// The standard deviation of each group.
    ///
    /// As `groupby_std(x, by, axis=0, correction=0, skipna=True)` of the expression language. [`Expr::call`] takes `axis=0`, `correction=0`, `skipna=True` too.
    pub fn groupby_std(&self, by: impl Into<Term>) -> Expr {
        Expr::call("groupby_std", [self.into(), by.into()], [])
    }

    /// Whether any element of each group is true.
    ///
    /// As `groupby_any(x, by, axis=0)` of the expression language. [`Expr::call`] takes `axis=0` too.
    pub fn groupby_any(&self, by: impl Into<Term>) -> Expr {
        Expr::call("groupby_any", [self.into(), by.into()], [])
    }

    /// Whether all elements of each group are true.
    ///
    /// As `groupby_all(x, by, axis=0)` of the expression language. [`Expr::call`] takes `axis=0` too.
    pub fn groupby_all(&self, by: impl Into<Term>) -> Expr {
        Expr::call("groupby_all", [self.into(), by.into()], [])
    }

    /// The group of each time: the opposite of `groupby_mean`. With it anomalies are `t - lookup(climatology, "time.month")`. The times are those of the inputs,
    /// which must agree; if they do not, `like=x` names the array whose times are meant. The result has the dimension of the times and their coordinate. With a
    /// list of integers it takes these positions, as `take` does.
    ///
    /// As `lookup(x, by, axis=0, like=None)` of the expression language. [`Expr::call`] takes `axis=0`, `like=None` too.
    pub fn lookup(&self, by: impl Into<Term>) -> Expr {
        Expr::call("lookup", [self.into(), by.into()], [])
    }

    /// The mean of each period.
    ///
    /// As `resample_mean(x, time="1M", skipna=True)` of the expression language. [`Expr::call`] takes `skipna=True` too.
    pub fn resample_mean(&self, dim: &str, period: &str) -> Expr {
        Expr::call("resample_mean", [self.into()], [(dim, period.into())])
    }

    /// The sum of each period.
    ///
    /// As `resample_sum(x, time="1M", skipna=True)` of the expression language. [`Expr::call`] takes `skipna=True` too.
    pub fn resample_sum(&self, dim: &str, period: &str) -> Expr {
        Expr::call("resample_sum", [self.into()], [(dim, period.into())])
    }

    /// The product of each period.
    ///
    /// As `resample_prod(x, time="1M", skipna=True)` of the expression language. [`Expr::call`] takes `skipna=True` too.
    pub fn resample_prod(&self, dim: &str, period: &str) -> Expr {
        Expr::call("resample_prod", [self.into()], [(dim, period.into())])
    }

    /// How many elements of each period are not NaN: int64.
    ///
    /// As `resample_count(x, time="1M")` of the expression language.
    pub fn resample_count(&self, dim: &str, period: &str) -> Expr {
        Expr::call("resample_count", [self.into()], [(dim, period.into())])
    }

    /// The least element of each period.
    ///
    /// As `resample_min(x, time="1M", skipna=True)` of the expression language. [`Expr::call`] takes `skipna=True` too.
    pub fn resample_min(&self, dim: &str, period: &str) -> Expr {
        Expr::call("resample_min", [self.into()], [(dim, period.into())])
    }

    /// The greatest element of each period.
    ///
    /// As `resample_max(x, time="1M", skipna=True)` of the expression language. [`Expr::call`] takes `skipna=True` too.
    pub fn resample_max(&self, dim: &str, period: &str) -> Expr {
        Expr::call("resample_max", [self.into()], [(dim, period.into())])
    }

    /// The variance of each period; `correction` as for `var`.
    ///
    /// As `resample_var(x, time="1M", correction=0, skipna=True)` of the expression language. [`Expr::call`] takes `correction=0`, `skipna=True` too.
    pub fn resample_var(&self, dim: &str, period: &str) -> Expr {
        Expr::call("resample_var", [self.into()], [(dim, period.into())])
    }

    /// The standard deviation of each period.
    ///
    /// As `resample_std(x, time="1M", correction=0, skipna=True)` of the expression language. [`Expr::call`] takes `correction=0`, `skipna=True` too.
    pub fn resample_std(&self, dim: &str, period: &str) -> Expr {
        Expr::call("resample_std", [self.into()], [(dim, period.into())])
    }

    /// Whether any element of each period is true.
    ///
    /// As `resample_any(x, time="1M")` of the expression language.
    pub fn resample_any(&self, dim: &str, period: &str) -> Expr {
        Expr::call("resample_any", [self.into()], [(dim, period.into())])
    }

    /// Whether all elements of each period are true.
    ///
    /// As `resample_all(x, time="1M")` of the expression language.
    pub fn resample_all(&self, dim: &str, period: &str) -> Expr {
        Expr::call("resample_all", [self.into()], [(dim, period.into())])
    }

    /// The elements with these labels: one, a list, or a range whose both ends belong to it. A date may be given in part. `method="nearest"` takes the
    /// nearest label, at most `tolerance` away. A dimension of which one label was taken vanishes, and its label stays as a scalar coordinate.
    ///
    /// As `sel(x, time="2019-06", lat=10.0:20.0, method=None, tolerance=None)` of the expression language. [`Expr::call`] takes `method=None`, `tolerance=None` too.
    pub fn sel(&self, dimensions: &[(&str, Term)]) -> Expr {
        Expr::call("sel", [self.into()], dimensions.iter().cloned())
    }

    /// The elements at these indices of named dimensions: one, a list, or a slice whose end does not belong to it. Negative indices count from the end.
    ///
    /// As `isel(x, time=0, lat=2:8)` of the expression language.
    pub fn isel(&self, dimensions: &[(&str, Term)]) -> Expr {
        Expr::call("isel", [self.into()], dimensions.iter().cloned())
    }

    /// The elements at a list of indices along one dimension, in this order; an index may occur twice. It is `x[[2, 0]]` for any dimension.
    ///
    /// As `take(x, indices, axis=0)` of the expression language.
    pub fn take(&self, indices: &[i64], axis: &str) -> Expr {
        Expr::call("take", [self.into(), indices.into()], [("axis", self.dim(axis))])
    }

    /// The elements at positions that another array holds, such as those that `argmax` found. The positions have as many dimensions as `x`; the other ones
    /// are broadcast. The dimension may be longer than memory. A position that is out of bounds ends the run with an error.
    ///
    /// As `take_along_axis(x, indices, axis=-1)` of the expression language.
    pub fn take_along_axis(&self, indices: impl Into<Term>, axis: &str) -> Expr {
        Expr::call("take_along_axis", [self.into(), indices.into()], [("axis", self.dim(axis))])
    }

    /// The mean of the elements in a window of this length. Several dimensions may be named: `moving_mean(x, lat=3, lon=3)`.
    ///
    /// As `moving_mean(x, time=5, mode="none", value=0) or moving_mean(x, window, axis=None, mode="none", value=0)` of the expression language. [`Expr::call`] takes `window`, `axis=None`, `mode="none"`, `value=0` too.
    pub fn moving_mean(&self, dimensions: &[(&str, u64)]) -> Expr {
        Expr::call("moving_mean", [self.into()], dimensions.iter().map(|(dim, n)| (*dim, Term::from(*n))))
    }

    /// The sum of the elements in a window.
    ///
    /// As `moving_sum(x, time=5, mode="none", value=0) or moving_sum(x, window, axis=None, mode="none", value=0)` of the expression language. [`Expr::call`] takes `window`, `axis=None`, `mode="none"`, `value=0` too.
    pub fn moving_sum(&self, dimensions: &[(&str, u64)]) -> Expr {
        Expr::call("moving_sum", [self.into()], dimensions.iter().map(|(dim, n)| (*dim, Term::from(*n))))
    }

    /// The least element in a window.
    ///
    /// As `moving_min(x, time=5, mode="none", value=0) or moving_min(x, window, axis=None, mode="none", value=0)` of the expression language. [`Expr::call`] takes `window`, `axis=None`, `mode="none"`, `value=0` too.
    pub fn moving_min(&self, dimensions: &[(&str, u64)]) -> Expr {
        Expr::call("moving_min", [self.into()], dimensions.iter().map(|(dim, n)| (*dim, Term::from(*n))))
    }

    /// The greatest element in a window.
    ///
    /// As `moving_max(x, time=5, mode="none", value=0) or moving_max(x, window, axis=None, mode="none", value=0)` of the expression language. [`Expr::call`] takes `window`, `axis=None`, `mode="none"`, `value=0` too.
    pub fn moving_max(&self, dimensions: &[(&str, u64)]) -> Expr {
        Expr::call("moving_max", [self.into()], dimensions.iter().map(|(dim, n)| (*dim, Term::from(*n))))
    }

    /// The sum of the elements around each one, times weights: nested lists of numbers, one level for each dimension. Without `dim` there is a level for each
    /// dimension of `x`.
    ///
    /// As `stencil(x, weights, dim=None, mode="none", value=0)` of the expression language. [`Expr::call`] takes `mode="none"`, `value=0` too.
    pub fn stencil(&self, weights: impl Into<Term>, dim: &[&str]) -> Expr {
        Expr::call("stencil", [self.into(), weights.into()], [("dim", self.dims(dim))])
    }

    /// The convolution with weights. It is `stencil` with the weights in reverse order.
    ///
    /// As `convolve(x, weights, dim=None, mode="none", value=0)` of the expression language. [`Expr::call`] takes `mode="none"`, `value=0` too.
    pub fn convolve(&self, weights: impl Into<Term>, dim: &[&str]) -> Expr {
        Expr::call("convolve", [self.into(), weights.into()], [("dim", self.dims(dim))])
    }

    /// The difference of successive elements along one dimension, by default the last one, `n` times. The result is shorter by `n`, and has the labels of the
    /// later elements.
    ///
    /// As `diff(x, n=1, axis=-1)` of the expression language. [`Expr::call`] takes `n=1` too.
    pub fn diff(&self, axis: &str) -> Expr {
        Expr::call("diff", [self.into()], [("axis", self.dim(axis))])
    }

    /// The array with more elements before and after, a pair of lengths for each dimension. The modes are those of windows, without `"none"`; the default is
    /// `"constant"` with `value`. Dimensions that become longer lose their coordinates.
    ///
    /// As `pad(x, widths, mode="constant", value=0)` of the expression language. [`Expr::call`] takes `mode="constant"`, `value=0` too.
    pub fn pad(&self, widths: &[(u64, u64)]) -> Expr {
        Expr::call("pad", [self.into(), pairs(widths)], [])
    }

    /// The sums of the elements so far, in the dtype that `sum` has. `skipna` is as for `sum`. Another name is `cumsum`.
    ///
    /// As `cumulative_sum(x, axis=None, skipna=None)` of the expression language. [`Expr::call`] takes `skipna=None` too.
    pub fn cumulative_sum(&self, axis: &str) -> Expr {
        Expr::call("cumulative_sum", [self.into()], [("axis", self.dim(axis))])
    }

    /// The products of the elements so far. Another name is `cumprod`.
    ///
    /// As `cumulative_prod(x, axis=None, skipna=None)` of the expression language. [`Expr::call`] takes `skipna=None` too.
    pub fn cumulative_prod(&self, axis: &str) -> Expr {
        Expr::call("cumulative_prod", [self.into()], [("axis", self.dim(axis))])
    }

    /// The least of the elements so far. NaN stays NaN.
    ///
    /// As `cumulative_min(x, axis=None)` of the expression language.
    pub fn cumulative_min(&self, axis: &str) -> Expr {
        Expr::call("cumulative_min", [self.into()], [("axis", self.dim(axis))])
    }

    /// The greatest of the elements so far. NaN stays NaN.
    ///
    /// As `cumulative_max(x, axis=None)` of the expression language.
    pub fn cumulative_max(&self, axis: &str) -> Expr {
        Expr::call("cumulative_max", [self.into()], [("axis", self.dim(axis))])
    }

    /// NaN replaced by the last element before it that is not NaN. Integers stay as they are, and times are refused.
    ///
    /// As `ffill(x, axis=None)` of the expression language.
    pub fn ffill(&self, axis: &str) -> Expr {
        Expr::call("ffill", [self.into()], [("axis", self.dim(axis))])
    }

    /// NaN replaced by the next element after it that is not NaN.
    ///
    /// As `bfill(x, axis=None)` of the expression language.
    pub fn bfill(&self, axis: &str) -> Expr {
        Expr::call("bfill", [self.into()], [("axis", self.dim(axis))])
    }

    /// The array with its dimensions in another order; without a list they are reversed. Another name is `transpose`.
    ///
    /// As `permute_dims(x, axes=None)` of the expression language.
    pub fn permute_dims(&self, axes: &[&str]) -> Expr {
        Expr::call("permute_dims", [self.into()], [("axes", self.dims(axes))])
    }

    /// The elements in the same order in another shape; one length may be -1, which is computed. A dimension that stays what it is, of the same length and with as many
    /// elements before it, keeps its name and its labels. The others have none; an output may name them with `dims`.
    ///
    /// As `reshape(x, shape)` of the expression language.
    pub fn reshape(&self, shape: &[i64]) -> Expr {
        Expr::call("reshape", [self.into(), shape.into()], [])
    }

    /// The array with one more dimension, of length 1, at this position. `dim` is its name; without, it has none, and an output may give it one with `dims`. A scalar
    /// coordinate of this name becomes the labels of the dimension.
    ///
    /// As `expand_dims(x, axis=0, dim=None)` of the expression language. [`Expr::call`] takes `axis=0` too.
    pub fn expand_dims(&self, dim: &str) -> Expr {
        Expr::call("expand_dims", [self.into()], [("dim", dim.into())])
    }

    /// The array without dimensions of length 1: without `dim` all of them, else those that it names. Their labels stay as scalar coordinates.
    ///
    /// As `squeeze(x, dim=None)` of the expression language.
    pub fn squeeze(&self, dim: &[&str]) -> Expr {
        Expr::call("squeeze", [self.into()], [("dim", self.dims(dim))])
    }

    /// The array repeated along new dimensions before its own and along those of length 1, to this shape. New dimensions have no names.
    ///
    /// As `broadcast_to(x, shape)` of the expression language.
    pub fn broadcast_to(&self, shape: &[u64]) -> Expr {
        Expr::call("broadcast_to", [self.into(), shape.into()], [])
    }

    /// The array in reverse order along some dimensions, by default all of them. Labels are reversed with it.
    ///
    /// As `flip(x, dim=None)` of the expression language.
    pub fn flip(&self, dim: &[&str]) -> Expr {
        Expr::call("flip", [self.into()], [("dim", self.dims(dim))])
    }

    /// The elements moved by `shift` positions; those beyond the end come in at the beginning. Labels move with them. Without `axis` it is the first
    /// dimension.
    ///
    /// As `roll(x, shift, axis=0)` of the expression language.
    pub fn roll(&self, shift: &[i64], axis: &[&str]) -> Expr {
        Expr::call("roll", [self.into(), shift.into()], [("axis", self.dims(axis))])
    }

    /// The array in other chunks: a length for each dimension by name, -1 for the whole one. The values stay. An output that asks for no chunks gets these, also
    /// through element-wise operations. Outputs have a key `chunks`, which is mostly what is wanted. Nothing is stored on the way: where a copy saves work, the planner
    /// makes one by itself.
    ///
    /// As `rechunk(x, time=-1, lat=10)` of the expression language.
    pub fn rechunk(&self, dimensions: &[(&str, u64)]) -> Expr {
        Expr::call("rechunk", [self.into()], dimensions.iter().map(|(dim, n)| (*dim, Term::from(*n))))
    }

    /// The arrays one after another along one dimension. Their coordinates are joined as well, and along the other dimensions the labels must agree. Another
    /// name is `concatenate`.
    ///
    /// As `concat(arrays, axis=0)` of the expression language. [`Expr::call`] takes `axis=0` too.
    pub fn concat(arrays: &[Expr]) -> Expr {
        Expr::call("concat", [arrays.into()], [])
    }

    /// Arrays of one shape along a new dimension at position `axis`. `dim` is its name; without, it has none. Scalar coordinates of this name, one of each array,
    /// become its labels.
    ///
    /// As `stack(arrays, axis=0, dim=None)` of the expression language. [`Expr::call`] takes `axis=0` too.
    pub fn stack(arrays: &[Expr], dim: &str) -> Expr {
        Expr::call("stack", [arrays.into()], [("dim", dim.into())])
    }

    /// Each element several times in a row: as often as a number, or each as often as a list says. Without `axis` the array is flattened first.
    ///
    /// As `repeat(x, repeats, axis=None)` of the expression language.
    pub fn repeat(&self, repeats: &[u64], axis: &[&str]) -> Expr {
        Expr::call("repeat", [self.into(), repeats.into()], [("axis", self.dims(axis))])
    }

    /// The whole array several times in a row, a number for each dimension.
    ///
    /// As `tile(x, repetitions)` of the expression language.
    pub fn tile(&self, repetitions: &[u64]) -> Expr {
        Expr::call("tile", [self.into(), repetitions.into()], [])
    }

    /// The matrix product, `x @ y`, over the last dimension of `x` and the last but one of `y`. Dimensions before these are broadcast. Of integers it is an
    /// integer. Dimensions keep their names; where both remaining ones have the same, the second has none.
    ///
    /// As `matmul(x, y)` of the expression language.
    pub fn matmul(&self, y: impl Into<Term>) -> Expr {
        Expr::call("matmul", [self.into(), y.into()], [])
    }

    /// The sum of products along one dimension. Complex numbers of `x` are conjugated.
    ///
    /// As `vecdot(x, y, axis=-1)` of the expression language.
    pub fn vecdot(&self, y: impl Into<Term>, axis: &str) -> Expr {
        Expr::call("vecdot", [self.into(), y.into()], [("axis", self.dim(axis))])
    }

    /// All products of an element of one array with one of another, both of one dimension.
    ///
    /// As `outer(x, y)` of the expression language.
    pub fn outer(&self, y: impl Into<Term>) -> Expr {
        Expr::call("outer", [self.into(), y.into()], [])
    }

    /// The sum of products over several dimensions: the last ones of `x` and the first ones of `y`, as many as `axes` says; or two lists of dimensions.
    ///
    /// As `tensordot(x, y, axes=2)` of the expression language. [`Expr::call`] takes `axes=2` too.
    pub fn tensordot(&self, y: impl Into<Term>) -> Expr {
        Expr::call("tensordot", [self.into(), y.into()], [])
    }

    /// Sums of products after Einstein's convention: a letter for each dimension, and letters that are not in the result are summed over. Dimensions keep
    /// their names.
    ///
    /// As `einsum(subscripts, x, y, ...)` of the expression language.
    pub fn einsum(subscripts: &str, operands: &[Expr]) -> Expr {
        Expr::call("einsum", [subscripts.into()].into_iter().chain(operands.iter().map(Term::from)), [])
    }

    /// The orthogonal factor of the QR decomposition of a matrix with at least as many rows as columns.
    ///
    /// As `qr_q(x)` of the expression language.
    pub fn qr_q(&self) -> Expr {
        Expr::call("qr_q", [self.into()], [])
    }

    /// The upper triangular factor of the QR decomposition.
    ///
    /// As `qr_r(x)` of the expression language.
    pub fn qr_r(&self) -> Expr {
        Expr::call("qr_r", [self.into()], [])
    }

    /// Zeros in this shape.
    ///
    /// As `zeros(shape, dtype="float64", chunks=None)` of the expression language. [`Expr::call`] takes `dtype="float64"`, `chunks=None` too.
    pub fn zeros(shape: &[u64]) -> Expr {
        Expr::call("zeros", [shape.into()], [])
    }

    /// Ones in this shape.
    ///
    /// As `ones(shape, dtype="float64", chunks=None)` of the expression language. [`Expr::call`] takes `dtype="float64"`, `chunks=None` too.
    pub fn ones(shape: &[u64]) -> Expr {
        Expr::call("ones", [shape.into()], [])
    }

    /// One number in this shape. Its dtype is that of the number, int64, float64, bool or complex128, unless `dtype` is given.
    ///
    /// As `full(shape, value, dtype=None, chunks=None)` of the expression language. [`Expr::call`] takes `dtype=None`, `chunks=None` too.
    pub fn full(shape: &[u64], value: impl Into<Term>) -> Expr {
        Expr::call("full", [shape.into(), value.into()], [])
    }

    /// Numbers from `start` to `stop` in steps; `stop` does not belong to them. With one argument they begin at 0.
    ///
    /// As `arange(start, stop, step=1, dtype=None, chunks=None)` of the expression language. [`Expr::call`] takes `step=1`, `dtype=None`, `chunks=None` too.
    pub fn arange(start: impl Into<Term>, stop: impl Into<Term>) -> Expr {
        Expr::call("arange", [start.into(), stop.into()], [])
    }

    /// `num` numbers from `start` to `stop` with equal steps, without `stop` for `endpoint=False`.
    ///
    /// As `linspace(start, stop, num=50, endpoint=True, chunks=None)` of the expression language. [`Expr::call`] takes `num=50`, `endpoint=True`, `chunks=None` too.
    pub fn linspace(start: impl Into<Term>, stop: impl Into<Term>) -> Expr {
        Expr::call("linspace", [start.into(), stop.into()], [])
    }

    /// The matrix with ones on a diagonal: the main one, or the `k`-th above it. It has `n` rows and `m` columns, by default `n`.
    ///
    /// As `eye(n, m=None, k=0, dtype="float64", chunks=None)` of the expression language. [`Expr::call`] takes `m=None`, `k=0`, `dtype="float64"`, `chunks=None` too.
    pub fn eye(n: u64) -> Expr {
        Expr::call("eye", [n.into()], [])
    }

    /// Random numbers that depend on the seed and nothing else: not on chunks, budget or workers. `"uniform"` ones are from 0 to 1 (without 1), `"normal"`
    /// ones have mean 0 and variance 1.
    ///
    /// As `random(shape, seed=0, distribution="uniform", dtype="float64", chunks=None)` of the expression language. [`Expr::call`] takes `seed=0`, `distribution="uniform"`, `dtype="float64"`, `chunks=None` too.
    pub fn random(shape: &[u64]) -> Expr {
        Expr::call("random", [shape.into()], [])
    }
}
