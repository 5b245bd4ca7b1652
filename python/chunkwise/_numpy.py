"""What NumPy's functions do with arrays of chunkwise: the operation of the same name, or an error; never a silent load."""

from __future__ import annotations

import inspect
from functools import cache, partial
from typing import Any

import numpy as np

from ._array import Array
from ._composed import lazy

_UFUNCS = {
    "true_divide": "divide",
    "power": "pow",
    "absolute": "abs",
    "fabs": "abs",
    "invert": "bitwise_invert",
    "bitwise_not": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "right_shift": "bitwise_right_shift",
    "conjugate": "conj",
    "rint": "round",
    "mod": "remainder",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
    "arcsinh": "asinh",
    "arccosh": "acosh",
    "arctanh": "atanh",
}
_FUNCTIONS = {
    "concatenate": "concat",
    "amin": "min",
    "amax": "max",
    "around": "round",
    "real": "real",
    "imag": "imag",
    "transpose": "transpose",
}
#: Functions of NumPy that only look at shapes and dtypes.
_METADATA = (np.ndim, np.shape, np.size)

_ADVICE = "; compute() the array first if it fits into memory"


def _function(name: str) -> Any:
    import chunkwise

    if name.startswith("_"):
        return None
    from ._names import OF_NUMPY

    # NumPy's own come back here.
    found = None if name in OF_NUMPY else getattr(chunkwise, name, None)
    return found if callable(found) and not isinstance(found, type) else None


