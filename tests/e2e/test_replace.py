"""`--overwrite` replaces the output that is named, and nothing else: no input by another name, no group, no files of somebody's."""

import json
import os
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import zarr
from harness import binary, chunkwise, read_array, values, write_array, write_pipeline

X = values(1, (8, 4), "float64", -1, 1)


@pytest.fixture
def folder(tmp_path):
    write_array(tmp_path / "data/in.zarr", X, (2, 4))
    return tmp_path


def everything(folder):
    return {str(p.relative_to(folder)): os.readlink(p) if p.is_symlink() else p.read_bytes() for p in folder.rglob("*") if p.is_symlink() or p.is_file()}


def pipeline(folder, output, source="data/in.zarr", expression="x * 2", **options):
    return write_pipeline(folder, {"x": source}, {"y": expression}, {str(output): {"array": "y", **options} if options else "y"})


def overwrite(path, *args, **options):
    return chunkwise("run", path, "--allowed-mem", "300MB", "--overwrite", *args, **options)


def refused(folder, path, *names):
    before = everything(folder)
    found = overwrite(path, "--json").failed(*names)
    assert found.code == 2, found.stderr
    after = {k: v for k, v in everything(folder).items() if not k.startswith("work")}
    assert after == {k: v for k, v in before.items() if not k.startswith("work")}
    return found.report["error"]


# An input by another name


def test_a_link_to_the_input(folder):
    (folder / "out.zarr").symlink_to("data/in.zarr")
    refused(folder, pipeline(folder, "out.zarr"), "an output must not be", "input")


def test_a_link_in_a_folder_above(folder):
    (folder / "elsewhere").symlink_to("data")
    refused(folder, pipeline(folder, "elsewhere/in.zarr"), "an output must not be")
    refused(folder, pipeline(folder, "elsewhere/in.zarr/c"), "an output must not be")


def test_the_input_is_the_link(folder):
    (folder / "x").symlink_to("data/in.zarr")
    refused(folder, pipeline(folder, "data/in.zarr", source="x"), "an output must not be")


def test_the_chunks_of_the_input_are_elsewhere(folder):
    """Somebody has put them where there is room."""
    (folder / "data/in.zarr/c").rename(folder / "chunks")
    (folder / "data/in.zarr/c").symlink_to(folder / "chunks")
    refused(folder, pipeline(folder, "chunks"), "an output must not be")


def test_two_names_of_one_output(folder):
    (folder / "out").mkdir()
    (folder / "same").symlink_to("out")
    path = write_pipeline(folder, {"x": "data/in.zarr"}, {"y": "x * 2", "z": "x * 3"}, {"out/a.zarr": "y", "same/a.zarr": "z"})
    refused(folder, path, "an output must not be")


def plan_with(folder, url, source=None):
    """A plan whose output is elsewhere: everybody can write one."""
    path = pipeline(folder, "out.zarr")
    plan = json.loads(chunkwise("plan", path, "--allowed-mem", "300MB", "--format", "json").ok().stdout)
    for array in plan["arrays"].values():
        if array["role"] == "output":
            array["url"] = url
        elif source and array["role"] == "input":
            array["url"] = source
    path = folder / "plan.json"
    path.write_text(json.dumps(plan))
    return path


@pytest.mark.parametrize("name", ["{0}/data/in.zarr", "{0}/data/./in.zarr", "{0}//data//in.zarr", "{0}/data/x/../in.zarr", "file://{0}/data/in.zarr/", "{0}/data/in.zarr/c", "{0}/data", "{0}"])
def test_plans_with_another_name_of_the_input(folder, name):
    found = refused(folder, plan_with(folder, name.format(folder)), ("is, holds or lies in the input", "is also the place of array"), "data/in.zarr")
    assert found["kind"] in ("output", "plan")


def test_plans_with_links(folder):
    plan = plan_with(folder, str(folder / "out.zarr"))
    (folder / "out.zarr").symlink_to("data/in.zarr")
    before = everything(folder / "data")
    for command in (["run", "--overwrite"], ["run", "--overwrite", "--dry-run"], ["plan"], ["run", "--resume"]):
        done = chunkwise(command[0], plan, *command[1:])
        done.failed("is, holds or lies in the input")
        assert done.code == 2 and everything(folder / "data") == before


