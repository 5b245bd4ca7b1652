"""Mistakes of new users: what is printed says what, where and what to do; the exit code is right; nothing is written or changed."""

import json
import os
import signal
import subprocess
import time

import numpy as np
import pytest
import xarray as xr
import zarr
from harness import TIMEOUT, binary, chunkwise, read_array, write_array
from mistakes import MISTAKES, PAGE, page, printed, write_data

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def printed_texts(tmp_path_factory):
    """What each mistake printed, by its title."""
    texts = {}

    def text(mistake):
        if mistake.title not in texts:
            folder = tmp_path_factory.mktemp("mistake")
            write_data(folder)
            before = contents(folder)
            done = mistake.run(folder)
            texts[mistake.title] = printed(folder, done), done, before, contents(folder)
        return texts[mistake.title]

    return text


def contents(folder):
    """Every file but those of the first run of a mistake that needs one, and of the work directory."""
    inside = (p for p in folder.rglob("*") if p.is_file() and p.relative_to(folder).parts[0] not in ("work", "p.yaml"))
    return {str(p.relative_to(folder)): p.read_bytes() for p in inside}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.title.replace(" ", "-"))
def test_a_mistake(printed_texts, mistake):
    text, done, before, after = printed_texts(mistake)
    done.failed(*mistake.words)
    assert done.code == mistake.code
    assert len(text.splitlines()) < 20
    if mistake.twice:
        after = {k: v for k, v in after.items() if not k.startswith("out.zarr")}
    assert after == before


def test_the_page_is_what_is_printed(printed_texts):
    """docs/mistakes.md is made from the same list."""
    outputs = [printed_texts(m)[0] for m in MISTAKES]
    assert PAGE.read_text() == page(outputs), "run: python tests/mistakes.py"


def test_an_output_that_exists_is_not_changed(tmp_path):
    write_data(tmp_path)
    mistake = next(m for m in MISTAKES if m.twice)
    mistake.run(tmp_path).failed("exists")
    before = contents(tmp_path)
    chunkwise("run", "p.yaml", cwd=tmp_path).failed("exists")
    assert contents(tmp_path) == before
    chunkwise("run", "p.yaml", "--overwrite", cwd=tmp_path).ok()


PLAIN = "inputs:\n  ds: weather.zarr\narrays:\n  y: {}\noutputs:\n  out.zarr/y: y\nspec: {{allowed_mem: 500MB, work_dir: work}}\n"


