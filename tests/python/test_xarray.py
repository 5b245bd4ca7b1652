"""xarray on chunkwise against xarray on NumPy: values, coordinates and attributes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import chunkwise as cw
from chunkwise.xarray import ChunkwiseManager


@pytest.fixture
def lazy(winds: str) -> xr.Dataset:
    return xr.open_zarr(winds, chunked_array_type="chunkwise", chunks={})


@pytest.fixture
def loaded(winds: str) -> xr.Dataset:
    return xr.open_zarr(winds, chunks=None).load()


def close(got: Any, wanted: Any) -> None:
    """Equal but for the order of sums: NumPy adds float32 in float32, and the engine compensates."""
    arrays = list(wanted.data_vars.values()) if isinstance(wanted, xr.Dataset) else [wanted]
    largest = max((float(np.nanmax(np.abs(a.values), initial=0.0)) for a in arrays if a.dtype.kind == "f"), default=1.0)
    xr.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6 * largest)


def check(got: Any, wanted: Any) -> None:
    close(got, wanted)
    assert got.attrs == wanted.attrs
    for name in wanted.coords:
        assert got[name].attrs == wanted[name].attrs


def month(x: Any) -> Any:
    return x.groupby("time.month")


CASES: dict[str, Callable[[xr.Dataset], Any]] = {
    "variable": lambda d: d.uwnd,
    "arithmetic": lambda d: (d.uwnd**2 + d.vwnd**2) / 2,
    "sqrt": lambda d: np.sqrt(d.uwnd**2 + d.vwnd**2),
    "mean over time": lambda d: d.uwnd.mean("time"),
    "mean of all": lambda d: d.uwnd.mean(),
    "mean without skipna": lambda d: d.uwnd.mean("time", skipna=False),
    "sum": lambda d: d.uwnd.sum(["lat", "lon"]),
    "std": lambda d: d.uwnd.std("time", ddof=1),
    "min and max": lambda d: d.uwnd.max("time") - d.uwnd.min("time"),
    "isel": lambda d: d.uwnd.isel(time=slice(3, 20, 2), lat=-1),
    "isel list": lambda d: d.uwnd.isel(time=[5, 1, 7]),
    "sel": lambda d: d.uwnd.sel(lat=slice(-40, 40), lon=100),
    "sel nothing": lambda d: d.uwnd.sel(lat=slice(40, -40)),
    "sel nearest": lambda d: d.uwnd.sel(lat=41.3, method="nearest"),
    "sel time": lambda d: d.uwnd.sel(time=d.time[5:9]),
    "anomaly": lambda d: d.uwnd - d.uwnd.mean("time"),
    "zonal": lambda d: (d.uwnd * np.cos(np.deg2rad(d.lat))).mean(["time", "lon"]),
    "where": lambda d: d.uwnd.where(d.uwnd > 0),
    "where other": lambda d: d.uwnd.where(d.uwnd > 0, 0),
    "where mean": lambda d: d.uwnd.where(d.uwnd > 0).mean("time"),
    "fillna": lambda d: d.uwnd.where(d.uwnd > 0).fillna(-1),
    "clip": lambda d: d.uwnd.clip(-5, 5),
    "isnull": lambda d: d.uwnd.where(d.uwnd > 0).isnull(),
    "count": lambda d: d.uwnd.where(d.uwnd > 0).count("time"),
    "transpose": lambda d: d.uwnd.transpose("lon", "lat", "time"),
    "expand": lambda d: d.uwnd.isel(time=0).expand_dims("time"),
    "concat": lambda d: xr.concat([d.uwnd.isel(time=slice(0, 5)), d.uwnd.isel(time=slice(5, 10))], "time"),
    "shift": lambda d: d.uwnd.shift(time=1),
    "roll": lambda d: d.uwnd.roll(lon=3, roll_coords=True),
    "diff": lambda d: d.uwnd.diff("time"),
    "astype": lambda d: d.uwnd.astype("float64"),
    "round": lambda d: d.uwnd.round(),
    "dot": lambda d: xr.dot(d.uwnd, d.vwnd, dim="time"),
    "argmax": lambda d: d.uwnd.argmax("time"),
    "dataset mean": lambda d: d.mean("time"),
    "weighted": lambda d: d.uwnd.weighted(np.cos(np.deg2rad(d.lat))).mean(["lat", "lon"]),
    "groupby mean": lambda d: month(d.uwnd).mean(),
    "climatology anomaly": lambda d: month(d.uwnd) - month(d.uwnd).mean(),
    "zeros like": lambda d: xr.zeros_like(d.uwnd),
    "broadcast": lambda d: d.uwnd.mean("time") * d.lat,
    "stack": lambda d: d.uwnd.isel(time=0).stack(z=("lat", "lon")),
    "pad": lambda d: d.uwnd.pad(lon=(1, 2), constant_values=0),
    "rename": lambda d: d.uwnd.rename(lat="y"),
    "swap": lambda d: d.uwnd.assign_coords(lon=d.lon - 180),
    "comparison": lambda d: (d.uwnd > d.vwnd).sum("time"),
    "any": lambda d: (d.uwnd > 20).any("time"),
    "cov": lambda d: xr.cov(d.uwnd, d.vwnd, dim="time"),
    "corr": lambda d: xr.corr(d.uwnd, d.vwnd, dim="time"),
    "coarsen": lambda d: d.uwnd.isel(lat=slice(0, 72)).coarsen(lat=2, lon=2).mean(),
    "resample": lambda d: d.uwnd.resample(time="1YS").mean(),
}


@pytest.mark.parametrize("name", CASES)
def test_as_xarray_on_numpy(name: str, lazy: xr.Dataset, loaded: xr.Dataset) -> None:
    with cw.raise_if_computes():
        got = CASES[name](lazy)
    variables = got.data_vars.values() if isinstance(got, xr.Dataset) else [got]
    assert all(isinstance(v.data, cw.Array) for v in variables)
    check(got.compute(), CASES[name](loaded))


def test_opening_reads_no_chunk(lazy: xr.Dataset) -> None:
    u = lazy.uwnd.data
    assert isinstance(u, cw.Array) and u._lazy.url.endswith("uwnd")
    assert lazy.uwnd.chunks is not None
    assert lazy.chunksizes["time"]


@pytest.fixture
def packed(tmp_path: Path) -> tuple[str, xr.Dataset]:
    rng = np.random.default_rng(3)
    values = rng.normal(280, 10, (12, 8))
    values[2, 3] = np.nan
    ds = xr.Dataset({"t": (("time", "x"), values, {"units": "K"}), "flag": ("x", np.arange(8) > 3)}, {"x": np.arange(8.0)})
    encoding = {"t": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 273.0, "_FillValue": -32768, "chunks": (5, 8)}}
    url = str(tmp_path / "packed.zarr")
    ds.to_zarr(url, encoding=encoding)
    return url, xr.open_zarr(url, chunks=None).load()


def test_decoding_stays_in_the_engine(packed: tuple[str, xr.Dataset]) -> None:
    url, wanted = packed
    with cw.raise_if_computes():
        got = xr.open_zarr(url, chunked_array_type="chunkwise", chunks={})
    assert got.t.dtype == wanted.t.dtype and got.t.encoding["scale_factor"] == 0.01
    check(got.t.mean("time").compute(), wanted.t.mean("time"))
    xr.testing.assert_equal(got.compute(), wanted)


def test_to_zarr(lazy: xr.Dataset, loaded: xr.Dataset, tmp_path: Path) -> None:
    url = str(tmp_path / "out.zarr")
    lazy.mean("time", keep_attrs=True).to_zarr(url)
    close(xr.open_zarr(url, chunks=None).load(), loaded.mean("time"))
    (lazy * 2).to_zarr(url, mode="w")
    xr.testing.assert_allclose(xr.open_zarr(url, chunks=None).load(), loaded * 2)


def test_packed_output(lazy: xr.Dataset, tmp_path: Path) -> None:
    url = str(tmp_path / "out.zarr")
    encoding = {"uwnd": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 0.0, "_FillValue": -32768}}
    lazy[["uwnd"]].isel(time=slice(0, 4)).drop_encoding().to_zarr(url, encoding=encoding)
    found = xr.open_zarr(url, chunks=None).uwnd.load()
    np.testing.assert_allclose(found, lazy.uwnd.isel(time=slice(0, 4)).compute(), atol=0.006)


def test_to_zarr_regions_and_append(lazy: xr.Dataset, loaded: xr.Dataset, tmp_path: Path) -> None:
    url = str(tmp_path / "out.zarr")
    small = lazy[["uwnd"]].chunk(time=4)
    small.isel(time=slice(0, 8)).drop_encoding().to_zarr(url, encoding={"uwnd": {"chunks": (4, 73, 144)}})
    small.isel(time=slice(8, 12)).drop_encoding().to_zarr(url, append_dim="time")
    again = (small.isel(time=slice(4, 8)) * 3).drop_vars(["lat", "lon"])
    again.drop_encoding().to_zarr(url, region={"time": slice(4, 8)})
    wanted = loaded.uwnd.isel(time=slice(0, 12)).values.copy()
    wanted[4:8] *= 3
    np.testing.assert_allclose(xr.open_zarr(url, chunks=None).uwnd, wanted)


def test_one_python_call_for_a_run_and_none_for_a_chunk(lazy: xr.Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    import zarr

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("zarr-python read a chunk")

    monkeypatch.setattr(zarr.Array, "__getitem__", refuse)
    assert lazy.uwnd.chunk(time=1).mean("time").compute().shape == (73, 144)


def test_functions_of_users(lazy: xr.Dataset, loaded: xr.Dataset) -> None:
    def spread(a: Any, axis: int = -1) -> Any:
        return a.max(axis) - a.min(axis)

    u = lazy.uwnd.chunk(time=-1, lat=20)
    made = xr.apply_ufunc(spread, u, input_core_dims=[["time"]], dask="parallelized", output_dtypes=["f4"])
    assert isinstance(made.data, cw.Array)
    check(made.compute(), xr.apply_ufunc(spread, loaded.uwnd, input_core_dims=[["time"]]))
    check(
        xr.apply_ufunc(np.hypot, lazy.uwnd, lazy.vwnd, dask="parallelized", output_dtypes=["f4"]).compute(), np.hypot(loaded.uwnd, loaded.vwnd)
    )
    check(xr.apply_ufunc(lambda x: x * 2, lazy.uwnd, dask="parallelized").compute(), loaded.uwnd * 2)
    both = xr.apply_ufunc(
        lambda a: (a.mean(-1), a.std(-1)),
        u,
        input_core_dims=[["time"]],
        output_core_dims=[[], []],
        dask="parallelized",
        output_dtypes=["f4", "f4"],
    )
    check(both[1].compute(), loaded.uwnd.std("time"))
    vectorised = xr.apply_ufunc(
        np.ptp, u.isel(lon=slice(0, 4)), input_core_dims=[["time"]], vectorize=True, dask="parallelized", output_dtypes=["f4"]
    )
    few = loaded.uwnd.isel(lon=slice(0, 4))
    check(vectorised.compute(), few.max("time") - few.min("time"))


def test_chunk_and_persist(loaded: xr.Dataset) -> None:
    ds = loaded.chunk({"time": 10}, chunked_array_type="chunkwise")
    assert isinstance(ds.uwnd.data, cw.Array) and ds.uwnd.data.chunksize == (10, 73, 144)
    check(ds.uwnd.mean("time").compute(), loaded.uwnd.mean("time"))
    check(ds.persist().uwnd.compute(), loaded.uwnd)


def test_texts_and_dates_stay_lazy_arrays_of_xarray(tmp_path: Path) -> None:
    when = np.array(["2001-02-03", "2004-05-06", "2007-08-09"], "datetime64[ns]")
    ds = xr.Dataset({"x": ("n", np.arange(3.0)), "name": ("n", np.array(["a", "b", "cc"])), "when": ("n", when), "gap": ("n", when - when[0])})
    ds["x"].attrs["units"] = "K"
    ds.to_zarr(tmp_path / "in.zarr", consolidated=False)
    lazy = xr.open_zarr(tmp_path / "in.zarr", consolidated=False)
    assert isinstance(lazy.x.data, cw.Array) and not any(lazy[name].variable._in_memory for name in ("name", "when", "gap"))
    xr.testing.assert_identical(lazy.compute(), ds)
    lazy.isel(n=slice(1, 3)).to_zarr(tmp_path / "out.zarr", consolidated=False)
    xr.testing.assert_identical(xr.open_zarr(tmp_path / "out.zarr", chunks=None, consolidated=False).load(), ds.isel(n=slice(1, 3)))