def test_a_plan_that_would_write_into_its_own_folder(folder):
    path = plan_with(folder, str(folder / "work"))
    refused(folder, path, "the folder of the run")


def test_objects_by_another_name(s3, tmp_path):
    """The same bucket at the same server by two addresses, and keys with parts that mean nothing."""
    s3.create_bucket("replace")
    other = s3.url.replace("127.0.0.1", "localhost")
    assert other != s3.url
    env = {k: v for k, v in s3.env.items() if "ENDPOINT" not in k} | {"CHUNKWISE_ENDPOINTS": f"{s3.url},{other}"}
    write_array(tmp_path / "in.zarr", X, (2, 4))
    storage = {"s3://replace": {"endpoint": s3.url}}
    first = write_pipeline(tmp_path, {"x": "in.zarr"}, {"y": "x"}, {"s3://replace/in.zarr": "y"}, spec={"storage": storage})
    chunkwise("run", first, env=env).ok()
    storage["s3://replace/./in.zarr"] = {"endpoint": other}
    inputs = {"x": "s3://replace/in.zarr"}
    for output in ["s3://replace/./in.zarr", "s3://replace/in.zarr/c"]:
        path = write_pipeline(tmp_path, inputs, {"y": "x * 2"}, {output: "y"}, spec={"storage": storage})
        assert overwrite(path, env=env).failed("an output must not be").code == 2
    assert chunkwise("verify", "s3://replace/in.zarr", env=s3.env).ok()


# What is no array


def test_a_group_is_not_replaced_by_an_array(folder):
    group = zarr.create_group(str(folder / "g.zarr"))
    for name in ("a", "b"):
        group.create_array(name, data=np.arange(4))
    found = refused(folder, pipeline(folder, "g.zarr"), "is a Zarr group", "'a'", "'b'")
    assert found["kind"] == "output" and found["where"]["url"] == str(folder / "g.zarr")
    # A place in it may be named.
    overwrite(pipeline(folder, "g.zarr/a", expression="x[:4, 0]")).ok()
    assert read_array(folder / "g.zarr/b").tolist() == [0, 1, 2, 3]


def test_a_group_of_version_2_is_not_replaced(folder):
    group = zarr.create_group(str(folder / "g.zarr"), zarr_format=2)
    group.create_array("a", data=np.arange(4))
    refused(folder, pipeline(folder, "g.zarr", zarr_format=2), "is a Zarr group", "'a'")


def test_files_in_the_way_of_a_coordinate(tmp_path):
    """Coordinates are written beside outputs without being named."""
    write_array(tmp_path / "in.zarr/x", X, (2, 4), ["time", "lat"])
    write_array(tmp_path / "in.zarr/time", np.arange(8), None, ["time"])
    zarr.create_group(str(tmp_path / "in.zarr"))
    (tmp_path / "out.zarr/time").mkdir(parents=True)
    (tmp_path / "out.zarr/time/log.txt").write_text("years of work")
    path = write_pipeline(tmp_path, {"ds": "in.zarr"}, {}, {"out.zarr/y": "ds.x * 2"})
    for group in (False, True):
        if group:
            zarr.create_group(str(tmp_path / "out.zarr"))
        for args in ([], ["--overwrite"]):
            assert chunkwise("run", path, *args).failed("out.zarr/time", "'log.txt'").code == 2
            assert (tmp_path / "out.zarr/time/log.txt").read_text() == "years of work"
            assert not (tmp_path / "out.zarr/y").exists()


@pytest.mark.parametrize("name", ["thesis.tex", "c/notes.txt", "c/0/0.txt", ".hidden/a", "2024/report", "0.5"])
def test_files_of_somebody_else(folder, name):
    path = pipeline(folder, "out.zarr")
    chunkwise("run", path).ok()
    mine = folder / "out.zarr" / name
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("years of work")
    found = refused(folder, path, name)
    assert found["kind"] == "output"
    mine.unlink()
    overwrite(path).ok()


