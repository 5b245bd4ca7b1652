"""Operations that move data or make it: exact."""

import numpy as np
import pytest
import zarr
from harness import ALL, Case, arrays, assert_close, batches, check_batch, run_in, values
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def move_case(draw):
    name = draw(st.sampled_from(["permute_dims", "flip", "roll", "roll2", "expand_dims", "squeeze", "broadcast_to", "pad", "diff", "reshape", "concat", "stack", "tile", "repeat"]))
    sides = {"min_side": 0, "max_side": 7, "max_dims": 3}
    dtype = ALL
    if name in ("pad", "diff"):
        sides |= {"min_side": 3, "min_dims": 1}
    if name == "diff":
        dtype = ["int32", "int64", "float64"]
    if name in ("roll", "roll2", "flip", "concat", "stack"):
        sides |= {"min_dims": 1}
    if name == "squeeze":
        sides |= {"max_dims": 2}
    x, chunks = draw(arrays(dtype, **sides))
    n = x.ndim
    operands = {"x": (x, chunks)}
    axis = draw(st.integers(-n, n - 1)) if n else 0
    match name:
        case "permute_dims":
            expr = f"permute_dims(x, {draw(st.permutations(range(n)))})"
        case "flip":
            expr = f"flip(x, axis={axis})"
        case "roll":
            expr = f"roll(x, {draw(st.integers(-10, 10))}, axis={axis})"
        case "roll2":
            axes = draw(st.lists(st.integers(0, n - 1), unique=True, min_size=1, max_size=n))
            expr = f"roll(x, {[draw(st.integers(-10, 10)) for _ in axes]}, axis={axes})"
        case "expand_dims":
            expr = f"expand_dims(x, axis={draw(st.integers(-n - 1, n))})"
        case "squeeze":
            where = draw(st.integers(0, n))
            x = np.expand_dims(x, where)
            chunks = (*chunks[:where], 1, *chunks[where:])
            operands = {"x": (x, chunks)}
            expr = f"squeeze(x, axis={where})"
        case "broadcast_to":
            lead = draw(st.lists(st.integers(0, 4), max_size=2))
            expr = f"broadcast_to(x, {[*lead, *x.shape]})"
        case "pad":
            mode = draw(st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap"]))
            widths = [[draw(st.integers(0, 2)), draw(st.integers(0, 2))] for _ in range(n)]
            expr = f'pad(x, {widths}, mode="{mode}")'
        case "diff":
            expr = f"diff(x, axis={axis})"
        case "tile":
            expr = f"tile(x, {draw(st.lists(st.integers(0, 3), min_size=0, max_size=3))})"
        case "repeat":
            where = f", axis={axis}" if n and draw(st.booleans()) else ""
            each = where and draw(st.booleans())
            times = [draw(st.integers(0, 3)) for _ in range(x.shape[axis])] if each else draw(st.integers(0, 4))
            expr = f"repeat(x, {times}{where})"
        case "reshape":
            expr = f"reshape(x, {draw(target_shape(x.shape))})"
        case "concat" | "stack":
            count = draw(st.integers(1, 4))
            names = []
            for i in range(count):
                shape = list(x.shape)
                if name == "concat":
                    shape[axis] = draw(st.integers(0, 6))
                key = "abcd"[i]
                operands[key] = draw(arrays([str(x.dtype)], shape=tuple(shape)))
                names.append(key)
            expr = f"{name}([x, {', '.join(names)}], axis={axis})"
    return Case(expr, operands, ulps=4 if name == "diff" else 0, scale=16 if name == "diff" else 0)


@st.composite
def target_shape(draw, shape):
    """A shape with as many elements: the same factors, merged or split."""
    size = int(np.prod(shape, dtype=int))
    if size == 0:
        return list(shape)[::-1]
    rest, out = size, []
    for _ in range(draw(st.integers(0, 3))):
        divisors = [d for d in range(1, rest + 1) if rest % d == 0]
        out.append(draw(st.sampled_from(divisors)))
        rest //= out[-1]
    out.insert(draw(st.integers(0, len(out))), rest)
    return out


@given(batch=batches(move_case()))
def test_moves(make_folder, batch):
    # Arrays of a batch are renamed x0, a0, …; single letters must not be words of the expressions.
    check_batch(make_folder, batch)


@given(batch=batches(move_case(), size=20))
def test_moves_in_little_memory(make_folder, batch):
    check_batch(make_folder, batch, allowed_mem="150MB")


def test_compositions(check):
    x = values(1, (12, 9), "float64")
    operands = {"x": (x, (5, 4))}
    exprs = [
        "permute_dims(roll(x, 3, axis=0)[::-1], [1, 0])",
        'pad(diff(x, axis=0), [[1, 0], [0, 0]], mode="symmetric")',
        "concat([x, flip(x, axis=0)], axis=0)[5:20]",
        "roll(pad(x, [[2, 2], [0, 0]], mode=\"wrap\"), -2, axis=0)",
        "reshape(permute_dims(x, [1, 0]), [108])",
        "stack([x, x * 2], axis=1)[:, 1, ::2]",
        "expand_dims(x, axis=1) * 2",
        "squeeze(sum(x, axis=0, keepdims=True), axis=0) + x",
        "broadcast_to(x[0], [4, 9]) - 1",
    ]
    check([Case(e, operands, ulps=16, scale=128) for e in exprs])


def test_creation(check):
    one = {"x": (np.zeros(1), (1,))}
    cases = [
        Case("zeros([3, 4])", one), Case("ones([2, 0])", one), Case("full([3], 2.5)", one), Case("arange(7)", one),
        Case("arange(2, 11, 3)", one), Case("linspace(0, 1, 11)", one, ulps=4, scale=1), Case("eye(4)", one),
        Case("arange(5) + ones([3, 5])", one), Case('zeros([2, 2], dtype="int16")', one), Case("full([], 1.5)", one),
    ]  # fmt: skip
    check(cases)


def test_random_does_not_depend_on_chunks_or_budget(run):
    arrays_ = {"r": "random([200, 300], seed=7)", "m": "mean(r)"}
    a = run({"arrays": arrays_}, {}, {"r": {"array": "r", "chunks": [50, 300]}, "m": "m"}).outputs
    b = run({"arrays": arrays_}, {}, {"r": {"array": "r", "chunks": [7, 11]}, "m": "m"}, allowed_mem="150MB").outputs
    np.testing.assert_array_equal(a["r"], b["r"])
    assert 0 <= a["r"].min() and a["r"].max() < 1
    assert len(np.unique(a["r"])) > 59_000 and abs(float(a["r"].mean()) - 0.5) < 0.01
    assert_close(a["m"], a["r"].mean(), 64)


@pytest.mark.parametrize("shape, chunks, expression, wanted", [
    # What a stencil by hand is made of ends on the grid that it began on.
    ((40, 6), (10, 6), "pad(diff(x, axis=0), [[1, 0], [0, 0]])", (10, 6)),
    ((40, 6), (40, 6), "pad(diff(x, axis=0), [[1, 0], [0, 0]])", (40, 6)),
    ((40, 6), (40, 6), "pad(diff(x, axis=0), [[0, 1], [0, 0]])", (40, 6)),
    ((40, 6), (7, 4), "pad(diff(x, axis=1), [[0, 0], [1, 0]])", (7, 4)),
    ((40, 6), (7, 4), "pad(x[1:], [[1, 0], [0, 0]])", (7, 4)),
    ((40, 6), (7, 6), "pad(x, [[0, 0], [2, 2]])", (7, 10)),
    ((40, 6), (7, 6), "roll(x, 3, axis=0)", (7, 6)),
    ((40, 6), (7, 6), "diff(x, axis=0) + x[1:]", (7, 6)),
    ((40, 6), (7, 6), "tile(x, [3, 1])", (7, 6)),
    ((40, 6), (7, 6), "repeat(x, 3, axis=0)", (21, 6)),
])  # fmt: skip
def test_chunks_are_kept(tmp_path_factory, shape, chunks, expression, wanted):
    x = values(1, shape, "float64")
    folder = tmp_path_factory.mktemp("kept")
    run_in(folder, {"arrays": {"y": expression}}, {"x": (x, chunks)})
    assert zarr.open_array(str(folder / "out.zarr/y"), mode="r").chunks == wanted


@pytest.mark.parametrize("expression, names", [
    ("repeat(x, -1, axis=0)", ["negative"]),
    ("repeat(x, [1, 2], axis=0)", ["2 numbers", "4"]),
    ("repeat(x, 10000000000000000000, axis=0)", ["large"]),
    ("tile(x, [5000000000000000000, 10])", ["many"]),
    ("repeat(x, 2, axis=3)", ["axis 3"]),
])  # fmt: skip
def test_bad_repetitions(run, expression, names):
    run({"arrays": {"y": expression}}, {"x": values(1, (4, 3), "int16")}, check=False).failed(*names)


@pytest.mark.parametrize("chunks", [[1, 40], [40, 1], [7, 9], [40, 40]])
def test_rechunk(run, chunks):
    x = values(2, (40, 40), "int32")
    out = run({}, {"x": (x, (13, 3))}, {"y": {"array": "x", "chunks": chunks}})
    np.testing.assert_array_equal(out.outputs["y"], x)
