"""Chunks of many megabytes, which are read in bands, decoded block by block, or taken piece by piece: the same as NumPy, whatever the codec.

Integers are compared exactly; the wave of values is different in every row and column, so that an element out of place is seen.
"""

import json

import numcodecs
import numpy as np
import pytest
import zarr
import zarr.codecs.numcodecs
from harness import chunkwise, read_array, stored, write_pipeline
from projections import check_projections
from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec

SHAPE = (12, 300, 500)
CODECS = {
    "raw": None,
    "lz4": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle"),
    "bits": BloscCodec(cname="zstd", clevel=1, shuffle="bitshuffle"),
    "blocks": BloscCodec(cname="lz4", clevel=1, shuffle="noshuffle", blocksize=100_000),
    # Only this compressor has blocks of more than a megabyte.
    "one block": BloscCodec(cname="zstd", clevel=1, shuffle="shuffle", blocksize=8_000_000),
    "zstd": ZstdCodec(level=1),
    "gzip": GzipCodec(level=1),
}
CHUNKS = {"whole rows": (5, 300, 500), "columns": (12, 300, 170), "all": SHAPE}
# Expression, the same in NumPy, chunks of the output.
WORK = {
    "sum": ("x + 2 * y", lambda x, y: x + 2 * y, (5, 300, 500)),
    "halves": ("x - y", lambda x, y: x - y, (5, 151, 500)),
    "reversed": ("x[::-1] + y", lambda x, y: x[::-1] + y, (6, 300, 500)),
    "sliced": ("x[1:11, 37:290, 3:] * 2", lambda x, y: x[1:11, 37:290, 3:] * 2, (4, 253, 497)),
    "transposed": ("transpose(x) + 1", lambda x, y: x.transpose() + 1, (500, 300, 4)),
    "rolled": ("roll(x, 7, axis=1) - x", lambda x, y: np.roll(x, 7, axis=1) - x, (5, 300, 500)),
    "total": ("sum(x)", lambda x, y: x.sum(), ()),
    "time": ("sum(x, axis=0)", lambda x, y: x.sum(axis=0), (300, 500)),
    "rows": ("max(x * y, axis=2)", lambda x, y: (x * y).max(axis=2), (12, 300)),
    "middle": ("sum(x, axis=1) + min(y, axis=1)", lambda x, y: x.sum(axis=1) + y.min(axis=1), (12, 500)),
    "deviation": ("x - max(y, axis=0)", lambda x, y: x - y.max(axis=0), (5, 300, 500)),
}


def wave(seed):
    t, y, x = np.ogrid[: SHAPE[0], : SHAPE[1], : SHAPE[2]]
    noise = np.random.default_rng(seed).integers(0, 3, SHAPE)
    return (t * 1_000_003 + y * 4_099 + x * 7 + noise).astype("int64")


@pytest.fixture(scope="module")
def expected():
    x, y = wave(1), wave(2)
    return x, y, {name: function(x, y) for name, (_, function, _) in WORK.items()}


@pytest.mark.parametrize("chunks", CHUNKS)
@pytest.mark.parametrize("codec", CODECS)
def test_equal_to_numpy_for_every_codec(tmp_path, expected, codec, chunks):
    *arrays, results = expected
    for name, values in zip("xy", arrays):
        array = zarr.create_array(str(tmp_path / "in.zarr" / name), shape=SHAPE, chunks=CHUNKS[chunks], dtype="int64", compressors=CODECS[codec])
        array[...] = values
    outputs = {f"out.zarr/{name}": {"array": text, "chunks": list(grid)} for name, (text, _, grid) in WORK.items()}
    pipeline = write_pipeline(tmp_path, {name: f"in.zarr/{name}" for name in "xy"}, {}, outputs)
    for memory, workers in (("250MB", 2), ("1GB", 4)):
        done = chunkwise("run", pipeline, "--allowed-mem", memory, "--workers", workers, "--overwrite", "--json").ok()
        assert json.loads(done.stdout)["peak_memory"] < {"250MB": 250e6, "1GB": 1e9}[memory]
        for name, result in results.items():
            np.testing.assert_array_equal(read_array(tmp_path / "out.zarr" / name), result, err_msg=f"{name}, {memory}")


