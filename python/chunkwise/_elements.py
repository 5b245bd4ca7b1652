"""NumPy's functions of single elements that are several operations of the engine, and ufuncs that it lacks."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import pi, prod
from typing import Any

import numpy as np

from ._array import Array
from ._composed import lazy, numpy_function
from ._functions import apply_gufunc, map_blocks
from ._inputs import unmasked
from ._namespace import call

#: More bins are looked up by NumPy, in processes.
FEW_BINS = 32


def _operand(x: Any) -> Any:
    """A number of Python, which takes the dtype of the array that it meets, or an array."""
    return x if isinstance(x, (Array, bool, int, float, complex)) else np.asarray(unmasked(x))


def by_numpy(function: Callable[..., Any], inputs: Any, outputs: int = 1, **kwargs: Any) -> Any:
    """What a function of elements makes of arrays that are broadcast. It runs in processes, as functions of users do."""
    arrays = [_operand(x) for x in inputs]
    signature = ",".join(["()"] * len(arrays)) + "->" + ",".join(["()"] * outputs)
    return apply_gufunc(function, signature, *arrays, **kwargs)


@numpy_function
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    found = lazy(x)
    if found.dtype.kind == "c":
        raise NotImplementedError("nan_to_num() of complex numbers: take their parts with real() and imag()")
    if found.dtype.kind != "f":
        return found
    most = np.finfo(found.dtype)
    found = call("where", call("isnan", found), float(nan), found)
    for infinite, value in ((np.inf, most.max if posinf is None else posinf), (-np.inf, most.min if neginf is None else neginf)):
        found = call("where", call("equal", found, infinite), float(value), found)
    return found


@numpy_function
def heaviside(x1: Any, x2: Any) -> Array:
    x1 = lazy(x1)
    x1 = x1.astype(np.result_type(x1.dtype, x2.dtype if hasattr(x2, "dtype") else float(x2), *([] if x1.dtype.kind == "f" else [np.float64])))
    one: Array = call("where", call("less", x1, 0), 0.0, call("where", call("equal", x1, 0), x2, 1.0))
    return call("where", call("isnan", x1), float("nan"), one).astype(x1.dtype)


@numpy_function
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Array:
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError("list of cases must be same length as list of conditions")
    found = default
    dtype = np.result_type(*(x if isinstance(x, (int, float, complex)) else x.dtype for x in map(_known, [*choicelist, default])))
    for condition, choice in list(zip(condlist, choicelist))[::-1]:
        found = call("where", condition, _known(choice), _known(found))
    return lazy(found).astype(dtype)


def _known(x: Any) -> Any:
    return x if isinstance(x, (Array, bool, int, float, complex)) else lazy(x)


@numpy_function
def digitize(x: Array, bins: Any, right: bool = False) -> Array:
    bins = np.asarray(bins)
    steps = np.diff(bins)
    if bins.ndim != 1 or not ((steps >= 0).all() or (steps <= 0).all()):
        raise ValueError("bins must be monotonically increasing or decreasing")
    if len(bins) > FEW_BINS or x.dtype.kind in "fc":
        # NumPy knows where NaN goes.
        return map_blocks(np.digitize, x, bins=bins, right=right, dtype=np.int64)
    rising = len(bins) < 2 or (steps >= 0).all()
    name = {(True, False): "greater_equal", (True, True): "greater", (False, False): "less", (False, True): "less_equal"}[bool(rising), right]
    found = call("zeros", list(x.shape), dtype="int64")
    for edge in bins.tolist():
        found = call("add", found, call(name, x, edge).astype(np.int64))
    return found


@numpy_function
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Array:
    """The sorted array is computed, and so is ``sorter``: all of it is needed everywhere. As :func:`numpy.searchsorted`."""
    a, sorter = (x.compute() if isinstance(x, Array) else x for x in (a, sorter))
    return map_blocks(lambda block: np.asarray(np.searchsorted(a, block, side=side, sorter=sorter)), lazy(v), dtype=np.int64)


@numpy_function
def interp(x: Array, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Array:
    points = [np.asarray(p) for p in (xp, fp)]
    return map_blocks(np.interp, x, *points, left=left, right=right, period=period, dtype=np.result_type(points[1], np.float64))


@numpy_function
def unravel_index(indices: Array, shape: Any, order: str = "C") -> tuple[Array, ...]:
    lengths = [operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    steps = [prod(lengths[k + 1 :]) for k in range(len(lengths))] if order == "C" else [prod(lengths[:k]) for k in range(len(lengths))]
    return tuple(call("remainder", call("floor_divide", indices, s), n) if s > 1 else call("remainder", indices, n) for s, n in zip(steps, lengths))


@numpy_function
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    import chunkwise

    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    x, y = chunkwise.moveaxis(lazy(a), axisa, -1), chunkwise.moveaxis(lazy(b), axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ValueError("incompatible vector dimensions for cross product\n(dimension must be 3)")

    def part(i: int, k: int) -> Array:
        return call("subtract", call("multiply", x[..., i], y[..., k]), call("multiply", x[..., k], y[..., i]))

    return chunkwise.moveaxis(chunkwise.stack([part(1, 2), part(2, 0), part(0, 1)], axis=-1), -1, axisc)


# Ufuncs.


def _radians(x: Any) -> Any:
    return call("multiply", _floating(x), pi / 180)


def _degrees(x: Any) -> Any:
    return call("multiply", _floating(x), 180 / pi)


def _floating(x: Any) -> Array:
    found = lazy(x)
    return found if found.dtype.kind in "fc" else found.astype(np.float64)


def _reciprocal(x: Any) -> Array:
    """That of whole numbers is whole."""
    x = lazy(x)
    if x.dtype.kind in "fc":
        return call("reciprocal", x)
    x = x.astype(np.reciprocal(np.ones(1, x.dtype)).dtype)
    ones = call("equal", call("abs", x) if x.dtype.kind == "i" else x, 1)
    found: Array = call("where", ones, x, 0)
    return found.astype(x.dtype)


def _without_nan(name: str) -> Callable[[Any, Any], Array]:
    def chosen(x: Any, y: Any) -> Array:
        dtype = np.result_type(*(getattr(v, "dtype", v) for v in (_operand(x), _operand(y))))
        if dtype.kind not in "fc":
            return call(name, x, y)
        x, y = lazy(x).astype(dtype), lazy(y).astype(dtype)
        return call("where", call("isnan", x), y, call("where", call("isnan", y), x, call(name, x, y)))

    return chosen


#: By the names of NumPy.
UFUNCS: dict[str, Callable[..., Any]] = {
    "heaviside": heaviside,
    # The ufunc of truths has whole numbers, unlike the method.
    "conjugate": lambda x: call("conj", x) if x.dtype.kind == "c" else x.astype(np.conjugate(np.ones(1, x.dtype)).dtype),
    "deg2rad": _radians,
    "radians": _radians,
    "rad2deg": _degrees,
    "degrees": _degrees,
    "reciprocal": _reciprocal,
    "fmax": _without_nan("maximum"),
    "fmin": _without_nan("minimum"),
    "divmod": lambda x, y: (call("floor_divide", x, y), call("remainder", x, y)),
    "float_power": lambda x, y: call("pow", *(v.astype(np.result_type(v.dtype, np.float64)) for v in (lazy(x), lazy(y)))),
}


# Functions.


@numpy_function
def sinc(x: Any) -> Array:
    x = _floating(x)
    y = call("multiply", x, pi)
    return call("where", call("equal", x, 0), 1.0, call("divide", call("sin", y), y)).astype(x.dtype)


@numpy_function
def angle(z: Any, deg: bool = False) -> Array:
    z = _floating(z)
    imaginary, real = (call("imag", z), call("real", z)) if z.dtype.kind == "c" else (call("zeros", [], dtype=z.dtype.name), z)
    found: Array = call("atan2", imaginary, real)
    return _degrees(found) if deg else found


@numpy_function
def fix(x: Any) -> Array:
    return call("trunc", lazy(x))


@numpy_function
def iscomplex(x: Any) -> Array:
    x = lazy(x)
    return call("not_equal", call("imag", x), 0) if x.dtype.kind == "c" else call("zeros", list(x.shape), dtype="bool")


@numpy_function
def isreal(x: Any) -> Array:
    return call("logical_not", iscomplex(x))


@numpy_function
def isposinf(x: Any) -> Array:
    return call("equal", lazy(x), np.inf)


@numpy_function
def isneginf(x: Any) -> Array:
    return call("equal", lazy(x), -np.inf)


def isnull(values: Any) -> Array:
    """Where elements are missing: NaN. As in Dask."""
    x = lazy(values)
    return call("isnan", x) if x.dtype.kind in "fc" else call("zeros", list(x.shape), dtype="bool")


@numpy_function
def iscomplexobj(x: Array) -> bool:
    return x.dtype.kind == "c"


@numpy_function
def isrealobj(x: Array) -> bool:
    return x.dtype.kind != "c"


@numpy_function
def polyval(p: Any, x: Any) -> Array:
    """By Horner's rule. As :func:`numpy.polyval`."""
    x, factors = lazy(x), lazy(p)
    found = call("zeros", list(x.shape), dtype=np.result_type(x.dtype, factors.dtype).name)
    for k in range(factors.shape[0]):
        found = call("add", call("multiply", found, x), factors[k])
    return found


