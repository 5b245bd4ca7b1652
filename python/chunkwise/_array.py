"""The lazy array."""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from . import _chunkwise
from ._operators import Operators

if TYPE_CHECKING:
    from ._spec import Spec

#: For each axis the lengths of its chunks.
Chunks = tuple[tuple[int, ...], ...]


class Array(Operators):
    """A lazy array: an expression with a dtype, a shape and chunks. Nothing is read until it is computed."""

    __slots__ = ("_half", "_lazy", "_windows", "__weakref__")
    __array_priority__ = 100.0
    _lazy: _chunkwise.Lazy
    #: True if its elements are handed over and stored as float16, which the engine reads and writes, but computes as float32.
    _half: bool
    #: Of an array of windows: what they slide over, and how. See :mod:`chunkwise._windows`. They are no class of their own, as xarray mixes no classes.
    _windows: tuple[Array, tuple[tuple[int, int], ...]] | None

    def __init__(self, lazy: _chunkwise.Lazy, half: bool = False) -> None:
        if not isinstance(lazy, _chunkwise.Lazy):
            raise TypeError("arrays are made by from_array, from_zarr, open and the functions of chunkwise")
        self._lazy = lazy
        self._half = half
        self._windows = None

    # What it is.

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype, as NumPy's."""
        return np.dtype(np.float16 if self._half else self._lazy.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of each axis."""
        return self._lazy.shape

    @property
    def spec(self) -> Spec:
        """What computing it may use, if nothing else is said."""
        from ._spec import current

        return current(arrays=[self._lazy])

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._lazy.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self._lazy.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def device(self) -> str:
        """Where it is computed."""
        return "cpu"

    @property
    def chunks(self) -> Chunks:
        """For each axis the lengths of its chunks."""
        return self._lazy.chunks

    @property
    def chunksize(self) -> tuple[int, ...]:
        """The length of the longest chunk of each axis."""
        return self._lazy.chunksize

    @property
    def numblocks(self) -> tuple[int, ...]:
        """The number of chunks along each axis."""
        return self._lazy.numblocks

    @property
    def npartitions(self) -> int:
        """The number of chunks."""
        return prod(self._lazy.numblocks)

    @property
    def dims(self) -> tuple[str | None, ...] | None:
        """The names of the axes; ``None`` if none has one, so that xarray gives names of its own."""
        names = self._lazy.dims
        return names if any(names) else None

    def _axis(self, axis: Any) -> int:
        """The number of an axis, from its name or a number that may count from the end."""
        return self._lazy.dims.index(axis) if isinstance(axis, str) else normalize_axis_index(axis, self.ndim)

    @property
    def attrs(self) -> dict[str, Any]:
        """What is said of the elements, such as their units. It is stored with them."""
        attributes: dict[str, Any] = json.loads(self._lazy.attributes)
        return attributes

    def with_attrs(self, attrs: dict[str, Any]) -> Array:
        """The same array with other attributes."""
        return Array(self._lazy.with_attributes(json.dumps(attrs)), self._half)

    def with_dims(self, *dims: str | None) -> Array:
        """The same array with other names of its axes."""
        return Array(self._lazy.renamed(dims), self._half)

    @property
    def T(self) -> Array:
        """The axes in the opposite order."""
        return self._call("permute_dims", list(range(self.ndim))[::-1])

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise ValueError("mT needs at least two axes")
        axes = list(range(self.ndim))
        return self._call("permute_dims", [*axes[:-2], axes[-1], axes[-2]])

    # Selection.

    def __getitem__(self, key: Any) -> Array:
        from ._index import getitem

        found = getitem(self, key)
        if isinstance(found, Array):
            found._half = self._half
        return found

    def __setitem__(self, key: Any, value: Any) -> None:
        from ._assign import assigned

        self._lazy = assigned(self, key, value)._lazy
        # They no longer slide over what they did.
        self._windows = None

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise TypeError("iteration over an array without axes")
        return (self[i] for i in range(self.shape[0]))

    # Values.

    def compute(self, *, spec: Spec | None = None) -> np.ndarray[Any, Any]:
        """The values. Results that do not fit into memory are written with :meth:`to_zarr`."""
        from ._run import compute

        (result,) = compute(self, spec=spec)
        return result

    def to_zarr(self, url: Any, **options: Any) -> None:
        """Computes the values into a Zarr array. See :func:`chunkwise.to_zarr`."""
        from ._run import to_zarr

        to_zarr(self, url, **options)

    def store(self, target: Any, **options: Any) -> None:
        """Computes the values into an array of another library. See :func:`chunkwise.store`."""
        from ._run import store

        store(self, target, **options)

    def persist(self, *, spec: Spec | None = None) -> Array:
        """The same values, computed."""
        from ._run import persist

        (result,) = persist(self, spec=spec)
        return result

    def _like(self, other: Array) -> Array:
        return self.with_dims(*other._lazy.dims).with_attrs(other.attrs)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("an array of chunkwise has no values to share; it computes them")
        values = self.compute()
        return values if dtype is None else values.astype(dtype, copy=False)

    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None) -> Any:
        return self.compute().__dlpack__(stream=stream, max_version=max_version, dl_device=dl_device, copy=copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        # The processor, as DLPack numbers devices.
        return (1, 0)

    def __dask_tokenize__(self) -> Any:
        # Dask asks for it before it takes over an array, of which it would compute each of its chunks in a run of its own.
        raise TypeError(
            "Dask was given a lazy array of chunkwise. Under xarray, name the manager of chunks: xr.set_options(chunk_manager='chunkwise') for all "
            "calls, or chunk(..., chunked_array_type='chunkwise') for one. compute() gives the values."
        )

    def to_device(self, device: Any, /, *, stream: Any = None) -> Self:
        """The array itself: there is one device."""
        if device != self.device or stream is not None:
            raise ValueError(f"the only device is {self.device!r}, without streams")
        return self

    def _one(self) -> Any:
        if self.size != 1:
            raise ValueError(f"the truth or number of an array of {self.size} elements is not defined; reduce it, as with any() or all()")
        return self.compute().item()

    def item(self) -> Any:
        """The only element, as a number of Python."""
        return self._one()

    def __bool__(self) -> bool:
        return bool(self._one())

    def __int__(self) -> int:
        return int(self._one())

    def __float__(self) -> float:
        return float(self._one())

    def __complex__(self) -> complex:
        return complex(self._one())

    def __index__(self) -> int:
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError("only integer arrays without axes are an index")
        return int(self._one())

    # Functions.

    def _call(self, name: str, *args: Any, **kwargs: Any) -> Array:
        from ._namespace import call

        return call(name, self, *args, **kwargs)

    @property
    def blocks(self) -> Any:
        """Its blocks by their numbers: ``x.blocks[0, 1]``, ``x.blocks[:2]``. See :class:`chunkwise._blocks.BlockView`."""
        from ._blocks import BlockView

        return BlockView(self)

    @property
    def partitions(self) -> Any:
        """As :attr:`blocks`, by another name of Dask."""
        return self.blocks

    @property
    def vindex(self) -> Any:
        """Its elements at points: ``x.vindex[[0, 3], [1, 2]]`` takes positions of several axes together, and their axes come first. As in Dask."""
        from ._index import Points

        return Points(self)

    @property
    def plan(self) -> Any:
        """How it would be computed: a table. As :func:`chunkwise.plan`."""
        from ._run import plan

        return plan(self)

    def visualize(self, filename: Any = None) -> Any:
        """Draws how it would be computed. As :func:`chunkwise.visualize`."""
        from ._plans import visualize

        return visualize(self, filename=filename)

    def round(self, decimals: int = 0) -> Array:
        """Rounded to so many decimals, and halves to even. As :func:`numpy.round`."""
        from ._decimals import rounded

        return rounded(self, decimals)

    def __round__(self, ndigits: int | None = None) -> Array:
        return self.round(ndigits or 0)

    def rechunk(self, chunks: Any = "auto") -> Array:
        """The same elements in other chunks: a length, lengths, a list of lengths for each axis, or a dictionary of those by axis or name."""
        from ._inputs import normalize_chunks

        if isinstance(chunks, dict):
            axes = {self._axis(d): c for d, c in chunks.items()}
            chunks = tuple(axes.get(i, c) for i, c in enumerate(self.chunks))
        return Array(self._lazy.rechunked(normalize_chunks(chunks, self.shape, self.dtype, previous=self.chunks)), self._half)

    def astype(self, dtype: Any, order: Any = "K", casting: Any = "unsafe", subok: bool = True, copy: bool = True) -> Array:
        """The same elements in another dtype, if the rule of casting allows it. As :meth:`numpy.ndarray.astype`."""
        if casting != "unsafe" and not np.can_cast(self.dtype, dtype, casting):
            raise TypeError(f"Cannot cast array data from {self.dtype!r} to {np.dtype(dtype)!r} according to the rule {casting!r}")
        return self._call("astype", dtype)

    def reshape(self, *shape: Any) -> Array:
        """The same elements in another shape, in C order."""
        return self._call("reshape", list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape))

    def ravel(self) -> Array:
        """The same elements along one axis, in C order."""
        return self.reshape([-1])

    def flatten(self) -> Array:
        """The same elements along one axis, in C order."""
        return self.reshape([-1])

    def take(self, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise") -> Array:
        """The elements at indices along an axis, or of all elements in C order. As :func:`numpy.take`."""
        from ._composed import take

        return take(self, indices, axis, out, mode)

    def choose(self, choices: Any) -> Array:
        """For each element, that of the array of ``choices`` of which it is the number. As :func:`numpy.choose`."""
        from ._elements import choose

        return choose(self, choices)

    def topk(self, k: int, axis: int = -1) -> Array:
        """The ``k`` largest elements along an axis. As :func:`chunkwise.topk`."""
        from ._rows import topk

        return topk(self, k, axis)

    def argtopk(self, k: int, axis: int = -1) -> Array:
        """The positions of the ``k`` largest elements along an axis. As :func:`chunkwise.argtopk`."""
        from ._rows import argtopk

        return argtopk(self, k, axis)

    def moment(self, order: int, axis: Any = None, dtype: Any = None, keepdims: bool = False, ddof: float = 0) -> Array:
        """The central moment: the mean of this power of the distances from the mean. As in Dask."""
        from ._composed import moment

        return moment(self, order, axis, dtype, keepdims, ddof)

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """Two axes exchanged."""
        from ._composed import swapaxes

        return swapaxes(self, axis1, axis2)

    def dot(self, b: Any) -> Array:
        """The product with a vector or a matrix. As :func:`numpy.dot`."""
        from ._products import dot

        return dot(self, b)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """The elements on a diagonal, along the last axis. As :func:`numpy.diagonal`."""
        from ._composed import diagonal

        return diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Array:
        """The sum along a diagonal. As :func:`numpy.trace`."""
        from ._composed import trace

        return trace(self, offset, axis1, axis2, dtype)

    def cumsum(self, axis: int | None = None, dtype: Any = None) -> Array:
        """The sums of the elements up to each. As :func:`numpy.cumsum`."""
        from ._cumulative import cumsum

        return cumsum(self, axis, dtype)

    def cumprod(self, axis: int | None = None, dtype: Any = None) -> Array:
        """The products of the elements up to each. As :func:`numpy.cumprod`."""
        from ._cumulative import cumprod

        return cumprod(self, axis, dtype)

    def tolist(self) -> Any:
        """The values as lists of Python."""
        return self.compute().tolist()

    def transpose(self, *axes: Any) -> Array:
        """The axes in another order."""
        if not axes or axes == (None,):
            return self.T
        return self._call("permute_dims", list(axes[0]) if isinstance(axes[0], (tuple, list)) else list(axes))

    def squeeze(self, axis: Any = None) -> Array:
        """Without axes of length 1."""
        axes = [i for i, n in enumerate(self.shape) if n == 1] if axis is None else axis
        return self._call("squeeze", axes) if axes != [] else self

    def copy(self) -> Array:
        """The same array, which an assignment to elements of this one does not change."""
        same = object.__new__(type(self))
        same._lazy = self._lazy
        same._windows = self._windows
        same._half = self._half
        return same

    def __copy__(self) -> Array:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.copy()

    def __reduce__(self) -> Any:
        raise TypeError(
            "arrays of chunkwise cannot be pickled: they may read values that this process has in memory; store them with to_zarr"
        )

    def map_blocks(self, func: Any, *args: Any, **options: Any) -> Array:
        """The array of what a function returns for each block. See :func:`chunkwise.map_blocks`."""
        from ._functions import map_blocks

        return map_blocks(func, self, *args, **options)

    def map_overlap(self, func: Any, **options: Any) -> Array:
        """The array of what a function returns for each block with elements around it. See :func:`chunkwise.map_overlap`."""
        from ._functions import map_overlap

        return map_overlap(func, self, **options)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        if api_version is not None and api_version > "2025.12":
            raise ValueError(f"the Array API {api_version} is not supported; 2025.12 is")
        import chunkwise

        return chunkwise

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from ._numpy import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from ._numpy import apply_function

        return apply_function(func, args, kwargs)

    def _repr_inline_(self, max_width: int) -> str:
        """What xarray shows in one line."""
        return f"chunkwise.Array<chunksize={self.chunksize}>"[:max_width]

    def __repr__(self) -> str:
        names = f", dims={self.dims}" if self.dims else ""
        return f"chunkwise.Array<{self._lazy.operation}, shape={self.shape}, dtype={self.dtype}, chunksize={self.chunksize}{names}>"

    def _repr_html_(self) -> str:
        from ._html import array_html

        return array_html(self)

    __hash__ = None  # type: ignore[assignment]
