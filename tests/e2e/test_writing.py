"""Outputs in every form that Zarr has: what is asked for in the words of its metadata is what zarr-python writes for the same request.

Each array is read by zarr-python and by this program again, and compared exactly.
"""

import json

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from harness import ALL, chunkwise, read_array, values, write_array, write_pipeline
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

SHAPE = (23, 17)
CHUNKS = (10, 6)
LIMIT = ("--allowed-mem", "500MB")


def bytes_codec(endian="little"):
    return {"name": "bytes", "configuration": {"endian": endian}}


def blosc(**options):
    return {"name": "blosc", "configuration": options}


def zstd(level=0, checksum=False):
    return {"name": "zstd", "configuration": {"level": level, "checksum": checksum}}


def sharding(codecs, **options):
    return {"name": "sharding_indexed", "configuration": {"chunk_shape": [5, 3], "codecs": codecs, **options}}


def transpose(*order):
    return {"name": "transpose", "configuration": {"order": list(order)}}


CRC = {"name": "crc32c"}
# What the output says, and what zarr-python is told for the same.
V3 = {
    "raw": ([bytes_codec()], {"compressors": None}),
    "zstd": ([bytes_codec(), zstd(3)], {"compressors": ZstdCodec(level=3)}),
    "zstd with a checksum": ([bytes_codec(), zstd(19, True)], {"compressors": ZstdCodec(level=19, checksum=True)}),
    "zstd, fast": ([bytes_codec(), zstd(-5)], {"compressors": ZstdCodec(level=-5)}),
    "zstd, defaults": ([bytes_codec(), {"name": "zstd"}], {"compressors": ZstdCodec()}),
    "gzip": ([bytes_codec(), {"name": "gzip", "configuration": {"level": 9}}], {"compressors": GzipCodec(level=9)}),
    "gzip, defaults": ([bytes_codec(), {"name": "gzip"}], {"compressors": GzipCodec()}),
    **{
        f"blosc {c} {s}": ([bytes_codec(), blosc(cname=c, shuffle=s, clevel=3, typesize=8, blocksize=0)], {"compressors": BloscCodec(cname=c, shuffle=s, clevel=3, typesize=8)})
        for c in ("lz4", "lz4hc", "blosclz", "zstd", "zlib")
        for s in ("noshuffle", "shuffle", "bitshuffle")
    },
    "blosc, level 9": ([bytes_codec(), blosc(cname="zstd", clevel=9)], {"compressors": BloscCodec(cname="zstd", clevel=9)}),
    "blosc, level 0": ([bytes_codec(), blosc(cname="lz4", clevel=0)], {"compressors": BloscCodec(cname="lz4", clevel=0)}),
    "blosc, blocks": ([bytes_codec(), blosc(cname="lz4", blocksize=256)], {"compressors": BloscCodec(cname="lz4", blocksize=256)}),
    "blosc, defaults": ([bytes_codec(), blosc()], {"compressors": BloscCodec()}),
    "crc32c": ([bytes_codec(), CRC], {"compressors": [Crc32cCodec()]}),
    "crc32c, short": ([bytes_codec(), "crc32c"], {"compressors": [Crc32cCodec()]}),
    "zstd and crc32c": ([bytes_codec(), zstd(1), CRC], {"compressors": [ZstdCodec(level=1), Crc32cCodec()]}),
    "two compressors": ([bytes_codec(), blosc(), {"name": "gzip"}, CRC], {"compressors": [BloscCodec(), GzipCodec(), Crc32cCodec()]}),
    "big endian": ([bytes_codec("big")], {"serializer": BytesCodec(endian="big"), "compressors": None}),
    "big endian, blosc": ([bytes_codec("big"), blosc(cname="lz4")], {"serializer": BytesCodec(endian="big"), "compressors": BloscCodec(cname="lz4")}),
    "transpose": ([transpose(1, 0), bytes_codec()], {"filters": [TransposeCodec(order=(1, 0))], "compressors": None}),
    "transpose, big endian, zstd, crc32c": (
        [transpose(1, 0), bytes_codec("big"), zstd(2, True), CRC],
        {"filters": [TransposeCodec(order=(1, 0))], "serializer": BytesCodec(endian="big"), "compressors": [ZstdCodec(level=2, checksum=True), Crc32cCodec()]},
    ),
    "transpose twice": ([transpose(1, 0), transpose(1, 0), bytes_codec()], {"filters": [TransposeCodec(order=(1, 0))] * 2, "compressors": None}),
}
INNER = {
    "raw": ([bytes_codec()], [BytesCodec()]),
    "zstd": ([bytes_codec(), zstd(3)], [BytesCodec(), ZstdCodec(level=3)]),
    "transposed": ([transpose(1, 0), bytes_codec("big"), blosc(), CRC], [TransposeCodec(order=(1, 0)), BytesCodec(endian="big"), BloscCodec(), Crc32cCodec()]),
}
INDEX = {
    "usual": ({}, {}),
    "start": ({"index_location": "start"}, {"index_location": "start"}),
    "end": ({"index_location": "end", "index_codecs": [bytes_codec(), CRC]}, {"index_location": "end"}),
    "unchecked": ({"index_codecs": [bytes_codec()]}, {"index_codecs": [BytesCodec()]}),
    "big endian": ({"index_location": "start", "index_codecs": [bytes_codec("big"), CRC]}, {"index_location": "start", "index_codecs": [BytesCodec(endian="big"), Crc32cCodec()]}),
}
# What the metadata says of how chunks are stored.
STORED = ("data_type", "chunk_grid", "chunk_key_encoding", "codecs", "fill_value", "storage_transformers")


