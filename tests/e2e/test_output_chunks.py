"""The chunks of outputs for which none are asked: those of the input, joined where they are small, in shards where they are many."""

import json

import numpy as np
import pandas as pd
import pytest
import xarray as xr
import zarr
from harness import chunkwise


def monthly(folder, shape, chunks):
    times = pd.date_range("1950-01", periods=shape[0], freq="MS")
    values = np.random.default_rng(1).random(shape, dtype="float32")
    data = xr.Dataset({"t": (("time", "lat", "lon"), values)}, coords={"time": times})
    data.to_zarr(folder / "in.zarr", encoding={"t": {"chunks": chunks}}, consolidated=False)
    return data


def planned(folder, text, *args):
    (folder / "p.yaml").write_text(text)
    return json.loads(chunkwise("plan", folder / "p.yaml", "--format", "json", *args).ok().stdout)


def chunks_of(plan, name):
    encoding = next(a["encoding"] for a in plan["arrays"].values() if a["role"] == "output" and a["url"].endswith("/" + name))
    return encoding["chunks"], encoding.get("shards")


def declare(folder, name, shape, chunks, **options):
    dims = ["time", "lat", "lon"][: len(shape)]
    return zarr.create_array(str(folder / "in.zarr" / name), shape=shape, chunks=chunks, dtype="float32", dimension_names=dims, **options)


ANOMALY = 'inputs: {t: in.zarr/t}\narrays: {c: \'groupby_mean(t, "time.month")\'}\noutputs: {out.zarr/a: \'t - lookup(c, "time.month")\'}\n'


def test_anomalies_of_small_data_are_one_file(tmp_path):
    data = monthly(tmp_path, (732, 45, 72), (60, 45, 72))
    (tmp_path / "p.yaml").write_text(ANOMALY)
    chunkwise("run", tmp_path / "p.yaml").ok()
    assert len([p for p in (tmp_path / "out.zarr/a/c").rglob("*") if p.is_file()]) == 1
    found = xr.open_zarr(tmp_path / "out.zarr").a
    groups = data.t.groupby("time.month")
    np.testing.assert_allclose(found, groups - groups.mean(), atol=1e-6)


def test_anomalies_follow_the_data_not_the_table_of_groups(tmp_path):
    declare(tmp_path, "t", (7320, 450, 720), (60, 450, 720))
    times = zarr.create_array(str(tmp_path / "in.zarr/time"), shape=(7320,), dtype="int64", dimension_names=["time"])
    times[:] = np.arange(7320)
    times.attrs.update({"units": "days since 1990-01-01", "calendar": "standard"})
    plan = planned(tmp_path, ANOMALY)
    assert chunks_of(plan, "a") == ([60, 450, 720], None)


@pytest.mark.parametrize(
    "shape, chunks, expected",
    [
        ((1000, 721, 1440), (1, 721, 1440), [4, 721, 1440]),
        ((1000, 1000, 1000), (100, 100, 100), [200, 200, 100]),
        ((1000, 1000, 1000), (300, 300, 300), [300, 300, 300]),
        ((20, 30, 40), (1, 1, 1), [20, 30, 40]),
        # What nobody can read as a whole is made smaller.
        ((2000, 3000, 1000), (2000, 3000, 10), [250, 3000, 10]),
    ],
)
def test_small_chunks_are_joined(tmp_path, shape, chunks, expected):
    declare(tmp_path, "t", shape, chunks)
    plan = planned(tmp_path, "inputs: {t: in.zarr/t}\noutputs: {out.zarr/a: t * 2}\n", "--allowed-mem", "2GB")
    found, shards = chunks_of(plan, "a")
    assert shards is None
    if expected[0] != 250:
        assert found == expected
    assert np.prod(found) * 4 <= 128 << 20


