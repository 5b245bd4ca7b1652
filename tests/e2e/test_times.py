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


@pytest.mark.parametrize("expr", [
    "sum(t)", "nansum(t)", "prod(t)", "var(t)", "std(t)", 'groupby_sum(t, "time.month")', 'groupby_std(t, "time.month")', 'resample_sum(t, time="1M")',
    "moving_sum(t, time=3)", "convolve(t, [1, 2])", "matmul(t, t)", "t @ t", "vecdot(t, t)", "tensordot(t, t, axes=1)", "outer(t, t)",
    'einsum("i,i->", t, t)', "cumulative_sum(t)", "cumulative_prod(t)", "isclose(t, t)",
])  # fmt: skip
def test_sums_of_times_are_refused(tmp_path, expr):
    """As in NumPy and xarray: what is added up or multiplied is no time, and nothing else."""
    winds(tmp_path)
    (tmp_path / "p.yaml").write_text(f"inputs: {{t: in.zarr/time}}\noutputs:\n  out.zarr/r: '{expr}'\n")
    chunkwise("plan", tmp_path / "p.yaml").failed("days since 1990-01-01", "has no meaning", "decode_cf", "p.yaml:3:")


@pytest.mark.parametrize("name", ["ffill", "bfill"])
def test_missing_times_are_not_known(tmp_path, name):
    """They are numbers like others, which stayed as they were."""
    winds(tmp_path)
    (tmp_path / "p.yaml").write_text(f"inputs: {{t: in.zarr/time}}\noutputs:\n  out.zarr/r: '{name}(t)'\n")
    chunkwise("plan", tmp_path / "p.yaml").failed(f"{name}() does not know which times are missing")


@pytest.mark.parametrize("calendar", ["proleptic_gregorian", "noleap"])
def test_means_and_extremes_of_times(tmp_path, calendar):
    data = winds(tmp_path, calendar=calendar).load()
    expressions = {
        "mean": "mean(t)", "least": "min(t)", "greatest": "max(t)", "months": 'groupby_mean(t, "time.month")', "first": 'resample_min(t, time="1M")',
    }  # fmt: skip
    lines = "\n".join(f"  {n}.zarr/r: '{e}'" for n, e in (expressions | {"sum": "sum(t - t[0])"}).items())
    (tmp_path / "p.yaml").write_text(f"inputs: {{t: in.zarr/time}}\noutputs:\n{lines}\n")
    chunkwise("run", tmp_path / "p.yaml").ok()
    t = data.time
    wanted = {"mean": t.mean(), "least": t.min(), "greatest": t.max(), "months": t.groupby("time.month").mean(), "first": t.resample(time="1MS").min()}
    for name, w in wanted.items():
        assert result(tmp_path, "r", f"{name}.zarr").load().values.tolist() == w.values.tolist(), name
    total = xr.open_zarr(tmp_path / "sum.zarr", decode_timedelta=False).r
    assert total.attrs["units"] == "days" and total == sum(range(60))


GAPS = ["sum", "prod", "mean", "min", "max", "std", "var", "count", "any", "all"]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float32", "float64"])
def test_periods_without_a_time(tmp_path, dtype):
    """They are missing, whatever the function, and the dtype is xarray's. Where every period has a time, nothing becomes a float."""
    time = xr.date_range("2000-01-15", periods=5, freq="40D")
    values = np.array([[1, 0], [0, 3], [4, 5], [0, 7], [1, 0]]).astype(dtype)
    if dtype.startswith("float"):
        values[1] = values[4, 0] = np.nan
    data = xr.Dataset({"u": (("time", "lat"), values)}, coords={"time": time})
    data.to_zarr(tmp_path / "in.zarr")
    data = xr.open_zarr(tmp_path / "in.zarr", chunks=None)
    periods = {"gaps": ("1M", "1MS"), "whole": ("2M", "2MS")}
    outputs = {f"{k}.zarr/{f}": f'resample_{f}(ds.u, time="{p}")' for k, (p, _) in periods.items() for f in GAPS}
    run(tmp_path, outputs).ok()
    for k, (_, period) in periods.items():
        found = xr.open_zarr(tmp_path / f"{k}.zarr", chunks=None)
        for f in GAPS:
            wanted = getattr(data.u.resample(time=period), f)()
            assert found[f].dtype == wanted.dtype, f
            np.testing.assert_allclose(found[f].values.astype("float64"), wanted.values.astype("float64"), rtol=1e-6, err_msg=f)
            assert (found.time == wanted.time).all()


