"""`compute()` of results that stay in memory: chunkwise beside Dask, on 400 MB of float64 in chunks of 50 MB.

    python benches/results.py [--repeat 5] [--rows 4000]

The Python that runs it must have chunkwise, zarr and dask. Both run in one process and take turns; the table has the median of the wall time, and results are compared.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--rows", type=int, default=4000)
    options = parser.parse_args()
    cw.config.set(allowed_mem="4GB")
    print("| x is in | method | chunkwise | Dask | of Dask's time |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for source, pair in arrays(Path(folder), options.rows).items():
            for name, method in METHODS.items():
                if source == "NumPy" and name == "x":
                    continue
                times: tuple[list[float], list[float]] = ([], [])
                for turn in range(options.repeat + 1):
                    results = []
                    for k, x in enumerate(pair):
                        began = time.perf_counter()
                        results.append(method(x).compute())
                        # The first turn starts threads and fills caches.
                        if turn:
                            times[k].append(time.perf_counter() - began)
                    np.testing.assert_allclose(*results, rtol=1e-12)
                    del results
                ours, theirs = (statistics.median(t) for t in times)
                print(f"| {source} | `{name}` | {ours:.3f} s | {theirs:.3f} s | {ours / theirs:.2f} |", flush=True)


if __name__ == "__main__":
    main()
