"""How results are encoded, and float16, which is stored but not computed with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

import chunkwise as cw

VALUES = np.linspace(-3.0, 3.0, 84).reshape(12, 7)


def stored(values: Any, encoding: dict[str, Any] | None = None, **options: Any) -> Any:
    cw.to_zarr(cw.from_array(values, chunks=(4, 7)), "out.zarr", encoding=encoding, overwrite=True, **options)
    return zarr.open_array("out.zarr")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("codec", ["zstd", zarr.codecs.ZstdCodec(level=3)], ids=["name", "object"])
def test_codecs_shards_and_fill_values(codec: Any) -> None:
    said: dict[str, Any] = {"codec": codec} if isinstance(codec, str) else {"codecs": [zarr.codecs.BytesCodec(), codec]}
    found = stored(VALUES, {**said, "fill_value": np.nan}, chunks=(2, 7), shards=(6, 7))
    np.testing.assert_array_equal(found[...], VALUES)
    assert (found.chunks, found.shards) == ((2, 7), (6, 7)) and np.isnan(found.fill_value)
    assert "zstd" in Path("out.zarr/zarr.json").read_text()


def test_shards_may_be_larger_than_the_array() -> None:
    for shards, wanted in (((16, 8), (16, 8)), (-1, (12, 8)), ({0: 8}, (8, 4)), ((None, 4), (12, 4))):
        found = stored(VALUES, chunks=(4, 4), shards=shards)
        assert (found.chunks, found.shards) == ((4, 4), wanted)
        np.testing.assert_array_equal(found[...], VALUES)


def test_compressors_as_zarr_python_takes_them() -> None:
    from numcodecs import Zstd

    for given in ([zarr.codecs.ZstdCodec(level=2)], zarr.codecs.ZstdCodec(level=2)):
        found = stored(VALUES, {"compressors": given})
        assert [c.to_dict()["name"] for c in found.compressors] == ["zstd"]
        np.testing.assert_array_equal(found[...], VALUES)
    assert stored(VALUES, {"compressors": None}).compressors == ()
    assert stored(VALUES, {"compressors": "auto"}).compressors
    assert stored(VALUES, {"zarr_format": 2, "compressors": [Zstd(1)]}).compressors[0].codec_id == "zstd"
    with pytest.raises(ValueError, match="one compressor"):
        stored(VALUES, {"zarr_format": 2, "compressors": [Zstd(1), Zstd(1)]})


def test_zarr_format_2() -> None:
    from numcodecs import Zlib

    found = stored(VALUES.astype(">f4"), {"zarr_format": 2, "compressor": Zlib(level=2), "dtype": np.dtype(">f4"), "fill_value": np.float32(-1)})
    np.testing.assert_array_equal(found[...], VALUES.astype("f4"))
    about = json.loads(Path("out.zarr/.zarray").read_text())
    assert (about["dtype"], about["compressor"]["id"], about["fill_value"]) == (">f4", "zlib", -1.0)


def test_values_are_packed() -> None:
    holes = np.where(VALUES > 2, np.nan, VALUES)
    found = stored(holes, {"dtype": "int16", "scale_factor": 0.001, "add_offset": 1.0, "_FillValue": -999})
    assert found.dtype == np.int16 and found.attrs["scale_factor"] == 0.001
    np.testing.assert_allclose(cw.open("out.zarr").compute(), holes, atol=0.0006)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ({"codec": "bzip2"}, "there is no codec 'bzip2'"),
        ({"dtypes": "f4"}, "dtype"),
        ({"dtype": "int8"}, "convert it with astype"),
        ({"fill_value": "x"}, "fill"),
        ({"shards": [9, 7]}, "multiple of the chunk"),
        ({"zarr_format": 2, "codecs": []}, "compressor"),
        ({"array": "x"}, "property of the array"),
        ({"dtype": "float16"}, "float64"),
    ],
)
def test_what_cannot_be_encoded_is_refused(encoding: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        stored(VALUES, encoding)
    assert not Path("out.zarr").exists()


def test_what_says_nothing_of_an_encoding() -> None:
    with pytest.raises(TypeError, match="says nothing"):
        stored(VALUES, {"fill_value": object()})


HALVES = st.lists(st.floats(width=16), min_size=1, max_size=40).map(lambda v: np.array(v, np.float16))


@settings(max_examples=30, deadline=None)
@given(HALVES)
def test_float16_is_read_and_stored(halves: np.ndarray[Any, Any]) -> None:
    zarr.create_array("h.zarr", data=halves, chunks=(7,), overwrite=True)
    for x in (cw.from_zarr("h.zarr"), cw.from_array(halves), cw.asarray(halves)):
        assert x.dtype == np.float32
        np.testing.assert_array_equal(x.compute(), halves.astype("f4"))
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal((x + halves).compute(), halves.astype("f4") * 2)
        half = x.astype("float16")
        assert half.dtype == np.float16 == half.copy().dtype and half.nbytes == halves.nbytes
        np.testing.assert_array_equal(half.compute(), halves)
        half.to_zarr("again.zarr", overwrite=True)
        again = zarr.open_array("again.zarr")
        assert again.dtype == np.float16
        np.testing.assert_array_equal(again[...], halves)


def test_arrays_of_float16_are_made() -> None:
    for lazy, wanted in (
        (cw.zeros((3, 2), dtype="float16"), np.zeros((3, 2), "f2")),
        (cw.full((2,), 0.1, dtype=np.float16, chunks=1), np.full(2, 0.1, "f2")),
        (cw.full((2,), np.float16(3)), np.full(2, 3, "f2")),
        (cw.eye(3, dtype="f2"), np.eye(3, dtype="f2")),
        (cw.arange(5, dtype=">f2"), np.arange(5, dtype="f2")),
        (cw.linspace(0, 1, 5, dtype="f2"), np.linspace(0, 1, 5, dtype="f2")),
        (cw.ones_like(cw.zeros(3, dtype="f2")), np.ones(3, "f2")),
        (cw.sum(cw.ones((4, 2)), axis=0, dtype="f2"), np.full(2, 4, "f2")),
    ):
        assert lazy.dtype == np.float16
        np.testing.assert_array_equal(lazy.compute(), wanted)
    with pytest.raises(TypeError, match="float128|longdouble|no dtype"):
        cw.zeros(3, dtype=np.longdouble)


WINDS = Path(__file__).parents[2] / "examples" / "data" / "winds.zarr"


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"chunks": (6, 73, 72), "shards": (24, 73, 144)},
        {"encoding": {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -32768}},
        {"encoding": {"zarr_format": 2, "dtype": "int16", "scale_factor": 0.01, "_FillValue": -32768}},
        {"encoding": {"zarr_format": 2, "dtype": ">f4"}},
        {"encoding": {"dtype": "float16"}},
        {"encoding": {"codec": "zstd", "fill_value": np.nan}},
    ],
    ids=str,
)
def test_xarray_finds_names_units_and_times(how: dict[str, Any]) -> None:
    cw.open(str(WINDS / "uwnd")).to_zarr("out.zarr/uwnd", **how)
    found, wanted = (xr.open_zarr(path, chunks=None).uwnd.load() for path in ("out.zarr", WINDS))
    assert (found.dims, found.attrs, found.name) == (wanted.dims, wanted.attrs, wanted.name) and found.time.dtype.kind == "M"
    for name, coordinate in wanted.coords.items():
        xr.testing.assert_identical(found[name], coordinate)
        assert found[name].dtype == coordinate.dtype
    said = how.get("encoding", {}).get("dtype", "float32")
    assert found.encoding["dtype"] == np.dtype(said).newbyteorder("=")
    np.testing.assert_allclose(found, wanted, rtol=1e-3 if said == "float16" else 1e-7, atol=0.0051 if said == "int16" else 0)


def test_functions_may_return_float16() -> None:
    x = cw.from_array(VALUES, chunks=(4, 7))
    half = VALUES.astype("f2")
    for y in (
        cw.map_blocks(lambda b: b.astype("f2"), x),
        cw.map_blocks(lambda b: b.astype("f2"), x, dtype="f2"),
        cw.map_overlap(lambda b: b.astype("f2"), x, depth=0, dtype=np.float16),
    ):
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y.compute(), half)
    most = cw.reduction(x, lambda b, axis, keepdims: b.max(axis, keepdims=keepdims).astype("f2"), aggregate=lambda b, axis, keepdims: b.max(axis, keepdims=keepdims))
    assert most.compute() == half.max()


def test_a_data_set_with_float16_goes_through_xarray() -> None:
    half = VALUES.astype("f2")
    xr.Dataset({"h": (("t", "x"), half), "a": (("t", "x"), VALUES)}).to_zarr("in.zarr", encoding={"h": {"chunks": (4, 7)}})
    ds = xr.open_zarr("in.zarr")
    np.testing.assert_array_equal(ds.h.compute(), half)
    np.testing.assert_allclose(ds.h.mean("t"), half.astype("f4").mean(0), rtol=1e-6)
    assert ds.h.dtype == np.float16 == ds.h.T.isel(x=slice(3)).chunk(t=5).dtype and (ds.h + 1).dtype == np.float32
    ds.to_zarr("copy.zarr")
    again = zarr.open_array("copy.zarr/h")
    assert again.dtype == np.float16
    np.testing.assert_array_equal(again[...], half)
    np.testing.assert_array_equal(xr.Dataset({"h": (("t", "x"), half)}).chunk(t=4).h.astype("f2").values, half)


@pytest.mark.parametrize("dtype", ["<f2", ">f2"])
def test_float16_from_memory_under_xarray(dtype: str) -> None:
    whole = xr.Dataset({"h": (("t", "x"), VALUES.astype(dtype))}, coords={"x": np.arange(VALUES.shape[1])})
    lazy = whole.chunk(t=4)
    for function in (
        lambda d: d,
        lambda d: d.isel(t=[3, 1]),
        lambda d: d.isel(t=xr.DataArray([3, 1], dims="p"), x=xr.DataArray([2, 0], dims="p")),
        lambda d: d.sortby("x", ascending=False),
        lambda d: d.roll(t=2),
        lambda d: xr.concat([d, d], "t"),
        lambda d: d.expand_dims("q").transpose(),
    ):
        found, expected = function(lazy), function(whole).astype("f2")
        assert found.h.dtype == np.float16 == found.h.compute().dtype
        xr.testing.assert_identical(found.compute(), expected)
    assert (lazy.h + 1).dtype == np.float32 == xr.concat([lazy.h, lazy.h + 1], "t").dtype
    lazy.isel(t=slice(0, 5)).to_zarr("h.zarr", consolidated=False)
    lazy.isel(t=slice(5, None)).to_zarr("h.zarr", append_dim="t", consolidated=False)
    xr.testing.assert_equal(xr.open_zarr("h.zarr", chunks=None, consolidated=False).load(), whole)
    assert zarr.open_array("h.zarr/h").dtype == np.float16


@pytest.mark.parametrize(("made", "said"), [("f8", "f4"), ("c16", "c8"), ("i8", "i2"), ("u1", "f4"), ("bool", "i4"), ("i4", "i8")])
def test_what_a_function_returns_gets_the_dtype_that_is_said(made: str, said: str) -> None:
    x = cw.from_array(VALUES, chunks=(4, 7))
    y = cw.map_blocks(lambda b: b.astype(made), x, dtype=said)
    np.testing.assert_array_equal(y.compute(), VALUES.astype(made).astype(said))


@pytest.mark.parametrize(("made", "said"), [("f8", "i4"), ("i8", "i1"), ("i8", "u8"), ("c16", "f8")])
def test_what_does_not_fit_is_refused(made: str, said: str) -> None:
    x = cw.from_array(VALUES * 100, chunks=(4, 7))
    with pytest.raises(TypeError, match="is expected"):
        cw.map_blocks(lambda b: b.astype(made), x, dtype=said).compute()
