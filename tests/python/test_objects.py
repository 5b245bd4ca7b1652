"""What the engine has no dtype for: texts and dates that a lazy condition chooses, and truths with NaN among them. xarray on NumPy gives the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import chunkwise as cw

TEXTS = xr.DataArray(list("abcdefgh"), dims="t")
DAYS = xr.DataArray(pd.date_range("2000-01-01", periods=8), dims="t")
CHOICES: dict[str, Callable[[xr.DataArray], Any]] = {
    "texts": lambda m: xr.where(m, "hi", "lo"),
    "dates": lambda m: xr.where(m, np.datetime64("2000-01-01", "ns"), np.datetime64("NaT", "ns")),
    "spans of time": lambda m: xr.where(m, np.timedelta64(1, "ns"), np.timedelta64(3, "ns")),
    "an array of texts": lambda m: xr.where(m, TEXTS, "lo"),
    "an array of texts that is broadcast": lambda m: xr.where(m, xr.DataArray(["a", "b"], dims="q"), "x"),
    "texts where": lambda m: TEXTS.where(m, "zz"),
    "texts or nothing": lambda m: TEXTS.where(m),
    "dates or nothing": lambda m: DAYS.where(m),
    "a number or a text": lambda m: xr.where(m, m * 2.5, "lo"),
    "a truth or a text": lambda m: xr.where(m, m, "lo"),
}
#: Of truths, and what is an array of objects in between.
MASKS: dict[str, Callable[[xr.DataArray], Any]] = {
    "shift": lambda m: m.shift(t=1),
    "pad": lambda m: m.pad(t=1),
    "pad with NaN for some": lambda m: m.pad(t=(0, 3)),
    "windows": lambda m: m.rolling(t=2).construct("w"),
    "mean of windows": lambda m: m.rolling(t=2).construct("w").mean("w"),
    "windows with a stride": lambda m: m.rolling(t=2, center=True).construct("w", stride=2),
    "coarsen": lambda m: m.coarsen(t=3, boundary="pad").max(),
    "mean of coarsen": lambda m: m.coarsen(t=3, boundary="pad").mean(),
    "changes": lambda m: m != m.shift(t=1),
    "changes, reflected": lambda m: m.shift(t=1) == m,
    "sum": lambda m: m.shift(t=1) + m,
    "concat": lambda m: xr.concat([m.shift(t=1), m], "t"),
    "concat with texts": lambda m: xr.concat([m, TEXTS], "t"),
}
LAZY: dict[str, Callable[[xr.DataArray], Any]] = {
    "shift": lambda m: m.shift(t=1, fill_value=False),
    "pad": lambda m: m.pad(t=1, constant_values=True),
    "pad with the edge": lambda m: m.pad(t=1, mode="edge"),
    "pad with a number": lambda m: m.pad(t=1, constant_values=5),
    "pad with two numbers": lambda m: m.pad(t=1, constant_values=(0, 7)),
    "windows": lambda m: m.rolling(t=2).construct("w", fill_value=False),
    "mean": lambda m: m.rolling(t=2).mean(),
    "where": lambda m: m.where(m, False),
    "conj": lambda m: m.conj(),
}


@pytest.fixture
def mask() -> xr.DataArray:
    return xr.DataArray(np.array([1, 0, 1, 1, 0, 1, 1, 1], bool), dims="t", name="m")


def same(found: Any, expected: Any) -> None:
    xr.testing.assert_identical(found, expected)
    assert found.dtype == expected.dtype
    if expected.dtype == object:
        assert [type(v) for v in found.values.flat] == [type(v) for v in expected.values.flat]


@pytest.mark.parametrize("of", [CHOICES, MASKS], ids=["choices", "masks"])
def test_values_are_computed_at_once(of: dict[str, Callable[[xr.DataArray], Any]], mask: xr.DataArray) -> None:
    for name, function in of.items():
        lazy = mask.chunk(t=3)
        found = function(lazy)
        assert isinstance(found.data, np.ndarray), name
        same(found, function(mask))
        with pytest.raises(cw.ComputeError), cw.raise_if_computes():
            function(lazy)


@pytest.mark.parametrize("name", LAZY)
def test_truths_stay_lazy_with_truths_around_them(name: str, mask: xr.DataArray) -> None:
    with cw.raise_if_computes():
        found = LAZY[name](mask.chunk(t=3))
    assert isinstance(found.data, cw.Array)
    same(found.compute(), LAZY[name](mask))


def test_rolling_any(mask: xr.DataArray) -> None:
    same(mask.chunk(t=3).rolling(t=2).reduce(np.any).compute(), mask.rolling(t=2).reduce(np.any))


def test_one_mask_in_a_data_set(mask: xr.DataArray) -> None:
    whole = xr.Dataset({"m": mask, "f": mask * 1.5, "name": TEXTS})
    lazy = whole.chunk(t=3)
    for function in (lambda d: d.shift(t=1), lambda d: d.pad(t=2), lambda d: d.where(d.f > 1), lambda d: d[["m", "f"]].coarsen(t=3, boundary="pad").max()):
        found = function(lazy)
        assert isinstance(found.f.data, cw.Array)
        xr.testing.assert_identical(found.compute(), function(whole))


def test_numpy_itself_chooses_texts(mask: xr.DataArray) -> None:
    np.testing.assert_array_equal(np.where(mask.chunk(t=3).data, "hi", "lo"), np.where(mask, "hi", "lo"))


def test_a_mask_beyond_the_memory() -> None:
    mask = xr.DataArray(cw.zeros(100_000_000, dtype="bool"), dims="t")
    with cw.config(allowed_mem="60MB"), pytest.raises(cw.MemoryLimitError):
        mask.shift(t=1)


def test_errors_say_what_helps(mask: xr.DataArray) -> None:
    lazy = mask.chunk(t=3)
    with pytest.raises(TypeError, match=r"astype: .* no arrays of objects\. astype\(\) .* fill_value= .* compute\(\)"):
        (lazy * 1.5).astype(object)
    with pytest.raises(TypeError, match=r"named: .* neither texts nor dates\. .* compute\(\)"):

        def named(x: Any) -> Any:
            return np.where(x, "hi", "lo")

        xr.apply_ufunc(named, lazy, dask="parallelized", output_dtypes=["U2"])


def test_conjugates_of_truths(mask: xr.DataArray) -> None:
    """NumPy's method leaves them as they are, and its ufunc makes whole numbers."""
    x = cw.from_array(mask.values)
    for found, expected in ((x.conj(), mask.values.conj()), (x.conjugate(), mask.values.conjugate()), (np.conjugate(x), np.conjugate(mask.values))):
        np.testing.assert_array_equal(found.compute(), expected)
        assert found.dtype == expected.dtype
