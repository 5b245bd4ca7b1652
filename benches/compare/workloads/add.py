"""a + b, element by element."""

import numpy as np

TITLE = "a + b"
TOLERANCE = 0.0
GRID = (500, 1000)
ROWS = 20  # chunks of 40 MB


def generate(job):
    store = job.store()
    steps = job.steps(2 * 4 * GRID[0] * GRID[1])
    for name in "ab":
        store.random(name, (steps, *GRID), (ROWS, *GRID), ("t", "y", "x"))
    store.close()


def outputs(job):
    a = job.source("a")
    return {"sum": (a.shape, a.chunks, a.dtype)}


def pipeline(job):
    return {"inputs": ["a", "b"], "arrays": {}, "outputs": {"sum": "a + b"}}


def reference(job):
    return {"sum": job.source("a")[...] + job.source("b")[...]}


def cubed(job):
    import with_cubed as c

    a, b = c.arrays(job, "a", "b")
    c.store(job, sum=a + b)


def dask(job):
    import with_dask as d

    a, b = d.arrays(job, "a", "b")
    d.store(job, sum=a + b)


def numpy(job):
    job.target("sum")[...] = job.source("a")[...] + job.source("b")[...]


def tensorstore(job):
    import with_tensorstore as t

    at = t.context(job)
    target, written = t.target(job, "sum", at), []
    for start, (a, b) in t.slabs([t.source(job, name, at) for name in "ab"], ROWS):
        written.append(target[start : start + len(a)].write(np.add(a, b, out=a)))
        if len(written) > 2:
            written.pop(0).result()
    for future in written:
        future.result()
