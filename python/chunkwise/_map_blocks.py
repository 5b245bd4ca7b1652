"""``xarray.map_blocks``: a function of the user gets the part of a data set that is in one block, with its coordinates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from . import _functions
from ._array import Array
from ._hooks import divert
from ._namespace import NOT_NUMBERS, call

#: What a variable without a name of its own is called in a data set.
NAME = "__chunkwise_array__"


def _as_dataset(obj: Any) -> xr.Dataset:
    """A data set for each object of xarray. A data array has one variable."""
    return obj.to_dataset(name=NAME) if isinstance(obj, xr.DataArray) else obj


def _lazy(ds: xr.Dataset) -> dict[Hashable, xr.Variable]:
    return {name: v for name, v in ds.variables.items() if isinstance(v._data, Array)}


#: Bytes of a variable in memory that each process gets as a whole.
SMALL = 1 << 20


def _cut(obj: Any, chunks: Mapping[Hashable, tuple[int, ...]]) -> Any:
    """The object with its large variables in memory as lazy arrays, so that processes get blocks of them."""
    ds = _as_dataset(obj)
    large = {
        name: v.chunk({d: chunks.get(d, -1) for d in v.dims}, chunked_array_type="chunkwise")
        for name, v in ds.variables.items()
        if name not in ds.indexes and not isinstance(v._data, Array) and v.nbytes > SMALL and v.dtype.kind not in NOT_NUMBERS
    }
    if not large:
        return obj
    ds = ds.assign_coords({n: v for n, v in large.items() if n in ds.coords}).assign({n: v for n, v in large.items() if n not in ds.coords})
    return ds[NAME].rename(obj.name) if isinstance(obj, xr.DataArray) else ds


class _Blocks:
    """The function as processes call it: with blocks of the variables, and the positions of the block along each dimension."""

    def __init__(self, func: Callable[..., Any], args: list[Any], kwargs: Mapping[str, Any], dims: Sequence[Hashable]) -> None:
        self.func, self.kwargs, self.dims = func, dict(kwargs), list(dims)
        # Of each object of xarray what is in memory, and the variables that come in blocks.
        self.args: list[tuple[bool, Any, list[tuple[Hashable, tuple[Hashable, ...], dict[Any, Any], bool]], Any]] = []
        for arg in args:
            if not isinstance(arg, (xr.Dataset, xr.DataArray)):
                self.args.append((False, arg, [], None))
                continue
            ds = _as_dataset(arg)
            found = _lazy(ds)
            about = [(name, v.dims, dict(v.attrs), name in ds.coords) for name, v in found.items()]
            self.args.append((True, ds.drop_vars(list(found)).load(), about, (arg.name,) if isinstance(arg, xr.DataArray) else None))
        #: The variables of the result: names, dimensions, and how many axes of length 1 come first.
        self.wanted: list[tuple[Hashable, tuple[Hashable, ...], int]] = []
        #: All data variables that are expected, and the lengths of blocks along dimensions where they are not those of the input.
        self.names: set[Hashable] = set()
        self.sizes: dict[Hashable, tuple[int, ...]] = {}
        self.__name__ = getattr(func, "__name__", type(func).__name__)

    def given(self, blocks: Sequence[Any], spans: Mapping[Hashable, slice]) -> list[Any]:
        """The arguments of one call."""
        out, at = [], 0
        for of_xarray, value, about, name in self.args:
            if not of_xarray:
                out.append(value)
                continue
            ds = value.isel({d: s for d, s in spans.items() if d in value.dims})
            for variable, dims, attrs, coordinate in about:
                made = xr.Variable(dims, blocks[at], attrs)
                ds = ds.assign_coords({variable: made}) if coordinate else ds.assign({variable: made})
                at += 1
            out.append(ds if name is None else ds[NAME].rename(name[0]))
        return out

    def __call__(self, *blocks: Any) -> list[Any]:
        count = len(self.dims)
        spans = {d: slice(int(p[0]), int(p[-1]) + 1) if p.size else slice(0, 0) for d, p in zip(self.dims, blocks[len(blocks) - count :])}
        result = self.func(*self.given(blocks[: len(blocks) - count], spans), **self.kwargs)
        if not isinstance(result, (xr.Dataset, xr.DataArray)):
            raise TypeError(f"Function must return an xarray DataArray or Dataset. Instead it returned {type(result)}")
        result = _as_dataset(result)
        if self.names != set(result.data_vars):
            missing, others = self.names - set(result.data_vars), set(result.data_vars) - self.names
            raise ValueError(f"the function returned other data variables than are expected: missing {sorted(map(str, missing))}, not expected {sorted(map(str, others))}")
        out = []
        for name, dims, more in self.wanted:
            if name not in result.variables or set(result[name].dims) != set(dims):
                has = f"dimensions {result[name].dims}" if name in result.variables else "no such variable"
                raise ValueError(f"the function returned {has} for {name!r}, and dimensions {dims} are expected")
            values = result[name].transpose(*dims).values
            for d, n in zip(dims, values.shape):
                expected = spans[d].stop - spans[d].start if d not in self.sizes and d in spans else None
                if d in self.sizes and n not in self.sizes[d] or expected is not None and n != expected:
                    raise ValueError(f"Received dimension {d!r} of length {n}. Expected length {expected if expected is not None else self.sizes[d]}.")
            out.append(values.reshape((1,) * more + values.shape))
        return out


def _inferred(func: Callable[..., Any], args: list[Any], kwargs: Mapping[str, Any], maker: _Blocks) -> Any:
    """What the function returns for arrays of length 0, as xarray asks it."""
    none = {d: slice(0, 0) for arg in args if isinstance(arg, (xr.Dataset, xr.DataArray)) for d in arg.dims}
    empty = [np.empty((0,) * v.ndim, v.dtype) for arg in args if isinstance(arg, (xr.Dataset, xr.DataArray)) for v in _lazy(_as_dataset(arg)).values()]
    try:
        template = func(*maker.given(empty, none), **kwargs)
    except Exception as e:
        raise ValueError("Cannot infer object returned from running user provided function. Please supply the 'template' kwarg to map_blocks.") from e
    if not isinstance(template, (xr.Dataset, xr.DataArray)):
        raise TypeError(f"Function must return an xarray DataArray or Dataset. Instead it returned {type(template)}")
    return template


def _chunks(sets: Sequence[xr.Dataset]) -> dict[Hashable, tuple[int, ...]]:
    found: dict[Hashable, tuple[int, ...]] = {}
    for ds in sets:
        for dim, lengths in ds.chunksizes.items():
            if found.setdefault(dim, lengths) != lengths:
                raise ValueError(f"Chunk sizes along dimension {dim!r} are not equal: {found[dim]} and {lengths}. Use unify_chunks() first.")
    return found


def map_blocks(
    func: Callable[..., Any], obj: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, template: Any = None, **options: Any
) -> Any:
    """As :func:`xarray.map_blocks`. The function runs in processes that are held to their memory, once for each block.

    Along a dimension that the result lacks, a call gets all of it.
    """
    kwargs = {} if kwargs is None else kwargs
    if not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs must be a mapping (for example, a dict), not {type(kwargs)}")
    if any(isinstance(getattr(getattr(v, "variable", None), "_data", v), Array) for v in kwargs.values()):
        raise TypeError("lazy arrays are no keyword arguments of the function: give them in args")
    given = [obj, *args]
    places = [k for k, a in enumerate(given) if isinstance(a, (xr.Dataset, xr.DataArray))]
    for k, aligned in zip(places, xr.align(*(given[k] for k in places), join="exact")):
        given[k] = aligned
    sets = [_as_dataset(given[k]) for k in places]
    chunks = _chunks(sets)
    for k in places:
        given[k] = _cut(given[k], chunks)
    sets = [_as_dataset(given[k]) for k in places]
    chunks = _chunks(sets)
    dims = list(chunks)
    maker = _Blocks(func, given, kwargs, dims)
    coords = xr.merge([ds.coords.to_dataset() for ds in sets], join="exact", compat="override").coords
    if template is None:
        template = _inferred(func, given, kwargs, maker)
        made = _as_dataset(template)
        out_chunks = {d: chunks.get(d, (n,)) for d, n in made.sizes.items()}
        kept = {n: coords[n].variable for n in made.coords if n in coords}
        new = [n for n in made.coords if n not in coords]
        # A coordinate without dimensions in blocks is the same for all.
        kept |= {n: made[n].variable for n in new if not set(made[n].dims) & set(chunks)}
        computed = [*made.data_vars, *(n for n in new if n not in kept)]
    elif not isinstance(template, (xr.Dataset, xr.DataArray)):
        raise TypeError(f"template must be a DataArray or Dataset, not {type(template)}")
    else:
        made = _as_dataset(template)
        out_chunks = {d: made.chunksizes.get(d, (n,)) for d, n in made.sizes.items()}
        kept = {n: made[n].variable for n in made.coords if not isinstance(made[n].variable._data, Array)}
        computed = [*made.data_vars, *(n for n in made.coords if n not in kept)]
        if not made.chunksizes:
            raise ValueError("Provided template has no lazy arrays. Please construct a template with chunked arrays.")
    for d, lengths in out_chunks.items():
        if d in chunks and len(chunks[d]) != len(lengths):
            raise ValueError(f"map_blocks requires that one block of the input maps to one block of output. Expected {len(chunks[d])} chunks along dimension {d!r}, and received {len(lengths)}.")
    # A result that lacks a dimension in chunks is the same in all blocks along it: that of the first block counts.
    blocked = [d for d in chunks if any(d in made[n].dims for n in computed)]
    more = {n: [d for d in blocked if d not in made[n].dims] for n in computed}
    maker.wanted = [(n, made[n].dims, len(more[n])) for n in computed]
    maker.names = set(made.data_vars)
    maker.sizes = {d: tuple(set(lengths)) for d, lengths in out_chunks.items() if lengths != chunks.get(d)}
    numbers = {d: k for k, d in enumerate(dict.fromkeys([*dims, *out_chunks]))}
    inputs = [(v._data, [numbers[d] for d in v.dims]) for ds in sets for v in _lazy(ds).values()]
    inputs += [(call("arange", sum(chunks[d])).rechunk([chunks[d]]), [numbers[d]]) for d in dims]
    outputs = [
        (
            [numbers[d] for d in (*more[n], *made[n].dims)],
            {numbers[d]: list(out_chunks[d]) for d in made[n].dims if out_chunks[d] != chunks.get(d)} | {numbers[d]: [1] * len(chunks[d]) for d in more[n]},
        )
        for n in computed
    ]
    dtypes = [made[n].dtype for n in computed]
    found = _functions._calls(maker, [(k, None) for k in range(len(inputs))], {}, inputs, outputs, True, {"dtype": dtypes, **options})
    found = [array[(0,) * len(more[n])] if more[n] else array for n, array in zip(computed, found)]
    variables = {n: xr.Variable(made[n].dims, array, made[n].attrs) for n, array in zip(computed, found)}
    result = xr.Dataset({n: variables[n] for n in made.data_vars}, {**kept, **{n: v for n, v in variables.items() if n in made.coords}}, made.attrs)
    return result[NAME].rename(template.name) if isinstance(template, xr.DataArray) else result


def install() -> None:
    """Makes ``xr.map_blocks`` and the methods that call it hand data of chunkwise to the engine."""
    import xarray.core.parallel as parallel

    def first(func: Any = None, obj: Any = None, *_: Any, **__: Any) -> Any:
        return next((v._data for v in _lazy(_as_dataset(obj)).values()), None) if isinstance(obj, (xr.Dataset, xr.DataArray)) else None

    divert(parallel, "map_blocks", map_blocks, first)
    divert(xr, "map_blocks", map_blocks, first)