@pytest.mark.parametrize("expression, words", [
    ("(ds.pr > 1) and (ds.u > 2)", ["'and'", "use &", "parentheses"]),
    ("not ds.pr", ["'not'", "use ~"]),
    ("0 < ds.pr < 5", ["chained", "(a < b) & (b < c)"]),
    ("np.sqrt(ds.pr)", ["'np'", "no prefix"]),
    ("mean(ds.pr, dim=“time”)", ["“", "straight quotes"]),
    ("mean(ds.pr, dims=\"time\")", ["'dims'", "mean(x, dim=None"]),
    ("sqrt()", ["sqrt", "1 argument", "not 0"]),
    ("concat(ds.pr, ds.pr)", ["concat", "list of arrays"]),
    ("groupby_mean(ds.pr, \"time.moth\")", ["'moth'", "year, month, day"]),
    ("groupby_mean(ds.pr, \"lat.month\")", ["'lat'", "no times", "days since"]),
    ("resample_mean(ds.pr, time=\"monthly\")", ["'monthly'", "\"1M\""]),
    ("moving_mean(ds.pr, time=5000)", ["5000", "400"]),
    ("moving_mean(ds.pr, time=0)", ["window", "at least one"]),
    ("ds.pr[lon=-30]", ["-30", "'lon'", "from 0 to 345"]),
    ("ds.pr[time=\"2010-01\"]", ["2010-01", "from 2000-01-01 to 2001-02-03"]),
    ("ds.pr > \"warm\"", ["\"warm\"", "holds numbers"]),
    ("astype(ds.pr, \"float23\")", ["'float23'", "float32"]),
    ("ds.pr & 3", ["bitwise_and", "float32"]),
    ("mean(ds.pr, dim=time)", ["in quotes", 'dim="time"']),
    ("groupby_mean(ds.pr, time)", ["'time'", "in quotes"]),
    ("mean(ds.pr, dim=[\"time\", \"lev\"])", ["'lev'", "time, lat, lon"]),
    ("mean(ds.pr, DIM=\"time\")", ["'DIM'", "'dim'"]),
    ("mean(ds.pr, 0, axis=1)", ["'dim' twice"]),
    ("rechunk(ds.pr, 10)", ["too many arguments", "rechunk(x, time=-1"]),
    ("where(ds.pr > 0)", ["3 arguments", "not 1", "where(condition, x, y)"]),
    ("\"a\" ** 2", ["the text \"a\"", "a number is needed"]),
    ("ds.pr + \"1\"", ["the text \"1\"", "a number is needed"]),
    ("ds.pr[1.5]", ["integer", "1.5"]),
    ("isel(ds.pr, time=\"2000\")", ["indices", "sel(x, time=\"2000\")"]),
    ("ds.pr[time=\"2000-13\"]", ["2000-13", "not a date", "2019-06"]),
    ("ds.pr[time=\"2000/01/01\"]", ["2000/01/01", "not a date"]),
    ("ds.pr[time=\"2000-02\":\"2000-01\"]", ["ascending", "\"2000-01\":\"2000-02\""]),
    ("ds.pr > 1 && ds.u > 2", ["'&'", "one &", "parentheses"]),
    ("where(ds.pr = 1, 0, 1)", ["'='", "=="]),
    ("mean((ds.pr + 1", ["not closed", "add a ')'"]),
    ("ds.pr[0", ["not closed", "add a ']'"]),
    ("mean(ds.pr, dim=\"time)", ["not closed", "closing"]),
    ("[x for x in ds.pr]", ["'for'", "whole arrays"]),
    ("ds.pr.values", ["'values'", "leave it out"]),
    ("ds.pr.mean", ["'mean'", "write .mean("]),
    ("2 * ds.pr 3", ["a number", "operator is missing"]),
    ("print(ds.pr)", ["'print'", "chunkwise functions"]),
    ("median(ds.pr)", ["'median'", "not available"]),
    ("stack([ds.pr, ds.u[0]])", ["stack", "[400, 18, 24] and [18, 24]"]),
    ("lookup(ds.pr, \"time.month\")", ["'month'", "lookup(groupby_mean(x"]),
    ("groupby_mean(ds.pr, \"month\")", ["'month'", "time.month"]),
    ("moving_mean(ds.pr, 3)", ["1 length for 3 dimensions", "dim="]),
    ("convolve(ds.pr, [1, 2, 1])", ["1 length for 3 dimensions", "dim="]),
    ("concat([ds.pr, ds.pr], dim=\"member\")", ["'member'", "stack("]),
    ("zeros([2, 3], chunks=[1])", ["2 axes", "not 1"]),
    ("ds.pr[1:] - ds.pr[:-1]", ["'time'", "index 0", "2000-01-02", "2000-01-01", "join"]),
])  # fmt: skip
def test_a_mistake_in_an_expression(tmp_path_factory, weather, expression, words):
    folder = tmp_path_factory.mktemp("run")
    written = "'" + expression.replace("'", "''") + "'"
    (folder / "p.yaml").write_text(PLAIN.format(written).replace("weather.zarr", str(weather / "weather.zarr")))
    done = chunkwise("run", "p.yaml", cwd=folder).failed(*words, "p.yaml:4:")
    assert done.code == 2
    assert not (folder / "out.zarr").exists()


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weather")
    write_data(folder)
    return folder


WHOLE = PLAIN.format("ds.pr + 1")


