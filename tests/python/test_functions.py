"""Functions of users: what they compute, and what happens if they raise, hang, crash, or take more memory than they may."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import chunkwise as cw
from chunkwise import _kept, _template
from conftest import PACKAGE

X = np.arange(24.0).reshape(4, 6)


@pytest.fixture
def x() -> cw.Array:
    return cw.from_array(X, chunks=(2, 3))


def workers() -> list[int]:
    """The processes that run functions for this one, without those that wait for the next run."""
    template = _template._template
    parents = {os.getpid(), 1, template.process.pid if template else 1}
    waiting = {template.process.pid if template else 1, *(w.process.pid for w in _kept._kept)}
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            state, parent = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if b"_worker.py" in command and int(parent) in parents and int(pid) not in waiting and state != "Z":
            found.append(int(pid))
    return found


# What they compute


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple),
    chunk=st.integers(1, 5),
    dtype=st.sampled_from(["bool", "int8", "uint16", "int64", "float32", "complex128"]),
)
def test_blocks_of_any_shape_and_dtype(shape: tuple[int, ...], chunk: int, dtype: str) -> None:
    values = np.random.default_rng(7).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    a = cw.from_array(values, chunks=tuple(min(chunk, n) for n in shape))
    np.testing.assert_array_equal(cw.map_blocks(np.array, a, dtype=dtype).compute(), values)
    got = cw.map_blocks(lambda b, block_id: np.full(b.shape, block_id[-1]), a, dtype="int64").compute()
    np.testing.assert_array_equal(got, np.broadcast_to(np.arange(shape[-1]) // min(chunk, shape[-1]), shape))
    numbers = values.astype("c16" if dtype == "complex128" else "f8")
    around = cw.map_overlap(lambda b: b + np.roll(b, 1, 0), a.astype(numbers.dtype), depth={0: 1}, boundary="periodic").compute()
    np.testing.assert_array_equal(around, numbers + np.roll(numbers, 1, 0))


class Scaled:
    def __init__(self, by: float) -> None:
        self.by = by

    def block(self, b: Any) -> Any:
        return b * self.by

    @classmethod
    def negative(cls, b: Any) -> Any:
        return -b

    def __call__(self, b: Any) -> Any:
        return b + self.by


@pytest.mark.parametrize("function", [Scaled(2.0).block, Scaled.negative, Scaled(2.0), Scaled(3.0).__call__, np.polynomial.Polynomial([1, 2]).__call__])
def test_methods_and_objects(x: cw.Array, function: Any) -> None:
    np.testing.assert_array_equal(cw.map_blocks(function, x, dtype="f8").compute(), function(X))


def test_axes_that_come_and_go(x: cw.Array) -> None:
    np.testing.assert_array_equal(cw.map_blocks(lambda b: b.sum(axis=1), x, drop_axis=1).compute(), X.sum(1))
    np.testing.assert_array_equal(cw.map_blocks(lambda b: b[None], x, new_axis=0).compute(), X[None])
    np.testing.assert_array_equal(cw.map_blocks(lambda b: b[:, ::3], x, chunks=(2, 1)).compute(), X[:, ::3])
    np.testing.assert_array_equal(x.map_blocks(lambda b, c, k: b + c + k, x[0], 5).compute(), X + X[0] + 5)
    np.testing.assert_allclose(cw.blockwise(np.matmul, "ik", x, "ij", x.T, "jk", dtype="f8").compute(), X @ X.T)
    made = cw.blockwise(lambda b, n: np.repeat(b[..., None], n, -1), "ijz", x, "ij", 3, None, new_axes={"z": 3}, dtype="f8")
    np.testing.assert_array_equal(made.compute(), np.repeat(X[..., None], 3, -1))


def test_several_results(x: cw.Array) -> None:
    mean, deviation = cw.apply_gufunc(lambda v: (v.mean(-1), v.std(-1)), "(i)->(),()", x, output_dtypes=["f8", "f8"], allow_rechunk=True)
    for got, wanted in zip(cw.compute(mean, deviation), (X.mean(1), X.std(1))):
        np.testing.assert_allclose(got, wanted)
    with pytest.raises(ValueError, match="allow_rechunk"):
        cw.apply_gufunc(np.sort, "(i)->(i)", x)
    np.testing.assert_array_equal(cw.apply_gufunc(lambda v: np.sort(-v), "(i)->(i)", x, allow_rechunk=True).compute(), np.sort(-X))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_reductions(axis: Any) -> None:
    values = np.random.default_rng(1).random((50, 7))
    a = cw.from_array(values, chunks=(2, 3))
    np.testing.assert_allclose(cw.reduction(a, np.sum, np.sum, axis=axis, split_every=3).compute(), values.sum(axis))
    np.testing.assert_allclose(cw.reduction(a, np.max, np.max, axis=axis, keepdims=True).compute(), values.max(axis, keepdims=True))


def test_results_go_on_in_the_engine(x: cw.Array, tmp_path: Path) -> None:
    y = cw.map_blocks(np.sqrt, x + 1) * 2
    np.testing.assert_allclose(cw.mean(y, axis=0).compute(), (np.sqrt(X + 1) * 2).mean(0))
    y.to_zarr(tmp_path / "y.zarr")
    np.testing.assert_allclose(cw.from_zarr(tmp_path / "y.zarr").compute(), np.sqrt(X + 1) * 2)


def test_the_dtype_is_checked(x: cw.Array) -> None:
    with pytest.raises(TypeError, match="give dtype='float64'"):
        cw.map_blocks(lambda b: b.astype("f8"), x, dtype="i8").compute()
    with pytest.raises(ValueError, match="give dtype="):
        cw.map_blocks(lambda b: b[5], x)
    with pytest.raises(ValueError, match=r"\[1, 3\]"):
        cw.map_blocks(lambda b: b[:1], x, dtype="f8").compute()
    with pytest.raises(TypeError, match="positional"):
        cw.map_blocks(np.add, x, dtype="f8", other=x)


def test_an_edited_function_of_a_module_is_another_version(tmp_path: Path) -> None:
    from chunkwise._workers import Caller, code_of, dumped

    def version_of(function: Any, memory: int = 1) -> str:
        return Caller("f", dumped(function), None, memory, True, None, code_of(function)).version

    program = (
        "import sys; sys.path[:0] = {paths}; import mine; from chunkwise._workers import *\n"
        "print(Caller('f', dumped(mine.f), None, 1, True, None, code_of(mine.f)).version)"
    )
    versions = []
    for number, other in ((1, ""), (1, "\n\n"), (2, "")):
        (tmp_path / "mine.py").write_text(f"{other}def f(b):\n    return (lambda x: x + {number} if x in {{1, 2, 'a'}} else x)(b)\n")
        command = [sys.executable, "-B", "-c", program.format(paths=[str(PACKAGE), str(tmp_path)])]
        versions.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert versions[0] == versions[1] != versions[2]
    assert version_of(np.sqrt) != version_of(np.exp)
    assert version_of(np.sqrt) != version_of(np.sqrt, memory=2)


# What they do wrong


def test_an_exception_is_that_of_the_function(x: cw.Array) -> None:
    def lookup(block: Any) -> Any:
        return {}["missing"]

    with pytest.raises(KeyError, match="missing") as caught:
        cw.map_blocks(lookup, x, dtype="f8").compute()
    (note,) = caught.value.__notes__
    assert "'lookup', block (" in note and 'return {}["missing"]' in note
    assert not workers()


def test_more_memory_than_allowed_at_once() -> None:
    x = cw.from_array(X, chunks=(2, 3))

    def large(block: Any) -> Any:
        return block + np.ones(197_500_000)[0]

    with pytest.raises(cw.MemoryLimitError, match=r"'large' used 1\.58 GB or more in block .*50 MB are allowed.*memory='19[78][0-9]MB'") as caught:
        cw.map_blocks(large, x, dtype="f8", memory="50MB").compute(spec=cw.Spec(allowed_mem="200MB"))
    assert caught.value.allowed == 50_000_000 and caught.value.needed >= 1_580_000_000


def test_more_memory_than_allowed_little_by_little(x: cw.Array) -> None:
    def growing(block: Any) -> Any:
        kept = []
        for _ in range(400):
            kept.append(np.ones(250_000))
            time.sleep(0.002)
        return block

    with pytest.raises(cw.MemoryLimitError, match="'growing' used .*assumed") as caught:
        cw.map_blocks(growing, x, dtype="f8").compute()
    # It is looked at every 5 ms, and later if the machine is busy.
    assert 64_000_000 < caught.value.needed < 400_000_000
    assert cw.map_blocks(growing, x[:2, :3], dtype="f8", memory="900MB").compute(spec=cw.Spec(allowed_mem="1500MB")).shape == (2, 3)


def test_what_children_take_counts(x: cw.Array) -> None:
    def forking(block: Any) -> Any:
        if (child := os.fork()) == 0:
            kept = np.ones(15_000_000)
            time.sleep(20)
            os._exit(int(kept[0]))
        os.waitpid(child, 0)
        return block

    with pytest.raises(cw.MemoryLimitError, match="forking"):
        cw.map_blocks(forking, x, dtype="f8", memory="100MB").compute()
    assert not workers()


def test_the_declared_memory_is_in_the_plan(x: cw.Array) -> None:
    made = cw.map_blocks(np.sqrt, x, dtype="f8", memory="300MB")
    assert 300_000_000 < cw.plan(made)["projected_mem"] < 400_000_000
    with pytest.raises(cw.MemoryLimitError) as caught:
        made.compute(spec=cw.Spec(allowed_mem="300MB"))
    np.testing.assert_allclose(made.compute(spec=cw.Spec(allowed_mem=caught.value.enough)), np.sqrt(X))


def test_a_hung_function_is_stopped(x: cw.Array) -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"'hung' did not return from block .* timeout of 0\.5 s"):

        def hung(block: Any) -> Any:
            time.sleep(60)

        cw.map_blocks(hung, x, dtype="f8", timeout=0.5).compute()
    assert time.monotonic() - began < 20
    assert not workers()


def test_a_crash_is_tried_again(x: cw.Array, tmp_path: Path) -> None:
    def crashing(block: Any, block_id: Any) -> Any:
        mark = tmp_path / "-".join(map(str, block_id))
        if not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGSEGV)
        return block * 2

    np.testing.assert_array_equal(cw.map_blocks(crashing, x, dtype="f8").compute(), X * 2)

    def always(block: Any) -> Any:
        os._exit(3)

    with pytest.raises(RuntimeError, match=r"'always' ended with exit code 3 in block .*, 3 times"):
        cw.map_blocks(always, x, dtype="f8").compute()
    assert not workers()


def test_a_fork_that_returns_is_no_answer(x: cw.Array) -> None:
    def forking(block: Any) -> Any:
        return block * (0 if os.fork() == 0 else 1)

    np.testing.assert_array_equal(cw.map_blocks(forking, x, dtype="f8").compute(), X)
    assert not workers()


def test_printing_reading_and_forking_do_no_harm(x: cw.Array, capfd: pytest.CaptureFixture[str]) -> None:
    def noisy(block: Any) -> Any:
        print("from a block", flush=True)
        with pytest.raises(EOFError):
            input()
        if os.fork() == 0:
            time.sleep(600)
        return block

    np.testing.assert_array_equal(cw.map_blocks(noisy, x, dtype="f8").compute(), X)
    assert "from a block" in capfd.readouterr().out
    assert not workers()


PROGRAM = """
    import signal, sys, time
    import numpy as np
    import chunkwise as cw

    # A shell that starts programs in the background has them ignore it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    folder = sys.argv[1]

    def slow(block):
        open(folder + "/started", "a").close()
        time.sleep(60)
        return block

    x = cw.from_array(np.arange(24.0).reshape(4, 6), chunks=(2, 3))
    if __name__ == "__main__":
        cw.map_blocks(slow, x, dtype="f8").to_zarr(folder + "/out.zarr")
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_of_a_program_that_is_stopped(how: signal.Signals, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "CHUNKWISE_WORK_DIR": str(tmp_path / "work")}
    process = subprocess.Popen([sys.executable, str(program), str(tmp_path)], env=environment, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (tmp_path / "started").exists():
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for thread in os.listdir(f"/proc/{process.pid}/task"):
        children += Path(f"/proc/{process.pid}/task/{thread}/children").read_text().split()
    assert children
    process.send_signal(how)
    _, said = process.communicate(timeout=30)
    assert process.returncode != 0
    if how == signal.SIGINT:
        assert b"KeyboardInterrupt" in said
    deadline = time.monotonic() + 10
    while left := [c for c in children if Path(f"/proc/{c}").exists() and "Z" not in Path(f"/proc/{c}/stat").read_text().split(")")[1][:3]]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert not (tmp_path / "out.zarr" / "zarr.json").exists()


@pytest.mark.parametrize("dtypes", [("f8", "f8", "f8"), ("f4", "i4", "bool"), ("i8", "f8", "u1"), ("c8", "f4", "c16")])
def test_a_function_with_several_results_is_called_once_for_each_block(dtypes: tuple[str, ...], tmp_path: Path) -> None:
    values = np.arange(24.0).reshape(4, 6)

    def several(block: Any) -> Any:
        if block.size > 1:
            with open(tmp_path / "log", "a") as log:
                log.write("x")
        return tuple((block * (k + 1)).astype(d) for k, d in enumerate(dtypes))

    found = cw.apply_gufunc(several, "()->(),(),()", cw.from_array(values, chunks=(2, 3)), output_dtypes=list(dtypes))
    for k, (got, dtype) in enumerate(zip(cw.compute(*found), dtypes)):
        assert found[k].dtype == got.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(got, (values * (k + 1)).astype(dtype))
    # An array of whole numbers of 64 bits cannot be one with an array of floats.
    calls = 2 if "i8" in dtypes else 1
    assert (tmp_path / "log").stat().st_size == 4 * calls
    np.testing.assert_array_equal(found[1].compute(), (values * 2).astype(dtypes[1]))


def test_several_results_take_no_memory_besides_themselves() -> None:
    values = np.arange(2_500_000.0)

    def several(block: Any) -> Any:
        return tuple(block + k for k in range(3))

    x = cw.from_array(values, chunks=2_500_000)
    # 60 MB of results, in the function as long as it takes to copy them.
    found = cw.apply_gufunc(several, "()->(),(),()", x, output_dtypes=["f8", "f8", "f4"], memory="75MB")
    for k, got in enumerate(cw.compute(*found)):
        np.testing.assert_array_equal(got, (values + k).astype(got.dtype))


def test_several_results_must_have_one_shape() -> None:
    found = cw.apply_gufunc(lambda b: (b, b[:1]), "()->(),()", cw.from_array(np.zeros(4), chunks=2), output_dtypes=["f8", "f8"])
    with pytest.raises(ValueError, match="shapes"):
        found[0].compute()


def test_a_long_chain_of_functions_fits_into_the_default_budget() -> None:
    x = cw.from_array(np.arange(4.0), chunks=2)
    for k in range(17):
        x = x.map_blocks(lambda b, k=k: b + k, dtype="f8")
    np.testing.assert_array_equal(x.compute(spec=cw.Spec(allowed_mem="1GB")), np.arange(4.0) + sum(range(17)))


def said(info: Any) -> Any:
    """What ``block_info`` says, as numbers of a row."""
    about = [[(name, str(np.dtype(v)) if name == "dtype" else v) for name, v in sorted(info[k].items())] for k in sorted(info, key=str)]
    return np.frombuffer(repr((sorted(map(str, info)), about)).encode().ljust(1500), "u1")[None]


@pytest.mark.parametrize("other", [3, 6, 2])
def test_block_info(other: int) -> None:
    """As Dask has it. Arrays of fewer axes and axes of length 1 are broadcast."""
    x, y = np.arange(24.0).reshape(4, 6), np.arange(6.0)

    def of_three(a: Any, factor: float, b: Any, c: Any, block_info: Any = None) -> Any:
        return said(block_info)

    def of_rows(a: Any, block_info: Any = None) -> Any:
        return said(block_info)[0]

    def of_nothing(block_info: Any = None) -> Any:
        return said(block_info)

    pairs = []
    for library in (cw, da):
        array: Any = library.from_array
        arrays = array(x, (1, other)), 2.0, array(y, other), array(x[:1], (1, other))
        pairs.append((
            library.map_blocks(of_three, *arrays, dtype="u1", chunks=((1,) * 4, (1500,) * (6 // other))),
            library.map_blocks(of_rows, array(x, (4, other)), dtype="u1", drop_axis=0, chunks=((1500,) * (6 // other),)),
            library.map_blocks(of_nothing, dtype="u1", chunks=((1, 1), (1500, 1500))),
        ))  # fmt: skip
    for found, expected in zip(*pairs):
        for mine, wanted in zip(found.compute().reshape(-1, 1500), expected.compute(scheduler="sync").reshape(-1, 1500)):
            assert bytes(mine).decode().rstrip() == bytes(wanted).decode().rstrip()


def test_block_info_of_different_chunks() -> None:
    def of_both(a: Any, b: Any, block_info: Any = None) -> Any:
        (start, end), (own,) = block_info[1]["array-location"][0], block_info[None]["array-location"]
        assert block_info[0]["array-location"] == [own] == [(start, end)] and (a == np.arange(start, end)).all()
        return a + b

    found = cw.map_blocks(of_both, cw.from_array(np.arange(10), 4), cw.from_array(np.arange(10), 3), dtype="i8")
    np.testing.assert_array_equal(found.compute(), 2 * np.arange(10))
