"""The modes of ``np.pad`` that compute what they put around an array."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._array import Array
from ._namespace import call

STATISTICS = {"mean": "mean", "minimum": "min", "maximum": "max"}
MODES = frozenset([*STATISTICS, "linear_ramp"])


def _piece(x: Array, axis: int, start: int, stop: int) -> Array:
    return x[(*[slice(None)] * axis, slice(start, stop))]


def _statistic(x: Array, axis: int, name: str, lengths: Any) -> Callable[[int, int], Array]:
    """What is put at an end: a statistic of so many elements there."""
    n = x.shape[axis]

    def at(end: int, width: int) -> Array:
        length = n if lengths is None else min(int(lengths[axis][end]), n)
        if length < 1:
            raise ValueError("stat_length of a pad is at least 1")
        found = call(STATISTICS[name], _piece(x, axis, 0, length) if end == 0 else _piece(x, axis, n - length, n), axis=axis, keepdims=True)
        if x.dtype.kind in "iu" and name == "mean":
            found = call("round", found)
        return call("broadcast_to", found.astype(x.dtype), [width if a == axis else m for a, m in enumerate(x.shape)])

    return at


def _ramp(x: Array, axis: int, values: Any) -> Callable[[int, int], Array]:
    """What is put at an end: numbers from a value to the element there."""
    n = x.shape[axis]

    def at(end: int, width: int) -> Array:
        edge = _piece(x, axis, 0, 1) if end == 0 else _piece(x, axis, n - 1, n)
        steps = np.arange(width) if end == 0 else np.arange(width)[::-1]
        part = (steps / width).reshape([width if a == axis else 1 for a in range(x.ndim)])
        value = float(values[axis][end])
        found = call("add", call("multiply", call("subtract", edge.astype(np.float64), value), part), value)
        return (call("floor", found) if x.dtype.kind in "iu" else found).astype(x.dtype)

    return at


def padded(x: Array, pairs: Sequence[Sequence[int]], mode: str, *, stat_length: Any = None, end_values: Any = 0) -> Array:
    """One axis after another, each with what has been put around the axes before."""
    import chunkwise

    for axis, widths in enumerate(pairs):
        if not any(widths):
            continue
        if not x.shape[axis]:
            raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
        if mode in STATISTICS:
            made = _statistic(x, axis, mode, None if stat_length is None else np.broadcast_to(stat_length, (x.ndim, 2)))
        else:
            made = _ramp(x, axis, np.broadcast_to(end_values, (x.ndim, 2)))
        parts = [made(0, int(widths[0]))] if widths[0] else []
        x = chunkwise.concat([*parts, x, *([made(1, int(widths[1]))] if widths[1] else [])], axis=axis)
    return x
