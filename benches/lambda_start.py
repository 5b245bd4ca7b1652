"""How large the function is, and how long it takes from its start until it asks for its first event, by a Runtime API of one's own.

    python benches/lambda_start.py target/release/bootstrap
"""

import http.server
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import threading
import time
import zlib

RUNS = 30


class Api(http.server.BaseHTTPRequestHandler):
    asked = threading.Event()

    def do_GET(self):
        Api.when = time.perf_counter()
        Api.asked.set()
        # No event comes.
        time.sleep(60)

    def log_message(self, *_):
        pass


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    variables = {"FUNCTION_NAME": "f", "FUNCTION_MEMORY_SIZE": "1769", "FUNCTION_VERSION": "1", "RUNTIME_API": f"127.0.0.1:{server.server_address[1]}"}
    env = {**os.environ, **{f"AWS_LAMBDA_{k}": v for k, v in variables.items()}, "CHUNKWISE_ALLOWED_PREFIXES": "s3://bucket"}
    seconds = []
    for _ in range(RUNS):
        Api.asked.clear()
        started = time.perf_counter()
        process = subprocess.Popen([program], env=env, stderr=subprocess.DEVNULL)
        assert Api.asked.wait(20), "it does not ask for an event"
        seconds.append(Api.when - started)
        process.kill()
        process.wait()
    data = program.read_bytes()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(f"{len(data) / 1e6:.1f} MB, {len(zlib.compress(data, 9)) / 1e6:.1f} MB in a zip")
    print(f"{1000 * statistics.median(seconds):.1f} ms until the first event (median of {RUNS}, at most {1000 * max(seconds):.1f} ms), {peak:.1f} MB resident")


if __name__ == "__main__":
    main()