@pytest.mark.parametrize("change, words", [
    (("inputs", "input"), ["'input'", "'inputs'", "p.yaml:1:1"]),
    (("outputs", "Outputs"), ["'Outputs'", "'outputs'"]),
    (("spec", "specs"), ["'specs'", "'spec'"]),
    (("allowed_mem", "memory"), ["'memory'", "'allowed_mem'"]),
    (("work_dir", "workdir"), ["'workdir'", "'work_dir'"]),
    (("ds: weather.zarr", "ds: {path: weather.zarr}"), ["'path'", "'url'", "p.yaml:2:"]),
    (("ds: weather.zarr", "ds:"), ["location of an input", "a path or a URL", "p.yaml:2:"]),
    (("ds: weather.zarr", "ds: weather.zarr/prr"), ["prr", "did you mean 'weather.zarr/pr'"]),
    (("ds: weather.zarr", "ds: s3:/x/y.zarr"), ["did you mean 's3://x/y.zarr'"]),
    (("  ds: weather", "\tds: weather"), ["tab", "spaces", "p.yaml:2:1"]),
    (("y: ds.pr + 1", "y = ds.pr + 1"), ["no colon", "y: ds.pr + 1"]),
    (("y: ds.pr + 1", "y:ds.pr + 1"), ["no space after the colon", "y: ds.pr + 1"]),
    (("y: ds.pr + 1", "y: - ds.pr"), ["minus", "in quotes", "'- ds.pr'"]),
    (("y: ds.pr + 1", "y: {expr: ds.pr}"), ["expression", "belong to outputs"]),
    (("y: ds.pr + 1", "y: y + 1"), ["y → y", "another name"]),
    (("  y: ds.pr", "  ds: ds.pr"), ["'ds'", "twice", "first defined here"]),
    (("out.zarr/y: y", "out.zarr/y: y\n  out.zarr/z: out.zarr/y + 1"), ["'out'", "not places", "under `inputs`"]),
    (("out.zarr/y: y", "out.zarr/y: {array: y, chunks: auto}"), ["'chunks'", "{time: 100}", "leave it out"]),
    (("out.zarr/y: y", "out.zarr/y: {array: y, chunks: {tiem: 5}}"), ["'tiem'", "time, lat, lon", "did you mean 'time'"]),
    (("out.zarr/y: y", "out.zarr/y: {array: y, attributes: K}"), ["'attributes'", "{units: K}"]),
    (("outputs:\n  out.zarr/y: y", "outputs: out.zarr"), ["'outputs'", "write `out.zarr:`"]),
    (("out.zarr/y: y", "out.zarr/y: y\n  out.zarr/y/z: y"), ["lie in", "the output", "out.zarr/y'"]),
    (("allowed_mem: 500MB", "allowed_mem: -1GB"), ["negative", "500MB", "p.yaml:7:"]),
    (("allowed_mem: 500MB", "allowed_mem: "), ["'allowed_mem'", "a size such as 500MB", "not nothing"]),
    (("allowed_mem: 500MB", "allowed_mem: 500MB, workers: many"), ["'workers'", "from 1 to", "p.yaml:7:"]),
])  # fmt: skip
def test_a_mistake_in_the_file(tmp_path_factory, weather, change, words):
    folder = tmp_path_factory.mktemp("file")
    (folder / "weather.zarr").symlink_to(weather / "weather.zarr")
    assert change[0] in WHOLE
    (folder / "p.yaml").write_text(WHOLE.replace(*change))
    assert chunkwise("run", "p.yaml", cwd=folder).failed(*words, "p.yaml:").code == 2
    assert not (folder / "out.zarr").exists()


@pytest.mark.parametrize("args, words, code", [
    (["run", "nothing.yaml"], ["nothing.yaml", "no such file"], 2),
    (["run", "weather.zarr"], ["weather.zarr", "a Zarr store", "text file"], 2),
    (["run", "folder"], ["a folder", "text file"], 2),
    (["run", "rain.nc"], ["rain.nc", "not text"], 2),
    (["verify", "rain.nc"], ["NetCDF", "to_zarr"], 1),
    (["verify", "folder"], ["folder without Zarr metadata", "notes.txt"], 1),
    (["info", "rain.nc"], ["NetCDF", "to_zarr"], 1),
    (["info", "folder"], ["folder without Zarr metadata", "notes.txt"], 1),
    (["info", "nothing"], ["nothing", "check the path"], 1),
    (["show", "nothing"], ["nothing", "check the path"], 1),
    (["show", "weather.zarr/pr", "--select", "time=2000-01-01"], ["'2000-01-01'", "from 0 to 399"], 2),
    (["clean", "nothing"], ["no folder", "nothing"], 2),
    (["clean", "rain.nc"], ["rain.nc", "is a file", "work directory"], 2),
    (["functions", "median"], ["'median'", "not available"], 2),
    (["rechunk", "weather.zarr/pr", "o.zarr", "--chunks", "tiem=5"], ["'tiem'", "time, lat, lon", "did you mean 'time'"], 2),
    (["rechunk", "weather.zarr/pr", "o.zarr", "--chunks", "time=x"], ["'x'", "whole number"], 2),
    (["rechunk", "weather.zarr/pr", "weather.zarr/pr", "--chunks", "time=5"], ["while it is read", "another target"], 2),
])  # fmt: skip
def test_a_wrong_place(weather, args, words, code):
    before = contents(weather)
    done = chunkwise(*args, cwd=weather).failed(*words)
    assert done.code == code and "bug" not in done.stderr
    assert contents(weather) == before


