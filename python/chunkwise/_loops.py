"""Which threads wait for the engine: stores of Python must not need these."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

#: The threads that wait for the engine.
_waiting: list[int] = []


@contextmanager
def waiting() -> Iterator[None]:
    """Says that this thread waits for the engine. It may be that of the event loop of zarr-python, which then answers nobody: ``z[...] = array`` computes there."""
    thread = threading.get_ident()
    _waiting.append(thread)
    try:
        yield
    finally:
        _waiting.remove(thread)


def waits(thread: int | None) -> bool:
    """True if a thread waits for the engine."""
    return thread in _waiting


@cache
def other_loop() -> Any:
    """An event loop beside that of zarr-python."""
    loop = import_module("asyncio").new_event_loop()
    threading.Thread(target=loop.run_forever, name="chunkwise_io", daemon=True).start()
    return loop
