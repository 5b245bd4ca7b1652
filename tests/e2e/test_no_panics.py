"""Input that ended in a panic, or in "a bug, please report": each is refused, or named as damaged, in a sentence."""

import json
import pathlib
import struct

import numpy as np
import pytest
import zarr
from harness import chunkwise, write_array, write_pipeline
from shards import crc32c
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec, ZstdCodec

MEM = ["--allowed-mem", "300MB"]
X = np.arange(64.0).reshape(8, 8)


def no_bug(done, *words):
    done.failed(*words)
    text = done.stdout + done.stderr
    assert "bug" not in text and "RUST_BACKTRACE" not in text, text
    return done


def reindex(path, entries, change):
    """Changes the index at the end of a shard, whose checksum stays right."""
    data = bytearray(path.read_bytes())
    index = bytearray(data[-entries * 16 - 4 : -4])
    change(index)
    data[-entries * 16 - 4 :] = index + struct.pack("<I", crc32c(index))
    path.write_bytes(data)


# Offset and length of an inner chunk.
ENTRIES = {
    "a sum of zero": (2**64 - 2, 2),
    "an offset at the end of numbers": (2**64 - 2, 1),
    "a length at the end of numbers": (8, 2**64 - 2),
    "an offset that is missing alone": (2**64 - 1, 8),
    "a length that is missing alone": (0, 2**64 - 1),
    "half of all": (2**63, 2**63),
    "behind the end": (700, 10**6),
}


@pytest.mark.parametrize("codec", ["raw", "zstd", "nested"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_an_index_of_a_shard_that_lies(tmp_path, codec, entry):
    path = tmp_path / "in.zarr"
    if codec == "nested":
        inner = ShardingCodec(chunk_shape=(1, 1), codecs=[BytesCodec()], index_codecs=[BytesCodec(), Crc32cCodec()])
        outer = ShardingCodec(chunk_shape=(2, 2), codecs=[inner], index_codecs=[BytesCodec(), Crc32cCodec()])
        array = zarr.create_array(str(path), shape=(8, 8), chunks=(8, 8), dtype="float64", serializer=outer, compressors=None, filters=None)
        array[...] = X
        # The first inner shard: 4 elements, then its own index of 4 entries; the outer index is right.
        chunk = path / "c/0/0"
        data = bytearray(chunk.read_bytes())
        offset, length = struct.unpack("<QQ", data[-16 * 16 - 4 : -16 * 16 + 12])
        part = bytearray(data[offset : offset + length])
        index = bytearray(part[-4 * 16 - 4 : -4])
        index[:16] = struct.pack("<QQ", *ENTRIES[entry])
        part[-4 * 16 - 4 :] = index + struct.pack("<I", crc32c(index))
        data[offset : offset + length] = part
        chunk.write_bytes(data)
    else:
        compressors = None if codec == "raw" else ZstdCodec(level=1)
        zarr.create_array(str(path), shape=(8, 8), chunks=(2, 2), shards=(8, 8), dtype="float64", compressors=compressors)[...] = X
        reindex(path / "c/0/0", 16, lambda index: index.__setitem__(slice(16, 32), struct.pack("<QQ", *ENTRIES[entry])))
    pipeline = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out.zarr": "x * 2"})
    no_bug(chunkwise("run", pipeline, *MEM), "damaged", "c/0/0")
    no_bug(chunkwise("verify", path), "damaged", "c/0/0")
    no_bug(chunkwise("show", path), "damaged", "c/0/0")


KEYS = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "eu-west-1", "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
NAMES = {
    "a bucket with a space": ({"outputs": {"s3://a b/x": "x"}}, ["'a b' is no bucket"]),
    "a bucket with a port": ({"outputs": {"s3://a:b/x": "x"}, "spec": {"storage": {"s3://": {"path_style": False}}}}, ["'a:b' is no bucket"]),
    "a region with a space": ({"outputs": {"s3://b/x": "x"}, "spec": {"storage": {"s3://": {"region": "a b"}}}}, ["'a b' is no region"]),
    "a container with a space": ({"outputs": {"az://a b/x": "x"}}, ["'a b' is no container"]),
    "a host with a space": ({"inputs": {"x": "https://a b/x"}}, ["'a b' is no host"]),
    "too many workers": ({"spec": {"workers": 65536}}, ["an integer from 1 to 4096"]),
    "the root": ({"outputs": {"/": "x"}}, [("the root of the file system", "must not be, hold or lie in")]),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_and_numbers(tmp_path, name):
    write_array(tmp_path / "in.zarr", X)
    change, words = NAMES[name]
    document = {"inputs": {"x": "in.zarr"}, "outputs": {"out.zarr": "x"}, **change}
    document["spec"] = {"work_dir": str(tmp_path / "work"), **document.get("spec", {})}
    (tmp_path / "p.json").write_text(json.dumps(document))
    done = no_bug(chunkwise("run", tmp_path / "p.json", *MEM, env=KEYS), *words)
    assert done.code == 2, done.stderr


def test_a_region_of_the_environment():
    no_bug(chunkwise("info", "s3://b/x", env={**KEYS, "AWS_REGION": "a b"}), "'a b' is no region")
    no_bug(chunkwise("info", "s3://a b/x", env=KEYS), "'a b' is no bucket")


def test_workers_of_the_command_line(tmp_path):
    write_array(tmp_path / "in.zarr", X)
    pipeline = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out.zarr": "x"})
    no_bug(chunkwise("run", pipeline, "--workers", "65536"), "from 1 to 4096")
    chunkwise("run", pipeline, *MEM, "--workers", "4096").ok()


@pytest.mark.parametrize("root", ["/", "file:///", "//", "/tmp/..", "/./"])
def test_a_plan_that_writes_to_the_root(tmp_path, root):
    """Nothing is asked of the root: not even whether something is there that could be replaced."""
    write_array(tmp_path / "in.zarr", X)
    pipeline = write_pipeline(tmp_path, {"x": "in.zarr"}, {}, {"out.zarr": "x"})
    plan = json.loads(chunkwise("plan", pipeline, *MEM, "--format", "json").ok().stdout)
    (output,) = (a for a in plan["arrays"].values() if a["role"] == "output")
    output["url"] = root
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(plan))
    # Not with --overwrite: where this test fails, it would fail for good.
    for args in (["run", path], ["run-task", path, 0, 0], ["worker", "--plan", path, "--stage", 0]):
        no_bug(chunkwise(*args), "the root of the file system")
    assert not pathlib.Path("/zarr.json").exists()
