"""One list of demands for every executor: the right bytes or a clear error, whatever happens to tasks, workers, driver and storage.

The faults are real: signals, memory limits of the kernel, full and read-only filesystems, pipes that hang, servers that refuse. The table of
docs/reliability.md is made from their first sentences: what happens, and what comes of it.
"""

import json
import math
import os
import pathlib
import signal
import time

import obstore
import pytest
import reliability
from executors import ALL, APIS, CLUSTERS, ENGINES, batch, bucket, clean, engine, kubernetes, nothing_published, on, passing, remote, through  # noqa: F401
from faults import LIAR, MEM, NO_NETWORK, NOT_MOUNTED, TWICE, Run, SmallDisk, cuts, files, prepare
from harness import chunkwise, write_pipeline
from services.servers import stored, upload

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


# All is well


@pytest.mark.parametrize("executor", ALL)
def test_the_same_bytes_on_every_executor(tmp_path, on, reference, executor):
    """Nothing: the same bytes as on one thread, the checksums are right, memory stays within the limit, and no intermediate is left."""
    args, env = on(executor)
    with Run("run", prepare(tmp_path), *args, "--json", env=env) as run:
        run.ok()
    report = json.loads(run.stdout)
    assert (report["executor"], report["retries"], report["backups"]) == (executor, 0, 0)
    assert report["peak_memory"] <= 300_000_000
    clean(tmp_path, reference)
    chunkwise("verify", tmp_path / "out.zarr").ok()


@pytest.mark.parametrize(
    "first, second",
    [
        ("threads", "processes"), ("processes", "command"), ("command", "threads"), ("slurm", "kubernetes"), ("kubernetes", "aws-batch"), ("aws-batch", "dask"), ("dask", "ray"),
        ("ray", "threads"),
    ],
)  # fmt: skip
def test_resume_on_another_executor(tmp_path, on, remote, request, reference, first, second):
    """The driver is killed, and the run resumed on another executor: the same bytes."""
    args, env = on(first)
    path = remote.prepare(tmp_path)
    remote.hang()
    with Run("run", path, *args, env={**env, **remote.env}) as run:
        run.until(lambda: remote.rule.hits)
        time.sleep(0.3)
        run.signal(signal.SIGKILL)
        run.end()
        # Jobs of an engine go on; they end when their last task does.
        remote.heal()
        run.kill_workers()
        if first in APIS:
            engine(request, first).settle()
    nothing_published(tmp_path)
    args, env = on(second)
    with Run("run", path, *args, "--resume", env={**env, **remote.env}) as run:
        run.ok()
    clean(tmp_path, reference)


# Tasks that fail


@pytest.mark.parametrize("times", [1, 2, None])
@pytest.mark.parametrize("executor", ALL)
def test_a_request_that_fails(tmp_path, on, remote, single, executor, times):
    """A server answers one request, two, or all of a chunk with an error: the task is tried again; the fourth time the run stops and names the chunk."""
    args, env = on(executor)
    path, env = remote.prepare(tmp_path, single=True), {**env, **remote.env}
    remote.fail(times)
    with Run("run", path, *args, env=env) as run:
        if times:
            run.ok()
        else:
            run.failed("in.zarr/c/30/0/0", "--resume")
            nothing_published(tmp_path)
    assert run.errors.count("failed (transient)") == (times or 3), run.errors
    if not times:
        remote.heal()
        with Run("run", path, *args, "--resume", env=env) as run:
            run.ok()
    clean(tmp_path, single)


@pytest.mark.parametrize("executor", ALL)
def test_bad_data_is_not_tried_again(tmp_path, on, executor):
    """A chunk of the input is cut off: the run stops at once and names the chunk."""
    args, env = on(executor)
    path = prepare(tmp_path)
    os.truncate(tmp_path / "in.zarr/c/7/0/0", 100)
    with Run("run", path, *args, env=env) as run:
        run.failed("in.zarr", "c/7/0/0")
    assert "again in" not in run.errors
    nothing_published(tmp_path)


@pytest.mark.parametrize("executor", ALL)
def test_a_task_that_hangs(tmp_path, on, remote, single, executor):
    """A task waits for an answer that does not come: it is stopped at its time limit, tried again, and succeeds when there is one."""
    args, env = on(executor)
    path = remote.prepare(tmp_path, single=True)
    remote.hang()
    with Run("run", path, *args, "--task-timeout", "1.5", env={**env, **remote.env}) as run:
        run.until(lambda: "--task-timeout" in run.errors)
        remote.heal()
        run.ok()
    assert run.errors.count("failed (transient)") >= 1
    clean(tmp_path, single)


