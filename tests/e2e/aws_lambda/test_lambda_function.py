"""The function on AWS Lambda without its executor: its actions one by one, and events, pipelines and plans that it refuses."""

import json
import os
import pathlib
import subprocess
import time

import numpy as np
import obstore
import pytest
import zarr
from faults import files
from harness import binary, chunkwise
from on_lambda import BUCKET
from services.function import Function, stripped
from services.servers import MissingService, stored, upload

ROOT = pathlib.Path(__file__).resolve().parents[3]
EVENT = "chunkwise-event/1"


def refused(function, event, *words):
    answer, error, log = function.invoke(event)
    assert error, answer
    for word in words:
        assert word in answer["errorMessage"], answer
    return answer["errorType"], log


def pipeline(name, **changes):
    at = f"s3://{BUCKET}"
    return {
        "inputs": {"x": f"{at}/in.zarr"},
        "arrays": {"m": 'x - mean(x, dim="time")'},
        "outputs": {f"{at}/{name}/out.zarr/m": "m"},
        "spec": {"work_dir": f"{at}/{name}/work"},
        **changes,
    }


def test_without_a_driver(function, store, tmp_path):
    """Plan, run every batch, finish: what a state machine does. The outputs are those of a local run, and of each action there is an answer."""
    name = f"detached-{time.time_ns()}"
    document = pipeline(name)
    planned, error, _ = function.invoke({"format": EVENT, "action": "plan", "document": document, "allowed_mem": 100_000_000})
    assert not error, planned
    run = {"format": EVENT, "plan": planned["plan"], "hash": planned["hash"]}
    assert function.invoke({**run, "action": "status"})[0]["state"] == "planned"
    for stage in planned["stages"]:
        assert stage["batches"] and stage["batches"][-1][1] == stage["tasks"]
        for batch in stage["batches"]:
            event = {**run, "action": "run_tasks", "stage": stage["stage"], "tasks": [batch], "strict": True}
            done, error, log = function.invoke({**event, "trace": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"})
            assert not error and done["complete"] and done["done"] == batch[1] - batch[0], done
            lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
            assert lines and all(l["trace_id"] == "0af7651916cd43dd8448eb211c80319c" and l["request_id"] for l in lines), log
    status = function.invoke({**run, "action": "status"})[0]
    assert status["state"] == "unfinished" and all(s["stored"] == s["chunks"] for s in status["stages"]), status
    finished, error, _ = function.invoke({**run, "action": "finish"})
    assert not error and finished["outputs"] == [f"s3://{BUCKET}/{name}/out.zarr/m"]
    assert function.invoke({**run, "action": "status"})[0]["state"] == "published"
    again = refused(function, {"format": EVENT, "action": "plan", "document": document}, "exists", "--overwrite")
    assert again[0] == "Refused"
    local = pipeline("local")
    local["outputs"] = {str(tmp_path / "out.zarr/m"): local["arrays"]["m"]}
    local["spec"] = {"work_dir": str(tmp_path / "work")}
    (tmp_path / "local.json").write_text(json.dumps(local))
    chunkwise("run", tmp_path / "local.json", "--allowed-mem", "100MB", env=function.env).ok()
    assert stored(store, f"{name}/out.zarr") == files(tmp_path / "out.zarr")
    cleaned, error, _ = function.invoke({**run, "action": "clean"})
    assert not error and cleaned["objects"] > 0 and not stored(store, f"{name}/work")


def test_a_run_that_is_cancelled(aws, store, program, proxy):
    """After `cancel` functions hand back what they are given, also what hangs, long before their time is up."""
    name = f"cancelled-{time.time_ns()}"
    rule = proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/", hang=True)
    with Function(aws, "told", program, [f"s3://{BUCKET}"], s3=proxy.url, timeout=60) as function:
        planned = function.invoke({"format": EVENT, "action": "plan", "document": pipeline(name)})[0]
        run = {"format": EVENT, "plan": planned["plan"], "hash": planned["hash"]}
        assert not function.invoke({**run, "action": "cancel"})[1]
        assert function.invoke({**run, "action": "status"})[0]["state"] == "cancelled"
        tasks = [planned["stages"][0]["batches"][0]]
        event = {**run, "action": "run_tasks", "stage": 0, "tasks": tasks}
        began = time.monotonic()
        answer, error, _ = function.invoke(event)
        assert not error and answer["cancelled"] and not answer["complete"] and answer["rest"] and "failed" not in answer, answer
        assert answer["done"] + sum(b - a for a, b in answer["rest"]) == tasks[0][1] - tasks[0][0], answer
        # A state machine is told that there is nothing to try again.
        assert refused(function, {**event, "strict": True}, "the run was cancelled")[0] == "Refused"
        assert time.monotonic() - began < 30 and rule.hits > 0
        rule.times = 0
    assert not stored(store, f"{name}/out.zarr")


def test_reports_that_cannot_be_read_at_once(case, function, proxy, reference):
    """Where the driver looks at storage for what has become of tasks, a report that it cannot read now is read later, and nothing is run again."""
    c = case(retries=0)
    rule = proxy.rule(method="GET", path="/reports/.*jsonl", status=503, times=3)
    with c.run(function, env={"AWS_ENDPOINT_URL": proxy.url}, options=["invoke=async", "poll=0.3"]) as run:
        run.ok()
    assert rule.hits == 3 and "again in" not in run.errors and "at the next look" in run.errors, run.errors
    c.same(reference)


BAD_EVENTS = {
    "no object": (b"[1, 2]", "not an object"),
    "another version": ({"format": "chunkwise-event/99", "action": "clean"}, "chunkwise-event/1"),
    "no format": ({"action": "status"}, "no format"),
    "no action": ({"format": EVENT}, "no action"),
    "unknown action": ({"format": EVENT, "action": "shell"}, "shell"),
    "unknown field": ({"format": EVENT, "action": "status", "plan": "s3://functions/p", "hash": "ab", "command": "rm"}, "command"),
    "no id": ({"format": EVENT, "action": "status", "plan": "s3://functions/p", "hash": "../../x"}, "hash"),
    "too large": (json.dumps({"format": EVENT, "action": "plan", "document": "x" * (1 << 20)}), "bytes"),
    "too deep": (b'{"format": "chunkwise-event/1", "action": "plan", "document": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}", "recursion"),
    "deep text": ({"format": EVENT, "action": "plan", "document": "{inputs: " + "[" * 20000}, ""),
    "backward tasks": ({"format": EVENT, "action": "run_tasks", "plan": "s3://functions/p", "hash": "ab", "stage": 0, "tasks": [[5, 2]]}, "ascend"),
    "many tasks": ({"format": EVENT, "action": "run_tasks", "plan": "s3://functions/p", "hash": "ab", "stage": 0, "tasks": [[0, 2**63]]}, "tasks"),
    "a path as name": (
        {"format": EVENT, "action": "run_tasks", "plan": "s3://functions/p", "hash": "ab", "stage": 0, "tasks": [[0, 1]], "name": "../x"},
        "'name'",
    ),
    "a foreign bucket": ({"format": EVENT, "action": "status", "plan": "s3://other/w/ab/plan.json", "hash": "ab"}, "outside"),
    "a longer bucket": ({"format": EVENT, "action": "status", "plan": "s3://functions2/w/ab/plan.json", "hash": "ab"}, "outside"),
    "a file": ({"format": EVENT, "action": "status", "plan": "file:///etc/passwd", "hash": "ab"}, "outside"),
    "memory": ({"format": EVENT, "action": "status", "plan": "memory:x/plan.json", "hash": "ab"}, "outside"),
    "the metadata service": ({"format": EVENT, "action": "status", "plan": "http://169.254.169.254/latest/x", "hash": "ab"}, "outside"),
    "upwards": ({"format": EVENT, "action": "clean", "plan": "s3://functions/../other/plan.json", "hash": "ab"}, "'..'"),
    "escaped": ({"format": EVENT, "action": "clean", "plan": "s3://functions/%2e%2e/other/plan.json", "hash": "ab"}, "escapes"),
    "a user": ({"format": EVENT, "action": "plan", "pipeline": "https://user:pw@host/p.yaml"}, "secrets"),
}


@pytest.mark.parametrize("name", BAD_EVENTS)
def test_bad_events(function, name):
    """Malformed, oversized, wrong-version and malicious events are refused with a clear error, and the function goes on."""
    event, word = BAD_EVENTS[name]
    kind, _ = refused(function, event, word)
    assert kind == "Refused", kind


@pytest.mark.parametrize(
    "change, word",
    [
        ({"inputs": {"x": "s3://other/in.zarr"}}, "outside"),
        ({"inputs": {"x": "/etc/passwd"}}, "outside"),
        ({"inputs": {"x": f"s3://{BUCKET}/a/../../other"}}, "'..'"),
        ({"outputs": {"s3://other/out.zarr/m": "m"}}, "outside"),
        ({"spec": {"work_dir": "s3://other/work"}}, "outside"),
        ({"spec": {}}, "outside"),
        ({"spec": {"work_dir": f"s3://{BUCKET}/w", "storage": {f"s3://{BUCKET}": {"endpoint": "https://evil.example"}}}}, "CHUNKWISE_ENDPOINTS"),
        ({"arrays": {"m": "full([1000000000000, 1000000000000], 1.0) + x"}}, ""),
        ({"arrays": {"m": "(" * 5000 + "x" + ")" * 5000}}, ""),
    ],
)
def test_bad_pipelines(function, store, change, word):
    """A pipeline may touch nothing outside the prefixes, and have no absurd shapes or depths."""
    document = pipeline(f"bad-{time.time_ns()}", **change)
    kind, _ = refused(function, {"format": EVENT, "action": "plan", "document": document}, word)
    assert kind == "Refused"


def test_bad_plans(function, store, case):
    """Nor may a plan, wherever it comes from: every array in it is looked at before anything is read."""
    c = case(single=True)
    plan = json.loads(c.plan.read_text())
    inputs = [n for n, a in plan["arrays"].items() if a["role"] == "input"]
    outputs = [n for n, a in plan["arrays"].items() if a["role"] == "output"]

    def attempt(change, *words):
        altered = json.loads(json.dumps(plan))
        change(altered)
        (c.plan.parent / "altered.json").write_text(json.dumps(altered))
        obstore.put(store, f"{c.prefix}/altered.json", json.dumps(altered).encode())
        event = {"format": EVENT, "action": "run_tasks", "plan": f"{c.url}/altered.json", "hash": identity(function, c), "stage": 0, "tasks": [[0, 1]]}
        assert refused(function, event, *words)[0] == "Refused"

    attempt(lambda p: p["arrays"][inputs[0]].update(url="s3://other/in.zarr"), "outside")
    attempt(lambda p: p["arrays"][outputs[0]].update(url="file:///tmp/out.zarr"), "not valid")
    attempt(lambda p: (p["arrays"][outputs[0]].update(url="file:///tmp/out.zarr"), p["groups"].clear()), "outside")
    attempt(lambda p: p["spec"].update(work_dir="s3://other/w"), "outside")
    attempt(lambda p: p.update(format="chunkwise-plan/99"), "chunkwise-plan/99")
    attempt(lambda p: p["arrays"][outputs[0]].update(shape=[2**63, 2**63, 2**63]), "not valid")
    attempt(lambda p: p.update(unknown=1), "unknown")
    event = {"format": EVENT, "action": "run_tasks", "plan": f"{c.url}/altered.json", "hash": "ab", "stage": 0, "tasks": [[0, 1]]}
    refused(function, event, "")


def identity(function, c):
    """The id of the plan that lies at `altered.json`, as the refusal of a wrong one names it."""
    event = {"format": EVENT, "action": "run_tasks", "plan": f"{c.url}/altered.json", "hash": "0123456789abcdef", "stage": 0, "tasks": [[0, 1]]}
    message = function.invoke(event)[0]["errorMessage"]
    return message.split("' is ")[1].split(",")[0] if "' is " in message else "0123456789abcdef"


def test_the_schema_fits(function, store):
    """Events and answers are as the published schema says."""
    import jsonschema

    schema = json.loads((ROOT / "docs/lambda-event.schema.json").read_text())
    event = {"format": EVENT, "action": "plan", "document": pipeline(f"schema-{time.time_ns()}"), "dry_run": True}
    jsonschema.validate(event, schema)
    answer = function.invoke(event)[0]
    jsonschema.validate(answer, {**schema, "$ref": "#/$defs/Answer"})
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({**event, "action": "shell"}, schema)


def test_a_function_of_the_users_own(aws, store, function, tmp_path):
    """The example crate as a function: it has the user's function `beaufort`; the function without it refuses the plan by name."""
    built = pathlib.Path(binary()).parent
    if not (built / "forces").exists():
        raise MissingService(f"{built}/forces is not there: cargo build -p chunkwise-cli -p own --features chunkwise-cli/full --bins")
    upload(store, ROOT / "examples/data/winds.zarr", "winds.zarr")
    at = f"s3://{BUCKET}"

    def forces(name, out):
        args = [built / "forces", f"{at}/winds.zarr", f"{at}/{out}", "lambda", f"function={name}", "concurrency=4"]
        return subprocess.run([str(a) for a in args], capture_output=True, text=True, env={**os.environ, **function.env}, timeout=120)

    (tmp_path / "own").mkdir()
    with Function(aws, "own", stripped(tmp_path / "own", built / "own-bootstrap"), [at]) as own:
        done = forces(own.name, "forces.zarr")
    assert done.returncode == 0, done.stderr
    for name, data in stored(store, "forces.zarr").items():
        path = tmp_path / "forces.zarr" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    u, v = (zarr.open_array(ROOT / f"examples/data/winds.zarr/{name}")[...] for name in ("uwnd", "vwnd"))
    least = [0.3, 1.6, 3.4, 5.5, 8.0, 10.8, 13.9, 17.2, 20.8, 24.5, 28.5, 32.7]
    expected = np.searchsorted(np.array(least, "float32"), np.hypot(u, v), side="right")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "forces.zarr/force")[...], expected)
    refused = forces(function.name, "refused.zarr")
    assert refused.returncode != 0 and "beaufort" in refused.stderr, refused.stderr
    assert "refused.zarr/force/zarr.json" not in {f"refused.zarr/{name}" for name in stored(store, "refused.zarr")}
