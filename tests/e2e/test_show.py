"""`chunkwise show`: the picture is of the right elements, in the right places, whatever the size of the array."""

import json
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
import zarr
from harness import binary, chunkwise, values, write_array
from PIL import Image

PEAK = pathlib.Path(__file__).resolve().parent.parent / "peak.py"
MISSING = (214, 208, 198)


def write(folder, x, chunks=None, dims=None, attributes=None, **coordinates):
    write_array(folder / "s.zarr/x", x, chunks, dims, attributes)
    for name, (v, units) in coordinates.items():
        write_array(folder / f"s.zarr/{name}", np.asarray(v), None, [name], {"units": units})
    return folder / "s.zarr/x"


def picture(folder, url, *args):
    chunkwise("show", url, "-o", folder / "p.png", *args).ok()
    with Image.open(folder / "p.png") as image:
        image.verify()
    return np.asarray(Image.open(folder / "p.png").convert("RGB")).astype(int)


def cells(pixels, shape):
    """The colours of the cells of a map of which the first and the last element are missing."""
    y, x = np.nonzero((pixels == MISSING).all(axis=2))
    top, left, height, width = y.min(), x.min(), y.max() + 1 - y.min(), x.max() + 1 - x.min()
    assert height % shape[0] == 0 and width % shape[1] == 0
    area = pixels[top : top + height, left : left + width]
    blocks = area.reshape(shape[0], height // shape[0], shape[1], width // shape[1], 3).transpose(0, 2, 1, 3, 4)
    assert (blocks == blocks[:, :, :1, :1]).all(), "each element is a box of one colour"
    return blocks[:, :, 0, 0]


def gradient(shape):
    x = np.arange(np.prod(shape), dtype="float64").reshape(shape)
    x.flat[0] = x.flat[-1] = np.nan
    return x


@pytest.mark.parametrize("chunks", [(4, 6), (3, 4), (1, 1)])
def test_every_element_is_where_it_belongs(tmp_path, chunks):
    x = gradient((4, 6))
    shown = cells(picture(tmp_path, write(tmp_path, x, chunks), "--colors", "greys"), x.shape)
    brightness = shown.sum(axis=2)[~np.isnan(x)]
    assert (np.diff(brightness) > 0).all() or (np.diff(brightness) < 0).all()


def test_a_range_is_a_scale(tmp_path):
    x = np.array([[np.nan, 0, 5], [10, 20, np.nan]])
    url = write(tmp_path, x)
    shown = cells(picture(tmp_path, url, "--colors", "greys", "--range", "0:10"), x.shape)
    assert (shown[1, 0] == shown[1, 1]).all(), "what lies beyond the range has the colour of its end"
    assert (shown[0, 1] != shown[0, 2]).any()
    blue_red = cells(picture(tmp_path, write(tmp_path / "b", x - 8)), x.shape)
    assert blue_red[0, 1, 2] > blue_red[0, 1, 0] and blue_red[1, 1, 0] > blue_red[1, 1, 2], "blue below zero, red above it"


def test_north_is_up(tmp_path):
    x = gradient((5, 6))
    north = write(tmp_path / "a", x, None, ["lat", "lon"], lat=(np.linspace(-60, 60, 5), "degrees_north"), lon=(np.arange(6) * 60.0, "degrees_east"))
    south = write(tmp_path / "b", x[::-1], None, ["lat", "lon"], lat=(np.linspace(60, -60, 5), "degrees_north"))
    plain = write(tmp_path / "c", x[::-1], None, ["y", "x"])
    shown = [picture(tmp_path, url) for url in (north, south, plain)]

    def only(pixels):  # the missing elements are now in the other two corners
        return cells(pixels, (5, 6))

    np.testing.assert_array_equal(only(shown[0]), only(shown[1]))
    np.testing.assert_array_equal(only(shown[0]), only(shown[2]))


def test_selection(tmp_path):
    x = values(1, (3, 8, 9, 4), "float32")
    url = write(tmp_path, x, (2, 3, 4, 3), ["time", "level", "y", "x"])
    part = gradient((4, 5))
    x = np.zeros((3, 8, 9, 4))
    x[2, 1, 3:7, :] = 1
    x[2, 2:6, 4:9, 1] = part
    zarr.open_array(str(url))[...] = x
    one = picture(tmp_path, url, "--select", "time=-1", "--select", "level=2:6,y=4:", "--select", "x=1")
    brightness = cells(one, (4, 5)).sum(axis=2)
    np.testing.assert_array_equal(brightness[0, 1:], cells(picture(tmp_path, write(tmp_path / "b", part)), (4, 5)).sum(axis=2)[0, 1:])
    assert "= 7" in chunkwise("show", url, "--select", "time=2,level=3,y=6,x=1").ok().stdout


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "complex64"])
def test_dtypes(tmp_path, dtype):
    picture(tmp_path, write(tmp_path, values(1, (20, 30), dtype), (7, 7)))
    chunkwise("show", tmp_path / "s.zarr/x").ok()


