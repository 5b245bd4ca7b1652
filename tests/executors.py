"""What the tests of all executors share: how a run is asked for on each of them, and servers that can fail. Tests import the fixtures that they use."""

import sys
import uuid

import pytest
from faults import FIRST, MEM, Remote, files
from harness import binary
from services import FaultProxy
from services.clusters import PACKAGE
from services.servers import s3_env, upload

COMMAND = ["--executor", "command", "--executor-option", "poll=0.05", "--executor-option", "parallel=2"]
ENGINE = [x for o in ("poll=0.2", "tasks=8", "env=CHUNKWISE_TEST_MARK={mark}") for x in ("--executor-option", o)]
CLUSTER = [x for o in ("poll=0.1", "tasks=8", f"python={sys.executable}") for x in ("--executor-option", o)]
EXECUTORS = {
    "threads": ["--workers", "2"],
    "processes": ["--executor", "processes", "--executor-option", "processes=2"],
    "command": [*COMMAND, "--executor-option", "tasks=8", "--executor-option", "command={worker}"],
    "slurm": ["--executor", "slurm", "--executor-option", "poll=0.3", "--executor-option", "tasks=4", "--executor-option", "mem=400MB"],
    "kubernetes": ["--executor", "kubernetes", *ENGINE, "--executor-option", "image=chunkwise:test", "--executor-option", "env_secrets=storage"],
    "aws-batch": ["--executor", "aws-batch", *ENGINE, "--executor-option", "queue=queue", "--executor-option", "definition=worker"],
    "dask": ["--executor", "dask", *CLUSTER],
    "ray": ["--executor", "ray", *CLUSTER],
}
# Where workers do not have the environment of the driver.
APIS = ["kubernetes", "aws-batch"]
# Where workers are started by processes that were there before.
CLUSTERS = ["dask", "ray"]
ENGINES = ["slurm", *APIS, *CLUSTERS]
LOCAL = ["threads", "processes", "command"]
ALL = [*LOCAL, *ENGINES]


def engine(request, executor):
    """The server of an executor that is an API."""
    return request.getfixturevalue({"kubernetes": "kubernetes", "aws-batch": "batch"}[executor])


def led_away(recorder):
    """Options of storage by which a file would lead keys to the server of somebody else, or choose other keys; each with what is said of it."""
    return [
        ({"endpoint": recorder.url}, f"--allow endpoint={recorder.url}"),
        ({"region": f"x@{recorder.host}/", "allow_http": True}, "no region"),
        ({"profile": "admin"}, "--allow profile=admin"),
        ({"anonymous": True}, "--allow anonymous"),
    ]


def server_of(request):
    """How workers reach the server of a test, if it has one."""
    return next((request.getfixturevalue(name).env for name in ("remote", "passing") if name in request.fixturenames), {})


@pytest.fixture
def kubernetes(kubernetes, request):
    """A cluster whose pods have the secret `storage`: how the servers of a test are reached."""
    kubernetes.secrets["storage"] = server_of(request)
    return kubernetes


@pytest.fixture
def batch(batch, request):
    """A queue whose jobs have in their definition how the servers of a test are reached."""
    batch.definition["environment"] = server_of(request)
    return batch


@pytest.fixture
def on(request):
    """`on(executor)`: the arguments and the environment of a run on it; an engine is started when it is needed first."""

    def choose(executor):
        args = [*MEM, *EXECUTORS[executor]]
        if executor == "slurm":
            return args, request.getfixturevalue("slurm").env
        if executor == "kubernetes":
            return [*args, "--executor-option", f"endpoint={request.getfixturevalue('kubernetes').url}"], {}
        if executor == "aws-batch":
            return args, {**s3_env("http://127.0.0.1:9"), "AWS_ENDPOINT_URL_BATCH": request.getfixturevalue("batch").url}
        if executor in CLUSTERS:
            # Nodes have an environment of their own.
            env = ",".join(f"{k}={v}" for k, v in {"CHUNKWISE_TEST_MARK": "{mark}", **server_of(request)}.items())
            address = request.getfixturevalue(executor).address
            return [*args, "--executor-option", f"address={address}", "--executor-option", f"env={env}"], PACKAGE
        return args, {}

    return choose


@pytest.fixture
def through(on, request, tmp_path):
    """`through(executor, script)`: as `on`, for workers that a Python script stands in for. It finds its arguments in `args`."""

    def choose(executor, script):
        args, env = on(executor)
        program = tmp_path / "worker.py"
        program.write_text(f"#!{sys.executable}\nimport os, pathlib, subprocess, sys\nargs, binary, folder = sys.argv[1:], {binary()!r}, {str(tmp_path)!r}\n{FIRST}{script}")
        program.chmod(0o755)
        if executor in APIS:
            engine(request, executor).images["chunkwise:test"] = [str(program)]
        else:
            args = [*args, "--executor-option", f"program={program}"]
        return args, env

    return choose


@pytest.fixture(scope="session")
def bucket(s3, prepared_run):
    upload(s3.bucket("executors"), prepared_run / "in.zarr", "in.zarr")
    return "executors"


@pytest.fixture
def remote(s3, bucket):
    with FaultProxy(s3.url) as proxy:
        yield Remote(s3, bucket, proxy)


@pytest.fixture
def passing(s3, prepared_run):
    """As `remote`, in a bucket of its own, whose objects a test may delete or replace; with a store of it."""
    name = f"passing-{uuid.uuid4().hex[:12]}"
    store = s3.bucket(name)
    upload(store, prepared_run / "in.zarr", "in.zarr")
    with FaultProxy(s3.url) as proxy:
        found = Remote(s3, name, proxy)
        found.store = store
        yield found


def nothing_published(folder):
    published = [p for p in files(folder / "out.zarr") if p.endswith("zarr.json") and p != "zarr.json"] if (folder / "out.zarr").exists() else []
    assert not published, f"half of the outputs are published: {published}"


def clean(folder, reference):
    """The outputs are those of the reference, and no intermediate is left."""
    assert files(folder / "out.zarr") == reference
    left = [p for p in files(folder / "work") if "/c/" in p or p.endswith(".lock") or "#" in p]
    assert not left, f"left in the work directory: {left}"
