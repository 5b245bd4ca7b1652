"""What people and programs are told when something is wrong: messages, JSON, exit codes, and what is said before anything runs."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import time
from xml.etree import ElementTree

import numpy as np
import pytest
import zarr
from harness import binary, chunkwise, values, write_array, write_large, write_pipeline
from PIL import Image, ImageFont


@pytest.fixture
def folder(tmp_path):
    write_array(tmp_path / "in.zarr/x", values(1, (40, 30), "float64"), (10, 30), ["time", "space"], {"units": "m s-1"})
    return tmp_path


def pipeline(folder, arrays=None, outputs=None, **spec):
    return write_pipeline(folder, {"x": "in.zarr/x"}, arrays or {"y": "x + 1"}, outputs or {"out.zarr/y": "y"}, spec=spec)


def error(done, kind, code):
    """What a program is told: one JSON object and nothing else. People are told the same on standard error."""
    assert "panicked" not in done.stderr, done.stderr
    told = json.loads(done.stdout)
    found = told["error"]
    assert (found["kind"], found["exit_code"], done.code) == (kind, code, code), (done.stdout, done.stderr)
    flat = " ".join(done.stderr.replace("│", "").split())
    assert " ".join(found["message"].split()) in flat, (found["message"], flat)
    return found


# Failures as JSON


def test_a_wrong_command_line_as_json(folder):
    path = pipeline(folder)
    found = error(chunkwise("run", path, "--json", "--overwrit"), "usage", 2)
    assert "--overwrite" in found["hint"]
    error(chunkwise("--json", "frobnicate"), "usage", 2)
    error(chunkwise("functions", "meen", "--json"), "usage", 2)
    error(chunkwise("rechunk", folder / "in.zarr/x", folder / "out.zarr", "--chunks", "tme=5", "--json"), "usage", 2)
    error(chunkwise("show", folder / "in.zarr/x", "--select", "tme=5", "--json"), "usage", 2)
    error(chunkwise("clean", folder / "work", "--run", "nothing", "--json"), "usage", 2)
    # Without --json standard output stays empty.
    assert chunkwise("run", path, "--overwrit").stdout == ""


def test_a_wrong_pipeline_as_json(folder):
    path = pipeline(folder, {"y": "x + z"})
    found = error(chunkwise("plan", path, "--json"), "pipeline", 2)
    line = next(i for i, text in enumerate(path.read_text().splitlines(), 1) if "x + z" in text)
    assert found["where"]["file"] == str(path) and found["where"]["line"] == line
    path.write_text(path.read_text().replace("x + z", "meen(x)"))
    assert "mean" in error(chunkwise("plan", path, "--json"), "pipeline", 2)["hint"]


def test_what_a_pipeline_names_as_json(folder):
    path = write_pipeline(folder, {"x": "nowhere.zarr"}, {"y": "x + 1"}, {"out.zarr/y": "y"})
    where = error(chunkwise("plan", path, "--json"), "not_found", 2)["where"]
    assert where["url"] == str(folder / "nowhere.zarr") and where["line"] == 3
    error(chunkwise("info", folder / "nowhere.zarr", "--json"), "not_found", 1)
    error(chunkwise("verify", folder / "nowhere.zarr", "--json"), "not_found", 1)
    error(chunkwise("run-task", folder / "nowhere.json", 0, 0, "--json"), "refused", 2)


def test_a_budget_as_json(folder):
    found = error(chunkwise("plan", pipeline(folder), "--json", "--allowed-mem", "67.2MB"), "budget", 2)
    assert "--allowed-mem" in found["hint"] and found["where"]["stage_name"]


def test_outputs_that_exist_as_json(folder):
    path = pipeline(folder)
    chunkwise("run", path).ok()
    found = error(chunkwise("run", path, "--json"), "output_exists", 2)
    assert found["where"]["url"] == str(folder / "out.zarr/y")


@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_a_task_as_json(folder, executor):
    chunk = folder / "in.zarr/x/c/2/0"
    chunk.write_bytes(chunk.read_bytes()[:100])
    done = chunkwise("run", pipeline(folder), "--json", "--executor", executor, "--workers", 1)
    found = error(done, "damaged" if executor == "threads" else "task", 1)
    assert found["where"]["stage"] == 0 and isinstance(found["where"]["task"], int) and found["resumable"]
    if executor == "threads":
        assert found["where"]["url"] == str(folder / "in.zarr/x") and found["where"]["chunk"] == "c/2/0"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal(tmp_path, number):
    array = zarr.create_array(str(tmp_path / "in.zarr/x"), shape=(400, 400, 100), chunks=(1, 400, 100), dtype="float64", compressors=None)
    array[...] = np.random.default_rng(1).random((400, 400, 100))
    path = pipeline(tmp_path, {"y": "sin(cos(sin(cos(sin(x)))))"})
    run = [binary(), "run", str(path), "--workers", "1", "--json"]
    process = subprocess.Popen(run, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "out.zarr/y").exists():
            assert process.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        process.send_signal(number)
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    found = json.loads(out)["error"]
    assert (found["kind"], found["resumable"], found["exit_code"], process.returncode) == ("cancelled", True, 128 + number, 128 + number), errors
    chunkwise("run", path, "--resume").ok()


def test_results_as_json(folder):
    path = pipeline(folder)
    assert json.loads(chunkwise("plan", path, "--json").ok().stdout) == json.loads(chunkwise("plan", path, "--format", "json").ok().stdout)
    chunkwise("plan", path, "--json", "--format", "dot").failed("--format dot")
    run = json.loads(chunkwise("run", path, "--json").ok().stdout)["id"]
    assert json.loads(chunkwise("functions", "mean", "--json").ok().stdout)["signature"].startswith("mean(x")
    assert {"name": "mean"}.items() <= next(f for f in json.loads(chunkwise("functions", "--json").ok().stdout)["functions"] if f["name"] == "mean").items()
    assert [r["run"] for r in json.loads(chunkwise("clean", folder / "work", "--json").ok().stdout)["runs"]] == [run]
    assert json.loads(chunkwise("clean", folder / "work", "--run", run, "--json").ok().stdout)["runs"][0]["removed"]
    shown = json.loads(chunkwise("show", folder / "in.zarr/x", "--json").ok().stdout)
    assert shown["units"] == "m s-1" and shown["shape"] == [40, 30] and shown["least"] < shown["greatest"]


# Verify


def test_verify_of_a_sparse_store(tmp_path):
    array = zarr.create_array(str(tmp_path / "s.zarr"), shape=(40,), chunks=(10,), dtype="float64", fill_value=0)
    array[:20] = 1
    done = chunkwise("verify", tmp_path / "s.zarr").ok()
    assert "cannot tell of 2 chunks" in done.stdout and "2 chunks are there and whole; of 2 it cannot be told" in done.stdout
    told = json.loads(chunkwise("verify", tmp_path / "s.zarr", "--json").ok().stdout)
    assert (told["whole"], told["problems"], told["cannot_tell"]) == (2, [], {str(tmp_path / "s.zarr"): 2})
    # What is there must be whole all the same.
    chunk = tmp_path / "s.zarr/c/0"
    chunk.write_bytes(chunk.read_bytes()[:7])
    done = chunkwise("verify", tmp_path / "s.zarr", "--json")
    error(done, "damaged", 1)
    assert len(json.loads(done.stdout)["problems"]) == 1


# Numbers on the command line


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--allowed-mem", "-1GB", "cannot be negative"),
        ("--allowed-mem", "5", "too small"),
        ("--allowed-mem", "0", "too small"),
        ("--allowed-mem", "abc", "such as 500MB or 2GiB"),
        ("--allowed-mem", "", "such as 500MB or 2GiB"),
        ("--allowed-mem", "1 XB", "such as 500MB or 2GiB"),
        ("--workers", "0", "from 1 to 4096"),
        ("--workers", "-1", "from 1 to 4096"),
        ("--workers", "two", "from 1 to 4096"),
        ("--workers", "1.5", "from 1 to 4096"),
        ("--backups", "-3", "from 0 to 100"),
        ("--task-timeout", "-3", "more than 0"),
    ],
)
def test_numbers_that_are_none(folder, option, value, said):
    done = chunkwise("run", pipeline(folder), option, value).failed(said)
    assert done.code == 2
    assert option in done.stderr or option == "--allowed-mem" and "allowed memory" in done.stderr
    assert not (folder / "out.zarr").exists()


@pytest.mark.parametrize("value", ["1 GB", "1gib", "1.5GB", "500mb", "2000000000"])
def test_sizes(folder, value):
    chunkwise("plan", pipeline(folder), "--allowed-mem", value).ok()


# Show


def test_show_writes_what_the_name_says(folder):
    x = folder / "in.zarr/x"
    chunkwise("show", x, "-o", folder / "p.png").ok()
    with Image.open(folder / "p.png") as image:
        assert image.format == "PNG"
    chunkwise("show", x, "-o", folder / "p.TXT").ok()
    text = (folder / "p.TXT").read_text()
    assert "\x1b" not in text and "least" in text and "space" in text
    for name in ["p.svg", "p.jpg", "p", "p.html"]:
        done = chunkwise("show", x, "-o", folder / name).failed(name, ".png", ".txt")
        assert done.code == 2 and not (folder / name).exists()
    chunkwise("show", x, "-o", folder / "none/p.png").failed("none/p.png", "no such file")


def test_show_names_the_units(folder):
    x = folder / "in.zarr/x"
    legend = chunkwise("show", x).ok().stdout.rstrip().splitlines()[-1]
    assert legend.endswith(" m s-1"), legend
    # Above the bar of the picture: with units there is more ink, and nowhere else but in the title and there.
    write_array(folder / "bare.zarr/x", zarr.open_array(str(x))[...], (10, 30), ["time", "space"], {"long_name": "longer than the units"})
    chunkwise("show", x, "-o", folder / "with.png").ok()
    chunkwise("show", folder / "bare.zarr/x", "-o", folder / "without.png").ok()
    bar = lambda name: (np.asarray(Image.open(folder / name).convert("L"))[58:74, -110:] < 128).sum()  # noqa: E731
    assert bar("with.png") > 20 and bar("without.png") == 0


# Pipeline files in YAML

GOOD = """\
inputs:
  x: in.zarr/x
