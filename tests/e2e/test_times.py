"""Times and labels as a stranger used them: what is a time stays one, and what has no meaning is refused."""

import cftime
import numpy as np
import pytest
import xarray as xr
from harness import chunkwise


def winds(folder, n=60, calendar="standard", start="2000-01-01"):
    time = xr.date_range(start, periods=n, freq="D", calendar=calendar, use_cftime=True)
    values = np.random.default_rng(1).random((n, 3))
    data = xr.Dataset({"u": (("time", "lat"), values)}, coords={"time": time, "lat": [10.0, 20.0, 30.0]})
    data.to_zarr(folder / "in.zarr", encoding={"time": {"units": "days since 1990-01-01", "dtype": "int64"}}, consolidated=True)
    return xr.open_zarr(folder / "in.zarr", decode_times=xr.coders.CFDatetimeCoder(use_cftime=True))


def run(folder, outputs, spec=""):
    lines = "\n".join(f"  {place}: '{e}'" for place, e in outputs.items())
    (folder / "p.yaml").write_text(f"inputs: {{ds: in.zarr, u: in.zarr/u}}\noutputs:\n{lines}\n{spec}")
    return chunkwise("run", folder / "p.yaml")


def result(folder, name, group="out.zarr"):
    return xr.open_zarr(folder / group, decode_times=xr.coders.CFDatetimeCoder(use_cftime=True))[name]


@pytest.mark.parametrize("expr, reference", [
    ("ds.u - ds.u[0]", lambda d: d.u - d.u[0]),
    ("ds.u[0] * ds.u", lambda d: d.u[0] * d.u),
    ("u - isel(u, time=3)", lambda d: d.u - d.u.isel(time=3)),
    ('u - u[time="2000-01-03"]', lambda d: d.u - d.u.sel(time="2000-01-03").isel(time=0)),
    ("u / isel(u, lat=1)", lambda d: d.u / d.u.isel(lat=1)),
])  # fmt: skip
def test_the_index_stays_beside_the_label_of_one_element(tmp_path, expr, reference):
    data = winds(tmp_path)
    run(tmp_path, {"out.zarr/r": expr}).ok()
    expected = reference(data).load()
    found = result(tmp_path, "r").load()
    xr.testing.assert_equal(found.transpose(*expected.dims), expected)


@pytest.mark.parametrize("calendar", ["standard", "noleap", "360_day", "julian"])
@pytest.mark.parametrize("period, pandas", [("5D", "5D"), ("1D", "1D"), ("12h", "12h"), ("48h", "48h"), ("7D", "7D")])
def test_labels_of_periods_are_exact(tmp_path, calendar, period, pandas):
    data = winds(tmp_path, 400, calendar)
    run(tmp_path, {"out.zarr/r": f'resample_mean(ds.u, time="{period}")'}).ok()
    found = result(tmp_path, "r").load()
    step = cftime.num2date(1, "hours since 2000-01-01", calendar) - cftime.num2date(0, "hours since 2000-01-01", calendar)
    hours = int(period[:-1]) * (24 if period[-1] == "D" else 1)
    assert [b - a for a, b in zip(found.time.values, found.time.values[1:])] == [hours * step] * (found.sizes["time"] - 1)
    assert found.time.values[0] == data.time.values[0]
    raw = xr.open_zarr(tmp_path / "out.zarr", decode_times=False).time
    if hours % 24 == 0:
        assert raw.dtype == "int64"


def test_an_output_with_the_name_of_a_dimension(tmp_path):
    winds(tmp_path)
    run(tmp_path, {"out.zarr/lat": "ds.u * 2"}).failed("'lat' is also the name of a dimension", "another name")
    assert not (tmp_path / "out.zarr").exists()
    run(tmp_path, {"out.zarr/r": "ds.u * 2", "out.zarr/time": "ds.u[0] * 2"}).failed("'time' is also the name of a dimension")


@pytest.mark.parametrize(
    "expr",
    ["t + 1", "t * 2", "2 - t", "t * u", "cos(t)", "-t", "t > 5", "where(u > 0, t, 0)", "t ** 2", "maximum(t, 3)", "t % 7", "abs(t)", "t + t"],
)
def test_what_times_do_not_mean_is_refused(tmp_path, expr):
    winds(tmp_path)
    (tmp_path / "p.yaml").write_text(f"inputs: {{t: in.zarr/time, u: in.zarr/u}}\noutputs: {{out.zarr/r: '{expr}'}}\n")
    chunkwise("plan", tmp_path / "p.yaml").failed("days since 1990-01-01", "dates")
    # As numbers they are nothing but that.
    (tmp_path / "p.yaml").write_text(f"inputs: {{t: in.zarr/time, u: in.zarr/u}}\noutputs: {{out.zarr/r: '{expr}'}}\nspec: {{decode_cf: false}}\n")
    chunkwise("plan", tmp_path / "p.yaml").ok()


def test_differences_of_times(tmp_path):
    data = winds(tmp_path)
    text = (
        "inputs: {t: in.zarr/time, u: in.zarr/u}\noutputs:\n  out.zarr/since: t - t[0]\n  diff.zarr/d: diff(t)\n"
        '  out.zarr/late: t > "2000-02-01"\n  out.zarr/same: t == t\n  out.zarr/known: where(t > "2000-02-01", t, nan)\n'
    )
    (tmp_path / "p.yaml").write_text(text)
    chunkwise("run", tmp_path / "p.yaml").ok()
    out = xr.open_zarr(tmp_path / "out.zarr", decode_times=False)
    assert out.since.attrs["units"] == "days" and out.since.values.tolist() == list(range(60))
    assert result(tmp_path, "late").values.tolist() == (data.time > cftime.datetime(2000, 2, 1)).values.tolist()
    assert out.same.values.all()
    steps = xr.open_zarr(tmp_path / "diff.zarr", decode_times=False).d
    assert steps.attrs["units"] == "days" and (steps == 1).all()
    assert out.known.attrs["units"] == "days since 1990-01-01"


def test_calendars_do_not_meet(tmp_path):
    winds(tmp_path)
    (tmp_path / "julian").mkdir()
    winds(tmp_path / "julian", calendar="julian")
    text = "inputs: {a: in.zarr/u, b: julian/in.zarr/u}\noutputs: {out.zarr/r: a - b}\n"
    (tmp_path / "p.yaml").write_text(text)
    chunkwise("plan", tmp_path / "p.yaml").failed("'time'", "julian", "standard")
