"""Functions whose memory nobody has said."""

import os
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import chunkwise as cw
import numpy as np
import pytest
from chunkwise import _assumed

X = np.arange(12.0).reshape(4, 3)


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_assumed, "_limits", {})
    monkeypatch.setattr(_assumed, "_file", lambda version: str(tmp_path / "functions" / version))


def taking(mb: int) -> Any:
    def hungry(block: Any) -> Any:
        return block + np.ones(mb * 125_000)[0]

    return hungry


def applied(mb: int, **options: Any) -> cw.Array:
    return cw.map_blocks(taking(mb), cw.from_array(X, chunks=(2, 3)), dtype="f8", **options)


def test_a_call_that_takes_more_gets_more(tmp_path: Path) -> None:
    with cw.config(allowed_mem="700MB"):
        with pytest.warns(UserWarning, match=r"'hungry' took more memory than was assumed, .* with 2\d\d MB for each call; memory='2\d\dMB'"):
            np.testing.assert_array_equal(applied(150).compute(), X + 1)
        # It is known now, here and in another session.
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(applied(150).compute(), X + 1)
            assert cw.plan(applied(150))["projected_mem"] > 200_000_000
            _assumed._limits.clear()
            np.testing.assert_array_equal(applied(150).compute(), X + 1)
        with pytest.warns(UserWarning, match="hungry"):
            applied(155).to_zarr(tmp_path / "a.zarr")
        np.testing.assert_array_equal(cw.from_zarr(tmp_path / "a.zarr").compute(), X + 1)


def test_no_more_than_the_budget(tmp_path: Path) -> None:
    with cw.config(allowed_mem="300MB"):
        with pytest.raises(cw.MemoryLimitError, match=r"'hungry' used .* are assumed, as no memory= is given; give memory='") as caught:
            applied(900).compute()
        assert caught.value.needed > 64_000_000 and caught.value.enough > caught.value.allowed
        assert not _assumed._limits and not list(tmp_path.rglob("functions/*"))


def test_what_is_said_is_kept_to() -> None:
    with cw.config(allowed_mem="700MB"), pytest.raises(cw.MemoryLimitError, match="allowed by its memory="):
        applied(150, memory="70MB").compute()


def test_blocks_so_large_that_four_times_is_too_much() -> None:
    x = cw.ones((2, 7_000_000), chunks=(1, 7_000_000))
    with cw.config(allowed_mem="420MB"), warnings.catch_warnings():
        warnings.simplefilter("error")
        out = cw.max(cw.map_blocks(lambda block: block[:, :10], x, dtype="f8", chunks=(1, 10)))
        assert out.compute() == 1


def test_a_run_goes_on_with_what_it_had(tmp_path: Path) -> None:
    """Another session goes on with a run that was planned anew, and then killed."""
    program = textwrap.dedent(
        """
        import os, sys, signal
        import chunkwise as cw, numpy as np
        from chunkwise import _assumed
        place, resume = sys.argv[1], sys.argv[2] == "resume"
        _assumed._file = lambda version: place + "/functions/" + version
        def hungry(block, block_id=None):
            if block_id[0] == 5 and not os.path.exists(place + "/go"):
                os.kill(int(open(place + "/pid").read()), signal.SIGKILL)
            return block + np.ones(20_000_000)[0]
        open(place + "/pid", "w").write(str(os.getpid()))
        x = cw.from_array(np.arange(12.0).reshape(6, 2), chunks=(1, 2))
        with cw.config(allowed_mem="700MB", work_dir=place + "/work", workers=1):
            cw.map_blocks(hungry, x, dtype="f8").to_zarr(place + "/a.zarr", resume=resume)
        """
    )

    def session(how: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(Path(cw.__file__).parents[1])}
        command = [sys.executable, "-W", "ignore", "-c", program, str(tmp_path), how]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    assert session("new").returncode == -9
    (tmp_path / "go").touch()
    resumed = session("resume")
    assert resumed.returncode == 0, resumed.stderr
    np.testing.assert_array_equal(cw.from_zarr(tmp_path / "a.zarr").compute(), np.arange(12.0).reshape(6, 2) + 1)


def test_a_run_that_fails_later_goes_on_with_what_it_had(tmp_path: Path) -> None:
    ready = tmp_path / "ready"

    def hungry(block: Any, block_id: Any = None) -> Any:
        if block_id[0] == 3 and not ready.exists():
            raise KeyError("not ready")
        return block + np.ones(18_750_000)[0]

    x = cw.map_blocks(hungry, cw.from_array(X, chunks=(1, 3)), dtype="f8")
    with cw.config(allowed_mem="700MB", workers=1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KeyError, match="not ready"):
            x.to_zarr(tmp_path / "a.zarr")
        ready.touch()
        x.to_zarr(tmp_path / "a.zarr", resume=True)
    np.testing.assert_array_equal(cw.from_zarr(tmp_path / "a.zarr").compute(), X + 1)


def test_each_function_that_took_more_is_named() -> None:
    def more(block: Any) -> Any:
        return block * np.ones(18_750_000)[0]

    with cw.config(allowed_mem="1500MB"), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        np.testing.assert_array_equal(cw.map_blocks(more, applied(150), dtype="f8").compute(), X + 1)
    assert sorted(str(w.message).split("'")[1] for w in said) == ["hungry", "more"]