arrays:
  y: mean(x, dim="time")
outputs:
  out.zarr/y:
    array: y
    chunks: {space: 10}
"""

MISTAKES = {
    "too far in": ("  x: in.zarr/x\n", "  x: in.zarr/x\n   z: in.zarr/x\n", 3, ["line 3", "3 spaces", "line 2", "2 spaces"], "indent 'z'"),
    "not far enough": ("  x: in.zarr/x\n", "  x: in.zarr/x\n z: in.zarr/x\n", 3, ["line 3", "1 space", "(0, 2)"], "same column"),
    "nested too far": ("    chunks", "      chunks", 8, ["line 8", "6 spaces", "4 spaces"], "indent 'chunks'"),
    "not indented": ("  x: in", "x: in", 2, ["unknown key 'x'"], "belongs to 'inputs'"),
    "a tab": ("  x: in", "\tx: in", 2, ["tab", "only spaces"], "write spaces"),
    "a tab deeper": ("    chunks", "    \tchunks", 8, ["tab"], "write spaces"),
    "no space": ("x: in.zarr/x", "x:in.zarr/x", 2, ["'inputs' must be a mapping"], "write `x: in.zarr/x`"),
    "no space later": ("  x: in.zarr/x\n", "  x: in.zarr/x\n  z:in.zarr/x\n", 3, ["line 3", "no space after the colon"], "write `z: in.zarr/x`"),
    "no colon": ("x: in.zarr/x", "x in.zarr/x", 2, ["'inputs' must be a mapping"], "write `x: in.zarr/x`"),
    "no colon later": ("  x: in.zarr/x\n", "  x: in.zarr/x\n  z in.zarr/x\n", 3, ["line 3", "no colon after the name"], "write `z: in.zarr/x`"),
    "an equals sign": ("  x: in.zarr/x\n", "  x: in.zarr/x\n  z = in.zarr/x\n", 3, ["line 3", "no colon"], "write `z: in.zarr/x`"),
    "a list": ("  x: in", "  - x: in", 2, ["'inputs' must be a mapping, not a list"], "`NAME: VALUE`"),
    "a list of outputs": ("  out.zarr/y:\n    array: y\n    chunks: {space: 10}", "  - out.zarr/y: y", 6, ["'outputs' must be a mapping, not a list"], "`NAME: VALUE`"),
    "a section twice": ("arrays:", "inputs:\n  z: in.zarr/x\narrays:", 3, ["'inputs' is given twice"], None),
    "a name twice": ("  x: in.zarr/x\n", "  x: in.zarr/x\n  x: in.zarr/x\n", 3, ["'x' is defined twice"], None),
    "an output twice": ("outputs:\n", "outputs:\n  out.zarr/y: x\n", 7, ["'out.zarr/y' is given twice"], None),
    "a star": ("y: mean", "y: *mean", 4, ["begins with *", "quotes"], """`y: '*mean(x, dim="time")'`"""),
    "per cent": ("y: mean", "y: %mean", 4, ["begins with %", "quotes"], "`y: '%mean"),
    "a list before an operator": ('mean(x, dim="time")', "[1, 2] + x", 4, ["takes what begins with [ for a list"], "`y: '[1, 2] + x'`"),
    "a brace": ('mean(x, dim="time")', "{x}", 4, ["must be text, not a mapping"], "'{x}'"),
    "a text before an operator": ('mean(x, dim="time")', '"a" == x', 4, ["text in quotes"], """`y: '"a" == x'`"""),
    "a block": ('mean(x, dim="time")', "> x", 4, ["begins with >"], "`y: '> x'`"),
    "an exclamation mark": ('mean(x, dim="time")', "!x", 4, ["begins with & or !"], "quotes"),
    "a second colon": ('mean(x, dim="time")', "x[time: 0]", 4, ["second colon"], "`y: 'x[time: 0]'`"),
    "two keys in a line": ("inputs:\n  x: in", "inputs: x: in", 1, ["second colon"], "`x:` on a line of its own"),
    "an open brace": ("10}", "10", 8, ["the bracket { is not closed"], "add a }"),
    "an open quote": ("in.zarr/x", '"in.zarr/x', 2, ['the quote " is not closed'], 'add a "'),
    "an open parenthesis": ('"time")', '"time"', 4, ["parenthesis is not closed"], "add a ')'"),
    "a section by another name": ("inputs:", "input:", 1, ["unknown key 'input'"], "did you mean 'inputs'?"),
    "a key of an output": ("chunks:", "chunk:", 8, ["unknown key 'chunk'"], "did you mean 'chunks'?"),
    "a key of the spec": ("outputs:", "spec:\n  alowed_mem: 1GB\noutputs:", 6, ["unknown key 'alowed_mem'"], "did you mean 'allowed_mem'?"),
    "no expression": ('mean(x, dim="time")', "", 4, ["must be text, not nothing"], "after the colon"),
    "an attribute twice": ("{space: 10}", "{space: 10}\n    attributes: {a: 1, a: 2}", 9, ["attribute 'a' is given twice"], None),
}


def test_the_pipeline_without_mistakes(folder):
    (folder / "p.yaml").write_text(GOOD)
    chunkwise("run", folder / "p.yaml", "--work-dir", folder / "work").ok()


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_in_yaml(folder, mistake):
    before, after, line, said, hint = MISTAKES[mistake]
    assert GOOD.count(before) == 1 or mistake in ("an open quote",), mistake
    (folder / "p.yaml").write_text(GOOD.replace(before, after, 1))
    done = chunkwise("plan", folder / "p.yaml", "--json")
    found = error(done, "pipeline", 2)
    for part in said:
        assert part in found["message"], found
    assert found["where"]["line"] == line, found
    assert (hint is None) == ("hint" not in found) and (hint or "") in found.get("hint", ""), found
    # People see the line itself.
    assert GOOD.replace(before, after, 1).splitlines()[line - 1].strip().replace("\t", "") in done.stderr.replace("│", ""), done.stderr


def test_advice_of_yaml_mistakes_is_right(folder):
    """Where a message says what to write, writing it helps."""
    for before, after, advice in [("x: in.zarr/x", "x:in.zarr/x", "x: in.zarr/x"), ("x: in.zarr/x", "x in.zarr/x", "x: in.zarr/x")]:
        (folder / "p.yaml").write_text(GOOD.replace(before, after, 1))
        assert advice in error(chunkwise("plan", folder / "p.yaml", "--json"), "pipeline", 2)["hint"]
        (folder / "p.yaml").write_text(GOOD.replace(before, advice, 1))
        chunkwise("plan", folder / "p.yaml").ok()


def test_no_text_breaks_the_advice(folder):
    rng = np.random.default_rng()
    seed = int(rng.integers(2**32))
    rng = np.random.default_rng(seed)
    alphabet = list("\t :-[]{}'\"#*&!%@`|>é\n\r,x0")
    for _ in range(60):
        text = GOOD
        for _ in range(int(rng.integers(1, 4))):
            at = int(rng.integers(len(text)))
            text = text[:at] + str(rng.choice(alphabet)) * int(rng.integers(0, 3)) + text[at + int(rng.integers(0, 2)) :]
        (folder / "p.yaml").write_text(text)
        done = chunkwise("plan", folder / "p.yaml", "--json")
        assert "panicked" not in done.stderr and done.code in (0, 2), (seed, text, done.stderr)


# Places that cannot be used, found before anything runs


# Root may do everything, unless it gives that up.
SOMEBODY = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()


@pytest.fixture
def owned(folder):
    (folder / "out").mkdir()
    pipeline(folder, outputs={"out/y.zarr": "y"}, work_dir=str(folder / "work"))
    yield folder
    for p in folder.rglob("*"):
        if p.is_dir():
            p.chmod(0o755)


def refused_at_once(folder, kind, what, place):
    done = chunkwise("run", folder / "pipeline.json", "--json", prefix=SOMEBODY)
    found = error(done, kind, 2)
    assert what in found["message"] and str(place) in found["message"], found
    assert "nothing was computed" in found["message"]
    assert not list(folder.glob("work/*/events*")) and not (folder / "out/y.zarr/c").exists()
    return found


def test_an_output_that_cannot_be_written(owned):
    (owned / "out").chmod(0o555)
    found = refused_at_once(owned, "permission_denied", "an output cannot be written", owned / "out")
    assert found["where"]["url"] == str(owned / "out/y.zarr") and "ermission denied" in found["message"]
    (owned / "out").chmod(0o755)
    chunkwise("run", owned / "pipeline.json", prefix=SOMEBODY).ok()


def test_an_output_below_a_file(owned):
    (owned / "out").rmdir()
    (owned / "out").write_text("a file")
    assert "is a file" in refused_at_once(owned, "permission_denied", "an output cannot be written", owned / "out")["message"]


def test_what_would_be_replaced_stays(owned):
    """It is found before anything is deleted."""
    chunkwise("run", owned / "pipeline.json", prefix=SOMEBODY).ok()
    for p in (owned / "in.zarr/x/c").rglob("*"):
        if p.is_file():
            p.chmod(0o000)
    done = chunkwise("run", owned / "pipeline.json", "--overwrite", "--json", prefix=SOMEBODY)
    found = error(done, "permission_denied", 2)
    assert "an input cannot be read" in found["message"] and str(owned / "in.zarr/x/c") in found["message"]
    assert "chunks are there and whole" in chunkwise("verify", owned / "out/y.zarr").ok().stdout


def test_a_group_that_cannot_be_written(owned):
    """Coordinates and metadata would fail at the end, after the old output is gone."""
    path = pipeline(owned, outputs={"out/g.zarr/y": "y"}, work_dir=str(owned / "work"))
    chunkwise("run", path, prefix=SOMEBODY).ok()
    (owned / "out/g.zarr").chmod(0o555)
    found = error(chunkwise("run", path, "--overwrite", "--json", prefix=SOMEBODY), "permission_denied", 2)
    assert "an output cannot be written" in found["message"] and found["where"]["url"] == str(owned / "out/g.zarr")
    assert "chunks are there and whole" in chunkwise("verify", owned / "out/g.zarr").ok().stdout


def test_metadata_that_cannot_be_read(owned):
    (owned / "in.zarr/x/zarr.json").chmod(0o000)
    done = chunkwise("run", owned / "pipeline.json", "--json", prefix=SOMEBODY)
    found = error(done, "permission_denied", 2)
    assert found["where"]["file"] == str(owned / "pipeline.json") and "in.zarr/x" in found["where"]["url"]


def test_a_work_directory_that_cannot_be_written(owned):
    (owned / "work").mkdir(mode=0o555)
    refused_at_once(owned, "permission_denied", "the work directory cannot be written", owned / "work")


@pytest.mark.parametrize("locked", ["c", "c/2"])
def test_an_input_that_cannot_be_read(owned, locked):
    folders = [owned / "in.zarr/x" / locked] if locked == "c" else list((owned / "in.zarr/x/c").iterdir())
    for p in folders:
        p.chmod(0o000)
    refused_at_once(owned, "permission_denied", "an input cannot be read", owned / "in.zarr/x/c")


# An edited pipeline with --resume


WRITTEN = """
inputs: {x: in.zarr/x}
parameters: {k: 2}
arrays:
  y: x + k
  z: y * y
