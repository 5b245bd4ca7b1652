"""How Dask is used: arrays from Zarr with their chunks, stored without a lock, by the scheduler that the variant names."""

import contextlib


@contextlib.contextmanager
def scheduler(job):
    import dask

    if job.variant == "distributed":
        from distributed import Client, LocalCluster

        cluster = LocalCluster(
            n_workers=1,
            threads_per_worker=job.threads,
            processes=True,
            dashboard_address=None,
            memory_limit="12GB",
            local_directory=str(job.work),
        )
        with cluster, Client(cluster):
            yield
    else:
        with dask.config.set(scheduler="threads", num_workers=job.threads):
            yield


def arrays(job, *names):
    import dask.array as da

    return [da.from_zarr(str(job.data / name)) for name in names]


def store(job, **results):
    import dask.array as da

    da.store(list(results.values()), job.targets(results), lock=False)
