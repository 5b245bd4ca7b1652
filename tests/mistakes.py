"""Mistakes of new users, each with what must be in the message.

`tests/e2e/test_mistakes.py` checks them, `python tests/mistakes.py` writes docs/mistakes.md.
"""

import pathlib
import sys
import tempfile
from dataclasses import dataclass, field

import numpy as np
import xarray as xr
from harness import binary, chunkwise

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "mistakes.md"
NO_CREDENTIALS = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": "/nonexistent"} | dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"), "")


@dataclass
class Mistake:
    """A pipeline with one thing wrong. `words` must be in the message; `fix` is the page's advice."""

    title: str
    words: list
    fix: str
    code: int = 2
    expr: str = "ds.pr + 1"
    source: str = "weather.zarr"
    outputs: str = "  out.zarr/y: y\n"
    memory: str = "500MB"
    file: str = ""
    args: list = field(default_factory=list)
    env: dict = field(default_factory=dict)
    twice: bool = False

    def text(self):
        pieces = f"inputs:\n  ds: {self.source}\narrays:\n  y: {self.expr}\noutputs:\n{self.outputs}"
        return self.file or pieces + f"spec: {{allowed_mem: {self.memory}, work_dir: work}}\n"

    def run(self, folder):
        (folder / "p.yaml").write_text(self.text())
        if self.twice:
            chunkwise("run", "p.yaml", cwd=folder).ok()
        return chunkwise("run", "p.yaml", *self.args, cwd=folder, env=self.env)

    def command(self):
        return " ".join(["chunkwise run p.yaml", *map(str, self.args)])


