"""Results under xarray that are texts, dates or objects. The engine has none of these, so they are values: what they are made of is computed at once, in one run."""

from __future__ import annotations

from typing import Any

import numpy as np
from xarray.core import dtypes, duck_array_ops

from . import _run
from ._array import Array
from ._hooks import divert
from ._namespace import NOT_NUMBERS


def _chosen(condition: Any, x: Any, y: Any) -> Any:
    """The first array of chunkwise, if what is chosen are no numbers."""
    like = [np.empty((0,) * v.ndim, v.dtype) if isinstance(v, Array) else v for v in (x, y)]
    return _first(condition, x, y) if dtypes.result_type(*like, xp=np).kind in NOT_NUMBERS else None


def _first(*data: Any) -> Any:
    return next((x for x in data if isinstance(x, Array)), None)


def _where(*args: Any) -> Any:
    return duck_array_ops.where(*_run.compute(*args))


def _mixed(arrays: Any, axis: int = 0) -> Any:
    """The first array of chunkwise, if what is joined are no numbers together."""
    given = list(arrays)
    return _first(*given) if any(getattr(getattr(x, "dtype", None), "kind", "f") in NOT_NUMBERS for x in given) else None


def _concatenated(arrays: Any, axis: int = 0) -> Any:
    return duck_array_ops.concatenate(_run.compute(*arrays), axis=axis)


def _mask(data: Any, dtype: Any, **_: Any) -> Any:
    """An array of truths that is to have room for NaN: xarray asks for objects then."""
    return data if isinstance(data, Array) and data.dtype == bool and np.dtype(dtype) == object else None


def _objects(data: Array, dtype: Any, **_: Any) -> np.ndarray[Any, Any]:
    return data.compute().astype(dtype)


def install() -> None:
    """Takes the place of functions of xarray, which then go on with values of NumPy."""
    divert(duck_array_ops, "where", _where, _chosen)
    divert(duck_array_ops, "concatenate", _concatenated, _mixed)
    divert(duck_array_ops, "astype", _objects, _mask)
