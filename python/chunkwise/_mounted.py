"""Arrays in stores that only Python can read, such as those of Icechunk and Kerchunk, in archives, and those with keys of their own.

The engine asks for encoded chunks, decodes them, and does everything else itself. No values pass through Python.
"""

from __future__ import annotations

import os
import pickle
from functools import cached_property
from importlib import import_module
from typing import Any

from . import _chunkwise
from ._array import Array
from ._loops import other_loop, waits, waiting
from ._spec import Spec, bound, current


class ZarrStore:
    """A store of zarr-python, whose functions run on the event loop of zarr-python: some stores are bound to it."""

    def __init__(self, store: Any) -> None:
        self.store, self.prototype = store, import_module("zarr.core.buffer").default_buffer_prototype()
        self.zarr, self.ranges = import_module("zarr.core.sync"), import_module("zarr.abc.store")

    def get(self, key: str, start: int, stop: int | None) -> tuple[bytes, int, int] | None:
        """The bytes of an object from ``start`` to ``stop``, where they begin, and the bytes of the whole object. A start below zero counts from the end."""
        thread = self.zarr.iothread[0]
        busy = thread is not None and waits(thread.ident)
        store, loop = (self.elsewhere, other_loop()) if busy else (self.store, None)
        found, size = self.zarr.sync(self._asked(store, key, start, stop), loop=loop)
        if found is None:
            return None
        data = _bytes(found)
        size = len(data) if size is None else size
        return data, size - len(data) if start < 0 else start, size

    @cached_property
    def elsewhere(self) -> Any:
        """The store for the other event loop. Those of fsspec have connections that are bound to the loop, and to the thread, on which they are made."""
        if type(self.store).__name__ != "FsspecStore":
            return self.store
        return self.zarr.sync(_unpickled(pickle.dumps(self.store)), loop=other_loop())

    async def _asked(self, store: Any, key: str, start: int, stop: int | None) -> tuple[Any, int | None]:
        """What the store has, and the bytes of the whole object if that is another question. Both are asked at once."""
        if start == 0 and stop is None:
            return await store.get(key, self.prototype), None
        kinds = self.ranges
        part = kinds.SuffixByteRequest(-start) if start < 0 else kinds.OffsetByteRequest(start) if stop is None else kinds.RangeByteRequest(start, stop)
        answers = await import_module("asyncio").gather(store.get(key, self.prototype, part), store.getsize(key), return_exceptions=True)
        # Some stores say of what does not exist that it is empty, and some raise an error.
        if answers[0] is None:
            return None, None
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return answers[0], int(answers[1])


async def _unpickled(store: bytes) -> Any:
    return pickle.loads(store)


def _bytes(found: Any) -> bytes:
    """What is in a buffer of zarr-python, without a copy if it was made of bytes."""
    if isinstance(found, bytes):
        return found
    values = found.as_numpy_array()
    of = values.base
    return of if isinstance(of, bytes) and len(of) == values.nbytes else bytes(values.tobytes())


def fresh(store: Any) -> str:
    """What messages call a store: a name that no other store of any process has, so that no plan of another seems to read it."""
    return f"{type(store).__name__.lower()}-{os.urandom(4).hex()}"


def mounted(x: Any, spec: Spec | None, decode: bool = False, labels: bool = True) -> Array | None:
    """An array of zarr-python as the engine reads it through its store, if that is possible in this process."""
    if not type(x).__module__.startswith("zarr."):
        return None
    store, used = getattr(x, "store", None), current(spec)
    if not used._in_process() or not hasattr(store, "getsize") or not hasattr(store, "get"):
        return None
    try:
        with waiting():
            lazy = _chunkwise.mounted(ZarrStore(store), fresh(store), getattr(x, "path", ""), used._runtime(), decode, labels)
        return Array(bound(lazy, spec, used.storage))
    # It may have codecs that the engine does not know, or a store that is not as others are.
    except (ValueError, OSError, ImportError, AttributeError):
        return None
