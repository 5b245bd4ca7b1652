"""Functions that the package makes of several operations, or of NumPy's own, against NumPy."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as cw

drawn = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
DTYPES = ["float64", "float32", "int32", "uint8", "bool"]


def values(draw: st.DrawFn, dtype: str, least: int = 1) -> tuple[np.ndarray[Any, Any], cw.Array]:
    shape = tuple(draw(st.lists(st.integers(least, 9), min_size=1, max_size=3)))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    x = rng.normal(size=shape) * 4 if dtype.startswith("f") else rng.integers(0, 2 if dtype == "bool" else 9, shape)
    x = x.astype(dtype)
    if dtype.startswith("f") and draw(st.booleans()):
        x[rng.random(shape) < 0.2] = np.nan
    return x, cw.from_array(x, chunks=tuple(draw(st.integers(1, n)) for n in shape))


@st.composite
def windowed(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], cw.Array, Any, Any]:
    x, lazy = values(draw, draw(st.sampled_from(DTYPES)))
    axes = draw(st.lists(st.integers(0, x.ndim - 1), min_size=1, max_size=2, unique=True))
    return x, lazy, tuple(draw(st.integers(1, x.shape[a])) for a in axes), tuple(axes)


@drawn
@given(windowed())
def test_windows(case: tuple[np.ndarray[Any, Any], cw.Array, Any, Any]) -> None:
    x, lazy, lengths, axes = case
    expected = np.lib.stride_tricks.sliding_window_view(x, lengths, axes)
    found = np.lib.stride_tricks.sliding_window_view(lazy, lengths, axes)  # type: ignore[call-overload]
    np.testing.assert_array_equal(cw.compute(found)[0], expected)
    over = tuple(range(x.ndim, expected.ndim))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for name in ("sum", "max", "min", "nansum", "nanmax", "nanmin", "mean", "nanmean"):
            if x.dtype == bool and name in ("max", "min", "nanmax", "nanmin"):
                continue
            want, got = getattr(np, name)(expected, axis=over), cw.compute(getattr(np, name)(found, axis=over))[0]
            assert got.dtype == want.dtype, name
            np.testing.assert_allclose(got, want, rtol=3e-6 if x.dtype == np.float32 else 1e-12, atol=1e-5 if x.dtype == np.float32 else 1e-12, err_msg=name)
    # What is done to each element is done before the windows are made.
    np.testing.assert_array_equal(cw.compute((found + found).sum(axis=over))[0].shape, expected.sum(axis=over).shape)
    np.testing.assert_array_equal(cw.compute(cw.sum(found, axis=0))[0].shape, expected.sum(axis=0).shape)


def test_windows_that_do_not_fit() -> None:
    x = cw.asarray(np.arange(12.0).reshape(3, 4))
    view = cw.lib.stride_tricks.sliding_window_view
    for arguments, error in (((x, 4, 0), ValueError), ((x, 0, 0), ValueError), ((x, (2, 2), 0), ValueError), ((x, 2, 5), np.exceptions.AxisError)):
        with pytest.raises(error):
            view(*arguments)


@st.composite
def sloped(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], cw.Array, list[Any], Any, int]:
    order = draw(st.sampled_from([1, 2]))
    x, lazy = values(draw, draw(st.sampled_from(DTYPES[:4])), least=order + 1)
    axes = draw(st.sampled_from([None, *range(x.ndim)]))
    each = range(x.ndim) if axes is None else [axes]
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    kind = draw(st.sampled_from(["none", "one", "each"]))
    spacing: list[Any] = [] if kind == "none" else [0.25]
    if kind == "each":
        spacing = [2.0 if rng.random() < 0.3 else np.cumsum(rng.random(x.shape[a]) + 0.1) if rng.random() < 0.7 else np.arange(x.shape[a]) * 3 for a in each]
    return x, lazy, spacing, axes, order


@drawn
@given(sloped())
def test_gradients(case: tuple[np.ndarray[Any, Any], cw.Array, list[Any], Any, int]) -> None:
    x, lazy, spacing, axis, order = case
    if x.dtype == np.uint8:
        # NumPy's differences of these wrap around.
        x, lazy = x.astype("i4"), lazy.astype("i4")
    expected = np.gradient(x, *spacing, axis=axis, edge_order=order)
    found = np.gradient(lazy, *spacing, axis=axis, edge_order=order)
    for want, got in zip(*((e if isinstance(e, (tuple, list)) else [e]) for e in (expected, found))):
        got = cw.compute(got)[0]
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=2e-5 if want.dtype == np.float32 else 1e-12, atol=2e-4 if want.dtype == np.float32 else 1e-11)


def test_gradients_that_are_refused() -> None:
    x = cw.asarray(np.arange(12.0).reshape(3, 4))
    for arguments, options, error in (
        ((x, [1.0, 2.0]), {"axis": 0}, ValueError),
        ((x, 1.0, 2.0, 3.0), {}, TypeError),
        ((x,), {"edge_order": 3}, ValueError),
        ((x[:2],), {"axis": 0, "edge_order": 2}, ValueError),
        ((x,), {"axis": 2}, np.exceptions.AxisError),
    ):
        with pytest.raises(error):
            cw.gradient(*arguments, **options)


def test_infinite_neighbours_do_not_spread() -> None:
    """Of a uniform spacing, an element has no weight in its own gradient."""
    x = np.array([1.0, np.inf, 3.0, np.nan, 5.0, 6.0, 7.0])
    np.testing.assert_array_equal(cw.gradient(cw.asarray(x)).compute(), np.gradient(x))


ROWS = [
    ("cumsum", {"axis": 0}), ("cumsum", {"axis": -1}), ("cumprod", {"axis": 1}), ("nancumsum", {"axis": 1}), ("nancumprod", {"axis": 0}),
    ("median", {}), ("median", {"axis": 1}), ("nanmedian", {"axis": (0, 2)}), ("nanmedian", {"axis": -1, "keepdims": True}),
    ("quantile", {"q": 0.3, "axis": 0}), ("quantile", {"q": [0.1, 0.5, 1.0], "axis": 1}), ("nanquantile", {"q": [0.2], "axis": (1, 2), "keepdims": True}),
    ("percentile", {"q": 30, "axis": 1, "method": "nearest"}), ("nanpercentile", {"q": [10, 90]}),
]  # fmt: skip


@pytest.mark.parametrize("name, options", ROWS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(ROWS)])
@pytest.mark.parametrize("dtype", ["float64", "float32", "int16"])
def test_rows(name: str, options: dict[str, Any], dtype: str) -> None:
    rng = np.random.default_rng(5)
    x = (rng.normal(size=(6, 7, 5)) * 3).astype(dtype)
    if dtype.startswith("f") and name.startswith("nan"):
        x[rng.random(x.shape) < 0.2] = np.nan
    options = dict(options)
    given = (options.pop("q"),) if "q" in options else ()
    function = getattr(np, name)
    expected = function(x, *given, **options)
    found = cw.compute(function(cw.from_array(x, chunks=(4, 2, 5)), *given, **options))[0]
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-5 if dtype == "float32" else 1e-12)


def test_rows_that_are_refused() -> None:
    x = cw.asarray(np.arange(12.0).reshape(3, 4))
    for call, error in (
        (lambda: np.median(x, axis=5), np.exceptions.AxisError),
        (lambda: np.quantile(x, 0.5, weights=np.ones(4), axis=1, method="inverted_cdf"), NotImplementedError),
        (lambda: np.quantile(x, [[0.5]], axis=1), NotImplementedError),
    ):
        with pytest.raises(error):
            call()
    np.testing.assert_array_equal(cw.cumsum(x, axis=1).compute(), np.arange(12.0).reshape(3, 4).cumsum(axis=1))
    np.testing.assert_array_equal(cw.quantile(x, 0.5).compute(), 5.5)


@pytest.mark.parametrize("decimals", [-2, -1, 0, 1, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_decimals(decimals: int, dtype: str) -> None:
    x = (np.random.default_rng(3).normal(size=200) * 300).astype(dtype)
    lazy = cw.asarray(x)
    np.testing.assert_array_equal(np.round(lazy, decimals).compute(), np.round(x, decimals))
    np.testing.assert_array_equal(lazy.round(decimals).compute(), x.round(decimals))
    whole = cw.asarray(np.arange(0, 50, 5))
    found = whole.round(decimals)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found.compute(), np.arange(0, 50, 5).round(decimals))


def test_fabs_is_a_float() -> None:
    for dtype in ("int16", "int32", "int64", "float32"):
        x = np.arange(-3, 3).astype(dtype)
        found = np.fabs(cw.asarray(x))
        assert found.dtype == np.fabs(x).dtype
        np.testing.assert_array_equal(found.compute(), np.fabs(x))


def test_arrays_with_labels(winds: str) -> None:
    """Neighbours have other labels."""
    u = cw.open(f"{winds}/uwnd")[:6]
    x = u.compute().astype("f8")
    wide = u.astype("float64")
    np.testing.assert_allclose(np.gradient(wide, axis=0).compute(), np.gradient(x, axis=0), atol=1e-12)
    np.testing.assert_allclose(cw.gradient(wide, np.arange(73.0) ** 2, axis=1, edge_order=2).compute(), np.gradient(x, np.arange(73.0) ** 2, axis=1, edge_order=2), atol=1e-12)
    assert np.gradient(wide, axis=0).dims == u.dims
    view, whole = (np.lib.stride_tricks.sliding_window_view(a, 3, axis=0) for a in (wide, x))
    np.testing.assert_allclose(view.mean(axis=-1).compute(), whole.mean(axis=-1))
    np.testing.assert_array_equal(view.compute(), whole)
    np.testing.assert_allclose(np.cumsum(wide, axis=1).compute(), x.cumsum(axis=1))
    np.testing.assert_allclose(np.median(wide, axis=(0, 2)).compute(), np.median(x, axis=(0, 2)))
    np.testing.assert_array_equal(wide.round(1).compute(), x.round(1))


BY_POSITION: dict[str, tuple[Any, ...]] = {
    "std": (0, None, None, 1), "var": (1, "f4", None, 1, True), "sum": (1, None, None, False, 100), "prod": (0, None, None, True),
    "nansum": (0, "f4", None, True), "nanstd": (0, None, None, 1), "max": (0, None, True), "amin": (1, None, False, -100.0), "any": (0, None, True),
    "mean": (0, None, None, True), "median": (0, None, False, True), "nanmedian": (1, None, False, True),
    "quantile": (0.33, 0, None, False, "lower"), "percentile": (33, 1, None, False, "higher", True), "ptp": (0, None, True),
    "roll": (1, 1), "take": ([2, 0], 0), "repeat": (2, 1), "ones_like": ("i1",), "zeros_like": ("f4",), "full_like": (3, "f4"),
    "isin": ([1.0], False, True), "argmax": (1,), "sort": (0, "stable"), "clip": (None, 0.5), "round": (1,), "size": (1,), "broadcast_to": ((2, 4, 6), True),
    "trapezoid": (None, 2.0, 0), "cumsum": (1, "f4"), "average": (1, None, False),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_POSITION)
def test_arguments_by_position(name: str) -> None:
    """Each is where NumPy has it."""
    x = np.random.default_rng(0).normal(size=(4, 6))
    function: Any = getattr(np, name)
    expected = np.asarray(function(x, *BY_POSITION[name]))
    found = np.asarray(function(cw.from_array(x, chunks=(2, 3)), *BY_POSITION[name]))
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_dtypes_of_what_is_joined() -> None:
    x = np.arange(6.0).reshape(2, 3)
    lazy: Any = cw.from_array(x)
    for found, expected in (
        (np.concatenate([lazy, x], 1, dtype="f4"), np.concatenate([x, x], 1, dtype="f4")),
        (np.stack([lazy, x], 1, dtype="i4", casting="unsafe"), np.stack([x, x], 1, dtype="i4", casting="unsafe")),
        (cw.sum(lazy, 0, "f4"), x.sum(0, "f4")),
    ):
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.compute(), expected)
    with pytest.raises(TypeError):
        np.concatenate([lazy, x], dtype="i4")


def test_arguments_of_methods_by_position() -> None:
    x = np.arange(12.0).reshape(3, 4)
    lazy = cw.from_array(x)
    np.testing.assert_array_equal(lazy.std(0, None, None, 1).compute(), x.std(0, None, None, 1))
    assert lazy.prod(-1, "f4").dtype == np.float32
    np.testing.assert_array_equal(lazy.sum(0, None, None, True).compute(), x.sum(0, None, None, True))
    np.testing.assert_array_equal(lazy.sum(where=x > 3, initial=2).compute(), x.sum(where=x > 3, initial=2))
    np.testing.assert_array_equal(np.add.reduce(lazy, axis=1, initial=7).compute(), np.add.reduce(x, axis=1, initial=7))
    np.testing.assert_array_equal(np.fft.fftshift(lazy, 1).compute(), np.fft.fftshift(x, 1))
    np.testing.assert_array_equal(np.sum(a=lazy, axis=0).compute(), x.sum(axis=0))  # type: ignore[call-overload]
    assert cw.zeros((2, 2), "i4").dtype == np.int32
    with pytest.raises(TypeError):
        np.fft.fft(lazy, None, -1, None, np.empty((3, 4), "c16"))


@pytest.mark.parametrize("name", ["sum", "prod", "nansum", "nanprod"])
def test_sums_over_no_axis(name: str) -> None:
    for x in (np.array([1.0, np.nan, 3.0], "f4"), np.array([1, 2], "u1"), np.array([True]), np.array([1, np.nan + 1j])):
        expected = getattr(np, name)(x, axis=())
        found = getattr(np, name)(cw.asarray(x), axis=()).compute()
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


U, F, I = np.array([200, 100], "u1"), np.array([1.5, -2.0]), np.array([3, -1], "i4")
CAST = [
    (np.add, (U, U), {"dtype": "i8"}), (np.add, (U, 100), {"dtype": "i8"}), (np.multiply, (U, U), {"dtype": "u2"}), (np.sqrt, (F,), {"dtype": "c16"}),
    (np.add, (F, 1), {"dtype": "i4"}), (np.add, (F, 1), {"dtype": "i4", "casting": "unsafe"}), (np.divide, (I, 2), {"dtype": "f4"}),
    (np.divide, (I, I), {"dtype": "i4"}), (np.sin, (I,), {"dtype": "f4"}), (np.floor_divide, (U, 3), {"dtype": "i4"}), (np.cbrt, (I,), {"dtype": "f4"}),
    (np.less, (U, 3), {"dtype": "bool"}), (np.negative, (U,), {"dtype": "i4"}), (np.fmax, (I, U), {"dtype": "f4"}), (np.rint, (I,), {}),
    (np.rint, (I.astype("i8"),), {}), (np.reciprocal, (I,), {}), (np.reciprocal, (U,), {}), (np.reciprocal, (F,), {}), (np.mean, (I,), {"dtype": "i4"}),
]  # fmt: skip


@pytest.mark.parametrize("function, operands, options", CAST, ids=[f"{f.__name__}-{k}" for k, (f, _, _) in enumerate(CAST)])
def test_dtypes_of_ufuncs(function: Any, operands: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Operands are cast, not what is computed of them."""
    lazy = (cw.asarray(operands[0]), *operands[1:])
    with np.errstate(all="ignore"):
        try:
            expected = function(*operands, **options)
        except TypeError as refused:
            with pytest.raises(type(refused)):
                function(*lazy, **options)
            return
    found = function(*lazy, **options).compute()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_rules_of_casting() -> None:
    x = cw.asarray(F)
    with pytest.raises(TypeError, match="according to the rule 'safe'"):
        x.astype("i4", casting="safe")
    np.testing.assert_array_equal(x.astype("i4", casting="unsafe").compute(), F.astype("i4"))
    assert x.astype("f4", "K", "same_kind").dtype == np.float32
    with pytest.raises(TypeError):
        x.astype("i4", rule="safe")  # type: ignore[call-arg]


