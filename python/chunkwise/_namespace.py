"""Calls of the engine's operations, and functions made from its table."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from . import _chunkwise
from ._array import Array

_P = ParamSpec("_P")
_R = TypeVar("_R")
#: The device of all arrays.
DEVICE = "cpu"


def check_device(device: Any) -> None:
    """Refuses a device other than the one there is."""
    if device not in (None, DEVICE):
        raise ValueError(f"there is no device {device!r}; the only one is {DEVICE!r}")


def on_device(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function that refuses a ``device`` that there is not, and otherwise ignores it."""

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        check_device(kwargs.get("device"))
        return function(*args, **kwargs)

    return checked


#: The entries of the table by name.
TABLE: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in _chunkwise.functions()}
_NAMES = {alias: name for name, entry in TABLE.items() for alias in entry["aliases"]} | {name: name for name in TABLE}
_DTYPED = frozenset(name for name, entry in TABLE.items() if any(p["kind"] == "dtype" for p in entry["parameters"]))
#: Kinds of dtypes that the engine does not have: dates, texts and objects.
NOT_NUMBERS = "MmOSTU"
#: Operations that only move elements, so that float16 stays float16.
_MOVES = frozenset(("permute_dims", "reshape", "expand_dims", "squeeze", "broadcast_to", "flip", "roll", "repeat", "tile", "take"))
#: As these do with several arrays.
_JOINS = frozenset(("concat", "stack"))
#: The dtypes of the engine.
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128",
)  # fmt: skip


def is_operand(x: Any) -> bool:
    """True of what an operator takes."""
    return isinstance(x, (Array, bool, int, float, complex, np.generic, np.ndarray)) or _is_of_dask(x)


#: Bytes of an array of Dask that is computed where it meets one of chunkwise, such as a window or weights.
SMALL = 1 << 20


def _is_of_dask(x: Any) -> bool:
    return type(x).__name__ == "Array" and type(x).__module__.partition(".")[0] in ("dask", "dask_array")


def _is_half(dtype: Any) -> bool:
    """True of float16, which is stored but not computed with."""
    return not (dtype is None or isinstance(dtype, str) and dtype in DTYPES) and np.dtype(dtype).newbyteorder("=") == np.float16


def _lacks(name: str, kind: str) -> str:
    """What helps where the engine lacks a dtype."""
    if kind == "O":
        return (
            "chunkwise has no dtype object: the engine has no arrays of objects. astype() to numbers helps, or fill_value= with a value of the array's own "
            "dtype, if NaN was to be put among truths; or compute() the array first, and NumPy does the rest"
        )
    if kind in NOT_NUMBERS:
        return (
            f"chunkwise has no dtype {name}: the engine has neither texts nor dates. Numbers help, such as positions in a list of texts, or days since a date; or "
            "compute() the array first, and NumPy does the rest"
        )
    return f"chunkwise has no dtype {name}; it has {', '.join(DTYPES)}"


def dtype_name(dtype: Any, operation: str = "") -> str:
    """The name of a dtype that the engine has. It computes with float16 as float32."""
    if isinstance(dtype, str) and dtype in DTYPES:
        return dtype
    name: str = np.dtype(dtype).newbyteorder("=").name
    if name == "float16":
        return "float32"
    if name not in DTYPES:
        raise TypeError((f"{operation}: " if operation else "") + _lacks(name, np.dtype(dtype).kind))
    return name


def lowered(x: Any) -> Any:
    """An argument as the engine takes it."""
    if isinstance(x, Array):
        return x._lazy
    if x is None or isinstance(x, (bool, str, slice)) or type(x) in (int, float, complex):
        return x
    if isinstance(x, (np.generic, np.ndarray)):
        from ._inputs import from_array

        # The number of a dtype, unlike one of Python, takes part in promotion.
        return from_array(x)._lazy
    if isinstance(x, (list, tuple, range)):
        return [lowered(item) for item in x]
    if _is_of_dask(x):
        if x.nbytes <= SMALL:
            return lowered(np.asarray(x))
        raise TypeError(
            f"an array of Dask with {x.nbytes / 1e6:.1f} MB meets one of chunkwise: from_array(y) makes it one of chunkwise. Under xarray, open all data "
            "with one manager of chunks, as by xr.set_options(chunk_manager='chunkwise')"
        )
    if isinstance(x, np.dtype) or (isinstance(x, type) and (issubclass(x, np.generic) or x in (bool, int, float, complex))):
        return dtype_name(x)
    if isinstance(x, (int, float, complex)):
        return type(x).__mro__[-2](x)
    if hasattr(x, "__index__"):
        return x.__index__()
    raise TypeError(
        f"{type(x).__name__} is nothing that chunkwise computes with; from_array() makes arrays of what has a shape and a dtype"
    )


def _plain(x: Any) -> Any:
    """Whole numbers that are no operands: shapes, axes, lengths."""
    if isinstance(x, np.ndarray):
        return x.tolist()
    if isinstance(x, np.generic):
        return x.item()
    if isinstance(x, (list, tuple)):
        return [_plain(item) for item in x]
    return x


