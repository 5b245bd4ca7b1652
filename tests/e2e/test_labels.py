"""Labels: what comes out has the coordinates that xarray gives it, or the run is refused before it writes."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest
import xarray as xr
import zarr
from harness import chunkwise, write_array, write_pipeline

pytestmark = pytest.mark.filterwarnings("ignore")


def weather(folder, name="in.zarr", start="2000-01-01", count=40, calendar=None, **changes):
    """A data set with an index of every kind: times, descending latitudes, texts, and auxiliary, scalar and two-dimensional coordinates."""
    rng = np.random.default_rng(7)
    time = xr.date_range(start, periods=count, freq="15D", **({"calendar": calendar, "use_cftime": True} if calendar else {}))
    lat, lon = np.linspace(60, -60, 5), np.arange(6) * 60.0
    data = xr.Dataset(
        {
            "t": (("time", "lat", "lon"), rng.standard_normal((count, 5, 6)), {"units": "K", "long_name": "temperature"}),
            "w": ("lat", np.cos(np.deg2rad(lat)), {"units": "1"}),
            "air pressure": (("time", "lat"), rng.standard_normal((count, 5)), {"units": "hPa"}),
        },
        coords={
            "time": time,
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": ("lon", lon, {"units": "degrees_east"}),
            "station": ("lat", ["a", "bb", "ccc", "d", "größer"]),
            "height": ((), 2.0, {"units": "m"}),
            "area": (("lat", "lon"), rng.random((5, 6))),
        },
    ).assign(**changes)
    data.to_zarr(folder / name, zarr_format=3)
    return data


def run(folder, arrays, inputs=None, outputs=None, args=(), spec=None):
    inputs = inputs or {"ds": "in.zarr", "t": "in.zarr/t", "w": "in.zarr/w"}
    outputs = outputs or {f"out.zarr/{n}": n for n in arrays}
    return chunkwise("run", write_pipeline(folder, inputs, arrays, outputs, spec=spec), "--allowed-mem", "500MB", *args)


def opened(folder, name="out.zarr"):
    return xr.open_zarr(folder / name, chunks=None, consolidated=True)


def same(found, wanted):
    """Values, dimensions and coordinates are equal; scalar coordinates that xarray has and values that are lost are compared too."""
    wanted = wanted.transpose(*found.dims)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-12, atol=1e-12)
    assert set(found.coords) == set(wanted.coords)
    for name in wanted.coords:
        # Of a coordinate along several dimensions the order says nothing.
        label = wanted[name].transpose(*found[name].dims)
        xr.testing.assert_equal(found[name].drop_vars(found[name].coords), label.drop_vars(label.coords))


def anomalies(t):
    groups = t.groupby("time.month")
    # xarray repeats the scalar coordinate for each time here.
    return (groups - groups.mean()).drop_vars("month").assign_coords(height=t.height)


CASES = {
    # expression: what xarray makes of it
    "t[::-1]": lambda ds: ds.t[::-1],
    "t[3:30:4, 1:, ::-2]": lambda ds: ds.t[3:30:4, 1:, ::-2],
    "t[0]": lambda ds: ds.t[0],
    "t[[3, 1, 1]]": lambda ds: ds.t[[3, 1, 1]],
    "isel(t, time=3, lat=[0, 2])": lambda ds: ds.t.isel(time=3, lat=[0, 2]),
    "isel(t, lon=1:5:2)": lambda ds: ds.t.isel(lon=slice(1, 5, 2)),
    't[time="2000-06"]': lambda ds: ds.t.sel(time="2000-06"),
    't[time="2000"]': lambda ds: ds.t.sel(time="2000"),
    't[time="2000-01-16"]': lambda ds: ds.t.sel(time="2000-01-16"),
    't[time="2000-02":"2000-07-14"]': lambda ds: ds.t.sel(time=slice("2000-02", "2000-07-14")),
    't[time=:"2000-07"]': lambda ds: ds.t.sel(time=slice(None, "2000-07")),
    't[time="2001":]': lambda ds: ds.t.sel(time=slice("2001", None)),
    't[time=["2000-01-16", "2000-01-01"]]': lambda ds: ds.t.sel(time=["2000-01-16", "2000-01-01"]),
    "t[lat=-30.0:30.0]": lambda ds: ds.t.sel(lat=slice(30, -30)),
    "t[lat=30:-30]": lambda ds: ds.t.sel(lat=slice(30, -30)),
    "t[lon=60.0:180.0, lat=0]": lambda ds: ds.t.sel(lon=slice(60, 180), lat=0),
    "t[lon=nearest(100)]": lambda ds: ds.t.sel(lon=100, method="nearest"),
    't[time=nearest("2000-03-03")]': lambda ds: ds.t.sel(time="2000-03-03", method="nearest"),
    'sel(t, lat=[10, -50], method="nearest", tolerance=11)': lambda ds: ds.t.sel(lat=[10, -50], method="nearest", tolerance=11),
    "t * w": lambda ds: ds.t * ds.w,
    "w * t": lambda ds: ds.w * ds.t,
    'w + ds["air pressure"]': lambda ds: ds.w + ds["air pressure"],
    'ds.t - mean(ds.t, dim="time")': lambda ds: ds.t - ds.t.mean("time"),
    'mean(t, dim=["lat", "lon"])': lambda ds: ds.t.mean(["lat", "lon"]),
    "permute_dims(t, [2, 0, 1])": lambda ds: ds.t.transpose("lon", "time", "lat"),
    "diff(t, axis=0)": lambda ds: ds.t.diff("time"),
    "concat([t[:10], t[20:]], axis=0)": lambda ds: xr.concat([ds.t[:10], ds.t[20:]], "time"),
    "concat([t[:, :2], t[:, 3:]], axis=1)": lambda ds: xr.concat([ds.t[:, :2], ds.t[:, 3:]], "lat"),
    "moving_mean(t, time=5)": lambda ds: ds.t.rolling(time=5, center=True).mean()[2:-2],
    'moving_sum(t, time=4, mode="constant")[2:-1]': lambda ds: ds.t.rolling(time=4, center=True).sum()[2:-1],
    'groupby_mean(t, "time.month")': lambda ds: ds.t.groupby("time.month").mean(),
    'groupby_mean(t, "time.season")': lambda ds: ds.t.groupby("time.season").mean().sel(season=["DJF", "MAM", "JJA", "SON"]),
    'groupby_max(t, "time.year")': lambda ds: ds.t.groupby("time.year").max(),
    't - lookup(groupby_mean(t, "time.month"), "time.month")': lambda ds: anomalies(ds.t),
    'resample_mean(t, time="1M")': lambda ds: ds.t.resample(time="1MS").mean(),
    'resample_max(t, time="2M")': lambda ds: ds.t.resample(time="2MS").max(),
    'resample_sum(t, time="1Y")': lambda ds: ds.t.resample(time="1YS").sum(),
    'resample_mean(t, time="1Q")': lambda ds: ds.t.resample(time="1QS").mean(),
    'resample_mean(t, time="20D")': lambda ds: ds.t.resample(time="20D").mean(),
    'where(t.time >= "2000-05-01", t, nan)': lambda ds: ds.t.where(ds.time >= np.datetime64("2000-05-01")),
    'max(t, dim="time") - min(t, dim="time")': lambda ds: ds.t.max("time") - ds.t.min("time"),
    "ds.area * 2": lambda ds: ds.area * 2,
    # Names of dimensions stay, and new ones can be given.
    'mean(t, dim="time", keepdims=True)': lambda ds: ds.t.mean("time", keepdims=True),
    'std(t, dim=["lat", "time"], keepdims=True)': lambda ds: ds.t.std(["lat", "time"], keepdims=True),
    'nanmax(t, dim="lon", keepdims=True)': lambda ds: ds.t.max("lon", keepdims=True),
    't - mean(t, dim="time", keepdims=True)': lambda ds: ds.t - ds.t.mean("time"),
    'expand_dims(t, dim="member")': lambda ds: ds.t.expand_dims("member"),
    'expand_dims(t, "member")': lambda ds: ds.t.expand_dims("member"),
    'expand_dims(t[0], dim="time")': lambda ds: ds.t[0].expand_dims("time"),
    'expand_dims(t, axis=2, dim="height")': lambda ds: ds.t.expand_dims("height", axis=2),
    'stack([t, t * 2], dim="member")': lambda ds: xr.concat([ds.t, ds.t * 2], "member"),
    'stack([t[3], t[1]], dim="time")': lambda ds: xr.concat([ds.t[3], ds.t[1]], "time"),
    'stack([t, t + 1], axis=1, dim="member")': lambda ds: xr.concat([ds.t, ds.t + 1], "member"),
    "squeeze(t[:1, :, :1])": lambda ds: ds.t[:1, :, :1].squeeze(),
    "reshape(t, [8, 5, 5, 6])[0]": lambda ds: ds.t[:5].drop_vars("time").rename(time="dim_0"),
}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    return folder, weather(folder)


@pytest.mark.parametrize("expression", CASES)
def test_as_in_xarray(shared, tmp_path, expression):
    folder, data = shared
    inputs = {"ds": str(folder / "in.zarr"), "t": str(folder / "in.zarr/t"), "w": str(folder / "in.zarr/w")}
    run(tmp_path, {"y": expression}, inputs).ok()
    same(opened(tmp_path).y, CASES[expression](data))


@pytest.mark.parametrize("expression, dims", [
    ("t[:, :, :5] @ reshape(t, [40, 5, 6])[0]", ("time", "lat", "lon")),
    ("permute_dims(t[0], [1, 0]) @ t[1]", ("lon", None)),
    ("t[0] @ permute_dims(t[:, 1], [1, 0])", ("lat", "time")),
    ("matmul(t[0] * 1, reshape(t, [40, 6, 5]))", ("time", "lat", None)),
    ('tensordot(t, t, axes=[["lat", "lon"], ["lat", "lon"]])', ("time", None)),
    ('tensordot(t, ds["air pressure"], axes=[["lat", "time"], ["lat", "time"]])', ("lon",)),
    ("vecdot(t[0], t[1], axis=1)", ("lat",)),
    ("outer(w, t.lon)", ("lat", "lon")),
    ("outer(w, w)", ("lat", None)),
    ("reshape(t, [40, 30])", ("time", None)),
    ("reshape(t, [200, 6])", (None, "lon")),
    ("reshape(t, [40, 1, 5, 6])", ("time", None, "lat", "lon")),
    ("reshape(t, [8, 5, 5, 6])", (None, None, "lat", "lon")),
    ("reshape(t, [-1])", (None,)),
    ("stack([t[0], t[1]])", (None, "lat", "lon")),
])  # fmt: skip
def test_names_of_dimensions_stay(shared, tmp_path, expression, dims):
    """Where xarray has no such function, a dimension that stays what it is keeps its name and its labels."""
    folder, data = shared
    run(tmp_path, {"y": expression}, {"ds": str(folder / "in.zarr"), "t": str(folder / "in.zarr/t"), "w": str(folder / "in.zarr/w")}).ok()
    found = opened(tmp_path).y
    assert len(set(found.dims)) == len(dims)
    assert tuple(d if d in data.dims else None for d in found.dims) == dims
    for d in dims:
        if d:
            np.testing.assert_array_equal(found[d].values, data[d].values)


def test_a_new_dimension_needs_a_new_name(tmp_path):
    weather(tmp_path)
    for expression in ('expand_dims(t, dim="lat")', 'stack([t, t], dim="lat")'):
        run(tmp_path, {"y": expression}).failed("'lat' already", "another name")
    run(tmp_path, {"y": 'concat([t, t], dim="member")'}).failed("member", 'stack([x, y], dim="a name")')
    run(tmp_path, {"y": 'expand_dims(t, "a", dim="b")'}).failed("two names")


def test_names_that_nobody_chose_do_not_clash(tmp_path):
    """dim_0 and so on are made where there is no name, here and by xarray. What is read from such a store goes into one group in other lengths."""
    write_array(tmp_path / "plain.zarr/x", np.arange(4.0))
    run(tmp_path, {"a": "x"}, {"x": "plain.zarr/x"}, outputs={"first.zarr/a": "a"}).ok()
    arrays = {"b": "expand_dims(a, 0)", "c": "stack([a[:3], a[:3]])", "d": "expand_dims(a, 1)", "k": "a", "f": "outer(a, a)", "g": 'mean(a, dim="dim_0")'}
    run(tmp_path, arrays, {"a": "first.zarr/a"}).ok()
    found = opened(tmp_path)
    assert {n: found[n].shape for n in arrays} == {"b": (1, 4), "c": (2, 3), "d": (4, 1), "k": (4,), "f": (4, 4), "g": ()}
    assert found.k.dims == ("dim_0",) and all(len(set(found[n].dims)) == found[n].ndim for n in arrays)


def test_new_dimensions_of_a_whole_group(tmp_path):
    data = weather(tmp_path)
    run(tmp_path, {"y": 'expand_dims(ds, dim="member")'}, outputs={"out.zarr": "y"}).ok()
    found = opened(tmp_path)
    for name in data.data_vars:
        same(found[name], data[name].expand_dims("member"))


@pytest.mark.parametrize("calendar", ["noleap", "360_day", "all_leap", "julian"])
@pytest.mark.parametrize("expression, wanted", [
    ('t[time="2000-02"]', lambda t: t.sel(time="2000-02")),
    ('t[time="2000-02":"2000-07-15"]', lambda t: t.sel(time=slice("2000-02", "2000-07-15"))),
    ('groupby_mean(t, "time.month")', lambda t: t.groupby("time.month").mean()),
    ('resample_mean(t, time="1M")', lambda t: t.resample(time="1MS").mean()),
])  # fmt: skip
def test_calendars(tmp_path, calendar, expression, wanted):
    data = weather(tmp_path, calendar=calendar, count=30)
    run(tmp_path, {"y": expression}).ok()
    coder = xr.coders.CFDatetimeCoder(use_cftime=True)
    found = xr.open_zarr(tmp_path / "out.zarr", chunks=None, decode_times=coder).y
    same(found, wanted(data.t))


def test_a_calculation_on_the_whole_group(tmp_path):
    data = weather(tmp_path)
    run(tmp_path, {"m": 'mean(ds, dim="time")', "d": 'ds - mean(ds, dim="time")'}, outputs={"m.zarr": "m", "d.zarr": "d"}).ok()
    for found, wanted in [(opened(tmp_path, "m.zarr"), data.mean("time")), (opened(tmp_path, "d.zarr"), data - data.mean("time"))]:
        assert set(found.data_vars) == set(wanted.data_vars)
        for name in wanted.data_vars:
            same(found[name], wanted[name])


def test_dimensions_that_some_variables_lack(tmp_path):
    data = weather(tmp_path)
    arrays = {"m": 'mean(ds, ["time", "lon"])', "s": 'ds[time="2000-06", lon=0.0]', "g": 'groupby_mean(ds, "time.year")'}
    run(tmp_path, arrays, outputs={f"{n}.zarr": n for n in arrays}).ok()
    wanted = {
        "m": {n: data[n].mean([d for d in ("time", "lon") if d in data[n].dims]) for n in data.data_vars},
        "s": data.sel(time="2000-06", lon=0.0),
        "g": {n: data[n].groupby("time.year").mean() if "time" in data[n].dims else data[n] for n in data.data_vars},
    }
    for name, by_variable in wanted.items():
        found = opened(tmp_path, f"{name}.zarr")
        for n in data.data_vars:
            np.testing.assert_allclose(found[n].values, by_variable[n].transpose(*found[n].dims).values, rtol=1e-12)


def test_texts_are_verified_and_shown(tmp_path):
    weather(tmp_path)
    run(tmp_path, {"g": 'groupby_mean(t, "time.season")'}).ok()
    chunkwise("verify", tmp_path / "out.zarr").ok()
    shown = chunkwise("info", tmp_path / "out.zarr").ok().stdout
    assert "season  text season 4" in shown and "cannot be read" not in shown
    chunk = next(p for p in (tmp_path / "out.zarr/season/c").rglob("*") if p.is_file())
    chunk.write_bytes(chunk.read_bytes().replace(b"DJF", b"XXX"))
    chunkwise("verify", tmp_path / "out.zarr").failed("season", "checksum")
    chunk.unlink()
    chunkwise("verify", tmp_path / "out.zarr").failed("season", "missing")


def test_attributes_that_stay_true(tmp_path):
    weather(tmp_path)
    arrays = {
        "spread": 'std(t, dim="time")',
        "range": 'max(t, dim="time") - min(t, dim="time")',
        "chosen": "where(t > 0, t, 0)",
        "squared": "t * t",
    }
    run(tmp_path, arrays).ok()
    data = opened(tmp_path)
    assert [data[n].attrs.get("units") for n in arrays] == ["K", "K", "K", None]
    assert data.chosen.attrs["long_name"] == "temperature" and "long_name" not in data.range.attrs
    assert data.lat.attrs["units"] == "degrees_north"


WRONG = [
    # Two definitions of one coordinate in one group: both are named, and what to do.
    ({"a": "t", "b": "t[::-1]"}, ["time", "a", "b", "another", "2000-01-01", "dims"]),
    ({"a": "t[:20]", "b": "t[20:]"}, ["time", "2000-01-01", "2000-10-27"]),
    ({"a": "t", "b": "t[2:]"}, ["time", "40", "38"]),
    ({"a": "t", "b": "roll(t, 1, axis=1)"}, ["lat"]),
    ({"a": "t[1:-1]", "b": "pad(t[2:-2], [[1, 1], [0, 0], [0, 0]])"}, ["time", "not known"]),
    ({"a": "t[:20] + t[20:]"}, ["time", "at index 0 one is 2000-01-01, the other 2000-10-27", "join"]),
    ({"a": "t[1:] - t[:-1]"}, ["time", "join"]),
    ({"a": "t - t[0:1]"}, ["time", "isel"]),
    ({"a": 't[:, ::-1] - mean(t, dim="time")'}, ["lat", "-60", "60"]),
    ({"a": "concat([t, t[:, ::-1]], axis=0)"}, ["lat"]),
    ({"a": "matmul(t, permute_dims(t[:, :, ::-1], [0, 2, 1]))"}, ["lon"]),
    # Selections that are none.
    ({"a": "t[time=0]"}, ["isel", "time", "2000-01-01"]),
    ({"a": 't[time="2010"]'}, ["2010", "2000-01-01", "nearest"]),
    ({"a": 't[time="June"]'}, ["June", "date"]),
    ({"a": "t[lat=12.0]"}, ["12", "lat", "nearest"]),
    ({"a": 't[lat="x"]'}, ["text", "lat"]),
    ({"a": "t[lon=180.0:60.0]"}, ["ascending", "60:180"]),
    ({"a": "t[level=3]"}, ["level", "time, lat, lon"]),
    ({"a": 'sel(t, "time.month")'}, ["lookup"]),
    ({"a": 't > "2000-01-01"'}, ["2000-01-01", "text"]),
    ({"a": "ds.x"}, ["x", "air pressure"]),
    ({"a": "t.speed"}, ["speed", "station"]),
    # A name that no variable of a group has, which would leave all of them as they are.
    ({"a": 'mean(ds, dim="tme")'}, ["tme", "did you mean 'time'"]),
    ({"a": 'mean(ds, "tme")'}, ["tme", "time"]),
    ({"a": "isel(ds, lot=0)"}, ["lot", "lon"]),
    ({"a": "ds[lot=0]"}, ["lot", "lon"]),
    ({"a": 'groupby_mean(ds, "tme.month")'}, ["tme", "time"]),
    ({"a": 'resample_mean(t, time="1fortnight")'}, ["fortnight", "1M"]),
]


@pytest.mark.parametrize("arrays, names", WRONG, ids=[str(list(a.values())[-1]) for a, _ in WRONG])
def test_refused_before_anything_is_written(tmp_path, arrays, names):
    weather(tmp_path)
    run(tmp_path, arrays).failed(*names)
    assert not (tmp_path / "out.zarr").exists()


def test_two_inputs_with_other_times(tmp_path):
    weather(tmp_path)
    weather(tmp_path, "later.zarr", start="2005-01-01")
    inputs = {"a": "in.zarr/t", "b": "later.zarr/t"}
    run(tmp_path, {"y": "a + b"}, inputs).failed("2000-01-01", "2005-01-01", "join")
    run(tmp_path, {"x": "a", "y": "b"}, inputs).failed("2000-01-01", "2005-01-01")
    run(tmp_path, {"y": 'a - lookup(groupby_mean(a, "time.month"), "time.month")'}, inputs).failed("like")
    assert not (tmp_path / "out.zarr").exists()


def test_equal_dates_in_other_units_are_equal(tmp_path):
    data = weather(tmp_path)
    data.to_zarr(tmp_path / "hours.zarr", zarr_format=3, encoding={"time": {"units": "hours since 1990-01-01", "dtype": "float64"}})
    run(tmp_path, {"y": "a - b"}, {"a": "in.zarr/t", "b": "hours.zarr/t"}).ok()
    found = opened(tmp_path).y
    assert (found == 0).all() and (found.time.values == data.time.values).all()


@pytest.mark.parametrize("join", ["inner", "outer", "left", "override"])
def test_joins(tmp_path, join):
    data = weather(tmp_path)
    run(tmp_path, {"y": "t[:30, 1:] + t[10:, :4]"}, spec={"join": join}).ok()
    wanted = xr.align(data.t[:30, 1:], data.t[10:, :4], join=join)
    found, wanted = (a.drop_vars(["station", "area"], errors="ignore") for a in (opened(tmp_path).y, wanted[0] + wanted[1]))
    same(found.sortby("time").sortby("lat"), wanted.sortby("time").sortby("lat"))


def test_a_second_run_agrees_with_the_group(tmp_path):
    data = weather(tmp_path)
    run(tmp_path, {"a": "t[:20]"}).ok()
    run(tmp_path, {"b": "t[:20] * 2"}).ok()
    run(tmp_path, {"c": "t[20:]"}).failed("time", "2000-01-01", "2000-10-27", "--overwrite")
    run(tmp_path, {"c": "t[:10]"}).failed("time")
    # What others in the group need is not replaced; a run that replaces all of them may.
    run(tmp_path, {"a": "t[20:]"}, args=["--overwrite"]).failed("time", "'b'")
    found = opened(tmp_path)
    same(found.a, data.t[:20])
    run(tmp_path, {"a": "t[20:]", "b": "t[20:] * 3"}, args=["--overwrite"]).ok()
    found = opened(tmp_path)
    same(found.a, data.t[20:])
    same(found.b, data.t[20:] * 3)


def test_overwriting_with_another_length(tmp_path):
    data = weather(tmp_path)
    run(tmp_path, {"a": "t"}).ok()
    run(tmp_path, {"a": "t[5:]"}, args=["--overwrite"]).ok()
    same(opened(tmp_path).a, data.t[5:])


def test_other_names_of_dimensions(tmp_path):
    data = weather(tmp_path)
    outputs = {"out.zarr/a": "t", "out.zarr/b": {"array": "t[::-1]", "dims": ["reversed", "lat", "lon"]}}
    run(tmp_path, {}, outputs=outputs).ok()
    found = opened(tmp_path)
    same(found.a, data.t)
    np.testing.assert_array_equal(found.b.reversed.values, data.time.values[::-1])


def test_every_array_of_a_group_has_names(tmp_path):
    """xarray opens neither two dimensions of one name nor none where others have some."""
    weather(tmp_path)
    arrays = {
        "p": 'einsum("tij,tik->tjk", permute_dims(t, [0, 2, 1]), permute_dims(t, [0, 2, 1]))',
        "r": "reshape(t, [40, 30])",
        "n": "zeros([3, 7])",
    }
    run(tmp_path, arrays).ok()
    found = opened(tmp_path)
    assert all(len(set(found[n].dims)) == found[n].ndim for n in arrays)
    assert found.p.dims[:2] == ("time", "lat")


def test_a_plan_file_writes_the_same_coordinates(tmp_path):
    data = weather(tmp_path)
    path = write_pipeline(tmp_path, {"t": "in.zarr/t"}, {"y": "t[3:9, ::-1]"}, {"out.zarr/y": "y"})
    (tmp_path / "plan.json").write_text(chunkwise("plan", path, "--allowed-mem", "500MB", "--format", "json").ok().stdout)
    chunkwise("run", tmp_path / "plan.json").ok()
    same(opened(tmp_path).y, data.t[3:9, ::-1])
    again = write_pipeline(tmp_path, {"t": "in.zarr/t"}, {"z": "t[4:10, ::-1]"}, {"out.zarr/z": "z"})
    (tmp_path / "plan.json").write_text(chunkwise("plan", again, "--allowed-mem", "500MB", "--format", "json").ok().stdout)
    chunkwise("run", tmp_path / "plan.json").failed("time", "out.zarr")


def test_packed_values(tmp_path):
    """CF is on: what is computed is computed from the values that are meant, and what is copied stays as it is stored."""
    data = weather(tmp_path)
    encoding = {"t": {"dtype": "int16", "scale_factor": 0.01, "add_offset": 5.0, "_FillValue": -999}}
    data.t[3:5].data[:] = np.nan
    data.to_zarr(tmp_path / "packed.zarr", zarr_format=3, encoding=encoding)
    source = xr.open_zarr(tmp_path / "packed.zarr", chunks=None)
    inputs = {"t": "packed.zarr/t"}
    run(tmp_path, {"m": 't * 2', "c": "t", "s": "rechunk(t, time=7)"}, inputs).ok()
    found = opened(tmp_path)
    same(found.m, source.t * 2)
    for name in "cs":
        raw, was = (zarr.open_array(str(tmp_path / n), mode="r") for n in (f"out.zarr/{name}", "packed.zarr/t"))
        np.testing.assert_array_equal(raw[...], was[...])
        assert raw.dtype == np.int16 and dict(raw.attrs)["scale_factor"] == 0.01
        same(found[name], source.t)
    run(tmp_path, {"m": "t * 2"}, {"t": {"url": "packed.zarr/t", "decode_cf": False}}, {"raw.zarr/m": "m"}).ok()
    assert zarr.open_array(str(tmp_path / "raw.zarr/m"), mode="r").dtype == np.int16
    run(tmp_path, {"m": "t + 1"}, inputs, {"raw2.zarr/m": "m"}, spec={"decode_cf": False}).ok()
    assert zarr.open_array(str(tmp_path / "raw2.zarr/m"), mode="r").dtype == np.int16


def test_bounds_follow_their_coordinate(tmp_path):
    time = np.arange(6) * 30.0
    zarr.create_group(str(tmp_path / "in.zarr"))
    attributes = {"units": "days since 2000-01-01", "calendar": "360_day", "bounds": "time_bnds"}
    write_array(tmp_path / "in.zarr/time", time, None, ["time"], attributes)
    write_array(tmp_path / "in.zarr/time_bnds", np.stack([time - 15, time + 15], 1), None, ["time", "bnds"])
    write_array(tmp_path / "in.zarr/x", np.arange(6.0), None, ["time"])
    run(tmp_path, {"y": "x[1:4]"}, {"x": "in.zarr/x"}).ok()
    found = zarr.open_group(str(tmp_path / "out.zarr"), mode="r")
    np.testing.assert_array_equal(found["time_bnds"][...], np.stack([time - 15, time + 15], 1)[1:4])


def test_arrays_of_others_are_not_replaced(tmp_path):
    """An array that only has the name of a coordinate is nobody's to replace, and a coordinate that agrees stays as it is."""
    weather(tmp_path)
    run(tmp_path, {"a": "t"}).ok()
    theirs = np.arange(12.0).reshape(3, 4)
    write_array(tmp_path / "out.zarr/height2", theirs, None, ["p", "q"])
    (tmp_path / "out.zarr/height").rename(tmp_path / "scalar")
    (tmp_path / "out.zarr/height2").rename(tmp_path / "out.zarr/height")
    run(tmp_path, {"b": "t * 2"}).failed("height", "other")
    run(tmp_path, {"a": "t * 2"}, args=["--overwrite"]).failed("height", "not replaced")
    np.testing.assert_array_equal(zarr.open_array(str(tmp_path / "out.zarr/height"), mode="r")[...], theirs)
    zarr.open_array(str(tmp_path / "out.zarr/lat"), mode="r+").attrs["comment"] = "mine"
    (tmp_path / "out.zarr/height").rename(tmp_path / "theirs")
    run(tmp_path, {"c": 'mean(t, dim=["time", "lon"])'}).ok()
    assert opened(tmp_path).lat.attrs["comment"] == "mine"