outputs:
  out.zarr/z: {array: z, codec: zstd, chunks: {time: 10, space: 30}}
spec: {allowed_mem: 300MB, workers: 2, work_dir: work}
"""


@pytest.fixture
def unfinished(folder):
    """A run that has failed at its last chunk, which is whole now."""
    chunk = folder / "in.zarr/x/c/3/0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:100])
    file = folder / "p.yaml"
    file.write_text(WRITTEN)
    chunkwise("run", file, "--workers", 1).failed("c/3/0", "--resume")
    chunk.write_bytes(whole)
    assert list((folder / "out.zarr/z").rglob("c/*/*"))
    return file


EDITS = {
    "an expression": ("y * y", "y * k", ["array z was `y * y`, is `y * k`"]),
    "a parameter": ("{k: 2}", "{k: 3}", ["parameter k was `2`, is `3`"]),
    "a new array": ("  y: x + k", "  y: x + w\n  w: k * 2", ["array y was `x + k`, is `x + w`", "array w is new: `k * 2`"]),
    "the budget": ("300MB", "200MB", ["the allowed memory was 300.0 MB, is 200.0 MB"]),
    "workers": ("workers: 2", "workers: 3", ["planned for 2 tasks at once, is for 3"]),
    "chunks": ("{time: 10", "{time: 20", ["out.zarr/z': the chunk shape was 10 x 30, is 20 x 30"]),
    "the codec": ("codec: zstd", "codec: gzip", ["out.zarr/z': the codec was zstd, level 3, is gzip, level 5"]),
    "the input": ("in.zarr/x", "other.zarr/x", ["input x was `in.zarr/x`, is `other.zarr/x`"]),
}


@pytest.mark.parametrize("edit", EDITS)
def test_resume_says_what_was_edited(unfinished, edit):
    before, after, said = EDITS[edit]
    folder = unfinished.parent
    write_array(folder / "other.zarr/x", values(2, (40, 30), "float64"), (10, 30), ["time", "space"])
    text = unfinished.read_text()
    assert text.count(before) == 1
    unfinished.write_text(text.replace(before, after))
    found = error(chunkwise("run", unfinished, "--resume", "--json"), "pipeline_changed", 2)
    assert len(found["where"]["changes"]) == len(said), found
    for part in said:
        assert any(part in change for change in found["where"]["changes"]) and part in found["message"], found
    assert "--overwrite" in found["message"] and found["where"]["url"] == str(folder / "out.zarr/z")
    assert found["where"]["run"] in found["message"]
    # What it says to do works: undone, the run goes on, and --overwrite begins anew.
    unfinished.write_text(text)
    assert chunkwise("run", unfinished, "--resume", "--json").ok().report["skipped"] > 0
    unfinished.write_text(text.replace(before, after))
    chunkwise("run", unfinished, "--overwrite").ok()


def test_resume_with_another_budget_on_the_command_line(unfinished):
    found = error(chunkwise("run", unfinished, "--resume", "--allowed-mem", "1GB", "--json"), "pipeline_changed", 2)
    assert found["where"]["changes"] == ["the allowed memory was 300.0 MB, is 1.0 GB"]


def test_resume_with_another_shape_of_the_input(unfinished):
    folder = unfinished.parent
    shutil.rmtree(folder / "in.zarr/x")
    write_array(folder / "in.zarr/x", values(1, (50, 30), "float32"), (10, 30), ["time", "space"])
    changes = " ".join(error(chunkwise("run", unfinished, "--resume", "--json"), "pipeline_changed", 2)["where"]["changes"])
    assert "in.zarr/x': the shape was 40 x 30, is 50 x 30" in changes and "the dtype was float64, is float32" in changes, changes


def test_resume_in_another_work_directory(unfinished):
    found = error(chunkwise("run", unfinished, "--resume", "--work-dir", unfinished.parent / "elsewhere", "--json"), "no_run", 2)
    assert "--work-dir" in found["message"] and str(unfinished.parent / "elsewhere") in found["message"]


def test_resume_of_what_left_no_chunk(unfinished):
    """Nothing is in the way, so everything is computed, and why is said."""
    shutil.rmtree(unfinished.parent / "out.zarr")
    unfinished.write_text(unfinished.read_text().replace("y * y", "y * k"))
    done = chunkwise("run", unfinished, "--resume").ok()
    assert "nothing of run" in done.stderr and "array z was `y * y`, is `y * k`" in done.stderr
    assert "(0 done before)" in done.stderr


def test_resume_without_the_words_of_a_pipeline(unfinished):
    """Plans that were made elsewhere have no expressions: what is computed is compared."""
    (definitions,) = unfinished.parent.glob("work/*/definitions.json")
    definitions.unlink()
    unfinished.write_text(unfinished.read_text().replace("y * y", "y * k"))
    changes = error(chunkwise("run", unfinished, "--resume", "--json"), "pipeline_changed", 2)["where"]["changes"]
    assert changes == [f"what is computed for '{unfinished.parent / 'out.zarr/z'}' has changed"]


# The picture of a plan


FONTS = pathlib.Path("/usr/share/fonts/truetype/dejavu")


def drawn(text, bold):
    """The widest that a text of 12 pixels gets in monospaced fonts and, if it is made of words, in a usual proportional one."""
    kinds = ["Mono"] if "www" in text else ["Mono", ""]
    fonts = [FONTS / f"DejaVuSans{kind}{'-Bold' if bold else ''}.ttf" for kind in kinds]
    measured = [ImageFont.truetype(str(f), 12).getlength(text) for f in fonts if f.exists()]
    letters = sum(12 if ord(c) > 0x2E80 else 7.3 for c in text)
    return max([letters, *measured])


@pytest.mark.parametrize("name", ["temperature_anomaly_of_1991_to_2020", "気温の偏差と年平均の差の標準偏差と最大値", "w" * 60])
def test_text_stays_in_its_box(folder, name):
    path = pipeline(folder, {name: 'x - mean(x, dim="time")'}, {f"out.zarr/{name}": name})
    picture = ElementTree.fromstring(chunkwise("plan", path, "--format", "svg").ok().stdout)
    svg = "{http://www.w3.org/2000/svg}"
    boxes = 0
    for group in picture.iter(f"{svg}g"):
        rect = group.find(f"{svg}rect")
        right, bottom = (float(rect.get(a)) + float(rect.get(b)) for a, b in (("x", "width"), ("y", "height")))
        for text in group.iter(f"{svg}text"):
            boxes += 1
            end = float(text.get("x")) + drawn(text.text, text.get("class") == "name")
            assert end < right - 4 and float(text.get("y")) + 4 < bottom, (text.text, end, right)
        assert right <= float(picture.get("width")) and bottom <= float(picture.get("height"))
    assert boxes > 10
    last = picture.findall(f"{svg}text")[-1]
    assert float(last.get("x")) + drawn(last.text, False) < float(picture.get("width"))


# Names of stages


def names(path, *args):
    plan = json.loads(chunkwise("plan", path, "--json", *args).ok().stdout)
    return [stage["name"] for stage in plan["stages"]]


def test_stages_are_named_after_arrays(folder):
    write_large(folder, "big", 1)
    path = write_pipeline(
        folder, {"x": "in.zarr/big"}, {"a": "x - mean(x)"}, {"out.zarr/anomaly": "a", "other.zarr/most": "max(x)"}, spec={"workers": 8}
    )
    assert names(path) == ["most, anomaly: mean and max 1/2", "most, anomaly: mean and max 2/2", "anomaly"]
    # And so are the lines of a run.
    done = chunkwise("run", path, "--allowed-mem", "500MB").ok()
    assert "'most, anomaly: mean and max 1/2'" in done.stderr and "'anomaly'" in done.stderr


def test_a_stage_of_one_fold(folder):
    write_large(folder, "big", 1)
    path = write_pipeline(folder, {"x": "in.zarr/big"}, {"a": "x - mean(sqrt(x))"}, {"out.zarr/anomaly": "a"}, spec={"workers": 8})
    assert names(path) == ["anomaly: mean 1/2", "anomaly: mean 2/2", "anomaly"]


def test_a_rechunk_for_an_output_has_its_name(folder):
    path = pipeline(folder, {"y": "x"}, {"out.zarr/tall": {"array": "x", "chunks": {"time": -1, "space": 1}}})
    assert names(path) == ["tall"]


def test_a_failure_names_the_stage(folder):
    chunk = folder / "in.zarr/x/c/2/0"
    chunk.write_bytes(chunk.read_bytes()[:100])
    done = chunkwise("run", pipeline(folder, {"y": "x - mean(x)"}, {"out.zarr/anomaly": "y"}), "--json", "--workers", 1)
    found = error(done, "damaged", 1)
    assert found["where"]["stage_name"].startswith("anomaly") and f"stage 0 '{found['where']['stage_name']}', task" in found["message"]


# Expressions of people who know other languages


@pytest.mark.parametrize(
    ("expression", "message", "hint"),
    [
        ("mean(x, dim=time)", "'time' is not defined", 'dim="time"'),
        ("(x > 0) && (x < 5)", "found '&'", "use one &"),
        ("(x > 0) || (x < 5)", "found '|'", "use one |"),
        ("x ^^ 2", "found '^'", "a ** 2"),
        ("x > 0 and x < 5", "'and' does not work on arrays", "use &"),
        ("x |> mean", "found '>'", "mean(x)"),
        ("x[x > 0]", "an array cannot be an index", "where(x > 0, x, nan)"),
        ("x - 273,15", "not a list", "273.15"),
        ("np.mean(x)", "'np' is not defined", "mean(x)"),
        ("0 < x < 5", "cannot be chained", "(a < b) & (b < c)"),
    ],
)
def test_expressions_of_other_languages(folder, expression, message, hint):
    found = error(chunkwise("plan", pipeline(folder, {"y": expression}), "--json"), "pipeline", 2)
    assert message in found["message"] and hint in found.get("hint", ""), found
