"""Mean over time of the vorticity on a grid: differences padded back by the first value, times the grid spacing."""

import numpy as np
from job import example, generator

TITLE = "mean vorticity (differences, padding)"
TOLERANCE = 1e-5
WIDTH = {3: ((0, 0), (0, 0), (0, 0), (1, 0)), 2: ((0, 0), (0, 0), (1, 0), (0, 0))}


def generate(job):
    g = generator()
    store = job.store()
    g.vorticity(store, job.steps(g.step_bytes("vorticity", False)), False)
    store.close()


def outputs(job):
    shape = (1, 987, 1920)
    return {"vorticity": (shape, shape, np.dtype("f4"))}


def pipeline(job):
    return example("vorticity")


def curl(xp, u, v, dx, dy):
    dvdx = xp.pad(xp.diff(v, axis=3), WIDTH[3], mode="symmetric") * dx
    dudy = xp.pad(xp.diff(u, axis=2), WIDTH[2], mode="symmetric") * dy
    return dvdx - dudy


def reference(job):
    u, v, total = job.source("u"), job.source("v"), 0.0
    dx, dy = job.source("dx")[...], job.source("dy")[...]
    for start in range(0, u.shape[0], 10):
        total = total + curl(np, u[start : start + 10], v[start : start + 10], dx, dy).sum(axis=0, dtype="f8")
    return {"vorticity": total / u.shape[0]}


def cubed(job):
    import cubed
    import cubed.array_api as xp
    import with_cubed as c

    u, v, dx, dy = c.arrays(job, "u", "v", "dx", "dy")
    # Without `chunks` the padded arrays would have those of the differences, and a second one for the last row.
    dvdx = cubed.pad(xp.diff(v, axis=3), WIDTH[3], mode="symmetric", chunks=v.chunksize) * dx
    dudy = cubed.pad(xp.diff(u, axis=2), WIDTH[2], mode="symmetric", chunks=u.chunksize) * dy
    c.store(job, vorticity=xp.mean(dvdx - dudy, axis=0))


def dask(job):
    import dask.array as da
    import with_dask as d

    # Chunks are whole in both grid axes, so the padded field is made of one block by `map_blocks`, faster than `da.pad`.
    u, v, dx, dy = d.arrays(job, "u", "v", "dx", "dy")
    field = da.map_blocks(lambda u, v, dx, dy: curl(np, u, v, dx, dy), u, v, dx[None], dy[None], dtype="f4")
    d.store(job, vorticity=field.mean(axis=0))


def numpy(job):
    u, v, dx, dy = (job.source(name)[...] for name in ("u", "v", "dx", "dy"))
    job.target("vorticity")[...] = curl(np, u, v, dx, dy).mean(axis=0)
