"""Data sets of HDF5, and of netCDF 4, as the engine reads them: each chunk is a part of the file, encoded with codecs that Zarr has too.

A list (`_references.py`) has the metadata of an array of Zarr, and where its chunks are. It says how long the file was and when it was written, so a file that has
changed is refused.

Formats: "HDF5 File Format Specification", version 3; the filters are those of its registry.
"""

from __future__ import annotations

import json
import os
import warnings
from importlib import import_module
from importlib.util import find_spec
from math import ceil, prod
from typing import Any

import numpy as np

from . import _chunkwise, _references
from ._array import Array
from ._spec import Spec, bound, current

#: Arrays of at most so many bytes are copied into memory instead.
SMALL = 256 << 10
#: Chunks of an array at most: their places are held in memory.
MANY = 100_000
#: Bytes of the parts of an array that is stored in one piece.
PIECE = 16 << 20
#: Bytes of a part that is decoded as a whole at most.
LARGE = 256 << 20
#: The filters of HDF5 by their numbers.
DEFLATE, SHUFFLE, FLETCHER32, ZSTD = 1, 2, 3, 32015
#: Bytes of the checksum behind a chunk.
CHECKSUM = 4


class Unknown(Exception):
    """A data set that the engine cannot read."""


def _codecs(properties: Any) -> tuple[dict[str, Any] | None, list[dict[str, Any]] | None, int]:
    """The compressor, the filters, and the bytes behind each chunk that are not decoded."""
    found = [properties.get_filter(i)[::2] for i in range(properties.get_nfilters())]
    filters, compressor, behind = None, None, 0
    if found and found[0][0] == SHUFFLE:
        filters = [{"id": "shuffle", "elementsize": int(found.pop(0)[1][0])}]
    if found and found[0][0] in (DEFLATE, ZSTD):
        number, values = found.pop(0)
        compressor = {"id": "zlib" if number == DEFLATE else "zstd", "level": int(values[0]) if values else 1}
    # Streams of deflate have a checksum of their own.
    if compressor is not None and compressor["id"] == "zlib" and found and found[0][0] == FLETCHER32:
        found.pop(0)
        behind = CHECKSUM
    if found:
        raise Unknown
    return compressor, filters, behind


