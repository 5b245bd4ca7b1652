"""Results that are written where the engine does not write: into files of other formats, through objects to which parts are assigned."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from math import prod
from typing import Any

from ._array import Array
from ._inputs import from_zarr
from ._run import store
from ._spec import Spec, current

#: Bytes of a part, if chunks are not larger.
PART = 64_000_000


def _parts(shape: Sequence[int], chunks: Sequence[int], most: int) -> Iterator[tuple[slice, ...]]:
    """Regions of an array that are whole chunks, and together about so many elements each."""
    sides = [min(max(c, 1), max(n, 1)) for c, n in zip(chunks, shape)]
    for axis in reversed(range(len(shape))):
        sides[axis] = min(sides[axis] * max(most // prod(sides), 1), max(shape[axis], 1))
    starts = [range(0, n, side) for n, side in zip(shape, sides)]
    return (tuple(slice(k, min(k + side, n)) for k, side, n in zip(at, sides, shape)) for at in product(*starts))


@contextmanager
def beside(sources: Iterable[Array], spec: Spec | None) -> Iterator[str]:
    """A folder for what is between, which is gone afterwards."""
    work = current(spec, (a._lazy for a in sources))._work_dir().rstrip("/")
    # Parts go through this process anyway, so they need not be in a bucket.
    folder = f"{tempfile.gettempdir() if '://' in work else work}/targets/{uuid.uuid4().hex}"
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def store_elsewhere(sources: Sequence[Array], targets: Sequence[Any], regions: Any, spec: Spec | None) -> None:
    """Computes arrays in one run, and assigns their parts to ``targets[i][region]``, one after another.

    The results are Zarr arrays in the work directory in between, so no more than a part is in memory.
    """
    used = current(spec, (a._lazy for a in sources))
    spans = [regions] * len(sources) if regions is None or isinstance(regions, tuple) else list(regions)
    most = min(PART, max(used._allowed_bytes() // 8, 1))
    with beside(sources, spec) as folder:
        urls = [f"{folder}/{k}.zarr" for k in range(len(sources))]
        store(list(sources), urls, spec=spec)
        for url, target, span in zip(urls, targets, spans):
            stored = from_zarr(url)
            for region in _parts(stored.shape, stored.chunksize, most // stored.itemsize):
                place = region if span is None else tuple(slice(s.start + r.start, s.start + r.stop) for s, r in zip(_known(span, stored.shape), region))
                target[place] = stored[region].compute(spec=spec)


def _known(span: Any, shape: Sequence[int]) -> list[slice]:
    """A region with numbers in it."""
    spans = span if isinstance(span, tuple) else (span,)
    return [slice(s.start or 0, s.stop) for s in (*spans, *[slice(None)] * (len(shape) - len(spans)))]
