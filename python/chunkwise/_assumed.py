"""The memory of functions whose users have not said how much it is.

It is assumed to be four times the blocks of a call. If a call takes more, the run is planned anew with more, as far as the budget goes. If there is no plan with what is
assumed, less is tried. What a run has needed is kept in the work directory, so that the next one, and the same one in another session, is planned with that at once.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from . import _chunkwise
from ._errors import MemoryLimitError
from ._loops import waiting

T = TypeVar("T")

#: Bytes that are assumed at least.
LEAST = 64_000_000

#: By the version of a function, the bytes that a call may allocate, and those that it takes besides: its blocks and its process.
_limits: dict[str, tuple[int, int]] = {}


def _file(version: str) -> str:
    return os.path.join(_chunkwise.default_work_dir(), "functions", version)


def read(version: str, beside: int) -> None:
    """Takes what an earlier run of a function has needed, if there was one."""
    if version not in _limits:
        with suppress(OSError, ValueError), open(_file(version), encoding="ascii") as file:
            _limits[version] = (max(int(file.read()), 1), beside)


def of(version: str, said: int) -> int:
    """Bytes that a call of a function may allocate."""
    return _limits.get(version, (said, 0))[0]


def in_plans() -> dict[str, int]:
    """Bytes of each function as plans count them."""
    return {version: own + beside for version, (own, beside) in _limits.items()}


def _set(version: str, known: tuple[int, int] | None) -> None:
    """Takes a limit, also for later sessions: one of them may go on with the run. Or forgets it."""
    place = _file(version)
    if known is None:
        _limits.pop(version, None)
        with suppress(OSError):
            os.unlink(place)
        return
    _limits[version] = known
    with suppress(OSError):
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=os.path.dirname(place), delete=False, encoding="ascii") as file:
            file.write(str(known[0]))
        os.replace(file.name, place)


def settled(run: Callable[[bool], T], lazies: Iterable[Any]) -> T:
    """What ``run`` returns, with memory for functions that is enough. Its argument is True after a run that was ended for its memory.

    A run that fails for another reason, or is stopped, may be gone on with. So the limits that it was planned with stay.
    """
    callers = {c.version: c for lazy in lazies for c in lazy.callers if not c.declared}
    before = {version: _limits.get(version) for version in callers}
    try:
        with waiting():
            found = _tried(run, callers)
    except MemoryLimitError:
        for version, was in before.items():
            if _limits.get(version) != was:
                _set(version, was)
        raise
    except RuntimeError as error:
        from ._weights import MESSAGE, missing

        if missing(error):
            raise ValueError(MESSAGE) from error
        raise
    for version, caller in callers.items():
        if _limits.get(version) != before[version] and caller.limit > caller.memory:
            _tell(caller)
    return found


def _tried(run: Callable[[bool], T], callers: Mapping[str, Any]) -> T:
    ended: MemoryLimitError | None = None
    to_try: list[int] = []
    less = [c for c in callers.values() if c.limit > LEAST]
    while True:
        try:
            return run(ended is not None)
        except MemoryLimitError as e:
            if e.version in callers:
                ended, assumed = e, callers[e.version].limit
                to_try = sorted({max(n, e.enough) for n in (4 * assumed, 2 * assumed, e.enough)})
            elif ended is None and less:
                # There is no plan with what is assumed.
                while less:
                    caller = less.pop()
                    _set(caller.version, (LEAST, caller.beside))
                continue
            if ended is None or not to_try:
                raise ended or e from None
            _set(ended.version, (to_try.pop(), callers[ended.version].beside))


def _tell(caller: Any) -> None:
    enough = caller.limit // 1_000_000
    warnings.warn(
        f"the function {caller.name!r} took more memory than was assumed, so the run began anew with {enough} MB for each call; memory='{enough}MB' saves that",
        stacklevel=5,
    )
