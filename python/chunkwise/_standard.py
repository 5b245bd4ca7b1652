"""Functions of the table whose arguments the Array API names or means in another way, and some that are made of several operations."""

from __future__ import annotations

import operator
from typing import Any, Literal, NamedTuple, overload

import numpy as np

from ._api import concat
from ._array import Array
from ._inputs import from_array, unmasked
from ._namespace import call, on_device


def _array(x: Any, like: Any = None) -> Array:
    return x if isinstance(x, Array) else from_array(np.asarray(unmasked(x), dtype=like))


def _dtyped(x: Any) -> Any:
    return x.dtype if isinstance(x, Array) else x


class FInfo(NamedTuple):
    """The limits of a dtype of floats, as numbers of Python."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    tiny: float
    resolution: float
    dtype: np.dtype[Any]


def finfo(type: Any, /) -> FInfo:
    """The limits of a dtype of floats, or of the dtype of an array."""
    info = np.finfo(_dtyped(type))
    numbers = {name: float(getattr(info, name)) for name in FInfo._fields[1:-1]}
    return FInfo(bits=int(info.bits), dtype=np.dtype(info.dtype), **numbers)


def iinfo(type: Any, /) -> np.iinfo[Any]:
    """The limits of a dtype of integers, or of the dtype of an array."""
    return np.iinfo(_dtyped(type))


@on_device
def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """The values of an array of another library, which are copied."""
    if copy is False and not isinstance(x, Array):
        raise BufferError("values of other libraries are copied")
    return x if isinstance(x, Array) else from_array(np.from_dlpack(x))


def _chunked(chunks: Any) -> dict[str, Any]:
    return {} if chunks is None else {"chunks": [chunks] if isinstance(chunks, int) else chunks}


@on_device
def arange(start: Any = None, stop: Any = None, step: Any = 1, *, dtype: Any = None, chunks: Any = None, device: Any = None) -> Array:
    """Numbers from ``start`` to ``stop`` in steps; ``stop`` does not belong to them. With one argument they begin at 0."""
    if start is None or stop is None:
        start, stop = 0, start if stop is None else stop
    numbers = [x.item() if isinstance(x, (np.generic, Array)) else x for x in (start, stop, step)]
    return call("arange", *numbers, dtype=dtype, **_chunked(chunks))


@overload
def linspace(
    start: Any, stop: Any, /, num: int = 50, *, dtype: Any = None, endpoint: bool = True, retstep: Literal[False] = False, chunks: Any = None, device: Any = None
) -> Array: ...


@overload
def linspace(
    start: Any, stop: Any, /, num: int = 50, *, dtype: Any = None, endpoint: bool = True, retstep: Literal[True], chunks: Any = None, device: Any = None
) -> tuple[Array, float]: ...


@on_device
def linspace(
    start: Any, stop: Any, /, num: int = 50, *, dtype: Any = None, endpoint: bool = True, retstep: bool = False, chunks: Any = None, device: Any = None
) -> Any:
    """``num`` numbers from ``start`` to ``stop`` with equal steps, without ``stop`` for ``endpoint=False``. With ``retstep=True`` the step comes, too."""
    x = call("linspace", start, stop, operator.index(num), endpoint=endpoint, **_chunked(chunks))
    if dtype is not None:
        # NumPy rounds to whole numbers below, not towards zero.
        x = (call("floor", x) if np.dtype(dtype).kind in "iu" else x).astype(dtype)
    steps = operator.index(num) - bool(endpoint)
    return (x, (stop - start) / steps if steps > 0 else np.nan) if retstep else x


@on_device
def eye(
    n_rows: int, n_cols: int | None = None, /, *, M: int | None = None, k: int = 0, dtype: Any = None, chunks: Any = None, device: Any = None
) -> Array:
    """The matrix with ones on a diagonal: the main one, or the ``k``-th above it. ``M`` is the number of columns, too."""
    n = operator.index(n_rows)
    n_cols = M if n_cols is None else n_cols
    m = n if n_cols is None else operator.index(n_cols)
    # A diagonal far outside is that just outside.
    k = max(-n, min(operator.index(k), m))
    return call("eye", n, m, k=k, dtype=np.float64 if dtype is None else dtype, **_chunked(chunks))


def _triangle(x: Array, k: int, lower: bool) -> Array:
    if x.ndim < 2:
        raise ValueError("a triangle needs at least two axes")
    n, m = x.shape[-2:]
    k = max(-n, min(operator.index(k), m))
    rows, columns = arange(n).reshape([n, 1]), arange(m).reshape([1, m])
    keep = columns <= rows + k if lower else columns >= rows + k
    return call("where", keep, x, call("full", [], 0, dtype=x.dtype.name))


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The elements on the ``k``-th diagonal and below, and zeros."""
    return _triangle(x, k, True)


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The elements on the ``k``-th diagonal and above, and zeros."""
    return _triangle(x, k, False)


def clip(x: Array, /, min: Any = None, max: Any = None, *, low: Any = None, high: Any = None) -> Array:
    """The elements, but none below ``min`` nor above ``max``; either may be ``None``. The dtype is that of ``x``."""
    return call("clip", x, low if min is None else min, high if max is None else max)


def take(x: Array, indices: Any, /, *, axis: Any = None, dim: Any = None) -> Array:
    """The elements at a list of indices along one axis, in this order. An array of indices is computed: they are part of the plan."""
    axis = dim if axis is None else axis
    if isinstance(indices, Array):
        indices = indices.compute()
    return call("take", x, indices, axis=0 if axis is None else axis)


def take_along_axis(x: Array, indices: Any, /, axis: Any = -1, *, dim: Any = None) -> Array:
    """The elements at the positions of another array along one axis. Other axes are broadcast. Positions are read when the plan runs."""
    axis = axis if dim is None else dim
    return call("take_along_axis", x, _array(indices), axis=axis)


def repeat(x: Array, repeats: Any, /, axis: Any = None, *, dim: Any = None) -> Array:
    """Each element several times in a row. An array of numbers is computed: the shape of the result depends on it."""
    axis = dim if axis is None else axis
    if isinstance(repeats, Array):
        repeats = repeats.compute()
    times = [operator.index(n) for n in np.ravel(repeats).tolist()]
    repeats = times[0] if len(times) == 1 else times
    return call("repeat", x, repeats, axis=axis)


def tile(x: Array, repetitions: Any, /) -> Array:
    """The whole array several times in a row, a number for each axis; missing ones are 1, and missing axes are new ones in front."""
    repeats = [operator.index(r) for r in repetitions] if isinstance(repetitions, (tuple, list)) else [operator.index(repetitions)]
    if len(repeats) > x.ndim:
        x = x.reshape([1] * (len(repeats) - x.ndim) + list(x.shape))
    return call("tile", x, [1] * (x.ndim - len(repeats)) + repeats)


def roll(x: Array, /, shift: Any, axis: Any = None, *, dim: Any = None) -> Array:
    """The elements moved by ``shift`` positions; those beyond the end come in at the beginning. Without ``axis``, as if it had one axis."""
    axis = dim if axis is None else axis
    if x.size == 0 or (axis is None and x.ndim == 0):
        return x
    if axis is None and x.ndim != 1:
        return roll(x.reshape([-1]), shift, axis=0).reshape(list(x.shape))
    axes = axis if isinstance(axis, (tuple, list)) else [0 if axis is None else axis]
    shifts = list(shift) if isinstance(shift, (tuple, list)) else [shift] * len(axes)
    if len(shifts) != len(axes):
        raise ValueError(f"{len(shifts)} shifts for {len(axes)} axes")
    for a, s in zip(axes, shifts):
        n = x.shape[x._axis(a)]
        x = call("roll", x, operator.index(s) % n, axis=a)
    return x


def diff(x: Array, n: int = 1, axis: Any = -1, *, dim: Any = None, prepend: Any = None, append: Any = None) -> Array:
    """The difference of successive elements along one axis, ``n`` times, after arrays are put before and behind."""
    axis = axis if dim is None else dim
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    parts = [x]
    for end, given in ((0, prepend), (1, append)):
        if given is not None:
            part = _array(given)
            if not part.ndim:
                part = call("broadcast_to", part, [1 if k == x._axis(axis) else n for k, n in enumerate(x.shape)])
            parts.insert(end * len(parts), part)
    if len(parts) > 1:
        x = concat(parts, axis=axis)
    return call("diff", x, n, axis=axis)


def isin(x1: Any, x2: Any, /, *, invert: bool = False) -> Array:
    """Whether each element of ``x1`` is one of those of ``x2``. Each is compared with each, so ``x2`` should have few."""
    x = x1 if isinstance(x1, Array) else _array(x1)
    few = _array(x2).reshape([-1])
    found = call("any", call("equal", x.reshape([*x.shape, 1]), few), axis=-1)
    return call("logical_not", found) if invert else found
