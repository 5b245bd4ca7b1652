"""NumPy's functions that are several operations of the engine, and assignment, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw

RNG = np.random.default_rng(4)
A = RNG.normal(size=(6, 5, 4))
A[RNG.random(A.shape) < 0.1] = np.nan
FULL, I = np.nan_to_num(A), RNG.integers(-20, 20, (6, 5, 4))
#: Lambdas get arrays of NumPy or of chunkwise: one with missing values, one without, and one of whole numbers.
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "ravel": lambda a, f, i: np.ravel(a),
    "swapaxes": lambda a, f, i: np.swapaxes(a, 0, -1),
    "atleast_1d": lambda a, f, i: np.atleast_1d(a[0, 0, 0]),
    "atleast_2d": lambda a, f, i: np.atleast_2d(a[0, 0]),
    "atleast_3d": lambda a, f, i: np.atleast_3d(a[0, 0]),
    "atleast_3d of a matrix": lambda a, f, i: np.atleast_3d(a[0]),
    "hstack": lambda a, f, i: np.hstack([a, f]),
    "hstack of lines": lambda a, f, i: np.hstack([a[0, 0], f[0, 1]]),
    "vstack": lambda a, f, i: np.vstack([a[0, 0], f[0, 1]]),
    "dstack": lambda a, f, i: np.dstack([a[0], f[0]]),
    "column_stack": lambda a, f, i: np.column_stack([a[0, 0], f[0, 0], f[0].T]),
    "split": lambda a, f, i: np.split(a, 3)[1],
    "split at": lambda a, f, i: np.split(a, [1, 4], axis=1)[2],
    "array_split": lambda a, f, i: np.array_split(a, 4)[0],
    "append": lambda a, f, i: np.append(a, f, axis=1),
    "append of lines": lambda a, f, i: np.append(a, f),
    "delete": lambda a, f, i: np.delete(a, [0, -1], axis=1),
    "delete a slice": lambda a, f, i: np.delete(a, slice(1, 3), axis=0),
    "insert a number": lambda a, f, i: np.insert(a, 2, 9.0, axis=1),
    "insert rows": lambda a, f, i: np.insert(a, -1, np.arange(4.0), axis=0),
    "compress": lambda a, f, i: np.compress([True, False, True], a, axis=2),
    "fliplr": lambda a, f, i: np.fliplr(a),
    "flipud": lambda a, f, i: np.flipud(a),
    "rot90": lambda a, f, i: np.rot90(a),
    "rot90, twice": lambda a, f, i: np.rot90(a, 2, (1, 2)),
    "rot90, back": lambda a, f, i: np.rot90(a, -1, (2, 0)),
    "diagonal": lambda a, f, i: np.diagonal(a, 1, 1, 2),
    "diagonal below": lambda a, f, i: np.diagonal(a, -2),
    "trace": lambda a, f, i: np.trace(i, axis1=2, axis2=0),
    "nan_to_num": lambda a, f, i: np.nan_to_num(a / (i > 0), nan=-1.0, posinf=5.0),
    "nan_to_num, extremes": lambda a, f, i: np.nan_to_num(1 / (i * 0.0 + (i > 3))),
    "heaviside": lambda a, f, i: np.heaviside(a * (i > 0), 0.5),
    "select": lambda a, f, i: np.select([f > 0.5, f < -0.5], [a, i], 7),
    "digitize": lambda a, f, i: np.digitize(i, [-5, 0, 5]),
    "digitize, right": lambda a, f, i: np.digitize(i, [5, 0, -5], right=True),
    "digitize floats": lambda a, f, i: np.digitize(a, np.linspace(-2, 2, 50)),
    "searchsorted": lambda a, f, i: np.searchsorted(np.array([-5, 0, 5]), i, side="right"),
    "interp": lambda a, f, i: np.interp(f, [-1.0, 1.0], [0.0, 10.0], left=-5),
    "unravel_index": lambda a, f, i: np.stack(np.unravel_index(abs(i), (3, 4, 5))),
    "cross": lambda a, f, i: np.cross(a[..., :3], f[..., :3]),
    "cross of an axis": lambda a, f, i: np.cross(a[:3], f[:3], axis=0),
    "ptp": lambda a, f, i: np.ptp(f, axis=1, keepdims=True),
    "average": lambda a, f, i: np.average(f, axis=(0, 2)),
    "average with weights": lambda a, f, i: np.average(f, axis=1, weights=np.arange(1.0, 6.0)),
    "average of whole numbers": lambda a, f, i: np.average(i, weights=abs(i) + 1),
    "average, returned": lambda a, f, i: np.average(f, axis=0, weights=abs(f), returned=True)[1],
    "cov": lambda a, f, i: np.cov(f[0]),
    "cov of two": lambda a, f, i: np.cov(f[0, 0], f[0, 1], bias=True),
    "corrcoef": lambda a, f, i: np.corrcoef(f[:, 0], rowvar=False),
    "norm": lambda a, f, i: np.linalg.norm(f),
    "norm along": lambda a, f, i: np.linalg.norm(i, axis=1),
    "norm 1": lambda a, f, i: np.linalg.norm(f, 1, axis=2),
    "norm inf": lambda a, f, i: np.linalg.norm(f, -np.inf, axis=0, keepdims=True),
    "norm 3": lambda a, f, i: np.linalg.norm(f, 3, axis=0),
    "frobenius": lambda a, f, i: np.linalg.norm(f, "fro", axis=(1, 2)),
    "histogram": lambda a, f, i: np.histogram(f, bins=7)[0],
    "histogram, edges": lambda a, f, i: np.histogram(f, bins=7, range=(-1, 1))[1],
    "histogram, density": lambda a, f, i: np.histogram(i, bins=[-9, 0, 1, 9], density=True)[0],
    "histogram with weights": lambda a, f, i: np.histogram(f, bins=4, range=(-2, 2), weights=f * 2)[0],
    "einsum, optimised": lambda a, f, i: np.einsum("abc,dbc->ad", f, f, optimize=True),
    "bincount": lambda a, f, i: np.bincount(np.ravel(abs(i)), minlength=50),
    "bincount with weights": lambda a, f, i: np.bincount(np.ravel(abs(i)), weights=np.ravel(f)),
    "convolve": lambda a, f, i: np.convolve(f[:, 0, 0], [1.0, 2.0, -1.0, 0.5]),
    "convolve, same": lambda a, f, i: np.convolve(i[:, 0, 0], [1, 2], "same"),
    "convolve, same, odd": lambda a, f, i: np.convolve(i[:, 0, 0], [1, 2, 5], "same"),
    "convolve, valid": lambda a, f, i: np.convolve([1.0, 2.0], f[:, 0, 0], "valid"),
    "sort": lambda a, f, i: np.sort(a, axis=1),
    "sort all": lambda a, f, i: np.sort(i, axis=None),
    "argsort": lambda a, f, i: np.argsort(a, axis=0, kind="stable"),
    "partition": lambda a, f, i: np.partition(f, 2, axis=0)[2],
    "pad, mean": lambda a, f, i: np.pad(f, [(1, 2), (0, 0), (3, 1)], mode="mean"),
    "pad, mean of whole numbers": lambda a, f, i: np.pad(i, 1, mode="mean", stat_length=2),
    "pad, maximum": lambda a, f, i: np.pad(i, [(1, 0), (0, 1), (0, 0)], mode="maximum"),
    "pad, linear ramp": lambda a, f, i: np.pad(f, 2, mode="linear_ramp", end_values=1.5),
    "pad, linear ramp of whole numbers": lambda a, f, i: np.pad(i, [(2, 3), (1, 0), (0, 0)], mode="linear_ramp"),
    "fft": lambda a, f, i: np.fft.fft(f, axis=0),
    "fft of more": lambda a, f, i: np.fft.fft(i, 9, norm="ortho"),
    "ifft": lambda a, f, i: np.fft.ifft(f + 1j, axis=1),
    "rfft": lambda a, f, i: np.fft.rfft(f, axis=1),
    "irfft": lambda a, f, i: np.fft.irfft(f + 1j, 7, axis=0),
    "hfft": lambda a, f, i: np.fft.hfft(f, axis=0),
    "ihfft": lambda a, f, i: np.fft.ihfft(f, axis=0),
    "fftn": lambda a, f, i: np.fft.fftn(f),
    "fftn of some": lambda a, f, i: np.fft.fftn(f, s=(3, 5), axes=(0, 2)),
    "ifftn": lambda a, f, i: np.fft.ifftn(f, axes=(1, 0)),
    "rfftn": lambda a, f, i: np.fft.rfftn(f),
    "irfftn": lambda a, f, i: np.fft.irfftn(f, axes=(2, 0)),
    "fft2": lambda a, f, i: np.fft.fft2(f),
    "ifft2": lambda a, f, i: np.fft.ifft2(f),
    "rfft2": lambda a, f, i: np.fft.rfft2(f),
    "irfft2": lambda a, f, i: np.fft.irfft2(f),
    "fftshift": lambda a, f, i: np.fft.fftshift(a),
    "ifftshift": lambda a, f, i: np.fft.ifftshift(a, axes=1),
    "hsplit": lambda a, f, i: np.hsplit(a, [2])[1],
    "vsplit": lambda a, f, i: np.vsplit(a, 3)[1],
    "dsplit": lambda a, f, i: np.dsplit(a, 2)[0],
    "block": lambda a, f, i: np.block([[a, f], [f, a]]),
    "block of lines": lambda a, f, i: np.block([[a[0, 0], f[0, 1]], [f[0]] * 2]),
    "rollaxis": lambda a, f, i: np.rollaxis(a, 2),
    "rollaxis to": lambda a, f, i: np.rollaxis(a, 0, 3),
    "diag": lambda a, f, i: np.diag(f[:, 0, 0]),
    "diag above": lambda a, f, i: np.diag(i[:, 0, 0], 2),
    "diag below": lambda a, f, i: np.diag(a[0, 0], -3),
    "diag of a matrix": lambda a, f, i: np.diag(a[0], 1),
    "diagflat": lambda a, f, i: np.diagflat(f[0, :2], 1),
    "apply_over_axes": lambda a, f, i: np.apply_over_axes(np.sum, f, [0, -1]),
    "apply_along_axis": lambda a, f, i: np.apply_along_axis(lambda v: v.max() - v[0], 1, f),
    "apply_along_axis, of rows": lambda a, f, i: np.apply_along_axis(lambda v: np.array([v.min(), v.max()]), 0, f),
    "ediff1d": lambda a, f, i: np.ediff1d(f, to_begin=0.0, to_end=[1.0, 2.0]),
    "trapezoid": lambda a, f, i: np.trapezoid(f, axis=1),
    "trapezoid of places": lambda a, f, i: np.trapezoid(f, np.array([0.0, 1, 3, 4, 9]), axis=1),
    "trapezoid of steps": lambda a, f, i: np.trapezoid(i, dx=0.5),
    "histogram2d": lambda a, f, i: np.histogram2d(np.ravel(f), np.ravel(i), bins=[4, 3], range=[(-2, 2), (-20, 20)])[0],
    "histogram2d, density": lambda a, f, i: np.histogram2d(np.ravel(f), np.ravel(i), bins=5, density=True)[0],
    "histogram2d, weights": lambda a, f, i: np.histogram2d(np.ravel(f), np.ravel(i), bins=[[-9.0, 0, 9], 4], weights=np.ravel(f))[0],
    "correlate": lambda a, f, i: np.correlate(f[:, 0, 0], [1.0, 2.0, 4.0]),
    "correlate, full": lambda a, f, i: np.correlate(f[:, 0, 0], [1.0, 2.0], "full"),
    "deg2rad": lambda a, f, i: np.deg2rad(a),
    "degrees": lambda a, f, i: np.degrees(i),
    "fmax": lambda a, f, i: np.fmax(a, i),
    "fmin of whole numbers": lambda a, f, i: np.fmin(i, 3),
    "divmod": lambda a, f, i: np.divmod(i, 7)[1],
    "float_power": lambda a, f, i: np.float_power(abs(i), 3),
    "a ufunc that the engine lacks": lambda a, f, i: np.cbrt(f),
    "one of two arrays": lambda a, f, i: np.gcd(i, i[0]),
    "one with two results": lambda a, f, i: np.modf(f)[0],
    "one with two dtypes": lambda a, f, i: np.frexp(f)[1],
    "fmod": lambda a, f, i: np.fmod(f, 0.75),
    "exp2": lambda a, f, i: np.exp2(i),
    "outer sum": lambda a, f, i: np.add.outer(f[0, 0], i[:, 0, 0]),
    "outer maximum": lambda a, f, i: np.maximum.outer(np.arange(3), i[0]),
    "sinc": lambda a, f, i: np.sinc(i / 4),
    "angle": lambda a, f, i: np.angle(f + 1j * i, deg=True),
    "angle of floats": lambda a, f, i: np.angle(a),
    "fix": lambda a, f, i: np.fix(f * 3),
    "isreal": lambda a, f, i: np.isreal(f + 1j * (i > 0)),
    "iscomplex": lambda a, f, i: np.iscomplex(f),
    "polyval": lambda a, f, i: np.polyval([2.0, -1.0, 3.0], f),
    "piecewise": lambda a, f, i: np.piecewise(f, [f < 0, f > 1], [lambda v: -v, 9.0, 2.0]),
    "choose": lambda a, f, i: np.choose(abs(i) % 2, [f, i]),
    "ravel_multi_index": lambda a, f, i: np.ravel_multi_index((abs(i), abs(i) // 2), (30, 40)),
    "i0": lambda a, f, i: np.i0(f),
    "dot of matrices": lambda a, f, i: np.dot(f[0], f[1].T),
    "dot of stacks": lambda a, f, i: np.dot(f, f[0].T),
    "dot of vectors": lambda a, f, i: np.dot(f[0, 0], i[0, 0]),
    "dot with a number": lambda a, f, i: np.dot(f, 2.0),
    "inner": lambda a, f, i: np.inner(f, f[0]),
    "vdot": lambda a, f, i: np.vdot(f + 1j, f * 1j),
    "kron": lambda a, f, i: np.kron(f[0], i[:2, 0]),
    "kron of lines": lambda a, f, i: np.kron(f[0, 0], i[0]),
    "norm 1 of matrices": lambda a, f, i: np.linalg.norm(f[0], 1),
    "norm -inf of matrices": lambda a, f, i: np.linalg.norm(f, -np.inf, axis=(0, 2), keepdims=True),
    "vector_norm": lambda a, f, i: np.linalg.vector_norm(f, axis=(0, 2), keepdims=True),
    "matrix_norm": lambda a, f, i: np.linalg.matrix_norm(f),
    "linalg.trace": lambda a, f, i: np.linalg.trace(f),
    "linalg.diagonal": lambda a, f, i: np.linalg.diagonal(f, offset=1),
    "inv": lambda a, f, i: np.linalg.inv(f[:, :4]),
    "det": lambda a, f, i: np.linalg.det(f[:, 1:]),
    "cholesky": lambda a, f, i: np.linalg.cholesky(np.eye(4) * 50 + np.matmul(f[:, :4], np.transpose(f[:, :4], (0, 2, 1)))),
    "eigvalsh": lambda a, f, i: np.linalg.eigvalsh(np.matmul(f, np.transpose(f, (0, 2, 1)))),
    "solve": lambda a, f, i: np.linalg.solve(f[0, :4], f[1, 0]),
    "solve stacks": lambda a, f, i: np.linalg.solve(f[:, :4], f[:, 1:, :2]),
    "pinv": lambda a, f, i: np.linalg.pinv(f),
    "svdvals": lambda a, f, i: np.linalg.svdvals(f[0]),
    "svd, wide": lambda a, f, i: np.linalg.svd(f[0].T, compute_uv=False),
    "sum where": lambda a, f, i: np.sum(f, where=i > 0, axis=1),
    "mean where": lambda a, f, i: np.mean(i, where=f > 0, axis=0),
    "max where": lambda a, f, i: np.max(f, where=i > 0, initial=-9.0, axis=2),
    "prod with a first value": lambda a, f, i: np.prod(f[0], axis=0, initial=2.0),
    "min with a first value": lambda a, f, i: np.min(i, initial=-3, axis=0),
    "any where": lambda a, f, i: np.any(f > 1, where=i > 3, axis=(0, 1)),
    "triu": lambda a, f, i: np.triu(f, 1),
    "method dot": lambda a, f, i: f[0].dot(f[1, 0]),
    "method trace": lambda a, f, i: i.trace(1),
    "method diagonal": lambda a, f, i: a.diagonal(0, 1, 2),
    "method cumsum": lambda a, f, i: i.cumsum(axis=1),
    "method cumprod": lambda a, f, i: f.cumprod(axis=0),
    "method ravel": lambda a, f, i: a.ravel(),
    "method flatten": lambda a, f, i: a.flatten(),
    "method swapaxes": lambda a, f, i: a.swapaxes(0, 1),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("chunks", [(6, 5, 4), (4, 2, 3)], ids=str)
def test_a_function(name: str, chunks: tuple[int, ...]) -> None:
    expected = None
    with np.errstate(all="ignore"):
        expected = CALLS[name](A, FULL, I)
        found = CALLS[name](*(cw.from_array(x, chunks) for x in (A, FULL, I)))
        values = found.compute() if isinstance(found, cw.Array) else found
    assert isinstance(found, cw.Array) or name == "histogram, edges"
    assert (values.shape, values.dtype) == (np.shape(expected), np.asarray(expected).dtype)
    np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("descending", [False, True])
def test_sorted_as_the_array_api_says(descending: bool) -> None:
    x = np.random.default_rng(0).integers(0, 9, (40, 3))
    lazy = cw.from_array(x, (7, 2))
    order = np.argsort(-x if descending else x, axis=0, kind="stable")
    np.testing.assert_array_equal(cw.argsort(lazy, axis=0, descending=descending).compute(), order)
    np.testing.assert_array_equal(cw.sort(lazy, axis=0, descending=descending).compute(), np.take_along_axis(x, order, 0))


def keys(shape: tuple[int, ...]) -> st.SearchStrategy[Any]:
    def one(n: int) -> st.SearchStrategy[Any]:
        ends = st.one_of(st.none(), st.integers(-n - 1, n + 1))
        steps = st.sampled_from([None, 1, 2, 3, -1, -2])
        return st.one_of(st.integers(-n, n - 1), st.builds(slice, ends, ends, steps), st.just(slice(None)))

    return st.tuples(*map(one, shape))


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_assignment(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=3)))
    x = np.arange(np.prod(shape), dtype=data.draw(st.sampled_from(["int64", "float32"]))).reshape(shape)
    count = data.draw(st.integers(0, len(shape)))
    key: Any = data.draw(keys(shape[:count]))
    if data.draw(st.booleans()):
        axis = data.draw(st.integers(0, len(shape) - 1))
        positions = st.lists(st.integers(0, shape[axis] - 1), min_size=1, max_size=5, unique=True)
        key = (*[slice(None)] * axis, data.draw(positions))
    elif data.draw(st.booleans()):
        key = (Ellipsis, *data.draw(keys(shape[count:])))
    lazy = cw.from_array(x, tuple(data.draw(st.integers(1, n)) for n in shape))
    other, value = lazy.copy(), -5
    if data.draw(st.booleans()):
        value = -np.arange(1, x[key].size + 1).reshape(x[key].shape)
        if value.ndim and data.draw(st.booleans()):
            value = value[:1]
    lazy[key] = cw.from_array(value) if isinstance(value, np.ndarray) and data.draw(st.booleans()) else value
    expected = x.copy()
    expected[key] = value
    np.testing.assert_array_equal(lazy.compute(), expected)
    assert lazy.dtype == x.dtype
    np.testing.assert_array_equal(other.compute(), x)


@pytest.mark.parametrize(
    "key", [np.s_[0, :, [1, 2]], np.s_[0, ..., [2, 1]], np.s_[[1, 0], :, 1], np.s_[:, 0, [1, 2]], np.s_[-1, 1:3, [3, 1]], np.s_[:, 1, ..., [3, 0]]], ids=str
)
def test_assignment_by_a_number_and_positions(key: Any) -> None:
    """Apart from each other they come first in the values."""
    x = np.arange(24).reshape(2, 3, 4)
    shape = x[key].shape
    for given in (shape, shape[::-1], (1, *shape[1:]), (shape[0], 1), shape[1:], shape[:1], (1, *shape)):
        lazy, expected, value = cw.from_array(x, (1, 2, 3)), x.copy(), -np.arange(1, np.prod(given) + 1).reshape(given)
        try:
            expected[key] = value
        except ValueError:
            with pytest.raises(ValueError, match="could not broadcast"):
                lazy[key] = value
        else:
            lazy[key] = value
            np.testing.assert_array_equal(lazy.compute(), expected)


@pytest.mark.parametrize("bins", [7, [-1.0, 0.0, 3.0]])
@pytest.mark.parametrize("span", [None, (-3, 4)])
def test_edges_of_bins_are_no_lazy_array(bins: Any, span: Any) -> None:
    found = np.histogram_bin_edges(cw.from_array(FULL, (4, 2, 3)), bins, span)
    np.testing.assert_allclose(found, np.histogram_bin_edges(FULL, bins, span))
    if span or not isinstance(bins, int):
        with cw.raise_if_computes():
            np.histogram_bin_edges(cw.from_array(FULL, (4, 2, 3)), bins, span)


def test_assignment_by_a_mask() -> None:
    x = np.random.default_rng(0).normal(size=(8, 5))
    for mask in (x > 0, x[:, 0] > 0):
        lazy, expected = cw.from_array(x, (3, 2)), x.copy()
        lazy[cw.from_array(mask) if mask.ndim == 2 else mask] = 0.0
        expected[mask] = 0.0
        np.testing.assert_array_equal(lazy.compute(), expected)
    with pytest.raises(IndexError, match="does not fit"):
        lazy[np.ones((3, 5), bool)] = 1
    with pytest.raises(NotImplementedError, match="not known"):
        lazy[cw.from_array(x > 0)] = np.ones(int((x > 0).sum()))
    with pytest.raises(ValueError, match="could not broadcast"):
        lazy[:3] = np.ones((2, 5))
    with pytest.raises(IndexError, match="out of bounds"):
        lazy[9] = 1
    with pytest.raises(NotImplementedError, match="one axis"):
        lazy[[0, 1], [0, 1]] = 1


@pytest.mark.parametrize("ufunc", [np.fmod, np.fmax, np.fmin, np.heaviside, np.float_power, np.logaddexp2, np.copysign, np.divmod], ids=lambda u: u.__name__)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4"])
def test_a_number_takes_the_dtype_of_the_array(ufunc: Any, dtype: str) -> None:
    x = (FULL * 3).astype(dtype)
    lazy = cw.from_array(x, (4, 2, 3))
    for other in (2, 0.5, np.float32(0.5), x[0, 0]):
        found, expected = ufunc(lazy, other), ufunc(x, other)
        for one, wanted in zip(found if isinstance(found, tuple) else [found], expected if isinstance(expected, tuple) else [expected]):
            assert one.dtype == wanted.dtype
            np.testing.assert_allclose(one.compute(), wanted, rtol=1e-6)


@pytest.mark.parametrize("shape", [(60, 7), (7, 60), (9, 9)])
@pytest.mark.parametrize("dtype", ["f8", "c16", "f4"])
def test_singular_values(shape: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(1)
    x = (rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype == "c16" else 0)).astype(dtype)
    lazy = cw.from_array(x, (13, 13))
    eps = 100 * np.finfo(dtype).eps
    u, s, vh = np.linalg.svd(lazy, full_matrices=False)
    assert isinstance(u, cw.Array)
    left, sizes, right = cw.compute(u, s, vh)
    np.testing.assert_allclose(sizes, np.linalg.svd(x, compute_uv=False), rtol=eps, atol=eps)
    np.testing.assert_allclose(left * sizes @ right, x, rtol=eps, atol=eps)
    np.testing.assert_allclose(left.conj().T @ left, np.eye(min(shape)), atol=eps)
    assert (left.dtype, sizes.dtype, right.dtype) == tuple(p.dtype for p in np.linalg.svd(x, full_matrices=False))
    if shape[0] >= shape[1] and dtype != "c16":
        q, r = cw.compute(*np.linalg.qr(lazy))
        np.testing.assert_allclose(q @ r, x, rtol=eps, atol=eps)


def test_a_core_dimension_may_occur_twice() -> None:
    x = np.random.default_rng(2).normal(size=(4, 3, 3))
    lazy = cw.from_array(x, (2, 3, 3))
    np.testing.assert_allclose(cw.apply_gufunc(np.linalg.det, "(n,n)->()", lazy).compute(), np.linalg.det(x))
    np.testing.assert_allclose(cw.apply_gufunc(lambda v: v[..., None] * np.eye(v.shape[-1]), "(n)->(n,n)", lazy[:, 0]).compute(), x[:, 0, :, None] * np.eye(3))
    with pytest.raises(ValueError, match="lengths 2 and 3"):
        cw.apply_gufunc(np.linalg.det, "(n,n)->()", lazy[:, :2])


def test_names_of_numpy_are_there() -> None:
    """Whether they are called as NumPy's or as the package's makes no difference."""
    from chunkwise import _names

    x = cw.from_array(FULL, (4, 2, 3))
    for name in sorted(_names.NAMES):
        assert callable(getattr(cw, name)) and getattr(cw, name).__doc__, name
    for name in ("ravel", "fliplr", "cbrt", "deg2rad", "nanmedian", "trace", "frexp", "around", "sinc", "ptp"):
        ours, theirs = getattr(cw, name)(x), getattr(np, name)(x)
        for one, other in zip(ours if isinstance(ours, tuple) else [ours], theirs if isinstance(theirs, tuple) else [theirs]):
            assert isinstance(one, cw.Array)
            np.testing.assert_array_equal(one.compute(), other.compute())
    assert isinstance(cw.hstack([np.ones(3), x[0, 0]]), cw.Array)
    with pytest.raises(TypeError, match="no operation"):
        np.unique(x)


def test_neighbours_are_reduced() -> None:
    lazy = cw.from_array(FULL, (4, 2, 3))
    groups = FULL[:, :4].reshape(2, 3, 2, 2, 4)
    np.testing.assert_allclose(cw.coarsen(np.mean, lazy[:, :4], {0: 3, 1: 2}).compute(), groups.mean((1, 3)))
    np.testing.assert_allclose(cw.coarsen(cw.max, lazy, {-2: 2}, trim_excess=True).compute(), FULL[:, :4].reshape(6, 2, 2, 4).max(2))
    with pytest.raises(ValueError, match="trim_excess"):
        cw.coarsen(np.sum, lazy, {1: 2})


def test_the_largest_and_points() -> None:
    lazy = cw.from_array(FULL, (4, 2, 3))
    order = np.argsort(FULL, axis=1)
    for k in (2, -2):
        at = order[:, ::-1][:, :2] if k > 0 else order[:, :2]
        np.testing.assert_array_equal(cw.argtopk(lazy, k, axis=1).compute(), at)
        np.testing.assert_array_equal(cw.topk(lazy, k, axis=1).compute(), np.take_along_axis(FULL, at, 1))
    rows, columns = [0, 5, 5], np.array([1, 4, 0])
    np.testing.assert_array_equal(lazy.vindex[rows, columns].compute(), FULL[rows, columns])
    np.testing.assert_array_equal(lazy.vindex[rows, :, [3, 0, 1]].compute(), FULL[rows, :, [3, 0, 1]])


def test_random_numbers_by_the_names_of_numpy() -> None:
    for name, args, moments in (
        ("random", (), (0.5, 1 / 12)),
        ("uniform", (-2.0, 4.0), (1.0, 3.0)),
        ("standard_normal", (), (0.0, 1.0)),
        ("normal", (5.0, 2.0), (5.0, 4.0)),
        ("exponential", (3.0,), (3.0, 9.0)),
        ("integers", (-3, 4), (0.0, 4.0)),
    ):
        one, other = (getattr(cw.random.default_rng(3), name)(*args, size=(300, 400), chunks=chunks) for chunks in ((100, 400), (33, 77)))
        assert one.chunksize == (100, 400)
        values = one.compute()
        np.testing.assert_array_equal(values, other.compute())
        np.testing.assert_allclose([values.mean(), values.var()], moments, atol=0.06, rtol=0.03)
        again = getattr(cw.random, name)(*args, size=10)
        assert again.dtype == values.dtype and (again != getattr(cw.random, name)(*args, size=10)).any().compute()
    rng = cw.random.default_rng(0)
    assert set(rng.integers(3, size=200).compute()) == {0, 1, 2}
    assert set(rng.integers(250, 255, size=300, dtype="uint8", endpoint=True).compute()) == set(range(250, 256))
    assert set(rng.integers(-128, 127, size=9000, dtype="i1", endpoint=True).compute()) == set(range(-128, 128))
    assert rng.integers(2**64 - 5, 2**64 - 1, size=99, dtype="u8", endpoint=True).compute().min() >= np.uint64(2**64 - 5)
    assert rng.random().shape == () and rng.random((0, 3)).compute().shape == (0, 3) and rng.random(5, dtype="f4").dtype == np.float32
    np.testing.assert_array_equal(cw.random([4], seed=1).compute(), cw.random([4], seed=1, chunks=[2]).compute())
    for wrong in (lambda: rng.integers(0), lambda: rng.integers(0, 300, dtype="u1"), lambda: rng.normal(scale=-1.0)):
        with pytest.raises(ValueError):
            wrong()
