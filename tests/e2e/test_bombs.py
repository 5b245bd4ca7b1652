"""Stores that are small and claim to be large: no command takes more memory for them than for honest data."""

import bz2
import functools
import json
import struct
import time
import zlib

import numpy as np
import pytest
import zarr
from harness import TIMEOUT, chunkwise, read_array, write_array, write_pipeline
from numcodecs import Blosc, Zstd
from projections import MB, measured
from shards import crc32c

GIB = 1 << 30
MEM = ["--allowed-mem", "300MB"]


def repeated(compressor, n=GIB):
    """Zeros, from a compressor that takes them piece by piece."""
    piece, out = bytes(1 << 24), []
    for _ in range(n >> 24):
        out.append(compressor.compress(piece))
    return b"".join([*out, compressor.flush()])


@functools.cache
def gzipped():
    return repeated(zlib.compressobj(1, wbits=31))


def gzipped_twice():
    return zlib.compress(gzipped(), 9, wbits=31)


def zstd_without_size(n=GIB):
    """One frame without a content size, of blocks that repeat one byte."""
    block = 128 << 10
    header = struct.pack("<I", 0xFD2FB528) + bytes([0x00, 0x38])
    blocks = [struct.pack("<I", (block << 3) | (1 << 1) | (1 if i + block >= n else 0))[:3] + b"\0" for i in range(0, n, block)]
    return header + b"".join(blocks)


# Blosc has 32-bit lengths; a buffer says in its header how long it is.
def blosc():
    return Blosc("zstd", clevel=5, shuffle=0).encode(bytes(1 << 30))


def codec3(name, **configuration):
    return {"name": name, "configuration": configuration}


LITTLE, CRC = codec3("bytes", endian="little"), {"name": "crc32c"}
GZIP, ZSTD = codec3("gzip", level=5), codec3("zstd", level=3, checksum=False)
BLOSC = codec3("blosc", cname="zstd", clevel=5, shuffle="noshuffle", typesize=8, blocksize=0)
SHARD = codec3("sharding_indexed", chunk_shape=[2, 4], codecs=[LITTLE, GZIP], index_codecs=[LITTLE, CRC], index_location="end")
TRANSPOSE = codec3("transpose", order=[1, 0])

BOMBS = {
    "gzip": ([LITTLE, GZIP], gzipped),
    "gzip in the order of Fortran": ([TRANSPOSE, LITTLE, GZIP], gzipped),
    "gzip in gzip": ([LITTLE, GZIP, GZIP], gzipped_twice),
    "gzip with a checksum": ([LITTLE, CRC, GZIP], gzipped),
    "gzip of big endians": ([codec3("bytes", endian="big"), GZIP], gzipped),
    "zstd": ([LITTLE, ZSTD], lambda: Zstd(3).encode(bytes(GIB))),
    "zstd without a size": ([LITTLE, ZSTD], zstd_without_size),
    "zstd of big endians": ([codec3("bytes", endian="big"), ZSTD], zstd_without_size),
    "zstd in zstd": ([LITTLE, ZSTD, ZSTD], lambda: Zstd(3).encode(Zstd(3).encode(bytes(GIB)))),
    "blosc": ([LITTLE, BLOSC], blosc),
    "blosc of big endians": ([codec3("bytes", endian="big"), BLOSC], blosc),
    "a shard": ([SHARD], gzipped),
    "a shard behind a transpose": ([TRANSPOSE, SHARD], gzipped),
    "v2 gzip": ({"id": "gzip", "level": 5}, gzipped),
    "v2 zlib": ({"id": "zlib", "level": 5}, lambda: repeated(zlib.compressobj(9))),
    "v2 bz2": ({"id": "bz2", "level": 9}, lambda: repeated(bz2.BZ2Compressor(9))),
    "v2 zstd": ({"id": "zstd", "level": 3}, zstd_without_size),
    "a file of 4 GB": ([LITTLE, GZIP], None),
    "a raw file of 4 GB": ([LITTLE], None),
}


def metadata(codecs, **more):
    if isinstance(codecs, dict):
        doc = {"zarr_format": 2, "shape": [2, 4], "chunks": [2, 4], "dtype": "<f8", "compressor": codecs, "fill_value": 0, "order": "C", "filters": None}
        return ".zarray", {**doc, **more}
    grid = {"name": "regular", "configuration": {"chunk_shape": [2, 4]}}
    key = {"name": "default", "configuration": {"separator": "/"}}
    doc = {"zarr_format": 3, "node_type": "array", "shape": [2, 4], "data_type": "float64", "chunk_grid": grid, "chunk_key_encoding": key,
           "fill_value": 0, "codecs": codecs, "attributes": {}}  # fmt: skip
    return "zarr.json", {**doc, **more}


