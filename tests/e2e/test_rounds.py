"""Runs are killed, what they left is damaged at random, and they go on with another executor: the same bytes, or an error that says why.

`CHUNKWISE_ROUNDS=200 CHUNKWISE_SEED=fresh` does it more often, with other faults. A round that fails prints its seed.
"""

import os
import random
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest
import zarr
from harness import binary, chunkwise, values, write_array

ROUNDS = int(os.environ.get("CHUNKWISE_ROUNDS", "6"))
SEED = int(os.environ.get("CHUNKWISE_SEED", "1"))
EXECUTORS = {
    "threads": ["--executor", "threads"],
    "processes": ["--executor", "processes", "--executor-option", "processes=2"],
    "command": ["--executor", "command", "--executor-option", "command={worker}", "--executor-option", "poll=0.05", "--executor-option", "parallel=2"],
}


def nest(name, n):
    return name if n == 0 else f"sin(exp(cos({nest(name, n - 1)})))"


# Every operation is a stage of its own, so that there are many intermediates.
PIPELINE = f"""
inputs: {{x: in.zarr}}
arrays:
  a: {nest("x", 2)}
  m: mean(a, dim="time")
  b: {nest("(a - m)", 2)}
  s: std(b, dim="lat")
  c: {nest("(b / (s + 1))", 2)}
outputs:
  out.zarr/c: {{array: c, chunks: {{time: -1, lat: 50, lon: 50}}}}
  out.zarr/s: s
  turned.zarr/t: {{array: "permute_dims(b, [2, 0, 1])", chunks: {{lon: 40, time: 20, lat: 300}}}}
spec: {{fuse: false, allowed_mem: 400MB, workers: 2, work_dir: work, join_chunks: false}}
"""


def outputs(folder):
    return {name: zarr.open_array(str(folder / name), mode="r")[...] for name in ("out.zarr/c", "out.zarr/s", "turned.zarr/t")}


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rounds")
    write_array(folder / "in.zarr", values(1, (40, 300, 400), "float64", 0, 1), (4, 150, 400), ["time", "lat", "lon"])
    (folder / "p.yaml").write_text(PIPELINE)
    began = time.monotonic()
    chunkwise("run", "p.yaml", cwd=folder).ok()
    return folder, outputs(folder), time.monotonic() - began


def flip(rng, path):
    data = bytearray(path.read_bytes())
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)


def cut(rng, path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove(rng, path):
    path.unlink()


def damage(rng, folder):
    """Some of what a run has left: chunks, and what it has written down of them. What was damaged."""
    kept = [p for top in ("work", "out.zarr", "turned.zarr") for p in sorted((folder / top).rglob("*")) if p.is_file() and "#" not in p.name]
    chunks = [p for p in kept if "c" in p.relative_to(folder).parts]
    logs = [p for p in kept if p.suffix == ".jsonl" or p.name == "inputs.json"]
    told = []
    for path in rng.sample(chunks, min(len(chunks), rng.randint(0, 4))) + rng.sample(logs, min(len(logs), rng.randint(0, 1))):
        how = rng.choice([flip, cut, remove])
        how(rng, path)
        told.append(f"{how.__name__} {path.relative_to(folder)}")
    return told


def change(rng, folder):
    """The input gets other values in one chunk."""
    path = rng.choice(sorted(p for p in (folder / "in.zarr/c").rglob("*") if p.is_file()))
    path.write_bytes(path.read_bytes()[::-1])


def claim_to_delete(story, errors, folder):
    """A claim that was damaged may name a process that is not known to be gone. Nobody may take its place unasked: the message says which file to
    delete, and a user who is certain does so. True if that was the case."""
    claims = [folder / told.split(" ", 1)[1] for told in story if told.startswith("flip ") and told.endswith("/.chunkwise-claim")]
    named = [claim for claim in claims if f"delete '{claim}'" in errors]
    for claim in named:
        claim.unlink()
    return bool(named)


def one_round(seed, template, expected, whole, folder):
    rng = random.Random(seed)
    shutil.copytree(template / "in.zarr", folder / "in.zarr")
    shutil.copy(template / "p.yaml", folder / "p.yaml")
    story, args = [], []
    for _ in range(rng.randint(1, 3)):
        executor = rng.choice(list(EXECUTORS))
        command = [binary(), "run", "p.yaml", *EXECUTORS[executor], *args]
        with subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True) as run:
            try:
                run.wait(rng.uniform(0.1, whole * 1.2))
            except subprocess.TimeoutExpired:
                os.killpg(run.pid, signal.SIGKILL)
            errors = run.stderr.read().decode()
        story.append(f"{executor}: {run.returncode}")
        if run.returncode == 2 and claim_to_delete(story, errors, folder):
            continue
        assert run.returncode in (0, -9), f"seed {seed}: {story}\n{errors}"
        if run.returncode == 0:
            break
        args = ["--resume"]
        story += damage(rng, folder)
    else:
        if rng.random() < 0.2:
            change(rng, folder)
            executor = rng.choice(list(EXECUTORS))
            done = chunkwise("run", "p.yaml", *EXECUTORS[executor], "--resume", "--json", cwd=folder)
            if done.code:
                assert "has changed" in done.stderr, f"seed {seed}: {story}\n{done.stderr}"
                return
            # No finished task had read that chunk: the result is that of the input as it is now.
            (folder / "fresh").mkdir()
            shutil.copytree(folder / "in.zarr", folder / "fresh/in.zarr")
            shutil.copy(template / "p.yaml", folder / "fresh/p.yaml")
            chunkwise("run", "p.yaml", cwd=folder / "fresh").ok()
            found = outputs(folder)
            for name, wanted in outputs(folder / "fresh").items():
                assert np.array_equal(found[name], wanted, equal_nan=True), f"seed {seed}: {name} differs: {story}"
            return
        executor = rng.choice(list(EXECUTORS))
        story.append(f"{executor} to the end")
        done = chunkwise("run", "p.yaml", *EXECUTORS[executor], "--resume", cwd=folder)
        while done.code == 2 and claim_to_delete(story, done.stderr, folder):
            done = chunkwise("run", "p.yaml", *EXECUTORS[executor], "--resume", cwd=folder)
        assert done.code == 0, f"seed {seed}: {story}\n{done.stderr}"
    found = outputs(folder)
    for name, wanted in expected.items():
        assert np.array_equal(found[name], wanted, equal_nan=True), f"seed {seed}: {name} differs: {story}"
    # What was damaged after it was published is found, too.
    for name in ("out.zarr", "turned.zarr"):
        chunkwise("verify", name, cwd=folder).ok()


@pytest.mark.parametrize("number", range(ROUNDS))
def test_kill_damage_and_go_on(case, tmp_path, number):
    one_round(SEED + number, *case, tmp_path)