def test_one_element_and_then_all(tmp_path):
    data = weather(tmp_path)
    run(tmp_path, {"a": "t[0]"}).ok()
    same(opened(tmp_path).a, data.t[0])
    run(tmp_path, {"a": "t"}, args=["--overwrite"]).ok()
    same(opened(tmp_path).a, data.t)


def test_one_element_beside_all(tmp_path):
    """The label of one element says nothing of the others, in one run or in two, and the other way round is refused."""
    data = weather(tmp_path)
    run(tmp_path, {"first": "t[0]", "a": "t", "second": "t[1]"}).ok()
    run(tmp_path, {"third": "t[2]"}).ok()
    found = opened(tmp_path)
    same(found.a, data.t)
    for i, name in enumerate(["first", "second", "third"]):
        assert "time" not in found[name].coords
        np.testing.assert_array_equal(found[name].values, data.t[i].values)
    run(tmp_path, {"first": "t[0]"}, outputs={"one.zarr/first": "first"}).ok()
    same(opened(tmp_path, "one.zarr").first, data.t[0])
    run(tmp_path, {"a": "t"}, outputs={"one.zarr/a": "a"}).failed("time", "one.zarr")


def hostile(coordinate, **changes):
    coordinate.update(changes)


@pytest.mark.parametrize("change, names", [
    (lambda c: hostile(c, name="../../evil"), ["name"]),
    (lambda c: hostile(c, name="c/0"), ["name"]),
    (lambda c: hostile(c, shape=[2**40]), ["time"]),
    (lambda c: hostile(c, shape=[3]), ["time"]),
    (lambda c: hostile(c, dims=[]), ["dimensions"]),
    (lambda c: hostile(c, values={"numbers": {"dtype": "int64", "base64": "AAAA"}}), ["time", "cannot be read"]),
    (lambda c: hostile(c, values={"numbers": {"dtype": "int64", "base64": "%%%"}}), ["time", "cannot be read"]),
    (lambda c: hostile(c, values={"text": ["a"]}), ["texts"]),
])  # fmt: skip
def test_coordinates_of_a_plan_from_elsewhere(tmp_path, change, names):
    weather(tmp_path)
    path = write_pipeline(tmp_path, {"t": "in.zarr/t"}, {"y": "t"}, {"out.zarr/y": "y"})
    plan = json.loads(chunkwise("plan", path, "--format", "json").ok().stdout)
    change(next(c for c in plan["groups"][0]["coordinates"] if c["name"] == "time"))
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    before = sorted(tmp_path.iterdir())
    chunkwise("run", tmp_path / "plan.json").failed(*names)
    assert sorted(p for p in tmp_path.iterdir() if p.name != "work") == [p for p in before if p.name != "work"]


@pytest.mark.parametrize("page", ["README.md", "docs/pipelines.md"])
def test_the_first_pipeline_of_a_page(tmp_path, page):
    """What a reader copies runs, and opens in xarray with dates and units."""
    root = pathlib.Path(__file__).parents[2]
    text = re.search(r"```yaml\n(.*?)```", (root / page).read_text(), re.S)[1]
    shutil.copytree(root / "examples/data", tmp_path / "data")
    (tmp_path / "winds.yaml").write_text(text)
    chunkwise("run", tmp_path / "winds.yaml", "--work-dir", tmp_path / "work").ok()
    source = xr.open_zarr(tmp_path / "data/winds.zarr", chunks=None)
    for store in sorted((tmp_path / "out").iterdir()):
        data = xr.open_zarr(store, chunks=None)
        assert data.data_vars and all(v.dtype == "float32" for v in data.data_vars.values()), store
        assert data.lat.attrs.get("units") == source.lat.attrs.get("units")
        if "time" in data.coords:
            assert np.issubdtype(data.time.dtype, np.datetime64) and set(data.time.values) <= set(source.time.values)
