"""A worker that may run functions of Python: what ``chunkwise worker --allow-python`` becomes.

Functions are stored beside the plan, which names each by its hash. So a worker runs what its driver has stored, and nothing else.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from . import _chunkwise
from ._workers import Caller


class _Stop(Exception):
    """The worker was told to stop."""


def _stop(*_: Any) -> None:
    raise _Stop


def functions(found: list[tuple[str, str, bytes | None]]) -> list[_chunkwise.Function]:
    """The functions of a plan, as they are stored. Those that are not stored are left out, and the plan is refused for them."""
    return [_chunkwise.Function(name, version, 0, Caller.read(data, version)) for name, version, data in found if data is not None]


def main() -> None:
    """Runs a worker to its end."""
    start, *allow = sys.argv[1:]
    try:
        found, code = _chunkwise.plan_functions(start, allow)
        if code is None:
            made = functions(found)
            signal.signal(signal.SIGTERM, _stop)
            signal.signal(signal.SIGINT, _stop)
            code = _chunkwise.work(start, allow, made)
    except (ValueError, OSError) as e:
        print(e, file=sys.stderr)
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # A thread that a hanging task holds would be waited for.
    os._exit(code)


if __name__ == "__main__":
    main()
