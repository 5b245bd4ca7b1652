"""Kill -9 during a run, damage to chunks, then `--resume`: the same bytes, and finished chunks are not made again."""

import os
import signal
import subprocess
import time

import numpy as np
import pytest
from harness import binary, chunkwise, read_array, values, write_array, write_pipeline

# Long enough that a kill lands in the middle: 600 chunks, of which each takes some milliseconds.
SLOW = "sin(exp(cos(sin(exp(cos(sin(exp(cos(x)))))))))"


def prepare(folder, count=600, arrays=None, outputs=None):
    x = values(1, (count, 200, 100), "float64", -1, 1)
    write_array(folder / "in.zarr", x, (1, 200, 100), ["time", "lat", "lon"])
    return write_pipeline(folder, {"x": "in.zarr"}, arrays or {"y": SLOW}, outputs or {"out.zarr/y": "y"})


def chunk_files(folder):
    """Path → (inode, mtime, size) of every chunk under the output, wherever it is kept until published."""
    found = {}
    for root, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(root, name)
            # With a "#" are files and folders that are not finished.
            if "in.zarr" in path or "/c/" not in path or "#" in path:
                continue
            try:
                info = os.stat(path)
            except FileNotFoundError:
                continue
            found[os.path.relpath(path, folder)] = (info.st_ino, info.st_mtime_ns, info.st_size)
    return found


def output_bytes(folder, name="y"):
    root = folder / "out.zarr" / name
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def kill_midway(folder, path, chunks, *args):
    """Start a run, kill it when it has written `chunks` chunks; returns what was there after its death."""
    with subprocess.Popen(
        [binary(), "run", str(path), *(args if "--allowed-mem" in args else ["--allowed-mem", "300MB", *args])],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={**os.environ, "NO_COLOR": "1"},
    ) as process:  # fmt: skip
        deadline = time.monotonic() + 60
        while len(chunk_files(folder)) < chunks and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        code = process.wait()
        errors = process.stderr.read().decode()
    if code == 0:
        pytest.fail("the run ended before it could be killed; make the workload larger")
    assert code == -signal.SIGKILL, errors
    return chunk_files(folder)


