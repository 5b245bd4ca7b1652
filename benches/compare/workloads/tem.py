"""Zonal means and products of zonal anomalies, averaged over each day (four steps, which are a chunk)."""

import numpy as np
from job import example, generator

TITLE = "zonal anomalies, daily means (TEM)"
TOLERANCE = 1e-5
PAIRS = ("uv", "uw", "vt")


def generate(job):
    g = generator()
    store = job.store()
    days = job.steps(4 * g.step_bytes("tem", False))
    g.tem(store, 4 * days, False)
    store.close()


def outputs(job):
    days = job.source("u").shape[0] // 4
    return {name: ((days, 37, 181), (1, 37, 181), np.dtype("f4")) for name in ("u", "v", "w", "t", *PAIRS)}


def pipeline(job):
    return example("tem")


def fields(parts, mean):
    """The seven results, before the mean over the day, of u, v, w and t; `mean(x, keepdims)` is over longitude."""
    anomaly = {name: x - mean(x, True) for name, x in parts.items()}
    results = {name: mean(x, False) for name, x in parts.items()}
    for pair in PAIRS:
        results[pair] = mean(anomaly[pair[0]] * anomaly[pair[1]], False)
    return results


def reference(job):
    sources = {name: job.source(name) for name in "uvwt"}
    shape = next(iter(job.outputs().values()))[0]
    want = {name: np.empty(shape) for name in job.outputs()}
    for day in range(shape[0]):
        parts = {name: s[day * 4 : day * 4 + 4].astype("f8") for name, s in sources.items()}
        for name, x in fields(parts, lambda x, keep: x.mean(axis=-1, keepdims=keep)).items():
            want[name][day] = x.mean(axis=0)
    return want


def cubed(job):
    import with_cubed as c

    c.store(job, **daily(c.dataset(job)))


def dask(job):
    import with_dask as d
    import xarray as xr

    d.store(job, **daily(xr.open_zarr(str(job.data), chunks={})))


def daily(data):
    # xarray broadcasts by name, so no axis needs to be kept; no values are missing. `coarsen` is faster than grouping by date.
    results = fields({name: data[name] for name in "uvwt"}, lambda x, keep: x.mean("lon", skipna=False))
    return {name: x.coarsen(time=4).mean().data for name, x in results.items()}


def numpy(job):
    parts = {name: job.source(name)[...] for name in "uvwt"}
    for name, x in fields(parts, lambda x, keep: x.mean(axis=-1, keepdims=keep)).items():
        job.target(name)[...] = x.reshape(-1, 4, *x.shape[1:]).mean(axis=1)
