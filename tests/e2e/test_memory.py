"""The peak memory of a whole run stays under `--allowed-mem`, for data larger than it."""

import contextlib
import json
import os
import time

import numpy as np
import pytest
import zarr
from faults import Run
from harness import chunkwise, read_array, values, write_array, write_large, write_pipeline
from projections import MB, check_projections, measured
from zarr.codecs import BloscCodec, ZstdCodec


@pytest.fixture(scope="module")
def big(large):
    """Two arrays of 320 MB as (time, y, x) in chunks of 8 MB, and a tall matrix of 320 MB."""
    folder = large
    write_large(folder, "v", 1)
    array = zarr.create_array(str(folder / "in.zarr" / "a"), shape=(100_000, 400), chunks=(2_500, 400), dtype="float64", compressors=None)
    rng = np.random.default_rng(9)
    for start in range(0, 100_000, 2_500):
        array[start : start + 2_500] = rng.standard_normal((2_500, 400))
    return folder


def mean_product(folder):
    u, v = zarr.open_array(str(folder / "in.zarr/u")), zarr.open_array(str(folder / "in.zarr/v"))
    total = np.zeros(u.shape[1:])
    for start in range(0, u.shape[0], 50):
        total += np.sum(u[start : start + 50] * v[start : start + 50], axis=0, dtype="float64")
    return total / u.shape[0]


def check_u(folder, path, transform):
    source = zarr.open_array(str(folder / "in.zarr/u"), mode="r")
    result = zarr.open_array(str(path), mode="r")
    for start in (0, 130, 390):
        np.testing.assert_allclose(result[start : start + 10], transform(source[start : start + 10]), rtol=1e-5, atol=1e-6)


def laplace(x):
    return sum(np.roll(x, shift, axis) for shift in (-1, 1) for axis in (1, 2)) - 4 * x


WORK = {
    # name: (expression, output options, check)
    "mean": ('mean(u * v, dim="time")', {}, lambda f, p: np.testing.assert_allclose(read_array(p), mean_product(f), rtol=1e-4, atol=1e-5)),
    "elementwise": ("sqrt(abs(u)) + 1", {}, lambda f, p: check_u(f, p, lambda x: np.sqrt(np.abs(x)) + 1)),
    "rechunk": ("u", {"chunks": {"time": -1, "y": 20, "x": 20}}, lambda f, p: check_u(f, p, lambda x: x)),
    "anomaly": ('u - mean(u, dim="time", keepdims=True)', {}, None),
    "moving": ('moving_mean(u, time=7, y=5, mode="reflect")', {}, None),
    "laplace": ('stencil(u, [[0, 1, 0], [1, -4, 1], [0, 1, 0]], dim=["y", "x"], mode="wrap")', {}, lambda f, p: check_u(f, p, laplace)),
    "ata": ("permute_dims(a, [1, 0]) @ a", {}, None),
}  # fmt: skip


@pytest.mark.parametrize("budget", [150, 300])
@pytest.mark.parametrize("name", WORK)
def test_peak_is_under_the_budget(big, tmp_path, name, budget):
    expression, options, check = WORK[name]
    inputs = {n: str(big / "in.zarr" / n) for n in "uva"}
    path = write_pipeline(tmp_path, inputs, {"r": expression}, {"out.zarr/r": {"array": "r", **options}})
    done, peak = measured(tmp_path, "run", path, "--allowed-mem", f"{budget}MB", "--json")
    done.ok()
    assert peak <= budget * MB, f"peak {peak / MB:.0f} MB with a budget of {budget} MB"
    if check:
        check(big, tmp_path / "out.zarr/r")


def test_many_workers_share_the_budget(big, tmp_path):
    path = write_pipeline(tmp_path, {"u": str(big / "in.zarr/u")}, {"r": "exp(u)"}, {"out.zarr/r": "r"})
    done, peak = measured(tmp_path, "run", path, "--allowed-mem", "200MB", "--workers", "16")
    done.ok()
    assert peak <= 200 * MB, f"peak {peak / MB:.0f} MB"


@pytest.mark.parametrize("name", WORK)
def test_every_task_stays_under_its_projection(big, tmp_path, name):
    """The first, the middle and the last task of every stage, each in a process of its own."""
    expression, options, _ = WORK[name]
    inputs = {n: str(big / "in.zarr" / n) for n in "uva"}
    path = write_pipeline(tmp_path, inputs, {"r": expression}, {"out.zarr/r": {"array": "r", **options}})
    check_projections(tmp_path, path, "200MB")


