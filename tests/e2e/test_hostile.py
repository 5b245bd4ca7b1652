"""Pipelines, plans and stores of somebody who wants more than to have something computed, run by a victim who has keys.

A file may say what is computed. It may not say where requests go, whose keys sign them, or which files change besides the outputs. `Recorder`
is the server of the attacker: it must not even see a connection.
"""

import http.server
import json
import threading

import numpy as np
import pytest
from harness import read_array
from services import Recorder, WebServer
from victim import Victim, X

MEM = ["--allowed-mem", "300MB"]


@pytest.fixture
def victim(tmp_path):
    return Victim(tmp_path)


@pytest.fixture
def recorder(tmp_path):
    with Recorder(tmp_path) as recorder:
        yield recorder


# Storage options of a file. Each uses a store, so that it would be opened: as an output or an input.
S3, GS, AZ = ({"outputs": {f"{scheme}://bucket/out.zarr": "x * 2"}} for scheme in ("s3", "gs", "az"))
OPTIONS = {
    "a region that is a host": (S3, {"s3://": {"region": "x@HOST/", "allow_http": True}}, ["no region"]),
    "a region that is a host, with a profile": (S3, {"s3://": {"region": "x@HOST/", "profile": "admin"}}, ["no region"]),
    "a region with a space": (S3, {"s3://": {"region": "a b"}}, ["no region"]),
    "a profile": (S3, {"s3://": {"profile": "admin"}}, ["'admin'", "--allow profile=admin", "CHUNKWISE_ALLOW=profile=admin"]),
    "no keys": (S3, {"s3://bucket": {"anonymous": True}}, ["anonymous", "--allow anonymous"]),
    "an endpoint of S3": (S3, {"s3://": {"endpoint": "http://HOST"}}, ["--allow endpoint=http://HOST", "CHUNKWISE_ENDPOINTS=http://HOST"]),
    "an endpoint of S3 for one bucket": (S3, {"s3://bucket/out.zarr": {"endpoint": "http://HOST", "path_style": False}}, ["--allow endpoint="]),
    "an endpoint of Google": (GS, {"gs://": {"endpoint": "http://HOST"}}, ["--allow endpoint=http://HOST"]),
    "an endpoint of Azure": (AZ, {"az://": {"endpoint": "http://HOST"}}, ["--allow endpoint=http://HOST"]),
    "an account that is a host": (AZ, {"az://": {"account": "HOST/", "allow_http": True}}, ["no storage account"]),
    "an account of the attacker": (AZ, {"az://": {"account": "attacker"}}, ["'attacker'", "--allow account=attacker"]),
    "an endpoint with a password": (S3, {"s3://": {"endpoint": "http://me:hunter2@HOST"}}, ["without user"]),
    "a bucket of the options that is a host": (S3, {"s3://x@HOST": {"region": "eu-west-1"}}, ["without user"]),
}


def filled(value, recorder):
    return json.loads(json.dumps(value).replace("HOST", recorder.host))


@pytest.mark.parametrize("attack", OPTIONS)
@pytest.mark.parametrize("endpoints", [None, ""])
def test_a_pipeline_leads_no_keys_away(victim, recorder, attack, endpoints):
    outputs, storage, words = filled(OPTIONS[attack], recorder)
    path = victim.pipeline({"storage": storage}, **outputs)
    before = victim.files()
    more = {} if endpoints is None else {"CHUNKWISE_ENDPOINTS": endpoints}
    done = victim.run("run", path, *MEM, **more).failed(*words)
    assert recorder.seen() == ""
    assert done.code == 2 and victim.files() == before


@pytest.mark.parametrize("attack", OPTIONS)
def test_a_plan_leads_no_keys_away(victim, recorder, attack):
    """The same in a plan, which a worker and `verify` read, too."""
    outputs, storage, words = filled(OPTIONS[attack], recorder)
    plan = json.loads(victim.run("plan", victim.pipeline(), *MEM, "--format", "json").ok().stdout)
    plan["spec"]["storage"] = storage
    (output,) = (a for a in plan["arrays"].values() if a["role"] == "output")
    output["url"] = next(iter(outputs["outputs"]))
    path = victim.here / "plan.json"
    path.write_text(json.dumps(plan))
    before = victim.files()
    for command in (["run", path], ["run-task", path, 0, 0], ["worker", "--plan", path, "--stage", 0], ["verify", victim.here]):
        victim.run(*command).failed(*words)
        assert recorder.seen() == "", command
    assert victim.files() == before


