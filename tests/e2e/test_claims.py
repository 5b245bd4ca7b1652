"""Runs that write to one place at once: one of them writes an output, the others are told so; and a group holds what all have written."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import obstore
import pytest
import zarr
from faults import Run
from harness import binary, chunkwise, read_array, values, write_array, write_pipeline
from services.servers import stored, upload

MEM = ["--allowed-mem", "300MB"]
SLOW = "sin(exp(cos(sin(exp(cos(sin(exp(cos(x)))))))))"
EXECUTORS = {"threads": ["--workers", "1"], "processes": ["--executor", "processes", "--executor-option", "processes=2"]}


def pipeline(folder, name, expression, output="out.zarr/y", source="in.zarr"):
    (folder / name).mkdir(exist_ok=True)
    at = source if "://" in source else str(folder / source)
    path = write_pipeline(folder / name, {"x": at}, {"r": expression}, {output if "://" in output else str(folder / output): "r"})
    return path


def slow(x):
    for _ in range(3):
        x = np.sin(np.exp(np.cos(x)))
    return x


def write_input(folder, count=400):
    x = values(1, (count, 200, 100), "float64", -1, 1)
    write_array(folder / "in.zarr", x, (1, 200, 100), ["time", "lat", "lon"])
    return x


def chunks(folder):
    return [p for p in (folder / "out.zarr/y/c").rglob("*") if p.is_file() and "#" not in p.name]


def notes(folder):
    return [p for p in folder.rglob("*") if p.name in (".chunkwise-claim", ".chunkwise-lock") or p.suffix == ".lock"]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_the_second_run_is_told_of_the_first(tmp_path, executor):
    x = write_input(tmp_path)
    first, second = pipeline(tmp_path, "a", SLOW), pipeline(tmp_path, "b", "x * 2")
    args = [*MEM, *EXECUTORS[executor]]
    with Run("run", first, *args) as run:
        run.until(lambda: len(chunks(tmp_path)) > 10)
        for flag in ("--overwrite", "--resume"):
            done = chunkwise("run", second, *args, flag, "--json").failed()
            error = json.loads(done.stdout)["error"]
            if flag == "--overwrite":
                assert done.code == 2 and error["kind"] == "claimed", error
                assert f"process {run.process.pid} on" in error["message"] and "out.zarr/y" in error["message"]
            else:
                assert error["kind"] in ("pipeline_changed", "no_run")
        run.ok()
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(x), rtol=1e-12)
    assert not notes(tmp_path)
    chunkwise("run", second, *args, "--overwrite").ok()
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/y"), x * 2)
    assert not notes(tmp_path)


def test_a_killed_run_claims_nothing(tmp_path):
    x = write_input(tmp_path)
    first, second = pipeline(tmp_path, "a", SLOW), pipeline(tmp_path, "b", "x * 2")
    with Run("run", first, *MEM, "--workers", "1") as run:
        run.until(lambda: len(chunks(tmp_path)) > 10)
        run.signal(signal.SIGKILL)
        run.end()
    assert (tmp_path / "out.zarr/y/.chunkwise-claim").exists()
    chunkwise("run", second, *MEM, "--overwrite").ok()
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/y"), x * 2)
    # The first one, resumed, finds an output that is not its own any more, and makes all of it again.
    chunkwise("run", first, *MEM, "--resume").ok()
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(x), rtol=1e-12)
    assert not (tmp_path / "out.zarr/y/.chunkwise-claim").exists()


def test_a_run_on_another_machine(tmp_path):
    """Its process cannot be looked for: the claim counts while it is renewed, whatever the clock of the other machine says."""
    x = write_input(tmp_path, 20)
    path = pipeline(tmp_path, "a", "x * 2")
    claim = {"run": "0123456789abcdef", "note": {"machine": "elsewhere 1 2", "pid": 1, "started": 5, "number": 0, "renewed": 5}}
    claim["renewed_in"] = f"file://{tmp_path}/out.zarr/y/"
    at = tmp_path / "out.zarr/y/.chunkwise-claim"
    at.parent.mkdir(parents=True)
    at.write_text(json.dumps(claim))
    chunkwise("run", path, *MEM).failed("is being written by run 0123456789abcdef (process 1 on elsewhere)", str(at))
    assert json.loads(at.read_text()) == claim
    os.utime(at, (time.time() - 120, time.time() - 120))
    chunkwise("run", path, *MEM).ok()
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/y"), x * 2)
    assert not at.exists()
    # Damaged notes are nobody's.
    at.write_text("{")
    chunkwise("run", path, *MEM, "--overwrite").ok()
    assert not at.exists()


def this_machine():
    """As notes name it."""
    read = lambda path: Path(path).read_text().strip()  # noqa: E731
    return f"{read('/proc/sys/kernel/hostname')} {read('/proc/sys/kernel/random/boot_id')} {os.readlink('/proc/self/ns/pid')}"


def start(path, *args, env=None):
    command = [binary(), "run", str(path), *MEM, *args]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env)


@pytest.mark.parametrize("there", [False, True])
def test_many_at_once(tmp_path, there):
    """Of many runs that start together, one at a time writes: what is there is of one of them."""
    x = write_input(tmp_path, 60)
    paths = [pipeline(tmp_path, f"p{k}", f"x * {k + 2}") for k in range(8)]
    if there:
        chunkwise("run", pipeline(tmp_path, "before", "x"), *MEM).ok()
    runs = [start(path, *(["--overwrite"] if there else [])) for path in paths]
    errors = [run.communicate(timeout=120)[1] for run in runs]
    codes = [run.returncode for run in runs]
    assert set(codes) <= {0, 2} and 0 in codes, errors
    for code, text in zip(codes, errors, strict=True):
        assert code == 0 or "is being written by run" in text or "exists" in text, text
    if not there:
        assert codes.count(0) == 1, errors
    found = read_array(tmp_path / "out.zarr/y")
    assert any(code == 0 and np.array_equal(found, x * (k + 2)) for k, code in enumerate(codes))
    assert not notes(tmp_path)
    chunkwise("verify", tmp_path / "out.zarr").ok()


def test_many_arrays_of_one_group(tmp_path):
    """Runs that write different arrays into a group at once all succeed, and the metadata of the group names every one of them."""
    x = write_input(tmp_path, 5)
    write_array(tmp_path / "in.zarr", x, (1, 200, 100), ["time", "lat", "lon"], overwrite=True)
    for _ in range(3):
        paths = [pipeline(tmp_path, f"p{k}", f"x * {k + 2}", f"out.zarr/v{k}") for k in range(8)]
        runs = [start(path, "--overwrite") for path in paths]
        errors = [run.communicate(timeout=120)[1] for run in runs]
        assert [run.returncode for run in runs] == [0] * 8, errors
        group = zarr.open_consolidated(str(tmp_path / "out.zarr"), mode="r")
        assert sorted(group.array_keys()) == sorted(f"v{k}" for k in range(8))
        for k in range(8):
            np.testing.assert_array_equal(group[f"v{k}"][...], x * (k + 2))
        assert not notes(tmp_path)


def test_a_refused_run_leaves_nothing(tmp_path):
    write_input(tmp_path, 5)
    path = pipeline(tmp_path, "a", "x * 2")
    at = tmp_path / "out.zarr/y/.chunkwise-claim"
    chunkwise("run", path, *MEM).ok()
    before = sorted(tmp_path.rglob("*"))
    chunkwise("run", path, *MEM).failed("exists")
    assert sorted(tmp_path.rglob("*")) == before and not at.exists()


def test_in_an_object_store(tmp_path, s3):
    """The same where there are no processes to look for, and no files to lock."""
    x = write_input(tmp_path, 30)
    store = s3.bucket("claims")
    upload(store, tmp_path / "in.zarr", "in.zarr")
    paths = [pipeline(tmp_path, f"p{k}", f"x * {k + 2}", "s3://claims/out.zarr/y", "s3://claims/in.zarr") for k in range(6)]
    runs = [start(path, env={**os.environ, **s3.env}) for path in paths]
    errors = [run.communicate(timeout=120)[1] for run in runs]
    codes = [run.returncode for run in runs]
    assert codes.count(0) == 1 and set(codes) == {0, 2}, errors
    for name, data in stored(store, "out.zarr").items():
        (tmp_path / "copy" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "copy" / name).write_bytes(data)
    np.testing.assert_array_equal(read_array(tmp_path / "copy/y"), x * (codes.index(0) + 2))
    assert not [name for name in stored(store, "out.zarr") if "claim" in name or "lock" in name]
    # One that was left behind by a process of this machine that is gone is taken over by one run.
    claim = {"run": "0123456789abcdef", "note": {"machine": this_machine(), "pid": 4194305, "started": 5, "number": 0, "renewed": 5}}
    obstore.put(store, "out.zarr/y/.chunkwise-claim", json.dumps({**claim, "renewed_in": "s3://claims/out.zarr/y/"}).encode())
    runs = [start(path, "--overwrite", env={**os.environ, **s3.env}) for path in paths]
    errors = [run.communicate(timeout=120)[1] for run in runs]
    assert {run.returncode for run in runs} <= {0, 2} and 0 in [run.returncode for run in runs], errors
    assert not [name for name in stored(store, "out.zarr") if "claim" in name or "lock" in name]
