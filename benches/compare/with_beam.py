"""How xarray-beam is used: Beam's local runner with a worker a thread, in one process."""


def options(job):
    from apache_beam.options.pipeline_options import PipelineOptions

    return PipelineOptions([], runner="DirectRunner", direct_num_workers=job.threads, direct_running_mode="multi_threading")


def write(job, template, chunks):
    """Writes the outputs that the workload names; coordinates go along."""
    import xarray_beam as xbeam
    from job import LZ4
    from zarr.codecs import BloscCodec

    compressors = [BloscCodec(**LZ4)] if job.compressed else None
    encoding = {name: {"compressors": compressors} for name in template.data_vars}
    return xbeam.ChunksToZarr(str(job.out), template, chunks, zarr_format=3, encoding=encoding)
