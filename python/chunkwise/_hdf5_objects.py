"""Data sets of HDF5, and of netCDF 4, in files that fsspec reads, such as those in buckets: the engine asks for the chunks that it needs, each a range of bytes."""

from __future__ import annotations

import json
import re
import threading
import zlib
from importlib import import_module
from typing import Any

import numpy as np

from . import _chunkwise
from ._array import Array
from ._hdf5 import metadata_of, opened, places
from ._mounted import fresh
from ._spec import Spec, bound, current

#: What may tell one state of a file from another, as the file systems of fsspec name it.
_STATE = frozenset(
    {"size", "ETag", "etag", "generation", "mtime", "created", "updated", "LastModified", "Last-Modified", "last_modified"}
    | {"content_md5", "Content-MD5", "md5Hash", "Digest"}
)


def _state(fs: Any, path: str) -> dict[str, Any]:
    try:
        info = fs.info(path, refresh=True)
    except TypeError:
        info = fs.info(path)
    return {name: value for name, value in info.items() if name in _STATE}


def _within(size: int, start: int, stop: int | None) -> tuple[int, int]:
    """The positions in an object of so many bytes. A start below zero counts from the end."""
    start = max(size + start, 0) if start < 0 else min(start, size)
    return start, size if stop is None else min(stop, size)


def _part(data: bytes, start: int, stop: int | None) -> tuple[bytes, int, int]:
    """The bytes of an object from ``start`` to ``stop``, where they begin, and the bytes of all of it."""
    start, stop = _within(len(data), start, stop)
    return data[start:stop], start, len(data)


class _Dataset:
    """A data set with its chunks as objects."""

    def __init__(self, fs: Any, path: str, file: Any, name: str) -> None:
        self.fs, self.path, self.file, self.name = fs, path, file, name
        #: What messages call it.
        self.place = re.sub(r"[^A-Za-z0-9._/-]", "-", f"{path.rsplit('/', 1)[-1]}/{name.strip('/')}")
        self.metadata, self.behind = metadata_of(opened(file, name))
        self.state = _state(fs, path)
        self.lock = threading.Lock()
        self.places: dict[str, tuple[int, int, int]] | None = None

    def get(self, key: str, start: int, stop: int | None) -> tuple[bytes, int, int] | None:
        """As the function of the same name of :class:`chunkwise._mounted.ZarrStore`."""
        key = key.removeprefix(f"{self.place}/")
        if key == ".zarray":
            self._check()
            return _part(json.dumps(self.metadata).encode(), start, stop)
        place = self._listed().get(key)
        if place is None:
            return None
        at, size, mask = place
        if mask:
            return _part(self._encoded(self._bytes(at, at + size), mask), start, stop)
        start, stop = _within(size, start, stop)
        return self._bytes(at + start, at + stop) if start < stop else b"", start, size

    def _bytes(self, start: int, stop: int) -> bytes:
        return bytes(self.fs.cat_file(self.path, start=start, end=stop))

    def _check(self) -> None:
        """Each run reads the metadata first."""
        if _state(self.fs, self.path) != self.state:
            raise OSError(f"{self.path} was written after it was opened; open it again")

    def _listed(self) -> dict[str, tuple[int, int, int]]:
        """Where the chunks are. For this the index of the data set is read, when the first chunk is needed."""
        with self.lock:
            if self.places is None:
                chunks = tuple(self.metadata["chunks"])
                # xarray may have closed the file.
                if self.file.valid:
                    self.places = places(opened(self.file, self.name), chunks, self.behind)
                else:
                    with self.fs.open(self.path) as content, import_module("h5py").File(content, "r") as file:
                        self.places = places(opened(file.id, self.name), chunks, self.behind)
            return self.places

    def _encoded(self, data: bytes, mask: int) -> bytes:
        """A chunk as the metadata says, in which HDF5 has left out filters: where they gain nothing, it may."""
        shuffles = bool(self.metadata["filters"])
        if shuffles and mask & 1:
            if not mask & 2:
                data = self._decompressed(data)
            data = np.frombuffer(data, np.uint8).reshape(-1, self.metadata["filters"][0]["elementsize"]).T.tobytes()
            mask |= 2
        compressor, left_out = self.metadata["compressor"], mask & (2 if shuffles else 1)
        if compressor is None or not left_out:
            return data
        if compressor["id"] == "zlib":
            return zlib.compress(data, 0)
        return bytes(import_module("numcodecs").Zstd(level=1).encode(data))

    def _decompressed(self, data: bytes) -> bytes:
        compressor = self.metadata["compressor"]
        if compressor is None:
            return data
        return zlib.decompress(data) if compressor["id"] == "zlib" else bytes(import_module("numcodecs").Zstd().decode(data))


def through_fsspec(fs: Any, path: str, file: Any, name: str, spec: Spec | None) -> Array | None:
    """A data set of an open file of h5py, which fsspec reads, as the engine reads it in this process."""
    used = current(spec)
    if not used._in_process():
        return None
    dataset = _Dataset(fs, path, file, name)
    return Array(bound(_chunkwise.mounted(dataset, fresh(fs), dataset.place, used._runtime(), labels=False), spec, used.storage))
