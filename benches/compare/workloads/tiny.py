"""Twenty thousand chunks of 1 KB, element-wise into chunks of the same size: what a chunk costs."""

import numpy as np

TITLE = "x + 1 over 20,000 chunks of 1 KB"
TOLERANCE = 0.0
LENGTH = 128  # float64


def generate(job):
    import zarr

    chunks = round(20_000 * job.shrink)
    values = np.random.default_rng(0).standard_normal(chunks * LENGTH)
    zarr.create_array(str(job.data / "x"), data=values, chunks=(LENGTH,), compressors=None)


def outputs(job):
    x = job.source("x")
    return {"y": (x.shape, x.chunks, x.dtype)}


def pipeline(job):
    return {"inputs": ["x"], "arrays": {}, "outputs": {"y": "x + 1"}}


def reference(job):
    return {"y": job.source("x")[...] + 1}


def cubed(job):
    import cubed
    import with_cubed as c

    # A task for every chunk would take minutes; blocks of a thousand chunks are what a user would ask for.
    x = cubed.from_array(job.source("x"), chunks=(1000 * LENGTH,), spec=c.spec(job))
    c.store(job, y=x + 1)


def dask(job):
    import dask.array as da
    import with_dask as d

    x = da.from_zarr(str(job.data / "x"), chunks=(1000 * LENGTH,))
    d.store(job, y=x + 1)


def numpy(job):
    job.target("y")[...] = job.source("x")[...] + 1


def tensorstore(job):
    import with_tensorstore as t

    at = t.context(job)
    target = t.target(job, "y", at)
    for start, (x,) in t.slabs([t.source(job, "x", at)], 1000 * LENGTH):
        target[start : start + len(x)].write(x + 1).result()