MISTAKES = [
    Mistake("A misspelt variable", ["'prr'", "air temp", "'pr'", "p.yaml:4:6"], "Write `ds.pr`.", expr="ds.prr + 1"),
    Mistake(
        "A misspelt function",
        ["'men'", "'mean'", "p.yaml:4:6"],
        "Write `mean`; `chunkwise functions` lists them all.",
        expr='men(ds.pr, dim="time")',
    ),
    Mistake("A misspelt dimension", ["'tiem'", "time, lat, lon", "'time'"], 'Write `dim="time"`.', expr='mean(ds.pr, dim="tiem")'),
    Mistake("A misspelt unit", ["500XB", "500MB", "p.yaml:7:21"], "Write `500MB`.", memory="500XB"),
    Mistake(
        "A misspelt file",
        ["wether.zarr", "check the path", "p.yaml:2:7", "did you mean 'weather.zarr'"],
        "Write `weather.zarr`. Paths are relative to the pipeline file.",
        source="wether.zarr",
    ),
    Mistake(
        "An array that is not indented",
        ["'y'", "known keys", "arrays", "p.yaml:4:1"],
        "Put two spaces before `y`, so that it is in `arrays`.",
        file="inputs:\n  ds: weather.zarr\narrays:\ny: ds.pr + 1\noutputs:\n  out.zarr/y: y\n",
    ),
    Mistake("A missing quote", ["not closed", 'closing "', "p.yaml:4"], 'Write `ds["air temp"]`.', expr='ds["air temp] + 1'),
    Mistake(
        "An axis that does not exist",
        ["axis 3", "3 axes", "p.yaml:4:23"],
        'Axes count from 0; or name the dimension: `dim="lon"`.',
        expr="mean(ds.pr, axis=3)",
    ),
    Mistake(
        "Two grids that differ",
        ["'lat'", "index 0", "85", "-5", "join: inner"],
        "Select the same latitudes of both, or set `join` under `spec`.",
        expr="ds.pr[lat=0:90] - ds.pr[lat=-90:0]",
    ),
    Mistake("An output that exists", ["out.zarr/y", "--overwrite", "--resume"], "Run with `--overwrite`, or write elsewhere.", twice=True),
    Mistake(
        "An output that is the input",
        ["weather.zarr/pr", "the input", "another place"],
        "Choose another store for the output.",
        outputs="  weather.zarr/pr: y\n",
    ),
    Mistake("Too little memory", ["68.0 MB", "at least 70 MB"], "Allow as much as the message says, or more.", memory="68MB"),
    Mistake("A NetCDF file as input", ["NetCDF", "xarray.open_dataset", "to_zarr"], "Convert it once, as the message says.", source="rain.nc"),
    Mistake("A folder that is not a store", ["zarr.json", "holds notes.txt"], "Name the Zarr store.", source="folder"),
    Mistake(
        "A date in another order",
        ["06/15/2000", "2019-06-15", "'time'"],
        'Write year, month, day: `ds.pr[time="2000-06-15"]`.',
        expr='ds.pr[time="06/15/2000"]',
    ),
    Mistake(
        "A date without quotes",
        ["'time'", "holds times", '"2000-01-01"', "isel"],
        'Write `ds.pr[time="2000-06"]`: `2000-06` is a subtraction.',
        expr="ds.pr[time=2000-06]",
    ),
    Mistake("An index that is out of range", ["5000", "axis 0", "length 400"], "Indices go from 0 to 399, or from -400 to -1.", expr="ds.pr[5000]"),
    Mistake("A label that does not exist", ["12.3", "from 85 to -85", "nearest(12.3)"], "Write `ds.pr[lat=nearest(12.3)]`.", expr="ds.pr[lat=12.3]"),
    Mistake(
        "A number that the dtype does not hold",
        ["300", "int8", "-128 to 127", "astype"],
        'Write `astype(..., "int16")`.',
        expr='astype(ds.pr > 1, "int8") - 300',
    ),
    Mistake(
        "A negative chunk length",
        ["positive", "-1 for the whole", "p.yaml:6"],
        "Write a positive number, or -1 for the whole dimension.",
        outputs="  out.zarr/y: {array: y, chunks: {time: -5}}\n",
    ),
    Mistake(
        "A chunk length of zero",
        ["positive", "-1 for the whole", "p.yaml:6"],
        "Write a positive number, or -1 for the whole dimension.",
        outputs="  out.zarr/y: {array: y, chunks: {time: 0}}\n",
    ),
    Mistake(
        "A misspelt key of an output",
        ["'chunk'", "'chunks'"],
        "Write `chunks`.",
        outputs="  out.zarr/y: {array: y, chunk: {time: 10}}\n",
    ),
    Mistake(
        "A variable without its group",
        ["'pr'", "not an input, array or parameter", "ds.pr"],
        "Write `ds.pr`; or make it an input: `pr: weather.zarr/pr`.",
        file="inputs:\n  ds: weather.zarr\narrays:\n  speed: pr + 1\noutputs:\n  out.zarr/speed: speed\n",
    ),
    Mistake(
        "A division of numbers by zero",
        ["division by zero", "inf or nan", "p.yaml:4"],
        "Write `inf`. For arrays, the result is infinite or NaN.",
        expr="ds.pr * (1 / 0)",
    ),
    Mistake(
        "Two outputs of one name",
        ["out.zarr/y", "twice", "first given here"],
        "Name them differently.",
        outputs="  out.zarr/y: y\n  out.zarr/y: ds.u\n",
    ),
    Mistake(
        "Two lengths in one group",
        ["out.zarr/a", "out.zarr/b", "'time'", "400", "10", "another group", "dims"],
        "Write one of them into another store.",
        outputs="  out.zarr/a: y\n  out.zarr/b: y[:10]\n",
    ),
    Mistake(
        "Arrays that depend on each other",
        ["depend on each other", "a → b → a"],
        "Break the circle: one of them must come from an input.",
        file="inputs:\n  ds: weather.zarr\narrays:\n  a: b + 1\n  b: a + 1\noutputs:\n  out.zarr/a: a\n",
    ),
    Mistake(
        "An option that does not exist",
        ["--overwite", "--overwrite"],
        "Write `--overwrite`; `chunkwise run --help` lists the options.",
        args=["--overwite"],
    ),
    Mistake(
        "Two dimensions that are not in a list",
        ["'keepdims'", "a list", 'dim=["lat", "lon"]', "p.yaml:4:"],
        'Write `dim=["time", "lat"]`.',
        expr='mean(ds.pr, "time", "lat")',
    ),
    Mistake(
        "A misspelt argument",
        ["'dims'", "'dim'", "mean(x, dim=None"],
        "Write `dim`; `chunkwise functions mean` shows how to call the function.",
        expr='mean(ds.pr, dims="time")',
    ),
    Mistake(
        "A dtype of Python",
        ["'float'", '"float64"', "float32"],
        'Write `"float32"` or `"float64"`.',
        expr='astype(ds.pr, "float")',
    ),
    Mistake(
        "Conditions without parentheses",
        ["bitwise_and", "float64", "(a > 0) & (b > 0)"],
        "Write `ds.pr & (ds.u > 2)` between conditions.",
        expr="ds.pr & ds.u > 2",
    ),
    Mistake("A power with ^", ["bitwise_xor", "x ** 2"], "Write `ds.pr ** 2`.", expr="ds.pr ^ 2"),
    Mistake("A sum of times", ["sum()", "no meaning", "days since", "differences"], "Subtract a time first: `sum(ds.time - ds.time[0])`.", expr="sum(ds.time)"),
    Mistake(
        "Periods of times in reverse",
        ["'time' does not ascend", "isel(x, time=::-1)"],
        "Reverse the array first.",
        expr='resample_mean(ds.pr[::-1], time="1M")',
    ),
    Mistake(
        "A name with a space",
        ["'temp'", 'ds["air temp"]', "p.yaml:4:13"],
        'Write `ds["air temp"]`.',
        expr="ds.air temp",
    ),
    Mistake(
        "A key by another name",
        ["'attrs'", "'attributes'"],
        "Write `attributes`.",
        outputs="  out.zarr/y: {array: y, attrs: {units: K}}\n",
    ),
    Mistake(
        "Shards that cut chunks",
        ["7", "no multiple", "5", "p.yaml:6:", "write 5"],
        "A shard holds whole chunks.",
        outputs="  out.zarr/y: {array: y, chunks: [5, 5, 5], shards: [7, 7, 7]}\n",
    ),
    Mistake(
        "A pipeline without outputs",
        ["no outputs", "out.zarr/mean: mean(x)", "p.yaml:4"],
        "Name at least one output.",
        file="inputs:\n  ds: weather.zarr\narrays:\n  y: ds.pr + 1\n",
    ),
    Mistake(
        "A bucket without credentials",
        ["s3://my-bucket/weather.zarr", "no AWS credentials", "AWS_ACCESS_KEY_ID", "anonymous"],
        "Set the credentials; [storage.md](storage.md) says how.",
        source="s3://my-bucket/weather.zarr",
        env=NO_CREDENTIALS,
    ),
]


