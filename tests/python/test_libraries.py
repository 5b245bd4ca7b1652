"""Libraries above xarray, with arrays of chunkwise in place of those of NumPy."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import chunkwise as cw

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.skipif(sys.version_info < (3, 12), reason="flox")]


@pytest.fixture
def datasets(tmp_path: Path) -> tuple[xr.Dataset, xr.Dataset]:
    """A year of days in memory, and the same one as lazy arrays in several chunks."""
    rng = np.random.default_rng(5)
    days, lat, lon = 366, 9, 12
    shape = (days, lat, lon)
    ds = xr.Dataset(
        {
            "t": (("time", "lat", "lon"), rng.normal(280, 9, shape)),
            "u": (("time", "lat", "lon"), rng.normal(3, 2, shape).astype("f4")),
            "v": (("time", "lat", "lon"), rng.normal(0, 2, shape).astype("f4")),
        },
        {
            "time": ("time", np.datetime64("2000-01-01") + np.arange(days), {"axis": "T"}),
            "lat": ("lat", np.linspace(-60, 60, lat), {"units": "degrees_north", "axis": "Y"}),
            "lon": ("lon", np.linspace(0, 330, lon), {"units": "degrees_east", "axis": "X"}),
        },
    )
    ds.t[3, 4, 5] = np.nan
    ds.chunk(time=100, lat=9, lon=12).to_zarr(tmp_path / "ds.zarr", consolidated=False)
    with xr.set_options(chunk_manager="chunkwise"):
        return ds, xr.open_zarr(tmp_path / "ds.zarr", chunks={}, consolidated=False)


def histogram(*arrays: Any, **kwargs: Any) -> Any:
    from xhistogram.xarray import histogram

    return histogram(*arrays, **kwargs)


def spectrum(name: str, *arrays: Any, **kwargs: Any) -> Any:
    import xrft

    return getattr(xrft, name)(*arrays, **kwargs)


def score(name: str, *arrays: Any, **kwargs: Any) -> Any:
    import scores

    module, _, function = name.partition(".")
    return getattr(getattr(scores, module), function)(*arrays, **kwargs)


def regridded(ds: xr.Dataset, name: str) -> Any:
    import xarray_regrid  # noqa: F401

    grid = xr.Dataset(coords={"lat": np.linspace(-50, 50, 5), "lon": np.linspace(20, 300, 7)})
    return getattr(ds[["u", "v"]].regrid, name)(grid)


def cf(x: Any) -> Any:
    import cf_xarray  # noqa: F401

    return x.cf


T, U = np.linspace(250, 310, 13), np.linspace(-5, 11, 9)

CASES: dict[str, Callable[[xr.Dataset], Any]] = {
    "xhistogram": lambda d: histogram(d.t, bins=[T]),
    "xhistogram along": lambda d: histogram(d.t, bins=[T], dim=["lat", "lon"]),
    "xhistogram of two": lambda d: histogram(d.t, d.u, bins=[T, U], dim=["time"]),
    "xhistogram, weights": lambda d: histogram(d.t, bins=[T], dim=["lat", "lon"], weights=np.cos(np.deg2rad(d.lat)) * xr.ones_like(d.t)),
    "xrft fft": lambda d: spectrum("fft", d.u, dim=["lat", "lon"], true_phase=True, true_amplitude=True),
    "xrft dft of one": lambda d: spectrum("fft", d.u, dim=["lon"], true_phase=False, real_dim="lon"),
    "xrft and back": lambda d: spectrum("ifft", spectrum("fft", d.u, dim=["lon"], true_phase=True, true_amplitude=True), dim=["freq_lon"]).real,
    "xrft power": lambda d: spectrum("power_spectrum", d.u, dim=["lon"], window="hann", detrend="constant", true_phase=True),
    "xrft density": lambda d: spectrum("power_spectrum", d.u, dim=["lon"], real_dim="lon", scaling="density", window="hann", window_correction=True),
    "xrft cross": lambda d: abs(spectrum("cross_spectrum", d.u, d.v, dim=["lon"], true_phase=True)),
    "xrft detrend": lambda d: spectrum("detrend", d.u, dim="lon", detrend_type="linear"),
    "scores mse": lambda d: score("continuous.mse", d.u, d.v, reduce_dims="time"),
    "scores mae, weights": lambda d: score("continuous.mae", d.u, d.v, weights=np.cos(np.deg2rad(d.lat))),
    "scores quantile": lambda d: score("continuous.quantile_score", d.u, d.v, 0.3),
    "scores contingency": lambda d: score("categorical.ThresholdEventOperator", default_event_threshold=1.0).make_contingency_manager(d.u, d.v).accuracy(),
    "cf mean": lambda d: cf(d).mean("T"),
    "cf group-by": lambda d: cf(d.t).groupby("T.month").mean(),
    "cf integral": lambda d: cf(d.u).integrate("Y"),
    "regrid conservative": lambda d: regridded(d, "conservative"),
    "regrid linear": lambda d: regridded(d, "linear"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_library(datasets: tuple[xr.Dataset, xr.Dataset], name: str) -> None:
    ds, lazy = datasets
    wanted = CASES[name](ds)
    with xr.set_options(chunk_manager="chunkwise"):
        with cw.raise_if_computes():
            found = CASES[name](lazy)
        for each in found.data_vars.values() if isinstance(found, xr.Dataset) else [found]:
            assert isinstance(each.variable._data, cw.Array)
        # They compute in float32, and some results are close to zero.
        xr.testing.assert_allclose(found.compute(), wanted, rtol=1e-4, atol=1e-5)


def test_a_window_of_dask_and_large_arrays_of_dask() -> None:
    import dask.array as da

    x = cw.from_array(np.arange(6.0), chunks=2)
    window = da.from_array(np.hanning(6), chunks=3)
    np.testing.assert_allclose((x * window).compute(), np.arange(6.0) * np.hanning(6))
    np.testing.assert_allclose((window - x).compute(), np.hanning(6) - np.arange(6.0))
    large = da.zeros(1_000_000, chunks=100_000)
    with pytest.raises(TypeError, match=r"8.0 MB meets one of chunkwise: from_array\(y\)"):
        cw.zeros(1_000_000) + large
    assert float(cw.sum(cw.ones(1_000_000) + cw.from_array(large))) == 1_000_000