TAKEN: list[tuple[Any, dict[str, Any]]] = [
    (2, {"axis": 0}), ([0, -1, 3], {}), ([[0, 1], [1, 0]], {"axis": 1}), ([5], {"axis": 1, "mode": "wrap"}), ([5, -1], {"axis": -1, "mode": "clip"}), ([], {"axis": 1}),
]  # fmt: skip


@pytest.mark.parametrize("indices, options", TAKEN, ids=str)
def test_take(indices: Any, options: dict[str, Any]) -> None:
    x = np.arange(12.0).reshape(3, 4)
    lazy = cw.from_array(x, chunks=2)
    expected = np.take(x, np.array(indices, int), **options)
    for found in (np.take(lazy, indices, **options), lazy.take(indices, **options)):
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
    assert cw.take(lazy, [1], axis=1).shape == (3, 1)


NO_SUCH_AXIS: list[Any] = [
    lambda x: np.delete(x, 0, 5), lambda x: np.compress([True], x, 5), lambda x: np.diagonal(x, 0, 0, 5), lambda x: np.rollaxis(x, 7),
    lambda x: np.rot90(x, 1, (0, 5)), lambda x: np.trapezoid(x, axis=5), lambda x: np.apply_along_axis(np.sort, 5, x),
    lambda x: np.apply_over_axes(np.sum, x, [0, 5]), lambda x: np.insert(x, 0, 1, 5), lambda x: np.moveaxis(x, 0, 5), lambda x: np.swapaxes(x, 0, -3),
    lambda x: np.expand_dims(x, 7), lambda x: np.flip(x, 5), lambda x: np.roll(x, 1, 5), lambda x: np.take(x, 0, 5), lambda x: np.sum(x, axis=5),
    lambda x: np.mean(x, axis=-3), lambda x: np.concatenate([x, x], 5), lambda x: np.linalg.norm(x, 1, (0, 5)), lambda x: cw.unstack(x, axis=5),
    lambda x: x.rechunk({5: 2}), lambda x: cw.from_array(np.ones((2, 3)), {2: 1}),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(NO_SUCH_AXIS)))
