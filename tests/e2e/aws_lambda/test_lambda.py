"""AWS Lambda: the executor with its function, in an emulator that runs the real program over the real Runtime API, against real S3.

The table of docs/reliability.md is made from the first sentences of the tests whose names begin with `test_on_lambda`: what happens, and what
comes of it.
"""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import obstore
import pytest
import yaml
from faults import MEM, Run, files, prepare
from harness import chunkwise
from on_lambda import BUCKET
from services import FaultProxy
from services.containers import killed_for_memory, memory_group, remove_group
from services.function import FAILS_AT_FIRST, IN_CGROUP, OTHER, WITHOUT_NETWORK, Function
from services.servers import stored, upload

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("invoke", ["sync", "async"])
def test_on_lambda_the_same_bytes(case, function, reference, invoke):
    """Nothing: the same bytes as on one thread, the checksums are right, memory stays within the limit, and no intermediate is left."""
    c = case()
    with c.run(function, options=[f"invoke={invoke}", "poll=0.3"], report=True) as run:
        run.ok()
    report = json.loads(run.stdout)
    assert (report["executor"], report["retries"], report["backups"]) == ("lambda", 0, 0)
    assert report["peak_memory"] <= 512 << 20
    assert report["usage"]["gb_seconds"] > 0 and report["usage"]["region"] == "us-east-1"
    c.same(reference)
    chunkwise("verify", f"{c.url}/out.zarr", env=function.env).ok()


