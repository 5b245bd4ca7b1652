"""Methods of xarray that go along an axis, or to positions of it: chunkwise beside Dask and NumPy, on 1.28 GB.

    python benches/methods.py [--only NAMES] [--systems NAMES] [--repeat 3] [--scale 1.0]

The Python that runs it must have chunkwise, xarray, zarr, bottleneck and dask. Each run is a process of its own, from its start to the end of writing the result, with the
data in files that are in the page cache. Systems take turns, and the table has the medians. Results are compared with NumPy's.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pangeo import difference, measured, opened


def stations(ds: Any) -> Any:
    """The elements at 500 points of a map."""
    import numpy as np
    import xarray as xr

    rng = np.random.default_rng(1)
    lat, lon = (xr.DataArray(rng.integers(0, ds.sizes[d], 500), dims="station") for d in ("lat", "lon"))
    return ds[["full"]].isel(lat=lat, lon=lon)


METHODS: dict[str, Callable[[Any], Any]] = {
    "cumsum in time": lambda ds: ds[["full"]].cumsum("time"),
    "cumsum in space": lambda ds: ds[["full"]].cumsum("lon"),
    "ffill": lambda ds: ds[["gaps"]].ffill("time"),
    "polyfit": lambda ds: ds[["full"]].polyfit("time", 1, skipna=False),
    "idxmax": lambda ds: ds[["full"]].idxmax("lat"),
    "median": lambda ds: ds[["full"]].median("time"),
    "500 stations": stations,
}


def write(folder: Path, scale: float) -> None:
    import numpy as np
    import xarray as xr

    rng, n = np.random.default_rng(0), max(round(2000 * scale / 100), 1) * 100
    full = rng.random((n, 400, 400), dtype="f4")
    dims = ("time", "lat", "lon")
    ds = xr.Dataset({"full": (dims, full)}, coords={"time": np.arange(n) * 1.0, "lat": np.linspace(-60, 60, 400), "lon": np.arange(400) * 0.9})
    encoding = {"chunks": (100, 200, 200), "compressors": None}
    ds.to_zarr(folder, consolidated=False, encoding={"full": encoding})
    full[rng.random(full.shape, dtype="f4") < 0.1] = np.nan
    xr.Dataset({"gaps": (dims, full)}).to_zarr(folder, mode="a", consolidated=False, encoding={"gaps": encoding})


def run(system: str, method: str, data: str, out: str, work: str) -> None:
    ds = opened(system, data, work)
    if system == "dask" and method in ("polyfit", "median"):
        # It asks for whole rows.
        ds = ds.chunk(time=-1)
    if system != "numpy":
        print(time.process_time())
    result = METHODS[method](ds).drop_encoding()
    result.to_zarr(out, consolidated=False, encoding={name: {"compressors": None} for name in result.data_vars})


def compare(description: str | None, methods: Iterable[str], write: Callable[[Path, float], None], program: str) -> None:
    """A table of what a program takes for each method with each system: ``program --run SYSTEM METHOD DATA OUT WORK``."""
    systems = ["numpy", "chunkwise", "dask"]
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(methods), choices=list(methods))
    parser.add_argument("--systems", nargs="+", default=systems, choices=systems)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()

    folder = Path(tempfile.mkdtemp(prefix="chunkwise-methods-"))
    rows = ["| method | system | wall | CPU without imports | peak memory | difference |", "|---|---|---|---|---|---|"]
    try:
        write(folder / "data.zarr", options.scale)
        for method in options.only:
            runs: dict[str, list[dict[str, Any]]] = {system: [] for system in options.systems}
            for turn in range(options.repeat):
                for system, results in runs.items():
                    out, work = folder / f"{system}.zarr", folder / f"work-{system}"
                    if results and (system == "numpy" or "failed" in results[0]):
                        continue
                    shutil.rmtree(out, ignore_errors=True)
                    result = measured([sys.executable, program, "--run", system, method, str(folder / "data.zarr"), str(out), str(work)], folder, 600)
                    if "failed" not in result and turn == 0:
                        result["difference"] = 0.0 if system == "numpy" else difference(out, folder / "numpy.zarr")
                    shutil.rmtree(work, ignore_errors=True)
                    results.append(result)
                    print(method, system, json.dumps(result), file=sys.stderr, flush=True)
            for system, results in runs.items():
                if "failed" in results[0]:
                    rows.append(f"| {method} | {system} | {results[0]['failed']} | | | |")
                    continue
                wall, cpu, peak = (statistics.median(one) for one in zip(*((r["wall"], r["cpu"] - r["start"], r["peak"]) for r in results)))
                rows.append(f"| {method} | {system} | {wall:.2f} s | {cpu:.2f} s | {peak / 1e9:.2f} GB | {results[0]['difference']:.0e} |")
    finally:
        shutil.rmtree(folder)
    print("\n".join(rows))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(*sys.argv[2:])
    else:
        compare(__doc__, METHODS, write, __file__)
