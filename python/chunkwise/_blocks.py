"""Arrays by the numbers of their chunks."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from itertools import accumulate, product
from math import prod
from typing import Any

import numpy as np

from ._array import Array


class BlockView:
    """The blocks of an array, indexed by their numbers: ``x.blocks[0, 1]``, ``x.blocks[:2]``, ``x.blocks[[0, 3]]``.

    A result is a lazy array of whole blocks. At most one index may be a list, as in Dask.
    """

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of blocks along each axis."""
        return self._array.numblocks

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._array.ndim

    @property
    def size(self) -> int:
        """The number of all blocks."""
        return prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without axes has one block")
        return self.shape[0]

    def __iter__(self) -> Iterator[Array]:
        return (self[i] for i in range(len(self)))

    def ravel(self) -> list[Array]:
        """All blocks, in C order."""
        return [self[i] for i in product(*map(range, self.shape))]

    def __getitem__(self, index: Any) -> Array:
        index = index if isinstance(index, tuple) else (index,)
        if Ellipsis in [i for i in index if i is Ellipsis]:
            at = next(k for k, i in enumerate(index) if i is Ellipsis)
            index = (*index[:at], *(slice(None),) * (self.ndim - len(index) + 1), *index[at + 1 :])
        if len(index) > self.ndim:
            raise IndexError(f"{len(index)} indices for an array of {self.ndim} axes")
        if any(i is None for i in index):
            raise IndexError("blocks have no new axes")
        index = tuple(self._numbers(axis, i) if isinstance(i, (list, tuple, np.ndarray)) else i for axis, i in enumerate(index))
        lists = [k for k, i in enumerate(index) if isinstance(i, list)]
        if len(lists) > 1:
            raise IndexError("at most one index of blocks may be a list")
        found = self._array
        for axis, i in enumerate(index):
            found = self._picked(found, axis, i)
        return found

    def _numbers(self, axis: int, index: Any) -> Any:
        """The numbers of a list, of an array, or of truths for all blocks along an axis."""
        given = np.asarray(index)
        if given.dtype == np.bool_:
            if given.shape != (self.shape[axis],):
                raise IndexError(f"truths of shape {given.shape} do not fit axis {axis} with {self.shape[axis]} blocks")
            given = np.flatnonzero(given)
        if given.ndim > 1:
            raise IndexError("an index of blocks is a number, a slice, or a list of one axis")
        return given.tolist()

    def _picked(self, found: Array, axis: int, index: Any) -> Array:
        lengths, before = self._array.chunks[axis], (slice(None),) * axis
        n, ends = len(lengths), [0, *accumulate(lengths)]
        if isinstance(index, slice):
            numbers = list(range(n))[index]
        else:
            numbers = [operator.index(i) for i in (index if isinstance(index, list) else [index])]
        if wrong := [i for i in numbers if not -n <= i < n]:
            raise IndexError(f"block {wrong[0]} is out of bounds for axis {axis} with {n} blocks")
        numbers = [i % n for i in numbers]
        if not numbers:
            return found[(*before, slice(0, 0))]
        if numbers == list(range(numbers[0], numbers[0] + len(numbers))):
            return found[(*before, slice(ends[numbers[0]], ends[numbers[-1] + 1]))]
        from ._namespace import call

        return call("concat", [found[(*before, slice(ends[i], ends[i + 1]))] for i in numbers], axis=axis)
