"""Functions of a window around each element, against windows that NumPy slides over a padded array."""

import numpy as np
import pytest
from harness import ALL, FLOATS, INTEGERS, Case, arrays, batches, check_batch, values
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view

MODES = ["none", "constant", "edge", "reflect", "symmetric", "wrap"]
DIMS = ["time", "lat", "lon"]


def windows(x, window, mode, value=0, ahead=False):
    """The window at each element, on the last axes."""
    if mode != "none":
        before = [(w - 1) // 2 if ahead else w // 2 for w in window]
        widths = [(b, w - 1 - b) for b, w in zip(before, window, strict=True)]
        x = np.pad(x, widths, mode=mode, **({"constant_values": value} if mode == "constant" else {}))
    return sliding_window_view(x, window)


@st.composite
def moving_case(draw):
    name = draw(st.sampled_from(["sum", "mean", "min", "max"]))
    x, chunks = draw(arrays(ALL if name in ("sum", "mean") else [*INTEGERS, *FLOATS, "bool"], min_dims=1, max_dims=3, min_side=1, max_side=9))
    mode = draw(st.sampled_from(MODES))
    window = [draw(st.integers(1, n if mode == "none" else n + 3)) for n in x.shape]
    value = draw(st.integers(0, 1)) if mode == "constant" else 0
    if mode == "constant" and x.dtype.kind == "b":
        value = 0
    given_as = draw(st.sampled_from(["dims", "axes", "all"]))
    options = draw(st.sampled_from(["", ', mode="none"'])) if mode == "none" else f', mode="{mode}"'
    options += f", value={value}" if value else ""
    if given_as == "dims":
        expr = f"moving_{name}(x, {', '.join(f'{d}={w}' for d, w in zip(DIMS, window, strict=False))}{options})"
    elif given_as == "axes":
        axis = draw(st.integers(-x.ndim, x.ndim - 1))
        window = [w if i == axis % x.ndim else 1 for i, w in enumerate(window)]
        expr = f"moving_{name}(x, {window[axis]}, axis={axis}{options})"
    else:
        expr = f"moving_{name}(x, {window}{options})"
    seen = windows(x.astype(bool if x.dtype.kind == "b" and name in ("min", "max") else x.dtype), window, mode, value)
    axes = tuple(range(x.ndim, 2 * x.ndim))
    expected = getattr(np, name)(seen, axis=axes)
    return Case(expr, {"x": (x, chunks, DIMS[: x.ndim])}, ulps=64, scale=64.0 * 8 * seen[(0,) * x.ndim].size, expected=expected)


@given(batch=batches(moving_case()))
def test_moving(make_folder, batch):
    check_batch(make_folder, batch)


@st.composite
def weighted_case(draw):
    name = draw(st.sampled_from(["stencil", "convolve"]))
    x, chunks = draw(arrays(["int16", "bool", *FLOATS, "complex64"], min_dims=1, max_dims=3, min_side=3, max_side=9))
    mode = draw(st.sampled_from(MODES))
    window = [draw(st.integers(1, 3)) for _ in x.shape]
    weights = values(draw(st.integers(0, 9)), window, "float64", -2, 2).round(2)
    expr = f'{name}(x, {weights.tolist()}, mode="{mode}")'
    inexact = x.astype(x.dtype if x.dtype.kind in "fc" else "float64")
    seen = windows(inexact, window, mode, ahead=name == "convolve")
    used = weights[(slice(None, None, -1),) * x.ndim] if name == "convolve" else weights
    expected = np.sum(seen * used.astype(inexact.real.dtype), axis=tuple(range(x.ndim, 2 * x.ndim)))
    return Case(expr, {"x": (x, chunks)}, ulps=64, scale=64.0 * 16 * weights.size, expected=expected)


@given(batch=batches(weighted_case()))
def test_weights(make_folder, batch):
    check_batch(make_folder, batch)


def test_numpy_convolve(check):
    x = values(1, (200,), "float64")
    check([Case('convolve(x, [1, 2.5, -3, 0.25], mode="valid")', {"x": (x, (17,))}, ulps=64, scale=512)])


def test_weights_along_some_axes(check):
    x = values(1, (20, 7, 9), "float64")
    operands = {"x": (x, (6, 4, 5), DIMS)}
    wave = windows(x, [3, 1, 1], "wrap") @ np.ones(1)
    line = (wave[..., 0] * np.array([1.0, -2.0, 1.0])).sum(-1)
    plane = (windows(x, [1, 2, 3], "none")[:, :, :, 0] * np.array([[1.0, 0, -1], [2, 0, -2]])).sum((-1, -2))
    check([
        Case('stencil(x, [1, -2, 1], dim="time", mode="wrap")', operands, 64, 512, line),
        Case('stencil(x, [[1, 0, -1], [2, 0, -2]], dim=["lat", "lon"])', operands, 64, 512, plane),
    ])  # fmt: skip


def test_fused_with_the_neighbours(check):
    """A window over an expression, an expression over a window, a window over a window, a reduction of a window."""
    x = values(1, (60, 21), "float64", 1, 5)
    operands = {"x": (x, (13, 8), DIMS[:2])}
    mean = windows(x, [7, 1], "reflect").mean((-1, -2))
    twice = windows(windows(x, [3, 3], "edge").max((-1, -2)), [3, 3], "edge").min((-1, -2))
    check([
        Case('x - moving_mean(x, time=7, mode="reflect")', operands, 64, 512, x - mean),
        Case('moving_mean(x ** 2 + 1, time=7, mode="reflect")', operands, 64, 8192, windows(x**2 + 1, [7, 1], "reflect").mean((-1, -2))),
        Case('moving_min(moving_max(x, [3, 3], mode="edge"), [3, 3], mode="edge")', operands, 0, 0, twice),
        Case('mean(moving_sum(x, time=5), dim="time")', operands, 64, 2048, windows(x, [5, 1], "none").sum((-1, -2)).mean(0)),
        Case('moving_sum(x[::2], time=4)', operands, 64, 2048, windows(x[::2], [4, 1], "none").sum((-1, -2))),
        Case('moving_mean(x - mean(x, dim="time"), time=3)', operands, 64, 2048, windows(x - x.mean(0), [3, 1], "none").mean((-1, -2))),
    ])  # fmt: skip


def test_exact_and_special(check):
    x = np.array([1.0, np.nan, 3.0, np.inf, 5.0, 6.0, 7.0, 8.0])
    tens = np.full(40, 3.0)
    big = np.array([2**62, 2**62, -5, 7], "int64")
    cases = [
        Case("moving_max(x, 3)", {"x": (x, (3,))}, 0, 0, windows(x, [3], "none").max(-1)),
        Case('moving_sum(x, 3, mode="constant")', {"x": (x, (3,))}, 0, 0, windows(x, [3], "constant").sum(-1)),
        Case("moving_mean(x, 10)", {"x": (tens, (7,))}, 0, 0, np.full(31, 3.0)),
        Case("moving_sum(x, 2)", {"x": (big, (2,))}, 0, 0, big[:-1] + big[1:]),
        Case("stencil(x, [0, 0, 1])", {"x": (x, (3,))}, 0, 0, x[2:]),
    ]
    check(cases)


@pytest.mark.parametrize("expression, names", [
    ("moving_mean(x, time=9)", ["longer", "8 elements"]),
    ("moving_mean(x, time=0)", ["at least one"]),
    ("moving_mean(x, tme=3)", ["tme", "time"]),
    ('moving_mean(x, time=3, mode="mirror")', ["mirror", "reflect"]),
    ("moving_mean(x)", ["window"]),
    ("moving_mean(x, 3)", ["1 length for 2 dimensions"]),
    ("moving_mean(x, time=100000)", ["at most"]),
    ("stencil(x, [[1, 2], [3]])", ["equal lengths"]),
    ("stencil(x, [[1, 2], 3])", ["nested"]),
    ("stencil(x, [1, 2, 3])", ["2 dimensions"]),
    ('stencil(x, ["a"])', ["numbers"]),
    ('stencil(x, [[1, nan]], mode="edge")', ["finite"]),
    ('moving_min(astype(x, "complex64"), time=3)', ["complex"]),
    ('moving_min(astype(x, "int8"), time=3, mode="constant", value=0.5)', ["dtype"]),
])  # fmt: skip
def test_bad_windows(run, expression, names):
    x = values(1, (8, 5), "float64")
    run({"arrays": {"out": expression}}, {"x": (x, (3, 5), DIMS[:2])}, check=False).failed(*names)