@numpy_function
def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    x = lazy(x)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) or getattr(condlist, "ndim", 0) > x.ndim else [condlist]
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ValueError(f"with {len(conditions)} condition(s), either {len(conditions)} or {len(conditions) + 1} functions are expected")

    def value(f: Any) -> Any:
        return lazy(f(x, *args, **kw) if callable(f) else f).astype(x.dtype)

    found = value(funclist[len(conditions)] if len(funclist) > len(conditions) else 0)
    for condition, f in zip(conditions, funclist):
        found = call("where", lazy(condition), value(f), found)
    return call("broadcast_to", found, list(x.shape))


@numpy_function
def choose(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Array:
    chosen: Any = np.choose

    def choose(index: Any, *values: Any) -> Any:
        return chosen(index, values, mode=mode)

    found: Array = by_numpy(choose, [a, *choices])
    return found


@numpy_function
def ravel_multi_index(multi_index: Any, dims: Any, mode: str = "raise", order: str = "C") -> Array:
    raveled: Any = np.ravel_multi_index

    def ravel_multi_index(*index: Any) -> Any:
        return np.asarray(raveled(index, dims, mode=mode, order=order))

    found: Array = by_numpy(ravel_multi_index, list(multi_index), output_dtypes=np.int64)
    return found


@numpy_function
def i0(x: Any) -> Array:
    return map_blocks(np.i0, _floating(x), dtype=np.float64)
