"""Chunkwise under xarray: ``xr.open_zarr(url, chunked_array_type="chunkwise", chunks={})``.

xarray finds :class:`ChunkwiseManager` by its entry point. Zarr arrays are read, decoded and sliced by the engine: xarray's lazy
adapters around them are recognised, and become operations.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import wrapt
from xarray.coding import common, variables
from xarray.core import duck_array_ops, indexing, variable
from xarray.namedarray.parallelcompat import ChunkManagerEntrypoint

from . import _cumulative, _fit, _flox, _functions, _labels, _map_blocks, _objects, _run, _weights, _xrft
from ._array import Array, Chunks
from ._hdf5 import of_netcdf
from ._hooks import divert
from ._index import orthogonal, points
from ._inputs import from_array, normalize_chunks, read_by_engine, zarr_folder
from ._namespace import NOT_NUMBERS, call
from ._sources import read_by_dask
from ._spec import Spec
from ._targets import store_elsewhere

class _NotRecognised(Exception):
    """A lazy adapter that the engine has no operation for."""


def _scaled(x: Array, scale_factor: Any, add_offset: Any, dtype: Any) -> Array:
    """As ``_scale_offset_decoding`` of xarray."""
    x = x.astype(dtype)
    # In NumPy these are in place: the dtype stays.
    if scale_factor is not None:
        x = call("multiply", x, float(scale_factor)).astype(dtype)
    return x if add_offset is None else call("add", x, float(add_offset)).astype(dtype)


def _masked(x: Array, encoded_fill_values: Iterable[Any], decoded_fill_value: Any, dtype: Any) -> Array:
    """As ``_apply_mask`` of xarray: what is one of the values is missing."""
    x = x.astype(dtype)
    for fill in encoded_fill_values:
        missing = call("isnan", x) if fill != fill else call("equal", x, np.asarray(fill).astype(x.dtype).item())
        x = call("where", missing, np.asarray(decoded_fill_value).astype(x.dtype).item(), x)
    return x


def _known(func: Any) -> Callable[[Array], Array] | None:
    """The operations that a function of xarray stands for."""
    if isinstance(func, partial) and not func.args:
        if func.func is variables._scale_offset_decoding:
            return partial(_scaled, **func.keywords)
        if func.func is variables._apply_mask:
            return partial(_masked, **func.keywords)
    return None


def _indexed(x: Array, key: Any) -> Array:
    return points(x, key.tuple) if isinstance(key, indexing.VectorizedIndexer) else orthogonal(x, key.tuple)


def unwrapped(data: Any, spec: Spec | None = None) -> Array:
    """The array that xarray's adapters make of a stored one, which is opened with a spec."""
    if isinstance(data, Array):
        return data
    if (read := read_by_engine(data, spec, labels=False)) is not None:
        # xarray aligns by its own labels and has its own attributes.
        return Array(read._lazy.bare())
    if (source := read_by_dask(data)) is not None:
        return unwrapped(source, spec)
    if isinstance(data, indexing.ImplicitToExplicitIndexingAdapter | indexing.CopyOnWriteArray | indexing.DaskIndexingAdapter):
        return unwrapped(data.array, spec)
    if isinstance(data, indexing.LazilyIndexedArray | indexing.LazilyVectorizedIndexedArray):
        return _indexed(unwrapped(data.array, spec), data.key)
    if isinstance(data, common._ElementwiseFunctionArray):
        known = _known(data.func)
        if known is not None:
            return known(unwrapped(data.array, spec))
    if isinstance(data, variables.NativeEndiannessArray):
        return unwrapped(data.array, spec)
    if isinstance(data, variables.BoolTypeArray):
        return unwrapped(data.array, spec).astype(bool)
    if type(data).__name__ == "ZarrArrayWrapper":
        return unwrapped(data.get_array(), spec)
    if (read := of_netcdf(data, spec)) is not None:
        return read
    raise _NotRecognised


class _Parts:
    """An array of xarray that only it can read, such as one in a file of another format: read part by part."""

    reads_files = True

    def __init__(self, data: Any) -> None:
        self.data, self.shape, self.dtype, self.ndim = data, tuple(data.shape), np.dtype(data.dtype), len(data.shape)

    def __getitem__(self, key: Any) -> np.ndarray[Any, Any]:
        return np.asarray(self.data[key])


def _of_adapter(index: Callable[[Array, Any], Array], adapter: Any, key: Any) -> Array:
    return index(adapter.array, key.tuple)


