"""Arrays of zarr-python in buckets and on web servers are read by the engine, and so are those in stores that only Python can read. Arrays with other codecs are read by processes."""

from __future__ import annotations

import functools
import http.server
import io
import os
import sys
import threading
import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkwise as cw

sys.path.append(str(Path(__file__).parents[1]))
from services.servers import MiniStack  # noqa: E402

VALUES = np.random.default_rng(0).random((40, 30))
BLOCKS = ((10,) * 4, (30,))


@pytest.fixture(scope="module")
def s3() -> Iterator[MiniStack]:
    with MiniStack() as server:
        yield server


@pytest.fixture
def bucket(s3: MiniStack, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    name = f"b-{uuid.uuid4().hex}"
    s3.create_bucket(name)
    return name


@pytest.fixture
def web(tmp_path: Path) -> Iterator[str]:
    """The URL of a web server of the test's folder."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(tmp_path))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def fsspec(s3: MiniStack, bucket: str, **keys: object) -> zarr.storage.FsspecStore:
    return zarr.storage.FsspecStore.from_url(f"s3://{bucket}/x.zarr", storage_options={"endpoint_url": s3.url, **keys})


def obstore(s3: MiniStack, bucket: str, **keys: object) -> zarr.storage.ObjectStore:
    from obstore.store import S3Store

    client = {"allow_http": True}
    return zarr.storage.ObjectStore(S3Store(bucket, prefix="x.zarr", endpoint=s3.url, region="us-east-1", client_options=client, **keys))


def calls(array: cw.Array) -> bool:
    """True if functions of Python make it."""
    return '"call"' in cw.plan(array)["json"]


@pytest.mark.parametrize("kind", [fsspec, obstore])
def test_an_array_in_a_bucket_is_read_by_the_engine(s3: MiniStack, bucket: str, kind: object) -> None:
    store = kind(s3, bucket)  # type: ignore[operator]
    zarr.create_array(store, name="t", data=VALUES, chunks=(10, 30))
    for array in (cw.from_array(zarr.open_array(store, path="t", mode="r")), cw.from_zarr(zarr.open_array(store, path="t", mode="r"))):
        assert array._lazy.url == f"s3://{bucket}/x.zarr/t" and array.chunks == BLOCKS
        # The options go with the array.
        np.testing.assert_array_equal((array + 1).compute(), VALUES + 1)
    assert not calls(array)


@pytest.mark.parametrize("kind", [fsspec, obstore])
def test_keys_of_a_store_reach_no_plan(s3: MiniStack, bucket: str, kind: object, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("key", "secret") if kind is fsspec else ("access_key_id", "secret_access_key")
    store = kind(s3, bucket, **dict.fromkeys(names, "mine-alone"))  # type: ignore[operator]
    zarr.create_array(store, name="t", data=VALUES, chunks=(10, 30))
    monkeypatch.setattr("chunkwise._sources.SMALL", -1)
    stored = zarr.open_array(store, path="t", mode="r")
    array = cw.from_array(stored)
    assert not calls(array) and "mine-alone" not in cw.plan(array)["json"]
    np.testing.assert_array_equal(array.compute(), VALUES)
    # This computes on the event loop on which the store answers otherwise.
    target = zarr.create_array(zarr.storage.MemoryStore(), shape=VALUES.shape, chunks=(20, 15), dtype=float)
    target[...] = array
    np.testing.assert_array_equal(target[...], VALUES)
    workers = cw.Spec(executor="processes", executor_options={"program": os.environ["CHUNKWISE_BIN"]})
    with pytest.raises(ValueError, match="keys of its own"):
        cw.from_array(stored, spec=workers).compute()


def test_keys_that_only_python_has(s3: MiniStack, bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of Python found them when it was made, and the engine looks for them in vain."""
    store = fsspec(s3, bucket)
    zarr.create_array(store, name="t", data=VALUES, chunks=(10, 30))
    stored = zarr.open_array(store, path="t", mode="r")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(ValueError, match="no AWS credentials"):
        cw.open(f"s3://{bucket}/x.zarr/t", spec=cw.Spec(storage={f"s3://{bucket}": {"endpoint": s3.url, "allow_http": True}}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        array = cw.from_array(stored)
    assert array._lazy.url.startswith("program://") and not calls(array)
    np.testing.assert_array_equal(array.compute(), VALUES)


@pytest.mark.parametrize("kind", [fsspec, obstore])
def test_xarray_reads_and_writes_buckets(s3: MiniStack, bucket: str, kind: object) -> None:
    store = kind(s3, bucket)  # type: ignore[operator]
    ds = xr.Dataset({"t": (("time", "x"), VALUES)}, coords={"time": np.arange(40), "x": np.arange(30.0)})
    ds.t.encoding = {"scale_factor": 1e-4, "dtype": "int32", "chunks": (10, 30)}
    ds.to_zarr(store, consolidated=False)
    lazy = xr.open_zarr(store, consolidated=False, chunks={})
    with cw.raise_if_computes():
        mean = lazy.t.sel(x=slice(3, 20)).mean("time")
    assert not calls(mean.data)
    np.testing.assert_allclose(mean, VALUES[:, 3:21].mean(0), atol=1e-4)
    lazy.drop_encoding().to_zarr(store, group="copy", consolidated=False)
    np.testing.assert_allclose(zarr.open_array(store, path="copy/t", mode="r")[:], VALUES, atol=1e-4)


def test_an_array_that_only_zarr_python_can_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine does not have all codecs that there are."""
    from numcodecs.zarr3 import Delta

    monkeypatch.setattr("chunkwise._sources.SMALL", -1)
    values = np.arange(1200).reshape(40, 30)
    zarr.create_array(tmp_path / "x.zarr", name="t", data=values, chunks=(10, 30), filters=[Delta(dtype="int64")], dimension_names=("y", "x"))
    stored = zarr.open_array(tmp_path / "x.zarr", path="t", mode="r")
    with pytest.warns(UserWarning, match="through zarr-python, which is slower, as the engine cannot read it"):
        array = cw.from_array(stored, chunks=(10, 30))
    assert calls(array) and array.chunks == BLOCKS
    np.testing.assert_array_equal(array.compute(), values)
    with pytest.warns(UserWarning, match="through zarr-python"):
        lazy = xr.open_zarr(tmp_path / "x.zarr", consolidated=False, chunks={}).t
    assert calls(lazy.data)
    np.testing.assert_array_equal(lazy.compute(), values)


def test_an_array_on_a_web_server_is_read_by_the_engine(tmp_path: Path, web: str) -> None:
    zarr.create_array(tmp_path / "x.zarr", name="t", data=VALUES, chunks=(10, 30))
    url = f"{web}/x.zarr/t"
    for array in (cw.from_array(zarr.open_array(url, mode="r")), cw.from_zarr(url)):
        assert array._lazy.url == url and not calls(array)
        np.testing.assert_array_equal(array.compute(), VALUES)
        with cw.config(executor="processes", executor_options={"processes": 1, "program": os.environ["CHUNKWISE_BIN"]}):
            np.testing.assert_array_equal(array.compute(), VALUES)


@pytest.mark.parametrize("dtype", ["i2", ">f4", "?"])
def test_data_sets_of_hdf5_are_read_block_by_block(tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    h5py = pytest.importorskip("h5py")
    monkeypatch.setattr("chunkwise._sources.SMALL", -1)
    values = (VALUES * 3).astype(dtype)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        # A compressor that the engine does not have.
        file.create_dataset("group/t", data=values, chunks=(10, 15), compression="lzf")
    with h5py.File(tmp_path / "x.h5", "r") as file:
        with cw.raise_if_computes():
            array = cw.from_array(file["group/t"], chunks=(10, 15))
            part = array[7:33, ::2]
        assert calls(array) and array.dtype == np.dtype(dtype).newbyteorder("=") and array.chunks == ((10,) * 4, (15, 15))
        np.testing.assert_array_equal(array.compute(), values)
        np.testing.assert_array_equal(part.compute(), values[7:33, ::2])


def test_data_sets_of_hdf5_that_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """No process can open them."""
    h5py = pytest.importorskip("h5py")
    monkeypatch.setattr("chunkwise._sources.SMALL", -1)
    for options in ({"name": io.BytesIO()}, {"name": "memory.h5", "driver": "core", "backing_store": False}):
        with h5py.File(mode="w", **options) as file:
            file["t"] = VALUES
            array = cw.from_array(file["t"])
        assert not calls(array)
        np.testing.assert_array_equal(array.compute(), VALUES)


@pytest.mark.parametrize("by", ["engine", "processes"])
def test_a_data_set_of_files_comes_back_identical(tmp_path: Path, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, attributes, dates, dtypes and encodings, and not only values."""
    pytest.importorskip("netCDF4")
    monkeypatch.setattr("chunkwise._sources.SMALL", -1)
    monkeypatch.setattr("chunkwise._hdf5.SMALL", -1 if by == "engine" else 1 << 60)
    values = np.random.default_rng(3).random((12, 4, 3)).astype("f4")
    values[3, 1, 2] = np.nan
    for k in range(3):
        days = np.datetime64("2001-12-30") + np.arange(4 * k, 4 * k + 4).astype("m8[D]")
        each = xr.Dataset(
            {"t": (("time", "y", "x"), values[4 * k : 4 * k + 4], {"units": "K", "long_name": "temperature"}), "n": (("time",), np.arange(4, dtype="i2") + k)},
            {"time": days.astype("M8[ns]"), "y": ("y", np.arange(4.0), {"units": "degrees_north"}), "name": ("x", ["a", "bb", "c"])},
            {"title": "of files"},
        )
        each.t.encoding = {"dtype": "i2", "scale_factor": 1e-4, "add_offset": 0.5, "_FillValue": -1}
        each.to_netcdf(tmp_path / f"{k}.nc", engine="netcdf4")
    files = sorted(tmp_path.glob("*.nc"))
    lazy = xr.open_mfdataset(files, chunks={"time": 2})
    assert calls(lazy.t.data) == (by == "processes")
    expected = xr.concat([xr.open_dataset(file).load() for file in files], "time", data_vars="minimal", coords="minimal", compat="override")
    xr.testing.assert_identical(lazy.compute(), expected)
    lazy.to_zarr(tmp_path / "out.zarr", consolidated=False)
    with xr.open_zarr(tmp_path / "out.zarr", consolidated=False, chunks=None) as written:
        xr.testing.assert_identical(written.load(), expected)
        assert {k: v.dtype for k, v in written.variables.items()} == {k: v.dtype for k, v in expected.variables.items()}
        assert written.t.encoding["scale_factor"] == 1e-4 and written.t.encoding["dtype"] == np.dtype("i2")


def test_stores_of_obstore_by_their_options(tmp_path: Path) -> None:
    from obstore.store import AzureStore, GCSStore, LocalStore, S3Store

    from chunkwise._stores import _obstore

    def place(store: object) -> tuple[object, ...] | None:
        return _obstore(zarr.storage.ObjectStore(store))  # type: ignore[arg-type]

    assert place(GCSStore("b", prefix="x/y", skip_signature=True)) == ("gs://b/x/y", {"gs://b": {"anonymous": True}})
    azure = AzureStore("c", account_name="someone", skip_signature=True)
    assert place(azure) == ("az://c", {"az://c": {"anonymous": True, "account": "someone"}})
    style = {"virtual_hosted_style_request": True, "region": "eu-west-1"}
    assert place(S3Store("b", **style)) == ("s3://b", {"s3://b": {"region": "eu-west-1", "path_style": False}})
    assert place(AzureStore("c", account_name="someone", account_key="c2VjcmV0")) is None
    assert place(LocalStore(tmp_path)) == (str(tmp_path), {})


@pytest.mark.parametrize("engine", ["netcdf4", "scipy"])
def test_a_netcdf_file_larger_than_memory(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chunkwise._hdf5.SMALL", 1 << 60)
    pytest.importorskip("netCDF4" if engine == "netcdf4" else "scipy")
    rng = np.random.default_rng(1)
    ds = xr.Dataset({"t": (("time", "y", "x"), rng.random((60, 400, 500)))})
    encoding = {"t": {"chunksizes": (5, 400, 500), "dtype": "i2", "scale_factor": 1e-4, "_FillValue": -1}} if engine == "netcdf4" else {}
    ds.to_netcdf(tmp_path / "x.nc", engine=engine, encoding=encoding)  # type: ignore[call-overload]
    lazy = xr.open_dataset(tmp_path / "x.nc", engine=engine, chunks={"time": 5})  # type: ignore[arg-type]
    expected = xr.open_dataset(tmp_path / "x.nc", engine=engine).load()  # type: ignore[arg-type]
    # 96 MB as numbers, under a budget that all of it exceeds fourfold with Dask's way of doing so.
    with cw.config(allowed_mem="400MB"):
        assert calls(lazy.t.data)
        xr.testing.assert_allclose(lazy.mean("time").compute(), expected.mean("time"))
        xr.testing.assert_identical(lazy.t[7, 20:30, 5].compute(), expected.t[7, 20:30, 5])


def test_a_function_makes_blocks_from_their_places() -> None:
    def made(block_id: tuple[int, ...], scale: int = 1) -> np.ndarray:
        return np.full((4 - block_id[0], 3), block_id[0] * 10 + block_id[1]) * scale

    array = cw.map_blocks(made, chunks=((4, 3), (3, 3)), dtype=int, scale=2)
    assert array.shape == (7, 6) and array.dtype == np.int64
    expected = 2 * np.block([[np.full((4, 3), 0), np.full((4, 3), 1)], [np.full((3, 3), 10), np.full((3, 3), 11)]])
    np.testing.assert_array_equal(array.compute(), expected)
    np.testing.assert_array_equal(array[3:5, 2:].compute(), expected[3:5, 2:])
    with pytest.raises(ValueError, match="at least one array"):
        cw.map_blocks(made, dtype=int)


@pytest.mark.parametrize("memory", ["300MB", "756MB", "900MB"])
def test_tasks_are_not_cut_below_the_blocks_of_a_function_that_takes_much_memory(memory: str) -> None:
    """A block costs the function the same whatever a task needs of it: there were a hundred million tasks of one element each."""
    array = cw.map_blocks(np.zeros, (250, 500, 500), "i2", chunks=((250, 150), (500,), (500,)), dtype="i2", memory=memory)
    for fold in (cw.max(array), cw.mean(array, axis=0), array):
        assert cw.plan(fold, spec=cw.Spec(allowed_mem="2GB"))["tasks"] <= 8


def test_many_files_share_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files are copied only while they are few, and what reading leaves in a process stays little."""
    pytest.importorskip("netCDF4")
    from chunkwise import _sources, _workers

    monkeypatch.setattr("chunkwise._hdf5.SMALL", 1 << 60)
    monkeypatch.setattr(_sources, "ALL_SMALL", 3_000_000)
    monkeypatch.setattr(_sources, "_copies", _sources._Copies())
    values = np.random.default_rng(2).random((24, 5, 160, 250))
    for k, each in enumerate(values):
        xr.Dataset({"t": (("time", "y", "x"), each)}, {"time": np.arange(5) + 5 * k}).to_netcdf(tmp_path / f"{k:02}.nc", engine="netcdf4")
    started, left = [], []
    start, done = _workers.Worker.__init__, _workers.Caller.done

    def starting(worker: _workers.Worker, *about: Any) -> None:
        started.append(worker)
        start(worker, *about)

    def ending(caller: _workers.Caller, worker: _workers.Worker) -> None:
        left.append(worker.taken())
        done(caller, worker)

    monkeypatch.setattr(_workers.Worker, "__init__", starting)
    monkeypatch.setattr(_workers.Caller, "done", ending)
    lazy = xr.open_mfdataset(sorted(tmp_path.glob("*.nc")), chunks={"time": 5})
    np.testing.assert_allclose(lazy.t.mean("time").compute(), values.mean((0, 1)))
    assert len(left) >= 22 and len(started) <= 4 and max(left) < _workers.LEFT
    assert all(worker.process.poll() is not None for worker in started), "a process is left"