def metadata(path):
    return json.loads((path / "zarr.json").read_text())


def write(folder, x, output, *args):
    """Copies an array to `out` in the form of `output`, and gives what this program reads of it in another copy."""
    write_array(folder / "in.zarr", x, CHUNKS)
    first = write_pipeline(folder, {"x": "in.zarr"}, {}, {"out": {"array": "x", **output}})
    chunkwise("run", first, *LIMIT, *args).ok()
    second = write_pipeline(folder, {"x": "out"}, {}, {"again": {"array": "x", "codec": "none"}})
    chunkwise("run", second, *LIMIT).ok()
    chunkwise("verify", folder / "out").ok()
    return read_array(folder / "again")


def same_metadata(found, wanted):
    for key in STORED:
        assert found.get(key) == wanted.get(key) or not found.get(key) and not wanted.get(key), f"{key}: {found.get(key)} is not {wanted.get(key)}"


def check(folder, x, output, options):
    again = write(folder, x, output)
    there = zarr.create_array(str(folder / "there"), shape=x.shape, dtype=x.dtype, **{"chunks": CHUNKS, "fill_value": 0, **options})
    there[...] = x
    same_metadata(metadata(folder / "out"), metadata(folder / "there"))
    for found in (read_array(folder / "out"), again):
        assert found.dtype == x.dtype
        np.testing.assert_array_equal(found, x)


@pytest.mark.parametrize("case", V3)
def test_codecs_of_version_3(tmp_path, case):
    codecs, options = V3[case]
    check(tmp_path, values(1, SHAPE, "float64"), {"codecs": codecs, "chunks": list(CHUNKS)}, options)


@pytest.mark.parametrize("index", INDEX)
@pytest.mark.parametrize("inner", INNER)
def test_shards(tmp_path, inner, index):
    (codecs, theirs), (said, told) = INNER[inner], INDEX[index]
    shards = ShardingCodec(chunk_shape=(5, 3), codecs=theirs, **told)
    output = {"codecs": [sharding(codecs, **said)], "shards": list(CHUNKS)}
    check(tmp_path, values(2, SHAPE, "int32"), output, {"serializer": shards, "compressors": None})


def test_codecs_of_the_chunks_in_shards(tmp_path):
    """Without `sharding_indexed` the codecs are those of the chunks, as for zarr-python."""
    output = {"codecs": [bytes_codec(), zstd(1)], "chunks": [5, 3], "shards": list(CHUNKS)}
    check(tmp_path, values(3, SHAPE, "int16"), output, {"chunks": (5, 3), "shards": CHUNKS, "compressors": ZstdCodec(level=1)})


