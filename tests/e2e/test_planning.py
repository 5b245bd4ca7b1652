"""What plans look like at full scale: stages, copies, size. The arrays have metadata only, no chunk is ever stored."""

import json
import math
import pathlib

import numpy as np
import pytest
import zarr
from harness import chunkwise, stages_reading
from projections import measured, tasks_of

WORKLOADS = pathlib.Path(__file__).resolve().parent.parent.parent / "examples" / "workloads"
TIME = {"units": "hours since 2000-01-01 00:00:00", "calendar": "standard"}
LZ4 = zarr.codecs.BloscCodec(cname="lz4", clevel=5, shuffle="shuffle")


def declare(folder, name, shape, chunks, dims, dtype="float32", compressors=LZ4):
    zarr.create_array(str(folder / name), shape=shape, chunks=chunks, dtype=dtype, dimension_names=dims, compressors=compressors)


def plan_of(folder, text, *args):
    path = folder / "pipeline.yaml"
    path.write_text(text)
    done, peak = measured(folder, "plan", path, "--format", "json", *args)
    return json.loads(done.ok().stdout), peak, len(done.stdout)


def size(array):
    return int(np.prod(array["shape"], dtype=object)) * {"float32": 4, "float64": 8}[array["dtype"]]


def intermediates(plan):
    return {name: array for name, array in plan["arrays"].items() if array["role"] == "intermediate"}


def reads(stage):
    return [step["read"] for step in stage["program"]["steps"] if step.get("read")]


def readers(plan, word):
    return [s for s in plan["stages"] if any(word in r for r in reads(s))]


def kernels(plan):
    return [step["kernel"] for s in plan["stages"] for step in s["program"]["steps"] if step.get("kernel")]


def test_era5_is_copied_once(tmp_path):
    declare(tmp_path, "era5.zarr/t", (350640, 721, 1440), (31, 721, 1440), ["time", "lat", "lon"])
    text = "inputs: {t: era5.zarr/t}\noutputs: {out.zarr/t: {array: t, chunks: {time: -1, lat: 10, lon: 10}}}\nspec: {allowed_mem: 2GB}\n"
    plan, peak, _ = plan_of(tmp_path, text)
    total = size(plan["arrays"]["out0-t"])
    assert [s["kind"] for s in plan["stages"]] == ["rechunk", "rechunk"]
    assert [size(a) for a in intermediates(plan).values()] == [total]
    assert sum(s["cost"]["bytes_written"] for s in plan["stages"]) == 2 * total
    # Each source chunk is decoded once, each piece of the copy as well; the middle task stands for all, so the ends may count twice.
    assert sum(s["cost"]["bytes_read"] for s in plan["stages"]) < 2.1 * total
    assert peak < 100e6


@pytest.mark.parametrize(
    "compressors, copies",
    [(None, 0), (LZ4, 0), (zarr.codecs.BloscCodec(cname="zstd", blocksize=1 << 23), 1), (zarr.codecs.ZstdCodec(), 1)],
    ids=["raw", "lz4", "large blocks", "zstd"],
)
def test_a_copy_only_where_chunks_are_decoded_as_a_whole(tmp_path, compressors, copies):
    declare(tmp_path, "in.zarr/x", (361, 721, 1440), (31, 721, 1440), ["time", "lat", "lon"], compressors=compressors)
    text = "inputs: {x: in.zarr/x}\noutputs: {out.zarr/x: {array: x, chunks: {time: -1, lat: 10, lon: 10}}}\nspec: {allowed_mem: 1GB}\n"
    plan, _, _ = plan_of(tmp_path, text)
    assert len(intermediates(plan)) == copies
    assert sum(s["cost"]["bytes_read"] for s in plan["stages"]) < 2.5 * 361 * 721 * 1440 * 4


