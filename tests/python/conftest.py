"""The package as the tests see it: the sources, with the extension that Cargo has built beside them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "python"
WINDS = ROOT / "examples" / "data" / "winds.zarr"
sys.path.insert(0, str(PACKAGE))


def entry_points(folder: Path, manager: str = "chunkwise") -> None:
    """Writes what an installation would add, by which others find the package: xarray the chunk manager by this name."""
    import tomllib

    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    info = folder / "chunkwise-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chunkwise\nVersion: 0\n")
    groups = {g: {manager if k == "chunkwise" else k: v for k, v in entries.items()} for g, entries in project["entry-points"].items()}
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in groups.items()]
    (info / "entry_points.txt").write_text("\n".join(lines))


@pytest.fixture(scope="session", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("site")
    entry_points(folder)
    sys.path.append(str(folder))


@pytest.fixture(autouse=True)
def settings(tmp_path: Path) -> Iterator[None]:
    """A work directory and a budget of its own for each test, and chunkwise under xarray: Dask is there, too."""
    import xarray as xr

    import chunkwise as cw

    with cw.config(work_dir=tmp_path / "work", allowed_mem="500MB", workers=2), xr.set_options(chunk_manager="chunkwise"):
        yield


@pytest.fixture
def winds() -> str:
    return str(WINDS)
