"""xarray's and cubed-xarray's own tests, of which environment variables name checkouts; nothing of them is here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PACKAGE, entry_points

PLUGINS = Path(__file__).parent / "suites"
#: The variable, the plugin, the tests, the name of the manager, and how many tests pass at least.
SUITES = {
    "xarray": (
        "CHUNKWISE_XARRAY_TESTS", "chunkwise_in_xarray", ["xarray/tests/test_duck_array_wrapping.py", "xarray/tests/test_parallelcompat.py"], "chunkwise", 95,
    ),
    "cubed-xarray": ("CHUNKWISE_CUBED_XARRAY_TESTS", "chunkwise_in_cubed", ["cubed_xarray/tests"], "cubed", 40),
}  # fmt: skip


@pytest.mark.parametrize("suite", SUITES)
def test_suites(suite: str, tmp_path: Path) -> None:
    variable, plugin, tests, manager, least = SUITES[suite]
    checkout = os.environ.get(variable, "")
    if not checkout:
        pytest.skip(f"{variable} names no checkout of {suite}")
    entry_points(tmp_path, manager)
    command = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", "-p", plugin, "-p", "no:cacheprovider", "-W", "ignore", *tests]
    paths = os.pathsep.join([str(PACKAGE), str(PLUGINS), str(tmp_path), checkout])
    settings = {"PYTHONPATH": paths, "CHUNKWISE_WORK_DIR": str(tmp_path / "work")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=checkout, env={**os.environ, **settings})
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-4_000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) >= least, done.stdout