def test_the_machine_does_not_matter(tmp_path):
    declare(tmp_path, "t", (1000, 721, 1440), (1, 721, 1440))
    text = "inputs: {t: in.zarr/t}\noutputs: {out.zarr/a: t * 2}\n"
    plans = [planned(tmp_path, text + f"spec: {{workers: {w}, allowed_mem: 16GB}}\n") for w in (1, 2, 16, 64)]
    assert [chunks_of(plan, "a")[0] for plan in plans] == [[4, 721, 1440]] * 4


def test_little_memory_leaves_small_chunks(tmp_path):
    declare(tmp_path, "t", (1000, 721, 1440), (1, 721, 1440))
    plan = planned(tmp_path, "inputs: {t: in.zarr/t}\noutputs: {out.zarr/a: t * 2}\n", "--allowed-mem", "150MB")
    assert chunks_of(plan, "a")[0] == [1, 721, 1440] or chunks_of(plan, "a")[0] == [2, 721, 1440]
    assert all(s["projected_mem"] <= 150e6 for s in plan["stages"])


def test_results_of_much_reading_keep_their_tasks(tmp_path):
    """A mean over a hundred gigabytes is not made by one task because its result is small."""
    declare(tmp_path, "t", (25000, 1000, 1000), (250, 100, 100))
    plan = planned(tmp_path, 'inputs: {t: in.zarr/t}\noutputs: {out.zarr/m: \'mean(t, dim="time")\'}\n')
    assert chunks_of(plan, "m")[0] == [100, 100]
    assert len(plan["stages"]) == 1


def test_chunks_as_those_of_the_input(tmp_path):
    declare(tmp_path, "t", (1000, 721, 1440), (1, 721, 1440))
    plan = planned(tmp_path, "inputs: {t: in.zarr/t}\noutputs: {out.zarr/a: t * 2}\nspec: {join_chunks: false}\n")
    assert chunks_of(plan, "a") == ([1, 721, 1440], None)


def test_chunks_that_are_asked_for_are_given(tmp_path):
    declare(tmp_path, "t", (1000, 721, 1440), (1, 721, 1440))
    plan = planned(tmp_path, "inputs: {t: in.zarr/t}\noutputs: {out.zarr/a: {array: t * 2, chunks: {time: 1}}}\n")
    assert chunks_of(plan, "a") == ([1, 721, 1440], None)


def test_shards_as_those_of_the_input(tmp_path):
    declare(tmp_path, "t", (800, 400, 400), (50, 100, 100), shards=(200, 200, 200))
    plan = planned(tmp_path, "inputs: {t: in.zarr/t}\noutputs: {out.zarr/a: t * 2}\n")
    assert chunks_of(plan, "a") == ([50, 100, 100], [200, 200, 200])


def test_very_many_chunks_are_in_shards(tmp_path):
    declare(tmp_path, "t", (200_000, 1000, 1000), (10, 500, 500))
    plan = planned(tmp_path, "inputs: {t: in.zarr/t}\noutputs: {out.zarr/a: t * 2}\n", "--allowed-mem", "4GB")
    chunks, shards = chunks_of(plan, "a")
    assert chunks == [10, 500, 500]
    objects = np.prod([-(-n // s) for n, s in zip((200_000, 1000, 1000), shards, strict=True)])
    assert objects <= 10_000
    assert np.prod(shards) * 4 <= 128 << 20


def test_shards_are_whole_and_right(tmp_path):
    """Made, read by zarr, with a budget in which tasks are small."""
    values = np.random.default_rng(2).random((120, 60, 50), dtype="float32")
    array = declare(tmp_path, "t", (120, 60, 50), (10, 15, 25), shards=(40, 30, 50))
    array[:] = values
    (tmp_path / "p.yaml").write_text("inputs: {t: in.zarr/t}\noutputs: {out.zarr/a: t * 2}\n")
    chunkwise("run", tmp_path / "p.yaml").ok()
    found = zarr.open_array(str(tmp_path / "out.zarr/a"), mode="r")
    assert found.shards is None or found.chunks == (10, 15, 25)
    np.testing.assert_array_equal(found[:], values * 2)
