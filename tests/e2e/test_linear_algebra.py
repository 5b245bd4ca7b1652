"""Contractions, against NumPy."""

import numpy as np
import pytest
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


EINSUMS = [
    # Subscripts and the letters of the operands' shapes (z has length 1).
    ("ij,jk->ik", ["ij", "jk"]), ("ij,jk", ["ij", "jk"]), ("ji,jk->ki", ["ji", "jk"]), ("tij,tjk->tik", ["tij", "tjk"]),
    ("tij,jk->kti", ["tij", "jk"]), ("ij,ij->", ["ij", "ij"]), ("ij,ij->ij", ["ij", "ij"]), ("i,j->ji", ["i", "j"]),
    ("i,i", ["i", "i"]), ("i,i->i", ["i", "i"]), ("ijk->ki", ["ijk"]), ("kij", ["kij"]), ("ij->", ["ij"]),
    ("ij,jk,kl->il", ["ij", "jk", "kl"]), ("i,ij,j->", ["i", "ij", "j"]), ("ij,kl,jl->ik", ["ij", "kl", "jl"]),
    ("ai,bi,ci,i->abc", ["ai", "bi", "ci", "i"]), ("ij,kl->il", ["ij", "kl"]), ("ii->i", ["ii"]), ("ii", ["ii"]),
    ("iji->j", ["iji"]), ("ii,ij->j", ["ii", "ij"]), ("...ij,...jk->...ik", ["tij", "jk"]), ("i...->...", ["ijk"]),
    ("...i", ["jti"]), ("zj,ij->ij", ["zj", "ij"]), ("ij,jk->ik", ["ij", "zk"]), (" i j , j k -> k i ", ["ij", "jk"]),
]  # fmt: skip


@st.composite
def einsum_case(draw):
    subscripts, shapes = draw(st.sampled_from(EINSUMS))
    sides = {letter: draw(st.integers(0, 6)) for letter in "abcdijklt"} | {"z": 1}
    dtypes = draw(st.sampled_from([["float64"], ["float32"], ["int8", "int64"], ["complex64"], ["bool"], ["float32", "int32"]]))
    operands = {}
    for k, letters in enumerate(shapes):
        shape = tuple(sides[letter] for letter in letters)
        operands["pqrs"[k]] = draw(arrays(dtypes, shape=shape, low=-2, high=3))
    return Case(f'einsum("{subscripts.upper()}", {", ".join(operands)})', operands, ulps=64, scale=64.0 * 4**4 * 7**3)


@given(batch=batches(einsum_case()))
def test_einsum(make_folder, batch):
    check_batch(make_folder, batch)


def test_einsum_larger(check):
    x, y, z = values(1, (60, 70), "float64"), values(2, (70, 50), "float64"), values(3, (50, 40), "float64")
    p = {"x": (x, (16, 30)), "y": (y, (20, 50)), "z": (z, (7, 11))}
    exprs = ['einsum("ij,jk,kl->il", x, y, z)', 'einsum("ij,jk->", x, y - 1)', 'einsum("ij,kj->ik", x, x) + 1', 'einsum("ij,jk->ik", x[::2], y)']
    check([Case(e, p, ulps=64, scale=64.0 * 8**3 * 4000) for e in exprs])


@pytest.mark.parametrize("expression, names", [
    ('einsum("ij,jk", x)', ["2 arrays", "1 are given"]),
    ('einsum("i", x)', ["2 axes"]),
    ('einsum("ij,ij->ik", x, x)', ["'k'"]),
    ('einsum("ij->ii", x)', ["twice"]),
    ('einsum("ij,ji->i", x, x)', ["lengths"]),
    ('einsum("ij1", x)', ["'1'"]),
    ('einsum("...->", x)', ["..."]),
    ('einsum("ii", x)', ["lengths"]),
    ("einsum(x, x)", ["text"]),
    ('einsum(subscripts="ij")', ["0 are given"]),
])  # fmt: skip
def test_bad_einsum(run, expression, names):
    x = values(1, (4, 5), "float64")
    run({"arrays": {"out": expression}}, {"x": x}, check=False).failed(*names)


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


def conditioned(seed, m, n, dtype, condition):
    """A matrix with singular values from 1 to 1 / condition."""
    rng = np.random.default_rng(seed)
    u, _ = np.linalg.qr(rng.standard_normal((m, n)))
    v, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return ((u * np.geomspace(1, 1 / condition, n)) @ v.T).astype(dtype)


QR_CASES = [
    (1, 1, (1, 1)), (5, 5, (2, 3)), (40, 7, (40, 7)), (200, 16, (16, 16)), (200, 16, (7, 5)), (333, 10, (50, 4)), (64, 64, (9, 64)),
    (300000, 8, (30000, 8)), (40000, 50, (7000, 20)), (30000, 120, (500, 120)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("condition", [1e1, 1e12])
def test_qr(run, dtype, condition):
    for seed, (m, n, chunks) in enumerate(QR_CASES):
        a = conditioned(seed, m, n, dtype, condition)
        outputs = run({"arrays": {"q": "qr_q(a)", "r": "qr_r(a)"}}, {"a": (a, chunks)}).outputs
        q, r = outputs["q"], outputs["r"]
        assert q.dtype == r.dtype == a.dtype and q.shape == (m, n) and r.shape == (n, n)
        eps = np.finfo(dtype).eps
        q, r, a = q.astype("f8"), r.astype("f8"), a.astype("f8")
        size = np.linalg.norm(a)
        assert np.abs(q.T @ q - np.eye(n)).max() < 30 * n * eps, (m, n, chunks)
        assert np.linalg.norm(q @ r - a) < 30 * n * eps * size, (m, n, chunks)
        assert (np.diag(r) >= 0).all() and (np.tril(r, -1) == 0).all()
        if condition < 100:
            want = np.linalg.qr(a, mode="r")
            want *= np.where(np.diag(want) < 0, -1, 1)[:, None]
            assert np.abs(r - want).max() < 100 * n * eps * size * condition, (m, n, chunks)


def test_what_qr_refuses(run):
    x = np.ones((3, 4))
    refused = [
        ("qr_q(x)", x, "at least as many rows"),
        ("qr_r(x[0])", x, "a matrix is needed"),
        ("qr_q(x)", np.ones((4, 3), "complex128"), "not supported"),
    ]
    for expr, values_of_x, why in refused:
        run({"arrays": {"y": expr}}, {"x": values_of_x}, check=False).failed(why)
    done = run({"arrays": {"r": "qr_r(x)"}}, {"x": np.arange(12).reshape(4, 3)})
    assert done.outputs["r"].dtype == np.float64
