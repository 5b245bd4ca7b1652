"""Data sets in stores that only Python can read: chunkwise beside Dask under xarray, on 350 MB of float32.

    python benches/stores.py [--repeat 5] [--scale 1.0]

The Python that runs it must have chunkwise, xarray, zarr, icechunk, kerchunk, h5py, h5netcdf and dask. Both run in one process and take turns; the table has medians of the wall time,
and results are compared.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import chunkwise as cw
import fsspec
import icechunk
import numpy as np
import xarray as xr
import zarr
from kerchunk.hdf import SingleHdf5ToZarr
from results import arguments, row


def stores(folder: Path, scale: float) -> dict[str, Callable[[str], Any]]:
    """For each store what opens the data set with a chunk manager."""
    rows = max(round(480 * scale), 10)
    values = np.random.default_rng(0).integers(0, 5000, (365, rows, 500)).astype("f4") / 100
    ds = xr.Dataset({"t": (("time", "lat", "lon"), values)}, {"time": np.arange("2001-01-01", "2002-01-01", dtype="M8[D]").astype("M8[ns]")})
    chunks = (73, rows, 100)
    repository = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder / "ice")))
    session = repository.writable_session("main")
    ds.to_zarr(session.store, consolidated=False, encoding={"t": {"chunks": chunks}})
    session.commit("data")
    with zarr.storage.ZipStore(folder / "x.zip", mode="w") as archive:
        ds.to_zarr(archive, consolidated=False, encoding={"t": {"chunks": chunks}})
    ds.to_netcdf(folder / "x.nc", engine="h5netcdf", encoding={"t": {"chunksizes": chunks, "zlib": True, "complevel": 1, "shuffle": True}})
    (folder / "x.json").write_text(json.dumps(SingleHdf5ToZarr(str(folder / "x.nc"), inline_threshold=0).translate()))
    files = fsspec.filesystem("memory")
    files.pipe_file("/x.nc", (folder / "x.nc").read_bytes())
    keys: dict[str, Any] = {"consolidated": False, "chunks": {}}

    def of_kerchunk(manager: str) -> Any:
        return xr.open_dataset(str(folder / "x.json"), engine="kerchunk", chunks={}, chunked_array_type=manager)

    return {
        "Icechunk": lambda manager: xr.open_zarr(repository.readonly_session("main").store, chunked_array_type=manager, **keys),
        "zip": lambda manager: xr.open_zarr(zarr.storage.ZipStore(folder / "x.zip", mode="r"), chunked_array_type=manager, **keys),
        "Kerchunk": of_kerchunk,
        "netCDF, by fsspec": lambda manager: xr.open_dataset(files.open("/x.nc"), engine="h5netcdf", chunks={}, chunked_array_type=manager),
    }


METHODS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda ds: ds.t.mean("time"),
    "monthly climatology": lambda ds: ds.t.groupby("time.month").mean(),
    "a point": lambda ds: ds.t[:, 3, 7],
}


def computed(opened: Callable[[str], Any], method: Callable[[Any], Any], manager: str) -> Any:
    with opened(manager) as ds:
        return method(ds).compute()


def main() -> None:
    options = arguments(__doc__, scale=1.0)
    cw.config.set(allowed_mem="2GB")
    print("| store | method | chunkwise | Dask | of Dask's time |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for store, opened in stores(Path(folder), options.scale).items():
            for name, method in METHODS.items():
                runs = [partial(computed, opened, method, manager) for manager in ("chunkwise", "dask")]
                row(store, name, runs, partial(xr.testing.assert_allclose, rtol=1e-5), options.repeat)


if __name__ == "__main__":
    main()
