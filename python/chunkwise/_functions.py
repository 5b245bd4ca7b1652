"""Functions of users on the blocks of arrays.

They run in processes of their own, which are held to the memory and the time that a call says.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from math import prod
from typing import Any

import numpy as np

from . import _chunkwise
from ._array import Array
from ._namespace import call, dtype_name


def _bytes(memory: int | str | None, blocks: int) -> tuple[int, bool]:
    """Bytes that a call may allocate, and whether the user said so. Otherwise it is four times the blocks, and at least 64 MB."""
    if memory is None:
        return max(4 * blocks, 64_000_000), False
    return (memory if isinstance(memory, int) else _chunkwise.parse_bytes(memory)), True


def _name_of(function: Any) -> str:
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _takes(function: Any, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _inferred(function: Any, args: list[tuple[int, Any]], inputs: Sequence[tuple[Array, Any]], kwargs: dict[str, Any], several: bool) -> Any:
    """The dtypes of what a function returns for blocks of one element."""
    ones = [np.ones((1,) * a.ndim, a.dtype) for a, _ in inputs]
    given = [ones[i] if i >= 0 else constant for i, constant in args]
    try:
        with np.errstate(all="ignore"):
            made = function(*given, **kwargs)
    except Exception as e:
        raise ValueError(
            f"the dtype of {_name_of(function)!r} is not known: called with blocks of one element it raised {type(e).__name__}: {e}; give dtype="
        ) from e
    return [np.asarray(a).dtype for a in made] if several else [np.asarray(made).dtype]


def _function(
    function: Any,
    args: list[tuple[int, Any]],
    kwargs: dict[str, Any],
    dtypes: Sequence[Any],
    several: bool,
    blocks: int,
    options: Mapping[str, Any],
    packs: list[tuple[list[int], str]] | None = None,
) -> _chunkwise.Function:
    """A function with its arguments and its limits, as the engine calls it. ``blocks`` are the bytes of its blocks."""
    from ._workers import BASE, Caller, code_of, dumped

    name = options.get("name") or _name_of(function)
    about = {
        "function": function,
        "args": args,
        "kwargs": {k: v for k, v in kwargs.items() if k not in ("block_id", "block_info")},
        "block_id": "block_id" in kwargs,
        "block_info": "block_info" in kwargs,
        "layout": options.get("layout"),
        "several": several,
        "dtypes": [np.dtype(dtype_name(d)) for d in dtypes],
        "packs": packs or [([k], dtype) for k, dtype in enumerate(dtypes)],
    }
    blob = dumped(about)
    memory, declared = _bytes(options.get("memory"), blocks)
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    caller = Caller(name, blob, file, memory, declared, options.get("timeout"), code_of(function), shared=isinstance(function, Sharing), private=getattr(function, "private", False), beside=blocks + BASE)
    # Beside what the function allocates there are its process, and its blocks in shared memory.
    return _chunkwise.Function(name, caller.version, memory + caller.beside, caller)


def _block_bytes(array: Array, labels: Sequence[int], kept: set[int]) -> int:
    """Bytes of the largest block of an input: axes that no output has are taken as a whole."""
    lengths = [max(c, default=0) if label in kept else n for c, n, label in zip(array.chunks, array.shape, labels)]
    return prod(lengths) * array.itemsize


def _layout(
    args: list[tuple[int, Any]], inputs: list[tuple[Array, list[int]]], output: tuple[list[int], dict[int, list[int]]]
) -> tuple[dict[str, Any], list[tuple[Array, list[int]]]]:
    """What ``block_info`` says besides the place of a block, and the arrays in common chunks.

    That is the shape of the result, and for each array among the arguments its shape and where its blocks end.
    """
    labels, given = output
    chunks: dict[int, tuple[int, ...]] = {}
    for array, own in inputs:
        for label, lengths in zip(own, array.chunks):
            known = chunks.get(label, ())
            if label not in chunks or (sum(lengths), len(lengths)) > (sum(known), len(known)):
                chunks[label] = lengths
    arrays, aligned = [], []
    for place, array, own in ((p, *inputs[k]) for p, (k, _) in enumerate(args) if k >= 0):
        # An axis that is broadcast is one block, and so is one that the result lacks.
        common = tuple(chunks[label] if n == sum(chunks[label]) else (n,) for label, n in zip(own, array.shape))
        cut = [label in labels and n == sum(chunks[label]) for label, n in zip(own, array.shape)]
        axes = [(labels.index(label), [0, *accumulate(c)]) if one else (None, [0, sum(c)]) for label, c, one in zip(own, common, cut)]
        arrays.append((place, array.shape, axes))
        aligned.append((array if array.chunks == common else array.rechunk(common), own))
    return {"shape": tuple(sum(given.get(label, chunks.get(label, ()))) for label in labels), "arrays": arrays}, aligned


def _calls(
    function: Any,
    args: list[tuple[int, Any]],
    kwargs: dict[str, Any],
    inputs: list[tuple[Array, list[int]]],
    outputs: list[tuple[list[int], dict[int, list[int]]]],
    several: bool,
    options: Mapping[str, Any],
) -> list[Array]:
    if not inputs:
        raise ValueError(f"{_name_of(function)!r} needs at least one array of chunkwise")
    dtypes = options.get("dtype")
    if dtypes is None:
        first = dict.fromkeys(("block_id",), (0,) * len(outputs[0][0])) if "block_id" in kwargs else {}
        dtypes = _inferred(function, args, inputs, {**kwargs, **first}, several)
    elif not several or not isinstance(dtypes, (list, tuple)):
        dtypes = [dtypes] * len(outputs)
    if "block_info" in kwargs:
        layout, inputs = _layout(args, inputs, outputs[0])
        options = {**options, "layout": layout}
    names = [dtype_name(d, _name_of(function)) for d in dtypes]
    lengths: dict[int, int] = {}
    for array, labels in inputs:
        for label, chunks in zip(labels, array.chunks):
            lengths[label] = max(lengths.get(label, 0), max(chunks, default=0))
    blocks = sum(_block_bytes(a, labels, {label for out, _ in outputs for label in out}) for a, labels in inputs)
    packs = _packs(outputs, names)
    for members, name in packs:
        out, given = outputs[members[0]]
        lengths.update({k: max(lens, default=0) for k, lens in given.items()})
        blocks += len(members) * prod(lengths[k] for k in out) * np.dtype(name).itemsize
    called = _function(function, args, kwargs, names, several, blocks, options, packs)
    axis = max([*lengths, *(label for out, _ in outputs for label in out)], default=-1) + 1
    wanted: list[tuple[list[int], str, dict[int, list[int]]]] = []
    for k, (members, name) in enumerate(packs):
        out, given = outputs[members[0]]
        wanted.append((out, name, given) if len(members) == 1 else ([axis + k, *out], name, {**given, axis + k: [len(members)]}))
    made = _chunkwise.blockwise(called, wanted, [(a._lazy, labels) for a, labels in inputs])
    found: dict[int, Array] = {}
    for (members, _), lazy in zip(packs, made, strict=True):
        for j, member in enumerate(members):
            found[member] = Array(lazy)[j].astype(names[member]) if len(members) > 1 else Array(lazy)
    return [found[k] for k in range(len(names))]


def _packs(outputs: list[tuple[list[int], dict[int, list[int]]]], names: list[str]) -> list[tuple[list[int], str]]:
    """Outputs that are one array for the engine, with an axis more, and its dtype: the engine calls a function once for each of its arrays."""
    packs: list[tuple[list[int], str]] = []
    for k, (output, name) in enumerate(zip(outputs, names)):
        for at, (members, common) in enumerate(packs):
            if outputs[members[0]] == output and (both := _common(common, name)) is not None:
                packs[at] = ([*members, k], both)
                break
        else:
            packs.append(([k], name))
    return packs


def _common(a: str, b: str) -> str | None:
    """A dtype that holds all values of both."""
    common = np.result_type(a, b)
    for dtype in map(np.dtype, (a, b)):
        if not np.can_cast(dtype, common) or dtype.kind in "iu" and dtype.itemsize == 8 and common.kind in "fc":
            return None
    return common.name


def _given(args: Sequence[Any]) -> tuple[list[Array], list[tuple[int, Any]]]:
    """The arrays among arguments, and for each argument the number of its array, or -1 and what it is."""
    arrays: list[Array] = []
    places: list[tuple[int, Any]] = []
    for a in args:
        if isinstance(a, Array):
            places.append((len(arrays), None))
            arrays.append(a)
        else:
            places.append((-1, a))
    return arrays, places


def _read(value: Any, place: int, dated: dict[int, Any], chunks: Any = None) -> Array:
    """An argument of values as a lazy array. Dates become whole numbers, and their dtype is kept for the function."""
    from ._inputs import from_array

    if getattr(value, "dtype", np.dtype(bool)).kind in "mM":
        value = np.asarray(value)
        dated[place] = value.dtype
        value = value.view(np.int64)
    return from_array(value if hasattr(value, "dtype") else np.asarray(value), chunks=chunks)


def _with_dates(function: Callable[..., Any], dated: dict[int, Any]) -> Callable[..., Any]:
    """The function, which gets dates again."""
    if not dated:
        return function

    def with_dates(*args: Any, **kwargs: Any) -> Any:
        return function(*(a.view(dated[k]) if k in dated else a for k, a in enumerate(args)), **kwargs)

    with_dates.__name__ = _name_of(function)
    return with_dates


def _checked(kwargs: dict[str, Any]) -> None:
    for name, value in kwargs.items():
        if isinstance(value, Array):
            raise TypeError(f"{name}= is a lazy array: give it as a positional argument, so that the function gets blocks of it, or compute() it")


class Sharing:
    """A function of the package itself that leaves nothing in a process but what it imports, so that others like it may be called there, too."""

    #: True if it holds secrets.
    private = False


class _Making:
    """A function that makes blocks from nothing but their places."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.private = getattr(function, "private", False)
        self.__name__ = _name_of(function)

    def __call__(self, _seed: Any, *args: Any, **kwargs: Any) -> Any:
        if "block_info" in kwargs:
            kwargs["block_info"] = {None: kwargs["block_info"][None]}
        return self.function(*args, **kwargs)


