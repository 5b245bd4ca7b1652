"""Twelve element-wise operations, eleven of them transcendental or roots, and the sum of the result."""

import numpy as np

TITLE = "12 transcendental operations, sum"
SIZE = 0.5
TOLERANCE = 1e-4  # sums of single precision
GRID = (500, 1000)


def generate(job):
    store = job.store()
    store.random("x", (job.steps(4 * GRID[0] * GRID[1]), *GRID), (20, *GRID), ("t", "y", "x"))
    store.close()


def outputs(job):
    return {"sum": ((), (), np.dtype("f4"))}


def chain(xp, x):
    atan = getattr(xp, "atan", None) or xp.arctan
    y = xp.expm1(atan(xp.tanh(xp.sqrt(xp.log1p(xp.exp(xp.sin(x) * xp.cos(x)))))))
    return xp.sin(y) + xp.cos(y)


def pipeline(job):
    y = "expm1(atan(tanh(sqrt(log1p(exp(sin(x) * cos(x)))))))"
    return {"inputs": ["x"], "arrays": {"y": y}, "outputs": {"sum": "sum(sin(y) + cos(y))"}}


def reference(job):
    x, total = job.source("x"), 0.0
    for start in range(0, x.shape[0], 5):
        total += chain(np, x[start : start + 5]).sum(dtype="f8")
    return {"sum": np.float64(total)}


def arithmetic(job, machine):
    return int(np.prod(job.source("x").shape)) / machine["chain"]


def cubed(job):
    import cubed.array_api as xp
    import with_cubed as c

    (x,) = c.arrays(job, "x")
    c.store(job, sum=xp.sum(chain(xp, x)))


def dask(job):
    import dask.array as da
    import with_dask as d

    (x,) = d.arrays(job, "x")
    d.store(job, sum=chain(da, x).sum())


def numpy(job):
    job.target("sum")[...] = chain(np, job.source("x")[...]).sum()
