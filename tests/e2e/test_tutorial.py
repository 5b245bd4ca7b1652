"""The tutorial and the beginning of the README: every file is saved, every command run, and everything that is printed compared."""

import doctest
import os
import re
import shutil
import subprocess

import harness
import pytest
from reference import ROOT

TUTORIAL = ROOT / "docs/tutorial.md"


@pytest.fixture
def folder(tmp_path, examples, monkeypatch):
    """A folder with the example data, in which the command has its name, as current folder."""
    shutil.copytree(examples / "data", tmp_path / "examples/data")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/chunkwise").symlink_to(harness.binary())
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path / "examples")
    return tmp_path / "examples"


def blocks(page):
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.S | re.M)


def test_tutorial(folder):
    found = blocks(TUTORIAL)
    assert {kind for kind, _ in found} == {"sh", "console", "yaml", "python"}
    python = {}
    for kind, text in found:
        if kind == "yaml":
            (folder / re.match(r"# (\w+\.yaml)\n", text)[1]).write_text(text)
        elif kind == "console":
            check(text)
        elif kind == "python":
            session(text, python)


def test_readme(folder, monkeypatch):
    monkeypatch.chdir(folder.parent)
    first = {kind: text for kind, text in reversed(blocks(ROOT / "README.md"))}
    (folder / "anomalies.yaml").write_text(first["yaml"])
    assert "`examples/anomalies.yaml`" in (ROOT / "README.md").read_text()
    check(first["console"])
    session(first["python"], {})


def session(text, names):
    """Python says what the page says; names stay for the next block."""
    test = doctest.DocTestParser().get_doctest(text, names, "page", "page", 0)
    problems = []
    doctest.DocTestRunner().run(test, out=problems.append, clear_globs=False)
    assert test.examples and not problems, "".join(problems)
    names |= test.globs


def check(text):
    """Each command prints what the page says; `...` stands for anything."""
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.M)
    assert commands
    for command, printed in commands:
        done = subprocess.run(
            command,
            shell=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=harness.TIMEOUT,
            check=False,
        )
        killed = command.startswith("timeout -s KILL")
        assert done.returncode == 0 or killed and done.returncode in (137, -9), f"{command}\n{done.stdout}"
        wanted = re.escape(printed.rstrip()).replace(r"\.\.\.", ".*")
        assert re.fullmatch(wanted, done.stdout.rstrip(), re.S), f"the page does not say what {command!r} prints:\n{done.stdout}"


def test_install():
    """The folder and the name that are installed."""
    for page in (TUTORIAL, ROOT / "README.md"):
        assert "cargo install --locked --path crates/cli" in page.read_text()
    manifest = (ROOT / "crates/cli/Cargo.toml").read_text()
    assert re.search(r'\[\[bin\]\]\nname = "chunkwise"', manifest)
