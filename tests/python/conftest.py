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


@pytest.fixture(scope="session", autouse=True)
def installed(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What an installation would add: xarray finds the chunk manager by its entry point."""
    import tomllib

    project = tomllib.loads((PACKAGE / "pyproject.toml").read_text())["project"]
    folder = tmp_path_factory.mktemp("site")
    info = folder / "chunkwise-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: chunkwise\nVersion: 0\n")
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in entries.items()) for group, entries in project["entry-points"].items()]
    (info / "entry_points.txt").write_text("\n".join(lines))
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
