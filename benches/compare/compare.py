"""Chunkwise beside its peers, each run a whole process; one command makes the table and the plot of docs/benchmarks.md.

    python benches/compare/compare.py --markdown docs/benchmarks.md --plot docs/benchmarks.png
    python benches/compare/compare.py --only rechunk add --peers chunkwise tensorstore --repeat 1

The README beside this file says what is compared, and how. Peers are installed on first use. The command under test is CHUNKWISE_BIN, or
`target/release/chunkwise`.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import environments
import folders

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
PEERS = ["chunkwise", "cubed", "dask", "numpy", "tensorstore", "zarrs_reencode", "rechunker", "xarray_beam"]
# The first run of each way of running a peer decides which one is kept.
VARIANTS = {"cubed": ["threads", "processes"]}
VARIANTS_OF_WORKLOAD = {("dask", "rechunk"): ["threads", "distributed"]}
CAP = 12 * 10**9  # bytes that any run may use before it is ended


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORKLOAD", help="such as rechunk, or 'rechunk lz4' for compressed inputs only")
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--gigabytes", type=float, default=1.0, help="size of the inputs, decoded [1.0]")
    parser.add_argument("--allowed-mem", default="1GB", help="of Chunkwise's process, and of each of Cubed's workers [1GB]")
    parser.add_argument("--threads", type=int, default=2, help="threads, and processors, that a run may use [2]")
    parser.add_argument("--repeat", type=int, default=5, help="runs of which the median is taken [5]")
    parser.add_argument("--slow", type=float, default=12.0, help="runs beyond the first stop when a peer has used so many seconds [12]")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds after which a run is ended [120]")
    parser.add_argument("--directory", type=pathlib.Path, default=pathlib.Path("/tmp/chunkwise-compare"))
    parser.add_argument("--keep", action="store_true", help="keep the inputs of each workload")
    parser.add_argument("--python", help="version of Python for the peers, such as 3.13 [newest found]")
    parser.add_argument("--update", action="store_true", help="bring the peers to their newest versions")
    parser.add_argument("--output-json", type=pathlib.Path, help="write all figures there")
    parser.add_argument("--from-json", type=pathlib.Path, help="measure nothing, take the figures from there")
    parser.add_argument("--markdown", type=pathlib.Path, help="replace what is between the marks in that file")
    parser.add_argument("--plot", type=pathlib.Path, help="draw the picture into that file")
    return parser.parse_args()


def bytes_of(text):
    unit = next(u for u in sorted(UNITS, key=len, reverse=True) if text.endswith(u))
    return int(float(text.removesuffix(unit)) * UNITS[unit])


class Unavailable(Exception):
    """A peer cannot run a workload here, for a reason worth a word in the table."""


class Unexpected(Exception):
    """An output is not what was asked for."""


class Runner:
    """Starts runs of peers over a job's files."""

    def __init__(self, args, base):
        self.args, self.base = args, base
        # A copy, so that a build meanwhile changes nothing.
        self.binary = str(args.directory / "chunkwise")
        binary = pathlib.Path(os.environ.get("CHUNKWISE_BIN") or ROOT / "target/release/chunkwise")
        if not binary.is_file():
            sys.exit(f"there is no {binary}: build it with cargo build --release -p chunkwise-cli, or set CHUNKWISE_BIN")
        shutil.copy(binary, self.binary)
        self.decided = {}  # how a peer is run, of workloads where trying is slow
        self.ended = {}  # what ended all runs of a peer over uncompressed inputs; it is not tried again over compressed ones
        self.cpus = sorted(os.sched_getaffinity(0))[: args.threads]
        self.pythons, self.tools = {}, None
        for peer in args.peers:
            name = environments.OF_PEER.get(peer, "main")
            if name not in self.pythons:
                self.pythons[name] = environments.environment(base, name, self.python(), args.update)
        if "zarrs_reencode" in args.peers:
            self.tools = environments.tools(base, args.update)

    def python(self):
        return environments.interpreter(self.args.python)

    def functions(self):
        done = subprocess.run([self.binary, "functions"], capture_output=True, text=True, check=True)
        return done.stdout

    def command(self, peer, job, workload=None):
        """The command line of a run; `workload` is "start" for one that only starts."""
        if peer == "chunkwise":
            return self.chunkwise(job, workload)
        if peer == "zarrs_reencode":
            job.tools, problem = self.tools
        else:
            problem = None
        python, failed = self.pythons[environments.OF_PEER.get(peer, "main")]
        if problem or failed:
            raise Unavailable(f"not installed: {problem or failed}")
        return [python, "-W", "ignore", str(HERE / "peer.py"), peer, workload or job.workload, str(job.save())]

    def chunkwise(self, job, workload):
        from job import pipeline

        if workload == "start":
            return [self.binary, "--version"]
        path = job.folder / f"{job.workload}.json"
        path.write_text(pipeline(job))
        limits = ["--allowed-mem", f"{job.allowed_mem // 10**6}MB", "--work-dir", str(job.work), "--workers", str(job.threads)]
        if job.workload.startswith("plan"):
            return [self.binary, "plan", str(path), *limits]
        return [self.binary, "run", str(path), "--overwrite", "--json", *limits]

    def run(self, peer, job, workload=None):
        """One run. Gives what it took, with `status` if it failed."""
        spec = {
            "command": self.command(peer, job, workload),
            "env": {},
            "cpus": self.cpus,
            "cap": CAP,
            "timeout": self.args.timeout,
            "stdout": str(job.folder / "stdout"),
            "stderr": str(job.folder / "stderr"),
        }
        path = job.folder / "spec.json"
        path.write_text(json.dumps(spec))
        launch = [sys.executable, "-I", "-S", str(HERE / "launch.py"), str(path)]
        result = json.loads(subprocess.run(launch, capture_output=True, text=True, check=True).stdout)
        if result["late"]:
            result["status"] = f"> {self.args.timeout:.0f} s"
        elif result["code"] != 0:
            words = pathlib.Path(spec["stderr"]).read_text(errors="replace")
            if peer == "chunkwise" and "there is no function" in words:
                raise Unavailable("not available")
            result["status"] = f"more than {CAP / 1e9:.0f} GB" if result["code"] == -9 else f"failed ({result['code']})"
            print(f"{peer}, {job.name}: {result['status']}\n{words[-3000:]}", file=sys.stderr, flush=True)
        return result

    def confine(self):
        os.sched_setaffinity(0, self.cpus)

    def floor(self, *arguments):
        command = [sys.executable, str(HERE / "floor.py"), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=self.confine)
        if done.returncode != 0:
            sys.exit(f"the limit could not be measured:\n{done.stderr}")
        return json.loads(done.stdout)


