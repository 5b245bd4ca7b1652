"""Functions that make arrays, by the names of NumPy and Dask."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ._api import asarray, stack
from ._array import Array
from ._functions import map_blocks
from ._namespace import call
from ._standard import arange


def array(x: Any, dtype: Any = None, ndmin: int = 0) -> Array:
    """As :func:`numpy.array`. Lists may have lazy arrays in them."""
    made = asarray(x, dtype=dtype)
    return made[(*[None] * (ndmin - made.ndim), ...)]


def asanyarray(a: Any, dtype: Any = None) -> Array:
    """As :func:`chunkwise.asarray`."""
    return asarray(a, dtype=dtype)


def _positions(shape: Any, dtype: Any) -> list[Array]:
    """For each axis the position of each element along it."""
    lengths = [operator.index(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,))]
    one = [arange(n).astype(dtype).reshape([n if k == axis else 1 for k in range(len(lengths))]) for axis, n in enumerate(lengths)]
    return [call("broadcast_to", x, lengths) for x in one]


def indices(dimensions: Any, dtype: Any = int, chunks: Any = None) -> Array:
    """As :func:`numpy.indices`. ``chunks`` are those of the dimensions.

    >>> indices((2, 2)).compute().tolist()
    [[[0, 0], [1, 1]], [[0, 1], [0, 1]]]
    """
    each = _positions(dimensions, dtype)
    return stack([x if chunks is None else x.rechunk(chunks) for x in each])


def fromfunction(func: Callable[..., Any], shape: Any, dtype: Any = float, chunks: Any = None, **kwargs: Any) -> Array:
    """What a function makes of the positions along each axis, block by block in processes. As :func:`numpy.fromfunction`."""
    each = _positions(shape, dtype)
    return map_blocks(func, *(x if chunks is None else x.rechunk(chunks) for x in each), **kwargs)


def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Array:
    """Ones on a diagonal and below, and zeros. As :func:`numpy.tri`."""
    rows, columns = arange(N)[:, None], arange(N if M is None else M)[None, :]
    return call("greater_equal", call("add", rows, operator.index(k)), columns).astype(np.dtype(dtype))
