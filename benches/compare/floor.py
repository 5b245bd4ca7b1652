"""What this machine can do: `floor.py machine THREADS` and `floor.py workload JOB.json OUTPUTS` print JSON.

A workload's limit is the sum of what nobody can avoid, each part on all cores at once: reading and decoding every stored input chunk
once, arithmetic where it matters, encoding and writing every output chunk once. The parts are added because files are in the page cache:
then all of them are work of the same cores. Buffers are touched before clocks start, and clocks start together in all processes.
"""

import json
import math
import multiprocessing
import os
import pathlib
import shutil
import sys
import time

import folders
import numpy as np
from job import LZ4, Job
from numcodecs import Blosc, blosc

PIECE = 1 << 20
FORK = multiprocessing.get_context("fork")
blosc.use_threads = False
CODEC = Blosc(LZ4["cname"], LZ4["clevel"], Blosc.SHUFFLE)


def parallel(count, function):
    """Runs `function(index, start)` in `count` processes; it calls `start()` when ready. Gives all results."""
    barrier, pipes = FORK.Barrier(count), []

    def child(index, pipe):
        pipe.send(function(index, barrier.wait))

    processes = []
    for index in range(count):
        ours, theirs = FORK.Pipe()
        process = FORK.Process(target=child, args=(index, theirs))
        process.start()
        theirs.close()
        processes.append(process)
        pipes.append(ours)
    results = [pipe.recv() for pipe in pipes]
    for process in processes:
        process.join()
    return results


class Chunks:
    """The stored chunks of the arrays under a folder: (path, decoded bytes if compressed, item size)."""

    def __init__(self, folder):
        self.files = []
        for header in sorted(pathlib.Path(folder).rglob("zarr.json")):
            meta = json.loads(header.read_text())
            if meta["node_type"] != "array":
                continue
            compressed = any(c["name"] == "blosc" for c in meta["codecs"])
            itemsize = np.dtype(meta["data_type"]).itemsize
            decoded = math.prod(meta["chunk_grid"]["configuration"]["chunk_shape"]) * itemsize
            for path, _, names in os.walk(header.parent / "c"):
                self.files += [(os.path.join(path, name), decoded if compressed else None, itemsize) for name in names]
        self.files.sort(key=lambda f: (os.path.getsize(f[0]), f[0]))

    def part(self, index, count):
        return self.files[index::count]


def read_piecewise(path, buffer):
    fd = os.open(path, os.O_RDONLY)
    while os.readv(fd, [buffer]):
        pass
    os.close(fd)


def read_whole(path, buffer):
    fd, size = os.open(path, os.O_RDONLY), 0
    while got := os.readv(fd, [buffer[size:]]):
        size += got
    os.close(fd)
    return buffer[:size]


def write(path, data):
    fd, at = os.open(path, os.O_WRONLY | os.O_CREAT), 0
    while at < len(data):
        at += os.write(fd, data[at : at + PIECE])
    os.close(fd)


def touched(size):
    return memoryview(bytearray(b"\1") * max(size, 1))


def read_and_decode(chunks, threads):
    def work(index, start):
        part = chunks.part(index, threads)
        piece = touched(PIECE)
        stored = touched(max([os.path.getsize(p) for p, d, _ in part if d], default=0) + 1)
        decoded = touched(max([d for _, d, _ in part if d], default=0))
        start()
        began = time.perf_counter()
        for path, size, _ in part:
            if size is None:
                read_piecewise(path, piece)
            else:
                CODEC.decode(read_whole(path, stored), decoded[:size])
        return time.perf_counter() - began

    return max(parallel(threads, work))


def encode_and_write(chunks, scratch, threads):
    def work(index, start):
        seconds = 0.0
        start()
        for number, (path, size, itemsize) in enumerate(chunks.part(index, threads)):
            data = pathlib.Path(path).read_bytes()
            # A hundred files a folder, and folders that no two processes share: creating files in one folder is serial.
            folder = scratch / f"{index}-{number // 100}"
            if number % 100 == 0:
                folder.mkdir()
            target = folder / str(number)
            if size is None:
                began = time.perf_counter()
                write(target, memoryview(data))
            else:
                values = np.frombuffer(CODEC.decode(data), f"V{itemsize}")
                values = values.view(f"u{itemsize}")
                began = time.perf_counter()
                write(target, memoryview(CODEC.encode(values)).cast("B"))
            seconds += time.perf_counter() - began
        return seconds

    folders.renew(scratch)
    seconds = max(parallel(threads, work))
    folders.discard(scratch)
    return seconds


