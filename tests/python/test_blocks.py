"""Blocks of arrays by their numbers, against NumPy and Dask."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as cw


@st.composite
def indexed(draw: st.DrawFn) -> tuple[np.ndarray[Any, Any], tuple[tuple[int, ...], ...], Any]:
    chunks = tuple(tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))) for _ in range(draw(st.integers(1, 3))))
    x = np.arange(int(np.prod([sum(c) for c in chunks]))).reshape([sum(c) for c in chunks])
    index: list[Any] = []
    lists = 0
    for c in chunks[: draw(st.integers(1, len(chunks)))]:
        n = len(c)
        kind = draw(st.sampled_from(["number", "slice", "list"]))
        if kind == "list" and not lists:
            lists += 1
            index.append(draw(st.lists(st.integers(-n, n - 1), min_size=1, max_size=4)))
        elif kind == "slice":
            index.append(slice(draw(st.none() | st.integers(-n, n)), draw(st.none() | st.integers(-n, n)), draw(st.sampled_from([None, 1, 2, -1]))))
        else:
            index.append(draw(st.integers(-n, n - 1)))
    return x, chunks, tuple(index)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(indexed())
def test_blocks_are_those_of_dask(case: tuple[np.ndarray[Any, Any], tuple[tuple[int, ...], ...], Any]) -> None:
    da = pytest.importorskip("dask.array")
    x, chunks, index = case
    blocks, theirs = cw.from_array(x, chunks=chunks).blocks, da.from_array(x, chunks=chunks).blocks
    assert (blocks.shape, blocks.size, blocks.ndim, len(blocks)) == (theirs.shape, theirs.size, x.ndim, theirs.shape[0])
    found = blocks[index]
    if 0 not in found.shape:
        # Dask fails with its own chunks where there are no blocks.
        expected = theirs[index]
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found.compute(), expected.compute(scheduler="sync"))


def test_all_blocks() -> None:
    x = np.arange(35).reshape(5, 7)
    blocks = cw.from_array(x, chunks=(2, 3)).blocks
    assert blocks.shape == (3, 3) and len(blocks) == 3
    whole = np.block([[b.compute() for b in blocks.ravel()[3 * i : 3 * i + 3]] for i in range(3)])
    np.testing.assert_array_equal(whole, x)
    np.testing.assert_array_equal(np.concatenate([b.compute() for b in blocks]), x)
    np.testing.assert_array_equal(blocks[..., -1].compute(), x[:, 6:])


def test_blocks_that_there_are_not() -> None:
    blocks = cw.from_array(np.arange(35).reshape(5, 7), chunks=(2, 3)).blocks
    for index, error in ((3, IndexError), ((0, -4), IndexError), ((0, 0, 0), IndexError), (None, IndexError), (([0, 1], [0, 1]), IndexError), (1.5, TypeError)):
        with pytest.raises(error):
            blocks[index]


def test_blocks_by_arrays_and_truths() -> None:
    x = np.arange(30).reshape(6, 5)
    lazy, wanted = cw.from_array(x, (2, 3)), da.from_array(x, (2, 3))
    for index in (np.s_[[True, False, True]], np.s_[:, np.array([0])], np.s_[np.array([2, 0])], np.s_[:, [False, True]]):
        found, expected = lazy.blocks[index], wanted.blocks[index]
        assert found.chunks == expected.chunks
        np.testing.assert_array_equal(found.compute(), expected.compute())
    for wrong in ([True, False], [[0, 1]], [1.5]):
        with pytest.raises((IndexError, TypeError)):
            lazy.blocks[wrong]
    assert lazy.blocks[[False] * 3].shape == (0, 5)
    assert lazy.blocks[np.array(1)].shape == (2, 5)
