"""Everything that runs."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

import numpy as np

from . import _chunkwise, _kept, _references
from ._array import Array
from ._assumed import settled
from ._inputs import _url, zarr_folder
from ._plans import Plan
from ._spec import Spec, check_computing, current, joined, over, watcher


def _values(buffer: _chunkwise.Buffer, array: Array) -> np.ndarray[Any, Any]:
    values = np.frombuffer(buffer, dtype=np.uint8)
    dtype = np.dtype(array._lazy.dtype)
    return values[: array.size * dtype.itemsize].view(dtype).reshape(array.shape).astype(array.dtype, copy=False)


def _settings(spec: Spec | None, lazies: list[_chunkwise.Lazy]) -> _chunkwise.Settings:
    """What a run is done with. Processes of earlier runs leave it its memory."""
    found = current(spec, lazies)
    _kept.make_room(found._allowed_bytes() // 8, {caller.version for lazy in lazies for caller in lazy.callers})
    return found._settings()


def compute(*arrays: Any, spec: Spec | None = None, **_options: Any) -> tuple[np.ndarray[Any, Any], ...]:
    """The values of several arrays, computed in one run. What is no array of chunkwise is returned as it is."""
    lazy = [a for a in arrays if isinstance(a, Array)]
    found: list[np.ndarray[Any, Any]] = []
    if lazy:
        check_computing()
        of = [a._lazy for a in lazy]
        buffers = settled(lambda _: _chunkwise.compute(of, _settings(spec, of), watcher()), of)
        found = [_values(b, a) for b, a in zip(buffers, lazy, strict=True)]
    rest = iter(found)
    return tuple(next(rest) if isinstance(a, Array) else a for a in arrays)


def persist(*arrays: Array, spec: Spec | None = None) -> tuple[Array, ...]:
    """The same arrays, computed in one run."""
    from ._inputs import from_array

    values = compute(*arrays, spec=spec)
    kept = (from_array(v, chunks=a.chunks, spec=_own(a, spec))._like(a) for v, a in zip(values, arrays, strict=True))
    return tuple(k.astype(a.dtype) if a._half else k for k, a in zip(kept, arrays, strict=True))


def _own(array: Array, spec: Spec | None) -> Spec:
    """What the arrays that this one is made of were made with, and what was said for it."""
    return over(joined(array._lazy.specs, spec or Spec()), spec)


def _lengths(array: Array, chunks: Any) -> list[int]:
    from ._inputs import normalize_chunks

    return [max(max(c, default=1), 1) for c in normalize_chunks(chunks, array.shape, array.dtype, previous=array.chunks)]


def _written(value: Any) -> Any:
    """What says how an array is encoded, as JSON writes it: dtypes by name, numbers of NumPy, codecs of zarr-python and numcodecs."""
    if isinstance(value, Mapping):
        return {str(k): _written(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_written(v) for v in value]
    if isinstance(value, np.dtype) or isinstance(value, type) and (issubclass(value, np.generic) or value in (bool, int, float, complex)):
        dtype = np.dtype(value)
        return dtype.name if dtype.isnative else dtype.str
    if isinstance(value, np.generic):
        return _written(value.item())
    if isinstance(value, complex):
        return [_written(value.real), _written(value.imag)]
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    for way in ("to_dict", "get_config"):
        if callable(config := getattr(value, way, None)):
            return _written(config())
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise TypeError(f"{value!r} says nothing of how an array is encoded: give names, numbers, lists, mappings, or codecs of zarr-python")
    return value


def _shards(array: Array, given: Any, chunks: list[int]) -> list[int]:
    """The shape of a shard, which holds whole chunks and may be larger than the array. ``-1`` and ``None`` are whole axes."""
    if isinstance(given, Mapping):
        axes = {array._axis(d): n for d, n in given.items()}
        given = [axes.get(i, c) for i, c in enumerate(chunks)]
    each = list(given) if isinstance(given, (list, tuple)) else [given] * array.ndim
    whole = [-(-max(n, 1) // c) * c for n, c in zip(array.shape, chunks)]
    return [w if n is None or n == -1 else operator.index(n) for n, w in zip(each, whole)] if len(each) == array.ndim else each


def _compressed(how: dict[str, Any]) -> dict[str, Any]:
    """With ``compressors``, as zarr-python and xarray call them, in the words of the metadata."""
    given = how.pop("compressors", "auto")
    if isinstance(given, str) and given == "auto":
        return how
    codecs = list(given) if isinstance(given, (list, tuple)) else [] if given is None else [given]
    if how.get("zarr_format", 3) == 2:
        if len(codecs) > 1:
            raise ValueError("an array of Zarr v2 has one compressor")
        return {**how, "compressor": codecs[0] if codecs else None}
    return {**how, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, *codecs]}


def _output(array: Array, url: Any, encoding: Mapping[str, Any] | None = None) -> tuple[Any, str, str, str]:
    how = {**({"dtype": "float16"} if array._half else {}), **(encoding or {})}
    return array._lazy, _url(url), json.dumps(array.attrs), json.dumps(_written(how))


def to_zarr(
    array: Array,
    url: Any,
    *,
    chunks: Any = None,
    shards: Any = None,
    encoding: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    resume: bool = False,
    spec: Spec | None = None,
) -> dict[str, Any]:
    """Computes an array into a new Zarr array, with the coordinates of its dimensions beside it. Returns the run in numbers.

    ``shards`` is the shape of a shard, which holds whole chunks. ``encoding`` has what an output of a pipeline file may say: ``codec`` (``"zstd"``, ``"gzip"``, ``"blosc"``,
    ``"none"``), or ``codecs`` in the words of Zarr, or ``compressors`` as zarr-python takes them; ``fill_value``, ``dtype``, ``zarr_format`` (2 or 3), and ``scale_factor``, ``add_offset`` and ``_FillValue`` to pack values.
    A run that was stopped goes on with ``resume=True``.
    """
    how = _compressed(dict(encoding or {}))
    if chunks is not None:
        how["chunks"] = _lengths(array, chunks)
    if shards is not None:
        how["shards"] = _shards(array, shards, how.get("chunks") or _lengths(array, array.chunks))
    return _write([_output(array, url, how)], overwrite, resume, spec)


def _write(outputs: list[tuple[Any, str, str, str]], overwrite: bool, resume: bool, spec: Spec | None) -> dict[str, Any]:
    check_computing()
    # Another session may go on with the run.
    _references.publish()
    lazies = [o[0] for o in outputs]

    def run(again: bool) -> str:
        return _chunkwise.write(outputs, _settings(spec, lazies), overwrite or again, resume, watcher())

    # A run that goes on has its plan.
    report: dict[str, Any] = json.loads(settled(run, [] if resume else lazies))
    return report


def store(
    sources: Array | Iterable[Array],
    targets: Any,
    *,
    regions: Any = None,
    overwrite: bool = False,
    resume: bool = False,
    spec: Spec | None = None,
) -> None:
    """Computes arrays in one run into targets: URLs of new Zarr arrays, or arrays of zarr-python that exist, or regions of those.

    A region must hold whole chunks of its target, so that no other writer has a part of one.
    """
    arrays = [sources] if isinstance(sources, Array) else list(sources)
    places = [targets] if isinstance(sources, Array) else list(targets)
    spans = [regions] * len(arrays) if regions is None or isinstance(regions, tuple) else list(regions)
    if not len(arrays) == len(places) == len(spans):
        raise ValueError(f"{len(arrays)} arrays, {len(places)} targets and {len(spans)} regions")
    new = [(a, p) for a, p in zip(arrays, places) if isinstance(p, str) or hasattr(p, "__fspath__")]
    if len(new) == len(arrays):
        if any(s is not None for s in spans):
            raise ValueError("a region is one of an array that exists: give the array of zarr-python as the target")
        _write([_output(a, p) for a, p in new], overwrite, resume, spec)
        return
    urls = [zarr_folder(p) for p in places]
    for place, url in zip(places, urls):
        if url is None:
            raise TypeError(f"arrays are stored into URLs and into Zarr arrays in folders, not into {type(place).__name__}")
    check_computing()
    into = [(a._lazy, str(url), _start(span, a, p)) for a, url, span, p in zip(arrays, urls, spans, places)]
    lazies = [a for a, _, _ in into]
    settled(lambda _: _chunkwise.store(into, _settings(spec, lazies), watcher()), lazies)


def _start(region: Any, array: Array, target: Any) -> list[int]:
    """Where a region starts in its target."""
    shape = tuple(target.shape)
    entries = (slice(None),) * len(shape) if region is None else region if isinstance(region, tuple) else (region,)
    entries = (*entries, *(slice(None),) * (len(shape) - len(entries)))
    spans = [range(*s.indices(n)) for s, n in zip(entries, shape)]
    if any(s.step != 1 for s in spans) or tuple(len(s) for s in spans) != array.shape:
        raise ValueError(f"an array of shape {array.shape} does not fit the region {region} of an array of shape {shape}")
    return [s.start for s in spans]


def plan(*arrays: Array, spec: Spec | None = None) -> Plan:
    """The plan that arrays would be computed by: ``table`` for reading, ``stages``, ``tasks`` and ``projected_mem`` as numbers, ``svg`` and ``json``.

    It is a table in a notebook and in a terminal, too.
    """
    _references.publish()
    outputs = [_output(a, f"memory:///chunkwise/plan-{i}.zarr/a") for i, a in enumerate(arrays)]
    lazies = [o[0] for o in outputs]
    return Plan(settled(lambda _: _chunkwise.plan(outputs, current(spec, lazies)._settings()), lazies))