class _SharedMaking(_Making, Sharing):
    """Such a function of the package."""


def map_blocks(
    func: Callable[..., Any],
    *args: Any,
    dtype: Any = None,
    chunks: Any = None,
    drop_axis: int | Sequence[int] | None = None,
    new_axis: int | Sequence[int] | None = None,
    memory: int | str | None = None,
    timeout: float | None = None,
    name: str | None = None,
    meta: Any = None,
    **kwargs: Any,
) -> Array:
    """The array of what a function returns for each block.

    The function gets a block of each array, at the same place, as values of NumPy that it must not change, and the other arguments as they are. It may take
    ``block_id``, the number of the block on each axis, and ``block_info``, a dictionary as Dask's: by the number of each argument that is an array,
    and by ``None`` for the result. Arrays of fewer axes, and axes of length 1, are broadcast.

    ``dtype`` is that of the result; without it, the function is called with blocks of one element to see. ``drop_axis`` are axes that the result
    lacks: a block has all of them. ``new_axis`` are axes that it has besides, and ``chunks`` the lengths of its blocks where they are not those of the
    first array. Without an array, ``chunks`` has the lengths of all blocks, and the function makes each from its ``block_id``.

    ``memory`` is what one call may allocate besides its blocks, as ``"300MB"``. It counts in the budget, and a call that takes more is
    ended with :class:`MemoryLimitError`. Without it, four times the blocks are assumed, and at least 64 MB; if a call takes more, the run begins anew with more. A call that takes longer than ``timeout`` seconds is ended with ``TimeoutError``.

    >>> import chunkwise as cw, numpy as np
    >>> x = cw.from_array(np.arange(6.0), chunks=2)
    >>> cw.map_blocks(lambda block: block - block.mean(), x).compute()
    array([-0.5,  0.5, -0.5,  0.5, -0.5,  0.5])
    """
    arrays, places = _given(args)
    _checked(kwargs)
    if not arrays and isinstance(chunks, (tuple, list)) and all(isinstance(c, (tuple, list)) for c in chunks):
        # One element for each block.
        seed = call("full", [len(c) for c in chunks], False, dtype="bool").rechunk(1)
        extra = {name: None for name in ("block_id", "block_info") if name not in kwargs and _takes(func, name)}
        return map_blocks(
            (_SharedMaking if isinstance(func, Sharing) else _Making)(func), seed, *args, dtype=dtype, chunks=chunks, memory=memory, timeout=timeout, name=name or _name_of(func), meta=meta, **kwargs, **extra
        )
    for special in ("block_id", "block_info"):
        if special not in kwargs and _takes(func, special):
            kwargs[special] = None
    rank = max((a.ndim for a in arrays), default=0)
    inputs = [(a, list(range(rank - a.ndim, rank))) for a in arrays]
    labels = list(range(rank))
    for axis in sorted(_axes(drop_axis, rank), reverse=True):
        del labels[axis]
    new = _axes(new_axis, len(labels) + len(_axes(new_axis, None)))
    for k, axis in enumerate(sorted(new)):
        labels.insert(axis, rank + k)
    given: dict[int, list[int]] = {rank + k: [1] for k in range(len(new))}
    if chunks is not None:
        known = {label: c for a, own in inputs for label, c in zip(own, a.chunks) if len(c) > 1 or label not in given}
        chunks = (chunks,) * len(labels) if isinstance(chunks, int) else tuple(chunks)
        if len(chunks) != len(labels):
            raise ValueError(f"chunks has {len(chunks)} entries for {len(labels)} axes")
        for label, c in zip(labels, chunks):
            given[label] = [operator.index(c)] * len(known.get(label, (0,))) if not isinstance(c, (tuple, list)) else [operator.index(n) for n in c]
    if meta is not None and dtype is None:
        dtype = meta.dtype
    options = {"dtype": dtype, "memory": memory, "timeout": timeout, "name": name}
    return _calls(func, places, kwargs, inputs, [(labels, given)], False, options)[0]


