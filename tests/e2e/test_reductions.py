"""Reductions over any axes, with keepdims, over drawn shapes and chunks, against NumPy."""

import numpy as np
import pytest
from harness import ALL, FLOATS, INTEGERS, Case, arrays, assert_close, batches, check_batch, values
from hypothesis import given
from hypothesis import strategies as st

SUMS = ["sum", "prod"]
MOMENTS = ["mean", "var", "std"]
ORDER = ["min", "max", "argmin", "argmax"]


@st.composite
def axis_argument(draw, ndim, several=True):
    """'' (all axes), one axis (also negative) or several."""
    kind = draw(st.sampled_from(["none", "one", "many"] if several else ["one"]))
    if kind == "none" or ndim == 0:
        return ""
    if kind == "one":
        return f", axis={draw(st.integers(-ndim, ndim - 1))}"
    chosen = draw(st.lists(st.integers(0, ndim - 1), unique=True, min_size=1, max_size=ndim))
    return f", axis={tuple(chosen)!r}"


@st.composite
def reduction_case(draw):
    name = draw(st.sampled_from(SUMS + MOMENTS + ["min", "max", "any", "all", "count_nonzero"]))
    empty = 0 if name in ("sum", "prod", "any", "all", "count_nonzero") else 1
    if name in MOMENTS:
        dtypes = FLOATS
    elif name in ("any", "all", "count_nonzero"):
        dtypes = ALL
    else:
        dtypes = INTEGERS + FLOATS
    low, high = (0.5, 2) if name == "prod" else (-8, 8)
    x, chunks = draw(arrays(dtypes, min_side=empty, low=low, high=high))
    keep = draw(st.sampled_from(["", ", keepdims=True"]))
    total = float(np.sum(np.abs(x.astype("float64")))) + 1 if x.dtype.kind == "f" else 0.0
    if name in ("var", "std"):
        total = 256.0 * max(1, x.size) ** 0.5
        # The square root of a variance that is zero but for rounding.
        if name == "std":
            total = total / float(np.finfo(x.dtype).eps) ** 0.5 * 2
    expr = f"{name}(x{draw(axis_argument(x.ndim))}{keep})"
    return Case(expr, {"x": (x, chunks)}, ulps=64, scale=4 * total if name != "prod" else 0)


@given(batch=batches(reduction_case()))
def test_reductions(make_folder, batch):
    check_batch(make_folder, batch)


@given(batch=batches(reduction_case(), size=15))
def test_reductions_in_little_memory(make_folder, batch):
    check_batch(make_folder, batch, allowed_mem="150MB")


@st.composite
def position_case(draw):
    name = draw(st.sampled_from(["argmin", "argmax"]))
    # Few distinct values: the first of equal ones is wanted.
    x, chunks = draw(arrays(INTEGERS + FLOATS, min_side=1, min_dims=1, low=0, high=4))
    x = np.floor(x).astype(x.dtype)
    axis = draw(axis_argument(x.ndim, several=False)) if draw(st.booleans()) else ""
    keep = draw(st.sampled_from(["", ", keepdims=True"]))
    return Case(f"{name}(x{axis}{keep})", {"x": (x, chunks)})


@given(batch=batches(position_case()))
def test_positions(make_folder, batch):
    check_batch(make_folder, batch)


@st.composite
def nan_case(draw):
    name = draw(st.sampled_from(["nansum", "nanprod", "nanmean", "nanmin", "nanmax", "nanvar", "nanstd"]))
    x, chunks = draw(arrays(FLOATS, min_side=1, min_dims=1, max_dims=3, low=1, high=2))
    holes = values(draw(st.integers(0, 2**32 - 1)), x.shape, "float64", 0, 1) < draw(st.sampled_from([0.0, 0.3, 1.0]))
    x[holes] = np.nan
    scale = 256 * x.size if name not in ("nanstd",) else 256 * x.size / float(np.finfo(x.dtype).eps) ** 0.5
    return Case(f"{name}(x{draw(axis_argument(x.ndim))})", {"x": (x, chunks)}, ulps=64, scale=scale)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@given(batch=batches(nan_case()))
def test_nan_reductions(make_folder, batch):
    check_batch(make_folder, batch)


def test_nan_propagates(check):
    x = values(1, (6, 5), "float64")
    x[2, 3] = np.nan
    check([Case(f"{name}(x, axis={axis})", {"x": (x, (4, 2))}, ulps=64, scale=64) for name in ("sum", "mean", "min", "max", "prod") for axis in (0, 1)])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_complex_number_is_nan_if_a_part_is(check, dtype):
    x = np.array([1 + 2j, complex(np.nan, 1), 3 - 1j, -2 + 0.5j, complex(np.nan, 7), complex(4, np.nan)], dtype)
    y = np.stack([x, x[::-1], np.full(6, complex(0, np.nan), dtype)])
    names = ["nansum", "nanprod", "nanmean", "nanvar", "nanstd"]
    cases = [Case(f"{name}(x)", {"x": (x, (4,))}, ulps=64, scale=64) for name in names]
    check([*cases, *(Case(f"{name}(y, axis={axis})", {"y": (y, (2, 4))}, ulps=64, scale=64) for name in names for axis in (0, 1))])


