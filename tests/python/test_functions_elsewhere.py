"""Functions of users in worker processes of other executors: they are stored beside the plan, which names them by their hash."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise._workers import Caller, code_of, dumped

PACKAGE = str(Path(cw.__file__).parents[1])
COMMAND = os.environ.get("CHUNKWISE_BIN") or str(Path.home() / ".cache/chunkwise/target/debug/chunkwise")


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command, and the package where an installation would have it."""
    monkeypatch.setenv("CHUNKWISE_PROGRAM", COMMAND)
    monkeypatch.setenv("PYTHONPATH", PACKAGE)


EXECUTORS = {
    "processes": {"processes": 2},
    "command": {"command": "{worker}", "parallel": 2, "tasks": 2, "poll": 0.05},
}


@pytest.fixture(params=list(EXECUTORS))
def spec(request: pytest.FixtureRequest, tmp_path: Path) -> cw.Spec:
    return cw.Spec(executor=request.param, executor_options=EXECUTORS[request.param], work_dir=tmp_path / "work", allowed_mem="900MB")


@pytest.fixture
def x(spec: cw.Spec) -> cw.Array:
    with cw.config(spec):
        return cw.from_array(np.arange(120.0).reshape(10, 12), chunks=(4, 5))


def left(tmp_path: Path) -> list[str]:
    """Functions that are left in the work directory."""
    return [str(p) for p in (tmp_path / "work").rglob("functions/*")]


def test_they_give_what_they_give_here(x: cw.Array, spec: cw.Spec, tmp_path: Path) -> None:
    shift = 3.0

    def shifted(block: Any, factor: float, block_id: tuple[int, ...] = ()) -> Any:
        return block * factor + shift + 1000 * block_id[0]

    lazy = cw.map_blocks(shifted, x, factor=2.0, dtype="f8")
    np.testing.assert_array_equal(cw.compute(lazy, spec=spec)[0], lazy.compute())
    assert left(tmp_path) == []


def test_several_functions_in_one_run(x: cw.Array, spec: cw.Spec) -> None:
    with cw.config(spec):
        rows = cw.map_blocks(np.sort, x, dtype="f8")
        total = cw.reduction(rows, np.sum, np.sum, axis=0, dtype="f8")
        both = cw.compute(total, cw.map_overlap(lambda b: b + 1, x, depth=1, boundary="reflect", dtype="f8"))
    whole = np.arange(120.0).reshape(10, 12)
    np.testing.assert_allclose(both[0], whole.sum(axis=0))
    np.testing.assert_array_equal(both[1], whole + 1)


def test_what_they_raise_is_told_with_their_lines(x: cw.Array, spec: cw.Spec) -> None:
    def fails(block: Any) -> Any:
        raise LookupError("no such station: 17")  # the line that is shown

    with pytest.raises(Exception, match="no such station: 17") as caught:
        cw.map_blocks(fails, x, dtype="f8").compute(spec=spec)
    assert "the line that is shown" in str(caught.value) and "test_functions_elsewhere.py" in str(caught.value)


def test_they_are_held_to_their_memory(x: cw.Array, spec: cw.Spec) -> None:
    def much(block: Any) -> Any:
        return block + np.ones(40_000_000)[0]

    with pytest.raises(Exception, match=r"used 3\d\d MB or more.*20 MB are allowed by its memory=") as caught:
        cw.map_blocks(much, x, dtype="f8", memory="20MB").compute(spec=spec)
    assert "give memory='" in str(caught.value)


def test_a_function_that_hangs_is_stopped(x: cw.Array, spec: cw.Spec) -> None:
    def hangs(block: Any) -> Any:
        import time

        time.sleep(600)
        return block

    with pytest.raises(Exception, match="within its timeout of 1"):
        cw.map_blocks(hangs, x, dtype="f8", timeout=1.0).compute(spec=spec)


def test_containers_refuse_them(x: cw.Array) -> None:
    lazy = cw.map_blocks(np.sqrt, x, dtype="f8")
    try:
        spec = cw.Spec(executor="kubernetes", executor_options={"image": "x"})
        with pytest.raises(NotImplementedError, match="'threads', 'processes'"):
            lazy.compute(spec=spec)
    except ValueError as e:
        pytest.skip(str(e)) if "compiled without" in str(e) else pytest.fail(str(e))


def stored_run(folder: Path, x: cw.Array, function: Any) -> tuple[Path, str]:
    """The plan of a run that was stopped by the function, and the version of the function."""
    spec = cw.Spec(executor="processes", executor_options={"processes": 1}, work_dir=folder / "work", allowed_mem="900MB")
    with pytest.raises(Exception, match="stopped on purpose"):
        cw.to_zarr(cw.map_blocks(function, x, dtype="f8"), folder / "out.zarr/x", spec=spec)
    [plan] = (folder / "work").glob("*/plan.json")
    [blob] = plan.parent.glob("functions/*")
    return plan, blob.name


def worker(plan: Path, *more: str) -> subprocess.CompletedProcess[str]:
    args = [COMMAND, "worker", "--plan", str(plan), "--stage", "0", "--name", "me", *more]
    return subprocess.run(args, capture_output=True, text=True, timeout=60)


def stops(block: Any) -> Any:
    raise ValueError("stopped on purpose")


@pytest.mark.parametrize("spec", ["processes"], indirect=True)
def test_a_worker_runs_them_only_if_it_was_allowed(x: cw.Array, tmp_path: Path) -> None:
    """The plan has no code; what is stored runs only where somebody said so, and only if it is what the plan names."""
    plan, version = stored_run(tmp_path, x, stops)
    text = plan.read_text()
    assert version in text and "purpose" not in text
    refused = worker(plan)
    assert refused.returncode != 0 and "stops" in refused.stderr and version in refused.stderr, refused.stderr
    python = f"--allow-python={sys.executable}"
    allowed = worker(plan, python)
    reports = "".join(p.read_text() for p in plan.parent.glob("reports/me-*"))
    assert allowed.returncode == 10 and "stopped on purpose" in reports, (allowed.stderr, reports)
    # Somebody who may write into the folder puts another function in its place.
    blob = plan.parent / "functions" / version
    mine = Caller("stops", dumped({"function": print}), None, 1, True, None, code_of(print))
    honest = blob.read_bytes()
    blob.write_bytes(mine.stored())
    tampered = worker(plan, python)
    assert tampered.returncode == 1 and "the plan names" in tampered.stderr, tampered.stderr
    blob.write_bytes(honest.replace(b"stops", b"drops"))
    assert "the plan names" in worker(plan, python).stderr
    blob.write_bytes(b"")
    assert worker(plan, python).returncode == 1
    blob.unlink()
    gone = worker(plan, python)
    assert gone.returncode != 0 and "stops" in gone.stderr and "Traceback" not in gone.stderr, gone.stderr


def test_what_is_stored_is_read_again() -> None:
    caller = Caller("f", dumped(len), "/x/y.py", 5, False, 2.5, code_of(len))
    again = Caller.read(caller.stored(), caller.version)
    for name in ("name", "blob", "file", "memory", "declared", "timeout", "code", "version"):
        assert getattr(again, name) == getattr(caller, name), name
    assert json.loads(caller.stored().split(b"\n")[0])["timeout"] == 2.5