def _axes(axes: Any, rank: int | None) -> list[int]:
    listed = [] if axes is None else [operator.index(a) for a in np.atleast_1d(axes)]
    if rank is None:
        return listed
    for a in listed:
        if not -rank <= a < rank:
            raise IndexError(f"axis {a} is out of bounds for an array with {rank} axes")
    return [a % rank for a in listed]


def blockwise(
    func: Callable[..., Any],
    out_ind: Sequence[Any],
    *args: Any,
    dtype: Any = None,
    new_axes: Mapping[Any, Any] | None = None,
    adjust_chunks: Mapping[Any, Any] | None = None,
    memory: int | str | None = None,
    timeout: float | None = None,
    name: str | None = None,
    meta: Any = None,
    concatenate: bool | None = None,
    align_arrays: bool = True,
    **kwargs: Any,
) -> Array:
    """The array of what a function returns for each block, with a label for each axis: ``blockwise(f, "ij", a, "ik", b, "kj")``.

    Arguments follow in pairs, an array and the labels of its axes; ``None`` instead of labels gives a value as it is. Axes with labels that the result lacks are
    taken as a whole. ``new_axes`` has the lengths of axes that only the result has, ``adjust_chunks`` the lengths of its blocks where these differ.
    For the other options see :func:`map_blocks`.
    """
    _checked(kwargs)
    numbers: dict[Any, int] = {}

    def number(label: Any) -> int:
        return numbers.setdefault(label, len(numbers))

    dated: dict[int, Any] = {}
    labels = [number(label) for label in out_ind]
    inputs: list[tuple[Array, list[int]]] = []
    places: list[tuple[int, Any]] = []
    for value, own in zip(args[::2], args[1::2], strict=True):
        if own is None:
            places.append((-1, value))
            continue
        if not isinstance(value, Array):
            value = _read(value, len(places), dated)
        if len(own) != value.ndim:
            raise ValueError(f"{len(own)} labels for an array with {value.ndim} axes")
        places.append((len(inputs), None))
        inputs.append((value, [number(label) for label in own]))
    chunks: dict[int, list[int]] = {}
    for label, length in (new_axes or {}).items():
        chunks[number(label)] = [operator.index(n) for n in length] if isinstance(length, (tuple, list)) else [operator.index(length)]
    for label, new in (adjust_chunks or {}).items():
        old = next(c for a, own in inputs for c, k in zip(a.chunks, own) if k == number(label))
        if callable(new):
            chunks[number(label)] = [operator.index(new(n)) for n in old]
        else:
            chunks[number(label)] = [operator.index(n) for n in (new if isinstance(new, (tuple, list)) else [new] * len(old))]
    if meta is not None and dtype is None:
        dtype = meta.dtype
    options = {"dtype": dtype, "memory": memory, "timeout": timeout, "name": name}
    return _calls(_with_dates(func, dated), places, kwargs, inputs, [(labels, chunks)], False, options)[0]