def gemm(threads, n=2000):
    """Floating-point operations a second of double-precision products by NumPy's BLAS; the best of several."""
    from threadpoolctl import threadpool_limits

    a, b = np.random.default_rng(0).random((2, n, n))
    out = np.empty((n, n))
    with threadpool_limits(threads):
        np.matmul(a, b, out=out)
        return 2 * n**3 / min(timed(lambda: np.matmul(a, b, out=out)) for _ in range(5))


def least(seconds, tries=3, enough=0.5):
    """The least of several measurements, fewer if they take long."""
    results = [seconds()]
    while len(results) < tries and sum(results) < enough:
        results.append(seconds())
    return min(results)


def timed(function):
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def chain(threads, size=1 << 14, blocks=400):
    """Elements a second of the chain of operations by NumPy's loops, on blocks that stay in the cache."""
    from workloads.chain import chain as apply

    def work(index, start):
        x = np.random.default_rng(index).standard_normal(size, dtype="f4")
        apply(np, x)
        start()
        return timed(lambda: [apply(np, x).sum() for _ in range(blocks)])

    return threads * blocks * size / max(parallel(threads, work))


def copy(threads, size=256 << 20):
    """Bytes a second that memory moves in copies larger than caches; a copied byte is one read and one written."""

    def work(index, start):
        a, b = np.ones(size // 8), np.zeros(size // 8)
        start()
        return min(timed(lambda: np.copyto(b, a)) for _ in range(5))

    return threads * 2 * size / max(parallel(threads, work))


def files(threads, scratch, size=256 << 20):
    """Bytes a second of writing new files, and of reading them from the page cache."""

    def written(index, start):
        data = touched(size)
        start()
        return timed(lambda: write(scratch / str(index), data))

    def read(index, start):
        buffer = touched(PIECE)
        start()
        return min(timed(lambda: read_piecewise(scratch / str(index), buffer)) for _ in range(3))

    scratch.mkdir(parents=True)
    rates = [threads * size / max(parallel(threads, function)) for function in (written, read)]
    for path in scratch.iterdir():
        path.unlink()
    scratch.rmdir()
    return rates


def codec(threads, size=32 << 20):
    """Decoded bytes a second of decoding and encoding blosc-lz4 chunks of random single-precision numbers."""
    values = np.random.default_rng(0).standard_normal(size // 4, dtype="f4")
    encoded = CODEC.encode(values)

    def decode(index, start):
        out = touched(size)
        start()
        return min(timed(lambda: CODEC.decode(encoded, out)) for _ in range(5))

    def encode(index, start):
        start()
        return min(timed(lambda: CODEC.encode(values)) for _ in range(5))

    return [threads * size / max(parallel(threads, function)) for function in (decode, encode)]


def machine(threads, scratch):
    written, read = files(threads, scratch)
    decode, encode = codec(threads)
    return {
        "copy": copy(threads),
        "read": read,
        "write": written,
        "decode": decode,
        "encode": encode,
        "chain": chain(threads),
        "gemm 1": gemm(1),
        "gemm": gemm(threads),
    }


def workload(job, outputs):
    parts = {"read": least(lambda: read_and_decode(Chunks(job.data), job.threads))}
    if arithmetic := getattr(job.module, "arithmetic", None):
        rates = {"gemm": lambda: gemm(job.threads), "chain": lambda: chain(job.threads)}

        class Machine:
            def __getitem__(self, name):
                return rates[name]()

        parts["arithmetic"] = arithmetic(job, Machine())
    parts["write"] = least(lambda: encode_and_write(Chunks(outputs), job.folder / "floor", job.threads))
    parts["wall"] = sum(parts.values())
    return parts


def main():
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
    if sys.argv[1] == "machine":
        print(json.dumps(machine(int(sys.argv[2]), pathlib.Path(sys.argv[3]))))
    else:
        print(json.dumps(workload(Job.load(sys.argv[2]), sys.argv[3])))


if __name__ == "__main__":
    main()