class Checker:
    """Compares outputs with NumPy's results, which are computed once for a workload."""

    def __init__(self, job):
        self.job, self.module, self.want = job, job.module, None

    def error(self):
        """The largest difference relative to the largest value; every output must have the shape, chunks and dtype asked for."""
        import numpy as np
        import zarr

        def result(name):
            array = zarr.open_array(str(self.job.out / name), mode="r")
            shape, chunks, dtype = self.job.outputs()[name]
            if (array.shape, array.chunks, array.dtype) != (shape, chunks, dtype):
                raise Unexpected(f"{name} is {array.shape} {array.chunks} {array.dtype}, not {shape} {chunks} {dtype}")
            return array

        if hasattr(self.module, "check"):
            return float(self.module.check(self.job, result))
        if self.want is None:
            self.want = self.module.reference(self.job)
        worst = 0.0
        for name, want in self.want.items():
            got = result(name)[...]
            if want.ndim == 0:
                got, want = got.reshape(1), want.reshape(1)
            largest, difference, rows = 1e-300, 0.0, max(1, 2**22 // max(1, want[0].size))
            for start in range(0, len(want), rows):
                part = want[start : start + rows]
                largest = max(largest, float(np.max(np.abs(part))))
                difference = max(difference, float(np.max(np.abs(got[start : start + rows] - part))))
            worst = max(worst, difference / largest if difference == difference else float("inf"))
        return worst


def measure(job, args, runner):
    """One line of the table: all peers in turn, again and again."""
    line = {"workload": job.workload, "compressed": job.compressed, "title": job.module.TITLE, "peers": {}, "floor": None}
    peers, floors = {}, []
    for peer in args.peers:
        if peer == "chunkwise" or hasattr(job.module, peer):
            variants = VARIANTS_OF_WORKLOAD.get((peer, job.workload)) or VARIANTS.get(peer, [""])
            if (peer, job.workload) in runner.ended:
                line["peers"][peer] = {"status": f"{runner.ended[peer, job.workload]} (uncompressed)"}
                continue
            if (peer, job.workload) in runner.decided:
                variants = [runner.decided[peer, job.workload]]
            peers[peer] = {"variants": {v: [] for v in variants}, "variant": None}
    checker, kept = Checker(job), job.folder / "reference"
    planning = job.workload.startswith("plan")
    for turn in range(args.repeat):
        for peer, state in peers.items():
            for variant in [state["variant"]] if turn else list(state["variants"]):
                if turn and (variant is None or sum(r["wall"] for r in state["variants"][variant]) > args.slow):
                    continue
                job.variant = variant
                for path in (job.out, job.work):
                    folders.renew(path)
                try:
                    result = runner.run(peer, job)
                except Unavailable as reason:
                    result = {"status": str(reason)}
                if "status" not in result and not turn and not planning:
                    try:
                        result["error"] = checker.error()
                    except Unexpected as difference:
                        result["status"] = f"wrong: {difference}"
                        result["error"] = float("inf")
                    if not result["error"] <= job.module.TOLERANCE:
                        result.setdefault("status", f"wrong by {result['error']:.0e}")
                    elif not kept.exists() and peer not in ("rechunker", "zarrs_reencode"):  # of other formats
                        job.out.rename(kept)
                state["variants"][variant].append(result)
                wall, failed = result.get("wall"), result.get("status", "")
                note = f"{wall:.2f} s" if wall is not None and not failed else failed
                print(f"  {turn + 1} {peer} {variant}: {note}", file=sys.stderr, flush=True)
            if not turn:
                good = {v: r[0]["wall"] for v, r in state["variants"].items() if "status" not in r[0]}
                state["variant"] = min(good, key=good.get) if good else None
                if max(r[0].get("wall", 0.0) for r in state["variants"].values()) > args.slow:
                    runner.decided[peer, job.workload] = state["variant"] or next(iter(state["variants"]))
        if kept.exists():
            folders.discard(job.out)
            floors.append(runner.floor("workload", job.save(), kept))
    for peer, state in peers.items():
        line["peers"][peer] = summary(state)
        if all(r[0].get("late") or r[0].get("code") == -9 for r in state["variants"].values()):
            runner.ended[peer, job.workload] = line["peers"][peer]["status"]
    if floors:
        line["floor"] = min(floors, key=lambda f: f["wall"]) | {"walls": [f["wall"] for f in floors]}
    return line


def summary(state):
    import statistics

    chosen = state["variant"]
    runs = state["variants"][chosen if chosen is not None else next(iter(state["variants"]))]
    failed = next((r["status"] for r in runs if "status" in r), None)
    if failed:
        return {"status": failed, "peak": runs[0].get("peak")}
    result = {key: statistics.median(r[key] for r in runs) for key in ("wall", "cpu", "read", "written")}
    others = {v: r[0].get("status") or r[0]["wall"] for v, r in state["variants"].items() if v != chosen}
    return {
        **result,
        "peak": max(r["peak"] for r in runs),
        "error": runs[0].get("error"),
        "variant": chosen,
        "other variants": others,
        "walls": [r["wall"] for r in runs],
        "measured by": runs[0]["measured by"],
    }


def starts(args, runner, job):
    """Seconds from start to end of processes that only import their peer; the median of three, the first of four not counted."""
    result = {}
    for peer in args.peers:
        for variant in ["threads", "distributed"] if peer == "dask" else [""]:
            job.variant = variant
            try:
                runs = [runner.run(peer, job, "start") for _ in range(4)][1:]
            except Unavailable:
                continue
            if not any("status" in r for r in runs):
                walls = sorted(r["wall"] for r in runs)
                result[f"{peer} {variant}" if variant == "distributed" else peer] = walls[1]
    return result


def measure_all(args, base):
    from job import Job
    from workloads import WORKLOADS

    folder = args.directory
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    folders.spread(folder)
    runner = Runner(args, base)
    allowed = bytes_of(args.allowed_mem)

    def job(name, compressed):
        return Job(name, compressed, args.gigabytes, args.threads, allowed, folder)

    lines = [job(n, c) for n, both in WORKLOADS.items() for c in ([False, True] if both else [False])]
    if args.only:
        known = {j.name for j in lines} | {j.workload for j in lines}
        if unknown := set(args.only) - known:
            sys.exit(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
        lines = [j for j in lines if j.name in args.only or j.workload in args.only]
    began = time.time()
    document = {
        "date": time.strftime("%Y-%m-%d"),
        "processor": processor(),
        "options": {key: getattr(args, key) for key in ("gigabytes", "allowed_mem", "threads", "repeat", "slow", "timeout")},
        "versions": versions(runner),
        "machine": runner.floor("machine", args.threads, folder / "floor"),
        "starts": starts(args, runner, job("start", False)),
        "lines": [],
    }
    for one in lines:
        print(f"{one.name} ({time.time() - began:.0f} s)", file=sys.stderr, flush=True)
        for path in (one.data.parent, one.out, one.work):
            folders.renew(path)
        one.module.generate(one)
        os.sync()
        document["lines"].append(measure(one, args, runner))
        shutil.rmtree(folder / "reference", ignore_errors=True)
        for path in (one.out, one.work):
            folders.discard(path)
        if args.keep:
            kept = folder / "kept" / one.name
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(one.data.parent, kept, copy_function=os.link)
        shutil.rmtree(one.data.parent)
        if args.output_json:
            args.output_json.write_text(json.dumps(document, indent=1) + "\n")
    document["seconds"] = time.time() - began
    shutil.rmtree(folder / folders.DISCARDED if args.keep else folder)
    return document


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return "unknown"


def versions(runner):
    found = {"chunkwise": subprocess.run([runner.binary, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]}
    for python, failed in runner.pythons.values():
        if not failed:
            for name, version in environments.versions(python).items():
                found.setdefault(name, version)
    if runner.tools and runner.tools[0]:
        command = [str(pathlib.Path(runner.tools[0]) / "zarrs_reencode"), "--version"]
        found["zarrs_tools"] = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[1]
    return found


def main():
    args = arguments()
    python = environments.interpreter(args.python)
    base = environments.folder(python)
    if pathlib.Path(sys.prefix).resolve() != (base / "main").resolve():
        python, failed = environments.environment(base, "main", python, args.update)
        if failed:
            sys.exit(f"the packages of the comparison could not be installed: {failed}")
        os.execv(python, [python, "-W", "ignore", *sys.argv])
    import report

    document = json.loads(args.from_json.read_text()) if args.from_json else measure_all(args, base)
    if args.output_json:
        args.output_json.write_text(json.dumps(document, indent=1) + "\n")
    text = report.markdown(document, args.plot, args.markdown)
    if args.markdown:
        report.replace(args.markdown, text)
    else:
        print(text)
    if args.plot:
        report.plot(document, args.plot)


if __name__ == "__main__":
    main()