SKIPPED = ["sum", "prod", "mean", "min", "max", "var", "std"]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128", "int16", "bool"])
def test_skipna(check, dtype):
    x = values(1, (6, 5), dtype, 1, 4)
    if x.dtype.kind in "fc":
        x[2, 3] = x[0, 0] = np.nan
        x[:, 4] = np.nan
    cases = []
    for name in SKIPPED:
        if dtype == "complex128" and name in ("min", "max"):
            continue
        for axis in (None, 0, 1):
            wide = x.astype("float64") if dtype == "bool" and name in ("var", "std") else x
            with np.errstate(all="ignore"):
                skipped, kept = (getattr(np, f"{prefix}{name}")(wide, axis=axis) for prefix in ("nan", ""))
            for text, expected in (("True", skipped), ("False", kept), ("None", kept)):
                cases.append(Case(f"{name}(x, axis={axis}, skipna={text})", {"x": (x, (4, 2))}, ulps=256, scale=256, expected=expected))
    check(cases)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_too_few_elements_for_a_variance(check):
    x = np.array([[1.0, np.nan, np.nan], [2.0, 3.0, np.nan]])
    check([Case(f"{name}(x, axis={axis}, correction={n})", {"x": (x, (2, 2))}) for name in ("nanvar", "nanstd") for axis in (0, 1) for n in (1, 2)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_positions_without_nan(check, dtype):
    """By hand, by skipna, and as NumPy's rule without it; -1 where there is nothing but NaN, which NumPy and xarray refuse."""
    rng = np.random.default_rng(2)
    x = rng.integers(0, 5, (9, 8)).astype(dtype)
    if dtype != "int32":
        x[rng.random(x.shape) < 0.4] = np.nan
        x[3] = x[:, 5] = np.nan
    cases = []
    for name in ("argmin", "argmax"):
        for axis in (None, 0, 1):
            skipped = getattr(np, f"nan{name}")(np.where(np.isnan(x).all(axis=axis, keepdims=True), 0, x), axis=axis)
            skipped = np.where(np.isnan(x).all(axis=axis), -1, skipped)
            kept = getattr(np, name)(x, axis=axis)
            for text, wanted in [(f"nan{name}(x, axis={axis})", skipped), (f"{name}(x, axis={axis}, skipna=True)", skipped), (f"{name}(x, axis={axis})", kept)]:
                cases.append(Case(text, {"x": (x, (4, 3))}, expected=wanted))
            if axis is not None:
                cases.append(Case(f"nan{name}(x, axis={axis}, keepdims=True)", {"x": (x, (4, 3))}, expected=np.expand_dims(skipped, axis)))
            cases.append(Case(f"{name}(x, axis={axis}, skipna=False)", {"x": (x, (4, 3))}, expected=kept))
    check(cases)


@pytest.mark.parametrize("expression, names", [
    ("mean(x, skipna=1)", ["skipna", "True"]),
    ("nanmean(x, skipna=True)", ["skipna"]),
    ("nanargmax(x, skipna=True)", ["skipna"]),
    ("any(x, skipna=True)", ["skipna"]),
])  # fmt: skip
def test_bad_skipna(run, expression, names):
    run({"arrays": {"out": expression}}, {"x": np.ones(3)}, check=False).failed(*names)


def test_empty(check):
    x = np.zeros((0, 3))
    check([Case(e, {"x": (x, (1, 2))}) for e in ("sum(x)", "prod(x)", "sum(x, axis=0)", "sum(x, axis=1)", "any(x)", "all(x, axis=0)", "mean(x, axis=1)")])


def test_accumulators_are_wide(check):
    """Sums of small integers do not wrap; sums of many float32 keep their digits."""
    x = np.full((100_000,), 127, "int8")
    y = np.full((300_000,), 0.1, "float32")
    check(
        [
            Case("sum(x)", {"x": (x, (1000,))}),
            Case("sum(y)", {"y": (y, (10_000,))}, expected=np.float32(y.astype("float64").sum()), ulps=8),
            Case("mean(y)", {"y": (y, (10_000,))}, expected=np.float32(y.astype("float64").mean()), ulps=8),
        ]
    )


def test_variance_of_large_offset(check):
    x = 1e8 + values(1, (4000,), "float64", -1, 1)
    check([Case("var(x)", {"x": (x, (37,))}, ulps=1e8), Case("var(x, correction=1)", {"x": (x, (37,))}, ulps=1e8)])


def test_by_dimension_name(run):
    x = values(1, (6, 4, 5), "float64")
    pipeline = {
        "arrays": {
            "a": 'mean(x, dim="time")',
            "b": 'sum(x, dim=["lat", "lon"])',
            "c": 'max(x, dim="lon", keepdims=True)',
            "d": 'x - mean(x, dim="time", keepdims=True)',
            "z": 'mean(x * x, dim="time") - mean(x, dim="time") ** 2',
        }
    }
    out = run(pipeline, {"x": (x, (4, 3, 2), ["time", "lat", "lon"])}).outputs
    assert_close(out["a"], x.mean(0), 16, 64)
    assert_close(out["b"], x.sum((1, 2)), 16, 512)
    assert_close(out["c"], x.max(2, keepdims=True), 0)
    assert_close(out["d"], x - x.mean(0), 16, 64)
    assert_close(out["z"], (x * x).mean(0) - x.mean(0) ** 2, 16, 1024)


def test_many_chunks(check):
    """Several rounds of the reduction tree."""
    x = values(1, (3000,), "float64")
    scale = float(np.abs(x).sum())
    check([Case(f"{n}(x)", {"x": (x, (1,))}, ulps=64, scale=scale) for n in ("sum", "mean", "max", "argmax", "any")])
