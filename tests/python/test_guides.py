"""The guides, each as a notebook: every cell runs, one after another, and what they assert is true."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import chunkwise as cw

ROOT = Path(__file__).parents[2]
GUIDES = sorted(p for p in (ROOT / "docs" / "guides").glob("*.md") if p.name != "README.md")


@pytest.mark.parametrize("guide", GUIDES, ids=lambda p: p.stem)
def test_a_guide(guide: Path, tmp_path: Path, winds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    # As an installation has it: with the entry point.
    site = next(p for p in __import__("sys").path if (Path(p) / "chunkwise-0.dist-info").is_dir())
    monkeypatch.setenv("PYTHONPATH", f"{Path(cw.__file__).parents[1]}:{site}")
    (tmp_path / "winds.zarr").symlink_to(winds)
    cells = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    assert len(cells) >= 3
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in cells])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()


def test_each_guide_is_listed() -> None:
    listed = (ROOT / "docs" / "guides" / "README.md").read_text()
    assert len(GUIDES) == 4 and all(f"({guide.name})" in listed for guide in GUIDES)
