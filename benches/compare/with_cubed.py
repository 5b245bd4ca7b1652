"""How Cubed is used: the executor that the variant names, a worker a thread, intermediates not compressed (its advice for local storage)."""


def spec(job):
    import cubed

    return cubed.Spec(
        work_dir=str(job.work),
        allowed_mem=job.allowed_mem,
        executor_name=job.variant or "threads",
        executor_options={"max_workers": job.threads},
        zarr_compressor=None,
    )


def arrays(job, *names):
    import cubed

    s = spec(job)
    return [cubed.from_zarr(str(job.data / name), spec=s) for name in names]


def store(job, **results):
    import cubed

    outputs = job.outputs()

    def aligned(x, stored):
        # A block may be several stored chunks; but a stored chunk of several blocks would be written by several tasks, of which one wins.
        whole = all(block % chunk == 0 or block == n for block, chunk, n in zip(x.chunksize, stored, x.shape, strict=True))
        return x if whole else x.rechunk(stored)

    cubed.store([aligned(x, outputs[name][1]) for name, x in results.items()], job.targets(results))


def dataset(job):
    import xarray as xr

    return xr.open_zarr(str(job.data), chunks={}, chunked_array_type="cubed", from_array_kwargs={"spec": spec(job)})
