"""The four workloads of the Pangeo community through xarray: chunkwise beside Dask, dask-array, Cubed and NumPy, and the command.

    python benches/pangeo.py [--only NAMES] [--systems NAMES] [--repeat 3] [--scale 1.0] [--markdown FILE]

The Python that runs it must have chunkwise, xarray, zarr, flox, dask, dask-array, cubed and cubed-xarray; `CHUNKWISE_BIN` names the command.
Each system runs the same function of xarray; only how the store is opened differs (`opened`). Data are in a folder, without compression, and
so are the results. Each run is a process of its own, from its start to its end; systems take turns, and the table has the median. Results are compared with NumPy's.
The workloads are those of https://github.com/pangeo-data/distributed-array-examples, in our own words.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUDGET = "2GB"
CAP = 12_000_000_000
#: Seconds after which a system is not run again.
SLOW = 60


def quadratic_means(ds: Any, **_: Any) -> Any:
    """Means over time of the squares and of the product of two variables."""
    products = ds**2
    products["uv"] = ds.u * ds.v
    return products.mean("time", skipna=False)


def vorticity(ds: Any, **_: Any) -> Any:
    """The curl of a flow on a periodic grid: differences of the flow along each side of a cell."""
    along_y, along_x = ds.v * ds.dy, ds.u * ds.dx
    curl = (along_y - along_y.roll(i=1)) - (along_x - along_x.roll(j=1))
    # Zarr has no chunks of several lengths, which roll() makes.
    return curl.chunk(i=-1, j=-1).to_dataset(name="zeta")


def climatology_anomalies(ds: Any, **grouped: Any) -> Any:
    """What is left of each day without the mean of this day of the year."""
    days = ds.groupby("time.dayofyear")
    anomalies = (days - days.mean(**grouped)).drop_vars("dayofyear")
    # As above: Dask's chunks have several lengths after it.
    return anomalies.chunk(time=31)


def transformed_eulerian_mean(ds: Any, **grouped: Any) -> Any:
    """Daily means of the zonal mean flow and of the zonal means of its eddies' products."""
    zonal = ds.mean("lon")
    eddy = ds - zonal
    eddies = {"uv": eddy.u * eddy.v, "vt": eddy.v * eddy.t, "uw": eddy.u * eddy.w}
    return zonal.assign({name: x.mean("lon") for name, x in eddies.items()}).resample(time="D").mean(**grouped)


WORKLOADS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (quadratic_means, vorticity, climatology_anomalies, transformed_eulerian_mean)
}

#: What Cubed needs for groups.
GROUPED = {"cubed": {"method": "map-reduce", "reindex": True}}

#: The same for the command. Dimensions are named where the function of xarray names them.
PIPELINES = {
    "quadratic_means": {
        "u": 'mean(ds.u**2, dim="time", skipna=False)',
        "v": 'mean(ds.v**2, dim="time", skipna=False)',
        "uv": 'mean(ds.u*ds.v, dim="time", skipna=False)',
    },
    "vorticity": {"zeta": '(ds.v*ds.dy - roll(ds.v*ds.dy, 1, axis="i")) - (ds.u*ds.dx - roll(ds.u*ds.dx, 1, axis="j"))'},
    "climatology_anomalies": {"asn": 'ds.asn - lookup(groupby_mean(ds.asn, "time.dayofyear"), "time.dayofyear")'},
    "transformed_eulerian_mean": {
        **{x: f'resample_mean(mean(ds.{x}, dim="lon"), time="1D")' for x in "uvwt"},
        **{
            a + b: f'resample_mean(mean((ds.{a}-mean(ds.{a}, dim="lon"))*(ds.{b}-mean(ds.{b}, dim="lon")), dim="lon"), time="1D")'
            for a, b in ("uv", "vt", "uw")
        },
    },
}


