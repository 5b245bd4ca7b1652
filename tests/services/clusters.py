"""Clusters of Dask and Ray on this machine: two workers each."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time

from .servers import Server, command, free_port

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
#: How drivers and nodes find the package.
PACKAGE = {"PYTHONPATH": str(ROOT / "python")}


class Dask(Server):
    """A scheduler and two workers with a thread each."""

    health = "/health"

    def __init__(self, program):
        super().__init__()
        self.program = program
        self.address = f"tcp://127.0.0.1:{free_port()}"
        self.folder = tempfile.TemporaryDirectory(prefix="dask-", ignore_cleanup_errors=True)

    def arguments(self):
        dask = command("dask", "pip install distributed (tests/requirements.txt pins it)")
        return [dask, "scheduler", "--host", self.address, "--port", "0", "--dashboard-address", f"127.0.0.1:{self.port}", "--no-show"], PACKAGE

    def __enter__(self):
        super().__enter__()
        dask = command("dask", "")
        args = [dask, "worker", self.address, "--nworkers", "2", "--nthreads", "1", "--no-dashboard", "--local-directory", self.folder.name, "--memory-limit", "0"]
        env = {**os.environ, **PACKAGE, "CHUNKWISE_PROGRAM": self.program}
        self.workers = subprocess.Popen(args, env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        return self

    def __exit__(self, *error):
        if hasattr(self, "workers"):
            self.workers.send_signal(signal.SIGTERM)
            try:
                self.workers.wait(20)
            except subprocess.TimeoutExpired:
                self.workers.kill()
        super().__exit__(*error)
        self.folder.cleanup()


class Ray:
    """A node of Ray with two processors."""

    def __init__(self, program):
        self.program = program
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True)
        self.log = tempfile.TemporaryFile()
        args = [
            command("ray", "pip install ray (tests/requirements.txt pins it)"), "start", "--head", "--block", "--port", str(self.port),
            "--node-ip-address", "127.0.0.1", "--num-cpus", "2", "--object-store-memory", "80000000", "--include-dashboard", "false", "--disable-usage-stats",
            "--temp-dir", self.folder.name,
        ]  # fmt: skip
        env = {**os.environ, **PACKAGE, "CHUNKWISE_PROGRAM": self.program}
        self.process = subprocess.Popen(args, env=env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        end = time.monotonic() + 60
        while time.monotonic() < end and self.process.poll() is None:
            self.log.seek(0)
            if b"Ray runtime started" in self.log.read():
                return self
            time.sleep(0.1)
        self.log.seek(0)
        said = self.log.read().decode(errors="replace")[-2000:]
        self.__exit__()
        raise RuntimeError(f"Ray did not start:\n{said}")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.log.close()
        self.folder.cleanup()