@pytest.mark.parametrize("executor", ALL)
def test_a_task_that_always_hangs(tmp_path, on, remote, executor):
    """A task hangs whenever it is tried: the run stops and names the limit."""
    args, env = on(executor)
    path = remote.prepare(tmp_path, single=True)
    remote.hang()
    with Run("run", path, *args, "--task-timeout", "0.5", "--retries", "1", env={**env, **remote.env}) as run:
        run.failed("--task-timeout", "--resume")
    nothing_published(tmp_path)


@pytest.mark.parametrize("executor", ["processes", "command", *ENGINES])
def test_a_straggler_gets_a_second_copy(tmp_path, on, remote, single, executor):
    """A task takes much longer than its siblings: a second copy of it finishes first, and the first one is stopped."""
    args, env = on(executor)
    if executor != "processes":
        args = [*args, "--executor-option", "tasks=1"]
    path = remote.prepare(tmp_path, single=True)
    remote.hang()
    with Run("run", path, *args, "--json", env={**env, **remote.env}) as run:
        # One worker waits for the chunk; a copy of its task comes after five seconds, and finds it.
        run.until(lambda: remote.rule.hits)
        remote.heal()
        run.ok()
    report = json.loads(run.stdout)
    assert report["backups"] >= 1 and report["retries"] == 0
    clean(tmp_path, single)


# Workers that die


@pytest.mark.parametrize("executor", ["processes", "command", *ENGINES])
def test_a_worker_that_is_killed(tmp_path, on, remote, single, executor):
    """Workers are killed (signal 9): the message says so, and other workers run their tasks."""
    args, env = on(executor)
    path = remote.prepare(tmp_path, single=True)
    remote.hang()
    with Run("run", path, *args, env={**env, **remote.env}) as run:
        run.until(lambda: remote.rule.hits)
        remote.heal()
        run.kill_workers()
        run.ok()
    assert "failed (lost worker)" in run.errors and "signal 9" in run.errors, run.errors
    clean(tmp_path, single)


# Clusters have a test of their own: see below.
@pytest.mark.parametrize("executor", ["processes", *(engine for engine in ENGINES if engine not in CLUSTERS)])
def test_a_worker_that_is_killed_for_memory(tmp_path, on, request, executor):
    """The kernel kills a worker for its memory: the message says so, with the projection; the task is tried once more, alone; with more memory the run goes on."""
    args, env = on(executor)
    path = prepare(tmp_path, side=400, count=12)
    little = [*args, "--executor-option", "mem=12MB"]
    if executor in APIS:
        # A worker is told what its container has, and refuses what does not fit; so the container gets less than it was promised.
        api, little = engine(request, executor), args
        api.memory = 12_000_000
    with Run("run", path, *little, env=env) as run:
        run.failed("too much memory", "projected to need", "--resume")
    assert "failed (resource)" in run.errors
    if executor in APIS:
        api.memory = None
    nothing_published(tmp_path)
    with Run("run", path, *args, "--resume", env=env) as run:
        run.ok()
    got = files(tmp_path / "out.zarr")
    chunkwise("run", path, *MEM, "--overwrite").ok()
    assert got == files(tmp_path / "out.zarr")


@pytest.mark.parametrize("executor", ["processes", *CLUSTERS])
def test_a_driver_kills_a_worker_for_its_memory(tmp_path, on, remote, single, executor):
    """No cgroup can be made, and a worker uses too much memory: the driver, or what runs beside it on its node, kills it and says so; with more memory the run goes on."""
    args, env = on(executor)
    args, env = [*args, *(["--executor-option", "memory_limit=watch"] if executor == "processes" else [])], {**env, **remote.env}
    path = remote.prepare(tmp_path, single=True)
    # Workers wait, so that the driver has time to look at them.
    remote.hang()
    with Run("run", path, *args, "--executor-option", "mem=2MB", env=env) as run:
        run.failed("too much memory", "projected to need", "--resume")
    assert "failed (resource)" in run.errors
    nothing_published(tmp_path)
    remote.heal()
    with Run("run", path, *args, "--resume", env=env) as run:
        run.ok()
    clean(tmp_path, single)


