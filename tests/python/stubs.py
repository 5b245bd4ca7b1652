"""What is made from the namespace: the stub of the package, and the list of what the Array API has besides.

`CHUNKWISE_WRITE=1 pytest tests/python/test_generated.py` writes them; without it the test fails if they are not current.
"""

from __future__ import annotations

import inspect
from typing import Any

import chunkwise as cw
from chunkwise import _api, _names, _namespace, _operators, _standard

#: The names of the Array API 2025.12: functions, constants and dtypes of the main namespace.
STANDARD = """
e inf nan newaxis pi
bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros zeros_like
astype can_cast finfo iinfo isdtype result_type
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip
conj copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf isnan less less_equal log log1p
log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum multiply negative nextafter not_equal positive pow real
reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc
take take_along_axis matmul matrix_transpose tensordot vecdot
broadcast_arrays broadcast_shapes broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
argmax argmin count_nonzero nonzero searchsorted where isin unique_all unique_counts unique_inverse unique_values argsort sort top_k
cumulative_prod cumulative_sum max mean min prod std sum var all any diff
__array_namespace_info__
""".split()
#: Its extensions.
EXTENSIONS = ["fft", "linalg"]

HEAD = '''"""Made from the table of operations by CHUNKWISE_WRITE=1 pytest tests/python/test_generated.py."""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import numpy as np

from . import fft as fft
from ._api import (
{api}
)
from ._array import Array as Array
from ._cumulative import (
    cumprod as cumprod,
    cumreduction as cumreduction,
    cumsum as cumsum,
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
)
from ._errors import ComputeError as ComputeError, MemoryLimitError as MemoryLimitError
from ._functions import (
    apply_gufunc as apply_gufunc,
    blockwise as blockwise,
    map_blocks as map_blocks,
    map_overlap as map_overlap,
    reduction as reduction,
)
from ._gradient import gradient as gradient
from ._groups import groupby_reduction as groupby_reduction
from ._inputs import from_array as from_array, from_zarr as from_zarr, normalize_chunks as normalize_chunks, open as open
from ._composed import (
{composed}
)
from ._creation import (
{creation}
)
from ._elements import (
{elements}
)
from ._products import (
{products}
)
from numpy import (
{numpy}
)
from ._plans import visualize as visualize
from ._progress import ProgressBar as ProgressBar
from ._rows import argsort as argsort, argtopk as argtopk, median as median, quantile as quantile, sort as sort, topk as topk
from ._run import compute as compute, persist as persist, plan as plan, store as store, to_zarr as to_zarr
from ._spec import Spec as Spec, config as config, raise_if_computes as raise_if_computes, watch as watch
from ._standard import (
{standard}
)
from ._random import Random
from ._windows import lib as lib

random: Random

_Bool: TypeAlias = Literal[True, False]
_Number: TypeAlias = _Bool | int | float | complex | np.generic
_Operand: TypeAlias = Array | np.ndarray[Any, Any] | _Number | str
_Axis: TypeAlias = int | str
_DType: TypeAlias = np.dtype[Any] | type | str

__version__: str
__array_api_version__: str
__all__: list[str]
{dtypes}
'''

_TYPES = {
    "array": "_Operand",
    "operand": "_Operand",
    "arrays": "Sequence[_Operand]",
    "rest": "_Operand",
    "number": "_Number",
    "int": "int",
    "count": "int",
    "real": "float",
    "flag": "_Bool",
    "skipna": "_Bool",
    "dtype": "_DType",
    "text": "str",
    "ints": "int | Sequence[int]",
    "chunks": "Sequence[int]",
    "dims": "_Axis | Sequence[_Axis]",
    "axis": "_Axis",
    "order": "Sequence[_Axis]",
    "new axis": "_Axis",
    "new dim": "_Axis",
    "axis pairs": "int | Sequence[Sequence[int]]",
    "widths": "Sequence[Sequence[int]]",
    "weights": "Sequence[Any]",
    "groups": "str | Sequence[int]",
    "by dimension": "Any",
}


def function(name: str, entry: dict[str, Any]) -> str:
    """The stub of an operation of the table."""
    kinds = {p["name"]: p["kind"] for p in entry["parameters"]} | {"axis": None}
    parts, star = [], False
    for p in _namespace.signature(entry).parameters.values():
        kind = kinds[p.name] or next(q["kind"] for q in entry["parameters"] if q["name"] in ("axis", "dim") and q["kind"] != "new dim")
        annotation = _TYPES[kind]
        if p.kind is p.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if p.kind is p.VAR_POSITIONAL:
            star = True
            parts.append(f"*{p.name}: {annotation}")
        elif p.kind is p.VAR_KEYWORD:
            parts.append(f"**{p.name}: {annotation}")
        elif p.default is p.empty:
            parts.append(f"{p.name}: {annotation}")
        else:
            nothing = " | None" if p.default is None or kind == "skipna" else ""
            parts.append(f"{p.name}: {annotation}{nothing} = {p.default!r}")
    if any(q["kind"] == "dims" for q in entry["parameters"]):
        parts += ([] if star else ["*"]) + ["dim: _Axis | Sequence[_Axis] | None = None"]
    if not any(q["kind"] == "dtype" for q in entry["parameters"]) and entry["subject"] == "Reductions":
        parts.append("dtype: _DType | None = None")
    parts.sort(key=lambda part: part.startswith("**"))
    first = entry["about"].split("\n\n")[0].replace("\n", " ").replace("\\", "\\\\")
    return f'def {name}({", ".join(parts)}) -> Array:\n    """{first}"""\n'


