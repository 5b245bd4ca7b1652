"""Run the standard workloads in processes that the operating system limits to their budget, and check every result.

    python benches/workloads.py --gigabytes 2.5 --output docs/benchmarks.json
    python benches/workloads.py --only rechunk climatology --compress

Each run is one `chunkwise run` under a memory cgroup (v1 or v2, which needs root) of exactly the size of `--allowed-mem`; page cache
counts towards that limit as well, and is reclaimed. Without cgroups the limit is the address space (`RLIMIT_AS`), which is stricter.
The command under test is CHUNKWISE_BIN, or `target/release/chunkwise`.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import sys
import time

import numpy as np
import zarr

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORKLOADS = ROOT / "examples" / "workloads"
NAMES = ["quadratic_means", "vorticity", "tem", "climatology", "rechunk", "ata"]


class Cgroup:
    """A memory cgroup of `limit` bytes; `None` of its methods work without root."""

    def __init__(self, limit):
        self.limit, self.path, self.v1 = limit, None, False
        name = f"chunkwise-{os.getpid()}"
        for base, v1 in ((pathlib.Path("/sys/fs/cgroup/memory"), True), (pathlib.Path("/sys/fs/cgroup"), False)):
            key = "memory.limit_in_bytes" if v1 else "memory.max"
            try:
                path = base / name
                path.mkdir(exist_ok=True)
                (path / key).write_text(str(limit))
                self.path, self.v1 = path, v1
                return
            except OSError:
                continue

    def enter(self):
        """Called in the child, before it becomes the command."""
        if self.path is None:
            resource.setrlimit(resource.RLIMIT_AS, (self.limit, self.limit))
        else:
            (self.path / "cgroup.procs").write_text(str(os.getpid()))

    @property
    def kind(self):
        return "RLIMIT_AS" if self.path is None else f"cgroup v{1 if self.v1 else 2}"

    def close(self):
        if self.path is not None:
            self.path.rmdir()


def directory_bytes(path):
    return sum(f.stat().st_size for f in pathlib.Path(path).rglob("*") if f.is_file())


# Reads every file of a folder, and writes the bytes of another's files again: what no implementation can avoid.
PROBE = """
import os, sys, time
def files(root):
    return [os.path.join(d, f) for d, _, names in os.walk(root) for f in names]
buffer, start = bytearray(8 << 20), time.perf_counter()
for path in files(sys.argv[1]):
    with open(path, "rb", buffering=0) as f:
        while f.readinto(buffer):
            pass
for k, path in enumerate(files(sys.argv[2])):
    left = os.path.getsize(path)
    with open(os.path.join(sys.argv[3], str(k)), "wb", buffering=0) as f:
        while left:
            left -= f.write(memoryview(buffer)[: min(left, len(buffer))])