@pytest.mark.parametrize("allowed", ["1GB", "2GB", "4GB"])
def test_workers_end_a_copy_together(tmp_path, allowed):
    declare(tmp_path, "in.zarr/x", (241, 721, 1440), (31, 721, 1440), ["time", "lat", "lon"])
    text = "inputs: {x: in.zarr/x}\noutputs: {out.zarr/x: {array: x, chunks: {time: -1, lat: 10, lon: 10}}}\n"
    plan, _, _ = plan_of(tmp_path, text, "--allowed-mem", allowed, "--workers", "2")
    lat = plan["stages"][0]["outputs"][0]["tasks"][1]["regular"]
    assert lat["size"] % 10 == 0 and math.ceil(lat["len"] / lat["size"]) < 16
    rows = [0, 0]
    for start in range(0, lat["len"], lat["size"]):
        rows[rows.index(min(rows))] += min(lat["size"], lat["len"] - start)
    assert max(rows) < 1.05 * sum(rows) / 2, (lat, rows)


@pytest.mark.parametrize("compressors, most", [(None, 14e6), (LZ4, 130e6)], ids=["raw", "lz4"])
def test_a_little_reading_is_not_worth_much_memory(tmp_path, compressors, most):
    """Using memory for the first time takes longer than reading and decoding a part of the file twice."""
    declare(tmp_path, "in.zarr/x", (241, 721, 1440), (31, 721, 1440), ["time", "lat", "lon"], compressors=compressors)
    text = "inputs: {x: in.zarr/x}\noutputs: {out.zarr/x: {array: x, chunks: {time: -1, lat: 10, lon: 10}}}\n"
    plan, _, _ = plan_of(tmp_path, text, "--allowed-mem", "4GB", "--workers", "2")
    lat = plan["stages"][0]["outputs"][0]["tasks"][1]["regular"]
    assert 241 * lat["size"] * 1440 * 4 < most
    assert plan["stages"][0]["cost"]["bytes_read"] < 2.2 * 241 * 721 * 1440 * 4


def test_a_little_reading_is_not_worth_a_core(tmp_path):
    """Tasks of more than a worker's share would read 1.6 times the array instead of 1.9 times, one after the other."""
    declare(tmp_path, "in.zarr/x", (248, 721, 1440), (31, 721, 1440), ["time", "lat", "lon"])
    text = "inputs: {x: in.zarr/x}\noutputs: {out.zarr/x: {array: x, chunks: [248, 30, 30]}}\nspec: {allowed_mem: 1GB, workers: 2}\n"
    plan, _, _ = plan_of(tmp_path, text)
    spec = plan["spec"]
    share = (spec["allowed_mem"] - spec["reserved_mem"]) / 2
    assert [s["projected_mem"] <= share for s in plan["stages"]] == [True]


@pytest.mark.parametrize(
    "compressors, least, most",
    [(None, 4, 8), (LZ4, 4, 8), (zarr.codecs.ZstdCodec(), 13, 25), (zarr.codecs.GzipCodec(), 13, 25)],
    ids=["raw", "lz4", "zstd", "gzip"],
)
def test_folds_of_chunks_that_cannot_be_shared_are_cut_finer(tmp_path, compressors, least, most):
    """Who finishes first waits for the chunk that another one decodes, but not for several."""
    declare(tmp_path, "in.zarr/x", (400, 1024, 1024), (16, 1024, 1024), ["time", "lat", "lon"], compressors=compressors)
    text = "inputs: {x: in.zarr/x}\noutputs: {out.zarr/m: mean(x)}\nspec: {allowed_mem: 1GB, workers: 2}\n"
    plan, _, _ = plan_of(tmp_path, text)
    first, second = map(tasks_of, plan["stages"])
    assert least <= first <= most and second == 1


