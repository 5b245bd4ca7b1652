"""Contractions, against NumPy."""

import numpy as np
from harness import COMPLEX, FLOATS, INTEGERS, Case, arrays, batches, check_batch, values
from hypothesis import given
from hypothesis import strategies as st

DTYPES = ["int32", "int64", *FLOATS, "complex128"]


@st.composite
def matmul_case(draw):
    dtype = draw(st.sampled_from(DTYPES))
    m, k, n = (draw(st.integers(0, 9)) for _ in range(3))
    lead = draw(st.sampled_from([(), (2,), (3, 1)]))
    kind = draw(st.sampled_from(["mm", "mv", "vm", "vv", "batch", "transposed"]))
    left, right = {
        "mm": ((m, k), (k, n)),
        "mv": ((m, k), (k,)),
        "vm": ((k,), (k, n)),
        "vv": ((k,), (k,)),
        "batch": ((*lead, m, k), (k, n)),
        "transposed": ((k, m), (k, n)),
    }[kind]
    operands = {"x": draw(arrays(dtype, shape=left)), "y": draw(arrays(dtype, shape=right))}
    expr = "permute_dims(x, [1, 0]) @ y" if kind == "transposed" else draw(st.sampled_from(["x @ y", "matmul(x, y)"]))
    return Case(expr, operands, ulps=16, scale=64.0 * 4 * (k + 1))


@given(batch=batches(matmul_case()))
def test_matmul(make_folder, batch):
    check_batch(make_folder, batch)


def test_larger_products(check):
    cases = []
    for seed, dtype in enumerate(FLOATS + COMPLEX + ["int64"]):
        x, y = values(seed, (130, 97), dtype, -1, 2), values(seed + 9, (97, 61), dtype, -1, 2)
        cases.append(Case("x @ y", {"x": (x, (40, 30)), "y": (y, (50, 17))}, ulps=64, scale=800))
        cases.append(Case("permute_dims(x, [1, 0]) @ x", {"x": (x, (40, 97))}, ulps=64, scale=1000))
    square = {"x": (values(1, (50, 70), "float64"), (11, 13))}
    cases.append(Case("x @ permute_dims(x, [1, 0])", square, ulps=64, scale=5000))
    check(cases)


def test_other_contractions(check):
    x, y = values(1, (4, 5, 6), "float64"), values(2, (5, 6, 3), "float64")
    v, w = values(3, (7,), "float64"), values(4, (5,), "float64")
    a, b = values(5, (8, 9), "float64"), values(6, (8, 9), "float64")
    both = {"x": (x, (3, 2, 4)), "y": (y, (2, 5, 2))}
    cases = [
        Case("tensordot(x, y, axes=2)", both), Case("tensordot(x, y, axes=[[1, 2], [0, 1]])", both),
        Case("tensordot(x, y, axes=0)", both), Case("outer(v, w)", {"v": (v, (3,)), "w": (w, (2,))}),
        Case("vecdot(a, b)", {"a": (a, (3, 4)), "b": (b, (5, 2))}), Case("vecdot(a, b, axis=0)", {"a": (a, (3, 4)), "b": (b, (5, 2))}),
        Case('einsum("ij,ij->i", a, b)', {"a": (a, (3, 4)), "b": (b, (5, 2))}),
        Case('einsum("ijk,jkl->il", x, y)', both), Case('einsum("ij,kj->ik", a, b)', {"a": (a, (3, 4)), "b": (b, (5, 2))}),
        Case('einsum("ij->ji", a)', {"a": (a, (3, 4))}), Case('einsum("ij->", a)', {"a": (a, (3, 4))}),
    ]  # fmt: skip
    for case in cases:
        case.ulps, case.scale = 64, 64.0 * 100
    check(cases)


def test_complex_vecdot_conjugates(check):
    a, b = values(1, (4, 6), "complex128"), values(2, (4, 6), "complex128")
    check([Case("vecdot(a, b)", {"a": (a, (3, 2)), "b": (b, (1, 6))}, ulps=64, scale=6000)])


def test_integers_are_exact(check):
    cases = []
    for seed, dtype in enumerate(INTEGERS):
        x, y = values(seed, (20, 30), dtype), values(seed + 50, (30, 10), dtype)
        cases.append(Case("x @ y", {"x": (x, (7, 11)), "y": (y, (8, 3))}))
    big = np.array([[2**53 + 1, 1], [3, 2**60]], "int64")
    cases.append(Case("x @ y", {"x": (big, (1, 1)), "y": (np.eye(2, dtype="int64"), (2, 1))}))
    check(cases)


def test_fused_operands(check):
    x, y = values(1, (30, 20), "float64"), values(2, (20, 25), "float64")
    both = {"x": (x, (8, 7)), "y": (y, (6, 9))}
    exprs = ["(x * 2 + 1) @ (y - 1)", "sqrt(abs(x)) @ y[:, ::-1]", "sum(x @ y, axis=0)", "(x @ y) - mean(x @ y)", "x[::2] @ y"]
    check([Case(e, both, ulps=64, scale=64 * 9 * 20 * 30) for e in exprs])