print(time.perf_counter() - start)
"""


def least(inputs, outputs, scratch, cgroup):
    """Seconds of reading the inputs and writing the outputs once, by plain calls on one thread, under the same limit."""
    scratch.mkdir(parents=True)
    command = [sys.executable, "-S", "-c", PROBE, str(inputs), str(outputs), str(scratch)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=cgroup.enter)
    shutil.rmtree(scratch)
    return float(done.stdout)


def run(binary, pipeline, allowed, work, cgroup):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    done = subprocess.run(
        [binary, "run", str(pipeline), "--overwrite", "--json", "--allowed-mem", allowed, "--work-dir", str(work)],
        capture_output=True,
        text=True,
        preexec_fn=cgroup.enter,
    )
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{pipeline.name} failed with {done.returncode}:\n{done.stdout}{done.stderr}")
    report = json.loads(done.stdout)
    report["wall"] = seconds
    report["cpu"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return report


def slabs(array, rows):
    for start in range(0, array.shape[0], rows):
        yield start, array[start : start + rows]


def check(name, data, out):
    """Compare with NumPy, slab by slab in float64. Gives the largest difference relative to the largest value."""
    source = zarr.open_group(str(data / f"{name}.zarr"), mode="r")
    result = zarr.open_group(str(out / f"{name}.zarr"), mode="r")

    def error(got, want):
        return float(np.max(np.abs(got.astype("f8") - want)) / max(np.max(np.abs(want)), 1e-300))

    if name == "quadratic_means":
        sums, n = {k: 0.0 for k in ("uu", "vv", "uv")}, source["u"].shape[0]
        for start, u in slabs(source["u"], 10):
            v = source["v"][start : start + 10]
            for key, (a, b) in {"uu": (u, u), "vv": (v, v), "uv": (u, v)}.items():
                sums[key] = sums[key] + (a * b).sum(axis=0, dtype="f8")
        return max(error(result[k][...], s / n) for k, s in sums.items())
    if name == "vorticity":
        total, n = 0.0, source["u"].shape[0]
        dx, dy = source["dx"][...], source["dy"][...]
        for start, u in slabs(source["u"], 10):
            v = source["v"][start : start + 10]
            dvdx = np.pad(np.diff(v, axis=3), [(0, 0), (0, 0), (0, 0), (1, 0)], mode="symmetric") * dx
            dudy = np.pad(np.diff(u, axis=2), [(0, 0), (0, 0), (1, 0), (0, 0)], mode="symmetric") * dy
            total = total + (dvdx - dudy).sum(axis=0, dtype="f8")
        return error(result["vorticity"][...], total / n)
    if name == "tem":
        worst, n = 0.0, source["u"].shape[0]
        days = -(-n // 4)
        for day in range(days):
            part = {k: source[k][day * 4 : (day + 1) * 4].astype("f8") for k in "uvwt"}
            anomaly = {k: x - x.mean(axis=-1, keepdims=True) for k, x in part.items()}
            want = {k: x.mean(axis=-1).mean(axis=0) for k, x in part.items()}
            for key in ("uv", "uw", "vt"):
                want[key] = (anomaly[key[0]] * anomaly[key[1]]).mean(axis=-1).mean(axis=0)
            # Products of float32 anomalies: relative to the size of the factors' product, 1.
            worst = max(worst, *(float(np.max(np.abs(result[k][day] - w)) / max(np.max(np.abs(w)), 1.0)) for k, w in want.items()))
        return worst
    if name == "climatology":
        n = source["x"].shape[0]
        dates = np.datetime64("2000-01-01") + np.arange(n)
        label = (dates - dates.astype("M8[Y]").astype("M8[D]")).astype(int)
        worst = 0.0
        for day in range(0, label.max() + 1, 37):
            members = np.flatnonzero(label == day)
            x = np.stack([source["x"][int(i)] for i in members])
            mean = x.mean(axis=0, dtype="f8").astype("f4")
            for i, values in zip(members, x, strict=True):
                worst = max(worst, error(result["anomaly"][int(i)], (values - mean).astype("f8")))
        return worst
    if name == "rechunk":
        got, want = result["x"], source["x"]
        assert got.chunks == (want.shape[0], 10, 10), got.chunks
        for start in range(0, want.shape[1], 90):
            if not np.array_equal(got[:, start : start + 90], want[:, start : start + 90]):
                return float("inf")
        return 0.0
    if name == "ata":
        total = 0.0
        for _, a in slabs(source["A"], 20000):
            total = total + a.T @ a
        return error(result["ata"][...], total)
    raise ValueError(name)


TOLERANCE = {"quadratic_means": 1e-7, "vorticity": 1e-6, "tem": 1e-6, "climatology": 1e-6, "rechunk": 0.0, "ata": 1e-13}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=NAMES, default=NAMES)
    parser.add_argument("--gigabytes", type=float, default=2.5)
    parser.add_argument("--allowed-mem", default="500MB")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/tmp/chunkwise-workloads"))
    parser.add_argument("--compress", action="store_true", help="inputs in blosc-lz4 chunks instead of uncompressed ones")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep inputs and outputs")
    parser.add_argument("--output", type=pathlib.Path, help="write the figures there as JSON")
    args = parser.parse_args()
    binary = os.environ.get("CHUNKWISE_BIN") or str(ROOT / "target/release/chunkwise")
    unit = {"MB": 10**6, "GB": 10**9, "MiB": 2**20, "GiB": 2**30}
    suffix = next(u for u in sorted(unit, key=len, reverse=True) if args.allowed_mem.endswith(u))
    limit = int(float(args.allowed_mem.removesuffix(suffix)) * unit[suffix])

    folder = args.directory / ("compressed" if args.compress else "raw")
    data, out, work = folder / "data", folder / "out", folder / "work"
    rows = []
    print("| workload | wall | CPU | plain read and write | peak memory | read / least | written / least | error |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for name in args.only:
        if not (data / f"{name}.zarr").exists():
            command = [sys.executable, "-W", "ignore", str(WORKLOADS / "generate.py"), name, "--gigabytes", str(args.gigabytes)]
            subprocess.run([*command, "--directory", str(data), *(["--compress"] if args.compress else [])], check=True)
        text = (WORKLOADS / f"{name}.yaml").read_text().replace("data/", f"{data}/").replace("../out/", f"{out}/")
        folder.mkdir(parents=True, exist_ok=True)
        pipeline = folder / f"{name}.yaml"
        pipeline.write_text(text)
        cgroup = Cgroup(limit)
        runs = [run(binary, pipeline, args.allowed_mem, work, cgroup) for _ in range(args.repeat)]
        plain = least(data / f"{name}.zarr", out / f"{name}.zarr", folder / "scratch", cgroup)
        cgroup.close()
        worst = check(name, data, out)
        if not worst <= TOLERANCE[name]:
            sys.exit(f"{name}: the result differs from NumPy's by {worst}")
        row = {
            "workload": name,
            "limit": limit,
            "limited by": cgroup.kind,
            "seconds": statistics.median(r["wall"] for r in runs),
            "cpu seconds": statistics.median(r["cpu"] for r in runs),
            "peak": max(r["peak_memory"] for r in runs),
            "read": runs[0]["bytes_read"],
            "written": runs[0]["bytes_written"],
            "least read": directory_bytes(data / f"{name}.zarr"),
            "least written": directory_bytes(out / f"{name}.zarr"),
            "plain seconds": plain,
            "error": worst,
        }
        rows.append(row)
        print(
            f"| {name} | {row['seconds']:.1f} s | {row['cpu seconds']:.1f} s | {plain:.1f} s | {row['peak'] / 1e6:.0f} MB"
            f" | {row['read'] / 1e9:.2f} / {row['least read'] / 1e9:.2f} GB"
            f" | {row['written'] / 1e9:.2f} / {row['least written'] / 1e9:.2f} GB | {worst:.0e} |",
            flush=True,
        )
        shutil.rmtree(out / f"{name}.zarr", ignore_errors=True)
        if not args.keep:
            shutil.rmtree(data / f"{name}.zarr")
    if args.output:
        args.output.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
