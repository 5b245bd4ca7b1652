"""Reductions of what other reductions gave, over arrays that no task can hold: each is computed once, and the input is read once for each."""

import json

import numpy as np
import pytest
import zarr
from harness import chunkwise, read_array, stages_reading, stored, write_pipeline
from zarr.codecs import BloscCodec, ZstdCodec

SHAPE = (60, 500, 700)
CODECS = {"raw": None, "lz4": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"), "zstd": ZstdCodec(level=1)}
# Expression, the same in NumPy, how often the input may be read.
WORK = {
    "largest deviation": ("max(abs(x - mean(x)))", lambda x: np.abs(x - x.mean()).max(), 2),
    "mean deviation": ("mean(abs(x - mean(x, axis=0)))", lambda x: np.abs(x - x.mean(axis=0)).mean(), 2),
    "squares": ("sum((x - mean(x, axis=0)) ** 2, axis=0)", lambda x: ((x - x.mean(axis=0)) ** 2).sum(axis=0), 2),
    "scaled": ("max(x / sum(x, axis=0), axis=[1, 2])", lambda x: (x / x.sum(axis=0)).max(axis=(1, 2)), 2),
    "where": ("argmax(x - max(x, axis=0) / 2)", lambda x: (x - x.max(axis=0) / 2).argmax(), 2),
    "three": (
        "max(abs(x - mean(x, axis=0)) / mean(abs(x - mean(x, axis=0)), axis=0))",
        lambda x: (np.abs(x - x.mean(axis=0)) / np.abs(x - x.mean(axis=0)).mean(axis=0)).max(),
        3,
    ),
    "centred twice": (
        "x - mean(x, axis=0) - mean(x, axis=1, keepdims=True)",
        lambda x: x - x.mean(axis=0) - x.mean(axis=1, keepdims=True),
        4,
    ),
    "normalised": ("(x - min(x)) / (max(x) - min(x))", lambda x: (x - x.min()) / (x.max() - x.min()), 2),
    "peaks": (
        "(x - mean(x, axis=0)) / (max(x, axis=0) - mean(x, axis=0))",
        lambda x: (x - x.mean(axis=0)) / (x.max(axis=0) - x.mean(axis=0)),
        2,
    ),
    "standardised": ("(x - mean(x)) / std(x)", lambda x: (x - x.mean()) / x.std(), 2),
    "ratio": ("std(x) / mean(x)", lambda x: x.std() / x.mean(), 1),
    "largest mean": ("max(mean(x, axis=[1, 2]))", lambda x: x.mean(axis=(1, 2)).max(), 1),
    "mean of largest": ("mean(max(x, axis=0) - min(x, axis=0))", lambda x: (x.max(axis=0) - x.min(axis=0)).mean(), 2),
    "sum of rows": ("max(sum(x * x, axis=2))", lambda x: (x * x).sum(axis=2).max(), 1),
    "spread of means": ("std(mean(x, axis=[0, 1]))", lambda x: x.mean(axis=(0, 1)).std(), 1),
    # The rows of a chunk are all that its means need: one reading.
    "zonal": ("mean(abs(x - mean(x, axis=2, keepdims=True)), axis=0)", lambda x: np.abs(x - x.mean(axis=2, keepdims=True)).mean(axis=0), 1),
}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("name", WORK)
def test_each_is_computed_once(tmp_path, name, codec):
    expression, function, times = WORK[name]
    values = np.random.default_rng(7).integers(1, 1000, SHAPE).astype("float64")
    array = zarr.create_array(str(tmp_path / "x"), shape=SHAPE, chunks=(4, 250, 700), dtype="float64", compressors=CODECS[codec])
    array[...] = values
    size = stored(tmp_path / "x")
    pipeline = write_pipeline(tmp_path, {"x": "x"}, {}, {"r": expression})
    plan = json.loads(chunkwise("plan", pipeline, "--allowed-mem", "150MB", "--format", "json").ok().stdout)
    assert len(stages_reading(plan, "in0-x")) <= times
    report = chunkwise("run", pipeline, "--allowed-mem", "150MB", "--json").ok().report
    assert report["peak_memory"] < 150e6
    np.testing.assert_allclose(read_array(tmp_path / "r"), function(values), rtol=1e-12, atol=1e-9)
    # And what is stored between the stages. Tasks with a part of a chunk read blocks, or all of it, more than once.
    least = times * size + 60e6
    assert report["bytes_read"] < least * (1.1 if codec == "raw" else 2.6), report["bytes_read"] / size


@pytest.mark.parametrize("expression", ["max(abs(x - mean(x)))", "x - mean(x, axis=0) - mean(x, axis=[1, 2], keepdims=True)"])
def test_tiles_of_one_chunk_do_not_compute_a_mean_again(tmp_path, expression):
    """A task that holds all of the input would compute the mean for each of its tiles: it is stored, although that is another stage."""
    zarr.create_array(str(tmp_path / "x"), shape=SHAPE, chunks=SHAPE, dtype="float64", compressors=None)
    chunks = {} if expression.startswith("max") else {"chunks": list(SHAPE)}
    pipeline = write_pipeline(tmp_path, {"x": "x"}, {}, {"r": {"array": expression, **chunks}})
    plan = json.loads(chunkwise("plan", pipeline, "--allowed-mem", "4GB", "--workers", 1, "--format", "json").ok().stdout)
    assert len(plan["stages"]) >= 2
    # Where tiles can be cut so that none needs what another one computes, nothing is stored.
    fused = write_pipeline(tmp_path, {"x": "x"}, {}, {"r": {"array": "x - mean(x, axis=0)", "chunks": list(SHAPE)}})
    plan = json.loads(chunkwise("plan", fused, "--allowed-mem", "4GB", "--workers", 1, "--format", "json").ok().stdout)
    assert len(plan["stages"]) == 1
