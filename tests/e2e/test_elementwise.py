"""Element-wise functions and operators, promotion, scalars and broadcasting, against NumPy."""

import numpy as np
import pytest
from harness import ALL, COMPLEX, FLOATS, INTEGERS, NUMERIC, SIGNED, Case, arrays, batches, check_batch, chunks_for, values
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes

SHAPE, CHUNKS = (5, 7), (2, 3)

# name: (low, high) of the arguments
REAL_UNARY = {
    "acos": (-1, 1), "acosh": (1, 9), "asin": (-1, 1), "asinh": (-9, 9), "atan": (-9, 9), "atanh": (-0.9, 0.9),
    "ceil": (-9, 9), "cos": (-9, 9), "cosh": (-5, 5), "exp": (-9, 9), "expm1": (-2, 2), "floor": (-9, 9),
    "log": (0.01, 9), "log10": (0.01, 9), "log1p": (-0.9, 9), "log2": (0.01, 9), "reciprocal": (0.1, 9),
    "round": (-9, 9), "sign": (-9, 9), "sin": (-9, 9), "sinh": (-5, 5), "sqrt": (0, 9), "tan": (-1.5, 1.5),
    "tanh": (-3, 3), "trunc": (-9, 9), "abs": (-9, 9), "negative": (-9, 9), "positive": (-9, 9), "square": (-9, 9),
}  # fmt: skip
REAL_BINARY = ["atan2", "copysign", "hypot", "maximum", "minimum", "nextafter"]
COMPARE = ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"]


@pytest.mark.parametrize("dtype", FLOATS)
def test_real_unary(check, dtype):
    cases = []
    for seed, (name, (low, high)) in enumerate(REAL_UNARY.items()):
        x = values(seed, SHAPE, dtype, low, high)
        cases.append(Case(f"{name}(x)", {"x": (x, CHUNKS)}, ulps=4, scale=1e-3))
    check(cases)


@pytest.mark.parametrize("dtype", FLOATS)
def test_special_values(check, dtype):
    x = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.5, -2.5, 1e-30, 1e30], dtype)
    y = np.resize(np.array([1.0, 0.0, np.nan, -2.0, np.inf], dtype), x.shape)
    unary = [*REAL_UNARY, "isfinite", "isinf", "isnan", "signbit"]
    unary.remove("tan")  # no accuracy is promised for tan(1e30)
    for name in ("sin", "cos"):
        unary.remove(name)
    cases = [Case(f"{name}(x)", {"x": (x, (4,))}, ulps=4) for name in unary]
    binary = [*REAL_BINARY, *COMPARE, "add", "subtract", "multiply", "divide"]
    cases += [Case(f"{name}(x, y)", {"x": (x, (4,)), "y": (y, (5,))}, ulps=4) for name in binary]
    check(cases)


@pytest.mark.parametrize("dtype", FLOATS)
def test_real_binary(check, dtype):
    x, y = values(1, SHAPE, dtype), values(2, SHAPE, dtype)
    y[y == 0] = 1
    pair = {"x": (x, CHUNKS), "y": (y, (4, 2))}
    names = [*REAL_BINARY, *COMPARE, "add", "subtract", "multiply", "divide", "floor_divide"]
    cases = [Case(f"{name}(x, y)", pair) for name in names]
    cases += [Case(e, pair) for e in ("x + y", "x - y", "x * y", "x / y", "x // y", "-x", "+x", "abs(x)", "x > y", "x != y")]
    cases.append(Case("x % y", pair, scale=16))
    cases.append(Case("remainder(x, y)", pair, scale=16))
    cases.append(Case("logaddexp(x, y)", pair, scale=8))
    cases.append(Case("abs(x) ** y", pair, ulps=8))
    cases.append(Case("pow(abs(x), y)", pair, ulps=8))
    check(cases)


def test_integers(check):
    cases = []
    for seed, dtype in enumerate(INTEGERS):
        x, y = values(seed, SHAPE, dtype), values(seed + 100, SHAPE, dtype, 1, 5)
        pair = {"x": (x, CHUNKS), "y": (y, (3, 3))}
        for e in (
            "x + y", "x - y", "x * y", "x // y", "x % y", "x ** y", "x & y", "x | y", "x ^ y", "~x", "x << y", "x >> y",
            "maximum(x, y)", "minimum(x, y)", "square(x)", "sign(x)", "abs(x)", "x == y", "x < y", "floor(x)", "round(x)",
        ):  # fmt: skip
            cases.append(Case(e, pair))
        if dtype in SIGNED:
            cases += [Case("-x", pair), Case("x // -y", pair), Case("x % -y", pair)]
    for start in range(0, len(cases), 60):
        check(cases[start : start + 60])


def test_integers_wrap(check):
    cases = []
    for dtype in INTEGERS:
        info = np.iinfo(dtype)
        x = np.array([info.min, info.max, info.max - 1, 1, 0], dtype)
        for e in ("x + x", "x * x", "x - x[::-1]"):
            cases.append(Case(e, {"x": (x, (2,))}))
    check(cases)


