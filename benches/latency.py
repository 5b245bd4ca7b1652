"""How much slower a run over S3 is when every request takes longer: near 1 if many requests are under way at once.

    python benches/latency.py --megabytes 800 --latency 50

An S3 server in memory (MiniStack) behind a proxy that waits before each answer; the same pipeline with and without the wait.
The proxy is Python and passes a few hundred MB/s at best, so figures without a wait are those of the proxy, not of the command: with a
faster line the share of the wait is larger. `--bandwidth` makes each connection as slow as those of a cloud store (50 to 90 MB/s).
The command under test is CHUNKWISE_BIN, or `target/release/chunkwise`.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import obstore.store
import zarr

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from services import FaultProxy, MiniStack  # noqa: E402

# Chunks of 1 and 8 MB as they are, packed, and 1 MB chunks in shards of 16.
LAYOUTS = {
    "raw, 1 MB": {"chunks": (1, 500, 500), "compressors": None},
    "raw, 8 MB": {"chunks": (8, 500, 500), "compressors": None},
    "packed, 1 MB": {"chunks": (1, 500, 500), "compressors": "auto"},
    "shards, 16 x 1 MB": {"chunks": (1, 500, 500), "shards": (16, 500, 500), "compressors": "auto"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--latency", type=float, default=50, help="milliseconds that every request takes longer")
    parser.add_argument("--bandwidth", type=float, help="MB/s of one connection")
    parser.add_argument("--allowed-mem", default="1GB")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    binary = os.environ.get("CHUNKWISE_BIN") or str(ROOT / "target/release/chunkwise")
    count = max(16, args.megabytes // 16 * 16)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        print(f"| layout | work | without wait | with {args.latency:.0f} ms | ratio | requests | under way at most |")
        print("|---|---|---|---|---|---|---|", flush=True)
        with MiniStack() as server:
            server.create_bucket("bucket")
            client = {"client_options": {"allow_http": True}}
            options = {"access_key_id": "test", "secret_access_key": "test", "region": "us-east-1", "endpoint": server.url}
            store = zarr.storage.ObjectStore(obstore.store.S3Store("bucket", **client, **options))
            rng = np.random.default_rng(1)
            for name, layout in LAYOUTS.items():
                path = name.replace(" ", "").replace(",", "-")
                array = zarr.create_array(store, name=path, shape=(count, 500, 500), dtype="float32", **layout)
                for k in range(0, count, 16):
                    array[k : k + 16] = rng.standard_normal((16, 500, 500), dtype="float32")
            bandwidth = args.bandwidth and args.bandwidth * 1e6
            with FaultProxy(server.url, bandwidth=bandwidth) as proxy:
                runs = 0
                env = {**os.environ, **server.env, "AWS_ENDPOINT_URL": proxy.url}
                for name in LAYOUTS:
                    source = f"s3://bucket/{name.replace(' ', '').replace(',', '-')}"
                    for work, expression in (("mean", "mean(x, axis=0)"), ("copy", "x + 1")):
                        seconds, most = {}, 0
                        for latency in (0.0, args.latency / 1000):
                            proxy.latency, times = latency, []
                            for _ in range(args.repeat):
                                runs += 1
                                outputs = {f"s3://bucket/out{runs}.zarr": expression}
                                pipeline = {"inputs": {"x": source}, "outputs": outputs, "spec": {"work_dir": str(folder / "work")}}
                                (folder / "p.json").write_text(json.dumps(pipeline))
                                proxy.reset()
                                started = time.perf_counter()
                                command = [binary, "run", str(folder / "p.json"), "--allowed-mem", args.allowed_mem]
                                done = subprocess.run(command, env=env, capture_output=True, text=True)
                                if done.returncode:
                                    sys.exit(done.stderr)
                                times.append(time.perf_counter() - started)
                                # The server has everything in memory.
                                output = obstore.store.S3Store("bucket", prefix=f"out{runs}.zarr", **client, **options)
                                obstore.delete(output, [m["path"] for page in obstore.list(output) for m in page])
                            seconds[latency] = statistics.median(times)
                            most = proxy.most_active
                        base, slow = seconds[0.0], seconds[args.latency / 1000]
                        print(f"| {name} | {work} | {base:.2f} s | {slow:.2f} s | {slow / base:.2f} | {len(proxy.seen)} | {most} |", flush=True)


if __name__ == "__main__":
    main()