PLACES = {
    "a web server on this machine": ("http://HOST/x.zarr", ["this machine", "--allow host=http://HOST"]),
    "by name": ("http://localhost:PORT/x.zarr", ["this machine"]),
    "by another name": ("http://x.localhost:PORT/x.zarr", ["this machine"]),
    "as a number": ("http://2130706433:PORT/x.zarr", ["this machine"]),
    "in hex": ("http://0x7f.1:PORT/x.zarr", ["this machine"]),
    "as an address of version 6": ("http://[::ffff:127.0.0.1]:PORT/x.zarr", ["this machine"]),
    "as any address": ("http://0.0.0.0:PORT/x.zarr", ["this machine"]),
    "the service that hands out credentials": ("http://169.254.169.254/latest/meta-data/x.zarr", ["the link of this machine"]),
    "a bucket that is a host": ("s3://x@HOST/x.zarr", ["user"]),
    "a bucket with a port": ("s3://HOST/x.zarr", ["no bucket"]),
    "a bucket with a space": ("s3://a b/x.zarr", ["no bucket"]),
    "a container that is a host": ("az://127.0.0.1/x.zarr", ["no container"]),
    "a host behind a backslash": ("http://good.example\\@HOST/x.zarr", [("user", "no host")]),
    "a password": ("https://me:hunter2@HOST/x.zarr", ["secrets do not belong in a URL"]),
    "a signature": ("https://HOST/x.zarr?sig=hunter2", ["secrets do not belong in a URL"]),
}


@pytest.mark.parametrize("attack", PLACES)
def test_places_that_a_pipeline_may_not_name(victim, recorder, attack):
    url, words = json.loads(json.dumps(PLACES[attack]).replace("HOST", recorder.host).replace("PORT", str(recorder.port)))
    words = [tuple(w) if isinstance(w, list) else w for w in words]
    before = victim.files()
    done = victim.run("run", victim.pipeline(inputs={"x": url}), *MEM).failed(*words)
    assert recorder.seen() == "" and done.code == 2
    before["project/p.json"] = victim.files()["project/p.json"]
    assert victim.files() == before


