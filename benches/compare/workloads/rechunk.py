"""Time slabs to time series."""

import json
import os

from job import LZ4, example, generator

TITLE = "time slabs to time series"
TOLERANCE = 0.0


def generate(job):
    g = generator()
    store = job.store()
    g.rechunk(store, job.steps(g.step_bytes("rechunk", False)), False)
    store.close()
    twin(job)


def twin(job):
    """The same chunk files as an array of Zarr format 2, by hard links, because rechunker reads no other."""
    x = job.source("x")
    folder = job.data.parent / "rechunk.v2"
    folder.mkdir()
    blosc = {"id": "blosc", "cname": LZ4["cname"], "clevel": LZ4["clevel"], "shuffle": 1, "blocksize": 0}
    header = {
        "zarr_format": 2,
        "shape": x.shape,
        "chunks": x.chunks,
        "dtype": x.dtype.str,
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "compressor": blosc if job.compressed else None,
    }
    (folder / ".zarray").write_text(json.dumps(header))
    root = job.data / "x" / "c"
    for path in root.glob("*/*/*"):
        os.link(path, folder / ".".join(path.relative_to(root).parts))


def outputs(job):
    x = job.source("x")
    return {"x": (x.shape, (x.shape[0], 10, 10), x.dtype)}


def pipeline(job):
    return example("rechunk")


def reference(job):
    return {"x": job.source("x")[...]}


def cubed(job):
    import with_cubed as c

    # Blocks of many stored chunks: with a task for every chunk this takes minutes.
    (x,) = c.arrays(job, "x")
    c.store(job, x=x.rechunk((x.shape[0], 80, 360)))


def dask(job):
    import with_dask as d

    # Blocks of many stored chunks, here as well.
    (x,) = d.arrays(job, "x")
    d.store(job, x=x.rechunk({0: -1, 1: 80, 2: 360}))


def numpy(job):
    job.target("x")[...] = job.source("x")[...]


def tensorstore(job):
    import with_tensorstore as t

    at = t.context(job)
    t.target(job, "x", at).write(t.source(job, "x", at).read().result()).result()


def zarrs_reencode(job):
    codecs = [{"name": "blosc", "configuration": {**LZ4, "typesize": 4, "blocksize": 0}}] if job.compressed else []
    # Each chunk is a shard of one, because version 0.8.1 ignores the chunk shape otherwise.
    chunks = ",".join(map(str, outputs(job)["x"][1]))
    # A cache that holds the whole source: without one every output chunk would read whole input chunks again.
    command = [
        os.path.join(job.tools, "zarrs_reencode"),
        *("--chunk-shape", chunks, "--shard-shape", chunks),
        *("--bytes-to-bytes-codecs", json.dumps(codecs)),
        *("--concurrent-chunks", str(job.threads), "--cache-size", str(round(2e9 * job.gigabytes))),
        *(str(job.data / "x"), str(job.out / "x")),
    ]
    os.execv(command[0], command)


def rechunker(job):
    import dask
    import numcodecs
    import zarr
    from rechunker import rechunk

    # Chunks of the target are those of the others; the source is the same files, seen as Zarr format 2.
    source = zarr.open_array(str(job.data.parent / "rechunk.v2"), mode="r")
    compressor = numcodecs.Blosc("lz4", LZ4["clevel"], 1) if job.compressed else None
    plan = rechunk(
        source,
        (source.shape[0], 10, 10),
        job.allowed_mem // job.threads,
        str(job.out / "x"),
        temp_store=str(job.work / "rechunker"),
        target_options={"compressor": compressor},
        temp_options={"compressor": None},
        executor="dask",
    )
    with dask.config.set(scheduler="threads", num_workers=job.threads):
        plan.execute()


def xarray_beam(job):
    import apache_beam as beam
    import xarray_beam as xbeam
    from with_beam import options, write

    source, chunks = xbeam.open_zarr(str(job.data))
    target = {"time": source.sizes["time"], "lat": 80, "lon": 360}
    stored = {"time": source.sizes["time"], "lat": 10, "lon": 10}
    with beam.Pipeline(options=options(job)) as p:
        (
            p
            | xbeam.DatasetToChunks(source, chunks)
            | xbeam.Rechunk(source.sizes, chunks, target, itemsize=4, max_mem=job.allowed_mem // job.threads)
            | write(job, xbeam.make_template(source), stored)
        )
