"""NumPy's functions of shapes and statistics that are several operations of the engine. Each has the arguments of NumPy's, and is lazy but where it says so."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any, TypeVar

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from ._array import Array
from ._functions import apply_gufunc, blockwise
from ._namespace import call

_F = TypeVar("_F", bound=Callable[..., Any])
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def numpy_function(function: _F) -> _F:
    """Takes the place of NumPy's function of this name."""
    function.__doc__ = function.__doc__ or f"As :func:`numpy.{function.__name__}`."
    FUNCTIONS[function.__name__] = function
    return function


def lazy(x: Any) -> Array:
    """A number, a list or an array of NumPy as an array of chunkwise."""
    import chunkwise

    return chunkwise.asarray(x)


def _whole(axis: int, *key: Any) -> tuple[Any, ...]:
    return (slice(None),) * axis + key


# Shapes.


@numpy_function
def ravel(a: Array, order: str = "C") -> Array:
    if order not in ("C", "K", "A"):
        raise NotImplementedError("ravel() is in C order; transpose the array first")
    return a.reshape([-1])


@numpy_function
def swapaxes(a: Array, axis1: int, axis2: int) -> Array:
    axes = list(range(a.ndim))
    axis1, axis2 = (normalize_axis_index(k, a.ndim) for k in (axis1, axis2))
    axes[axis1], axes[axis2] = axes[axis2], axes[axis1]
    return call("permute_dims", a, axes)


@numpy_function
def atleast_1d(*arrays: Any) -> Any:
    made = tuple(x if x.ndim else x[None] for x in map(lazy, arrays))
    return made if len(made) > 1 else made[0]


@numpy_function
def atleast_2d(*arrays: Any) -> Any:
    made = tuple(x if x.ndim > 1 else atleast_1d(x)[None] for x in map(lazy, arrays))
    return made if len(made) > 1 else made[0]


@numpy_function
def atleast_3d(*arrays: Any) -> Any:
    made = tuple(x if x.ndim > 2 else atleast_2d(x)[..., None] for x in map(lazy, arrays))
    return made if len(made) > 1 else made[0]


def _joined(parts: list[Array], axis: int) -> Array:
    import chunkwise

    return chunkwise.concat(parts, axis=axis)


@numpy_function
def hstack(tup: Any) -> Array:
    parts = [atleast_1d(x) for x in tup]
    return _joined(parts, 0 if parts[0].ndim == 1 else 1)


@numpy_function
def vstack(tup: Any) -> Array:
    return _joined([atleast_2d(x) for x in tup], 0)


@numpy_function
def dstack(tup: Any) -> Array:
    return _joined([atleast_3d(x) for x in tup], 2)


@numpy_function
def column_stack(tup: Any) -> Array:
    return _joined([x[:, None] if x.ndim == 1 else x for x in map(lazy, tup)], 1)


