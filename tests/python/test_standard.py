"""What the suite of the Array API found: arguments, dtypes and indices as the standard has them."""

from __future__ import annotations

import inspect
import os
from typing import Any

import numpy as np
import pytest
import xarray as xr

import chunkwise as cw
from test_array import same


def pair(*shape: int, dtype: str = "int64", chunks: int = 2) -> tuple[np.ndarray, cw.Array]:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    return x, cw.from_array(x, chunks=tuple(min(chunks, n) for n in shape))


def test_arrays_of_positions_are_indices_as_for_numpy() -> None:
    x, a = pair(4, 5, 3)
    i, j = np.array([3, 0, -1]), np.array([[0], [3]])
    keys = [(i, i), (j, i), (i, slice(None), 1), (1, slice(None), i - 1), (i[:, None], np.array([1, 2])), (i, slice(1, 3), np.array([0, 1, 2]))]
    keys += [(j,), (slice(None), j, None), (..., np.array([[2, 0]])), (np.array([], dtype=int), 1), (None, i, 2), (i[:1], np.array([0, 1]))]
    for key in keys:
        same(a[key], x[key])
    same(a[cw.asarray([1, 0])], x[[1, 0]])
    same(a[cw.asarray([[1, 0]]), cw.asarray(2)], x[[[1, 0]], 2])
    same(a[x > 7], x[x > 7])
    same(a[:, x[0] > 7], x[:, x[0] > 7])
    for key in [(i, np.array([5])), (np.array([4]),), (i, i, i, i), np.array([True, False])]:
        with pytest.raises(IndexError):
            a[key]
    with cw.raise_if_computes(), pytest.raises(cw.ComputeError):
        a[cw.asarray([1, 0])]


def drawn_index(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[object, ...]:
    """An index of a random kind for each axis; some do not fit."""
    out: list[object] = []
    left = list(shape)
    while left and rng.random() < 0.9:
        n, kind = left[0], rng.integers(8)
        if kind == 0:
            out.append(int(rng.integers(-n - 1, n + 1)))
        elif kind == 1:
            ends = [None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3)) for _ in range(2)]
            out.append(slice(*ends, [None, -3, -1, 2][rng.integers(4)]))
        elif kind == 2:
            out.append(None)
            continue
        elif kind == 3:
            return (*out, ..., *[[0, slice(None, None, -1)][rng.integers(2)] for _ in range(rng.integers(len(left) + 1))])
        elif kind == 4:
            out.append(rng.integers(-n, n, tuple(rng.integers(1, 4, rng.integers(3)))) if n else np.zeros(0, int))
        elif kind == 5:
            out.append(rng.random(n) < 0.5)
        elif kind == 6 and len(left) > 1:
            out.append(rng.random(left[:2]) < 0.4)
            left.pop(0)
        else:
            out.append([int(i) for i in rng.integers(-n, max(n, 1), rng.integers(4))] if n else [])
        left.pop(0)
    return tuple(out)


def test_indices_that_are_drawn() -> None:
    # CHUNKWISE_SEED says where they begin.
    first = int(os.environ.get("CHUNKWISE_SEED", "0"))
    for seed in range(first, first + 600):
        rng = np.random.default_rng(seed)
        shape = tuple(int(n) for n in rng.integers(int(rng.random() > 0.1), 6, rng.integers(1, 5)))
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
        a = cw.from_array(x, chunks=tuple(int(rng.integers(1, max(n, 1) + 1)) for n in shape))
        key = drawn_index(rng, shape)
        try:
            wanted = x[key]
        except IndexError:
            with pytest.raises(IndexError):
                a[key]
            continue
        got = a[key]
        assert got.shape == wanted.shape, (seed, shape, key)
        np.testing.assert_array_equal(got.compute(), wanted, err_msg=f"{seed} {shape} {key}")


def test_an_ellipsis_is_between_positions_even_if_it_stands_for_no_axis() -> None:
    x, a = pair(3, 2, 4)
    key = (None, [2, 0, 1], [1], ..., 0)
    same(a[key], x[key])


def test_signatures_are_those_of_the_standard() -> None:
    def names(f: object) -> list[str]:
        return list(inspect.signature(f).parameters)  # type: ignore[arg-type]

    assert names(cw.add) == ["x", "y"]
    assert names(cw.clip)[:3] == ["x", "min", "max"]
    assert names(cw.permute_dims) == ["x", "axes"]
    assert {"axis", "keepdims"} <= set(names(cw.argmax))


def test_made_arrays() -> None:
    same(cw.arange(5), np.arange(5))
    same(cw.arange(5, dtype=cw.float32), np.arange(5, dtype="float32"))
    same(cw.arange(1, step=2, stop=8), np.arange(1, 8, 2))
    same(cw.linspace(0, 1, num=3, dtype=cw.float32), np.linspace(0, 1, 3, dtype="float32"))
    same(cw.linspace(-2, 2, 7, dtype=cw.int64), np.linspace(-2, 2, 7, dtype="int64"))
    same(cw.eye(3, 4, k=-(2**80)), np.zeros((3, 4)))
    same(cw.eye(3, k=1, dtype=cw.int8), np.eye(3, k=1, dtype="int8"))
    x, a = pair(2, 3, 4)
    for k in [-9, -1, 0, 2, 9]:
        same(cw.tril(a, k=k), np.tril(x, k))
        same(cw.triu(a, k=k), np.triu(x, k))
    same(cw.from_dlpack(x), x)
    assert cw.from_dlpack(a) is a and a.__dlpack_device__() == (1, 0) and a.to_device("cpu") is a
    np.testing.assert_array_equal(np.from_dlpack(a), x)


