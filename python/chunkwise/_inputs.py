"""Arrays from stores, from NumPy, and from anything with a shape, a dtype and ``__getitem__``."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Sequence
from math import ceil, prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from . import _chunkwise
from ._array import Array, Chunks
from ._mounted import mounted
from ._spec import Spec, bound, current, over
from ._stores import Place, place

#: Bytes of a chunk where nothing is said.
AUTO = 32_000_000


def _url(url: Any) -> str:
    return os.fspath(url) if isinstance(url, os.PathLike) else str(url)


def from_zarr(url: Any, *, path: str | None = None, chunks: Any = None, spec: Spec | None = None) -> Array:
    """A stored Zarr array, by URL or path, or an array of zarr-python, with the values as they are stored. Nothing is read but metadata."""
    array = _opened(url, path, spec, False)
    return array if chunks is None else array.rechunk(chunks)


def open(url: Any, *, chunks: Any = None, spec: Spec | None = None) -> Array:
    """A stored Zarr array, by URL or path, unpacked by the CF conventions: scaled, shifted, NaN where missing."""
    array = _opened(url, None, spec, True)
    return array if chunks is None else array.rechunk(chunks)


def _opened(x: Any, path: str | None, spec: Spec | None, decode: bool, labels: bool = True) -> Array:
    found = place(x)
    if found is None:
        if path is None and (array := mounted(x, spec, decode, labels)) is not None:
            return array
        if not isinstance(x, (str, os.PathLike)):
            raise TypeError(f"a URL, a path or an array of Zarr that the engine can read is needed, not {type(x).__name__}; from_array reads others")
        found = Place(_url(x))
    url = f"{found.url.rstrip('/')}/{path}" if path else found.url
    used = over(over(current(), Spec(storage=found.storage)), spec)
    # Runs read it with the options that it was opened with, wherever they start.
    return Array(bound(_chunkwise.open(url, used._runtime(), decode, labels), spec, used.storage))


def read_by_engine(x: Any, spec: Spec | None, labels: bool = True) -> Array | None:
    """An array of zarr-python as the engine reads it, or None if only zarr-python can, since the engine lacks its codecs.

    Without ``labels`` no coordinates are read.
    """
    found = place(x)
    if found is None:
        return mounted(x, spec, labels=labels)
    try:
        return _opened(x, None, spec, False, labels)
    except FileNotFoundError:
        raise
    except (ValueError, OSError) as e:
        # Python may have keys that the engine cannot find.
        if (read := mounted(x, spec, labels=labels)) is not None:
            return read
        from ._namespace import DTYPES

        if np.dtype(x.dtype).name not in DTYPES:
            raise
        warnings.warn(f"{found.url} is read through zarr-python, which is slower, as the engine cannot read it: {e}", stacklevel=3)
        return None


def zarr_folder(x: Any) -> str | None:
    """The folder of an array of zarr-python, if it is in one."""
    found = place(x)
    return None if found is None or "://" in found.url else found.url


def unmasked(x: Any) -> Any:
    """What is given, unless it is an array of NumPy with a mask, which would be lost."""
    if isinstance(x, np.ma.MaskedArray) and np.ma.is_masked(x):
        raise TypeError("a masked array would lose its mask: fill it with x.filled(value), as with NaN, or give its data and choose with where(mask, value, data)")
    return x


def from_array(x: Any, chunks: Any = "auto", *, spec: Spec | None = None, **_options: Any) -> Array:
    """An array of what has a shape, a dtype and ``__getitem__``: values of NumPy, arrays of Zarr, datasets of HDF5.

    Arrays of zarr-python are read by the engine itself, and so are data sets of h5py that are open for reading. Those with codecs and filters that the engine lacks are read block by
    block in worker processes. Everything else is copied: into memory, or into the work directory if it is more than an eighth of the allowed memory.
    """
    if isinstance(x, Array):
        return x if chunks in (None, "auto") else x.rechunk(chunks)
    unmasked(x)
    from ._sources import read_by_dask, read_in_processes

    if (source := read_by_dask(x)) is not None and not hasattr(source, "get_duck_array"):
        return from_array(source, x.chunks if chunks is None or isinstance(chunks, str) and chunks == "auto" else chunks, spec=spec)
    if (read := read_by_engine(x, spec)) is not None:
        return read if chunks is None or isinstance(chunks, str) and chunks == "auto" else read.rechunk(chunks)
    if isinstance(x, (bool, int, float, complex, list, tuple)):
        x = np.asarray(x)
    if not (hasattr(x, "shape") and hasattr(x, "dtype") and hasattr(x, "__getitem__")):
        raise TypeError(f"{type(x).__name__} is no array: it needs a shape, a dtype and __getitem__")
    from ._namespace import call, dtype_name

    name = dtype_name(x.dtype)
    shape = tuple(operator.index(n) for n in x.shape)
    if not shape:
        value = np.asarray(x[()])
        return Array(bound(call("full", [], value.item(), dtype=name)._lazy, spec))
    # Whole chunks are read once.
    stored = getattr(x, "chunks", None)
    previous = tuple(stored) if isinstance(stored, tuple) and len(stored) == len(shape) and all(isinstance(n, int) for n in stored) else None
    lengths = normalize_chunks("auto" if chunks is None else chunks, shape, np.dtype(name), previous=previous)
    if not isinstance(x, np.ndarray):
        from ._hdf5 import of_dataset

        if (read := of_dataset(x, spec)) is not None:
            return Array(bound(read._lazy if read.chunks == lengths else read._lazy.rechunked(lengths), spec))
        if (read := read_in_processes(x, np.dtype(name), lengths, spec)) is not None:
            return Array(bound(read._lazy, spec))
    return _copied(x, name, shape, lengths, spec)


def _copied(x: Any, name: str, shape: tuple[int, ...], chunks: Chunks, spec: Spec | None) -> Array:
    from ._errors import MemoryLimitError

    used = current(spec)
    allowed = used._allowed_bytes()
    dtype = np.dtype(name)
    nbytes = prod(shape) * dtype.itemsize
    if not isinstance(x, np.ndarray) and nbytes > allowed // 4:
        raise MemoryLimitError(
            f"an array of {nbytes} bytes would be copied through the memory of this process; store it as Zarr and use from_zarr()",
            needed=nbytes,
            allowed=allowed,
            enough=4 * nbytes,
        )
    folder = "memory:///chunkwise"
    # Other processes do not see what is in the memory of this one.
    if nbytes > allowed // 8 or not used._in_process():
        folder = f"{used._work_dir().rstrip('/')}/inputs"
    values = np.ascontiguousarray(np.asarray(x[...] if not isinstance(x, np.ndarray) else x), dtype=dtype).reshape(shape)
    lengths = [max(axis, default=1) for axis in chunks]
    lazy = _chunkwise.held(values.reshape(-1).view(np.uint8), name, shape, [max(n, 1) for n in lengths], folder, used._runtime())
    array = Array(bound(lazy, spec))
    return array if array.chunks == chunks or 0 in shape else Array(array._lazy.rechunked(chunks))


def normalize_chunks(
    chunks: Any, shape: Sequence[int], dtype: Any = None, *, limit: int | None = None, previous: Chunks | None = None
) -> Chunks:
    """For each axis the lengths of its chunks, from a length, lengths, lists of lengths, ``-1`` and ``None`` for whole axes, and ``"auto"`` or a size of a
    chunk, such as ``"16MB"``, for axes that share what is left.
    """
    shape = tuple(operator.index(n) for n in shape)
    if isinstance(chunks, dict):
        chunks = {normalize_axis_index(axis, len(shape)): c for axis, c in chunks.items()}
        chunks = tuple(chunks.get(i, -1) for i in range(len(shape)))
    if chunks is None or isinstance(chunks, (str, int, np.integer)):
        chunks = (chunks,) * len(shape)
    chunks = tuple(chunks)
    if len(chunks) != len(shape):
        if len(shape) == 1 and chunks and all(isinstance(c, (int, np.integer)) for c in chunks):
            chunks = (chunks,)
        else:
            raise ValueError(f"{len(chunks)} chunk lengths for {len(shape)} axes")
    auto = [i for i, c in enumerate(chunks) if isinstance(c, str)]
    sizes = {_size(chunks[i]) for i in auto if chunks[i] != "auto"}
    if len(sizes) > 1:
        raise ValueError(f"a chunk has one size, not several: {chunks!r}")
    lengths: list[Any] = [None if i in auto else c for i, c in enumerate(chunks)]
    for i, n in enumerate(shape):
        c = lengths[i]
        if i in auto:
            continue
        if c is None or (isinstance(c, (int, np.integer)) and c == -1):
            lengths[i] = max(n, 1)
        elif isinstance(c, (int, np.integer)):
            if c < 1 and n:
                raise ValueError(f"a chunk must have at least one element, not {c}")
            lengths[i] = max(int(c), 1)
        else:
            lengths[i] = tuple(operator.index(v) for v in c)
            if sum(lengths[i]) != n:
                raise ValueError(f"the chunks {lengths[i]} do not add up to the length {n} of axis {i}")
    if auto:
        most = min(sizes, default=limit)
        _choose(lengths, auto, shape, np.dtype(dtype or np.float64).itemsize, most, previous)
    return tuple(_cut(n, c) if isinstance(c, int) else c for n, c in zip(shape, lengths))


def _size(text: str) -> int:
    """Bytes of a chunk."""
    try:
        return int(_chunkwise.parse_bytes(text))
    except ValueError as error:
        raise ValueError(f"chunks are lengths, 'auto', or sizes such as '16MB', not {text!r}") from error


def _choose(lengths: list[Any], auto: list[int], shape: Sequence[int], itemsize: int, limit: int | None, previous: Any) -> None:
    """Chunks of at most ``limit`` bytes: nearly cubes, and whole chunks of those before, which have lengths or one length for each axis.

    Without a limit they have about ``AUTO`` bytes, and no chunk from before is cut.
    """
    fixed = prod(max(c) if isinstance(c, tuple) else min(c, max(n, 1)) for c, n in zip(lengths, shape) if c is not None)
    room = max((limit or AUTO) // itemsize // max(fixed, 1), 1)
    rest = sorted(auto, key=lambda i: shape[i])
    for k, i in enumerate(rest):
        side = max(int(room ** (1 / (len(rest) - k))), 1)
        size = min(side, max(shape[i], 1))
        base = 0 if previous is None or not previous[i] else previous[i] if isinstance(previous[i], int) else max(previous[i])
        if base and size < shape[i] and (size >= base or limit is None):
            size = min(max(size // base, 1) * base, max(shape[i], 1))
        lengths[i] = size
        room = max(room // size, 1)


def _cut(n: int, size: int) -> tuple[int, ...]:
    if n == 0:
        return (0,)
    return tuple(min(size, n - i * size) for i in range(ceil(n / size)))
