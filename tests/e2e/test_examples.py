"""The examples: the winds, and the six workloads at a small size."""

import shutil
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
import zarr
from harness import chunkwise


@pytest.fixture(scope="module")
def copied(examples, tmp_path_factory):
    """The examples in a folder of their own, with small inputs for the workloads."""
    folder = tmp_path_factory.mktemp("examples") / "examples"
    shutil.copytree(examples, folder, ignore=shutil.ignore_patterns("out", "*.zarr.tmp"))
    shutil.rmtree(folder / "workloads/data", ignore_errors=True)
    command = [sys.executable, folder / "workloads/generate.py", "all", "--small", "--steps", "250"]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return folder


def test_winds(copied):
    chunkwise("run", copied / "winds.yaml").ok()
    source = xr.open_zarr(copied / "data/winds.zarr", chunks=None)
    result = xr.open_zarr(copied / "out/winds.zarr", chunks=None)
    speed = np.sqrt(source.uwnd**2 + source.vwnd**2)
    groups = speed.groupby("time.month")
    close = {"rtol": 1e-5, "atol": 1e-5}
    np.testing.assert_allclose(result.speed.values, speed.values, **close)
    np.testing.assert_allclose(result.climatology.values, groups.mean().values, **close)
    np.testing.assert_allclose(result.anomaly.values, (groups - groups.mean()).values, **close)
    np.testing.assert_allclose(result.average.values, speed.mean("time").values, **close)
    np.testing.assert_array_equal(result.speed_series.values, result.speed.values)
    assert zarr.open_array(str(copied / "out/winds.zarr/speed_series"), mode="r").chunks == (132, 10, 10)
    np.testing.assert_array_equal(result.time.values, source.time.values)
    np.testing.assert_array_equal(result.lat.values, source.lat.values)


@pytest.mark.parametrize("name", ["quadratic_means", "vorticity", "tem", "climatology", "rechunk", "ata"])
def test_workload(copied, name):
    chunkwise("run", copied / f"workloads/{name}.yaml").ok()
    source = zarr.open_group(str(copied / f"workloads/data/{name}.zarr"), mode="r")
    result = zarr.open_group(str(copied / f"out/{name}.zarr"), mode="r")
    given = {k: np.asarray(a[...]) for k, a in source.arrays()}
    for key, expected in EXPECTED[name](given).items():
        actual = np.asarray(result[key][...])
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4, err_msg=key)


def quadratic_means(a):
    return {p: np.mean(a[p[0]].astype("f8") * a[p[1]], axis=0) for p in ("uu", "vv", "uv")}


def vorticity(a):
    dvdx = np.pad(np.diff(a["v"], axis=3), [[0, 0]] * 3 + [[1, 0]], mode="symmetric") * a["dx"]
    dudy = np.pad(np.diff(a["u"], axis=2), [[0, 0]] * 2 + [[1, 0], [0, 0]], mode="symmetric") * a["dy"]
    return {"vorticity": np.mean(dvdx - dudy, axis=0, dtype="f8")}


def tem(a):
    days = a["time"] // 24  # hours since midnight
    labels = np.unique(days)

    def daily(x):
        return np.stack([x[days == d].mean(axis=0) for d in labels])

    mean = {k: a[k].mean(axis=3, dtype="f8") for k in "uvwt"}
    anomaly = {k: a[k] - mean[k][..., None] for k in "uvwt"}
    out = {k: daily(mean[k]) for k in "uvwt"}
    return out | {p: daily((anomaly[p[0]] * anomaly[p[1]]).mean(axis=3)) for p in ("uv", "uw", "vt")}


def climatology(a):
    x = xr.DataArray(a["x"], dims=("time", "lat", "lon"), coords={"time": xr.date_range("2000-01-01", periods=len(a["time"]))})
    groups = x.groupby("time.dayofyear")
    return {"anomaly": (groups - groups.mean()).values}


EXPECTED = {
    "quadratic_means": quadratic_means,
    "vorticity": vorticity,
    "tem": tem,
    "climatology": climatology,
    "rechunk": lambda a: {"x": a["x"]},
    "ata": lambda a: {"ata": a["A"].T @ a["A"]},
}