@pytest.mark.parametrize("codec", ["raw", "lz4", "bits", "blocks", "one block", "zstd"])
def test_slabs_to_series(tmp_path, codec):
    """Each output needs a few rows of every input chunk: from blocks of them where they have blocks, else from a copy in pieces."""
    shape = (60, 1440, 1440)
    t, y, x = np.ogrid[: shape[0], : shape[1], : shape[2]]
    values = (t * 1_009 + y * 97 + x * 7).astype("int16")
    array = zarr.create_array(str(tmp_path / "x"), shape=shape, chunks=(6, 1440, 1440), dtype="int16", compressors=CODECS[codec])
    array[...] = values
    pipeline = write_pipeline(tmp_path, {"x": "x"}, {}, {"series": {"array": "x", "chunks": [60, 48, 80]}})
    limits = ("--allowed-mem", "200MB", "--workers", 2)
    if codec == "one block":
        assert int.from_bytes((tmp_path / "x" / "c" / "0" / "0" / "0").read_bytes()[8:12], "little") == 8_000_000
    plan = json.loads(chunkwise("plan", pipeline, *limits, "--format", "json").ok().stdout)
    assert (len(plan["stages"]) == 1) == (codec in ("raw", "lz4", "bits", "blocks"))
    done = chunkwise("run", pipeline, *limits, "--json").ok()
    assert json.loads(done.stdout)["peak_memory"] < 200e6
    np.testing.assert_array_equal(read_array(tmp_path / "series"), values)


@pytest.mark.parametrize("codec", ["raw", "zstd", "gzip"])
@pytest.mark.parametrize("expression", ["mean(x)", "sum(x * x, axis=0)", "max(x, axis=[1, 2])", "sum(x[::-1], axis=0)", "mean(x[::-1])", "sum(permute_dims(x, [2, 1, 0]), axis=2)"])
def test_every_byte_is_read_once(tmp_path, codec, expression):
    """Also where what is decoded from its beginning on would have to begin again for every band, and where bands of rows are columns in the file."""
    x = np.random.default_rng(4).integers(0, 1000, (24, 600, 700)).astype("float32")
    array = zarr.create_array(str(tmp_path / "x"), shape=x.shape, chunks=(12, 600, 700), dtype="float32", compressors=CODECS[codec])
    array[...] = x
    size = stored(tmp_path / "x")
    pipeline = write_pipeline(tmp_path, {"x": "x"}, {}, {"r": expression})
    report = chunkwise("run", pipeline, "--allowed-mem", "200MB", "--workers", 2, "--json").ok().report
    # And partial results.
    assert size <= report["bytes_read"] <= 1.05 * size


@pytest.mark.parametrize("codec", ["raw", "lz4", "zstd"])
def test_cores_that_help_change_no_bit(tmp_path, codec):
    """A single chunk is one task, whose bands all idle cores take: sums are added in the order of the bands all the same."""
    shape = (12, 600, 1000)
    for seed, name in enumerate("xy"):
        array = zarr.create_array(str(tmp_path / "in.zarr" / name), shape=shape, chunks=shape, dtype="float64", compressors=CODECS[codec])
        array[...] = np.round(np.random.default_rng(seed).standard_normal(shape), 3)
    work = {
        "sum": "sum(exp(x) * y)",
        "mean": "mean(x)",
        "spread": "std(x * y, axis=0)",
        "rows": "sum(sin(x), axis=2)",
        "map": "exp(x) / (1 + y * y)",
    }
    pipeline = write_pipeline(tmp_path, {name: f"in.zarr/{name}" for name in "xy"}, {}, {f"out.zarr/{name}": text for name, text in work.items()})
    found = []
    for workers in (1, 2, 4, 4, 2):
        chunkwise("run", pipeline, "--allowed-mem", "1GB", "--workers", workers, "--overwrite").ok()
        found.append({name: read_array(tmp_path / "out.zarr" / name).tobytes() for name in work})
    x, y = (read_array(tmp_path / "in.zarr" / name) for name in "xy")
    np.testing.assert_allclose(np.frombuffer(found[0]["sum"]), (np.exp(x) * y).sum(), rtol=1e-11)
    np.testing.assert_allclose(np.frombuffer(found[0]["map"]).reshape(shape), np.exp(x) / (1 + y * y), rtol=1e-14)
    assert all(other == found[0] for other in found[1:])


