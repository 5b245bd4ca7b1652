"""Element-wise functions, casts and reductions against NumPy, on warm blocks of 8 MB.

Runs `cargo bench -p chunkwise-kernels` (or reads its saved output), times NumPy on the same shapes, dtypes and ranges of numbers, and prints
the ratio ours / NumPy of the fastest runs, the losers first. Both allocate their output anew in each run; one thread.

    python benches/numpy_functions.py [--output divan.txt] [--profile quick] [--all]
"""

import argparse
import re
import subprocess
import time

import numpy as np

ROWS, BYTES = 1024, 8 << 20
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
NAMES = {"abs": "absolute", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "bitwise_invert": "invert",
         "pow": "power", "round": "rint", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
         "atan2": "arctan2", "atanh": "arctanh", "conj": "conjugate"}
REDUCTIONS = {"arg_min": np.argmin, "arg_max": np.argmax, "count_nonzero": np.count_nonzero,
              "moments": lambda x, axis: (np.mean(x, axis=axis), np.var(x, axis=axis))}


def block(dtype, seed):
    """Numbers as the Rust benchmark has them."""
    dtype = np.dtype(dtype)
    x = np.random.default_rng(seed).random((ROWS, BYTES // dtype.itemsize // ROWS))
    if dtype.kind == "b":
        return np.round(x).astype(dtype)
    return (1 + np.floor(99 * x) if dtype.kind in "iu" else 0.1 + 0.8 * x).astype(dtype)


def fastest(run, seconds=0.1):
    """Seconds of the fastest run."""
    best, end = float("inf"), time.perf_counter() + seconds
    while True:
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > end:
            return best


def runs(kind, name):
    """What NumPy does for a case; None where it has no such function."""
    words = name.split()
    if kind == "astype":
        x = block(words[0], 1)
        return lambda: x.astype(words[1])
    if kind == "reduce":
        x = block(words[1], 1)
        axis = {"first": 0, "last": 1, "all": None}[words[2]]
        function = REDUCTIONS.get(words[0]) or getattr(np, words[0])
        return lambda: function(x, axis=axis)
    op, dtype = words
    x, y = block(dtype, 1), block(dtype, 2)
    if op == "where":
        c = block("bool", 3)[:, : x.shape[1]].copy()
        return lambda: np.where(c, x, y)
    if op in ("real", "imag"):
        return lambda: getattr(np, op)(x).copy()
    if x.dtype.kind == "b" and op in ("floor", "ceil", "trunc", "round", "conj", "positive"):
        return None
    function = getattr(np, NAMES.get(op, op))
    args = (x, y)[: function.nin]
    return lambda: function(*args)


def cases(text):
    """(kind, name, seconds) of every line of the harness's tables."""
    kind = None
    for line in text.splitlines():
        if head := re.match(r"[├╰]─ (\w+)", line):
            kind = head[1]
        row = re.match(r"[│ ]+[├╰]─ (.+?)\s{2,}([\d.]+) (ns|µs|ms|s)\b", line)
        if row and kind in ("function", "astype", "reduce"):
            yield kind, row[1].strip(), float(row[2]) * UNITS[row[3]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", help="saved output of the benchmark")
    parser.add_argument("--profile", default="bench")
    parser.add_argument("--all", action="store_true", help="every case, not only the losers")
    args = parser.parse_args()
    command = ["cargo", "bench", "-p", "chunkwise-kernels", "--profile", args.profile, "--bench", "functions"]
    text = open(args.output).read() if args.output else subprocess.run(command, check=True, capture_output=True, text=True).stdout
    table = []
    with np.errstate(all="ignore"):
        for kind, name, ours in cases(text):
            try:
                run = runs(kind, name)
                theirs = run and fastest(run)
            except TypeError:
                theirs = None
            if theirs:
                table.append((ours / theirs, kind, name, ours, theirs))
    table.sort(reverse=True)
    ratios = np.array([row[0] for row in table])
    print(f"{len(table)} cases, {np.sum(ratios > 1.1)} slower than NumPy by a tenth, geometric mean of ours / NumPy {np.exp(np.log(ratios).mean()):.2f}")
    for ratio, kind, name, ours, theirs in table:
        if args.all or ratio > 1.0:
            print(f"{ratio:6.2f}  {kind:9} {name:32} {ours * 1e3:9.3f} ms {theirs * 1e3:9.3f} ms")


if __name__ == "__main__":
    main()
