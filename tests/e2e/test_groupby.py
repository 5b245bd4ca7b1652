"""Groups of a time axis and selection by label, against xarray."""

import json

import numpy as np
import pytest
import xarray as xr
import zarr
from harness import assert_close, chunkwise, read_array, values, write_array, write_pipeline


def store(folder, count, freq, chunks, dtype="float64", units=None, start="1999-11-20"):
    """A data set in Zarr as xarray writes it, and as it is in memory."""
    time = xr.date_range(start, periods=count, freq=freq)
    x = values(1, (count, 3, 4), dtype)
    data = xr.Dataset(
        {"x": (("time", "lat", "lon"), x)},
        coords={"time": time, "lat": [10.0, 20.0, 30.0], "lon": [0.0, 90.0, 180.0, 270.0]},
    )
    encoding = {"x": {"chunks": chunks}}
    if units:
        encoding["time"] = {"units": units, "calendar": "standard"}
    data.to_zarr(folder / "in.zarr", encoding=encoding, zarr_format=3)
    return data


def run(folder, expressions, args=()):
    path = write_pipeline(folder, {"x": "in.zarr/x"}, expressions, {f"out.zarr/{n}": n for n in expressions})
    chunkwise("run", path, "--allowed-mem", "500MB", "--json", *args).ok()
    return {name: read_array(folder / "out.zarr" / name) for name in expressions}


CASES = {
    # part: (steps, frequency, chunks, units)
    "month": (800, "D", (37, 2, 4), None),
    "year": (900, "D", (100, 3, 3), "hours since 1900-01-01"),
    "dayofyear": (800, "D", (31, 3, 4), "days since 2000-01-01"),
    "hour": (200, "5h", (24, 1, 4), "minutes since 2000-01-01"),
    "day": (200, "D", (50, 3, 4), "seconds since 1970-01-01"),
    "date": (100, "6h", (7, 3, 4), "hours since 1999-01-01"),
}


@pytest.mark.parametrize("part", CASES)
def test_means(tmp_path, part):
    count, freq, chunks, units = CASES[part]
    x = store(tmp_path, count, freq, chunks, units=units).x
    out = run(tmp_path, {"g": f'groupby_mean(x, "time.{part}")'})
    key = x.time.dt.floor("D") if part == "date" else f"time.{part}"
    assert_close(out["g"], x.groupby(key).mean().values, 64, 64)