def test_axes_that_there_are_not(case: int) -> None:
    with pytest.raises(np.exceptions.AxisError):
        NO_SUCH_AXIS[case](cw.asarray(np.arange(12.0).reshape(3, 4)))


def test_axes_that_are_refused() -> None:
    x = cw.asarray(np.arange(12.0).reshape(3, 4))
    for call in (
        lambda: np.expand_dims(x, (0, 0)),
        lambda: np.flip(x, (0, 0)),
        lambda: np.diff(x, -1),
        lambda: np.diagonal(x, 0, 1, 1),
        lambda: np.moveaxis(x, (0, 0), (0, 1)),
    ):
        with pytest.raises(ValueError):
            call()
    assert cw.from_array(np.ones((2, 3)), {-1: 2}).chunks == ((2,), (2, 1))


def test_masks_after_an_ellipsis() -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    lazy = cw.from_array(x, chunks=2)
    rows, columns = np.array([True, False, True]), [True, False, False, True]
    for key in ((..., columns), (..., rows, slice(None)), (0, ..., np.outer(rows, columns)), (..., rows, 1, None)):
        np.testing.assert_array_equal(lazy[key].compute(), x[key])
    for wrong in ((..., rows), (0, ..., [True, False]), (..., columns, slice(None))):
        with pytest.raises(IndexError):
            lazy[wrong]
        with pytest.raises(IndexError):
            lazy[wrong] = 1