@pytest.mark.parametrize("executor", ["processes", "command", "slurm", *CLUSTERS])
def test_workers_that_do_not_start(tmp_path, on, executor):
    """The program of the workers is missing, ends at once, or is a wrong one: the run stops and says so."""
    words = ["cannot be started", "workers do not start", "it said what no worker says"]
    if executor != "processes":
        # What a shell says of a program that is not there; false ends so, too, and whoever ends well has to leave a report.
        words = ["ended with code 127", "ended with code 1 ", "storage holds no report of the task"]
    if executor in CLUSTERS:
        words[0] = "/nonexistent cannot be started on"
    args, env = on(executor)
    path = prepare(tmp_path, count=4)
    for program, word in zip(("/nonexistent", "/bin/false", "/bin/echo"), words):
        with Run("run", path, *args, "--executor-option", f"program={program}", "--retries", "1", env=env) as run:
            run.failed(word)
    nothing_published(tmp_path)


def test_nobody_is_left_behind(tmp_path, on):
    """The driver is interrupted, terminated or (processes) killed: no worker and no job is left, and nothing is published."""
    for executor in ("processes", "command", *ENGINES):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if number == signal.SIGKILL and executor != "processes":
                continue  # Jobs of an engine go on, which is what they are for.
            folder = tmp_path / f"{executor}-{number}"
            folder.mkdir()
            args, env = on(executor)
            path = prepare(folder, count=200, side=100)
            with Run("run", path, *args, env=env) as run:
                run.until(run.workers)
                run.signal(number)
                code, errors = run.end(30)
                assert code != 0
                if number != signal.SIGKILL:
                    assert "--resume" in errors
                run.nothing_left(10)
            nothing_published(folder)


@pytest.mark.parametrize("executor", ["command", *ENGINES])
def test_a_worker_without_network(tmp_path, through, remote, single, executor):
    """A worker has no network: it cannot read, and says so or ends; other workers run its tasks."""
    path = remote.prepare(tmp_path, single=True)
    args, env = through(executor, NO_NETWORK)
    with Run("run", path, *args, env={**env, **remote.env}) as run:
        run.ok()
    said = (tmp_path / "said").read_text()
    assert f"nothing answers at {remote.proxy.url}" in said and "Network is unreachable" in said, said
    # Its tasks, and no others, were run again.
    assert run.errors.count("failed (lost worker)") == (4 if executor == "slurm" else 8), run.errors
    assert run.errors.count("ended with code 1 (it could not start)") == run.errors.count("again in")
    clean(tmp_path, single)


@pytest.mark.parametrize("executor", APIS)
def test_workers_whose_image_does_not_come(tmp_path, on, request, executor):
    """The image of the workers is not in its registry: the run stops and names it."""
    args, env = on(executor)
    engine(request, executor).images.clear()
    more = ["--executor-option", "start_timeout=1"] if executor == "kubernetes" else []
    with Run("run", prepare(tmp_path), *args, *more, env=env) as run:
        run.failed("chunkwise:test", "not found")
    nothing_published(tmp_path)


# Reports that are wrong


UNTRUE = (
    '{"done":{"attempt":0,"report":{"stage":0,"task":0,"written":[{"array":"ARRAY","chunk":CHUNK,"bytes":77,"xxh3":"0"}],'
    '"bytes_read":0,"seconds":0,"projected_mem":0}}}\n'
)


@pytest.mark.parametrize("executor", ["command", *ENGINES])
@pytest.mark.parametrize(
    "lie, said",
    [
        ('{"done":{"attempt":0,"report":{"stage":0,"ta', "no report"),
        (UNTRUE, "not there"),
        ("", "no report"),
    ],
    ids=["truncated", "untrue", "empty"],
)  # fmt: skip
def test_a_report_that_is_wrong(tmp_path, through, reference, lie, said, executor):
    """The report of a worker is cut off, empty, or names missing chunks: the task counts as not done, and is run again."""
    path = prepare(tmp_path)
    plan = json.loads(path.read_text())
    array = plan["stages"][0]["outputs"][0]["array"]
    lie = lie.replace("ARRAY", array).replace("CHUNK", json.dumps([0] * len(plan["arrays"][array]["shape"])))
    (tmp_path / "lie").write_text(lie)
    args, env = through(executor, LIAR)
    with Run("run", path, *args, env=env) as run:
        run.ok()
    assert "failed (lost worker)" in run.errors and said in run.errors, run.errors
    clean(tmp_path, reference)


