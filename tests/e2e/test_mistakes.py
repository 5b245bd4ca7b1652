"""Mistakes of new users: what is printed says what, where and what to do; the exit code is right; nothing is written or changed."""

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
    ("ds.pr[1:] - ds.pr[:-1]", ["'time'", "index 0", "2000-01-02", "2000-01-01", "join"]),
])  # fmt: skip
def test_a_mistake_in_an_expression(tmp_path_factory, weather, expression, words):
    folder = tmp_path_factory.mktemp("run")
    (folder / "p.yaml").write_text(PLAIN.format(expression).replace("weather.zarr", str(weather / "weather.zarr")))
    done = chunkwise("run", "p.yaml", cwd=folder).failed(*words, "p.yaml:4:")
    assert done.code == 2
    assert not (folder / "out.zarr").exists()


@pytest.fixture(scope="module")
def weather(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weather")
    write_data(folder)
    return folder


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
    (["--executor", "dask"], ["dask", "threads", "processes"], 2),
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
    (weather / "executor.yaml").write_text(PLAIN.format("ds.pr").replace("work_dir", "executor: dask, work_dir"))
    assert chunkwise("run", "executor.yaml", cwd=weather).failed("'dask'", "threads", "executor.yaml:7:").code == 2


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
