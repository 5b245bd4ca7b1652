"""Everyday tasks of somebody who knows xarray and has read no more than the README, on data with awkward traits.

Every result is compared with what xarray makes of the task: values, dimensions, coordinates with their attributes, attributes of the
array; it opens without a warning, and `chunkwise show` names it with its units.
"""

import json
import warnings

import numpy as np
import pytest
import xarray as xr
import zarr
from harness import chunkwise

pytestmark = pytest.mark.filterwarnings("ignore")
CFTIME = xr.coders.CFDatetimeCoder(use_cftime=True)
PACKED = {"dtype": "int16", "scale_factor": 0.01, "add_offset": 1.0, "_FillValue": -32768}


def opened(path, **options):
    """As a reader opens it; a warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return xr.open_zarr(path, chunks=None, consolidated=True, **options)


def missing(rng, x, share):
    x[rng.random(x.shape) < share] = np.nan
    return x


def model(calendar, days=1095, start="2000-01-01"):
    """Daily data: latitudes from north to south, a name with a space, packed winds, cell bounds, texts and a scalar as coordinates."""
    rng = np.random.default_rng(days)
    time = xr.date_range(start, periods=days, calendar=calendar, use_cftime=calendar is not None and calendar != "standard")
    lat, lon = 85.0 - 10 * np.arange(18), 15.0 * np.arange(24)
    shape = (days, 18, 24)
    season = np.sin(2 * np.pi * np.arange(days) / 365)[:, None, None] * np.sin(np.deg2rad(lat))[:, None]
    air = (260 + 15 * season + rng.normal(0, 3, shape)).astype("float32")
    cells = ("time", "lat", "lon")
    bounds = np.stack([time, time + np.timedelta64(1, "D") if time.dtype.kind == "M" else time.shift(1, "D")], axis=1)
    data = xr.Dataset(
        {
            "air temp": (cells, missing(rng, air, 0.02), {"units": "K", "long_name": "air temperature", "cell_methods": "time: mean"}),
            "u": (cells, missing(rng, rng.normal(0, 5, shape).round(2), 0.03), {"units": "m s-1", "long_name": "eastward wind"}),
            "v": (cells, missing(rng, rng.normal(0, 5, shape).round(2), 0.03), {"units": "m s-1", "long_name": "northward wind"}),
            "pr": (cells, rng.gamma(0.4, 8, shape).astype("float32"), {"units": "mm day-1"}),
            "lat_bnds": (("lat", "bnds"), np.stack([lat + 5, lat - 5], axis=1)),
            "time_bnds": (("time", "bnds"), bounds),
        },
        coords={
            "time": ("time", time, {"standard_name": "time", "axis": "T", "bounds": "time_bnds"}),
            "lat": ("lat", lat, {"units": "degrees_north", "bounds": "lat_bnds"}),
            "lon": ("lon", lon, {"units": "degrees_east"}),
            "height": ((), 2.0, {"units": "m"}),
            "zone": ("lat", [f"zone {i}" for i in range(18)]),
        },
    )
    chunks = {"chunks": (100, 18, 24)}
    return data, {"time": {"units": "days since 1990-01-01"}, "air temp": chunks, "u": PACKED | chunks, "v": PACKED | chunks}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the stores of a project: v3 and v2, two calendars, two periods, another's mask."""
    folder = tmp_path_factory.mktemp("everyday")
    for name, calendar, version in [("model", "noleap", 3), ("obs", "standard", 2)]:
        data, encoding = model(calendar)
        data.to_zarr(folder / f"{name}.zarr", zarr_format=version, encoding=encoding)
    data, encoding = model("noleap", days=59, start="2003-01-01")
    data.to_zarr(folder / "later.zarr", zarr_format=3, encoding=encoding)
    rng = np.random.default_rng(1)
    grid = {n: (n, data[n].values, {"units": data[n].units}) for n in ("lat", "lon")}
    mask = xr.Dataset({"land": (("lat", "lon"), rng.random((18, 24)) < 0.4)}, coords=grid)
    mask.to_zarr(folder / "mask.zarr", zarr_format=2)
    hours = xr.date_range("2001-02-01", periods=4 * 89, freq="6h")
    stations = xr.Dataset(
        {"t": (("member", "time", "site"), rng.normal(280, 9, (2, 356, 3)).astype("float32"), {"units": "K"})},
        coords={"time": hours, "site": ["Oslo", "São Paulo", "Zürich"], "member": ["r1i1p1f1", "r10i1p1f1"]},
    )
    stations.to_zarr(folder / "stations.zarr", zarr_format=3)
    ocean = xr.Dataset(
        {"sst": (("time", "y", "x"), missing(rng, rng.normal(15, 5, (40, 8, 9)), 0.1), {"units": "degC"})},
        coords={
            "time": xr.date_range("2000-01-01", periods=40, calendar="360_day", use_cftime=True),
            "lat": (("y", "x"), rng.uniform(-80, 80, (8, 9)), {"units": "degrees_north"}),
            "lon": (("y", "x"), rng.uniform(0, 360, (8, 9)), {"units": "degrees_east"}),
        },
    )
    ocean.to_zarr(folder / "ocean.zarr", zarr_format=3)
    return folder


