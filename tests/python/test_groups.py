"""Group-bys of xarray, with flox: results, coordinates and attributes are those of NumPy, and nothing is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import chunkwise as cw

pytest.importorskip("flox")

GROUPED: dict[str, Callable[[Any], Any]] = {
    "months": lambda d: d.groupby("time.month"),
    "days of the year": lambda d: d.groupby("time.dayofyear"),
    "seasons": lambda d: d.groupby("time.season"),
    "labels": lambda d: d.groupby("label"),
    "bins": lambda d: d.groupby_bins("lat", [-50.0, -10.0, 3.0, 60.0, 80.0]),
    "a map of regions": lambda d: d.groupby("region"),
    "two labels": lambda d: d.groupby(["label", "time.month"]),
    "weeks": lambda d: d.resample(time="7D"),
    "months with gaps": lambda d: d.isel(time=slice(0, None, 40)).resample(time="10D"),
}
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    name: lambda g, name=name: getattr(g, name)() for name in ("sum", "mean", "min", "max", "var", "std", "count", "prod", "any", "all")
}
#: Where groups are without any value, xarray's result is NaN. For these flox returns 1 or True instead.
GAPS = ("bins", "months with gaps")
OTHERS = {"i4": ("prod",), "bool": ("prod", "min", "max")}
FUNCTIONS |= {
    "mean with NaN": lambda g: g.mean(skipna=False),
    "var of a sample": lambda g: g.var(ddof=1),
    "sum of some": lambda g: g.sum(min_count=3),
}


def data(folder: Path, dtype: str) -> Path:
    rng = np.random.default_rng(3)
    time = pd.date_range("2000-11-03", periods=400, freq="30h")
    values = rng.integers(0, 4, (400, 6, 5)).astype(dtype)
    if dtype[0] == "f":
        values[rng.random(values.shape) < 0.2] = np.nan
        # A group without any value.
        values[:, 1] = np.nan
    ds = xr.Dataset(
        {"x": (("time", "lat", "lon"), values, {"units": "K"})},
        coords={
            "time": time,
            "lat": np.linspace(-60, 60, 6),
            "label": ("time", rng.choice(["a", "b", "c"], 400)),
            "region": (("lat", "lon"), rng.choice([1.0, 3.0, np.nan], (6, 5))),
        },
        attrs={"title": "groups"},
    )
    ds.to_zarr(folder, encoding={"x": {"chunks": (70, 4, 5)}}, consolidated=False)
    return folder


@pytest.mark.parametrize("dtype", ["f8", "f4", "i4", "bool"])
@pytest.mark.parametrize("grouped", GROUPED)
def test_groups(grouped: str, dtype: str, tmp_path: Path) -> None:
    path = data(tmp_path / "data.zarr", dtype)
    numpy = xr.open_zarr(path, chunks=None, consolidated=False).load()
    lazy = xr.open_zarr(path, chunks={}, chunked_array_type="chunkwise", consolidated=False)
    for name in ("label", "region"):
        lazy[name].load()
    for function, of in FUNCTIONS.items():
        if grouped in GAPS and function in OTHERS.get(dtype, ()):
            continue
        expected = of(GROUPED[grouped](numpy))
        with cw.raise_if_computes():
            found = of(GROUPED[grouped](lazy))
            assert isinstance(found.x.data, cw.Array), (function, type(found.x.data))
        assert found.x.dtype == expected.x.dtype, (function, found.x.dtype, expected.x.dtype)
        xr.testing.assert_allclose(found.compute(), expected, rtol=1e-6 if dtype == "f4" else 1e-12)
        assert found.attrs == expected.attrs and found.x.attrs == expected.x.attrs, function


def test_anomalies(tmp_path: Path) -> None:
    path = data(tmp_path / "data.zarr", "f8")
    numpy = xr.open_zarr(path, chunks=None, consolidated=False).load()
    lazy = xr.open_zarr(path, chunks={}, chunked_array_type="chunkwise", consolidated=False)

    def anomalies(ds: Any) -> Any:
        months = ds.x.groupby("time.month")
        return months - months.mean()

    with cw.raise_if_computes():
        found = anomalies(lazy)
    xr.testing.assert_allclose(found.compute(), anomalies(numpy), rtol=1e-12)


def test_functions_that_groups_do_not_have_say_so(tmp_path: Path) -> None:
    lazy = xr.open_zarr(data(tmp_path / "data.zarr", "f8"), chunks={}, chunked_array_type="chunkwise", consolidated=False)
    with cw.raise_if_computes(), pytest.raises(NotImplementedError, match="no 'median' of groups; it has"):
        lazy.x.groupby("time.month").median()


def test_arrays_of_numpy_are_left_to_flox() -> None:
    import flox
    import flox.xarray

    cw_manager = xr.namedarray.parallelcompat.list_chunkmanagers()["chunkwise"]
    assert cw_manager is not None
    result, groups = flox.groupby_reduce(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 1]), func="sum")
    np.testing.assert_array_equal(result, [1, 6])
    np.testing.assert_array_equal(groups, [0, 1])
    lazy, _ = flox.groupby_reduce(cw.from_array(np.array([1.0, 2.0, 4.0])), np.array([0, 1, 1]), func="sum")
    assert isinstance(lazy, cw.Array)
    np.testing.assert_array_equal(lazy.compute(), [1, 6])