def test_a_work_directory_is_no_array(tmp_path):
    write_data(tmp_path)
    (tmp_path / "p.yaml").write_text(WHOLE)
    chunkwise("run", "p.yaml", "--keep", cwd=tmp_path).ok()
    for command in ("verify", "info"):
        chunkwise(command, "work", cwd=tmp_path).failed("work directory with runs", "chunkwise clean")


def test_an_empty_output_is_told_to_people_and_programs(tmp_path):
    """Dates that are not on the axis leave nothing, as in xarray, which says nothing."""
    write_data(tmp_path)
    (tmp_path / "p.yaml").write_text(PLAIN.format("""'ds.pr[time="2010-01":"2010-02"]'"""))
    done = chunkwise("run", "p.yaml", cwd=tmp_path).ok()
    assert "out.zarr/y' is empty: nothing is left along 'time'" in done.stderr
    told = json.loads(chunkwise("run", "p.yaml", "--overwrite", "--json", cwd=tmp_path).ok().stdout)
    assert len(told["warnings"]) == 1 and "is empty" in told["warnings"][0]
    # Beside an error, too; and an empty list where there is none.
    told = json.loads(chunkwise("run", "p.yaml", "--json", cwd=tmp_path).failed("exists").stdout)
    assert told["error"]["kind"] == "output_exists" and "is empty" in told["warnings"][0]
    (tmp_path / "p.yaml").write_text(WHOLE.replace("out.zarr", "new.zarr"))
    assert json.loads(chunkwise("run", "p.yaml", "--json", cwd=tmp_path).ok().stdout)["warnings"] == []


@pytest.mark.parametrize("name, start, words", [
    ("a.nc", b"\x89HDF\r\n\x1a\n", ["HDF5", "xarray.open_dataset"]),
    ("a.tif", b"II*\0", ["TIFF", "rioxarray"]),
    ("a.zip", b"PK\x03\x04", ["zip", "unpack"]),
    ("a.grib", b"GRIB", ["GRIB", "to_zarr"]),
])  # fmt: skip
def test_another_format(tmp_path, name, start, words):
    (tmp_path / name).write_bytes(start + bytes(100))
    (tmp_path / "p.yaml").write_text(PLAIN.format("ds.pr").replace("weather.zarr", name))
    assert chunkwise("run", "p.yaml", cwd=tmp_path).failed(name, *words, "p.yaml:2:").code == 2


@pytest.mark.parametrize("args, words, code", [
    (["--executor", "spark"], ["spark", "threads", "processes"], 2),
    (["--allowed-mem", "lots"], ["'lots'", "500MB"], 2),
    (["--allowed-mem", "-1GB"], ["'-1GB'", "500MB"], 2),
    (["--allowed-mem", "500"], ["500 B", "too small", "MB"], 2),
    (["--set", "year=1986"], ["'year'", "no parameter"], 2),
])  # fmt: skip
def test_a_wrong_option(weather, args, words, code):
    (weather / "options.yaml").write_text(PLAIN.format("ds.pr"))
    assert chunkwise("run", "options.yaml", *args, cwd=weather).failed(*words).code == code
    assert not (weather / "out.zarr").exists()


def test_a_wrong_executor_in_the_file(weather):
    (weather / "executor.yaml").write_text(PLAIN.format("ds.pr").replace("work_dir", "executor: spark, work_dir"))
    assert chunkwise("run", "executor.yaml", cwd=weather).failed("'spark'", "threads", "executor.yaml:7:").code == 2


