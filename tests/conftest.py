"""Fixtures of the end-to-end tests. They run the binary that CHUNKWISE_BIN names; `tests/run` builds it and sets that."""

import os
import pathlib

import pytest
from hypothesis import HealthCheck, Phase, settings

import harness
from services import Slurm

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
    return pathlib.Path(__file__).resolve().parent.parent / "examples"
