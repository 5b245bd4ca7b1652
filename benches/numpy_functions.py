"""Element-wise functions, casts and reductions against NumPy, on warm blocks of 8 MB.

Runs `cargo bench -p chunkwise-kernels` (or reads its saved output), times NumPy on the same shapes, dtypes and ranges of numbers, and prints
the ratio ours / NumPy of the fastest runs, the losers first. Both allocate their output anew in each run; one thread. On a shared machine some
runs of either are disturbed, so what seems to be slower than NumPy is run again, both in turn: of these cases it is the pair with the median ratio.

    python benches/numpy_functions.py [--output divan.txt ...] [--profile quick] [--repeat 3] [--again 5] [--all] [--markdown docs/function-speed.md]
"""

import argparse
import datetime
import pathlib
import re
import subprocess
import time
import warnings

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROWS, BYTES = 1024, 8 << 20
DTYPES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split()
UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}
NAMES = {"abs": "absolute", "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "bitwise_invert": "invert",
         "pow": "power", "round": "rint", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
         "atan2": "arctan2", "atanh": "arctanh", "conj": "conjugate"}
REDUCTIONS = {"arg_min": np.argmin, "arg_max": np.argmax, "count_nonzero": np.count_nonzero,
              "moments": lambda x, axis: (np.mean(x, axis=axis), np.var(x, axis=axis))}