@pytest.mark.parametrize("compressor, block", [("lz4", 0), ("lz4", 4 << 20), ("zstd", 4 << 20)])
@pytest.mark.parametrize("chunks", [(50, 400, 250), (50, 200, 250)], ids=["in-place", "apart"])
def test_tasks_over_large_encoded_chunks(tmp_path, chunks, compressor, block):
    """Whole chunks are decoded where they belong if there they are one run, whatever the blocks of Blosc are."""
    x = np.random.default_rng(2).integers(0, 1 << 30, (150, 400, 250)).astype("float64")
    write_array(tmp_path / "in.zarr/x", x, chunks, ["time", "y", "x"], compressors=BloscCodec(cname=compressor, clevel=1, blocksize=block))
    outputs = {"out.zarr/r": {"array": "x", "chunks": {"time": -1, "y": 50, "x": 50}}}
    path = write_pipeline(tmp_path, {"x": "in.zarr/x"}, {}, outputs)
    check_projections(tmp_path, path, "260MB")
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/r"), x)


def test_chunks_of_zstd_may_be_larger_than_the_budget(tmp_path):
    """They are decoded from their beginning on, and forgotten: also at the edges, where a chunk is larger than the array."""
    x = np.random.default_rng(3).integers(0, 50, (50, 1000, 990)).astype("float32")
    array = zarr.create_array(str(tmp_path / "in.zarr/x"), shape=x.shape, chunks=(40, 1000, 1000), dtype="float32", compressors=ZstdCodec(level=3, checksum=True))
    array[...] = x
    work = {"mean": "mean(x)", "squares": "sum(x * x, axis=0)", "most": "max(x, axis=0)"}
    expected = {"mean": x.mean(dtype="float64"), "squares": (x.astype("float64") ** 2).sum(axis=0), "most": x.max(axis=0)}
    path = write_pipeline(tmp_path, {"x": "in.zarr/x"}, work, {f"out.zarr/{name}": name for name in work})
    check_projections(tmp_path, path, "120MB")
    done, peak = measured(tmp_path, "run", path, "--allowed-mem", "120MB", "--overwrite")
    done.ok()
    assert peak <= 120 * MB, f"peak {peak / MB:.0f} MB"
    for name, result in expected.items():
        np.testing.assert_allclose(read_array(tmp_path / "out.zarr" / name), result, rtol=1e-6, err_msg=name)
    # Damage at the end is found, where rows are decoded that lie beyond the array.
    chunk = tmp_path / "in.zarr/x/c/1/0/0"
    data = bytearray(chunk.read_bytes())
    data[-1] ^= 1
    chunk.write_bytes(data)
    chunkwise("run", path, "--allowed-mem", "120MB", "--overwrite").failed("c/1/0/0", "checksum")


