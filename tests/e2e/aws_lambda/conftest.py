"""The emulator, its function and a bucket: one of each for a file of tests."""

import time

import pytest
from on_lambda import BUCKET, Case
from services import FaultProxy, MiniStack
from services.function import Function, stripped
from services.servers import upload


@pytest.fixture(scope="module")
def aws():
    with MiniStack() as server:
        yield server


@pytest.fixture(scope="module")
def store(aws, prepared_run):
    """A bucket with the input of `prepare`."""
    store = aws.bucket(BUCKET)
    upload(store, prepared_run / "in.zarr", "in.zarr")
    return store


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return stripped(tmp_path_factory.mktemp("function"))


@pytest.fixture(scope="module")
def function(aws, program):
    with Function(aws, "chunkwise", program, [f"s3://{BUCKET}"]) as f:
        yield f


@pytest.fixture
def proxy(aws):
    with FaultProxy(aws.url) as proxy:
        yield proxy


@pytest.fixture
def case(aws, store, tmp_path, request):
    def make(**options):
        return Case(aws, store, tmp_path, f"{request.node.name[8:40]}-{time.time_ns() % 10**9}".replace("[", "-").replace("]", ""), **options)

    return make