@pytest.fixture(scope="module")
def workloads(tmp_path_factory, store):
    folder = tmp_path_factory.mktemp("workloads")
    shutil.copytree(ROOT / "examples/workloads", folder / "workloads", ignore=shutil.ignore_patterns("data"))
    command = [sys.executable, "-W", "ignore", folder / "workloads/generate.py", "all", "--small", "--steps", "250"]
    subprocess.run(command, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    upload(store, folder / "workloads/data", "workloads/data")
    return folder


@pytest.mark.parametrize("name", ["quadratic_means", "vorticity", "tem", "climatology", "rechunk", "ata"])
def test_workloads(workloads, function, store, name):
    """All six workloads: their results are byte for byte those of a local run."""
    document = yaml.safe_load((workloads / f"workloads/{name}.yaml").read_text())
    document["spec"] = {"allowed_mem": "300MB", "workers": 2}
    local, remote = workloads / f"workloads/{name}-local.yaml", workloads / f"workloads/{name}-remote.yaml"
    local.write_text(yaml.safe_dump(document))
    at = f"s3://{BUCKET}/workloads"
    document["inputs"] = {k: f"{at}/{v}" for k, v in document["inputs"].items()}
    document["outputs"] = {k.replace("../out/", f"{at}/out/"): v for k, v in document["outputs"].items()}
    document["spec"]["work_dir"] = f"{at}/work"
    remote.write_text(yaml.safe_dump(document))
    chunkwise("run", local).ok()
    chunkwise("run", remote, "--function", function.name, "--executor-option", "concurrency=4", env=function.env).ok()
    expected, found = files(workloads / f"out/{name}.zarr"), stored(store, f"workloads/out/{name}.zarr")
    assert expected and found == expected, sorted(set(found) ^ set(expected))


def test_on_lambda_resume(case, function, reference, proxy, aws, program):
    """The driver is killed, and the run resumed on another executor: the same bytes."""
    c = case()
    rule = proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/", hang=True)
    with Function(aws, "stuck", program, [f"s3://{BUCKET}"], timeout=5, s3=proxy.url) as stuck:
        with c.run(stuck) as run:
            run.until(lambda: rule.hits)
            time.sleep(0.3)
            run.signal(signal.SIGKILL)
            run.end()
    c.nothing_published()
    rule.times = 0
    with c.run(function, resume=True) as run:
        run.ok()
    c.same(reference)


def test_on_lambda_a_killed_driver(case, aws, program, proxy, reference):
    """The driver is killed (signal 9): the run can be resumed at once."""
    c = case()
    rule = proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/", hang=True)
    with Function(aws, "orphan", program, [f"s3://{BUCKET}"], timeout=30, s3=proxy.url) as f:
        with c.run(f) as run:
            run.until(lambda: rule.hits)
            run.signal(signal.SIGKILL)
            run.end()
        # The functions of the first driver are still at work.
        rule.times = 0
        began = time.monotonic()
        with c.run(f, resume=True) as run:
            run.ok()
        assert time.monotonic() - began < 25
    c.same(reference)


@pytest.mark.parametrize("times", [1, 2, None])
def test_on_lambda_a_request_that_fails(case, aws, program, proxy, single, times):
    """A server answers one request, two, or all of a chunk with an error: the task is tried again; the fourth time the run stops and names the chunk."""
    c = case(single=True, retries=0)
    rule = proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/0/0", status=500, times=times)
    with Function(aws, f"unlucky{times}", program, [f"s3://{BUCKET}"], s3=proxy.url) as f:
        with c.run(f) as run:
            if times:
                run.ok()
            else:
                run.failed("in.zarr/c/30/0/0", "--resume")
                c.nothing_published()
        assert run.errors.count("failed (transient)") == (times or 3), run.errors
        rule.times = 0
        if not times:
            with c.run(f, resume=True) as run:
                run.ok()
    c.same(single)


def test_on_lambda_bad_data(case, function):
    """A chunk of the input is cut off: the run stops at once and names the chunk."""
    c = case(single=True, side=60)
    key = f"{c.prefix}/in.zarr/c/2/0/0"
    obstore.put(c.store, key, bytes(obstore.get(c.store, key).bytes())[:100])
    with c.run(function) as run:
        run.failed("in.zarr", "c/2/0/0")
    assert "again in" not in run.errors, run.errors
    c.nothing_published()


def test_on_lambda_an_input_that_vanishes(case, aws, program, proxy):
    """The input is deleted while tasks run: no chunk is taken for empty, and the run stops and says so."""
    c = case(single=True, side=60)
    rule = proxy.rule(method="GET", path=f"{c.prefix}/in.zarr/c/2/", hold=True)
    with Function(aws, "robbed", program, [f"s3://{BUCKET}"], s3=proxy.url) as f, c.run(f) as run:
        run.until(lambda: rule.hits)
        obstore.delete(c.store, [f"{c.prefix}/in.zarr/{name}" for name in stored(c.store, f"{c.prefix}/in.zarr")])
        rule.times = 0
        run.failed("is not there (any more)", f"{c.prefix}/in.zarr", "--resume")
    assert "again in" not in run.errors, run.errors
    c.nothing_published()


def test_on_lambda_an_input_that_changes(case, aws, program, proxy):
    """The input is replaced while tasks run, or before a run is resumed: it stops and says so, and nothing is published."""
    c = case(single=True, side=60)
    rule = proxy.rule(method="GET", path=f"{c.prefix}/in.zarr/c/2/", hold=True)
    with Function(aws, "fooled", program, [f"s3://{BUCKET}"], s3=proxy.url) as f:
        with c.run(f) as run:
            run.until(lambda: rule.hits)
            # Objects tell whole seconds, by another clock.
            time.sleep(4)
            for name, data in stored(c.store, f"{c.prefix}/in.zarr/c").items():
                obstore.put(c.store, f"{c.prefix}/in.zarr/c/{name}", data)
            rule.times = 0
            run.failed("has changed", f"{c.prefix}/in.zarr", "was written")
        assert "again in" not in run.errors, run.errors
        c.nothing_published()
        with c.run(f, resume=True) as run:
            run.failed("has changed", f"{c.prefix}/in.zarr")
    c.nothing_published()


def test_on_lambda_a_busy_store(case, aws, program, proxy, single):
    """The store throttles (503) and drops connections in the middle of an answer: requests are repeated, and no task fails."""
    c = case(single=True)
    chunk = f"{BUCKET}/in.zarr/c/30/0/0"
    rules = [proxy.rule(method="GET", path=chunk, status=503, times=2), proxy.rule(method="GET", path=chunk, drop_after=500, times=2)]
    with Function(aws, "patient", program, [f"s3://{BUCKET}"], s3=proxy.url) as f, c.run(f, report=True) as run:
        run.ok()
    assert [r.hits for r in rules] == [2, 2] and json.loads(run.stdout)["retries"] == 0
    c.same(single)


def test_on_lambda_a_hanging_task(case, aws, program, proxy, single):
    """A task waits for an answer that does not come: it is stopped at its time limit, tried again, and succeeds when there is one."""
    c = case(single=True)
    proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/0/0", hang=True, times=1)
    with Function(aws, "hangs", program, [f"s3://{BUCKET}"], timeout=3, s3=proxy.url) as f:
        with c.run(f) as run:
            run.ok()
    assert "Task timed out after 3.00 seconds" in run.errors and "failed (transient)" in run.errors
    c.same(single)


def test_on_lambda_a_task_that_always_hangs(case, aws, program, proxy):
    """A task hangs whenever it is tried: the run stops and names the limit."""
    c = case(single=True)
    proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/0/0", hang=True)
    with Function(aws, "stuck2", program, [f"s3://{BUCKET}"], timeout=2, s3=proxy.url) as f:
        with c.run(f, "--retries", "1") as run:
            run.failed("stage 0 ", "task 30", "timed out after 2.00 seconds", "--resume")
    c.nothing_published()


def test_on_lambda_a_straggler(case, aws, program, proxy, single):
    """A task takes much longer than its siblings: a second copy of it finishes first, and the first one is stopped."""
    c = case(single=True)
    rule = proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/0/0", hang=True, times=1)
    with Function(aws, "slow", program, [f"s3://{BUCKET}"], timeout=60, s3=proxy.url) as f:
        with c.run(f, options=["tasks=1"]) as run:
            run.ok()
    assert run.errors.count("a second copy was started") == 1 and "again in" not in run.errors and rule.hits == 1, run.errors
    c.same(single)


def test_a_task_that_holds_up_others(case, aws, program, proxy, single):
    """The tasks behind one that hangs, in the same invocation, are sent again."""
    c = case(single=True)
    proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/0/0", hang=True, times=1)
    with Function(aws, "queue", program, [f"s3://{BUCKET}"], timeout=60, s3=proxy.url) as f:
        began = time.monotonic()
        with c.run(f, options=["concurrency=2"]) as run:
            run.ok()
    assert time.monotonic() - began < 30 and "again in" not in run.errors, run.errors
    c.same(single)


def test_on_lambda_functions_that_die(case, aws, program, tmp_path, single):
    """Workers are killed (signal 9): the message says so, and other workers run their tasks."""
    c = case(single=True)
    (tmp_path / "failures").mkdir()
    for k in range(3):
        (tmp_path / "failures" / str(k)).touch()
    variables = {"CHUNKWISE_TEST_FAILURES": str(tmp_path / "failures")}
    with Function(aws, "dies", program, [f"s3://{BUCKET}"], wrapper=FAILS_AT_FIRST, **variables) as f:
        with c.run(f) as run:
            run.ok()
    # When one environment dies, the emulator ends those of the same function that are at work, too.
    assert run.errors.count("failed (lost worker)") >= 3 and "exited during init" in run.errors, run.errors
    c.same(single)


def test_on_lambda_a_program_that_ends_at_once(case, aws, program):
    """The program of the workers is missing, ends at once, or is a wrong one: the run stops and says so."""
    c = case(single=True)
    for name, wrapper, said in [("ends", "exit 7", "code 7"), ("missing", "exec /nonexistent", "code 127")]:
        with Function(aws, name, program, [f"s3://{BUCKET}"], wrapper=f"#!/bin/sh\n{wrapper}\n") as f, c.run(f, "--retries", "1") as run:
            run.failed("exited during init", said, "--resume")
    # The function answers, but it is none of ours.
    with Function(aws, "other", program, [f"s3://{BUCKET}"], wrapper=OTHER) as f, c.run(f) as run:
        run.failed("does not answer as chunkwise-lambda does", "hello")
    c.nothing_published()


def test_on_lambda_two_drivers(case, aws, program, proxy, single):
    """A second driver starts the same plan: it stops before it touches anything and names the first."""
    c = case(single=True)
    rule = proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/0/0", hang=True, times=1)
    with Function(aws, "both", program, [f"s3://{BUCKET}"], timeout=5, s3=proxy.url) as f, c.run(f) as first:
        first.until(lambda: rule.hits)
        for flag in ("--resume", "--overwrite"):
            with c.run(f, flag) as second:
                second.failed("another process runs this plan", f"process {first.process.pid}")
        first.ok()
    c.same(single)


def test_on_lambda_without_network(case, aws, program, tmp_path, single):
    """A worker has no network: it cannot read, and says so or ends; other workers run its tasks."""
    c = case(single=True)
    once = tmp_path / "once"
    with Function(aws, "alone", program, [f"s3://{BUCKET}"], wrapper=WITHOUT_NETWORK, timeout=5, CHUNKWISE_TEST_ONCE=str(once)) as f:
        with c.run(f) as run:
            run.ok()
    assert "client error (Connect)" in (once / "said").read_text() and "failed (lost worker)" in run.errors, run.errors
    c.same(single)


class Changed(FaultProxy):
    """Passes on what `change` makes of the body of an answer."""

    async def _pass_on(self, line, headers, body, writer, seen, drop_after):
        if drop_after is not None:
            return await super()._pass_on(line, headers, body, writer, seen, drop_after)
        kept = Kept()
        goes_on = await super()._pass_on(line, headers, body, kept, seen, drop_after)
        head, _, answer = kept.data.partition(b"\r\n\r\n")
        new = self.change(seen, answer)
        head = head.replace(f"content-length: {len(answer)}".encode(), f"content-length: {len(new)}".encode())
        writer.write(head + b"\r\n\r\n" + new)
        await writer.drain()
        return goes_on


class Killed(Changed):
    """The emulator only says that a program has ended. Where the kernel has killed it for memory, this says what Lambda says then."""

    group = None

    def change(self, seen, answer):
        told = b"Runtime exited before returning a response"
        return answer.replace(told, b"RequestId: 1 Error: Runtime exited with error: signal: killed") if killed_for_memory(self.group) else answer


class Kept:
    """A connection that nobody listens to."""

    def __init__(self):
        self.data = b""

    def write(self, data):
        self.data += data

    async def drain(self):
        pass


def test_on_lambda_out_of_memory(case, aws, program, function):
    """The kernel kills a worker for its memory: the message says so, with the projection; the task is tried once more, alone; with more memory the run goes on."""
    c = case(single=True, side=800)
    group = memory_group(14 << 20)
    variables = {"CHUNKWISE_TEST_CGROUP": str(group)}
    try:
        with Killed(aws.url) as killed, Function(aws, "small", program, [f"s3://{BUCKET}"], wrapper=IN_CGROUP, **variables) as f:
            killed.group = group
            with c.run(f, env={"AWS_ENDPOINT_URL_LAMBDA": killed.url}, options=["concurrency=1"]) as run:
                run.failed("killed for using too much memory", "signal: killed", "projected to need", "held to 536.9 MB")
    finally:
        remove_group(group, 10)
    assert run.errors.count("failed (resource)") >= 1
    c.nothing_published()
    with c.run(function, resume=True) as run:
        run.ok()
    local = prepare(c.plan.parent / "own", count=4, side=800, single=True, source=str(c.plan.parent / "own/in.zarr"))
    chunkwise("run", local, *MEM).ok()
    c.same(files(c.plan.parent / "own/out.zarr"))


def test_on_lambda_throttled(case, aws, program, reference):
    """The engine refuses more than two invocations at once: the driver reduces the number of invocations, and no task fails because of it."""
    c = case()
    with Function(aws, "two", program, [f"s3://{BUCKET}"], reserved=2) as f:
        with c.run(f, options=["concurrency=12"]) as run:
            run.ok()
    assert " refused, " in run.errors and "again in" not in run.errors, run.errors
    assert "Lambda takes no more invocations now" in run.errors
    c.same(reference)


def test_on_lambda_always_throttled(case, aws, program):
    """The engine refuses everything: the run stops after a while and says so."""
    c = case(single=True)
    with Function(aws, "none", program, [f"s3://{BUCKET}"], reserved=0) as f:
        with c.run(f, options=["patience=1"]) as run:
            run.failed("Lambda has refused every invocation")
    c.nothing_published()


def test_on_lambda_lost_answers(case, function, proxy, reference):
    """The connection is cut after the work is done, and the answer is lost: the reports in storage count, and nothing is run again."""
    c = case()
    rule = proxy.rule(method="POST", path="/invocations", drop_after=0, times=5)
    with c.run(function, env={"AWS_ENDPOINT_URL_LAMBDA": proxy.url}) as run:
        run.ok()
    assert rule.hits == 5 and "again in" not in run.errors, run.errors
    c.same(reference)


class Shortened(Changed):
    """The reports of functions, which the driver reads, are cut off after so many bytes."""

    length = 0

    def change(self, seen, answer):
        return answer[: self.length] if seen.method == "GET" and re.search(r"/reports/.*jsonl$", seen.path) else answer


@pytest.mark.parametrize("length", [0, 300])
def test_on_lambda_lost_answers_and_reports(case, aws, function, single, length):
    """The answer of a function is lost, and its reports are cut off or empty: its tasks count as not done, and are run again."""
    c = case(single=True)
    with Shortened(aws.url) as proxy:
        proxy.length = length
        rule = proxy.rule(method="POST", path="/invocations", drop_after=0, times=2)
        with c.run(function, env={"AWS_ENDPOINT_URL": proxy.url}) as run:
            run.ok()
    assert rule.hits == 2 and run.errors.count("failed (lost worker)") >= 2 and "answer of the function was lost" in run.errors, run.errors
    c.same(single)


def test_on_lambda_errors_of_the_service(case, function, proxy, reference):
    """The service itself fails: its requests are repeated."""
    c = case()
    proxy.rule(method="POST", path="/invocations", status=500, times=3)
    with c.run(function, env={"AWS_ENDPOINT_URL_LAMBDA": proxy.url}) as run:
        run.ok()
    assert run.errors.count("failed (transient)") == 3, run.errors
    c.same(reference)


class Twice(FaultProxy):
    """Every invocation is delivered twice; the second answer counts."""

    async def _pass_on(self, line, headers, body, writer, seen, drop_after):
        if seen.path.endswith("/invocations"):
            await super()._pass_on(line, headers, body, Kept(), seen, None)
        return await super()._pass_on(line, headers, body, writer, seen, drop_after)


@pytest.mark.parametrize("invoke", ["sync", "async"])
def test_on_lambda_duplicate_delivery(case, aws, function, reference, invoke):
    """Every task is run and reported twice at once: each counts once."""
    c = case()
    with Twice(aws.url) as proxy, c.run(function, env={"AWS_ENDPOINT_URL_LAMBDA": proxy.url}, options=[f"invoke={invoke}", "poll=0.3"], report=True) as run:
        run.ok()
    report = json.loads(run.stdout)
    # Of one stage or of all: no task is counted more often than it is in the plan.
    plan = json.loads(c.plan.read_text())
    assert report["retries"] == 0 and report["tasks"] == sum(tasks(s) for s in plan["stages"])
    c.same(reference)


def tasks(stage):
    total = 1
    for axis in max((o["tasks"] for o in stage["outputs"]), key=len):
        total *= -(-axis["regular"]["len"] // axis["regular"]["size"]) if "regular" in axis else len(axis["irregular"])
    return total


def test_on_lambda_time_is_up(case, aws, program, proxy, single):
    """An invocation has more to do than it has time for: it hands back the remaining tasks, and another invocation runs them."""
    c = case(single=True)
    proxy.latency = 0.25
    with Function(aws, "hurried", program, [f"s3://{BUCKET}"], timeout=4, s3=proxy.url) as f:
        with c.run(f, options=["concurrency=1", "batch_seconds=60"], report=True) as run:
            run.ok()
    report = json.loads(run.stdout)
    assert report["retries"] == 0 and 3 <= report["usage"]["invocations"] < 30, (report, run.errors)
    c.same(single)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_on_lambda_interrupted(case, aws, program, proxy, reference, function, number):
    """The driver is interrupted, terminated or (processes) killed: no worker and no job is left, and nothing is published."""
    c = case()
    rule = proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/", hang=True)
    with Function(aws, f"stopped{number}", program, [f"s3://{BUCKET}"], timeout=6, s3=proxy.url) as f:
        with c.run(f) as run:
            run.until(lambda: rule.hits)
            run.signal(number)
            run.failed("cancelled", "--resume")
    c.nothing_published()
    with c.run(function, resume=True) as run:
        run.ok()
    c.same(reference)


def test_on_lambda_options(case, function):
    """Options are wrong, or a pipeline names a program: the run is refused before it starts, with the valid options."""
    c = case(single=True)
    chunkwise("run", c.plan, "--executor", "lambda", env=function.env).failed("--function")
    chunkwise("run", c.plan, "--function", "chunkwise", "--executor-option", "mem=1", env=function.env).failed("no option 'mem'", "concurrency")
    chunkwise("run", c.plan, "--function", "nobody", env=function.env).failed("'nobody' cannot be used", ("ResourceNotFound", "not found"))
    away = {**function.env, "AWS_ENDPOINT_URL_LAMBDA": "http://127.0.0.1:1"}
    chunkwise("run", c.plan, "--function", "chunkwise", env=away).failed("cannot be used")


def test_too_little_memory(case, aws, program):
    """A function with less memory than a task is projected to need is not invoked, and itself refuses the tasks; both say both numbers."""
    c = case(single=True)
    plan = json.loads(c.plan.read_text())
    plan["stages"][0]["projected_mem"] = 100 << 20
    c.plan.write_text(json.dumps(plan))
    with Function(aws, "tiny", program, [f"s3://{BUCKET}"], memory=128) as f:
        with c.run(f) as run:
            run.failed("172.0 MB", "134.2 MB", "--allowed-mem")
        with c.run(f, options=["memory=512MB"]) as run:
            run.failed("104.9 MB for a task", "the function has 134.2 MB")
