"""Fourier transforms, with the functions of the Array API's extension and of ``numpy.fft``.

NumPy transforms whole rows, in processes, so one row must fit into memory. Of several axes each is one step.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._array import Array
from ._functions import apply_gufunc
from ._namespace import call
from ._rows import moved

#: The length of a row of the result, from the length that is transformed.
_LENGTHS: dict[str, Callable[[int], int]] = {"rfft": lambda n: n // 2 + 1, "ihfft": lambda n: n // 2 + 1}
_HALVED = frozenset(("irfft", "hfft"))


def _transformed(name: str, x: Array, n: int | None, axis: int, norm: Any) -> Array:
    function, axis = getattr(np.fft, name), operator.index(axis)
    if not -x.ndim <= axis < x.ndim:
        raise np.exceptions.AxisError(axis, x.ndim)
    axis %= x.ndim
    length = (2 * (x.shape[axis] - 1) if name in _HALVED else x.shape[axis]) if n is None else operator.index(n)
    if length < 1:
        raise ValueError(f"Invalid number of FFT data points ({length}) specified.")

    def rows(block: Any) -> Any:
        return function(block, n=n, axis=-1, norm=norm)

    rows.__name__ = name
    sizes = {"k": _LENGTHS.get(name, int)(length)}
    dtype = function(np.ones(4, x.dtype)).dtype
    found: Array = apply_gufunc(rows, "(i)->(k)", moved(x, [axis]), output_dtypes=dtype, output_sizes=sizes)
    order = list(range(x.ndim - 1))
    order.insert(axis, x.ndim - 1)
    return found if order == list(range(x.ndim)) else call("permute_dims", found, order)


def fft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The discrete Fourier transform along an axis. As :func:`numpy.fft.fft`."""
    return _transformed("fft", x, n, axis, norm)


def ifft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of :func:`fft`."""
    return _transformed("ifft", x, n, axis, norm)


def rfft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform of real numbers: its frequencies that are not negative."""
    return _transformed("rfft", x, n, axis, norm)


def irfft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of :func:`rfft`. Without ``n`` the length of the result is even."""
    return _transformed("irfft", x, n, axis, norm)


def hfft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform of what has a real spectrum. As :func:`numpy.fft.hfft`."""
    return _transformed("hfft", x, n, axis, norm)


def ihfft(x: Array, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of :func:`hfft`."""
    return _transformed("ihfft", x, n, axis, norm)


def _axes(x: Array, s: Sequence[int | None] | None, axes: Sequence[int] | None) -> list[tuple[int, int | None]]:
    """The axes that are transformed, and the lengths that they get."""
    if axes is None:
        axes = list(range(x.ndim))[-len(s) :] if s else range(x.ndim)
    lengths: Sequence[int | None] = [None] * len(axes) if s is None else s
    if len(lengths) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    return [(a, None if n == -1 else n) for a, n in zip(axes, lengths)]


def _each(name: str, x: Array, steps: Sequence[tuple[int, int | None]], norm: Any) -> Array:
    for axis, n in reversed(steps):
        x = _transformed(name, x, n, axis, norm)
    return x


def fftn(x: Array, /, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
    """The transform along several axes, by default all."""
    return _each("fft", x, _axes(x, s, axes), norm)


def ifftn(x: Array, /, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
    """The inverse of :func:`fftn`."""
    return _each("ifft", x, _axes(x, s, axes), norm)


def rfftn(x: Array, /, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
    """The transform of real numbers along several axes. The last of them has frequencies that are not negative only."""
    *first, last = _axes(x, s, axes)
    return _each("fft", _each("rfft", x, [last], norm), first, norm)


def irfftn(x: Array, /, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
    """The inverse of :func:`rfftn`."""
    *first, last = _axes(x, s, axes)
    return _each("irfft", _each("ifft", x, first, norm), [last], norm)


def fft2(a: Array, s: Any = None, axes: Any = (-2, -1), norm: str = "backward") -> Array:
    """The transform along two axes."""
    return fftn(a, s, axes, norm)


def ifft2(a: Array, s: Any = None, axes: Any = (-2, -1), norm: str = "backward") -> Array:
    """The inverse of :func:`fft2`."""
    return ifftn(a, s, axes, norm)


def rfft2(a: Array, s: Any = None, axes: Any = (-2, -1), norm: str = "backward") -> Array:
    """The transform of real numbers along two axes."""
    return rfftn(a, s, axes, norm)


def irfft2(a: Array, s: Any = None, axes: Any = (-2, -1), norm: str = "backward") -> Array:
    """The inverse of :func:`rfft2`."""
    return irfftn(a, s, axes, norm)


def _frequencies(values: np.ndarray[Any, Any], dtype: Any, device: Any) -> Array:
    from ._api import asarray

    return asarray(values, dtype=np.float64 if dtype is None else dtype, device=device)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of :func:`fft` for ``n`` elements that are ``d`` apart."""
    return _frequencies(np.fft.fftfreq(n, d), dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of :func:`rfft` for ``n`` elements that are ``d`` apart."""
    return _frequencies(np.fft.rfftfreq(n, d), dtype, device)


def _shifted(x: Array, axes: Any, sign: int) -> Array:
    from ._standard import roll

    listed = range(x.ndim) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    for a in listed:
        x = roll(x, sign * (x.shape[a] // 2), axis=a)
    return x


def fftshift(x: Array, /, *, axes: Any = None) -> Array:
    """Frequency 0 moved to the middle."""
    return _shifted(x, axes, 1)


def ifftshift(x: Array, /, *, axes: Any = None) -> Array:
    """The inverse of :func:`fftshift`."""
    return _shifted(x, axes, -1)