def source(place, name):
    return opened(place / f"{name}.zarr", decode_times=CFTIME if name in ("later", "ocean") else True)


def run(place, text, *outputs):
    """Run a pipeline file as a user writes it, into a folder of the test's own."""
    path = place / "pipeline.yaml"
    path.write_text(text)
    done = chunkwise("run", path, "--allowed-mem", "300MB", "--work-dir", place / "work", "--overwrite").ok()
    for output in outputs:
        assert f"wrote {place / output}" in done.stderr + done.stdout
    return done


def same(found, wanted, attributes, rtol=1e-5):
    """Values, dimensions, dtype, coordinates with their attributes; `attributes` are those of the array itself."""
    assert found.dims == wanted.dims
    assert found.dtype == wanted.dtype
    np.testing.assert_allclose(found.values, wanted.values, rtol=rtol, atol=2e-4)
    assert set(found.coords) == set(wanted.coords)
    for name, label in wanted.coords.items():
        xr.testing.assert_equal(found[name].variable, label.variable)
        # Bounds that are no longer those of the cells are not mentioned.
        kept = {k: v for k, v in label.attrs.items() if k != "bounds"}
        assert {k: v for k, v in found[name].attrs.items() if k != "bounds"} == kept, name
    assert found.attrs == attributes


def shown(path, *words, select=()):
    """The drawing begins with the name and the units."""
    title = chunkwise("show", path, *select).ok().stdout.splitlines()[0]
    for word in words:
        assert word in title


AIR = {"units": "K", "long_name": "air temperature", "cell_methods": "time: mean"}


def test_anomalies_from_a_monthly_climatology(place):
    run(
        place,
        """
inputs:
  ds: model.zarr
arrays:
  climatology: groupby_mean(ds["air temp"], "time.month")
  anomaly: ds["air temp"] - lookup(climatology, "time.month")
outputs:
  out/anomaly.zarr/climatology: climatology
  out/anomaly.zarr/anomaly: anomaly
""",
        "out/anomaly.zarr/anomaly",
    )
    groups = source(place, "model")["air temp"].groupby("time.month")
    found = opened(place / "out/anomaly.zarr")
    same(found.climatology, groups.mean(), AIR)
    # xarray repeats the scalar coordinate for each time here.
    same(found.anomaly, (groups - groups.mean()).drop_vars("month").assign_coords(height=source(place, "model").height), {"units": "K"})
    xr.testing.assert_equal(found.time_bnds, source(place, "model").time_bnds)
    shown(place / "out/anomaly.zarr/anomaly", "anomaly", "[K]", select=("--select", "time=0"))


def test_seasonal_means(place):
    run(place, 'inputs: {ds: model.zarr}\noutputs:\n  out/season.zarr/air: groupby_mean(ds["air temp"], "time.season")\n')
    wanted = source(place, "model")["air temp"].groupby("time.season").mean().sel(season=["DJF", "MAM", "JJA", "SON"])
    same(opened(place / "out/season.zarr").air, wanted, AIR)
    shown(place / "out/season.zarr/air", "air temperature", "[K]", select=("--select", "season=0"))


def test_coarser_grid_by_windows(place):
    run(
        place,
        """
inputs: {ds: model.zarr}
outputs:
  out/coarse.zarr/blocks: moving_mean(moving_mean(ds.pr, lat=3), lon=3)[:, ::3, ::3]
  out/pentads.zarr/pr: moving_mean(ds.pr, time=5)[::5]
""",
    )
    pr = source(place, "model").pr.drop_vars("zone")
    same(opened(place / "out/coarse.zarr").blocks.drop_vars("zone"), pr.coarsen(lat=3, lon=3).mean(), {"units": "mm day-1"})
    same(opened(place / "out/pentads.zarr").pr.drop_vars("zone"), pr.coarsen(time=5).mean(), {"units": "mm day-1"})
    shown(place / "out/coarse.zarr/blocks", "[mm day-1]", select=("--select", "time=0"))


