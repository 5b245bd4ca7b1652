"""Packed inputs, against what xarray decodes; and which attributes an output has."""

import numpy as np
import pytest
import xarray as xr
import zarr
from harness import chunkwise, values, write_pipeline

DIMS = ["y", "x"]
SHAPE = (23, 17)


def store(folder, packed, attributes, zarr_format=3, fill_value=None, name="in.zarr"):
    """A group with one packed array in it."""
    zarr.create_group(str(folder / name), zarr_format=zarr_format)
    options = {"dimension_names": DIMS} if zarr_format == 3 else {}
    if fill_value is not None:
        options["fill_value"] = fill_value
    array = zarr.create_array(
        str(folder / name / "p"), zarr_format=zarr_format, shape=packed.shape, chunks=(10, 6), dtype=packed.dtype, compressors=None, **options
    )
    array[...] = packed
    array.attrs.update(attributes | ({"_ARRAY_DIMENSIONS": DIMS} if zarr_format == 2 else {}))


def decoded(folder, expression="p", decode=True):
    path = write_pipeline(folder, {"p": {"url": "in.zarr/p", "decode_cf": decode}}, {"m": expression}, {"out.zarr/m": "m"})
    chunkwise("run", path, "--allowed-mem", "500MB").ok()
    return zarr.open_array(str(folder / "out.zarr/m"), mode="r")


def with_xarray(folder):
    with np.errstate(all="ignore"):
        return xr.open_zarr(folder / "in.zarr", mask_and_scale=True, decode_times=False, chunks=None, consolidated=False).p