def _equal(one: Array, other: Any) -> bool | None:
    """As ``lazy_array_equiv`` of xarray, which knows of Dask's arrays only: ``None`` where the elements would have to be compared."""
    if one.shape != np.shape(other):
        return False
    return True if isinstance(other, Array) and one.dtype == other.dtype and one._lazy.same_elements(other._lazy) else None


def _divert_fit(module: Any) -> None:
    divert(module, "least_squares", _fit.least_squares, lambda lhs, rhs=None, **_: rhs)


def _stored(sources: Sequence[Array], targets: Sequence[Any], regions: Any, spec: Spec | None = None) -> None:
    """Computes arrays into Zarr arrays, or into variables of other files, all in one run."""
    arrays = [t.get_array() if hasattr(t, "get_array") else getattr(t, "array", t) for t in targets]
    if all(zarr_folder(a) is not None for a in arrays):
        # Without zarr-python, xarray writes other files.
        from ._margins import store_in_regions

        store_in_regions(sources, arrays, regions, spec)
    else:
        store_elsewhere(sources, arrays, regions, spec)


def _divert_icechunk(module: Any) -> None:
    """``to_icechunk`` takes arrays that are not Dask's for values, and would compute each chunk of the target in a run of its own."""

    def write(writer: Any) -> None:
        parts = list(zip(writer.eager_sources, writer.eager_targets, writer.eager_regions))
        sources, targets, regions = zip(*(part for part in parts if isinstance(part[0], Array)))
        _stored(sources, targets, [region or (slice(None),) * source.ndim for source, region in zip(sources, regions)])
        rest = [part for part in parts if not isinstance(part[0], Array)]
        writer.eager_sources, writer.eager_targets, writer.eager_regions = ([part[k] for part in rest] for k in range(3))
        # The values are left.
        writer.write_eager()

    divert(module.LazyArrayWriter, "write_eager", write, lambda writer: next((s for s in writer.eager_sources if isinstance(s, Array)), None))


def _install() -> None:
    """Makes methods of xarray, which would compute arrays of chunkwise or refuse them, operations of the engine."""
    _flox.install()
    _xrft.install()
    _map_blocks.install()
    _objects.install()
    divert(duck_array_ops, "_push", _cumulative.filled)
    # An index without axes drops an axis.
    divert(variable, "is_0d_dask_array", lambda x: not x.ndim)
    for module in ("xarray.core.duck_array_ops", "xarray.structure.merge", "xarray.structure.concat", "xarray.core.merge", "xarray.core.concat"):
        wrapt.register_post_import_hook(lambda m: divert(m, "lazy_array_equiv", _equal), module)
    for module in ("xarray.core.duck_array_ops", "xarray.computation.fit"):
        wrapt.register_post_import_hook(_divert_fit, module)
    wrapt.register_post_import_hook(_weights.install, "xarray.computation.weighted")
    wrapt.register_post_import_hook(_labels.install, "xarray.computation.computation")
    wrapt.register_post_import_hook(_divert_icechunk, "icechunk.xarray")
    for name, index in (("_oindex_get", orthogonal), ("_vindex_get", points)):
        divert(indexing.ArrayApiIndexingAdapter, name, partial(_of_adapter, index), lambda adapter, _: adapter.array)


