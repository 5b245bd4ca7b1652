"""Object stores: real servers, and faults that a proxy makes on the way to them."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import obstore.store
import pytest
import xarray
import zarr
from faults import files
from harness import assert_close, binary, chunkwise, values, write_array
from services import Azurite, FaultProxy, GcsFake, RcloneS3, WebServer
from services.servers import s3_env, stored

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHAPE = (40, 120, 100)
# No credentials of whoever runs the tests, and none of the machine.
CLEAN = {k: "" for k in os.environ if k.startswith(("AWS_", "AZURE_", "GOOGLE_"))}


@pytest.fixture
def bucket(s3, request):
    """A new bucket; `bucket.env` is the environment of the command, `bucket.store` a store for zarr-python."""
    return Bucket(s3, "".join(c if c.isalnum() else "-" for c in request.node.name.lower())[:40] + f"-{time.time_ns() % 10**9}")


@pytest.fixture
def proxy(s3):
    with FaultProxy(s3.url) as proxy:
        yield proxy


class Bucket:
    def __init__(self, server, name):
        self.server, self.name = server, name
        server.create_bucket(name)
        self.options = {"access_key_id": "test", "secret_access_key": "test", "region": "us-east-1", "endpoint": server.url}
        self.obstore = obstore.store.S3Store(name, client_options={"allow_http": True}, **self.options)
        self.store = zarr.storage.ObjectStore(self.obstore)
        self.env = {**CLEAN, **server.env}

    def zarr_store(self, prefix):
        store = obstore.store.S3Store(self.name, prefix=prefix, client_options={"allow_http": True}, **self.options)
        return zarr.storage.ObjectStore(store)

    def url(self, path):
        return f"s3://{self.name}/{path}"

    def through(self, proxy):
        return {**self.env, "AWS_ENDPOINT_URL": proxy.url}

    def upload(self, folder, to=""):
        for path in sorted(p for p in pathlib.Path(folder).rglob("*") if p.is_file()):
            obstore.put(self.obstore, f"{to}{path.relative_to(folder).as_posix()}", path.read_bytes())

    def objects(self, prefix):
        return stored(self.obstore, prefix)


def inputs(folder):
    """The same values raw, compressed, and in shards, with a coordinate."""
    x = values(1, SHAPE, "float64", -1, 1)
    dims = ["time", "lat", "lon"]
    zarr.create_group(str(folder / "in.zarr"))
    write_array(folder / "in.zarr/raw", x, (2, 120, 100), dims)
    write_array(folder / "in.zarr/packed", x, (4, 60, 100), dims, compressors="auto")
    write_array(folder / "in.zarr/sharded", x, (1, 60, 50), dims, shards=(8, 120, 100), compressors="auto")
    write_array(folder / "in.zarr/time", np.arange(SHAPE[0], dtype="int64"), None, ["time"])
    return x


ARRAYS = {"y": "raw[1:39, 3:, :90] * 2 + packed[1:39, 3:, :90] - sharded[1:39, 3:, :90]", "m": 'mean(sharded, dim="time") + raw[0]'}


def pipeline(folder, source, target, work, name="p.json", spec=None, arrays=None):
    document = {
        "inputs": {k: f"{source}/{k}" for k in ("raw", "packed", "sharded")},
        "arrays": arrays or ARRAYS,
        "outputs": {
            f"{target}/y": "y",
            # Of other lengths than those of y, so under other names.
            f"{target}/m": {"array": "m", "dims": ["row", "column"]},
            f"{target}/t": {"array": "y", "chunks": {"time": -1, "lat": 20, "lon": 20}},
            f"{target}/s": {"array": "y", "chunks": {"time": 2, "lat": 30, "lon": 30}, "shards": {"time": 10, "lat": 60, "lon": 90}},
        },
        "spec": {"work_dir": work, **(spec or {})},
    }
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def run(path, env, *args, **options):
    return chunkwise("run", path, "--allowed-mem", "300MB", "--json", *args, env=env, **options)


@pytest.fixture
def prepared(tmp_path, bucket):
    """Inputs here and in the bucket, and what a run over files makes of them."""
    x = inputs(tmp_path)
    bucket.upload(tmp_path / "in.zarr", "in.zarr/")
    local = pipeline(tmp_path, tmp_path / "in.zarr", tmp_path / "out.zarr", str(tmp_path / "work"), "local.json")
    run(local, {}).ok()
    bucket.local, bucket.x = files(tmp_path / "out.zarr"), x
    bucket.path = pipeline(tmp_path, bucket.url("in.zarr"), bucket.url("out.zarr"), bucket.url("work"))
    return bucket


def data_of(objects):
    """Chunks and checksums; metadata names no URL either, but lists groups in the order in which they are found."""
    return {k: v for k, v in objects.items() if not k.endswith("zarr.json")}


def test_the_same_bytes_as_from_files(prepared):
    run(prepared.path, prepared.env).ok()
    found = prepared.objects("out.zarr")
    assert data_of(found) == data_of(prepared.local)
    assert {k: json.loads(v) for k, v in found.items() if k.endswith("zarr.json")} == {
        k: json.loads(v) for k, v in prepared.local.items() if k.endswith("zarr.json")
    }


def test_others_open_what_was_written(prepared):
    run(prepared.path, prepared.env).ok()
    part = prepared.x[1:39, 3:, :90]
    assert_close(zarr.open_array(prepared.store, path="out.zarr/y", mode="r")[...], part * 2, scale=8)
    opened = xarray.open_zarr(prepared.zarr_store("out.zarr"), consolidated=True)
    assert_close(opened["t"].values, part * 2, scale=8)
    assert_close(opened["s"].values, part * 2, scale=8)
    assert list(opened["time"].values) == list(range(1, 39))


def test_plan_and_pipeline_by_url(prepared, tmp_path):
    env = prepared.env
    relative = pipeline(tmp_path, "in.zarr", "out.zarr", prepared.url("work"), "relative.json")
    obstore.put(prepared.obstore, "relative.json", relative.read_bytes())
    run(prepared.url("relative.json"), env).ok()
    assert data_of(prepared.objects("out.zarr")) == data_of(prepared.local)
    plan = chunkwise("plan", prepared.path, "--allowed-mem", "300MB", "--format", "json", env=env).ok().stdout
    obstore.put(prepared.obstore, "plan.json", plan.encode())
    stages = json.loads(plan)["stages"]
    assert all(a["in_flight"] > 0 for a in json.loads(plan)["arrays"].values())
    report = chunkwise("run-task", prepared.url("plan.json"), len(stages) - 1, 0, env=env).ok().report
    assert report["requests"]["gets"] > 0 and report["requests"]["puts"] == len(report["written"])
    chunkwise("run-task", prepared.url("nothing.json"), 0, 0, env=env).failed("there is no such object")


def test_verify_info_clean(prepared):
    env = prepared.env
    done = run(prepared.path, env, "--keep").ok()
    assert "chunks are there and whole" in chunkwise("verify", prepared.url("out.zarr"), env=env).ok().stdout
    info = json.loads(chunkwise("info", prepared.url("out.zarr"), "--json", env=env).ok().stdout)
    assert {n["path"] for n in info} == {"/", "y", "m", "t", "s", "time"}
    assert all(n["stored_objects"] == n["objects"] for n in info if n["kind"] == "array")
    run_id = done.report["id"]
    assert run_id in chunkwise("clean", prepared.url("work"), env=env).ok().stdout
    chunkwise("verify", prepared.url(f"work/{run_id}"), env=env).ok()
    key = next(k for k in prepared.objects("out.zarr") if k.startswith("y/c/"))
    obstore.put(prepared.obstore, f"out.zarr/{key}", b"damaged")
    chunkwise("verify", prepared.url("out.zarr"), env=env).failed(key.removeprefix("y/"))
    chunkwise("clean", prepared.url("work"), "--all", env=env).ok()
    assert not prepared.objects("work")


def test_kill_and_resume(prepared, proxy):
    proxy.latency = 0.08
    env = prepared.through(proxy)
    with subprocess.Popen(
        [binary(), "run", str(prepared.path), "--allowed-mem", "300MB", "--workers", "1"],
        env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        # Reports go to the store twice a second; what none of them names is made again.
        while proxy.counts("/reports-")["PUT"] < 2 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the run ended before it could be killed"
    run(prepared.path, env).failed("--resume")
    before = len([s for s in proxy.seen if s.method == "PUT" and "/c/" in s.path])
    run(prepared.path, env, "--resume").ok()
    again = len([s for s in proxy.seen if s.method == "PUT" and "/c/" in s.path]) - before
    assert data_of(prepared.objects("out.zarr")) == data_of(prepared.local)
    total = len([k for k in prepared.local if "/c/" in k])
    assert again < total, f"all of the {total} chunks were made again"


def test_many_requests_are_under_way(prepared, proxy):
    proxy.latency = 0.05
    started = time.monotonic()
    run(prepared.path, prepared.through(proxy), "--workers", "1").ok()
    seconds = time.monotonic() - started
    requests = len(proxy.seen)
    assert proxy.most_active >= 8
    assert seconds < requests * 0.05 / 2, f"{requests} requests took {seconds:.1f} s, as if one after another"
    assert data_of(prepared.objects("out.zarr")) == data_of(prepared.local)


def test_nothing_waits_for_one_answer(bucket, proxy, tmp_path):
    """A reduction asks for many chunks before the first is there, and a second task begins while the first one waits."""
    x = values(3, (24, 200, 400), "float64")
    write_array(tmp_path / "in.zarr", x, (1, 100, 400), ["time", "lat", "lon"])
    bucket.upload(tmp_path / "in.zarr", "in.zarr/")
    proxy.latency = 0.2
    path = tmp_path / "p.json"
    source, out = bucket.url("in.zarr"), bucket.url("out.zarr")
    outputs = {out: {"array": "mean(x, axis=0)", "chunks": {"lat": 100, "lon": 400}}}
    path.write_text(json.dumps({"inputs": {"x": source}, "outputs": outputs, "spec": {"work_dir": str(tmp_path / "work")}}))
    run(path, bucket.through(proxy), "--workers", "1").ok()
    asked = sorted(s.start for s in proxy.seen if "/in.zarr/c/" in s.path)
    stored = [s for s in proxy.seen if s.method == "PUT" and "/out.zarr/c/" in s.path]
    assert (len(asked), len(stored)) == (48, 2)
    assert asked[-1] - asked[0] < 0.2, "a chunk was asked for when another was there"
    mean = x.astype("longdouble").mean(axis=0).astype("float64")
    assert_close(zarr.open_array(bucket.zarr_store("out.zarr"), mode="r")[:], mean, scale=1.0)


def test_no_needless_requests(prepared, proxy):
    """Chunks are read without asking for their size, and the counts of the report are those of the wire."""
    report = run(prepared.path, prepared.through(proxy)).ok().report
    seen = list(proxy.seen)
    assert not [s for s in seen if s.method == "HEAD"]
    gets = [s for s in seen if s.kind == "GET" and "/in.zarr/" in s.path and "/c/" in s.path and "/time/" not in s.path]
    puts = [s for s in seen if s.kind == "PUT" and "/out.zarr/" in s.path and "/c/" in s.path and "/time/" not in s.path]
    assert sum(r["gets"] for r in report["requests"]) == len(gets)
    assert sum(r["puts"] for r in report["requests"]) == len(puts)


WORKLOADS = ["quadratic_means", "vorticity", "tem", "climatology", "rechunk", "ata"]


@pytest.mark.parametrize("name", WORKLOADS)
def test_projected_requests(bucket, tmp_path, name):
    """What the plan says of requests is what tasks make, task by task as stateless workers run them."""
    folder = ROOT / "examples" / "workloads"
    generate = [sys.executable, "-W", "ignore", str(folder / "generate.py"), name, "--gigabytes", "0.04", "--directory", str(tmp_path)]
    subprocess.run(generate, check=True, capture_output=True)
    bucket.upload(tmp_path / f"{name}.zarr", f"data/{name}.zarr/")
    text = (folder / f"{name}.yaml").read_text().replace("data/", bucket.url("data/")).replace("../out/", bucket.url("out/"))
    (tmp_path / "p.yaml").write_text(text)
    work = bucket.url("work")
    args = ["--allowed-mem", "150MB", "--work-dir", work, "--format", "json"]
    plan = chunkwise("plan", tmp_path / "p.yaml", *args, env=bucket.env).ok().stdout
    (tmp_path / "plan.json").write_text(plan)
    for i, stage in enumerate(json.loads(plan)["stages"]):
        counts = [len(a["regular"]) and -(-a["regular"]["len"] // a["regular"]["size"]) if "regular" in a else len(a["irregular"]) for a in stage["outputs"][0]["tasks"]]
        reports = [
            chunkwise("run-task", tmp_path / "plan.json", i, t, env=bucket.env).ok().report["requests"] for t in range(int(np.prod(counts)))
        ]
        gets, puts = sum(r["gets"] for r in reports), sum(r["puts"] for r in reports)
        heads = sum(r["heads"] for r in reports)
        projected = stage["cost"]
        assert heads == 0 and puts == projected["puts"], stage["name"]
        assert abs(gets - projected["gets"]) <= max(2, 0.05 * projected["gets"]), f"{stage['name']}: {gets}, projected {projected['gets']}"


# Faults


def test_slow_down_is_waited_for(prepared, proxy):
    env = prepared.through(proxy)
    # The one chunk of a coordinate is asked for before the others, and not more often than it may be.
    for method, path in (("GET", "/raw/c/"), ("PUT", "/c/")):
        proxy.rule(method=method, path=path, status=503, times=10)
        proxy.rule(method=method, path=path, status=429, times=5)
    proxy.rule(method="GET", path="/in.zarr/time/c/", status=503, times=3)
    run(prepared.path, env).ok()
    assert data_of(prepared.objects("out.zarr")) == data_of(prepared.local)
    assert sum(r.hits for r in proxy.rules) == 33


def test_a_coordinate_that_cannot_be_read_now_is_not_left_out(prepared, proxy, tmp_path):
    proxy.rule(path="/in.zarr/time/c/", status=503)
    options = {"storage": {"s3://": {"retries": 1}}}
    path = pipeline(tmp_path, prepared.url("in.zarr"), prepared.url("out.zarr"), prepared.url("work"), "few.json", options)
    run(path, prepared.through(proxy)).failed("in.zarr/time", "slow down")
    assert not prepared.objects("out.zarr")


def test_slow_down_for_ever_is_an_error(prepared, proxy, tmp_path):
    proxy.rule(path="/raw/c/", status=503)
    options = {"storage": {"s3://": {"retries": 1}}}
    path = pipeline(tmp_path, prepared.url("in.zarr"), prepared.url("out.zarr"), prepared.url("work"), "few.json", options)
    run(path, prepared.through(proxy)).failed("slow down", "connections", "retries", "SlowDown")


def test_bodies_that_break_off(prepared, proxy):
    for array in ("raw", "packed", "sharded"):
        proxy.rule(method="GET", path=f"/{array}/c/", drop_after=1000, times=4)
    run(prepared.path, prepared.through(proxy)).ok()
    assert all(r.hits == 4 for r in proxy.rules)
    assert data_of(prepared.objects("out.zarr")) == data_of(prepared.local)


def test_bodies_that_break_off_without_etags(tmp_path):
    """Where a server names no version of an object, all of it is read again."""
    x = inputs(tmp_path)
    with WebServer(tmp_path, etags=False) as web, FaultProxy(web.url) as proxy:
        proxy.rule(path="/packed/c/", drop_after=1000, times=3)
        proxy.rule(path="/raw/c/", drop_after=1000, times=3)
        path = pipeline(tmp_path, f"{proxy.url}/in.zarr", tmp_path / "out.zarr", str(tmp_path / "work"))
        run(path, {**CLEAN, "CHUNKWISE_ALLOW": f"host={proxy.url}"}).ok()
        assert all(r.hits == 3 for r in proxy.rules)
    assert_close(zarr.open_array(str(tmp_path / "out.zarr/y"))[...], x[1:39, 3:, :90] * 2, scale=8)


@pytest.mark.parametrize(("method", "path", "action"), [("GET", "/raw/c/", "read"), ("PUT", "/out.zarr/y/c/", "write")])
def test_denied(prepared, proxy, method, path, action):
    proxy.rule(method=method, path=path, status=403)
    started = time.monotonic()
    run(prepared.path, prepared.through(proxy)).failed(f"no permission to {action}", "AccessDenied", "s3://")
    assert time.monotonic() - started < 20, "it must fail at once"


def test_a_list_that_is_denied(prepared, proxy):
    proxy.rule(method="GET", path=f"^/{prepared.name}/?$", status=403)
    chunkwise("info", prepared.url("in.zarr"), env=prepared.through(proxy)).failed("no permission to list", "s3://")


def test_no_such_bucket(s3, tmp_path):
    env = {**CLEAN, **s3.env}
    chunkwise("info", "s3://no-such-bucket/x.zarr", env=env).failed("there is no bucket 'no-such-bucket'")
    inputs(tmp_path)
    path = pipeline(tmp_path, tmp_path / "in.zarr", "s3://no-such-bucket/out.zarr", str(tmp_path / "work"))
    run(path, env).failed("there is no bucket 'no-such-bucket'")


def test_no_such_array(bucket):
    chunkwise("info", bucket.url("none.zarr"), env=bucket.env).failed("there is no Zarr array", bucket.url("none.zarr"))


def test_nothing_listens(tmp_path):
    env = {**CLEAN, **s3_env("http://127.0.0.1:9")}
    started = time.monotonic()
    chunkwise("info", "s3://bucket/x", env=env).failed("nothing answers at http://127.0.0.1:9", "refused")
    assert time.monotonic() - started < 10


def test_no_credentials(s3):
    env = {**CLEAN, **s3.env, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    started = time.monotonic()
    chunkwise("info", "s3://bucket/x", env=env).failed("no AWS credentials", "AWS_ACCESS_KEY_ID", "anonymous")
    assert time.monotonic() - started < 10


def test_wrong_secret(tmp_path):
    inputs(tmp_path / "data")
    with RcloneS3(tmp_path) as server:
        right = {**CLEAN, **server.env}
        assert "raw" in chunkwise("info", "s3://data/in.zarr", env=right).ok().stdout
        wrong = {**right, "AWS_SECRET_ACCESS_KEY": "not-this"}
        chunkwise("info", "s3://data/in.zarr", env=wrong).failed(("credentials", "permission"), ("AWS_SECRET_ACCESS_KEY", "Signature"))


def test_profiles(tmp_path):
    inputs(tmp_path / "data")
    with RcloneS3(tmp_path) as server:
        (tmp_path / "config").write_text(f"[profile lab]\nregion = us-east-1\nendpoint_url = {server.url}\n[profile sso]\nsso_session = x\n")
        (tmp_path / "credentials").write_text(f"[lab]\naws_access_key_id = {server.key}\naws_secret_access_key = {server.secret}\n")
        files = {"AWS_CONFIG_FILE": str(tmp_path / "config"), "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
        env = {**CLEAN, **files}
        assert "raw" in chunkwise("info", "s3://data/in.zarr", env={**env, "AWS_PROFILE": "lab"}).ok().stdout
        chunkwise("info", "s3://data/in.zarr", env={**env, "AWS_PROFILE": "sso"}).failed("sso_session", "export-credentials")
        chunkwise("info", "s3://data/in.zarr", env={**env, "AWS_PROFILE": "none"}).failed("no AWS profile 'none'")


# Options


def test_options_of_the_spec(prepared, tmp_path, s3):
    """Everything but the keys from the pipeline; the plan carries it to workers that know nothing else."""
    env = {**CLEAN, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
    storage = {f"s3://{prepared.name}": {"endpoint": s3.url, "region": "us-east-1", "path_style": True, "allow_http": True, "timeout": 20,
                                        "connect_timeout": 2.5, "retries": 3, "connections": 10}}  # fmt: skip
    path = pipeline(tmp_path, prepared.url("in.zarr"), prepared.url("out.zarr"), prepared.url("work"), "spec.json", {"storage": storage})
    run(path, env).failed(f"CHUNKWISE_ENDPOINTS={s3.url}")
    run(path, env, "--allow", f"endpoint={s3.url}").ok()
    assert data_of(prepared.objects("out.zarr")) == data_of(prepared.local)
    # Workers are allowed what their driver is; they find the plan here.
    here = pipeline(tmp_path, prepared.url("in.zarr"), prepared.url("out.zarr"), str(tmp_path / "work"), "here.json", {"storage": storage})
    for executor in (["processes"], ["command", "--executor-option", "command=env -u CHUNKWISE_ENDPOINTS {worker}"]):
        run(here, {**env, "CHUNKWISE_ENDPOINTS": s3.url}, "--executor", *executor, "--overwrite").ok()
        assert data_of(prepared.objects("out.zarr")) == data_of(prepared.local)
    allowed = {**env, "CHUNKWISE_ENDPOINTS": s3.url}
    plan = chunkwise("plan", path, "--allowed-mem", "300MB", "--format", "json", env=allowed).ok().stdout
    assert json.loads(plan)["spec"]["storage"] == storage
    (tmp_path / "plan.json").write_text(plan)
    chunkwise("run-task", tmp_path / "plan.json", 0, 0, env=allowed).ok()
    for other in ({}, {"CHUNKWISE_ENDPOINTS": ""}, {"CHUNKWISE_ENDPOINTS": "https://storage.example.org"}):
        chunkwise("run-task", tmp_path / "plan.json", 0, 0, env={**env, **other}).failed("CHUNKWISE_ENDPOINTS", s3.url)


@pytest.mark.parametrize(
    ("storage", "words"),
    [
        ({"s3://b": {"secret_access_key": "x"}}, ["looks like a secret", "environment"]),
        ({"s3://b": {"aws_session_token": "x"}}, ["looks like a secret"]),
        ({"s3://b": {"endpont": "http://h"}}, ["unknown key 'endpont'", "did you mean 'endpoint'"]),
        ({"s3://b": {"endpoint": "http://user:pw@h"}}, ["without user"]),
        ({"s3://b": {"endpoint": "http://store.example.org"}}, ["allow_http"]),
        ({"gs://b": {"region": "x"}}, ["'region' is an option of s3://"]),
        ({"s3://b": {"timeout": "long"}}, ["'timeout' must be a number"]),
        ({"b": {}}, ["must begin with one of s3://"]),
    ],
)
def test_options_that_are_refused(tmp_path, storage, words):
    inputs(tmp_path)
    path = pipeline(tmp_path, tmp_path / "in.zarr", "s3://b/out.zarr", str(tmp_path / "work"), spec={"storage": storage})
    env = {**CLEAN, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    run(path, env, "--allow", "endpoint=http://store.example.org").failed(*words)


def test_plans_hold_no_secrets(tmp_path):
    inputs(tmp_path)
    path = pipeline(tmp_path, tmp_path / "in.zarr", tmp_path / "out.zarr", str(tmp_path / "work"))
    plan = json.loads(chunkwise("plan", path, "--allowed-mem", "300MB", "--format", "json").ok().stdout)
    plan["spec"]["storage"] = {"s3://b": {"secret_access_key": "x"}}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    chunkwise("run", tmp_path / "plan.json").failed("looks like a secret", "environment")


def test_a_large_chunk_is_written_in_parts(bucket, proxy, tmp_path):
    """Parts of 16 MiB above 64 MiB; one that is refused at first is repeated."""
    x = values(3, (70, 512, 512), "float32")
    write_array(tmp_path / "x", x, (10, 512, 512))
    proxy.rule(method="PUT", path="/y/c/", status=503, times=2)
    document = {"inputs": {"x": str(tmp_path / "x")}, "outputs": {bucket.url("y"): {"array": "x * 2", "chunks": [70, 512, 512], "codec": "none"}},
                "spec": {"work_dir": str(tmp_path / "work")}}  # fmt: skip
    (tmp_path / "p.json").write_text(json.dumps(document))
    report = chunkwise("run", tmp_path / "p.json", "--allowed-mem", "800MB", "--json", env=bucket.through(proxy)).ok().report
    parts = [s for s in proxy.seen if s.method == "PUT" and "partNumber" in s.query and s.status < 400]
    assert len(parts) == 5 and report["requests"][0]["puts"] == 7
    assert np.array_equal(zarr.open_array(bucket.store, path="y", mode="r")[...], x * 2)


# Other stores


def test_web_server(tmp_path):
    x = inputs(tmp_path)
    zarr.consolidate_metadata(str(tmp_path / "in.zarr"), zarr_format=3)
    with WebServer(tmp_path) as web:
        path = pipeline(tmp_path, f"{web.url}/in.zarr", tmp_path / "out.zarr", str(tmp_path / "work"))
        run(path, CLEAN, "--allow", f"host={web.url}").ok()
        assert_close(zarr.open_array(str(tmp_path / "out.zarr/t"))[...], x[1:39, 3:, :90] * 2, scale=8)
        info = chunkwise("info", f"{web.url}/in.zarr", env=CLEAN).ok().stdout
        assert "sharded" in info and "not known" in info
        chunkwise("verify", f"{web.url}/in.zarr", env=CLEAN).ok()
        out = pipeline(tmp_path, f"{web.url}/in.zarr", f"{web.url}/out.zarr", str(tmp_path / "work"), "bad.json")
        run(out, CLEAN, "--allow", f"host={web.url}").failed("can only be read")
        chunkwise("info", f"{web.url}/none.zarr", env=CLEAN).failed("there is no Zarr array")
    with WebServer(tmp_path, ranges=False) as web:
        path = pipeline(tmp_path, f"{web.url}/in.zarr", tmp_path / "out2.zarr", str(tmp_path / "work"), "ranges.json")
        run(path, CLEAN, "--allow", f"host={web.url}").failed("does not serve ranges")


def test_azure(tmp_path):
    inputs(tmp_path)
    local = pipeline(tmp_path, tmp_path / "in.zarr", tmp_path / "out.zarr", str(tmp_path / "work"), "local.json")
    run(local, {}).ok()
    with Azurite() as server:
        server.create_container("data")
        env = {**CLEAN, **server.env}
        first = pipeline(tmp_path, tmp_path / "in.zarr", "az://data/out.zarr", "az://data/work")
        run(first, env).ok()
        store = obstore.store.AzureStore(
            "data", account_name=server.account, account_key=server.key,
            endpoint=f"{server.url}/{server.account}", client_options={"allow_http": True},
        )  # fmt: skip
        found = {}
        for page in obstore.list(store, "out.zarr/"):
            for meta in page:
                found[meta["path"].removeprefix("out.zarr/")] = bytes(obstore.get(store, meta["path"]).bytes())
        assert data_of(found) == data_of(files(tmp_path / "out.zarr"))
        # And back: every kind of read.
        document = {"inputs": {k: f"az://data/out.zarr/{k}" for k in "yts"}, "arrays": {"d": "y - t + s"},
                    "outputs": {str(tmp_path / "d.zarr"): "d"}, "spec": {"work_dir": "az://data/work"}}  # fmt: skip
        (tmp_path / "back.json").write_text(json.dumps(document))
        run(tmp_path / "back.json", env).ok()
        y = zarr.open_array(str(tmp_path / "out.zarr/y"))[...]
        assert np.array_equal(zarr.open_array(str(tmp_path / "d.zarr"))[...], y)
        chunkwise("verify", "az://data/out.zarr", env=env).ok()
        chunkwise("info", "az://none/x", env=env).failed("there is no bucket 'none'")
        chunkwise("info", "az://data/x", env=CLEAN).failed("AZURE_STORAGE_ACCOUNT_NAME")


def test_google_fake(tmp_path):
    """Against a fake of the API: URLs, options, ranges, pages of listings."""
    inputs(tmp_path)
    local = pipeline(tmp_path, tmp_path / "in.zarr", tmp_path / "out.zarr", str(tmp_path / "work"), "local.json")
    run(local, {}).ok()
    with GcsFake("data") as fake:
        env = {**CLEAN, **fake.env}
        for key, data in files(tmp_path / "in.zarr").items():
            fake.buckets["data"][f"in.zarr/{key}"] = data
        run(pipeline(tmp_path, "gs://data/in.zarr", "gs://data/out.zarr", "gs://data/work"), env).ok()
        found = {k.removeprefix("out.zarr/"): v for k, v in fake.buckets["data"].items() if k.startswith("out.zarr/")}
        assert data_of(found) == data_of(files(tmp_path / "out.zarr"))
        chunkwise("verify", "gs://data/out.zarr", env=env).ok()
        chunkwise("info", "gs://none/x", env=env).failed("there is no bucket 'none'")
    chunkwise("info", "gs://data/x", env={**CLEAN, "HOME": str(tmp_path)}).failed("no Google credentials")
