"""Means over time of u², v² and uv."""

import numpy as np
from job import example, generator

TITLE = "means of u², v², uv over time"
TOLERANCE = 1e-5  # NumPy, and so Dask, adds along the leading axis in single precision
PRODUCTS = {"uu": "uu", "vv": "vv", "uv": "uv"}


def generate(job):
    g = generator()
    store = job.store()
    g.quadratic_means(store, job.steps(g.step_bytes("quadratic_means", False)), False)
    store.close()


def outputs(job):
    shape = (1, 987, 1920)
    return {name: (shape, shape, np.dtype("f4")) for name in PRODUCTS}


def pipeline(job):
    return example("quadratic_means")


def reference(job):
    u, v = job.source("u"), job.source("v")
    sums = dict.fromkeys(PRODUCTS, 0.0)
    for start in range(0, u.shape[0], 10):
        part = {"u": u[start : start + 10], "v": v[start : start + 10]}
        for name in PRODUCTS:
            sums[name] = sums[name] + np.einsum("t...,t...->...", part[name[0]], part[name[1]], dtype="f8")
    return {name: s / u.shape[0] for name, s in sums.items()}


def cubed(job):
    import cubed.array_api as xp
    import with_cubed as c

    u, v = c.arrays(job, "u", "v")
    c.store(job, **{n: xp.mean(a * b, axis=0) for n, a, b in (("uu", u, u), ("vv", v, v), ("uv", u, v))})


def dask(job):
    import with_dask as d

    u, v = d.arrays(job, "u", "v")
    d.store(job, uu=(u * u).mean(axis=0), vv=(v * v).mean(axis=0), uv=(u * v).mean(axis=0))


def numpy(job):
    u, v = job.source("u")[...], job.source("v")[...]
    for name, a, b in (("uu", u, u), ("vv", v, v), ("uv", u, v)):
        job.target(name)[...] = np.mean(a * b, axis=0)


def tensorstore(job):
    import with_tensorstore as t

    at = t.context(job)
    arrays = [t.source(job, name, at) for name in "uv"]
    sums = dict.fromkeys(PRODUCTS, 0)
    for _, (u, v) in t.slabs(arrays, 10):
        for name, a, b in (("uu", u, u), ("vv", v, v), ("uv", u, v)):
            sums[name] = sums[name] + (a * b).sum(axis=0)
    for name, s in sums.items():
        t.target(job, name, at).write(s / np.float32(arrays[0].shape[0])).result()


def xarray_beam(job):
    import apache_beam as beam
    import xarray
    import xarray_beam as xbeam
    from with_beam import options, write

    source, chunks = xbeam.open_zarr(str(job.data))

    def products(key, part):
        u, v = part["u"], part["v"]
        return key, xarray.Dataset({"uu": u * u, "vv": v * v, "uv": u * v})

    one = source.isel(time=0, drop=True)
    template = xbeam.make_template(xarray.Dataset({"uu": one.u, "vv": one.u, "uv": one.u}))
    with beam.Pipeline(options=options(job)) as p:
        (p | xbeam.DatasetToChunks(source, chunks) | beam.MapTuple(products) | xbeam.Mean("time") | write(job, template, chunks))
