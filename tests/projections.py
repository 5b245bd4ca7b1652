"""The memory that processes and tasks take, beside what was projected for them."""

import json
import pathlib
import sys

import numpy as np
import zarr
from harness import chunkwise, write_pipeline

PEAK = pathlib.Path(__file__).resolve().parent / "peak.py"
MB = 1_000_000


def measured(folder, *args, **options):
    """Run the command; returns how it ended and its peak resident bytes."""
    report = folder / "peak.json"
    done = chunkwise(*args, prefix=(sys.executable, "-S", str(PEAK), str(report)), **options)
    return done, json.loads(report.read_text())["peak"]


def tasks_of(stage):
    """The number of tasks of a stage of a plan."""
    return max(int(np.prod([regions(axis) for axis in output["tasks"]], dtype=object)) for output in stage["outputs"])


def regions(axis):
    """The number of regions along an axis of a grid."""
    if "regular" in axis:
        return -(-axis["regular"]["len"] // max(1, axis["regular"]["size"]))
    return len(axis["irregular"])


def check_projections(folder, pipeline, budget, *args):
    """Run a pipeline whose work directory is `work`, then the first, the middle and the last task of every stage, each in a process of
    its own; none may take more than was projected. Returns the report of the run."""
    report = chunkwise("run", pipeline, "--allowed-mem", budget, "--json", "--keep", *args).ok().report
    file = folder / "work" / report["id"] / "plan.json"
    plan = json.loads(file.read_text())
    program = program_itself(folder)
    for number, stage in enumerate(plan["stages"]):
        tasks = tasks_of(stage)
        for task in sorted({0, tasks // 2, tasks - 1}):
            done, peak = measured(folder, "run-task", file, number, task)
            done.ok()
            used, projected = peak - program, stage["projected_mem"]
            assert used <= projected, f"stage {number}, task {task}: {used / MB:.1f} MB, projected {projected / MB:.1f} MB"
    return report


def program_itself(folder):
    """The memory of a task with next to no data."""
    zarr.create_array(str(folder / "tiny.zarr/x"), shape=(20, 4), chunks=(2, 4), dtype="float32")[...] = 1
    path = write_pipeline(folder, {"x": "tiny.zarr/x"}, {"m": "mean(sqrt(x), axis=0)"}, {"tiny-out.zarr/m": "m"}, name="tiny.json")
    report = chunkwise("run", path, "--allowed-mem", "200MB", "--json", "--keep").ok().report
    done, peak = measured(folder, "run-task", folder / "work" / report["id"] / "plan.json", 0, 0)
    done.ok()
    return peak