def added(group: str) -> list[str]:
    """The names that a module of the package gives to the namespace, or NumPy."""
    mine = [n for n in _names.NAMES if getattr(cw, n) is _names.NAMES[n]]
    if group == "numpy":
        return [n for n in mine if n in _names.OF_NUMPY]
    module = f"chunkwise._{group}"
    return [n for n in {"searchsorted", *mine} if n not in _names.OF_NUMPY and (_names.NAMES[n].__module__, _names.NAMES[n].__name__) == (module, n)]


def stub() -> str:
    """The stub of the package."""
    others = sorted(n for n in cw._OTHERS)
    imports = [f"    {'prod_ as prod' if n == 'prod' else f'{n} as {n}'}," for n in [*others, "prod"]]
    names = ["bool_", "bool", *(d for d in _namespace.DTYPES if d != "bool")]
    standard = [f"    {n} as {n}," for n in sorted(cw._STANDARD)]
    groups = {group: "\n".join(f"    {n} as {n}," for n in sorted(added(group))) for group in ("composed", "creation", "elements", "products", "numpy")}
    out = HEAD.format(**groups, api="\n".join(imports), standard="\n".join(standard), dtypes="\n".join(f"{n}: np.dtype[Any]" for n in names))
    mine = {"prod", "random", *others, *cw._STANDARD, *cw._CUMULATIVE}
    for name, entry in _namespace.TABLE.items():
        for each in [name, *entry["aliases"]]:
            if each not in mine and each.isidentifier() and each != "concatenate":
                out += "\n" + function(each, entry)
    return out + "\nconcatenate = concat\n"


def operators() -> str:
    """The stub of operators and methods."""
    both = [f"__{side}{n}__" for n in _operators.BINARY for side in ("", "r")]
    out = (
        '"""Made by CHUNKWISE_WRITE=1 pytest tests/python/test_generated.py."""\n\nfrom typing import Any\n\nfrom ._array import Array\n\n'
    )
    for name in ("BINARY", "COMPARISONS", "UNARY", "METHODS"):
        out += f"{name}: dict[str, str]\n"
    out += "REDUCTIONS: tuple[str, ...]\nPROPERTIES: tuple[str, ...]\n\nclass Operators:\n"
    for name in both + [f"__{n}__" for n in _operators.COMPARISONS]:
        ignored = "  # type: ignore[override]" if name in ("__eq__", "__ne__") else ""
        out += f"    def {name}(self, other: Any, /) -> Array: ...{ignored}\n"
    out += "".join(f"    def __{n}__(self, other: Any, /) -> tuple[Array, Array]: ...\n" for n in ("divmod", "rdivmod"))
    out += "".join(f"    def __{n}__(self) -> Array: ...\n" for n in _operators.UNARY)
    out += "".join(
        f"    def {n}(self, axis: Any = None, *more: Any, keepdims: bool = False, **options: Any) -> Array: ...\n" for n in _operators.REDUCTIONS
    )
    out += "".join(f"    def {n}(self, *args: Any, **options: Any) -> Array: ...\n" for n in _operators.METHODS)
    return out + "".join(f"    @property\n    def {n}(self) -> Array: ...\n" for n in _operators.PROPERTIES)


def missing() -> list[str]:
    """The names of the Array API that the namespace does not have."""
    return [n for n in [*STANDARD, *EXTENSIONS] if not hasattr(cw, n)]


def page(text: str) -> str:
    """The page with its list of missing names."""
    begin, end = "<!-- missing: made by tests/python -->\n", "\n<!-- end -->"
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    there = len([n for n in STANDARD if hasattr(cw, n)])
    lines = f"{there} of its {len(STANDARD)} names are there. Missing are: {', '.join(f'`{n}`' for n in missing())}."
    return head + begin + lines + end + tail


def signatures_of_the_api() -> list[str]:
    """Functions that are written by hand and have no docstring."""
    functions = (getattr(cw, n) for n in [*cw._OTHERS, *cw._STANDARD] if not n.startswith("__"))
    return [f.__name__ for f in functions if inspect.isfunction(f) and f.__module__ in (_api.__name__, _standard.__name__) and not f.__doc__]