def test_times_that_do_not_ascend(tmp_path):
    """Groups do not ask for an order; periods do, as in xarray, and the message says what to do."""
    data = winds(tmp_path)
    run(tmp_path, {"out.zarr/r": 'groupby_mean(ds.u[::-1], "time.month")', "b.zarr/r": 'groupby_sum(isel(ds.u, time=[40, 3, 3, 50, 1]), "time.year")'}).ok()
    np.testing.assert_allclose(result(tmp_path, "r"), data.u[::-1].groupby("time.month").mean())
    np.testing.assert_allclose(result(tmp_path, "r", "b.zarr"), data.u[[40, 3, 3, 50, 1]].groupby("time.year").sum())
    run(tmp_path, {"c.zarr/r": 'resample_mean(ds.u[::-1], time="1M")'}).failed("'time' does not ascend", "2000-02-29", "isel(x, time=::-1)")
    run(tmp_path, {"c.zarr/r": 'resample_mean(isel(ds.u, time=[1, 0, 2]), time="1M")'}).failed("2000-01-02 stands before 2000-01-01", "order")
    run(tmp_path, {"c.zarr/r": 'resample_mean(isel(isel(ds.u, time=::-1), time=::-1), time="1M")'}).ok()


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


@pytest.mark.parametrize("name, expr", [
    ("lat", 'mean(ds.u, dim="time")'),
    ("time", "ds.u[:, 0] * 2"),
    ("lat", "-ds.lat"),
    ("height", 'mean(ds.u, dim="lat")'),
])  # fmt: skip
def test_nothing_takes_the_place_of_a_coordinate(tmp_path, name, expr):
    """Whoever opens the group would take the values for labels."""
    data = winds(tmp_path).load().assign_coords(height=2.0)
    data.to_zarr(tmp_path / "in.zarr", mode="w", consolidated=True)
    run(tmp_path, {"out.zarr/a": "ds.u", f"out.zarr/{name}": expr}).failed(f"'{name}'", "another name")
    run(tmp_path, {f"alone.zarr/{name}": expr}).failed(f"'{name}'", "another name")
    assert not (tmp_path / "out.zarr").exists()
    # The coordinate itself may be there.
    run(tmp_path, {"out.zarr/a": "ds.u", f"out.zarr/{name}": f"ds.{name}"}).ok()
    np.testing.assert_array_equal(result(tmp_path, "a")[name], data[name])


def test_a_dimension_has_the_name_of_an_argument(tmp_path):
    values = np.arange(24.0).reshape(4, 6)
    xr.Dataset({"t": (("y", "x"), values)}, coords={"x": np.arange(6) * 10}).to_zarr(tmp_path / "in.zarr")
    outputs = {
        "a.zarr/r": "isel(ds.t, x=2)",
        "b.zarr/r": "isel(ds.t, y=0, x=1)",
        "c.zarr/r": "sel(ds.t, x=30)",
        "d.zarr/r": "moving_mean(ds.t, x=3)",
    }
    lines = "\n".join(f"  {place}: '{e}'" for place, e in outputs.items())
    (tmp_path / "p.yaml").write_text(f"inputs: {{ds: in.zarr}}\noutputs:\n{lines}\n")
    chunkwise("run", tmp_path / "p.yaml").ok()
    found = {g: xr.open_zarr(tmp_path / f"{g}.zarr").r.values for g in "abcd"}
    np.testing.assert_array_equal(found["a"], values[:, 2])
    assert found["b"] == values[0, 1]
    np.testing.assert_array_equal(found["c"], values[:, 3])
    np.testing.assert_allclose(found["d"], (values[:, :-2] + values[:, 1:-1] + values[:, 2:]) / 3)


def test_groups_keep_their_attributes_and_say_what_they_leave_out(tmp_path):
    data = winds(tmp_path).load()
    data["name"] = ("lat", np.array(["a", "bb", "c"]))
    data.attrs = {"title": "Winds", "Conventions": "CF-1.8"}
    data.to_zarr(tmp_path / "in.zarr", mode="w", consolidated=True)
    (tmp_path / "p.yaml").write_text("inputs: {ds: in.zarr}\noutputs: {out.zarr: ds, first.zarr: 'isel(ds, time=0)'}\n")
    done = chunkwise("run", tmp_path / "p.yaml").ok()
    assert "'name' is left out of 'out.zarr'" in done.stderr
    for group in ("out.zarr", "first.zarr"):
        assert xr.open_zarr(tmp_path / group).attrs == data.attrs