def made(workload: str, scale: float, side: float = 1.0) -> Iterator[Any]:
    """The data, some times at once. ``side`` makes the axes of space shorter."""
    import numpy as np
    import pandas as pd
    import xarray as xr

    rng = np.random.default_rng(7)

    def steps(n: int, chunk: int, shape: tuple[int, ...], dims: tuple[str, ...], names: str | list[str], freq: str, dtype: str = "f8") -> Iterator[Any]:
        times = pd.date_range("2001-01-01", periods=n, freq=freq)
        for start in range(0, n, chunk):
            t = times[start : start + chunk]
            data = {name: (("time", *dims), rng.random((len(t), *shape), dtype=dtype)) for name in names}
            yield xr.Dataset(data, coords={"time": t})

    def space(*shape: int) -> tuple[int, ...]:
        return tuple(max(round(n * side), 1) for n in shape)

    def times(n: int, chunk: int) -> int:
        return max(round(n * scale / chunk), 2) * chunk

    if workload in ("quadratic_means", "vorticity"):
        for ds in steps(times(40, 10), 10, space(1, 987, 1920), ("face", "j", "i"), ["u", "v"], "h"):
            if workload == "vorticity":
                for name in ("dx", "dy"):
                    ds[name] = (("face", "j", "i"), rng.random(space(1, 987, 1920)))
            yield ds
    elif workload == "climatology_anomalies":
        # Some years are needed, or nothing would be left of a day.
        yield from steps(1116, 31, space(round(361 * scale), 720), ("latitude", "longitude"), ["asn"], "D", "f4")
    else:
        yield from steps(times(96, 24), 24, space(37, 72, 144), ("level", "lat", "lon"), ["u", "v", "w", "t"], "h")


def write(workload: str, scale: float, folder: Path, side: float = 1.0) -> None:
    for i, ds in enumerate(made(workload, scale, side)):
        if i:
            ds.drop_vars([name for name in ds.data_vars if "time" not in ds[name].dims]).to_zarr(folder, append_dim="time", consolidated=False)
            continue
        chunks = {name: tuple(1 if dim == "level" else n for dim, n in x.sizes.items()) for name, x in ds.data_vars.items()}
        encoding: dict[str, Any] = {name: {"chunks": c, "compressors": None} for name, c in chunks.items()}
        encoding["time"] = {"units": "hours since 2001-01-01", "chunks": (1 << 16,)}
        ds.to_zarr(folder, consolidated=False, encoding=encoding)


def opened(system: str, data: str, work: str) -> Any:
    """The one line that differs."""
    import xarray as xr

    match system:
        case "numpy":
            return xr.open_zarr(data, consolidated=False, chunks=None).load()
        case "chunkwise":
            import chunkwise

            chunkwise.config.set(work_dir=work, allowed_mem=BUDGET)
            xr.set_options(chunk_manager="chunkwise")
            return xr.open_zarr(data, consolidated=False)
        case "dask":
            return xr.open_zarr(data, consolidated=False)
        case "dask-array":
            from dask_array.xarray import register

            register()
            # flox takes its arrays for Dask's, and fails.
            xr.set_options(use_flox=False)
            return xr.open_zarr(data, consolidated=False)
        case "cubed":
            import cubed

            spec = cubed.Spec(
                work_dir=work, allowed_mem=BUDGET, executor_name="threads", executor_options={"max_workers": os.cpu_count()}, zarr_compressor=None
            )
            xr.set_options(chunk_manager="cubed")
            return xr.open_zarr(data, consolidated=False, from_array_kwargs={"spec": spec})
    raise ValueError(system)


def run(system: str, workload: str, data: str, out: str, work: str) -> None:
    ds = opened(system, data, work)
    if system != "numpy":
        # CPU seconds of imports, which differ with what is installed and not with the size of the data.
        print(time.process_time())
    result = WORKLOADS[workload](ds, **GROUPED.get(system, {}))
    result.to_zarr(out, consolidated=False, encoding={name: {"compressors": None} for name in result.data_vars})


def command(system: str, workload: str, data: Path, out: Path, work: Path) -> list[str]:
    if system != "command":
        return [sys.executable, __file__, "--run", system, workload, str(data), str(out), str(work)]
    raw = [{"name": "bytes", "configuration": {"endian": "little"}}]
    outputs = {f"{out}/{name}": {"array": text, "codecs": raw} for name, text in PIPELINES[workload].items()}
    pipeline = work / "pipeline.json"
    work.mkdir(parents=True, exist_ok=True)
    pipeline.write_text(json.dumps({"inputs": {"ds": str(data)}, "outputs": outputs}))
    return [os.environ.get("CHUNKWISE_BIN", "chunkwise"), "run", str(pipeline), "--allowed-mem", BUDGET, "--work-dir", str(work)]