def test_large_integers_stay_exact(check):
    x = np.array([2**53 + 1, -(2**53) - 1, 2**62 + 3], "int64")
    y = np.array([2**64 - 1, 2**63 + 1, 2**53 + 1], "uint64")
    both = {"x": (x, (2,)), "y": (y, (2,))}
    check([Case(e, both) for e in ("x + 1", "x // 3", "x % 10", "y - 1", "y // 3", "y > 1", "maximum(x, 5)", "y % 10", "x == x")])


def test_bool(check):
    x, y = values(1, SHAPE, "bool"), values(2, SHAPE, "bool")
    pair = {"x": (x, CHUNKS), "y": (y, (4, 4))}
    exprs = ["x & y", "x | y", "x ^ y", "~x", "logical_and(x, y)", "logical_or(x, y)", "logical_xor(x, y)", "logical_not(x)"]
    check([Case(e, pair) for e in [*exprs, "x == y", "x != y"]])


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex(check, dtype):
    x, y = values(1, SHAPE, dtype), values(2, SHAPE, dtype, 1, 4)
    pair = {"x": (x, CHUNKS), "y": (y, (3, 5))}
    exact = ["conj(x)", "real(x)", "imag(x)", "-x", "x == y", "x != x", "isnan(x)", "isfinite(x)"]
    rough = ["x + y", "x - y", "x * y", "x / y", "abs(x)", "square(x)", "sqrt(x)", "exp(y)", "log(y)", "x * 2j + 1", "2.0 * x"]
    check([Case(e, pair, ulps=0) for e in exact] + [Case(e, pair, ulps=16, scale=16) for e in rough])


def test_promotion(check):
    """Every pair of dtypes that the Array API standard gives a common type."""
    cases = []
    groups = [INTEGERS, FLOATS + COMPLEX]
    for group in groups:
        for a in group:
            for b in group:
                if {a, b} & {"uint64"} and {a, b} & set(SIGNED):
                    continue  # no common integer type
                x, y = values(1, (3,), a, 0, 5), values(2, (3,), b, 0, 5)
                cases.append(Case("x + y", {"x": (x, (2,)), "y": (y, (3,))}, ulps=4))
    for start in range(0, len(cases), 50):
        check(cases[start : start + 50])


def test_python_scalars_do_not_widen(check):
    cases = []
    for dtype in NUMERIC:
        x = values(3, (4,), dtype, 1, 6)
        cases += [Case(e, {"x": (x, (3,))}) for e in ("x + 1", "2 * x", "x * 3 - 1", "x > 2" if dtype not in COMPLEX else "x == 2")]
        if dtype in FLOATS + COMPLEX:
            cases += [Case(e, {"x": (x, (3,))}, ulps=4) for e in ("x * 0.5", "1.5 + x", "1 / x", "x ** 2")]
    check(cases)


def test_where_and_clip(check):
    cases = []
    for dtype in ALL:
        c, x, y = values(1, SHAPE, "bool"), values(2, SHAPE, dtype), values(3, SHAPE, dtype)
        cases.append(Case("where(c, x, y)", {"c": (c, (1, 7)), "x": (x, CHUNKS), "y": (y, (5, 1))}, ulps=0))
        if dtype in INTEGERS + FLOATS:
            cases.append(Case("clip(x, 1, 4)", {"x": (x, CHUNKS)}, ulps=0))
            cases.append(Case("where(x > 3, x, 0)", {"x": (x, CHUNKS)}, ulps=0))
    check(cases)


def test_astype(check):
    cases = []
    for a in ALL:
        for b in ALL:
            if a in COMPLEX and b not in COMPLEX:
                continue
            cases.append(Case(f'astype(x, "{b}")', {"x": (values(4, (6,), a, 0, 6), (4,))}, ulps=1))
    for start in range(0, len(cases), 60):
        check(cases[start : start + 60])


@st.composite
def broadcast_case(draw):
    dtype = draw(st.sampled_from(["int32", "int64", "float32", "float64"]))
    drawn = draw(mutually_broadcastable_shapes(num_shapes=3, min_dims=0, max_dims=4, min_side=0, max_side=6))
    operands = {}
    for name, shape in zip("xyz", drawn.input_shapes, strict=True):
        operands[name] = draw(arrays(dtype, shape=shape))
    expr = draw(st.sampled_from(["x + y * z", "(x - y) * z", "where(x > y, x, z)", "maximum(x, y) - z", "x * x + y * y + z * 2"]))
    return Case(expr, operands, ulps=4, scale=256)


@given(batch=batches(broadcast_case()))
def test_broadcasting(make_folder, batch):
    check_batch(make_folder, batch)


@st.composite
def chain_case(draw):
    x = draw(arrays(FLOATS, max_dims=4))
    y = x[0] * 0 + 2, draw(chunks_for(x[0].shape))
    expr = "x"
    for _ in range(draw(st.integers(3, 12))):
        expr = draw(st.sampled_from(["abs({})", "sqrt(abs({}))", "({} + y)", "({} * 0.5)", "minimum({}, y)", "({} - 1)", "tanh({})"])).format(expr)
    return Case(expr, {"x": x, "y": y}, ulps=64, scale=64)


@given(batch=batches(chain_case(), size=30))
def test_long_chains(make_folder, batch):
    check_batch(make_folder, batch)