def test_a_folder_that_is_no_array(folder):
    """A wrong name in a pipeline: numbers as names of files are no chunks of an array that is not there."""
    for name in ("1999", "2000", "2000/01"):
        (folder / "diary" / "x").mkdir(parents=True, exist_ok=True)
        path = folder / "diary" / (name if "/" not in name else "x/" + name.replace("/", "-"))
        path.write_text("years of work")
    refused(folder, pipeline(folder, "diary"), "diary")
    refused(folder, pipeline(folder, "."), "must not be")


def test_links_in_an_output_are_not_followed(folder):
    path = pipeline(folder, "out.zarr")
    chunkwise("run", path).ok()
    (folder / "out.zarr/mine").symlink_to(folder / "data")
    refused(folder, path, "mine")
    (folder / "out.zarr/mine").unlink()
    shutil.rmtree(folder / "out.zarr/c")
    (folder / "elsewhere/0").mkdir(parents=True)
    (folder / "elsewhere/0/0").write_text("years of work")
    (folder / "out.zarr/c").symlink_to(folder / "elsewhere")
    overwrite(path).ok()
    assert (folder / "elsewhere/0/0").read_text() == "years of work"


def test_what_finder_leaves_is_no_hindrance(folder):
    path = pipeline(folder, "out.zarr")
    chunkwise("run", path).ok()
    (folder / "out.zarr/.DS_Store").write_bytes(b"")
    overwrite(path).ok()
    assert np.array_equal(read_array(folder / "out.zarr"), X * 2)


def test_an_output_that_is_a_link_is_replaced(folder):
    """Somebody has put it where there is room; it is no input."""
    (folder / "large").mkdir()
    (folder / "out.zarr").symlink_to("large")
    path = pipeline(folder, "out.zarr")
    chunkwise("run", path).ok()
    overwrite(pipeline(folder, "out.zarr", expression="x * 3")).ok()
    assert (folder / "out.zarr").is_symlink() and np.array_equal(read_array(folder / "large"), X * 3)
    assert sorted(p.name for p in (folder / "large").iterdir()) == ["c", "chunkwise.xxh3", "zarr.json"]


def test_other_forms_are_replaced(folder):
    """An array of version 2 by one of version 3 and back, of other dimensions and with other separators."""
    for options in ({"zarr_format": 2}, {"chunk_key_encoding": {"name": "default", "separator": "."}}, {}, {"zarr_format": 2, "dimension_separator": "/"}):
        for expression in ("x * 2", "x[:, 0]", "mean(x)"):
            overwrite(pipeline(folder, "out.zarr", expression=expression, **options)).ok()
            assert read_array(folder / "out.zarr").ndim == {"x * 2": 2, "x[:, 0]": 1, "mean(x)": 0}[expression]
    assert chunkwise("verify", folder / "out.zarr").ok()


# The old array is kept until the new one is whole

SLOW = "sin(exp(cos(sin(exp(cos(sin(exp(cos(x)))))))))"
KEPT = ".chunkwise-replaced"


@pytest.fixture
def long(tmp_path):
    """An output that is replaced by one that takes a while."""
    write_array(tmp_path / "in.zarr", values(1, (300, 200, 100), "float64", -1, 1), (1, 200, 100))
    chunkwise("run", pipeline(tmp_path, "out.zarr", "in.zarr", "x * 2"), "--allowed-mem", "300MB").ok()
    return tmp_path


