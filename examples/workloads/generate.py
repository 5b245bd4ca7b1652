"""Make the inputs of the standard workloads at any scale, slab by slab, reproducibly.

    python examples/workloads/generate.py quadratic_means --gigabytes 2
    python examples/workloads/generate.py all --scale 0.01
    chunkwise run examples/workloads/quadratic_means.yaml --allowed-mem 1GB

Each workload writes `DIRECTORY/NAME.zarr` (default directory: `data` beside this file). Only the leading axis is scaled,
so that chunks keep the size that makes the workload what it is; with `--small` the other axes shrink too, for tests.
At scale 1 a workload is about as large as the community benchmark it follows; `--gigabytes` sets the total instead.
Values depend on the seed, the array's name and the slab number, not on what else is generated.
"""

import argparse
import math
import pathlib
import shutil
import time
import zlib

import numpy as np
import zarr
from zarr.codecs import BloscCodec

FLOAT32 = np.dtype("float32")
FLOAT64 = np.dtype("float64")


def slab(seed, name, index, shape, dtype):
    """Standard normal values for slab `index` of array `name`."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), index])
    return rng.standard_normal(shape, dtype=dtype)


class Store:
    def __init__(self, path, seed, compress):
        self.path, self.seed, self.written = path, seed, 0
        self.compressors = BloscCodec(cname="lz4", clevel=5, shuffle="shuffle") if compress else None
        self.root = zarr.create_group(str(path))

    def random(self, name, shape, chunks, dims, dtype=FLOAT32, offset=0.0, spread=1.0, **attributes):
        """A random array, written one slab of chunks along the leading axis at a time."""
        chunks = tuple(max(1, min(c, n)) for c, n in zip(chunks, shape, strict=True))
        array = self.root.create_array(
            name,
            shape=shape,
            chunks=chunks,
            dtype=dtype,
            compressors=self.compressors,
            dimension_names=list(dims),
            attributes=attributes,
        )
        for index, start in enumerate(range(0, shape[0], chunks[0])):
            stop = min(start + chunks[0], shape[0])
            values = slab(self.seed, name, index, (stop - start, *shape[1:]), dtype)
            values *= dtype.type(spread)
            values += dtype.type(offset)
            array[start:stop] = values
            self.written += values.nbytes

    def coordinate(self, name, values, **attributes):
        array = self.root.create_array(
            name,
            shape=values.shape,
            chunks=values.shape,
            dtype=values.dtype,
            dimension_names=[name],
            attributes=attributes,
        )
        array[...] = values

    def time(self, count, unit="days", step=1):
        self.coordinate(
            "time",
            np.arange(count, dtype="int64") * step,
            units=f"{unit} since 2000-01-01 00:00:00",
            calendar="standard",
            standard_name="time",
            axis="T",
        )

    def grid(self, lat, lon):
        edges = np.linspace(-90, 90, lat + 1)
        self.coordinate("lat", (edges[1:] + edges[:-1]) / 2, units="degrees_north", standard_name="latitude")
        self.coordinate("lon", np.arange(lon) * (360 / lon), units="degrees_east", standard_name="longitude")

    def close(self):
        zarr.consolidate_metadata(str(self.path))


def means_like(small):
    return (32, 48) if small else (987, 1920)


def quadratic_means(store, steps, small):
    ny, nx = means_like(small)
    for name in ("u", "v"):
        store.random(name, (steps, 1, ny, nx), (10, 1, ny, nx), ("time", "face", "y", "x"))
    store.time(steps)


def vorticity(store, steps, small):
    quadratic_means(store, steps, small)
    ny, nx = means_like(small)
    # Grid spacing, between 0.5 and 1.5.
    for name in ("dx", "dy"):
        array = store.root.create_array(
            name, shape=(1, ny, nx), chunks=(1, ny, nx), dtype=FLOAT32, dimension_names=["face", "y", "x"]
        )
        array[...] = 0.5 + np.random.default_rng([store.seed, zlib.crc32(name.encode())]).random(
            (1, ny, nx), dtype=FLOAT32
        )


def tem_like(small):
    return (4, 18, 36) if small else (37, 181, 360)


def tem(store, steps, small):
    shape = tem_like(small)
    for name, offset in (("u", 10.0), ("v", 0.0), ("w", 0.0), ("t", 280.0)):
        store.random(name, (steps, *shape), (4, *shape), ("time", "level", "lat", "lon"), offset=offset)
    store.time(steps, unit="hours", step=6)
    store.grid(*shape[1:])


def latlon(small):
    return (19, 36) if small else (721, 1440)


def half_degree(small):
    """A coarser grid, so that a gigabyte holds more than two years of days: with one year every group has one member."""
    return (19, 36) if small else (361, 720)


def climatology(store, steps, small):
    shape = half_degree(small)
    store.random("x", (steps, *shape), (30, *shape), ("time", "lat", "lon"), offset=15.0, spread=5.0)
    store.time(steps)
    store.grid(*shape)


def rechunk(store, steps, small):
    shape = latlon(small)
    store.random("x", (steps, *shape), (31, *shape), ("time", "lat", "lon"), offset=280.0, spread=10.0)
    store.time(steps, unit="hours")
    store.grid(*shape)


def ata(store, steps, small):
    width = 100 if small else 1000
    store.random("A", (steps, width), (width, width), ("row", "column"), dtype=FLOAT64)


def step_bytes(name, small):
    size = math.prod
    return {
        "quadratic_means": lambda: 2 * 4 * size(means_like(small)),
        "vorticity": lambda: 2 * 4 * size(means_like(small)),
        "tem": lambda: 4 * 4 * size(tem_like(small)),
        "climatology": lambda: 4 * size(half_degree(small)),
        "rechunk": lambda: 4 * size(latlon(small)),
        "ata": lambda: 8 * (100 if small else 1000),
    }[name]()


#                   writer, steps at scale 1
WORKLOADS = {
    "quadratic_means": (quadratic_means, 5000),
    "vorticity": (vorticity, 5000),
    "tem": (tem, 1460 * 4),
    "climatology": (climatology, 365 * 30),
    "rechunk": (rechunk, 8760 * 2),
    "ata": (ata, 5_000_000),
}


def main():
    here = pathlib.Path(__file__).resolve().parent
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workload", choices=[*WORKLOADS, "all"])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--scale", type=float, help="fraction of the full number of steps")
    size.add_argument("--gigabytes", type=float, help="total size of a workload's inputs, decoded, in 10^9 bytes")
    size.add_argument("--steps", type=int, help="length of the leading axis")
    parser.add_argument("--directory", type=pathlib.Path, default=here / "data")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--small", action="store_true", help="shrink the other axes too (for tests)")
    parser.add_argument("--compress", action="store_true", help="blosc lz4 with shuffle; random data hardly shrinks")
    parser.add_argument("--overwrite", action="store_true", help="replace a store that this script made before")
    args = parser.parse_args()

    for name in WORKLOADS if args.workload == "all" else [args.workload]:
        write, full = WORKLOADS[name]
        if args.steps is not None:
            steps = args.steps
        elif args.scale is not None:
            steps = round(full * args.scale)
        else:
            steps = round((1.0 if args.gigabytes is None else args.gigabytes) * 1e9 / step_bytes(name, args.small))
        steps = max(1, steps)
        path = args.directory / f"{name}.zarr"
        if path.exists():
            if not args.overwrite:
                parser.error(f"{path} exists; use --overwrite")
            shutil.rmtree(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        started = time.perf_counter()
        store = Store(path, args.seed, args.compress)
        write(store, steps, args.small)
        store.close()
        seconds = time.perf_counter() - started
        print(f"{path}: {steps} steps, {store.written / 1e9:.3f} GB, {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
