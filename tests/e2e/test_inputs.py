"""Inputs that vanish, change or grow while a run reads them, or before it goes on: never a result of what was not there, or of two states."""

import json
import os
import shutil
import signal
import time

import numpy as np
import pytest
import zarr
from faults import Run
from harness import chunkwise, read_array, values, write_array, write_pipeline
from services import FaultProxy
from services.servers import upload

SLOW = "sin(exp(cos(sin(exp(cos(sin(exp(cos(x)))))))))"
MEM = ["--allowed-mem", "300MB"]
EXECUTORS = {"threads": ["--workers", "1"], "processes": ["--executor", "processes", "--executor-option", "processes=2"]}


def prepare(folder, count=600, expression=SLOW, spec=None, **options):
    """A pipeline of many small tasks, and what it computes."""
    x = values(1, (count, 200, 100), "float64", -1, 1)
    write_array(folder / "in.zarr", x, (1, 200, 100), ["time", "lat", "lon"], **options)
    path = write_pipeline(folder, {"x": "in.zarr"}, {"y": expression}, {"out.zarr/y": "y"}, spec=spec)
    return path, x


def slow(x):
    for _ in range(3):
        x = np.sin(np.exp(np.cos(x)))
    return x


def chunks(folder):
    return [p for p in (folder / "out.zarr/y/c").rglob("*") if p.is_file() and "#" not in p.name]


def nothing_published(folder):
    assert not (folder / "out.zarr/y/zarr.json").exists()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_moved_away_and_back(tmp_path, executor):
    path, x = prepare(tmp_path)
    args = [path, *MEM, *EXECUTORS[executor]]
    with Run("run", *args) as run:
        run.until(lambda: len(chunks(tmp_path)) > 20)
        (tmp_path / "in.zarr").rename(tmp_path / "elsewhere.zarr")
        run.failed("is not there (any more) on the machine", str(tmp_path / "in.zarr"), "--resume")
    nothing_published(tmp_path)
    # A plan that is stored does not look for its inputs when it is read.
    plan = next((tmp_path / "work").glob("*/plan.json"))
    shutil.copy(plan, tmp_path / "plan.json")
    chunkwise("run", tmp_path / "plan.json", *args[1:], "--resume").failed("is not there (any more)", str(tmp_path / "in.zarr"))
    (tmp_path / "elsewhere.zarr").rename(tmp_path / "in.zarr")
    done = chunkwise("run", *args, "--resume", "--json").ok()
    assert done.report["skipped"] > 0 or executor == "processes"
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(x), rtol=1e-12)


def test_a_stored_plan_without_its_input(tmp_path):
    path, x = prepare(tmp_path, 20)
    plan = tmp_path / "plan.json"
    plan.write_text(chunkwise("plan", path, *MEM, "--format", "json").ok().stdout)
    (tmp_path / "in.zarr").rename(tmp_path / "elsewhere.zarr")
    failed = chunkwise("run", plan, *MEM, "--json").failed("is not there (any more)", str(tmp_path / "in.zarr"))
    assert failed.code == 2 and json.loads(failed.stdout)["error"]["kind"] == "input_gone"
    assert not (tmp_path / "out.zarr").exists()
    # Another array of the same shape and chunks is not the one that was planned for.
    write_array(tmp_path / "in.zarr", x.astype("float32").astype("float64") + 1, (1, 200, 100), ["time", "lat", "lon"], {"units": "K"})
    failed = chunkwise("run", plan, *MEM, "--json").failed("has changed", "its metadata is another one")
    assert failed.code == 2 and json.loads(failed.stdout)["error"]["kind"] == "input_changed"
    shutil.rmtree(tmp_path / "in.zarr")
    (tmp_path / "elsewhere.zarr").rename(tmp_path / "in.zarr")
    chunkwise("run", plan, *MEM).ok()
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(x), rtol=1e-12)


def killed(folder, path, args):
    with Run("run", path, *args) as run:
        run.until(lambda: len(chunks(folder)) > 30)
        run.signal(signal.SIGKILL)
        run.end()
        run.kill_workers()


def in_place(folder, x, start=0):
    zarr.open_array(str(folder / "in.zarr"))[start:] = x[start:] + 1


