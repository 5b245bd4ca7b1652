"""Group-bys of xarray, with flox: results, coordinates and attributes are those of NumPy, and nothing is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import chunkwise as cw
from chunkwise import _flox

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
    import flox
    from flox.aggregations import mean

    months = lazy.time.dt.month.values
    with cw.raise_if_computes(), pytest.raises(NotImplementedError, match="of groups"):
        flox.groupby_reduce(lazy.x.data, months, func=mean, axis=lazy.x.get_axis_num("time"))
    with cw.raise_if_computes(), pytest.raises(NotImplementedError, match="several dimensions"):
        flox.groupby_scan(lazy.x.data, np.zeros(lazy.x.shape, int), func="nancumsum", axis=0)


def test_arrays_of_numpy_are_left_to_flox() -> None:
    import flox
    import flox.xarray

    _flox.install()
    result, groups = flox.groupby_reduce(np.array([1.0, 2.0, 4.0]), np.array([0, 1, 1]), func="sum")
    np.testing.assert_array_equal(result, [1, 6])
    np.testing.assert_array_equal(groups, [0, 1])
    lazy, _ = flox.groupby_reduce(cw.from_array(np.array([1.0, 2.0, 4.0])), np.array([0, 1, 1]), func="sum")
    assert isinstance(lazy, cw.Array)
    np.testing.assert_array_equal(lazy.compute(), [1, 6])


def drawn(seed: int) -> None:
    """Groups of an array of any shape, along its last axes, by flox in memory and by the engine."""
    import flox

    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 8, rng.integers(1, 4)))
    dtype = str(rng.choice(["f8", "f4", "i8", "i2", "bool"]))
    x = rng.integers(0, 5, shape).astype(dtype)
    if dtype[0] == "f":
        x[rng.random(shape) < 0.3] = np.nan
    a = cw.from_array(x, chunks=tuple(int(rng.integers(1, n + 1)) for n in shape))
    labels = shape[len(shape) - int(rng.integers(1, len(shape) + 1)) :]
    bys = [rng.integers(-2, 5, labels) / 2 for _ in range(rng.integers(1, 3))]
    name = str(rng.choice(["sum", "mean", "min", "max", "var", "std", "prod", "count", "any", "all"]))
    if dtype[0] == "f" and name not in ("count", "any", "all") and rng.random() < 0.7:
        name = "nan" + name
    # Expected groups that do not occur are in the other tests: flox has no one answer to them.
    bys = [by.astype(str) if rng.random() < 0.2 else by for by in bys]
    options: dict[str, Any] = {"func": name}
    if len(bys) > 1:
        codes = np.ravel_multi_index([np.unique(by, return_inverse=True)[1].reshape(labels) for by in bys], [len(np.unique(by)) for by in bys])
        if len(np.unique(codes)) < np.prod([len(np.unique(by)) for by in bys]):
            bys = bys[:1]
    if name in ("var", "std", "nanvar", "nanstd"):
        options["finalize_kwargs"] = {"ddof": int(rng.integers(2))}
    with np.errstate(all="ignore"):
        wanted, *groups = flox.groupby_reduce(x, *bys, engine="numpy", **options)
    found, *names = flox.groupby_reduce(a, *bys, **options)
    told = (seed, shape, dtype, name, labels)
    assert isinstance(found, cw.Array) and found.shape == wanted.shape, told
    for got, expected in zip(names, groups, strict=True):
        np.testing.assert_array_equal(got, expected, err_msg=str(told))
    assert found.dtype == wanted.dtype, (told, found.dtype, wanted.dtype)
    np.testing.assert_allclose(found.compute(), wanted, rtol=1e-5 if dtype == "f4" else 1e-12, atol=1e-6, err_msg=str(told))


def test_groups_that_are_drawn() -> None:
    # CHUNKWISE_SEED says where they begin.
    _flox.install()
    first = int(os.environ.get("CHUNKWISE_SEED", "0"))
    for seed in range(first, first + 80):
        drawn(seed)