@pytest.mark.parametrize("operations", [3, 1000])
def test_a_long_chain_is_planned_like_a_short_one(tmp_path, operations):
    """Its values are in registers, and count as that: chunks need not be cut for them."""
    declare(tmp_path, "in.zarr/x", (5000, 1024, 1024), (1, 1024, 1024), ["time", "lat", "lon"], compressors=None)
    chain = "".join(f"  a{k + 1}: a{k} {'+' if k % 2 else '*'} {k % 7 + 1}\n" for k in range(operations))
    text = f"inputs: {{x: in.zarr/x}}\narrays:\n  a0: x\n{chain}outputs: {{out.zarr/y: {{array: a{operations}, chunks: {{time: 1}}}}}}\nspec: {{allowed_mem: 300MB, workers: 2}}\n"
    plan, peak, _ = plan_of(tmp_path, text)
    (stage,) = plan["stages"]
    assert stage["projected_mem"] < 16e6
    (array,) = (a for a in plan["arrays"].values() if a["role"] == "output")
    assert [axis["regular"]["size"] for axis in array["grid"]] == [1, 1024, 1024]
    assert peak < 100e6


@pytest.mark.parametrize("length", [100_000, 250_000])
def test_products_take_short_steps_before_small_chunks(tmp_path, length):
    """Where two factors do not fit; also if chunks are longer than their axis."""
    declare(tmp_path, "in.zarr/x", (200, 100_000), (50, length), ["row", "column"], dtype="float64", compressors=None)
    text = "inputs: {x: in.zarr/x}\noutputs: {out.zarr/y: 'matmul(x, permute_dims(x, [1, 0]))'}\nspec: {allowed_mem: 130MB, workers: 2}\n"
    plan, _, _ = plan_of(tmp_path, text)
    assert sum(s["cost"]["bytes_read"] for s in plan["stages"]) < 6 * 200 * 100_000 * 8, "a hundred times, in chunks of 4 by 4"


REDUCED = {
    "mean and deviation": ("x / std(x) - mean(x)", 2),
    "two ranks": ({"a": "mean(x)", "b": "mean(x, keepdims=True)"}, 1),
    "mean first": ({"a": "mean(x)", "b": "std(x)"}, 1),
    "mean last": ({"a": "std(x)", "b": "mean(x)"}, 1),
    "along time": ({"a": "mean(x, axis=0)", "b": "std(x, axis=0)"}, 1),
    "ratio": ("std(x) / mean(x)", 1),
    # Not the same steps: each keeps its tree.
    "transposed": ({"a": "mean(x, axis=0)", "b": "max(permute_dims(x, [2, 0, 1]), axis=1)"}, 2),
    "two axes": ({"a": "mean(x)", "b": "mean(x, axis=0)"}, 2),
}


@pytest.mark.parametrize("name", REDUCED)
@pytest.mark.parametrize("length", [20, 20_000])
def test_reductions_that_take_the_same_steps_share_a_reading(tmp_path, name, length):
    results, readings = REDUCED[name]
    declare(tmp_path, "in.zarr/x", (length, 100, 80), (min(length, 130), 100, 80), ["time", "lat", "lon"], dtype="float64", compressors=None)
    outputs = results if isinstance(results, dict) else {"a": results}
    text = "inputs: {x: in.zarr/x}\noutputs: {%s}\nspec: {allowed_mem: 200MB, workers: 2}\n" % ", ".join(f"out.zarr/{k}: '{v}'" for k, v in outputs.items())
    plan, _, _ = plan_of(tmp_path, text)
    reading = stages_reading(plan, "in0-x")
    assert len(reading) <= readings
    if length == 20_000:
        assert all(tasks_of(s) > 2 for s in reading), "all workers read"


@pytest.mark.parametrize("tasks", [10, 10_000_000])
def test_a_plan_does_not_grow_with_its_tasks(tmp_path, tasks):
    declare(tmp_path, "in.zarr/x", (tasks, 2048, 2048), (1, 2048, 2048), ["time", "lat", "lon"])
    text = "inputs: {x: in.zarr/x}\noutputs: {out.zarr/y: sqrt(x) + 1}\nspec: {allowed_mem: 300MB}\n"
    plan, peak, length = plan_of(tmp_path, text)
    assert chunkwise("plan", tmp_path / "pipeline.yaml").ok().stdout.split("\n")[1].split()[3] == str(tasks)
    assert len(plan["stages"]) == 1
    assert length < 10_000
    assert peak < 100e6


