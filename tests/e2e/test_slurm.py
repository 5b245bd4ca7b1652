"""The executor `slurm` in particular: what it makes of its commands when they fail. What all executors have in common is in test_executors.py."""

import shutil

import pytest
from faults import MEM, Run, files, prepare

SLURM = ["--executor", "slurm", *(w for o in ("poll=0.3", "mem=400MB") for w in ("--executor-option", o))]


@pytest.fixture
def instead(slurm, tmp_path):
    """`instead(program, script)`: a shell script that stands in for a program of Slurm, which is `$real` there; the environment of a run."""

    def instead(program, script):
        folder = tmp_path / "programs"
        folder.mkdir(exist_ok=True)
        real = shutil.which(program, path=slurm.env["PATH"])
        (folder / program).write_text(f"#!/bin/sh\nreal={real}\n{script}\n")
        (folder / program).chmod(0o755)
        return {**slurm.env, "PATH": f"{folder}:{slurm.env['PATH']}"}

    return instead


def test_a_controller_that_is_away_for_a_look(tmp_path, instead):
    """It is asked after each of many jobs, and leaves all of these questions unanswered; at the next look it is there again."""
    asked = tmp_path / "asked"
    asked.mkdir()
    away = f'[ "$2" = job ] && [ ! -e "{asked}/$4" ] && touch "{asked}/$4" && echo "Unable to contact slurm controller (connect failure)" >&2 && exit 1'
    env = instead("scontrol", f'{away}\nexec "$real" "$@"')
    path = prepare(tmp_path, single=True, count=70)
    with Run("run", path, *MEM, *SLURM, "--executor-option", "array=1", env=env) as run:
        run.ok()
    # Each job has one task, and was asked after once in vain.
    assert len(list(asked.iterdir())) == 70 and "again in" not in run.errors, run.errors
    chunks = [p for p in files(tmp_path / "out.zarr") if "/c/" in p]
    assert len(chunks) == 70


def test_jobs_that_are_not_taken(tmp_path, slurm):
    """The run stops, and says what sbatch says."""
    path = prepare(tmp_path, single=True, count=4)
    with Run("run", path, *MEM, *SLURM, "--executor-option", "partition=nowhere", env=slurm.env) as run:
        run.failed("'sbatch' failed", "invalid partition specified: nowhere")