def write_data(folder):
    """A store as scientists have them, and files that are no stores."""
    rng = np.random.default_rng(0)
    cells, shape = ("time", "lat", "lon"), (400, 18, 24)
    data = xr.Dataset(
        {
            "air temp": (cells, rng.normal(280, 9, shape).astype("float32"), {"units": "K"}),
            "u": (cells, rng.normal(0, 5, shape).round(2), {"units": "m s-1"}),
            "pr": (cells, rng.gamma(0.4, 8, shape).astype("float32"), {"units": "mm day-1"}),
        },
        coords={"time": xr.date_range("2000-01-01", periods=400), "lat": 85.0 - 10 * np.arange(18), "lon": 15.0 * np.arange(24)},
    )
    data.to_zarr(folder / "weather.zarr", zarr_format=3, encoding={"u": {"dtype": "int16", "scale_factor": 0.01, "_FillValue": -32768}})
    (folder / "rain.nc").write_bytes(b"CDF\x01" + bytes(60))
    (folder / "folder").mkdir()
    (folder / "folder/notes.txt").write_text("no data")


def printed(folder, done):
    """What was printed, wherever it ran."""
    lines = (done.stdout + done.stderr).replace(str(folder), "/data").replace(pathlib.Path(binary()).name + " ", "chunkwise ")
    return "\n".join(line.rstrip() for line in lines.strip("\n").splitlines())


def page(outputs):
    """The page, of the mistakes and what each printed."""
    parts = [
        "# Mistakes, and what is printed\n",
        "Written by `python tests/mistakes.py`: do not edit; `tests/e2e/test_mistakes.py` compares it with the output of the command.",
        "The pipelines read `weather.zarr` in `/data`, with the variables `air temp`, `u` and `pr` of 400 days on 18 latitudes from",
        "north to south and 24 longitudes. Each of them is refused before anything is computed or written. The exit code is 2:",
        "nothing was done. Below each message is the fix.\n",
    ]
    for number, (mistake, output) in enumerate(zip(MISTAKES, outputs, strict=True), 1):
        code = "" if mistake.code == 2 else f" (exit code {mistake.code})"
        parts.append(f"## {number}. {mistake.title}{code}\n\n```console\n$ {mistake.command()}\n{output}\n```\n\n{mistake.fix}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        base = pathlib.Path(name).resolve()
        outputs = []
        for i, mistake in enumerate(MISTAKES):
            folder = base / str(i)
            folder.mkdir()
            write_data(folder)
            outputs.append(printed(folder, mistake.run(folder)))
    PAGE.write_text(page(outputs))
    sys.stdout.write(f"wrote {PAGE}\n")
