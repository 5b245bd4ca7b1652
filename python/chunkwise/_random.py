"""Random numbers, by the names of NumPy, Dask and Cubed."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ._array import Array
from ._namespace import call


#: A float64 from 0 to 1 tells so many whole numbers apart.
MOST_INTEGERS = 1 << 52


def _drawn(size: Any, chunks: Any, seed: int, distribution: str, dtype: Any) -> Array:
    from ._inputs import normalize_chunks

    shape = [] if size is None else [operator.index(n) for n in (size if isinstance(size, (tuple, list)) else (size,))]
    lengths = [max(*c, 1) for c in normalize_chunks(chunks, tuple(shape), np.dtype(dtype))]
    return call("random", shape, seed=seed, distribution=distribution, dtype=np.dtype(dtype).name, chunks=lengths or None)


class Generator:
    """A generator of random numbers: lazy arrays with the names and arguments of :class:`numpy.random.Generator`, and with ``chunks``.

    Numbers depend on the seed and on how many arrays were drawn before, and not on chunks, budget or workers. They are not NumPy's numbers. Without ``size`` there is one number.

    >>> import chunkwise as cw
    >>> rng = cw.random.default_rng(7)
    >>> x = rng.normal(10.0, 2.0, size=(1000, 1000), chunks=(250, 1000))
    >>> bool(abs(cw.mean(x) - 10) < 0.1)
    True
    """

    def __init__(self, seed: Any = None) -> None:
        self._seeds: Any = None
        # To import NumPy's random numbers takes a tenth of the time in which this package is imported, and there is one generator from the beginning.
        if seed is not None:
            self._seeds = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)

    def _seed(self) -> int:
        if self._seeds is None:
            self._seeds = np.random.SeedSequence()
        (child,) = self._seeds.spawn(1)
        return int(child.generate_state(1, np.uint64)[0] >> np.uint64(1))

    def random(self, size: Any = None, dtype: Any = np.float64, *, chunks: Any = "auto") -> Array:
        """Numbers from 0 to 1, without 1."""
        return _drawn(size, chunks, self._seed(), "uniform", dtype)

    def uniform(self, low: float = 0.0, high: float = 1.0, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Numbers from ``low`` to ``high``, without that."""
        return call("add", call("multiply", self.random(size, chunks=chunks), float(high) - float(low)), float(low))

    def standard_normal(self, size: Any = None, dtype: Any = np.float64, *, chunks: Any = "auto") -> Array:
        """Normally distributed numbers with mean 0 and variance 1."""
        return _drawn(size, chunks, self._seed(), "normal", dtype)

    def normal(self, loc: float = 0.0, scale: float = 1.0, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Normally distributed numbers with mean ``loc`` and standard deviation ``scale``."""
        if scale < 0:
            raise ValueError("scale < 0")
        return call("add", call("multiply", self.standard_normal(size, chunks=chunks), float(scale)), float(loc))

    def exponential(self, scale: float = 1.0, size: Any = None, *, chunks: Any = "auto") -> Array:
        """Exponentially distributed numbers with mean ``scale``."""
        if scale < 0:
            raise ValueError("scale < 0")
        return call("multiply", call("log1p", call("negative", self.random(size, chunks=chunks))), -float(scale))

    def integers(
        self, low: int, high: int | None = None, size: Any = None, dtype: Any = np.int64, endpoint: bool = False, *, chunks: Any = "auto"
    ) -> Array:
        """Whole numbers from ``low`` to ``high`` without that, or from 0 to ``low``."""
        first, end = (0, operator.index(low)) if high is None else (operator.index(low), operator.index(high))
        count = end - first + int(endpoint)
        limits = np.iinfo(dtype)
        if count < 1 or first < limits.min or first + count - 1 > limits.max:
            raise ValueError(f"there are no whole numbers of {np.dtype(dtype)} from {first} to {end}")
        if count > MOST_INTEGERS:
            raise NotImplementedError("integers() of a range of more than 2^52 numbers")
        steps = call("floor", call("multiply", self.random(size, chunks=chunks), float(count)))
        # Wide enough for every number in between.
        wide = np.uint64 if np.dtype(dtype) == np.uint64 else np.int64
        return call("add", steps.astype(wide), wide(first)).astype(dtype)


class Random:
    """``chunkwise.random``: the operation of this name, and the functions of ``numpy.random`` and ``dask.array.random``, whose seed is another one in each process."""

    def __init__(self, operation: Any) -> None:
        self._operation, self._generator = operation, Generator()
        self.__doc__, self.__name__, self.__signature__ = operation.__doc__, operation.__name__, operation.__signature__
        self.random = self.random_sample = self._generator.random
        self.uniform, self.normal, self.standard_normal = self._generator.uniform, self._generator.normal, self._generator.standard_normal
        self.exponential, self.integers, self.randint = self._generator.exponential, self._generator.integers, self._generator.integers

    def __call__(self, *args: Any, **kwargs: Any) -> Array:
        made: Array = self._operation(*args, **kwargs)
        return made

    def default_rng(self, seed: Any = None) -> Generator:
        """A generator of random numbers. The same seed gives the same numbers."""
        return Generator(seed)
