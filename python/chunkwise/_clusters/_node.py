"""What runs on the nodes of a cluster: the command ``chunkwise worker`` in a process of its own, whose memory is watched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

#: Seconds that a worker may take to hand back its tasks.
PATIENCE = 10.0
#: Seconds between two looks at the memory of a worker.
LOOK = 0.02

_running: dict[str, subprocess.Popen[bytes]] = {}
_stopped: set[str] = set()
_lock = threading.Lock()


def _program(named: str | None) -> str | None:
    """The command on this node."""
    named = named or os.environ.get("CHUNKWISE_PROGRAM")
    if named:
        return named
    return shutil.which("chunkwise", path=str(Path(sys.executable).parent)) or shutil.which("chunkwise")


def _used(pid: int) -> int:
    """Bytes of memory that a process has for itself: files that are mapped, as its program is, can be given back."""
    try:
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024
    except (OSError, KeyError, ValueError):
        return 0


def _watched(process: subprocess.Popen[bytes], memory: int) -> dict[str, Any]:
    """Waits for the end of a worker, which is killed if it uses more memory than it may."""
    while True:
        try:
            return {"code": process.wait(LOOK)}
        except subprocess.TimeoutExpired:
            if _used(process.pid) > memory:
                process.kill()
                process.wait()
                return {"memory": True}


def run(name: str, arguments: list[str], memory: int, env: dict[str, str], program: str | None = None) -> dict[str, Any]:
    """Runs a worker to its end, and says how it ended. It may use ``memory`` bytes."""
    command = _program(program)
    if command is None:
        return {"lost": f"the command chunkwise is not installed on {os.uname().nodename}; install it there, or name it: program=PATH"}
    with _lock:
        if name in _stopped:
            return {"lost": "it was cancelled before it started"}
        try:
            # It ends when this process is gone, and with it the other end of its input.
            quiet = subprocess.DEVNULL
            process = subprocess.Popen([command, *arguments], stdin=subprocess.PIPE, stdout=quiet, start_new_session=True, env={**os.environ, "CHUNKWISE_PYTHON": sys.executable, **env})
        except OSError as e:
            return {"lost": f"{command} cannot be started on {os.uname().nodename}: {e}"}
        _running[name] = process
    try:
        return _watched(process, memory)
    except BaseException:
        # Ray cancels a task by an exception.
        _end(process)
        return {"code": process.wait()}
    finally:
        with _lock:
            del _running[name]
        if process.stdin is not None:
            process.stdin.close()


def _end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()


def stop(names: list[str], at_once: bool = False) -> list[str]:
    """Ends workers of this process, without waiting for it: at once, or after they have handed back their tasks.

    Those that come later do not start. Returns the names of those that run.
    """
    with _lock:
        _stopped.update(names)
        running = {name: _running[name] for name in names if name in _running}
    for process in running.values():
        if at_once:
            process.kill()
        else:
            threading.Thread(target=_end, args=(process,), daemon=True).start()
    return list(running)
