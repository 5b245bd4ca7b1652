"""The program of a process that runs functions of users. It is started by :mod:`chunkwise._workers` and imports nothing of chunkwise.

Blocks are in memory that both processes see, and messages go through a socket: a length, JSON, and bytes.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import pickle
import resource
import signal
import socket
import struct
import sys
import traceback
from typing import Any

import numpy as np

#: Bytes that a function may have beyond its limit for an instant, until it is noticed.
SLACK = 64 << 20


class Channel:
    """Messages over a socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def send(self, message: dict[str, Any], blob: bytes = b"") -> None:
        text = json.dumps(message).encode()
        self.sock.sendall(struct.pack("<QQ", len(text), len(blob)) + text + blob)

    def receive(self) -> tuple[dict[str, Any], bytes]:
        text, blob = struct.unpack("<QQ", self._exactly(16))
        message: dict[str, Any] = json.loads(self._exactly(text))
        return message, self._exactly(blob)

    def _exactly(self, n: int) -> bytes:
        parts = []
        while n:
            part = self.sock.recv(min(n, 1 << 20))
            if not part:
                raise EOFError
            parts.append(part)
            n -= len(part)
        return b"".join(parts)


class Arena:
    """Memory that two processes share."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.map: mmap.mmap | None = None

    def view(self, size: int, grow: bool = False) -> np.ndarray[Any, Any]:
        """At least the first ``size`` bytes."""
        if self.map is None or len(self.map) < size:
            if grow and os.fstat(self.fd).st_size < size:
                os.ftruncate(self.fd, size)
            # An older view may still be in use; it is freed with the last array that has it.
            self.map = mmap.mmap(self.fd, size)
        return np.frombuffer(self.map, dtype=np.uint8)


def used(kind: str, pid: int | str = "self") -> int:
    """Bytes of a kind in the status of a process; nothing is known where the system has no such file."""
    if not os.path.exists("/proc/self/status"):
        return 0
    with open(f"/proc/{pid}/status") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith(kind + ":")), 0)


def placed(arrays: list[Any], start: int, arena: Arena) -> tuple[list[dict[str, Any]], int]:
    """Copies arrays into shared memory, one after another."""
    at, places = start, []
    for a in arrays:
        places.append({"dtype": a.dtype.name, "shape": a.shape, "at": at, "bytes": a.nbytes})
        at += -(-a.nbytes // 64) * 64
    view = arena.view(max(at, 1), grow=True)
    for a, place in zip(arrays, places):
        if a.nbytes:
            view[place["at"] : place["at"] + a.nbytes].view(a.dtype).reshape(a.shape)[...] = a
    return places, at


def found(places: list[dict[str, Any]], size: int, arena: Arena) -> list[np.ndarray[Any, Any]]:
    """Arrays in shared memory."""
    view = arena.view(max(size, 1))
    return [view[p["at"] : p["at"] + p["bytes"]].view(p["dtype"]).reshape(p["shape"]) for p in places]


def _raised(e: BaseException) -> tuple[dict[str, Any], bytes]:
    text = "".join(traceback.format_exception(type(e), e, e.__traceback__.tb_next if e.__traceback__ else None))
    wanted = getattr(e, "_total_size", 0) if isinstance(e, MemoryError) else 0
    about = {"raised": type(e).__name__, "text": str(e), "traceback": text, "memory": isinstance(e, MemoryError), "wanted": int(wanted)}
    try:
        return about, pickle.dumps(e)
    except Exception:
        return about, b""


def _limit(limit: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    most = used("VmData") + limit + SLACK
    resource.setrlimit(resource.RLIMIT_DATA, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _from_file(code: Any, file: str) -> Any:
    """The same code, said to be from a file: tracebacks have its lines then. Pickling has left that out."""
    inside = tuple(_from_file(c, file) if hasattr(c, "co_filename") else c for c in code.co_consts)
    return code.replace(co_filename=file if code.co_filename.startswith("<dynamic") else code.co_filename, co_consts=inside)


def outputs_of(about: dict[str, Any], call: dict[str, Any], inputs: list[Any]) -> list[np.ndarray[Any, Any]]:
    """Calls a function of the user. ``about`` has the function, its arguments, and the dtypes that are expected."""
    args = [inputs[i] if i >= 0 else constant for i, constant in about["args"]]
    kwargs = dict(about["kwargs"])
    if about["block_id"]:
        kwargs["block_id"] = tuple(call["block"])
    if about["block_info"]:
        place = [(a, a + n) for a, n in zip(call["start"], call["shape"])]
        kwargs["block_info"] = {None: {"chunk-location": tuple(call["block"]), "num-chunks": tuple(call["blocks"]), "array-location": place}}
    made = about["function"](*args, **kwargs)
    several = list(made) if about["several"] else [made]
    dtypes = about["dtypes"]
    if len(several) != len(dtypes):
        raise ValueError(f"the function returned {len(several)} arrays, and {len(dtypes)} are expected")
    return [_expected(np.asarray(a), dtype) for a, dtype in zip(several, dtypes)]


def _expected(values: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """What a function returned, in the dtype that is said for it. Floats are rounded, and whole numbers must fit."""
    if np.can_cast(values.dtype, dtype) or values.dtype.kind in "fc" and np.can_cast(values.dtype, dtype, "same_kind"):
        return values.astype(dtype, copy=False)
    if values.dtype.kind in "iu" and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not values.size or int(values.min()) >= limits.min and int(values.max()) <= limits.max:
            return values.astype(dtype)
    raise TypeError(f"the function returned {values.dtype}, and {dtype} is expected: give dtype='{values.dtype}' to the call")


def _loaded(blob: bytes, file: str | None) -> dict[str, Any]:
    """A function as it was sent."""
    about: dict[str, Any] = pickle.loads(blob)
    if file and hasattr(about["function"], "__code__"):
        about["function"].__code__ = _from_file(about["function"].__code__, file)
    return about


def main() -> None:
    """Answers calls until the socket is closed."""
    channel_fd, arena_fd, life_fd = map(int, sys.argv[1:4])
    # The process that started this one has the other end. When that is gone, the kernel ends this one, whatever the function does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(life_fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life_fd, fcntl.F_SETFL, fcntl.fcntl(life_fd, fcntl.F_GETFL) | os.O_ASYNC)
    channel, arena = Channel(socket.socket(fileno=channel_fd)), Arena(arena_fd)
    own = os.getpid()
    try:
        message, _ = channel.receive()
        sys.path[:] = message["path"]
        functions: dict[str, dict[str, Any]] = {}
        while True:
            call, blob = channel.receive()
            if "load" in call:
                try:
                    functions[call["load"]] = _loaded(blob, call["file"])
                except BaseException as e:
                    channel.send(*_raised(e))
                    return
                channel.send({"ready": used("RssAnon")})
                continue
            about = functions[call["function"]]
            _limit(call["limit"])
            try:
                inputs = found(call["inputs"], call["size"], arena)
                for a in inputs:
                    a.flags.writeable = False
                try:
                    made = outputs_of(about, call, inputs)
                finally:
                    if os.getpid() != own:
                        # A fork that the function has not ended. Only the process itself answers.
                        os._exit(1)
                places, size = placed(made, call["size"], arena)
                answer: tuple[dict[str, Any], bytes] = ({"outputs": places, "size": size}, b"")
                del made, inputs
            except BaseException as e:
                answer = _raised(e)
                del e
            channel.send(*answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass


if __name__ == "__main__":
    main()
