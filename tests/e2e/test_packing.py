"""What is stored in fewer bytes than it is computed with: floats of 16 bits, and values packed by the CF conventions, as in xarray's encoding."""

import json

import numpy as np
import pytest
import xarray as xr
import zarr
from harness import chunkwise, read_array, write_array, write_pipeline
from zarr.codecs import BloscCodec

LIMIT = ("--allowed-mem", "500MB")


def run(folder, inputs, outputs, *args):
    return chunkwise("run", write_pipeline(folder, inputs, {}, outputs), *LIMIT, *args)


def every_half():
    return np.arange(65536, dtype="uint16").view("float16").reshape(256, 256)


@pytest.mark.parametrize("options", [
    {"compressors": None},
    {"compressors": BloscCodec(cname="lz4")},
    {"shards": (128, 128)},
    {"zarr_format": 2},
    {"zarr_format": 2, "dtype": ">f2", "order": "F"},
])  # fmt: skip
def test_float16_is_read_as_float32(tmp_path, options):
    x = every_half()
    zarr.create_array(str(tmp_path / "in"), shape=x.shape, **{"dtype": "float16", "chunks": (64, 64), "fill_value": 1.5, **options})[...] = x
    for name in ("in/c/1/1", "in/1.1"):
        if (tmp_path / name).is_file():
            (tmp_path / name).unlink()
            x = x.copy()
            block = (slice(128, 256),) * 2 if "shards" in options else (slice(64, 128),) * 2
            x[block] = 1.5
    run(tmp_path, {"x": {"url": "in", "decode_cf": False}}, {"out": "x", "part": "x[3:70, 60:200] * 2"}).ok()
    found = read_array(tmp_path / "out")
    assert found.dtype == "float32"
    np.testing.assert_array_equal(found, x.astype("float32"))
    np.testing.assert_array_equal(read_array(tmp_path / "part"), x[3:70, 60:200].astype("float32") * 2)
    about = json.loads(chunkwise("info", tmp_path / "in", "--json").ok().stdout)[0]
    assert about["dtype"] == "float16" and about["bytes"] == 2 * x.size


STORED = {
    "usual": {"dtype": "float16"},
    "raw": {"dtype": "float16", "codec": "none"},
    "chain": {"dtype": "float16", "codecs": [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "big"}}, {"name": "blosc"}]},
    "shards": {"dtype": "float16", "chunks": [5, 7], "shards": [50, 70]},
    "version 2": {"dtype": "<f2", "zarr_format": 2},
    "version 2, big endian": {"dtype": ">f2", "zarr_format": 2, "codec": "none", "order": "F"},
}


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("case", STORED)
def test_float16_is_written_of_float32(tmp_path, case):
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((90, 170)) * 10.0 ** rng.integers(-9, 6, (90, 170))).astype("float32")
    # Halves between every two neighbours of a range, and what is no number.
    x[0] = (np.arange(1, 171, dtype="uint16").view("float16").astype("float32") + np.arange(2, 172, dtype="uint16").view("float16").astype("float32")) / 2
    x[1, :5] = np.nan, np.inf, -np.inf, 65519, 65520
    write_array(tmp_path / "in", x, (40, 60))
    run(tmp_path, {"x": "in"}, {"out": {"array": "x", **STORED[case]}}).ok()
    chunkwise("verify", tmp_path / "out").ok()
    found = zarr.open_array(str(tmp_path / "out"), mode="r")
    assert np.dtype(found.dtype) == np.dtype(STORED[case]["dtype"])
    np.testing.assert_array_equal(found[...], x.astype("float16"))
    if case == "usual":
        there = zarr.create_array(str(tmp_path / "there"), shape=x.shape, chunks=found.chunks, dtype="float16", compressors=BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=2))
        wanted, have = (json.loads((tmp_path / n / "zarr.json").read_text()) for n in ("there", "out"))
        assert {k: have[k] for k in ("data_type", "codecs", "fill_value")} == {k: wanted[k] for k in ("data_type", "codecs", "fill_value")}
    run(tmp_path, {"x": "out"}, {"again": "x"}).ok()
    np.testing.assert_array_equal(read_array(tmp_path / "again"), x.astype("float16").astype("float32"))


def test_float16_of_other_dtypes_is_refused(tmp_path):
    write_array(tmp_path / "in", np.ones((3, 4)), (3, 4))
    run(tmp_path, {"x": "in"}, {"out": {"array": "x", "dtype": "float16"}}).failed("float16", "float32", "float64", "astype")
    run(tmp_path, {"x": "in"}, {"out": {"array": 'astype(x, "float32")', "dtype": "float16", "fill_value": 100000}}).failed("float16 does not hold")


