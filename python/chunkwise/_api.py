"""Functions of the Array API that are no operations of the engine, or are called in another way."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from ._array import Array
from ._inputs import from_array
from ._namespace import DTYPES, TABLE, call, on_device

newaxis = None
pi, e, inf, nan = np.pi, np.e, np.inf, np.nan

broadcast_shapes = np.broadcast_shapes


def isdtype(dtype: Any, kind: Any) -> bool:
    """True if a dtype is of a kind."""
    return bool(np.isdtype(np.dtype(dtype), kind))


def _dtyped(x: Any) -> Any:
    return x.dtype if isinstance(x, Array) else x


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype of a result of these arrays, dtypes and numbers."""
    return np.dtype(np.result_type(*(_dtyped(x) for x in arrays_and_dtypes)))


def can_cast(from_: Any, to: Any, /) -> bool:
    """True if values of a dtype, or of an array, keep their meaning in another."""
    return np.can_cast(_dtyped(from_), to)


def _has_lazy(x: Any) -> bool:
    return isinstance(x, Array) or isinstance(x, (list, tuple)) and any(map(_has_lazy, x))


@on_device
def asarray(obj: Any, /, dtype: Any = None, *, device: Any = None, copy: bool | None = None, chunks: Any = None) -> Array:
    """An array of a number, of nested lists, of values of NumPy, or of anything with a shape and a dtype. ``chunks`` are as for :func:`from_array`."""
    if isinstance(obj, Array):
        array = obj if chunks is None else obj.rechunk(chunks)
    elif isinstance(obj, (list, tuple)) and _has_lazy(obj):
        array = stack(obj)
        array = array if chunks is None else array.rechunk(chunks)
    else:
        array = from_array(obj if hasattr(obj, "dtype") else np.asarray(obj), chunks)
    return array if dtype is None or array.dtype == np.dtype(dtype) else call("astype", array, dtype)


