"""The array object and the functions of NumPy, against NumPy."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from hypothesis.extra import numpy as hnp

import chunkwise as cw

SETTINGS = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128"]


def same(got: Any, wanted: Any, rtol: float = 1e-6) -> None:
    wanted = np.asarray(wanted)
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    values = got.compute()
    assert values.dtype == wanted.dtype
    if wanted.dtype.kind in "fc":
        np.testing.assert_allclose(values, wanted, rtol=rtol, atol=1e-6)
    else:
        np.testing.assert_array_equal(values, wanted)


def numbers(dtype: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if dtype.startswith("complex"):
        return (rng.random(shape) + 1j * rng.random(shape)).astype(dtype)
    return (rng.random(shape) * 9).astype(dtype) + np.dtype(dtype).type(1)


@st.composite
def arrays(draw: Any) -> tuple[np.ndarray, cw.Array]:
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(hnp.array_shapes(min_dims=0, max_dims=3, max_side=7))
    chunks = tuple(draw(st.integers(1, n)) for n in shape)
    x = numbers(dtype, shape, draw(st.integers(0, 9)))
    return x, cw.from_array(x, chunks=chunks)


@given(arrays())
@SETTINGS
def test_values_come_back_as_they_were(pair: Any) -> None:
    x, a = pair
    same(a, x)
    assert (a.ndim, a.size, a.nbytes) == (x.ndim, x.size, x.nbytes)
    assert tuple(sum(c) for c in a.chunks) == x.shape
    assert a.numblocks == tuple(len(c) for c in a.chunks)
    if x.size:
        assert a.npartitions == np.prod([len(c) for c in a.chunks])
    same(a.T, x.T)


@given(arrays(), st.data())
@SETTINGS
def test_indices_are_those_of_numpy(pair: Any, data: Any) -> None:
    x, a = pair
    key = data.draw(hnp.basic_indices(x.shape, allow_newaxis=True, allow_ellipsis=True))
    same(a[key], x[key])


@pytest.mark.parametrize("op", ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "lt", "le", "eq", "ne", "ge", "gt"])
@pytest.mark.parametrize("dtype", ["int16", "uint8", "int64", "float32", "float64"])
def test_operators(op: str, dtype: str) -> None:
    f = getattr(operator, op)
    x, y = numbers(dtype, (4, 5)), numbers(dtype, (5,), 1)
    a, b = cw.from_array(x, chunks=(2, 3)), cw.from_array(y)
    same(f(a, b), f(x, y))
    same(f(a, 2), f(x, 2))
    same(f(2, a), f(2, x))
    same(f(x, b), f(x, y))
    same(f(a, np.float32(1.5)), f(x, np.float32(1.5)))


@pytest.mark.parametrize("op", ["and_", "or_", "xor", "lshift", "rshift"])
def test_operators_of_bits(op: str) -> None:
    f = getattr(operator, op)
    x = np.arange(12, dtype="int32").reshape(3, 4)
    same(f(cw.from_array(x), 2), f(x, 2))


def test_matmul_neg_abs_invert_and_in_place() -> None:
    x = numbers("float64", (4, 6)) - 5
    a = cw.from_array(x, chunks=(2, 3))
    same(a @ a.mT, x @ x.T)
    same(-a, -x)
    same(abs(a), abs(x))
    same(~cw.from_array(x > 0), ~(x > 0))
    b = a
    b += 1
    same(b, x + 1)
    same(a, x)


def test_a_list_of_integers_and_a_mask_are_indices() -> None:
    x = np.arange(24).reshape(4, 6)
    a = cw.from_array(x, chunks=(2, 2))
    same(a[[3, 0]], x[[3, 0]])
    same(a[:, np.array([5, -1, 0])], x[:, np.array([5, -1, 0])])
    same(a[np.array([True, False, True, False])], x[[0, 2]])
    with pytest.raises(IndexError):
        a[4]
    with pytest.raises(IndexError):
        a[0, 0, 0]
    same(a[a > 3] * 1, x[x > 3])
    with pytest.raises(TypeError, match="lazy"):
        a[0, (a > 3)[0]]


def test_numbers_of_python() -> None:
    a = cw.asarray(np.array([3]))
    assert int(a) == 3 and float(a) == 3.0 and bool(a)
    assert len(a) == 1 and [int(v) for v in a] == [3]
    assert int(cw.asarray(2)) == 2 and range(5)[cw.asarray(2)] == 2
    with pytest.raises(ValueError, match="not defined"):
        bool(cw.asarray([1, 2]))


REDUCTIONS = ["sum", "prod", "mean", "std", "var", "min", "max", "any", "all", "argmin", "argmax"]


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "float64"])
def test_reductions_through_numpy(name: str, dtype: str) -> None:
    if dtype == "bool" and name in ("std", "var", "mean", "min", "max", "argmin", "argmax"):
        pytest.skip("not of truth values")
    x = numbers(dtype, (5, 4, 3))
    a = cw.from_array(x, chunks=(2, 3, 3))
    f = getattr(np, name)
    for options in [{}, {"axis": 1}, {"axis": -1, "keepdims": True}]:
        same(f(a, **options), f(x, **options), 1e-5)
    if not name.startswith("arg"):
        same(f(a, axis=(0, 2)), f(x, axis=(0, 2)), 1e-5)


@pytest.mark.parametrize("name", ["nansum", "nanmean", "nanmax", "nanmin", "nanstd", "nanvar", "nanprod"])
def test_reductions_without_nan(name: str) -> None:
    x = numbers("float64", (5, 4))
    x[1, 2] = x[3, 0] = np.nan
    f = getattr(np, name)
    same(f(cw.from_array(x, chunks=(2, 2)), axis=0), f(x, axis=0))


@pytest.mark.parametrize("name", ["sqrt", "exp", "log", "sin", "arctan", "floor", "rint", "square", "isnan", "sign", "log1p", "tanh"])
def test_functions_of_numpy(name: str) -> None:
    x = numbers("float64", (3, 4))
    f = getattr(np, name)
    same(f(cw.from_array(x, chunks=(2, 3))), f(x))


def test_functions_that_join_and_shape() -> None:
    x = numbers("float32", (3, 4))
    a = cw.from_array(x, chunks=(2, 3))
    same(np.concatenate([a, a], axis=1), np.concatenate([x, x], axis=1))
    same(np.stack([a, a]), np.stack([x, x]))
    same(np.where(a > 3, a, 0), np.where(x > 3, x, np.float32(0)))
    same(np.transpose(a), x.T)
    same(np.moveaxis(a, 0, 1), np.moveaxis(x, 0, 1))
    same(np.reshape(a, (2, 6)), x.reshape(2, 6))
    same(np.clip(a, 2, 5), np.clip(x, 2, 5))
    same(np.roll(a, 1, axis=0), np.roll(x, 1, axis=0))
    same(np.diff(a, axis=1), np.diff(x, axis=1))
    same(cw.expand_dims(a, axis=0).squeeze(), x)
    same(np.zeros_like(a), np.zeros_like(x))


def test_what_numpy_would_load_is_refused() -> None:
    a = cw.from_array(np.arange(6.0))
    for call in [lambda: np.unique(a), lambda: np.nonzero(a), lambda: np.linalg.eig(a), lambda: np.argwhere(a)]:
        with pytest.raises(TypeError, match="compute"):
            call()


def test_nothing_computes_by_itself() -> None:
    a = cw.from_array(np.arange(6.0), chunks=2)
    with cw.raise_if_computes():
        b = np.sqrt(a * 2 + 1).mean() if hasattr(a, "mean") else np.mean(np.sqrt(a * 2 + 1))
        repr(b), b._repr_html_(), b.chunks, b.dtype
        with pytest.raises(cw.ComputeError):
            b.compute()
        with pytest.raises(cw.ComputeError):
            float(b)


def test_chunks_and_html() -> None:
    a = cw.from_array(np.zeros((10, 6)), chunks=(4, 3))
    assert a.chunks == ((4, 4, 2), (3, 3))
    assert (a.chunksize, a.numblocks, a.npartitions) == ((4, 3), (3, 2), 6)
    assert a.rechunk((5, -1)).chunks == ((5, 5), (6,))
    assert a.rechunk({1: 2}).chunks == ((4, 4, 2), (2, 2, 2))
    assert a.rechunk(((3, 7), 6)).chunks == ((3, 7), (6,))
    html = a._repr_html_()
    assert "<svg" in html and html.count("<line") == 4 + 3 and "(10, 6)" in html
    with pytest.raises(ValueError, match="add up"):
        a.rechunk(((3, 3), 6))
    same(a.rechunk((3, 2)) + 1, np.ones((10, 6)))


def test_the_namespace_of_the_array_api() -> None:
    a = cw.asarray([[1.0, 2.0], [3.0, 4.0]])
    xp = a.__array_namespace__()
    assert xp is cw
    same(xp.sum(a, axis=0), [4.0, 6.0])
    same(xp.sum(xp.asarray([1, 2], dtype=xp.int8), dtype=xp.int64), np.int64(3))
    same(xp.permute_dims(a, (1, 0)), [[1.0, 3.0], [2.0, 4.0]])
    same(xp.matmul(a, a), np.array([[7.0, 10.0], [15.0, 22.0]]))
    same(xp.linspace(0, 1, 5), np.linspace(0, 1, 5))
    same(xp.arange(1, 7, 2), np.arange(1, 7, 2))
    same(xp.zeros((2, 3), dtype=xp.float32), np.zeros((2, 3), "float32"))
    same(xp.concat([a, a], axis=None), np.concatenate([[1.0, 2.0, 3.0, 4.0]] * 2))
    same(xp.meshgrid(xp.arange(2), xp.arange(3))[1], np.meshgrid(np.arange(2), np.arange(3))[1])
    assert xp.isdtype(a.dtype, "real floating") and xp.result_type(a, xp.int8) == xp.float64
    assert xp.__array_namespace_info__().dtypes(kind="bool") == {"bool": np.dtype(bool)}


def test_dtypes_are_written_as_in_numpy() -> None:
    x = cw.asarray(np.arange(3.0))
    for dtype in ("f4", "<f4", np.float32, np.dtype("f4"), "float32", "single"):
        assert x.astype(dtype).dtype == cw.astype(x, dtype).dtype == cw.ones((2,), dtype=dtype).dtype == np.float32
    with pytest.raises(TypeError, match="datetime64"):
        x.astype("M8[ns]")


@pytest.mark.parametrize(("shape", "other"), [((24, 1, 7), (24, 7)), ((24, 7), (24, 1, 7)), ((1, 24, 7, 1), (24, 1, 1, 7)), ((1, 1), ()), ((1, 24), (24, 1))])
def test_axes_of_length_one_come_and_go_with_the_chunks_as_they_are(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    x = cw.from_array(values, chunks=tuple(min(n, 5) for n in shape))
    found = x.reshape(other)
    assert [c for c in found.chunks if c != (1,)] == [c for c in x.chunks if c != (1,)]
    np.testing.assert_array_equal(found.compute(), values.reshape(other))
