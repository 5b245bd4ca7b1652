"""Chunkwise beside loops in C that do the least, and on one thread and on two: whole processes in turn, medians of
times and of each turn's ratios.

    python benches/loops.py [--only reading decoding alone threads tiny] [--gigabytes 4] [--turns 9] [--markdown docs/design/performance.md]

`reading`: the mean of raw chunks beside loops that read the same files, and that add them up as well. `decoding`: the
same of zstd chunks, beside a loop that reads and decodes them. `alone`: one large chunk, which
is one task, on one thread and on two. `threads`: work that is bound by arithmetic on one thread and on two. `tiny`: 20,000 chunks of 1 KB
beside a loop with the same calls. The data, a few gigabytes, are made once in `--folder`; the command is CHUNKWISE_BIN, or
`target/release/chunkwise`. Needs a C compiler (`cc`), and libzstd.so.1 for `decoding`.
"""

import argparse
import itertools
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import time

import numpy as np
import page
import zarr
from zarr.codecs import BloscCodec, ZstdCodec

HERE = pathlib.Path(__file__).resolve().parent
BINARY = os.environ.get("CHUNKWISE_BIN", HERE.parent / "target" / "release" / "chunkwise")
CODECS = {"raw": None, "blosc-lz4": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"), "zstd": ZstdCodec(level=1)}
CHAIN = "sin(x) * exp(x) + log(x + 1) + sqrt(x) * tanh(x) + atan(x) * cos(x) + asin(x) * sinh(x)"
TINY = 20_000
NUMBERS = itertools.count()


def measured(command):
    """Seconds of wall and of CPU time of a process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command}: {done.stdout[-2000:]}")
    return wall, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


class Turns:
    """What some commands took that ran in turn, forwards and backwards; `before` is called before each process."""

    def __init__(self, turns, commands, before=lambda: None):
        self.rows = {name: [] for name in commands}
        for turn in range(turns + 1):
            for name in list(commands)[:: -1 if turn % 2 else 1]:
                before()
                self.rows[name].append(measured(commands[name]))
        for rows in self.rows.values():
            # The first turn warms the page cache.
            del rows[0]

    def __getitem__(self, name):
        """Medians of wall and CPU seconds."""
        return tuple(statistics.median(column) for column in zip(*self.rows[name]))

    def __iter__(self):
        return ((name, self[name]) for name in self.rows)

    def rate(self, name, of):
        """How fast a command was beside another one: the median of the turns' ratios, since other work on a machine comes and goes."""
        return statistics.median(theirs[0] / ours[0] for ours, theirs in zip(self.rows[name], self.rows[of]))


def run(folder, text, source, target="out.zarr", workers=2, memory="6GB", codec=None):
    """A command that computes an expression of `x`."""
    path = folder / f"{next(NUMBERS)}.yaml"
    output = f"{{array: r, codec: {codec}}}" if codec else "r"
    where = target if target.startswith("memory:") else folder / target
    path.write_text(f'inputs: {{x: {folder / source}}}\narrays: {{r: "{text}"}}\noutputs: {{"{where}": {output}}}\n')
    return [BINARY, "run", path, "--overwrite", "--allowed-mem", memory, "--workers", workers, "--work-dir", folder / "work"]


def array(folder, name, shape, chunks, codec=None, dtype="float32", whole=False):
    """Random numbers between 0 and 1, or `whole` ones up to 1000, made once for a shape."""
    if (folder / name).exists():
        if zarr.open_array(str(folder / name)).shape == shape:
            return
        shutil.rmtree(folder / name)
    random = np.random.default_rng(0)
    made = zarr.create_array(str(folder / f"{name}.part"), shape=shape, chunks=chunks, dtype=dtype, compressors=codec, overwrite=True)
    for start in range(0, shape[0], chunks[0]):
        piece = (min(chunks[0], shape[0] - start), *shape[1:])
        made[start : start + chunks[0]] = random.integers(0, 1000, piece) if whole else random.random(piece, dtype=dtype)
    (folder / f"{name}.part").rename(folder / name)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def reading(args, loops):
    count = max(1, round(args.gigabytes * 1e9 / (64 * 1024 * 1024)))
    array(args.folder, "x.zarr", (count * 16, 1024, 1024), (16, 1024, 1024))
    files = sorted(p for p in (args.folder / "x.zarr" / "c").rglob("*") if p.is_file())
    least = args.folder / "least.yaml"
    least.write_text(f'arrays: {{r: "mean(arange(10))"}}\noutputs: {{"{args.folder / "ten.zarr"}": r}}\n')
    commands = {
        "a loop in C that reads, in pieces": [loops, "read", 2, *files],
        "a loop in C that reads chunks whole": [loops, "whole", 2, *files],
        "a loop in C that reads in pieces and adds up in `float32`": [loops, "add", 2, *files],
        "the same in `float64`": [loops, "widen", 2, *files],
        "Chunkwise, the whole process": run(args.folder, "mean(x)", "x.zarr", memory="1GB"),
        "Chunkwise, the mean of ten numbers": [BINARY, "run", least, "--overwrite", "--work-dir", args.folder / "work"],
    }
    found = Turns(args.turns, commands)
    rows = [
        [name, f"{1e3 * wall:.0f} ms", f"{1e3 * cpu:.0f} ms", *(f"{found.rate(name, bare):.2f}" for bare in list(commands)[:2])]
        for name, (wall, cpu) in found
    ]
    # Ten numbers are not the files.
    rows[-1][-2:] = ["", ""]
    return table(["", "time", "CPU time", "rate of reading pieces", "rate of reading chunks"], rows)


def decoding(args, loops):
    """Chunks of zarr-python's default codec, of numbers that shrink to less than half."""
    count = max(1, round(args.gigabytes * 5e8 / (64 * 1024 * 1024)))
    array(args.folder, "z.zarr", (count * 16, 1024, 1024), (16, 1024, 1024), ZstdCodec(level=0), whole=True)
    files = sorted(p for p in (args.folder / "z.zarr" / "c").rglob("*") if p.is_file())
    commands = {
        "a loop in C that reads and decodes": [loops, "decode", 2, 64 * 1024 * 1024, *files],
        "Chunkwise, the whole process": run(args.folder, "mean(x)", "z.zarr", memory="1GB"),
    }
    found = Turns(args.turns, commands)
    bare = next(iter(commands))
    rows = [[name, f"{1e3 * wall:.0f} ms", f"{1e3 * cpu:.0f} ms", f"{found.rate(name, bare):.2f}"] for name, (wall, cpu) in found]
    return table(["", "time", "CPU time", "rate of the loop"], rows)


def alone(args, loops):
    rows = []
    for codec, compressors in CODECS.items():
        array(args.folder, f"one-{codec}.zarr", (256, 1024, 1024), (256, 1024, 1024), compressors)
        for what, text in (("mean", "mean(x)"), ("sum of a chain", f"sum({CHAIN})"), ("the chain, written", CHAIN)):
            commands = {n: run(args.folder, text, f"one-{codec}.zarr", workers=n) for n in (1, 2)}
            found = Turns(max(1, args.turns // 3), commands)
            one, two = found[1][0], found[2][0]
            rows.append([what, codec, f"{one:.2f} s", f"{two:.2f} s", f"{found.rate(2, 1):.2f}"])
    return table(["work", "chunk", "one thread", "two threads", "ratio"], rows)


def threads(args, loops):
    array(args.folder, "chain.zarr", (512, 1024, 1024), (4, 1024, 1024))
    array(args.folder, "square.zarr", (4000, 4000), (1000, 4000), dtype="float64")
    rows = []
    for what, text, source in (
        ("sum of a chain of 18 operations, 2.1 GB", f"sum({CHAIN})", "chain.zarr"),
        ("product of two 4000×4000 matrices, `float64`", "x @ x", "square.zarr"),
    ):
        found = Turns(args.turns, {n: run(args.folder, text, source, workers=n, memory="1GB") for n in (1, 2)})
        (one, _), (two, cpu) = found[1], found[2]
        rows.append([what, f"{one:.2f} s", f"{two:.2f} s", f"{found.rate(2, 1):.2f}", f"{cpu:.2f} s"])
    return table(["work", "one thread", "two threads", "ratio", "CPU time of two"], rows)


def tiny(args, loops):
    array(args.folder, "tiny.zarr", (TINY * 256,), (256,))
    outputs = args.folder / "tiny-out"
    fresh = outputs / "loop"

    def clean():
        shutil.rmtree(outputs, ignore_errors=True)
        outputs.mkdir()
        os.sync()

    commands = {
        "a loop in C: read, create, write, rename": [loops, "write", 2, args.folder / "tiny.zarr", fresh, TINY],
        "Chunkwise": run(args.folder, "x + 1", "tiny.zarr", "tiny-out/o.zarr", memory="1GB", codec="none"),
        "Chunkwise, output in `memory:`": run(args.folder, "x + 1", "tiny.zarr", "memory:o.zarr", memory="1GB", codec="none"),
    }
    found = Turns(max(1, args.turns // 2), commands, clean)
    clean()
    return table(
        ["", "wall time", "CPU time a chunk"],
        [[name, f"{wall:.2f} s", f"{1e6 * cpu / TINY:.0f} µs"] for name, (wall, cpu) in found],
    )


SECTIONS = {"reading": reading, "decoding": decoding, "alone": alone, "threads": threads, "tiny": tiny}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--gigabytes", type=float, default=4.0, help="of raw chunks [4]")
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--folder", type=pathlib.Path, default=HERE / "data" / "loops")
    parser.add_argument("--markdown", type=pathlib.Path)
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    args.folder.mkdir(parents=True, exist_ok=True)
    loops = args.folder / "loops"
    subprocess.run(["cc", "-O3", "-march=native", "-ffast-math", "-pthread", "-o", loops, HERE / "loops.c", "-ldl"], check=True)
    for name in args.only:
        text = SECTIONS[name](args, loops)
        print(f"{name}\n{text}\n", flush=True)
        if args.markdown:
            page.put(args.markdown, name, text)


if __name__ == "__main__":
    main()