def written_again(folder, x):
    shutil.rmtree(folder / "in.zarr")
    write_array(folder / "in.zarr", x + 1, (1, 200, 100), ["time", "lat", "lon"])


def copied(folder, x, start=0):
    """As `rsync -t`: the time of the source, under another name first."""
    write_array(folder / "new.zarr", x + 1, (1, 200, 100), ["time", "lat", "lon"])
    for k in range(start, 600, 3):
        source, target = (folder / name / f"c/{k}/0/0" for name in ("new.zarr", "in.zarr"))
        old = os.stat(target)
        shutil.copy(source, f"{target}.part")
        os.utime(f"{target}.part", ns=(old.st_atime_ns, old.st_mtime_ns))
        os.replace(f"{target}.part", target)


def swapped(folder, x):
    """Another array, older than the run, in the place of the first."""
    (folder / "in.zarr").rename(folder / "gone.zarr")
    (folder / "before.zarr").rename(folder / "in.zarr")


@pytest.mark.parametrize("change", [in_place, written_again, copied, swapped])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_changed_before_a_run_goes_on(tmp_path, executor, change):
    path, x = prepare(tmp_path)
    write_array(tmp_path / "before.zarr", x - 1, (1, 200, 100), ["time", "lat", "lon"])
    args = [*MEM, *EXECUTORS[executor]]
    killed(tmp_path, path, args)
    change(tmp_path, x)
    chunkwise("run", path, *args, "--resume").failed("the input", str(tmp_path / "in.zarr"), "has changed", "--overwrite")
    nothing_published(tmp_path)
    chunkwise("run", path, *args, "--overwrite").ok()
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(read_array(tmp_path / "in.zarr")), rtol=1e-12)


def cut(path):
    path.write_bytes(path.read_bytes()[:60])


def later(path):
    """One digit, and the run began later than it did."""
    path.write_text(path.read_text().replace('"began": 1', '"began": 9'))


def removed(path):
    path.unlink()


@pytest.mark.parametrize("damage", [cut, later, removed])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_changed_when_nobody_knows_what_it_was(tmp_path, executor, damage):
    """What a run has written down of its inputs is damaged, and they have changed: nothing that is finished counts."""
    path, x = prepare(tmp_path, 200)
    args = [*MEM, *EXECUTORS[executor]]
    killed(tmp_path, path, args)
    in_place(tmp_path, x)
    damage(next((tmp_path / "work").glob("*/inputs.json")))
    done = chunkwise("run", path, *args, "--resume", "--json").ok()
    assert done.report["skipped"] == 0 and any("all tasks are run again" in w for w in done.report["warnings"]), done.report
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(x + 1), rtol=1e-12)


def test_what_was_replaced_goes_when_all_is_run_again(tmp_path):
    """A run that overwrites keeps the old array beside the new one until that is whole, also if nothing counts that it had finished."""
    path, x = prepare(tmp_path)
    write_array(tmp_path / "out.zarr/y", x, (1, 200, 100), ["time", "lat", "lon"])
    aside = tmp_path / "out.zarr/y/.chunkwise-replaced"

    def begun():
        return aside.exists() and any(p.stat().st_size for p in (tmp_path / "work").glob("*/reports-*.jsonl"))

    for damage, args in ((None, ["--overwrite"]), (cut, ["--resume"]), (removed, ["--resume"])):
        if damage:
            damage(next((tmp_path / "work").glob("*/inputs.json")))
        with Run("run", path, *MEM, "--workers", "1", *args) as run:
            if damage:
                run.until(lambda: "all tasks are run again" in run.errors)
            run.until(begun)
            run.signal(signal.SIGKILL)
            run.end()
        np.testing.assert_array_equal(read_array(aside), x)
    chunkwise("run", path, *MEM, "--resume").ok()
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(x), rtol=1e-12)
    assert not aside.exists()


