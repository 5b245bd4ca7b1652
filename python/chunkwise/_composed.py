"""NumPy's functions that are several operations of the engine. Each has the arguments of NumPy's, and is lazy but where it says so."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

import numpy as np

from ._array import Array
from ._functions import blockwise, map_blocks
from ._namespace import call

_F = TypeVar("_F", bound=Callable[..., Any])
FUNCTIONS: dict[str, Callable[..., Any]] = {}
#: More bins are looked up by NumPy, in processes.
FEW_BINS = 32


def _numpy(function: _F) -> _F:
    FUNCTIONS[function.__name__] = function
    return function


def _lazy(x: Any) -> Array:
    import chunkwise

    return chunkwise.asarray(x)


def _whole(axis: int, *key: Any) -> tuple[Any, ...]:
    return (slice(None),) * axis + key


# Shapes.


@_numpy
def ravel(a: Array, order: str = "C") -> Array:
    if order not in ("C", "K", "A"):
        raise NotImplementedError("ravel() is in C order; transpose the array first")
    return a.reshape([-1])


@_numpy
def swapaxes(a: Array, axis1: int, axis2: int) -> Array:
    axes = list(range(a.ndim))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return call("permute_dims", a, axes)


@_numpy
def atleast_1d(*arrays: Any) -> Any:
    made = tuple(x if x.ndim else x[None] for x in map(_lazy, arrays))
    return made if len(made) > 1 else made[0]


@_numpy
def atleast_2d(*arrays: Any) -> Any:
    made = tuple(x if x.ndim > 1 else atleast_1d(x)[None] for x in map(_lazy, arrays))
    return made if len(made) > 1 else made[0]


@_numpy
def atleast_3d(*arrays: Any) -> Any:
    made = tuple(x if x.ndim > 2 else atleast_2d(x)[..., None] for x in map(_lazy, arrays))
    return made if len(made) > 1 else made[0]


def _joined(parts: list[Array], axis: int) -> Array:
    import chunkwise

    return chunkwise.concat(parts, axis=axis)


@_numpy
def hstack(tup: Any) -> Array:
    parts = [atleast_1d(x) for x in tup]
    return _joined(parts, 0 if parts[0].ndim == 1 else 1)


@_numpy
def vstack(tup: Any) -> Array:
    return _joined([atleast_2d(x) for x in tup], 0)


@_numpy
def dstack(tup: Any) -> Array:
    return _joined([atleast_3d(x) for x in tup], 2)


@_numpy
def column_stack(tup: Any) -> Array:
    return _joined([x[:, None] if x.ndim == 1 else x for x in map(_lazy, tup)], 1)


@_numpy
def array_split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    axis, n = operator.index(axis) % ary.ndim, ary.shape[axis]
    if np.ndim(indices_or_sections):
        ends = [operator.index(i) for i in indices_or_sections]
    else:
        count = operator.index(indices_or_sections)
        if count < 1:
            raise ValueError("number sections must be larger than 0.")
        ends = np.cumsum([n // count + (k < n % count) for k in range(count)])[:-1].tolist()
    return [ary[_whole(axis, slice(a, b))] for a, b in zip([0, *ends], [*ends, n])]


@_numpy
def split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    if not np.ndim(indices_or_sections) and ary.shape[axis] % operator.index(indices_or_sections):
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@_numpy
def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    parts = [_lazy(arr), _lazy(values)]
    return _joined([ravel(x) for x in parts] if axis is None else parts, 0 if axis is None else axis)


@_numpy
def delete(arr: Array, obj: Any, axis: int | None = None) -> Array:
    arr, axis = (ravel(arr), 0) if axis is None else (arr, operator.index(axis) % arr.ndim)
    return arr[_whole(axis, np.delete(np.arange(arr.shape[axis]), obj))]


@_numpy
def insert(arr: Array, obj: Any, values: Any, axis: int | None = None) -> Array:
    arr, axis = (ravel(arr), 0) if axis is None else (arr, operator.index(axis) % arr.ndim)
    if np.ndim(obj):
        raise NotImplementedError("insert() at several positions; join the parts with concatenate()")
    import chunkwise

    n, at = arr.shape[axis], operator.index(obj)
    if not -n <= at <= n:
        raise IndexError(f"index {at} is out of bounds for axis {axis} with size {n}")
    at += n if at < 0 else 0
    # As NumPy, the first axis of the values is the one along which they are inserted.
    new = _lazy(values).astype(arr.dtype)
    new = chunkwise.moveaxis(new[(*[None] * (arr.ndim - new.ndim), ...)], 0, axis)
    new = call("broadcast_to", new, [new.shape[axis] if a == axis else m for a, m in enumerate(arr.shape)])
    return _joined([arr[_whole(axis, slice(0, at))], new, arr[_whole(axis, slice(at, None))]], axis)


@_numpy
def compress(condition: Any, a: Array, axis: int | None = None) -> Array:
    a, axis = (ravel(a), 0) if axis is None else (a, operator.index(axis) % a.ndim)
    return a[_whole(axis, np.flatnonzero(np.asarray(condition)))]


@_numpy
def fliplr(m: Array) -> Array:
    return call("flip", m, axis=1)


@_numpy
def flipud(m: Array) -> Array:
    return call("flip", m, axis=0)


@_numpy
def rot90(m: Array, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    one, other = (operator.index(a) % m.ndim for a in axes)
    if one == other:
        raise ValueError("Axes must be different.")
    turned = [m, call("flip", swapaxes(m, one, other), axis=one), call("flip", m, axis=[one, other]), swapaxes(call("flip", m, axis=one), one, other)]
    return turned[k % 4]


@_numpy
def diagonal(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    one, other = (operator.index(x) % a.ndim for x in (axis1, axis2))
    n = max(min(a.shape[one] - max(-offset, 0), a.shape[other] - max(offset, 0)), 0)
    at = np.arange(n)
    rest = [i for i in range(a.ndim) if i not in (one, other)]
    return call("permute_dims", a, [*rest, one, other])[(*_whole(len(rest)), at + max(-offset, 0), at + max(offset, 0))]


@_numpy
def trace(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Array:
    found: Array = call("sum", diagonal(a, offset, axis1, axis2), axis=-1)
    return found if dtype is None else found.astype(dtype)


# Elements.


@_numpy
def nan_to_num(x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    found = _lazy(x)
    if found.dtype.kind == "c":
        raise NotImplementedError("nan_to_num() of complex numbers: take their parts with real() and imag()")
    if found.dtype.kind != "f":
        return found
    most = np.finfo(found.dtype)
    found = call("where", call("isnan", found), float(nan), found)
    for infinite, value in ((np.inf, most.max if posinf is None else posinf), (-np.inf, most.min if neginf is None else neginf)):
        found = call("where", call("equal", found, infinite), float(value), found)
    return found


@_numpy
def heaviside(x1: Any, x2: Any) -> Array:
    x1 = _lazy(x1)
    x1 = x1 if x1.dtype.kind == "f" else x1.astype(np.float64)
    one: Array = call("where", call("less", x1, 0), 0.0, call("where", call("equal", x1, 0), x2, 1.0))
    return call("where", call("isnan", x1), float("nan"), one)


@_numpy
def select(condlist: Any, choicelist: Any, default: Any = 0) -> Array:
    if len(condlist) != len(choicelist) or not len(condlist):
        raise ValueError("list of cases must be same length as list of conditions")
    found = default
    dtype = np.result_type(*(x if isinstance(x, (int, float, complex)) else x.dtype for x in map(_known, [*choicelist, default])))
    for condition, choice in list(zip(condlist, choicelist))[::-1]:
        found = call("where", condition, _known(choice), _known(found))
    return _lazy(found).astype(dtype)


def _known(x: Any) -> Any:
    return x if isinstance(x, (Array, bool, int, float, complex)) else _lazy(x)


@_numpy
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


@_numpy
def searchsorted(a: Any, v: Any, side: Any = "left", sorter: Any = None) -> Array:
    """The sorted array is computed, and so is ``sorter``: all of it is needed everywhere. As :func:`numpy.searchsorted`."""
    a, sorter = (x.compute() if isinstance(x, Array) else x for x in (a, sorter))
    return map_blocks(lambda block: np.asarray(np.searchsorted(a, block, side=side, sorter=sorter)), _lazy(v), dtype=np.int64)


@_numpy
def interp(x: Array, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Array:
    points = [np.asarray(p) for p in (xp, fp)]
    return map_blocks(np.interp, x, *points, left=left, right=right, period=period, dtype=np.result_type(points[1], np.float64))


@_numpy
def unravel_index(indices: Array, shape: Any, order: str = "C") -> tuple[Array, ...]:
    lengths = [operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    steps = [prod(lengths[k + 1 :]) for k in range(len(lengths))] if order == "C" else [prod(lengths[:k]) for k in range(len(lengths))]
    return tuple(call("remainder", call("floor_divide", indices, s), n) if s > 1 else call("remainder", indices, n) for s, n in zip(steps, lengths))


@_numpy
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    import chunkwise

    axisa, axisb, axisc = (axisa, axisb, axisc) if axis is None else (axis,) * 3
    x, y = chunkwise.moveaxis(_lazy(a), axisa, -1), chunkwise.moveaxis(_lazy(b), axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ValueError("incompatible vector dimensions for cross product\n(dimension must be 3)")

    def part(i: int, k: int) -> Array:
        return call("subtract", call("multiply", x[..., i], y[..., k]), call("multiply", x[..., k], y[..., i]))

    return chunkwise.moveaxis(chunkwise.stack([part(1, 2), part(2, 0), part(0, 1)], axis=-1), -1, axisc)


# Statistics.


@_numpy
def ptp(a: Array, axis: Any = None, keepdims: bool = False) -> Array:
    return call("subtract", call("max", a, axis=axis, keepdims=keepdims), call("min", a, axis=axis, keepdims=keepdims))


@_numpy
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    a = _lazy(a)
    if weights is None:
        found = call("mean", a, axis=axis, keepdims=keepdims)
        total = call("full", list(found.shape), a.size / max(found.size, 1), dtype=found.dtype.name)
        return (found, total) if returned else found
    w = _lazy(weights)
    if w.shape != a.shape:
        if axis is None or w.ndim != 1 or not isinstance(axis, (int, np.integer)):
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        w = w[(slice(None), *[None] * (a.ndim - 1 - operator.index(axis) % a.ndim))]
    dtype = np.result_type(a.dtype, w.dtype, *([np.float64] if a.dtype.kind in "iub" else []))
    w = call("broadcast_to", w, list(a.shape)).astype(dtype)
    total = call("sum", w, axis=axis, keepdims=keepdims)
    found = call("divide", call("sum", call("multiply", a.astype(dtype), w), axis=axis, keepdims=keepdims), total)
    return (found, total) if returned else found


@_numpy
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Array:
    x = atleast_2d(m)
    x = x if rowvar or _lazy(m).ndim == 1 else x.T
    if y is not None:
        other = atleast_2d(y)
        x = _joined([x, other if rowvar or _lazy(y).ndim == 1 else other.T], 0)
    x = x.astype(np.result_type(x.dtype, np.float64))
    off = call("subtract", x, call("mean", x, axis=1, keepdims=True))
    count = x.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    found = call("divide", call("matmul", off, call("conj", off).T if off.dtype.kind == "c" else off.T), float(count))
    return found.squeeze()


@_numpy
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Array:
    c = cov(x, y, rowvar)
    if c.ndim == 0:
        return call("divide", c, c)
    width = call("sqrt", call("real", diagonal(c)))
    return call("divide", call("divide", c, width[:, None]), width[None, :])


def norm(x: Array, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """``np.linalg.norm`` of vectors along an axis, and the Frobenius norm."""
    if x.dtype.kind in "iub":
        x = x.astype(np.float64)
    sizes = call("abs", x)
    several = (axis is None and x.ndim > 1) or (isinstance(axis, tuple) and len(axis) == 2)
    if ord is None or (ord == "fro" and several) or (ord == 2 and not several):
        return call("sqrt", call("sum", call("square", sizes), axis=axis, keepdims=keepdims))
    if several or isinstance(ord, str):
        raise NotImplementedError(f"the norm {ord!r} of matrices; compute() the array first if it fits into memory")
    if ord in (np.inf, -np.inf):
        return call("max" if ord > 0 else "min", sizes, axis=axis, keepdims=keepdims)
    if ord == 0:
        return call("count_nonzero", x, axis=axis, keepdims=keepdims).astype(sizes.dtype)
    return call("pow", call("sum", call("pow", sizes, float(ord)), axis=axis, keepdims=keepdims), 1 / ord)


def _counted(function: Callable[[Any], Any], arrays: list[Array], bins: int, dtype: Any) -> Array:
    """The sums over all blocks of what a function counts in each."""
    labels = list(range(arrays[0].ndim))

    def count(*blocks: Any) -> Any:
        return np.asarray(function(*blocks)).reshape([1] * len(labels) + [bins])

    count.__name__ = getattr(function, "__name__", "count")
    pairs: list[Any] = [p for a in arrays for p in (a, labels)]
    found = blockwise(count, [*labels, "bin"], *pairs, dtype=dtype, new_axes={"bin": bins}, adjust_chunks=dict.fromkeys(labels, 1))
    return call("sum", found, axis=labels)


@_numpy
def histogram(a: Array, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """Without ``range``, numbers of bins need the extremes, which are computed."""
    if isinstance(bins, str):
        raise NotImplementedError("bins of histogram() are a number or edges")
    if np.ndim(bins) == 0 and range is None:
        from ._run import compute

        range = compute(call("min", a), call("max", a)) if a.size else (0, 1)
    edges = np.histogram_bin_edges(np.empty(0, a.dtype), bins, range)
    parts = [ravel(a)] if weights is None else [ravel(a), ravel(_lazy(weights))]
    if weights is not None:
        parts[1] = parts[1].rechunk(parts[0].chunks)
    dtype = np.int64 if weights is None else np.histogram(np.ones(1, a.dtype), edges, weights=np.ones(1, parts[1].dtype))[0].dtype
    # Bins of equal width are rounded in a way of their own.
    given = {"bins": bins, "range": range} if np.ndim(bins) == 0 else {"bins": edges}

    def histogram(block: Any, weight: Any = None) -> Any:
        return np.histogram(block, weights=weight, **given)[0]

    found = _counted(histogram, parts, len(edges) - 1, dtype)
    if density:
        found = call("divide", call("divide", found, np.diff(edges)), call("sum", found).astype(np.float64))
    return found, edges


@_numpy
def bincount(x: Array, weights: Any = None, minlength: int = 0) -> Array:
    """The greatest number is computed: it says how long the result is."""
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise TypeError("bincount() takes whole numbers along one axis")
    n = max(int(call("max", x)) + 1 if x.size else 0, operator.index(minlength))
    parts = [x] if weights is None else [x, _lazy(weights).rechunk(x.chunks)]

    def bincount(block: Any, weight: Any = None) -> Any:
        return np.bincount(block, weight, minlength=n)

    return _counted(bincount, parts, n, np.int64 if weights is None else np.float64)


@_numpy
def convolve(a: Any, v: Any, mode: str = "full") -> Array:
    x, w = _lazy(a), np.asarray(v)
    if x.ndim != 1 or w.ndim != 1 or not w.size or not x.size:
        raise ValueError("convolve() takes two arrays of one axis that are not empty")
    if len(w) > x.size:
        x, w = _lazy(w), np.asarray(x)
    x = x.astype(np.result_type(x.dtype, w.dtype))
    m = len(w)
    before, after = {"full": (m - 1, m - 1), "same": (m // 2, (m - 1) // 2), "valid": (0, 0)}[mode]
    padded = call("pad", x, [[before, after]]) if before or after else x
    if x.dtype.kind == "f":
        return call("convolve", padded, w.tolist()).astype(x.dtype)
    # Exact, and in the dtype of the elements.
    size, found = padded.size - m + 1, None
    for k, weight in enumerate(w[::-1].tolist()):
        part = call("multiply", padded[k : k + size], weight)
        found = part if found is None else call("add", found, part)
    return _lazy(found).astype(x.dtype)


FUNCTIONS["row_stack"] = vstack
