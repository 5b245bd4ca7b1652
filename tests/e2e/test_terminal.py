"""What reaches a terminal: text of others does nothing in it, secrets are not repeated, and a full device is an error and no panic."""

import json
import os
import pty
import re
import subprocess

import numpy as np
import pytest
import zarr
from harness import binary, chunkwise, write_array, write_pipeline

# Rename the window, go up and clear the line, a bell, a sequence in one character (C1), text that turns around.
EVIL = "\x1b]0;owned\x07\x1b[1A\x1b[2Kall is well\r\x9b31m\u202egnp\x7f"
SHOWN = "\\u001b]0;owned\\u0007\\u001b[1A"
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
MEM = ["--allowed-mem", "300MB"]


def quiet(done):
    for text in (done.stdout, done.stderr):
        assert not ACTS.search(text), repr(text)
    return done


@pytest.fixture
def evil(tmp_path):
    """A group whose every text is hostile."""
    x = np.arange(12.0).reshape(3, 4)
    group = zarr.create_group(str(tmp_path / "in.zarr"), attributes={"title": EVIL, EVIL: "x"})
    attributes = {"units": EVIL, "long_name": EVIL, EVIL: [EVIL]}
    write_array(tmp_path / "in.zarr/x", x, (3, 4), [EVIL, "lon"], attributes)
    write_array(tmp_path / "in.zarr/lon", np.arange(4.0), None, ["lon"], {"units": EVIL})
    group.create_array("names", data=np.array([EVIL, "b"]), dimension_names=["n"])
    return tmp_path


def test_texts_of_a_store(evil):
    assert SHOWN in quiet(chunkwise("info", evil / "in.zarr").ok()).stdout
    found = quiet(chunkwise("info", evil / "in.zarr", "--json").ok())
    assert json.loads(found.stdout)[0]["attributes"]["title"] == EVIL
    # As bytes, so that a carriage return is not read as the end of a line.
    assert b"\r" not in subprocess.run([binary(), "info", evil / "in.zarr"], capture_output=True).stdout
    for args in ([], ["--select", "lon=1"], ["--select", "0=1,lon=1"], ["--json"]):
        quiet(chunkwise("show", evil / "in.zarr/x", *args))
    quiet(chunkwise("show", evil / "in.zarr/x", "-o", evil / "x.txt").ok())
    assert not ACTS.search((evil / "x.txt").read_text())
    quiet(chunkwise("rechunk", evil / "in.zarr/x", evil / "y.zarr", "--chunks", "nothing=1").failed("no dimension"))
    quiet(chunkwise("verify", evil / "in.zarr").ok())
    # With colours, of which all are our own.
    done = chunkwise("show", evil / "in.zarr/x", env={"NO_COLOR": "", "CLICOLOR_FORCE": "1"}).ok()
    assert "\x1b[" in done.stdout
    quiet(type(done)(0, re.sub("\x1b\\[[0-9;]*m", "", done.stdout), done.stderr))


def test_texts_of_a_pipeline(evil):
    """Names, expressions and excerpts of the file, in messages, plans and progress."""
    def run(document, *args):
        (evil / "p.json").write_text(json.dumps(document))
        return quiet(chunkwise(*args, evil / "p.json", *MEM))

    good = {"inputs": {"x": "in.zarr/x"}, "outputs": {f"out{EVIL}.zarr": "x * 2"}, "spec": {"work_dir": "work"}}
    for args in (["plan"], ["plan", "--explain"], ["plan", "--format", "dot"], ["plan", "--format", "json"], ["run"]):
        run(good, *args)
    run({**good, "inputs": {"x": f"no{EVIL}.zarr"}}, "run").failed("no")
    run({**good, "outputs": {"o.zarr": f'mean(x, dim="no{EVIL}")'}}, "run").failed()
    run({**good, "outputs": {"o.zarr": f"x + {EVIL}"}}, "run", "--json").failed()
    run({**good, EVIL: 1}, "run").failed("unknown key")
    yaml = evil / "p.yaml"
    yaml.write_text('inputs:\n  x: in.zarr/x\noutputs:\n  o.zarr: "x + \u009b31m\u202e nothing"\n')
    quiet(chunkwise("run", yaml, *MEM).failed())
    (evil / "plan.json").write_text('{"format": "chunkwise-plan/1", "\\u001b]0;x": 1}')
    quiet(chunkwise("run", evil / "plan.json").failed())
    quiet(chunkwise("worker", "--plan", f"{evil}/{EVIL}.json", "--stage", "0").failed())