_SIGNATURE = re.compile(r"^\s*(\([^()]*\)\s*(,\s*\([^()]*\)\s*)*)?->\s*(\([^()]*\)\s*(,\s*\([^()]*\)\s*)*),?\s*$")


def _signature(text: str) -> tuple[list[list[str]], list[list[str]], bool]:
    """The core dimensions of inputs and outputs, and whether there are several outputs: as NumPy's generalised ufuncs."""
    if not _SIGNATURE.match(text):
        raise ValueError(f"{text!r} is no signature, such as '(i),(i)->()'")
    before, after = text.split("->")

    def groups(part: str) -> list[list[str]]:
        return [[d.strip() for d in g.split(",") if d.strip()] for g in re.findall(r"\(([^()]*)\)", part)]

    return groups(before), groups(after), len(groups(after)) > 1 or after.rstrip().endswith(",")


def apply_gufunc(
    func: Callable[..., Any],
    signature: str,
    *args: Any,
    axes: Any = None,
    axis: int | None = None,
    keepdims: bool = False,
    output_dtypes: Any = None,
    output_sizes: Mapping[str, int] | None = None,
    vectorize: bool = False,
    allow_rechunk: bool = False,
    memory: int | str | None = None,
    timeout: float | None = None,
    meta: Any = None,
    **kwargs: Any,
) -> Any:
    """What a generalised ufunc makes of arrays: ``apply_gufunc(f, "(i)->()", x)``.

    The core dimensions are the last axes of the blocks that the function gets and returns, and a block has all of each. The other
    axes are broadcast. Core dimensions that have several chunks are refused unless ``allow_rechunk=True``. ``output_sizes`` has the lengths of new ones. For
    ``memory`` and ``timeout`` see :func:`map_blocks`.
    """
    if axes is not None or axis is not None or keepdims:
        raise NotImplementedError("axes=, axis= and keepdims= of apply_gufunc: move the core dimensions to the end with moveaxis()")
    _checked(kwargs)
    before, after, several = _signature(signature)
    if len(before) != len(args):
        raise ValueError(f"the signature {signature!r} has {len(before)} inputs, and {len(args)} are given")
    if vectorize:
        func = np.vectorize(func, signature=signature, otypes=_otypes(output_dtypes, len(after)))
    before, after = ([_distinct(core) for core in part] for part in (before, after))
    dated: dict[int, Any] = {}
    numbers = {d: 1000 + k for k, d in enumerate(dict.fromkeys(d for core in [*before, *after] for d in core))}
    arrays: list[tuple[Array, list[str]]] = []
    places: list[tuple[int, Any]] = []
    known: dict[str, int] = {}
    for value, core in zip(args, before):
        if not isinstance(value, Array) and not (core or np.ndim(value)):
            places.append((-1, value))
            continue
        if not isinstance(value, Array) and np.ndim(value) == len(core) and np.asarray(value).dtype.kind in "OSTU":
            # The engine has no texts and objects, such as dates of cftime. All calls get these whole.
            places.append((-1, np.asarray(value)))
            known.update(zip(core, np.shape(value)))
            continue
        if not isinstance(value, Array):
            value = _read(value, len(places), dated, -1)
        if value.ndim < len(core):
            raise ValueError(f"an array with {value.ndim} axes lacks some of the core dimensions {core}")
        whole = {value.ndim - len(core) + k: -1 for k in range(len(core))}
        if any(value.numblocks[a] > 1 for a in whole):
            if not allow_rechunk:
                raise ValueError(f"the core dimensions {core} have several chunks; rechunk them to one, or give allow_rechunk=True")
            value = value.rechunk(whole)
        places.append((len(arrays), None))
        arrays.append((value, core))
    loops = [a.ndim - len(core) for a, core in arrays]
    rank = max(loops, default=0)
    inputs = [(a, [*range(rank - n, rank), *(numbers[d] for d in core)]) for (a, core), n in zip(arrays, loops)]
    known |= {d: a.shape[a.ndim - len(core) + k] for a, core in arrays for k, d in enumerate(core)}
    sizes = {**known, **(output_sizes or {})}
    for d in {d for core in [*before, *after] for d in core if AGAIN in d}:
        same = d.partition(AGAIN)[0]
        if sizes.setdefault(d, sizes.get(same, 0)) != sizes.get(same):
            raise ValueError(f"the core dimension {same!r} has the lengths {sizes[same]} and {sizes[d]}")
    outputs = []
    for core in after:
        if missing := [d for d in core if d not in sizes]:
            raise ValueError(f"output_sizes must have the length of {missing[0]!r}")
        outputs.append(([*range(rank), *(numbers[d] for d in core)], {numbers[d]: [sizes[d]] for d in core}))
    if output_dtypes is None and meta is not None:
        output_dtypes = [m.dtype for m in meta] if isinstance(meta, (tuple, list)) else meta.dtype
    if isinstance(output_dtypes, (list, tuple)) and not several:
        (output_dtypes,) = output_dtypes
    options = {"dtype": output_dtypes, "memory": memory, "timeout": timeout}
    made = _calls(_with_dates(func, dated), places, kwargs, inputs, outputs, several, options)
    return tuple(made) if several else made[0]