N, E = np.array([1, 5, 3]), np.eye(2)
BESIDE: list[Any] = [
    lambda x, e: x == [1, 2, 3], lambda x, e: x != (1, 2, 3), lambda x, e: x == None, lambda x, e: x != None, lambda x, e: x + [1, 2, 3],  # noqa: E711
    lambda x, e: [1.5, 2, 3] - x, lambda x, e: x * (1, 2, 3), lambda x, e: x < [1, 2, 3], lambda x, e: [1, 2, 3] < x, lambda x, e: x == [[1], [2]],
    lambda x, e: x ** [1, 2, 3], lambda x, e: np.equal(x, [1, 2, 3]), lambda x, e: np.add([1, 2, 3], x), lambda x, e: e @ [1, 2], lambda x, e: [1, 2] @ e,
    lambda x, e: divmod(x, 2)[1], lambda x, e: divmod(7, x)[0], lambda x, e: divmod(x, [1, 2, 3])[0], lambda x, e: np.where([True, False, True], x, [7, 8, 9]),
    lambda x, e: np.outer(e, x), lambda x, e: np.outer(x, [1, 2]), lambda x, e: np.outer([[1, 2], [3, 4]], x), lambda x, e: np.diff(x, prepend=0),
    lambda x, e: np.diff(x, append=[1, 2]), lambda x, e: np.diff(e, prepend=0, axis=0), lambda x, e: np.diff(x, prepend=0.5),
    lambda x, e: np.meshgrid(x, [1, 2], indexing="ij")[1], lambda x, e: np.meshgrid(x, [1, 2])[0], lambda x, e: np.meshgrid(x, [1, 2], sparse=True)[0],
    lambda x, e: np.isposinf(x / 0), lambda x, e: np.isneginf(-x / 0), lambda x, e: x.clip(max=2), lambda x, e: x.clip(2), lambda x, e: x.repeat(2, 0),
    lambda x, e: (x % 2).choose([x, -x]),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(BESIDE)))