@on_device
def astype(x: Array, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """The same values in another dtype."""
    return call("astype", x, dtype)


def _filled(shape: Any, value: Any, dtype: Any, chunks: Any = None) -> Array:
    shape = [operator.index(n) for n in shape] if isinstance(shape, Sequence) else [operator.index(shape)]
    if isinstance(value, (np.generic, np.ndarray)) and np.ndim(value) == 0:
        dtype, value = dtype or value.dtype, value.item()
    if isinstance(value, Array):
        return call("broadcast_to", astype(value, dtype or value.dtype), shape)
    if chunks is not None:
        from ._inputs import normalize_chunks

        lengths = [max(c, default=1) for c in normalize_chunks(chunks, tuple(shape), np.dtype(dtype or np.float64))]
        return call("full", shape, value, dtype=dtype, chunks=lengths)
    return call("full", shape, value, dtype=dtype)


@on_device
def zeros(shape: Any, dtype: Any = None, *, chunks: Any = None, device: Any = None) -> Array:
    """Zeros."""
    return _filled(shape, 0, dtype or np.float64, chunks)


@on_device
def ones(shape: Any, dtype: Any = None, *, chunks: Any = None, device: Any = None) -> Array:
    """Ones."""
    return _filled(shape, 1, dtype or np.float64, chunks)


@on_device
def empty(shape: Any, dtype: Any = None, *, chunks: Any = None, device: Any = None) -> Array:
    """Zeros: there are no values that nobody has set."""
    return _filled(shape, 0, dtype or np.float64, chunks)


@on_device
def full(shape: Any, fill_value: Any, dtype: Any = None, *, chunks: Any = None, device: Any = None) -> Array:
    """The same value everywhere."""
    return _filled(shape, fill_value, dtype, chunks)


@on_device
def full_like(x: Any, /, fill_value: Any, dtype: Any = None, *, shape: Any = None, chunks: Any = None, device: Any = None) -> Array:
    """The same value everywhere, in the shape, the dtype and the chunks of an array."""
    if chunks is None and shape is None and isinstance(x, Array):
        chunks = x.chunksize
    return _filled(x.shape if shape is None else shape, fill_value, dtype or x.dtype, chunks)


@on_device
def zeros_like(x: Any, /, dtype: Any = None, *, shape: Any = None, chunks: Any = None, device: Any = None) -> Array:
    """Zeros in the shape and the dtype of an array."""
    return full_like(x, 0, dtype=dtype, shape=shape, chunks=chunks, device=device)


@on_device
def ones_like(x: Any, /, dtype: Any = None, *, shape: Any = None, chunks: Any = None, device: Any = None) -> Array:
    """Ones in the shape and the dtype of an array."""
    return full_like(x, 1, dtype=dtype, shape=shape, chunks=chunks, device=device)


empty_like = zeros_like


def concat(arrays: Any, /, axis: Any = 0, *, dtype: Any = None, casting: Any = "same_kind") -> Array:
    """Arrays one after another along an axis; with ``axis=None``, all their elements."""
    arrays = [asarray(a) for a in arrays]
    if axis is None:
        arrays, axis = [call("reshape", a, [-1]) for a in arrays], 0
    dtype = result_type(*arrays) if dtype is None else dtype
    return call("concat", [a.astype(dtype, casting=casting) for a in arrays], axis=axis)


def stack(arrays: Any, /, axis: int = 0, *, dtype: Any = None, casting: Any = "same_kind") -> Array:
    """Arrays one after another along a new axis."""
    arrays = [asarray(a) for a in arrays]
    dtype = result_type(*arrays) if dtype is None else dtype
    return call("stack", [a.astype(dtype, casting=casting) for a in arrays], axis=axis)


def unstack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The arrays that lie along an axis."""
    axis = normalize_axis_index(axis, x.ndim)
    return tuple(x[(slice(None),) * axis + (i,)] for i in range(x.shape[axis]))


def broadcast_arrays(*arrays: Array) -> tuple[Array, ...]:
    """Arrays in their common shape."""
    shape = np.broadcast_shapes(*(a.shape for a in arrays))
    return tuple(call("broadcast_to", a, list(shape)) for a in arrays)


def matrix_transpose(x: Array, /) -> Array:
    """The last two axes exchanged."""
    return x.mT


def moveaxis(x: Array, source: Any, destination: Any, /) -> Array:
    """Axes at other places."""
    sources = normalize_axis_tuple(source, x.ndim, "source")
    destinations = normalize_axis_tuple(destination, x.ndim, "destination")
    if len(sources) != len(destinations):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [a for a in range(x.ndim) if a not in sources]
    for to, axis in sorted(zip(destinations, sources)):
        order.insert(to, axis)
    return call("permute_dims", x, order)


def transpose(x: Array, axes: Any = None) -> Array:
    """The axes in another order, by default the opposite one."""
    return x.transpose(axes)


def squeeze(x: Array, /, axis: Any = None) -> Array:
    """Without axes of length 1."""
    return x.squeeze(axis)


def reshape(x: Array, /, shape: Any, *, copy: bool | None = None) -> Array:
    """The same elements in another shape, in C order."""
    return x.reshape(shape)


def expand_dims(x: Array, /, axis: Any = 0) -> Array:
    """With new axes of length 1."""
    axes = axis if isinstance(axis, (tuple, list)) else [axis]
    for a in sorted(normalize_axis_tuple(axes, x.ndim + len(axes))):
        x = call("expand_dims", x, a)
    return x


def meshgrid(*arrays: Any, indexing: str = "xy", sparse: bool = False) -> tuple[Array, ...]:
    """Coordinates as arrays of the shape that they span; ``sparse`` ones have the length 1 along the axes of the others."""
    if indexing not in ("xy", "ij"):
        raise ValueError("indexing must be 'xy' or 'ij'")
    swap = indexing == "xy" and len(arrays) > 1
    order = [1, 0, *range(2, len(arrays))] if swap else list(range(len(arrays)))
    known = [asarray(a) for a in arrays]
    shape = [known[i].size for i in order]
    out = []
    for i, a in enumerate(known):
        lengths = [1] * len(arrays)
        lengths[order.index(i)] = a.size
        coordinates = a.reshape(lengths)
        out.append(coordinates if sparse else call("broadcast_to", coordinates, shape))
    return tuple(out)


def _folded(name: str) -> Any:
    def function(
        x: Array,
        /,
        axis: Any = None,
        dtype: Any = None,
        *,
        keepdims: bool = False,
        dim: Any = None,
        skipna: bool | None = None,
        **options: Any,
    ) -> Array:
        axis = dim if axis is None else axis
        if isinstance(axis, (tuple, list)) and not axis:
            # No axis is folded: each element is its own sum.
            if name.startswith("nan") and x.dtype.kind in "fc":
                x = astype(call("where", call("isnan", x), int(name == "nanprod"), x), x.dtype)
            small = x.dtype.kind in "biu" and x.dtype.itemsize < 8
            return astype(x, dtype or (np.uint64 if x.dtype.kind == "u" else np.int64 if small else x.dtype))
        if dtype is not None:
            x = astype(x, dtype)
        known = {} if skipna is None else {"skipna": skipna}
        result = call(name, x, dim=axis, keepdims=keepdims, **known, **options)
        # The engine adds up short integers in 64 bits.
        return result if dtype is None else astype(result, dtype)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "chunkwise"
    function.__doc__ = TABLE[name]["about"]
    return function


sum = _folded("sum")
prod_ = _folded("prod")
nansum = _folded("nansum")
nanprod = _folded("nanprod")


def pad(
    x: Array, pad_width: Any = None, mode: str = "constant", *, constant_values: Any = None, value: Any = 0, widths: Any = None, **options: Any
) -> Array:
    """With more elements before and after: a pair of numbers for each axis, as for ``np.pad``."""
    from ._padding import MODES, padded

    width = np.asarray(widths if pad_width is None else pad_width)
    pairs = np.broadcast_to(width, (x.ndim, 2)).tolist()
    if mode in MODES:
        return padded(x, pairs, mode, **options)
    if options := {k: v for k, v in options.items() if v is not None and (k, v) != ("reflect_type", "even")}:
        raise TypeError(f"pad() with mode {mode!r} takes no {min(options)}=")
    fill = np.asarray(value if constant_values is None else constant_values)
    if x.dtype == bool:
        # As NumPy: what is not zero is true.
        fill = fill.astype(bool)
    if mode != "constant" or fill.size == 1:
        return call("pad", x, pairs, mode=mode, **({"value": fill.reshape(()).item()} if mode == "constant" else {}))
    fills = np.broadcast_to(fill, (x.ndim, 2)).tolist()
    for axis in range(x.ndim):
        for end in (0, 1):
            if n := pairs[axis][end]:
                one = [[0, 0] for _ in range(x.ndim)]
                one[axis][end] = n
                x = call("pad", x, one, value=fills[axis][end])
    return x


class _Info:
    """What the namespace can do."""

    def capabilities(self) -> dict[str, Any]:
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 32}

    def default_device(self) -> str:
        return "cpu"

    def devices(self) -> tuple[str, ...]:
        return ("cpu",)

    @on_device
    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        kinds = {"real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64"}
        return {kind: np.dtype(name) for kind, name in kinds.items()}

    @on_device
    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        return {name: np.dtype(name) for name in DTYPES if kind is None or isdtype(name, kind)}


def __array_namespace_info__() -> _Info:
    return _Info()


def size(x: Array) -> int:
    """The number of elements."""
    return prod(x.shape)