def test_devices() -> None:
    _, a = pair(2, 3)
    made: list[Any] = [cw.asarray, cw.zeros_like, cw.ones_like, cw.empty_like, cw.zeros, cw.ones, cw.empty, cw.arange, cw.eye, cw.from_dlpack]
    for function in made:
        given = a if function in made[:4] or function is cw.from_dlpack else 3
        assert function(given, device="cpu").dtype is not None
        with pytest.raises(ValueError, match="no device 'gpu'"):
            function(given, device="gpu")
    with pytest.raises(ValueError, match="no device 'gpu'"):
        cw.full(3, 1, device="gpu")
    with pytest.raises(ValueError, match="no device 'gpu'"):
        cw.linspace(0, 1, 3, device="gpu")
    with pytest.raises(ValueError, match="no device 'gpu'"):
        cw.astype(a, cw.float32, device="gpu")


def test_arguments_of_functions_that_move_elements() -> None:
    x, a = pair(2, 3)
    same(cw.roll(a, 4), np.roll(x, 4))
    same(cw.roll(a, (2**70, 1), axis=(0, 1)), np.roll(x, (0, 1), axis=(0, 1)))
    same(cw.roll(cw.asarray(1), 3), np.asarray(1))
    same(cw.tile(a, (2,)), np.tile(x, 2))
    same(cw.tile(a, (2, 1, 2)), np.tile(x, (2, 1, 2)))
    same(cw.repeat(a, cw.asarray([2, 0]), axis=0), np.repeat(x, [2, 0], axis=0))
    same(cw.repeat(a, cw.asarray([3])), np.repeat(x, 3))
    for whole in [cw.repeat, cw.take]:
        with pytest.raises((TypeError, ValueError), match="integer"):
            whole(a, 2.5, axis=0)
        with pytest.raises((TypeError, ValueError), match="integer"):
            whole(a, np.array([0.5, 1.5]), axis=0)
    same(cw.take(a, cw.asarray([2, 0]), axis=1), x[:, [2, 0]])
    same(cw.clip(a, min=1, max=4), np.clip(x, 1, 4))
    same(cw.diff(a, axis=0, prepend=a, append=a), np.diff(np.concatenate([x, x, x]), axis=0))
    same(cw.diff(a, append=np.array([[9], [9]])), np.diff(x, append=9))
    assert isinstance(cw.meshgrid(cw.arange(2)), tuple) and isinstance(cw.broadcast_arrays(a, a), tuple)


def test_isin() -> None:
    x, a = pair(4, 5)
    same(cw.isin(a, cw.asarray([[3, 7], [50, 0]])), np.isin(x, [3, 7, 50, 0]))
    same(cw.isin(a, 3, invert=True), np.isin(x, 3, invert=True))
    same(cw.isin(3, a), np.isin(3, x))


def test_a_reduction_has_the_dtype_that_is_asked_for() -> None:
    x, a = pair(3, 4, dtype="int8")
    same(cw.sum(a, dtype=cw.int8), np.sum(x, dtype="int8"))
    same(cw.prod(a, axis=0, dtype=cw.int16), np.prod(x, axis=0, dtype="int16"))
    same(cw.sum(a, dtype=cw.complex64), np.sum(x, dtype="complex64"))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_limits_of_floats_are_numbers_of_python(dtype: str) -> None:
    info = cw.finfo(cw.asarray(1, dtype=dtype))
    assert type(info.eps) is float and info.eps == np.finfo(dtype).eps and type(info.bits) is int
    assert info.dtype == np.finfo(dtype).dtype
    assert cw.iinfo(cw.asarray(1, dtype="uint8")).max == 255


def test_dask_does_not_take_over_arrays() -> None:
    # It asks for this before it wraps an array, of which it would compute each chunk in a run of its own.
    pytest.importorskip("dask")
    _, a = pair(2, 3)
    lazy = xr.DataArray(a, dims=["y", "x"])
    with xr.set_options(chunk_manager="dask"), pytest.raises(TypeError, match="chunk_manager='chunkwise'"):
        lazy.chunk(y=1)
    assert isinstance(lazy.chunk(y=1).data, cw.Array)


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "complex64"])
def test_powers_are_those_of_numpy(dtype: str) -> None:
    x, a = pair(2, 3, dtype=dtype)
    same(a**2, x**2)
    same(cw.pow(a, 2), np.power(x, 2))
    if dtype != "bool":
        same(a**2.0, x**2.0)
        same(a**0.5, x**0.5)
    infinite = np.array([-np.inf, np.inf, 4.0])
    with np.errstate(invalid="ignore"):
        same(cw.from_array(infinite) ** 0.5, infinite**0.5)