def test_a_box_and_a_period(place):
    run(
        place,
        """
inputs: {ds: model.zarr}
outputs:
  out/box.zarr/u: ds.u[time="2000-12":"2001-02", lat=20:60, lon=100:200]
  out/box.zarr/pr: ds.pr[time="2000-12":"2001-02", lat=20:60, lon=100:200]
""",
    )
    wanted = source(place, "model").sel(time=slice("2000-12", "2001-02"), lat=slice(60, 20), lon=slice(100, 200))
    found = opened(place / "out/box.zarr")
    same(found.u, wanted.u, wanted.u.attrs)
    same(found.pr, wanted.pr, wanted.pr.attrs)
    xr.testing.assert_equal(found.lat_bnds, wanted.lat_bnds)
    xr.testing.assert_equal(found.time_bnds, wanted.time_bnds)
    stored = zarr.open_array(str(place / "out/box.zarr/u"), mode="r")
    assert stored.dtype == "int16" and stored.attrs["scale_factor"] == 0.01, "a selection stays packed"


def test_area_weighted_mean(place):
    run(
        place,
        """
inputs: {ds: model.zarr}
arrays:
  w: cos(ds.lat * pi / 180)
  there: where(isnan(ds["air temp"]), 0, 1)
  mean: sum(ds["air temp"] * w, dim=["lat", "lon"]) / sum(there * w, dim=["lat", "lon"])
outputs:
  out/global.zarr/air: mean
""",
    )
    data = source(place, "model")
    wanted = data["air temp"].weighted(np.cos(np.deg2rad(data.lat))).mean(["lat", "lon"])
    same(opened(place / "out/global.zarr").air, wanted, {})
    shown(place / "out/global.zarr/air", "air")


def test_wind_speed_of_packed_components(place):
    run(place, "inputs: {ds: obs.zarr}\noutputs:\n  out/speed.zarr/speed: {array: 'hypot(ds.u, ds.v)', attributes: {units: m s-1}}\n")
    data = source(place, "obs")
    same(opened(place / "out/speed.zarr").speed, np.hypot(data.u, data.v), {"units": "m s-1"})
    shown(place / "out/speed.zarr/speed", "speed", "[m s-1]", select=("--select", "time=0"))


def test_statistics_under_a_mask_of_another_store(place):
    run(
        place,
        """
inputs:
  ds: model.zarr
  mask: mask.zarr
arrays:
  land: where(mask.land, ds["air temp"], nan)
outputs:
  out/land.zarr/mean: mean(land, dim=["lat", "lon"])
  out/land.zarr/std: std(land, dim=["lat", "lon"])
  out/land.zarr/days: groupby_count(land, "time.year")
""",
    )
    land = source(place, "model")["air temp"].where(source(place, "mask").land)
    found = opened(place / "out/land.zarr")
    same(found["mean"], land.mean(["lat", "lon"]), AIR)
    same(found["std"], land.std(["lat", "lon"]), {"units": "K"}, rtol=1e-3)
    np.testing.assert_array_equal(found.days.values, land.groupby("time.year").count().values)
    np.testing.assert_array_equal(found.year.values, [2000, 2001, 2002])


def test_running_mean_of_five_days(place):
    run(place, 'inputs: {ds: model.zarr}\noutputs:\n  out/smooth.zarr/air: moving_mean(ds["air temp"], time=5)\n')
    wanted = source(place, "model")["air temp"].rolling(time=5, center=True).mean()[2:-2]
    same(opened(place / "out/smooth.zarr").air, wanted, AIR)


def test_joining_two_periods(place):
    run(place, "inputs: {a: model.zarr, b: later.zarr}\noutputs:\n  out/joined.zarr/u: concat([a.u, b.u], axis=0)\n")
    first, second = (opened(place / f"{n}.zarr", decode_times=CFTIME) for n in ("model", "later"))
    wanted = xr.concat([first, second], "time", data_vars="minimal", coords="minimal", compat="override")
    found = opened(place / "out/joined.zarr", decode_times=CFTIME)
    same(found.u, wanted.u, wanted.u.attrs)
    np.testing.assert_array_equal(found.time_bnds.values, wanted.time_bnds.values)


