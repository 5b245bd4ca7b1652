"""Arrays in stores that only Python can read: the engine asks for their encoded chunks, and does everything else."""

from __future__ import annotations

import gc
import json
import os
import uuid
import weakref
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import xarray as xr
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import chunkwise as cw
from chunkwise import _hdf5
from chunkwise._mounted import ZarrStore
from chunkwise._namespace import call

VALUES = np.random.default_rng(0).random((40, 30))


def calls(array: cw.Array) -> bool:
    """True if functions of Python make it."""
    return '"call"' in cw.plan(array)["json"]


def memory(_: Path) -> Any:
    return zarr.storage.MemoryStore()


def archive(folder: Path) -> Any:
    return zarr.storage.ZipStore(folder / f"{uuid.uuid4().hex}.zip", mode="w")


def logging(folder: Path) -> Any:
    return zarr.storage.LoggingStore(zarr.storage.LocalStore(folder / uuid.uuid4().hex), log_level="ERROR")


def of_fsspec(_: Path) -> Any:
    return zarr.storage.FsspecStore.from_url(f"memory://{uuid.uuid4().hex}")


def icechunk(_: Path) -> Any:
    library = pytest.importorskip("icechunk")
    repository = library.Repository.create(library.in_memory_storage())
    return repository.writable_session("main").store


STORES = [memory, archive, logging, of_fsspec, icechunk]


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    """How an array is stored."""
    shape = tuple(draw(st.lists(st.integers(1, 20), min_size=1, max_size=3)))
    layout: dict[str, Any] = {"shape": shape, "dtype": draw(st.sampled_from(["i1", "u2", "i8", "f4", ">f8", "c16", "?"]))}
    layout["chunks"] = tuple(draw(st.integers(1, n)) for n in shape)
    layout["zarr_format"] = draw(st.sampled_from([2, 3]))
    if layout["zarr_format"] == 3 and draw(st.booleans()):
        layout["shards"] = tuple(c * draw(st.integers(1, 3)) for c in layout["chunks"])
    layout["compressors"] = draw(st.sampled_from(["auto", None]))
    return layout


@pytest.mark.parametrize("kind", STORES)
@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layout=layouts(), seed=st.integers(0, 99), part=st.booleans())
def test_whatever_the_store_and_the_layout(tmp_path: Path, kind: Any, layout: dict[str, Any], seed: int, part: bool) -> None:
    values = (np.random.default_rng(seed).random(layout["shape"]) * 100).astype(layout["dtype"])
    if kind is icechunk:
        layout = layout | {"zarr_format": 3}
    stored = zarr.create_array(kind(tmp_path), name="a/t", **layout)
    n = len(values) // 2 if part and kind is not archive else len(values)
    # Chunks that nobody has written are not stored.
    stored[:n] = values[:n]
    values[n:] = 0
    with cw.raise_if_computes():
        array = cw.from_array(stored)
        last = array[::2, ...][..., -1]
    assert not calls(array) and not calls(last)
    np.testing.assert_array_equal(array.compute(), values)
    np.testing.assert_array_equal(cw.from_zarr(stored).compute(), values)
    np.testing.assert_array_equal(last.compute(), values[::2, ...][..., -1])


@pytest.mark.parametrize("kind", STORES)
def test_a_data_set_in_such_a_store_through_xarray(tmp_path: Path, kind: Any) -> None:
    values = VALUES.copy()
    values[3, 4] = np.nan
    ds = xr.Dataset(
        {"t": (("time", "x"), values, {"units": "K", "long_name": "temperature"}), "n": (("time",), np.arange(40, dtype="i2"))},
        {"time": np.arange("2001-12-01", "2002-01-10", dtype="M8[D]").astype("M8[ns]"), "x": ("x", np.arange(30.0), {"units": "m"}), "name": ("x", [f"s{i}" for i in range(30)])},
        {"title": "of a store"},
    )
    ds.t.encoding = {"scale_factor": 1e-4, "add_offset": 0.5, "dtype": "i4", "_FillValue": -1, "chunks": (10, 30)}
    store = kind(tmp_path)
    ds.to_zarr(store, consolidated=False, zarr_format=3)
    if kind is archive:
        store.close()
        store = zarr.storage.ZipStore(store.path, mode="r")
    expected = xr.open_zarr(store, consolidated=False, chunks=None).load()
    lazy = xr.open_zarr(store, consolidated=False, chunks={}, chunked_array_type="chunkwise")
    assert not calls(lazy.t.data)
    xr.testing.assert_identical(lazy.compute(), expected)
    assert {k: v.dtype for k, v in lazy.variables.items()} == {k: v.dtype for k, v in expected.variables.items()}
    means = lazy.groupby("time.month").mean()
    xr.testing.assert_allclose(means.compute(), expected.groupby("time.month").mean())
    assert {k: v.dtype for k, v in means.variables.items()} == {k: v.dtype for k, v in expected.groupby("time.month").mean().variables.items()}
    lazy.drop_encoding().to_zarr(tmp_path / "out.zarr", consolidated=False)
    written = xr.open_zarr(tmp_path / "out.zarr", consolidated=False, chunks=None).load()
    xr.testing.assert_identical(written, expected)


