"""Functions of NumPy that need whole rows: medians and quantiles.

The engine has no operation for them. So NumPy computes them, in processes as it does functions of users: each gets blocks that are whole along the
axes of the function. Other axes are cut so that these blocks stay small.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from ._array import Array
from ._functions import apply_gufunc
from ._namespace import call

#: Bytes of a block, if rows are not longer.
BLOCK = 16_000_000
SORTED = frozenset(("sort", "argsort", "partition", "argpartition"))
ORDERED = frozenset(("median", "nanmedian", "quantile", "nanquantile", "percentile", "nanpercentile"))


def moved(x: Array, axes: list[int]) -> Array:
    """The array with these axes whole and at the end."""
    others = [a for a in range(x.ndim) if a not in axes]
    lengths = {a: max(x.chunks[a], default=1) for a in others}
    row = x.itemsize * prod(x.shape[a] for a in axes)
    while row * prod(lengths.values()) > BLOCK and any(n > 1 for n in lengths.values()):
        longest = max(lengths, key=lambda a: lengths[a])
        lengths[longest] = -(-lengths[longest] // 2)
    return call("permute_dims", x.rechunk({**lengths, **dict.fromkeys(axes, -1)}), [*others, *axes])


def _axes(axis: Any, ndim: int) -> list[int]:
    given = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [operator.index(a) for a in given]
    if any(not -ndim <= a < ndim for a in axes):
        raise np.exceptions.AxisError(f"axis {axis} is out of bounds for {ndim} axes")
    return [a % ndim for a in axes]


def _plain(name: str, kwargs: dict[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    """Options without those that say nothing."""
    kept = {k: v for k, v in kwargs.items() if v is not None and v is not False and v is not getattr(np, "_NoValue")}  # noqa: B009
    if unknown := kept.keys() - set(known):
        raise NotImplementedError(f"chunkwise has no {min(unknown)}= of {name}; compute() the array first")
    return kept


def along(function: Callable[..., Any], x: Array, axis: int, dtype: Any, memory: int | None = None) -> Array:
    """A function of whole rows along an axis, which is called with ``axis=-1`` and keeps their shape."""
    [axis] = _axes(axis, x.ndim)

    def rows(block: Any) -> Any:
        return function(block, axis=-1)

    rows.__name__ = getattr(function, "__name__", "rows")
    found = apply_gufunc(rows, "(i)->(i)", moved(x, [axis]), output_dtypes=dtype, memory=memory)
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    result: Array = call("permute_dims", found, order)
    return result


def sorted_by_numpy(name: str, x: Array, *args: Any, axis: int | None = -1, **kwargs: Any) -> Array:
    """``sort``, ``argsort``, ``partition`` and ``argpartition`` of NumPy, along one axis."""
    if "partition" in name:
        kwargs.setdefault("kth", args[0] if args else None)
        args = args[1:]
    if args:
        axis = args[0]
    if axis is None:
        x, axis = x.reshape([-1]), 0
    function, options = getattr(np, name), {k: v for k, v in kwargs.items() if v is not None}

    def rows(block: Any, axis: int) -> Any:
        return function(block, axis=axis, **options)

    rows.__name__ = name
    return along(rows, x, axis, np.int64 if name.startswith("arg") else x.dtype)


def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The elements in order along one axis, of which a row must fit into memory. NaN is the greatest."""
    found = sorted_by_numpy("sort", x, axis=axis, kind="stable" if stable else None)
    return call("flip", found, axis=axis % x.ndim) if descending else found


def argsort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Array:
    """The positions of the elements in order along one axis. Equal elements stay in their order."""
    kind = "stable" if stable else None
    if not descending:
        return sorted_by_numpy("argsort", x, axis=axis, kind=kind)
    axis %= x.ndim
    turned = sorted_by_numpy("argsort", call("flip", x, axis=axis), axis=axis, kind=kind)
    return call("subtract", x.shape[axis] - 1, call("flip", turned, axis=axis))


def ordered(name: str, x: Array, *args: Any, axis: Any = None, keepdims: bool = False, **kwargs: Any) -> Array:
    """A median or quantiles over axes. Quantiles of several ``q`` are on a first axis."""
    if "median" in name:
        q, axis = None, args[0] if args else axis
        options = _plain(name, kwargs, ())
    else:
        q, axis = np.asarray(args[0] if args else kwargs.pop("q")), args[1] if len(args) > 1 else axis
        options = _plain(name, kwargs, ("method",))
        if q.ndim > 1:
            raise NotImplementedError(f"q of {name} is a number or a list of numbers")
    axes = sorted(_axes(axis, x.ndim))
    function, last = getattr(np, name), tuple(range(-len(axes), 0))
    given = () if q is None else (q.item() if q.ndim == 0 else q,)
    dtype = function(np.ones(1, x.dtype), *given, **options).dtype

    plain = getattr(np, name.removeprefix("nan"))
    skips = plain is not function and x.dtype.kind in "fc"

    def over(block: Any) -> Any:
        # NumPy looks at each row by itself where it leaves something out, which takes ten times as long.
        holes = np.isnan(block).any(axis=last) if skips else np.zeros((), bool)
        if not holes.any():
            found = plain(block, *given, axis=last, **options)
        elif holes.all():
            found = function(block, *given, axis=last, **options)
        else:
            found = np.empty((*(np.shape(given[0]) if given else ()), *holes.shape), dtype)
            for rows, of in ((~holes, plain), (holes, function)):
                found[..., rows] = of(block[rows], *given, axis=last, **options)
        return np.moveaxis(found, 0, -1) if given and np.ndim(given[0]) else np.asarray(found)

    over.__name__ = name
    core = ",".join(f"i{k}" for k in range(len(axes)))
    several = q is not None and q.ndim == 1
    sizes = {"q": len(q)} if several and q is not None else None
    found: Array = apply_gufunc(over, f"({core})->({'q' if several else ''})", moved(x, axes), output_dtypes=dtype, output_sizes=sizes)
    if several:
        found = call("permute_dims", found, [found.ndim - 1, *range(found.ndim - 1)])
    if keepdims:
        for a in axes:
            found = call("expand_dims", found, axis=a + int(several))
    return found


def median(x: Array, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The median over one or several axes, or over all. As :func:`numpy.median`; ``np.nanmedian(x)`` leaves out what is missing."""
    return ordered("median", x, axis=axis, keepdims=keepdims)


def quantile(x: Array, q: Any, axis: Any = None, *, method: str = "linear", keepdims: bool = False) -> Array:
    """Quantiles over one or several axes, or over all. Several ``q`` are on a first axis. As :func:`numpy.quantile`."""
    return ordered("quantile", x, q, axis=axis, method=method, keepdims=keepdims)


def topk(a: Array, k: int, axis: int = -1) -> Array:
    """The ``k`` largest elements along an axis, the largest first, or for a negative ``k`` the smallest, the smallest first. A row must fit into memory."""
    [axis] = _axes(axis, a.ndim)
    ordered = sort(a, axis=axis)
    return _first(call("flip", ordered, axis=axis) if k > 0 else ordered, k, axis)


def argtopk(a: Array, k: int, axis: int = -1) -> Array:
    """The positions of the elements of :func:`topk`."""
    [axis] = _axes(axis, a.ndim)
    ordered = argsort(a, axis=axis)
    return _first(call("flip", ordered, axis=axis) if k > 0 else ordered, k, axis)


def _first(a: Array, k: int, axis: int) -> Array:
    return a[(*[slice(None)] * axis, slice(0, abs(operator.index(k))))]
