"""Basic indexing and `take`, against NumPy: data movement, so exact."""

import numpy as np
import pytest
from harness import ALL, Case, arrays, assert_close, batches, check_batch, values
from hypothesis import given
from hypothesis import strategies as st


@st.composite
def slice_text(draw, n):
    bound = st.one_of(st.just(""), st.integers(-n - 2, n + 2).map(str))
    step = draw(st.sampled_from(["", ":1", ":2", ":3", ":-1", ":-2", ":-3", f":{n + 1}", f":-{n + 1}"]))
    return f"{draw(bound)}:{draw(bound)}{step}"


@st.composite
def index_case(draw):
    x, chunks = draw(arrays(ALL, max_side=9))
    items = []
    axes = list(range(x.ndim))
    used = draw(st.integers(0, x.ndim))
    ellipsis = draw(st.integers(0, used)) if draw(st.booleans()) or used == 0 else None
    picked = axes[:used] if ellipsis is None else axes[:ellipsis] + axes[x.ndim - (used - ellipsis) :]
    for position, axis in enumerate(picked):
        if position == ellipsis:
            items.append("...")
        n = x.shape[axis]
        kind = draw(st.sampled_from(["slice", "slice", "slice", "int"]))
        items.append(str(draw(st.integers(-n, n - 1))) if kind == "int" and n > 0 else draw(slice_text(n)))
        if draw(st.integers(0, 5)) == 0:
            items.append("None")
    if ellipsis is not None and "..." not in items:
        items.append("...")
    return Case(f"x[{', '.join(items)}]", {"x": (x, chunks)}, ulps=0)


@given(batch=batches(index_case()))
def test_basic_indexing(make_folder, batch):
    check_batch(make_folder, batch)


@st.composite
def twice_case(draw):
    """A slice of a slice: the regions must compose."""
    x, chunks = draw(arrays("int32", min_dims=1, max_dims=2, min_side=1, max_side=20))
    first, second = draw(slice_text(x.shape[0])), draw(slice_text(x.shape[0]))
    return Case(f"x[{first}][{second}]", {"x": (x, chunks)}, ulps=0)


@given(batch=batches(twice_case()))
def test_slices_of_slices(make_folder, batch):
    check_batch(make_folder, batch)


@st.composite
def take_case(draw):
    x, chunks = draw(arrays(ALL, min_dims=1, max_dims=3, min_side=1, max_side=9))
    axis = draw(st.integers(0, x.ndim - 1))
    n = x.shape[axis]
    picks = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=12))
    return Case(f"take(x, {picks}, axis={axis})", {"x": (x, chunks)}, ulps=0)


@given(batch=batches(take_case()))
def test_take(make_folder, batch):
    check_batch(make_folder, batch)


def test_index_with_a_list(check):
    x = values(1, (7, 5), "float64")
    check([Case(e, {"x": (x, (3, 2))}, ulps=0) for e in ("x[[0, 6, 6, 2]]", "x[:, [4, 0, 1]]", "x[[5, 1], 1:4]")])


def test_a_list_and_numbers(check):
    x = values(1, (4, 5, 3), "int32")
    exprs = ["x[0, [1, 2]]", "x[[1, 2], 0]", "x[:, 0, [1, 2]]", "x[:, [1, 2], 0]", "x[[1, 2], :, 0]", "x[[0, 1]][:, [2, 3]][..., [0, 2]]", "x[0][:, [1, 2]]"]
    check([Case(e, {"x": (x, (3, 2, 2))}, ulps=0) for e in exprs])


@pytest.mark.parametrize("index", ["[0, 1], [2, 3]", "[0], :, [1]", "0, :, [1, 2]", "..., [1, 2], :, 0", "0, None, [1, 2]"])
def test_lists_that_are_read_in_two_ways(run, index):
    x = values(1, (4, 5, 3), "int32")
    run({"arrays": {"out": f"x[{index}]"}}, {"x": x}, check=False).failed("list", "one axis at a time")


def test_lists_by_name_are_for_one_axis_each(run):
    x = values(1, (4, 5, 3), "int32")
    # Of other lengths, so not in one group.
    for expression, wanted in {"x[lat=[0, 1], lon=[2, 0]]": x[:, [0, 1]][:, :, [2, 0]], "x[t=0, lon=[2, 0]]": x[0][:, [2, 0]]}.items():
        done = run({"arrays": {"a": expression}}, {"x": (x, (3, 2, 2), ["t", "lat", "lon"])})
        assert_close(done.outputs["a"], wanted, 0)


def test_zero_dimensional(check):
    for_all = [Case("x[...]", {"x": (values(1, (), d), ())}, ulps=0) for d in ALL]
    check([*for_all, Case("x[None]", {"x": (np.float64(3.5), ())}, ulps=0), Case("x + 1", {"x": (np.asarray(2), ())})])


def test_slices_between_arithmetic(check):
    x = values(1, (24, 10), "float64")
    arrays = {"x": (x, (5, 3))}
    exprs = ["x[1:] - x[:-1]", "(x[::2] + x[1::2]) * 0.5", "x[::-1] + x", "sqrt(abs(x))[..., ::2]", "(x * 2)[3:20:4, ::-1] - 1", "mean(x[5:], axis=0)", "x[2] + x[:, 1][:10]"]
    check([Case(e, arrays, ulps=8, scale=64) for e in exprs])
