"""An array keeps the spec that it was made with, and so does everything that is computed from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
import zarr

import chunkwise as cw

ONE, OTHER = cw.Spec(allowed_mem="300MB"), cw.Spec(allowed_mem="400MB")


@pytest.fixture
def stored(tmp_path: Path) -> str:
    zarr.create_array(tmp_path / "x.zarr", data=np.arange(60.0).reshape(6, 10), chunks=(2, 10))
    return str(tmp_path / "x.zarr")


def allowed(plan: cw.Plan) -> int:
    import json

    found: int = json.loads(plan["json"])["spec"]["allowed_mem"]
    return found


def test_results_have_the_spec_of_their_inputs(stored: str) -> None:
    for x in (cw.from_zarr(stored, spec=ONE), cw.open(stored, spec=ONE), cw.from_array(np.ones((6, 10)), spec=ONE), cw.from_array(zarr.open_array(stored), spec=ONE)):
        plain = cw.from_array(np.ones(10))
        for y in (x, cw.mean(x * 2 + plain, axis=0), x[1:, ::3], x.rechunk(3), cw.map_blocks(np.sqrt, x), x.T.astype("f4"), x.persist()):
            assert y.spec.allowed_mem == "300MB" and allowed(cw.plan(y)) == 300_000_000
            # What configuration says besides counts, too, and what is said last counts most.
            assert y.spec.workers == 2 and allowed(cw.plan(y, spec=OTHER)) == 400_000_000
    assert plain.spec.allowed_mem == "500MB"


def test_a_result_that_exceeds_the_spec_of_its_input_is_refused() -> None:
    x = cw.from_array(np.ones((8, 1)), spec=cw.Spec(allowed_mem="150MB"))
    with pytest.raises(cw.MemoryLimitError, match="150"):
        (x + cw.ones((8, 20_000_000))).compute()


def test_different_specs_need_a_word(stored: str) -> None:
    x, y = cw.from_zarr(stored, spec=ONE), cw.from_zarr(stored, spec=OTHER)
    with pytest.raises(ValueError, match="different specs: allowed_mem is '300MB' and '400MB'; say which with spec="):
        (x + y).compute()
    np.testing.assert_array_equal((x + y).compute(spec=ONE), 2 * np.arange(60.0).reshape(6, 10))
    assert (x + y).persist(spec=OTHER).spec.allowed_mem == "400MB"
    here, there = (cw.from_array(np.ones(3), spec=cw.Spec(storage={"s3://b": {"region": r}})) for r in ("here", "there"))
    with pytest.raises(ValueError, match="different storage options for s3://b"):
        cw.compute(here, there)


def test_xarray_passes_a_spec_on(stored: str, tmp_path: Path) -> None:
    xr.Dataset({"t": (("y", "x"), np.ones((6, 10)))}).to_zarr(tmp_path / "ds.zarr")
    ds = xr.open_zarr(tmp_path / "ds.zarr", chunks={}, from_array_kwargs={"spec": ONE}, chunked_array_type="chunkwise")
    assert ds.t.mean("y").data.spec.allowed_mem == "300MB"
    chunked = xr.DataArray(np.ones((4, 4))).chunk(2, from_array_kwargs={"spec": ONE}, chunked_array_type="chunkwise")
    assert (chunked + 1).data.spec.allowed_mem == "300MB"
