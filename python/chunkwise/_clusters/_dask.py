"""Dask: each worker of the engine is a task of Dask, which occupies a thread of a Dask worker."""

from __future__ import annotations

from typing import Any

from . import _node
from ._bridge import ClusterError, End

#: Seconds to wait for the scheduler.
TIMEOUT = 30


class DaskCluster:
    """A client of a Dask scheduler."""

    def __init__(
        self,
        threads: int,
        env: dict[str, str],
        address: str | None = None,
        scheduler_file: str | None = None,
        program: str | None = None,
    ) -> None:
        try:
            from dask import config
            from distributed import Client
        except ImportError as e:
            raise ClusterError(f"executor 'dask' needs the package distributed beside chunkwise: {e}") from e
        where: dict[str, Any] = {"scheduler_file": scheduler_file} if scheduler_file else {"address": address or config.get("scheduler-address", None)}
        if not any(where.values()):
            raise ClusterError("executor 'dask' needs the address of a scheduler: address=tcp://HOST:8786, scheduler_file=PATH or DASK_SCHEDULER_ADDRESS")
        try:
            self.client = Client(**where, set_as_default=False, timeout=TIMEOUT, name="chunkwise")
        except (OSError, ValueError) as e:
            raise ClusterError(f"no Dask scheduler answers at {next(iter(where.values()))}: {e}") from e
        self.threads = threads
        self.env, self.program = env, program
        self.futures: dict[str, Any] = {}

    def slots(self) -> int:
        """Threads of all Dask workers, over those of one worker of the engine."""
        threads: int = sum(self.client.nthreads().values())
        return max(threads // self.threads, 1)

    def start(self, name: str, arguments: list[str], memory: int) -> None:
        self.futures[name] = self.client.submit(_node.run, name, arguments, memory, self.env, self.program, key=f"chunkwise-{name}", pure=False, retries=0)

    def ended(self) -> list[tuple[str, End]]:
        if self.client.status not in ("running", "connecting"):
            raise ClusterError(f"the connection to the Dask scheduler is {self.client.status}")
        done = [(name, future) for name, future in self.futures.items() if future.done()]
        found = []
        for name, future in done:
            del self.futures[name]
            found.append((name, _end(future)))
        return found

    def cancel(self, names: list[str]) -> None:
        self._stop(names, False)

    def _stop(self, names: list[str], at_once: bool) -> None:
        names = [name for name in names if name in self.futures]
        if not names:
            return
        # On each Dask worker, beside the tasks that it runs.
        said = self.client.run(_node.stop, names, at_once, on_error="ignore") or {}
        running = {name for each in said.values() for name in each or ()}
        waiting = [self.futures[name] for name in names if name not in running]
        if waiting:
            self.client.cancel(waiting, force=True)

    def close(self) -> None:
        try:
            # The driver has ended, or was killed: nobody takes tasks back.
            self._stop(list(self.futures), True)
        finally:
            self.client.close(timeout=5)


def _end(future: Any) -> End:
    """How a task of Dask has ended."""
    if future.status == "cancelled":
        return {"lost": "it was cancelled before it started"}
    try:
        end: End = future.result(timeout=TIMEOUT)
    except ModuleNotFoundError as e:
        raise ClusterError(f"the Dask workers lack the package chunkwise: {e}; install it on them") from e
    except Exception as e:
        if "deserialization" in str(e):
            raise ClusterError("the Dask scheduler or its workers lack the package chunkwise; install it on them, in this version") from e
        return {"lost": f"{type(e).__name__}: {e}"}
    return end