@numpy_function
def array_split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    axis, n = normalize_axis_index(axis, ary.ndim), ary.shape[axis]
    if np.ndim(indices_or_sections):
        ends = [operator.index(i) for i in indices_or_sections]
    else:
        count = operator.index(indices_or_sections)
        if count < 1:
            raise ValueError("number sections must be larger than 0.")
        ends = np.cumsum([n // count + (k < n % count) for k in range(count)])[:-1].tolist()
    return [ary[_whole(axis, slice(a, b))] for a, b in zip([0, *ends], [*ends, n])]


@numpy_function
def split(ary: Array, indices_or_sections: Any, axis: int = 0) -> list[Array]:
    if not np.ndim(indices_or_sections) and ary.shape[axis] % operator.index(indices_or_sections):
        raise ValueError("array split does not result in an equal division")
    return array_split(ary, indices_or_sections, axis)


@numpy_function
def append(arr: Any, values: Any, axis: int | None = None) -> Array:
    parts = [lazy(arr), lazy(values)]
    return _joined([ravel(x) for x in parts] if axis is None else parts, 0 if axis is None else axis)


@numpy_function
def delete(arr: Array, obj: Any, axis: int | None = None) -> Array:
    arr, axis = (ravel(arr), 0) if axis is None else (arr, normalize_axis_index(axis, arr.ndim))
    return arr[_whole(axis, np.delete(np.arange(arr.shape[axis]), obj))]


@numpy_function
def insert(arr: Array, obj: Any, values: Any, axis: int | None = None) -> Array:
    arr, axis = (ravel(arr), 0) if axis is None else (arr, normalize_axis_index(axis, arr.ndim))
    if np.ndim(obj):
        raise NotImplementedError("insert() at several positions; join the parts with concatenate()")
    import chunkwise

    n, at = arr.shape[axis], operator.index(obj)
    if not -n <= at <= n:
        raise IndexError(f"index {at} is out of bounds for axis {axis} with size {n}")
    at += n if at < 0 else 0
    # As NumPy, the first axis of the values is the one along which they are inserted.
    new = lazy(values).astype(arr.dtype)
    new = chunkwise.moveaxis(new[(*[None] * (arr.ndim - new.ndim), ...)], 0, axis)
    new = call("broadcast_to", new, [new.shape[axis] if a == axis else m for a, m in enumerate(arr.shape)])
    return _joined([arr[_whole(axis, slice(0, at))], new, arr[_whole(axis, slice(at, None))]], axis)


@numpy_function
def compress(condition: Any, a: Array, axis: int | None = None) -> Array:
    a, axis = (ravel(a), 0) if axis is None else (a, normalize_axis_index(axis, a.ndim))
    return a[_whole(axis, np.flatnonzero(np.asarray(condition)))]


@numpy_function
def take(a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise") -> Array:
    """Indices are part of the plan, so lazy ones are computed. As :func:`numpy.take`."""
    x = ravel(lazy(a)) if axis is None else lazy(a)
    axis = 0 if axis is None else normalize_axis_index(axis, x.ndim)
    at = np.asarray(indices)
    at = at if at.size else at.astype(np.int64)
    if mode != "raise":
        n = x.shape[axis]
        at = at % n if mode == "wrap" else np.clip(at, 0, n - 1)
    return x[_whole(axis, at)]


@numpy_function
def flip(m: Array, axis: Any = None) -> Array:
    return call("flip", m, axis=list(range(m.ndim) if axis is None else normalize_axis_tuple(axis, m.ndim)))


@numpy_function
def fliplr(m: Array) -> Array:
    return call("flip", m, axis=1)


@numpy_function
def flipud(m: Array) -> Array:
    return call("flip", m, axis=0)


@numpy_function
def rot90(m: Array, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    one, other = (normalize_axis_index(a, m.ndim) for a in axes)
    if one == other:
        raise ValueError("Axes must be different.")
    turned = [m, call("flip", swapaxes(m, one, other), axis=one), call("flip", m, axis=[one, other]), swapaxes(call("flip", m, axis=one), one, other)]
    return turned[k % 4]


@numpy_function
def diagonal(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    one, other = (normalize_axis_index(x, a.ndim) for x in (axis1, axis2))
    if one == other:
        raise ValueError("axis1 and axis2 cannot be the same")
    n = max(min(a.shape[one] - max(-offset, 0), a.shape[other] - max(offset, 0)), 0)
    at = np.arange(n)
    rest = [i for i in range(a.ndim) if i not in (one, other)]
    return call("permute_dims", a, [*rest, one, other])[(*_whole(len(rest)), at + max(-offset, 0), at + max(offset, 0))]


@numpy_function
def trace(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Array:
    found: Array = call("sum", diagonal(a, offset, axis1, axis2), axis=-1)
    return found if dtype is None else found.astype(dtype)


@numpy_function
def hsplit(ary: Array, indices_or_sections: Any) -> list[Array]:
    return split(ary, indices_or_sections, 0 if ary.ndim == 1 else 1)


@numpy_function
def vsplit(ary: Array, indices_or_sections: Any) -> list[Array]:
    return split(ary, indices_or_sections, 0)


@numpy_function
def dsplit(ary: Array, indices_or_sections: Any) -> list[Array]:
    return split(ary, indices_or_sections, 2)


@numpy_function
def block(arrays: Any) -> Array:
    def depth(x: Any) -> int:
        return 1 + max(map(depth, x)) if isinstance(x, list) else 0

    def rank(x: Any) -> int:
        return max(map(rank, x)) if isinstance(x, list) else int(np.ndim(x))

    most = depth(arrays)
    axes = max(most, rank(arrays))

    def joined(x: Any, level: int) -> Array:
        if isinstance(x, list):
            return _joined([joined(part, level - 1) for part in x], axes - level)
        part = lazy(x)
        return part[(*[None] * (axes - part.ndim), ...)]

    return joined(arrays, most)


@numpy_function
def rollaxis(a: Array, axis: int, start: int = 0) -> Array:
    axis, start = normalize_axis_index(axis, a.ndim), start + a.ndim if start < 0 else start
    rest = [k for k in range(a.ndim) if k != axis]
    at = start - 1 if axis < start else start
    return call("permute_dims", a, [*rest[:at], axis, *rest[at:]])


@numpy_function
def diag(v: Array, k: int = 0) -> Array:
    if v.ndim == 2:
        return diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = v.size + abs(k)
    padded = call("pad", v, [[0, abs(k)]]) if k else v
    # Elements above the diagonal begin in the first row, and those below in the first column.
    placed = padded[:, None] if k >= 0 else padded[None, :]
    return call("where", call("eye", n, n, k=k, dtype="bool"), placed, call("zeros", [], dtype=v.dtype.name))


@numpy_function
def diagflat(v: Any, k: int = 0) -> Array:
    return diag(lazy(v).reshape([-1]), k)


@numpy_function
def apply_over_axes(func: Any, a: Any, axes: Any) -> Any:
    found = lazy(a)
    for axis in np.atleast_1d(np.asarray(axes)).tolist():
        axis = normalize_axis_index(axis, found.ndim)
        made = func(found, axis)
        found = made if made.ndim == found.ndim else made[_whole(axis, None)]
    return found


@numpy_function
def apply_along_axis(func1d: Any, axis: int, arr: Any, *args: Any, **kwargs: Any) -> Array:
    """The function runs in processes. It is called once with ones, to see what it returns. As :func:`numpy.apply_along_axis`."""
    import chunkwise

    arr = lazy(arr)
    axis = normalize_axis_index(axis, arr.ndim)
    one = np.asarray(func1d(np.ones(arr.shape[axis], arr.dtype), *args, **kwargs))
    new = [f"r{k}" for k in range(one.ndim)]

    def apply_along_axis(block: Any) -> Any:
        return np.apply_along_axis(func1d, -1, block, *args, **kwargs)

    sizes = dict(zip(new, one.shape))
    given = {"output_dtypes": one.dtype, "output_sizes": sizes, "allow_rechunk": True}
    found: Array = apply_gufunc(apply_along_axis, f"(r)->({','.join(new)})", chunkwise.moveaxis(arr, axis, -1), **given)
    rest = arr.ndim - 1
    return call("permute_dims", found, [*range(axis), *range(rest, rest + one.ndim), *range(axis, rest)])


@numpy_function
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Array:
    x = lazy(ary).reshape([-1])
    steps = call("subtract", x[1:], x[:-1])
    ends = [None if e is None else lazy(e).reshape([-1]).astype(x.dtype) for e in (to_begin, to_end)]
    parts = [p for p in (ends[0], steps, ends[1]) if p is not None]
    return _joined(parts, 0) if len(parts) > 1 else steps


@numpy_function
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Array:
    y, axis = lazy(y), normalize_axis_index(axis, lazy(y).ndim)
    ends = [y[_whole(axis, slice(1, None))], y[_whole(axis, slice(None, -1))]]
    width: Any = dx
    if x is not None:
        x = lazy(x)
        along = axis if x.ndim > 1 else 0
        width = call("subtract", x[_whole(along, slice(1, None))], x[_whole(along, slice(None, -1))])
        width = width if x.ndim > 1 else width[(slice(None), *[None] * (y.ndim - 1 - axis))]
    return call("sum", call("divide", call("multiply", width, call("add", *ends)), 2.0), axis=axis)


# Statistics.


@numpy_function
def ptp(a: Array, axis: Any = None, keepdims: bool = False) -> Array:
    return call("subtract", call("max", a, axis=axis, keepdims=keepdims), call("min", a, axis=axis, keepdims=keepdims))


def moment(a: Any, order: int, axis: Any = None, dtype: Any = None, keepdims: bool = False, ddof: float = 0) -> Array:
    """The central moment: the mean of this power of the distances from the mean. As in Dask.

    >>> float(moment([1.0, 2.0, 6.0], 3))
    6.0
    """
    x = lazy(a)
    x = x.astype(np.result_type(x.dtype, np.float64 if x.dtype.kind in "biu" else x.dtype) if dtype is None else dtype)
    total = call("sum", call("pow", call("subtract", x, call("mean", x, axis=axis, keepdims=True)), operator.index(order)), axis=axis, keepdims=keepdims)
    found: Array = call("divide", total, x.size / max(total.size, 1) - ddof)
    return found.astype(x.dtype)


@numpy_function
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, keepdims: bool = False) -> Any:
    a = lazy(a)
    if weights is None:
        found = call("mean", a, axis=axis, keepdims=keepdims)
        total = call("full", list(found.shape), a.size / max(found.size, 1), dtype=found.dtype.name)
        return (found, total) if returned else found
    w = lazy(weights)
    if w.shape != a.shape:
        if axis is None or w.ndim != 1 or not isinstance(axis, (int, np.integer)):
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        w = w[(slice(None), *[None] * (a.ndim - 1 - normalize_axis_index(int(axis), a.ndim)))]
    dtype = np.result_type(a.dtype, w.dtype, *([np.float64] if a.dtype.kind in "iub" else []))
    w = call("broadcast_to", w, list(a.shape)).astype(dtype)
    total = call("sum", w, axis=axis, keepdims=keepdims)
    found = call("divide", call("sum", call("multiply", a.astype(dtype), w), axis=axis, keepdims=keepdims), total)
    return (found, total) if returned else found


@numpy_function
def cov(m: Any, y: Any = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None) -> Array:
    x = atleast_2d(m)
    x = x if rowvar or lazy(m).ndim == 1 else x.T
    if y is not None:
        other = atleast_2d(y)
        x = _joined([x, other if rowvar or lazy(y).ndim == 1 else other.T], 0)
    x = x.astype(np.result_type(x.dtype, np.float64))
    off = call("subtract", x, call("mean", x, axis=1, keepdims=True))
    count = x.shape[1] - ((0 if bias else 1) if ddof is None else ddof)
    found = call("divide", call("matmul", off, call("conj", off).T if off.dtype.kind == "c" else off.T), float(count))
    return found.squeeze()


@numpy_function
def corrcoef(x: Any, y: Any = None, rowvar: bool = True) -> Array:
    c = cov(x, y, rowvar)
    if c.ndim == 0:
        return call("divide", c, c)
    width = call("sqrt", call("real", diagonal(c)))
    return call("divide", call("divide", c, width[:, None]), width[None, :])


def _counted(function: Callable[..., Any], arrays: list[Array], bins: int, dtype: Any) -> Array:
    """The sums over all blocks of what a function counts in each."""
    labels = list(range(arrays[0].ndim))

    def count(*blocks: Any) -> Any:
        return np.asarray(function(*blocks)).reshape([1] * len(labels) + [bins])

    count.__name__ = getattr(function, "__name__", "count")
    pairs: list[Any] = [p for a in arrays for p in (a, labels)]
    found = blockwise(count, [*labels, "bin"], *pairs, dtype=dtype, new_axes={"bin": bins}, adjust_chunks=dict.fromkeys(labels, 1))
    return call("sum", found, axis=labels)


def _range(a: Array, bins: Any, range: Any) -> Any:
    """The range of a number of bins: the extremes, which are computed, unless it is given."""
    if range is not None or np.ndim(bins) or isinstance(bins, str):
        return range
    from ._run import compute

    return compute(call("min", a), call("max", a)) if a.size else (0, 1)


def _edges(a: Array, bins: Any, range: Any) -> np.ndarray[Any, Any]:
    if isinstance(bins, str):
        raise NotImplementedError("bins of histogram() are a number or edges")
    return np.histogram_bin_edges(np.empty(0, a.dtype), bins, range)


@numpy_function
def histogram_bin_edges(a: Array, bins: Any = 10, range: Any = None, weights: Any = None) -> np.ndarray[Any, Any]:
    """As :func:`numpy.histogram_bin_edges`. Without ``range``, numbers of bins need the extremes, which are computed."""
    return _edges(a, bins, _range(a, bins, range))


@numpy_function
def histogram(a: Array, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Any, Any]:
    """Without ``range``, numbers of bins need the extremes, which are computed."""
    range = _range(a, bins, range)
    edges = _edges(a, bins, range)
    parts = [ravel(a)] if weights is None else [ravel(a), ravel(lazy(weights))]
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


@numpy_function
def histogram2d(x: Any, y: Any, bins: Any = 10, range: Any = None, density: Any = None, weights: Any = None) -> tuple[Any, Any, Any]:
    """Without ``range``, numbers of bins need the extremes, which are computed. As :func:`numpy.histogram2d`."""
    from ._run import compute

    parts = [lazy(a).reshape([-1]) for a in (x, y, *([] if weights is None else [weights]))]
    parts = [parts[0], *(p.rechunk(parts[0].chunks) for p in parts[1:])]
    each = list(bins) if hasattr(bins, "__len__") and len(bins) == 2 else [bins, bins]
    spans = list(range) if range is not None else [None, None]
    if any(np.ndim(b) == 0 and s is None for b, s in zip(each, spans)):
        ends = compute(*(call(name, p) for p in parts[:2] for name in ("min", "max")))
        spans = [ends[:2] if spans[0] is None else spans[0], ends[2:] if spans[1] is None else spans[1]]
    edges = [np.histogram_bin_edges(np.empty(0), b, s) for b, s in zip(each, spans)]
    shape = [len(e) - 1 for e in edges]

    def histogram2d(one: Any, other: Any, weight: Any = None) -> Any:
        return np.histogram2d(one, other, bins=edges, weights=weight)[0].ravel()

    found = _counted(histogram2d, parts, prod(shape), np.float64).reshape(shape)
    if density:
        found = call("divide", call("divide", found, np.outer(*map(np.diff, edges))), call("sum", found))
    return found, edges[0], edges[1]


@numpy_function
def bincount(x: Array, weights: Any = None, minlength: int = 0) -> Array:
    """Without ``minlength``, the greatest number is computed: it says how long the result is. With it, each number must be less."""
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise TypeError("bincount() takes whole numbers along one axis")
    n = operator.index(minlength) or (int(call("max", x)) + 1 if x.size else 0)
    parts = [x] if weights is None else [x, lazy(weights).rechunk(x.chunks)]

    def bincount(block: Any, weight: Any = None) -> Any:
        if block.size and block.max() >= n:
            raise ValueError(f"bincount(minlength={n}) of a lazy array has found {block.max()}: give a minlength that is more than each number, or none")
        return np.bincount(block, weight, minlength=n)

    return _counted(bincount, parts, n, np.int64 if weights is None else np.float64)


@numpy_function
def convolve(a: Any, v: Any, mode: str = "full") -> Array:
    x, w = lazy(a), np.asarray(v)
    if x.ndim != 1 or w.ndim != 1 or not w.size or not x.size:
        raise ValueError("convolve() takes two arrays of one axis that are not empty")
    if len(w) > x.size:
        x, w = lazy(w), np.asarray(x)
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
    return lazy(found).astype(x.dtype)


def coarsen(reduction: Callable[..., Any], x: Any, axes: dict[int, int], trim_excess: bool = False, **kwargs: Any) -> Array:
    """A reduction of neighbours: ``coarsen(np.mean, x, {0: 2})`` takes two at a time along the first axis. What is left over at the end is an error, or left out.

    >>> import numpy as np
    >>> coarsen(np.sum, np.arange(6).reshape(2, 3), {1: 2}, trim_excess=True).compute().tolist()
    [[1], [7]]
    """
    x = lazy(x)
    steps = [operator.index(axes.get(k, axes.get(k - x.ndim, 1))) for k in range(x.ndim)]
    if trim_excess:
        x = x[tuple(slice(0, n // step * step) for n, step in zip(x.shape, steps))]
    if any(step < 1 or n % step for n, step in zip(x.shape, steps)):
        raise ValueError(f"an array of shape {x.shape} has no whole number of neighbours by {axes}; trim_excess=True leaves out the rest")
    # Chunks hold whole groups, so each is reduced where it is.
    x = x.rechunk(tuple(max(max(c, default=1) // step, 1) * step for c, step in zip(x.chunks, steps)))
    split = x.reshape([part for n, step in zip(x.shape, steps) for part in (n // step, step)])
    found: Array = reduction(split, axis=tuple(range(1, 2 * x.ndim, 2)), **kwargs)
    return found


@numpy_function
def correlate(a: Any, v: Any, mode: str = "valid") -> Array:
    x, w = (lazy(a), np.asarray(v)) if isinstance(a, Array) else (np.asarray(a), lazy(v))
    if not isinstance(a, Array) or len(np.shape(w)) != 1 or w.shape[0] > x.size:
        raise NotImplementedError("correlate() takes a lazy array and a shorter one of NumPy")
    return convolve(x, np.conj(w[::-1]), mode)


FUNCTIONS["row_stack"] = vstack
