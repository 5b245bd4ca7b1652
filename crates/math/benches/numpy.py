"""NumPy on the arguments of `functions.rs`: nanoseconds an element, the fastest of 15 calls on warm arrays of 2^20 elements.

Usage: python numpy.py [output of `cargo bench -p chunkwise-math`]; with it, both are printed side by side.
"""

import re
import sys
import time

sys.path = [p for p in sys.path if not p.endswith("benches")]  # this file's name hides the package
import numpy as np

N = 1 << 20
NAMES = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power",
         "atan2": "arctan2"}
RANGES = {
    "exp": (-20, 20), "exp2": (-20, 20), "expm1": (-5, 5), "log": (0.001, 1000), "log2": (0.001, 1000), "log10": (0.001, 1000),
    "log1p": (-0.9, 100), "sin": (-100, 100), "cos": (-100, 100), "tan": (-100, 100), "asin": (-1, 1), "acos": (-1, 1), "atan": (-10, 10),
    "sinh": (-20, 20), "cosh": (-20, 20), "tanh": (-5, 5), "asinh": (-100, 100), "acosh": (1, 100), "atanh": (-0.999, 0.999),
    "pow": (0.001, 100), "atan2": (-10, 10), "hypot": (-10, 10), "logaddexp": (-10, 10),
}


def arguments(low, high, step):
    return low + (high - low) * (np.arange(N) * step % N) / N


def fastest(function, arrays, out):
    function(*arrays, out=out)
    best = float("inf")
    for _ in range(15):
        start = time.perf_counter()
        function(*arrays, out=out)
        best = min(best, time.perf_counter() - start)
    return best / N * 1e9


def ours(path):
    """{(function, type): ns} from divan's table."""
    found, name = {}, None
    for line in open(path):
        if m := re.match(r"[├╰]─ (\w+)", line):
            name = m[1]
        elif m := re.match(r"[│ ]  [├╰]─ (f32|f64)\s+([\d.]+) (ns|µs|ms)", line):
            found[name, m[1]] = float(m[2]) * {"ns": 1, "µs": 1e3, "ms": 1e6}[m[3]] / N
    return found


table = ours(sys.argv[1]) if len(sys.argv) > 1 else {}
print("function     f64: ours numpy ratio   f32: ours numpy ratio")
for name, (low, high) in RANGES.items():
    cells = []
    for kind in ("f64", "f32"):
        dtype = np.dtype(kind.replace("f64", "f8").replace("f32", "f4"))
        arrays = [arguments(low, high, 1_000_003).astype(dtype)]
        if name in ("pow", "atan2", "hypot", "logaddexp"):
            arrays.append(arguments(-10, 10, 700_001).astype(dtype))
        numpy = fastest(getattr(np, NAMES.get(name, name)), arrays, np.empty(N, dtype))
        mine = table.get((name, kind), float("nan"))
        cells.append(f"{mine:10.3f} {numpy:6.3f} {numpy / mine:5.2f}")
    print(f"{name:10}", "  ".join(cells))