@pytest.mark.parametrize("dtype", ALL)
def test_every_dtype_through_a_chain(tmp_path, dtype):
    codecs = [transpose(1, 0), bytes_codec("big"), blosc(cname="lz4"), CRC]
    options = {"filters": [TransposeCodec(order=(1, 0))], "serializer": BytesCodec(endian="big"), "compressors": [BloscCodec(cname="lz4"), Crc32cCodec()]}
    x = values(4, SHAPE, dtype)
    again = write(tmp_path, x, {"codecs": codecs, "chunks": list(CHUNKS)})
    there = zarr.create_array(str(tmp_path / "there"), shape=SHAPE, dtype=dtype, chunks=CHUNKS, **options)
    there[...] = x
    for found in (read_array(tmp_path / "out"), again):
        np.testing.assert_array_equal(found, x)
    found, wanted = metadata(tmp_path / "out")["codecs"], metadata(tmp_path / "there")["codecs"]
    # The order of a single byte need not be said.
    assert [c for c in found if c["name"] != "bytes"] == [c for c in wanted if c["name"] != "bytes"]
    assert found[1] == wanted[1] or x.dtype.itemsize == 1
    # The other direction: what zarr-python wrote.
    chunkwise("run", write_pipeline(tmp_path, {"x": "there"}, {}, {"theirs": {"array": "x", "codec": "none"}}), *LIMIT).ok()
    np.testing.assert_array_equal(read_array(tmp_path / "theirs"), x)