class Redirect(http.server.BaseHTTPRequestHandler):
    """A store that sends everybody elsewhere."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.seen.append(self.path)
        self.send_response(307)
        self.send_header("Location", f"{self.server.to}{self.path}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_PUT = do_HEAD = do_POST = do_DELETE = do_GET


@pytest.fixture
def redirect(recorder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Redirect)
    server.to, server.seen, server.daemon_threads = recorder.url, [], True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("scheme", ["s3", "gs", "az", "http"])
def test_a_store_leads_no_keys_away(victim, recorder, redirect, scheme):
    """The victim uses the store; the store answers with a redirect to the attacker."""
    at = f"http://127.0.0.1:{redirect.server_port}"
    env = {
        "s3": {"AWS_ENDPOINT_URL": at, "AWS_ALLOW_HTTP": "true"},
        "gs": {"GOOGLE_BASE_URL": at, "GOOGLE_ALLOW_HTTP": "true"},
        "az": {"AZURE_STORAGE_ENDPOINT": at, "AZURE_ALLOW_HTTP": "true"},
        "http": {},
    }[scheme]
    url = f"{at}/x.zarr" if scheme == "http" else f"{scheme}://bucket/x.zarr"
    victim.run("info", url, **env).failed("leads to another one", recorder.url, "--allow")
    assert redirect.seen and recorder.seen() == ""
    word = "host" if scheme == "http" else "endpoint"
    victim.run("info", url, "--allow", f"{word}={recorder.url}", **env).failed("there is no Zarr")
    assert "GET " in recorder.seen() or "HEAD " in recorder.seen()


def test_what_the_victim_allows_is_used(victim, recorder):
    """Each of the refusals names a way, and the way works: then the request arrives, and as whom is as the file says."""
    storage = {"s3://": {"endpoint": recorder.url, "profile": "admin", "retries": 0}}
    path = victim.pipeline({"storage": storage}, inputs={"x": "s3://bucket/in.zarr"})
    victim.run("run", path, *MEM, "--allow", f"endpoint={recorder.url}").failed("--allow profile=admin")
    assert recorder.seen() == ""
    victim.run("run", path, *MEM, "--allow", "profile=admin").failed(f"--allow endpoint={recorder.url}")
    assert recorder.seen() == ""
    victim.run("run", path, *MEM, "--allow", f"endpoint={recorder.url}", "--allow", "profile=admin").failed("there is no Zarr")
    assert "ADMINTOKENEXAMPLE" in recorder.seen()
    recorder.log.write_text("")
    victim.run("run", path, *MEM, CHUNKWISE_ALLOW=f"profile=admin,endpoint={recorder.url}").failed("there is no Zarr")
    assert "ADMINTOKENEXAMPLE" in recorder.seen()
    recorder.log.write_text("")
    # What is in the environment anyway needs no permission.
    victim.run("run", path, *MEM, AWS_PROFILE="admin", AWS_ENDPOINT_URL=recorder.url).failed("there is no Zarr")
    assert "ADMINTOKENEXAMPLE" in recorder.seen()
    anonymous = victim.pipeline({"storage": {"s3://": {"endpoint": recorder.url, "anonymous": True}}}, inputs={"x": "s3://bucket/in.zarr"})
    recorder.log.write_text("")
    victim.run("run", anonymous, *MEM, "--allow", "anonymous", CHUNKWISE_ENDPOINTS=recorder.url).failed("there is no Zarr")
    assert "GET " in recorder.seen() and "uthorization" not in recorder.seen()
    victim.run("run", path, "--allow", "everything").failed("'everything'", "endpoint=URL", "anonymous")
    victim.run("run", path, CHUNKWISE_ALLOW="everything").failed("CHUNKWISE_ALLOW", "endpoint=URL")


def test_a_pipeline_of_a_web_server_is_read_beside_it(victim, recorder):
    """Whoever names a server on the command line reads from it; that does not make it a place for keys."""
    victim.pipeline()
    with WebServer(victim.here) as web:
        document = json.loads((victim.here / "p.json").read_text())
        document["outputs"] = {str(victim.here / "out.zarr"): "x * 2"}
        document["spec"]["work_dir"] = str(victim.here / "work")
        (victim.here / "p.json").write_text(json.dumps(document))
        for executor in ("threads", "processes"):
            victim.run("run", f"{web.url}/p.json", *MEM, "--overwrite", "--executor", executor).ok()
            assert np.array_equal(read_array(victim.here / "out.zarr"), X * 2)
        document["spec"]["storage"] = {"s3://": {"endpoint": web.url}}
        document["outputs"] = {"s3://bucket/x.zarr": "x"}
        (victim.here / "p.json").write_text(json.dumps(document))
        seen = len(web.requests)
        victim.run("run", f"{web.url}/p.json", *MEM).failed(f"--allow endpoint={web.url}")
        assert not [r for r in web.requests[seen:] if "bucket" in r[1]]


@pytest.mark.parametrize("executor", ["threads", "processes", "command"])
def test_nothing_but_outputs_changes(victim, executor):
    """An honest pipeline, as what the others are compared with: it leaves outputs and a work directory."""
    before = victim.files()
    args = ["--executor", executor, *(["--executor-option", "command={worker}"] if executor == "command" else [])]
    victim.run("run", victim.pipeline(), *MEM, *args).ok()
    assert np.array_equal(read_array(victim.here / "out.zarr"), X * 2)
    before["project/p.json"] = victim.files()["project/p.json"]
    assert victim.files() == before
