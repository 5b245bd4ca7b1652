"""A function of Python on blocks: through chunkwise, and in a bare loop over the same chunks.

    python benches/functions.py [BLOCKS]

Blocks have 8 MB (float64). The data are in a folder of temporary files, without compression; both ways read them and take the mean of what the function
returns. Each way runs three times, one after the other, and the best counts. One worker is compared with the loop, which uses one core; then all
cores.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import zarr

import chunkwise as cw

SIDE = 1000


def function(block: np.ndarray) -> np.ndarray:
    """Some passes over a block, as users write them."""
    return np.sqrt(block) * np.log1p(block) + np.cos(block)


def main() -> None:
    blocks = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    folder = Path(tempfile.mkdtemp(prefix="chunkwise-functions-"))
    try:
        source = zarr.create_array(str(folder / "in.zarr"), shape=(blocks * SIDE, SIDE), chunks=(SIDE, SIDE), dtype="f8", compressors=None)
        values = np.random.default_rng(1).random((SIDE, SIDE))
        for i in range(blocks):
            source[i * SIDE : (i + 1) * SIDE] = values + i

        def loop() -> float:
            return sum(float(function(source[i * SIDE : (i + 1) * SIDE]).mean()) for i in range(blocks)) / blocks

        def engine(workers: int) -> Callable[[], float]:
            spec = cw.Spec(work_dir=folder / "work", allowed_mem="2GB", workers=workers)
            made = cw.map_blocks(function, cw.from_zarr(folder / "in.zarr"), dtype="f8")
            return lambda: float(cw.mean(made).compute(spec=spec))

        ways = {"bare loop": loop, "chunkwise, 1 worker": engine(1), f"chunkwise, {os.cpu_count()} workers": engine(os.cpu_count() or 1)}
        best = dict.fromkeys(ways, float("inf"))
        expected = loop()
        for _ in range(3):
            for name, way in ways.items():
                began = time.perf_counter()
                result = way()
                best[name] = min(best[name], time.perf_counter() - began)
                assert abs(result - expected) < 1e-9 * expected
        for name, seconds in best.items():
            print(f"{name:24} {seconds:7.2f} s  {seconds / best['bare loop']:.2f} of the loop")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
