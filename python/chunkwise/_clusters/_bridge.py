"""The conversation with the driver: one JSON document a line each way. ``crates/executor/src/executors/batch/bridge.rs`` is its other end."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, Protocol

#: How a part has ended: ``{"code": 0}``, ``{"lost": "why"}`` or ``{"memory": True}``.
End = dict[str, Any]


class Cluster(Protocol):
    """What starts workers somewhere."""

    def slots(self) -> int:
        """Workers that run at once."""

    def start(self, name: str, arguments: list[str], memory: int) -> None:
        """Starts ``chunkwise`` with these arguments as a worker that is called ``name`` and may use so many bytes."""

    def ended(self) -> list[tuple[str, End]]:
        """The workers that have ended since the last call."""

    def cancel(self, names: list[str]) -> None:
        """Ends workers. Those that run hand back their tasks first."""

    def close(self) -> None:
        """Ends all workers, and leaves the cluster."""


class ClusterError(Exception):
    """The cluster cannot be reached, or is of no use. The message is for the user."""


def connect(request: dict[str, Any]) -> Cluster:
    """A client of the cluster that the first request names."""
    name, options = request["cluster"], {**request["options"], "threads": request["threads"], "env": request["env"]}
    if name == "dask":
        from ._dask import DaskCluster

        return DaskCluster(**options)
    if name == "ray":
        from ._ray import RayCluster

        return RayCluster(**options)
    raise ClusterError(f"there is no cluster {name!r}")


def answer(cluster: Cluster, request: dict[str, Any]) -> dict[str, Any]:
    """Does what a request asks for."""
    ended: list[tuple[str, End]] = []
    match request["do"]:
        case "begin":
            pass
        case "submit":
            for part in request["parts"]:
                cluster.start(part["name"], part["arguments"], request["memory"])
        case "look":
            ended = cluster.ended()
        case "cancel":
            cluster.cancel(request["parts"])
        case other:
            raise ClusterError(f"the driver asks for {other!r}; is it of another version?")
    return {"slots": cluster.slots(), "ended": [{"part": name, **end} for name, end in ended]}


def serve(read: Any, write: Any) -> None:
    """Answers requests until there are no more."""
    cluster: Cluster | None = None
    try:
        for line in read:
            request = json.loads(line)
            try:
                if cluster is None:
                    cluster = connect(request)
                said = answer(cluster, request)
            except ClusterError as e:
                said = {"error": str(e)}
            except Exception as e:
                said = {"error": f"{type(e).__name__}: {e}"}
            write.write(json.dumps(said) + "\n")
            write.flush()
    except BrokenPipeError:
        pass
    finally:
        if cluster is not None:
            cluster.close()


def main() -> None:
    """Serves the driver that has started this process."""
    # What clients print must not be taken for an answer.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    serve(sys.stdin, answers)
    # Threads of clients would be waited for.
    sys.stderr.flush()
    os._exit(0)
