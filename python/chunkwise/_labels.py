"""``idxmax`` and ``idxmin`` of xarray where labels are dates or texts, which the engine does not have."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from ._hooks import divert
from ._namespace import NOT_NUMBERS


def _data(*, array: Any, dim: Any = None, **_: Any) -> Any:
    """The array of chunkwise that is searched, if its labels are no numbers."""
    dim = array.dims[0] if dim is None and array.ndim == 1 else dim
    return array.data if dim in array.coords and array[dim].dtype.kind in NOT_NUMBERS else None


def _labels(*, array: Any, func: Callable[..., Any], dim: Any = None, skipna: bool | None = None, keep_attrs: bool | None = None, **options: Any) -> Any:
    """Computes positions in one run of the engine, and looks up labels."""
    search = import_module("xarray.computation.computation")._calc_idxminmax
    dim = array.dims[0] if dim is None else dim
    numbered = array.assign_coords({dim: np.arange(array.sizes[dim], dtype=np.float64)})
    at = search(array=numbered, func=func, dim=dim, skipna=skipna, fill_value=np.nan, keep_attrs=keep_attrs).compute()
    known = at.notnull()
    found = at.copy(data=array[dim].values[at.fillna(0).astype(np.int64).values])
    return found.where(known, **({"other": options["fill_value"]} if "fill_value" in options else {})) if not known.all() else found


def install(module: Any) -> None:
    """Takes the place of a function of ``xarray.computation.computation``."""
    divert(module, "_calc_idxminmax", _labels, _data)
