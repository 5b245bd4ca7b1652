"""What zarr-python and xarray write, we read; what we write, they read."""

import json
import shutil
from xml.etree import ElementTree

import numcodecs
import numpy as np
import pytest
import xarray as xr
import zarr
from harness import ALL, chunkwise, read_array, values, write_array, write_pipeline
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec

SHAPE = (23, 17)


def copy(folder, source="in.zarr", target="out.zarr/y", *args, **output):
    path = write_pipeline(folder, {"x": source}, {}, {target: {"array": "x", **output} if output else "x"})
    chunkwise("run", path, "--allowed-mem", "500MB", *args).ok()
    return read_array(folder / target)


V3 = {
    "default": {"compressors": "auto"},
    "none": {"compressors": None},
    "gzip": {"compressors": GzipCodec(level=5)},
    "zstd": {"compressors": ZstdCodec(level=3, checksum=True)},
    **{f"blosc-{c}-{s}": {"compressors": BloscCodec(cname=c, shuffle=s)} for c in ("lz4", "lz4hc", "zstd", "zlib", "blosclz") for s in ("noshuffle", "shuffle", "bitshuffle")},
    "crc32c": {"compressors": [ZstdCodec(), Crc32cCodec()]},
    "big endian": {"serializer": BytesCodec(endian="big")},
    "transpose": {"filters": [TransposeCodec(order=(1, 0))]},
    "shards": {"chunks": (4, 3), "shards": (8, 9)},
    "shards of zstd": {"chunks": (5, 5), "shards": (10, 20), "compressors": ZstdCodec()},
    "shards, index first": {"chunks": (8, 8), "serializer": ShardingCodec(chunk_shape=(4, 2), codecs=[BytesCodec(), BloscCodec()], index_location="start"), "compressors": None},
    "dot separator": {"chunk_key_encoding": {"name": "default", "separator": "."}},
    "v2 keys": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
}  # fmt: skip

V2 = {
    "default": {},
    "none": {"compressors": None},
    "blosc": {"compressors": numcodecs.Blosc(cname="lz4", shuffle=1)},
    "zstd": {"compressors": numcodecs.Zstd(3)},
    "gzip": {"compressors": numcodecs.GZip(5)},
    "zlib": {"compressors": numcodecs.Zlib(5)},
    "bz2": {"compressors": numcodecs.BZ2(5)},
    "fortran": {"order": "F", "compressors": numcodecs.Zstd(3)},
    "slash": {"chunk_key_encoding": {"name": "v2", "separator": "/"}},
    "big endian": {"dtype": ">f8", "compressors": None},
}


@pytest.mark.parametrize("options", V3.values(), ids=V3.keys())
def test_read_v3(tmp_path, options):
    x = values(1, SHAPE, "float64")
    array = zarr.create_array(str(tmp_path / "in.zarr"), shape=SHAPE, dtype="float64", **{"chunks": (10, 6), **options})
    array[...] = x
    np.testing.assert_array_equal(copy(tmp_path), x)


@pytest.mark.parametrize("options", V2.values(), ids=V2.keys())
def test_read_v2(tmp_path, options):
    x = values(1, SHAPE, "float64")
    array = zarr.create_array(str(tmp_path / "in.zarr"), zarr_format=2, shape=SHAPE, chunks=(10, 6), **{"dtype": "float64", **options})
    array[...] = x
    np.testing.assert_array_equal(copy(tmp_path), x)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_every_dtype(tmp_path, zarr_format):
    inputs, outputs, expected = {}, {}, {}
    for dtype in ALL:
        expected[dtype] = values(2, SHAPE, dtype)
        array = zarr.create_array(str(tmp_path / "in" / dtype), zarr_format=zarr_format, shape=SHAPE, chunks=(7, 5), dtype=dtype)
        array[...] = expected[dtype]
        inputs[f"x_{dtype}"] = f"in/{dtype}"
        outputs[f"out.zarr/{dtype}"] = f"x_{dtype}"
    path = write_pipeline(tmp_path, inputs, {}, outputs)
    chunkwise("run", path, "--allowed-mem", "500MB").ok()
    for dtype, x in expected.items():
        y = read_array(tmp_path / "out.zarr" / dtype)
        assert y.dtype == x.dtype
        np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("fill, dtype", [(float("nan"), "float32"), (-7, "int16"), (float("inf"), "float64"), (True, "bool")])
