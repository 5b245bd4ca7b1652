"""Reductions by groups with functions of the user, against NumPy."""

from typing import Any

import chunkwise as cw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

MEAN = [("n", np.int64), ("total", np.float64)]


def per_group(function: Any, a: Any, by: Any, axis: int, count: int) -> Any:
    return np.stack([function(np.compress(by == k, a, axis)) for k in range(count)], axis)


def total(a: Any, by: Any, axis: int, intermediate_dtype: Any, num_groups: int) -> Any:
    return per_group(lambda part: part.sum(axis, dtype=intermediate_dtype), a, by, axis, num_groups)


def add(a: Any, axis: Any, dummy_axis: int, dtype: Any, keepdims: bool) -> Any:
    assert axis[0] == dummy_axis and keepdims
    return a.sum(dummy_axis, keepdims=keepdims, dtype=dtype)


def counted(a: Any, by: Any, axis: int, intermediate_dtype: Any, num_groups: int) -> Any:
    n = per_group(lambda part: np.full(np.delete(part.shape, axis), part.shape[axis]), a, by, axis, num_groups)
    return {"n": n, "total": per_group(lambda part: part.sum(axis), a, by, axis, num_groups)}


def add_fields(a: Any, axis: Any, dummy_axis: int, dtype: Any, keepdims: bool) -> Any:
    return {name: a[name].sum(dummy_axis, keepdims=keepdims) for name in dtype.names}


def mean(a: Any) -> Any:
    return a["total"] / np.maximum(a["n"], 1)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_as_numpy_has_it(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=3), label="shape"))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1), label="axis")
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    count = data.draw(st.integers(1, 4), label="groups")
    random = np.random.default_rng(data.draw(st.integers(0, 99)))
    values, by = random.integers(-50, 50, shape), random.integers(0, count, shape[axis])
    x = cw.from_array(values, chunks=chunks)
    labels = cw.from_array(by, chunks=3) if data.draw(st.booleans(), label="lazy labels") else by
    every = data.draw(st.integers(2, 5), label="split_every")
    sums = cw.groupby_reduction(x, labels, total, add, axis=axis, num_groups=count, split_every=every, memory="8MB")
    np.testing.assert_array_equal(sums.compute(), total(values, by, axis % len(shape), np.int64, count))
    assert sums.dtype == np.int64
    means = cw.groupby_reduction(x, labels, counted, add_fields, mean, axis=axis, intermediate_dtype=MEAN, dtype=np.float64, num_groups=count, split_every=every, memory="8MB")
    np.testing.assert_allclose(means.compute(), mean(counted(values, by, axis % len(shape), None, count)), rtol=1e-14)


def test_the_axis_of_blocks_may_stay() -> None:
    x = cw.ones((6, 4), chunks=(2, 4))
    kept = cw.groupby_reduction(x, np.arange(6) % 3, total, add, axis=(0,), num_groups=3, keepdims=True)
    assert kept.shape == (3, 4, 1)
    np.testing.assert_array_equal(kept.compute(), np.full((3, 4, 1), 2.0))


def test_other_arguments_reach_the_functions() -> None:
    def scaled(a: Any, by: Any, factor: int, **kwargs: Any) -> Any:
        return factor * total(a, by, **kwargs)

    def add_once(a: Any, factor: int, **kwargs: Any) -> Any:
        return add(a, **kwargs)

    x = cw.ones(6, chunks=2)
    out = cw.groupby_reduction(x, np.arange(6) % 2, scaled, add_once, num_groups=2, extra_func_kwargs={"factor": 5})
    np.testing.assert_array_equal(out.compute(), [15, 15])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"axis": (0, 1)}, ValueError, "one axis"),
        ({"num_groups": None}, TypeError, "num_groups"),
        ({"by": np.zeros(3, int)}, ValueError, r"shape \(3,\), and axis 0 has 6"),
        ({"intermediate_dtype": MEAN}, TypeError, "dtype="),
        ({"split_every": {0: 2}}, TypeError, "split_every= is how many"),
        ({"split_every": -1}, TypeError, "split_every= is how many"),
    ],
)
def test_what_is_refused(arguments: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"by": np.zeros(6, int), "num_groups": 2, **arguments}
    with pytest.raises(error, match=message):
        cw.groupby_reduction(cw.ones((6, 4)), given.pop("by"), total, add, **given)


def test_other_fields_than_were_said_are_named() -> None:
    def other(*_args: Any, **_kwargs: Any) -> Any:
        return {"n": np.zeros(2), "sum": np.zeros(2)}

    out = cw.groupby_reduction(cw.ones(6), np.zeros(6, int), other, add_fields, mean, intermediate_dtype=MEAN, dtype=np.float64, num_groups=2, memory="8MB")
    with pytest.raises(ValueError, match=r"fields \['n', 'sum'\], and intermediate_dtype"):
        out.compute()
