"""Weights of xarray, which must not be missing. xarray would compute all of lazy ones to see that; here the run that uses them sees it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._array import Array
from ._hooks import divert
from ._index import points
from ._namespace import call

#: The position that stands for a missing weight. Nothing is there, so that the engine refuses it, and by its number the error is known again.
MISSING = 9_015_270_318_442_617
MESSAGE = "`weights` cannot contain missing values. Missing values can be replaced by `weights.fillna(0)`."


def checked(weights: Array) -> Array:
    """The same weights. A run that meets a missing one fails."""
    if weights.dtype.kind not in "fc":
        return weights
    at = call("where", call("isnan", weights), MISSING, 0).astype(np.int64)
    nothing = points(call("zeros", [1], dtype=weights.dtype.name), [at])
    return call("add", weights, nothing).astype(weights.dtype)


def missing(error: RuntimeError) -> bool:
    """True of what the engine raises then."""
    return f"position {MISSING} is out of bounds" in str(error)


def _weighted(self: Any, obj: Any, weights: Any) -> None:
    self.obj, self.weights = obj, weights.copy(data=checked(weights.data), deep=False)


def install(module: Any) -> None:
    """Takes the place of a method in ``xarray.computation.weighted``."""
    divert(module.Weighted, "__init__", _weighted, lambda self, obj, weights: getattr(weights, "data", None))
