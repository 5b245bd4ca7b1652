"""Group-bys of xarray through flox, which would compute with the values in memory: they become operations of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any

import numpy as np
import wrapt

from ._array import Array
from ._functions import apply_gufunc
from ._hooks import divert
from ._namespace import TABLE, call
from ._rows import along, moved

#: A plan with more labels would be too large.
MOST_LABELS = 10_000_000
#: Bytes that a call of flox may take, which it takes mostly for what it imports.
FLOX = 200_000_000
_FUNCTIONS = frozenset(name.removeprefix("groupby_") for name in TABLE if name.startswith("groupby_"))


def _codes(by: Any, expected: Any, isbin: bool) -> tuple[np.ndarray[Any, Any], Any]:
    """The group of each label, -1 for none, and the groups."""
    import pandas as pd

    labels = np.ravel(by)
    if expected is None:
        codes, groups = pd.factorize(labels, sort=True)
        return codes, groups
    groups = expected if isinstance(expected, pd.Index) else pd.Index(expected)
    if isbin and not isinstance(groups, pd.IntervalIndex):
        groups = pd.IntervalIndex.from_breaks(groups)
    return groups.get_indexer(labels), groups


def _each(value: Any, n: int) -> Sequence[Any]:
    return value if isinstance(value, (tuple, list)) else (value,) * n


def _flat(array: Array, bys: Sequence[Any], axis: Any) -> tuple[Array, list[np.ndarray[Any, Any]]]:
    """The array with the axes of the labels as one, the last, and the labels of each position of it."""
    bys = np.broadcast_arrays(*bys)
    ndim = bys[0].ndim
    wanted = range(array.ndim - ndim, array.ndim)
    axes = wanted if axis is None else sorted(a % array.ndim for a in _each(axis, 1))
    if list(axes) != list(wanted):
        raise NotImplementedError("groups along some axes of the labels only are not possible with chunkwise; reduce all of them")
    shape = array.shape[array.ndim - ndim :]
    if prod(shape) > MOST_LABELS:
        raise NotImplementedError(f"{prod(shape)} labels are too many for a plan ({MOST_LABELS} at most); reduce the axes without labels in a step of its own")
    if ndim > 1:
        array = call("reshape", array, [*array.shape[: array.ndim - ndim], prod(shape)])
    return array, [np.broadcast_to(by, shape) for by in bys]


def groupby_reduce(
    array: Array,
    *by: Any,
    func: Any,
    expected_groups: Any = None,
    sort: bool = True,
    isbin: Any = False,
    axis: Any = None,
    fill_value: Any = None,
    dtype: Any = None,
    min_count: int | None = None,
    finalize_kwargs: Any = None,
    **_: Any,
) -> tuple[Any, ...]:
    """As ``flox.groupby_reduce``. How it is computed (``method``, ``engine``, ``reindex``) is the engine's choice.

    The shape is that of ``array``, with axes of the groups in place of those of ``by``.
    """
    skipna = isinstance(func, str) and func.startswith("nan")
    name = func.removeprefix("nan") if isinstance(func, str) else getattr(func, "__name__", repr(func))
    if not isinstance(func, str):
        raise NotImplementedError(f"chunkwise has no {name!r} of groups; it has {', '.join(sorted(_FUNCTIONS))}. Compute the array first: x.compute()")
    array, bys = _flat(array, [b.compute() if isinstance(b, Array) else np.asarray(b) for b in by], axis)
    wanted = expected_groups if isinstance(expected_groups, tuple) else (expected_groups,) * len(bys)
    found = [_codes(*each) for each in zip(bys, wanted, _each(isbin, len(bys)))]
    sizes = [len(groups) for _, groups in found]
    codes = np.zeros(found[0][0].shape, np.int64)
    for code, groups in found:
        codes = np.where((codes < 0) | (code < 0), -1, codes * len(groups) + code)

    if name not in _FUNCTIONS:
        kept = {"fill_value": fill_value, "dtype": dtype, "min_count": min_count, "finalize_kwargs": finalize_kwargs}
        result = _by_rows(array, codes, prod(sizes), func, {k: v for k, v in kept.items() if v is not None})
        return _grouped(result, sizes), *(np.asarray(groups) for _, groups in found)
    present = np.bincount(codes[codes >= 0], minlength=prod(sizes)) > 0
    if min_count is None:
        min_count = int(fill_value is not None and expected_groups is not None)
    if min_count > 0 and fill_value is None:
        fill_value = np.nan
    if not present.all() and name in ("min", "max") and array.dtype.kind not in "fc":
        array = array.astype(np.float64)
    result = _reduced(array, codes, present, name, skipna, (finalize_kwargs or {}).get("ddof", 0))
    if fill_value is not None:
        few: Any = ~present
        if min_count > 0:
            counts = call("groupby_count", array, _whole(codes, present), axis=array.ndim - 1)
            few = call("less", _in_place(counts, present, 0), min_count)
        result = call("where", few, fill_value, result)
    if dtype is not None:
        result = result.astype(dtype)
    return _grouped(result, sizes), *(np.asarray(groups) for _, groups in found)


def _grouped(result: Array, sizes: list[int]) -> Array:
    """An axis for each kind of group."""
    return result if len(sizes) == 1 else call("reshape", result, [*result.shape[:-1], *sizes])


def _by_rows(array: Array, codes: np.ndarray[Any, Any], count: int, func: str, options: dict[str, Any]) -> Array:
    """What flox makes of whole rows, in processes: functions that the engine does not have. Several quantiles are on a first axis."""
    several = np.ndim((options.get("finalize_kwargs") or {}).get("q", 0))

    def rows(block: Any) -> Any:
        import flox

        found = flox.groupby_reduce(block, codes, func=func, axis=-1, expected_groups=np.arange(count), **options)[0]
        return np.moveaxis(found, 0, -2) if several else found

    rows.__name__ = func
    with np.errstate(all="ignore"):
        one = rows(np.ones((1, len(codes)), array.dtype))
    sizes = {"g": count} | ({"q": one.shape[-2]} if several else {})
    signature = "(i)->(q,g)" if several else "(i)->(g)"
    found: Array = apply_gufunc(rows, signature, moved(array, [array.ndim - 1]), output_dtypes=one.dtype, output_sizes=sizes, memory=FLOX)
    rest = found.ndim - 2
    return call("permute_dims", found, [rest, *range(rest), rest + 1]) if several else found


def groupby_scan(array: Array, *by: Any, func: Any, axis: Any = -1, dtype: Any = None, **_: Any) -> Array:
    """As ``flox.groupby_scan`` along the axis of the labels: cumulative sums and fills in each group. Of whole rows, in processes."""
    labels = [b.compute() if isinstance(b, Array) else np.asarray(b) for b in by]
    [at] = axis if isinstance(axis, Iterable) else (axis,)
    if any(b.ndim != 1 for b in labels):
        raise NotImplementedError("scans of groups by labels of several dimensions are not possible with chunkwise; compute() the array first")

    def scan(block: Any, axis: int) -> Any:
        import flox

        return flox.groupby_scan(block, *labels, func=func, axis=axis, dtype=dtype)

    made = scan(np.ones((1, len(labels[0])), array.dtype), -1).dtype
    return along(scan, array, at, made, FLOX)


def _whole(codes: np.ndarray[Any, Any], present: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The codes without gaps: groups that do not occur are left out."""
    return np.where(codes < 0, -1, (np.cumsum(present) - 1)[codes])


