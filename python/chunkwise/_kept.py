"""Processes that wait for the next run of the same function. What the function has compiled or read is still there.

They are forks of the template (:mod:`chunkwise._template`), and go with it. What they and the template hold is limited by the budget of each run.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

from . import _template
from ._memory import LEFT, proportional

if TYPE_CHECKING:
    from ._workers import Worker

_lock = threading.Lock()
#: With their functions, the oldest first.
_kept: dict[Worker, str] = {}


def surroundings() -> Any:
    """What a process has from the program that has started it, and keeps."""
    outputs = [(fd, about.st_dev, about.st_ino) for fd in (1, 2) if (about := _template.open_file(fd))]
    return _template.environment(), os.getcwd(), outputs


def give(version: str, workers: list[Worker]) -> None:
    """Keeps the processes of a function after a run, or frees them."""
    drop = []
    with _lock:
        for worker in workers:
            if isinstance(worker.process, _template.Forked) and worker.taken() <= LEFT:
                _kept[worker] = version
            else:
                drop.append(worker)
        for worker in list(_kept)[: max(len(_kept) - (os.cpu_count() or 1), 0)]:
            drop.append(worker)
            del _kept[worker]
    for worker in drop:
        worker.free()


def take(version: str, path: list[str]) -> Worker | None:
    """A process that was kept and is as a new one would be."""
    drop = []
    found = None
    with _lock:
        now = surroundings() if version in _kept.values() else None
        for worker in [w for w, of in _kept.items() if of == version]:
            del _kept[worker]
            same = worker.process.poll() is None and worker.surroundings == now
            if same and isinstance(worker.process, _template.Forked) and worker.process.template.good(path):
                found = worker
                found.kept = True
                break
            drop.append(worker)
    for worker in drop:
        worker.free()
    return found


def make_room(most: int, wanted: set[str]) -> None:
    """Frees processes before a run, the oldest first, until they hold at most as many bytes for themselves.

    Those of the functions that the run calls stay, since its plan has their memory.
    """
    with _lock:
        template = 0 if wanted else _template.holds()
        others = {w: proportional(w.process.pid) for w, version in _kept.items() if version not in wanted}
        held, drop = template + sum(others.values()), []
        for worker, has in others.items():
            if held <= most:
                break
            held -= has
            drop.append(worker)
            del _kept[worker]
    for worker in drop:
        worker.free()
    if template and held > most:
        _template.close_idle()


def _in_fork() -> None:
    """A fork of the program has none, and must not wait for a lock that nobody holds."""
    global _lock
    _lock = threading.Lock()
    _kept.clear()


os.register_at_fork(after_in_child=_in_fork)
