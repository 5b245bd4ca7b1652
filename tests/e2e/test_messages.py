"""What people and programs are told when something is wrong: messages, JSON, exit codes, and what is said before anything runs."""

import json
import signal
import subprocess
import time

import numpy as np
import pytest
import zarr
from harness import binary, chunkwise, values, write_array, write_pipeline
from PIL import Image


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
        ("--workers", "0", "from 1 to 65536"),
        ("--workers", "-1", "from 1 to 65536"),
        ("--workers", "two", "from 1 to 65536"),
        ("--workers", "1.5", "from 1 to 65536"),
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
