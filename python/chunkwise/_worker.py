"""The program of a process that runs functions of users. It is started by :mod:`chunkwise._workers` and imports nothing of chunkwise.

Blocks are in memory that both processes see, and messages go through a socket: a length, JSON, and bytes.

The program is also that of the *template* (:mod:`chunkwise._template`), which runs no function: it imports what functions need, once, and forks.
"""

from __future__ import annotations

import fcntl
import gc
import json
import mmap
import os
import pickle
import resource
import select
import signal
import socket
import struct
import sys
import traceback
import types
import warnings
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


def readable(fd: int, seconds: float | None) -> bool:
    """Waits until there is something to read, or the other end is gone."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(None if seconds is None else seconds * 1000))


def used(kind: str, pid: int | str = "self") -> int:
    """Bytes of a kind in the status of a process; nothing is known where the system has no such file."""
    if not os.path.exists("/proc/self/status"):
        return 0
    with open(f"/proc/{pid}/status") as status:
        return next((int(line.split()[1]) * 1024 for line in status if line.startswith(kind + ":")), 0)


class Stack:
    """Arrays of one shape that are one array for the engine, with an axis more. They come together only in shared memory."""

    def __init__(self, parts: list[Any], dtype: str) -> None:
        self.parts, self.dtype = parts, np.dtype(dtype)
        self.shape = (len(parts), *parts[0].shape)
        self.nbytes = len(parts) * parts[0].size * self.dtype.itemsize


def placed(arrays: list[Any], start: int, arena: Arena) -> tuple[list[dict[str, Any]], int]:
    """Copies arrays and stacks into shared memory, one after another."""
    at, places = start, []
    for a in arrays:
        places.append({"dtype": a.dtype.name, "shape": a.shape, "at": at, "bytes": a.nbytes})
        at += -(-a.nbytes // 64) * 64
    view = arena.view(max(at, 1), grow=True)
    for a, place in zip(arrays, places):
        if a.nbytes:
            into = view[place["at"] : place["at"] + a.nbytes].view(a.dtype).reshape(a.shape)
            if isinstance(a, Stack):
                for k, part in enumerate(a.parts):
                    into[k] = part
            else:
                into[...] = a
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


def _block_info(about: dict[str, Any], call: dict[str, Any]) -> dict[int | None, dict[str, Any]]:
    """Where a block is, in the result and in the arrays of the call: as Dask says it."""
    block, shape, layout = tuple(call["block"]), tuple(call["shape"]), about["layout"] or {"arrays": []}
    place = [(a, a + n) for a, n in zip(call["start"], shape)]
    own = {"chunk-location": block, "num-chunks": tuple(call["blocks"]), "array-location": place, "chunk-shape": shape, "dtype": about["dtypes"][0]}
    info: dict[int | None, dict[str, Any]] = {None: own if "shape" not in layout else {"shape": layout["shape"], **own}}
    for k, whole, axes in layout["arrays"]:
        at = tuple(0 if axis is None else block[axis] for axis, _ in axes)
        location = [(ends[i], ends[i + 1]) for i, (_, ends) in zip(at, axes)]
        info[k] = {"shape": whole, "num-chunks": tuple(len(ends) - 1 for _, ends in axes), "array-location": location, "chunk-location": at}
    return info


def outputs_of(about: dict[str, Any], call: dict[str, Any], inputs: list[Any]) -> list[Any]:
    """Calls a function of the user. ``about`` has the function, its arguments, the dtypes that are expected, and which results are stacked."""
    args = [inputs[i] if i >= 0 else constant for i, constant in about["args"]]
    kwargs = dict(about["kwargs"])
    if about["block_id"]:
        kwargs["block_id"] = tuple(call["block"])
    if about["block_info"]:
        kwargs["block_info"] = _block_info(about, call)
    made = about["function"](*args, **kwargs)
    several = list(made) if about["several"] else [made]
    dtypes = about["dtypes"]
    if len(several) != len(dtypes):
        raise ValueError(f"the function returned {len(several)} arrays, and {len(dtypes)} are expected")
    found = [_expected(np.asarray(a), dtype) for a, dtype in zip(several, dtypes)]
    for members, _ in about["packs"]:
        for k in members[1:]:
            if found[k].shape != found[members[0]].shape:
                raise ValueError(f"the function returned arrays of shapes {found[members[0]].shape} and {found[k].shape}, and one shape is expected")
    return [Stack([found[k] for k in members], dtype) if len(members) > 1 else found[members[0]] for members, dtype in about["packs"]]


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
    # A bound method shows the code of its function, and does not take another.
    if file and isinstance(about["function"], types.FunctionType):
        about["function"].__code__ = _from_file(about["function"].__code__, file)
    return about


def _ends_with(life_fd: int) -> None:
    """The process that started this one has the other end of the pipe. When that is gone, the kernel ends this one, whatever it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    fcntl.fcntl(life_fd, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life_fd, fcntl.F_SETFL, fcntl.fcntl(life_fd, fcntl.F_GETFL) | os.O_ASYNC)


