"""``xarray.map_blocks``: a function of the user gets the part of a data set that is in one block, with its coordinates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
import xarray.core.parallel

from . import _functions
from ._array import Array
from ._hooks import divert
from ._namespace import NOT_NUMBERS, call

#: What the variable of a data array is called in a data set.
NAME = "__chunkwise_array__"
#: Bytes of a variable in memory that each process gets as a whole.
SMALL = 1 << 20

Chunks = dict[Hashable, tuple[int, ...]]


def _of_xarray(x: Any) -> bool:
    return isinstance(x, (xr.Dataset, xr.DataArray))


def _as_dataset(obj: Any) -> xr.Dataset:
    """A data set for each object of xarray. A data array has one variable."""
    return obj.to_dataset(name=NAME) if isinstance(obj, xr.DataArray) else obj


def _as_given(ds: xr.Dataset, like: Any) -> Any:
    """The data set as an object of the kind that ``like`` is, with its name."""
    return ds[NAME].rename(like.name) if isinstance(like, xr.DataArray) else ds


def _named(name: Hashable) -> str:
    return "the result" if name == NAME else f"the variable {name!r}"


def _lazy(ds: xr.Dataset) -> dict[Hashable, xr.Variable]:
    return {name: v for name, v in ds.variables.items() if isinstance(v._data, Array)}


def _cut(obj: Any, chunks: Chunks) -> Any:
    """The object with its large variables in memory as lazy arrays, so that processes get blocks of them."""
    ds = _as_dataset(obj)
    large = {
        name: v.chunk({d: chunks.get(d, -1) for d in v.dims}, chunked_array_type="chunkwise")
        for name, v in ds.variables.items()
        if name not in ds.indexes and not isinstance(v._data, Array) and v.nbytes > SMALL and v.dtype.kind not in NOT_NUMBERS
    }
    # A coordinate stays one.
    return _as_given(ds.assign(large), obj) if large else obj


class _Argument:
    """An object of xarray as processes get it: what is in memory, and in which variables blocks come."""

    def __init__(self, obj: Any) -> None:
        ds = _as_dataset(obj)
        lazy = _lazy(ds)
        self.memory = ds.drop_vars(list(lazy)).compute()
        self.blocks = {name: (v.dims, dict(v.attrs)) for name, v in lazy.items()}
        #: All names in their order, since functions may ask for the first one.
        self.names, self.coords = list(ds.data_vars), list(ds.coords)
        #: Without elements, for the name of a data array.
        self.like = xr.DataArray(name=obj.name) if isinstance(obj, xr.DataArray) else None

    def part(self, blocks: Iterator[Any], spans: Mapping[Hashable, slice]) -> Any:
        """What one call gets."""
        memory = self.memory.isel({d: s for d, s in spans.items() if d in self.memory.dims})
        variables = {**memory.variables, **{name: xr.Variable(dims, next(blocks), attrs) for name, (dims, attrs) in self.blocks.items()}}
        coords = xr.Coordinates({name: variables[name] for name in self.coords}, indexes=memory.xindexes)
        return _as_given(xr.Dataset({name: variables[name] for name in self.names}, coords, self.memory.attrs), self.like)


class _Result(NamedTuple):
    """What is expected of the function."""

    #: The variables that it computes: names, dimensions, and how many axes of length 1 come first.
    variables: list[tuple[Hashable, tuple[Hashable, ...], int]]
    #: All data variables.
    names: set[Hashable]
    #: The lengths of blocks along dimensions where they are not those of the input.
    lengths: dict[Hashable, set[int]]


class _Blocks:
    """The function as processes call it: with blocks of the variables, and the positions of the block along each dimension."""

    def __init__(self, func: Callable[..., Any], args: list[Any], kwargs: Mapping[str, Any], dims: Sequence[Hashable]) -> None:
        self.func, self.kwargs, self.dims = func, dict(kwargs), list(dims)
        self.args = [_Argument(a) if _of_xarray(a) else a for a in args]
        self.wanted = _Result([], set(), {})
        self.__name__ = getattr(func, "__name__", type(func).__name__)

    def result(self, blocks: Sequence[Any], spans: Mapping[Hashable, slice]) -> Any:
        """What the function returns for these blocks."""
        rest = iter(blocks)
        return self.func(*(a.part(rest, spans) if isinstance(a, _Argument) else a for a in self.args), **self.kwargs)

    def __call__(self, *blocks: Any) -> list[Any]:
        count = len(blocks) - len(self.dims)
        spans = {d: slice(int(p[0]), int(p[-1]) + 1) if p.size else slice(0, 0) for d, p in zip(self.dims, blocks[count:])}
        result = _as_dataset(_checked(self.result(blocks[:count], spans)))
        if self.wanted.names != set(result.data_vars):
            missing, others = (
                ", ".join(sorted(map(_named, names))) or "nothing" for names in (self.wanted.names - set(result.data_vars), set(result.data_vars) - self.wanted.names)
            )
            raise ValueError(f"the function returned other data variables than are expected: {missing} is missing, and {others} is not expected")
        return [self._values(result, name, dims, spans)[(None,) * more] for name, dims, more in self.wanted.variables]

    def _values(self, result: xr.Dataset, name: Hashable, dims: tuple[Hashable, ...], spans: Mapping[Hashable, slice]) -> Any:
        if name not in result.variables or set(result[name].dims) != set(dims):
            has = f"has dimensions {result[name].dims}" if name in result.variables else "is not returned by the function"
            raise ValueError(f"{_named(name)} {has}, and dimensions {dims} are expected")
        values = result[name].transpose(*dims).values
        for d, n in zip(dims, values.shape):
            # What is neither in chunks nor in the template has any length.
            expected = self.wanted.lengths.get(d) or ({spans[d].stop - spans[d].start} if d in spans else {n})
            if n not in expected:
                raise ValueError(f"Received dimension {d!r} of length {n}. Expected length {' or '.join(map(str, sorted(expected)))}.")
        return values


def _checked(found: Any) -> Any:
    if not _of_xarray(found):
        raise TypeError(f"Function must return an xarray DataArray or Dataset. Instead it returned {type(found)}")
    return found


def _inferred(maker: _Blocks, sets: list[xr.Dataset], chunks: Chunks) -> Any:
    """What the function returns for blocks of length 0, as xarray asks it."""
    empty = [np.empty([0 if d in chunks else n for d, n in v.sizes.items()], v.dtype) for ds in sets for v in _lazy(ds).values()]
    try:
        found = maker.result(empty, {d: slice(0, 0) for d in chunks})
    except Exception as e:
        raise ValueError("Cannot infer object returned from running user provided function. Please supply the 'template' kwarg to map_blocks.") from e
    return _checked(found)


def _chunks(sets: Sequence[xr.Dataset]) -> Chunks:
    found: Chunks = {}
    for ds in sets:
        for dim, lengths in ds.chunksizes.items():
            if found.setdefault(dim, lengths) != lengths:
                raise ValueError(f"Chunk sizes along dimension {dim!r} are not equal: {found[dim]} and {lengths}. Use unify_chunks() first.")
    return found


def map_blocks(
    func: Callable[..., Any], obj: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None, template: Any = None, **options: Any
) -> Any:
    """As :func:`xarray.map_blocks`. The function runs in processes that are held to their memory, once for each block.

    Along a dimension that the result lacks, a call gets all of it. ``memory`` and ``timeout`` are those of :func:`chunkwise.map_blocks`.
    """
    kwargs = {} if kwargs is None else kwargs
    if not isinstance(kwargs, Mapping):
        raise TypeError(f"kwargs must be a mapping (for example, a dict), not {type(kwargs)}")
    if any(isinstance(getattr(getattr(v, "variable", None), "_data", v), Array) for v in kwargs.values()):
        raise TypeError("lazy arrays are no keyword arguments of the function: give them in args")
    if template is not None and not _of_xarray(template):
        raise TypeError(f"template must be a DataArray or Dataset, not {type(template)}")
    given = [obj, *args]
    places = [k for k, a in enumerate(given) if _of_xarray(a)]
    aligned = xr.align(*(given[k] for k in places), join="exact")
    chunks = _chunks([_as_dataset(a) for a in aligned])
    for k, a in zip(places, aligned):
        given[k] = _cut(a, chunks)
    sets = [_as_dataset(given[k]) for k in places]
    # Large variables have come in, with dimensions of their own.
    chunks = _chunks(sets)
    maker = _Blocks(func, given, kwargs, list(chunks))
    inferred = template is None
    template = _inferred(maker, sets, chunks) if inferred else template
    made = _as_dataset(template)
    if inferred:
        out_chunks = {d: chunks.get(d, (n,)) for d, n in made.sizes.items()}
        coords = xr.merge([ds.coords.to_dataset() for ds in sets], join="exact", compat="override").coords
        # Those of the input stay, and those without dimensions in chunks are the same for all blocks.
        kept = {n: coords[n].variable if n in coords else made[n].variable for n in made.coords if n in coords or not set(made[n].dims) & set(chunks)}
    else:
        if not made.chunksizes:
            raise ValueError("Provided template has no lazy arrays. Please construct a template with chunked arrays.")
        out_chunks = {d: made.chunksizes.get(d, (n,)) for d, n in made.sizes.items()}
        kept = {n: made[n].variable for n in made.coords if not isinstance(made[n].variable._data, Array)}
    computed = [*made.data_vars, *(n for n in made.coords if n not in kept)]
    found = _computed(maker, sets, chunks, made[computed], out_chunks, computed, options)
    result = xr.Dataset({n: found[n] for n in made.data_vars}, {**kept, **{n: v for n, v in found.items() if n in made.coords}}, made.attrs)
    return _as_given(result, template)


def _computed(
    maker: _Blocks, sets: list[xr.Dataset], chunks: Chunks, made: xr.Dataset, out_chunks: Chunks, names: list[Hashable], options: Mapping[str, Any]
) -> dict[Hashable, xr.Variable]:
    """The variables with these names, as lazy arrays. ``made`` has their dimensions, dtypes and attributes."""
    for d, lengths in out_chunks.items():
        if d in chunks and len(chunks[d]) != len(lengths):
            raise ValueError(
                f"map_blocks requires that one block of the input maps to one block of output. Expected {len(chunks[d])} chunks along dimension {d!r}, "
                f"and received {len(lengths)}."
            )
    for n in names:
        if made[n].dtype.kind in NOT_NUMBERS:
            raise TypeError(f"{_named(n)} has dtype {made[n].dtype}, and chunkwise has lazy arrays of numbers only: leave it out, or return numbers")
    # A result that lacks a dimension in chunks is the same in all blocks along it: that of the first block counts.
    # Along one without elements, the function is called with nothing.
    blocked = [d for d in chunks if sum(chunks[d]) and any(d in made[n].dims for n in names)]
    more = {n: [d for d in blocked if d not in made[n].dims] for n in names}
    other = {d: lengths for d, lengths in out_chunks.items() if lengths != chunks.get(d)}
    maker.wanted = _Result(
        [(n, made[n].dims, len(more[n])) for n in names], {n for n in names if n in made.data_vars}, {d: set(lengths) for d, lengths in other.items()}
    )
    numbers = {d: k for k, d in enumerate(dict.fromkeys([*chunks, *out_chunks]))}
    inputs = [(v._data, [numbers[d] for d in v.dims]) for ds in sets for v in _lazy(ds).values()]
    inputs += [(call("arange", sum(lengths)).rechunk([lengths]), [numbers[d]]) for d, lengths in chunks.items()]
    outputs = [
        (
            [numbers[d] for d in (*more[n], *made[n].dims)],
            {numbers[d]: list(other[d]) for d in made[n].dims if d in other} | {numbers[d]: [1] * len(chunks[d]) for d in more[n]},
        )
        for n in names
    ]
    every = [(k, None) for k in range(len(inputs))]
    arrays = _functions._calls(maker, every, {}, inputs, outputs, True, {"dtype": [made[n].dtype for n in names], **options})
    return {n: xr.Variable(made[n].dims, array[(0,) * len(more[n])] if more[n] else array, made[n].attrs) for n, array in zip(names, arrays)}


def install() -> None:
    """Makes ``xr.map_blocks`` and the methods that call it hand data of chunkwise to the engine."""

    def first(func: Any = None, obj: Any = None, *_: Any, **__: Any) -> Any:
        return next((v._data for v in _lazy(_as_dataset(obj)).values()), None) if _of_xarray(obj) else None

    divert(xarray.core.parallel, "map_blocks", map_blocks, first)
    divert(xr, "map_blocks", map_blocks, first)