#: Stands between the name of a core dimension and its number, where an array has it twice.
AGAIN = "#"


def _distinct(core: list[str]) -> list[str]:
    """Core dimensions of which each has a name of its own, as in ``(n,n)->()`` of a determinant."""
    return [d if d not in core[:k] else f"{d}{AGAIN}{core[:k].count(d)}" for k, d in enumerate(core)]


def _otypes(dtypes: Any, n: int) -> list[Any] | None:
    if dtypes is None:
        return None
    return list(dtypes) if isinstance(dtypes, (list, tuple)) else [dtypes] * n


#: Boundaries by the names of Dask, and what pads there.
_BOUNDARIES = {"reflect": "symmetric", "nearest": "edge", "periodic": "wrap"}


def map_overlap(
    func: Callable[..., Any],
    x: Array,
    *,
    depth: Any,
    boundary: Any = None,
    dtype: Any = None,
    memory: int | str | None = None,
    timeout: float | None = None,
    name: str | None = None,
    **kwargs: Any,
) -> Array:
    """The array of what a function returns for each block with ``depth`` elements around it on each axis.

    The function returns a block of the same shape, of which the middle is kept. ``depth`` is a number, one for each axis, or a dictionary by axis. ``boundary``
    says what lies beyond the ends: ``"reflect"``, ``"nearest"``, ``"periodic"`` or a number; with ``None``, blocks at the ends have less
    around them. For the other options see :func:`map_blocks`.
    """
    _checked(kwargs)
    by_axis = depth if isinstance(depth, dict) else dict(enumerate(depth)) if isinstance(depth, (tuple, list)) else dict.fromkeys(range(x.ndim), depth)
    depths = [operator.index(by_axis.get(i, 0)) for i in range(x.ndim)]
    mode, fill = None, 0.0
    if isinstance(boundary, str) and boundary != "none":
        if boundary not in _BOUNDARIES:
            raise ValueError(f"boundary is one of {sorted(_BOUNDARIES)}, a number or None, not {boundary!r}")
        mode = _BOUNDARIES[boundary]
    elif boundary is not None and boundary != "none":
        mode, fill = "constant", float(boundary)
    places: list[tuple[int, Any]] = [(0, None)]
    if dtype is None:
        (dtype,) = _inferred(func, places, [(x, None)], kwargs, False)
    lengths = [max(c, default=0) + 2 * d for c, d in zip(x.chunks, depths)]
    blocks = prod(lengths) * (x.itemsize + np.dtype(dtype).itemsize)
    options = {"memory": memory, "timeout": timeout, "name": name}
    called = _function(func, places, kwargs, [dtype], False, blocks, options)
    return Array(_chunkwise.map_overlap(called, x._lazy, depths, dtype_name(dtype), mode, fill))