def block(dtype, seed, low=0.1):
    """Numbers as the Rust benchmark has them."""
    dtype = np.dtype(dtype)
    random = np.random.default_rng(seed)
    x = random.random((ROWS, BYTES // dtype.itemsize // ROWS))
    if dtype.kind == "b":
        return np.round(x).astype(dtype)
    if dtype.kind == "c":
        return (low + 0.8 * x + 1j * (low + 0.8 * random.random(x.shape))).astype(dtype)
    return (1 + np.floor(99 * x) if dtype.kind in "iu" else low + 0.8 * x).astype(dtype)


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
        x = block(words[1], 1, 0.6 if words[0] == "prod" else 0.1)
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


def timed(names):
    """{(kind, name): seconds} of NumPy for the cases it has."""
    found = {}
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        for kind, name in names:
            try:
                if run := runs(kind, name):
                    found[kind, name] = fastest(run)
            except TypeError:
                pass
    return found


def keep(best, found):
    """The fastest of what was there and what was found."""
    for case, seconds in found.items():
        best[case] = min(seconds, best.get(case, seconds))


def errors():
    """{(function, dtype): ulp} as the tables of crates/math say."""
    found, dtype = {}, None
    for line in (ROOT / "crates/math/src/lib.rs").read_text().splitlines():
        if head := re.match(r"//! \| `f(32|64)` \|", line):
            dtype = f"float{head[1]}"
        elif row := re.match(r"//! \| ([a-z0-9, ]+) \| ([\d.]+) \|", line):
            found.update({(name, dtype): row[2] for name in row[1].split(", ")})
    return found


def grid(rows, columns, cells, corner):
    """A Markdown table."""
    yield f"| {corner} | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in rows:
        yield f"| {row} | " + " | ".join(cells.get((row, column), "") for column in columns) + " |"


def markdown(table, command):
    """The document with every ratio."""
    ratios = np.array([row[0] for row in table])
    cells = {(kind, name): f"**{ratio:.2f}**" if ratio > 1.1 else f"{ratio:.2f}" for ratio, kind, name, _, _ in table}
    ulp = errors()
    yield "# Functions beside NumPy's"
    yield ""
    yield f"Written by `{command}` on {datetime.date.today()}, NumPy {np.__version__}: do not edit."
    yield ""
    yield ("Each figure is the time of one operation on a warm block of 8 MB, divided by that of NumPy, on one thread. Below 1 Chunkwise is faster; above 1.1 the figure is bold. "
           "It is the ratio of the fastest runs of both or, if that is above 1.02, the median of the ratios of pairs of runs. Both programs allocate their output in every run, "
           "each with its own allocator. The allocator of the command keeps large blocks, and NumPy maps the outputs of casts to wider dtypes anew, so these casts are faster by the page faults. "
           "A cell is empty if the dtype or NumPy does not have the function. Integers are between 1 and 100, floats and parts of complex numbers "
           "between 0.1 and 0.9 (for products between 0.6 and 1.4, so that they are not denormal), and bools are false or true.")
    yield ""
    yield (f"Of {len(table)} cases {np.sum(ratios > 1.1)} are slower than NumPy by more than a tenth and {np.sum(ratios > 1.0)} at all; "
           f"the geometric mean of the ratios is {np.exp(np.log(ratios).mean()):.2f}.")
    yield ""
    yield "## Element-wise functions"
    yield ""
    yield "The last two columns bound the error in units of the last place, where it is not correctly rounded (see `crates/math`)."
    yield ""
    names = sorted({name.split()[0] for _, kind, name, _, _ in table if kind == "function"})
    body = {(op, d): cells.get(("function", f"{op} {d}"), "") for op in names for d in DTYPES}
    body.update({(op, f"ulp f{d[5:]}"): ulp[op, d] for op, d in ulp})
    yield from grid(names, DTYPES + ["ulp f32", "ulp f64"], body, "function")
    yield ""
    yield "## Casts"
    yield ""
    yield "From the dtype of the row to that of the column."
    yield ""
    yield from grid(DTYPES, DTYPES, {(a, b): cells.get(("astype", f"{a} {b}"), "") for a in DTYPES for b in DTYPES}, "from")
    yield ""
    yield "## Reductions"
    yield ""
    yield ("Along the first axis of a matrix with 1024 rows, along the last one, and over all elements. Sums of floats are taken in `float64` "
           "here and in the dtype by NumPy; `moments` is the mean and the variance, two calls of NumPy.")
    yield ""
    names = sorted({" ".join(name.split()[::2]) for _, kind, name, _, _ in table if kind == "reduce"})
    body = {(n, d): cells.get(("reduce", f"{n.split()[0]} {d} {n.split()[1]}"), "") for n in names for d in DTYPES}
    yield from grid(names, DTYPES, body, "reduction")
    yield ""
    yield "## Slower than NumPy"
    yield ""
    yield "| case | ratio | Chunkwise | NumPy |"
    yield "|---|---|---|---|"
    for ratio, kind, name, ours, theirs in table:
        if ratio > 1.1:
            yield f"| {kind} {name} | {ratio:.2f} | {ours * 1e3:.3f} ms | {theirs * 1e3:.3f} ms |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", nargs="+", help="saved outputs of the benchmark: the fastest runs of all count")
    parser.add_argument("--profile", default="bench")
    parser.add_argument("--repeat", type=int, default=1, help="run both this often; the fastest runs count")
    parser.add_argument("--again", type=int, default=5, help="run what seems slower than NumPy this often again, both in turn, and take the median")
    parser.add_argument("--all", action="store_true", help="every case, not only the losers")
    parser.add_argument("--markdown", type=pathlib.Path, help="write all ratios to this file")
    args = parser.parse_args()
    command = ["cargo", "bench", "-p", "chunkwise-kernels", "--profile", args.profile, "--bench", "functions", "--"]
    ours, theirs = {}, {}

    def measure(names=()):
        """Our seconds of some cases, by default of all."""
        filters = [rf"\b{re.escape(name)}$" for _, name in names]
        text = subprocess.run(command + filters, check=True, capture_output=True, text=True, cwd=ROOT).stdout
        return {(kind, name): seconds for kind, name, seconds in cases(text)}

    texts = iter(args.output or [])
    for turn in range(max(args.repeat, len(args.output or []))):
        if args.output:
            saved = next(texts, None)
            keep(ours, {(kind, name): seconds for kind, name, seconds in cases(open(saved).read() if saved else "")})
        else:
            keep(ours, measure())
        if turn < args.repeat:
            keep(theirs, timed(ours))
    # The fastest run of all may be one of a moment in which the machine had nothing else to do: what seems slower is judged by pairs.
    slower = [case for case, seconds in theirs.items() if ours[case] > 1.02 * seconds]
    pairs = [(measure(slower), timed(slower)) for _ in range(0 if args.output else args.again) if slower]
    for case in slower if pairs else []:
        found = sorted(((mine[case], numpy[case]) for mine, numpy in pairs), key=lambda pair: pair[0] / pair[1])
        ours[case], theirs[case] = found[len(found) // 2]
    table = sorted(((ours[case] / t, *case, ours[case], t) for case, t in theirs.items()), reverse=True)
    ratios = np.array([row[0] for row in table])
    print(f"{len(table)} cases, {np.sum(ratios > 1.1)} slower than NumPy by a tenth, geometric mean of ours / NumPy {np.exp(np.log(ratios).mean()):.2f}")
    for ratio, kind, name, mine, numpy in table:
        if args.all or ratio > 1.0:
            print(f"{ratio:6.2f}  {kind:9} {name:32} {mine * 1e3:9.3f} ms {numpy * 1e3:9.3f} ms")
    if args.markdown:
        text = f"python benches/numpy_functions.py --profile {args.profile} --repeat {args.repeat} --again {args.again} --markdown docs/function-speed.md"
        args.markdown.write_text("\n".join(markdown(table, text)) + "\n")


if __name__ == "__main__":
    main()