def place(folder, codecs, data):
    """An array of one chunk, of 64 bytes, with this in it."""
    name, document = metadata(codecs)
    at = folder / "in.zarr"
    chunk = at / ("0.0" if isinstance(codecs, dict) else "c/0/0")
    chunk.parent.mkdir(parents=True)
    (at / name).write_text(json.dumps(document))
    if data is None:
        with open(chunk, "wb") as file:
            file.truncate(4_000_000_000)
        return
    data = data()
    if not isinstance(codecs, dict) and codecs[-1]["name"] == "sharding_indexed":
        index = struct.pack("<QQ", 0, len(data))
        data += index + struct.pack("<I", crc32c(index))
    chunk.write_bytes(data)


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_chunk_decodes_to_its_size_and_no_more(tmp_path, bomb):
    codecs, data = BOMBS[bomb]
    if bomb == "a shard behind a transpose":
        codecs = [TRANSPOSE, {**SHARD, "configuration": {**SHARD["configuration"], "chunk_shape": [4, 2]}}]
    place(tmp_path, codecs, data)
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out.zarr": "x * 2"})
    for args in (["run", path, *MEM], ["verify", tmp_path / "in.zarr"], ["show", tmp_path / "in.zarr"]):
        done, peak = measured(tmp_path, *args)
        done.failed(("damaged", "can be right"))
        assert peak < 80 * MB, f"{args[0]}: {peak / MB:.0f} MB"
    assert not list((tmp_path / "out.zarr").glob("zarr.json"))


@pytest.mark.parametrize("dtype", ["U1", "string"])
def test_a_coordinate_of_texts(tmp_path, dtype):
    """Texts are not read by the tasks; what decodes them is bounded, too."""
    zarr.create_group(str(tmp_path / "in.zarr"))
    write_array(tmp_path / "in.zarr/x", np.arange(2.0), None, ["name"])
    array = zarr.create_array(str(tmp_path / "in.zarr/name"), data=np.array(["a", "b"], dtype=np.dtypes.StringDType() if dtype == "string" else dtype), dimension_names=["name"], compressors=zarr.codecs.GzipCodec())
    chunk = next(p for p in (tmp_path / "in.zarr/name/c").rglob("*") if p.is_file())
    assert list(array[:]) == ["a", "b"]
    chunk.write_bytes(gzipped())
    for args in (["info", tmp_path / "in.zarr"], ["verify", tmp_path / "in.zarr"]):
        _, peak = measured(tmp_path, *args)
        # What all texts of a coordinate may take together.
        assert peak < (150 if dtype == "string" else 60) * MB, f"{args[0]}: {peak / MB:.0f} MB"