def test_opening_under_xarray_reads_no_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """xarray has its own. Each request of a store in a bucket takes long."""
    store, asked = zarr.storage.MemoryStore(), []
    variables = {f"v{k}": (("y", "x"), VALUES, {"coordinates": "name"}) for k in range(3)}
    xr.Dataset(variables, {"y": np.arange(40), "x": np.arange(30.0)}).to_zarr(store, zarr_format=3, consolidated=True)
    get = ZarrStore.get

    def counted(self: ZarrStore, key: str, start: int, stop: int | None) -> Any:
        asked.append(key)
        return get(self, key, start, stop)

    monkeypatch.setattr(ZarrStore, "get", counted)
    lazy = xr.open_zarr(store, chunks={}, chunked_array_type="chunkwise")
    assert sorted(asked) == [f"v{k}/zarr.json" for k in range(3)]
    np.testing.assert_array_equal(lazy.v1.compute(), VALUES)
    assert {key.split("/")[0] for key in asked[3:]} == {"v1"}


@pytest.mark.parametrize("kind", STORES)
def test_an_array_that_is_assigned_to_one_of_zarr_python(tmp_path: Path, kind: Any) -> None:
    """That computes on the event loop on which the store would answer."""
    array = cw.from_array(zarr.create_array(kind(tmp_path), name="t", data=VALUES, chunks=(10, 30))) + 1
    target = zarr.create_array(zarr.storage.MemoryStore(), shape=VALUES.shape, chunks=(20, 15), dtype=float)
    target[...] = array
    np.testing.assert_array_equal(target[...], VALUES + 1)


def test_to_icechunk(tmp_path: Path) -> None:
    """It takes arrays for values that are not Dask's."""
    library = pytest.importorskip("icechunk")
    from icechunk.xarray import to_icechunk

    repository = library.Repository.create(library.in_memory_storage())
    days = np.arange("2001-01-01", "2001-02-10", dtype="M8[D]").astype("M8[ns]")
    ds = xr.Dataset({"t": (("time", "x"), VALUES, {"units": "K"}), "u": (("time", "x"), VALUES.astype("f4"))}, {"time": days, "x": np.arange(30.0)})
    ds.to_zarr(tmp_path / "in.zarr", encoding={"t": {"chunks": (10, 30)}})
    lazy = xr.open_zarr(tmp_path / "in.zarr", chunks={}, chunked_array_type="chunkwise").drop_encoding()
    runs = []
    session = repository.writable_session("main")
    with cw.watch(lambda event: runs.append(event) if event["event"] == "run_started" else None):
        to_icechunk(lazy.chunk(time=10), session)
    session.commit("all")
    assert len(runs) <= 3
    session = repository.writable_session("main")
    to_icechunk(lazy.assign_coords(time=days + np.timedelta64(40, "D")).chunk(time=10) * 2, session, append_dim="time")
    session.commit("more")
    session = repository.writable_session("main")
    to_icechunk((lazy * 3).isel(time=slice(10, 20)).drop_vars("x"), session, region={"time": slice(10, 20)})
    session.commit("a part")
    found = xr.open_zarr(repository.readonly_session("main").store, consolidated=False, chunks=None).load()
    expected = np.concatenate([VALUES, VALUES * 2])
    expected[10:20] = VALUES[10:20] * 3
    np.testing.assert_array_equal(found.t, expected)
    np.testing.assert_array_equal(found.time, np.concatenate([days, days + np.timedelta64(40, "D")]))
    assert found.t.attrs == {"units": "K"} and found.u.dtype == "f4"


