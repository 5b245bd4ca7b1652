"""`chunkwise clean` removes runs, and nothing else: no folder that only looks like one, nothing behind a link, no file of somebody's, no run that runs."""

import json
import os
import shutil
import subprocess
import time

import pytest
from harness import binary, chunkwise, values, write_array, write_pipeline


@pytest.fixture
def work(tmp_path):
    """A work directory with one run."""
    write_array(tmp_path / "in.zarr", values(1, (40, 50, 40), "float64", -1, 1), (1, 50, 40), ["time", "y", "x"])
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {"y": 'x - mean(x, dim="time", keepdims=True)'}, {"out.zarr": "y"})
    chunkwise("run", path, "--keep").ok()
    return tmp_path / "work"


def the_run(work):
    [run] = [p.name for p in work.iterdir() if p.is_dir() and len(p.name) == 16 and not p.is_symlink()]
    return run


def listed(work, *args):
    return {row["run"]: row for row in json.loads(chunkwise("clean", work, "--json", *args).ok().stdout)["runs"]}


def test_a_run_is_removed_as_a_whole(work):
    run = the_run(work)
    assert listed(work)[run]["removed"] is False
    assert listed(work, "--all")[run]["removed"] is True
    assert list(work.iterdir()) == [] and (work.parent / "out.zarr/zarr.json").exists()


@pytest.mark.parametrize("kind", ["a plan that was stored", "a plan of another program", "with a marker of another run", "named like a run"])
def test_other_folders_with_a_plan(work, kind):
    run = the_run(work)
    name = "0123456789abcdef" if kind == "named like a run" else "thesis"
    mine = work / name
    mine.mkdir()
    (mine / "chapter1.tex").write_text("years of work")
    shutil.copy(work / run / "plan.json", mine / "plan.json")
    if kind == "a plan of another program":
        (mine / "plan.json").write_text(json.dumps({"format_version": "1.2", "terraform_version": "1.9"}))
    if kind == "with a marker of another run":
        shutil.copy(work / run / "chunkwise-run.json", mine / "chunkwise-run.json")
    before = {p.name: p.read_bytes() for p in mine.iterdir()}
    assert list(listed(work)) == [run]
    done = chunkwise("clean", work, "--run", name)
    assert done.failed(name, ("there is no run", "has no marker")).code == 2
    out = chunkwise("clean", work, "--all").ok().stdout
    # An earlier version left no marker: that is said of what may be one of its runs.
    assert ("has no marker of a run" in out and name in out) == (kind == "named like a run")
    assert {p.name: p.read_bytes() for p in mine.iterdir()} == before and not (work / run).exists()


def test_links_are_not_followed(work, tmp_path_factory):
    run = the_run(work)
    victim = tmp_path_factory.mktemp("victim")
    shutil.copytree(work / run, victim / run)
    (victim / run / "thesis.tex").write_text("years of work")
    (work / "fedcba9876543210").symlink_to(victim / run)
    (work / run / "more").symlink_to(victim)
    arrays = [p for p in (work / run).iterdir() if (p / "c").is_dir()]
    assert arrays, "intermediates were to be kept"
    shutil.rmtree(arrays[0])
    arrays[0].symlink_to(victim / run / arrays[0].name)
    before = sorted(p.relative_to(victim) for p in victim.rglob("*"))
    chunkwise("clean", work, "--run", "fedcba9876543210").failed("there is no run")
    out = chunkwise("clean", work, "--all").ok().stdout
    assert "was not written by the run" in out
    assert sorted(p.relative_to(victim) for p in victim.rglob("*")) == before
    assert (work / "fedcba9876543210").is_symlink() and (work / run / "more").is_symlink()


def test_files_of_somebody_else_stay(work):
    run = the_run(work)
    mine = [work / run / name for name in ("notes.txt", "reports/notes.txt", "data/c/notes", "old/plan.json")]
    for path in mine:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("years of work")
    row = listed(work, "--run", run)[run]
    assert row["removed"] and row["left"]
    assert sorted(p for p in (work / run).rglob("*") if p.is_file()) == sorted(mine)


def test_a_plain_run_does_not_empty_its_folder_either(work):
    """The folder of a run has a name that everybody can know before."""
    run = the_run(work)
    (work / run / "thesis.tex").write_text("years of work")
    chunkwise("run", work.parent / "pipeline.json", "--overwrite").ok()
    assert (work / run / "thesis.tex").exists()
    victim = work.parent / "victim"
    (work / run).rename(victim)
    (work / run).symlink_to(victim)
    before = sorted(victim.rglob("*"))
    for args in (["--overwrite"], ["--resume"]):
        done = chunkwise("run", work.parent / "pipeline.json", *args)
        assert done.failed("symbolic link", "--work-dir", "nothing was computed").code == 2
        assert sorted(victim.rglob("*")) == before


def test_a_run_that_runs_is_left(tmp_path):
    write_array(tmp_path / "in.zarr", values(1, (600, 200, 100), "float64", -1, 1), (1, 200, 100))
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {"y": "sin(exp(cos(sin(exp(cos(sin(exp(cos(x)))))))))"}, {"out.zarr": "y"})
    work = tmp_path / "work"
    with subprocess.Popen([binary(), "run", str(path), "--workers", "1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"}) as process:
        deadline = time.monotonic() + 30
        while not list(work.glob("*/plan.json")) and time.monotonic() < deadline:
            time.sleep(0.005)
        run = the_run(work)
        row = listed(work, "--all")[run]
        out = chunkwise("clean", work, "--all").ok().stdout
        named = chunkwise("clean", work, "--run", run)
        assert process.poll() is None, "the run ended too early"
        errors = process.stderr.read().decode()
        assert process.wait() == 0, errors
    assert row["removed"] is False and str(process.pid) in row["running"]
    assert "it is running" in out
    named.failed("another process", str(process.pid))
    assert (work / run / "plan.json").exists()
    assert listed(work, "--all")[run]["removed"]


def test_in_a_bucket(s3, tmp_path):
    s3.create_bucket("clean")
    write_array(tmp_path / "in.zarr", values(1, (8, 50, 40), "float64", -1, 1), (1, 50, 40))
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {"y": "x * 2"}, {"out.zarr": "y"}, spec={"work_dir": "s3://clean/work"})
    chunkwise("run", path, env=s3.env).ok()
    import obstore

    store = obstore.store.S3Store("clean", access_key_id="test", secret_access_key="test", region="us-east-1", endpoint=s3.url, client_options={"allow_http": True})
    obstore.put(store, "work/thesis/plan.json", b"{}")
    obstore.put(store, "work/thesis/chapter1.tex", b"years of work")
    found = json.loads(chunkwise("clean", "s3://clean/work", "--all", "--json", env=s3.env).ok().stdout)["runs"]
    assert [row["removed"] for row in found] == [True]
    assert sorted(o["path"] for page in obstore.list(store, "work/") for o in page) == ["work/thesis/chapter1.tex", "work/thesis/plan.json"]
