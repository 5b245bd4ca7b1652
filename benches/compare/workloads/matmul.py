"""The product of two matrices of 4000×4000."""

import numpy as np

TITLE = "4000×4000 matmul"
TOLERANCE = 1e-12


def side(job):
    return round(4000 * job.shrink ** (1 / 3))


def generate(job):
    store, n = job.store(), side(job)
    for name in "ab":
        store.random(name, (n, n), (1000, 1000), ("i", "j"), dtype=np.dtype("f8"))
    store.close()


def outputs(job):
    a = job.source("a")
    return {"c": (a.shape, a.chunks, a.dtype)}


def pipeline(job):
    return {"inputs": ["a", "b"], "arrays": {}, "outputs": {"c": "a @ b"}}


def reference(job):
    return {"c": job.source("a")[...] @ job.source("b")[...]}


def arithmetic(job, machine):
    return 2 * job.source("a").shape[0] ** 3 / machine["gemm"]


def cubed(job):
    import with_cubed as c

    a, b = c.arrays(job, "a", "b")
    c.store(job, c=a @ b)


def dask(job):
    import with_dask as d

    a, b = d.arrays(job, "a", "b")
    d.store(job, c=a @ b)


def numpy(job):
    job.target("c")[...] = job.source("a")[...] @ job.source("b")[...]