def serve(channel_fd: int, arena_fd: int, life_fd: int, idle: float | None = None) -> None:
    """Answers calls until the socket is closed, or nothing was wanted for ``idle`` seconds."""
    _ends_with(life_fd)
    channel, arena = Channel(socket.socket(fileno=channel_fd)), Arena(arena_fd)
    own = os.getpid()
    try:
        message, _ = channel.receive()
        sys.path[:] = message["path"]
        functions: dict[str, dict[str, Any]] = {}
        while readable(channel_fd, idle):
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


#: Threads that do no harm to a fork: jemalloc, which comes with pyarrow, starts its own again.
HARMLESS = {"jemalloc_bg_thd"}


def _has_threads() -> bool:
    """True if a module has started threads. A fork would lack them, and wait for locks that they hold."""
    own = str(os.getpid())
    for thread in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{thread}/comm") as name:
                if thread != own and name.read().strip() not in HARMLESS:
                    return True
        except OSError:
            continue
    return False


def _makes_random_numbers() -> bool:
    """True if a module holds a generator of random numbers. Forks would all have the same numbers of it."""
    random = sys.modules.get("numpy.random")
    if random is None:
        return False
    kinds = (random.Generator, random.RandomState)
    # The one behind numpy.random.seed gets another state in each fork.
    common = random.mtrand._rand
    return any(isinstance(value, kinds) and value is not common for names in _modules() for value in list(names.values()))


def _modules() -> list[dict[str, Any]]:
    """The names of each module. Modules that are loaded when they are needed are not loaded by that."""
    out = []
    for module in list(sys.modules.values()):
        try:
            out.append(object.__getattribute__(module, "__dict__"))
        except AttributeError:
            continue
    return out


def _files(known: set[str]) -> dict[str, tuple[int, int]]:
    """The files of modules that are not known yet, with their sizes and times in nanoseconds."""
    out = {}
    for names in _modules():
        file = names.get("__file__")
        if isinstance(file, str) and file not in known:
            known.add(file)
            try:
                about = os.stat(file)
            except OSError:
                continue
            out[file] = (about.st_size, about.st_mtime_ns)
    return out


def _fork(message: dict[str, Any], fds: list[int], control: socket.socket, life_fd: int, idle: float) -> int:
    """A process that serves calls. It has the outputs that the driver has now."""
    with warnings.catch_warnings():
        # About threads, which were looked at.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        for fd in fds:
            os.close(fd)
        return pid
    try:
        os.setsid()
        control.close()
        os.close(life_fd)
        channel_fd, arena_fd, child_life_fd, *outputs = fds
        for fd, number in zip(outputs, message["outputs"]):
            os.dup2(fd, number)
            os.close(fd)
        os.chdir(message["folder"])
        os.environ.clear()
        os.environ.update(message["environment"])
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()
        serve(channel_fd, arena_fd, child_life_fd, idle)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def template(control_fd: int, life_fd: int, idle: float) -> None:
    """Imports what functions need, and forks, until the socket is closed or nothing was wanted for ``idle`` seconds."""
    _ends_with(life_fd)
    control = socket.socket(fileno=control_fd)
    channel = Channel(control)
    known: set[str] = set()
    try:
        while readable(control_fd, idle):
            message, blob = channel.receive()
            for pid in message.get("ended", ()):
                os.waitpid(pid, 0)
            if "path" in message:
                sys.path[:] = message["path"]
                try:
                    # What it holds is freed again; its modules stay. The process that calls the function says what is wrong with it.
                    pickle.loads(blob)
                except BaseException:
                    pass
                gc.collect()
                # Pages with counts of the collector would be copied for each fork.
                gc.freeze()
                channel.send({"fit": not _has_threads() and not _makes_random_numbers(), "files": _files(known)})
            if "outputs" in message:
                _, fds, _, _ = socket.recv_fds(control, 1, 3 + len(message["outputs"]))
                channel.send({"pid": _fork(message, fds, control, life_fd, idle)})
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass


if __name__ == "__main__":
    if sys.argv[1] == "--template":
        template(int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
    else:
        serve(*map(int, sys.argv[1:4]))
