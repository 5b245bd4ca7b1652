"""Data sets of HDF5 and netCDF 4 are read by the engine, where they are in their files."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise import _hdf5, _references

h5py = pytest.importorskip("h5py")


@pytest.fixture(autouse=True)
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(_hdf5, "SMALL", -1)
    with cw.config(work_dir=str(tmp_path / "work")):
        yield


def calls(array: cw.Array) -> bool:
    """True if functions of Python make it."""
    return '"call"' in cw.plan(array)["json"]


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    """How a data set is stored."""
    shape = tuple(draw(st.lists(st.integers(1, 30), min_size=1, max_size=3)))
    dtype = draw(st.sampled_from(["i1", "<u2", ">i4", "<i8", "<f4", ">f8", "<c16", "?"]))
    layout: dict[str, Any] = {"shape": shape, "dtype": dtype}
    if draw(st.booleans()):
        layout["chunks"] = tuple(draw(st.integers(1, n)) for n in shape)
        if draw(st.booleans()):
            layout |= {"compression": "gzip", "compression_opts": draw(st.integers(0, 9)), "fletcher32": draw(st.booleans())}
        layout["shuffle"] = draw(st.booleans())
    if draw(st.booleans()):
        kind = np.dtype(dtype).kind
        layout["fillvalue"] = draw(st.sampled_from([np.nan, np.inf, 7.5] if kind == "f" else [True] if kind == "b" else [5j] if kind == "c" else [5]))
    return layout


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layout=layouts(), seed=st.integers(0, 99), part=st.booleans())
def test_whatever_the_layout(tmp_path: Path, layout: dict[str, Any], seed: int, part: bool) -> None:
    path = tmp_path / f"{time.monotonic_ns()}.h5"
    values = (np.random.default_rng(seed).random(layout["shape"]) * 100).astype(layout["dtype"])
    with h5py.File(path, "w") as file:
        data = file.create_dataset("a/t", **layout)
        # Chunks that nobody has written are not in the file.
        data[: len(values) // 2 if part else None] = values[: len(values) // 2 if part else None]
    with h5py.File(path, "r") as file:
        array = _hdf5.of_dataset(file["a/t"], None)
        expected = file["a/t"][...]
    assert array is not None
    assert array.dtype == np.dtype(layout["dtype"]).newbyteorder("=")
    np.testing.assert_array_equal(array.compute(), expected)
    np.testing.assert_array_equal(array[::-2].compute(), expected[::-2])


@pytest.mark.parametrize("shape", [(3000, 1000), (2999, 1000), (7, 600_000), (1, 3_000_000)])
@pytest.mark.parametrize("dtype", ["<f8", ">f4"])
def test_data_sets_in_one_piece_are_read_in_parts(tmp_path: Path, shape: tuple[int, int], dtype: str) -> None:
    values = np.arange(3_000_000, dtype=dtype).reshape(-1)
    values = np.resize(values, shape)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["t"] = values
    with h5py.File(tmp_path / "x.h5", "r") as file:
        array = cw.from_array(file["t"])
    assert not calls(array)
    np.testing.assert_array_equal(cw.max(array, axis=0).compute(), values.max(0))
    np.testing.assert_array_equal(array[-1:, 5:900].compute(), values[-1:, 5:900])


def test_what_the_engine_cannot_read_is_left_to_hdf5(tmp_path: Path) -> None:
    values = np.arange(400.0).reshape(20, 20)
    with h5py.File(tmp_path / "x.h5", "w", userblock_size=512) as file:
        file["t"] = values
    with h5py.File(tmp_path / "y.h5", "w") as file:
        file.create_dataset("lzf", data=values, compression="lzf", chunks=(5, 5))
        file.create_dataset("checked", data=values, chunks=(5, 5), fletcher32=True)
        file.create_dataset("scaled", data=values.astype("i4"), chunks=(5, 5), scaleoffset=0)
        file.create_dataset("outside", data=values, external=[(str(tmp_path / "raw"), 0, h5py.h5f.UNLIMITED)])
        virtual = h5py.VirtualLayout((20, 20), "f8")
        virtual[:] = h5py.VirtualSource("y.h5", "lzf", (20, 20))
        file.create_virtual_dataset("virtual", virtual)
        file["text"] = np.array([b"a", b"bc"])
        file["empty"] = np.zeros((0, 3))
        file["number"] = 5
        file["half"] = values.astype("f2")
    for name in ("x.h5", "y.h5"):
        with h5py.File(tmp_path / name, "r") as file:
            for data in file.values():
                assert _hdf5.of_dataset(data, None) is None, data.name
    with h5py.File(tmp_path / "z.h5", "w") as file:
        file["t"] = values
        file.flush()
        assert _hdf5.of_dataset(file["t"], None) is None, "it may change"
        array = cw.from_array(file["t"])
    np.testing.assert_array_equal(array.compute(), values)


def test_a_chunk_without_its_filter_is_left_to_hdf5(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("t", (4, 4), "i8", chunks=(2, 4), compression="gzip")
        data[:2] = 7
        data.id.write_direct_chunk((2, 0), np.full((2, 4), 9).tobytes(), 1)
    with h5py.File(tmp_path / "x.h5", "r") as file:
        assert _hdf5.of_dataset(file["t"], None) is None


def written(path: Path, value: float) -> cw.Array:
    with h5py.File(path, "w") as file:
        file.create_dataset("t", data=np.full((40, 40), value), chunks=(10, 40), compression="gzip")
    with h5py.File(path, "r") as file:
        array = _hdf5.of_dataset(file["t"], None)
    assert array is not None
    return array


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    array = written(tmp_path / "x.h5", 1)
    assert array.compute()[0, 0] == 1
    assert written(tmp_path / "x.h5", 2).compute()[0, 0] == 2
    with pytest.raises(Exception, match=r"x\.h5' has changed: it was written after the program had opened it"):
        array.compute()
    (tmp_path / "x.h5").unlink()
    with pytest.raises(Exception, match=r"x\.h5' is not there"):
        array.compute()


def place(array: cw.Array) -> Path:
    _references.publish()
    return Path(str(array._lazy.url).removeprefix("file://"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda listed: "no JSON", "it is no list of chunks"),
        (lambda listed: json.dumps({**listed, "chunks": {"0.0": [10, 1 << 40]}}), "is not in its file"),
        (lambda listed: json.dumps({**listed, "chunks": {"0.0": [10]}}), "it is no list of chunks"),
        (lambda listed: json.dumps({**listed, "chunks": {"0.0": [10, 10]}}), "damaged"),
        (lambda listed: json.dumps({**listed, "path": "x.h5"}), "not absolute"),
    ],
)
def test_lists_that_are_damaged(tmp_path: Path, change: Any, message: str) -> None:
    found = place(written(tmp_path / "x.h5", 1))
    listed = json.loads(found.read_text())
    other = found.with_name("other.references")
    other.write_text(change(listed))
    with pytest.raises(Exception, match=message):
        cw.from_zarr(other).compute()


def test_nothing_is_written_into_other_files(tmp_path: Path) -> None:
    array = written(tmp_path / "x.h5", 1)
    before = (tmp_path / "x.h5").read_bytes()
    for mode, message in (({}, "exists"), ({"overwrite": True}, "is a file, not a folder")):
        with pytest.raises(Exception, match=message):
            cw.zeros((40, 40)).to_zarr(place(array), **mode)
    assert (tmp_path / "x.h5").read_bytes() == before
    assert array.compute()[0, 0] == 1


def test_lists_are_shared_and_go_with_time(tmp_path: Path) -> None:
    first = place(written(tmp_path / "x.h5", 1))
    with h5py.File(tmp_path / "x.h5", "r") as file:
        again = _hdf5.of_dataset(file["t"], None)
        assert again is not None and place(again) == first
        old = time.time() - 31 * 86400
        os.utime(first, (old, old))
        # What is used stays.
        assert _hdf5.of_dataset(file["t"], None) is not None
    second = place(written(tmp_path / "y.h5", 1))
    assert first.exists()
    os.utime(first, (old, old))
    _references._prepare.cache_clear()
    third = place(written(tmp_path / "z.h5", 1))
    assert not first.exists() and second.exists() and third.exists()


def test_lists_are_written_for_others_only(tmp_path: Path) -> None:
    with cw.config(work_dir=str(tmp_path / "work")):
        arrays = [written(tmp_path / f"{i}.h5", i) for i in range(3)]
        whole = cw.concat(arrays)
        assert whole.compute().shape == (120, 40)
        assert not list(tmp_path.rglob("*.references"))
        # Another session may go on with this run, and must find what it reads.
        whole.to_zarr(tmp_path / "a.zarr")
        assert len(list(tmp_path.rglob("*.references"))) == 3
        other = written(tmp_path / "3.h5", 3)
        assert cw.plan(other) is not None
        assert len(list(tmp_path.rglob("*.references"))) == 4
        np.testing.assert_array_equal(cw.from_zarr(place(other)).compute(), other.compute())


def test_without_h5py_a_warning_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("netCDF4")
    values = np.random.default_rng(0).random((30, 40))
    xr.Dataset({"t": (("y", "x"), values)}).to_netcdf(tmp_path / "x.nc", engine="netcdf4")
    monkeypatch.setattr(_hdf5, "find_spec", lambda name: None)
    monkeypatch.setattr("chunkwise._sources.SMALL", -1)
    with pytest.warns(UserWarning, match="install h5py"):
        lazy = xr.open_dataset(tmp_path / "x.nc", engine="netcdf4", chunks={})
    assert calls(lazy.t.data)
    np.testing.assert_array_equal(lazy.t.compute(), values)


def test_other_processes_read_it(tmp_path: Path) -> None:
    array = written(tmp_path / "x.h5", 3)
    with cw.config(executor="processes", executor_options={"processes": 1, "program": os.environ["CHUNKWISE_BIN"]}):
        assert cw.sum(array).compute() == 4800


@pytest.mark.parametrize("engine", ["netcdf4", "h5netcdf"])
def test_netcdf_under_xarray(tmp_path: Path, engine: Any) -> None:
    pytest.importorskip("netCDF4" if engine == "netcdf4" else engine)
    rng = np.random.default_rng(1)
    t = rng.random((30, 40, 50))
    t[3, 4, 5] = np.nan
    ds = xr.Dataset(
        {"packed": (("time", "y", "x"), t, {"units": "K"}), "raw": (("time", "y", "x"), t.astype("f4")), "n": (("y", "x"), rng.integers(0, 9, (40, 50)))},
        {"time": np.datetime64("2001-01-01", "ns") + np.arange(30) * np.timedelta64(1, "D")},
    )
    encoding = {
        "packed": {"dtype": "i2", "scale_factor": 1e-4, "add_offset": 0.5, "_FillValue": -1, "zlib": True, "chunksizes": (7, 40, 20)},
        "n": {"dtype": "u1", "fletcher32": True, "zlib": True},
    }
    ds.to_netcdf(tmp_path / "x.nc", engine=engine, encoding=encoding, unlimited_dims=["time"])
    ds.to_netcdf(tmp_path / "g.nc", engine=engine, encoding=encoding, group="a/b")
    for path, group in (("x.nc", None), ("g.nc", "a/b")):
        lazy = xr.open_dataset(tmp_path / path, engine=engine, group=group, chunks={"time": 7})
        expected = xr.open_dataset(tmp_path / path, engine=engine, group=group).load()
        assert not any(calls(v.data) for v in lazy.data_vars.values())
        xr.testing.assert_identical(lazy.compute(), expected)
        xr.testing.assert_allclose(lazy.rolling(time=3).mean().mean("x").compute(), expected.rolling(time=3).mean().mean("x"))
        xr.testing.assert_identical(lazy.isel(time=[3, 9], x=slice(None, None, 4)).compute(), expected.isel(time=[3, 9], x=slice(None, None, 4)))
        lazy.close()
        expected.close()