@pytest.mark.parametrize("executor", ["command", *ENGINES])
def test_reports_that_come_twice(tmp_path, through, reference, executor):
    """Every task is run and reported twice at once: each counts once."""
    args, env = through(executor, TWICE)
    with Run("run", prepare(tmp_path), *args, "--json", env=env) as run:
        run.ok()
    plan = json.loads((next((tmp_path / "work").glob("*/plan.json"))).read_text())
    assert json.loads(run.stdout)["tasks"] == sum(max(math.prod(cuts(o["tasks"])) for o in s["outputs"]) for s in plan["stages"])
    clean(tmp_path, reference)


# Drivers


@pytest.mark.parametrize("executor", ALL)
def test_a_driver_that_is_killed(tmp_path, on, remote, reference, executor):
    """The driver is killed (signal 9): the run can be resumed at once."""
    args, env = on(executor)
    env = {**env, **remote.env}
    path = remote.prepare(tmp_path)
    remote.hang()
    with Run("run", path, *args, env=env) as run:
        run.until(lambda: remote.rule.hits)
        run.signal(signal.SIGKILL)
        run.end()
        remote.heal()
        with Run("run", path, *args, "--resume", env=env) as again:
            again.ok()
        if executor == "command":
            # Nobody but the command knows where its workers are.
            run.kill_workers()
    clean(tmp_path, reference)


@pytest.mark.parametrize("executor", ["threads", "processes", "kubernetes"])
def test_two_drivers_at_once(tmp_path, on, remote, single, executor):
    """A second driver starts the same plan: it stops before it touches anything and names the first."""
    args, env = on(executor)
    env = {**env, **remote.env}
    path = remote.prepare(tmp_path, single=True)
    remote.hang()
    with Run("run", path, *args, "--task-timeout", "3", env=env) as first:
        first.until(lambda: remote.rule.hits)
        for flag in ("--resume", "--overwrite"):
            with Run("run", path, *args, flag, env=env) as second:
                second.failed("another process runs this plan", f"process {first.process.pid}")
        remote.heal()
        first.ok()
    clean(tmp_path, single)


# Inputs


@pytest.mark.parametrize("executor", ALL)
def test_an_input_that_vanishes(tmp_path, on, passing, prepared_run, single, executor):
    """The input is deleted while tasks run: no chunk is taken for empty, and the run stops and says so."""
    args, env = on(executor)
    path, env = passing.prepare(tmp_path, single=True), {**env, **passing.env}
    passing.hold()
    with Run("run", path, *args, env=env) as run:
        run.until(lambda: passing.rule.hits)
        obstore.delete(passing.store, [f"in.zarr/{name}" for name in stored(passing.store, "in.zarr")])
        passing.heal()
        run.failed("is not there (any more)", passing.source, "--resume")
    assert "again in" not in run.errors
    nothing_published(tmp_path)
    upload(passing.store, prepared_run / "in.zarr", "in.zarr")
    with Run("run", path, *args, "--overwrite", env=env) as run:
        run.ok()
    clean(tmp_path, single)


@pytest.mark.parametrize("executor", ALL)
def test_an_input_that_changes(tmp_path, on, passing, single, executor):
    """The input is replaced while tasks run, or before a run is resumed: it stops and says so, and nothing is published."""
    args, env = on(executor)
    path, env = passing.prepare(tmp_path, single=True), {**env, **passing.env}
    passing.hold()
    with Run("run", path, *args, env=env) as run:
        run.until(lambda: passing.rule.hits)
        # Objects tell whole seconds, by another clock.
        time.sleep(4)
        for name, data in stored(passing.store, "in.zarr/c").items():
            obstore.put(passing.store, f"in.zarr/c/{name}", data)
        passing.heal()
        run.failed("has changed", passing.source, "was written", "--overwrite")
    assert "again in" not in run.errors
    nothing_published(tmp_path)
    with Run("run", path, *args, "--resume", env=env) as run:
        run.failed("has changed", passing.source, "was written")
    nothing_published(tmp_path)
    with Run("run", path, *args, "--overwrite", env=env) as run:
        run.ok()
    clean(tmp_path, single)


