"""How TensorStore is used: it reads and writes, NumPy computes, and the next slab is read meanwhile."""


def context(job):
    import tensorstore as ts

    limit = {"limit": job.threads}
    # The others do not wait for the disk, so it does not either.
    return ts.Context({"data_copy_concurrency": limit, "file_io_concurrency": limit, "file_io_sync": False})


def source(job, name, at=None):
    import tensorstore as ts

    spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": str(job.data / name)}}
    return ts.open(spec, open=True, read=True, context=at or context(job)).result()


def target(job, name, at=None):
    import tensorstore as ts

    shape, chunks, dtype = job.outputs()[name]
    codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if job.compressed:
        from job import LZ4

        codecs.append({"name": "blosc", "configuration": {**LZ4, "typesize": dtype.itemsize, "blocksize": 0}})
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": str(job.out / name)},
        "metadata": {
            "shape": shape,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
            "data_type": str(dtype),
            "codecs": codecs,
        },
    }
    return ts.open(spec, create=True, context=at or context(job)).result()


def slabs(arrays, rows):
    """(start, block of each array) over slabs of `rows` of the leading axis; one slab is read ahead."""

    def read(start):
        return [a[start : min(start + rows, a.shape[0])].read() for a in arrays]

    starts = range(0, arrays[0].shape[0], rows)
    ahead = read(starts[0])
    for index, start in enumerate(starts):
        blocks = [future.result() for future in ahead]
        if index + 1 < len(starts):
            ahead = read(starts[index + 1])
        yield start, blocks
