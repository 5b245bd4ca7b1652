"""Runs on a Dask cluster that is there already, and what runs on its nodes. Faults are in tests/e2e/test_executors.py."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise._clusters import _bridge, _node

distributed = pytest.importorskip("distributed")
PACKAGE = str(Path(cw.__file__).parents[1])
COMMAND = os.environ.get("CHUNKWISE_BIN") or str(Path.home() / ".cache/chunkwise/target/debug/chunkwise")


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """A cluster of two worker processes, as a user of Dask has it. An installed package would be found without the path."""
    old = {name: os.environ.get(name) for name in ("PYTHONPATH", "CHUNKWISE_PROGRAM")}
    os.environ.update(PYTHONPATH=PACKAGE, CHUNKWISE_PROGRAM=COMMAND)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, distributed.Client(cluster) as client:
        yield client
    for name, value in old.items():
        if value is None:
            del os.environ[name]
        else:
            os.environ[name] = value


def test_the_client_of_this_process_is_taken(client: Any, winds: str) -> None:
    u, v = cw.open(f"{winds}/uwnd"), cw.open(f"{winds}/vwnd")
    speed = cw.mean(cw.sqrt(u**2 + v**2), axis=0)
    seen: list[dict[str, Any]] = []
    with cw.watch(seen.append):
        found = speed.compute(spec=cw.Spec(executor="dask", executor_options={"tasks": 4, "poll": 0.05}))
    np.testing.assert_array_equal(found, speed.compute())
    assert any("run_finished" in json.dumps(e).lower() or "RunFinished" in json.dumps(e) for e in seen)


def test_a_client_is_named_and_values_of_numpy_travel(client: Any, tmp_path: Path) -> None:
    x = np.random.default_rng(1).normal(size=(300, 200))
    lazy = cw.from_array(x, chunks=(50, 200))
    spec = cw.Spec(executor="dask", executor_options={"client": client, "tasks": 2, "poll": 0.05})
    with cw.config(spec):
        lazy = cw.from_array(x, chunks=(50, 200))
        cw.to_zarr(lazy * 2 + 1, tmp_path / "out.zarr" / "x")
    np.testing.assert_array_equal(cw.open(str(tmp_path / "out.zarr" / "x")).compute(), x * 2 + 1)


def test_functions_of_users_run_on_the_nodes(client: Any, tmp_path: Path) -> None:
    spec = cw.Spec(executor="dask", executor_options={"client": client, "tasks": 2, "poll": 0.05}, work_dir=tmp_path / "work", allowed_mem="900MB")
    with cw.config(spec):
        x = cw.from_array(np.arange(60.0).reshape(6, 10), chunks=(2, 10))
        found = cw.map_blocks(lambda block: block[:, ::-1] * 2, x, dtype="f8").compute()
        np.testing.assert_array_equal(found, np.arange(60.0).reshape(6, 10)[:, ::-1] * 2)
        with pytest.raises(Exception, match="not today"):
            cw.map_blocks(lambda block: _raise("not today"), x, dtype="f8").compute()


def _raise(text: str) -> Any:
    raise ValueError(text)


def test_a_cluster_inside_this_process_is_refused() -> None:
    class Inside:
        class scheduler:
            address = "inproc://127.0.0.1/1/1"

    with pytest.raises(ValueError, match="processes=True"):
        cw.ones((2,)).compute(spec=cw.Spec(executor="dask", executor_options={"client": Inside}))


def test_a_scheduler_that_does_not_answer(client: Any) -> None:
    spec = cw.Spec(executor="dask", executor_options={"address": "tcp://127.0.0.1:1"})
    with pytest.raises(Exception, match="no Dask scheduler answers at tcp://127.0.0.1:1"):
        cw.ones((2,)).compute(spec=spec)


def test_a_worker_that_takes_more_memory_is_ended() -> None:
    script = "import sys, time; x = bytearray(200_000_000); time.sleep(60)"
    began = time.monotonic()
    assert _node.run("much", ["-c", script], 100_000_000, {}, sys.executable) == {"memory": True}
    assert time.monotonic() - began < 20
    assert _node.run("little", ["-c", "x = bytearray(20_000_000)"], 100_000_000, {}, sys.executable) == {"code": 0}
    assert _node.run("failing", ["-c", "raise SystemExit(11)"], 100_000_000, {}, sys.executable) == {"code": 11}
    assert "cannot be started" in _node.run("none", [], 1, {}, "/nonexistent/chunkwise")["lost"]


def test_workers_are_stopped_and_do_not_start_afterwards() -> None:
    found: list[dict[str, Any]] = []
    patient = "import signal, sys, time; signal.signal(signal.SIGTERM, lambda *_: sys.exit(14)); time.sleep(60)"
    thread = threading.Thread(target=lambda: found.append(_node.run("stopped", ["-c", patient], 10**9, {}, sys.executable)))
    thread.start()
    while "stopped" not in _node._running:
        time.sleep(0.01)
    time.sleep(0.5)
    assert _node.stop(["stopped", "later"]) == ["stopped"]
    thread.join(20)
    assert found == [{"code": 14}]
    assert "before it started" in _node.run("later", ["-c", ""], 10**9, {}, sys.executable)["lost"]
    assert not _node._running


def test_a_worker_ends_with_the_process_that_started_it(winds: str, tmp_path: Path) -> None:
    """The node is killed, so that it cannot end its workers."""
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from chunkwise._clusters import _node\n"
        "_node.run('tied', ['-c', 'import sys; sys.stdin.read(); open(sys.argv[1], \"w\").close()', sys.argv[2]], 10**9, {}, sys.executable)"
    )
    ended = tmp_path / "ended"
    node = subprocess.Popen([sys.executable, "-c", script, PACKAGE, str(ended)])
    time.sleep(2)
    assert not ended.exists()
    node.send_signal(signal.SIGKILL)
    node.wait()
    end = time.monotonic() + 10
    while not ended.exists() and time.monotonic() < end:
        time.sleep(0.05)
    assert ended.exists()


class Recorded:
    """A cluster that only notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def slots(self) -> int:
        return 3

    def start(self, name: str, arguments: list[str], memory: int) -> None:
        self.told.append(("start", (name, arguments, memory)))

    def ended(self) -> list[tuple[str, _bridge.End]]:
        return [("a_0", {"code": 0})]

    def cancel(self, names: list[str]) -> None:
        self.told.append(("cancel", names))

    def close(self) -> None:
        self.told.append(("close", None))


def test_the_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Recorded()
    monkeypatch.setattr(_bridge, "connect", lambda _: cluster)
    asked = [
        {"do": "begin"},
        {"do": "submit", "parts": [{"name": "a_0", "arguments": ["worker"]}], "memory": 5},
        {"do": "look"},
        {"do": "cancel", "parts": ["a_0"]},
        {"do": "dance"},
    ]
    out = io.StringIO()
    _bridge.serve([json.dumps(a) + "\n" for a in asked], out)
    said = [json.loads(line) for line in out.getvalue().splitlines()]
    assert said[:2] == [{"slots": 3, "ended": []}] * 2
    assert said[2] == {"slots": 3, "ended": [{"part": "a_0", "code": 0}]}
    assert said[3] == {"slots": 3, "ended": []}
    assert "another version" in said[4]["error"]
    assert cluster.told == [("start", ("a_0", ["worker"], 5)), ("cancel", ["a_0"]), ("close", None)]