@pytest.mark.parametrize("expression", ["mean(x)", "max(x) - min(x)", "std(x, axis=0)", "max(abs(x - mean(x, axis=0)))", "max(mean(x, axis=0))"])
def test_a_plan_does_not_grow_with_the_chunks_of_a_fold(tmp_path, expression):
    declare(tmp_path, "in.zarr/x", (10_000_000, 1024, 2048), (1, 1024, 2048), ["time", "lat", "lon"])
    text = f"inputs: {{x: in.zarr/x}}\noutputs: {{out.zarr/y: {expression!r}}}\nspec: {{allowed_mem: 300MB}}\n"
    plan, peak, length = plan_of(tmp_path, text)
    assert length < 40_000
    assert peak < 100e6
    assert all(stage["projected_mem"] < 300e6 for stage in plan["stages"])


@pytest.fixture(params=[LZ4, None], ids=["compressed", "raw"])
def workload(tmp_path, request):
    """`workload(name, {array: (shape, chunks, dims, dtype)})` plans an example over arrays that are only declared."""

    def plan(name, arrays, times=None):
        data = tmp_path / "data"
        for array, (shape, chunks, dims, dtype) in arrays.items():
            declare(data, f"{name}.zarr/{array}", shape, chunks, dims, dtype, request.param)
        if times is not None:
            step, count = times
            time = zarr.create_array(
                str(data / f"{name}.zarr/time"), shape=(count,), chunks=(count,), dtype="int64", dimension_names=["time"], attributes=TIME
            )
            time[...] = np.arange(count) * step
        return plan_of(tmp_path, (WORKLOADS / f"{name}.yaml").read_text())[0]

    return plan


SLABS = ((5000, 1, 987, 1920), (10, 1, 987, 1920), ["time", "face", "y", "x"], "float32")


def test_quadratic_means_read_once(workload):
    plan = workload("quadratic_means", {"u": SLABS, "v": SLABS})
    assert len(readers(plan, "-u")) == len(readers(plan, "-v")) == 1
    assert readers(plan, "-u") == readers(plan, "-v")
    assert sum(size(a) for a in intermediates(plan).values()) < 0.05 * 2 * 5000 * 987 * 1920 * 4


def test_vorticity_is_one_reading_stage(workload):
    spacing = ((1, 987, 1920), (1, 987, 1920), ["face", "y", "x"], "float32")
    plan = workload("vorticity", {"u": SLABS, "v": SLABS, "dx": spacing, "dy": spacing})
    assert len(readers(plan, "-u")) == len(readers(plan, "-v")) == 1
    assert readers(plan, "-u") == readers(plan, "-v")


def test_tem_is_one_stage(workload):
    array = ((5840, 37, 181, 360), (4, 37, 181, 360), ["time", "level", "lat", "lon"], "float32")
    plan = workload("tem", dict.fromkeys("uvwt", array), times=(6, 5840))
    assert len(plan["stages"]) == 1
    assert not intermediates(plan)


def test_climatology_is_copied_once_at_most(workload):
    plan = workload("climatology", {"x": ((10950, 721, 1440), (30, 721, 1440), ["time", "lat", "lon"], "float32")}, times=(24, 10950))
    total = 10950 * 721 * 1440 * 4
    # The field once to be copied, once for the climatology (in pieces that days of the year straddle, half of it twice) and once for
    # the anomalies; and the climatology for each year.
    assert sum(s["cost"]["bytes_read"] for s in plan["stages"]) < 4.8 * total
    assert sum(size(a) for a in intermediates(plan).values()) < 1.1 * total


