"""What is generated is current, and the types are right."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path

import pytest
import xarray as xr

import chunkwise as cw
import stubs
from chunkwise import _namespace
from conftest import PACKAGE, ROOT


def current(path: Path, wanted: str) -> None:
    if os.environ.get("CHUNKWISE_WRITE"):
        path.write_text(wanted)
    assert path.read_text() == wanted, f"{path} is not current: CHUNKWISE_WRITE=1 pytest tests/python/test_generated.py writes it"


def test_the_stub_is_current() -> None:
    current(PACKAGE / "chunkwise" / "__init__.pyi", stubs.stub())
    current(PACKAGE / "chunkwise" / "_operators.pyi", stubs.operators())


def test_the_page_says_what_is_missing() -> None:
    path = ROOT / "docs" / "python.md"
    current(path, stubs.page(path.read_text()))


def test_every_operation_is_a_function_with_a_docstring() -> None:
    for name, entry in _namespace.TABLE.items():
        function = getattr(cw, name)
        assert function.__doc__, name
        assert _namespace.signature(entry).parameters is not None
    assert not stubs.signatures_of_the_api()


def test_types(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("\n".join(code for code in examples() if "xarray" not in code))
    command = [sys.executable, "-m", "mypy", "--config-file", str(PACKAGE / "pyproject.toml"), str(PACKAGE / "chunkwise"), str(program)]
    done = subprocess.run(
        [*command, "--cache-dir", os.devnull], capture_output=True, text=True, cwd=PACKAGE, env={**os.environ, "MYPYPATH": str(PACKAGE)}
    )
    assert done.returncode == 0, done.stdout[-4000:]


def documented() -> list[doctest.DocTest]:
    modules = [importlib.import_module(f"chunkwise.{found.name}") for found in pkgutil.iter_modules(cw.__path__) if found.name not in ("__main__", "_chunkwise")]
    return [test for module in [cw, *modules] for test in doctest.DocTestFinder().find(module) if test.examples]


@pytest.mark.parametrize("test", [pytest.param(test, id=test.name) for test in documented()])
def test_examples_of_docstrings(test: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    problems: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=problems.append)
    assert not problems, "".join(problems)


def examples() -> list[str]:
    page = (ROOT / "docs" / "python.md").read_text()
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


@pytest.mark.parametrize("code", examples())
def test_examples_of_the_page(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, winds: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "winds.zarr").symlink_to(winds)
    with xr.set_options(chunk_manager="dask"):  # the default, which an example changes
        exec(compile(code, "docs/python.md", "exec"), {})
