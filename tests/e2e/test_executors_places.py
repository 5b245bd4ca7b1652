"""One list of demands for every executor: nothing is replaced, deleted or asked for that the person who runs it did not mean.

Each of these is looked at more closely in a file of its own (test_replace, test_clean, test_work_dir, test_hostile, test_claims). Their first sentences are in the table of
docs/reliability.md, too.
"""

import json
import shutil
import signal
import time

import pytest
from executors import ALL, APIS, batch, bucket, clean, engine, kubernetes, led_away, nothing_published, on, remote  # noqa: F401
from faults import MEM, Run, files, prepare
from harness import chunkwise, write_array, write_pipeline
from services import Recorder


def settle(request, executor):
    """Waits until an engine has ended what a driver has left to it."""
    if executor in APIS:
        engine(request, executor).settle()
    elif executor == "slurm":
        end = time.monotonic() + 60
        while jobs := request.getfixturevalue("slurm").jobs():
            assert time.monotonic() < end, jobs
            time.sleep(0.1)


@pytest.mark.parametrize("executor", ALL)
def test_an_output_that_is_an_input(tmp_path, on, executor):
    """An output is the input under another name, and is to be overwritten: the run stops before it touches anything."""
    args, env = on(executor)
    path = prepare(tmp_path, single=True)
    before = files(tmp_path / "in.zarr")
    (tmp_path / "out.zarr").mkdir()
    (tmp_path / "out.zarr/a").symlink_to(tmp_path / "in.zarr")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/link").symlink_to(tmp_path)
    plan = json.loads(path.read_text())
    [output] = [a for a in plan["arrays"].values() if a["role"] == "output"]
    for url in [None, f"{tmp_path}/./in.zarr", f"{tmp_path}/folder/../in.zarr", f"{tmp_path}/folder/link/in.zarr", f"{tmp_path}/in.zarr/c"]:
        if url is not None:
            output["url"], plan["groups"] = f"file://{url}", []
            path.write_text(json.dumps(plan))
        with Run("run", path, *args, "--overwrite", env=env) as run:
            run.failed("is, holds or lies in the input")
        assert files(tmp_path / "in.zarr") == before, url
    assert (tmp_path / "out.zarr/a").is_symlink()


@pytest.mark.parametrize("executor", ALL)
def test_another_run_with_the_same_output(tmp_path, on, remote, single, executor):
    """Another pipeline writes the same output at once: it stops before it touches anything, and names the first."""
    args, env = on(executor)
    env = {**env, **remote.env}
    path = remote.prepare(tmp_path, single=True)
    (tmp_path / "b").mkdir()
    other = write_pipeline(tmp_path / "b", {"x": remote.source}, {"r": "x * 2"}, {f"{tmp_path}/out.zarr/a": "r"})
    remote.hang()
    with Run("run", path, *args, "--task-timeout", "3", env=env) as first:
        first.until(lambda: remote.rule.hits)
        with Run("run", other, *args, "--overwrite", env=env) as second:
            second.failed("out.zarr/a", f"process {first.process.pid}")
        remote.heal()
        first.ok()
    clean(tmp_path, single)
    # Nobody writes it any more.
    with Run("run", other, *args, "--overwrite", env=env) as second:
        second.ok()
    assert files(tmp_path / "out.zarr") != single
    chunkwise("verify", tmp_path / "out.zarr").ok()


@pytest.mark.parametrize("executor", ALL)
def test_what_a_killed_run_has_left_is_cleaned(tmp_path, on, remote, request, executor):
    """The driver is killed, and `clean` is called: the remains of the run in the work directory are removed, and nothing else; a run that is running stays."""
    args, env = on(executor)
    path, work = remote.prepare(tmp_path), tmp_path / "work"
    # Of somebody else, and much like a run.
    for name in ("thesis", "0123456789abcdef"):
        (work / name).mkdir(parents=True)
        shutil.copy(path, work / name / "plan.json")
        (work / name / "chapter1.tex").write_text("years of work")
    (work / "linked").symlink_to(tmp_path / "in.zarr")
    mine = {k: v for k, v in files(tmp_path).items() if k.startswith("work/")}
    remote.hang()
    with Run("run", path, *args, env={**env, **remote.env}) as run:
        run.until(lambda: remote.rule.hits)
        chunkwise("clean", work, "--all").ok()
        assert list(work.glob("*/chunkwise-run.json")), "the run was cleaned while it ran"
        run.signal(signal.SIGKILL)
        run.end()
        remote.heal()
        run.kill_workers()
        settle(request, executor)
    chunkwise("clean", work, "--all").ok()
    assert {k: v for k, v in files(tmp_path).items() if k.startswith("work/")} == mine
    assert (work / "linked").is_symlink() and not list(work.glob("*/chunkwise-run.json"))
    nothing_published(tmp_path)


@pytest.mark.parametrize("executor", ALL)
def test_a_work_directory_that_leads_elsewhere(tmp_path, on, executor):
    """The default work directory is a link, or belongs to another user: the run stops, and nothing changes there."""
    args, env = on(executor)
    write_array(tmp_path / "in.zarr", [[1.0, 2.0], [3.0, 4.0]], (1, 2))
    path = tmp_path / "pipeline.json"
    path.write_text(json.dumps({"inputs": {"x": "in.zarr"}, "outputs": {"out.zarr": "x - mean(x)"}}))
    temporary, victim = tmp_path / "tmp", tmp_path / "victim"
    temporary.mkdir()
    temporary.chmod(0o1777)
    victim.mkdir()
    (victim / "thesis.tex").write_text("years of work")
    default = temporary / f"chunkwise-{temporary.stat().st_uid}"
    default.symlink_to(victim)
    for word in ("symbolic link", "belongs to"):
        with Run("run", path, *args, env={**env, "TMPDIR": str(temporary)}) as run:
            run.failed("default work directory", word)
        assert [p.name for p in victim.iterdir()] == ["thesis.tex"] and not (tmp_path / "out.zarr").exists()
        if default.is_symlink():
            default.unlink()
            default.mkdir()
            shutil.chown(default, 23456, 23456)
    assert list(default.iterdir()) == []


@pytest.mark.parametrize("executor", ALL)
def test_a_pipeline_that_leads_keys_away(tmp_path, on, executor):
    """A pipeline or plan sends its output to a server of its own choice, or with other keys: it is refused, and that server sees nothing."""
    args, env = on(executor)
    env = {**env, "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE", "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "AWS_SESSION_TOKEN": "IQoJEXAMPLE"}
    write_array(tmp_path / "in.zarr", [[1.0, 2.0], [3.0, 4.0]], (1, 2))
    with Recorder(tmp_path) as recorder:
        for storage, word in led_away(recorder):
            path = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"s3://bucket/out.zarr": "x * 2"}, spec={"storage": {"s3://": storage}})
            with Run("run", path, *args, env=env) as run:
                run.failed(word)
            # The same in a plan.
            path = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out.zarr": "x * 2"})
            plan = json.loads(chunkwise("plan", path, *MEM, "--format", "json").ok().stdout)
            plan["spec"]["storage"] = {"s3://": storage}
            [output] = [a for a in plan["arrays"].values() if a["role"] == "output"]
            output["url"] = "s3://bucket/out.zarr"
            stored = tmp_path / "plan.json"
            stored.write_text(json.dumps(plan))
            with Run("run", stored, *args, env=env) as run:
                run.failed(word)
            assert recorder.seen() == "", storage