def test_rechunk_copies_once_at_most(workload):
    plan = workload("rechunk", {"x": ((17520, 721, 1440), (31, 721, 1440), ["time", "lat", "lon"], "float32")})
    assert len(intermediates(plan)) <= 1
    assert len(plan["stages"]) <= 2


def test_ata_has_no_transposed_copy(workload):
    plan = workload("ata", {"A": ((5_000_000, 1000), (1000, 1000), ["row", "column"], "float64")})
    assert len(readers(plan, "-A")) == 1
    assert all(size(a) < 1e9 for a in intermediates(plan).values())
    assert not any("gather" in k or k == "reshape" for k in kernels(plan))


ENDING = {
    "mean": ("mean(x, axis=1)", (7, 3, 33), (2, 3, 16)),
    "sum + 1": ("sum(x, axis=1) + 1", (721, 1440, 137), (100, 1440, 50)),
    "root": ("sqrt(sum(x, axis=1))", (70, 130, 330), (20, 30, 160)),
    "anomaly of a sum": ("sum(x, axis=1) - mean(sum(x, axis=1))", (70, 130, 330), (20, 30, 160)),
}


@pytest.mark.parametrize("name", ENDING)
def test_a_fold_with_something_after_it_is_planned(tmp_path, name):
    """Tasks at the ends are smaller: what each computes once seemed to be computed again, and nothing that was stored helped."""
    expression, shape, chunks = ENDING[name]
    declare(tmp_path, "in.zarr/x", shape, chunks, ["t", "lat", "lon"], dtype="float64", compressors=None)
    plan, _, _ = plan_of(tmp_path, f"inputs: {{x: in.zarr/x}}\noutputs: {{out.zarr/y: {expression!r}}}\n")
    # The sum and its mean are stored where the mean is taken of it: every task needs that.
    assert len(plan["stages"]) == (3 if "mean(sum" in expression else 1)


def test_more_memory_is_never_too_much(tmp_path):
    declare(tmp_path, "in.zarr/x", (500, 800, 1000), (25, 200, 25), ["t", "lat", "lon"], compressors=None)
    path = tmp_path / "pipeline.yaml"
    path.write_text("inputs: {x: in.zarr/x}\noutputs: {out.zarr/x: {array: x, chunks: [250, 40, 100]}}\nspec: {workers: 1}\n")
    for megabytes in (90, 150, 180, 200, 220, 250, 280, 400, 2000):
        chunkwise("plan", path, "--allowed-mem", f"{megabytes}MB").ok()


@pytest.mark.parametrize(
    "chunks, output, cause",
    [((20, 1000, 1000), (1, 50, 50), "the input 'x' in smaller chunks"), ((1, 100, 100), (20, 1000, 1000), "smaller chunks of the output 'y'")],
    ids=["input", "output"],
)
def test_a_refusal_says_the_least_that_works_and_why(tmp_path, chunks, output, cause):
    # A checksum around the stream: chunks can only be had whole.
    codecs = [zarr.codecs.GzipCodec(), zarr.codecs.Crc32cCodec()]
    declare(tmp_path, "in.zarr/x", (100, 1000, 1000), chunks, ["t", "lat", "lon"], dtype="float64", compressors=codecs)
    path = tmp_path / "pipeline.yaml"
    path.write_text(f"inputs: {{x: in.zarr/x}}\noutputs: {{out.zarr/y: {{array: x, chunks: {list(output)}}}}}\nspec: {{workers: 1}}\n")
    refused = chunkwise("plan", path, "--allowed-mem", "150MB")
    assert refused.code != 0 and cause in " ".join(refused.stderr.split()), refused.stderr
    least = int(" ".join(refused.stderr.split()).split("allow at least ")[1].split(" MB")[0])
    chunkwise("plan", path, "--allowed-mem", f"{least}MB").ok()
    again = chunkwise("plan", path, "--allowed-mem", f"{least - 2}MB")
    assert f"allow at least {least} MB" in " ".join(again.stderr.split())
