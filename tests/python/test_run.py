"""Stores, several results at once, budgets, errors, events and Ctrl-C."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import zarr

import chunkwise as cw
from conftest import PACKAGE


def test_a_stored_array_with_names_and_attributes(winds: str) -> None:
    u = cw.from_zarr(f"{winds}/uwnd")
    assert (u.shape, u.dtype, u.dims) == ((132, 73, 144), np.dtype("float32"), ("time", "lat", "lon"))
    assert u.attrs["units"] == "m s-1"
    stored = zarr.open_array(f"{winds}/uwnd", mode="r")[:]
    np.testing.assert_array_equal(u.compute(), stored)
    np.testing.assert_allclose(cw.mean(u, dim="time").compute(), stored.mean(0, dtype="f8"), rtol=1e-5)
    np.testing.assert_array_equal(cw.from_array(zarr.open_array(f"{winds}/uwnd", mode="r"))[3].compute(), stored[3])


def test_zarr_arrays_in_folders_are_read_by_the_engine(winds: str) -> None:
    z = zarr.open_group(winds, mode="r")["uwnd"]
    assert cw.from_array(z)._lazy.url.endswith("winds.zarr/uwnd")


def test_to_zarr(tmp_path: Path) -> None:
    x = np.arange(20.0).reshape(4, 5)
    a = cw.from_array(x, chunks=(2, 5)).with_dims("y", "x").with_attrs({"units": "K"})
    report = (a + 1).with_attrs({"units": "K"}).to_zarr(tmp_path / "out.zarr", chunks=(1, 5))
    z = zarr.open_array(tmp_path / "out.zarr", mode="r")
    np.testing.assert_array_equal(z[:], x + 1)
    assert z.chunks == (1, 5) and z.attrs["units"] == "K" and z.metadata.dimension_names == ("y", "x")
    assert report is None or report["tasks"] >= 1
    with pytest.raises(FileExistsError, match="overwrite=True"):
        a.to_zarr(tmp_path / "out.zarr")
    a.to_zarr(tmp_path / "out.zarr", overwrite=True)


def test_several_results_are_one_run() -> None:
    seen: list[dict] = []
    a = cw.from_array(np.arange(12.0), chunks=4)
    with cw.watch(seen.append):
        total, mean, rest = cw.compute(cw.sum(a), cw.mean(a), "rest")
    assert (total, mean, rest) == (66.0, 5.5, "rest")
    assert [e["event"] for e in seen].count("run_started") == 1 and seen[-1]["event"] == "run_finished"
    assert json.dumps(seen)


def test_store_into_urls_and_regions(tmp_path: Path) -> None:
    x = np.arange(60.0).reshape(10, 6)
    a = cw.from_array(x, chunks=(3, 6))
    cw.store([a, a * 2], [str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr")])
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "b.zarr", mode="r")[:], x * 2)
    target = zarr.create_array(tmp_path / "t.zarr", shape=(20, 6), chunks=(5, 4), dtype="f4", fill_value=-1)
    cw.store(a, target, regions=(slice(5, 15), slice(0, 6)))
    wanted = np.full((20, 6), -1, "f4")
    wanted[5:15] = x
    np.testing.assert_array_equal(target[:], wanted)
    with pytest.raises(ValueError, match="two writers"):
        cw.store(a, target, regions=(slice(3, 13), slice(0, 6)))
    with pytest.raises(ValueError, match="does not fit"):
        cw.store(a, target)


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with cw.config(work_dir=tmp_path / "w"):
        cw.from_array(np.arange(12.0), chunks=4).sum().compute()
        cw.from_array(np.arange(12.0), chunks=4).sum().compute()
    left = [p for p in (tmp_path / "w").rglob("*") if p.is_file()]
    assert not left


def test_errors_are_of_pythons_classes(tmp_path: Path, winds: str) -> None:
    with pytest.raises(FileNotFoundError):
        cw.from_zarr(tmp_path / "nothing.zarr")
    a, b = cw.from_array(np.zeros((2, 3))), cw.from_array(np.zeros((4, 5)))
    with pytest.raises(ValueError, match="broadcast"):
        a + b
    with pytest.raises(IndexError):
        cw.mean(a, axis=5)
    with pytest.raises(ValueError, match="did you mean"):
        cw.mean(cw.from_zarr(f"{winds}/uwnd"), dims="time")
    with pytest.raises(TypeError, match="dtype"):
        cw.from_array(np.array(["2020-01-01"], "datetime64[s]"))
    with pytest.raises(TypeError):
        a + object()
    with pytest.raises(ValueError):
        a.compute(spec=cw.Spec(executor="nowhere"))
    with pytest.raises(ValueError):
        cw.Spec(allowed_mem="many")._settings()
    broken = tmp_path / "broken.zarr"
    broken.mkdir()
    (broken / "zarr.json").write_text("{")
    with pytest.raises(ValueError):
        cw.from_zarr(broken)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "x.zarr", shape=(2,), dtype="f8")
    (tmp_path / "x.zarr" / "zarr.json").chmod(0)
    with pytest.raises(PermissionError):
        cw.from_zarr(tmp_path / "x.zarr")


def test_too_little_memory_says_what_would_do(tmp_path: Path) -> None:
    a = cw.zeros((40_000, 1_000), chunks=(40_000, 1_000)) + 1
    with pytest.raises(cw.MemoryLimitError) as caught:
        a.compute(spec=cw.Spec(allowed_mem="200MB"))
    error = caught.value
    assert isinstance(error, MemoryError) and error.allowed == 200_000_000 and error.enough > error.allowed
    assert a[:, 0].compute(spec=cw.Spec(allowed_mem="200MB")).sum() == 40_000
    total = a.compute(spec=cw.Spec(allowed_mem=error.enough))
    assert total.shape == a.shape


def test_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHUNKWISE_ALLOWED_MEM", "321MB")
    with cw.config(cw.Spec(workers=3)) as spec:
        assert spec.workers == 3 and spec.allowed_mem == "500MB"
        with cw.config(allowed_mem="123MB"):
            assert cw.config.get().allowed_mem == "123MB"
    from chunkwise import _spec

    assert _spec._environment().allowed_mem == "321MB"
    plan = cw.plan(cw.from_array(np.arange(12.0), chunks=4).sum())
    assert plan["tasks"] >= 1 and plan["projected_mem"] > 0 and "MB" in plan["table"]


def test_python_runs_while_the_engine_does(tmp_path: Path) -> None:
    ticks, done = 0, threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0.001)

    thread = threading.Thread(target=count)
    thread.start()
    x = cw.random([3000, 1000], seed=1, chunks=[100, 1000])
    for _ in range(4):
        x = cw.sin(cw.exp(x))
    x.mean().compute()
    done.set()
    thread.join()
    assert ticks > 5


def test_worker_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = os.environ.get("CHUNKWISE_BIN")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ValueError, match="program"):
        cw.ones(3).compute(spec=cw.Spec(executor="processes"))
    monkeypatch.setenv("CHUNKWISE_PROGRAM", str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="CHUNKWISE_PROGRAM"):
        cw.ones(3).compute(spec=cw.Spec(executor="processes"))
    monkeypatch.delenv("CHUNKWISE_PROGRAM")
    if not program:
        pytest.skip("CHUNKWISE_BIN names no command")
    with cw.config(executor="processes", executor_options={"program": program, "memory_limit": "none"}, work_dir=tmp_path / "shared"):
        a = cw.from_array(np.arange(12.0), chunks=4)
        assert (a + 1).sum().compute() == 78.0
        a.to_zarr(tmp_path / "out.zarr")
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "out.zarr", mode="r")[:], np.arange(12.0))
    monkeypatch.setenv("CHUNKWISE_PROGRAM", program)
    shared = cw.Spec(executor="processes", executor_options={"memory_limit": "none"}, work_dir=tmp_path / "shared")
    assert (cw.ones(3) + 1).sum().compute(spec=shared) == 6.0


def test_the_command_of_the_environment_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from chunkwise import _spec

    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    (tmp_path / "chunkwise").write_text("#!/bin/sh\n")
    (tmp_path / "chunkwise").chmod(0o755)
    assert _spec._command() == str(tmp_path / "chunkwise")


def test_storage_options_are_of_a_spec() -> None:
    a = cw.from_array(np.arange(12.0), chunks=4)
    minio = cw.Spec(storage={"s3://data": {"endpoint": "http://127.0.0.1:9", "anonymous": True}})
    # Values of NumPy can be computed with, whatever the options.
    assert a.sum().compute(spec=minio) == 66.0
    with pytest.raises(ValueError, match="127.0.0.1:9"):
        cw.from_zarr("s3://data/x.zarr", spec=minio)
    with cw.config(minio), pytest.raises(ValueError, match="127.0.0.1:9"):
        cw.open("s3://data/x.zarr")
    with pytest.raises(ValueError, match="unknown field"):
        a.sum().compute(spec=cw.Spec(storage={"s3://data": {"endpint": "x"}}))
    with pytest.raises(ValueError, match="secret"):
        a.sum().compute(spec=cw.Spec(storage={"s3://data": {"secret_access_key": "x"}}))


SCRIPT = """
import signal, sys, threading, os, time
# A shell that starts programs in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.path.insert(0, {package!r})
import chunkwise as cw
x = cw.random([8000, 1000], seed=1, chunks=[20, 1000])
for _ in range(8):
    x = cw.sin(cw.exp(x))
