"""QR of a tall matrix, 1,000,000×64: both factors."""

import numpy as np

TITLE = "tall-skinny QR"
TOLERANCE = 1e-10
COLUMNS, ROWS = 64, 50_000

# The one place to say how Chunkwise does it. Until it knows these functions, the harness reports "not available".
PIPELINE = {"inputs": ["A"], "arrays": {}, "outputs": {"Q": "qr_q(A)", "R": "qr_r(A)"}}


def generate(job):
    store = job.store()
    store.random("A", (round(1_000_000 * job.shrink), COLUMNS), (ROWS, COLUMNS), ("row", "column"), dtype=np.dtype("f8"))
    store.close()


def outputs(job):
    a = job.source("A")
    return {"Q": (a.shape, a.chunks, a.dtype), "R": ((COLUMNS, COLUMNS), (COLUMNS, COLUMNS), a.dtype)}


def pipeline(job):
    return PIPELINE


def check(job, result):
    """Factors are unique but for signs, so it is their properties that are checked: the largest of three errors."""
    a, q, r = job.source("A")[...], result("Q")[...], result("R")[...]
    return max(
        np.max(np.abs(q @ r - a)) / np.max(np.abs(a)),
        np.max(np.abs(q.T @ q - np.eye(COLUMNS))),
        np.max(np.abs(np.tril(r, -1))) / np.max(np.abs(r)),
    )


def arithmetic(job, machine):
    m, n = job.source("A").shape
    return 2 * m * n * n / machine["gemm"]  # AᵀA, which is symmetric, and A times the inverse of R, which is triangular


def cubed(job):
    import cubed.array_api as xp
    import with_cubed as c

    (a,) = c.arrays(job, "A")
    q, r = xp.linalg.qr(a)
    c.store(job, Q=q, R=r)


def dask(job):
    import dask.array as da
    import with_dask as d

    (a,) = d.arrays(job, "A")
    q, r = da.linalg.qr(a)
    d.store(job, Q=q, R=r)


def numpy(job):
    q, r = np.linalg.qr(job.source("A")[...])
    job.target("Q")[...] = q
    job.target("R")[...] = r
