"""Cumulative functions against NumPy, on arrays of one segment and of many."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw

DTYPES = ["float64", "float32", "complex64", "int64", "int32", "int8", "uint8", "bool"]
#: Shapes and chunks whose lines are several segments, and segments of segments.
LARGE = [((3_000_000,), (100_000,), 0), ((2000, 40, 40), (7, 40, 40), 0), ((30, 2, 50_000), (16, 2, 17_000), 2), ((9000, 300), (1, 300), 0)]


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray[Any, Any]:
    if dtype.startswith("c"):
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return (rng.normal(size=shape) * 2 if dtype.startswith("f") else rng.integers(0, 2 if dtype == "bool" else 100, shape)).astype(dtype)


def close(found: cw.Array, expected: np.ndarray[Any, Any]) -> None:
    values = found.compute()
    assert (values.dtype, values.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "fc":
        rtol = 1e-5 if expected.dtype in (np.float32, np.complex64) else 1e-11
        sizes = np.abs(expected)
        np.testing.assert_allclose(values, expected, rtol=rtol, atol=rtol * np.max(sizes, where=np.isfinite(sizes), initial=1))
    else:
        np.testing.assert_array_equal(values, expected)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_against_numpy(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=4)))
    dtype = data.draw(st.sampled_from(DTYPES))
    x = drawn(np.random.default_rng(data.draw(st.integers(0, 99))), shape, dtype)
    if x.dtype.kind == "f" and data.draw(st.booleans()):
        x[np.random.default_rng(1).random(shape) < 0.1] = data.draw(st.sampled_from([np.nan, np.inf]))
    lazy = cw.from_array(x, chunks=tuple(data.draw(st.integers(1, n)) for n in shape))
    axis = data.draw(st.sampled_from([None, *range(-len(shape), len(shape))]))
    name = data.draw(st.sampled_from(["cumsum", "cumprod", "nancumsum", "nancumprod"]))
    with np.errstate(all="ignore"):
        # Sums and products are taken in wide numbers: those of NumPy in narrow ones overflow before.
        wide = x.astype({"f": "f8", "c": "c16"}.get(x.dtype.kind, x.dtype))
        expected = getattr(np, name)(wide, axis=axis)
        close(getattr(np, name)(lazy, axis=axis), expected.astype(x.dtype) if x.dtype.kind in "fc" else expected)
        if x.dtype.kind != "c" and axis is not None:
            ufunc = data.draw(st.sampled_from([np.minimum, np.maximum, np.add, np.multiply]))
            if ufunc in (np.minimum, np.maximum) or x.dtype.itemsize >= 4:
                expected = ufunc.accumulate(wide, axis=axis).astype(ufunc.accumulate(x, axis=axis).dtype)
                close(ufunc.accumulate(lazy, axis=axis, dtype=expected.dtype), expected)


@pytest.mark.parametrize("shape, chunks, axis", LARGE, ids=str)
def test_axes_of_many_segments(shape: tuple[int, ...], chunks: tuple[int, ...], axis: int) -> None:
    rng = np.random.default_rng(3)
    whole = rng.integers(-1000, 1000, shape)
    lazy = cw.from_array(whole, chunks=chunks)
    np.testing.assert_array_equal(cw.cumsum(lazy, axis).compute(), whole.cumsum(axis))
    np.testing.assert_array_equal(np.maximum.accumulate(lazy, axis).compute(), np.maximum.accumulate(whole, axis))
    x = rng.normal(size=shape)
    x[rng.random(shape) < 0.5] = np.nan
    lazy = cw.from_array(x, chunks=chunks)
    filled, sums, products = cw.compute(cw.ffill(lazy, axis), np.nancumsum(lazy, axis), np.nancumprod(lazy / 100 + 1, axis))
    np.testing.assert_array_equal(filled, pushed(x, axis))
    exact = np.nancumsum(x.astype(np.longdouble), axis).astype("f8")
    assert np.abs(sums - exact).max() <= 4 * np.spacing(np.abs(exact).max())
    np.testing.assert_allclose(products, np.nancumprod(x / 100 + 1, axis), rtol=1e-9, atol=0)
    np.testing.assert_array_equal(cw.bfill(lazy, axis).compute(), np.flip(pushed(np.flip(x, axis), axis), axis))


def pushed(x: np.ndarray[Any, Any], axis: int) -> np.ndarray[Any, Any]:
    """The last element that is not NaN, by positions."""
    n = x.shape[axis]
    place = np.arange(n).reshape([n if a == axis else 1 for a in range(x.ndim)])
    last = np.maximum.accumulate(np.where(np.isnan(x), 0, place), axis)
    return np.take_along_axis(x, last, axis)


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "complex128"])
def test_the_array_api(dtype: str) -> None:
    x = drawn(np.random.default_rng(4), (5, 6), dtype)
    lazy = cw.from_array(x, chunks=(2, 3))
    for axis in (0, 1, -1):
        for name in ("cumulative_sum", "cumulative_prod"):
            close(getattr(cw, name)(lazy, axis=axis), getattr(np, name)(x, axis=axis))
            close(getattr(cw, name)(lazy, axis=axis, include_initial=True), getattr(np, name)(x, axis=axis, include_initial=True))
            close(getattr(np, name)(lazy, axis=axis, include_initial=True), getattr(np, name)(x, axis=axis, include_initial=True))
    close(cw.cumulative_sum(lazy, axis=0, dtype="complex128"), np.cumulative_sum(x, axis=0, dtype="complex128"))
    with pytest.raises(ValueError, match="axis"):
        cw.cumulative_sum(lazy)


def test_scans_of_other_functions() -> None:
    x = np.random.default_rng(5).normal(size=(40, 7))
    lazy = cw.from_array(x, chunks=(9, 3))
    np.testing.assert_allclose(cw.cumreduction(np.cumsum, np.add, 0, lazy, axis=0).compute(), x.cumsum(axis=0))
    np.testing.assert_allclose(cw.cumreduction(np.logaddexp.accumulate, np.logaddexp, -np.inf, lazy, axis=1).compute(), np.logaddexp.accumulate(x, axis=1))
    np.testing.assert_allclose(cw.cumreduction(np.hypot.accumulate, np.hypot, 0, lazy).compute(), np.hypot.accumulate(x.ravel()))


@pytest.mark.parametrize("limit", [None, 1, 3, 100])
def test_fills_of_xarray(limit: int | None) -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(30, 8))
    x[rng.random(x.shape) < 0.6] = np.nan
    whole = xr.DataArray(x, dims=("t", "x"), coords={"t": np.arange(30)}, attrs={"units": "m"})
    lazy = whole.chunk({"t": 7, "x": 3}, chunked_array_type="chunkwise", from_array_kwargs={})
    for dim in ("t", "x"):
        with cw.raise_if_computes():
            forward, backward = lazy.ffill(dim, limit=limit), lazy.bfill(dim, limit=limit)
        xr.testing.assert_identical(forward.compute(), whole.ffill(dim, limit=limit))
        xr.testing.assert_identical(backward.compute(), whole.bfill(dim, limit=limit))


def test_memory_does_not_grow_with_the_axis() -> None:
    """A line may be longer than the budget."""
    long = cw.arange(60_000_000, dtype="float64", chunks=500_000)
    found = cw.compute(cw.max(cw.cumsum(long)), spec=cw.Spec(allowed_mem="200MB"))[0]
    assert found == 60_000_000 * 59_999_999 / 2