seen = []
def watch(event):
    if event["event"] == "task_finished" and len(seen) < 1:
        seen.append(event)
        os.kill(os.getpid(), signal.SIGINT)
try:
    with cw.watch(watch):
        cw.to_zarr(x, {out!r}, spec=cw.Spec(work_dir={work!r}, allowed_mem="500MB", workers=2))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_leaves_a_run_that_can_be_resumed(tmp_path: Path) -> None:
    out, work = str(tmp_path / "out.zarr"), str(tmp_path / "work")
    script = textwrap.dedent(SCRIPT).format(package=str(PACKAGE), out=out, work=work)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "interrupted", done.stderr
    assert not Path(out, "zarr.json").exists()
    x = cw.random([8000, 1000], seed=1, chunks=[20, 1000])
    for _ in range(8):
        x = cw.sin(cw.exp(x))
    spec = cw.Spec(work_dir=work, allowed_mem="500MB", workers=2)
    # This program is larger, so that it would make another plan.
    own = np.ones(20_000_000)
    (stored,) = Path(work).glob("*/plan.json")
    assert json.loads(cw.plan(x, spec=spec)["json"])["spec"]["reserved_mem"] > json.loads(stored.read_text())["spec"]["reserved_mem"]
    report = cw.to_zarr(x, out, resume=True, spec=spec)
    del own
    assert report["skipped"] > 0 and report["tasks"] > 0
    np.testing.assert_array_equal(zarr.open_array(out, mode="r")[-5:], x[-5:].compute())


