"""Regions of Zarr arrays that begin or end inside a chunk, as where xarray appends: other writers of the chunk are excluded by xarray, and wait their turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import ceil, prod
from typing import Any

import numpy as np
import zarr

from ._array import Array
from ._run import _start, store
from ._spec import Spec, current
from ._targets import PART, beside

#: A part of a target: for each axis where it starts and stops.
Box = tuple[tuple[int, int], ...]


def _lengths(target: Any) -> tuple[int, ...]:
    """What is written as a whole along each axis: a chunk, or a shard."""
    return tuple(max(n, 1) for n in getattr(target, "shards", None) or target.chunks)


def _whole(box: Box, lengths: Sequence[int], shape: Sequence[int]) -> Box:
    """The whole chunks in a box. An axis may have none: it stops before it starts."""
    return tuple((ceil(start / c) * c, stop if stop == n else stop // c * c) for (start, stop), c, n in zip(box, lengths, shape))


def _around(box: Box, whole: Box) -> Iterator[Box]:
    """What a box has beside its whole chunks."""
    if any(start >= stop for start, stop in whole):
        yield box
        return
    for axis, ((start, stop), (first, last)) in enumerate(zip(box, whole)):
        for part in ((start, first), (last, stop)):
            if part[0] < part[1]:
                yield (*whole[:axis], part, *box[axis + 1 :])


def _slices(box: Box, origin: Sequence[int]) -> tuple[slice, ...]:
    return tuple(slice(start - o, stop - o) for (start, stop), o in zip(box, origin))


def _parts(box: Box, lengths: Sequence[int], most: int) -> Iterator[Box]:
    """A box in parts that cut no chunk of the target, and have about so many elements each."""
    sides = list(lengths)
    for axis, (start, stop) in reversed(list(enumerate(box))):
        here = prod(min(side, b - a) for side, (a, b) in zip(sides, box))
        sides[axis] *= max(min(most // here, ceil((stop - start) / sides[axis]) + 1), 1)
    cuts = [range(start // side * side, stop, side) for side, (start, stop) in zip(sides, box)]
    return (tuple((max(k, a), min(k + side, b)) for k, side, (a, b) in zip(at, sides, box)) for at in product(*cuts))


def store_in_regions(sources: Sequence[Array], targets: Sequence[Any], regions: Any, spec: Spec | None) -> None:
    """As :func:`chunkwise.store` into arrays that exist, but a region may have a part of a chunk.

    All is computed in one run. The engine writes the whole chunks, and zarr-python the margins, part by part: it reads a chunk before it writes to it.
    """
    spans = [regions] * len(sources) if regions is None or isinstance(regions, tuple) else list(regions)
    pieces: list[tuple[Array, Any, tuple[slice, ...]]] = []
    margins: list[tuple[Array, Any, Box]] = []
    for source, target, span in zip(sources, targets, spans):
        origin = _start(span, source, target)
        box = tuple((o, o + n) for o, n in zip(origin, source.shape))
        whole = _whole(box, _lengths(target), target.shape)
        if whole == box:
            pieces.append((source, target, _slices(box, [0] * len(box))))
        elif 0 not in source.shape:
            if all(start < stop for start, stop in whole):
                pieces.append((source[_slices(whole, origin)], target, _slices(whole, [0] * len(box))))
            margins.extend((source[_slices(part, origin)], target, part) for part in _around(box, whole))
    most = min(PART, max(current(spec, (a._lazy for a in sources))._allowed_bytes() // 8, 1))
    with beside(sources, spec) as folder:
        between = []
        for k, (values, target, _) in enumerate(margins):
            chunks = tuple(min(c, n) for c, n in zip(_lengths(target), values.shape))
            dtype = np.dtype(target.dtype).newbyteorder("=")
            between.append(zarr.create_array(f"{folder}/{k}.zarr", shape=values.shape, chunks=chunks, dtype=dtype, compressors=None))
            pieces.append((values, between[-1], (slice(None),) * values.ndim))
        if pieces:
            arrays, places, where = map(list, zip(*pieces))
            store(arrays, places, regions=where, spec=spec)
        for made, (_, target, box) in zip(between, margins):
            origin = [start for start, _ in box]
            for part in _parts(box, _lengths(target), most // made.dtype.itemsize):
                target[_slices(part, [0] * len(box))] = made[_slices(part, origin)]
