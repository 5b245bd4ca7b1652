"""NumPy's products of vectors and matrices, and its linear algebra.

Products are operations of the engine, and so is QR of matrices with many rows and few columns, on which singular values rest. Of other functions NumPy gets whole matrices, in processes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from ._array import Array
from ._composed import diagonal, lazy, numpy_function, trace
from ._functions import apply_gufunc
from ._namespace import call


@numpy_function
def dot(a: Any, b: Any) -> Array:
    a, b = lazy(a), lazy(b)
    if not a.ndim or not b.ndim:
        return call("multiply", a, b)
    return call("tensordot", a, b, axes=[[a.ndim - 1], [max(b.ndim - 2, 0)]])


@numpy_function
def inner(a: Any, b: Any) -> Array:
    a, b = lazy(a), lazy(b)
    if not a.ndim or not b.ndim:
        return call("multiply", a, b)
    return call("tensordot", a, b, axes=[[a.ndim - 1], [b.ndim - 1]])


@numpy_function
def vdot(a: Any, b: Any) -> Array:
    a, b = (x.reshape([-1]) for x in (lazy(a), lazy(b)))
    return call("tensordot", call("conj", a) if a.dtype.kind == "c" else a, b, axes=[[0], [0]])


@numpy_function
def kron(a: Any, b: Any) -> Array:
    a, b = lazy(a), lazy(b)
    rank = max(a.ndim, b.ndim)
    a, b = (x[(*[None] * (rank - x.ndim), ...)] for x in (a, b))
    mixed = call("multiply", a[tuple(k for _ in range(rank) for k in (slice(None), None))], b[tuple(k for _ in range(rank) for k in (None, slice(None)))])
    return mixed.reshape([m * n for m, n in zip(a.shape, b.shape)])


@numpy_function
def outer(a: Any, b: Any) -> Array:
    return call("outer", lazy(a).reshape([-1]), lazy(b).reshape([-1]))


# Linear algebra.


class QRResult(NamedTuple):
    """As :func:`numpy.linalg.qr` returns it."""

    Q: Array
    R: Array


class SVDResult(NamedTuple):
    """As :func:`numpy.linalg.svd` returns it."""

    U: Array
    S: Array
    Vh: Array


def norm(x: Array, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Array:
    """``np.linalg.norm`` of vectors along an axis, and of matrices but for those of singular values."""
    if x.dtype.kind in "iub":
        x = x.astype(np.float64)
    sizes = call("abs", x)
    several = (axis is None and x.ndim > 1) or (isinstance(axis, tuple) and len(axis) == 2)
    if ord is None or (ord == "fro" and several) or (ord == 2 and not several):
        return call("sqrt", call("sum", call("square", sizes), axis=axis, keepdims=keepdims))
    if several and ord in (1, -1, np.inf, -np.inf):
        rows, columns = (normalize_axis_index(k, x.ndim) for k in (axis if axis is not None else (0, 1)))
        summed, extreme = (rows, columns) if ord in (1, -1) else (columns, rows)
        found = call("max" if ord > 0 else "min", call("sum", sizes, axis=summed, keepdims=True), axis=extreme, keepdims=True)
        return found if keepdims else found.squeeze([rows, columns])
    if several or isinstance(ord, str):
        raise NotImplementedError(f"the norm {ord!r} of matrices; compute() the array first if it fits into memory")
    if ord in (np.inf, -np.inf):
        return call("max" if ord > 0 else "min", sizes, axis=axis, keepdims=keepdims)
    if ord == 0:
        return call("count_nonzero", x, axis=axis, keepdims=keepdims).astype(sizes.dtype)
    return call("pow", call("sum", call("pow", sizes, float(ord)), axis=axis, keepdims=keepdims), 1 / ord)


def vector_norm(x: Array, /, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Array:
    """``np.linalg.vector_norm``."""
    if axis is None or isinstance(axis, tuple):
        axes = normalize_axis_tuple(tuple(range(x.ndim)) if axis is None else axis, x.ndim)
        rest = [k for k in range(x.ndim) if k not in axes]
        found = norm(call("permute_dims", x, [*rest, *axes]).reshape([*(x.shape[k] for k in rest), -1]), ord, -1)
        return found.reshape([1 if k in axes else n for k, n in enumerate(x.shape)]) if keepdims else found
    return norm(x, ord, axis, keepdims)


def matrix_norm(x: Array, /, *, keepdims: bool = False, ord: Any = "fro") -> Array:
    """``np.linalg.matrix_norm``."""
    return norm(x, ord, (x.ndim - 2, x.ndim - 1), keepdims)


def _matrices(name: str, signature: str) -> Any:
    function = getattr(np.linalg, name)

    def called(*args: Any, **kwargs: Any) -> Any:
        given = [a if isinstance(a, Array) else np.asarray(a) for a in args]
        shape = signature.replace("(n,k)", "(n)") if name == "solve" and given[1].ndim == 1 else signature
        return apply_gufunc(function, shape, *given, allow_rechunk=True, **kwargs)

    return called


def qr(a: Array, mode: str = "reduced") -> Any:
    """``np.linalg.qr`` of one matrix."""
    if mode not in ("reduced", "r") or a.ndim != 2:
        raise NotImplementedError(f"qr() of an array of {a.ndim} axes in the mode {mode!r}; there is that of one matrix, 'reduced' or 'r'")
    return call("qr_r", a) if mode == "r" else QRResult(call("qr_q", a), call("qr_r", a))


def svd(a: Array, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """``np.linalg.svd`` of one matrix, without full matrices: by QR, so that only a square of its shorter side must fit into memory. One of complex numbers must fit."""
    if a.ndim != 2 or hermitian or compute_uv and full_matrices and a.shape[0] != a.shape[1]:
        raise NotImplementedError("svd() is that of one matrix, with full_matrices=False")
    if a.shape[0] < a.shape[1] and a.dtype.kind != "c":
        if not compute_uv:
            return svd(a.T, compute_uv=False)
        v, s, uh = svd(a.T, full_matrices=False)
        return SVDResult(uh.T, s, v.T)
    a = a if a.dtype.kind in "fc" else a.astype(np.float64)
    size = np.empty(0, a.dtype).real.dtype
    q, small = (None, a) if a.dtype.kind == "c" else (call("qr_q", a), call("qr_r", a))
    given: dict[str, Any] = {"allow_rechunk": True, "output_sizes": {"k": min(a.shape)}}
    if not compute_uv:
        return apply_gufunc(np.linalg.svdvals, "(m,n)->(k)", small, output_dtypes=size, **given)

    def parts(block: Any) -> Any:
        return tuple(np.linalg.svd(block, full_matrices=False))

    u, s, vh = apply_gufunc(parts, "(m,n)->(m,k),(k),(k,n)", small, output_dtypes=[a.dtype, size, a.dtype], **given)
    return SVDResult(u if q is None else call("matmul", q, u), s, vh)


#: By the names of ``np.linalg``.
LINALG: dict[str, Any] = {
    "norm": norm,
    "vector_norm": vector_norm,
    "matrix_norm": matrix_norm,
    "qr": qr,
    "svd": svd,
    "svdvals": lambda a: svd(a, compute_uv=False),
    "trace": lambda x, offset=0, dtype=None: trace(x, offset, -2, -1, dtype),
    "diagonal": lambda x, offset=0: diagonal(x, offset, -2, -1),
    "inv": _matrices("inv", "(n,n)->(n,n)"),
    "det": _matrices("det", "(n,n)->()"),
    "cholesky": _matrices("cholesky", "(n,n)->(n,n)"),
    "eigvalsh": _matrices("eigvalsh", "(n,n)->(n)"),
    "solve": _matrices("solve", "(n,n),(n,k)->(n,k)"),
    "pinv": _matrices("pinv", "(m,n)->(n,m)"),
}
