"""`compute()` of results that stay in memory: chunkwise beside Dask, on 400 MB of float64 in chunks of 50 MB.

    python benches/results.py [--repeat 5] [--rows 4000]

The Python that runs it must have chunkwise, zarr and dask. Both run in one process and take turns; the table has the median of the wall time, and results are compared.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import chunkwise as cw
import dask.array as da
import numpy as np
import zarr


def arrays(folder: Path, rows: int) -> dict[str, tuple[Any, Any]]:
    values = np.random.default_rng(0).random((rows, 12_500))
    chunks = (rows // 8, 12_500)
    found: dict[str, tuple[Any, Any]] = {"NumPy": (cw.from_array(values, chunks=chunks), da.from_array(values, chunks=chunks))}
    for name, codec in (("raw", None), ("blosc-lz4", zarr.codecs.BloscCodec(cname="lz4", shuffle="shuffle", typesize=8))):
        stored = zarr.create_array(str(folder / name), shape=values.shape, chunks=chunks, dtype="f8", compressors=codec)
        stored[...] = values
        found[f"Zarr, {name}"] = (cw.from_zarr(folder / name), da.from_zarr(str(folder / name)))
    return found


METHODS = {"x": lambda x: x, "x + 1": lambda x: x + 1, "x.T": lambda x: x.T, "x.mean(0)": lambda x: x.mean(axis=0)}


def arguments(doc: str | None, **defaults: float) -> argparse.Namespace:
    """What the command line says, with ``--repeat``."""
    parser = argparse.ArgumentParser(description=doc)
    for name, value in {"repeat": 5, **defaults}.items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    return parser.parse_args()


def row(source: str, name: str, runs: Sequence[Callable[[], Any]], same: Callable[[Any, Any], object], repeat: int) -> None:
    """Prints a row of the table: the medians of the wall times of two runs that take turns. Their results must be the same."""
    times: list[list[float]] = [[], []]
    for turn in range(repeat + 1):
        results = []
        for run, took in zip(runs, times):
            began = time.perf_counter()
            results.append(run())
            # The first turn starts threads and fills caches.
            if turn:
                took.append(time.perf_counter() - began)
        same(*results)
        del results
    ours, theirs = map(statistics.median, times)
    print(f"| {source} | {name} | {ours:.3f} s | {theirs:.3f} s | {ours / theirs:.2f} |", flush=True)


def main() -> None:
    options = arguments(__doc__, rows=4000)
    cw.config.set(allowed_mem="4GB")
    print("| x is in | method | chunkwise | Dask | of Dask's time |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for source, pair in arrays(Path(folder), options.rows).items():
            for name, method in METHODS.items():
                if source != "NumPy" or name != "x":
                    runs = [lambda x=x, method=method: method(x).compute() for x in pair]
                    row(source, f"`{name}`", runs, partial(np.testing.assert_allclose, rtol=1e-12), options.repeat)


if __name__ == "__main__":
    main()
