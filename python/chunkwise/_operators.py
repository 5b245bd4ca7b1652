"""Operators and methods that are operations of the table. ``_operators.pyi`` is made from the same lists."""

from __future__ import annotations

from typing import Any

import numpy as np

#: Operators with two sides, which have reflected forms too.
BINARY = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lshift": "bitwise_left_shift",
    "rshift": "bitwise_right_shift",
}
COMPARISONS = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
#: Powers that are other functions as operators of NumPy, where the two differ: at -inf, and for bool.
POWERS = {(int, 2): "square", (float, 0.5): "sqrt"}
UNARY = {"neg": "negative", "pos": "positive", "abs": "abs", "invert": "bitwise_invert"}
REDUCTIONS = ("sum", "prod", "mean", "std", "var", "min", "max", "any", "all", "argmin", "argmax")
METHODS = {"conj": "conj", "conjugate": "conj", "clip": "clip", "repeat": "repeat"}
PROPERTIES = ("real", "imag")


class Operators:
    """What arrays can do with each other."""

    __slots__ = ()


def _binary(name: str, reflected: bool = False) -> Any:
    def method(self: Any, other: Any) -> Any:
        from ._namespace import call, is_operand

        if isinstance(other, (list, tuple)):
            from ._api import asarray

            other = asarray(other)
        if other is None and name in ("equal", "not_equal"):
            # No element is nothing.
            return call("full", list(self.shape), name == "not_equal", dtype="bool")
        if not is_operand(other):
            return NotImplemented
        if name == "pow" and not reflected and type(other) in (int, float) and (type(other), other) in POWERS:
            return call(POWERS[type(other), other], self)
        return call(name, other, self) if reflected else call(name, self, other)

    return method


def _unary(name: str) -> Any:
    def method(self: Any) -> Any:
        return self._call(name)

    return method


for _name, _operation in BINARY.items():
    setattr(Operators, f"__{_name}__", _binary(_operation))
    setattr(Operators, f"__r{_name}__", _binary(_operation, reflected=True))
for _name, _operation in COMPARISONS.items():
    setattr(Operators, f"__{_name}__", _binary(_operation))
def _divmod(reflected: bool) -> Any:
    def method(self: Any, other: Any) -> Any:
        return np.divmod(other, self) if reflected else np.divmod(self, other)

    return method


for _name, _operation in UNARY.items():
    setattr(Operators, f"__{_name}__", _unary(_operation))

setattr(Operators, "__divmod__", _divmod(False))  # noqa: B010
setattr(Operators, "__rdivmod__", _divmod(True))  # noqa: B010


def _reduction(name: str) -> Any:
    def method(self: Any, axis: Any = None, *more: Any, keepdims: bool = False, **options: Any) -> Any:
        import chunkwise

        if more or options.keys() & {"where", "initial"}:
            # In the order that NumPy's function has.
            return getattr(np, name)(self, axis, *more, **({"keepdims": True} if keepdims else {}), **options)
        if options.pop("out", None) is not None:
            raise TypeError("a lazy array cannot be written into an array with out=")
        if "ddof" in options:
            options["correction"] = options.pop("ddof")
        return getattr(chunkwise, name)(self, axis=axis, keepdims=keepdims, **options)

    method.__name__ = name
    method.__doc__ = f"As :func:`chunkwise.{name}`."
    return method


for _name in REDUCTIONS:
    setattr(Operators, _name, _reduction(_name))


def _mapped(name: str, operation: str) -> Any:
    def method(self: Any, *args: Any, **options: Any) -> Any:
        import chunkwise

        return getattr(chunkwise, operation)(self, *args, **options)

    method.__name__ = name
    method.__doc__ = f"As :func:`chunkwise.{operation}`."
    return method


for _name, _operation in METHODS.items():
    setattr(Operators, _name, _mapped(_name, _operation))


def _conjugate(self: Any) -> Any:
    """As :meth:`numpy.ndarray.conj`: of real numbers and of truths, the array itself."""
    return self._call("conj") if self.dtype.kind == "c" else self


for _name in ("conj", "conjugate"):
    setattr(Operators, _name, _conjugate)
for _name in PROPERTIES:
    setattr(Operators, _name, property(_mapped(_name, _name)))
