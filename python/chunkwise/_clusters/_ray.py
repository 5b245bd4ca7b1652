"""Ray: each worker of the engine is a task of Ray, which occupies a processor for each of its threads."""

from __future__ import annotations

from typing import Any

from . import _node
from ._bridge import ClusterError, End


class RayCluster:
    """A client of a Ray cluster."""

    def __init__(self, threads: int, env: dict[str, str], address: str | None = None, program: str | None = None) -> None:
        try:
            import ray
        except ImportError as e:
            raise ClusterError(f"executor 'ray' needs the package ray beside chunkwise: {e}") from e
        self.ray = ray
        try:
            ray.init(address=address or "auto", namespace="chunkwise", log_to_driver=False, logging_level="ERROR")
        except (OSError, ValueError, RuntimeError) as e:
            raise ClusterError(f"no Ray cluster answers at {address or 'auto'}: {e}; `ray start --head` starts one") from e
        self.threads = threads
        self.env, self.program = env, program
        # Its driver decides what is tried again.
        self.task = ray.remote(num_cpus=threads, max_retries=0)(_node.run)
        self.running: dict[Any, str] = {}

    def slots(self) -> int:
        """Processors of the cluster, over the threads of one worker of the engine."""
        return max(int(self.ray.cluster_resources().get("CPU", 1)) // self.threads, 1)

    def start(self, name: str, arguments: list[str], memory: int) -> None:
        self.running[self.task.options(name=f"chunkwise-{name}").remote(name, arguments, memory, self.env, self.program)] = name

    def ended(self) -> list[tuple[str, End]]:
        if not self.running:
            return []
        done, _ = self.ray.wait(list(self.running), num_returns=len(self.running), timeout=0, fetch_local=False)
        return [(self.running.pop(ref), self._end(ref)) for ref in done]

    def _end(self, ref: Any) -> End:
        errors = self.ray.exceptions
        try:
            end: End = self.ray.get(ref)
        except errors.TaskCancelledError:
            return {"lost": "it was cancelled"}
        except errors.OutOfMemoryError:
            return {"memory": True}
        except errors.RuntimeEnvSetupError as e:
            raise ClusterError(f"the environment of the Ray workers cannot be made: {e}") from e
        except Exception as e:
            cause = getattr(e, "cause", None)
            if isinstance(cause, ModuleNotFoundError):
                raise ClusterError(f"the Ray workers lack the package chunkwise: {cause}; install it on them") from e
            return {"lost": f"{type(e).__name__}: {str(e).strip().splitlines()[-1] if str(e).strip() else ''}"}
        return end

    def cancel(self, names: list[str]) -> None:
        wanted = set(names)
        for ref, name in self.running.items():
            if name in wanted:
                self.ray.cancel(ref)

    def close(self) -> None:
        # The driver has ended, or was killed: nobody takes tasks back. A worker ends with the process of Ray to which it is tied.
        for ref in self.running:
            self.ray.cancel(ref, force=True)
        self.ray.shutdown()
