"""Planning only: x + 1 over a million chunks. Peers build the graph that their scheduler is given."""

import numpy as np

TITLE = "plan only, 10⁶ chunks"
CHUNKS = 10**6
SIDE = 1000


def generate(job):
    declare(job, CHUNKS)


def declare(job, chunks):
    import zarr

    # Declared only: no chunk is stored.
    shape = (round(chunks * job.shrink), SIDE, SIDE)
    zarr.create_array(str(job.data / "x"), shape=shape, chunks=(1, SIDE, SIDE), dtype="f4", compressors=None)


def outputs(job):
    x = job.source("x")
    return {"y": (x.shape, x.chunks, np.dtype("f4"))}


def pipeline(job):
    return {"inputs": ["x"], "arrays": {}, "outputs": {"y": "sqrt(x) + 1"}}


def cubed(job):
    import cubed.array_api as xp
    import with_cubed as c
    from cubed.core.plan import arrays_to_plan

    (x,) = c.arrays(job, "x")
    plan = arrays_to_plan(xp.sqrt(x) + 1)._finalize()
    assert plan.num_tasks >= x.shape[0], plan.num_tasks


def dask(job):
    import dask
    import dask.array as da
    import with_dask as d

    (x,) = d.arrays(job, "x")
    (y,) = dask.optimize(da.sqrt(x) + 1)
    graph = dict(y.__dask_graph__())
    assert len(graph) >= x.shape[0], len(graph)
