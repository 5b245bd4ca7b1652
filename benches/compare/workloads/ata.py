"""AᵀA of a tall matrix."""

import numpy as np
from job import example, generator

TITLE = "AᵀA of a tall matrix"
TOLERANCE = 1e-12


def generate(job):
    g = generator()
    store = job.store()
    g.ata(store, job.steps(g.step_bytes("ata", False)), False)
    store.close()


def outputs(job):
    n = job.source("A").shape[1]
    return {"ata": ((n, n), (n, n), np.dtype("f8"))}


def pipeline(job):
    return example("ata")


def reference(job):
    a, total = job.source("A"), 0.0
    for start in range(0, a.shape[0], 20000):
        part = a[start : start + 20000]
        total = total + part.T @ part
    return {"ata": total}


def arithmetic(job, machine):
    m, n = job.source("A").shape
    return m * n * n / machine["gemm"]  # half of 2mn², as the result is symmetric


def cubed(job):
    import cubed.array_api as xp
    import with_cubed as c

    (a,) = c.arrays(job, "A")
    c.store(job, ata=xp.matmul(xp.permute_dims(a, (1, 0)), a))


def dask(job):
    import with_dask as d

    (a,) = d.arrays(job, "A")
    d.store(job, ata=a.T @ a)


def numpy(job):
    a = job.source("A")[...]
    job.target("ata")[...] = a.T @ a