def _in_place(result: Array, present: np.ndarray[Any, Any], value: Any) -> Array:
    """The groups that occur among all, with a value for the others."""
    if present.all():
        return result
    position = np.where(present, np.cumsum(present) - 1, 0)
    taken = call("take", result, position.tolist(), axis=result.ndim - 1) if present.any() else None
    empty = call("full", [*result.shape[:-1], present.size], value, dtype=result.dtype.name)
    return empty if taken is None else call("where", present, taken, empty)


def _reduced(array: Array, codes: np.ndarray[Any, Any], present: np.ndarray[Any, Any], name: str, skipna: bool, ddof: Any) -> Array:
    options: dict[str, Any] = {} if name in ("any", "all", "count") else {"skipna": skipna}
    if name in ("var", "std"):
        options["correction"] = ddof
    result = call(f"groupby_{name}", array, _whole(codes, present), axis=array.ndim - 1, **options)
    empty = {"sum": 0, "count": 0, "prod": 1, "any": False, "all": True}.get(name, np.nan)
    return _in_place(result, present, empty)


def install() -> None:
    """Makes flox hand arrays of chunkwise to the engine, now or when it is imported."""
    for module in ("flox.core", "flox", "flox.xarray"):
        wrapt.register_post_import_hook(lambda m: divert(m, "groupby_reduce", groupby_reduce), module)
    for module in ("flox.scan", "flox"):
        wrapt.register_post_import_hook(lambda m: divert(m, "groupby_scan", groupby_scan), module)
