"""Where xarray could load an array silently: it stays lazy, or there is an error."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from xarray.backends import BackendArray
from xarray.core import indexing

import chunkwise as cw

ERRORS = (NotImplementedError, TypeError, ValueError, AttributeError, ImportError, IndexError)
TRAPS: dict[str, Callable[[xr.Dataset], Any]] = {
    "map_blocks": lambda d: xr.map_blocks(lambda x: x, d.uwnd),
    "ffill": lambda d: d.uwnd.ffill("time"),
    "bfill": lambda d: d.uwnd.bfill("time"),
    "interpolate_na": lambda d: d.uwnd.interpolate_na("time"),
    "median": lambda d: d.uwnd.median("time"),
    "quantile": lambda d: d.uwnd.quantile(0.5, "time"),
    "rank": lambda d: d.uwnd.rank("time"),
    "cumsum": lambda d: d.uwnd.cumsum("time"),
    "rolling": lambda d: d.uwnd.rolling(time=3).mean(),
    "apply_ufunc": lambda d: xr.apply_ufunc(np.median, d.uwnd, input_core_dims=[["time"]], kwargs={"axis": -1}),
    "apply_ufunc parallelized": lambda d: xr.apply_ufunc(lambda x: x, d.uwnd, dask="parallelized"),
    "sortby": lambda d: d.uwnd.sortby("lat", ascending=False),
    "interp": lambda d: d.uwnd.interp(lat=[0.5, 1.5]),
    "differentiate": lambda d: d.uwnd.differentiate("lat"),
    "integrate": lambda d: d.uwnd.integrate("lat"),
    "groupby first": lambda d: d.uwnd.groupby("time.month").first(),
    "groupby map": lambda d: d.uwnd.groupby("time.month").map(lambda g: g - g.mean("time")),
    "isin": lambda d: d.uwnd.isin([1.0, 2.0]),
    "idxmax": lambda d: d.uwnd.idxmax("lat"),
    "histogram": lambda d: np.histogram(d.uwnd.data, range=(-50, 50)),
    "vectorized index": lambda d: d.uwnd.isel(lat=xr.DataArray([1, 2], dims="z"), lon=xr.DataArray([3, 4], dims="z")),
    "weighted sum": lambda d: d.uwnd.weighted(np.cos(np.deg2rad(d.lat))).sum("lat"),
    "repr": lambda d: (repr(d), d._repr_html_()),
    "copy": lambda d: d.copy(deep=True),
    "broadcast_like": lambda d: d.uwnd.mean("time").broadcast_like(d.uwnd),
    "nbytes": lambda d: d.nbytes,
    "drop": lambda d: d.uwnd.drop_vars("time"),
    "merge": lambda d: xr.merge([d[["uwnd"]], d[["vwnd"]]], join="exact"),
}


@pytest.mark.parametrize("name", TRAPS)
def test_nothing_is_loaded_silently(name: str, winds: str) -> None:
    ds = xr.open_zarr(winds, chunked_array_type="chunkwise", chunks={})
    with cw.raise_if_computes():
        try:
            TRAPS[name](ds)
        except cw.ComputeError:
            pytest.fail(f"{name} loads")
        except ERRORS as error:
            assert str(error)


def test_a_lazy_mask_is_refused_for_the_shape_depends_on_it(winds: str) -> None:
    ds = xr.open_zarr(winds, chunked_array_type="chunkwise", chunks={})
    mask = ds.uwnd.isel(lat=0, lon=0, drop=True) > 0
    with pytest.raises(TypeError, match="compute"):
        ds.uwnd[mask]
    chosen = ds.uwnd[mask.compute()]
    assert isinstance(chosen.data, cw.Array) and chosen.sizes["time"] == int(mask.sum())


def test_polyfit_asks_only_if_values_are_missing(winds: str) -> None:
    ds, plain = xr.open_zarr(winds, chunked_array_type="chunkwise", chunks={}), xr.open_zarr(winds, chunks=None)
    with pytest.raises(cw.ComputeError), cw.raise_if_computes():
        ds.uwnd.polyfit("time", 1)
    found = ds.uwnd.polyfit("time", 1).polyfit_coefficients
    assert isinstance(found.data, cw.Array)
    np.testing.assert_allclose(found.compute(), plain.uwnd.polyfit("time", 1).polyfit_coefficients, rtol=1e-6, atol=1e-9)


def test_copies_are_lazy(winds: str) -> None:
    ds = xr.open_zarr(winds, chunked_array_type="chunkwise", chunks={})
    with cw.raise_if_computes():
        assert isinstance(ds.copy(deep=True).uwnd.data, cw.Array)
        assert isinstance(ds.uwnd.sortby("lat", ascending=False).data, cw.Array)
    with pytest.raises(TypeError, match="pickled"):
        pickle.dumps(ds.uwnd.data)


def test_storing_later(winds: str, tmp_path: Path) -> None:
    """What other libraries do too: metadata first, then one region at a time, and the rest later."""
    ds = xr.open_zarr(winds, chunked_array_type="chunkwise", chunks={})[["uwnd", "vwnd"]].drop_encoding()
    with cw.raise_if_computes():
        later = ds.to_zarr(tmp_path / "x.zarr", compute=False)
    written = xr.open_zarr(tmp_path / "x.zarr", chunks=None, mask_and_scale=False)
    assert written.uwnd.shape == ds.uwnd.shape and not (written.uwnd.values == ds.uwnd.compute().values).any()
    rows = ds.uwnd.chunks[0][0]
    ds.isel(time=slice(0, rows)).drop_vars(["lat", "lon"]).to_zarr(tmp_path / "x.zarr", region={"time": slice(0, rows)})
    np.testing.assert_array_equal(xr.open_zarr(tmp_path / "x.zarr", chunks=None).uwnd[:rows], ds.uwnd[:rows].compute())
    later.compute()
    xr.testing.assert_equal(xr.open_zarr(tmp_path / "x.zarr", chunks=None), ds.compute())


def test_several_files(winds: str, tmp_path: Path) -> None:
    whole = xr.open_zarr(winds, chunks=None)
    for i in range(2):
        whole.isel(time=slice(12 * i, 12 * i + 12)).drop_encoding().to_zarr(tmp_path / f"{i}.zarr")
    paths = [str(tmp_path / f"{i}.zarr") for i in range(2)]
    options: dict[str, Any] = {"engine": "zarr", "chunked_array_type": "chunkwise", "chunks": {}, "combine": "nested", "concat_dim": "time"}
    with cw.raise_if_computes():
        ds = xr.open_mfdataset(paths, **options)
        mean = ds.uwnd.mean("time")
    np.testing.assert_allclose(mean.compute(), whole.uwnd.isel(time=slice(0, 24)).mean("time"), rtol=1e-4, atol=1e-5)


class Foreign(BackendArray):
    """An array in a file that only xarray can read."""

    def __init__(self, values: np.ndarray[Any, Any]) -> None:
        self.values, self.shape, self.dtype = values, values.shape, values.dtype

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self.values.__getitem__)


def test_files_that_only_xarray_reads_are_copied_within_the_budget() -> None:
    """They were loaded whatever their size."""
    values = np.arange(2_000_000.0).reshape(1000, 2000)
    lazy = xr.Variable(("t", "x"), indexing.LazilyIndexedArray(Foreign(values)))
    few = lazy[10:30, ::2].chunk({"t": 7})
    assert isinstance(few.data, cw.Array)
    np.testing.assert_array_equal(few.compute().values, values[10:30, ::2])
    with cw.config(allowed_mem="50MB"), pytest.raises(cw.MemoryLimitError, match="from_zarr"):
        lazy.chunk({"t": 100})


def test_lazy_coordinates_are_compared_by_what_they_are(tmp_path: Path) -> None:
    plain = xr.Dataset({name: (("t", "x"), np.arange(24.0).reshape(4, 6)) for name in "ab"}, coords={"lat": ("x", np.arange(6.0)), "lon": ("x", np.arange(6.0))})
    plain.to_zarr(tmp_path / "d.zarr")
    d, again = (xr.open_zarr(tmp_path / "d.zarr", chunks={"x": 3}) for _ in range(2))
    assert isinstance(d.lat.variable._data, cw.Array)
    with cw.raise_if_computes():
        found = [
            d.a.isel(x=slice(4)) - d.b.isel(x=slice(4)),
            d.a - again.b,
            d.a.rolling(t=2).mean(),
            d.transpose() * d,
            xr.merge([d, again]),
            xr.concat([d, again], "t", data_vars="minimal", coords="minimal", compat="equals"),
            d.chunk(x=2).a - d.b,
        ]
    assert "lat" in found[0].coords and "lon" in found[1].coords
    # Others are compared as before.
    xr.testing.assert_identical((d.a - d.assign_coords(lat=d.lat + 1).b).compute().load(), plain.a - plain.assign_coords(lat=plain.lat + 1).b)
    other = d.assign_coords(lat=d.lat * 1.0)
    xr.testing.assert_identical((d.a - other.b).compute().load(), plain.a - plain.b)