def test_outputs_that_other_programs_would_misread(tmp_path):
    winds(tmp_path)
    run(tmp_path, {"out.nc": "ds.u * 2"}).failed("'.nc'", "out.zarr")
    (tmp_path / "p.yaml").write_text("inputs: {ds: in.zarr}\noutputs: {out.zarr/r: {array: ds.u * 2, chunks: [10]}}\n")
    chunkwise("run", tmp_path / "p.yaml").failed("1 lengths for an array with 2 dimensions")
    for key, value in (("scale_factor", 0.5), ("_FillValue", -1)):
        text = f"inputs: {{ds: in.zarr}}\noutputs: {{out.zarr/r: {{array: ds.u * 2, attributes: {{{key}: {value}}}}}}}\n"
        (tmp_path / "p.yaml").write_text(text)
        chunkwise("run", tmp_path / "p.yaml").failed(key, "attributes")


def test_calendars_are_not_put_end_to_end(tmp_path):
    winds(tmp_path)
    (tmp_path / "other").mkdir()
    winds(tmp_path / "other", calendar="noleap", start="2001-01-01")
    for expr, spec in (("concat([a, b], axis=0)", ""), ("a - b", "spec: {join: inner}"), ("a - b", "spec: {join: outer}")):
        (tmp_path / "p.yaml").write_text(f"inputs: {{a: in.zarr/u, b: other/in.zarr/u}}\noutputs: {{out.zarr/r: '{expr}'}}\n{spec}\n")
        chunkwise("plan", tmp_path / "p.yaml").failed("noleap", "standard")


def test_a_choice_has_the_attributes_of_its_values(tmp_path):
    data = winds(tmp_path).load()
    data.lat.attrs = {"units": "degrees_north"}
    data.to_zarr(tmp_path / "in.zarr", mode="w", consolidated=True)
    mask = xr.Dataset({"land": ("lat", np.array([True, False, True]))}, coords={"lat": data.lat.values})
    mask.to_zarr(tmp_path / "mask.zarr", consolidated=True)
    text = "inputs: {ds: in.zarr, m: mask.zarr}\noutputs: {out.zarr/r: 'where(m.land, ds.u, nan)'}\n"
    (tmp_path / "p.yaml").write_text(text)
    chunkwise("run", tmp_path / "p.yaml").ok()
    assert result(tmp_path, "r").lat.attrs == {"units": "degrees_north"}


def test_two_steps_give_what_one_gives(tmp_path):
    """What is missing is missing in the next run, too."""
    values = np.arange(12.0).reshape(4, 3)
    values[1, 2] = np.nan
    data = xr.Dataset({"u": (("time", "lat"), values)}, coords={"lat": [1.0, 2.0, 3.0]})
    data.to_zarr(tmp_path / "in.zarr", encoding={"u": {"dtype": "int16", "scale_factor": 0.5, "_FillValue": -9}})
    for name, outputs in (
        ("one", "step.zarr/s: 'ds.u * 2', step.zarr/w: 'where(ds.u > 3, ds.u, nan)', one.zarr/m: 'mean(ds.u * 2)'"),
        ("two", "two.zarr/m: 'mean(st.s)', two.zarr/w: 'mean(st.w, dim=\"time\")'"),
    ):
        inputs = "ds: in.zarr" if name == "one" else "st: step.zarr"
        (tmp_path / "p.yaml").write_text(f"inputs: {{{inputs}}}\noutputs: {{{outputs}}}\n")
        chunkwise("run", tmp_path / "p.yaml").ok()
    one, two = xr.open_zarr(tmp_path / "one.zarr"), xr.open_zarr(tmp_path / "two.zarr")
    assert one.m == two.m == (data.u * 2).mean()
    np.testing.assert_allclose(two.w, data.u.where(data.u > 3).mean("time"))
    xr.testing.assert_allclose(xr.open_zarr(tmp_path / "step.zarr").s.load(), data.u * 2)


def test_snapshots_side_by_side(tmp_path):
    data = winds(tmp_path).load()
    data["time"].attrs["bounds"] = "time_bnds"
    data["time_bnds"] = (("time", "nv"), np.stack([np.arange(60), np.arange(60) + 1], 1))
    data.to_zarr(tmp_path / "in.zarr", mode="w")
    run(tmp_path, {"out.zarr/a": "isel(ds.u, time=0)", "out.zarr/b": "isel(ds.u, time=1)"}).ok()
    found = xr.open_zarr(tmp_path / "out.zarr")
    np.testing.assert_array_equal(found.b, data.u[1])
    assert "time" not in found.coords


def test_units_that_name_utc(tmp_path):
    values = np.arange(48.0)
    data = xr.Dataset({"u": ("time", values)}, coords={"time": ("time", np.arange(48), {"units": "hours since 2000-01-01 00:00:00 UTC"})})
    data.to_zarr(tmp_path / "in.zarr")
    run(tmp_path, {"out.zarr/r": 'ds.u[time="2000-01-02"]'}).ok()
    assert xr.open_zarr(tmp_path / "out.zarr").r.values.tolist() == list(range(24, 48))