def _at_once(split_every: Any) -> int:
    """How many partial results are combined at once on an axis."""
    if not isinstance(split_every, (int, np.integer)) or split_every < 0:
        raise TypeError(f"split_every= is how many partial results are combined at once, and not {split_every!r}")
    return int(split_every)


def reduction(
    x: Array,
    chunk: Callable[..., Any],
    aggregate: Callable[..., Any],
    *,
    combine: Callable[..., Any] | None = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    dtype: Any = None,
    split_every: int = 8,
    memory: int | str | None = None,
    timeout: float | None = None,
    **kwargs: Any,
) -> Array:
    """A reduction with functions of the user, as a tree: ``chunk`` of each block, ``combine`` of partial results, ``aggregate`` of the last ones.

    Each is called with ``axis=`` and ``keepdims=True``, and returns an array with length 1 on these axes. ``combine`` is ``aggregate`` if it is not given, and then must have a
    result of the dtype of what it gets. ``split_every`` partial results are combined at once on each axis. For the other options see
    :func:`map_blocks`.
    """
    _checked(kwargs)
    axes = tuple(_axes(axis, x.ndim)) if axis is not None else tuple(range(x.ndim))
    own = {**kwargs, "axis": axes, "keepdims": True}
    place: list[tuple[int, Any]] = [(0, None)]
    (partial,) = (np.dtype(dtype_name(d)) for d in _inferred(chunk, place, [(x, None)], own, False))
    if dtype is None:
        from ._api import empty

        (dtype,) = _inferred(aggregate, place, [(empty((1,) * x.ndim, dtype=partial), None)], own, False)
    split_every = _at_once(split_every)
    part = prod(1 if i in axes else max(c, default=0) for i, c in enumerate(x.chunks))
    block = prod(max(c, default=0) for c in x.chunks) * x.itemsize
    partials = part * split_every ** len(axes) * partial.itemsize
    options = {"memory": memory, "timeout": timeout}

    def made(function: Any, dtype: Any, blocks: int) -> _chunkwise.Function:
        return _function(function, place, own, [dtype], False, blocks + part * np.dtype(dtype).itemsize, options)

    functions = (made(chunk, partial, block), made(combine or aggregate, partial, partials), made(aggregate, dtype, partials))
    lazy = _chunkwise.reduce(functions, x._lazy, list(axes), (partial.name, dtype_name(dtype)), keepdims, split_every)
    return Array(lazy)
