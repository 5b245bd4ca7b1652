"""Workers that are forked from a process with the modules of their functions, and workers that wait for the next run."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import chunkwise as cw
from chunkwise import _kept, _template
from conftest import PACKAGE

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are forked on Linux only")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Without processes of other tests."""
    _kept.make_room(-1, set())
    yield
    _kept.make_room(-1, set())


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that writes a line for each time that it is imported by another process."""
    path = tmp_path / "modules" / "of_the_user.py"
    path.parent.mkdir()
    monkeypatch.syspath_prepend(str(path.parent))
    yield path
    sys.modules.pop("of_the_user", None)


def written(path: Path, text: str) -> ModuleType:
    path.write_text(f"import os\nwith open({str(path.parent / 'log')!r}, 'a') as log:\n    log.write(f'{{os.getpid()}}\\n')\n" + textwrap.dedent(text))
    sys.modules.pop("of_the_user", None)
    importlib.invalidate_caches()
    return importlib.import_module("of_the_user")


def imports(path: Path) -> int:
    """How many other processes have imported the module."""
    return len(set((path.parent / "log").read_text().split()) - {str(os.getpid())})


ADD = """
import numpy as np
def add(block):
    return block + 1
def pid(block):
    return np.full(block.shape, os.getpid())
"""


def test_a_module_is_imported_once_for_all_runs_and_anew_when_it_was_edited(module: Path) -> None:
    user = written(module, ADD)
    x = cw.from_array(np.zeros(8), chunks=1)
    for _ in range(3):
        np.testing.assert_array_equal(cw.map_blocks(user.add, x, dtype="f8").compute(), np.ones(8))
        np.testing.assert_array_equal(cw.map_blocks(lambda b: user.add(b) * 2, x, dtype="f8").compute(), np.full(8, 2.0))
    assert imports(module) == 1
    user = written(module, ADD.replace("+ 1", "+ 5"))
    np.testing.assert_array_equal(cw.map_blocks(user.add, x, dtype="f8").compute(), np.full(8, 5.0))
    np.testing.assert_array_equal(cw.map_blocks(lambda b: user.add(b) * 2, x, dtype="f8").compute(), np.full(8, 10.0))
    assert imports(module) == 2


def test_a_process_waits_for_the_next_run_of_its_function(module: Path) -> None:
    user = written(module, ADD)
    x = cw.from_array(np.zeros(1), chunks=1)

    def run(allowed_mem: str = "2GB") -> int:
        return int(cw.map_blocks(user.pid, x, dtype="i8").compute(spec=cw.Spec(allowed_mem=allowed_mem))[0])

    first = run()
    assert first != os.getpid() and run() == first
    (kept,) = _kept._kept
    assert kept.process.pid == first
    # Another run may need its memory.
    cw.from_array(np.zeros(3)).sum().compute(spec=cw.Spec(allowed_mem="2GB"))
    assert kept.process.poll() is None
    cw.from_array(np.zeros(3)).sum().compute(spec=cw.Spec(allowed_mem="75MB"))
    assert kept.process.poll() is not None and not _kept._kept
    assert run() != first
    _kept.make_room(0, set())
    assert not _kept._kept and _template._template is None


def test_what_takes_much_memory_does_not_wait() -> None:
    held: list[np.ndarray] = []

    def keeps(block: np.ndarray) -> np.ndarray:
        held.append(np.ones(25_000_000))
        return block

    np.testing.assert_array_equal(cw.map_blocks(keeps, cw.from_array(np.arange(2.0)), dtype="f8", memory="400MB").compute(spec=cw.Spec(allowed_mem="2GB")), np.arange(2.0))
    assert not _kept._kept


def test_environment_folder_and_outputs_are_those_of_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    x = cw.from_array(np.zeros(2), chunks=1)

    def look(block: np.ndarray) -> np.ndarray:
        print("said", os.environ.get("OF_THE_USER"), os.getcwd(), flush=True)
        return block

    for k in range(2):
        folder = tmp_path / str(k)
        folder.mkdir()
        monkeypatch.chdir(folder)
        monkeypatch.setenv("OF_THE_USER", str(k))
        cw.map_blocks(look, x, dtype="f8").compute()
        assert capfd.readouterr().out == f"said {k} {folder}\n" * 2


def test_workers_have_random_numbers_of_their_own(module: Path) -> None:
    user = written(module, "import time, numpy as np\nOWN = {}\ndef common(block):\n    time.sleep(0.05)\n    return np.random.random(block.shape)\n")
    x = cw.from_array(np.zeros(8), chunks=1)
    workers = cw.Spec(workers=4)
    for _ in range(2):
        assert len(set(cw.map_blocks(user.common, x, dtype="f8").compute(spec=workers))) == 8
        _kept.make_room(-1, set())
    # The generator of a module would be the same in each fork.
    user = written(module, "import time, numpy as np\nRNG = np.random.default_rng()\ndef own(block):\n    time.sleep(0.05)\n    return RNG.random(block.shape)\n")
    assert len(set(cw.map_blocks(user.own, x, dtype="f8").compute(spec=workers))) == 8
    assert not _kept._kept


def test_a_module_with_threads_is_not_forked(module: Path) -> None:
    text = """
    import queue, threading
    ASKED, SAID = queue.Queue(), queue.Queue()
    def work():
        while True:
            SAID.put(ASKED.get() + 1)
    threading.Thread(target=work, daemon=True).start()
    def add(block):
        ASKED.put(block)
        return SAID.get(timeout=60)
    """
    user = written(module, text)
    x = cw.from_array(np.zeros(3), chunks=1)
    for _ in range(2):
        np.testing.assert_array_equal(cw.map_blocks(user.add, x, dtype="f8").compute(), np.ones(3))
    assert not _kept._kept


def test_a_module_that_cannot_be_imported_says_so(module: Path) -> None:
    user = written(module, ADD)
    module.write_text("raise ImportError('no such library here')")
    with pytest.raises(ImportError, match="no such library here"):
        cw.map_blocks(user.add, cw.from_array(np.zeros(3)), dtype="f8").compute()
    module.write_text("import os\nos._exit(3)")
    with pytest.raises(RuntimeError, match="ended with exit code 3"):
        cw.map_blocks(user.add, cw.from_array(np.zeros(3)), dtype="f8", memory="99MB").compute()


PROGRAM = """
import os, signal, sys, threading, time
import numpy as np
import chunkwise as cw
import slow

