"""Under xarray, writes to regions that begin and end inside chunks of the store: appends above all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkwise as cw
from chunkwise import _margins
from chunkwise.xarray import ChunkwiseManager


def numbers(steps: int) -> xr.Dataset:
    values = np.arange(1, steps * 5 + 1)
    return xr.Dataset(
        {
            "f": (("t", "x"), values.reshape(steps, 5).astype("i2")),
            "g": (("x", "t"), values.reshape(5, steps) / 2),
            "h": ("t", np.arange(steps) % 2 == 0),
            "still": ("x", np.arange(5.0)),
        },
        coords={"t": np.arange(steps)},
    )


def written(path: Path) -> xr.Dataset:
    return xr.open_zarr(path, consolidated=False, chunks=None).load()


def test_an_append_that_begins_inside_a_chunk(tmp_path: Path) -> None:
    """xarray had resized the arrays before it was refused, and filler was left in them."""
    whole = numbers(24)
    lazy = whole.chunk(t=6)
    lazy.isel(t=slice(0, 10)).to_zarr(tmp_path / "a.zarr", consolidated=False)
    lazy.isel(t=slice(10, 24)).to_zarr(tmp_path / "a.zarr", append_dim="t", consolidated=False)
    xr.testing.assert_identical(written(tmp_path / "a.zarr"), whole)
    assert not list((tmp_path / "work").glob("*/*.zarr")) and not list((tmp_path / "work" / "targets").glob("*"))


@pytest.mark.parametrize("options", [{"align_chunks": True}, {"safe_chunks": False}], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_random_appends(options: dict[str, Any], seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    whole, store = numbers(int(rng.integers(20, 40))), tmp_path / "a.zarr"
    encoding = {name: {"chunks": tuple(rng.integers(1, 9, whole[name].ndim).tolist())} for name in whole.data_vars}
    if seed == 1:
        encoding["f"]["shards"] = tuple(3 * n for n in encoding["f"]["chunks"])
    cuts = [0, *sorted(rng.choice(np.arange(1, whole.sizes["t"]), 5, replace=False).tolist()), whole.sizes["t"]]
    for start, stop in zip(cuts, cuts[1:]):
        part = whole.isel(t=slice(start, stop)).chunk(t=int(rng.integers(1, 9)), x=int(rng.integers(1, 6)))
        if start:
            part.drop_vars("still").to_zarr(store, append_dim="t", consolidated=False, **options)
        else:
            part.to_zarr(store, encoding=encoding, consolidated=False, **options)
    xr.testing.assert_equal(written(store), whole)


def test_steps_one_by_one(tmp_path: Path) -> None:
    whole = numbers(15)
    for t in range(15):
        step = whole.isel(t=[t]).chunk()
        if t:
            step.drop_vars("still").to_zarr(tmp_path / "a.zarr", append_dim="t", consolidated=False)
        else:
            step.to_zarr(tmp_path / "a.zarr", encoding={"f": {"chunks": (4, 5)}, "g": {"chunks": (5, 4)}, "h": {"chunks": (4,)}}, consolidated=False)
    xr.testing.assert_equal(written(tmp_path / "a.zarr"), whole)


def test_a_region_inside_chunks_keeps_what_is_around_it(tmp_path: Path) -> None:
    whole = numbers(24)
    whole.to_zarr(tmp_path / "a.zarr", encoding={"f": {"chunks": (6, 2)}, "g": {"chunks": (2, 6)}, "h": {"chunks": (6,)}}, consolidated=False)
    for t, x in ((slice(4, 17), slice(1, 5)), (slice(7, 9), slice(2, 3)), (slice(0, 24), slice(1, 2)), (slice(20, 24), slice(0, 5))):
        part = (-whole[["f", "g"]].isel(t=t, x=x)).drop_vars("t")
        part.chunk(t=3, x=2).to_zarr(tmp_path / "a.zarr", region={"t": t, "x": x}, safe_chunks=False, consolidated=False)
        for name in ("f", "g"):
            whole[name][{"t": t, "x": x}] = part[name]
        xr.testing.assert_equal(written(tmp_path / "a.zarr"), whole)


@pytest.mark.parametrize("most", [1, 10, 100, 10**9])
def test_margins_are_written_in_parts(most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part cuts no chunk of the target, and has no more elements than are allowed, or one chunk."""
    rng = np.random.default_rng(most)
    monkeypatch.setattr(_margins, "PART", most * 8)
    sizes: list[int] = []
    parts = _margins._parts

    def seen(*args: Any) -> Any:
        for part in parts(*args):
            sizes.append(int(np.prod([b - a for a, b in part])))
            yield part

    monkeypatch.setattr(_margins, "_parts", seen)
    for k in range(4):
        sizes.clear()
        shape, chunks = rng.integers(5, 20, 3), rng.integers(2, 9, 3)
        target = zarr.create_array(tmp_path / f"{k}.zarr", shape=shape.tolist(), chunks=chunks.tolist(), dtype="f8")
        target[...] = expected = rng.normal(size=shape)
        start = [int(rng.integers(0, n)) for n in shape]
        region = tuple(slice(a, int(rng.integers(a, n + 1))) for a, n in zip(start, shape))
        expected[region] *= -1
        ChunkwiseManager().store([cw.from_array(expected[region], chunks=4)], [target], regions=[region])
        np.testing.assert_array_equal(target[...], expected)
        assert max(sizes, default=0) <= max(most, int(np.prod(chunks)))


def test_store_itself_refuses_a_part_of_a_chunk(tmp_path: Path) -> None:
    target = zarr.create_array(tmp_path / "a.zarr", shape=(10,), chunks=(4,), dtype="f8")
    with pytest.raises(ValueError, match="a part of a chunk of 4"):
        cw.store(cw.ones(5), target, regions=(slice(3, 8),))
