"""A reduction by groups, with functions of the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import numpy as np

from . import _chunkwise
from ._array import Array
from ._functions import _at_once, _axes, _function, _name_of, blockwise
from ._namespace import dtype_name

#: Where partial results of several blocks lie beside each other.
DUMMY = -1


class _Packed:
    """Partial results of several fields as bytes, which the engine stores. Other dtypes stay as they are."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = np.dtype(dtype)
        self.fields = self.dtype.names

    @property
    def stored(self) -> np.dtype[Any]:
        return np.dtype(np.uint8) if self.fields else self.dtype

    @property
    def length(self) -> int:
        """Of the axis in front that has the bytes."""
        return self.dtype.itemsize if self.fields else 1

    def packed(self, made: Any) -> np.ndarray[Any, Any]:
        """What a function has made: an array, or a mapping of fields to arrays."""
        if isinstance(made, Mapping):
            if not self.fields or set(made) != set(self.fields):
                raise ValueError(f"the function returned the fields {sorted(made)}, and intermediate_dtype is {self.dtype}")
            values = {name: np.asarray(made[name]) for name in self.fields}
            out = np.empty(np.broadcast_shapes(*(v.shape for v in values.values())), self.dtype)
            for name, value in values.items():
                out[name] = value
        else:
            out = np.asarray(made, self.dtype)
        if not self.fields:
            return out[np.newaxis, ...]
        packed: np.ndarray[Any, Any] = np.moveaxis(np.ascontiguousarray(out)[..., np.newaxis].view(np.uint8), -1, 0)
        return packed

    def unpacked(self, block: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if not self.fields:
            return block[0, ...]
        values: np.ndarray[Any, Any] = np.ascontiguousarray(np.moveaxis(block, 0, -1)).view(self.dtype)[..., 0]
        return values


def groupby_reduction(
    x: Array,
    by: Any,
    func: Callable[..., Any],
    combine_func: Callable[..., Any],
    aggregate_func: Callable[..., Any] | None = None,
    axis: int | tuple[int, ...] = 0,
    intermediate_dtype: Any = None,
    dtype: Any = None,
    keepdims: bool = False,
    split_every: int = 8,
    num_groups: int | None = None,
    extra_func_kwargs: Mapping[str, Any] | None = None,
    *,
    memory: int | str | None = None,
    timeout: float | None = None,
) -> Array:
    """A reduction of groups along an axis, with functions of the user, as a tree. The axis has ``num_groups`` elements afterwards.

    ``by`` has the number of its group for each element along ``axis``. ``func(block, by, axis=, intermediate_dtype=, num_groups=)`` reduces a block: its result has ``num_groups``
    elements along ``axis``. ``combine_func(partials, axis=, dummy_axis=, dtype=, keepdims=True)`` gets the results of up to ``split_every`` blocks side by side
    along ``dummy_axis``, and reduces that axis to length 1. ``aggregate_func(combined)`` makes the result of what is combined, by default it is the result. If
    ``intermediate_dtype`` has several fields, functions get arrays with these, and may return a mapping of fields to arrays.

    With ``keepdims`` the axis of length 1 along which blocks were combined stays, as the last one. For the other options see :func:`map_blocks`.

    >>> import chunkwise as cw, numpy as np
    >>> def sums(block, by, axis, intermediate_dtype, num_groups):
    ...     return np.stack([block[by == k].sum() for k in range(num_groups)])
    >>> def add(partials, axis, dummy_axis, dtype, keepdims):
    ...     return partials.sum(dummy_axis, keepdims=keepdims)
    >>> x = cw.from_array(np.arange(6.0), chunks=2)
    >>> cw.groupby_reduction(x, np.array([0, 1, 0, 1, 0, 1]), sums, add, num_groups=2).compute()
    array([6., 9.])
    """
    axes = _axes(axis, x.ndim)
    if len(axes) != 1:
        raise ValueError(f"groups are along one axis, and not along {axis}")
    if num_groups is None:
        raise TypeError("num_groups= is needed: it is how many groups there are")
    (along,) = axes
    if not isinstance(by, Array):
        from ._inputs import from_array

        by = from_array(np.asarray(by))
    if by.shape != (x.shape[along],):
        raise ValueError(f"by has the shape {by.shape}, and axis {along} has {x.shape[along]} elements")
    split_every = _at_once(split_every)
    count, extra = int(num_groups), dict(extra_func_kwargs or {})
    pack = _Packed(intermediate_dtype or dtype or x.dtype)
    result = np.dtype(dtype if dtype is not None else pack.dtype)
    if result.names:
        raise TypeError("dtype= is needed: the dtype of what aggregate_func returns")

    def grouped(block: Any, by: Any) -> Any:
        made = func(block, by, axis=along, intermediate_dtype=pack.dtype, num_groups=count, **extra)
        return pack.packed(made)[..., np.newaxis]

    def combine(block: Any, axis: Any, keepdims: bool) -> Any:
        made = combine_func(pack.unpacked(block), axis=(DUMMY, along), dummy_axis=DUMMY, dtype=pack.dtype, keepdims=True, **extra)
        return pack.packed(made)

    def aggregate(block: Any) -> Any:
        whole = pack.unpacked(block)
        return aggregate_func(whole) if aggregate_func is not None else whole

    for own, of in ((grouped, func), (combine, combine_func), (aggregate, aggregate_func or combine_func)):
        own.__name__ = _name_of(of)
    # The axes of a block of partial results: bytes, those of x with groups instead of elements, and the blocks along the axis.
    labels = [f"x{k}" for k in range(x.ndim)]
    partial = ["bytes", *(label if k != along else "groups" for k, label in enumerate(labels)), labels[along]]
    partials = blockwise(
        grouped,
        partial,
        x,
        labels,
        by.rechunk((x.chunks[along],)),
        [labels[along]],
        dtype=pack.stored,
        new_axes={"bytes": pack.length, "groups": count},
        adjust_chunks={labels[along]: 1},
        memory=memory,
        timeout=timeout,
    )
    one = prod(max(c, default=0) for c in partials.chunks) * pack.stored.itemsize
    last = partials.ndim - 1
    given = {"axis": (last,), "keepdims": True}

    options = {"memory": memory, "timeout": timeout}
    several = _function(combine, [(0, None)], given, [pack.stored], False, (split_every + 1) * one, options)
    name = dtype_name(pack.stored)
    lazy = _chunkwise.reduce((several, several, several), partials._lazy, [last], (name, name), True, split_every)
    out = blockwise(aggregate, partial[1:], Array(lazy), partial, dtype=result, memory=memory, timeout=timeout)
    return out if keepdims else out[..., 0]
