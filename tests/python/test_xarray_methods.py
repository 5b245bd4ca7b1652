"""Methods of xarray: none loads anything before it is asked to, and each gives what xarray gives on values of NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from xarray.groupers import BinGrouper

import chunkwise as cw
from chunkwise.xarray import ChunkwiseManager

METHODS: dict[str, Callable[[xr.Dataset], Any]] = {
    "abs": lambda d: abs(d.a - 2),
    "all": lambda d: (d.a > -9).all("x"),
    "any": lambda d: (d.a > 2).any("t"),
    "argmax": lambda d: d.i.argmax("t"),
    "argmin": lambda d: d.i.argmin("x"),
    "assign": lambda d: d.assign(c=d.a * d.b)[["c"]],
    "assign_attrs": lambda d: d.a.assign_attrs(units="m"),
    "assign_coords": lambda d: d.a.assign_coords(x=d.x * 2),
    "astype": lambda d: d.i.astype("f4"),
    "broadcast_like": lambda d: d.b.broadcast_like(d.a),
    "clip": lambda d: d.a.clip(-1, 1),
    "coarsen": lambda d: d.a.coarsen(x=2, boundary="trim").mean(),
    "combine_first": lambda d: d.a.combine_first(d.a * 0),
    "concat": lambda d: xr.concat([d.a, d.a + 1], dim="t"),
    "corr": lambda d: xr.corr(d.a, d.a**2, dim="t"),
    "count": lambda d: d.a.count("t"),
    "cov": lambda d: xr.cov(d.a, d.a**2, dim="x"),
    "cumprod": lambda d: (d.a / 3).cumprod("x"),
    "cumsum": lambda d: d.a.cumsum("t"),
    "bfill": lambda d: d.a.bfill("x"),
    "ffill": lambda d: d.a.ffill("t"),
    "ffill up to a limit": lambda d: d.a.ffill("t", limit=2),
    "cumsum of a dataset": lambda d: d[["a", "i"]].cumsum("t"),
    "diff": lambda d: d.a.diff("t", n=2),
    "differentiate": lambda d: d.a.differentiate("x"),
    "differentiate, edges of order 2": lambda d: d.a.differentiate("x", edge_order=2),
    "differentiate by time": lambda d: d.a.differentiate("t", datetime_unit="D"),
    "dot": lambda d: xr.dot(d.a.fillna(0), d.b, dim="x"),
    "drop_isel": lambda d: d.a.drop_isel(t=[0, 3]),
    "drop_sel": lambda d: d.a.drop_sel(x=[10.0]),
    "expand_dims": lambda d: d.a.expand_dims("z"),
    "fillna": lambda d: d.a.fillna(7.0),
    "fillna by an array": lambda d: d.a.fillna(d.b),
    "groupby": lambda d: d.a.groupby("t.month").mean(),
    "groupby anomalies": lambda d: d.a.groupby("t.month") - d.a.groupby("t.month").mean(),
    "groupby first": lambda d: d.a.groupby("t.month").first(),
    "groupby last of whole numbers": lambda d: d.i.groupby("t.month").last(),
    "groupby median": lambda d: d.a.groupby("t.month").median(),
    "groupby quantile": lambda d: d.a.groupby("t.month").quantile(0.3),
    "groupby quantiles": lambda d: d.a.groupby("t.month").quantile([0.3, 0.9]),
    "groupby quantiles of the other axis": lambda d: d.a.groupby("x").quantile([0, 1.0], dim="x"),
    "groupby cumsum": lambda d: d.a.groupby("t.month").cumsum(),
    "groupby cumsum of the other axis": lambda d: d.i.groupby("x").cumsum("x"),
    "groupby_bins": lambda d: d.a.groupby_bins("x", [-100, 15, 100]).sum(),
    "head": lambda d: d.a.head(t=3),
    "idxmax": lambda d: d.a.idxmax("x"),
    "idxmax of one row": lambda d: d.a.isel(t=3).idxmax(),
    "idxmin of whole numbers": lambda d: d.i.idxmin("x"),
    "interp": lambda d: d.a.interp(x=[5.0, 30.0]),
    "interp of times": lambda d: d.a.interp(t=pd.date_range("2001-01-01T12", periods=4)),
    "integrate": lambda d: d.a.fillna(0).integrate("x"),
    "isel": lambda d: d.a.isel(t=slice(1, 9, 3), x=-1),
    "isel of points": lambda d: d.a.isel(t=xr.DataArray([3, 50, 3], dims="p"), x=xr.DataArray([2, -1, 0], dims="p")),
    "isel of a grid of points": lambda d: d.a.isel(x=xr.DataArray([[3, 0], [1, 1]], dims=("p", "q"))),
    "isin": lambda d: d.i.isin([1, 2, 3]),
    "isnull": lambda d: d.a.isnull(),
    "max": lambda d: d.a.max(),
    "mean": lambda d: d.a.mean(["t", "x"]),
    "median": lambda d: d.a.median("t"),
    "median of everything": lambda d: d.a.median(),
    "min": lambda d: d.a.min("x", skipna=False),
    "notnull": lambda d: d.a.notnull(),
    "pad": lambda d: d.b.pad(x=2, mode="reflect"),
    "pad with a value": lambda d: d.a.pad(x=(1, 2), constant_values=0),
    "pipe": lambda d: d.a.pipe(np.exp),
    "polyfit": lambda d: d.i.polyfit("t", 2, skipna=False).polyfit_coefficients,
    "polyfit, residuals and covariance": lambda d: d[["i"]].polyfit("x", 1, skipna=False, full=True, cov=True).drop_vars("x_singular_values", errors="ignore"),
    "polyfit without missing values": lambda d: d.a.polyfit("t", 1, skipna=True).polyfit_coefficients,
    "polyfit with weights": lambda d: d.b.polyfit("x", 1, w=[1, 2, 2, 1], skipna=False).polyfit_coefficients,
    "prod": lambda d: d.b.prod("x"),
    "quantile": lambda d: d.a.quantile(0.3, "t"),
    "quantiles": lambda d: d.b.quantile([0.1, 0.9], "x"),
    "reindex": lambda d: d.a.reindex(x=[10.0, 99.0, 0.0]),
    "reindex_like": lambda d: d.a.reindex_like(d.a.isel(x=slice(1, 3))),
    "rename": lambda d: d.a.rename(x="y"),
    "resample interpolate": lambda d: d.a.resample(t="12h").interpolate("linear"),
    "resample ffill": lambda d: d.a.resample(t="12h").ffill(),
    "resample last": lambda d: d.a.resample(t="7D").last(),
    "resample median": lambda d: d.a.resample(t="7D").median(),
    "resample": lambda d: d.a.resample(t="7D").max(),
    "roll": lambda d: d.a.roll(x=2, roll_coords=False),
    "rolling max": lambda d: d.a.rolling(t=4).max(),
    "rolling mean": lambda d: d.a.rolling(t=3).mean(),
    "rolling mean, centred": lambda d: d.a.rolling(t=5, center=True).mean(),
    "rolling mean of whole numbers": lambda d: d.i.rolling(t=3).mean(),
    "rolling mean of two axes": lambda d: d.a.rolling(t=3, x=2, min_periods=2).mean(),
    "rolling min": lambda d: d.a.rolling(x=2, min_periods=1).min(),
    "rolling std": lambda d: d.a.rolling(t=3).std(),
    "rolling sum": lambda d: d.a.rolling(t=3, min_periods=2).sum(),
    "rolling count": lambda d: d.a.rolling(t=3).count(),
    "rolling construct": lambda d: d.a.rolling(t=3).construct("w"),
    "rolling reduce": lambda d: d.a.rolling(t=3).reduce(np.nanmax),
    "round": lambda d: d.a.round(1),
    "sel": lambda d: d.a.sel(t="2001-01", x=10.0),
    "sel of points, nearest": lambda d: d.a.sel(x=xr.DataArray([11, 29], dims="p"), t=xr.DataArray(d.t.values[[4, 40]], dims="p"), method="nearest"),
    "sel nearest": lambda d: d.a.sel(x=[11, 29], method="nearest"),
    "shift": lambda d: d.a.shift(t=2),
    "sortby": lambda d: d.a.sortby("x", ascending=False),
    "squeeze": lambda d: d.a.isel(t=[0]).squeeze(),
    "stack": lambda d: d.a.stack(z=("t", "x")).mean("z"),
    "std": lambda d: d.a.std("t", ddof=1),
    "sum": lambda d: d.a.sum("t", min_count=2),
    "swap_dims": lambda d: d.b.assign_coords(y=("x", np.arange(4))).swap_dims(x="y"),
    "tail": lambda d: d.a.tail(x=2),
    "thin": lambda d: d.a.thin(t=4),
    "to_dataarray": lambda d: d[["a", "b"]].to_dataarray("v"),
    "transpose": lambda d: d.a.transpose("x", "t"),
    "unify_chunks": lambda d: d[["a", "b"]].unify_chunks(),
    "var": lambda d: d.a.var(),
    "weighted": lambda d: d.a.weighted(d.b**2).mean("x"),
    "where": lambda d: d.a.where(d.a > 0, -1),
    "where of labels": lambda d: d.a.where(d.x > 5, drop=True),
    "xr.where": lambda d: xr.where(d.i > 2, d.a, d.b),
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(11)
    values = rng.normal(size=(60, 4))
    values[rng.random(values.shape) < 0.1] = np.nan
    times = pd.date_range("2001-01-01", periods=60, freq="D")
    ds = xr.Dataset(
        {
            "a": (("t", "x"), values, {"units": "K", "long_name": "a"}),
            "b": (("x",), rng.normal(size=4), {"units": "m"}),
            "i": (("t", "x"), rng.integers(-5, 5, (60, 4)), {"flag": 1}),
        },
        coords={"t": times, "x": [0.0, 10.0, 20.0, 50.0]},
        attrs={"title": "drawn"},
    )
    path = tmp_path_factory.mktemp("methods") / "drawn.zarr"
    ds.to_zarr(path, consolidated=False, encoding={"a": {"chunks": (7, 3)}, "i": {"chunks": (60, 2)}})
    return str(path)


def test_there_are_sixty() -> None:
    assert len(METHODS) >= 60


@pytest.mark.parametrize("name", METHODS)
def test_a_method(name: str, stores: str) -> None:
    lazy = xr.open_zarr(stores, consolidated=False, chunks={})
    assert isinstance(lazy.a.data, cw.Array)
    # On NumPy's values only bottleneck fills; else its results are less exact than NumPy's.
    with xr.set_options(use_bottleneck="fill" in name, use_numbagg=False):
        with cw.raise_if_computes():
            found = METHODS[name](lazy)
        expected = METHODS[name](xr.open_zarr(stores, consolidated=False, chunks=None).load())
    each = found.data_vars.values() if isinstance(found, xr.Dataset) else [found]
    assert any(isinstance(v.data, cw.Array) for v in each), "it is not lazy any more"
    xr.testing.assert_allclose(found.compute(), expected, rtol=1e-12, atol=1e-12)
    for one, other in zip(each, expected.data_vars.values() if isinstance(expected, xr.Dataset) else [expected]):
        assert (one.dtype, one.dims, one.attrs, one.name) == (other.dtype, other.dims, other.attrs, other.name)
        assert one.coords.keys() == other.coords.keys()


def test_rolling_is_an_operation_of_the_engine(stores: str) -> None:
    """A mean of windows reads its input once, and makes no array of windows."""
    a = xr.open_zarr(stores, consolidated=False, chunks={}).a
    mean = a.rolling(t=20).mean()
    table = cw.plan(mean.data)
    assert "concat" not in table["json"] and table["json"].count('"gather"') < 6
    assert table["tasks"] <= 4, table["table"]
    assert table["projected_mem"] < 100_000_000
    with pytest.raises(ValueError, match="do not fit"):
        cw.lib.stride_tricks.sliding_window_view(a.data, 61, axis=0)


def test_windows_beside_other_lazy_variables(stores: str, tmp_path: Path) -> None:
    """xarray computes and stores no arrays of several classes together."""
    whole = xr.open_zarr(stores, consolidated=False, chunks=None).load().drop_encoding()
    expected = whole.assign(w=whole.a.rolling(t=3).construct("w")).assign_coords(lat=("x", np.arange(4.0)))
    lazy = whole.chunk(t=7, x=2)
    made = lazy.assign(w=lazy.a.rolling(t=3).construct("w")).assign_coords(lat=xr.DataArray(np.arange(4.0), dims="x").chunk(x=2))
    assert type(made.w.data) is type(made.a.data)
    xr.testing.assert_identical(made.compute(), expected)
    made.to_zarr(tmp_path / "w.zarr", consolidated=False)
    xr.testing.assert_identical(xr.open_zarr(tmp_path / "w.zarr", consolidated=False, chunks=None).load(), expected)
    made.to_netcdf(tmp_path / "w.nc", engine="scipy")
    xr.testing.assert_allclose(xr.open_dataset(tmp_path / "w.nc", engine="scipy").load(), expected)


def test_windows_that_are_assigned_to_are_windows_no_more() -> None:
    windows = cw.lib.stride_tricks.sliding_window_view(cw.arange(5), 3)
    windows[0, 0] = 10
    np.testing.assert_array_equal(windows.sum(axis=-1).compute(), [13, 6, 9])


def test_results_are_written(stores: str, tmp_path: Path) -> None:
    lazy = xr.open_zarr(stores, consolidated=False, chunks={})
    made = xr.Dataset({"mean": lazy.a.rolling(t=3).mean(), "sum": lazy.a.cumsum("t"), "slope": lazy.a.differentiate("x")})
    made.drop_encoding().to_zarr(tmp_path / "out.zarr", consolidated=False)
    whole = xr.open_zarr(stores, consolidated=False, chunks=None).load()
    again = xr.open_zarr(tmp_path / "out.zarr", consolidated=False, chunks=None).load()
    with xr.set_options(use_bottleneck=False):
        xr.testing.assert_allclose(again["mean"], whole.a.rolling(t=3).mean())
    xr.testing.assert_allclose(again["sum"], whole.a.cumsum("t"))
    xr.testing.assert_allclose(again["slope"], whole.a.differentiate("x"))


def test_chunks_that_xarray_chooses(stores: str) -> None:
    """``chunks="auto"`` gives the lengths of stored chunks, one for each axis; that was an error."""
    whole = xr.open_zarr(stores, consolidated=False, chunks=None)
    lazy = xr.open_dataset(stores, engine="zarr", consolidated=False, chunks="auto")
    assert isinstance(lazy.a.data, cw.Array) and lazy.a.data.chunks == ((60,), (4,))
    xr.testing.assert_equal(lazy.compute(), whole)


def test_sizes_of_chunks(stores: str) -> None:
    a = xr.open_zarr(stores, consolidated=False, chunks={}).a
    assert a.chunk({"t": "120B"}).chunks == ((5,) * 12, (3, 1))
    assert a.chunk("16MB").chunks == ((60,), (4,))
    # Whole stored chunks, if they fit.
    assert a.chunk({"t": "400B", "x": 3}).chunks == ((14,) * 4 + (4,), (3, 1))
    for chunks in ({"t": "many"}, {"t": "10B", "x": "20B"}):
        with pytest.raises(ValueError, match="chunk"):
            a.chunk(chunks)
    np.testing.assert_array_equal(a.chunk({"t": "120B"}).compute(), a.compute())


def test_common_chunks(stores: str) -> None:
    ds = xr.open_zarr(stores, consolidated=False, chunks={})[["a", "i"]]
    with pytest.raises(ValueError, match="inconsistent chunks"):
        assert ds.chunks
    with cw.raise_if_computes():
        one = ds.unify_chunks()
    assert one.chunks == {"t": (7,) * 8 + (4,), "x": (2, 1, 1)}
    xr.testing.assert_equal(one.compute(), ds.compute())


def test_axes_without_names_get_xarrays() -> None:
    x = cw.from_array(np.zeros((3, 4)))
    assert x.dims is None and xr.DataArray(x).dims == ("dim_0", "dim_1")
    assert xr.DataArray(x.with_dims("a", "b")).dims == ("a", "b")


def test_assignment(stores: str) -> None:
    lazy, whole = (xr.open_zarr(stores, consolidated=False, chunks=c) for c in ({}, None))
    whole = whole.load()
    for d in (lazy, whole):
        d.a[{"t": slice(0, 9, 2), "x": 1}] = 7.0
        d.a.loc["2001-02-01":, 10.0:20.0] = np.arange(2.0)
        d["c"] = d.a.copy()
        d.c[:] = 0.0
    assert isinstance(lazy.a.data, cw.Array) and isinstance(lazy.c.data, cw.Array)
    xr.testing.assert_equal(lazy.compute(), whole)


def test_files_of_other_formats(stores: str, tmp_path: Path) -> None:
    """The results are computed in one run, and written part by part."""
    lazy, whole = (xr.open_zarr(stores, consolidated=False, chunks=c) for c in ({}, None))
    (lazy[["a", "i"]] * 2).to_netcdf(tmp_path / "x.nc", engine="scipy")
    xr.testing.assert_allclose(xr.open_dataset(tmp_path / "x.nc", engine="scipy").load(), whole[["a", "i"]] * 2)
    later = lazy[["a"]].to_netcdf(tmp_path / "y.nc", engine="scipy", compute=False)
    later.compute()
    xr.testing.assert_equal(xr.open_dataset(tmp_path / "y.nc", engine="scipy").load(), whole[["a"]])


class Target:
    def __init__(self, shape: tuple[int, ...]) -> None:
        self.values, self.most = np.zeros(shape), 0

    def __setitem__(self, region: Any, values: np.ndarray[Any, Any]) -> None:
        self.values[region], self.most = values, max(self.most, values.nbytes)


def test_no_part_is_large(tmp_path: Path) -> None:
    whole = np.random.default_rng(0).normal(size=(300, 40, 200))
    target, regional = Target(whole.shape), Target((310, 40, 200))
    x = cw.from_array(whole, chunks=(10, 40, 50))
    manager = ChunkwiseManager()
    with cw.config(allowed_mem="100MB", work_dir=str(tmp_path)):
        manager.store([x], [target])
        manager.store([x], [regional], regions=(slice(10, 310), slice(None), slice(None)))
    np.testing.assert_array_equal(target.values, whole)
    np.testing.assert_array_equal(regional.values[10:], whole)
    assert 1_000_000 < target.most <= 12_500_000
    assert not list(tmp_path.glob("targets/*")), "what was between is gone"


DATES: dict[str, Callable[[xr.Dataset], Any]] = {
    "idxmax": lambda d: d.a.idxmax("t"),
    "idxmin, with a value for rows without any": lambda d: d.a.where(d.x > 5).idxmin("t", fill_value=np.datetime64("1900-01-01")),
    "idxmax of a row without any": lambda d: d.a.where(d.x > 5).idxmax("t"),
    "idxmax of whole numbers": lambda d: d.i.idxmax("t"),
    "idxmax of one row": lambda d: d.a.isel(x=1).idxmax(),
    "idxmax among texts": lambda d: d.i.assign_coords(x=list("abcd")).idxmax("x"),
    "dates where": lambda d: d.t.where(d.a.mean("x") > 0),
    "dates of the largest": lambda d: xr.where(d.a.isel(x=0) > 0, d.t, np.datetime64("2000-01-01", "ns")),
}


@pytest.mark.parametrize("name", DATES)
def test_results_that_are_dates_or_texts_are_values(name: str, stores: str) -> None:
    """The engine has neither, so they are computed at once, which ``raise_if_computes`` shows."""
    lazy = xr.open_zarr(stores, consolidated=False, chunks={})
    found = DATES[name](lazy)
    expected = DATES[name](xr.open_zarr(stores, consolidated=False, chunks=None).load())
    xr.testing.assert_identical(found, expected)
    assert found.dtype == expected.dtype and isinstance(found.data, np.ndarray)
    with pytest.raises(cw.ComputeError), cw.raise_if_computes():
        DATES[name](lazy)


BINS: dict[str, Callable[[xr.Dataset], Any]] = {
    "of one axis": lambda d: d.a.groupby_bins("lat", [-1, 0.5, 9]).mean(),
    "with labels": lambda d: d.a.groupby_bins("lat", [-1, 0.5, 2], labels=["low", "high"]).sum(),
    "of several axes": lambda d: d.a.groupby_bins("place", [-2, 0, 0.5, 2]).max(),
    "by a grouper": lambda d: d.groupby(lat=BinGrouper([0, 1, 3], right=False)).mean(),
    "by the values themselves": lambda d: d.a.groupby_bins(d.a, [-2, 0, 2]).count(),
}


@pytest.mark.parametrize("name", BINS)
def test_bins_by_lazy_variables(name: str, stores: str) -> None:
    whole = xr.open_zarr(stores, consolidated=False, chunks=None).load()
    whole = whole.assign_coords(lat=("x", [0.0, 1.0, np.nan, 2.0]), place=(("t", "x"), whole.a.values[::-1]))
    found = BINS[name](whole.chunk(t=7, x=3)).compute()
    xr.testing.assert_allclose(found, BINS[name](whole), rtol=1e-12, atol=1e-12)


ALONG_CALENDARS: dict[str, Callable[[xr.Dataset], Any]] = {
    "interp": lambda d: d.a.interp(t=d.t[:3] + pd.Timedelta("12h")),
    "interp, nearest": lambda d: d.a.interp(t=d.t[:3] + pd.Timedelta("2h"), method="nearest"),
    "interp at points": lambda d: d.b.broadcast_like(d.a).interp(t=xr.DataArray(d.t.values[[3, 1]], dims="p"), x=xr.DataArray([0.5, 2], dims="p")),
    "interp of a data set": lambda d: d[["a", "i"]].interp(t=d.t[:2]),
    "resample": lambda d: d.a.resample(t="12h").interpolate("linear"),
}


@pytest.mark.parametrize("name", ALONG_CALENDARS)
def test_calendars_of_cftime(name: str, stores: str) -> None:
    pytest.importorskip("cftime")
    whole = xr.open_zarr(stores, consolidated=False, chunks=None).load().isel(t=slice(6))
    whole = whole.assign_coords(t=xr.date_range("2000-02-26", periods=6, freq="D", calendar="noleap", use_cftime=True))
    with cw.raise_if_computes():
        found = ALONG_CALENDARS[name](whole.chunk(t=4, x=3))
    xr.testing.assert_allclose(found.compute(), ALONG_CALENDARS[name](whole), rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"full": True}, {"skipna": True}, {"skipna": False}], ids=str)
def test_polyfit_of_nothing(options: dict[str, Any]) -> None:
    whole = xr.Dataset({"a": (("x", "y"), np.ones((4, 2))), "i": ("x", np.arange(4))}, coords={"x": np.arange(4.0)})
    for key in ({"x": slice(0, 0)}, {"y": slice(0, 0)}, {"x": slice(0, 0), "y": slice(0, 0)}):
        found = whole.chunk(x=2).isel(key).polyfit("x", 1, **options).compute()
        xr.testing.assert_allclose(found, whole.isel(key).polyfit("x", 1, **options))


def test_lazy_weights(stores: str, tmp_path: Path) -> None:
    """They were computed at once, to see whether some are missing."""
    whole = xr.open_zarr(stores, consolidated=False, chunks=None).load()
    whole = whole.assign(w=(whole.i**2).astype("f4"), whole=whole.i**2, b=whole.b**2)
    lazy = whole.chunk(t=7, x=3)
    for name in ("w", "whole", "b"):
        for function in ("mean", "sum", "std", "sum_of_weights"):
            with cw.raise_if_computes():
                found = getattr(lazy[["a", "i"]].weighted(lazy[name]), function)("x")
            xr.testing.assert_allclose(found.compute(), getattr(whole[["a", "i"]].weighted(whole[name]), function)("x"))
    table = cw.plan(lazy.a.weighted(lazy.w).mean("x").data)
    assert table["stages"] == 1, "the weights are looked at where they are used"
    gaps = lazy.a.weighted(lazy.a).mean("t")
    for run in (gaps.compute, lambda: gaps.drop_encoding().to_zarr(tmp_path / "gaps.zarr", consolidated=False)):
        with pytest.raises(ValueError, match="`weights` cannot contain missing values"):
            run()
    xr.testing.assert_allclose(lazy.a.weighted(lazy.a.fillna(0)).mean("t").compute(), whole.a.weighted(whole.a.fillna(0)).mean("t"))


SHORT = ("interp", "interp of times", "resample interpolate", "mean", "quantile", "rolling", "polyfit", "weighted", "groupby", "corr", "differentiate", "cumsum", "std")


@pytest.mark.parametrize("name", [name for name in SHORT if name in METHODS])
def test_a_method_of_short_floats(name: str, stores: str, tmp_path: Path) -> None:
    whole = xr.open_zarr(stores, consolidated=False, chunks=None).load()
    short = whole.assign({n: v.astype("f4") for n, v in whole.items() if v.dtype.kind == "f"}).drop_encoding()
    short.to_zarr(tmp_path / "short.zarr", encoding={"a": {"chunks": (7, 3)}})
    lazy = xr.open_zarr(tmp_path / "short.zarr", chunks={})
    with xr.set_options(use_bottleneck=False, use_numbagg=False):
        with cw.raise_if_computes():
            found = METHODS[name](lazy)
        xr.testing.assert_allclose(found.compute(), METHODS[name](short), rtol=1e-5, atol=1e-5)