REDUCTIONS = ["sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "count"]


def with_holes(x):
    """Every seventh value is NaN, and so is the whole of February at one place."""
    x = x.copy()
    x.values.ravel()[::7] = np.nan
    x[x.time.dt.month == 2, 1, 1] = np.nan
    return x


@pytest.mark.parametrize("dtype", ["float64", "float32", "int16", "bool", "complex128"])
def test_every_reduction(tmp_path, dtype):
    """As xarray: NaN is left out. Dtypes are the Array API's, so small integers sum in int64."""
    x = store(tmp_path, 500, "D", (45, 3, 4), dtype=dtype).x
    if x.dtype.kind in "fc":
        x = with_holes(x) / 4
        write_array(tmp_path / "in.zarr/x", x.values, (45, 3, 4), ["time", "lat", "lon"], overwrite=True)
    names = [n for n in REDUCTIONS if not (dtype == "complex128" and n in ("min", "max"))]
    out = run(tmp_path, {n: f'groupby_{n}(x, "time.month")' for n in names} | {"sample": 'groupby_std(x, "time.month", ddof=1)'})
    wide = x.astype("float64") if x.dtype.kind in "biu" else x
    groups, floats = x.groupby("time.month"), wide.groupby("time.month")
    for name in names:
        with np.errstate(all="ignore"):
            expected = getattr(floats if name in ("mean", "var", "std") else groups, name)().values
        if dtype == "bool" and name in ("min", "max"):
            expected = expected.astype(bool)
        assert_close(out[name], expected, 2000, 4096, name)
    assert_close(out["sample"], floats.std(ddof=1).values, 2000, 4096)


def test_nan_on_demand_and_empty_groups(tmp_path):
    x = values(1, (12, 5), "float64")
    x[3, 2] = x[8, 4] = np.nan
    write_array(tmp_path / "in.zarr/x", x, (5, 2))
    labels = [0, 0, 1, 1, 1, 4, 4, 0, 0, 1, -1, -1]
    names = ["sum", "mean", "var", "min", "max", "prod"]
    with_nan = {f"{n}_nan": f"groupby_{n}(x, {labels}, axis=0, skipna=False)" for n in names}
    out = run(tmp_path, {n: f"groupby_{n}(x, {labels})" for n in [*names, "count", "any", "all"]} | with_nan)
    members = [x[[i for i, label in enumerate(labels) if label == g]] for g in range(5)]
    empty = {"sum": 0, "prod": 1, "count": 0, "any": False, "all": True}
    for name, actual in out.items():
        plain = name.removesuffix("_nan")
        for g, m in enumerate(members):
            if len(m) == 0:
                expected = np.full(5, empty.get(plain, np.nan))
            elif plain == "count":
                expected = np.sum(~np.isnan(m), axis=0)
            else:
                expected = getattr(np, plain if name != plain or plain in ("any", "all") else f"nan{plain}")(m, axis=0)
            assert_close(actual[g].astype(expected.dtype), expected, 64, 512, f"{name} of group {g}")


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("dtype", ["int16", "uint8", "bool"])
def test_no_value_for_an_empty_group_of_integers(tmp_path, name, dtype):
    """A gap in the labels leaves a group without members; integers have nothing to say so."""
    x = values(1, (6, 4), dtype)
    write_array(tmp_path / "in.zarr/x", x, (4, 2))
    path = write_pipeline(tmp_path, {"x": "in.zarr/x"}, {"g": f"groupby_{name}(x, [0, 0, 2, 2, 4, -1])"}, {"out.zarr/g": "g"})
    chunkwise("run", path, "--allowed-mem", "500MB").failed("group 1", dtype, "float64", "gaps")
    out = run(tmp_path, {"g": f'groupby_{name}(astype(x, "float64"), [0, 0, 2, 2, 4, -1])', "h": f"groupby_{name}(x, [0, 0, 1, 1, 2, -1])"})
    reduced = getattr(np, name)
    assert_close(out["h"], np.stack([reduced(x[:2], axis=0), reduced(x[2:4], axis=0), x[4]]), 0)
    assert_close(out["g"][[0, 2, 4]], out["h"].astype("float64"), 0)
    assert np.isnan(out["g"][[1, 3]]).all()


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_with_one_nan_part(tmp_path, dtype):
    x = values(1, (9, 4), dtype)
    x[1, 0], x[2, 1], x[5, 2] = complex(np.nan, 1), complex(1, np.nan), complex(np.nan, np.nan)
    x[3:6, 3] = complex(2, np.nan)
    write_array(tmp_path / "in.zarr/x", x, (4, 2))
    labels = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    names = ["sum", "prod", "mean", "var", "std"]
    out = run(tmp_path, {n: f"groupby_{n}(x, {labels})" for n in [*names, "count"]} | {f"{n}_nan": f"groupby_{n}(x, {labels}, skipna=False)" for n in names})
    for name in names:
        for key, numpy in ((name, f"nan{name}"), (f"{name}_nan", name)):
            expected = np.stack([getattr(np, numpy)(x[3 * g : 3 * g + 3], axis=0) for g in range(3)])
            assert_close(out[key], expected, 64, 512, key)
    assert out["count"].tolist() == [[2, 2, 3, 3], [3, 3, 2, 0], [3, 3, 3, 3]]


@pytest.mark.parametrize("count, freq, chunk, part, wanted", [
    (96, "6h", 8, "date", 2),      # sorted labels: a chunk of the result holds what a chunk of the source does
    (97, "6h", 8, "date", 2),
    (730, "D", 31, "month", 2),    # labels that come again: as many as differ in a chunk of the source
    (1461, "D", 31, "dayofyear", 31),
    (1461, "D", 1461, "year", 4),
    (1461, "D", 100, "year", 1),
    (40, "D", 500, "month", 2),
])  # fmt: skip
def test_chunks_of_groups(tmp_path, count, freq, chunk, part, wanted):
    x = store(tmp_path, count, freq, (min(chunk, count), 3, 4), start="2000-01-01").x
    out = run(tmp_path, {"g": f'groupby_mean(x, "time.{part}")'})
    key = x.time.dt.floor("D") if part == "date" else f"time.{part}"
    assert_close(out["g"], x.groupby(key).mean().values, 64, 64)
    assert zarr.open_array(str(tmp_path / "out.zarr/g"), mode="r").chunks[0] == wanted


@pytest.mark.parametrize("part", ["month", "dayofyear", "season", "hour", "year"])
def test_anomalies(tmp_path, part):
    x = store(tmp_path, 700, "15h" if part == "hour" else "D", (60, 3, 4)).x
    out = run(tmp_path, {"a": f'x - lookup(groupby_mean(x, "time.{part}"), "time.{part}")'})
    groups = x.groupby(f"time.{part}")
    assert_close(out["a"], (groups - groups.mean()).transpose("time", "lat", "lon").values, 64, 64)


def test_anomalies_of_a_reversed_array(tmp_path):
    x = store(tmp_path, 400, "D", (60, 3, 4)).x
    out = run(tmp_path, {"a": 'x[::-1] - lookup(groupby_mean(x, "time.month"), "time.month", like=x[::-1])'})
    groups = x.groupby("time.month")
    assert_close(out["a"], (groups - groups.mean()).transpose("time", "lat", "lon").values[::-1], 64, 64)


def test_float32_and_result_in_xarray(tmp_path):
    x = store(tmp_path, 730, "D", (50, 3, 4), dtype="float32").x
    run(tmp_path, {"c": 'groupby_mean(x, "time.month")', "a": 'x - lookup(c, "time.month")'})
    data = xr.open_zarr(tmp_path / "out.zarr", chunks=None)
    assert data.a.dims == ("time", "lat", "lon") and data.c.dims[1:] == ("lat", "lon")
    assert data.c.dtype == np.float32 and data.c.sizes[data.c.dims[0]] == 12
    np.testing.assert_array_equal(data.time.values, x.time.values)
    np.testing.assert_array_equal(data.lat.values, x.lat.values)
    groups = x.groupby("time.month")
    np.testing.assert_allclose(data.a.values, groups - groups.mean(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("calendar, days", [("noleap", 365), ("360_day", 360)])
def test_other_calendars(tmp_path, calendar, days):
    count = 900
    t = np.arange(count)
    x = values(3, (count, 2), "float64")
    write_array(tmp_path / "in.zarr/x", x, (70, 2), ["time", "y"])
    attributes = {"units": "days since 2000-01-01", "calendar": calendar}
    write_array(tmp_path / "in.zarr/time", t, None, ["time"], attributes)
    group = {"zarr_format": 3, "node_type": "group", "attributes": {}}
    (tmp_path / "in.zarr/zarr.json").write_text(json.dumps(group))
    out = run(tmp_path, {"g": 'groupby_mean(x, "time.dayofyear")', "per_year": 'groupby_mean(x, "time.year")'})
    assert_close(out["g"], np.stack([x[t % days == d].mean(0) for d in range(days)]), 64, 64)
    assert_close(out["per_year"], np.stack([x[t // days == d].mean(0) for d in range(3)]), 64, 512)


@pytest.mark.parametrize("expression, wanted", [
    ("x[::-1]", lambda x: x[::-1]),
    ("isel(x, time=40:400:3)", lambda x: x[40:400:3]),
    ("roll(x, 100, axis=0) * 2", lambda x: x.roll(time=100, roll_coords=True) * 2),
    ("moving_sum(x, time=11)", lambda x: x.rolling(time=11, center=True).sum()[5:-5]),
])  # fmt: skip
def test_labels_move_with_the_elements(tmp_path, expression, wanted):
    x = store(tmp_path, 500, "D", (45, 3, 4)).x
    out = run(tmp_path, {"g": f'groupby_mean({expression}, "time.month")'})
    assert_close(out["g"], wanted(x).groupby("time.month").mean().values, 64, 4096)


def test_only_labels_that_occur(tmp_path):
    x = store(tmp_path, 60, "D", (13, 3, 4), start="2001-05-03").x
    out = run(tmp_path, {"g": 'groupby_mean(x, "time.month")'})
    assert_close(out["g"], x.groupby("time.month").mean().values, 64, 64)


@pytest.mark.parametrize("expression, names", [
    ('groupby_mean(x, "time.mnth")', ["mnth"]),
    ('groupby_mean(x, "tim.month")', ["tim"]),
    ('lookup(x, "time.month")', [("month", "time")]),
    ('groupby_sum(pad(x, [[1, 0], [0, 0], [0, 0]]), "time.month")', ["time", "padded"]),
    ('x[::-1] - lookup(groupby_mean(x, "time.month"), "time.month")', ["time", "2000-01-18", "join"]),
    ('mean(sqrt(1.0 * lookup(groupby_mean(x, "time.month"), "time.month")) * roll(x, 3, axis=0), axis=0)', ["time", "2000-01-16", "join"]),
    ("groupby_sum(x, [0, 1])", ["2 labels", "60"]),
    ('groupby_min(astype(x, "complex64"), "time.month")', ["complex64"]),
    ('groupby_sum(x, "time.month", ddof=1)', ["ddof"]),
])  # fmt: skip
def test_bad_labels(tmp_path, expression, names):
    store(tmp_path, 60, "D", (13, 3, 4))
    path = write_pipeline(tmp_path, {"x": "in.zarr/x"}, {"g": expression}, {"out.zarr/g": "g"})
    chunkwise("run", path, "--allowed-mem", "500MB").failed(*names)
