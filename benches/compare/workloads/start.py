"""Not a workload: what each peer imports before it does anything."""


def cubed(job):
    import cubed.array_api  # noqa: F401
    import zarr  # noqa: F401


def dask(job):
    import dask.array  # noqa: F401
    import zarr  # noqa: F401

    if job.variant == "distributed":
        import distributed  # noqa: F401


def numpy(job):
    import numpy  # noqa: F401
    import zarr  # noqa: F401


def tensorstore(job):
    import numpy  # noqa: F401
    import tensorstore  # noqa: F401


def xarray_beam(job):
    import apache_beam  # noqa: F401
    import xarray_beam  # noqa: F401


def rechunker(job):
    import dask  # noqa: F401
    import rechunker  # noqa: F401
    import zarr  # noqa: F401


def zarrs_reencode(job):
    import os

    command = os.path.join(job.tools, "zarrs_reencode")
    os.execv(command, [command, "--version"])
