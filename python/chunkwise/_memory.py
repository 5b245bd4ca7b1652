"""Processes and the memory that they have, as the system knows them."""

from __future__ import annotations

import os

from ._worker import used

#: Bytes that functions may leave in a process that is used again, mostly for what they import.
LEFT = 128_000_000


def family(pid: int) -> list[int]:
    """A process and those that it has started."""
    out = [pid]
    for each in out:
        try:
            for thread in os.listdir(f"/proc/{each}/task"):
                with open(f"/proc/{each}/task/{thread}/children") as children:
                    out.extend(int(child) for child in children.read().split())
        except OSError:
            continue
    return out


def lives(pid: int) -> bool:
    """True if a process has not ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def taken(pid: int, base: int, outside: int) -> int:
    """Bytes that a process and those that it has started have for themselves, beyond the ``base`` that it began with.

    It shares its base with ``outside`` other processes, of which it is a fork or a sibling. What it shares with processes that it has started counts once.
    """
    processes = family(pid)
    if len(processes) > 1:
        # The system counts a page that is shared by n processes as an nth of it for each.
        return sum(map(proportional, processes)) - base * len(processes) // (len(processes) + outside)
    try:
        return used("RssAnon", pid) - base
    except OSError:
        return 0


def proportional(pid: int) -> int:
    """Bytes that a process has for itself, with its part of what it shares with its forks and its parent."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as lines:
            return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss_Anon:")), 0)
    except OSError:
        return 0
