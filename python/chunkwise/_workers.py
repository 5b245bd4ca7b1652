"""Processes that run functions of users, and what holds them to their memory and their time."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Any

import cloudpickle
import numpy as np

from . import _assumed, _chunkwise, _kept, _template
from ._errors import MemoryLimitError
from ._memory import LEFT, family, lives, taken
from ._worker import Arena, Channel, found, placed, readable, used

#: Bytes of a worker process itself: Python, NumPy and what it imports.
BASE = 48 << 20
#: How often memory and time are looked at while a function runs, in seconds.
TICK = 0.005
#: How long to wait for killed processes to give back their memory, in seconds.
GONE = 5.0
#: How often a block is tried whose process dies.
TRIES = 3


def text_of(n: int) -> str:
    """Bytes for people."""
    return f"{n / 1e9:.2f} GB" if n >= 1e9 else f"{n / 1e6:.0f} MB" if n >= 1e6 else f"{n} B"


class Died(Exception):
    """A process that ended before it answered."""


class Worker:
    """One process, which has the modules that a function needs if it can be forked. ``watch`` is called often until then."""

    def __init__(self, path: list[str], version: str, blob: bytes, watch: Callable[[], None]) -> None:
        ours, theirs = socket.socketpair()
        fd = os.memfd_create("chunkwise") if hasattr(os, "memfd_create") else _anonymous_file()
        life, self.life = os.pipe()
        fds = theirs.fileno(), fd, life
        self.surroundings = _kept.surroundings()
        try:
            self.process = _template.forked(path, version, blob, fds, watch) or _started(fds)
        except BaseException:
            ours.close()
            os.close(fd)
            os.close(self.life)
            raise
        finally:
            theirs.close()
            os.close(life)
        self.channel, self.arena = Channel(ours), Arena(fd)
        self.channel.send({"path": path})
        #: The versions of the functions that it has loaded, and the bytes that it had for itself with the first one.
        self.loaded: set[str] = set()
        self.base = 0
        #: True if it has waited since an earlier run.
        self.kept = False

    def kill(self) -> list[int]:
        """Kills the process and all that it has started, whose numbers it returns."""
        # The number of a process that was waited for may be another's by now; that of its group is taken while it has members.
        killed = family(self.process.pid) if self.process.poll() is None else []
        for pid in reversed(killed):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except OSError:
            pass
        return killed

    def close(self, killed: list[int] | None = None) -> None:
        """Ends the process and all that it has started, or waits for the end of those that were killed."""
        killed = self.kill() if killed is None else killed
        self.process.wait()
        # Those that it has started end a little later. Some systems leave them as zombies, which hold nothing.
        until = time.monotonic() + GONE
        while any(map(lives, killed)) and time.monotonic() < until:
            time.sleep(TICK)

    def free(self) -> None:
        """Ends the process and gives back what belongs to it."""
        self.close()
        self.channel.sock.close()
        os.close(self.life)
        os.close(self.arena.fd)

    def taken(self) -> int:
        """Bytes that it has for itself beyond those that it began with."""
        return taken(self.process.pid, self.base, self.process.outside if isinstance(self.process, _template.Forked) else 0)

    def answer(self, watch: Callable[[], None]) -> tuple[dict[str, Any], bytes]:
        """What the process says. Until then, ``watch`` is called often."""
        while not readable(self.channel.sock.fileno(), TICK):
            # What it has started may keep the socket open.
            if self.process.poll() is not None:
                raise Died
            watch()
        try:
            return self.channel.receive()
        except (EOFError, ConnectionResetError):
            raise Died from None

    def ended(self) -> str:
        """How the process ended, for people."""
        code = self.process.wait()
        return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"


def _started(fds: tuple[int, int, int]) -> subprocess.Popen[bytes]:
    """A process of its own, which imports what its function needs."""
    # It must not import what lies beside its program: -P.
    program = [sys.executable, "-P", _template.PROGRAM, *map(str, fds)]
    return subprocess.Popen(program, stdin=subprocess.DEVNULL, pass_fds=fds, env=_template.environment(), start_new_session=True)


def _anonymous_file() -> int:
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Stopped(KeyboardInterrupt):
    """The run was stopped."""


class Pool:
    """Processes that wait for calls, of one function or of several."""

    def __init__(self, version: str | None = None) -> None:
        #: Of the one function.
        self.version = version
        self.idle: list[Worker] = []
        self.lock = threading.Lock()
        self.runs = 0

    def begin(self) -> None:
        with self.lock:
            self.runs += 1

    def end(self) -> None:
        with self.lock:
            self.runs = max(self.runs - 1, 0)
            idle: list[Worker] = []
            if self.runs == 0:
                idle, self.idle = self.idle, idle
        if self.version is not None:
            _kept.give(self.version, idle)
            return
        for worker in idle:
            worker.free()

    def take(self, path: list[str]) -> Worker | None:
        """A process that waits, if there is one."""
        with self.lock:
            while self.idle:
                worker = self.idle.pop()
                if worker.process.poll() is None:
                    return worker
                worker.free()
        return _kept.take(self.version, path) if self.version is not None else None


#: Of functions of the package itself, which leave nothing behind in a process.
SHARED = Pool()


class Caller:
    """A function of a user for the engine, which calls it for each block from several threads."""

    def __init__(
        self,
        name: str,
        blob: bytes,
        file: str | None,
        memory: int,
        declared: bool,
        timeout: float | None,
        code: str,
        path: list[str] | None = None,
        shared: bool = False,
        private: bool = False,
        beside: int = 0,
        limit: int | None = None,
    ) -> None:
        self.name, self.blob, self.file = name, blob, file
        self.memory, self.declared, self.timeout = memory, declared, timeout
        #: Bytes of a call for its blocks and its process, and what a driver elsewhere says that it may allocate.
        self.beside, self._limit = beside, limit
        self.code = code
        # Modules of the user are where they are on the driver's machine, if that is this one, or else where Python looks for them.
        self.path = [p for p in path or () if p not in sys.path and os.path.exists(p)]
        self.shared, self.private = shared, private
        self.busy: set[Worker] = set()
        self.lock = threading.Lock()
        self.stopped = False
        self.version = hashlib.sha256(self._hashed()).hexdigest()[:32]
        self.pool = SHARED if shared else Pool(self.version)
        if not declared and limit is None:
            _assumed.read(self.version, beside)

    @property
    def limit(self) -> int:
        """Bytes that a call may allocate."""
        return self.memory if self.declared else self._limit or _assumed.of(self.version, self.memory)

    def _hashed(self) -> bytes:
        """What its version in plans is the hash of: what is sent of it, its code and its memory.

        Of functions in modules, only the name is sent. A run that is resumed must see that such a function was edited.
        """
        about = {"name": self.name, "memory": self.memory, "declared": self.declared, "code": self.code, "shared": self.shared}
        return json.dumps(about, sort_keys=True).encode() + b"\n" + self.blob

    def stored(self) -> bytes:
        """It as workers on other machines read it. Where it is written and how long it may take are no part of its version."""
        if self.private:
            raise ValueError(
                f"what {self.name!r} reads is in a store with keys of its own, which are not written into the folder of a run for workers elsewhere: "
                "use the executor 'threads', or have the keys in the environment or a profile"
            )
        aside = {"file": self.file, "timeout": self.timeout, "path": sys.path, "limit": self.limit}
        return json.dumps(aside).encode() + b"\n" + self._hashed()

    @classmethod
    def read(cls, data: bytes, version: str) -> Caller:
        """What :meth:`stored` has written, if it is of this version."""
        try:
            aside, about, blob = data.split(b"\n", 2)
            caller = cls(**json.loads(aside), **json.loads(about), blob=blob)
        except (ValueError, TypeError) as e:
            raise ValueError(f"what is stored of the function of the version {version} that the plan names is damaged: {e}") from e
        if caller.version != version:
            raise ValueError(f"the stored function {caller.name!r} is of the version {caller.version}, and the plan names {version}")
        return caller

    # What the engine calls at the beginning of a run, at its end, and when it is to stop.

    def begin(self) -> None:
        with self.lock:
            self.stopped = False
        self.pool.begin()

    def stop(self) -> None:
        with self.lock:
            self.stopped = True
            killed = [(worker, worker.kill()) for worker in self.busy]
        for worker, processes in killed:
            worker.close(processes)

    def end(self) -> None:
        self.pool.end()

    def _take(self, new: bool = False) -> Worker:
        self._watch()
        path = [*sys.path, *self.path]
        # Other threads must not wait while modules are imported, least of all the one that stops the run.
        worker = None if new else self.pool.take(path)
        worker = worker or Worker(path, self.version, self.blob, self._watch)
        with self.lock:
            if not self.stopped:
                self.busy.add(worker)
                return worker
        worker.free()
        raise Stopped(self.name)

    def _watch(self) -> None:
        if self.stopped:
            raise Stopped(self.name)

    def _give(self, worker: Worker, good: bool) -> None:
        with self.lock:
            self.busy.discard(worker)
            if good and not self.stopped:
                with self.pool.lock:
                    self.pool.idle.append(worker)
                return
        worker.free()

    def __call__(
        self, block: tuple[int, ...], blocks: tuple[int, ...], start: tuple[int, ...], shape: tuple[int, ...], inputs: list[_chunkwise.View]
    ) -> tuple[Worker, list[tuple[Any, str, tuple[int, ...]]]]:
        call = {"function": self.version, "block": block, "blocks": blocks, "start": start, "shape": shape, "limit": self.limit}
        how, new = "", False
        for _ in range(TRIES):
            worker = self._take(new)
            try:
                return worker, self._called(worker, call, inputs)
            except (Died, BrokenPipeError):
                how = worker.ended()
                self._give(worker, False)
                if self.stopped:
                    raise Stopped(self.name) from None
            except (_Raised, MemoryLimitError) as e:
                error = e.error if isinstance(e, _Raised) else e
                # What an earlier run has left in the process is no memory of this one.
                new = worker.kept and isinstance(error, MemoryLimitError)
                # After what the function has raised, the process is as good as before.
                self._give(worker, isinstance(e, _Raised) and not new)
                if not new:
                    raise error from None
            except BaseException:
                self._give(worker, False)
                raise
        raise RuntimeError(f"the process of the function {self.name!r} {how} in block {block}, {TRIES} times")

    def done(self, worker: Worker) -> None:
        """The engine has copied what a call has made."""
        # What functions that share a process leave there, such as caches of files, is no memory of the next one.
        self._give(worker, not self.shared or worker.taken() <= LEFT)

    def _called(self, worker: Worker, call: dict[str, Any], inputs: list[_chunkwise.View]) -> list[tuple[Any, str, tuple[int, ...]]]:
        if self.version not in worker.loaded:
            worker.channel.send({"load": self.version, "file": self.file}, self.blob)
            message, blob = worker.answer(lambda: None)
            if "ready" not in message:
                raise self._error(message, blob, call, 0)
            worker.base = worker.base or message["ready"]
            worker.loaded.add(self.version)
        values = [np.frombuffer(v, dtype=np.uint8).view(v.dtype).reshape(v.shape) for v in inputs]
        places, size = placed(values, 0, worker.arena)
        began, most = time.monotonic(), 0
        limit = self.limit

        def watch() -> None:
            nonlocal most
            most = max(most, worker.taken())
            if most > limit:
                raise self._too_much(call, most)
            if self.timeout is not None and time.monotonic() - began > self.timeout:
                raise TimeoutError(f"the function {self.name!r} did not return from block {call['block']} within its timeout of {self.timeout} s")

        worker.channel.send({**call, "inputs": places, "size": size})
        message, blob = worker.answer(watch)
        if "outputs" not in message:
            raise _Raised(self._error(message, blob, call, most))
        outputs = found(message["outputs"], message["size"], worker.arena)
        return [(bytes_of(a), a.dtype.name, a.shape) for a in outputs]

    def _too_much(self, call: dict[str, Any], need: int) -> MemoryLimitError:
        said = "allowed by its memory=" if self.declared else "assumed, as no memory= is given"
        enough = -(-(need + need // 4) // 1_000_000) * 1_000_000
        return MemoryLimitError(
            f"the function {self.name!r} used {text_of(need)} or more in block {call['block']} besides its blocks, and {text_of(self.limit)} are "
            f"{said}; give memory='{enough // 1_000_000}MB' to the call, or rechunk the arrays into smaller chunks",
            needed=need,
            allowed=self.limit,
            enough=enough,
            version=self.version,
        )

    def _error(self, message: dict[str, Any], blob: bytes, call: dict[str, Any], most: int) -> BaseException:
        if message["memory"]:
            return self._too_much(call, max(most, 0) + max(message["wanted"], self.limit))
        error: BaseException
        try:
            error = pickle.loads(blob)
        except Exception:
            error = RuntimeError(f"{message['raised']}: {message['text']}")
        error.add_note(f"in the function {self.name!r}, block {call['block']}, in its own process:\n{message['traceback']}")
        return error


class _Raised(Exception):
    """What the function raised, in a process that can go on."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


def bytes_of(a: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bytes of a contiguous array."""
    return a.reshape(-1).view(np.uint8)


def code_of(function: Any) -> str:
    """The hash of the code of a function, without the place where it is written."""
    return hashlib.sha256(_code(getattr(function, "__code__", None))).hexdigest()


def _code(code: Any) -> bytes:
    """What a function does, without the place where it is written."""
    if code is None:
        return b""
    parts = [code.co_code, repr((code.co_names, code.co_varnames)).encode()]
    parts += [_code(c) if hasattr(c, "co_code") else repr(sorted(c, key=repr) if isinstance(c, frozenset) else c).encode() for c in code.co_consts]
    return b"\0".join(parts)


def dumped(function: Any) -> bytes:
    """A function as bytes: functions of the main program, lambdas and closures too."""
    try:
        return bytes(cloudpickle.dumps(function))
    except Exception as e:
        raise TypeError(f"the function cannot be sent to a process: {e}") from e