@pytest.mark.parametrize("workers", [1, 4])
def test_a_damaged_block_stops_all_cores(tmp_path, workers):
    shape = (48, *SHAPE[1:])
    array = zarr.create_array(str(tmp_path / "x"), shape=shape, chunks=shape, dtype="int64", compressors=CODECS["lz4"])
    array[...] = np.concatenate([wave(seed) for seed in range(4)])
    path = tmp_path / "x" / "c" / "0" / "0" / "0"
    chunk = bytearray(path.read_bytes())
    decoded, block = (int.from_bytes(chunk[at : at + 4], "little") for at in (4, 8))
    last = 16 + 4 * (-(-decoded // block) * 2 // 3)
    start = int.from_bytes(chunk[last : last + 4], "little")
    # The length of the first stream of a block in the last third.
    chunk[start : start + 4] = b"\xff\xff\xff\x7f"
    path.write_bytes(chunk)
    for text in ("sum(x)", "x + 1"):
        pipeline = write_pipeline(tmp_path, {"x": "x"}, {"r": text}, {"r": "r"})
        done = chunkwise("run", pipeline, "--allowed-mem", "1GB", "--workers", workers, "--overwrite", timeout=60)
        done.failed("c/0/0/0", "stage 0")


@pytest.mark.parametrize("codec, budget, times", [("raw", 130, 1.2), ("zstd", 260, 14)])
def test_products_over_one_long_chunk(tmp_path, codec, budget, times):
    """The contracted index is cut although its chunks are not, before the chunks of the product are: smaller ones would read all of x more often."""
    x = np.random.default_rng(6).integers(-9, 9, (200, 100_000)).astype("float64")
    array = zarr.create_array(str(tmp_path / "x"), shape=x.shape, chunks=(50, 100_000), dtype="float64", compressors=CODECS[codec])
    array[...] = x
    size = stored(tmp_path / "x")
    pipeline = write_pipeline(tmp_path, {"x": "x"}, {}, {"r": "matmul(x[::-1, :], permute_dims(x, [1, 0]))"})
    report = chunkwise("run", pipeline, "--allowed-mem", f"{budget}MB", "--workers", 2, "--json").ok().report
    assert report["peak_memory"] < budget * 1e6
    np.testing.assert_array_equal(read_array(tmp_path / "r"), x[::-1] @ x.T)
    assert report["bytes_read"] < times * size, report["bytes_read"] / size


@pytest.mark.parametrize("size", [2 << 20, 8_000_000])
def test_blocks_that_the_metadata_does_not_tell(tmp_path, size):
    """Those that versions of Blosc choose fit into what was planned for; larger ones that somebody asked for are refused, for there is no memory."""
    x = wave(3)
    array = zarr.create_array(str(tmp_path / "x"), shape=SHAPE, chunks=SHAPE, dtype="int64", compressors=BloscCodec(cname="zstd", clevel=1, blocksize=size))
    array[...] = x
    about = tmp_path / "x" / "zarr.json"
    assert about.read_text().count(f'"blocksize": {size}') == 1
    about.write_text(about.read_text().replace(f'"blocksize": {size}', '"blocksize": 0'))
    pipeline = write_pipeline(tmp_path, {"x": "x"}, {}, {"r": {"array": "x[:, ::-1] + 1", "chunks": [2, 300, 500]}})
    done = chunkwise("run", pipeline, "--allowed-mem", "120MB", "--workers", 2, "--json")
    if size > 2 << 20:
        done.failed("c/0/0/0", "2 blocks of 8000000 bytes", "metadata")
    else:
        assert done.ok().report["peak_memory"] < 120e6
        np.testing.assert_array_equal(read_array(tmp_path / "r"), x[:, ::-1] + 1)


@pytest.mark.parametrize("cname", ["lz4", "zlib"])
def test_a_blosc_chunk_larger_than_the_budget(tmp_path, cname):
    """Of 173 MB, decoded, some blocks are in memory at once."""
    x = np.concatenate([wave(seed) for seed in range(12)])
    array = zarr.create_array(str(tmp_path / "x"), shape=x.shape, chunks=x.shape, dtype="int64", compressors=BloscCodec(cname=cname, clevel=5))
    array[...] = x
    outputs = {"back": {"array": "x[::-1] + 1", "chunks": [12, 300, 500]}, "total": "sum(x * x[:, ::-1])", "copy": {"array": "x", "chunks": [72, 20, 50]}}
    pipeline = write_pipeline(tmp_path, {"x": "x"}, {}, outputs)
    report = chunkwise("run", pipeline, "--allowed-mem", "160MB", "--workers", 2, "--json").ok().report
    assert report["peak_memory"] < 160e6
    np.testing.assert_array_equal(read_array(tmp_path / "back"), x[::-1] + 1)
    assert read_array(tmp_path / "total") == (x * x[:, ::-1]).sum()
    np.testing.assert_array_equal(read_array(tmp_path / "copy"), x)


STREAMS = {
    "zstd": (3, ZstdCodec(level=1)),
    "gzip": (3, GzipCodec(level=1)),
    "zlib": (3, zarr.codecs.numcodecs.Zlib(level=1)),
    "zlib of version 2": (2, numcodecs.Zlib(level=1)),
}


@pytest.fixture(scope="module", params=STREAMS)
def stream(request, tmp_path_factory):
    """An array in one chunk of 80 MB, decoded, of which no part can be found without decoding what comes before it."""
    folder = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    t, y, x = np.ogrid[:20, :1000, :1000]
    # None is the fill value, which stands for missing values in Zarr v2.
    values = (1 + t * 1_000_003 + y * 4_099 + x // 7).astype("int32")
    zarr_format, codec = STREAMS[request.param]
    array = zarr.create_array(str(folder / "x"), shape=values.shape, chunks=values.shape, dtype="int32", compressors=codec, zarr_format=zarr_format)
    array[...] = values
    return folder, values


@pytest.mark.parametrize(
    "name, expression, chunks, expected",
    [
        ("row", "x[10, 500, :]", [1000], lambda x: x[10, 500, :]),
        ("box", "x[3:19, 700:720, 5:990]", [16, 20, 985], lambda x: x[3:19, 700:720, 5:990]),
        ("last", "sum(x, axis=2)", [20, 1000], lambda x: x.sum(axis=2, dtype="int64")),
        ("middle", "max(x, axis=1)", [20, 1000], lambda x: x.max(axis=1)),
        ("first", "min(x, axis=0)", [1000, 1000], lambda x: x.min(axis=0)),
        ("total", "sum(x)", [], lambda x: x.sum(dtype="int64")),
        ("series", "x", [20, 50, 50], lambda x: x),
        ("slabs", "x + 1", [2, 1000, 1000], lambda x: x + 1),
        ("reversed", "x[::-1, ::-1]", [4, 1000, 200], lambda x: x[::-1, ::-1]),
        ("transposed", "sum(permute_dims(x, [2, 1, 0]), axis=2)", [1000, 1000], lambda x: x.T.sum(axis=2, dtype="int64")),
    ],
)
def test_a_stream_larger_than_the_budget(stream, tmp_path, name, expression, chunks, expected):
    """Of gzip, zlib and zstd only the beginning can be decoded alone: a window of the chunk is held, whatever is wanted of it."""
    folder, values = stream
    pipeline = write_pipeline(tmp_path, {"x": str(folder / "x")}, {}, {"r": {"array": expression, "chunks": chunks}})
    report = check_projections(tmp_path, pipeline, "150MB", "--workers", 2)
    assert report["peak_memory"] < 150e6
    np.testing.assert_array_equal(read_array(tmp_path / "r"), expected(values))
