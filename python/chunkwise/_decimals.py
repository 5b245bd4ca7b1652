"""Rounding to decimals, as ``numpy.round``."""

from __future__ import annotations

from ._array import Array
from ._namespace import call


def rounded(a: Array, decimals: int = 0, out: None = None) -> Array:
    """As NumPy rounds to decimals: scaled, rounded to even, and scaled back."""
    if out is not None:
        raise TypeError("np.round cannot write into an array with out= where one is lazy")
    if decimals == 0 or a.dtype.kind in "biu" and decimals > 0:
        return call("round", a)
    if a.dtype.kind in "biu":
        return rounded(a.astype("float64"), decimals).astype(a.dtype)
    scale = 10.0 ** abs(decimals)
    up, down = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    return call(down, call("round", call(up, a, scale)), scale)