def test_lists_beside_arrays(case: int) -> None:
    """NumPy makes arrays of them, and so do operators and functions here."""
    with np.errstate(all="ignore"):
        expected = BESIDE[case](N, E)
    found = BESIDE[case](cw.from_array(N, 2), cw.from_array(E))
    assert isinstance(found, cw.Array) and (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found.compute(), expected)


def test_lists_that_do_not_fit() -> None:
    with pytest.raises(ValueError):
        cw.asarray(N) == [1, 2]  # noqa: B015
    assert float(round(cw.asarray(np.array(1.567)), 1)) == 1.6


def test_lists_of_lazy_arrays() -> None:
    """They are stacked, and nothing is computed."""
    x = np.arange(6.0).reshape(2, 3)
    lazy = cw.from_array(x)
    with cw.raise_if_computes():
        stacked, nested, mixed = cw.asarray([lazy[1], lazy[0]]), cw.asarray([[lazy[0, 0], 7], [8, lazy[1, 2]]], dtype="f4"), lazy[0] + [lazy[1, 0], 1, 2]
    np.testing.assert_array_equal(stacked.compute(), x[[1, 0]])
    np.testing.assert_array_equal(nested.compute(), np.array([[0, 7], [8, 5]], "f4"))
    np.testing.assert_array_equal(mixed.compute(), x[0] + [3, 1, 2])


