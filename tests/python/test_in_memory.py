"""Arrays of NumPy and results in memory: chunks are read and stored without a copy, so nothing may see what others do with theirs."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw

DTYPES = ("bool", "int8", "uint16", "int32", "uint64", "float32", "float64", "complex64", "complex128")


def resident() -> int:
    return int(next(line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))) * 1024


def test_an_array_is_as_it_was_when_it_was_given() -> None:
    x = np.arange(60.0).reshape(6, 10)
    lazy = cw.from_array(x, chunks=(2, 10))
    same, more = lazy.T, lazy + 1
    x[:] = 0
    expected = np.arange(60.0).reshape(6, 10)
    for _ in range(2):
        results = cw.compute(lazy, same, more, lazy[1:3], lazy[::2, 3:5])
        for found, wanted in zip(results, (expected, expected.T, expected + 1, expected[1:3], expected[::2, 3:5]), strict=True):
            np.testing.assert_array_equal(found, wanted)
            # A result belongs to its caller.
            found[...] = -1
    kept = lazy.persist()
    kept.compute()[:] = 7
    np.testing.assert_array_equal(kept.compute(), expected)


def test_an_output_is_read_by_a_later_stage() -> None:
    x = np.random.default_rng(0).normal(size=(40, 30))
    lazy = cw.from_array(x, chunks=(7, 30)) * 2
    total = lazy.rechunk((40, 4)).sum(axis=0)
    values, sums, again = cw.compute(lazy, total, lazy)
    np.testing.assert_array_equal(values, x * 2)
    np.testing.assert_array_equal(again, x * 2)
    np.testing.assert_allclose(sums, (x * 2).sum(0))


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_drawn_arrays(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    dtype = data.draw(st.sampled_from(DTYPES))
    x = (np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape)
    chunks = tuple(data.draw(st.integers(1, n)) for n in shape)
    lazy = cw.from_array(np.asfortranarray(x) if data.draw(st.booleans()) else x, chunks=chunks)
    key: Any = tuple(slice(data.draw(st.integers(0, n - 1)), None, data.draw(st.sampled_from([1, 2, -1]))) for n in shape)
    cases = [(lazy, x), (lazy.T, x.T), (lazy[key], x[key]), (lazy.rechunk(tuple(data.draw(st.integers(1, n)) for n in shape)), x)]
    if dtype != "bool":
        cases += [(lazy + lazy[(slice(None, None, -1),)], x + x[::-1]), (cw.sum(lazy, axis=0), x.sum(0, dtype=cw.sum(lazy, axis=0).dtype))]
    found = cw.compute(*(a for a, _ in cases))
    for one, (_, wanted) in zip(found, cases, strict=True):
        np.testing.assert_array_equal(one, wanted)


def test_memory_is_used_again() -> None:
    """That of arrays, of their chunks, of results, and of what is neither: it does not grow with the number of runs."""
    x = np.ones((100, 100_000))
    began, after = resident(), []
    for _ in range(4):
        lazy = cw.from_array(x, chunks=(10, 100_000))
        result = (lazy + 1).compute()
        # The array, the chunks of the result, and the result.
        assert resident() - began < 3.3 * x.nbytes
        del lazy, result
        gc.collect()
        after.append(resident())
    assert after[-1] - after[0] < 0.2 * x.nbytes


def test_a_result_that_is_a_view() -> None:
    x = np.random.default_rng(1).normal(size=(30, 20))
    lazy = cw.from_array(x, chunks=(10, 20))
    np.testing.assert_array_equal(cw.broadcast_to(lazy[3:4], (5, 20)).compute(), np.broadcast_to(x[3:4], (5, 20)))
    np.testing.assert_array_equal(lazy.compute(), x)
