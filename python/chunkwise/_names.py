"""Names of NumPy and of Dask in the namespace, besides those of the Array API and of the engine's table."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import _elements, _products  # noqa: F401
from ._composed import FUNCTIONS, coarsen
from ._creation import array, asanyarray, fromfunction, indices, tri
from ._elements import isnull
from ._rows import argtopk, topk

#: NumPy's own: given lazy arrays, they come back to this package.
OF_NUMPY = (
    "allclose around argpartition array_equal bitwise_not cbrt deg2rad degrees divmod exp2 fabs float_power "
    "fmax fmin fmod frexp gcd lcm ldexp logaddexp2 modf nancumprod nancumsum nanmedian nanpercentile nanquantile ndim partition percentile rad2deg radians "
    "rint shape spacing"
).split()

#: All of them.
NAMES: dict[str, Any] = {
    **FUNCTIONS,
    **{name: getattr(np, name) for name in OF_NUMPY},
    **{f.__name__: f for f in (argtopk, array, asanyarray, coarsen, fromfunction, indices, isnull, tri, topk)},
}