def kill_midway(folder, path, *args, after=20):
    out = folder / "out.zarr/c"
    with subprocess.Popen([binary(), "run", str(path), "--allowed-mem", "300MB", "--workers", "1", *args], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        kept = folder / "out.zarr" / KEPT
        while time.monotonic() < deadline and process.poll() is None:
            if kept.is_dir() and out.is_dir() and sum(1 for p in out.rglob("*") if p.is_file()) >= after:
                break
            time.sleep(0.005)
        assert process.poll() is None, "the run ended before it could be killed"
        process.send_signal(signal.SIGKILL)


def test_a_killed_run_has_lost_nothing(long):
    before = {k: v for k, v in everything(long / "out.zarr").items()}
    path = pipeline(long, "out.zarr", "in.zarr", SLOW)
    kill_midway(long, path, "--overwrite")
    assert everything(long / "out.zarr" / KEPT) == before
    # Half of the new one cannot be taken for it.
    chunkwise("info", long / "out.zarr").failed("out.zarr")
    # Nor does a second start lose it,
    kill_midway(long, path, "--overwrite")
    assert everything(long / "out.zarr" / KEPT) == before
    # and once the new one is whole it is gone.
    chunkwise("run", path, "--allowed-mem", "300MB", "--resume").ok()
    assert not (long / "out.zarr" / KEPT).exists()
    assert chunkwise("verify", long / "out.zarr").ok()
    # As docs/storage.md says, it can be put back.
    kill_midway(long, pipeline(long, "out.zarr", "in.zarr", "x * 2 + " + SLOW), "--overwrite")
    shutil.rmtree(long / "out.zarr/c")
    for p in (long / "out.zarr" / KEPT).iterdir():
        p.rename(long / "out.zarr" / p.name)
    (long / "out.zarr" / KEPT).rmdir()
    assert "300 chunks are there and whole" in chunkwise("verify", long / "out.zarr").ok().stdout


def test_a_failed_run_says_where_the_old_output_is(long):
    before = everything(long / "out.zarr")
    chunk = long / "in.zarr/c/290/0/0"
    chunk.write_bytes(chunk.read_bytes()[:100])
    path = pipeline(long, "out.zarr", "in.zarr", "x * 3")
    overwrite(path).failed("c/290/0/0", f"out.zarr/{KEPT}", "--resume")
    assert everything(long / "out.zarr" / KEPT) == before


def test_a_move_that_was_cut_off_goes_on(folder):
    path = pipeline(folder, "out.zarr")
    chunkwise("run", path).ok()
    out = folder / "out.zarr"
    (out / ".chunkwise-replacing").mkdir()
    (out / "zarr.json").rename(out / ".chunkwise-replacing/zarr.json")
    overwrite(pipeline(folder, "out.zarr", expression="x * 3")).ok()
    assert np.array_equal(read_array(out), X * 3) and sorted(p.name for p in out.iterdir()) == ["c", "chunkwise.xxh3", "zarr.json"]


def test_where_there_is_no_room_it_is_said(tmp_path):
    """On a disk that cannot hold both, the old one makes room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(disk)], capture_output=True).returncode:
        pytest.skip("a filesystem of a size cannot be mounted here")
    try:
        write_array(tmp_path / "in.zarr", values(1, (25, 100, 100), "float64", -1, 1), (1, 100, 100))
        path = pipeline(tmp_path, disk / "out.zarr", "in.zarr", "x * 2", codec="none")
        chunkwise("run", path).ok()
        done = overwrite(pipeline(tmp_path, disk / "out.zarr", "in.zarr", "x * 3", codec="none")).ok()
        assert "there is no room to keep" in done.stderr
        assert np.array_equal(read_array(disk / "out.zarr"), read_array(tmp_path / "in.zarr") * 3)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_objects_are_kept_too(s3, tmp_path):
    s3.create_bucket("kept")
    env = s3.env
    x = values(1, (60, 200, 100), "float64", -1, 1)
    write_array(tmp_path / "in.zarr", x, (1, 200, 100))
    chunkwise("run", pipeline(tmp_path, "s3://kept/out.zarr", "in.zarr", "x * 2"), env=env).ok()
    chunk = tmp_path / "in.zarr/c/59/0/0"
    whole = chunk.read_bytes()
    chunk.write_bytes(whole[:100])
    path = pipeline(tmp_path, "s3://kept/out.zarr", "in.zarr", "x * 3")
    overwrite(path, "--workers", "1", env=env).failed("c/59/0/0")
    assert "60 chunks are there and whole" in chunkwise("verify", f"s3://kept/out.zarr/{KEPT}", env=env).ok().stdout
    chunkwise("info", "s3://kept/out.zarr", env=env).failed("s3://kept/out.zarr")
    chunk.write_bytes(whole)
    chunkwise("run", path, "--allowed-mem", "300MB", "--resume", env=env).ok()
    assert "60 chunks are there and whole" in chunkwise("verify", "s3://kept/out.zarr", env=env).ok().stdout
    chunkwise("info", f"s3://kept/out.zarr/{KEPT}", env=env).failed(KEPT)


