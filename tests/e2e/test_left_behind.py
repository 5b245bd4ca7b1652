"""What workers that are killed leave: no unfinished file stays in a finished output, no upload in a bucket, and no output without checksums."""

import os
import re
import signal
import subprocess
import time

import boto3
import numpy as np
import pytest
from faults import MARK, processes
from harness import binary, chunkwise, read_array, values, write_array, write_pipeline

# A chunk takes some tens of milliseconds to write.
SIDE = 3000


def unfinished(folder):
    return [str(p.relative_to(folder)) for p in folder.rglob("*") if "#" in p.name]


def started(path, *args, **env):
    arguments = [binary(), "run", str(path), "--allowed-mem", "900MB", *args]
    return subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **env})


@pytest.fixture
def large(tmp_path):
    """Chunks of 72 MB, as they are."""
    x = values(1, (4, SIDE, SIDE), "float64", -1, 1)
    write_array(tmp_path / "in.zarr", x, (1, SIDE, SIDE))

    def pipeline(target):
        return write_pipeline(tmp_path, {"x": "in.zarr"}, {"y": "x * 2"}, {target: {"array": "y", "codec": "none"}})

    return x, pipeline


def kill_in_a_write(folder, process, pids):
    """Kill a process when there is a file that it has not finished."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, "the run ended before a worker could be killed in a write"
        if not [name for name in unfinished(folder) if ".chunkwise-" not in name]:
            continue
        alive = pids()
        for pid in alive:
            os.kill(pid, signal.SIGSTOP)
        if left := [name for name in unfinished(folder) if ".chunkwise-" not in name]:
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
            return left
        for pid in alive:
            os.kill(pid, signal.SIGCONT)
    raise AssertionError("no unfinished file was seen")


def test_a_killed_driver_that_nobody_waits_for(tmp_path, large):
    """Its process is still listed, as in a container without an init."""
    x, pipeline = large
    path = pipeline("out.zarr")
    process = started(path, "--workers", "1")
    left = kill_in_a_write(tmp_path / "out.zarr", process, lambda: [process.pid])
    # Not waited for until the end of the test.
    chunkwise("run", path, "--allowed-mem", "900MB", "--resume").ok()
    assert os.path.exists(f"/proc/{process.pid}")
    process.wait()
    assert unfinished(tmp_path / "out.zarr") == [], f"of {left}"
    assert np.array_equal(read_array(tmp_path / "out.zarr"), x * 2)


def test_a_killed_worker(tmp_path, large):
    x, pipeline = large
    mark = f"left-{time.time_ns()}"
    process = started(pipeline("out.zarr"), "--executor", "processes", "--executor-option", "processes=1", "--retries", "5", **{MARK: mark})

    def workers():
        return [pid for pid, line in processes(mark).items() if " worker " in line]

    kill_in_a_write(tmp_path / "out.zarr", process, workers)
    assert process.wait(120) == 0
    assert unfinished(tmp_path / "out.zarr") == []
    assert np.array_equal(read_array(tmp_path / "out.zarr"), x * 2)


def test_unfinished_files_of_any_process_go_when_the_array_is_whole(tmp_path, large):
    """The number of a killed process may be another one's by now: here that of this test."""
    _, pipeline = large
    path = pipeline("out.zarr")
    process = started(path, "--workers", "1")
    [name, *_] = kill_in_a_write(tmp_path / "out.zarr", process, lambda: [process.pid])
    process.wait()
    other = re.sub(r"#(\d{20})\d{10}", lambda m: f"#{m[1]}{os.getpid():010}", name)
    (tmp_path / "out.zarr" / name).rename(tmp_path / "out.zarr" / other)
    chunkwise("run", path, "--allowed-mem", "900MB", "--resume").ok()
    assert unfinished(tmp_path / "out.zarr") == []


def test_uploads_in_parts(s3, tmp_path, large):
    x, pipeline = large
    s3.create_bucket("uploads")
    client = boto3.client("s3", endpoint_url=s3.url, aws_access_key_id="test", aws_secret_access_key="test", region_name="us-east-1")

    def uploads():
        return [(u["Key"], u["UploadId"]) for u in client.list_multipart_uploads(Bucket="uploads").get("Uploads", [])]

    path = pipeline("s3://uploads/out.zarr")
    process = started(path, "--workers", "1", **s3.env)
    deadline = time.monotonic() + 60
    while not uploads() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    process.wait()
    begun = uploads()
    assert begun, "the run ended before it could be killed in an upload"
    # Of others, with a name that begins like ours.
    other = client.create_multipart_upload(Bucket="uploads", Key="out.zarr2/c/0/0/0")["UploadId"]
    chunkwise("run", path, "--allowed-mem", "900MB", "--resume", env=s3.env).ok()
    assert uploads() == [("out.zarr2/c/0/0/0", other)], begun
    client.abort_multipart_upload(Bucket="uploads", Key="out.zarr2/c/0/0/0", UploadId=other)
    assert "4 chunks are there and whole" in chunkwise("verify", "s3://uploads/out.zarr", env=s3.env).ok().stdout


@pytest.mark.parametrize(("count", "memory"), [(40_000, "100MB"), (20_000, "72MB")])
def test_many_chunks_in_little_memory_have_checksums(tmp_path, count, memory):
    """Also where the checksums do not fit into memory at once: then they are read from the reports in pieces."""
    write_array(tmp_path / "in.zarr", np.arange(count * 4, dtype="int32"), (count,))
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {"y": "x + 1"}, {"out.zarr": {"array": "y", "chunks": [4]}})
    chunkwise("run", path, "--allowed-mem", memory).ok()
    lines = (tmp_path / "out.zarr/chunkwise.xxh3").read_text().splitlines()
    assert [line.split("  ")[1] for line in lines] == [f"c/{i}" for i in range(count)]
    assert f"{count} chunks are there and whole" in chunkwise("verify", tmp_path / "out.zarr").ok().stdout
    # A chunk of the last piece that is not what was written is found.
    (tmp_path / "out.zarr/c" / str(count - 2)).write_bytes((tmp_path / "out.zarr/c/0").read_bytes())
    chunkwise("verify", tmp_path / "out.zarr").failed(f"c/{count - 2}")