PACKED = {
    # name: (dtype, attributes)
    "scale and offset": ("int16", {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": -99}),
    "scale": ("int16", {"scale_factor": 0.01}),
    "offset": ("uint8", {"add_offset": 273.15}),
    "whole offset": ("int32", {"add_offset": 3}),
    "both of 32 bits": ("int32", {"scale_factor": 0.001, "add_offset": 1.5, "missing_value": 7}),
    "scaled float32": ("float32", {"scale_factor": 2.5}),
    "fill of int8": ("int8", {"_FillValue": 3}),
    "fill of int16": ("int16", {"_FillValue": -7}),
    "fill of uint16": ("uint16", {"_FillValue": 7}),
    "fill of int32": ("int32", {"_FillValue": -7}),
    "fill of int64": ("int64", {"_FillValue": -7}),
    "fill of uint64": ("uint64", {"_FillValue": 7}),
    "missing in float32": ("float32", {"missing_value": 5.0}),
    "missing in float64": ("float64", {"missing_value": 5.0}),
    "several": ("int16", {"missing_value": [1, 2, 5]}),
    "several and a fill": ("int16", {"missing_value": [1, 2], "_FillValue": 5, "scale_factor": 2.0}),
    "a list of one": ("int16", {"scale_factor": [0.5], "add_offset": [1.0], "missing_value": [3]}),
    "nothing": ("int16", {"units": "K"}),
    "nothing in float32": ("float32", {}),
    "NaN of float32": ("float32", {"_FillValue": "AAAAAAAA+H8="}),
    "fill of float64": ("float64", {"_FillValue": "AAAAAAAAFEA="}),
    "unsigned": ("int8", {"_Unsigned": "true", "scale_factor": 0.5}),
    "unsigned with a fill": ("int8", {"_Unsigned": "true", "_FillValue": -1, "scale_factor": 0.5}),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PACKED)
def test_as_xarray(tmp_path, name):
    dtype, attributes = PACKED[name]
    packed = values(3, SHAPE, dtype, -10, 10)
    if np.dtype(dtype).kind == "f":
        packed = np.round(packed)
    store(tmp_path, packed, attributes)
    result, expected = decoded(tmp_path), with_xarray(tmp_path)
    assert result.dtype == expected.dtype
    np.testing.assert_allclose(result[...], expected.values, rtol=1e-6 if result.dtype == "float32" else 1e-14)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype, fill", [("int16", 3), ("int32", 0), ("float32", float("nan")), ("float64", 2.0), ("uint8", None)])
def test_fill_value_of_version_2(tmp_path, dtype, fill):
    packed = np.round(values(3, SHAPE, dtype, -10, 10))
    store(tmp_path, packed.astype(dtype), {"scale_factor": 2.0} if fill == 3 else {}, zarr_format=2, fill_value=fill)
    result, expected = decoded(tmp_path), with_xarray(tmp_path)
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result[...], expected.values)


def test_limits_of_integers(tmp_path):
    packed = values(3, SHAPE, "int64", -100, 100)
    packed[0, :3] = [2**53, 2**53 + 1, -(2**63)]
    store(tmp_path, packed, {"missing_value": [2**53 + 1, -(2**63)]})
    result = decoded(tmp_path)[...]
    expected = packed.astype("float64")
    expected[0, 1:3] = np.nan
    np.testing.assert_array_equal(result, expected)


def test_fused(tmp_path):
    packed = values(3, SHAPE, "int16", -100, 100)
    store(tmp_path, packed, {"scale_factor": 0.5, "add_offset": 10.0, "_FillValue": 7})
    result = decoded(tmp_path, 'nanmean(p * 2 + 1, dim="y")')[...]
    np.testing.assert_allclose(result, (with_xarray(tmp_path) * 2 + 1).mean("y").values, rtol=1e-12)


@pytest.mark.parametrize("dtype, attributes, names", [
    ("int16", {"scale_factor": "half"}, ["scale_factor", "half"]),
    ("int16", {"scale_factor": [1.0, 2.0]}, ["scale_factor", "must be one"]),
    ("int16", {"_FillValue": {"a": 1}}, ["_FillValue"]),
    ("int16", {"_Unsigned": "perhaps"}, ["_Unsigned", "perhaps"]),
    ("bool", {"scale_factor": 2.0}, ["bool"]),
    ("complex64", {"_FillValue": 1}, ["complex64"]),
])  # fmt: skip
def test_bad_packing(tmp_path, dtype, attributes, names):
    store(tmp_path, values(3, SHAPE, dtype), attributes)
    path = write_pipeline(tmp_path, {"p": {"url": "in.zarr/p", "decode_cf": True}}, {}, {"out.zarr/m": "p"})
    chunkwise("run", path, "--allowed-mem", "500MB").failed("in.zarr/p", *names)


NAN = "AAAAAAAA+H8="
@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_positions_leave_missing_values_out(tmp_path, name):
    """As xarray's skipna: -99 and NaN are no extremes."""
    x = values(4, (8, 6), "int16", 1, 50)
    x[2:, 0] = x[0] = -99
    store(tmp_path, x, {"_FillValue": -99})
    found = decoded(tmp_path, f"{name}(p, axis=0)")
    np.testing.assert_array_equal(found[...], getattr(with_xarray(tmp_path), name)("y").values)


KELVIN = {"units": "K", "standard_name": "air_temperature", "long_name": "temperature"}
PACKING = {"scale_factor": 0.5, "_FillValue": -99}


@pytest.mark.parametrize("expression, kept", [
    ("p", True),
    ("p[2:5, ::-1]", True),
    ("p[y=3]", True),
    ('mean(p, dim="y")', True),
    ("p.max(axis=0)", True),
    ("nanmin(x=p)", True),
    ("roll(flip(permute_dims(p, [1, 0])), 2)", True),
    ("rechunk(p, y=5)", True),
    ("moving_mean(p, y=3)", True),
    ("groupby_mean(p, [0, 1, 0, 1, 0, 1, 0, 1])", True),
    ("concat([p, p[:2]])", True),
    ("concat([p, p * 2])", False),
    ("p + 0", {"units": "K"}),
    ("p - mean(p)", {"units": "K"}),
    ("where(p > 3, p, 0)", True),
    ("p * p", False),
    ("sqrt(p)", False),
    ("sum(p)", {"units": "K"}),
    ('std(p, dim="y")', {"units": "K"}),
    ('var(p, dim="y")', False),
    ("mean(p * 2)", False),
    ("p > 3", False),
    ("argmax(p, axis=0)", False),
])  # fmt: skip
def test_attributes(tmp_path, expression, kept):
    store(tmp_path, values(3, (8, 6), "int16", 0, 50), KELVIN | PACKING)
    found = decoded(tmp_path, expression)
    attributes = dict(found.attrs)
    # Floats with missing values say so, as xarray writes it; bool and integers have none.
    assert attributes.pop("_FillValue", None) == (NAN if found.dtype.kind == "f" else None)
    assert attributes == (kept if isinstance(kept, dict) else KELVIN if kept else {})


@pytest.mark.parametrize("expression, kept", [("p[1:4]", True), ("permute_dims(p, [1, 0])", True), ("mean(p)", False), ("p + 1", False)])
def test_attributes_of_packed_numbers(tmp_path, expression, kept):
    """Numbers that stay packed keep what says how; a mean of packed numbers is not in the units of the variable."""
    store(tmp_path, values(3, (8, 6), "int16", 0, 50), KELVIN | PACKING)
    assert dict(decoded(tmp_path, expression, decode=False).attrs) == (KELVIN | PACKING if kept else {})


def test_own_attributes_win(tmp_path):
    store(tmp_path, values(3, (8, 6), "int16", 0, 50), KELVIN, zarr_format=2)
    output = {"array": "max(p, axis=0)", "attributes": {"long_name": "hottest", "comment": "of all"}}
    path = write_pipeline(tmp_path, {"p": "in.zarr/p"}, {}, {"out.zarr/m": output})
    chunkwise("run", path, "--allowed-mem", "500MB").ok()
    attributes = dict(zarr.open_array(str(tmp_path / "out.zarr/m"), mode="r").attrs)
    assert attributes.pop("_FillValue") == NAN
    assert attributes == KELVIN | {"long_name": "hottest", "comment": "of all"}


def test_rechunk_command_keeps_attributes(tmp_path):
    store(tmp_path, values(3, (8, 6), "int16", 0, 50), KELVIN | PACKING)
    chunkwise("rechunk", tmp_path / "in.zarr/p", tmp_path / "new.zarr/p", "--chunks", "y=4,x=6", "--allowed-mem", "500MB").ok()
    assert dict(zarr.open_array(str(tmp_path / "new.zarr/p"), mode="r").attrs) == KELVIN | PACKING