class ChunkwiseManager(ChunkManagerEntrypoint["Array"]):  # type: ignore[misc, unused-ignore]
    """What xarray asks of a library of chunked arrays."""

    array_cls: type[Array]

    def __init__(self) -> None:
        self.array_cls = Array
        _install()

    def is_chunked_array(self, data: Any) -> bool:
        return isinstance(data, Array)

    def chunks(self, data: Array) -> Chunks:
        return data.chunks

    def normalize_chunks(
        self,
        chunks: Any,
        shape: tuple[int, ...] | None = None,
        limit: int | None = None,
        dtype: Any = None,
        previous_chunks: Any = None,
    ) -> Chunks:
        """For each axis the lengths of its chunks."""
        if shape is None:
            raise ValueError("the shape is needed")
        return normalize_chunks(chunks, shape, dtype, limit=limit, previous=previous_chunks)

    def get_auto_chunk_size(self) -> int:
        """Bytes of a chunk where nothing is said."""
        from ._inputs import AUTO

        return AUTO

    def from_array(self, data: Any, chunks: Any, *, spec: Spec | None = None, **kwargs: Any) -> Any:
        """An array that reads what xarray would read. Texts and dates, which the engine does not have, stay xarray's own lazy arrays.

        ``from_array_kwargs={"spec": spec}`` of xarray says what may be used to compute it.
        """
        if data.dtype.kind in NOT_NUMBERS:
            return data.array if isinstance(data, indexing.ImplicitToExplicitIndexingAdapter) else data
        try:
            array = unwrapped(data, spec)
        except _NotRecognised:
            array = from_array(_Parts(data) if hasattr(data, "get_duck_array") else data, chunks=chunks, spec=spec)
            chunks = array.chunks
        if array.dtype != data.dtype:
            array = array.astype(data.dtype)
        wanted = normalize_chunks(chunks, array.shape, array.dtype, previous=array.chunks)
        return array if wanted == array.chunks else array.rechunk(wanted)

    def rechunk(self, data: Array, chunks: Any, **kwargs: Any) -> Array:
        return data.rechunk(chunks)

    def compute(self, *data: Any, **kwargs: Any) -> tuple[np.ndarray[Any, Any], ...]:
        return _run.compute(*data, spec=kwargs.get("spec"))

    def persist(self, *data: Any, **kwargs: Any) -> tuple[Array, ...]:
        return _run.persist(*data, spec=kwargs.get("spec"))

    @property
    def array_api(self) -> Any:
        import chunkwise

        return chunkwise

    def reduction(
        self,
        arr: Array,
        func: Any,
        combine_func: Any = None,
        aggregate_func: Any = None,
        axis: Any = None,
        dtype: Any = None,
        keepdims: bool = False,
    ) -> Array:
        return _functions.reduction(arr, func, aggregate_func or func, combine=combine_func, axis=axis, dtype=dtype, keepdims=keepdims)

    def scan(
        self, func: Any, binop: Any, ident: Any, arr: Array, axis: int | None = None, dtype: Any = None, method: Any = None, **kwargs: Any
    ) -> Array:
        return _cumulative.cumreduction(partial(func, **kwargs) if kwargs else func, binop, ident, arr, axis, dtype)

    def apply_gufunc(self, func: Any, signature: str, *args: Any, vectorize: bool | None = None, **kwargs: Any) -> Any:
        return _functions.apply_gufunc(func, signature, *args, vectorize=bool(vectorize), **kwargs)

    def map_blocks(self, func: Any, *args: Any, dtype: Any = None, **kwargs: Any) -> Array:
        """Functions of xarray that decode and encode become operations; others run in processes."""
        known = _known(func)
        if known is not None and len(args) == 1 and isinstance(args[0], Array):
            return known(args[0])
        return _functions.map_blocks(func, *args, dtype=dtype, **kwargs)

    def blockwise(self, func: Any, out_ind: Iterable[Any], *args: Any, token: Any = None, **kwargs: Any) -> Array:
        return _functions.blockwise(func, tuple(out_ind), *args, **kwargs)

    def shuffle(self, x: Array, indexer: list[list[int]], axis: int, chunks: Any) -> Array:
        """The elements along an axis in another order. Their chunks are the engine's choice."""
        order = [operator.index(i) for group in indexer for i in group]
        return x[(slice(None),) * axis + (order,)]

    def unify_chunks(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], list[Array]]:
        """The arrays in common chunks. Operations need none: this is for those who ask for them."""
        arrays, axes = list(args[::2]), list(args[1::2])
        ends: dict[Any, set[int]] = {}
        for a, names in zip(arrays, axes):
            for name, lengths in zip(names or (), a.chunks if names else ()):
                if a.shape[names.index(name)] != 1:
                    ends.setdefault(name, set()).update(accumulate(lengths))
        chunks = {name: tuple(np.diff([0, *sorted(of)]).tolist()) for name, of in ends.items()}
        unified = [a if names is None else a.rechunk({i: chunks[n] for i, n in enumerate(names) if a.shape[i] != 1}) for a, names in zip(arrays, axes)]
        return chunks, unified

    def store(self, sources: Sequence[Array], targets: Sequence[Any], **kwargs: Any) -> Any:
        """Computes arrays into Zarr arrays, or into variables of other files, all in one run."""
        run = partial(_stored, sources, targets, kwargs.get("regions"), kwargs.get("spec"))
        if not kwargs.get("compute", True):
            # What xarray returns then is an object of Dask, of which this is a part.
            from dask.delayed import delayed

            return delayed(run, pure=False)()
        run()
        return None