class Odd(zarr.storage.WrapperStore):
    """A store that fails."""

    problem: Exception | None = None

    async def get(self, *args: Any, **kwargs: Any) -> Any:
        if self.problem is not None:
            raise self.problem
        return await super().get(*args, **kwargs)


@pytest.mark.parametrize(("problem", "raised"), [(OSError("the tape broke"), OSError), (PermissionError("not for you"), PermissionError)])
def test_what_a_store_says_when_it_fails(problem: Exception, raised: type[Exception]) -> None:
    store = Odd(zarr.storage.MemoryStore())
    array = cw.from_array(zarr.create_array(store, name="t", data=VALUES, chunks=(10, 30)))
    assert not calls(array)
    store.problem = problem
    with pytest.raises(raised, match=rf"program://odd-\w+/t.*{problem}"):
        array.compute()
    store.problem = None
    np.testing.assert_array_equal(array.compute(), VALUES)


def test_a_store_is_forgotten_with_its_arrays() -> None:
    store = Odd(zarr.storage.MemoryStore())
    array = cw.from_array(zarr.create_array(store, name="t", data=VALUES, chunks=(10, 30)))
    array = (array + 1).sum()
    alive = weakref.ref(store)
    del store
    gc.collect()
    assert alive() is not None
    assert float(array.compute()) == pytest.approx((VALUES + 1).sum())
    del array
    gc.collect()
    assert alive() is None


def test_labels_are_read_while_python_waits() -> None:
    """The engine reads labels when an expression is made: whoever asks must not hold Python's lock meanwhile."""
    group = zarr.create_group(zarr.storage.MemoryStore())
    for name, values, names in (("t", VALUES, ("y", "x")), ("y", np.arange(40.0), ("y",)), ("x", np.arange(30) * 0.5, ("x",))):
        group.create_array(name, data=values, chunks=values.shape, dimension_names=names)
    part = call("sel", cw.open(group["t"]), x=slice(3.0, 9.5), y=[7.0, 3.0])
    np.testing.assert_array_equal(part.compute(), VALUES[[7, 3], 6:20])


def test_functions_of_users_get_what_is_read() -> None:
    stored = zarr.create_array(zarr.storage.MemoryStore(), data=VALUES, chunks=(10, 30))
    np.testing.assert_array_equal(cw.map_blocks(np.negative, cw.from_array(stored), dtype=float).compute(), -VALUES)


def test_workers_do_not_share_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chunkwise._sources.SMALL", -1)
    monkeypatch.setenv("PYTHONPATH", str(Path(cw.__file__).parents[1]))
    store = zarr.storage.ZipStore(tmp_path / "x.zip", mode="w")
    zarr.create_array(store, name="t", data=VALUES, chunks=(10, 30))
    store.close()
    stored = zarr.open_array(zarr.storage.ZipStore(tmp_path / "x.zip", mode="r"), path="t", mode="r")
    workers = cw.Spec(executor="processes", executor_options={"program": os.environ["CHUNKWISE_BIN"]})
    array = cw.from_array(stored)
    with pytest.raises(RuntimeError, match="open the array with the executor that is to read it"):
        array.compute(spec=workers)
    # Opened so, each worker opens it for itself.
    array = cw.from_array(stored, spec=workers)
    assert calls(array)
    np.testing.assert_array_equal(array.compute(), VALUES)


def test_virtual_data_sets_of_kerchunk(tmp_path: Path) -> None:
    """Its engine opens arrays with Dask, whatever is asked for."""
    pytest.importorskip("kerchunk")
    pytest.importorskip("netCDF4")
    from kerchunk.hdf import SingleHdf5ToZarr

    ds = xr.Dataset({"t": (("time", "x"), VALUES, {"units": "K"})}, {"time": np.arange(40), "x": np.arange(30.0)})
    ds.to_netcdf(tmp_path / "x.nc", engine="netcdf4", encoding={"t": {"chunksizes": (10, 30), "zlib": True}})
    references = SingleHdf5ToZarr(str(tmp_path / "x.nc"), inline_threshold=0).translate()
    (tmp_path / "x.json").write_text(json.dumps(references))
    lazy = xr.open_dataset(str(tmp_path / "x.json"), engine="kerchunk", chunks={}, chunked_array_type="chunkwise")
    assert isinstance(lazy.t.data, cw.Array) and not calls(lazy.t.data) and lazy.t.data.chunks == ((10,) * 4, (30,))
    xr.testing.assert_identical(lazy.compute(), ds)


