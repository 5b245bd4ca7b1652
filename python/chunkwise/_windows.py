"""Windows that slide over axes, as ``numpy.lib.stride_tricks.sliding_window_view``.

Each element is in as many windows as these are long, so an array of windows is large. Reductions of windows are moving sums and the like, which
the engine computes from the array itself.
"""

from __future__ import annotations

import operator
from types import SimpleNamespace
from typing import Any

import numpy as np

from ._array import Array
from ._namespace import TABLE, call

#: For each axis that windows slide over, in order: their length, and the axis.
Sliding = tuple[tuple[int, int], ...]
#: Reductions of windows that are operations of the engine.
_MOVING = {"sum": "moving_sum", "mean": "moving_mean", "max": "moving_max", "min": "moving_min"}
_NEUTRAL = {"nansum": 0.0, "nanmax": -np.inf, "nanmin": np.inf}


def _windows(base: Array, sliding: Sliding) -> Array:
    """An array of windows, which knows what they slide over."""
    stacked = base
    for window, axis in sliding:
        n, before = stacked.shape[axis] - window + 1, (slice(None),) * axis
        stacked = call("stack", [stacked[(*before, slice(i, i + n))] for i in range(window)], axis=-1)
    stacked._windows = (base, sliding)
    return stacked


def sliding_window_view(x: Array, window_shape: Any, axis: Any = None, *, subok: bool = False, writeable: bool = False) -> Array:
    """Windows of an array: its shape, shorter by the windows, and at the end the shape of a window.

    ``window_shape`` is a length or several, ``axis`` the axis of each, or None for all axes in order. The result is lazy, and never a view.
    ``sum``, ``mean``, ``max`` and ``min`` over the windows cost about as much as over the array; other functions compute each window by itself.

    >>> import chunkwise as cw
    >>> cw.lib.stride_tricks.sliding_window_view(cw.arange(5), 3).compute()
    array([[0, 1, 2],
           [1, 2, 3],
           [2, 3, 4]])
    """
    lengths = [operator.index(w) for w in (window_shape if isinstance(window_shape, (tuple, list)) else (window_shape,))]
    given = range(x.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [operator.index(a) for a in given]
    if len(lengths) != len(axes):
        raise ValueError(f"{len(lengths)} lengths of windows for {len(axes)} axes")
    if any(not -x.ndim <= a < x.ndim for a in axes):
        raise np.exceptions.AxisError(f"axis {axis} is out of bounds for {x.ndim} axes")
    axes = [a % x.ndim for a in axes]
    left = list(x.shape)
    for length, a in zip(lengths, axes):
        left[a] -= length - 1
        if length < 1 or left[a] < 1:
            raise ValueError(f"windows of {length} elements do not fit axis {a}, which has the length {x.shape[a]}")
    # Elements of a window have other labels, and would not be aligned.
    return _windows(Array(x._lazy.bare()), tuple(zip(lengths, axes)))


#: Under the name that it has in NumPy, and by which xarray finds it.
lib = SimpleNamespace(stride_tricks=SimpleNamespace(sliding_window_view=sliding_window_view))


def _scalar(x: Any) -> bool:
    return isinstance(x, (bool, int, float, complex, np.generic)) or isinstance(x, np.ndarray) and x.ndim == 0


def _elementwise(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], sliding: Sliding, shape: tuple[int, ...]) -> Array | None:
    """The windows of what a function makes of the array, for arguments that are windows of the same kind, or numbers."""
    values = [a for a in args if not isinstance(a, str)] if name == "astype" else args
    bases = []
    for value in values:
        about = getattr(value, "_windows", None)
        if about is not None and about[1] == sliding and about[0].shape == shape:
            bases.append(about[0])
        elif _scalar(value) or name == "astype":
            bases.append(value)
        else:
            return None
    return _windows(call(name, *bases, *args[len(values) :], **kwargs), sliding)


def _reduced(name: str, base: Array, sliding: Sliding, axis: Any) -> Array | None:
    """A reduction over all axes of the windows, if it is a moving one of the engine."""
    ndim = base.ndim + len(sliding)
    axes = {operator.index(a) % ndim for a in (axis if isinstance(axis, (tuple, list)) else (axis,))}
    if axes != set(range(base.ndim, ndim)):
        return None
    if name in _NEUTRAL and base.dtype.kind not in "fc":
        name = name.removeprefix("nan")
    counts = None
    if name in _NEUTRAL:
        if base.dtype.kind == "c":
            return None
        missing = call("isnan", base)
        if name != "nansum":
            counts = _moved("moving_sum", call("logical_not", missing).astype(np.int64), sliding)
        base = call("where", missing, _NEUTRAL[name], base).astype(base.dtype)
        name = name.removeprefix("nan")
    if name not in _MOVING:
        return None
    if name == "sum" and base.dtype.kind in "biu":
        base = base.astype(np.uint64 if base.dtype.kind == "u" else np.int64)
    moved = _moved(_MOVING[name], base, sliding)
    return moved if counts is None else call("where", call("equal", counts, 0), np.nan, moved).astype(base.dtype)


def _moved(name: str, x: Array, sliding: Sliding) -> Array:
    for window, axis in sliding:
        x = call(name, x, window, axis=axis)
    return x


def through(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array | None:
    """What an operation makes of windows without taking them apart, or None if it does not."""
    first = next(a for a in args if getattr(a, "_windows", None) is not None)
    base, sliding = first._windows
    if name == "astype" or TABLE[name]["elementwise"]:
        return _elementwise(name, args, kwargs, sliding, base.shape)
    if (name in _MOVING or name in _NEUTRAL) and args and args[0] is first:
        known = dict(zip(("axis", "keepdims", "skipna"), args[1:])) | {"axis" if k == "dim" else k: v for k, v in kwargs.items()}
        axis = known.pop("axis", None)
        if axis is not None and not any(known.values()):
            return _reduced(name, base, sliding, axis)
    return None
