"""The workloads of `benches/pangeo.py`, small: results, and that no Python runs for each chunk."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from pathlib import Path
from types import CodeType, ModuleType

import pytest
import xarray as xr

import chunkwise as cw
from chunkwise import _run

pytest.importorskip("flox")


def loaded() -> ModuleType:
    path = Path(__file__).parents[2] / "benches" / "pangeo.py"
    spec = importlib.util.spec_from_file_location("pangeo", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["pangeo"] = module
    spec.loader.exec_module(module)
    return module


pangeo = loaded()


@pytest.mark.parametrize("workload", pangeo.WORKLOADS)
def test_pangeo(workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data.zarr"
    pangeo.write(workload, 0.3, data, side=0.2)
    pangeo.run("numpy", workload, str(data), str(tmp_path / "numpy.zarr"), "")

    calls: list[CodeType] = []
    engine = _run._chunkwise.store

    def counted(*args: object) -> object:
        """The run of the engine, with all code of Python that begins in any thread meanwhile."""
        monitoring = sys.monitoring
        monitoring.use_tool_id(monitoring.PROFILER_ID, "calls")
        monitoring.register_callback(monitoring.PROFILER_ID, monitoring.events.PY_START, lambda code, _: calls.append(code))
        monitoring.set_events(monitoring.PROFILER_ID, monitoring.events.PY_START)
        try:
            return engine(*args)
        finally:
            monitoring.set_events(monitoring.PROFILER_ID, 0)
            monitoring.free_tool_id(monitoring.PROFILER_ID)

    if sys.version_info >= (3, 12):
        monkeypatch.setattr(_run._chunkwise, "store", counted)
    with xr.set_options(chunk_manager="chunkwise"):
        ds = xr.open_zarr(data, consolidated=False)
        with cw.raise_if_computes():
            result = pangeo.WORKLOADS[workload](ds)
        assert all(isinstance(x.data, cw.Array) for x in result.data_vars.values())
        result.to_zarr(tmp_path / "out.zarr", consolidated=False)
    assert pangeo.difference(tmp_path / "out.zarr", tmp_path / "numpy.zarr") < 1e-14
    # Threads of zarr-python may end meanwhile, in the standard library, and those of the test runner may talk to each other.
    library, runner = sysconfig.get_path("stdlib"), ("execnet", "xdist", "_pytest", "pluggy")
    packages = [c for c in calls if not c.co_filename.startswith(library) or "site-packages" in c.co_filename]
    ours = [c.co_qualname for c in packages if not any(f"/{name}/" in c.co_filename for name in runner)]
    assert ours == []
    with xr.open_zarr(tmp_path / "out.zarr", consolidated=False) as a, xr.open_zarr(tmp_path / "numpy.zarr", consolidated=False) as b:
        assert set(a.coords) == set(b.coords) and all(a[name].identical(b[name]) for name in b.coords)
