"""What the tests of executors share: a run that takes a while, processes that must not be left behind, and real faults."""

import json
import os
import pathlib
import signal
import subprocess
import threading
import time
import uuid

from harness import binary, chunkwise, values, write_array, write_pipeline
from services.servers import MissingService

MARK = "CHUNKWISE_TEST_MARK"
MEM = ["--allowed-mem", "300MB"]


def prepare(folder, count=40, side=60, spec=None, source=None, target="out.zarr", env=None, memory="300MB", single=False):
    """A plan of a few stages with an intermediate and two outputs, cut into a task for every chunk; or of a `single` one."""
    x = values(1, (count, side, side), "float64", -1, 1)
    inputs = {"x": source or "in.zarr"}
    if source is None:
        write_array(folder / "in.zarr", x, (1, side, side), ["time", "y", "x"])
    arrays = {"r": "sin(exp(cos(sin(exp(cos(x))))))", "a": 'r - mean(r, dim="time", keepdims=True)'}
    outputs = {f"{target}/a": "a", f"{target}/t": {"array": "r", "chunks": {"time": -1, "y": 20, "x": 20}}}
    if single:
        arrays, outputs = {"r": arrays["r"]}, {f"{target}/a": "r"}
    pipeline = write_pipeline(folder, inputs, arrays, outputs, spec=spec)
    plan = json.loads(chunkwise("plan", pipeline, "--allowed-mem", memory, "--format", "json", env=env).ok().stdout)
    for stage in plan["stages"]:
        # Planned tasks write many small chunks; here every chunk is to be a task, so that there are many.
        grids = [plan["arrays"][o["array"]]["grid"] for o in stage["outputs"]]
        if all(cuts(g) == cuts(grids[0]) for g in grids):
            for output, grid in zip(stage["outputs"], grids, strict=True):
                output["tasks"] = grid
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return path


