"""Lazy masks as indices, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import chunkwise as cw

DTYPES = ["bool", "int8", "uint16", "int64", "float32", "float64", "complex64"]


@st.composite
def masked(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, cw.Array, cw.Array]:
    """Values, a mask of their first axes, and both as lazy arrays."""
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    dtype = draw(st.sampled_from(DTYPES))
    values = rng.integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    if values.dtype.kind in "fc" and draw(st.booleans()):
        values[tuple(0 for _ in shape)] = np.nan
    mask = rng.random(shape[: draw(st.integers(1, len(shape)))]) > draw(st.sampled_from([-1.0, 0.4, 0.4, 2.0]))
    chunks = [draw(st.integers(1, n)) for n in shape]
    return values, mask, cw.from_array(values, chunks=chunks), cw.from_array(mask, chunks=draw(st.integers(1, 7)))


@settings(max_examples=40, deadline=None)
@given(masked())
def test_the_elements_are_those_of_numpy(case: Any) -> None:
    values, mask, x, m = case
    with cw.raise_if_computes():
        chosen = x[m]
    assert (chosen.dtype, chosen.ndim) == (values.dtype, values[mask].ndim)
    np.testing.assert_array_equal(chosen.compute(), values[mask])
    np.testing.assert_array_equal(np.asarray(chosen), values[mask])
    assert chosen.shape == values[mask].shape and len(chosen) == len(values[mask]) and chosen.size == values[mask].size
    np.testing.assert_array_equal(chosen.astype("c16").compute(), values[mask].astype("c16"))
    if values.dtype != bool:
        with cw.raise_if_computes():
            more = 3 - chosen * 2 + x.astype(x.dtype)[m]
        np.testing.assert_array_equal(more.compute(), 3 - values[mask] * 2 + values[mask])
        np.testing.assert_array_equal(np.square(chosen).compute(), np.square(values[mask]))
        np.testing.assert_array_equal((-chosen == chosen).compute(), -values[mask] == values[mask])


@settings(max_examples=60, deadline=None)
@given(masked(), st.sampled_from(["sum", "prod", "mean", "std", "var", "any", "all", "min", "max"]), st.sampled_from([None, 0]), st.booleans())
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_reductions_are_those_of_numpy(case: Any, name: str, axis: int | None, method: bool) -> None:
    values, mask, x, m = case
    chosen = values[mask]
    if name in ("min", "max") and values.dtype.kind != "f":
        with pytest.raises(NotImplementedError, match="initial="):
            getattr(x[m], name)()
        return
    with cw.raise_if_computes():
        found = getattr(x[m], name)(axis=axis) if method else getattr(np, name)(x[m], axis=axis)
    if name in ("min", "max") and not len(chosen):
        # NumPy raises an error, and it is not known before.
        assert np.isnan(found.compute()).all()
        return
    wanted = getattr(chosen, name)(axis=axis)
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found.compute(), wanted, rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(masked())
def test_assignments_are_those_of_numpy(case: Any) -> None:
    values, mask, x, m = case
    for key in (m, mask):
        if values.dtype != bool:
            a, b = x.copy(), values.copy()
            a[key] *= 2
            b[mask] *= 2
            a[key] = a[key] - 1
            b[mask] = b[mask] - 1
            np.testing.assert_array_equal(a.compute(), b)
        a, b = x.copy(), values.copy()
        other = cw.from_array(values[::-1].copy())
        a[key] = other[key]
        b[mask] = values[::-1][mask]
        np.testing.assert_array_equal(a.compute(), b)
    # A list of values has a length that must be known.
    a, b = x.copy(), values.copy()
    given_values = np.arange(values[mask].size).reshape(values[mask].shape).astype(values.dtype)
    a[mask] = given_values
    b[mask] = given_values
    np.testing.assert_array_equal(a.compute(), b)


def test_what_fits_not_into_memory_is_taken_after_the_mask() -> None:
    values = np.arange(4_000_000.0)
    x = cw.from_array(values, chunks=200_000)
    chosen = x[x % 1_000_000 == 5]
    np.testing.assert_array_equal(chosen.compute(spec=cw.Spec(allowed_mem="120MB")), [5, 1_000_005, 2_000_005, 3_000_005])


def test_what_is_not_known_is_an_error() -> None:
    x = cw.from_array(np.arange(6.0), chunks=2)
    m = x > 2
    with pytest.raises(IndexError, match="does not fit an array of shape"):
        x[cw.from_array(np.ones(5, bool))]
    with pytest.raises(ValueError, match="give the mask a name"):
        x[m] + x[x > 2]
    with pytest.raises(IndexError, match="give it a name"):
        x[x > 2] = x[m]
    with pytest.raises(TypeError, match="takes numbers"):
        x[m] + np.arange(3)
    with pytest.raises(NotImplementedError, match="same mask"):
        x[m] = np.arange(3.0)
    with pytest.raises(ValueError, match="of shape"):
        x[np.asarray(m)] = np.arange(2.0)
    with pytest.raises(TypeError, match="no positions"):
        x[m][0]
    with pytest.raises(TypeError, match="numpy.sort"):
        np.sort(x[m])
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x[m])
    with pytest.raises(TypeError, match="only by itself"):
        cw.from_array(np.ones((2, 2)), chunks=1)[0, cw.from_array(np.ones(2, bool))]


def test_bincount_with_a_length_is_lazy() -> None:
    values = np.array([1, 5, 2, 5])
    x = cw.from_array(values, chunks=2)
    with cw.raise_if_computes():
        found = np.bincount(x, minlength=6)
    np.testing.assert_array_equal(found.compute(), np.bincount(values, minlength=6))
    with pytest.raises(ValueError, match="has found 5"):
        np.bincount(x, minlength=4).compute()
