"""Elements that a lazy mask chooses. How many there are is known only when they are computed, so they are no array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._errors import MemoryLimitError
from ._namespace import call
from ._operators import BINARY, COMPARISONS, UNARY

if TYPE_CHECKING:
    from ._array import Array
    from ._spec import Spec

#: Reductions by the names of NumPy.
REDUCTIONS = {"amin": "min", "amax": "max", **{name: name for name in ("sum", "prod", "mean", "std", "var", "min", "max", "any", "all")}}


class Selection:
    """What ``x[mask]`` is, where ``mask`` is a lazy array of truths.

    It takes part in arithmetic with numbers and with selections by the same mask, has the reductions of NumPy, and may be assigned back:
    ``x[mask] += 1``, ``x[mask] = y[mask]``. ``compute()`` gives the elements.

    >>> import numpy as np, chunkwise as cw
    >>> x = cw.from_array(np.array([3.0, -1.0, 4.0]))
    >>> mask = x > 0
    >>> float(x[mask].mean())
    3.5
    >>> x[mask] *= 10
    >>> x.compute().tolist()
    [30.0, -1.0, 40.0]
    """

    __slots__ = ("_mask", "_values")
    __hash__ = None  # type: ignore[assignment]
    __iter__ = None

    def __init__(self, values: Array, mask: Array) -> None:
        if mask.shape != values.shape[: mask.ndim]:
            raise IndexError(f"a mask of shape {mask.shape} does not fit an array of shape {values.shape}")
        self._values, self._mask = values, mask

    # What it is.

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._values.dtype

    @property
    def ndim(self) -> int:
        return self._values.ndim - self._mask.ndim + 1

    @property
    def shape(self) -> tuple[int, ...]:
        """Its length is computed."""
        return (int(call("sum", self._mask)), *self._values.shape[self._mask.ndim :])

    @property
    def size(self) -> int:
        """It is computed."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"chunkwise.Selection<of shape {self._values.shape} by a lazy mask, dtype={self.dtype}; compute() gives its elements>"

    def __getitem__(self, key: Any) -> Any:
        raise TypeError("what a lazy mask has selected has no positions before it is computed: compute() it first")

    def __bool__(self) -> bool:
        raise ValueError("the truth of a selection is ambiguous: use any() or all()")

    # Values.

    def compute(self, *, spec: Spec | None = None) -> np.ndarray[Any, Any]:
        """The elements, in the order of the array. If the array does not fit into memory, the mask is computed first."""
        from ._run import compute

        try:
            values, mask = compute(self._values, self._mask, spec=spec)
        except MemoryLimitError:
            return self._values[self._mask.compute(spec=spec)].compute(spec=spec)
        found: np.ndarray[Any, Any] = values[mask]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if copy is False:
            raise ValueError("the values of a selection are computed, which needs a copy")
        return np.asarray(self.compute(), dtype)

    def tolist(self) -> list[Any]:
        """The elements as numbers of Python."""
        found: list[Any] = self.compute().tolist()
        return found

    def astype(self, dtype: Any) -> Selection:
        """The same elements in another dtype."""
        return Selection(self._values.astype(dtype), self._mask)

    def assigned_by(self, mask: Any) -> Array:
        """The array of which it is a part, to be assigned to where a mask is true: its own."""
        if getattr(mask, "_lazy", None) is not self._mask._lazy:
            raise IndexError("elements that a lazy mask has selected are assigned by the same mask: give it a name, as in m = x < 0; x[m] = y[m]")
        return self._values

    def _side(self, other: Any) -> Any:
        """The other side of an operator."""
        if isinstance(other, Selection):
            if other._mask._lazy is not self._mask._lazy:
                raise ValueError("the selections are of different masks, or of masks that were made twice: give the mask a name, as in m = x < 0; x[m] + y[m]")
            return other._values
        if np.ndim(other):
            raise TypeError("how many elements a lazy mask selects is not known: it takes numbers, and selections by the same mask, in arithmetic")
        return other

    # What NumPy calls.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or ufunc.signature is not None or kwargs:
            raise TypeError(f"chunkwise has no np.{ufunc.__name__} with these arguments for what a lazy mask has selected; compute() it first")
        made = ufunc(*map(self._side, inputs))
        return tuple(Selection(m, self._mask) for m in made) if isinstance(made, tuple) else Selection(made, self._mask)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        name = REDUCTIONS.get(func.__name__)
        if name is None or not func.__module__.startswith("numpy"):
            raise TypeError(f"chunkwise has no {func.__module__}.{func.__name__} for what a lazy mask has selected; compute() it first")
        no_value = getattr(np, "_NoValue")  # noqa: B009
        return getattr(args[0], name)(*args[1:], **{k: v for k, v in kwargs.items() if v is not no_value})


