"""Elements at positions that an array holds, and at points of an index, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw

DTYPES = ["float64", "float32", "complex128", "int64", "int16", "uint8", "bool"]


def chunks(data: st.DataObject, shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(data.draw(st.integers(1, n)) for n in shape)


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_along_an_axis(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    narrow = tuple(1 if a != axis % len(shape) and data.draw(st.booleans()) else n for a, n in enumerate(shape))
    of = tuple(data.draw(st.sampled_from([1, n])) if n > 1 else n for n in narrow)
    of = tuple(shape[axis] if a == axis % len(shape) else n for a, n in enumerate(of))
    at = tuple(data.draw(st.integers(1, 9)) if a == axis % len(shape) else n for a, n in enumerate(shape))
    x = (rng.normal(size=of) * 9).astype(data.draw(st.sampled_from(DTYPES)))
    n = of[axis]
    positions = rng.integers(-n, n, at).astype(data.draw(st.sampled_from(["int64", "int8"])))
    lazy = cw.take_along_axis(cw.from_array(x, chunks(data, of)), cw.from_array(positions, chunks(data, at)), axis=axis)
    np.testing.assert_array_equal(lazy.compute(), np.take_along_axis(x, positions.astype(np.int64), axis))
    np.testing.assert_array_equal(np.take_along_axis(cw.from_array(x), positions, axis).compute(), lazy.compute())


def test_the_elements_that_argmax_found() -> None:
    x = np.random.default_rng(0).normal(size=(300, 40, 30))
    lazy = cw.from_array(x, chunks=(17, 13, 30))
    with cw.raise_if_computes():
        where = cw.argmax(lazy, axis=0, keepdims=True)
        greatest = cw.take_along_axis(lazy, where, axis=0)
    np.testing.assert_array_equal(greatest.compute(), x.max(axis=0, keepdims=True))


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_positions_that_there_are_not(dtype: str) -> None:
    x = cw.from_array(np.arange(10.0), chunks=3)
    with pytest.raises(RuntimeError, match="out of bounds for axis 0 of length 10"):
        cw.take_along_axis(x, cw.from_array(np.array([0, 10], dtype)), axis=0).compute()
    if dtype == "uint64":
        with pytest.raises(RuntimeError, match="out of bounds"):
            cw.take_along_axis(x, cw.from_array(np.array([2**64 - 1], dtype)), axis=0).compute()
    with pytest.raises(ValueError, match="positions are integers"):
        cw.take_along_axis(x, x, axis=0)


def test_an_axis_longer_than_memory() -> None:
    """The axis is read in windows: 800 MB within 200 MB."""
    n = 100_000_000
    long = cw.arange(n, dtype="float64", chunks=[1_000_000])
    positions = np.random.default_rng(0).integers(0, n, 1000)
    found = cw.take_along_axis(long, cw.from_array(positions), axis=0)
    with cw.config(allowed_mem="200MB"):
        assert cw.plan(found)["projected_mem"] <= 200_000_000
        np.testing.assert_array_equal(found.compute(), positions.astype(float))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_points_of_an_index(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=2, max_size=4)))
    x = rng.integers(0, 1000, shape)
    points = data.draw(st.sampled_from([(3,), (1,), (2, 3), (30,)]))
    key: list[Any] = [slice(None)] * len(shape)
    for axis in data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)):
        key[axis] = rng.integers(-shape[axis], shape[axis], points)
    lazy = cw.from_array(x, chunks(data, shape))
    np.testing.assert_array_equal(lazy[tuple(key)].compute(), x[tuple(key)])
    dims = [f"d{i}" for i in range(len(shape))]
    of = {d: k if isinstance(k, slice) else xr.DataArray(k, dims=["p", "q"][: len(points)]) for d, k in zip(dims, key)}
    xr.testing.assert_equal(xr.DataArray(lazy, dims=dims).isel(of).compute(), xr.DataArray(x, dims=dims).isel(of))


def test_stations_read_their_chunks_only(tmp_path: Path) -> None:
    """Of 100 chunks, two points need those that have one of their rows and one of their columns."""
    zarr.create_array(tmp_path / "x.zarr", data=np.arange(10_000.0).reshape(1, 100, 100), chunks=(1, 10, 10))
    stored = cw.from_zarr(tmp_path / "x.zarr")
    picked = stored[:, np.array([5, 95]), np.array([15, 25])]
    np.testing.assert_array_equal(picked.compute(), [[515.0, 9525.0]])
    for chunk in (tmp_path / "x.zarr" / "c" / "0").glob("*/*"):
        if (chunk.parent.name, chunk.name) not in {(a, b) for a in "09" for b in "12"}:
            chunk.write_bytes(b"no chunk")
    np.testing.assert_array_equal(picked.compute(), [[515.0, 9525.0]])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_closeness(data: st.DataObject) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = np.array([0.0, 1.0, 1 + 1e-9, 1 + 1e-4, -1.0, np.inf, -np.inf, np.nan, 1e300])
    kinds = ["float64", "float32", "int64", "uint64", "bool", "complex128"]
    a, b = ((rng.choice(values[:5] if k[0] in "iub" else values, (4, 6))).astype(k) for k in (data.draw(st.sampled_from(kinds)) for _ in "ab"))
    if data.draw(st.booleans()):
        b = b[0]
    options = data.draw(st.sampled_from([{}, {"equal_nan": True}, {"rtol": 0.0, "atol": 0.0}, {"rtol": 1e-3}]))
    x, y = cw.from_array(a, (2, 3)), cw.from_array(b)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(np.isclose(x, y, **options).compute(), np.isclose(a, b, **options))
        assert bool(np.allclose(x, y, **options)) == np.allclose(a, b, **options)
        np.testing.assert_array_equal(np.isclose(x, 1, **options).compute(), np.isclose(a, 1, **options))
        np.testing.assert_array_equal(np.isclose(1.0, y, **options).compute(), np.isclose(1.0, b, **options))


@pytest.mark.parametrize("equal_nan", [False, True])
def test_equality_of_arrays(equal_nan: bool) -> None:
    a = np.array([1.0, np.nan, 3.0])
    large = np.array([2**62, 2**62 + 1])
    for one, other in [(a, a), (a, a + 1), (a, a[:2]), (large, large), (large, large[::-1].copy())]:
        found = np.array_equal(cw.from_array(one), cw.from_array(other), equal_nan=equal_nan)
        assert bool(found) == np.array_equal(one, other, equal_nan=equal_nan)