def test_an_input_of_the_second_in_which_a_run_began(s3, tmp_path):
    """Answers of a store tell the time in whole seconds, and its listings may tell it better: what was there before has not changed."""
    store = s3.bucket("second")
    path, x = prepare(tmp_path, 40, "x + 1")
    document = json.loads(path.read_text())
    document["inputs"] = {"x": "s3://second/in.zarr"}
    document["outputs"] = {"s3://second/out.zarr/y": "y"}
    document["spec"] |= {"work_dir": "s3://second/work", "storage": {"s3://second": {"retries": 0}}}
    path.write_text(json.dumps(document))
    with FaultProxy(s3.url) as proxy:
        env = {**s3.env, "AWS_ENDPOINT_URL": proxy.url}
        rule = proxy.rule(method="GET", path="second/in.zarr/c/30/", status=500)
        time.sleep(1 - time.time() % 1)
        upload(store, tmp_path / "in.zarr", "in.zarr")
        chunkwise("run", path, *MEM, "--retries", "0", env=env).failed("in.zarr/c/30/0/0")
        rule.times = 0
        done = chunkwise("run", path, *MEM, "--resume", "--json", env=env).ok()
    assert done.report["skipped"] > 0
    np.testing.assert_array_equal(zarr.open_array(zarr.storage.ObjectStore(store), path="out.zarr/y", mode="r")[...], x + 1)


@pytest.mark.parametrize("change", [in_place, copied])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_no_finished_task_has_read_may_change(tmp_path, executor, change):
    """A chunk that made a run fail is repaired, and the run goes on: the result is that of the input as it is now."""
    path, x = prepare(tmp_path)
    args = [*MEM, *EXECUTORS[executor]]
    bad = tmp_path / "in.zarr/c/450/0/0"
    os.truncate(bad, 100)
    chunkwise("run", path, *args).failed("c/450/0/0", "damaged")
    assert chunks(tmp_path)
    zarr.open_array(str(tmp_path / "in.zarr"))[450] = x[450]
    with Run("run", path, *args, "--resume") as run:
        run.signal(signal.SIGKILL)
        run.end()
    change(tmp_path, x, 590)
    chunkwise("run", path, *args, "--resume").ok()
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(read_array(tmp_path / "in.zarr")), rtol=1e-12)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_a_finished_task_has_by_way_of_an_intermediate(tmp_path, executor):
    """One output is made of an intermediate that is lost since, the other is not: making it again from another state would mix two."""
    x = values(1, (40, 200, 100), "float64", -1, 1)
    write_array(tmp_path / "in.zarr", x, (1, 200, 100), ["time", "lat", "lon"])
    arrays = {"a": SLOW, "y": "a + 1", "z": 'sum(a, dim="lon")'}
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, arrays, {"out.zarr/y": "y", "other.zarr/z": "z"}, spec={"fuse": False})
    args = [*MEM, *EXECUTORS[executor]]
    # It fails at the last chunk, when the others are done.
    bad = tmp_path / "in.zarr/c/39/0/0"
    whole = bad.read_bytes()
    bad.write_bytes(whole[:100])
    chunkwise("run", path, *args).failed("c/39/0/0", "damaged")
    bad.write_bytes(whole)
    finished = chunks(tmp_path)
    assert finished
    k = int(finished[0].parent.parent.name)
    for lost in [tmp_path / "other.zarr/z/c", *(tmp_path / "work").glob("*/*/c")]:
        shutil.rmtree(lost, ignore_errors=True)
    zarr.open_array(str(tmp_path / "in.zarr"))[k] = x[k] + 1
    chunkwise("run", path, *args, "--resume").failed("has changed", f"c/{k}/0/0", "finished tasks have read it")
    chunkwise("run", path, *args, "--overwrite").ok()
    now = slow(read_array(tmp_path / "in.zarr"))
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), now + 1, rtol=1e-12)
    np.testing.assert_allclose(read_array(tmp_path / "other.zarr/z"), now.sum(axis=2), rtol=1e-12)


@pytest.mark.parametrize("change", [in_place, written_again, copied, swapped])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_changed_while_it_is_read(tmp_path, executor, change):
    path, x = prepare(tmp_path)
    write_array(tmp_path / "before.zarr", x - 1, (1, 200, 100), ["time", "lat", "lon"])
    args = [*MEM, *EXECUTORS[executor]]
    with Run("run", path, *args) as run:
        run.until(lambda: len(chunks(tmp_path)) > 20)
        run.signal(signal.SIGSTOP)
        change(tmp_path, x)
        run.signal(signal.SIGCONT)
        run.failed("the input", "has changed" if change is not written_again else "")
    nothing_published(tmp_path)
    chunkwise("run", path, *args, "--resume").failed("has changed")
    chunkwise("run", path, *args, "--overwrite").ok()
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(read_array(tmp_path / "in.zarr")), rtol=1e-12)