def _reduced(name: str) -> Any:
    def method(self: Selection, axis: Any = None, dtype: Any = None, out: Any = None, *, ddof: float = 0, correction: float | None = None, keepdims: bool = False) -> Array:
        if out is not None or keepdims:
            raise TypeError(f"{name}() of what a lazy mask has selected has no out= and keepdims=")
        values, mask = self._values, self._mask
        if axis not in (None, 0, (0,)):
            raise NotImplementedError(f"{name}() of what a lazy mask has selected is one over all of it, or along its first axis")
        whole = values.ndim == mask.ndim or axis is None
        axes = None if whole else tuple(range(mask.ndim))
        mask = mask[(..., *[None] * (values.ndim - mask.ndim))]
        if dtype is not None:
            values = values.astype(dtype)
        found: Array = _OF[name](values, mask, axes, ddof if correction is None else correction)
        return found

    method.__name__ = name
    method.__doc__ = f"As :func:`numpy.{name}` of the elements, along no axis or the first one. It is lazy."
    return method


def _spread(values: Array, ddof: float, mask: Array, axes: Any) -> Array:
    """The variance, in two passes."""
    mean = np.mean(values, axis=axes, where=mask, keepdims=True)
    away = call("abs", call("subtract", values, mean))
    count = call("subtract", np.sum(call("broadcast_to", mask, list(values.shape)), axis=axes), ddof)
    found: Array = call("divide", np.sum(call("multiply", away, away), axis=axes, where=mask), count)
    return found.astype(away.dtype) if away.dtype.kind == "f" else found


def _extreme(name: str, values: Array, mask: Array, axes: Any) -> Array:
    if values.dtype.kind != "f":
        raise NotImplementedError(
            f"{name}() of whole numbers that a lazy mask has selected has no value if there are none: use np.{name}(x, where=mask, initial=...), which has one"
        )
    found = call(name, call("where", mask, values, np.inf if name == "min" else -np.inf).astype(values.dtype), axis=axes)
    some = call("any", call("broadcast_to", mask, list(values.shape)), axis=axes)
    return call("where", some, found, np.nan).astype(values.dtype)


_OF: dict[str, Any] = {
    **{n: lambda x, m, a, _, n=n: getattr(np, n)(x, axis=a, where=m) for n in ("sum", "prod", "mean", "any", "all")},
    "var": lambda x, m, a, ddof: _spread(x, ddof, m, a),
    "std": lambda x, m, a, ddof: call("sqrt", _spread(x, ddof, m, a)),
    "min": lambda x, m, a, _: _extreme("min", x, m, a),
    "max": lambda x, m, a, _: _extreme("max", x, m, a),
}


def _binary(name: str, reflected: bool) -> Any:
    def method(self: Selection, other: Any) -> Selection:
        side = self._side(other)
        return Selection(call(name, side, self._values) if reflected else call(name, self._values, side), self._mask)

    return method


def _unary(name: str) -> Any:
    return lambda self: Selection(call(name, self._values), self._mask)


for _name in set(REDUCTIONS.values()):
    setattr(Selection, _name, _reduced(_name))
for _name, _operation in {**BINARY, **COMPARISONS}.items():
    if _name != "matmul":
        setattr(Selection, f"__{_name}__", _binary(_operation, False))
        if _name in BINARY:
            setattr(Selection, f"__r{_name}__", _binary(_operation, True))
for _name, _operation in UNARY.items():
    setattr(Selection, f"__{_name}__", _unary(_operation))
