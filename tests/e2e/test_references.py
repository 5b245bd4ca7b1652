"""Chunks that are parts of a file of HDF5: in how much memory they are read."""

import sys
from pathlib import Path

import numpy as np
import pytest
from harness import write_pipeline
from projections import check_projections

sys.path.append(str(Path(__file__).parents[2] / "python"))


@pytest.mark.parametrize("layout", [{"chunks": (25, 300, 400), "compression": "gzip", "shuffle": True}, {"chunks": (25, 300, 400)}, {}])
def test_tasks_stay_under_their_projections(tmp_path, layout):
    h5py = pytest.importorskip("h5py")
    import chunkwise as cw
    from chunkwise import _hdf5, _references

    # Noise, so that encoded chunks are as large as decoded ones: 24 MB.
    values = np.random.default_rng(0).random((100, 300, 400))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("t", data=values, **layout)
    with h5py.File(tmp_path / "x.h5", "r") as file, cw.config(work_dir=str(tmp_path / "work")):
        array = _hdf5.of_dataset(file["t"], None)
        _references.publish()
    expressions = {"m": "mean(x, axis=0, skipna=True)", "y": "flip(x, axis=0) + 1"}
    path = write_pipeline(tmp_path, {"x": str(array._lazy.url)}, expressions, {"out/m": "m", "out/y": "y"})
    check_projections(tmp_path, path, "200MB", "--workers", 2)
    np.testing.assert_allclose(cw.from_zarr(tmp_path / "out/m").compute(), values.mean(0), rtol=1e-13)
    np.testing.assert_array_equal(cw.from_zarr(tmp_path / "out/y").compute(), values[::-1] + 1)
