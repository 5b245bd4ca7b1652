"""What the first, the second and the third run of the same function cost, beside Dask's threads: ``python benches/again.py``.

The function is one of SciPy, called through ``xr.apply_ufunc(dask="parallelized")`` for eight blocks of 1 MB. Dask calls it in this process, which has imported
SciPy before; so its time is the least that there can be.
"""

from __future__ import annotations

import tempfile
import time

import numpy as np
import scipy.signal
import xarray as xr

import chunkwise as cw


def detrended(block: np.ndarray) -> np.ndarray:
    return scipy.signal.detrend(block)


def main() -> None:
    data = xr.DataArray(np.random.default_rng(0).normal(size=(64, 64, 256)), dims=("y", "x", "time"))
    with tempfile.TemporaryDirectory() as folder, cw.config(work_dir=folder):
        for system in ("dask", "chunkwise"):
            lazy = data.chunk({"y": 8}, chunked_array_type=system)
            for run in ("first", "second", "third"):
                began = time.perf_counter()
                with xr.set_options(chunk_manager=system):
                    xr.apply_ufunc(
                        detrended, lazy, input_core_dims=[["time"]], output_core_dims=[["time"]], dask="parallelized", output_dtypes=["f8"]
                    ).compute()
                print(f"{system:10} {run:7} {time.perf_counter() - began:6.3f} s", flush=True)


if __name__ == "__main__":
    main()
