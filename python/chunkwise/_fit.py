"""Least squares, which xarray's ``polyfit`` asks for: matrix products of the engine, as long as no value is missing."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._array import Array
from ._functions import apply_gufunc
from ._namespace import call
from ._rows import moved


def least_squares(lhs: Any, rhs: Array, rcond: float | None = None, skipna: bool = False) -> tuple[Array, Array]:
    """The coefficients, and the sums of squared residuals, of the best fit of the columns of ``lhs`` to ``rhs`` along its first axis.

    The coefficients are on a first axis. As :func:`numpy.linalg.lstsq`, for ``lhs`` of shape (n, k) and ``rhs`` of shape (n, ...). With ``skipna``, each fit
    leaves out what is missing. Then NumPy fits, in processes, which read all n elements of a row at once.
    """
    lhs = np.asarray(lhs, np.float64)
    if skipna and len(lhs):
        return _with_gaps(lhs, rhs, rcond)
    from xarray.core import nputils

    (n, k), sizes = lhs.shape, np.linalg.svd(lhs, compute_uv=False)
    rcond = np.finfo(lhs.dtype).eps * max(n, k) if rcond is None else rcond
    rank = int((sizes > sizes.max(initial=0.0) * rcond).sum())
    nputils.warn_on_deficient_rank(rank, k)
    inverse = np.linalg.pinv(lhs, rcond=rcond)
    rhs = rhs.astype(np.result_type(lhs.dtype, rhs.dtype))
    found = call("tensordot", inverse, rhs, axes=[[1], [0]])
    if rank < k or n <= k:
        return found, call("multiply", found[0], float("nan"))
    rest = call("subtract", rhs, call("tensordot", lhs, found, axes=[[1], [0]]))
    return found, call("sum", call("square", call("abs", rest)), axis=0)


def _with_gaps(lhs: np.ndarray[Any, Any], rhs: Array, rcond: float | None) -> tuple[Array, Array]:
    from xarray.core import nputils

    n, k = lhs.shape

    def fit(block: Any) -> Any:
        columns = np.asarray(block, np.float64).reshape(-1, n).T
        found, residuals = nputils.least_squares(lhs, columns, rcond=rcond, skipna=True)
        return np.concatenate([found, residuals[None]]).T.reshape(*block.shape[:-1], k + 1)

    both = apply_gufunc(fit, "(i)->(k)", moved(rhs, [0]), output_dtypes=np.float64, output_sizes={"k": k + 1})
    both = call("permute_dims", both, [both.ndim - 1, *range(both.ndim - 1)])
    return both[:k], both[k]