@pytest.mark.parametrize("what", ["times", "rights"])
def test_odd_times_are_no_change(tmp_path, what):
    """Archives bring times from the future; backups change who may read files, and how many names they have."""
    path, x = prepare(tmp_path)
    files = sorted(p for p in (tmp_path / "in.zarr").rglob("*") if p.is_file())
    if what == "times":
        soon = time.time_ns() + 1_500_000_000
        for k, file in enumerate(files):
            os.utime(file, ns=(soon, soon + k % 7 * 3600 * 10**9))
        time.sleep(0.1)
    with Run("run", path, *MEM, "--workers", "1") as run:
        run.until(lambda: len(chunks(tmp_path)) > 20)
        for k, file in enumerate(files if what == "rights" else []):
            file.chmod(0o640)
            os.link(file, tmp_path / f"backup-{k}")
        run.ok()
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(x), rtol=1e-12)


def test_what_is_appended_meanwhile_is_no_change(tmp_path):
    path, x = prepare(tmp_path)
    with Run("run", path, *MEM, "--workers", "1") as run:
        run.until(lambda: len(chunks(tmp_path)) > 20)
        zarr.open_array(str(tmp_path / "in.zarr")).append(x[:7])
        run.ok()
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/y"), slow(x), rtol=1e-12)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_empty_chunks_are_empty(tmp_path, executor, zarr_format):
    """An array of which most chunks were never written is read as before."""
    shape = (40, 50, 60)
    array = zarr.create_array(str(tmp_path / "in.zarr"), shape=shape, chunks=(1, 50, 60), dtype="float64", fill_value=2.5, zarr_format=zarr_format)
    array[7] = 1.0
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {"y": "x + 1"}, {"out.zarr/y": "y"})
    chunkwise("run", path, *MEM, *EXECUTORS[executor]).ok()
    # As in xarray, the fill value of v2 is a missing value, too.
    expected = array[...] + 1 if zarr_format == 3 else np.where(array[...] == 2.5, np.nan, array[...] + 1)
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/y"), expected)


def test_an_input_that_was_just_written(tmp_path):
    """What an earlier command has written, a moment ago, is an input as any other."""
    x = values(2, (30, 20, 20), "float64", -1, 1)
    write_array(tmp_path / "in.zarr", x, (1, 20, 20))
    for k in range(5):
        source, target = ("in.zarr" if k == 0 else f"out{k - 1}.zarr/y"), f"out{k}.zarr/y"
        path = write_pipeline(tmp_path, {"x": source}, {"y": "x * 2"}, {target: "y"})
        chunkwise("run", path, *MEM).ok()
    np.testing.assert_array_equal(read_array(tmp_path / "out4.zarr/y"), x * 32)
    assert time.time() > os.stat(tmp_path / "out4.zarr/y/zarr.json").st_mtime


@pytest.mark.parametrize("what", ["a folder", "a pipe"])
@pytest.mark.parametrize("key", ["c/3/0/0", "zarr.json"])
def test_what_is_no_file_is_not_empty(tmp_path, what, key):
    """Taken for a missing chunk it would read as the fill value; and whoever opens a pipe waits."""
    path, _ = prepare(tmp_path, 8, "x + 1")
    (tmp_path / "in.zarr" / key).unlink()
    if what == "a folder":
        (tmp_path / "in.zarr" / key).mkdir()
    else:
        os.mkfifo(tmp_path / "in.zarr" / key)
    word = "a folder is in its place" if what == "a folder" else "something that is no file is in its place"
    chunkwise("run", path, *MEM).failed(f"in.zarr/{key}", word)
    nothing_published(tmp_path)


def test_an_input_that_is_a_pipe(tmp_path):
    path, _ = prepare(tmp_path, 8, "x + 1")
    shutil.rmtree(tmp_path / "in.zarr")
    os.mkfifo(tmp_path / "in.zarr")
    for command in (["run", path, *MEM], ["plan", path], ["info", tmp_path / "in.zarr"], ["verify", tmp_path / "in.zarr"]):
        chunkwise(*command).failed("in.zarr", "it is no file and no folder")