@pytest.mark.parametrize("executor", ["processes", "command", *ENGINES])
def test_an_input_that_workers_do_not_see(tmp_path, through, single, executor):
    """Workers see another folder in the place of the input: no chunk is taken for empty, and the run stops and says so."""
    args, env = through(executor, NOT_MOUNTED)
    path = prepare(tmp_path, single=True)
    with Run("run", path, *args, env=env) as run:
        run.failed("is not there (any more)", "in.zarr", "wherever tasks run")
    assert "again in" not in run.errors
    nothing_published(tmp_path)
    args, env = through(executor, "os.execv(binary, [binary, *args])\n")
    with Run("run", path, *args, "--resume", env=env) as run:
        run.ok()
    clean(tmp_path, single)


# Stores and disks


@pytest.mark.parametrize("executor", ALL)
def test_a_store_that_is_busy(tmp_path, on, remote, single, executor):
    """The store throttles (503) and drops connections in the middle of an answer: requests are repeated, and no task fails."""
    args, env = on(executor)
    remote.spec = {}
    path = remote.prepare(tmp_path, single=True)
    rules = [remote.proxy.rule(method="GET", path=remote.path, status=503, times=2), remote.proxy.rule(method="GET", path=remote.path, drop_after=500, times=2)]
    with Run("run", path, *args, "--json", env={**env, **remote.env}) as run:
        run.ok()
    assert [r.hits for r in rules] == [2, 2]
    assert json.loads(run.stdout)["retries"] == 0
    clean(tmp_path, single)


@pytest.mark.parametrize("executor", ALL)
def test_a_full_disk(tmp_path, on, executor):
    """The disk of the outputs is full: the run stops and says so; with more room it can be resumed."""
    args, env = on(executor)
    with SmallDisk(tmp_path / "disk", "600k") as disk:
        path = prepare(tmp_path, target=str(disk.path / "out.zarr"))
        with Run("run", path, *args, env=env) as run:
            run.failed("the disk is full", "--resume")
        assert "again in" not in run.errors
        disk.option("size=64m")
        with Run("run", path, *args, "--resume", env=env) as run:
            run.ok()
        got = files(disk.path)
        chunkwise("run", path, *MEM, "--overwrite").ok()
        assert got == files(disk.path)


@pytest.mark.parametrize("executor", ALL)
def test_a_read_only_disk(tmp_path, on, executor):
    """The disk of the outputs is read-only: the run stops and says so."""
    args, env = on(executor)
    with SmallDisk(tmp_path / "disk", "64m") as disk:
        path = prepare(tmp_path, target=str(disk.path / "out.zarr"))
        disk.option("ro")
        with Run("run", path, *args, env=env) as run:
            run.failed("no permission to write", "Read-only")


# The worker by itself


def stage_of_inputs(path):
    """A stage that reads nothing but inputs, so that a worker can run it by itself."""
    plan = json.loads(path.read_text())
    reads = [[plan["arrays"][p["read"]]["role"] for p in s["program"]["steps"] if "read" in p] for s in plan["stages"]]
    return next(i for i, roles in enumerate(reads) if set(roles) == {"input"})


def test_exit_codes_of_a_worker(tmp_path):
    """A worker is started with a wrong plan, stage, task, version or memory, or with damaged data: each has its exit code."""
    url = prepare(tmp_path)
    stage = stage_of_inputs(url)

    def work(*args):
        return chunkwise("worker", "--plan", url, *args)

    assert work("--stage", stage).ok().code == 0
    assert work("--stage", stage, "--array-index", 1, "--array-size", 3, "--threads", 2).ok().code == 0
    for args, code, word in [
        (("--stage", stage, "--hash", "0123456789abcdef"), 13, "is wanted"),
        (("--stage", stage, "--driver-version", "0.0.1"), 13, "0.0.1"),
        (("--stage", 99), 1, "no stage 99"),
        (("--stage", stage, "--tasks", "0..100000000"), 1, "no task"),
        (("--stage", stage, "--tasks", "7..3"), 1, "empty range"),
        (("--stage", stage, "--allowed-mem", "65MiB"), 12, ""),
    ]:
        done = work(*args)
        assert done.code == code and word in done.stderr, (args, done.code, done.stderr)
    assert chunkwise("worker", "--plan", tmp_path / "none.json", "--stage", 0).code == 1
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**json.loads(url.read_text()), "format": "chunkwise-plan/99"}))
    assert chunkwise("worker", "--plan", other, "--stage", 0).code == 13
    os.truncate(tmp_path / "in.zarr/c/7/0/0", 100)
    assert work("--stage", stage).code == 10