def test_rechunk_for_time_series(place):
    done = chunkwise("rechunk", place / "model.zarr/u", place / "out/series.zarr/u", "--chunks", "time=-1,lat=3,lon=4", "--allowed-mem", "300MB").ok()
    assert "wrote" in done.stderr
    before, after = (zarr.open_array(str(place / p), mode="r") for p in ("model.zarr/u", "out/series.zarr/u"))
    assert after.chunks == (1095, 3, 4)
    assert after.dtype == before.dtype == np.int16
    np.testing.assert_array_equal(after[...], before[...])
    assert dict(after.attrs) == dict(before.attrs)
    wanted = source(place, "model").u
    same(opened(place / "out/series.zarr").u, wanted, wanted.attrs, rtol=0)


def test_percent_of_wet_days(place):
    run(
        place,
        """
inputs: {ds: obs.zarr}
parameters: {limit: 10}
outputs:
  out/wet.zarr/wet: {array: 'mean(ds.pr > limit, dim="time") * 100', attributes: {units: "%"}}
  out/months.zarr/wet: resample_sum(ds.pr > limit, time="1M")
""",
    )
    wet = source(place, "obs").pr > 10
    same(opened(place / "out/wet.zarr").wet, wet.mean("time") * 100, {"units": "%"})
    months = opened(place / "out/months.zarr").wet
    same(months, wet.resample(time="1MS").sum(), {})
    assert months.time.values[1] == np.datetime64("2000-02-01")


def test_daily_maxima_to_monthly_means(place):
    run(place, 'inputs: {ds: stations.zarr}\noutputs:\n  out/max.zarr/t: resample_mean(resample_max(ds.t, time="1D"), time="1M")\n')
    wanted = source(place, "stations").t.resample(time="1D").max().resample(time="1MS").mean()
    same(opened(place / "out/max.zarr").t.transpose(*wanted.dims), wanted, {"units": "K"})


def test_from_v2_to_v3(place):
    run(place, "inputs: {ds: obs.zarr}\noutputs:\n  out/v3.zarr: ds\n")
    assert json.loads((place / "out/v3.zarr/u/zarr.json").read_text())["zarr_format"] == 3
    data, found = source(place, "obs"), opened(place / "out/v3.zarr")
    assert set(found.variables) == set(data.variables)
    for name in ("air temp", "u", "v", "pr"):
        same(found[name], data[name], data[name].attrs, rtol=0)
        before, after = (zarr.open_group(str(place / p), mode="r")[name] for p in ("obs.zarr", "out/v3.zarr"))
        np.testing.assert_array_equal(after[...], before[...])
        # Small chunks are joined.
        assert all(n % m == 0 or n == size for n, m, size in zip(after.chunks, before.chunks, before.shape, strict=True))
    for name in ("lat_bnds", "time_bnds"):
        xr.testing.assert_equal(found[name], data[name])


def test_a_curvilinear_grid_in_360_days(place):
    run(
        place,
        """
inputs: {ds: ocean.zarr}
outputs:
  out/tropics.zarr/sst: mean(where((ds.lat > -23.5) & (ds.lat < 23.5), ds.sst, nan), dim=["y", "x"])
  out/february.zarr/sst: ds.sst[time="2000-02"] * 1
""",
    )
    data = source(place, "ocean")
    tropics = data.sst.where((data.lat > -23.5) & (data.lat < 23.5)).mean(["y", "x"])
    same(opened(place / "out/tropics.zarr", decode_times=CFTIME).sst, tropics, {"units": "degC"})
    february = data.sst.sel(time="2000-02")
    assert len(february.time) == 10
    same(opened(place / "out/february.zarr", decode_times=CFTIME).sst, february, {})


def test_names_that_are_numbers_too(run):
    """`e` and `pi` are what the file names so; where it does not, they are the numbers."""
    x = np.arange(4.0)
    done = run({"arrays": {"e": "x * 2", "y": "e + pi"}}, {"x": x}, outputs={"y": "y", "area": "pi * x**2"})
    np.testing.assert_allclose(done.outputs["y"], 2 * x + np.pi, rtol=1e-15)
    np.testing.assert_allclose(done.outputs["area"], np.pi * x**2, rtol=1e-15)
    assert "'e' is what the file names so, and not the number 2.71828" in done.stderr + done.stdout
    assert "'pi' is" not in done.stderr + done.stdout
    done = run({"arrays": {"y": "x * e"}}, {"x": x})
    np.testing.assert_allclose(done.outputs["y"], x * np.e, rtol=1e-15)
    assert "not the number" not in done.stderr + done.stdout
