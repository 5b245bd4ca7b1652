"""The suite of the Array API, of which ``CHUNKWISE_ARRAY_API_TESTS`` names a checkout (of github.com/data-apis/array-api-tests, with its submodule).

``array_api_skips.txt`` lists by name what does not pass, and why. ``CHUNKWISE_ARRAY_API_EXAMPLES`` is the number of examples of each test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import PACKAGE

CHECKOUT = os.environ.get("CHUNKWISE_ARRAY_API_TESTS", "")
SKIPS = Path(__file__).parent / "array_api_skips.txt"


def test_each_test_that_is_left_out_has_a_reason() -> None:
    comment = ""
    for line in SKIPS.read_text().splitlines():
        if line.startswith("#"):
            comment = line
        elif line:
            assert comment and line.startswith("array_api_tests/test_"), line


@pytest.mark.skipif(not CHECKOUT, reason="CHUNKWISE_ARRAY_API_TESTS names no checkout of the suite")
def test_the_suite_of_the_array_api(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "array_api_tests", "--disable-deadline", "--derandomize"]
    # Results whose shape depends on values are no lazy arrays: the namespace says so by its capabilities.
    command += ["--disable-data-dependent-shapes", f"--skips-file={SKIPS}", "-W", "ignore"]
    command += ["--max-examples", os.environ.get("CHUNKWISE_ARRAY_API_EXAMPLES", "10")]
    paths = os.pathsep.join(p for p in [str(PACKAGE), os.environ.get("PYTHONPATH", "")] if p)
    settings = {
        "ARRAY_API_TESTS_MODULE": "chunkwise",
        "ARRAY_API_TESTS_VERSION": "2025.12",
        "CHUNKWISE_WORK_DIR": str(tmp_path / "work"),
        "PYTHONPATH": paths,
    }
    done = subprocess.run(command, capture_output=True, text=True, cwd=CHECKOUT, env={**os.environ, **settings})
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-4_000:]
