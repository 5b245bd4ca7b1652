"""A process that imports what functions of users need, and of which each worker is a fork.

To import a library takes seconds, and each run has workers of its own. So the *template* imports it once, runs nothing, and stays for later runs of the
program. A worker that is forked from it starts in milliseconds. The memory of the modules is there once.

A module that has been written since is imported anew, by another template. Where a fork would not be the same as a new process, there is none: after a module
has started threads, where a module holds a generator of random numbers, and on systems other than Linux.
"""

from __future__ import annotations

import atexit
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ._memory import proportional
from ._worker import Channel, readable

#: How often it is asked whether a run was stopped, in seconds.
TICK = 0.05
#: How long a template waits for the next worker, in seconds.
IDLE = 600.0
#: Bytes of a function that only its worker loads, not the template.
LARGE = 8 << 20
#: Environment of workers: many run side by side, so each has one thread.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
PROGRAM = str(Path(__file__).with_name("_worker.py"))


def environment() -> dict[str, str]:
    """The environment of a worker."""
    return {**os.environ, **{name: os.environ.get(name, "1") for name in THREADS}}


def _exit_status(pid: int) -> int:
    """The exit code of a process that nobody has waited for, as :class:`subprocess.Popen` has it."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return os.waitstatus_to_exitcode(int(stat.read().rpartition(")")[2].split()[-1]))
    except (OSError, ValueError):
        # The template is gone, and the system has waited.
        return -9


class Forked:
    """A fork of a template, with what is needed of :class:`subprocess.Popen`. Several threads may ask for its end."""

    def __init__(self, template: Template, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.template = template
        self._lock = threading.Lock()
        self._fd = os.pidfd_open(pid)
        template.forks.add(pid)

    @property
    def outside(self) -> int:
        """How many other processes share memory with it: the template and its other forks."""
        return len(self.template.forks)

    def poll(self) -> int | None:
        """The exit code, if the process has ended."""
        return self._ended(0)

    def wait(self) -> int:
        """The exit code, after the end of the process."""
        while (code := self._ended(TICK)) is None:
            pass
        return code

    def _ended(self, seconds: float) -> int | None:
        with self._lock:
            if self.returncode is None and readable(self._fd, seconds):
                self.returncode = _exit_status(self.pid)
                os.close(self._fd)
                self.template.ended(self.pid)
            return self.returncode


class Unfit(Exception):
    """A template that cannot be forked, or that has died."""


class Template:
    """The process, which one program has."""

    def __init__(self, path: list[str]) -> None:
        ours, theirs = socket.socketpair()
        life, self._life = os.pipe()
        # It must not import what lies beside its program: -P.
        program = [sys.executable, "-P", PROGRAM, "--template", str(theirs.fileno()), str(life), str(IDLE)]
        fds = (theirs.fileno(), life)
        self.process = subprocess.Popen(program, stdin=subprocess.DEVNULL, pass_fds=fds, env=environment(), start_new_session=True)
        theirs.close()
        os.close(life)
        self.owner, self.path = os.getpid(), path
        self._channel = Channel(ours)
        self._files: dict[str, tuple[int, int]] = {}
        self._loaded: set[str] = set()
        self._ended: list[int] = []
        #: Those that have not ended.
        self.forks: set[int] = set()

    def good(self, path: list[str]) -> bool:
        """True if it is alive, and has imported nothing that a new process would import in another way."""
        return self.process.poll() is None and path == self.path and all(self._same(file, about) for file, about in self._files.items())

    @staticmethod
    def _same(file: str, about: tuple[int, int]) -> bool:
        try:
            now = os.stat(file)
        except OSError:
            return False
        return (now.st_size, now.st_mtime_ns) == about

    def load(self, version: str, blob: bytes, watch: Callable[[], None]) -> None:
        """Imports what a function needs. ``watch`` is called often, and may raise an error."""
        if version in self._loaded or len(blob) > LARGE:
            return
        answer = self._ask({"path": self.path}, blob, watch)
        self._files.update({file: (size, time) for file, (size, time) in answer["files"].items()})
        self._loaded.add(version)
        if not answer["fit"]:
            raise Unfit

    def fork(self, fds: tuple[int, int, int], watch: Callable[[], None]) -> Forked:
        """A process with these three descriptors: of its channel, its arena, and its life."""
        outputs = [fd for fd in (1, 2) if open_file(fd)]
        message = {"outputs": outputs, "folder": os.getcwd(), "environment": environment()}
        pid = self._ask(message, b"", watch, [*fds, *outputs])["pid"]
        try:
            return Forked(self, pid)
        except OSError:
            raise Unfit from None

    def ended(self, pid: int) -> None:
        """A fork has ended. It is waited for before the next one."""
        self._ended.append(pid)
        self.forks.discard(pid)

    def _ask(self, message: dict[str, Any], blob: bytes, watch: Callable[[], None], fds: list[int] | None = None) -> dict[str, Any]:
        ended, self._ended = self._ended, []
        try:
            self._channel.send({**message, "ended": ended}, blob)
            if fds:
                socket.send_fds(self._channel.sock, [b"f"], fds)
            while not readable(self._channel.sock.fileno(), TICK):
                watch()
            return self._channel.receive()[0]
        except (EOFError, OSError):
            raise Unfit from None

    def close(self) -> None:
        """Ends it. Its forks go on."""
        if self.owner == os.getpid():
            self.process.kill()
            self.process.wait()
            os.close(self._life)
        self._channel.sock.close()


def open_file(fd: int) -> os.stat_result | None:
    """What a descriptor stands for, if it is open."""
    try:
        return os.fstat(fd)
    except OSError:
        return None


_lock = threading.Lock()
_template: Template | None = None
#: Versions of functions whose modules cannot be forked.
_unfit: set[str] = set()


def forked(path: list[str], version: str, blob: bytes, fds: tuple[int, int, int], watch: Callable[[], None]) -> Forked | None:
    """A fork that has imported what a function needs; none, if a new process must be started instead."""
    global _template
    if not sys.platform.startswith("linux") or not hasattr(os, "pidfd_open") or version in _unfit:
        return None
    with _lock:
        if _template is not None and (_template.owner != os.getpid() or not _template.good(path)):
            _close()
        try:
            if _template is None:
                _template = Template(path)
            _template.load(version, blob, watch)
            return _template.fork(fds, watch)
        except Unfit:
            _unfit.add(version)
            _close()
            return None
        except BaseException:
            # Nobody reads its answer.
            _close()
            raise


def holds() -> int:
    """Bytes that the template has for itself. What it shares with forks counts in part."""
    template = _template
    return 0 if template is None or template.owner != os.getpid() or template.process.poll() is not None else proportional(template.process.pid)


def close_idle() -> None:
    """Ends the template, if it is not at work."""
    if _lock.acquire(blocking=False):
        try:
            _close()
        finally:
            _lock.release()


@atexit.register
def _close() -> None:
    global _template
    if _template is not None:
        closed, _template = _template, None
        closed.close()


def _in_fork() -> None:
    """A fork of the program has no template, and must not wait for a lock that nobody holds."""
    global _lock, _template
    _lock, _template = threading.Lock(), None


os.register_at_fork(after_in_child=_in_fork)