def test_what_dask_only_reads_is_read_by_the_engine() -> None:
    dask = pytest.importorskip("dask.array")
    stored = zarr.create_array(zarr.storage.MemoryStore(), data=VALUES, chunks=(10, 30))
    array = cw.from_array(dask.from_array(stored, chunks=(20, 15)))
    assert not calls(array) and array.chunks == ((20, 20), (15, 15))
    np.testing.assert_array_equal(array.compute(), VALUES)
    computed = dask.from_array(stored, chunks=(20, 15)) + 1
    np.testing.assert_array_equal(cw.from_array(computed).compute(), VALUES + 1)


@st.composite
def data_sets(draw: st.DrawFn) -> dict[str, Any]:
    """How a data set of HDF5 is stored."""
    shape = tuple(draw(st.lists(st.integers(1, 20), min_size=1, max_size=3)))
    layout: dict[str, Any] = {"shape": shape, "dtype": draw(st.sampled_from(["i1", "<u4", ">i4", "<f4", ">f8"]))}
    if draw(st.booleans()):
        layout["chunks"] = tuple(draw(st.integers(1, n)) for n in shape)
        layout["shuffle"] = draw(st.booleans())
        if draw(st.booleans()):
            layout |= {"compression": "gzip", "compression_opts": draw(st.integers(0, 9)), "fletcher32": draw(st.booleans())}
    return layout


def in_fsspec(path: Path) -> Any:
    """A file in a file system of fsspec that is no folder."""
    fs, name = fsspec.filesystem("memory"), f"/{uuid.uuid4().hex}.nc"
    fs.pipe_file(name, path.read_bytes())
    return fs, name


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(layout=data_sets(), seed=st.integers(0, 99), left_out=st.integers(0, 3), part=st.booleans())
def test_netcdf_in_files_of_fsspec(tmp_path: Path, layout: dict[str, Any], seed: int, left_out: int, part: bool) -> None:
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("h5netcdf")
    values = (np.random.default_rng(seed).random(layout["shape"]) * 100).astype(layout["dtype"])
    path = tmp_path / f"{uuid.uuid4().hex}.nc"
    with h5py.File(path, "w") as file:
        data = file.create_dataset("g/t", **layout)
        n = len(values) // 2 if part else len(values)
        data[:n] = values[:n]
        values[n:] = data.fillvalue
        for k, length in enumerate(layout["shape"]):
            scale = file["g"].create_dataset(f"d{k}", data=np.arange(length))
            scale.make_scale(f"d{k}")
            data.dims[k].attach_scale(scale)
        filters = data.id.get_create_plist().get_nfilters()
        # HDF5 leaves out filters that gain nothing.
        if "chunks" in layout and filters and not layout.get("fletcher32"):
            chunk = np.zeros(layout["chunks"], layout["dtype"])
            chunk[tuple(slice(0, min(c, s)) for c, s in zip(layout["chunks"], values.shape))] = values[tuple(slice(0, c) for c in layout["chunks"])]
            mask = left_out & ((1 << filters) - 1)
            data.id.write_direct_chunk((0,) * values.ndim, encoded(chunk.tobytes(), layout, mask), mask)
    fs, name = in_fsspec(path)
    with pytest.MonkeyPatch.context() as patch, fs.open(name) as content:
        patch.setattr(_hdf5, "SMALL", -1)
        lazy = xr.open_dataset(content, group="g", engine="h5netcdf", chunks={}, chunked_array_type="chunkwise", mask_and_scale=False)
        assert not calls(lazy.t.data)
        np.testing.assert_array_equal(lazy.t.compute(), values)
        assert lazy.t.dtype == values.dtype.newbyteorder("=")


