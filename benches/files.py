"""Data sets of netCDF files under xarray: chunkwise beside Dask and NumPy, on four files with 1.4 GB of float32 packed in 16 bits, and on 730 small ones.

    python benches/files.py [--only NAMES] [--systems NAMES] [--repeat 3] [--scale 1.0]

The Python that runs it must have chunkwise, xarray, zarr, netCDF4, h5py, flox and dask. Each run is a process of its own, as those of methods.py, and results are compared with NumPy's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from methods import compare
from pangeo import BUDGET

CHUNKS = {"time": 73, "lon": 100}
METHODS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda ds: ds.mean("time"),
    "monthly climatology": lambda ds: ds.groupby("time.month").mean(),
    "anomaly": lambda ds: (ds.groupby("time.month") - ds.groupby("time.month").mean()).std("time"),
    "a region": lambda ds: ds.sel(time=slice("2001-06", "2001-08"), lat=slice(-30, 30)).mean("time"),
    "rolling mean": lambda ds: ds.rolling(time=30).mean().isel(time=slice(29, None, 10)),
    "to Zarr": lambda ds: ds,
    "mean of 730 files": lambda ds: ds.mean("time"),
    "climatology of 730 files": lambda ds: ds.groupby("time.month").mean(),
}
PACKING = {"dtype": "i2", "scale_factor": 0.01, "add_offset": 275.0, "_FillValue": -32768}


def write(folder: Path, scale: float) -> None:
    import numpy as np
    import pandas as pd
    import xarray as xr

    folder.mkdir()
    rows = max(round(480 * scale), 10)
    coords = {"lat": np.linspace(-89, 89, rows), "lon": np.arange(500) * 0.72}
    for year in range(2000, 2004):
        values = np.random.default_rng(year).random((365, rows, 500), dtype="f4") * 50 + 250
        ds = xr.Dataset({"t": (("time", "lat", "lon"), values)}, coords={"time": pd.date_range(f"{year}-01-01", periods=365), **coords})
        ds.to_netcdf(folder / f"{year}.nc", encoding={"t": {"chunksizes": (73, rows, 100), "zlib": True, "complevel": 1, **PACKING}})
    (folder / "days").mkdir()
    for k, day in enumerate(pd.date_range("2000-01-01", periods=730)):
        values = np.random.default_rng(k).random((1, rows, 500), dtype="f4") * 50 + 250
        ds = xr.Dataset({"t": (("time", "lat", "lon"), values)}, coords={"time": [day], **coords})
        ds.to_netcdf(folder / "days" / f"{k:03}.nc", encoding={"t": {"zlib": True, "complevel": 1, **PACKING}})


def opened(system: str, method: str, data: str, work: str) -> Any:
    import xarray as xr

    many = "files" in method
    files = sorted((Path(data) / "days" if many else Path(data)).glob("*.nc"))
    if system == "numpy":
        return xr.concat([xr.open_dataset(file).load() for file in files], "time")
    if system == "chunkwise":
        import chunkwise

        chunkwise.config.set(work_dir=work, allowed_mem=BUDGET)
        xr.set_options(chunk_manager="chunkwise")
    if many:
        return xr.open_mfdataset(files, chunks={}, combine="nested", concat_dim="time", data_vars="minimal", coords="minimal", compat="override")
    return xr.open_mfdataset(files, chunks=CHUNKS)


def run(system: str, method: str, data: str, out: str, work: str) -> None:
    ds = opened(system, method, data, work)
    if system != "numpy":
        print(time.process_time())
    result = METHODS[method](ds).drop_encoding()
    if system != "numpy":
        # Groups and slices leave chunks of several lengths, which Zarr does not have.
        result = result.chunk({d: CHUNKS.get(d, -1) for d in result.dims})
    result.to_zarr(out, consolidated=False, encoding={name: {"compressors": None} for name in result.data_vars})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(*sys.argv[2:])
    else:
        compare(__doc__, METHODS, write, __file__)