def test_packed_values(tmp_path):
    x = np.array([[-9, 1, 2], [3, 4, -9]], "int16")
    url = write(tmp_path, x, attributes={"scale_factor": 0.5, "add_offset": 100, "_FillValue": -9})
    assert (cells(picture(tmp_path, url), x.shape)[0, 0] == MISSING).all()
    assert "least 100.5, greatest 102" in chunkwise("show", url).ok().stdout


def test_a_large_slice_is_thinned_out(tmp_path):
    x = np.add.outer(np.arange(3000.0), np.arange(2000.0) * 0.001).astype("float32")
    pixels = picture(tmp_path, write(tmp_path, x, (500, 700)), "--colors", "greys")
    assert pixels.shape[0] < 1000 and pixels.shape[1] < 1300
    inner = pixels[150:650, 150:400].sum(axis=2)
    assert (np.diff(inner, axis=0) <= 0).all() or (np.diff(inner, axis=0) >= 0).all()
    assert "means" in chunkwise("show", tmp_path / "s.zarr/x").ok().stdout


def test_an_enormous_slice_is_sampled_in_little_memory(tmp_path):
    zarr.create_array(str(tmp_path / "huge.zarr"), shape=(400_000, 300_000), chunks=(1000, 1000), dtype="float32", fill_value=3)
    command = [sys.executable, "-S", PEAK, tmp_path / "peak.json", binary(), "show", tmp_path / "huge.zarr", "-o", tmp_path / "p.png"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    assert json.loads((tmp_path / "peak.json").read_text())["peak"] < 200e6
    assert "samples" in chunkwise("show", tmp_path / "huge.zarr").ok().stdout


def test_a_line(tmp_path):
    x = np.sin(np.arange(500) / 20)
    x[100:120] = np.nan
    url = write(tmp_path, x, (64,), ["time"], {"units": "K"}, time=(np.arange(500.0), "days since 2001-01-01"))
    pixels = picture(tmp_path, url)
    blue = (pixels[:, :, 2] > pixels[:, :, 0] + 60).any(axis=0)
    inside = np.nonzero(blue)[0]
    gap = np.diff(inside).max()
    width = inside[-1] - inside[0]
    assert abs(gap - width * 21 / 500) < 8, "missing values are a gap"
    text = chunkwise("show", url).ok().stdout
    assert "[K]" in text and "2001-01-01" in text and "2002-05-15" in text and "*" in text
    # Long lines show their extremes, though they are means.
    x = np.zeros(1_000_000, "float32")
    x[777_777] = 100
    assert "greatest 100" in chunkwise("show", write(tmp_path / "b", x, (10_000,))).ok().stdout


def test_terminal(tmp_path):
    url = write(tmp_path, gradient((40, 100)), (7, 30), ["y", "x"])
    plain = chunkwise("show", url).ok().stdout
    assert plain.isascii() and max(map(len, plain.splitlines())) <= 80 and len(plain.splitlines()) <= 24
    assert "@" in plain and "." in plain
    coloured = chunkwise("show", url, env={"NO_COLOR": "", "CLICOLOR_FORCE": "1"}).ok().stdout
    assert "\x1b[38;2;" in coloured and "▀" in coloured


def test_nothing_but_missing_values(tmp_path):
    url = write(tmp_path, np.full((4, 5), np.nan))
    assert (cells(picture(tmp_path, url), (4, 5)) == MISSING).all()
    assert "no values" in chunkwise("show", url).ok().stdout
    url = write(tmp_path / "b", np.full(9, np.nan))
    picture(tmp_path, url)
    chunkwise("show", url).ok()


@pytest.mark.parametrize("args, named", [
    (["--select", "tme=0"], ["tme", "time (3)"]),
    (["--select", "time"], ["time", "DIM=INDEX"]),
    (["--select", "time=3"], ["3", "time", "bounds"]),
    (["--select", "time=-4"], ["-4", "time"]),
    (["--select", "time=x"], ["'x'", "time"]),
    (["--select", "time=99999999999999999999999999999999999999999999"], ["time"]),
    (["--select", "y=3:3"], ["y=3:3", "nothing"]),
    (["--select", "y=0:8:2"], ["step"]),
    (["--select", "time=0,time=1"], ["time", "twice"]),
    ([], ["--select time=0", "y (8)"]),
    (["--select", "time=0", "--range", "3"], ["'3'", "LOW:HIGH"]),
    (["--select", "time=0", "--range", "3:1"], ["3:1"]),
    (["--select", "time=0", "--colors", "jet"], ["jet", "viridis"]),
    (["--select", "time=0,y=0,x=0", "-o", "p.png"], ["single"]),
    (["--select", "time=0", "-o", "nowhere/p.png"], ["nowhere/p.png"]),
])  # fmt: skip
def test_bad_arguments(tmp_path, args, named):
    url = write(tmp_path, values(1, (3, 8, 9), "float32"), None, ["time", "y", "x"])
    chunkwise("show", url, *args, cwd=tmp_path).failed(*named)


def test_bad_arrays(tmp_path):
    chunkwise("show", tmp_path / "nowhere.zarr").failed("nowhere.zarr")
    write(tmp_path, values(1, (3, 4), "float32"))
    zarr.open_group(str(tmp_path / "s.zarr"), mode="a")
    chunkwise("show", tmp_path / "s.zarr").failed("s.zarr", "group")
    (tmp_path / "s.zarr/x/c/0/0").write_bytes(b"torn")
    chunkwise("show", tmp_path / "s.zarr/x").failed("s.zarr/x", "c/0/0")
    chunkwise("show", write(tmp_path / "e", np.zeros((0, 4)))).failed("0")


# Labels


def test_dates_and_texts_are_shown_as_such(tmp_path):
    """In info, on axes, as values, and as a single value; with the calendar where it is not the usual one."""
    time = xr.date_range("2001-01-01", periods=60, freq="D", calendar="noleap", use_cftime=True)
    seasons = ["DJF", "MAM", "JJA", "SON"]
    x = np.arange(240.0).reshape(60, 4)
    data = xr.Dataset({"x": (("time", "season"), x), "last": ("season", time[[3, 9, 20, 59]])}, coords={"time": time, "season": seasons})
    data.to_zarr(tmp_path / "s.zarr", encoding={n: {"units": "days since 2000-01-01"} for n in ("time", "last")})
    text = chunkwise("info", tmp_path / "s.zarr").ok().stdout
    assert "labels from 2001-01-01 to 2001-03-01 (calendar noleap)" in text and 'labels "DJF", "MAM", "JJA", "SON"' in text
    told = {row["path"]: row for row in json.loads(chunkwise("info", tmp_path / "s.zarr", "--json").ok().stdout)}
    assert told["time"]["labels"] == {"first": "2001-01-01", "last": "2001-03-01", "calendar": "noleap"} and told["x"]["labels"] is None
    text = chunkwise("show", tmp_path / "s.zarr/x").ok().stdout
    assert all(t in text for t in ("time (noleap)", "2001-01-01", "2001-03-01", "DJF", "SON"))
    text = chunkwise("show", tmp_path / "s.zarr/last").ok().stdout
    assert "least 2001-01-04, greatest 2001-03-01" in text and "DJF" in text and "noleap" in text and "since" not in text
    assert chunkwise("show", tmp_path / "s.zarr/last", "--select", "season=1").ok().stdout == "last [noleap], season=1 (MAM) = 2001-01-10\n"
    told = json.loads(chunkwise("show", tmp_path / "s.zarr/last", "--select", "season=1", "--json").ok().stdout)
    assert told["date"] == "2001-01-10" and told["value"] == 374
    picture(tmp_path, tmp_path / "s.zarr/x")
    picture(tmp_path, tmp_path / "s.zarr/last")