def test_missing_chunks_are_fill_values(tmp_path, zarr_format, fill, dtype):
    array = zarr.create_array(str(tmp_path / "in.zarr"), zarr_format=zarr_format, shape=SHAPE, chunks=(10, 6), dtype=dtype, fill_value=fill)
    array[3:8, :6] = np.ones((5, 6), dtype)
    np.testing.assert_array_equal(copy(tmp_path), array[...])


def test_decode_cf(tmp_path):
    packed = values(3, SHAPE, "int16", -100, 100)
    packed[2, 2:5] = -999
    attributes = {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -999}
    write_array(tmp_path / "in.zarr", packed, (10, 6), ["y", "x"], attributes)
    path = write_pipeline(tmp_path, {"x": {"url": "in.zarr", "decode_cf": True}}, {"m": "x + 0"}, {"out.zarr/m": "m"})
    chunkwise("run", path, "--allowed-mem", "500MB").ok()
    expected = np.where(packed == -999, np.nan, packed * 0.5 + 10)
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/m"), expected, rtol=1e-6)


def dataset(folder, zarr_format):
    data = xr.Dataset(
        {"t": (("time", "lat", "lon"), values(1, (20, 6, 8), "float32"), {"units": "K", "long_name": "temperature"})},
        coords={
            "time": xr.date_range("2001-01-01", periods=20),
            "lat": np.linspace(-50, 50, 6),
            "lon": np.arange(8) * 45.0,
        },
    )
    data.to_zarr(folder / "in.zarr", zarr_format=zarr_format, encoding={"t": {"chunks": (7, 4, 5)}})
    return data


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_opens_in_xarray(tmp_path, zarr_format):
    source = dataset(tmp_path, zarr_format)
    arrays = {"same": "t", "mean_t": 'mean(t, dim="time")', "zonal": 'max(t, dim="lon")', "part": "t[2:18:3, ::-1]"}
    # `part` has coordinates of other lengths, so it goes to a group of its own.
    outputs = {f"{'part' if n == 'part' else 'out'}.zarr/{n}": n for n in arrays}
    path = write_pipeline(tmp_path, {"t": "in.zarr/t"}, arrays, outputs)
    chunkwise("run", path, "--allowed-mem", "500MB").ok()
    data = xr.open_zarr(tmp_path / "out.zarr", consolidated=True, chunks=None)
    assert data.same.dims == ("time", "lat", "lon")
    assert data.mean_t.dims == ("lat", "lon") and data.zonal.dims == ("time", "lat")
    for name in ("time", "lat", "lon"):
        np.testing.assert_array_equal(data[name].values, source[name].values)
    np.testing.assert_array_equal(data.same.values, source.t.values)
    assert data.same.attrs.get("units") == "K"
    np.testing.assert_allclose(data.mean_t.values, source.t.mean("time").values, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(data.zonal.values, source.t.max("lon").values)
    part = xr.open_zarr(tmp_path / "part.zarr", consolidated=True, chunks=None).part
    wanted = source.t.isel(time=slice(2, 18, 3), lat=slice(None, None, -1))
    np.testing.assert_array_equal(part.values, wanted.values)
    for name in ("time", "lat", "lon"):
        if name in part.coords:  # a coordinate that was sliced is either sliced with the array or left out
            np.testing.assert_array_equal(part[name].values, wanted[name].values)
    assert "lon" in part.coords


COORDINATES = {
    # expression: what xarray makes of it
    "t[::-1]": lambda t: t[::-1],
    "t[2:18:3, ::-1]": lambda t: t[2:18:3, ::-1],
    "isel(t, lon=[5, 1, 1])": lambda t: t.isel(lon=[5, 1, 1]),
    "roll(t, 3, axis=2)": lambda t: t.roll(lon=3, roll_coords=True),
    "permute_dims(t * 2, [2, 0, 1])[1:4]": lambda t: t.transpose("lon", "time", "lat")[1:4],
    'mean(t[:, 1:3], dim="time")': lambda t: t[:, 1:3].mean("time"),
    "moving_mean(t, time=5)": lambda t: t[2:-2],
    'moving_mean(t, time=4, mode="reflect")': lambda t: t,
    'convolve(t, [1, 2], dim="lat", mode="constant")': lambda t: t,
    "t - pad(diff(t, axis=0), [[1, 0], [0, 0], [0, 0]])": lambda t: t,
    "diff(t, axis=0)": lambda t: t[1:],
    "pad(t, [[1, 1], [0, 0], [0, 0]])": lambda t: t.drop_vars("time"),
    'pad(t[1:], [[1, 0], [0, 0], [0, 0]], mode="edge")': lambda t: t.isel(time=[1, *range(1, 20)]),
    "concat([t[:10], t[:10]], axis=0)": lambda t: t.isel(time=[*range(10), *range(10)]),
    'einsum("tij,sij->it", t, t[:3])': lambda t: t[:, :, 0].transpose(),
    'lookup(groupby_mean(t, "time.month"), "time.month")[:, ::2]': lambda t: t[:, ::2],
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("expression", COORDINATES)
def test_coordinates_move_with_the_elements(tmp_path, expression):
    source = dataset(tmp_path, 3)
    path = write_pipeline(tmp_path, {"t": "in.zarr/t"}, {"y": expression}, {"out.zarr/y": "y"})
    chunkwise("run", path, "--allowed-mem", "500MB").ok()
    y, wanted = xr.open_zarr(tmp_path / "out.zarr", chunks=None).y, COORDINATES[expression](source.t)
    assert set(y.coords) == {name for name in wanted.coords if name in y.dims}
    for name in y.coords:
        np.testing.assert_array_equal(y[name].values, wanted[name].values)


@pytest.mark.parametrize("codec", ["zstd", "gzip", "blosc", "none"])
def test_output_codecs(tmp_path, codec):
    dataset(tmp_path, 3)
    y = copy(tmp_path, "in.zarr/t", codec=codec)
    np.testing.assert_array_equal(y, read_array(tmp_path / "in.zarr/t"))


def test_output_chunks_and_shards(tmp_path):
    dataset(tmp_path, 3)
    y = copy(tmp_path, "in.zarr/t", chunks={"time": 5, "lat": 2, "lon": -1}, shards={"time": 10, "lat": 6, "lon": -1})
    np.testing.assert_array_equal(y, read_array(tmp_path / "in.zarr/t"))
    array = zarr.open_array(str(tmp_path / "out.zarr/y"), mode="r")
    assert array.chunks == (5, 2, 8) and array.shards == (10, 6, 8)


def test_shards_are_whole_when_the_tasks_are_small(tmp_path):
    """Two tasks that each write a part of a shard would lose data."""
    x = values(1, (96, 64), "float64")
    write_array(tmp_path / "in.zarr", x, (3, 64), ["a", "b"])
    y = copy(tmp_path, "in.zarr", "out.zarr/y", chunks={"a": 8, "b": 8}, shards={"a": 32, "b": 32})
    np.testing.assert_array_equal(y, x)


def test_rechunk_command(tmp_path):
    data = dataset(tmp_path, 3)
    done = chunkwise("rechunk", tmp_path / "in.zarr/t", tmp_path / "new.zarr/t", "--chunks", "time=-1,lat=3,lon=2", "--allowed-mem", "500MB")
    done.ok()
    array = zarr.open_array(str(tmp_path / "new.zarr/t"), mode="r")
    assert array.chunks == (20, 3, 2)
    np.testing.assert_array_equal(array[...], data.t.values)


def test_info(tmp_path):
    dataset(tmp_path, 3)
    text = chunkwise("info", tmp_path / "in.zarr").ok().stdout
    for word in ("t", "time", "lat", "lon", "float32", "temperature"):
        assert word in text
    json.loads(chunkwise("info", tmp_path / "in.zarr", "--json").ok().stdout)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_info_of_a_tree(tmp_path, zarr_format):
    root = zarr.create_group(str(tmp_path / "in.zarr"), zarr_format=zarr_format, attributes={"title": "two of\nthem"})
    sub = root.create_group("sub")
    x = np.zeros((40, 30), "float32")
    options = {"chunks": (5, 5), "shards": (10, 10), "dimension_names": ["a", None]} if zarr_format == 3 else {"chunks": (10, 10)}
    array = sub.create_array("x", shape=x.shape, dtype=x.dtype, compressors=ZstdCodec() if zarr_format == 3 else numcodecs.Zstd(3), **options)
    array.attrs.update({"units": "K", "long": "word " * 100, "number": [1, 2.5]})
    array[:20] = 1
    root.create_array("y", shape=(), dtype="int64")[...] = 5
    rows = {r["path"]: r for r in json.loads(chunkwise("info", tmp_path / "in.zarr", "--json").ok().stdout)}
    assert set(rows) == {"/", "sub", "sub/x", "y"}
    found = rows["sub/x"]
    files = [p for p in (tmp_path / "in.zarr/sub/x").rglob("*") if p.is_file() and p.name not in ("zarr.json", ".zarray", ".zattrs")]
    assert found["stored_bytes"] == sum(p.stat().st_size for p in files) and found["stored_objects"] == len(files) == 6
    assert found["objects"] == 12 and found["bytes"] == 4800 and found["ratio"] == found["bytes"] / found["stored_bytes"]
    assert found["shards"] == ([10, 10] if zarr_format == 3 else None) and found["chunks"] == ([5, 5] if zarr_format == 3 else [10, 10])
    assert found["attributes"]["number"] == [1, 2.5] and "zstd" in json.dumps(found["codecs"])
    assert rows["/"]["arrays"] == 2 and rows["sub"]["arrays"] == 1 and rows["/"]["attributes"]["title"] == "two of\nthem"
    assert rows["/"]["stored_bytes"] == found["stored_bytes"] + rows["y"]["stored_bytes"]
    text = chunkwise("info", tmp_path / "in.zarr").ok().stdout
    for word in ("sub/x", "float32", "units: K", "title: two of them", "6 of 12 objects", "zstd", "ratio", "group of 2 arrays"):
        assert word in text, word
    assert max(map(len, text.splitlines())) < 200
    if zarr_format == 3:
        assert "a 40 x 30" in text and "chunks 5 x 5 in shards 10 x 10" in text


def test_info_goes_on_after_what_cannot_be_read(tmp_path):
    dataset(tmp_path, 3)
    (tmp_path / "in.zarr/lat/zarr.json").write_text('{"zarr_format": 3, "node_type": "array"}')
    text = chunkwise("info", tmp_path / "in.zarr").ok().stdout
    assert "lat  cannot be read" in text and "temperature" in text


def test_verify_finds_missing_and_damaged_chunks(tmp_path):
    dataset(tmp_path, 3)
    copy(tmp_path, "in.zarr/t")
    chunkwise("verify", tmp_path / "out.zarr").ok()
    chunks = sorted(p for p in (tmp_path / "out.zarr/y/c").rglob("*") if p.is_file())
    assert len(chunks) > 3
    saved = chunks[1].read_bytes()
    chunks[1].unlink()
    chunkwise("verify", tmp_path / "out.zarr").failed("y")
    chunks[1].write_bytes(b"")
    chunkwise("verify", tmp_path / "out.zarr").failed("y")
    # Another chunk's bytes decode, but are not what the task wrote.
    shutil.copyfile(chunks[0], chunks[1])
    chunkwise("verify", tmp_path / "out.zarr").failed("y")
    chunks[1].write_bytes(saved)
    chunkwise("verify", tmp_path / "out.zarr").ok()


def store(folder, *args, **output):
    """An output with its chunks; the run's own folder is gone."""
    dataset(folder, 3)
    copy(folder, "in.zarr/t", "out.zarr/y", *args, **output)
    shutil.rmtree(folder / "work")
    return sorted(p for p in (folder / "out.zarr/y/c").rglob("*") if p.is_file())


def flip(path, bit):
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


@pytest.mark.parametrize("output", [{}, {"codec": "none"}, {"chunks": {"time": 5, "lat": 2, "lon": 4}, "shards": {"time": 10, "lat": 4, "lon": 4}}], ids=["blosc", "raw", "shards"])
def test_verify_a_store_without_its_run(tmp_path, output):
    """Torn, missing, exchanged and bit-flipped chunks are all found, by name, after the run's folder is gone or the store has moved."""
    chunks = store(tmp_path, **output)
    (tmp_path / "out.zarr").rename(tmp_path / "moved.zarr")
    moved = tmp_path / "moved.zarr"
    chunks = [moved / c.relative_to(tmp_path / "out.zarr") for c in chunks]
    done = chunkwise("verify", moved).ok()
    assert "not available" not in done.stdout and f"{len(chunks) + 3} chunks" in done.stdout  # and the three coordinates
    for number, chunk in enumerate(chunks[:4]):
        saved, name = chunk.read_bytes(), chunk.relative_to(moved / "y").as_posix()
        other = next(c for c in chunks if c != chunk)
        damage = [
            chunk.unlink,
            lambda: chunk.write_bytes(b""),
            lambda: chunk.write_bytes(saved[: len(saved) // 2]),
            lambda: chunk.write_bytes(saved + b"x"),
            lambda: flip(chunk, 8 * (len(saved) // 2) + number),
            lambda: flip(chunk, 8 * len(saved) - 1),
            lambda: shutil.copyfile(other, chunk),
        ]
        for change in damage:
            change()
            chunkwise("verify", moved).failed("moved.zarr/y", name)
            chunkwise("verify", moved / "y").failed(name)
            chunk.write_bytes(saved)
    chunkwise("verify", moved).ok()


def test_verify_finds_damaged_coordinates(tmp_path):
    store(tmp_path)
    flip(next(p for p in (tmp_path / "out.zarr/lat/c").rglob("*") if p.is_file()), 70)
    chunkwise("verify", tmp_path / "out.zarr").failed("lat")


def test_verify_says_what_it_cannot_know(tmp_path):
    """Of arrays of other programs there are no checksums, and of chunks that were added later neither."""
    write_array(tmp_path / "other.zarr", values(1, SHAPE, "float64"), (10, 6))
    done = chunkwise("verify", tmp_path / "other.zarr").ok()
    assert "checksums were not available" in done.stdout
    (tmp_path / "other.zarr/c/1/1").unlink()
    assert "cannot tell of 1 chunk" in chunkwise("verify", tmp_path / "other.zarr").ok().stdout
    chunks = store(tmp_path)
    x = zarr.open_array(str(tmp_path / "out.zarr/y"))
    x.resize((27, 6, 8))
    x[20:] = 1
    assert len(chunks) < x.nchunks
    chunkwise("verify", tmp_path / "out.zarr/y").failed("c/3/", "no checksum")


def test_verify_after_a_run_that_has_not_ended(tmp_path):
    store(tmp_path)
    (tmp_path / "out.zarr/y/zarr.json").unlink()
    chunkwise("verify", tmp_path / "out.zarr").failed("out.zarr/y", "metadata")
    chunkwise("verify", tmp_path / "nowhere").failed("nowhere")


def test_overwriting_renews_the_checksums(tmp_path):
    write_array(tmp_path / "in.zarr", values(1, SHAPE, "float64"), (10, 6))
    copy(tmp_path)
    zarr.open_array(str(tmp_path / "in.zarr"))[...] = 1
    path = write_pipeline(tmp_path, {"x": "in.zarr"}, {"z": "x * 2"}, {"out.zarr/y": "z"})
    chunkwise("run", path, "--overwrite", "--allowed-mem", "500MB").ok()
    assert "not available" not in chunkwise("verify", tmp_path / "out.zarr").ok().stdout


def test_dry_run_writes_nothing(tmp_path):
    dataset(tmp_path, 3)
    path = write_pipeline(tmp_path, {"t": "in.zarr/t"}, {"m": "mean(t)"}, {"out.zarr/m": "m"})
    chunkwise("run", path, "--dry-run", "--allowed-mem", "500MB").ok()
    assert not (tmp_path / "out.zarr").exists()


@pytest.mark.parametrize("kind", ["table", "json", "dot", "svg"])
def test_plan_formats(tmp_path, kind):
    dataset(tmp_path, 3)
    path = write_pipeline(tmp_path, {"t": "in.zarr/t"}, {"m": "mean(t)"}, {"out.zarr/m": "m"})
    text = chunkwise("plan", path, "--format", kind, "--allowed-mem", "500MB").ok().stdout
    if kind == "json":
        # A saved plan runs.
        json.loads(text)
        (tmp_path / "plan.json").write_text(text)
        chunkwise("run", tmp_path / "plan.json", cwd=tmp_path).ok()
        np.testing.assert_allclose(read_array(tmp_path / "out.zarr/m"), read_array(tmp_path / "in.zarr/t").mean(), atol=1e-5)
    else:
        assert {"table": "", "dot": "digraph", "svg": "<svg"}[kind] in text


def test_a_plan_as_a_picture(tmp_path, examples):
    """It is XML, and it names every stage and array with what a reader wants to know."""
    for path in (examples / "winds.yaml", examples / "plan.json"):
        plan = json.loads(chunkwise("plan", path, "--format", "json").ok().stdout)
        picture = ElementTree.fromstring(chunkwise("plan", path, "--format", "svg").ok().stdout)
        texts = ["".join(t.itertext()) for t in picture.iter("{http://www.w3.org/2000/svg}text")]
        for i, stage in enumerate(plan["stages"]):
            assert f"{i}: {stage['name']}" in texts
            assert any(stage["kind"] in t and "task" in t for t in texts)
        assert set(plan["arrays"]) <= set(texts)
        assert any("float32 132 × 73 × 144" in t for t in texts)


def test_names_in_a_picture_are_escaped(tmp_path, examples):
    plan = json.loads((examples / "plan.json").read_text())
    plan["stages"][0]["name"] = 'a < b & "c" > \x00 ' + "long name " * 50
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    text = chunkwise("plan", tmp_path / "plan.json", "--format", "svg").ok().stdout
    assert any('a < b & "c"' in t for t in ElementTree.fromstring(text).itertext())
