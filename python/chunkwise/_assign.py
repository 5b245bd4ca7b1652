"""Assignment to elements: the array becomes another one, in which a choice is made between new and old elements."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from ._index import _adjacent, _entries, _looked_up, _without_dots
from ._namespace import call

if TYPE_CHECKING:
    from ._array import Array


def assigned(x: Array, key: Any, value: Any) -> Array:
    """The array after ``x[key] = value``, where ``key`` is a mask, or a number, a slice or a list of positions for each axis."""
    from ._array import Array
    from ._inputs import from_array, unmasked
    from ._selection import Selection

    if isinstance(value, Selection):
        # Elements of an array of the same shape, at the same places.
        return _masked(x, key, value.assigned_by(key).astype(x.dtype), True)
    if isinstance(value, (bool, int, float, complex)):
        value = np.asarray(value, x.dtype).item()
    else:
        value = (value if isinstance(value, Array) else from_array(np.asarray(unmasked(value)))).astype(x.dtype)
        value = value if value.ndim else call("reshape", value, [])
    if isinstance(key, bool) or getattr(key, "dtype", None) == np.bool_:
        return _masked(x, key, value, False)
    given = _entries(x, key)
    entries = _without_dots(x, given)
    if any(e is None for e in entries):
        raise IndexError("an assignment takes no new axes")
    if sum(isinstance(e, np.ndarray) and e.ndim > 0 for e in entries) > 1 or any(isinstance(e, np.ndarray) and e.ndim > 1 for e in entries):
        raise NotImplementedError("an assignment takes positions of one axis only; for points compute() the array first, or use where()")
    entries = [int(e) if isinstance(e, np.ndarray) and e.ndim == 0 else e for e in entries]
    entries.extend([slice(None)] * (x.ndim - len(entries)))
    if isinstance(value, Array):
        # Apart from a number, a list of positions comes first in the values, as in what such an index selects.
        value = _spread(value, entries, x.shape, any(isinstance(e, np.ndarray) for e in entries) and not _adjacent(given))
    mask = _mask(entries, x.shape)
    if mask is None:
        return (call("broadcast_to", value, list(x.shape)) if isinstance(value, Array) else call("full", list(x.shape), value, dtype=x.dtype.name))._like(x)
    found: Array = call("where", mask, value, x)
    return found.astype(x.dtype)._like(x)


def _masked(x: Array, mask: Any, value: Any, selected: bool) -> Array:
    """``selected`` is true of a value that has the shape of the array, since a mask has selected elements of it."""
    from ._array import Array
    from ._inputs import from_array

    known = None if isinstance(mask, Array) else np.asarray(mask)
    mask = from_array(known) if known is not None else mask
    if mask.shape != x.shape[: mask.ndim]:
        raise IndexError(f"a mask of shape {mask.shape} does not fit an array of shape {x.shape}")
    if selected and value.shape != x.shape:
        raise ValueError(f"could not assign what a lazy mask has selected of an array of shape {value.shape} to an array of shape {x.shape}")
    if not selected and isinstance(value, Array) and value.ndim > x.ndim - mask.ndim and mask.ndim:
        if known is None:
            raise NotImplementedError(
                "how many values a lazy mask takes is not known: assign one value, or what the same mask has selected (x[mask] = y[mask]), or use where()"
            )
        value = _listed(value, known, x.shape)
    mask = mask[(..., *[None] * (x.ndim - mask.ndim))]
    found: Array = call("where", mask, value, x)
    return found.astype(x.dtype)._like(x)


def _listed(value: Array, mask: np.ndarray[Any, Any], shape: tuple[int, ...]) -> Array:
    """A list of values at the places where a mask is true, one after another, in an array of this shape."""
    from ._inputs import from_array

    count, rest = int(np.count_nonzero(mask)), shape[mask.ndim :]
    if value.ndim != 1 + len(rest) or value.shape[0] not in (1, count):
        raise ValueError(f"cannot assign values of shape {value.shape} to {count} elements where the mask is true")
    if value.shape[0] == 1 or not count:
        return value[0] if value.shape[0] else call("zeros", list(shape), dtype=value.dtype.name)
    # Where the mask is false, the value before is as good as any.
    at = np.maximum(np.cumsum(mask.reshape(-1)) - 1, 0).reshape(mask.shape)
    if value.shape[1:] != rest:
        value = call("broadcast_to", value, [count, *rest])
    return _looked_up(value, from_array(at), 0)


def _span(e: Any, n: int) -> range | None:
    """The positions of a number or a slice; ``None`` for all of them."""
    if isinstance(e, slice):
        span = range(n)[e]
        return None if span == range(n) else span
    at = operator.index(e)
    if not -n <= at < n:
        raise IndexError(f"index {at} is out of bounds for an axis of size {n}")
    return range(at % n, at % n + 1)


def _mask(entries: list[Any], shape: tuple[int, ...]) -> Array | None:
    """Where elements are new; ``None`` if all are. For numbers and slices it is made of positions, not stored."""
    from ._inputs import from_array

    mask: Array | None = None
    for axis, (e, n) in enumerate(zip(entries, shape)):
        if isinstance(e, np.ndarray):
            truths = np.zeros(n, np.bool_)
            truths[e] = True
            one = from_array(truths)
        else:
            span = _span(e, n)
            if span is None:
                continue
            span = span if span.step > 0 else span[::-1]
            at = call("arange", n)
            one = call("logical_and", call("greater_equal", at, span.start), call("less", at, max(span.stop, span.start)))
            if span.step > 1:
                one = call("logical_and", one, call("equal", call("remainder", call("subtract", at, span.start), span.step), 0))
        one = one[(slice(None), *[None] * (len(shape) - 1 - axis))]
        mask = one if mask is None else call("logical_and", mask, one)
    return mask


def _spread(value: Array, entries: list[Any], shape: tuple[int, ...], first: bool) -> Array:
    """The values at the places that they get, in an array of this shape; what is at other places is of no account.

    ``first`` is true if the axis of the positions is the first one of the values, wherever it is in the array.
    """
    kept = [axis for axis, e in enumerate(entries) if not isinstance(e, int)]
    lengths = []
    for axis in kept:
        e = entries[axis]
        span = None if isinstance(e, np.ndarray) else _span(e, shape[axis])
        lengths.append(len(e) if isinstance(e, np.ndarray) else shape[axis] if span is None else len(span))
    while value.ndim > len(kept) and value.shape[0] == 1:
        value = value[0]
    at = next((k for k, axis in enumerate(kept) if first and isinstance(entries[axis], np.ndarray)), 0)
    wanted = (*lengths[at : at + 1], *lengths[:at], *lengths[at + 1 :])
    try:
        np.broadcast_to(np.empty(value.shape, np.bool_), wanted)
    except ValueError:
        raise ValueError(f"could not broadcast input array from shape {value.shape} into shape {wanted}") from None
    value = value[(*[None] * (len(kept) - value.ndim), ...)]
    if at:
        value = call("permute_dims", value, [*range(1, at + 1), 0, *range(at + 1, len(kept))])
    for k, axis in enumerate(kept):
        e, n = entries[axis], shape[axis]
        if value.shape[k] == 1 or 0 in lengths:
            continue
        if isinstance(e, np.ndarray):
            # Of a position that occurs twice, the last value counts.
            back = np.zeros(n, np.int64)
            back[e] = np.arange(len(e))
            value = call("take", value, back.tolist(), axis=k)
        elif (span := _span(e, n)) is not None:
            if span.step < 0:
                value, span = call("flip", value, axis=k), span[::-1]
            if span.step > 1:
                value = call("repeat", value, span.step, axis=k)
            value = value[(*[slice(None)] * k, slice(0, n - span.start))]
            widths = [[0, 0] for _ in value.shape]
            widths[k] = [span.start, n - span.start - value.shape[k]]
            value = call("pad", value, widths)
    for axis, e in enumerate(entries):
        if isinstance(e, int):
            value = call("expand_dims", value, axis)
    if 0 in value.shape:
        return call("zeros", list(shape), dtype=value.dtype.name)
    return value