def _pieces(shape: tuple[int, ...], itemsize: int, native: bool) -> tuple[int, ...]:
    """The lengths of parts of an array that is stored in one piece: equal runs of rows, where there are such, or else all of it."""
    row = prod(shape[1:]) * itemsize
    fewest = min(ceil(shape[0] * row / PIECE), shape[0])
    rows = next((shape[0] // n for n in range(fewest, min(64 * fewest, MANY) + 1) if shape[0] % n == 0), shape[0])
    # Any part of the elements as they are in memory can be read.
    if not native and rows * row > LARGE:
        raise Unknown
    return (rows, *shape[1:])


def _encoding(dataset: Any, properties: Any) -> tuple[dict[str, Any], int]:
    """How long chunks are and how they are encoded, as in the metadata, and the bytes behind each chunk that are not decoded."""
    shape, dtype = dataset.shape, dataset.dtype
    if properties.get_layout() != import_module("h5py").h5d.CHUNKED:
        return {"chunks": _pieces(shape, dtype.itemsize, dtype.isnative), "compressor": None, "filters": None}, 0
    lengths = properties.get_chunk()
    if prod(ceil(n / c) for n, c in zip(shape, lengths)) > MANY or prod(lengths) * dtype.itemsize > LARGE:
        raise Unknown
    compressor, filters, behind = _codecs(properties)
    return {"chunks": lengths, "compressor": compressor, "filters": filters}, behind


def places(dataset: Any, chunks: tuple[int, ...], behind: int) -> dict[str, tuple[int, int, int]]:
    """For each chunk where in the file it is, its bytes, and which filters were left out, as the bits of a mask."""
    shape, found = dataset.shape, dict[str, tuple[int, int, int]]()
    if dataset.get_create_plist().get_layout() != import_module("h5py").h5d.CHUNKED:
        at, size = dataset.get_offset(), prod(chunks) * dataset.dtype.itemsize
        rest = ".0" * (len(shape) - 1)
        return {} if at is None else {f"{i}{rest}": (at + i * size, size, 0) for i in range(shape[0] // chunks[0])}

    def add(chunk: Any) -> None:
        if chunk.size < behind:
            raise Unknown
        key = ".".join(str(start // length) for start, length in zip(chunk.chunk_offset, chunks))
        found[key] = (chunk.byte_offset, chunk.size - behind, chunk.filter_mask)

    dataset.chunk_iter(add)
    return found


def _fill(value: Any) -> Any:
    """As Zarr writes it."""
    item = np.asarray(value).item()
    if isinstance(item, complex):
        return [_fill(item.real), _fill(item.imag)]
    if isinstance(item, float) and not np.isfinite(item):
        return "NaN" if item != item else "Infinity" if item > 0 else "-Infinity"
    return item


def metadata_of(dataset: Any) -> tuple[dict[str, Any], int]:
    """The metadata of a data set, as Zarr has it, and the bytes behind each chunk that are not decoded."""
    h5d = import_module("h5py").h5d
    properties, shape, dtype = dataset.get_create_plist(), dataset.shape, dataset.dtype
    # Small data sets may be in the header, and virtual ones in other files.
    stored = shape and 0 not in shape and properties.get_layout() in (h5d.CONTIGUOUS, h5d.CHUNKED) and not properties.get_external_count()
    if not stored or dtype.kind not in "biufc" or dtype.hasobject:
        raise Unknown
    fill = np.zeros((), dtype)
    properties.get_fill_value(fill)
    encoding, behind = _encoding(dataset, properties)
    described = {"zarr_format": 2, "shape": shape, "dtype": dtype.str, "fill_value": _fill(fill), "order": "C", "dimension_separator": "."}
    return {**described, **encoding}, behind


def opened(file: Any, name: str) -> Any:
    """A data set of a file, through the part of h5py that is near to HDF5: there may be thousands of files."""
    if file.get_create_plist().get_userblock():
        raise Unknown
    return import_module("h5py").h5d.open(file, name.encode())


def _described(file: Any, name: str, path: str, state: os.stat_result) -> str:
    """The metadata and the list of a data set."""
    dataset = opened(file, name)
    metadata, behind = metadata_of(dataset)
    listed = places(dataset, metadata["chunks"], behind)
    if any(mask for _, _, mask in listed.values()):
        raise Unknown
    chunks = {key: place[:2] for key, place in listed.items()}
    content = {"path": path, "size": state.st_size, "modified": max(state.st_mtime_ns, 0), "metadata": metadata, "chunks": chunks}
    return json.dumps(content, separators=(",", ":"))


def _listed(path: str, name: str, state: os.stat_result) -> str:
    h5f = import_module("h5py").h5f
    file = h5f.open(os.fsencode(path), h5f.ACC_RDONLY)
    try:
        return _described(file, name, path, state)
    finally:
        file.close()


def _in_file(path: str, name: str, spec: Spec | None, like: Any) -> Array | None:
    """The data set of a file as the engine reads it; None if only HDF5 can, if it is small, or if it is not like what another library has of it."""
    if prod(like.shape) * np.dtype(like.dtype).itemsize <= SMALL:
        return None
    used = current(spec)
    work_dir = used._work_dir().removeprefix("file://")
    if "://" in work_dir and used._in_process():
        work_dir = _chunkwise.default_work_dir().removeprefix("file://")
    if "://" in work_dir:
        return None
    path = os.path.realpath(path)
    try:
        state = os.stat(path)
        place = _references.place_of(os.path.abspath(work_dir), path, name, state)
        if not _references.is_listed(place):
            _references.hold(place, _listed(path, name, state))
        array = Array(bound(_chunkwise.open(place, used._runtime(), False), spec, used.storage))
        return array if _alike(array, like) else None
    # HDF5 raises what its library says: there is no such file or name, or others write to it.
    except (Unknown, OSError, KeyError, ValueError, RuntimeError, AttributeError):
        return None


def _alike(array: Array, x: Any) -> bool:
    """False for numbers of 16 bits, which are wider in the engine, and where netCDF makes an unlimited dimension as long as its longest variable."""
    return array.shape == tuple(x.shape) and array.dtype == np.dtype(x.dtype).newbyteorder("=")


def of_dataset(x: Any, spec: Spec | None) -> Array | None:
    """A data set of h5py as the engine reads it, if it can."""
    if not type(x).__module__.startswith("h5py.") or not hasattr(x, "chunks"):
        return None
    try:
        filename = x.file.filename
        readable = x.name and os.path.isfile(filename) and x.file.mode == "r"
        return _in_file(filename, x.name, spec, x) if readable else None
    except (ValueError, RuntimeError, AttributeError):
        return None


def of_netcdf(x: Any, spec: Spec | None) -> Array | None:
    """What xarray reads with netCDF4 or h5netcdf as the engine reads it, if it can."""
    if type(x).__name__ not in ("NetCDF4ArrayWrapper", "H5NetCDFArrayWrapper"):
        return None
    name = f"{(getattr(x.datastore, '_group', None) or '').rstrip('/')}/{x.variable_name}"
    path = getattr(x.datastore, "_filename", None)
    if not isinstance(path, str):
        return None
    if not os.path.isfile(path):
        return of_file_object(x, name, spec)
    if find_spec("h5py") is None:
        warnings.warn("netCDF files are read by processes, which is slow; install h5py, with which the engine reads them", stacklevel=2)
        return None
    return _in_file(path, name, spec, x)


def of_file_object(x: Any, name: str, spec: Spec | None) -> Array | None:
    """What xarray reads with h5netcdf from a file of fsspec, as the engine reads it, if it can."""
    from ._hdf5_objects import through_fsspec

    file = next(iter(getattr(getattr(x.datastore, "_manager", None), "_args", ())), None)
    fs, path = getattr(file, "fs", None), getattr(file, "path", None)
    if fs is None or not isinstance(path, str) or prod(x.shape) * np.dtype(x.dtype).itemsize <= SMALL:
        return None
    if os.path.isfile(path) and "file" in fs.protocol:
        return _in_file(path, name, spec, x)
    try:
        array = through_fsspec(fs, path, x.datastore.ds._root._h5file.id, name, spec)
        return array if array is not None and _alike(array, x) else None
    except (Unknown, OSError, KeyError, ValueError, RuntimeError, AttributeError):
        return None