def test_a_worker_that_is_told_to_stop(tmp_path, remote):
    """A worker is terminated while a task hangs: it hands back unfinished tasks, and ends."""
    url = remote.prepare(tmp_path, single=True)
    remote.hang()
    with Run("worker", "--plan", url, "--stage", 0, "--name", "me", env=remote.env) as worker:
        worker.until(lambda: remote.rule.hits)
        worker.signal(signal.SIGTERM)
        code, errors = worker.end(30)
    assert code == 14, errors
    lines = [json.loads(line) for p, data in files(tmp_path / "work").items() if "/reports/me-" in p for line in data.decode().splitlines()]
    tasks = {"done": set(), "returned": set()}
    for line in lines:
        for kind in tasks:
            if kind in line:
                tasks[kind].add(line[kind].get("task", line[kind].get("report", {}).get("task")))
    assert tasks["returned"] and not tasks["done"] & tasks["returned"]


# Options


# Of each executor, what a pipeline may not choose for whoever runs it.
PRIVATE = {
    "processes": ["program", "mem", "memory_limit"],
    "command": ["command", "program"],
    "slurm": ["program", "sbatch", "logs", "account", "partition", "qos", "mem", "threads"],
    "kubernetes": [
        "node_selector", "tolerations", "priority_class", "cpu", "mem", "threads", "ttl",
        "image", "namespace", "service_account", "env", "env_secrets", "env_configs", "claims", "labels", "pull_secrets", "user", "kubeconfig", "context", "endpoint",
    ],
    "aws-batch": ["queue", "definition", "env", "region", "profile", "endpoint", "mem", "vcpus", "share", "timeout", "threads"],
    "dask": ["address", "scheduler_file", "env", "mem", "program", "python"],
    "ray": ["address", "env", "mem", "program", "python"],
    "lambda": ["function", "region", "profile", "endpoint", "memory", "timeout"],
}  # fmt: skip
WRONG = [
    ("processes", ["proceses=2"], "it has processes"),
    ("processes", ["processes=0"], "processes=0 is not a whole number from 1 to 4096"),
    ("processes", ["threads=4097"], "threads=4097 is not a whole number from 1 to 4096"),
    ("slurm", ["threads=1000000"], "from 1 to 4096"),
    ("command", ["command={worker}", "parallel=9223372036854775807"], "parallel=9223372036854775807 is not a whole number from 1 to 2147483647"),
    ("command", ["command={worker}", "tasks=18446744073709551615"], "from 1 to 2147483647"),
    ("threads", ["x=1"], "no option 'x'"),
    ("command", [], "command=..."),
    ("command", ["command=true"], "{worker}"),
    ("cloud", [], "possible values"),
    ("processes", ["mem=much"], "a size"),
]


@pytest.mark.parametrize(
    "name, given, word",
    [*WRONG, *((e, {k: "x"}, f"'{k}' cannot be set in a pipeline") for e, keys in PRIVATE.items() for k in keys), ("processes", {"processes": 1}, None)],
)  # fmt: skip
def test_options_are_checked(tmp_path, name, given, word):
    """Options are wrong, or a pipeline names a program: the run is refused before it starts, with the valid options."""
    if isinstance(given, list):
        path = write_pipeline(tmp_path, {}, {"x": "arange(0, 4)"}, {"out.zarr/x": "x"})
        chunkwise("run", path, "--executor", name, *(w for o in given for w in ("--executor-option", o))).failed(word)
        return
    path = write_pipeline(tmp_path, {}, {"x": "arange(0, 4)"}, {"out.zarr/x": "x"}, spec={"executor": name, "executor_options": given})
    done = chunkwise("run", path, *MEM, "--json")
    if word is None:
        assert done.ok().report["executor"] == name
    else:
        done.failed(word, "what is executed, where, and with whose rights", f"--executor-option {next(iter(given))}=")
        assert not (tmp_path / "out.zarr").exists()


def test_the_table_is_of_these_tests():
    """The table of docs/reliability.md is made from this file and test_executors_places."""
    text = (ROOT / "docs" / "reliability.md").read_text()
    assert reliability.table() in text, "run: python tests/reliability.py"