def test_on_a_real_terminal(evil):
    """The progress bar and the colours are there, and nothing of the store's."""
    (evil / "p.json").write_text(json.dumps({"inputs": {"x": "in.zarr/x"}, "outputs": {"o\u202e.zarr": "x * 2"}, "spec": {"work_dir": "work"}}))
    ours, theirs = pty.openpty()
    process = subprocess.Popen([binary(), "run", evil / "p.json", *MEM], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 1 << 16)
        except OSError:
            break
        if not data:
            break
        seen += data
    os.close(ours)
    assert process.wait() == 0, seen
    text = seen.decode()
    assert "\x1b]0;" not in text and "\x07" not in text and "\x9b" not in text and "\u202e" not in text
    assert "wrote" in text and "\\u202e.zarr" in text


PASSWORDS = {
    "an input": {"inputs": {"x": "https://me:hunter2@example.org/x.zarr"}},
    "an output": {"outputs": {"s3://me:hunter2@bucket/x.zarr": "x"}},
    "a signature": {"inputs": {"x": "https://example.org/x.zarr?sig=hunter2&se=1"}},
    "a work directory": {"spec": {"work_dir": "s3://me:hunter2@bucket/x"}},
    "an endpoint": {"spec": {"storage": {"s3://": {"endpoint": "https://me:hunter2@example.org"}}}},
    "a prefix": {"spec": {"storage": {"s3://me:hunter2@bucket": {"region": "eu-west-1"}}}},
}


@pytest.mark.parametrize("place", PASSWORDS)
def test_passwords_are_not_repeated(tmp_path, place):
    write_array(tmp_path / "in.zarr", np.arange(4.0))
    document = {"inputs": {"x": "in.zarr"}, "outputs": {"out.zarr": "x"}, **PASSWORDS[place]}
    path = tmp_path / "p.json"
    path.write_text(json.dumps(document))
    for args in ([], ["--json"]):
        done = chunkwise("run", path, *MEM, *args).failed("***")
        assert "hunter2" not in done.stdout + done.stderr and done.code == 2


@pytest.mark.parametrize(
    "args",
    [["info", "https://me:hunter2@example.org/x"], ["verify", "https://example.org/x?sig=hunter2"], ["run", "https://me:hunter2@example.org/p.yaml"],
     ["run", "p.json", "--allow", "endpoint=https://me:hunter2@example.org"], ["clean", "s3://me:hunter2@bucket"],
     ["worker", "--plan", "s3://me:hunter2@bucket/plan.json", "--stage", "0"]],
)  # fmt: skip
def test_passwords_of_the_command_line_are_not_repeated(args):
    done = chunkwise(*args).failed()
    assert "hunter2" not in done.stdout + done.stderr


FULL = [
    (["functions"], True), (["functions", "nothing"], False), (["--help"], True), (["run", "--help"], True), (["--version"], True), (["info", "in.zarr"], True),
    (["info", "in.zarr", "--json"], True), (["info", "nothing", "--json"], True), (["info", "nothing"], False), (["show", "in.zarr"], True), (["plan", "pipeline.json"], True),
    (["plan-schema"], True), (["completions", "bash"], True), (["run", "pipeline.json", "--dry-run"], True), (["run", "pipeline.json", "--json", "--overwrite"], True),
    (["run", "pipeline.json", "--overwrite"], False), (["run"], False), (["verify", "in.zarr"], True),
]  # fmt: skip


@pytest.mark.parametrize(("args", "writes"), FULL, ids=[" ".join(a) for a, _ in FULL])
def test_a_full_device(tmp_path, args, writes):
    """Standard output that cannot be written fails the command; standard error that cannot be changes nothing."""
    write_array(tmp_path / "in.zarr", np.arange(8.0))
    write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out.zarr": "x * 2"})
    usual = subprocess.run([binary(), *args], cwd=tmp_path, capture_output=True).returncode
    with open("/dev/full", "w") as full:
        for out, err in ((full, subprocess.PIPE), (subprocess.PIPE, full), (full, full)):
            done = subprocess.run([binary(), *args], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            wanted = usual if out is not full or not writes else (usual or 1)
            assert done.returncode == wanted, (done.returncode, out is full, err is full, done.stderr)
            assert b"panicked" not in (done.stderr or b"")