def apply_ufunc(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A ufunc of NumPy."""
    name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
    inputs = tuple(lazy(x) if isinstance(x, (list, tuple)) else x for x in inputs)
    out = kwargs.pop("out", None)
    if out is not None:
        raise TypeError(f"np.{ufunc.__name__} cannot write into an array with out= where one is lazy")
    if method == "reduce":
        folds = {"add": "sum", "multiply": "prod", "maximum": "max", "minimum": "min", "logical_and": "all", "logical_or": "any"}
        fold = folds.get(ufunc.__name__)
        if fold is None:
            raise TypeError(f"chunkwise has no np.{ufunc.__name__}.reduce{_ADVICE}")
        kwargs.setdefault("axis", 0)
        return getattr(np, fold)(*inputs, **{k: v for k, v in kwargs.items() if v is not None or k == "axis"})
    if method == "accumulate":
        from ._cumulative import ACCUMULATED, accumulated

        if ufunc.__name__ in ACCUMULATED:
            return accumulated(ACCUMULATED[ufunc.__name__], inputs[0], kwargs.get("axis", 0), kwargs.get("dtype"))
    dtype, casting = kwargs.pop("dtype", None), kwargs.pop("casting", "same_kind")
    kwargs = {k: v for k, v in kwargs.items() if k not in ("order", "subok")}
    if ufunc in (np.fabs, np.rint) and method == "__call__":
        # That of whole numbers is a float.
        inputs = tuple(x.astype(ufunc(np.ones(1, x.dtype)).dtype) for x in inputs)
    from ._elements import UFUNCS, by_numpy

    found = UFUNCS.get(ufunc.__name__) or _function(name)
    if method == "outer" and len(inputs) == 2:
        a, b = (x if isinstance(x, Array) else np.asarray(x) for x in inputs)
        method, inputs = "__call__", (a[(..., *[None] * b.ndim)], b)
    if dtype is not None:
        inputs = _cast(ufunc, inputs, dtype, casting)
    if method == "__call__" and found is None and not kwargs and ufunc.signature is None:
        # What the engine lacks.
        return by_numpy(ufunc if dtype is None else partial(ufunc, dtype=dtype), inputs, ufunc.nout)
    if method != "__call__" or found is None or kwargs:
        raise TypeError(f"chunkwise has no np.{ufunc.__name__}{'.' + method if method != '__call__' else ''} with these arguments{_ADVICE}")
    if not all(isinstance(x, (Array, bool, int, float, complex, np.generic, np.ndarray, str)) for x in inputs):
        return NotImplemented
    result = found(*inputs)
    return result.astype(dtype) if dtype is not None and isinstance(result, Array) else result


def _cast(ufunc: np.ufunc, inputs: tuple[Any, ...], dtype: Any, casting: Any) -> tuple[Any, ...]:
    """The operands in the dtypes in which NumPy computes a result of this dtype."""
    given = tuple(type(x) if type(x) in (int, float, complex) else x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype for x in inputs)
    nothing = (None,) * ufunc.nout
    dtypes = ufunc.resolve_dtypes((*given, *nothing), signature=(*(None,) * ufunc.nin, *(np.dtype(dtype),) * ufunc.nout), casting=casting)
    return tuple(x.astype(d) if isinstance(x, Array) else np.asarray(x).astype(d)[()] for x, d in zip(inputs, dtypes))


#: Arguments of NumPy that change nothing here, whatever they say.
_IDLE = ("subok", "assume_unique", "overwrite_input")
#: Arguments of NumPy by their names here.
_RENAMED = {"ddof": "correction", "a_min": "min", "a_max": "max"}


@cache
def _signature(func: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(func)
    except ValueError:
        # One in C, of an older NumPy.
        return None


def _bound(func: Any, args: Any, kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a call of NumPy's: those that it needs by position, and others by its names for them, but for those that are as if not given."""
    signature = _signature(func)
    if signature is None:
        return list(args), {k: v for k, v in kwargs.items() if v is not None}
    needed: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        p = signature.parameters[name]
        if p.kind is p.VAR_POSITIONAL:
            needed.extend(value)
        elif p.kind is p.VAR_KEYWORD:
            named.update(value)
        elif p.kind is p.POSITIONAL_ONLY or p.default is p.empty:
            needed.append(value)
        elif name not in _IDLE and not (value is p.default or type(value) in (bool, int, float, str) and type(value) is type(p.default) and value == p.default):
            named[name] = value
    return needed, named


def apply_function(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """A function of NumPy."""
    if func in _METADATA:
        return func(np.broadcast_to(np.False_, args[0].shape), *args[1:], **kwargs)
    if func.__module__.startswith("numpy"):
        args, kwargs = _bound(func, args, kwargs)
        if func.__name__ in ("allclose", "array_equal"):
            return _all_of(func.__name__, *args, **kwargs)
        from . import _composed, _cumulative, _elements, _gradient, _products, _rows, _windows  # noqa: F401

        if func.__module__.startswith("numpy.fft"):
            from . import fft

            return getattr(fft, func.__name__)(*args, **kwargs)
        if "linalg" in func.__module__ and func.__name__ in _products.LINALG:
            return _products.LINALG[func.__name__](*args, **kwargs)
        if func.__name__ in _composed.FUNCTIONS and "linalg" not in func.__module__:
            return _composed.FUNCTIONS[func.__name__](*args, **kwargs)
        if func.__name__ in _rows.SORTED:
            return _rows.sorted_by_numpy(func.__name__, *args, **kwargs)
        if func.__name__ in _cumulative.OF_NUMPY:
            return _cumulative.of_numpy(func.__name__, *args, **kwargs)
        if func.__name__ in _rows.ORDERED:
            return _rows.ordered(func.__name__, *args, **kwargs)
        if func.__name__ == "gradient":
            return _gradient.gradient(*args, **kwargs)
        if func.__name__ == "sliding_window_view":
            return _windows.sliding_window_view(*args, **kwargs)
    found = _function(_FUNCTIONS.get(func.__name__, func.__name__)) if func.__module__.startswith("numpy") else None
    if func.__module__.startswith("numpy.") and found is not None and "linalg" in func.__module__ and func.__name__ not in _LINALG:
        found = None
    if found is None:
        raise TypeError(f"chunkwise has no operation for {func.__module__}.{func.__name__}, which would load the whole array{_ADVICE}")
    kwargs = {_RENAMED.get(k, k): v for k, v in kwargs.items()}
    if func.__name__ in ("round", "around"):
        from ._decimals import rounded

        return rounded(*args, **kwargs)
    if func.__name__ in _REDUCED and kwargs.keys() & {"where", "initial"}:
        return _reduced_in_part(func.__name__, found, *args, **kwargs)
    return _shaped(func.__name__, found, args, kwargs)


def _all_of(name: str, a: Any, b: Any, *args: Any, **kwargs: Any) -> Any:
    """``allclose`` and ``array_equal``: lazy, but for arrays of different shapes."""
    if name == "allclose":
        return _function("all")(_function("isclose")(a, b, *args, **kwargs))
    if np.shape(a) != np.shape(b):
        return False
    equal = _function("equal")(a, b)
    if (args or kwargs.get("equal_nan")) and all(getattr(x, "dtype", np.dtype("f8")).kind in "fc" for x in (a, b)):
        missing = _function("logical_and")(_function("isnan")(a), _function("isnan")(b))
        equal = _function("logical_or")(equal, missing)
    return _function("all")(equal)


_LINALG = ("matmul", "outer", "tensordot", "vecdot", "matrix_transpose")
#: Reductions of NumPy, whose second argument by position is the axis.
_REDUCED = frozenset(
    "sum prod mean var std min max amin amax any all count_nonzero argmin argmax nansum nanprod nanmean nanvar nanstd nanmin nanmax nanargmin nanargmax".split()
)


#: What takes the place of elements that a reduction leaves out.
_NEUTRAL = {"sum": 0, "nansum": 0, "prod": 1, "nanprod": 1, "any": False, "all": True}
#: How an initial value joins a result.
_JOINED = {"sum": "add", "nansum": "add", "prod": "multiply", "nanprod": "multiply", "max": "maximum", "amax": "maximum", "min": "minimum", "amin": "minimum"}


def _reduced_in_part(name: str, found: Any, x: Array, *, where: Any = True, initial: Any = None, **kwargs: Any) -> Any:
    """A reduction of the elements that ``where`` chooses, and of an ``initial`` value."""
    choose = _function("where")
    if initial is not None and name not in _JOINED:
        raise TypeError(f"chunkwise has no {name} with initial={_ADVICE}")
    if where is not True:
        if name in _NEUTRAL:
            x = choose(where, x, _NEUTRAL[name])
        elif name in _JOINED and initial is not None:
            x = choose(where, x, initial)
        elif name == "mean":
            total = _function("sum")(choose(where, x, 0), **kwargs)
            count = _function("sum")(_function("broadcast_to")(where, x.shape), **kwargs)
            mean = _function("divide")(total, count)
            return mean.astype(x.dtype) if x.dtype.kind in "fc" else mean
        else:
            raise TypeError(f"chunkwise has no {name} with where={_ADVICE}")
    result = found(x, **kwargs)
    return result if initial is None else _function(_JOINED[name])(result, initial)


def _shaped(name: str, found: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """A call with the arguments where chunkwise has them."""
    if name in ("zeros_like", "ones_like", "empty_like", "full_like"):
        kwargs = {k: v for k, v in kwargs.items() if k in ("dtype", "shape", "fill_value")}
    return found(*args, **kwargs)
