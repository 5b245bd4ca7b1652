"""Differences over a spacing, as ``numpy.gradient``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ._array import Array
from ._namespace import call


def _spacings(varargs: Sequence[Any], shape: Sequence[int], axes: Sequence[int]) -> list[Any]:
    """For each axis the spacing, one number where it is uniform, or the differences of the coordinates."""
    given = [np.asarray(v) for v in varargs] or [np.asarray(1.0)]
    if len(given) == 1 and given[0].ndim == 0:
        given *= len(axes)
    if len(given) != len(axes):
        raise TypeError(f"{len(varargs)} spacings for {len(axes)} axes: give none, one number, or a number or the coordinates for each axis")
    found: list[Any] = []
    for values, axis in zip(given, axes):
        if values.dtype.kind not in "biuf":
            raise TypeError(f"spacings are numbers, not {values.dtype}")
        if values.ndim > 1 or values.ndim == 1 and len(values) != shape[axis]:
            raise ValueError(f"the coordinates of axis {axis} have the shape {values.shape}, and the axis has the length {shape[axis]}")
        steps = np.diff(values.astype(np.float64)) if values.ndim else values.astype(np.float64)
        found.append(float(steps.flat[0]) if steps.size and (steps == steps.flat[0]).all() else steps)
    return found


def _weighted(parts: Sequence[tuple[Any, Any]]) -> Any:
    products = [weight * part for weight, part in parts]
    total = products[0]
    for product in products[1:]:
        total = total + product
    return total


def _along(f: Array, step: Any, axis: int, order: int) -> Array:
    n = f.shape[axis]
    if n < order + 1:
        raise ValueError(f"axis {axis} has the length {n}; edge_order={order} needs {order + 1} elements at least")
    uniform = isinstance(step, float)
    before, after = call("roll", f, 1, axis=axis), call("roll", f, -1, axis=axis)
    place = [1] * f.ndim
    place[axis] = n

    def shaped(values: Any) -> Any:
        return np.asarray(values).reshape(place)

    if uniform:
        inner = (after - before) / np.asarray(2.0 * step)
    else:
        one, two = step[:-1], step[1:]
        weights = (-two / (one * (one + two)), (two - one) / (one * two), one / (two * (one + two)))
        padded = [shaped(np.pad(w, 1)) for w in weights]
        inner = _weighted(list(zip(padded, (before, f, after))))

    def at(i: int) -> Array:
        i %= n
        return f[(slice(None),) * axis + (slice(i, i + 1),)]

    steps = [step] * 2 if uniform else [step[0], step[min(1, len(step) - 1)]]
    last = [step] * 2 if uniform else [step[max(len(step) - 2, 0)], step[-1]]
    if order == 1:
        left, right = (at(1) - at(0)) / np.asarray(steps[0]), (at(-1) - at(-2)) / np.asarray(last[1])
    else:
        a, b = map(np.asarray, steps)
        left = _weighted([(-(2.0 * a + b) / (a * (a + b)), at(0)), ((a + b) / (a * b), at(1)), (-a / (b * (a + b)), at(2))])
        a, b = map(np.asarray, last)
        right = _weighted([(b / (a * (a + b)), at(-3)), (-(b + a) / (a * b), at(-2)), ((2.0 * b + a) / (b * (a + b)), at(-1))])
    index = np.arange(n)
    ends = call("where", shaped(index == n - 1), right, inner)
    return call("where", shaped(index == 0), left, ends).astype(f.dtype)


def gradient(f: Array, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """The gradient by central differences, and by differences of one side at the ends.

    ``varargs`` are the spacing: nothing for 1, one number for all axes, or for each axis a number or the coordinates of its elements. ``axis``
    is an axis or several, and all if it is None. ``edge_order`` is the order of accuracy at the ends, 1 or 2. The result has the shape of
    ``f``; for several axes, there is a tuple of them. Integers become ``float64``. As ``numpy.gradient``.

    >>> import numpy as np, chunkwise as cw
    >>> cw.gradient(cw.asarray(np.array([1.0, 2.0, 4.0, 7.0]))).compute()
    array([1. , 1.5, 2.5, 3. ])
    """
    if edge_order not in (1, 2):
        raise ValueError("edge_order is 1 or 2")
    if f.dtype.kind not in "biufc":
        raise TypeError(f"gradient takes numbers, not {f.dtype}")
    given = range(f.ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = [operator.index(a) for a in given]
    if any(not -f.ndim <= a < f.ndim for a in axes):
        raise np.exceptions.AxisError(f"axis {axis} is out of bounds for {f.ndim} axes")
    axes = [a % f.ndim for a in axes]
    # Neighbours have other labels, and would not be aligned.
    bare = Array(f._lazy.bare())
    if f.dtype.kind in "biu":
        bare = bare.astype(np.float64)
    found = tuple(_along(bare, step, a, edge_order)._like(f) for step, a in zip(_spacings(varargs, f.shape, axes), axes))
    return found[0] if len(found) == 1 else found
