"""Cumulative functions by the names and arguments of NumPy, the Array API, Dask and xarray."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ._array import Array
from ._namespace import call, dtype_name

#: Functions of NumPy, with the operation that each one is and whether it leaves NaN out.
OF_NUMPY = {
    "cumsum": ("cumulative_sum", False),
    "cumprod": ("cumulative_prod", False),
    "nancumsum": ("cumulative_sum", True),
    "nancumprod": ("cumulative_prod", True),
    "cumulative_sum": ("cumulative_sum", False),
    "cumulative_prod": ("cumulative_prod", False),
}
#: Functions of elements whose ``accumulate`` is an operation.
ACCUMULATED = {"add": "cumulative_sum", "multiply": "cumulative_prod", "minimum": "cumulative_min", "maximum": "cumulative_max"}


def accumulated(operation: str, x: Array, axis: Any = None, dtype: Any = None, *, skipna: bool = False, flat: bool = False) -> Array:
    """A cumulative operation along one axis. ``flat``: without an axis it is that of all elements in C order."""
    if axis is None and x.ndim != 1:
        if not flat:
            raise ValueError(f"{operation} of an array of {x.ndim} axes needs axis=")
        x = x.reshape([-1])
    sums = operation in ("cumulative_sum", "cumulative_prod")
    if dtype is not None:
        x = x.astype(dtype)
    options = {"skipna": skipna} if sums else {}
    axis = 0 if axis is None else axis if isinstance(axis, str) else operator.index(axis)
    found = call(operation, x, axis, **options)
    return found if dtype is None else found.astype(dtype)


def of_numpy(name: str, x: Array, axis: Any = None, dtype: Any = None, **kwargs: Any) -> Array:
    """A function of NumPy."""
    operation, skipna = OF_NUMPY[name]
    if name.startswith("cumulative"):
        return (cumulative_sum if "sum" in name else cumulative_prod)(x, axis=axis, dtype=dtype, **kwargs)
    if unknown := [k for k, v in kwargs.items() if v is not None and v is not getattr(np, "_NoValue")]:  # noqa: B009
        raise NotImplementedError(f"chunkwise has no {min(unknown)}= of {name}; compute() the array first")
    return accumulated(operation, x, axis, dtype, skipna=skipna, flat=True)


def _with_initial(found: Array, axis: Any, value: int) -> Array:
    axis = 0 if axis is None else found._axis(axis)
    first = call("full", [1 if a == axis else n for a, n in enumerate(found.shape)], value, dtype=dtype_name(found.dtype))
    return call("concat", [first, found], axis=axis)


def cumulative_sum(
    x: Array, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False, skipna: bool | None = None, dim: Any = None
) -> Array:
    """The sums of the elements so far along an axis, which may be longer than memory. The shape is that of ``x``.

    Sums of integers are int64 or uint64. ``include_initial`` puts the sum of nothing in front, so that the axis is longer by one.
    """
    axis = dim if axis is None else axis
    found = accumulated("cumulative_sum", x, axis, dtype, skipna=bool(skipna))
    return _with_initial(found, axis, 0) if include_initial else found


def cumulative_prod(
    x: Array, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False, skipna: bool | None = None, dim: Any = None
) -> Array:
    """The products of the elements so far along an axis, which may be longer than memory. The shape is that of ``x``.

    Products of integers are int64 or uint64. ``include_initial`` puts the product of nothing in front, so that the axis is longer by one.
    """
    axis = dim if axis is None else axis
    found = accumulated("cumulative_prod", x, axis, dtype, skipna=bool(skipna))
    return _with_initial(found, axis, 1) if include_initial else found


def cumsum(x: Array, axis: Any = None, dtype: Any = None) -> Array:
    """The sums of the elements so far, along an axis or of all elements in C order. As :func:`numpy.cumsum`."""
    return of_numpy("cumsum", x, axis, dtype)


def cumprod(x: Array, axis: Any = None, dtype: Any = None) -> Array:
    """The products of the elements so far, along an axis or of all elements in C order. As :func:`numpy.cumprod`."""
    return of_numpy("cumprod", x, axis, dtype)


def cumreduction(
    func: Callable[..., Any], binop: Callable[..., Any] | None, ident: Any, x: Array, axis: int | None = None, dtype: Any = None
) -> Array:
    """A cumulative function along one axis, of ``func(block, axis=axis)``. As ``dask.array.reductions.cumreduction``.

    NumPy's own functions are operations of the engine. Any other one gets blocks that are whole along the axis, so that ``binop`` and ``ident``,
    which would join the results of blocks, are not needed.
    """
    name = getattr(func, "__name__", "")
    if getattr(np, name, None) is func and name in OF_NUMPY:
        return of_numpy(name, x, axis, dtype)
    from ._rows import along

    if axis is None:
        x, axis = x.reshape([-1]), 0
    return along(func, x, operator.index(axis), np.dtype(dtype or x.dtype))


def filled(x: Array, limit: int | None, axis: int) -> Array:
    """What is missing replaced by the last element before it that is not, at most ``limit`` positions before. As ``bottleneck.push``."""
    found = call("ffill", x, axis)
    n = x.shape[axis]
    if limit is None or limit >= n or x.dtype.kind not in "fc":
        return found
    shape = [n if a == axis % x.ndim else 1 for a in range(x.ndim)]
    place = call("arange", n).reshape(shape)
    last = call("cumulative_max", call("where", call("isnan", x), -1, place), axis)
    return call("where", call("less_equal", call("subtract", place, last), int(limit)), found, float("nan"))
