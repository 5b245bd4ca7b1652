"""AWS Lambda: nothing is replaced, deleted or asked for that the person who runs it did not mean. The demands of test_executors_places, with everything in a bucket."""

import json
import signal

import obstore
from executors import led_away
from faults import MEM, Run
from harness import chunkwise, write_pipeline
from on_lambda import BUCKET
from services import Recorder
from services.function import Function
from services.servers import stored


def test_on_lambda_an_output_that_is_an_input(case, function):
    """An output is the input under another name, and is to be overwritten: the run stops before it touches anything."""
    c = case(single=True, side=60)
    before = stored(c.store, f"{c.prefix}/in.zarr")
    plan = json.loads(c.plan.read_text())
    [output] = [a for a in plan["arrays"].values() if a["role"] == "output"]
    same, another = "is also the place of array", "is, holds or lies in the input"
    for url, word in [(f"{c.url}/in.zarr", same), (f"s3://{BUCKET}/./{c.prefix}/in.zarr", another), (f"{c.url}/in.zarr/c", another)]:
        output["url"], plan["groups"] = url, []
        c.plan.write_text(json.dumps(plan))
        with c.run(function, "--overwrite") as run:
            run.failed(word)
        assert stored(c.store, f"{c.prefix}/in.zarr") == before, url


def test_on_lambda_another_run_with_the_same_output(case, aws, program, proxy, single, tmp_path):
    """Another pipeline writes the same output at once: it stops before it touches anything, and names the first."""
    c = case(single=True)
    rule = proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/", hold=True)
    (tmp_path / "b").mkdir()
    spec = {"work_dir": f"{c.url}/other"}
    other = write_pipeline(tmp_path / "b", {"x": f"s3://{BUCKET}/in.zarr"}, {"r": "x * 2"}, {f"{c.url}/out.zarr/a": "r"}, spec=spec)
    with Function(aws, "crowded", program, [f"s3://{BUCKET}"], s3=proxy.url) as f:
        second = ["run", other, *MEM, "--executor", "lambda", "--function", f.name, "--overwrite"]
        with c.run(f) as first:
            first.until(lambda: rule.hits)
            with Run(*second, env=f.env) as run:
                run.failed("out.zarr/a", f"process {first.process.pid}")
            rule.times = 0
            first.ok()
        c.same(single)
        # Nobody writes it any more.
        with Run(*second, env=f.env) as run:
            run.ok()
        assert stored(c.store, f"{c.prefix}/out.zarr") != single
        chunkwise("verify", f"{c.url}/out.zarr", env=f.env).ok()


def test_on_lambda_what_a_killed_run_has_left(case, aws, program, proxy):
    """The driver is killed, and `clean` is called: the remains of the run in the work directory are removed, and nothing else; a run that is running stays."""
    c = case()
    work = f"{c.prefix}/work"
    rule = proxy.rule(method="GET", path=f"{BUCKET}/in.zarr/c/30/", hang=True)
    for name in ("thesis", "0123456789abcdef"):
        obstore.put(c.store, f"{work}/{name}/plan.json", c.plan.read_bytes())
        obstore.put(c.store, f"{work}/{name}/chapter1.tex", b"years of work")
    mine = stored(c.store, work)
    with Function(aws, "untidy", program, [f"s3://{BUCKET}"], timeout=3, s3=proxy.url) as f:
        with c.run(f) as run:
            run.until(lambda: rule.hits)
            chunkwise("clean", f"{c.url}/work", "--all", env=f.env).ok()
            assert any(name.endswith("chunkwise-run.json") for name in stored(c.store, work)), "the run was cleaned while it ran"
            run.signal(signal.SIGKILL)
            run.end()
    # Nothing works on it any more.
    chunkwise("clean", f"{c.url}/work", "--all", env=aws.env).ok()
    assert stored(c.store, work) == mine
    c.nothing_published()


def test_on_lambda_a_pipeline_that_leads_keys_away(case, function, tmp_path):
    """A pipeline or plan sends its output to a server of its own choice, or with other keys: it is refused, and that server sees nothing."""
    c = case(single=True)
    plan = json.loads(c.plan.read_text())
    (tmp_path / "b").mkdir()
    with Recorder(tmp_path) as recorder:
        for storage, word in led_away(recorder):
            plan["spec"]["storage"] = {"s3://": storage}
            c.plan.write_text(json.dumps(plan))
            with c.run(function) as run:
                run.failed(word)
            path = write_pipeline(tmp_path / "b", {"x": f"s3://{BUCKET}/in.zarr"}, {}, {f"{c.url}/out.zarr/a": "x"}, spec={"storage": {"s3://": storage}})
            with Run("run", path, *MEM, "--executor", "lambda", "--function", function.name, env=function.env) as run:
                run.failed(word)
            assert recorder.seen() == "", storage
    c.nothing_published()