# A shell that starts programs in the background has them ignore it.
signal.signal(signal.SIGINT, signal.default_int_handler)

def kill():
    while not os.path.exists("imports"):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=kill, daemon=True).start()
began = time.monotonic()
try:
    cw.map_blocks(slow.add, cw.from_array(np.zeros(3)), dtype="f8").compute(spec=cw.Spec(work_dir="work"))
except KeyboardInterrupt:
    print("stopped", flush=True)
# Whoever has imported the module is gone.
pid = int(open("imports").read())
while os.path.exists(f"/proc/{pid}"):
    assert time.monotonic() < began + 60
    time.sleep(0.01)
print("gone")
"""


def test_a_run_is_stopped_while_modules_are_imported(tmp_path: Path) -> None:
    main = f"import os, time\nif os.getpid() != {{}}:\n    open('part', 'w').write(str(os.getpid())); os.replace('part', 'imports'); time.sleep(600)\n"
    (tmp_path / "slow.py").write_text(main.replace("{}", "int(os.environ['MAIN'])") + "def add(block):\n    return block + 1\n")
    (tmp_path / "program.py").write_text("import os\nos.environ['MAIN'] = str(os.getpid())\n" + PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    began = time.monotonic()
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["stopped", "gone"], done.stderr
    assert time.monotonic() - began < 100


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_program_that_forks_has_its_own(module: Path) -> None:
    user = written(module, ADD)
    x = cw.from_array(np.zeros(2))
    cw.map_blocks(user.add, x, dtype="f8").compute()
    template = _template._template
    assert template is not None and _kept._kept
    pid = os.fork()
    if pid == 0:
        os._exit(0 if _template._template is None and not _kept._kept and not _template.holds() else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert template.process.poll() is None
    np.testing.assert_array_equal(cw.map_blocks(user.add, x, dtype="f8").compute(), np.ones(2))


def test_what_children_of_a_fork_take_counts_and_what_they_share_does_not(module: Path) -> None:
    """The modules have more memory than the function may take."""
    user = written(module, "import numpy as np\nLARGE = [np.ones(25_000_000)]\ndef f(block):\n    return block + LARGE[0][0]\n")
    x = cw.from_array(np.zeros(4), chunks=1)

    def forking(block: np.ndarray, size: int) -> np.ndarray:
        if (child := os.fork()) == 0:
            kept = np.ones(size) + user.f(0)
            time.sleep(0.3 if size < 1000 else 20)
            os._exit(int(kept[0]) - 2)
        os.waitpid(child, 0)
        return block

    options = {"dtype": "f8", "memory": "100MB", "size": 10}
    np.testing.assert_array_equal(cw.map_blocks(forking, x, **options).compute(), np.zeros(4))
    with pytest.raises(cw.MemoryLimitError, match="forking"):
        cw.map_blocks(forking, x, **{**options, "size": 15_000_000}).compute()


def test_what_an_earlier_run_has_left_is_no_memory_of_the_next_one(module: Path) -> None:
    user = written(module, "import numpy as np\nLEFT = []\ndef f(block):\n    LEFT.append(np.ones(5_000_000))\n    return block + np.ones(9_000_000)[0]\n")
    x = cw.from_array(np.zeros(1), chunks=1)
    for _ in range(4):
        # 40 MB stay, and 72 MB are needed besides.
        np.testing.assert_array_equal(cw.map_blocks(user.f, x, dtype="f8", memory="125MB").compute(), np.ones(1))
    with pytest.raises(cw.MemoryLimitError):
        cw.map_blocks(user.f, x, dtype="f8", memory="80MB").compute()