@pytest.mark.parametrize("kind", ["a text", "numbers", "nested", "v2"])
def test_attributes(tmp_path, kind):
    size = 50 * MB
    text = {"a text": '"' + "x" * size + '"', "numbers": "[" + "1," * (size // 2) + "1]", "nested": "[" + "[]," * (size // 3) + "1]", "v2": '"' + "x" * size + '"'}[kind]
    at = tmp_path / "in.zarr"
    at.mkdir()
    name, document = metadata({"id": "zstd", "level": 1} if kind == "v2" else [LITTLE])
    document.pop("attributes", None)
    if kind == "v2":
        (at / name).write_text(json.dumps(document))
        (at / ".zattrs").write_text('{"a": ' + text + "}")
    else:
        (at / name).write_text(json.dumps(document)[:-1] + ', "attributes": {"a": ' + text + "}}")
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out.zarr": "x * 2"})
    for args in (["run", path, *MEM], ["info", at]):
        done, peak = measured(tmp_path, *args)
        assert "can be right" in done.stdout + done.stderr or "are read" in done.stdout + done.stderr
        assert peak < 100 * MB, f"{args[0]}: {peak / MB:.0f} MB"


def test_attributes_that_are_large_and_honest(tmp_path):
    write_array(tmp_path / "in.zarr", np.arange(4.0), None, ["t"], {"history": "x" * MB})
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out.zarr": "x * 2"})
    done, peak = measured(tmp_path, "run", path, *MEM)
    done.ok()
    assert peak < 100 * MB
    group = zarr.create_group(str(tmp_path / "group.zarr"))
    for i in range(3):
        group.create_array(f"a{i}", data=np.arange(2.0), attributes={"history": "x" * MB})
    zarr.consolidate_metadata(str(tmp_path / "group.zarr"))
    assert "a2" in chunkwise("info", tmp_path / "group.zarr").ok().stdout
    chunkwise("run", write_pipeline(tmp_path, {"g": "group.zarr"}, {}, {"out2.zarr/x": "g.a1 * 2"}), *MEM).ok()


def sparse(folder, checksums):
    name, document = metadata([LITTLE], shape=[1 << 30], data_type="uint8")
    document["chunk_grid"]["configuration"]["chunk_shape"] = [1]
    at = folder / "sparse.zarr"
    (at / "c").mkdir(parents=True)
    (at / name).write_text(json.dumps(document))
    for i in (5, 1 << 29, (1 << 30) - 1):
        (at / f"c/{i}").write_bytes(b"\1")
    if checksums:
        (at / "chunkwise.xxh3").write_text("XXH3_0000000000000000  c/5\n")
    return at


@pytest.mark.parametrize("checksums", [False, True])
def test_a_sparse_array_of_a_billion_chunks(tmp_path, checksums):
    at = sparse(tmp_path, checksums)
    began = time.monotonic()
    done, peak = measured(tmp_path, "verify", at, "--json")
    assert time.monotonic() - began < TIMEOUT / 4 and peak < 80 * MB, f"{peak / MB:.0f} MB"
    report = json.loads(done.stdout)
    if not checksums:
        done.ok()
        assert report["whole"] == 3 and list(report["cannot_tell"].values()) == [(1 << 30) - 3]
        return
    done.failed("missing or damaged")
    assert len(report["problems"]) == 10_000 and len(report["problems"]) + report["more_problems"] == 1 << 30
    assert "and 1073731824 more" in chunkwise("verify", at).failed().stdout


def test_a_shard_is_verified_piece_by_piece(tmp_path):
    """A shard of 400 MB, whose inner chunks are small."""
    array = zarr.create_array(str(tmp_path / "in.zarr"), shape=(50, 1000, 1000), chunks=(1, 500, 500), shards=(50, 1000, 1000), dtype="float64", compressors=None)
    array[...] = np.random.default_rng(1).random((50, 1000, 1000))
    done, peak = measured(tmp_path, "verify", tmp_path / "in.zarr")
    done.ok()
    assert peak < 60 * MB, f"{peak / MB:.0f} MB"
    chunk = tmp_path / "in.zarr/c/0/0/0"
    data = chunk.read_bytes()
    chunk.write_bytes(data[: len(data) // 2])
    chunkwise("verify", tmp_path / "in.zarr").failed("damaged")


# All kinds of codecs that are decoded with bounds, of honest data.
HONEST = {
    "gzip": [LITTLE, GZIP], "gzip twice": [LITTLE, GZIP, GZIP], "crc inside": [LITTLE, CRC, ZSTD], "crc outside": [LITTLE, GZIP, CRC], "zstd and gzip": [LITTLE, ZSTD, GZIP],
    "blosc of big endians": [codec3("bytes", endian="big"), BLOSC], "zstd of big endians": [codec3("bytes", endian="big"), ZSTD], "transposed": [TRANSPOSE, LITTLE, GZIP],
    "shards in shards": [codec3("sharding_indexed", chunk_shape=[4, 4], codecs=[SHARD], index_codecs=[LITTLE, CRC], index_location="start")],
    "shards with a checksum": [SHARD, CRC],
    "shards behind a transpose": [TRANSPOSE, {**SHARD, "configuration": {**SHARD["configuration"], "chunk_shape": [4, 2]}}],
}  # fmt: skip


@pytest.mark.parametrize("codecs", HONEST)
@pytest.mark.parametrize("values", ["random", "zeros", "sparse"])
def test_honest_chunks_are_what_they_were(tmp_path, codecs, values):
    name, document = metadata(HONEST[codecs], shape=[20, 24])
    document["chunk_grid"]["configuration"]["chunk_shape"] = [8, 8]
    at = tmp_path / "in.zarr"
    at.mkdir()
    (at / name).write_text(json.dumps(document))
    x = np.random.default_rng(2).random((20, 24))
    if values != "random":
        x = np.zeros((20, 24)) if values == "zeros" else np.where(x > 0.98, x, 0)
    zarr.open_array(str(at), mode="r+")[...] = x
    chunkwise("run", write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out.zarr": "x * 1"}), *MEM).ok()
    assert np.array_equal(read_array(tmp_path / "out.zarr"), x)
    chunkwise("verify", at).ok()
