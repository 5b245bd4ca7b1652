"""Lists of where the chunks of arrays in other files are.

A list is a small file in the work directory, for runs in other processes and for later sessions. Data sets may have thousands of files, and to make one more for each
takes a millisecond on many disks, and more on those of a network. So short lists stay in the memory of this process until something else needs them.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import suppress
from functools import cache

from . import _chunkwise

#: Characters of a list that stays in memory at most.
SHORT = 1 << 16
#: Seconds for which a list stays that nobody uses.
KEPT = 30 * 86400

#: The lists that have no file yet, by their places.
_held: dict[str, str] = {}


def place_of(work_dir: str, path: str, name: str, state: os.stat_result) -> str:
    """Where the list of an array in a file belongs. Another state of the file has another place."""
    about = f"{path}\n{name}\n{state.st_size}\n{state.st_mtime_ns}\n{state.st_ino}"
    return os.path.join(work_dir, "inputs", f"{hashlib.sha256(about.encode()).hexdigest()[:24]}.references")


def is_listed(place: str) -> bool:
    """True if there is a list already. Its file is used, and stays."""
    if place in _held:
        return True
    try:
        os.utime(place)
    except OSError:
        return False
    return True


def hold(place: str, text: str) -> None:
    """Keeps a list for this process, or in its file if it is long."""
    if len(text) > SHORT:
        _write(place, text)
        return
    _chunkwise.hold_references(place, text)
    _held[place] = text


def publish() -> None:
    """Writes the lists into their files, where other processes and later sessions find them."""
    for place, text in list(_held.items()):
        _write(place, text)
        _held.pop(place, None)


@cache
def _prepare(above: str) -> None:
    """Makes the folder of lists, and removes those that nobody has used for long; once in a process, since there may be thousands."""
    os.makedirs(above, exist_ok=True)
    with os.scandir(above) as entries:
        for entry in entries:
            if entry.name.endswith((".references", ".unfinished")):
                with suppress(OSError):
                    if entry.stat().st_mtime < time.time() - KEPT:
                        os.unlink(entry.path)


def _write(place: str, text: str) -> None:
    """Writes a list, whole or not at all. Several processes and threads may do so at once."""
    _prepare(os.path.dirname(place))
    unfinished = f"{place}-{os.getpid()}-{threading.get_ident()}.unfinished"
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(unfinished, place)