_PLAIN = {"int", "count", "flag", "skipna", "ints", "chunks", "dims", "axis", "order", "new axis", "axis pairs", "widths", "number", "real", "groups"}


def _taken(value: Any, kind: str, operation: str) -> Any:
    """An argument as its kind of parameter takes it. A dtype may be written as NumPy's ``"f4"``."""
    if kind == "dtype" and value is not None:
        return dtype_name(value, operation)
    if kind in ("array", "operand") and isinstance(value, (list, tuple)):
        from ._api import asarray

        return asarray(value)
    return _plain(value) if kind in _PLAIN else value


def _in_memory(name: str, x: Any) -> bool:
    """True of an operand that the engine cannot have, and that is in memory already: what meets it is no larger, and NumPy does the rest.

    ``where`` takes texts and dates. Other operations take objects, which xarray makes of truths to put NaN among them.
    """
    kind = getattr(getattr(x, "dtype", None), "kind", "f")
    return kind in NOT_NUMBERS or isinstance(x, (str, bytes)) if name == "where" else kind == "O" and isinstance(x, np.ndarray)


def call(name: str, /, *args: Any, **kwargs: Any) -> Array:
    """The operation of the table with this name."""
    name = _NAMES.get(name, name)
    entry = TABLE.get(name)
    check_device(kwargs.pop("device", None))
    # How a product is made is the planner's choice.
    left_out = ("copy", "optimize") if name == "einsum" else ("copy",)
    kwargs = {k: v for k, v in kwargs.items() if k not in left_out and not (k == "out" and v is None)}
    half = name in _MOVES and bool(args) and getattr(args[0], "_half", False)
    if name in _JOINS and args and isinstance(args[0], (list, tuple)):
        half = all(getattr(a, "_half", False) for a in args[0])
    if (name == "where" or entry is not None and entry["elementwise"]) and any(_in_memory(name, a) for a in args):
        from ._run import compute

        return cast("Array", getattr(np, name)(*compute(*args)))
    if entry is not None and any(getattr(a, "_windows", None) is not None for a in args):
        from ._windows import through

        if (found := through(name, args, kwargs)) is not None:
            return found
    if entry is not None:
        if name not in _DTYPED and "dtype" in kwargs:
            dtype = kwargs.pop("dtype")
            if dtype is not None:
                args = (call("astype", args[0], dtype), *args[1:])
                if name == "mean":
                    # That of whole numbers is a float.
                    return call(name, *args, **kwargs).astype(dtype)
        positional = [p["kind"] for p in entry["parameters"] if p["positional"]]
        kinds = {p["name"]: p["kind"] for p in entry["parameters"]} | {p["alias"]: p["kind"] for p in entry["parameters"]}
        if name in _DTYPED:
            said = (*(a for a, k in zip(args, positional) if k == "dtype"), *(v for k, v in kwargs.items() if kinds.get(k) == "dtype"))
            half = any(_is_half(dtype) for dtype in said)
        args = tuple(_taken(a, k, name) for a, k in zip(args, positional)) + args[len(positional) :]
        kwargs = {k: _taken(v, kinds.get(k, "dims"), name) for k, v in kwargs.items()}
    try:
        return Array(_chunkwise.call(name, tuple(lowered(a) for a in args), {k: lowered(v) for k, v in kwargs.items()}), half)
    except (IndexError, ValueError) as e:
        if "is out of bounds for an array with" in str(e):
            # NumPy's own is both of these errors.
            raise np.exceptions.AxisError(str(e)) from None
        raise


def signature(entry: dict[str, Any]) -> inspect.Signature:
    """How an operation is called."""
    Kind = inspect.Parameter
    positional: list[inspect.Parameter] = []
    named: list[inspect.Parameter] = []
    last: list[inspect.Parameter] = []
    optional = False
    for p in entry["parameters"]:
        if p["form"] == 2:
            continue
        if p["kind"] == "rest":
            positional.append(Kind(p["name"], Kind.VAR_POSITIONAL))
        elif p["kind"] == "by dimension":
            last.append(Kind(p["name"], Kind.VAR_KEYWORD))
        else:
            default = Kind.empty if p["required"] and not optional else p["default"]
            optional = optional or default is not Kind.empty
            name = "axis" if p["kind"] == "dims" and p["name"] == "dim" else p["name"]
            kind = Kind.POSITIONAL_OR_KEYWORD if p["positional"] else Kind.KEYWORD_ONLY
            (positional if p["positional"] else named).append(Kind(name, kind, default=default))
    return inspect.Signature([*positional, *named, *last])


def made(entry: dict[str, Any]) -> Callable[..., Array]:
    """The function of an operation."""
    name = entry["name"]

    def function(*args: Any, **kwargs: Any) -> Array:
        return call(name, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__module__ = "chunkwise"
    setattr(function, "__signature__", signature(entry))  # noqa: B010
    function.__doc__ = f"{entry['about']}\n\nIn the expression language: ``{entry['signature']}``."
    return function


FUNCTIONS: dict[str, Callable[..., Array]] = {name: made(entry) for name, entry in TABLE.items()}
FUNCTIONS |= {alias: FUNCTIONS[name] for alias, name in _NAMES.items() if alias != name}