def test_methods_of_dask(tmp_path: Any) -> None:
    import dask.array as da

    x = np.random.default_rng(1).normal(size=(6, 7))
    lazy, wanted = cw.from_array(x, (4, 3)), da.from_array(x, (4, 3))
    for call in (
        lambda a: a.topk(2, 0),
        lambda a: a.argtopk(-3, 1),
        lambda a: a.moment(3, 0),
        lambda a: a.moment(2, ddof=1),
        lambda a: a.moment(4, axis=(0, 1), keepdims=True, dtype="f4"),
        lambda a: a.partitions[1],
    ):
        found, expected = call(lazy).compute(), call(wanted).compute()
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    assert lazy.rechunk().chunks == ((6,), (7,))
    target = zarr.create_array(tmp_path / "x.zarr", shape=x.shape, dtype=x.dtype, chunks=(4, 3))
    lazy.store(target)
    np.testing.assert_array_equal(target[...], x)


def test_masks_are_not_lost() -> None:
    masked, lazy = np.ma.masked_array([1.0, 2.0, 3.0], [False, True, False]), cw.asarray(np.ones(3))
    for call in (
        lambda: cw.from_array(masked),
        lambda: cw.asarray(masked),
        lambda: lazy + masked,
        lambda: np.fmax(lazy, masked),
        lambda: np.fmod(lazy, masked),
        lambda: cw.where(lazy > 0, masked, 0),
        lambda: cw.isin(lazy, masked),
        lambda: lazy.__setitem__(slice(None), masked),
    ):
        with pytest.raises(TypeError, match="filled"):
            call()
    np.testing.assert_array_equal((lazy + masked.filled(0)).compute(), [2, 1, 4])
    np.testing.assert_array_equal((lazy + np.ma.masked_array([1.0, 2.0, 3.0])).compute(), [2, 3, 4])


def test_assignment_to_windows() -> None:
    x = np.arange(6.0)
    found, expected = cw.lib.stride_tricks.sliding_window_view(cw.asarray(x), 3), np.lib.stride_tricks.sliding_window_view(x, 3).copy()
    found[0] = expected[0] = 100
    np.testing.assert_array_equal(found.sum(-1).compute(), expected.sum(-1))
    np.testing.assert_array_equal((found + 1).max(-1).compute(), (expected + 1).max(-1))


def test_functions_that_make_arrays() -> None:
    for found, expected in (
        (cw.array([[1, 2], [3, 4]], "f4", ndmin=3), np.array([[1, 2], [3, 4]], "f4", ndmin=3)),
        (cw.asanyarray([1, 2], "u1"), np.asanyarray([1, 2], "u1")),
        (cw.indices((3, 2)), np.indices((3, 2))),
        (cw.indices((4, 3), dtype="f4", chunks=2), np.indices((4, 3), dtype="f4")),
        (cw.fromfunction(lambda i, j: i * 10 + j, (3, 4)), np.fromfunction(lambda i, j: i * 10 + j, (3, 4))),
        (cw.fromfunction(lambda i, j, by: i * by + j, (5, 4), dtype=int, chunks=2, by=3), np.fromfunction(lambda i, j, by: i * by + j, (5, 4), dtype=int, by=3)),
        (cw.tri(3), np.tri(3)),
        (cw.tri(3, 5, -1, "i4"), np.tri(3, 5, -1, "i4")),
        (cw.isnull([1.0, np.nan]), np.isnan([1.0, np.nan])),
        (cw.isnull([1, 2]), np.array([False, False])),
        (cw.eye(3, M=4, k=1), np.eye(3, M=4, k=1)),
        (cw.linspace(1, 2, 5, endpoint=False, retstep=True)[0], np.linspace(1, 2, 5, endpoint=False)),
    ):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(found.compute(), expected)
    assert cw.linspace(1, 2, 5, retstep=True)[1] == 0.25
