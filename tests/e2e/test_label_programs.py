"""Random programs over data sets, against xarray: values, dimensions, coordinates and units.

`CHUNKWISE_PROGRAMS` is how many there are (5,000 if it is not set), and `CHUNKWISE_SEED` where they begin: a number, or `fresh` for other ones each time.
Several programs are the outputs of one pipeline, each in a group of its own. A program that fails is printed with its seed.
"""

import os

import numpy as np
import pytest
import xarray as xr
from harness import chunkwise, write_pipeline

pytestmark = pytest.mark.filterwarnings("ignore")

PROGRAMS = int(os.environ.get("CHUNKWISE_PROGRAMS", 5000))
FIRST = int(os.environ.get("CHUNKWISE_SEED", "0"))
BATCH = 50
CODER = xr.coders.CFDatetimeCoder(use_cftime=True)


def source(rng, folder):
    """A data set: any calendar, ascending or descending labels, packed or not, with missing values or without."""
    calendar = rng.choice(["standard", "proleptic_gregorian", "noleap", "360_day", "julian", "all_leap"])
    n, lats, lons = int(rng.integers(3, 30)), int(rng.integers(1, 6)), int(rng.integers(1, 5))
    time = xr.date_range("1999-11-05", periods=int(n), freq=f"{rng.integers(1, 40)}D", calendar=str(calendar), use_cftime=True)
    lat = np.sort(rng.choice(np.arange(-80, 81, 5), lats, replace=False)).astype(float)
    lat = lat[::-1] if rng.random() < 0.5 else rng.permutation(lat) if rng.random() < 0.2 else lat
    values = rng.standard_normal((n, lats, lons)).round(2)
    if rng.random() < 0.5:
        values[rng.random(values.shape) < 0.1] = np.nan
    data = xr.Dataset(
        {"t": (("time", "lat", "lon"), values, {"units": "K"}), "w": ("lat", rng.random(lats).round(3))},
        coords={
            "time": time,
            "lat": ("lat", lat, {"units": "degrees_north"}),
            "lon": np.arange(lons) * 30.0,
            "name": ("lat", [f"place {i}" for i in range(lats)]),
            "depth": ((), float(rng.integers(100))),
            "area": (("lat", "lon"), rng.random((lats, lons))),
        },
    )
    encoding = {"t": {"chunks": (max(1, n // 3), lats, lons)}}
    if rng.random() < 0.4:
        encoding["t"] |= {"dtype": "int16", "scale_factor": 0.01, "add_offset": float(rng.integers(-3, 3)), "_FillValue": -32768}
    data.to_zarr(folder, zarr_format=int(rng.choice([2, 3])), encoding=encoding)
    return xr.open_zarr(folder, chunks=None, decode_times=CODER)


def bounds(rng, n):
    a, b = sorted(rng.choice(n + 1, 2, replace=False)) if n > 0 else (0, 0)
    return int(a), int(b)


def quoted(label):
    return f'"{label.strftime("%Y-%m-%d")}"'


def step(rng, text, x, data):
    """One more operation: the text and what xarray makes of it. None where it does not apply."""
    dims = list(x.dims)
    dim = str(rng.choice(dims)) if dims else None
    n = x.sizes[dim] if dim else 0
    axis = dims.index(dim) if dim else 0
    at = lambda item: "[" + ", ".join([":"] * axis + [item]) + "]"  # noqa: E731
    kind = rng.integers(25)
    if kind == 0 and n > 1:
        (a, b), s = bounds(rng, n), int(rng.integers(1, 3))
        return f"{text}{at(f'{a}:{b}:{s}')}", x.isel({dim: slice(a, b, s)})
    if kind == 1 and dim:
        return f"{text}{at('::-1')}", x.isel({dim: slice(None, None, -1)})
    if kind == 2 and n > 1:
        i = int(rng.integers(-n, n))
        return f"isel({text}, {dim}={i})", x.isel({dim: i})
    if kind == 3 and dim:
        list_ = [int(i) for i in rng.integers(0, n, 3)]
        return f"isel({text}, {dim}={list_})", x.isel({dim: list_})
    if kind in (4, 5) and dim in ("lat", "lon") and dim in x.indexes and x.indexes[dim].is_unique and n > 1:
        label = float(rng.choice(x[dim].values))
        if kind == 4:
            return f"{text}[{dim}={label}]", x.sel({dim: label})
        index = x.indexes[dim]
        if not (index.is_monotonic_increasing or index.is_monotonic_decreasing):
            return None
        a, b = sorted([label, float(rng.choice(x[dim].values))])
        return f"{text}[{dim}={a}:{b}]", x.sel({dim: slice(a, b) if index.is_monotonic_increasing else slice(b, a)})
    if kind == 6 and dim in ("lat", "lon") and dim in x.indexes and x.indexes[dim].is_unique and n > 1:
        if not (x.indexes[dim].is_monotonic_increasing or x.indexes[dim].is_monotonic_decreasing):
            return None
        near = float(rng.choice(x[dim].values)) + 0.5
        return f"{text}[{dim}=nearest({near})]", x.sel({dim: near}, method="nearest")
    if kind in (7, 8) and dim == "time" and "time" in x.indexes and x.indexes["time"].is_unique and x.indexes["time"].is_monotonic_increasing and n > 1:
        a, b = bounds(rng, n - 1) if n > 2 else (0, 1)
        first, last = x.time.values[a], x.time.values[b]
        if kind == 7:
            return f"{text}[time={quoted(first)}:{quoted(last)}]", x.sel(time=slice(first, last))
        return f'{text}[time="{first.strftime("%Y-%m")}"]', x.sel(time=first.strftime("%Y-%m"))
    if kind in (9, 10) and dim:
        f = str(rng.choice(["mean", "sum", "max", "min", "std"]))
        return f'{f}({text}, dim="{dim}")', getattr(x, f)(dim, keep_attrs=True)
    if kind == 11:
        return f"({text} * 2 + 1)", x * 2 + 1
    if kind == 12 and dim:
        return f'({text} - mean({text}, dim="{dim}"))', x - x.mean(dim)
    if kind == 13 and "lat" in dims and x.sizes["lat"] == data.sizes["lat"] and np.array_equal(x.lat.values, data.lat.values):
        return f"({text} * w)", x * data.w
    if kind == 14 and dim == "time" and "time" in x.indexes and n > 1:
        part = str(rng.choice(["month", "year", "season", "dayofyear"]))
        g = x.groupby(f"time.{part}").mean()
        if part == "season":
            g = g.sel(season=[s for s in ["DJF", "MAM", "JJA", "SON"] if s in g.season.values])
        return f'groupby_mean({text}, "time.{part}")', g
    if kind == 15 and n > 2:
        return f"diff({text}, axis={axis})", x.diff(dim)
    if kind == 16 and len(dims) > 1:
        order = [int(i) for i in rng.permutation(len(dims))]
        return f"permute_dims({text}, {order})", x.transpose(*[dims[i] for i in order])
    if kind == 17 and n > 3:
        return f"concat([{text}{at(':2')}, {text}{at('3:')}], axis={axis})", xr.concat([x.isel({dim: slice(2)}), x.isel({dim: slice(3, None)})], dim)
    if kind == 18:
        return f"where({text} > 0, {text}, nan)", x.where(x > 0)
    if kind == 19 and dim:
        f = str(rng.choice(["mean", "sum", "max", "std"]))
        return f'{f}({text}, dim="{dim}", keepdims=True)', getattr(x, f)(dim, keepdims=True, keep_attrs=True)
    if kind == 20:
        name = str(rng.choice(["member", *(c for c in x.coords if x[c].ndim == 0)]))
        if name in dims:
            return None
        at_ = int(rng.integers(len(dims) + 1))
        return f'expand_dims({text}, axis={at_}, dim="{name}")', x.expand_dims(name, axis=at_)
    if kind == 21 and "member" not in dims:
        return f'stack([{text}, {text} * 2], dim="member")', xr.concat([x, x * 2], "member")
    if kind == 22 and dim and n > 0 and not x.isnull().all(dim).any():
        f = str(rng.choice(["argmin", "argmax"]))
        return f'nan{f}({text}, dim="{dim}")', getattr(x, f)(dim)
    if kind in (23, 24) and dim == "time" and "time" in x.indexes and n > 1 and x.indexes["time"].is_monotonic_increasing:
        f = str(rng.choice(["mean", "sum", "max", "count"]))
        period, pandas = [("1M", "1MS"), ("1Y", "1YS")][int(rng.integers(2))]
        return f'resample_{f}({text}, time="{period}")', getattr(x.resample(time=pandas), f)()
    return None


def program(rng, data):
    text, x = "t", data.t
    for _ in range(int(rng.integers(1, 5))):
        made = step(rng, text, x, data)
        if made and made[1].size:
            text, x = made
    return text, x


def kind(values):
    """Of what kind labels are. Texts have three dtypes in xarray: of one length, of any, and objects."""
    return "text" if values.size and isinstance(values.flat[0], str) else values.dtype.kind


def compare(found, wanted):
    wanted = wanted.transpose(*found.dims)
    np.testing.assert_allclose(found.values, wanted.values, rtol=1e-6, atol=1e-9)
    assert found.dtype == wanted.dtype, f"{found.dtype}, not {wanted.dtype}"
    # Of units nothing is said, or what is true.
    assert found.attrs.get("units") in (None, "K")
    assert set(found.coords) == set(wanted.coords), f"coordinates {sorted(found.coords)}, not {sorted(wanted.coords)}"
    for name in wanted.coords:
        assert set(found[name].dims) == set(wanted[name].dims), name
        np.testing.assert_array_equal(found[name].values, wanted[name].transpose(*found[name].dims).values, err_msg=name)
        kinds = [kind(a) for a in (found[name].values, wanted[name].values)]
        assert kinds[0] == kinds[1], f"{name}: {found[name].dtype}, not {wanted[name].dtype}"
        if "units" in wanted[name].attrs:
            assert found[name].attrs.get("units") == wanted[name].attrs["units"], name


@pytest.mark.parametrize("batch", range(-(-PROGRAMS // BATCH)))
def test_random_programs(tmp_path, batch):
    seed = FIRST + batch
    rng = np.random.default_rng(seed)
    data = source(rng, tmp_path / "in.zarr")
    programs = [program(rng, data) for _ in range(BATCH)]
    outputs = {f"out/{i}.zarr/y": text for i, (text, _) in enumerate(programs)}
    path = write_pipeline(tmp_path, {"t": "in.zarr/t", "w": "in.zarr/w"}, {}, outputs)
    chunkwise("run", path, "--allowed-mem", "500MB").ok()
    for i, (text, wanted) in enumerate(programs):
        found = xr.open_zarr(tmp_path / f"out/{i}.zarr", chunks=None, decode_times=CODER, consolidated=True).y
        try:
            compare(found, wanted)
        except AssertionError as e:
            raise AssertionError(f"seed {seed}, program {i}: {text}\n{e}") from None
