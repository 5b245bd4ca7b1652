"""What a run may use: memory, workers, a work directory, an executor."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial, reduce
from pathlib import Path
from typing import Any

from . import _assumed, _chunkwise, _references
from ._errors import ComputeError

#: Told of what happens in a run: a dictionary for each event.
Watcher = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Spec:
    """What a run may use.

    ``allowed_mem`` is a number of bytes, or a text such as ``"500MB"``, and bounds the whole process. ``work_dir`` is where intermediates
    are stored that do not fit into it. ``executor`` is one of the engine's, with ``executor_options`` as texts; that of ``"dask"`` may be
    ``{"client": client}``, and otherwise the current client of Dask is taken. ``storage`` says how buckets are
    reached, by URL prefix: ``{"s3://data": {"endpoint": "https://minio.lab:9000"}}``.

    An array that is opened or made with a spec keeps it, and so does everything that is computed from it, unless ``compute(spec=...)`` says
    otherwise. What is not given is taken from :data:`config`, then from the environment (``CHUNKWISE_ALLOWED_MEM``, ``CHUNKWISE_WORK_DIR``,
    ``CHUNKWISE_WORKERS``, ``CHUNKWISE_EXECUTOR``).
    """

    work_dir: str | os.PathLike[str] | None = None
    allowed_mem: int | str | None = None
    workers: int | None = None
    executor: str | None = None
    executor_options: Mapping[str, object] = field(default_factory=dict)
    storage: Mapping[str, Mapping[str, object]] = field(default_factory=dict)

    def _allowed_bytes(self) -> int:
        memory = self.allowed_mem if self.allowed_mem is not None else 2_000_000_000
        return memory if isinstance(memory, int) else _chunkwise.parse_bytes(memory)

    def _settings(self) -> _chunkwise.Settings:
        given = _at_cluster(self.executor_options) if self.executor in CLUSTERS else self.executor_options
        options = {name: _option(value) for name, value in given.items()}
        if not self._in_process():
            _references.publish()
        if self.executor in PROGRAMS and "program" not in options:
            options["program"] = _command()
        return _chunkwise.Settings(
            self._allowed_bytes(),
            self.workers or _chunkwise.default_workers(),
            self._work_dir(),
            self.executor or "threads",
            options,
            self._runtime(),
            sys.executable if self.executor in (*PROGRAMS, *CLUSTERS) else None,
        ).with_calls(_assumed.in_plans())

    def _runtime(self) -> _chunkwise.Runtime:
        return runtime(json.dumps({prefix: dict(options) for prefix, options in self.storage.items()}, sort_keys=True))

    def _work_dir(self) -> str:
        return os.fspath(self.work_dir) if self.work_dir is not None else _chunkwise.default_work_dir()

    def _in_process(self) -> bool:
        return (self.executor or "threads") == "threads"


#: Executors whose workers are the command.
PROGRAMS = ("processes", "slurm", "command")
#: Executors whose clients are written in Python.
CLUSTERS = ("dask", "ray")


def _at_cluster(options: Mapping[str, object]) -> Mapping[str, object]:
    """Options with the address of a client of Dask, and this interpreter."""
    given = {"python": sys.executable, **options}
    client = given.pop("client", None)
    distributed = sys.modules.get("distributed")
    if client is None and distributed is not None and not given.keys() & {"address", "scheduler_file"}:
        client = distributed.client._get_global_client()
    if client is not None:
        address: str = client.scheduler.address  # type: ignore[attr-defined]
        if address.startswith("inproc:"):
            raise ValueError("the cluster of this client is in this process (processes=False), where no other reaches it; start it with processes=True")
        given["address"] = address
    return given


@lru_cache(maxsize=32)
def runtime(storage: str) -> _chunkwise.Runtime:
    """The runtime with these storage options, which keeps its connections."""
    return _chunkwise.Runtime(storage)


def _command() -> str:
    """The command, which is the program of worker processes."""
    if named := os.environ.get("CHUNKWISE_PROGRAM"):
        if not os.access(named, os.X_OK):
            raise ValueError(f"CHUNKWISE_PROGRAM names {named!r}, which is no program")
        return named
    # Beside the interpreter is that of this environment, which need not be active.
    beside = Path(sys.executable).parent
    found = shutil.which("chunkwise", path=str(beside)) or shutil.which("chunkwise")
    if found is None:
        raise ValueError(
            f"worker processes run the command chunkwise, which is neither in {beside} nor on the PATH; name it: "
            "executor_options={'program': PATH} or CHUNKWISE_PROGRAM=PATH"
        )
    return found


def _option(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


_current: ContextVar[Spec | None] = ContextVar("chunkwise_spec", default=None)
_refused: ContextVar[bool] = ContextVar("chunkwise_refused", default=False)
_watchers: ContextVar[tuple[Watcher, ...]] = ContextVar("chunkwise_watchers", default=())


def _environment() -> Spec:
    get = os.environ.get
    workers = get("CHUNKWISE_WORKERS")
    if workers is not None and not workers.isdecimal():
        raise ValueError(f"CHUNKWISE_WORKERS must be a number, not {workers!r}")
    return Spec(get("CHUNKWISE_WORK_DIR"), get("CHUNKWISE_ALLOWED_MEM"), int(workers) if workers else None, get("CHUNKWISE_EXECUTOR"))


def _said(spec: Spec) -> dict[str, Any]:
    """The settings that a spec names."""
    return {f.name: v for f in fields(Spec) if (v := getattr(spec, f.name)) not in (None, {})}


def over(base: Spec, top: Spec | None) -> Spec:
    """``base`` with everything that ``top`` says. Each bucket keeps its options."""
    if top is None:
        return base
    return replace(base, **{**_said(top), "storage": {**base.storage, **top.storage}})


def _beside(one: Spec, other: Spec, given: Spec) -> Spec:
    """Everything that two specs of arrays say. They may differ in what is ``given`` for the run."""
    a, b = _said(one), _said(other)
    for name in a.keys() & b.keys() - _said(given).keys() - {"storage"}:
        if a[name] != b[name]:
            values = " and ".join(sorted(repr(of[name]) for of in (a, b)))
            raise ValueError(f"the arrays of one run have different specs: {name} is {values}; say which with spec=")
    for prefix in one.storage.keys() & other.storage.keys() - given.storage.keys():
        if one.storage[prefix] != other.storage[prefix]:
            raise ValueError(f"the arrays of one run were opened with different storage options for {prefix}; say which with spec=")
    return over(one, other)


def joined(specs: Iterable[Spec], given: Spec = Spec()) -> Spec:
    """Everything that the specs of arrays say."""
    return reduce(partial(_beside, given=given), specs, Spec())


def current(spec: Spec | None = None, arrays: Iterable[_chunkwise.Lazy] = ()) -> Spec:
    """The spec that counts: what is given, over what the arrays were made with, over what is configured, over the environment."""
    own = joined((held for lazy in arrays for held in lazy.specs), spec or Spec())
    return over(over(over(_environment(), _current.get()), own), spec)


def bound(lazy: _chunkwise.Lazy, spec: Spec | None, storage: Mapping[str, Mapping[str, object]] | None = None) -> _chunkwise.Lazy:
    """An array that is computed with what ``spec`` says, and read with these storage options."""
    own = over(Spec(storage=storage or {}), spec)
    return lazy.with_spec(own) if _said(own) else lazy


class Config:
    """The settings of computations that name none themselves.

    >>> import chunkwise
    >>> with chunkwise.config(allowed_mem="500MB"):
    ...     chunkwise.config.get().allowed_mem
    '500MB'
    """

    @contextmanager
    def __call__(self, spec: Spec | None = None, **settings: Any) -> Iterator[Spec]:
        token = _current.set(over(_current.get() or Spec(), replace(spec or Spec(), **settings)))
        try:
            yield current()
        finally:
            _current.reset(token)

    def set(self, **settings: Any) -> None:
        """Changes settings from now on."""
        _current.set(over(_current.get() or Spec(), Spec(**settings)))

    def get(self) -> Spec:
        """The settings that count now."""
        return current()


#: The settings of computations that name none themselves: a context manager.
config = Config()


@contextmanager
def raise_if_computes() -> Iterator[None]:
    """Makes everything that would compute raise :class:`chunkwise.ComputeError` instead."""
    token = _refused.set(True)
    try:
        yield
    finally:
        _refused.reset(token)


@contextmanager
def watch(watcher: Watcher) -> Iterator[None]:
    """Hands the events of runs to ``watcher``, each as a dictionary."""
    token = _watchers.set((*_watchers.get(), watcher))
    try:
        yield
    finally:
        _watchers.reset(token)


def check_computing() -> None:
    """Refuses to compute inside :func:`raise_if_computes`."""
    if _refused.get():
        raise ComputeError("something was to be computed, inside raise_if_computes()")


def watcher() -> Watcher | None:
    """All watchers as one."""
    watchers = _watchers.get()
    if not watchers:
        return None

    def tell(event: dict[str, Any]) -> None:
        for each in watchers:
            each(event)

    return tell
