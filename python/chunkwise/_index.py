"""Index expressions as NumPy reads them, made of the engine's slices and its lists of positions.

Lists of positions are part of the plan. So a lazy array of whole numbers that is an index is computed when the expression is made, as ``int(x)`` is.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np

if TYPE_CHECKING:
    from ._array import Array

_Positions = np.ndarray[Any, Any]
#: Rows and columns with points are taken out first if they cross at no more places. The parts between more of them are read with the rest.
FEW = 64


def _positions(e: Any, lengths: tuple[int, ...]) -> list[_Positions]:
    """The positions that a list, or an array of whole numbers or truths, means: an array for each axis that it indexes."""
    from ._array import Array

    if isinstance(e, Array):
        if e.dtype.kind not in "iu":
            raise TypeError("a lazy array of truths is an index only by itself, as in x[mask]: compute() it first, or select with where(condition, x, value)")
        e = e.compute()
    values = np.asarray(e)
    if values.dtype == bool and values.ndim:
        if values.shape != lengths[: values.ndim]:
            raise IndexError(f"a mask of shape {values.shape} does not fit axes of lengths {lengths[: values.ndim]}")
        return list(np.nonzero(values))
    if values.size == 0 and not isinstance(e, np.ndarray):
        # NumPy takes an empty list for floats.
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise IndexError("an index is a whole number, a slice, None, an ellipsis, or an array of whole numbers or of truths")
    return [values]


def _entry(e: Any, lengths: tuple[int, ...]) -> list[Any]:
    if e is None or e is Ellipsis or isinstance(e, slice):
        return [e]
    if isinstance(e, (bool, np.bool_)):
        raise TypeError("True and False are no index")
    try:
        return [operator.index(e)]
    except TypeError:
        return _positions(e, lengths)


def _width(e: Any) -> int:
    """How many axes a part of an index is of."""
    if e is None or e is Ellipsis:
        return 0
    e = np.asarray(e) if isinstance(e, (list, tuple)) else e
    return int(e.ndim) if getattr(e, "dtype", None) == np.bool_ else 1


def _entries(x: Array, key: Any) -> list[Any]:
    """The parts of an index: whole numbers, slices, ``None``, the ellipsis, and positions."""
    out: list[Any] = []
    lengths = x.shape
    parts = key if isinstance(key, tuple) else (key,)
    for k, e in enumerate(parts):
        out.extend(_entry(e, lengths))
        # What comes after the ellipsis is aligned with the last axes.
        lengths = x.shape[max(x.ndim - sum(map(_width, parts[k + 1 :])), 0) :] if e is Ellipsis else lengths[_width(e) :]
    return out


def _takes_all(x: Array, entries: list[Any]) -> bool:
    """True for an index that leaves an array as it is, so that windows stay windows."""
    if len(entries) == 1 and entries[0] is Ellipsis:
        return True
    return len(entries) <= x.ndim and all(isinstance(e, slice) and e.indices(n) == (0, n, 1) for e, n in zip(entries, x.shape))


def getitem(x: Array, key: Any) -> Array:
    """``x[key]``, as NumPy reads it."""
    from ._array import Array

    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if isinstance(mask, Array) and mask.dtype == np.bool_ and mask.ndim:
        from ._selection import Selection

        return cast("Array", Selection(x, mask))
    entries = _entries(x, key)
    if _takes_all(x, entries):
        return x.copy()
    if not any(isinstance(e, np.ndarray) for e in entries):
        return Array(x._lazy.index(tuple(entries)))
    together = _adjacent(entries)
    picked, count, first = _picked(x, _without_dots(x, entries))
    return _moved(picked, count, first if together else 0)


def points(x: Array, key: Sequence[Any]) -> Array:
    """The elements where positions are taken together, with the axes of the positions first: what xarray calls a vectorized index."""
    from ._array import Array

    lazy = [axis for axis, e in enumerate(key) if isinstance(e, Array)]
    if len(lazy) == 1 and all(axis in lazy or e == slice(None) for axis, e in enumerate(key)):
        found = _looked_up(x, key[lazy[0]], lazy[0])
    else:
        found = _picked(x, _without_dots(x, _entries(x, tuple(key))))[0]
    found._half = x._half
    return found


class Points:
    """What ``x.vindex`` is."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __getitem__(self, key: Any) -> Array:
        entries = list(key) if isinstance(key, tuple) else [key]
        given = [np.asarray(e) if isinstance(e, (list, tuple)) else e for e in entries]
        return points(self.array, [*given, *[slice(None)] * (self.array.ndim - len(given))])


def _looked_up(x: Array, positions: Array, axis: int) -> Array:
    """The elements at positions along an axis that are known when the plan runs: no position is part of it. The axes of the positions come first."""
    rest = [i for i in range(x.ndim) if i != axis]
    x = x if axis == 0 else x._call("permute_dims", [axis, *rest])
    x = x[(slice(None), *[None] * positions.ndim, ...)]
    positions = positions[(None, ..., *[None] * len(rest))]
    return x._call("take_along_axis", positions, axis=0)._call("squeeze", [0])