def encoded(data: bytes, layout: dict[str, Any], mask: int) -> bytes:
    """A chunk without those filters whose bits are set."""
    import zlib

    position = 0
    if layout["shuffle"]:
        if not mask & 1:
            data = np.frombuffer(data, np.uint8).reshape(-1, np.dtype(layout["dtype"]).itemsize).T.tobytes()
        position = 1
    return zlib.compress(data) if "compression" in layout and not mask >> position & 1 else data


@pytest.mark.parametrize("later", ["as long", "shorter"])
def test_a_file_of_fsspec_that_is_written_later(tmp_path: Path, later: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its chunks would be read at old places."""
    pytest.importorskip("h5netcdf")
    monkeypatch.setattr(_hdf5, "SMALL", -1)
    for k in range(2):
        ds = xr.Dataset({"t": (("y", "x"), VALUES + k)})
        ds.to_netcdf(tmp_path / f"{k}.nc", engine="h5netcdf", encoding={"t": {"chunksizes": (10, 30), "zlib": bool(k) and later == "shorter"}})
    assert ((tmp_path / "0.nc").stat().st_size == (tmp_path / "1.nc").stat().st_size) == (later == "as long")
    fs, name = in_fsspec(tmp_path / "0.nc")
    with fs.open(name) as content:
        lazy = xr.open_dataset(content, engine="h5netcdf", chunks={}, chunked_array_type="chunkwise")
        np.testing.assert_array_equal(lazy.t.max("x").compute(), VALUES.max(1))
        fs.pipe_file(name, (tmp_path / "1.nc").read_bytes())
        with pytest.raises(OSError, match="was written after it was opened; open it again"):
            lazy.t.compute()


def test_a_file_that_xarray_has_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("h5netcdf")
    monkeypatch.setattr(_hdf5, "SMALL", -1)
    xr.Dataset({"t": (("y", "x"), VALUES)}).to_netcdf(tmp_path / "x.nc", engine="h5netcdf", encoding={"t": {"chunksizes": (10, 30)}})
    fs, name = in_fsspec(tmp_path / "x.nc")
    with fs.open(name) as content, xr.open_dataset(content, engine="h5netcdf", chunks={}, chunked_array_type="chunkwise") as lazy:
        array = lazy.t.data
    np.testing.assert_array_equal(array.compute(), VALUES)


@pytest.mark.parametrize("where", ["fsspec", "here"])
@pytest.mark.parametrize("left_out", range(4))
def test_zstd_of_hdf5(tmp_path: Path, where: str, left_out: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its filter is a plugin, which need not be installed to write chunks that are encoded already."""
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("h5netcdf")
    from numcodecs import Zstd

    monkeypatch.setattr(_hdf5, "SMALL", -1)
    monkeypatch.setattr("chunkwise._sources.SMALL", -1)
    path, values = tmp_path / "x.nc", VALUES.astype("f4")
    with h5py.File(path, "w") as file:
        properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        properties.set_chunk((20, 30))
        properties.set_shuffle()
        properties.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, (3,))
        data = h5py.Dataset(h5py.h5d.create(file.id, b"t", h5py.h5t.IEEE_F32LE, h5py.h5s.create_simple(VALUES.shape), properties))
        for k, mask in enumerate((left_out, 0)):
            encoded = values[20 * k : 20 * k + 20].tobytes()
            if not mask & 1:
                encoded = np.frombuffer(encoded, np.uint8).reshape(-1, 4).T.tobytes()
            data.id.write_direct_chunk((20 * k, 0), encoded if mask & 2 else bytes(Zstd(3).encode(encoded)), mask)
        for axis, length in enumerate(VALUES.shape):
            file.create_dataset(f"d{axis}", data=np.arange(length)).make_scale(f"d{axis}")
            data.dims[axis].attach_scale(file[f"d{axis}"])
    if where == "here":
        with h5py.File(path, "r") as file:
            array = cw.from_array(file["t"])
            # With filters left out only HDF5 reads it, and that lacks the plugin.
            if left_out:
                assert calls(array)
            else:
                np.testing.assert_array_equal(array.compute(), values)
        return
    fs, name = in_fsspec(path)
    with fs.open(name) as content:
        lazy = xr.open_dataset(content, engine="h5netcdf", chunks={}, chunked_array_type="chunkwise")
        assert not calls(lazy.t.data)
        np.testing.assert_array_equal(lazy.t.compute(), values)
