"""The work directory of those who name none is theirs alone: made for them, not followed through links, refused if it is somebody else's."""

import os
import pathlib
import stat
import subprocess

import pytest
from harness import binary, chunkwise, values, write_array

SOMEBODY = 23456


@pytest.fixture
def folder(tmp_path):
    write_array(tmp_path / "in.zarr", values(1, (8, 50, 40), "float64", -1, 1), (1, 50, 40))
    (tmp_path / "p.yaml").write_text("inputs: {x: in.zarr}\noutputs: {out.zarr: 'x - mean(x)'}\n")
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    # Test folders are for their owner alone.
    for above in [tmp_path, *tmp_path.parents]:
        if str(above).startswith("/tmp/"):
            above.chmod(0o755)
    return tmp_path


def default(folder, user=None):
    return folder / "tmp" / f"chunkwise-{os.geteuid() if user is None else user}"


def run(folder, *args, **options):
    return chunkwise("run", folder / "p.yaml", *args, env={"TMPDIR": str(folder / "tmp")}, **options)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_it_is_its_owners_alone(folder):
    run(folder, "--keep").ok()
    assert mode(default(folder)) == 0o700 and list(default(folder).glob("*/plan.json"))
    # Somebody may have opened it since.
    default(folder).chmod(0o777)
    run(folder, "--overwrite").ok()
    assert mode(default(folder)) == 0o700
    chunkwise("rechunk", folder / "in.zarr", folder / "r.zarr", "--chunks", "8,10,10", env={"TMPDIR": str(folder / "tmp")}).ok()
    assert [p.name for p in (folder / "tmp").iterdir()] == [default(folder).name]


def test_without_tmpdir_it_is_on_a_disk(folder):
    """`/tmp` may be memory; large temporary files go to `/var/tmp`."""
    plan = chunkwise("plan", folder / "p.yaml", "--format", "json", env={"TMPDIR": ""}).ok().stdout
    place = "/var/tmp" if os.access("/var/tmp", os.W_OK) else "/tmp"
    assert f'"file://{place}/chunkwise-{os.geteuid()}"' in plan


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as two users")
def test_two_users(folder):
    other = ("setpriv", f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", "--clear-groups")
    if subprocess.run([*other, binary(), "--version"], capture_output=True, check=False).returncode:
        pytest.skip("another user cannot run the command here")
    run(folder).ok()
    folder.chmod(0o777)
    (folder / "out.zarr").rename(folder / "mine.zarr")
    run(folder, prefix=other).ok()
    theirs = default(folder, SOMEBODY)
    assert theirs.stat().st_uid == SOMEBODY and mode(theirs) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give folders away")
def test_a_folder_of_somebody_else(folder):
    """Whoever came first would see the intermediates, and could lead what is deleted elsewhere."""
    default(folder).mkdir()
    os.chown(default(folder), SOMEBODY, SOMEBODY)
    done = run(folder)
    assert done.failed("default work directory", f"belongs to the user {SOMEBODY}", "--work-dir", "nothing was computed").code == 2
    assert list(default(folder).iterdir()) == []
    run(folder, "--work-dir", folder / "work").ok()


@pytest.mark.parametrize("what", ["folder", "nothing", "file"])
def test_a_link(folder, what):
    victim = folder / "victim"
    if what == "folder":
        victim.mkdir()
        (victim / "thesis.tex").write_text("years of work")
    elif what == "file":
        victim.write_text("years of work")
    default(folder).symlink_to(victim)
    assert run(folder).failed("symbolic link", "--work-dir").code == 2
    assert victim.exists() == (what != "nothing")
    assert what != "folder" or [p.name for p in victim.iterdir()] == ["thesis.tex"]


def test_a_file(folder):
    default(folder).write_text("not a folder")
    assert run(folder).failed("no folder", "--work-dir").code == 2


def test_a_link_that_is_named_is_its_users_affair(folder):
    """People put work directories where there is room."""
    (folder / "large").mkdir()
    (folder / "work").symlink_to("large")
    run(folder, "--work-dir", folder / "work").ok()
    assert list((folder / "large").glob("*/plan.json"))


def test_the_folder_of_a_run_is_no_link(folder):
    """Its name is the hash of the plan, which others can work out: a link of that name would lead what is deleted to a victim."""
    victim = folder / "victim"
    victim.mkdir()
    (victim / "thesis.tex").write_text("years of work")
    done = run(folder, "--json").ok()
    name = done.report["id"]
    work = folder / "shared"
    work.mkdir()
    work.chmod(0o1777)
    first = run(folder, "--work-dir", work, "--overwrite", "--json").ok().report["id"]
    assert name != first
    for path in sorted((work / first).rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    (work / first).rmdir()
    (work / first).symlink_to(victim)
    assert run(folder, "--work-dir", work, "--overwrite").failed("symbolic link", first, "--work-dir").code == 2
    assert [p.name for p in victim.iterdir()] == ["thesis.tex"]
    assert pathlib.Path(folder / "out.zarr/zarr.json").exists()