def _picked(x: Array, entries: list[Any]) -> tuple[Array, int, int]:
    """The elements, with the axes of the positions first; how many these are; and the first axis that they index."""
    from ._array import Array

    # First all that is no position: each axis of the rest is one that positions index, or another.
    basic = tuple(slice(None) if isinstance(e, (int, np.ndarray)) else e for e in entries)
    y = Array(x._lazy.index(basic))
    axes = [i for i, e in enumerate(entries) if isinstance(e, (int, np.ndarray))]
    parts = [_inside(np.asarray(entries[i]), y.shape[i], i) for i in axes]
    shape = _common_shape(parts)
    picked = _outer(y, axes, parts, shape)
    if picked is None:
        picked = _points(y, axes, parts, shape)
    return picked, len(shape), axes[0]


def _adjacent(entries: list[Any]) -> bool:
    """True if nothing is between the numbers and positions of an index, not even an ellipsis that stands for no axis."""
    at = [i for i, e in enumerate(entries) if isinstance(e, (int, np.ndarray))]
    return at == list(range(at[0], at[-1] + 1))


def orthogonal(x: Array, key: Sequence[Any]) -> Array:
    """The elements where positions of one axis do not depend on those of another: what xarray calls an outer index."""
    from ._array import Array

    half = x._half
    for axis, e in reversed(list(enumerate(key))):
        if isinstance(e, Array):
            x = _moved(_looked_up(x, e, axis), e.ndim, axis)
    key = [entry for e in key for entry in ([slice(None)] * e.ndim if isinstance(e, Array) else [e])]
    entries = [e.tolist() if isinstance(e, np.ndarray) else e for e in _entries(x, tuple(key))]
    found = x.copy() if _takes_all(x, entries) else Array(x._lazy.index(tuple(entries)))
    found._half = half
    return found


def _without_dots(x: Array, entries: list[Any]) -> list[Any]:
    named = sum(e is not None and e is not Ellipsis for e in entries)
    if named > x.ndim:
        raise IndexError(f"too many indices: the array is {x.ndim}-dimensional, but {named} were indexed")
    dots = [i for i, e in enumerate(entries) if e is Ellipsis]
    if len(dots) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    at = dots[0] if dots else len(entries)
    return [*entries[:at], *[slice(None)] * (x.ndim - named), *entries[at + 1 :]]


def _common_shape(parts: list[_Positions]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(p.shape for p in parts))
    except ValueError:
        shapes = ", ".join(str(p.shape) for p in parts)
        raise IndexError(f"the arrays of an index are taken together, but their shapes {shapes} do not broadcast") from None


def _inside(p: _Positions, n: int, axis: int) -> _Positions:
    """Positions from the beginning."""
    p = p.astype(np.int64) if p.dtype != np.uint64 else p
    bad = p[(p >= n) | (p < -n)] if p.dtype != np.uint64 else p[p >= n]
    if bad.size:
        raise IndexError(f"index {bad.flat[0]} is out of bounds for axis {axis} with size {n}")
    return np.where(p < 0, p + n, p).astype(np.int64)


def _outer(y: Array, axes: list[int], parts: list[_Positions], shape: tuple[int, ...]) -> Array | None:
    """The elements, with the axes of the positions first, where each of these depends on one index alone; else ``None``."""
    # The axis of the result along which each part varies.
    varies: list[int | None] = []
    for p in parts:
        long = [len(shape) - p.ndim + i for i, n in enumerate(p.shape) if n != 1]
        if len(long) > 1 or (long and long[0] in varies):
            return None
        varies.append(long[0] if long else None)
    for axis, p in zip(axes, parts):
        y = y._call("take", p.reshape(-1).tolist(), axis=axis)
    order = sorted((a for a, v in zip(axes, varies) if v is not None), key=lambda a: varies[axes.index(a)] or 0)
    rest = [i for i in range(y.ndim) if i not in axes]
    short = [a for a, v in zip(axes, varies) if v is None]
    full = [*short, *order, *rest]
    y = y if full == list(range(y.ndim)) else y._call("permute_dims", full)
    for _ in short:
        y = y._call("squeeze", [0])
    for i in range(len(shape)):
        if i not in varies:
            y = y._call("expand_dims", i)
    return y


def _points(y: Array, axes: list[int], parts: list[_Positions], shape: tuple[int, ...]) -> Array:
    """The elements at single points, with the axes of the positions first."""
    from ._array import Array

    if prod(shape) == 0:
        from ._api import zeros

        return zeros((*shape, *(n for i, n in enumerate(y.shape) if i not in axes)), dtype=y.dtype)
    # Of few points only the chunks are read that have one of their rows and one of their columns.
    used = [np.unique(p, return_inverse=True) for p in parts]
    if prod(u.size for u, _ in used) <= FEW:
        parts = [at.reshape(p.shape) for p, (_, at) in zip(parts, used)]
        for axis, (rows, _) in zip(axes, used):
            y = y._call("take", rows.tolist(), axis=axis)
    picked = Array(y._lazy.points(axes, [np.broadcast_to(p, shape).reshape(-1).tolist() for p in parts]))
    return picked if len(shape) == 1 else picked.reshape([*shape, *picked.shape[1:]])


def _moved(y: Array, count: int, to: int) -> Array:
    """The first axes at another place."""
    if not to or not count:
        return y
    rest = list(range(count, y.ndim))
    return y._call("permute_dims", [*rest[:to], *range(count), *rest[to:]])