def test_tasks_of_long_chains(tmp_path):
    """Hundreds of operations in registers: of several dtypes, many of them alive at once, of operands that lie in other orders too."""
    x = np.random.default_rng(4).uniform(0.5, 1.5, (80, 400, 250)).astype("float32")
    y = np.ascontiguousarray(x.transpose(0, 2, 1)) + np.float32(1)
    write_array(tmp_path / "in.zarr/x", x, (20, 400, 250), ["time", "y", "x"], compressors=None)
    write_array(tmp_path / "in.zarr/y", y, (20, 250, 400), ["time", "x", "y"], compressors=None)
    work, expected = {"c0": "x", "c1": "permute_dims(y, [0, 2, 1])"}, [x[:40], y.transpose(0, 2, 1)[:40]]
    for k in range(2, 300):
        a, b = expected[-1], expected[k * 5 // 7]
        name, first, second = f"c{k}", f"c{k - 1}", f"c{k * 5 // 7}"
        if k % 3 == 0:
            work[name], value = f"where({first} > {second}, {first} * 0.5, {second} + 0.25)", np.where(a > b, a * a.dtype.type(0.5), b + b.dtype.type(0.25))
        elif k % 3 == 1:
            work[name], value = f"abs({first} - {second}) + 0.5", np.abs(a - b) + np.result_type(a, b).type(0.5)
        else:
            work[name], value = f"astype({first}, 'float{64 if k % 2 else 32}') * 0.75", a.astype("float64" if k % 2 else "float32") * 0.75
        expected.append(value)
    outputs = {"out.zarr/r": "r", "out.zarr/m": "m", "out.zarr/early": "c100"}
    path = write_pipeline(tmp_path, {"x": "in.zarr/x", "y": "in.zarr/y"}, {**work, "r": "c299", "m": "mean(c299, axis=0)"}, outputs)
    check_projections(tmp_path, path, "170MB")
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/r")[:40], expected[299], rtol=1e-6)
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/early")[:40], expected[100], rtol=1e-6)
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/m"), read_array(tmp_path / "out.zarr/r").mean(axis=0, dtype="float64"), rtol=1e-5)


def test_many_folds_in_one_stage(tmp_path):
    """Blocks that the allocator rounds up are not more than half as large again, however many there are."""
    x = np.random.default_rng(5).integers(0, 100, (40, 500, 500)).astype("float64")
    write_array(tmp_path / "in.zarr/x", x, (4, 500, 500), ["time", "y", "x"], compressors=None)
    work = {f"m{k}": f"mean(x * {k}, axis=0)" for k in range(100)}
    path = write_pipeline(tmp_path, {"x": "in.zarr/x"}, work, {"out.zarr/r": " + ".join(work)})
    check_projections(tmp_path, path, "500MB")
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/r"), x.mean(axis=0) * 4950, rtol=1e-12)


def test_intermediates_stay_in_memory_while_there_is_room(tmp_path):
    x = values(3, (400, 150, 100), "float32", -1, 1)
    write_array(tmp_path / "in.zarr", x, (10, 150, 100), ["t", "y", "x"])
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {"r": "sqrt(abs(x))"}, {"out.zarr/r": "r"})
    text = json.loads(path.read_text())
    # One stage an operation, so that the first passes 24 MB to the second.
    path.write_text(json.dumps({**text, "spec": {**text.get("spec", {}), "fuse": False}}))
    want = np.sqrt(np.abs(x))
    roomy = chunkwise("run", path, "--allowed-mem", "400MB", "--json").ok().report
    assert roomy["bytes_spilled"] == 0
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/r"), want)
    kept = chunkwise("run", path, "--allowed-mem", "400MB", "--json", "--keep", "--overwrite").ok().report
    assert kept["bytes_spilled"] > 10 * MB and any((tmp_path / "work" / kept["id"]).rglob("c/*"))
    tight = chunkwise("run", path, "--allowed-mem", "80MB", "--json", "--overwrite").ok().report
    assert tight["bytes_spilled"] > 0 and tight["peak_memory"] < 80 * MB
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/r"), want)


def test_a_task_that_leaves_no_room_for_another_reads_on_idle_cores(big, tmp_path):
    """The one task of this run borrows the other cores to read; its buffers there are part of what is allowed."""
    out = tmp_path / "out.zarr"
    output = {"array": "u[::-1] * 2", "chunks": [400, 400, 500], "codec": "none"}
    pipeline = write_pipeline(tmp_path, {"u": str(big / "in.zarr/u")}, {}, {str(out): output})
    done, peak = measured(tmp_path, "run", pipeline, "--allowed-mem", "900MB", "--workers", "4", "--json")
    assert json.loads(done.stdout)["tasks"] == 1
    assert peak < 900 * MB
    source, result = zarr.open_array(str(big / "in.zarr/u"), mode="r"), zarr.open_array(str(out), mode="r")
    for start in (0, 170, 390):
        np.testing.assert_array_equal(result[start : start + 10], source[390 - start : 400 - start][::-1] * 2)


def test_many_cores_are_no_reason_for_many_threads(big, tmp_path):
    """The library of codecs asks how many threads there might be, and none of them is started: what they took would be in no projection."""
    path = write_pipeline(tmp_path, {"u": str(big / "in.zarr/u")}, {"r": "sin(u)"}, {"out.zarr/r": "r"})
    most = 0
    with Run("run", path, "--allowed-mem", "200MB", "--workers", "2", env={"RAYON_NUM_THREADS": "100"}) as run:
        while run.process.poll() is None:
            with contextlib.suppress(OSError):
                most = max(most, len(os.listdir(f"/proc/{run.process.pid}/task")))
            time.sleep(0.002)
        run.ok()
    assert 2 < most < 30, most


def test_decoders_that_do_not_know_the_length_and_a_small_last_chunk(tmp_path):
    """gzip grows its buffer as it decodes; and the last chunk, of one row, is read whole after others were read in bands."""
    path = tmp_path / "a.zarr" / "a"
    a = zarr.create_array(str(path), shape=(2001, 100, 100), chunks=(1000, 100, 100), dtype="f8", compressors=[zarr.codecs.GzipCodec(level=1)])
    x = np.random.default_rng(0).random(a.shape)
    a[:] = x
    pipeline = write_pipeline(tmp_path, {"a": "a.zarr/a"}, {"s": "sum(a)"}, {"out.zarr/s": "s"})
    _, peak = measured(tmp_path, "run", pipeline, "--allowed-mem", "260MB", "--workers", "1")
    assert peak < 260 * MB
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/s"), x.sum(), rtol=1e-14)