def cuts(grid):
    """The number of pieces on each axis of a chunk grid, as plans write it."""
    return [-(-a["regular"]["len"] // a["regular"]["size"]) if "regular" in a else len(a["irregular"]) for a in grid]


def files(folder):
    root = pathlib.Path(folder)
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def processes(mark):
    """The processes of a test, found by a variable of their environment: {pid: command line}."""
    found = {}
    for folder in pathlib.Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            if f"{MARK}={mark}".encode() not in (folder / "environ").read_bytes().split(b"\0"):
                continue
            line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
        except OSError:
            continue
        # A process that has ended and waits for its parent has no command line.
        if line:
            found[int(folder.name)] = line
    return found


class Run:
    """A run of the command in the background. Leaving the block makes sure that none of its processes is left."""

    def __init__(self, *args, env=None):
        self.mark = uuid.uuid4().hex
        self.lines = []
        # Engines that give their workers an environment of their own are told the mark, too.
        self.process = subprocess.Popen(
            [binary(), *(str(a).replace("{mark}", self.mark) for a in args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "NO_COLOR": "1", **(env or {}), MARK: self.mark},
        )  # fmt: skip
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)

    @property
    def errors(self):
        return "".join(self.lines)

    def __enter__(self):
        return self

    def until(self, there, seconds=60):
        """Wait until something is true while the run goes on; its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if value := there():
                return value
            assert self.process.poll() is None, f"the run ended ({self.process.returncode}) before the fault came:\n{self.errors}"
            time.sleep(0.005)
        raise AssertionError(f"it did not come to that in {seconds} s:\n{self.errors}")

    def workers(self):
        """Its worker processes."""
        return {pid: line for pid, line in processes(self.mark).items() if " worker " in line and line.split()[0] == binary()}

    def kill_workers(self):
        for pid in self.workers():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, seconds=90):
        """Wait for the end: (exit code, what it said)."""
        code = self.process.wait(seconds)
        self._reader.join(10)
        self.stdout = self.process.stdout.read()
        return code, self.errors

    def ok(self):
        code, errors = self.end()
        assert code == 0 and "panicked" not in errors, f"exit code {code}\n{errors}"
        return self

    def failed(self, *words):
        code, errors = self.end()
        # After Ctrl-C and SIGTERM a run ends in order, too, with the code that shells have for them.
        assert (0 < code < 128 or code in (130, 143)) and "panicked" not in errors, f"exit code {code}\n{errors}"
        flat = " ".join(errors.split())
        for word in words:
            assert word in flat, f"the error does not say '{word}':\n{errors}"
        return self

    def nothing_left(self, seconds=5):
        end = time.monotonic() + seconds
        while (left := processes(self.mark)) and time.monotonic() < end:
            time.sleep(0.05)
        assert not left, f"processes are left: {left}"

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        try:
            if error[0] is None:
                self.nothing_left()
        finally:
            for pid in processes(self.mark):
                os.kill(pid, signal.SIGKILL)


class SmallDisk:
    """A filesystem of so many bytes."""

    def __init__(self, path, size):
        self.path = pathlib.Path(path)
        self.path.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(self.path)], capture_output=True, text=True)
        if done.returncode:
            raise MissingService(f"no small disk can be mounted ({done.stderr.strip()}): run the tests as root, or inside `unshare -rm`")

    def option(self, options):
        subprocess.run(["mount", "-o", f"remount,{options}", str(self.path)], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", str(self.path)], check=True)


class Remote:
    """The input of `prepare` on a server that can fail: the proxy in front of it has the rules."""

    def __init__(self, server, bucket, proxy):
        self.source, self.proxy = f"s3://{bucket}/in.zarr", proxy
        self.path = f"{bucket}/in.zarr/c/30/"
        self.env = {**server.env, "AWS_ENDPOINT_URL": proxy.url}
        # The store itself does not repeat requests, so that tasks must be.
        self.spec = {"storage": {f"s3://{bucket}": {"retries": 0}}}

    def prepare(self, folder, **options):
        return prepare(folder, spec=self.spec, source=self.source, env=self.env, **options)

    def hang(self):
        """A chunk that nobody can read until `heal`; who waits for it goes on waiting."""
        self.rule = self.proxy.rule(method="GET", path=self.path, hang=True)
        return self

    def hold(self):
        """A chunk that is answered for only after `heal`."""
        self.rule = self.proxy.rule(method="GET", path=self.path, hold=True)
        return self

    def fail(self, times):
        self.rule = self.proxy.rule(method="GET", path=self.path, status=500, times=times)
        return self

    def heal(self):
        self.rule.times = 0


# Scripts that stand in for a worker

# What the scripts share: the value of an option, the name under which the worker reports, and if it is the one that begins the work.
FIRST = """
def value(key):
    return args[args.index(key) + 1] if key in args else None

index = value("--array-index") or os.environ.get("AWS_BATCH_JOB_ARRAY_INDEX") or os.environ.get("JOB_COMPLETION_INDEX")
name = value("--name") or f"{value('--job')}_{index}"

def first():
    if value("--stage") != "0" or not value("--tasks").startswith("0..") or index not in (None, "0"):
        return False
    try:
        os.mkdir(folder + "/once")
        return True
    except FileExistsError:
        return False
"""
LIAR = """
if first():
    reports = pathlib.Path(value("--plan").removeprefix("file://")).parent / "reports"
    reports.mkdir(exist_ok=True)
    # Whole or not at all, as workers write.
    os.replace(folder + "/lie", reports / f"{name}-1.jsonl")
    sys.exit(0)
os.execv(binary, [binary, *args])
"""
TWICE = """
both = [subprocess.Popen([binary, *args]) for _ in range(2)]
sys.exit(max(p.wait() for p in both))
"""
NO_NETWORK = """
if first():
    os.dup2(os.open(folder + "/said", os.O_CREAT | os.O_WRONLY), 2)
    os.execvp("unshare", ["unshare", "--net", binary, *args])
os.execv(binary, [binary, *args])
"""
NOT_MOUNTED = """
hide = f"mount -t tmpfs tmpfs {folder}/in.zarr && exec \\"$@\\""
os.execvp("unshare", ["unshare", "--mount", "sh", "-c", hide, "sh", binary, *args])
"""
