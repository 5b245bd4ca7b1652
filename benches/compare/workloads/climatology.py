"""Anomalies from the mean of each day of the year, at full size.

The grid is of one degree, and not of a quarter as in the example, so that a gigabyte holds ten years and groups have ten members.
"""

import numpy as np
from job import example

TITLE = "anomalies from a daily climatology"
TOLERANCE = 1e-5
GRID = (181, 360)
ROWS = 120


def generate(job):
    store = job.store()
    steps = job.steps(4 * GRID[0] * GRID[1])
    store.random("x", (steps, *GRID), (ROWS, *GRID), ("time", "lat", "lon"), offset=15.0, spread=5.0)
    store.time(steps)
    store.grid(*GRID)
    store.close()


def outputs(job):
    x = job.source("x")
    return {"anomaly": (x.shape, x.chunks, x.dtype)}


def pipeline(job):
    return example("climatology")


def labels(steps):
    dates = np.datetime64("2000-01-01") + np.arange(steps)
    return (dates - dates.astype("M8[Y]").astype("M8[D]")).astype(int)


def anomalies(x, dtype):
    day = labels(x.shape[0])
    for label in range(day.max() + 1):
        members = np.flatnonzero(day == label)
        values = x[members]
        x[members] = values - values.mean(axis=0, dtype=dtype)
    return x


def reference(job):
    return {"anomaly": anomalies(job.source("x")[...], "f8")}


def cubed(job):
    import cubed
    import with_cubed as c

    # Bands that are whole in time. Grouping with xarray and flox makes a table of 366 days of every block, and is several times slower.
    (x,) = c.arrays(job, "x")
    bands = x.rechunk((x.shape[0], 8, GRID[1]))
    c.store(job, anomaly=cubed.map_blocks(lambda band: anomalies(band.copy(), "f4"), bands, dtype=x.dtype))


def dask(job):
    import with_dask as d
    import xarray as xr

    x = xr.open_zarr(str(job.data), chunks={})["x"]
    climatology = x.groupby("time.dayofyear").mean(skipna=False)
    anomaly = x.groupby("time.dayofyear") - climatology
    d.store(job, anomaly=anomaly.data.rechunk(outputs(job)["anomaly"][1]))


def numpy(job):
    job.target("anomaly")[...] = anomalies(job.source("x")[...], "f4")
