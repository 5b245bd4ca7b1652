"""Measures the driver of the `lambda` executor against an endpoint that speaks the wire protocol of Invoke and lets time pass instead of working.

    python benches/lambda_scale.py                      # 100,000 tasks, 1,000 at once: about seven minutes
    python benches/lambda_scale.py --tasks 2000 --concurrency 100

Durations are log-normal, some tasks are stragglers, some invocations fail; time is not compressed. The least is the time of all tasks, stragglers
included, over the number of functions: what a run takes if none of these fails or is ever idle. Needs the command and the endpoint:

    cargo build --release -p chunkwise-cli --features full && cargo build --release -p chunkwise-executor --features lambda --example invoke_endpoint
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import tempfile
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def measure(args, backups, per_invocation):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="chunkwise-scale-", dir=args.directory))
    port = free_port()
    model = [args.concurrency, args.median, args.sigma, args.stragglers, args.factor, args.failures]
    endpoint = subprocess.Popen([args.endpoint, str(port), *map(str, model)], stdout=subprocess.PIPE, text=True)
    try:
        endpoint.stdout.readline()
        pipeline = folder / "pipeline.yaml"
        # A chunk of one number for each task.
        shape = f"arange(0, {args.tasks}, chunks=1)"
        pipeline.write_text(f"arrays: {{x: '{shape} * 2.0'}}\noutputs: {{out.zarr/x: {{array: x, codec: none, chunks: [1]}}}}\n")
        plan = json.loads(subprocess.run([args.binary, "plan", pipeline, "--format", "json", "--work-dir", folder / "work"], check=True,
                                         capture_output=True, text=True).stdout)
        for output in plan["stages"][-1]["outputs"]:
            output["tasks"] = [{"regular": {"len": args.tasks, "size": 1}}]
        (folder / "plan.json").write_text(json.dumps(plan))
        options = ["function=fake", "region=us-east-1", f"endpoint=http://127.0.0.1:{port}", f"concurrency={args.concurrency}"]
        if per_invocation:
            options.append(f"tasks={per_invocation}")
        command = [args.binary, "run", folder / "plan.json", "--executor", "lambda", "--json", "--backups", str(backups)]
        command += [w for o in options for w in ("--executor-option", o)]
        env = {**os.environ, "AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(done.stderr[-3000:])
        report = json.loads(done.stdout)
        stats = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/stats"))
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {"cpu": cpu, "memory": report["peak_memory"], "work": stats["work"] / args.concurrency, "run": report["seconds"],
                "backups": report["backups"], **{k: stats[k] for k in ("invocations", "failed", "most")}}  # fmt: skip
    finally:
        endpoint.terminate()
        endpoint.wait()
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", type=pathlib.Path, default=TARGET / "chunkwise")
    parser.add_argument("--endpoint", type=pathlib.Path, default=TARGET / "examples/invoke_endpoint")
    parser.add_argument("--tasks", type=int, default=100_000)
    parser.add_argument("--concurrency", type=int, default=1000)
    parser.add_argument("--median", type=float, default=1.0, help="seconds of a task")
    parser.add_argument("--sigma", type=float, default=0.4)
    parser.add_argument("--stragglers", type=float, default=0.001, help="share of the tasks that take FACTOR times as long")
    parser.add_argument("--factor", type=float, default=30.0)
    parser.add_argument("--failures", type=float, default=0.001, help="share of the attempts that fail")
    parser.add_argument("--only", type=int, nargs="*", help="rows to measure, from 0")
    parser.add_argument("--directory", help="where 100,000 small files have room")
    args = parser.parse_args()
    rows = [("one task an invocation, no copies", 0, 1), ("one task an invocation", 5, 1), ("batches", 5, None)]
    print("| | run | least | over that | invocations | failed | copies | most at once | CPU of the driver | memory |")
    print("|---|---|---|---|---|---|---|---|---|---|", flush=True)
    for k, (name, backups, per) in enumerate(rows):
        if args.only and k not in args.only:
            continue
        m = measure(args, backups, per)
        print(
            f"| {name} | {m['run']:.1f} s | {m['work']:.1f} s | {100 * (m['run'] / m['work'] - 1):.1f} % | {m['invocations']} | {m['failed']} | {m['backups']} "
            f"| {m['most']} | {m['cpu']:.1f} s, {1e6 * m['cpu'] / args.tasks:.0f} µs a task | {m['memory'] / 1e6:.0f} MB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
