"""Results in Zarr arrays that exist, whatever their codecs: chunks are moved there where they are encoded alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BloscCodec, BytesCodec, GzipCodec, ZstdCodec

import chunkwise as cw

#: How an array is made. The chunks of all but shards and version 2 can be moved.
TARGETS: dict[str, dict[str, Any]] = {
    "as zarr-python's own": {},
    "raw": {"compressors": None},
    "zstd with checksums": {"compressors": ZstdCodec(level=3, checksum=True)},
    "blosc": {"compressors": BloscCodec(cname="zstd", clevel=3)},
    "gzip": {"compressors": GzipCodec(level=1)},
    "big-endian": {"serializer": BytesCodec(endian="big")},
    "other fill": {"fill_value": -1.0},
    "shards": {"shards": (20, 16)},
    "version 2": {"zarr_format": 2},
    "other dtype": {"dtype": "float32"},
}


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("region", [None, (slice(20, 40), slice(16, 30))], ids=["whole", "region"])
def test_a_target(name: str, region: Any, tmp_path: Path) -> None:
    options = TARGETS[name]
    values = np.random.default_rng(0).normal(size=(45, 30) if region is None else (20, 14))
    # Chunks that hold the fill value only: the target's, and that of the array in between.
    values[:10, :8] = options.get("fill_value", 0.0)
    values[10:, :8] = 0.0
    target = zarr.create_array(tmp_path / "x.zarr", shape=(45, 30), chunks=(10, 8), **{"dtype": "float64", **options})
    target[...] = 7.0
    work = tmp_path / "work"
    with cw.config(work_dir=str(work)):
        x = cw.from_array(values, chunks=(9, 30))
        cw.store(x * 1.0, target, regions=region)
    expected = np.full((45, 30), 7.0)
    expected[region or ...] = values
    np.testing.assert_array_equal(zarr.open_array(tmp_path / "x.zarr", mode="r")[...], expected.astype(target.dtype))
    assert not list(work.glob("stores/*")), "what was between is gone"