BAD = {
    "unknown": ([bytes_codec(), {"name": "lz77"}], ["lz77", "transpose, bytes, blosc, zstd, gzip, crc32c"]),
    "no bytes": ([zstd()], ["no `bytes`"]),
    "no endian": ([{"name": "bytes"}], ["endian", "little or big"]),
    "endian": ([bytes_codec("middle")], ["endian", "little or big", "middle"]),
    "order": ([zstd(), bytes_codec()], ["transpose, then bytes"]),
    "bytes twice": ([bytes_codec(), bytes_codec()], ["transpose, then bytes"]),
    "axes": ([transpose(0, 0), bytes_codec()], ["transpose", "each once"]),
    "too many axes": ([transpose(1, 2, 0), bytes_codec()], ["transpose", "2 axes"]),
    "level": ([bytes_codec(), zstd(23)], ["level", "22", "23"]),
    "gzip level": ([bytes_codec(), {"name": "gzip", "configuration": {"level": 10}}], ["level", "9"]),
    "flag": ([bytes_codec(), {"name": "zstd", "configuration": {"checksum": 1}}], ["checksum", "true or false"]),
    "cname": ([bytes_codec(), blosc(cname="snappy")], ["cname", "lz4hc", "snappy"]),
    "shuffle": ([bytes_codec(), blosc(shuffle=1)], ["shuffle", "bitshuffle"]),
    "field": ([bytes_codec(), blosc(level=1)], ["level", "clevel"]),
    "crc32c": ([bytes_codec(), {"name": "crc32c", "configuration": {"a": 1}}], ["crc32c", "no configuration"]),
    "not a list": ({"name": "bytes"}, ["list"]),
    "no name": ([{"configuration": {}}], ["no `name`"]),
    "number": ([3], ["name", "configuration"]),
    "extra": ([{"name": "bytes", "config": {}}], ["config"]),
    "empty": ([], ["no `bytes`"]),
    "shards without shape": ([sharding([bytes_codec()])], ["shards"]),
    "shards inside": ([bytes_codec(), sharding([bytes_codec()])], ["sharding_indexed", "only codec"]),
    "shards in shards": ([sharding([sharding([bytes_codec()])])], ["shards in shards"]),
    "compressed index": ([sharding([bytes_codec()], index_codecs=[bytes_codec(), zstd()])], ["index_codecs"]),
    "index place": ([sharding([bytes_codec()], index_location="middle")], ["index_location", "start or end"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_codecs_are_refused(tmp_path, case):
    codecs, words = BAD[case]
    write_array(tmp_path / "in.zarr", values(1, SHAPE, "float64"), CHUNKS)
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out.zarr/name": {"array": "x", "codecs": codecs}})
    chunkwise("run", path, *LIMIT).failed("codecs", *words)
    assert not (tmp_path / "out.zarr").exists()


def test_contradictions_are_refused(tmp_path):
    write_array(tmp_path / "in.zarr", values(1, SHAPE, "float64"), CHUNKS)

    def refused(output, *words):
        chunkwise("plan", write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out": {"array": "x", **output}}), *LIMIT).failed(*words)

    refused({"codec": "zstd", "codecs": [bytes_codec()]}, "not both")
    refused({"codecs": [sharding([bytes_codec()])], "chunks": [4, 3], "shards": list(CHUNKS)}, "chunk_shape", "[5, 3]", "[4, 3]")
    refused({"codecs": [sharding([bytes_codec()])], "shards": [12, 6]}, "no multiple")
    refused({"codec": "lzma"}, "codecs", "zarr.json")


def test_plans_are_checked(tmp_path):
    write_array(tmp_path / "in.zarr", values(1, SHAPE, "float64"), CHUNKS)
    output = {"array": "x", "codecs": [sharding([bytes_codec(), zstd(3)], index_location="start")], "shards": list(CHUNKS)}
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out": output})
    plan = json.loads(chunkwise("plan", path, *LIMIT, "--format", "json").ok().stdout)
    (encoding,) = (a["encoding"] for a in plan["arrays"].values() if a["role"] == "output")

    def refused(*words):
        (tmp_path / "plan.json").write_text(json.dumps(plan))
        chunkwise("run", tmp_path / "plan.json").failed(*words)

    (tmp_path / "plan.json").write_text(json.dumps(plan))
    chunkwise("run", tmp_path / "plan.json").ok()
    np.testing.assert_array_equal(read_array(tmp_path / "out"), read_array(tmp_path / "in.zarr"))
    codecs = encoding["codec"]["codecs"]
    codecs[1] = {"name": "zstd", "configuration": {"level": 3}}
    refused("out", "not complete", '"checksum":false')
    codecs[1] = zstd(99)
    refused("level", "22")
    encoding["codec"] = {"zstd": 99}
    refused("level", "22")
    encoding["codec"] = "default"
    encoding["index"]["index_codecs"].append(zstd(1))
    refused("index_codecs")


KEYS = {
    "dot": ({"name": "default", "configuration": {"separator": "."}}, {"name": "default", "separator": "."}),
    "as zarr-python takes it": ({"name": "default", "separator": "."}, {"name": "default", "separator": "."}),
    "v2": ({"name": "v2"}, {"name": "v2", "separator": "."}),
    "v2 in folders": ({"name": "v2", "separator": "/"}, {"name": "v2", "separator": "/"}),
}


@pytest.mark.parametrize("case", KEYS)
@pytest.mark.parametrize("shape", [SHAPE, ()])
def test_keys_of_chunks(tmp_path, case, shape):
    said, told = KEYS[case]
    x = values(1, shape, "float64") if shape else np.float64(4.5).reshape(())
    write_array(tmp_path / "in.zarr", x)
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out": {"array": "x", "chunk_key_encoding": said, "codec": "none", **({"chunks": list(CHUNKS)} if shape else {})}})
    chunkwise("run", path, *LIMIT).ok()
    chunkwise("verify", tmp_path / "out").ok()
    there = zarr.create_array(str(tmp_path / "there"), shape=shape, chunks=CHUNKS if shape else (), dtype="float64", fill_value=0, compressors=None, chunk_key_encoding=told)
    there[...] = x
    same_metadata(metadata(tmp_path / "out"), metadata(tmp_path / "there"))
    assert objects(tmp_path / "out") == objects(tmp_path / "there")
    np.testing.assert_array_equal(read_array(tmp_path / "out"), x)
    chunkwise("run", write_pipeline(tmp_path, {"x": "out"}, {}, {"again": "x"}), *LIMIT).ok()
    np.testing.assert_array_equal(read_array(tmp_path / "again"), x)


def objects(path):
    """What is stored of an array, but its metadata: bytes by key."""
    found = (p for p in path.rglob("*") if p.is_file() and not p.name.startswith((".z", "zarr.json", "chunkwise")))
    return {p.relative_to(path).as_posix(): p.read_bytes() for p in found}


FILLS = [
    ("float32", float("nan"), "NaN"),
    ("float64", float("nan"), "0x7ff8000000000000"),
    ("float32", float("inf"), "Infinity"),
    ("float64", float("-inf"), "-Infinity"),
    ("float32", 1.5, "0x3fc00000"),
    ("float32", 0.1, 0.1),
    ("float64", -999, -999),
    ("int16", -32768, -32768),
    ("uint64", 2**64 - 1, 2**64 - 1),
    ("uint8", 255, 255),
    ("bool", True, True),
    ("complex64", complex(1, float("inf")), [1, "Infinity"]),
]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("dtype, fill, said", FILLS, ids=[f"{d} {s}" for d, _, s in FILLS])
def test_fill_values(tmp_path, zarr_format, dtype, fill, said):
    x = values(5, SHAPE, dtype)
    write_array(tmp_path / "in.zarr", x, CHUNKS)
    output = {"array": "x", "fill_value": said, "chunks": list(CHUNKS), "zarr_format": zarr_format}
    chunkwise("run", write_pipeline(tmp_path, {"x": {"url": "in.zarr", "decode_cf": False}}, {}, {"out": output}), *LIMIT).ok()
    there = zarr.create_array(str(tmp_path / "there"), shape=SHAPE, chunks=CHUNKS, dtype=dtype, fill_value=fill, zarr_format=zarr_format)
    found = zarr.open_array(str(tmp_path / "out"), mode="r+")
    np.testing.assert_array_equal(found.fill_value, there.fill_value)
    name = ".zarray" if zarr_format == 2 else "zarr.json"
    wanted = json.loads((tmp_path / "there" / name).read_text())["fill_value"]
    assert json.loads((tmp_path / "out" / name).read_text())["fill_value"] == wanted
    np.testing.assert_array_equal(found[...], x)
    # What is not stored is the fill value, for readers of both kinds.
    (tmp_path / "out" / ("1.1" if zarr_format == 2 else "c/1/1")).unlink()
    expected = x.copy()
    expected[10:20, 6:12] = fill
    np.testing.assert_array_equal(found[...], expected)
    chunkwise("run", write_pipeline(tmp_path, {"x": {"url": "out", "decode_cf": False}}, {}, {"again": "x"}), *LIMIT).ok()
    np.testing.assert_array_equal(read_array(tmp_path / "again"), expected)


@pytest.mark.parametrize("dtype, said, words", [
    ("int16", 40000, "-32768 to 32767"),
    ("int16", 1.5, "integer"),
    ("uint8", -1, "0 to 255"),
    ("float32", "many", "NaN"),
    ("float32", 1e300, "holds"),
    ("float32", "0x7fc00001", "hex"),
    ("float64", "0x7fc00000", "hex"),
    ("bool", 1, "true or false"),
    ("complex64", 1.0, "two parts"),
])  # fmt: skip
def test_bad_fill_values_are_refused(tmp_path, dtype, said, words):
    write_array(tmp_path / "in.zarr", values(1, SHAPE, dtype), CHUNKS)
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out": {"array": "x", "fill_value": said}})
    chunkwise("run", path, *LIMIT).failed("fill", dtype, words)
    assert not (tmp_path / "out").exists()


# What the output says, and what zarr-python is told.
V2 = {
    "usual": ({}, {"compressors": numcodecs.Blosc(cname="lz4", clevel=5, shuffle=1)}),
    "none": ({"compressor": None}, {"compressors": None}),
    "none, short": ({"codec": "none"}, {"compressors": None}),
    "zstd": ({"compressor": {"id": "zstd", "level": 7}}, {"compressors": numcodecs.Zstd(7)}),
    "zstd with a checksum": ({"compressor": {"id": "zstd", "level": 1, "checksum": True}}, {"compressors": numcodecs.Zstd(1, checksum=True)}),
    "zstd, short": ({"codec": "zstd"}, {"compressors": numcodecs.Zstd(3)}),
    "gzip": ({"compressor": {"id": "gzip", "level": 9}}, {"compressors": numcodecs.GZip(9)}),
    "gzip, short": ({"codec": "gzip"}, {"compressors": numcodecs.GZip(5)}),
    "zlib": ({"compressor": {"id": "zlib"}}, {"compressors": numcodecs.Zlib()}),
    "bz2": ({"compressor": {"id": "bz2", "level": 5}}, {"compressors": numcodecs.BZ2(5)}),
    **{
        f"blosc {c} {s}": ({"compressor": {"id": "blosc", "cname": c, "clevel": 4, "shuffle": s, "blocksize": 0}}, {"compressors": numcodecs.Blosc(cname=c, clevel=4, shuffle=s)})
        for c in ("lz4", "lz4hc", "blosclz", "zstd", "zlib")
        for s in (-1, 0, 1, 2)
    },
    "shuffle and zlib": ({"filters": [{"id": "shuffle", "elementsize": 8}], "compressor": {"id": "zlib", "level": 4}}, {"filters": [numcodecs.Shuffle(8)], "compressors": numcodecs.Zlib(4)}),
    "fortran": ({"order": "F"}, {"order": "F", "compressors": numcodecs.Blosc(cname="lz4", clevel=5, shuffle=1)}),
    "folders": ({"dimension_separator": "/"}, {"chunk_key_encoding": {"name": "v2", "separator": "/"}, "compressors": numcodecs.Blosc(cname="lz4", clevel=5, shuffle=1)}),
    "big endian": ({"dtype": ">f8", "compressor": None}, {"dtype": ">f8", "compressors": None}),
    "big endian, fortran, zstd": ({"dtype": ">f8", "order": "F", "compressor": {"id": "zstd"}}, {"dtype": ">f8", "order": "F", "compressors": numcodecs.Zstd(0)}),
}  # fmt: skip


@pytest.mark.parametrize("case", V2)
def test_version_2(tmp_path, case):
    output, options = V2[case]
    x = values(1, SHAPE, "float64")
    again = write(tmp_path, x, {"zarr_format": 2, "chunks": list(CHUNKS), "fill_value": 0, **output})
    there = zarr.create_array(str(tmp_path / "there"), zarr_format=2, shape=SHAPE, chunks=CHUNKS, fill_value=0, **{"dtype": "float64", **options})
    there[...] = x
    found, wanted = (json.loads((tmp_path / name / ".zarray").read_text()) for name in ("out", "there"))
    for doc in (found, wanted):
        # Absent is false, and no typesize is that of the dtype.
        doc["compressor"] = {k: v for k, v in (doc["compressor"] or {}).items() if (k, v) not in (("checksum", False), ("typesize", None))}
    assert found == wanted
    assert set(objects(tmp_path / "out")) == set(objects(tmp_path / "there"))
    for result in (read_array(tmp_path / "out"), again):
        np.testing.assert_array_equal(result, x)


@pytest.mark.parametrize("dtype", ALL)
@pytest.mark.parametrize("order", "<>")
def test_every_dtype_of_version_2(tmp_path, dtype, order):
    x = values(6, SHAPE, dtype)
    said = {} if x.dtype.itemsize == 1 else {"dtype": order + x.dtype.str[1:]}
    again = write(tmp_path, x, {"zarr_format": 2, "chunks": list(CHUNKS), **said})
    assert json.loads((tmp_path / "out/.zarray").read_text())["dtype"] == said.get("dtype", x.dtype.str)
    for found in (read_array(tmp_path / "out"), again):
        np.testing.assert_array_equal(found, x)


def grid():
    t = np.arange(12.0).reshape(3, 4)
    t[1, 2] = np.nan
    coords = {
        "time": xr.date_range("2001-01-01", periods=3),
        "x": [10.0, 20.0, 30.0, 40.0],
        "name": ("x", ["a", "bb", "", "größer"]),
        "height": 2.0,
    }
    return xr.Dataset({"t": (("time", "x"), t, {"units": "K"}), "n": (("x",), np.array([0, 1, 2, 3], "int16"))}, coords=coords, attrs={"title": "grid"})


@pytest.mark.parametrize("source", [2, 3])
@pytest.mark.parametrize("target", [2, 3])
def test_groups_in_both_versions(tmp_path, source, target):
    """A group of version 2 is whole: xarray opens it, consolidated, with its coordinates; zeros are zeros, and NaN is missing."""
    data = grid()
    data.to_zarr(tmp_path / "in.zarr", zarr_format=source)
    outputs = {"out.zarr": {"array": "ds", "zarr_format": target}, "out.zarr/mean_t": {"array": 'mean(ds.t, dim="time")', "zarr_format": target}}
    chunkwise("run", write_pipeline(tmp_path, {"ds": "in.zarr"}, {}, outputs), *LIMIT).ok()
    chunkwise("verify", tmp_path / "out.zarr").ok()
    assert (tmp_path / "out.zarr" / (".zmetadata" if target == 2 else "zarr.json")).is_file()
    for options in ({"consolidated": True}, {"consolidated": False}):
        with xr.open_zarr(tmp_path / "out.zarr", chunks=None, zarr_format=target, **options) as found:
            found.load()
            xr.testing.assert_equal(found.drop_vars("mean_t"), data)
            np.testing.assert_array_equal(found.mean_t, data.t.mean("time"))
            assert found.t.attrs["units"] == "K"
    # And this program again, in one more step.
    outputs = {"again.zarr": "ds"}
    chunkwise("run", write_pipeline(tmp_path, {"ds": "out.zarr"}, {}, outputs), *LIMIT).ok()
    xr.testing.assert_equal(xr.open_zarr(tmp_path / "again.zarr", chunks=None).drop_vars("mean_t").load(), data)


@pytest.mark.parametrize("dtype, fill", [("int16", -999), ("float32", -999.0), ("float32", float("nan"))])
@pytest.mark.parametrize("source", [2, 3])
def test_missing_values_of_version_2(tmp_path, source, dtype, fill):
    """What stands for missing values is the fill value in version 2, and an attribute in version 3. A copy keeps it."""
    packed = np.array([[0, 5, -999], [7, -999, 1]], dtype)
    if np.isnan(fill):
        packed[packed == -999] = fill
    data = xr.Dataset({"t": (("y", "x"), packed, {"_FillValue": fill, "scale_factor": 0.5, "add_offset": 10.0})})
    data.to_zarr(tmp_path / "in.zarr", zarr_format=source)
    wanted = xr.open_zarr(tmp_path / "in.zarr", chunks=None).load()
    for number, target in enumerate((2, 2, 3, 2)):
        outputs = {f"out{number}.zarr/t": {"array": "t", "zarr_format": target}}
        inputs = {"t": f"out{number - 1}.zarr/t" if number else "in.zarr/t"}
        chunkwise("run", write_pipeline(tmp_path, inputs, {}, outputs), *LIMIT).ok()
        found = xr.open_zarr(tmp_path / f"out{number}.zarr", chunks=None).load()
        xr.testing.assert_equal(found, wanted)
        np.testing.assert_array_equal(read_array(tmp_path / f"out{number}.zarr/t"), packed)


def test_groups_of_one_version(tmp_path):
    """Nothing is written into a group of the other version, where readers would not see it."""
    grid().to_zarr(tmp_path / "in.zarr", zarr_format=3)

    def run(outputs, *args):
        return chunkwise("run", write_pipeline(tmp_path, {"ds": "in.zarr"}, {}, outputs), *LIMIT, *args)

    run({"out.zarr/t": {"array": "ds.t", "zarr_format": 2}, "out.zarr/n": "ds.n"}).failed("v2", "v3", "another group")
    assert not (tmp_path / "out.zarr").exists()
    run({"out.zarr/t": {"array": "ds.t", "zarr_format": 2}}).ok()
    run({"out.zarr/n": "ds.n"}).failed("group of Zarr v2", "zarr_format: 2")
    assert not (tmp_path / "out.zarr/n").exists()
    run({"out.zarr/n": {"array": "ds.n", "zarr_format": 2}}).ok()
    run({"out.zarr/t": {"array": "ds.t + 1", "zarr_format": 2}}, "--overwrite").ok()
    found = xr.open_zarr(tmp_path / "out.zarr", chunks=None)
    np.testing.assert_array_equal(found.t, grid().t + 1)
    np.testing.assert_array_equal(found.n, grid().n)
    run({"in3.zarr/n": "ds.n"}).ok()
    run({"in3.zarr/t": {"array": "ds.t", "zarr_format": 2}}).failed("group of Zarr v3", "zarr_format: 3")
    # A store of its own may change.
    run({"one.zarr": "ds.n"}).ok()
    run({"one.zarr": {"array": "ds.n", "zarr_format": 2}}, "--overwrite").ok()
    assert not (tmp_path / "one.zarr/zarr.json").exists() and zarr.open_array(str(tmp_path / "one.zarr")).metadata.zarr_format == 2


@pytest.mark.parametrize("output, words", [
    ({"zarr_format": 4}, ["zarr_format", "2 or 3"]),
    ({"compressor": {"id": "zstd"}}, ["compressor", "zarr_format: 2"]),
    ({"order": "F"}, ["order", "zarr_format: 2"]),
    ({"zarr_format": 2, "codecs": [bytes_codec()]}, ["codecs", "Zarr v3", "compressor"]),
    ({"zarr_format": 2, "codec": "zstd", "compressor": None}, ["not both"]),
    ({"zarr_format": 2, "compressor": {"id": "lzma"}}, ["lzma", "blosc, zstd, gzip, zlib and bz2"]),
    ({"zarr_format": 2, "compressor": {"id": "blosc", "shuffle": "shuffle"}}, ["shuffle", "-1 to 2"]),
    ({"zarr_format": 2, "compressor": {"id": "zstd", "levle": 1}}, ["levle", "level"]),
    ({"zarr_format": 2, "compressor": "zstd"}, ["mapping", "id"]),
    ({"zarr_format": 2, "filters": [{"id": "delta"}]}, ["delta", "shuffle"]),
    ({"zarr_format": 2, "order": "K"}, ["order", "C or F"]),
    ({"zarr_format": 2, "dimension_separator": "-"}, ["separator", "\".\""]),
    ({"zarr_format": 2, "chunks": [5, 3], "shards": [10, 6]}, ["no shards"]),
    ({"zarr_format": 2, "dtype": ">f4"}, ["float64", "astype"]),
    ({"zarr_format": 2, "dtype": "double"}, ["double", "float32", ">f4"]),
    ({"dtype": ">f8"}, ["bytes", "endian"]),
    ({"chunk_key_encoding": {"name": "suffix"}}, ["chunk_key_encoding", "default or v2"]),
    ({"chunk_key_encoding": {"name": "v2", "separator": "_"}}, ["separator"]),
    ({"fill": 1}, ["unknown key", "fill_value"]),
])  # fmt: skip
def test_bad_metadata_is_refused(tmp_path, output, words):
    write_array(tmp_path / "in.zarr", values(1, SHAPE, "float64"), CHUNKS)
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out": {"array": "x", **output}})
    chunkwise("run", path, *LIMIT).failed(*words)
    assert not (tmp_path / "out").exists()


# Of what takes long, a quarter.
SMALL = {"array": "x[:1000] + 1"}
LARGE = {
    "gzip": {"codec": "gzip"},
    "zstd, level 19": {**SMALL, "codecs": [bytes_codec(), zstd(19)]},
    "big endian": {"codecs": [bytes_codec("big")]},
    "transposed and compressed twice": {"codecs": [transpose(1, 0), bytes_codec("big"), zstd(1), blosc(cname="lz4"), CRC]},
    "blosc, level 9": {**SMALL, "codecs": [bytes_codec(), blosc(cname="zstd", clevel=9)]},
    "blosc, one block": {"codecs": [bytes_codec(), blosc(cname="zstd", clevel=1, blocksize=16_000_000)]},
    "shards": {"codecs": [{"name": "sharding_indexed", "configuration": {"chunk_shape": [1000, 1000], "codecs": [transpose(1, 0), bytes_codec("big"), zstd(9)], "index_location": "start"}}], "shards": [2000, 2000]},
    "version 2": {"zarr_format": 2, "order": "F", "dtype": ">f8"},
    "version 2, bz2": {**SMALL, "zarr_format": 2, "compressor": {"id": "bz2", "level": 9}},
    "float16": {"array": 'astype(x + 1, "float32")', "dtype": "float16"},
}


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """64 MB that no codec makes smaller, in chunks of 8 MB, and the memory of the program itself."""
    folder = tmp_path_factory.mktemp("large")
    write_array(folder / "x", np.random.default_rng(1).standard_normal((4000, 2000)), (500, 2000))
    return folder


# Of the 64 MiB that are kept for the program itself it needs less, and a copy that nobody counted would hide in the rest.
PROGRAM = 40_000_000


def peak(path):
    """Runs a pipeline with the least memory that it should need, and compares what it took with the projection."""
    plan = json.loads(chunkwise("plan", path, "--allowed-mem", "1500MB", "--format", "json").ok().stdout)
    need = max(stage["projected_mem"] for stage in plan["stages"])
    done = chunkwise("run", path, "--allowed-mem", need + plan["spec"]["reserved_mem"] + 1_000_000, "--workers", 1, "--json").ok()
    assert done.report["peak_memory"] < need + PROGRAM, f"{done.report['peak_memory']} bytes for {need} and the program"


@pytest.mark.parametrize("chunks", [[2000, 2000], [2100, 1900]], ids=["exact", "padded"])
@pytest.mark.parametrize("case", LARGE)
def test_peak_memory(large, tmp_path, case, chunks):
    """A run takes no more than is projected, whatever copies and tables the codecs need."""
    output = {"array": "x + 1", "chunks": chunks, **LARGE[case]}
    if "shards" in output:
        del output["chunks"]
    peak(write_pipeline(tmp_path, {"x": str(large / "x")}, {}, {"out": output}, spec={"workers": 1}))
    x = read_array(large / "x") + 1
    wanted = x.astype("float32").astype("float16") if case == "float16" else x[:1000] if "[:1000]" in output["array"] else x
    np.testing.assert_array_equal(read_array(tmp_path / "out"), wanted)
    # Reading some rows of every chunk.
    peak(write_pipeline(tmp_path, {"x": "out"}, {}, {"sums": "sum(x[::700], axis=1)"}, spec={"workers": 1}))