# Going on


def test_resume_without_a_run(tmp_path):
    """There is nothing to go on with, so it begins, and says that nothing was done before."""
    write_data(tmp_path)
    (tmp_path / "p.yaml").write_text(PLAIN.format("ds.pr + 1"))
    done = chunkwise("run", "p.yaml", "--resume", cwd=tmp_path).ok()
    assert "0 done before" in done.stderr
    found, source = (xr.open_zarr(tmp_path / n, chunks=None) for n in ("out.zarr", "weather.zarr"))
    np.testing.assert_array_equal(found.y.values, source.pr.values + 1)


@pytest.fixture
def stopped(tmp_path):
    """A run that was stopped by a signal in the middle: `stopped(signal)` is its exit code and what it said."""
    x = np.random.default_rng(0).standard_normal((600, 100, 200), dtype="float32")
    write_array(tmp_path / "in.zarr", x, (5, 100, 200), ["time", "y", "x"])
    (tmp_path / "p.yaml").write_text(
        "inputs: {x: in.zarr}\noutputs:\n  out.zarr/r: {array: sin(cos(sin(cos(sin(x))))), chunks: {time: 5}}\n"
        "spec: {allowed_mem: 100MB, workers: 1, work_dir: work}\n"
    )

    def stop(number):
        process = subprocess.Popen(
            [binary(), "run", "p.yaml"], cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        end = time.monotonic() + TIMEOUT
        while process.poll() is None and len(list((tmp_path / "out.zarr").rglob("c/*/0/0"))) < 10 and time.monotonic() < end:
            time.sleep(0.005)
        process.send_signal(number)
        return process.wait(TIMEOUT), process.communicate()[1]

    return x, stop


def expected(x):
    for f in (np.sin, np.cos, np.sin, np.cos, np.sin):
        x = f(x)
    return x


def test_killed_and_run_again(tmp_path, stopped):
    x, stop = stopped
    code, _ = stop(signal.SIGKILL)
    assert code == -signal.SIGKILL, "it must be killed before it ends"
    with pytest.raises(FileNotFoundError):
        zarr.open_array(str(tmp_path / "out.zarr/r"), mode="r")
    assert chunkwise("run", "p.yaml", cwd=tmp_path).failed("out.zarr/r", "--resume", "--overwrite").code == 2
    done = chunkwise("run", "p.yaml", "--resume", cwd=tmp_path).ok()
    assert "(0 done before)" not in done.stderr
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/r"), expected(x), rtol=1e-5)


def test_interrupted_and_resumed(tmp_path, stopped):
    x, stop = stopped
    code, said = stop(signal.SIGINT)
    assert code not in (0, 101) and "--resume" in said
    chunkwise("run", "p.yaml", "--resume", cwd=tmp_path).ok()
    np.testing.assert_allclose(read_array(tmp_path / "out.zarr/r"), expected(x), rtol=1e-5)


def test_a_folder_that_may_not_be_written(tmp_path_factory, weather):
    """The input on a read-only disk is fine; the output there is not."""
    folder = tmp_path_factory.mktemp("readonly")
    text = PLAIN.format("ds.pr + 1").replace("weather.zarr", str(weather / "weather.zarr"))
    (folder / "p.yaml").write_text(text.replace("work_dir: work", "work_dir: work/w"))
    (folder / "work").mkdir()
    (folder / "work").chmod(0o777)
    nobody = []
    if os.geteuid() == 0:
        # Root may write everywhere; somebody else needs the way to the folder.
        for parent in [folder, *folder.parents, *weather.parents, weather]:
            if parent.stat().st_uid == 0 and "pytest" in str(parent):
                parent.chmod(0o755)
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if subprocess.run([*nobody, binary(), "--version"], capture_output=True).returncode:
            pytest.skip("the command is in a folder of root's own")
    else:
        folder.chmod(0o555)
    done = chunkwise("run", "p.yaml", cwd=folder, prefix=nobody).failed("permission", "out.zarr")
    assert done.code == 2 and not (folder / "out.zarr").exists()