LARGE = """
import re, sys
sys.path.insert(0, {package!r})
import chunkwise as cw
import xarray
libraries = bytearray(b"x") * 120_000_000
spec = cw.Spec(work_dir={work!r}, allowed_mem="450MB", workers=2)
cw.to_zarr(cw.random([6, 7_000_000], seed=1, chunks=[1, 7_000_000]) * 2, {out!r}, spec=spec)
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the size of a program is read from Linux")
def test_a_large_program_stays_within_its_budget(tmp_path: Path) -> None:
    script = textwrap.dedent(LARGE).format(package=str(PACKAGE), out=str(tmp_path / "out.zarr"), work=str(tmp_path / "work"))
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert 250_000_000 < int(done.stdout) <= 450_000_000


def test_import_is_quick() -> None:
    code = f"""
import sys, time
sys.path.insert(0, {str(PACKAGE)!r})
began = time.perf_counter()
import numpy
between = time.perf_counter()
import chunkwise
print((time.perf_counter() - between) / (between - began), *({{"xarray", "dask", "zarr", "pandas", "scipy"}} & set(sys.modules)))
"""
    found = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split() for _ in range(5)]
    assert all(len(words) == 1 for words in found), "no large library is imported"
    # As long as NumPy, with the extension of the dev profile, which is several times as large as that of a release. Machines differ, so no seconds.
    assert min(float(words[0]) for words in found) < 3


def test_an_array_is_not_written_over_itself(tmp_path: Path) -> None:
    place = tmp_path / "x.zarr"
    cw.to_zarr(cw.ones((4, 4)), place)
    with pytest.raises(ValueError, match="x.zarr': it is read for this very computation"):
        cw.to_zarr(cw.from_zarr(place) + 1, place, overwrite=True)
    np.testing.assert_array_equal(cw.from_zarr(place).compute(), np.ones((4, 4)))
