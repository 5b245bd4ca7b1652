"""The mean of everything."""

import numpy as np

TITLE = "mean of everything"
TOLERANCE = 1e-5
GRID = (500, 1000)
ROWS = 20


def generate(job):
    store = job.store()
    store.random("x", (job.steps(4 * GRID[0] * GRID[1]), *GRID), (ROWS, *GRID), ("t", "y", "x"), offset=1.0)
    store.close()


def outputs(job):
    return {"mean": ((), (), np.dtype("f4"))}


def pipeline(job):
    return {"inputs": ["x"], "arrays": {}, "outputs": {"mean": "mean(x)"}}


def reference(job):
    x = job.source("x")
    total = sum(x[start : start + ROWS].sum(dtype="f8") for start in range(0, x.shape[0], ROWS))
    return {"mean": np.float64(total / np.prod(x.shape))}


def cubed(job):
    import cubed.array_api as xp
    import with_cubed as c

    (x,) = c.arrays(job, "x")
    c.store(job, mean=xp.mean(x))


def dask(job):
    import with_dask as d

    (x,) = d.arrays(job, "x")
    d.store(job, mean=x.mean())


def numpy(job):
    job.target("mean")[...] = job.source("x")[...].mean()


def tensorstore(job):
    import with_tensorstore as t

    at = t.context(job)
    x = t.source(job, "x", at)
    total = sum(float(block.sum()) for _, (block,) in t.slabs([x], ROWS))
    t.target(job, "mean", at).write(np.float32(total / np.prod(x.shape))).result()
