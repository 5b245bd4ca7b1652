"""Array computations larger than memory, in bounded memory.

Arrays are lazy, and computed by an engine in Rust. The namespace is that of the Array API 2025.12, with functions that are made from the
engine's table of operations; ``__init__.pyi`` is generated from the same table.
"""

from __future__ import annotations

import numpy as _np

from . import _api, _chunkwise, _cumulative, _namespace, _standard, fft
from ._array import Array
from ._elements import searchsorted
from ._cumulative import cumreduction
from ._errors import ComputeError, MemoryLimitError
from ._functions import apply_gufunc, blockwise, map_blocks, map_overlap, reduction
from ._gradient import gradient
from ._groups import groupby_reduction
from ._names import NAMES
from ._inputs import from_array, from_zarr, normalize_chunks, open
from ._plans import visualize
from ._progress import ProgressBar
from ._random import Random
from ._rows import argsort, median, quantile, sort
from ._run import compute, persist, plan, store, to_zarr
from ._spec import Spec, config, raise_if_computes, watch
from ._windows import lib

__version__ = _chunkwise.__version__
__array_api_version__ = "2025.12"

bool_, int8, int16, int32, int64 = _np.dtype("bool"), _np.dtype("int8"), _np.dtype("int16"), _np.dtype("int32"), _np.dtype("int64")
uint8, uint16, uint32, uint64 = _np.dtype("uint8"), _np.dtype("uint16"), _np.dtype("uint32"), _np.dtype("uint64")
float32, float64 = _np.dtype("float32"), _np.dtype("float64")
complex64, complex128 = _np.dtype("complex64"), _np.dtype("complex128")

#: Functions that are called in another way than the table says, or are no operation of it.
_OTHERS = (
    "asarray astype broadcast_arrays broadcast_shapes can_cast concat e empty empty_like expand_dims full full_like inf isdtype "
    "matrix_transpose meshgrid moveaxis nan nansum nanprod newaxis ones ones_like pad pi reshape result_type size squeeze stack sum transpose unstack "
    "zeros zeros_like __array_namespace_info__"
).split()
#: As the Array API calls them.
_STANDARD = "arange clip diff eye finfo from_dlpack iinfo isin linspace repeat roll take take_along_axis tile tril triu".split()
#: With the arguments of the Array API or of NumPy.
_CUMULATIVE = "cumprod cumsum cumulative_prod cumulative_sum".split()

# The names of the Array API hide Python's own from here on.
globals().update(_namespace.FUNCTIONS)
globals().update({_name: getattr(_api, _name) for _name in _OTHERS})
globals().update({_name: getattr(_standard, _name) for _name in _STANDARD})
globals().update({_name: getattr(_cumulative, _name) for _name in _CUMULATIVE})
globals().update({_name: _value for _name, _value in NAMES.items() if _name not in globals()})
random = Random(_namespace.FUNCTIONS["random"])
globals().update(bool=bool_, prod=_api.prod_, concatenate=_api.concat)

__all__ = [_name for _name in globals() if not _name.startswith("_")]
