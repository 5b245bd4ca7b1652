"""Fixtures of the end-to-end tests. They run the binary that CHUNKWISE_BIN names; `tests/run` builds it and sets that."""

import os
import pathlib
import re
import time

import pytest
import xarray as xr
from hypothesis import HealthCheck, Phase, settings

import harness
from faults import MEM, files, prepare
from services import BatchApi, Dask, KubernetesApi, MiniStack, Ray, Slurm
from services.podman import IMAGE, Podman

# Fixtures and parameters of tests that need one.
ENGINES = {"slurm", "podman", "container", "kubernetes", "batch", "aws-batch", "lambda", "dask", "ray"}
# Those whose server is started once for all tests of a process.
ONCE = ("slurm", "ray", "dask")
ROOT = pathlib.Path(__file__).resolve().parent.parent

# Results are compared with xarray's own group-bys. flox, which the tests of the Python package need, has others: the dtype of a complex
# variance, for example.
xr.set_options(use_flox=False)

# One example is one run of the command over a batch of cases. A failing batch is taken apart by `check_batch`, so shrinking,
# which would run the command hundreds of times, is off. `HYPOTHESIS_PROFILE=deep` searches longer and at random.
common = {
    "deadline": None,
    "suppress_health_check": list(HealthCheck),
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),
    "print_blob": True,
}
settings.register_profile("default", max_examples=4, derandomize=True, database=None, **common)
settings.register_profile("deep", max_examples=100, **common)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


def pytest_configure(config):
    # Once for all processes: each of them must find the same tests.
    if os.environ.get("CHUNKWISE_SEED") == "fresh":
        os.environ["CHUNKWISE_SEED"] = str(time.time_ns() // 1_000_000)
    config.addinivalue_line("markers", "alone: needs an engine of which there is one on a machine, or its processors for itself")


def pytest_report_header():
    seed = os.environ.get("CHUNKWISE_SEED")
    return [f"CHUNKWISE_SEED={seed}"] if seed else []


def pytest_collection_modifyitems(items):
    """Tests of engines run after the others, since jobs must start in time."""
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        names = {*item.fixturenames} - {*params} | {p for p in params.values() if isinstance(p, str)}
        if ENGINES & names or "aws" in item.path.parts[-2] or "aws" in item.path.name:
            item.add_marker(pytest.mark.alone)


def shared(test):
    """What a test, named by its id, shares with others that must be in the same process: an engine of which there is one, or the buckets of its file."""
    path, _, name = test.partition("::")
    words = re.split(r"[^a-z]+", f"{path.rsplit('/', 1)[-1]} {name}")
    return next((engine for engine in ONCE if engine in words), path if "aws" in path or "container" in path else test)


def pytest_xdist_make_scheduler(config, log):
    """With `--dist=loadscope`, tests are distributed by what they share."""
    if config.getvalue("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class BySharing(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return shared(nodeid)

    return BySharing(config, log)


@pytest.fixture(scope="session", autouse=True)
def chunkwise_bin():
    """The path of the command under test."""
    try:
        return harness.binary()
    except RuntimeError as error:
        pytest.exit(str(error), returncode=2)


@pytest.fixture(scope="session")
def slurm():
    """A Slurm of one node. There is one for all tests: two of them would share their groups of processes."""
    with Slurm() as slurm:
        yield slurm


@pytest.fixture(scope="session")
def dask():
    """A Dask cluster of two workers."""
    with Dask(harness.binary()) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def ray():
    """A node of Ray with two processors."""
    with Ray(harness.binary()) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def s3():
    """A server for buckets of one's own."""
    with MiniStack() as server:
        yield server


@pytest.fixture
def kubernetes():
    with KubernetesApi({"chunkwise:test": [harness.binary()]}) as api:
        yield api


@pytest.fixture
def batch():
    """An AWS Batch."""
    with BatchApi({"chunkwise:test": [harness.binary()]}) as api:
        yield api


@pytest.fixture(scope="session")
def prepared_run(tmp_path_factory):
    """A folder with the plan of `prepare`, its input, and its outputs as one thread computes them."""
    folder = tmp_path_factory.mktemp("reference")
    harness.chunkwise("run", prepare(folder), *MEM, "--workers", "1").ok()
    return folder


@pytest.fixture(scope="session")
def reference(prepared_run):
    """The outputs of `prepare`."""
    return files(prepared_run / "out.zarr")


@pytest.fixture(scope="session")
def single(tmp_path_factory):
    """The output of `prepare` with a single one."""
    folder = tmp_path_factory.mktemp("single")
    harness.chunkwise("run", prepare(folder, single=True), *MEM, "--workers", "1").ok()
    return files(folder / "out.zarr")


@pytest.fixture(scope="session")
def large(tmp_path_factory):
    """A folder with an array of 320 MB, `in.zarr/u`."""
    folder = tmp_path_factory.mktemp("large")
    harness.write_large(folder, "u", 0)
    return folder


@pytest.fixture(scope="session")
def podman():
    """Podman with an image of the command, `IMAGE`."""
    static = os.environ.get("CHUNKWISE_STATIC", "")
    if not pathlib.Path(static).is_file():
        pytest.fail("CHUNKWISE_STATIC names no static build of the command: use tests/run, or infra/container/build")
    with Podman() as podman:
        done = podman.call(ROOT / "infra" / "container" / "build", "--binary", static, "--tag", IMAGE)
        assert done.returncode == 0, done.stderr
        assert re.search(r"^localhost/chunkwise:test  [0-9.]+ MB$", done.stdout, re.M), done.stdout
        yield podman


@pytest.fixture
def make_folder(tmp_path_factory):
    """A function that makes a new empty folder."""
    return lambda: tmp_path_factory.mktemp("run")


@pytest.fixture
def run(tmp_path_factory):
    """`run(pipeline, arrays, outputs=None, allowed_mem=..., env=...)` in a new folder; see `harness.run_in`."""

    def run(pipeline, arrays, outputs=None, **options):
        return harness.run_in(tmp_path_factory.mktemp("run"), pipeline, arrays, outputs, **options)

    return run


@pytest.fixture
def check(make_folder):
    """`check(cases)`: run all cases in one process and compare each with NumPy."""
    return lambda cases, **options: harness.check_batch(make_folder, cases, **options)


@pytest.fixture(scope="session")
def examples():
    return ROOT / "examples"
