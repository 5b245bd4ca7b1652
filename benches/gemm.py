"""Matrix products in memory against NumPy's BLAS, on one thread and on two: a twentieth of a second of products
of each in turn, and the median of the ratios of all turns.

    python benches/gemm.py [--turns 25] [--profile quick] [--only TEXT] [--markdown FILE]

NumPy's OpenBLAS is measured as it chooses its kernels itself and, where the processor has AVX-512, with those for Skylake-X as well; the
ratio is to whichever is faster in the median.

The processes live side by side and compute when they are asked to, so that what else the machine does slows down all of them alike:
rates of whole processes, one after the other, differed by a third between runs. Nobody computes while another one does: OpenBLAS' second
thread is told to sleep when it has nothing to do.

Rates are of full products, 2n³ operations (8n³ of complex numbers); of AᵀA as well, though half of its elements need not be computed.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys

import page

ROOT = pathlib.Path(__file__).resolve().parent.parent
SQUARE = {"float32": (500, 1000, 2000, 4000), "float64": (500, 1000, 2000, 4000), "complex64": (1000, 2000), "complex128": (1000, 2000)}
TALL = {"float32": ((500, 50_000), (1000, 20_000)), "float64": ((500, 50_000), (1000, 20_000))}
NAMES = {"other": "AᵀB", "same": "AᵀA"}
NUMPY = """
import sys, time, numpy as np
dtype, m, k, kind = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
random = lambda seed: np.random.default_rng(seed).random((k, m)).astype(dtype)
a = random(1)
# One matrix where NumPy may use the symmetry.
b = a if kind == "same" else random(2)
out = np.empty((m, m), dtype)
for line in sys.stdin:
    start = time.perf_counter()
    np.matmul(a if kind == "square" else a.T, b, out=out)
    print(time.perf_counter() - start, flush=True)
"""


class Worker:
    """A process that computes a product for each line and answers with the seconds."""

    def __init__(self, command, case, **environment):
        command = [*command, *map(str, case)]
        self.process = subprocess.Popen(command, env=os.environ | environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.seconds = []

    def turn(self):
        """As many products as take a twentieth of a second."""
        total, count = 0.0, 0
        while total < 0.05:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
            total, count = total + float(self.process.stdout.readline()), count + 1
        self.seconds.append(total / count)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def kernels():
    """Environments that choose OpenBLAS' kernels."""
    processor = pathlib.Path("/proc/cpuinfo")
    return [{}, {"OPENBLAS_CORETYPE": "SKYLAKEX"}] if processor.exists() and "avx512f" in processor.read_text() else [{}]


def compare(program, case, turns):
    """Seconds of each turn: ours, NumPy's, and those of the faster kernels."""
    threads = str(case[0])
    # The least time-out: a thread that waits for work would take a core away from others for a tenth of a second.
    environment = {"OPENBLAS_NUM_THREADS": threads, "OPENBLAS_THREAD_TIMEOUT": "4"}
    workers = [Worker([program], case)]
    workers += [Worker([sys.executable, "-c", NUMPY], case, **environment, **chosen) for chosen in kernels()]
    for turn in range(turns + 1):
        for worker in workers[:: -1 if turn % 2 else 1]:
            worker.turn()
    for worker in workers:
        worker.close()
        # The first turn warms up.
        del worker.seconds[0]
    ours, *theirs = (worker.seconds for worker in workers)
    return ours, theirs[0], min(theirs, key=statistics.median)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--profile", default="release")
    parser.add_argument("--only", default="", help="lines of the table that contain this")
    parser.add_argument("--markdown", type=pathlib.Path)
    args = parser.parse_args()
    if args.only and args.markdown:
        parser.error("--markdown takes the whole table, --only leaves lines out")
    subprocess.run(["cargo", "build", "--profile", args.profile, "--package", "chunkwise-kernels", "--example", "contract_rates"], check=True, cwd=ROOT)
    program = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / args.profile / "examples" / "contract_rates"
    cases = [(d, n, n, "square") for d, sizes in SQUARE.items() for n in sizes]
    cases += [(d, m, k, kind) for d, sizes in TALL.items() for m, k in sizes for kind in ("other", "same")]
    lines = ["| product | dtype | threads | ours, 10⁹/s | NumPy, 10⁹/s | best kernels, 10⁹/s | ours / best |", "|---|---|---|---|---|---|---|"]
    for threads in (1, 2):
        for dtype, m, k, kind in cases:
            name = f"{m}×{m}" if kind == "square" else f"{NAMES[kind]} of {k}×{m}"
            if args.only not in (line := f"| {name} | {dtype} | {threads} |"):
                continue
            found = compare(program, (threads, dtype, m, k, kind), args.turns)
            ratio = statistics.median(best / ours for ours, _, best in zip(*found))
            operations = (8 if dtype.startswith("complex") else 2) * m * m * k
            rates = (f"{operations / statistics.median(seconds) / 1e9:.0f}" for seconds in found)
            lines.append(f"{line} {' | '.join(rates)} | {ratio:.2f} |")
            print(lines[-1], flush=True)
    if args.markdown:
        page.put(args.markdown, "gemm", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