def measured(args: list[str], folder: Path, timeout: float) -> dict[str, Any]:
    spec = folder / "launch.json"
    paths = {name: str(folder / name) for name in ("stdout", "stderr")}
    spec.write_text(json.dumps({"command": args, "env": {}, "cap": CAP, "cpus": sorted(os.sched_getaffinity(0)), "timeout": timeout, **paths}))
    text = subprocess.run([sys.executable, "-I", "-S", str(HERE / "compare" / "launch.py"), str(spec)], capture_output=True, text=True, check=True).stdout
    result: dict[str, Any] = json.loads(text)
    start = Path(paths["stdout"]).read_text().strip()
    result["start"] = float(start) if start.replace(".", "").isdigit() else 0.0
    if result["code"]:
        said = Path(paths["stderr"]).read_text().strip().splitlines()
        result["failed"] = "too slow" if result["late"] else (said or ["no message"])[-1][:160]
    return result


def difference(out: Path, expected: Path) -> float:
    import numpy as np
    import xarray as xr

    worst = 0.0
    with xr.open_zarr(out, consolidated=False, chunks=None) as a, xr.open_zarr(expected, consolidated=False, chunks=None) as b:
        assert set(a.data_vars) == set(b.data_vars), (set(a.data_vars), set(b.data_vars))
        for name in b.data_vars:
            x, y = a[name].transpose(*b[name].dims).values, b[name].values
            assert x.shape == y.shape and x.dtype == y.dtype, (name, x.shape, x.dtype, y.shape, y.dtype)
            worst = max(worst, float(np.max(np.abs(x - y))) / float(np.max(np.abs(y))))
    return worst


def main() -> None:
    systems = ["numpy", "command", "chunkwise", "dask", "dask-array", "cubed"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--systems", nargs="+", default=systems, choices=systems)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()

    rows = ["| workload | system | wall | CPU | of it imports | CPU without imports | peak memory | difference |", "|---|---|---|---|---|---|---|---|"]
    for workload in options.only:
        folder = Path(tempfile.mkdtemp(prefix="chunkwise-pangeo-"))
        try:
            write(workload, options.scale, folder / "data.zarr")
            runs: dict[str, list[dict[str, Any]]] = {system: [] for system in systems if system in options.systems}
            for turn in range(options.repeat):
                for system, results in runs.items():
                    out, work = folder / f"{system}-{turn}.zarr", folder / f"work-{system}-{turn}"
                    if results and ("failed" in results[0] or results[0]["wall"] > SLOW):
                        continue
                    result = measured(command(system, workload, folder / "data.zarr", out, work), folder, options.timeout)
                    if "failed" not in result and turn == 0:
                        result["difference"] = 0.0 if system == "numpy" else difference(out, folder / "numpy-0.zarr")
                    if "failed" not in result and not (system == "numpy" and turn == 0):
                        shutil.rmtree(out)
                    shutil.rmtree(work, ignore_errors=True)
                    results.append(result)
                    print(workload, system, json.dumps(result), file=sys.stderr, flush=True)
            ours = statistics.median(r["cpu"] - r["start"] for r in runs["chunkwise"]) if "chunkwise" in runs else float("nan")
            for system, results in runs.items():
                name = workload.replace("_", " ")
                if "failed" in results[0]:
                    rows.append(f"| {name} | {system} | {results[0]['failed']} | | | | | |")
                    continue
                wall, cpu, start, peak = (statistics.median(r[key] for r in results) for key in ("wall", "cpu", "start", "peak"))
                own = f"{cpu - start:.2f} s ({(cpu - start) / ours:.1f}×)"
                rows.append(
                    f"| {name} | {system} | {wall:.2f} s | {cpu:.2f} s | {start:.2f} s | {own} | {peak / 1e9:.2f} GB | {results[0]['difference']:.0e} |"
                )
        finally:
            shutil.rmtree(folder)
    print("\n".join(rows))
    if options.markdown:
        options.markdown.write_text("\n".join(rows) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run(*sys.argv[2:])
    else:
        main()
