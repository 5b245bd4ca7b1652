"""Made from the table of operations by CHUNKWISE_WRITE=1 pytest tests/python/test_generated.py."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from . import fft as fft
from ._api import (
    __array_namespace_info__ as __array_namespace_info__,
    asarray as asarray,
    astype as astype,
    broadcast_arrays as broadcast_arrays,
    broadcast_shapes as broadcast_shapes,
    can_cast as can_cast,
    concat as concat,
    e as e,
    empty as empty,
    empty_like as empty_like,
    expand_dims as expand_dims,
    full as full,
    full_like as full_like,
    inf as inf,
    isdtype as isdtype,
    matrix_transpose as matrix_transpose,
    meshgrid as meshgrid,
    moveaxis as moveaxis,
    nan as nan,
    nanprod as nanprod,
    nansum as nansum,
    newaxis as newaxis,
    ones as ones,
    ones_like as ones_like,
    pad as pad,
    pi as pi,
    reshape as reshape,
    result_type as result_type,
    size as size,
    squeeze as squeeze,
    stack as stack,
    sum as sum,
    transpose as transpose,
    unstack as unstack,
    zeros as zeros,
    zeros_like as zeros_like,
    prod_ as prod,
)
from ._array import Array as Array
from ._cumulative import (
    cumprod as cumprod,
    cumreduction as cumreduction,
    cumsum as cumsum,
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
)
from ._errors import ComputeError as ComputeError, MemoryLimitError as MemoryLimitError
from ._functions import (
    apply_gufunc as apply_gufunc,
    blockwise as blockwise,
    map_blocks as map_blocks,
    map_overlap as map_overlap,
    reduction as reduction,
)
from ._gradient import gradient as gradient
from ._groups import groupby_reduction as groupby_reduction
from ._inputs import from_array as from_array, from_zarr as from_zarr, normalize_chunks as normalize_chunks, open as open
from ._composed import (
    append as append,
    apply_along_axis as apply_along_axis,
    apply_over_axes as apply_over_axes,
    array_split as array_split,
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    average as average,
    bincount as bincount,
    block as block,
    coarsen as coarsen,
    column_stack as column_stack,
    compress as compress,
    corrcoef as corrcoef,
    correlate as correlate,
    cov as cov,
    delete as delete,
    diag as diag,
    diagflat as diagflat,
    diagonal as diagonal,
    dsplit as dsplit,
    dstack as dstack,
    ediff1d as ediff1d,
    fliplr as fliplr,
    flipud as flipud,
    histogram as histogram,
    histogram2d as histogram2d,
    histogram_bin_edges as histogram_bin_edges,
    hsplit as hsplit,
    hstack as hstack,
    insert as insert,
    ptp as ptp,
    ravel as ravel,
    rollaxis as rollaxis,
    rot90 as rot90,
    split as split,
    swapaxes as swapaxes,
    trace as trace,
    trapezoid as trapezoid,
    vsplit as vsplit,
    vstack as vstack,
)
from ._creation import (
    array as array,
    asanyarray as asanyarray,
    fromfunction as fromfunction,
    indices as indices,
    tri as tri,
)
from ._elements import (
    angle as angle,
    choose as choose,
    cross as cross,
    digitize as digitize,
    fix as fix,
    heaviside as heaviside,
    i0 as i0,
    interp as interp,
    iscomplex as iscomplex,
    iscomplexobj as iscomplexobj,
    isneginf as isneginf,
    isnull as isnull,
    isposinf as isposinf,
    isreal as isreal,
    isrealobj as isrealobj,
    nan_to_num as nan_to_num,
    piecewise as piecewise,
    polyval as polyval,
    ravel_multi_index as ravel_multi_index,
    searchsorted as searchsorted,
    select as select,
    sinc as sinc,
    unravel_index as unravel_index,
)
from ._products import (
    dot as dot,
    inner as inner,
    kron as kron,
    vdot as vdot,
)
from numpy import (
    allclose as allclose,
    argpartition as argpartition,
    around as around,
    array_equal as array_equal,
    bitwise_not as bitwise_not,
    cbrt as cbrt,
    deg2rad as deg2rad,
    degrees as degrees,
    divmod as divmod,
    exp2 as exp2,
    fabs as fabs,
    float_power as float_power,
    fmax as fmax,
    fmin as fmin,
    fmod as fmod,
    frexp as frexp,
    gcd as gcd,
    lcm as lcm,
    ldexp as ldexp,
    logaddexp2 as logaddexp2,
    modf as modf,
    nancumprod as nancumprod,
    nancumsum as nancumsum,
    nanmedian as nanmedian,
    nanpercentile as nanpercentile,
    nanquantile as nanquantile,
    ndim as ndim,
    partition as partition,
    percentile as percentile,
    rad2deg as rad2deg,
    radians as radians,
    rint as rint,
    shape as shape,
    spacing as spacing,
)
from ._plans import visualize as visualize
from ._progress import ProgressBar as ProgressBar
from ._rows import argsort as argsort, argtopk as argtopk, median as median, quantile as quantile, sort as sort, topk as topk
from ._run import compute as compute, persist as persist, plan as plan, store as store, to_zarr as to_zarr
from ._spec import Spec as Spec, config as config, raise_if_computes as raise_if_computes, watch as watch
from ._standard import (
    arange as arange,
    clip as clip,
    diff as diff,
    eye as eye,
    finfo as finfo,
    from_dlpack as from_dlpack,
    iinfo as iinfo,
    isin as isin,
    linspace as linspace,
    repeat as repeat,
    roll as roll,
    take as take,
    take_along_axis as take_along_axis,
    tile as tile,
    tril as tril,
    triu as triu,
)
from ._random import Random
from ._windows import lib as lib

random: Random

_Bool: TypeAlias = Literal[True, False]
_Number: TypeAlias = _Bool | int | float | complex | np.generic
_Operand: TypeAlias = Array | np.ndarray[Any, Any] | _Number | str
_Axis: TypeAlias = int | str
_DType: TypeAlias = np.dtype[Any] | type | str

__version__: str
__array_api_version__: str
__all__: list[str]
bool_: np.dtype[Any]
bool: np.dtype[Any]
int8: np.dtype[Any]
int16: np.dtype[Any]
int32: np.dtype[Any]
int64: np.dtype[Any]
uint8: np.dtype[Any]
uint16: np.dtype[Any]
uint32: np.dtype[Any]
uint64: np.dtype[Any]
float32: np.dtype[Any]
float64: np.dtype[Any]
complex64: np.dtype[Any]
complex128: np.dtype[Any]

def abs(x: _Operand) -> Array:
    """The absolute value, or of complex numbers the magnitude, which is real. Of integers it has their dtype. Another name is `absolute`."""

def absolute(x: _Operand) -> Array:
    """The absolute value, or of complex numbers the magnitude, which is real. Of integers it has their dtype. Another name is `absolute`."""

def add(x: _Operand, y: _Operand) -> Array:
    """The sum, `x + y`."""

def subtract(x: _Operand, y: _Operand) -> Array:
    """The difference, `x - y`. Not for bool."""

def multiply(x: _Operand, y: _Operand) -> Array:
    """The product, `x * y`."""

def divide(x: _Operand, y: _Operand) -> Array:
    """The quotient, `x / y`; of integers it is float64. Division by zero gives an infinity or NaN. Another name is `true_divide`."""

def true_divide(x: _Operand, y: _Operand) -> Array:
    """The quotient, `x / y`; of integers it is float64. Division by zero gives an infinity or NaN. Another name is `true_divide`."""

def floor_divide(x: _Operand, y: _Operand) -> Array:
    """The quotient rounded down, `x // y`. Of integers it is an integer, and division by zero gives 0."""

def remainder(x: _Operand, y: _Operand) -> Array:
    """What `floor_divide` leaves, `x % y`. It has the sign of the divisor. Another name is `mod`."""

def mod(x: _Operand, y: _Operand) -> Array:
    """What `floor_divide` leaves, `x % y`. It has the sign of the divisor. Another name is `mod`."""

def pow(x: _Operand, y: _Operand) -> Array:
    """The power, `x ** y`. Of integers it is an integer, and a negative exponent is an error. Another name is `power`."""

def power(x: _Operand, y: _Operand) -> Array:
    """The power, `x ** y`. Of integers it is an integer, and a negative exponent is an error. Another name is `power`."""

def square(x: _Operand) -> Array:
    """The square, `x ** 2`."""

def reciprocal(x: _Operand) -> Array:
    """One divided by `x`; of integers it is float64."""

def negative(x: _Operand) -> Array:
    """The number with the opposite sign, `-x`."""

def positive(x: _Operand) -> Array:
    """The number as it is, `+x`."""

def sqrt(x: _Operand) -> Array:
    """The square root. That of a negative real number is NaN; for a complex root write `sqrt(astype(x, "complex128"))`."""

def hypot(x: _Operand, y: _Operand) -> Array:
    """The length of a vector with parts `x` and `y`, `sqrt(x**2 + y**2)`, without overflow between."""

def exp(x: _Operand) -> Array:
    """The exponential function, e to the power of `x`."""

def expm1(x: _Operand) -> Array:
    """`exp(x) - 1`, exact for small `x`."""

def log(x: _Operand) -> Array:
    """The natural logarithm. That of 0 is -inf, that of a negative number NaN."""

def log1p(x: _Operand) -> Array:
    """`log(1 + x)`, exact for small `x`."""

def log2(x: _Operand) -> Array:
    """The logarithm to the base 2."""

def log10(x: _Operand) -> Array:
    """The logarithm to the base 10."""

def logaddexp(x: _Operand, y: _Operand) -> Array:
    """`log(exp(x) + exp(y))`, without overflow between."""

def sin(x: _Operand) -> Array:
    """The sine."""

def cos(x: _Operand) -> Array:
    """The cosine. The example weights by area: the cosine of the latitude."""

def tan(x: _Operand) -> Array:
    """The tangent."""

def asin(x: _Operand) -> Array:
    """The inverse of the sine, from -pi/2 to pi/2; NaN outside of -1 to 1. Another name is `arcsin`."""

def arcsin(x: _Operand) -> Array:
    """The inverse of the sine, from -pi/2 to pi/2; NaN outside of -1 to 1. Another name is `arcsin`."""

def acos(x: _Operand) -> Array:
    """The inverse of the cosine, from 0 to pi; NaN outside of -1 to 1. Another name is `arccos`."""

def arccos(x: _Operand) -> Array:
    """The inverse of the cosine, from 0 to pi; NaN outside of -1 to 1. Another name is `arccos`."""

def atan(x: _Operand) -> Array:
    """The inverse of the tangent, from -pi/2 to pi/2. Another name is `arctan`."""

def arctan(x: _Operand) -> Array:
    """The inverse of the tangent, from -pi/2 to pi/2. Another name is `arctan`."""

def atan2(x: _Operand, y: _Operand) -> Array:
    """The angle of the point with the coordinates `y` and `x`, from -pi to pi: the first argument is `y`. Another name is `arctan2`."""

def arctan2(x: _Operand, y: _Operand) -> Array:
    """The angle of the point with the coordinates `y` and `x`, from -pi to pi: the first argument is `y`. Another name is `arctan2`."""

def sinh(x: _Operand) -> Array:
    """The hyperbolic sine."""

def cosh(x: _Operand) -> Array:
    """The hyperbolic cosine."""

def tanh(x: _Operand) -> Array:
    """The hyperbolic tangent."""

def asinh(x: _Operand) -> Array:
    """The inverse of the hyperbolic sine. Another name is `arcsinh`."""

def arcsinh(x: _Operand) -> Array:
    """The inverse of the hyperbolic sine. Another name is `arcsinh`."""

def acosh(x: _Operand) -> Array:
    """The inverse of the hyperbolic cosine; NaN below 1. Another name is `arccosh`."""

def arccosh(x: _Operand) -> Array:
    """The inverse of the hyperbolic cosine; NaN below 1. Another name is `arccosh`."""

def atanh(x: _Operand) -> Array:
    """The inverse of the hyperbolic tangent; NaN outside of -1 to 1. Another name is `arctanh`."""

def arctanh(x: _Operand) -> Array:
    """The inverse of the hyperbolic tangent; NaN outside of -1 to 1. Another name is `arctanh`."""

def round(x: _Operand) -> Array:
    """The nearest integer, and of two the even one. The dtype stays. It takes no number of digits: write `round(x * 100) / 100`."""

def floor(x: _Operand) -> Array:
    """The greatest integer that is not above `x`. The dtype stays: of floats it is a float."""

def ceil(x: _Operand) -> Array:
    """The least integer that is not below `x`. The dtype stays."""

def trunc(x: _Operand) -> Array:
    """`x` without its fraction. The dtype stays."""

def sign(x: _Operand) -> Array:
    """-1, 0 or 1 for negative, zero and positive numbers. For complex numbers it is the number divided by its magnitude."""

def signbit(x: _Operand) -> Array:
    """Whether the sign is negative, also that of -0.0."""

def copysign(x: _Operand, y: _Operand) -> Array:
    """The magnitude of `x` with the sign of `y`; of integers it is float64."""

def nextafter(x: _Operand, y: _Operand) -> Array:
    """The next float after `x` in the direction of `y`."""

def equal(x: _Operand, y: _Operand) -> Array:
    """Whether two numbers are equal, `x == y`."""

def not_equal(x: _Operand, y: _Operand) -> Array:
    """Whether two numbers differ, `x != y`."""

def less(x: _Operand, y: _Operand) -> Array:
    """Whether `x` is less than `y`, `x < y`."""

def less_equal(x: _Operand, y: _Operand) -> Array:
    """`x <= y`."""

def greater(x: _Operand, y: _Operand) -> Array:
    """`x > y`."""

def greater_equal(x: _Operand, y: _Operand) -> Array:
    """`x >= y`."""

def maximum(x: _Operand, y: _Operand) -> Array:
    """The greater of two numbers, element by element, or NaN if one is NaN. For the greatest element of one array see max."""

def minimum(x: _Operand, y: _Operand) -> Array:
    """The lesser of two numbers, element by element, or NaN if one is NaN. For the least element of one array see min."""

def where(condition: _Operand, x: _Operand, y: _Operand) -> Array:
    """`x` where the condition is true, else `y`. The condition is an array of bool, or of numbers, of which all but 0 are true; `x` and `y` are arrays or numbers. `where(condition, x, nan)` is `x.where(condition)` of xarray: it makes missing values, which reductions then leave out."""

def isclose(x: _Operand, y: _Operand, rtol: _Number = 1e-05, atol: _Number = 1e-08, equal_nan: _Bool = False) -> Array:
    """Whether `|x - y| <= atol + rtol |y|`, or both are the same infinity. With `equal_nan` two NaN are close, too."""

def isnan(x: _Operand) -> Array:
    """Whether an element is NaN, as missing values are. An integer never is."""

def isinf(x: _Operand) -> Array:
    """Whether an element is infinite."""

def isfinite(x: _Operand) -> Array:
    """Whether an element is neither NaN nor infinite."""

def logical_and(x: _Operand, y: _Operand) -> Array:
    """Whether both are true."""

def logical_or(x: _Operand, y: _Operand) -> Array:
    """Whether at least one is true."""

def logical_xor(x: _Operand, y: _Operand) -> Array:
    """Whether just one is true."""

def logical_not(x: _Operand) -> Array:
    """Whether it is false."""

def bitwise_and(x: _Operand, y: _Operand) -> Array:
    """The bits that both have, `x & y`. Of bool it is "and"."""

def bitwise_or(x: _Operand, y: _Operand) -> Array:
    """The bits that one has, `x | y`. Of bool it is "or"."""

def bitwise_xor(x: _Operand, y: _Operand) -> Array:
    """The bits that just one has, `x ^ y`. Of bool it is "either, not both"."""

def bitwise_invert(x: _Operand) -> Array:
    """All bits inverted, `~x`. Of bool it is "not". Another name is `invert`."""

def invert(x: _Operand) -> Array:
    """All bits inverted, `~x`. Of bool it is "not". Another name is `invert`."""

def bitwise_left_shift(x: _Operand, y: _Operand) -> Array:
    """The bits moved up by `y`, `x << y`: a multiplication by 2 to the power of `y`. Another name is `left_shift`."""

def left_shift(x: _Operand, y: _Operand) -> Array:
    """The bits moved up by `y`, `x << y`: a multiplication by 2 to the power of `y`. Another name is `left_shift`."""

def bitwise_right_shift(x: _Operand, y: _Operand) -> Array:
    """The bits moved down by `y`, `x >> y`: a division by 2 to the power of `y`, rounded down. Another name is `right_shift`."""

def right_shift(x: _Operand, y: _Operand) -> Array:
    """The bits moved down by `y`, `x >> y`: a division by 2 to the power of `y`, rounded down. Another name is `right_shift`."""

def real(x: _Operand) -> Array:
    """The real part. Of a real number it is that number."""

def imag(x: _Operand) -> Array:
    """The imaginary part. Of a complex128 array it is float64."""

def conj(x: _Operand) -> Array:
    """The complex conjugate. Another name is `conjugate`."""

def conjugate(x: _Operand) -> Array:
    """The complex conjugate. Another name is `conjugate`."""

def mean(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, skipna: _Bool | None = None, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """The mean. Of integers and bool it is float64, of floats their dtype."""

def var(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, correction: float = 0, keepdims: _Bool = False, skipna: _Bool | None = None, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """The variance: the mean square of the distance from the mean. The sum of squares is divided by the number of elements minus `correction`."""

def std(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, correction: float = 0, keepdims: _Bool = False, skipna: _Bool | None = None, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """The standard deviation, which is the root of `var`. It has the units of `x`."""

def min(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, skipna: _Bool | None = None, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """The least element. Not for complex numbers. Without elements it is an error."""

def max(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, skipna: _Bool | None = None, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """The greatest element. Not for complex numbers. Without elements it is an error."""

def any(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """Whether any element is true, that is, not 0. NaN is true."""

def all(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """Whether all elements are true, that is, not 0. NaN is true."""

def count_nonzero(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """How many elements are not 0, or of conditions, how many are true: int64. To count values that are not missing write `count_nonzero(~isnan(x), dim=...)`."""

def argmin(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, skipna: _Bool | None = None, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """The position of the least element as int64, the first one if there are several. Without `dim` the position is that in the flattened array. NaN is left out as for other reductions; where there is nothing but NaN, the position is -1. (xarray raises an error there, which a run that has begun could not.) Where NaN is not left out, the first NaN is the position, as in NumPy."""

def argmax(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, skipna: _Bool | None = None, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """The position of the greatest element; see `argmin`."""

def nanargmin(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """`argmin` without NaN: the same as `skipna=True`."""

def nanargmax(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """`argmax` without NaN: the same as `skipna=True`."""

def nanmean(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """`mean` without NaN. Where all is NaN it is NaN."""

def nanvar(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, correction: float = 0, keepdims: _Bool = False, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """`var` without NaN."""

def nanstd(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, correction: float = 0, keepdims: _Bool = False, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """`std` without NaN."""

def nanmin(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """`min` without NaN. Where all is NaN it is NaN."""

def nanmax(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, keepdims: _Bool = False, *, dim: _Axis | Sequence[_Axis] | None = None, dtype: _DType | None = None) -> Array:
    """`max` without NaN. Where all is NaN it is NaN."""

def groupby_mean(x: _Operand, by: str | Sequence[int], axis: _Axis = 0, skipna: _Bool = True) -> Array:
    """The mean of each group."""

def groupby_sum(x: _Operand, by: str | Sequence[int], axis: _Axis = 0, skipna: _Bool = True) -> Array:
    """The sum of each group; 0 where all is left out."""

def groupby_prod(x: _Operand, by: str | Sequence[int], axis: _Axis = 0, skipna: _Bool = True) -> Array:
    """The product of each group; 1 where all is left out."""

def groupby_count(x: _Operand, by: str | Sequence[int], axis: _Axis = 0) -> Array:
    """How many elements of each group are not NaN: int64."""

def groupby_min(x: _Operand, by: str | Sequence[int], axis: _Axis = 0, skipna: _Bool = True) -> Array:
    """The least element of each group."""

def groupby_max(x: _Operand, by: str | Sequence[int], axis: _Axis = 0, skipna: _Bool = True) -> Array:
    """The greatest element of each group."""

def groupby_var(x: _Operand, by: str | Sequence[int], axis: _Axis = 0, correction: float = 0, skipna: _Bool = True) -> Array:
    """The variance of each group; `correction` as for `var`."""

def groupby_std(x: _Operand, by: str | Sequence[int], axis: _Axis = 0, correction: float = 0, skipna: _Bool = True) -> Array:
    """The standard deviation of each group."""

def groupby_any(x: _Operand, by: str | Sequence[int], axis: _Axis = 0) -> Array:
    """Whether any element of each group is true."""

def groupby_all(x: _Operand, by: str | Sequence[int], axis: _Axis = 0) -> Array:
    """Whether all elements of each group are true."""

def lookup(x: _Operand, by: str | Sequence[int], axis: _Axis = 0, like: _Operand | None = None) -> Array:
    """The group of each time: the opposite of `groupby_mean`. With it anomalies are `t - lookup(climatology, "time.month")`. The times are those of the inputs, which must agree; if they do not, `like=x` names the array whose times are meant. The result has the dimension of the times and their coordinate. With a list of integers it takes these positions, as `take` does."""

def resample_mean(x: _Operand, *, skipna: _Bool = True, **dimensions: Any) -> Array:
    """The mean of each period."""

def resample_sum(x: _Operand, *, skipna: _Bool = True, **dimensions: Any) -> Array:
    """The sum of each period."""

def resample_prod(x: _Operand, *, skipna: _Bool = True, **dimensions: Any) -> Array:
    """The product of each period."""

def resample_count(x: _Operand, **dimensions: Any) -> Array:
    """How many elements of each period are not NaN: int64."""

def resample_min(x: _Operand, *, skipna: _Bool = True, **dimensions: Any) -> Array:
    """The least element of each period."""

def resample_max(x: _Operand, *, skipna: _Bool = True, **dimensions: Any) -> Array:
    """The greatest element of each period."""

def resample_var(x: _Operand, *, correction: float = 0, skipna: _Bool = True, **dimensions: Any) -> Array:
    """The variance of each period; `correction` as for `var`."""

def resample_std(x: _Operand, *, correction: float = 0, skipna: _Bool = True, **dimensions: Any) -> Array:
    """The standard deviation of each period."""

def resample_any(x: _Operand, **dimensions: Any) -> Array:
    """Whether any element of each period is true."""

def resample_all(x: _Operand, **dimensions: Any) -> Array:
    """Whether all elements of each period are true."""

def sel(x: _Operand, *, method: str | None = None, tolerance: _Number | None = None, **dimensions: Any) -> Array:
    """The elements with these labels: one, a list, or a range whose both ends belong to it. A date may be given in part. `method="nearest"` takes the nearest label, at most `tolerance` away. A dimension of which one label was taken vanishes, and its label stays as a scalar coordinate."""

def isel(x: _Operand, **dimensions: Any) -> Array:
    """The elements at these indices of named dimensions: one, a list, or a slice whose end does not belong to it. Negative indices count from the end."""

def moving_mean(x: _Operand, mode: str = 'none', value: _Number = 0, *, dim: _Axis | Sequence[_Axis] | None = None, **dimensions: Any) -> Array:
    """The mean of the elements in a window of this length. Several dimensions may be named: `moving_mean(x, lat=3, lon=3)`."""

def moving_sum(x: _Operand, mode: str = 'none', value: _Number = 0, *, dim: _Axis | Sequence[_Axis] | None = None, **dimensions: Any) -> Array:
    """The sum of the elements in a window."""

def moving_min(x: _Operand, mode: str = 'none', value: _Number = 0, *, dim: _Axis | Sequence[_Axis] | None = None, **dimensions: Any) -> Array:
    """The least element in a window."""

def moving_max(x: _Operand, mode: str = 'none', value: _Number = 0, *, dim: _Axis | Sequence[_Axis] | None = None, **dimensions: Any) -> Array:
    """The greatest element in a window."""

def stencil(x: _Operand, weights: Sequence[Any], axis: _Axis | Sequence[_Axis] | None = None, mode: str = 'none', value: _Number = 0, *, dim: _Axis | Sequence[_Axis] | None = None) -> Array:
    """The sum of the elements around each one, times weights: nested lists of numbers, one level for each dimension. Without `dim` there is a level for each dimension of `x`."""

def convolve(x: _Operand, weights: Sequence[Any], axis: _Axis | Sequence[_Axis] | None = None, mode: str = 'none', value: _Number = 0, *, dim: _Axis | Sequence[_Axis] | None = None) -> Array:
    """The convolution with weights. It is `stencil` with the weights in reverse order."""

def cumulative_min(x: _Operand, axis: _Axis | None = None) -> Array:
    """The least of the elements so far. NaN stays NaN."""

def cumulative_max(x: _Operand, axis: _Axis | None = None) -> Array:
    """The greatest of the elements so far. NaN stays NaN."""

def ffill(x: _Operand, axis: _Axis | None = None) -> Array:
    """NaN replaced by the last element before it that is not NaN. Integers stay as they are, and times are refused."""

def bfill(x: _Operand, axis: _Axis | None = None) -> Array:
    """NaN replaced by the next element after it that is not NaN."""

def permute_dims(x: _Operand, axes: Sequence[_Axis] | None = None) -> Array:
    """The array with its dimensions in another order; without a list they are reversed. Another name is `transpose`."""

def broadcast_to(x: _Operand, shape: int | Sequence[int]) -> Array:
    """The array repeated along new dimensions before its own and along those of length 1, to this shape. New dimensions have no names."""

def flip(x: _Operand, axis: _Axis | Sequence[_Axis] | None = None, *, dim: _Axis | Sequence[_Axis] | None = None) -> Array:
    """The array in reverse order along some dimensions, by default all of them. Labels are reversed with it."""

def rechunk(x: _Operand, **dimensions: Any) -> Array:
    """The array in other chunks: a length for each dimension by name, -1 for the whole one. The values stay. An output that asks for no chunks gets these, also through element-wise operations. Outputs have a key `chunks`, which is mostly what is wanted. Nothing is stored on the way: where a copy saves work, the planner makes one by itself."""

def matmul(x: _Operand, y: _Operand) -> Array:
    """The matrix product, `x @ y`, over the last dimension of `x` and the last but one of `y`. Dimensions before these are broadcast. Of integers it is an integer. Dimensions keep their names; where both remaining ones have the same, the second has none."""

def vecdot(x: _Operand, y: _Operand, axis: _Axis = -1) -> Array:
    """The sum of products along one dimension. Complex numbers of `x` are conjugated."""

def outer(x: _Operand, y: _Operand) -> Array:
    """All products of an element of one array with one of another, both of one dimension."""

def tensordot(x: _Operand, y: _Operand, axes: int | Sequence[Sequence[int]] = 2) -> Array:
    """The sum of products over several dimensions: the last ones of `x` and the first ones of `y`, as many as `axes` says; or two lists of dimensions."""

def einsum(subscripts: str, *operands: _Operand) -> Array:
    """Sums of products after Einstein's convention: a letter for each dimension, and letters that are not in the result are summed over. Dimensions keep their names."""

def qr_q(x: _Operand) -> Array:
    """The orthogonal factor of the QR decomposition of a matrix with at least as many rows as columns."""

def qr_r(x: _Operand) -> Array:
    """The upper triangular factor of the QR decomposition."""

concatenate = concat
