"""Arrays that only Python can read, such as those in HDF5 and netCDF files: block by block, in worker processes."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from itertools import accumulate
from math import prod
from typing import Any

import cloudpickle
import numpy as np

from ._array import Array, Chunks
from ._functions import Sharing, map_blocks
from ._memory import LEFT
from ._spec import Spec, current

#: Bytes that are copied into memory at once: a process would take longer to start than they to read.
SMALL = 4 << 20
#: Bytes that are copied so altogether: a data set may have thousands of small files.
ALL_SMALL = 64 << 20
#: Files that xarray keeps open in a process: each has caches of its own.
OPEN_FILES = 4
#: Bytes of an array that is sent to a process at most.
LIGHT = 1 << 20
#: Libraries of stores that are elsewhere, which may hold keys.
HOLD_KEYS = (b"fsspec", b"s3fs", b"gcsfs", b"adlfs", b"obstore", b"icechunk")
#: Executors whose workers are processes of this Python.
_EXECUTORS = frozenset({"threads", "processes", "slurm", "command", "dask", "ray"})


class _Copies:
    """How much has been copied."""

    def __init__(self) -> None:
        self.nbytes = 0

    def takes(self, nbytes: int, allowed: int) -> bool:
        """True if an array of so many bytes may be copied, too."""
        if nbytes > min(SMALL, allowed // 8) or self.nbytes + nbytes > min(ALL_SMALL, allowed // 8):
            return False
        self.nbytes += nbytes
        return True


_copies = _Copies()


class _Hdf5:
    """A data set of an HDF5 file, which each process opens for itself."""

    def __init__(self, dataset: Any) -> None:
        self.file, self.name = os.path.abspath(dataset.file.filename), dataset.name

    def __getitem__(self, key: Any) -> Any:
        h5py: Any = import_module("h5py")
        with h5py.File(self.file, "r") as file:
            return file[self.name][key]


class _Blocks(Sharing):
    """What is read for a block."""

    def __init__(self, data: Any, chunks: Chunks, dtype: np.dtype[Any], private: bool) -> None:
        self.data, self.dtype, self.private = data, dtype, private
        self.starts = [(0, *accumulate(axis)) for axis in chunks]

    def __call__(self, block_id: tuple[int, ...] = ()) -> np.ndarray[Any, Any]:
        if (xarray := sys.modules.get("xarray")) is not None:
            xarray.set_options(file_cache_maxsize=OPEN_FILES)
        part = self.data[tuple(slice(s[k], s[k + 1]) for s, k in zip(self.starts, block_id))]
        return np.asarray(part, dtype=self.dtype)


def _sendable(x: Any) -> Any | None:
    """The array in a form in which a process gets where it is, not its values."""
    kind = type(x)
    if kind.__module__.startswith("h5py."):
        # A file may be in memory, or an object of Python. One that is open for writing is locked.
        return _Hdf5(x) if os.path.isfile(x.file.filename) and x.file.mode == "r" else None
    # A store in memory would be sent with all that it holds.
    if kind.__module__.startswith("zarr."):
        return x if type(x.store).__name__ in ("LocalStore", "FsspecStore", "ObjectStore", "ZipStore") else None
    return x if getattr(x, "reads_files", False) else None


def read_by_dask(x: Any) -> Any | None:
    """What an array of Dask reads, if it does nothing but that: some libraries open their arrays with Dask, whatever is asked for."""
    if not type(x).__module__.startswith("dask.array."):
        return None
    # So :func:`dask.array.from_array` names what it makes, and everything that is computed from it has other names.
    layers, original = getattr(x.dask, "layers", {}), f"original-{x.name}"
    if layers.keys() != {original, x.name}:
        return None
    source = dict(layers[original]).get(original)
    alike = getattr(source, "shape", None) == x.shape and getattr(source, "dtype", None) == x.dtype
    return source if alike else None


def _pickled(x: Any) -> tuple[bytes, int] | None:
    """What a process gets of an array, without values, and the bytes of it with them."""
    values: list[Any] = []
    try:
        blob = bytes(cloudpickle.dumps(x, protocol=5, buffer_callback=values.append))
    except Exception:  # Of a library that we do not know.
        return None
    return blob, len(blob) + sum(v.raw().nbytes for v in values)


def read_in_processes(x: Any, dtype: np.dtype[Any], chunks: Chunks, spec: Spec | None) -> Array | None:
    """The array of what processes read, if it is large and they can."""
    shape = tuple(sum(axis) for axis in chunks)
    used = current(spec)
    if (used.executor or "threads") not in _EXECUTORS or _copies.takes(prod(shape) * dtype.itemsize, used._allowed_bytes()):
        return None
    data = _sendable(x)
    pickled = None if data is None else _pickled(data)
    if pickled is None or pickled[1] > LIGHT:
        return None
    private = any(library in pickled[0] for library in HOLD_KEYS)
    block = prod(max(axis) for axis in chunks) * dtype.itemsize
    return map_blocks(_Blocks(data, chunks, dtype, private), dtype=dtype, chunks=chunks, memory=LEFT + 4 * block, name="read")
