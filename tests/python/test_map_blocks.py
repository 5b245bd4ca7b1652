"""``xr.map_blocks`` of lazy arrays, against xarray on NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings, strategies as st

import chunkwise as cw
from chunkwise import _map_blocks


def data() -> xr.Dataset:
    rng = np.random.default_rng(0)
    return xr.Dataset(
        {"a": (("time", "y", "x"), rng.normal(size=(10, 6, 8)), {"units": "K"}), "b": (("y", "x"), rng.normal(size=(6, 8)).astype("f4")), "n": 7},
        {
            "time": pd.date_range("2000", periods=10),
            "y": np.arange(6),
            "x": np.linspace(0, 1, 8),
            "mask": (("y", "x"), rng.random((6, 8)) > 0.5),
            "label": ("y", list("abcdef")),
            "s": 3,
        },
        {"title": "drawn"},
    )


def plus(x: xr.DataArray, other: xr.Dataset, k: int = 1) -> xr.DataArray:
    return x + other.b * k


CASES: dict[str, Callable[[xr.Dataset], Any]] = {
    "an array": lambda d: xr.map_blocks(lambda x: x + 1, d.a),
    "a data set": lambda d: xr.map_blocks(lambda x: x.drop_vars("n") * 2, d),
    "a method": lambda d: d.a.map_blocks(lambda x: x.where(x.mask)),
    "a method of a data set": lambda d: d[["a", "b"]].map_blocks(lambda x: x.assign(c=x.a - x.b)),
    "more arguments": lambda d: xr.map_blocks(plus, d.a, args=[d], kwargs={"k": 3}),
    "coordinates": lambda d: d.a.map_blocks(lambda x: x - x.time.dt.day + (x.label == "c")),
    "a reduction along one chunk": lambda d: xr.map_blocks(lambda x: x.mean("x"), d.a),
    "a reduction along several": lambda d: xr.map_blocks(lambda x: x.mean("time"), d.a),
    "a new dimension": lambda d: xr.map_blocks(lambda x: x.expand_dims(z=[1, 2]).transpose("time", "y", "x", "z"), d.a),
    "other names": lambda d: xr.map_blocks(lambda x: x.rename("q").assign_coords(w=x.y * 2), d.a),
    "another dtype": lambda d: xr.map_blocks(lambda x: x > 0, d.a),
    "another order": lambda d: xr.map_blocks(lambda x: x.transpose("x", "time", "y"), d.a.drop_vars("mask")),
    "a data set of an array": lambda d: xr.map_blocks(lambda x: x.to_dataset(name="one").assign(two=x.mean("x")), d.a),
    "attributes": lambda d: xr.map_blocks(lambda x: x.assign_attrs(new=1), d.a),
    "an order of its own": lambda d: xr.map_blocks(lambda x: x + 1, d.a, template=d.a.transpose("x", "time", "y")).transpose(*d.a.dims),
    "all variables": lambda d: xr.map_blocks(lambda x: x, d),
    "dimensions without chunks": lambda d: xr.map_blocks(lambda x: x.a * x.z, d.assign(z=("z", np.arange(3)))),
    "the first variable": lambda d: xr.map_blocks(lambda x: x.rename({next(iter(x.data_vars)): "first"}), d[["n", "a", "b"]]),
    "a number": lambda d: xr.map_blocks(lambda x: x[["n"]].assign(a=x.a), d),
    "interpolation": lambda d: xr.map_blocks(lambda x: x.interp(x=[0.25, 0.5]), d.a, template=d.a.isel(x=[0, 1]).assign_coords(x=[0.25, 0.5])),
}


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(time=st.integers(1, 10), y=st.integers(1, 6))
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_xarray(name: str, time: int, y: int) -> None:
    ds = data()
    wanted = CASES[name](ds)
    with cw.raise_if_computes():
        found = CASES[name](ds.chunk(time=time, y=y, x=8))
    for each in found.data_vars.values() if isinstance(found, xr.Dataset) else [found]:
        assert isinstance(each.variable._data, cw.Array)
    xr.testing.assert_allclose(found.compute(), wanted, rtol=1e-12)
    assert found.attrs == wanted.attrs and set(found.coords) == set(wanted.coords) and getattr(found, "name", "") == getattr(wanted, "name", "")
    for one in found.variables if isinstance(found, xr.Dataset) else found.coords:
        assert (found[one].dims, found[one].dtype, found[one].attrs) == (wanted[one].dims, wanted[one].dtype, wanted[one].attrs)


def test_a_stored_data_set_with_lazy_coordinates(tmp_path: Path) -> None:
    ds = data().drop_vars("label")
    ds.chunk(time=3, y=6, x=8).to_zarr(tmp_path / "ds.zarr", consolidated=False)
    lazy = xr.open_zarr(tmp_path / "ds.zarr", chunks={}, consolidated=False)
    assert isinstance(lazy.mask.variable._data, cw.Array)
    found = lazy.a.map_blocks(lambda x: x.where(x.mask))
    xr.testing.assert_identical(found.compute().load(), ds.a.where(ds.mask))


def test_large_variables_in_memory_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_map_blocks, "SMALL", 40)
    ds = data().assign(t=(("time", "y"), np.zeros((10, 6), "M8[ns]")))
    lazy = ds.assign(a=ds.a.chunk(time=4, y=3))
    assert not isinstance(lazy.b.variable._data, cw.Array)
    made: list[int] = []
    real = _map_blocks._functions._calls

    def calls(*args: Any) -> Any:
        made.append(len(args[3]))
        return real(*args)

    monkeypatch.setattr(_map_blocks._functions, "_calls", calls)
    found = xr.map_blocks(lambda x: x.a + x.b.where(x.mask, 0), lazy)
    assert "mask" in found.coords
    xr.testing.assert_identical(found.compute().load(), ds.a + ds.b.where(ds.mask, 0))
    # Two variables, a mask, and the positions along three dimensions.
    assert made == [6]
    assert not isinstance(lazy.b.variable._data, cw.Array), "the data set of the user is as it was"


def test_the_function_is_called_once_for_each_block(tmp_path: Path) -> None:
    def noted(x: xr.Dataset, folder: str) -> xr.Dataset:
        if x.sizes["time"]:
            (Path(folder) / f"{x.time.values[0]}-{x.y.values[0]}-{os.getpid()}").touch(exist_ok=False)
        return x.assign(c=x.a * 2)

    found = xr.map_blocks(noted, data()[["a"]].chunk(time=5, y=3, x=8), args=[str(tmp_path)])
    xr.testing.assert_identical(found.compute(), data()[["a"]].assign(c=data().a * 2))
    assert len(list(tmp_path.glob('2*'))) == 4, sorted(p.name for p in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("function", "options", "error", "words"),
    [
        (lambda x: x.values, {}, TypeError, "must return an xarray DataArray"),
        (lambda x: 1 / 0, {}, ValueError, "supply the 'template'"),
        (lambda x: x, {"kwargs": 3}, TypeError, "mapping"),
        (lambda x: x, {"template": np.ones(3)}, TypeError, "template must be"),
        (lambda x: x, {"template": lambda: data().a}, ValueError, "no lazy arrays"),
        (lambda x: x, {"template": lambda: data().a.chunk(time=2, y=3)}, ValueError, "one block of the input"),
        (lambda x: x.isel(time=slice(1)), {"template": lambda: data().a.chunk(time=5, y=3)}, ValueError, "Received dimension 'time' of length 1. Expected length 5"),
        (lambda x: x.isel(x=0), {"template": lambda: data().a.chunk(time=5, y=3)}, ValueError, "dimensions"),
        (lambda x: x.astype("M8[s]"), {}, TypeError, "^the result has dtype datetime64"),
        (lambda x: x.to_dataset(name="q"), {"template": lambda: data().a.chunk(time=5, y=3)}, ValueError, "the result is missing, and the variable 'q' is not expected"),
    ],
)
def test_mistakes(function: Any, options: dict[str, Any], error: type[Exception], words: str) -> None:
    options = {name: value() if callable(value) else value for name, value in options.items()}
    array = data().a.chunk(time=5, y=3)
    with pytest.raises(error, match=words):
        xr.map_blocks(function, array, **options).compute()
    with pytest.raises(ValueError, match="Chunk sizes along dimension 'time' are not equal"):
        xr.map_blocks(plus, data().a.chunk(time=5), args=[data().chunk(time=3)])
    with pytest.raises(TypeError, match="give them in args"):
        xr.map_blocks(plus, data().a.chunk(time=5), kwargs={"other": data().a.chunk(time=5)})


def test_nothing_along_a_dimension() -> None:
    """A variable that lacks the dimension has values all the same."""
    whole = xr.Dataset({"a": (("t", "x"), np.ones((8, 6))), "b": ("x", np.arange(6.0))}, coords={"lat": ("x", np.arange(6.0))})
    for t, x in (([], slice(None)), (slice(0, 0), slice(2, 2))):
        empty = whole.isel(t=t, x=x)
        lazy = whole.chunk(t=4, x=3).isel(t=t, x=x)
        for function in (lambda b: b + 1, lambda b: b + b.lat, lambda b: b.drop_vars("a")):
            xr.testing.assert_identical(lazy.map_blocks(function).compute(), function(empty))
