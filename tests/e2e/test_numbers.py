"""Numbers that are written in expressions, and the limits of dtypes, against NumPy 2: values are equal, or both refuse."""

import re
import warnings

import numpy as np
import pytest
from harness import ALL, COMPLEX, FLOATS, INTEGERS, SIGNED, UNSIGNED, Case, check_batch, run_in
from hypothesis import given
from hypothesis import strategies as st

U = np.arange(6, dtype="uint8")
I = np.array([-3, -1, 0, 1, 2, 5], dtype="int64")  # noqa: E741
X = {"u": (U, (4,)), "i": (I, (4,)), "f": (np.linspace(-2, 2, 6, dtype="float32"), (4,)), "b": (U > 2, (4,))}


def used(expression):
    return {name: value for name, value in X.items() if re.search(rf"\b{name}\b", expression)}


EQUAL = [
    "u > -1", "u >= -1", "u < -1", "u <= -1", "u == -1", "u != -1", "u < 256", "u <= 256", "u > 256", "u >= 256", "u == 256", "u != 256",
    "-1 < u", "256 > u", "300 == u", "i < 2**63", "i > -2**63 - 1", "i == 2**64", "b < 2", "b > -1", "i < 99999999999999999999",
    "clip(u, -5, 300)", "clip(u, -5, 3)", "clip(u, 2, 300)", "clip(u, 0, 3.5)", "clip(i, -2**70, 2**70)", "where(u > 3, u, 255)",
    "where(u > 3, u, 2.5)", "where(u > 3, 300, -1)", "where(u > 3, u, nan)", "u + 255", "u / 300", "u * 2.5", "u + True", "u - True", "u + 1j", "b + 1", "b - 1",
    "b << 1", "b ** 2", "b ** 3", "b // 2", "u // 0", "u % 0", "i // 0", "i % 0", "u << 8", "u << 9", "i >> 64", "i << -1", "i >> -1", "u ** 2.0", "u & 255",
    "logical_and(u, 300)", "logical_or(u, -1)", "f + 1e300", "f * 1e-300", "f > 1e300", "f + 2**100", "i == 1.5", "i < 1e30", "2 ** u", "f ** -2",
    "u == nan", "u < inf", "full([2], 255, dtype=\"uint8\")", "full([2], 2**63)", "full([2], 1e300, dtype=\"float32\")", "arange(3, dtype=\"int8\")",
    "arange(5, -4, -2)", "arange(0, 2.5, 0.5)", "pad(u, [[1, 1]]) + 0", "u + 7 // 2", "u + 7 % 4", "u * (1 + True)", "u + (3 > 2)",
    "u + (6 ^ 3)", "u + 2 ** -1", "f + (7 // 2)", "u + ~-4", "f * (1j ** 2)", "u + -7 // 2 * -1",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_that_fit(check):
    check([Case(expression, used(expression)) for expression in EQUAL])


REFUSED = [
    ("u + 300", ["300", "uint8", "0 to 255", "astype(x, \"int16\")"]),
    ("u * -1", ["-1", "uint8", "int16"]),
    ("-1 + u", ["-1", "uint8"]),
    ("maximum(u, -1)", ["maximum", "-1"]),
    ("minimum(u, 300)", ["minimum", "300"]),
    ("clip(u, 300, None)", ["300", "uint8"]),
    ("clip(u, None, -1)", ["-1", "uint8"]),
    ("where(u > 3, u, -999)", ["-999", "uint8", "0 to 255", "int16"]),
    ("i + 99999999999999999999", ["99999999999999999999", "int64", "9223372036854775807", "float64"]),
    ("i + 2**63", ["9223372036854775808", "int64"]),
    ("u << 300", ["300", "uint8"]),
    ("u & -1", ["-1", "uint8"]),
    ("u // -1", ["-1", "uint8"]),
    ("u % 256", ["256", "uint8"]),
    ("b + 2**63", ["9223372036854775808", "int64"]),
    ("full([2], 300, dtype=\"uint8\")", ["300", "uint8", "int16"]),
    ("full([2], -1, dtype=\"uint64\")", ["-1", "uint64"]),
    ("full([2], 2**64)", ["18446744073709551616"]),
    ("full([2], 2.5, dtype=\"int32\")", ["2.5", "whole number", "int32"]),
    ("full([2], nan, dtype=\"int32\")", ["nan", "int32", "float64"]),
    ("full([2], 2j, dtype=\"float32\")", ["complex", "float32", "complex64"]),
    ("full([2], 2, dtype=\"bool\")", ["2", "bool"]),
    ("pad(u, [[1, 1]], value=-1)", ["-1", "uint8", "int16"]),
    ("pad(i, [[1, 1]], value=nan)", ["nan", "int64", "float64"]),
    ("pad(u, [[1, 1]], value=0.5)", ["0.5", "whole", "uint8"]),
    ("pad(f, [[1, 1]], value=1j)", ["complex", "float32"]),
    ("moving_max(u, 3, mode=\"constant\", value=256)", ["256", "uint8"]),
    ("moving_sum(i, 3, mode=\"constant\", value=nan)", ["nan", "int64"]),
    ("arange(0, 300, 100, dtype=\"int8\")", ["200", "int8"]),
    ("arange(-1, 3, dtype=\"uint8\")", ["-1", "uint8"]),
    ("arange(0, 3, 0.5, dtype=\"int32\")", ["0.5", "whole"]),
    ("arange(0, 3j)", ["complex"]),
    ("arange(0, 2**65, 2**63)", ["uint64"]),
    ("linspace(0, 1, 2.5)", ["num"]),
    ("roll(u, 1.5)", ["shift"]),
    ("zeros([2, 1.5])", ["shape"]),
    ("random([3], seed=-1)", ["seed"]),
    ("random([3], dtype=\"int32\")", ["int32"]),
    ("i ** -1", ["negative integer powers", "-1.0"]),
    ("u ** -1", ["negative integer powers"]),
    ("b ** -1", ["negative integer powers"]),
    ("2 ** i", ["negative integer powers", "float64"]),
    ("i ** i", ["negative integer powers", "float64"]),
    ("u ** 300", ["300", "uint8"]),
    ("u + 10 ** 400", ["128 bits"]),
    ("u + 1 // 0", ["division by zero"]),
    ("f + 1 / 0", ["division by zero", "inf"]),
    ("f + 1.0 % 0", ["division by zero"]),
    ("u + (1 << -1)", ["shift"]),
    ("u + (1.0 & 1)", ["integers"]),
    ("u + (1j < 2)", ["complex"]),
    ("b - True", ["bool"]),
    ("var(f, correction=nan)", ["correction"]),
    ("var(f, correction=1j)", ["correction"]),
]  # fmt: skip


@pytest.mark.parametrize("expression, names", REFUSED)
def test_numbers_that_do_not_fit(run, expression, names):
    run({"arrays": {"out": expression}}, X, check=False).failed(*names)


def test_floats_and_bool_that_are_whole_fit_integers(check):
    check([
        Case("full([2], 2.0, dtype=\"int8\")", {"u": X["u"]}, expected=np.full(2, 2, "int8")),
        Case("full([2], 1, dtype=\"bool\")", {"u": X["u"]}, expected=np.full(2, True)),
        Case("pad(u, [[1, 0]], value=7.0)", {"u": X["u"]}, expected=np.pad(U, (1, 0), constant_values=7)),
        Case("pad(b, [[1, 0]], value=1)", {"b": X["b"]}, expected=np.pad(U > 2, (1, 0), constant_values=True)),
        Case("arange(2**63, 2**63 + 2)", {"u": X["u"]}, expected=np.array([2**63, 2**63 + 1], "uint64")),
        Case("linspace(0, 2j, 3)", {"u": X["u"]}, expected=np.linspace(0, 2j, 3)),
    ])  # fmt: skip


def test_comparisons_beyond_the_range_keep_names_and_chunks(run):
    x = np.arange(24, dtype="uint8").reshape(4, 6)
    done = run({"arrays": {"a": "sum(x > -1, dim=\"t\")", "b": "any(x == 256, dim=\"y\")"}}, {"x": (x, (2, 3), ["t", "y"])})
    assert done.outputs["a"].tolist() == [4] * 6 and not done.outputs["b"].any()


# Every dtype, operator and literal

OPERATORS = ["+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "==", "!=", "<", "<=", ">", ">="]
EDGES = [p + d for p in (0, 127, 128, 255, 256, 2**15, 2**16, 2**31, 2**32, 2**53, 2**63, 2**64) for d in (-1, 0, 1)]
LITERALS = [repr(v) for v in sorted({*EDGES, *(-v for v in EDGES), 2, 3, 7, -2, -7, 10**30})]
LITERALS += ["True", "False", "0.5", "-2.5", "3.0", "1e300", "-1e300", "1e-300", "inf", "-inf", "nan", "1j", "(2-3j)"]


def sample(dtype):
    """The limits of a dtype and what lies around 0."""
    if dtype == "bool":
        return np.array([True, False])
    if dtype in INTEGERS:
        info = np.iinfo(dtype)
        return np.array(sorted({info.min, info.max, info.max - 1, *(v for v in (-3, -1, 0, 1, 2, 7, 100) if v >= info.min)}), dtype)
    real = np.array([0, -0.0, 1, -1, 2.5, -2.5, 1e10, np.inf, -np.inf, np.nan], dtype)
    return real if dtype in FLOATS else real[:7] + 1j * np.roll(real[:7], 1).astype(dtype)


@st.composite
def literal_case(draw):
    dtype, literal = draw(st.sampled_from(ALL)), draw(st.sampled_from(LITERALS))
    x = sample(dtype)
    form = draw(st.sampled_from(["operator", "operator", "operator", "maximum", "minimum", "where", "clip"]))
    if form == "operator":
        operator = draw(st.sampled_from(OPERATORS))
        left, right = draw(st.permutations(["x", f"({literal})"]))
        expr = f"{left} {operator} {right}"
    elif form == "where":
        expr = f"where(x == x, x, {literal})"
    elif form == "clip":
        expr = f"clip(x, {literal}, {draw(st.sampled_from(LITERALS + ['None']))})"
    else:
        expr = f"{form}(x, {literal})"
    return expr, x


def deliberate(expr, x):
    """What differs from NumPy on purpose (docs/numbers.md), or has no promised value."""
    complex_ = x.dtype.kind == "c" or "j" in expr
    # Complex numbers have no order in the standard; NumPy compares their parts.
    if complex_ and any(o in expr for o in ("<", ">", "imum", "clip")):
        return True
    # NumPy refuses to compare bool with what int64 does not hold; the answer is exact here, as of integers.
    if x.dtype == bool and any(f" {o} " in expr for o in OPERATORS[12:]):
        return True
    # Products, quotients and powers of infinite complex numbers depend on the order of the operations.
    return complex_ and any(w in expr for w in ("**", "inf", "nan", "e300", "e-300", "/", "*"))


def numpy_says(expr, x):
    names = {"x": x, "nan": np.nan, "inf": np.inf, "where": np.where, "clip": np.clip, "maximum": np.maximum, "minimum": np.minimum}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return np.asarray(eval(expr, names))  # noqa: S307
        except (TypeError, ValueError, OverflowError, ZeroDivisionError):
            return None


@given(drawn=st.lists(literal_case(), min_size=80, max_size=80))
def test_every_literal_as_in_numpy(make_folder, drawn):
    cases, refused = [], []
    for expr, x in drawn:
        expected = None if deliberate(expr, x) else numpy_says(expr, x)
        if deliberate(expr, x) or (expected is not None and expected.dtype == object):
            continue
        if expected is None:
            refused.append((expr, x))
        else:
            cases.append(Case(expr, {"x": (x, (3,))}, ulps=8, expected=expected))
    if cases:
        check_batch(make_folder, cases, modes=[("500MB", {})])
    for expr, x in refused:
        done = run_in(make_folder(), {"arrays": {"out": expr}}, {"x": (x, (3,))}, check=False)
        assert done.code != 0, f"{expr} of {x.dtype} is refused by NumPy: {done.outputs}"
        done.failed()


def test_integer_functions_at_the_limits(check):
    """Array arithmetic wraps, as in NumPy."""
    cases = []
    for dtype in INTEGERS:
        x, y = sample(dtype), sample(dtype)[::-1].copy()
        pair = {"x": (x, (3,)), "y": (y, (4,))}
        cases += [Case(e, pair) for e in ("x + y", "x - y", "x * y", "x // y", "x % y", "x << y", "x >> y", "-x", "abs(x)", "x ** 3", "x // 0", "x % 0")]
        if dtype in UNSIGNED:
            cases.append(Case("x ** y", pair))
        if dtype in SIGNED:
            cases.append(Case("x ** abs(astype(x, \"int8\") // 64)", {"x": (x, (3,))}))
    check(cases)


COMPLEX_FUNCTIONS = [
    "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "square", "sin", "cos", "tan", "sinh", "cosh", "tanh", "asin", "acos", "atan", "asinh", "acosh",
    "atanh", "sign", "abs", "negative", "conj", "reciprocal", "isinf", "isnan", "isfinite",
]  # fmt: skip


def parts(z):
    return np.stack([np.real(z), np.imag(z)])


@pytest.mark.parametrize("dtype", COMPLEX)
def test_complex_functions_of_infinite_arguments(run, dtype):
    """Annex G of C99, part by part."""
    edges = [0.0, -0.0, 0.5, -1.5, np.inf, -np.inf, np.nan]
    z = np.array([complex(re, im) for re in edges for im in edges], dtype)
    arrays = {name: f"{name}(z)" for name in COMPLEX_FUNCTIONS}
    out = run({"arrays": arrays}, {"z": (z, (20,))}).outputs
    aliases = {f"a{n}": f"arc{n}" for n in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
    problems = []
    for name in COMPLEX_FUNCTIONS:
        with np.errstate(all="ignore"):
            expected = parts(getattr(np, aliases.get(name, name))(z))
        actual = parts(out[name])
        close = np.isclose(actual, expected, rtol=1e-5 if dtype == "complex64" else 1e-12, atol=1e-6 if dtype == "complex64" else 1e-13, equal_nan=True)
        problems += [f"{name}({z[k]}) = {out[name][k]}, NumPy: {complex(*expected[:, k])}" for k in range(len(z)) if not close[:, k].all()
                     and not (name == "reciprocal" and z[k] == 0)]  # 1 / 0j here, which NumPy has as another number than its reciprocal
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("dtype, big", [("complex64", 100), ("complex128", 720)])
def test_complex_functions_of_large_arguments(check, dtype, big):
    z = np.array([complex(re, im) for re in (-big, -0.5, big) for im in (-big, 0.25, big)], dtype)
    names = {"exp": "exp", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "tan": "tan", "sqrt": "sqrt", "asinh": "arcsinh", "acosh": "arccosh", "atan": "arctan"}
    with np.errstate(all="ignore"):
        check([Case(f"{name}(z)", {"z": (z, (4,))}, ulps=1000, expected=getattr(np, numpy)(z)) for name, numpy in names.items()])
        huge = z * np.dtype(dtype).type(1e20)
        names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "log": "log", "sqrt": "sqrt"}
        check([Case(f"{name}(z)", {"z": (huge, (4,))}, ulps=16, expected=getattr(np, numpy)(huge)) for name, numpy in names.items()])
