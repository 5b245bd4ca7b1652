"""Matrix products in memory against NumPy's BLAS, on one thread and on two: both in turn, the median of the ratios of all turns.

    python benches/gemm.py [--turns 5] [--profile quick] [--markdown FILE]

NumPy's OpenBLAS is measured as it chooses its kernels itself and, where the processor has AVX-512, with those for Skylake-X as well; the
ratio is to the faster of both.

Rates are of full products, 2n³ operations (8n³ of complex numbers); of AᵀA as well, though half of its elements need not be computed.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys
import time

import page

ROOT = pathlib.Path(__file__).resolve().parent.parent
SQUARE = {"Float32": (500, 1000, 2000, 4000), "Float64": (500, 1000, 2000, 4000), "Complex64": (1000, 2000), "Complex128": (1000, 2000)}
TALL = {"Float32": ((500, 50_000), (1000, 20_000)), "Float64": ((500, 50_000), (1000, 20_000))}
NUMPY = """
import sys, time, numpy as np
dtype, m, k = sys.argv[1].lower(), int(sys.argv[2]), int(sys.argv[3])
a = np.random.default_rng(1).random((k, m)).astype(dtype)
# Two matrices, so that NumPy computes a full product; one where it may use the symmetry.
b = a if sys.argv[4] == "same" else np.random.default_rng(2).random((k, m)).astype(dtype)
out = np.empty((m, m), dtype)
best, end, n = float("inf"), time.perf_counter() + 1.2, 0
while n < 3 or (time.perf_counter() < end and n < 30):
    start = time.perf_counter()
    np.matmul(a.T if k != m else a, b, out=out)
    best, n = min(best, time.perf_counter() - start), n + 1
print((8 if dtype[0] == "c" else 2) * m * m * k / best / 1e9)
"""


def ours(program, threads, dtype, size):
    """Rates by name, in 10⁹ operations a second."""
    text = subprocess.run([program, str(threads), dtype, str(size)], capture_output=True, text=True, check=True).stdout
    found = {"square": float(m[1]) for m in [re.search(rf"{dtype} {size} threads \d+: ([\d.]+)", text)] if m}
    if m := re.search(rf"k {size} threads \d+: plain ([\d.]+), symmetric \(full flops\) ([\d.]+)", text):
        found |= {"AᵀB": float(m[1]), "AᵀA": float(m[2])}
    return found


def kernels():
    """Values of OPENBLAS_CORETYPE that are worth a try."""
    processor = pathlib.Path("/proc/cpuinfo")
    return ("", "SKYLAKEX") if processor.exists() and "avx512f" in processor.read_text() else ("",)


def numpys(threads, dtype, m, k, kind, core):
    environment = os.environ | {"OPENBLAS_NUM_THREADS": str(threads)} | ({"OPENBLAS_CORETYPE": core} if core else {})
    return float(subprocess.run([sys.executable, "-c", NUMPY, dtype, str(m), str(k), kind], env=environment, capture_output=True, text=True, check=True).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--profile", default="release")
    parser.add_argument("--markdown", type=pathlib.Path)
    args = parser.parse_args()
    subprocess.run(["cargo", "build", "--profile", args.profile, "--package", "chunkwise-kernels", "--example", "contract_rates"], check=True, cwd=ROOT)
    program = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / args.profile / "examples" / "contract_rates"
    cases = [(d, n, n, "square", "other") for d, sizes in SQUARE.items() for n in sizes]
    cases += [(d, m, k, name, kind) for d, sizes in TALL.items() for m, k in sizes for name, kind in (("AᵀB", "other"), ("AᵀA", "same"))]
    found, cores = {}, kernels()
    for turn in range(args.turns):
        for threads in (1, 2):
            for dtype, m, k, name, kind in cases:
                mine = ours(program, threads, dtype, k)[name]
                theirs = [numpys(threads, dtype, m, k, kind, core) for core in cores]
                found.setdefault((dtype, m, k, name, threads), []).append((mine, theirs[0], max(theirs)))
        print(f"turn {turn + 1}: {time.strftime('%H:%M:%S')}", file=sys.stderr, flush=True)
    lines = ["| product | dtype | threads | ours, 10⁹/s | NumPy, 10⁹/s | best kernels, 10⁹/s | ours / best |", "|---|---|---|---|---|---|---|"]
    for (dtype, m, k, name, threads), pairs in found.items():
        what = f"{m}×{m}" if name == "square" else f"{name} of {k}×{m}"
        mine, theirs, best = (max(p[i] for p in pairs) for i in (0, 1, 2))
        ratio = statistics.median(a / b for a, _, b in pairs)
        lines.append(f"| {what} | {dtype.lower()} | {threads} | {mine:.0f} | {theirs:.0f} | {best:.0f} | {ratio:.2f} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if args.markdown:
        page.put(args.markdown, "gemm", text)


if __name__ == "__main__":
    main()
