"""What notebooks and terminals show: plans, drawings and progress."""

from __future__ import annotations

import io
import json
import re
import sys
import time
import xml.dom.minidom
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import chunkwise as cw
from chunkwise import _progress

PACKAGE = str(Path(cw.__file__).parents[1])


@pytest.fixture
def anomaly(winds: str) -> cw.Array:
    u = cw.open(f"{winds}/uwnd")
    return cw.astype(u - cw.mean(u, axis=0, keepdims=True), "float64")


def test_a_plan_is_a_table(anomaly: cw.Array) -> None:
    plan = cw.plan(anomaly)
    assert repr(plan) == plan["table"].rstrip("\n") and plan["table"].splitlines()[0].startswith("#")
    stages = json.loads(plan["json"])["stages"]
    assert plan["stages"] == len(stages) > 0
    html = plan._repr_html_()
    xml.dom.minidom.parseString(f"<div>{html}</div>")
    assert all(stage["name"] in html for stage in stages) and html.count("<tr>") == 1 + len(stages)
    # The tasks of each stage are those of the table.
    counts = [int(row.replace(",", "")) for row in re.findall(r"right'>([\d,]+)</td><td style='text-align:right'>[\d.]+ [kMG]?B", html)]
    assert sum(counts) == plan["tasks"]
    assert dict(anomaly.plan) == dict(plan) | {"id": anomaly.plan["id"], "json": anomaly.plan["json"], "svg": anomaly.plan["svg"], "table": anomaly.plan["table"]}


def test_drawings(anomaly: cw.Array, tmp_path: Path) -> None:
    with cw.raise_if_computes():
        drawing = cw.visualize(anomaly, cw.sum(anomaly), filename=tmp_path / "plan.svg")
    xml.dom.minidom.parseString((tmp_path / "plan.svg").read_text())
    assert drawing.svg == (tmp_path / "plan.svg").read_text() and "uwnd" in drawing.svg
    assert "<img" in drawing._repr_html_() and "<style" not in drawing._repr_html_()
    assert anomaly.visualize(tmp_path / "plan.html").svg in (tmp_path / "plan.html").read_text()
    with pytest.raises(ValueError, match=r"\.svg or \.html"):
        cw.visualize(anomaly, filename=tmp_path / "plan.png")


def test_lines_where_there_is_no_terminal(anomaly: cw.Array) -> None:
    out = io.StringIO()
    with cw.ProgressBar(file=out):
        anomaly.compute()
        cw.sum(anomaly).compute()
    lines = out.getvalue().splitlines()
    assert len(lines) == 2, lines
    for line in lines:
        match = re.fullmatch(r"100 %  (\d+) of (\d+) tasks, [\d.]+ s(, [\d.]+ MB of 500.0 MB)?", line)
        assert match and match[1] == match[2], line


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_memory_that_is_allowed_includes_results(anomaly: cw.Array) -> None:
    """A result of some megabytes takes a part of the budget, and is in the memory of the process, too."""
    found: list[dict[str, Any]] = []
    slow = cw.map_blocks(lambda block: (time.sleep(0.3), block)[1], cw.random((1500, 1000), chunks=(500, 1000)), dtype="f8")
    with cw.watch(found.append):
        slow.compute()
    assert {e["allowed_mem"] for e in found if e["event"] == "progress"} == {500_000_000}


def events(tasks: int = 4) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{"event": "run_started", "id": "x", "stages": [{"name": "mean", "tasks": tasks, "done": 0}]}]
    for i in range(tasks):
        found.append({"event": "task_finished", "stage": 0, "task": i, "bytes_read": 1, "bytes_written": 1, "seconds": 0.1})
        done = {"total": float(tasks), "done": i + 1.0, "before": 0.0, "seconds": 2.0 * (i + 1), "memory": 100_000_000, "allowed_mem": 500_000_000}
        found.append({"event": "progress", **done})
    found.insert(3, {"event": "task_retried", "stage": 0, "task": 2, "error": "the node is [gone]", "class": "lost worker", "wait": 0.2})
    return [*found, {"event": "run_finished"}]


@pytest.mark.parametrize("rich", [False, True])
def test_a_bar_in_a_terminal(rich: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if rich:
        pytest.importorskip("rich")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "120")
    else:
        monkeypatch.setitem(sys.modules, "rich.console", None)
    monkeypatch.setattr(_progress, "EVERY_DRAWING", 0.0)
    out = Terminal()
    with cw.ProgressBar(file=out) as bar:
        for event in events():
            bar._tell(event)
    text = out.getvalue()
    assert "failed (lost worker), again in 0.2 s: the node is [gone]" in text
    assert "2 of 4 tasks" in text and "4 of 4 tasks" in text and "about 4.0 s left" in text and "100.0 MB of 500.0 MB" in text
    assert "\n" in text[-20:] and ("50 %" in text or "50%" in text)


def test_drawing_is_throttled() -> None:
    """Ten thousand tasks are not ten thousand drawings."""
    out = Terminal()
    began = time.monotonic()
    with cw.ProgressBar(file=out) as bar:
        for event in events(10_000):
            bar._tell(event)
    assert time.monotonic() - began < 5
    assert out.getvalue().count("of 10,000 tasks") <= 2 + 10 * (time.monotonic() - began) + 2


def test_a_run_that_fails_leaves_no_open_display(winds: str) -> None:
    out = Terminal()
    with pytest.raises(ZeroDivisionError), cw.ProgressBar(file=out):
        cw.map_blocks(lambda block: 1 // 0, cw.open(f"{winds}/uwnd"), dtype="f4").compute()
    # After it, nothing watches any more.
    said = out.getvalue()
    cw.ones((2,)).compute()
    assert out.getvalue() == said


def test_in_a_real_notebook(winds: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setenv("PYTHONPATH", PACKAGE)
    v4 = nbformat.v4
    cells = [
        f"import chunkwise as cw\ncw.config.set(work_dir={str(tmp_path / 'work')!r}, allowed_mem='500MB')\nu = cw.open({winds + '/uwnd'!r})\nu",
        "cw.plan(cw.mean(u, axis=0))",
        "u.visualize()",
        "with cw.ProgressBar():\n    total = cw.mean(u).compute()\nprint(float(total))",
    ]
    book = v4.new_notebook(cells=[v4.new_code_cell(text) for text in cells])
    client = nbclient.NotebookClient(book, timeout=60, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    shown = [[o.get("data", {}).get("text/html", o.get("text", "")) for o in cell["outputs"]] for cell in book.cells]
    assert "float32" in shown[0][0] and "<svg" in shown[0][0]
    assert "memory of a task" in shown[1][0]
    assert "data:image/svg+xml" in shown[2][0]
    assert any("<progress" in text and "100 %" in text for text in shown[3]), shown[3]
    number = float(next(text for text in shown[3] if "<" not in text))
    assert number == pytest.approx(float(cw.mean(cw.open(f"{winds}/uwnd")).compute()))


def test_durations() -> None:
    assert [_progress.duration(s) for s in (0.04, 9.94, 59.6, 130, 3600, 9000)] == ["0.0 s", "9.9 s", "60 s", "2 min", "60 min", "2 h 30 min"]


def test_nothing_of_a_notebook_is_imported_with_the_package() -> None:
    import subprocess

    program = f"import sys; sys.path[:0] = [{PACKAGE!r}]; import chunkwise; print([m for m in ('rich', 'IPython', 'xarray', 'dask') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_values_are_as_before(anomaly: cw.Array) -> None:
    with cw.ProgressBar(file=io.StringIO()):
        found = anomaly.compute()
    np.testing.assert_array_equal(found, anomaly.compute())
