"""How functions are called: what is printed is what is accepted. Names of arguments, their order, and defaults."""

import json
import re

import numpy as np
import pytest
import xarray as xr
import zarr
from harness import chunkwise, write_array, write_pipeline

pytestmark = pytest.mark.filterwarnings("ignore")

# What is given for the arguments without a default, and for some functions something else.
GIVEN = {
    "x": "t", "y": "t", "z": "t", "condition": "t > 0", "shape": "[2, 3]", "value": "1", "start": "1", "stop": "5", "n": "3", "dtype": '"float32"',
    "arrays": "[t, t]", "by": '"time.month"', "weights": "[1, 2]", "widths": "[[1, 1], [0, 2]]", "indices": "[1, 0]", "shift": "1", "repeats": "2",
    "repetitions": "[2, 1]", "subscripts": '"ij,ij->j"', "window": "3", "time": "3", "lat": "0",
}  # fmt: skip
SPECIAL = {
    "broadcast_to": {"shape": "[2, 6, 2]"},
    "isel": {"time": "0"},
    "lookup": {"x": 'groupby_mean(t, "time.month")'},
    "matmul": {"y": "m"},
    "convolve": {"x": "v"},
    "stencil": {"x": "v"},
    "moving": {"x": "v"},
    "outer": {"x": "v", "y": "v"},
    "reshape": {"shape": "[3, -1]"},
    "resample": {"time": '"1M"'},
    "rechunk": {"time": "-1", "lat": "1"},
    "sel": {"time": '"2020-01"', "lat": "10.0"},
    "squeeze": {"x": "t[lat=[10.0]]"},
    "concat": {"arrays": "[v, v]"},
    "qr_q": {"x": "q"},
    "qr_r": {"x": "q"},
    "take": {"indices": "[1, 0]"},
    "roll": {"x": "v"},
    "cumulative": {"x": "v"},
    "ffill": {"x": "v"},
    "bfill": {"x": "v"},
    "take_along_axis": {"x": "i", "indices": "i % 4"},
    "bitwise": {"x": "i", "y": "i"},
}
# Defaults that stand for "what is right for the array", or whose place is taken by the way that it is called here.
NOT_GIVEN = {("lookup", "like"), ("lookup", "axis"), ("groupby", "axis")}


def signatures():
    document = json.loads(chunkwise("functions", "--json").ok().stdout)
    names = [f["name"] for f in document["functions"]] + document["elementwise"]
    out = []
    for name in names:
        text = json.loads(chunkwise("functions", name, "--json").ok().stdout)["signature"]
        text = re.sub(r", such as .*", "", text)
        out += [(name, one) for one in text.split(" or ")]
    return out


def arguments(text):
    """The printed arguments: (name, default or None)."""
    inside = text[text.index("(") + 1 : -1]
    parts = [p.partition("=") for p in inside.split(", ") if p != "..."]
    return [(n, d if eq else None) for n, eq, d in parts]


def given(name, argument):
    key = name if name in SPECIAL else name.split("_")[0]
    return SPECIAL.get(key, {}).get(argument) or GIVEN[argument]


def calls(name, text):
    """The plain call, and the same with everything by name and, where that is possible, everything by position."""
    found = arguments(text)
    # A dimension that stands for any is no default.
    dims = {n for n, _ in found if n in ("time", "lat") and name.split("_")[0] in ("isel", "sel", "rechunk", "resample", "moving")}
    # Those that name a dimension need an array with names, here and only here.
    needed = [(n, "t" if name.startswith("moving") and dims and n == "x" else given(name, n)) for n, d in found if d is None or n in dims]
    more = [(n, d) for n, d in found if d is not None and n not in dims and not {(name, n), (name.split("_")[0], n)} & NOT_GIVEN]
    written = [f"{n}={v}" if n in dims else v for n, v in needed]
    plain = f"{name}({', '.join(written)})"
    by_name = [v if name == "einsum" else f"{n}={v}" for n, v in needed] + [f"{n}={d}" for n, d in more]
    out = [plain, f"{name}({', '.join(by_name)})"]
    if not dims and not any((name.split("_")[0], n) in NOT_GIVEN for n, _ in found):
        out.append(f"{name}({', '.join(written + [d for _, d in more])})")
    return out


def test_what_is_printed_is_accepted(tmp_path):
    days = xr.date_range("2020-01-01", periods=6, freq="16D")
    rng = np.random.default_rng(0)
    xr.Dataset(
        {"t": (("time", "lat"), rng.random((6, 2)).round(2) + 0.25)}, coords={"time": days, "lat": [10.0, 20.0]}
    ).to_zarr(tmp_path / "ds.zarr", zarr_format=3)
    write_array(tmp_path / "v", np.arange(1.0, 8))
    write_array(tmp_path / "i", np.arange(1, 8))
    write_array(tmp_path / "m", rng.random((2, 3)))
    write_array(tmp_path / "q", rng.random((4, 2)))
    inputs = {"t": "ds.zarr/t"} | {n: n for n in "vimq"}
    outputs, groups = {}, []
    for k, (name, text) in enumerate(signatures()):
        made = calls(name, text)
        groups.append((made, [f"out/{k}_{j}.zarr/y" for j in range(len(made))]))
        outputs |= dict(zip(groups[-1][1], made, strict=True))
    chunkwise("run", write_pipeline(tmp_path, inputs, {}, outputs), "--allowed-mem", "500MB").ok()
    for made, places in groups:
        first, *others = [np.asarray(zarr.open_array(str(tmp_path / p), mode="r")[...]) for p in places]
        for expression, found in zip(made[1:], others, strict=True):
            assert found.dtype == first.dtype, f"{expression} is not {made[0]}"
            np.testing.assert_array_equal(found, first, err_msg=f"{expression} is not {made[0]}")


WRONG = [
    ('mean(x, dims="time")', ["'dims'", "did you mean 'dim'", "mean(x, dim=None"]),
    ("mean(x, keepdim=True)", ["'keepdim'", "did you mean 'keepdims'"]),
    ("mean(x, 0, axis=1)", ["'dim' twice", "mean(x, dim=None"]),
    ("mean(x, 0, True, None, 5)", ["too many arguments", "mean(x, dim=None"]),
    ("where(x > 0, x)", ["where", "3 arguments", "where(condition, x, y)"]),
    ("sqrt(x, x)", ["sqrt", "1 argument", "not 2"]),
    ("eye()", ["'n'", "eye(n, m=None"]),
    ("linspace(5)", ["where to start", "linspace(start, stop"]),
    ("groupby_count(x, [0, 1], skipna=False)", ["'skipna'", "groupby_count(x, by"]),
    ("roll(x, 1, axis=None)", ["roll", "axis"]),
    ("clip()", ["'x'", "clip(x, low=None, high=None)"]),
]


@pytest.mark.parametrize("expression, words", WRONG, ids=[e for e, _ in WRONG])
def test_what_is_not_printed_is_refused(run, expression, words):
    run({"arrays": {"out": expression}}, {"x": np.ones((2, 3))}, check=False).failed(*words)


def test_degrees_of_freedom_have_two_names(check):
    from harness import Case

    x = np.random.default_rng(0).random((5, 4))
    check([Case(f"{f}(x, axis=0, ddof=1)", {"x": (x, (2, 3))}, expected=getattr(np, f)(x, axis=0, ddof=1), ulps=64, scale=64) for f in ("std", "var")])