def temperatures():
    t = (280 + 15 * np.random.default_rng(1).uniform(-3, 3, (20, 6, 8))).round(3)
    t[3, 2:5] = np.nan
    return xr.Dataset({"t": (("time", "y", "x"), t, {"units": "K"})}, coords={"time": xr.date_range("2001-01-01", periods=20)})


PACKED = {
    "int16": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 273.15, "_FillValue": -32768},
    "uint16": {"dtype": "uint16", "scale_factor": 0.005, "_FillValue": 65535},
    "uint8": {"dtype": "uint8", "add_offset": 230, "_FillValue": 0},
    "int32": {"dtype": "int32", "scale_factor": -0.0001, "add_offset": -1.5, "_FillValue": -1},
    "float32": {"dtype": "float32", "scale_factor": 10.0, "add_offset": 100.0, "_FillValue": -999.0},
    "missing": {"_FillValue": -999.0},
    "scaled": {"scale_factor": 2.0},
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("case", PACKED)
def test_packed_as_in_xarray(tmp_path, case, zarr_format):
    data = temperatures()
    data.to_zarr(tmp_path / "in.zarr")
    encoding = PACKED[case]
    run(tmp_path, {"ds": "in.zarr"}, {"out.zarr/t": {"array": "ds.t", "zarr_format": zarr_format, **encoding}}).ok()
    data.to_zarr(tmp_path / "there.zarr", zarr_format=zarr_format, encoding={"t": encoding})
    np.testing.assert_array_equal(read_array(tmp_path / "out.zarr/t"), read_array(tmp_path / "there.zarr/t"))
    found, there = (xr.open_zarr(tmp_path / name, chunks=None).load() for name in ("out.zarr", "there.zarr"))
    xr.testing.assert_identical(found.t, there.t)
    for key in ("scale_factor", "add_offset", "_FillValue", "dtype"):
        if key in encoding:
            np.testing.assert_equal(found.t.encoding.get(key), there.t.encoding.get(key))
    # This program unpacks it, and keeps it packed in a copy.
    run(tmp_path, {"t": "out.zarr/t"}, {"again.zarr/t": "t + 0", "copy.zarr/t": "t"}).ok()
    np.testing.assert_allclose(read_array(tmp_path / "again.zarr/t"), there.t.values.astype("float64"), rtol=1e-6)
    np.testing.assert_array_equal(read_array(tmp_path / "copy.zarr/t"), read_array(tmp_path / "there.zarr/t"))


def test_values_beyond_the_range_are_the_nearest(tmp_path):
    """And none becomes a missing one."""
    write_array(tmp_path / "in", np.array([-1e9, -128.0, -127.4, 0.5, 1.5, 126.6, 127.0, 1e9, np.nan]), (4,))
    for fill, least, greatest in ((-128, -127, 127), (127, -128, 126)):
        run(tmp_path, {"x": "in"}, {"out": {"array": "x", "dtype": "int8", "_FillValue": fill}}, "--overwrite").ok()
        wanted = [least, max(least, -128), -127, 0, 2, min(greatest, 127), greatest, greatest, fill]
        np.testing.assert_array_equal(read_array(tmp_path / "out"), wanted)


def test_packing_anew(tmp_path):
    """Packed data that is packed otherwise is unpacked before."""
    data = temperatures()
    data.to_zarr(tmp_path / "in.zarr", encoding={"t": PACKED["int16"]})
    run(tmp_path, {"t": "in.zarr/t"}, {"out.zarr/t": {"array": "t", **PACKED["int32"]}}).ok()
    found = xr.open_zarr(tmp_path / "out.zarr", chunks=None).load()
    np.testing.assert_allclose(found.t, data.t, atol=0.0052)
    assert read_array(tmp_path / "out.zarr/t").dtype == "int32"


@pytest.mark.parametrize("array, output, words", [
    ("x", {"dtype": "int16", "scale_factor": 0.1}, ["_FillValue", "NaN"]),
    ("x", {"dtype": "int16"}, ["astype", "_FillValue"]),
    ("x", {"dtype": "int16", "_FillValue": 40000}, ["-32768 to 32767"]),
    ("x", {"dtype": "int16", "scale_factor": 0, "_FillValue": 0}, ["scale_factor", "not 0"]),
    ("x", {"dtype": "int16", "scale_factor": "a", "_FillValue": 0}, ["scale_factor", "number"]),
    ("x", {"dtype": "bool", "_FillValue": True}, ["floats"]),
    ("x > 0", {"dtype": "int8", "_FillValue": 0}, ["bool", "floats"]),
    ("astype(x, \"int32\")", {"scale_factor": 0.5}, ["int32", "floats"]),
])  # fmt: skip
def test_bad_packing_is_refused(tmp_path, array, output, words):
    write_array(tmp_path / "in", np.ones((3, 4)), (3, 4))
    run(tmp_path, {"x": "in"}, {"out": {"array": array, **output}}).failed(*words)
    assert not (tmp_path / "out").exists()