@pytest.fixture
def reference(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reference")
    chunkwise("run", prepare(folder), "--allowed-mem", "300MB").ok()
    return output_bytes(folder)


def test_kill_and_resume(tmp_path, reference):
    path = prepare(tmp_path)
    before = kill_midway(tmp_path, path, 60, "--workers", "1")
    assert 0 < len(before) < 600
    chunkwise("run", path, "--allowed-mem", "300MB", "--resume").ok()
    after = chunk_files(tmp_path)
    kept = {v[:2] for v in after.values()}
    redone = [p for p, v in before.items() if v[:2] not in kept]
    # Only what the killed process had in hand may be made again.
    assert len(redone) <= 8, f"{len(redone)} of {len(before)} finished chunks were made again"
    assert output_bytes(tmp_path) == reference


def test_kill_twice(tmp_path, reference):
    path = prepare(tmp_path)
    kill_midway(tmp_path, path, 40, "--workers", "1")
    kill_midway(tmp_path, path, 200, "--workers", "1", "--resume")
    chunkwise("run", path, "--allowed-mem", "300MB", "--resume").ok()
    assert output_bytes(tmp_path) == reference


def test_chunks_that_appear_together(tmp_path):
    """Small chunks of a copy are written into a folder that appears as a whole: all of it is there after a kill, or nothing."""
    # Encoding takes long enough that a kill lands in the middle.
    output = {"array": "y", "chunks": {"time": -1, "lat": 10, "lon": 10}, "codec": "gzip"}
    path = prepare(tmp_path, arrays={"y": "x"}, outputs={"out.zarr/y": output})
    before = kill_midway(tmp_path, path, 61, "--workers", "1")
    rows = {}
    for name in before:
        rows.setdefault(os.path.dirname(name), []).append(name)
    assert rows and {len(names) for names in rows.values()} == {10}
    chunkwise("run", path, "--allowed-mem", "300MB", "--resume").ok()
    kept = {v[:2] for v in chunk_files(tmp_path).values()}
    # What had appeared when the process was killed, but was not reported yet.
    assert sum(v[:2] not in kept for v in before.values()) <= 10
    resumed = output_bytes(tmp_path)
    chunkwise("run", path, "--allowed-mem", "300MB", "--overwrite").ok()
    assert output_bytes(tmp_path) == resumed and not any("#" in name for name in resumed)


def test_torn_chunks_are_missing(tmp_path, reference):
    path = prepare(tmp_path)
    before = kill_midway(tmp_path, path, 100, "--workers", "1")
    names = sorted(before)[:3]
    (tmp_path / names[0]).write_bytes(b"")
    os.truncate(tmp_path / names[1], before[names[1]][2] // 2)
    (tmp_path / names[2]).unlink()
    chunkwise("run", path, "--allowed-mem", "300MB", "--resume").ok()
    assert output_bytes(tmp_path) == reference


def test_resume_of_a_finished_run_does_nothing(tmp_path):
    path = prepare(tmp_path, count=30)
    chunkwise("run", path, "--allowed-mem", "300MB").ok()
    before = chunk_files(tmp_path / "out.zarr")
    chunkwise("run", path, "--allowed-mem", "300MB", "--resume").ok()
    assert chunk_files(tmp_path / "out.zarr") == before


def test_resume_over_several_stages(tmp_path):
    arrays = {"r": SLOW, "m": 'r - mean(r, dim="time", keepdims=True)'}
    outputs = {"out.zarr/m": {"array": "m", "chunks": {"time": -1, "lat": 20, "lon": 20}}}
    path = prepare(tmp_path, 300, arrays, outputs)
    with subprocess.Popen([binary(), "run", str(path), "--allowed-mem", "300MB"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        time.sleep(0.5)
        process.kill()
    chunkwise("run", path, "--allowed-mem", "300MB", "--resume").ok()
    resumed = output_bytes(tmp_path, "m")
    chunkwise("run", path, "--allowed-mem", "300MB", "--overwrite").ok()
    assert output_bytes(tmp_path, "m") == resumed


def test_interrupt_leaves_a_resumable_state(tmp_path, reference):
    path = prepare(tmp_path)
    with subprocess.Popen([binary(), "run", str(path), "--allowed-mem", "300MB", "--workers", "1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while len(chunk_files(tmp_path)) < 30 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=30)
        errors = process.stderr.read().decode()
    assert code != 0 and "panicked" not in errors
    assert "resume" in errors
    chunkwise("run", path, "--allowed-mem", "300MB", "--resume").ok()
    assert output_bytes(tmp_path) == reference


def test_resume_without_an_earlier_run_leaves_what_is_there(tmp_path):
    pipeline = prepare(tmp_path, count=3, arrays={"y": "x + 1"})
    there = values(2, (5, 4), "int16")
    write_array(tmp_path / "out.zarr/y", there, (2, 4), ["a", "b"])
    chunkwise("run", pipeline, "--resume").failed("out.zarr/y")
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/y"), there)
    # With nothing there it is a first run.
    elsewhere = write_pipeline(tmp_path, {"x": "in.zarr"}, {"y": "x + 1"}, {"other.zarr/y": "y"})
    chunkwise("run", elsewhere, "--resume").ok()


def test_unfinished_reports_are_swept(tmp_path):
    """A worker that is killed while it writes a report leaves half of it under another name: gone when the run is published."""
    pipeline = prepare(tmp_path, count=4)
    run = chunkwise("run", pipeline, "--json").ok().report["id"]
    reports = tmp_path / "work" / run / "reports"
    reports.mkdir(exist_ok=True)
    gone, whole = reports / f"1.jsonl#{1:020}{1:010}000001", reports / "2.jsonl"
    for file in (gone, whole):
        file.write_text("")
    chunkwise("run", pipeline, "--resume").ok()
    assert not gone.exists() and whole.exists()


def test_what_is_in_memory_is_written_behind(tmp_path):
    """Nothing has to leave memory here, but a run of some seconds would be lost with it."""
    slow = "sin(exp(cos(sin(exp(cos(sin(exp(cos(x)))))))))"
    x = values(1, (40, 500, 1000), "float64", -1, 1)
    write_array(tmp_path / "in.zarr", x, (2, 500, 1000), ["time", "lat", "lon"])
    arrays = {"a": slow, "b": slow.replace("x)", "a)"), "c": slow.replace("x)", "b)")}
    outputs = {"out.zarr/c": {"array": "c", "chunks": {"time": -1, "lat": 50, "lon": 50}}}
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, arrays, outputs, spec={"fuse": False, "workers": 1})
    before = kill_midway(tmp_path, path, 10, "--allowed-mem", "4GB", "--workers", "1")
    done = chunkwise("run", path, "--resume", "--json", "--allowed-mem", "4GB").ok()
    # With the tasks of which nobody needs the results any more, as what was made from them is there.
    assert done.report["skipped"] > 10, (len(before), done.report)
    expected = x
    for _ in range(9):
        expected = np.sin(np.exp(np.cos(expected)))
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/c"), expected, rtol=1e-12)
    assert not chunk_files(tmp_path / "work")


@pytest.mark.parametrize("what", ["intermediate", "output"])
def test_damaged_chunks_are_made_again(tmp_path, what):
    """Of the size that they had, and with other bytes in them: a checksum tells."""
    slow = "sin(exp(cos(sin(exp(cos(x))))))"
    x = values(1, (60, 100, 200), "float64", -1, 1)
    write_array(tmp_path / "in.zarr", x, (1, 100, 200), ["time", "lat", "lon"])
    outputs = {"out.zarr/c": {"array": "b", "chunks": {"time": -1, "lat": 10, "lon": 10}}, "out.zarr/a": "a"}
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {"a": slow, "b": f"{slow.replace('x)', 'a)')}"}, outputs, spec={"fuse": False})
    # With workers of their own intermediates go to files at once.
    kill_midway(tmp_path, path, 150, "--executor", "processes")
    place = "out.zarr/a" if what == "output" else "work"
    chunks = [p for p in (tmp_path / place).rglob("*") if p.is_file() and "/c/" in str(p) and "#" not in p.name and p.stat().st_size > 1000]
    assert chunks
    for chunk in chunks:
        data = bytearray(chunk.read_bytes())
        data[len(data) // 2] ^= 0x10
        chunk.write_bytes(data)
    chunkwise("run", path, "--resume", "--allowed-mem", "300MB").ok()
    once = np.sin(np.exp(np.cos(np.sin(np.exp(np.cos(x))))))
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/a"), once, rtol=1e-12)
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/c"), np.sin(np.exp(np.cos(np.sin(np.exp(np.cos(once)))))), rtol=1e-12)


def test_a_driver_that_nobody_waited_for_holds_nothing(tmp_path):
    path = prepare(tmp_path)
    process = subprocess.Popen(  # noqa: SIM115
        [binary(), "run", str(path), "--allowed-mem", "300MB"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 60
    while len(chunk_files(tmp_path)) < 20 and time.monotonic() < deadline:
        time.sleep(0.005)
    process.kill()
    time.sleep(0.5)
    try:
        chunkwise("run", path, "--resume", "--allowed-mem", "300MB").ok()
    finally:
        process.wait()
