"""Progress of runs, in terminals and in notebooks."""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from html import escape
from typing import Any, Protocol, TextIO

from ._html import nbytes
from ._spec import watch

#: Seconds between two lines where there is no terminal.
EVERY_LINE = 5.0
#: Seconds between two drawings.
EVERY_DRAWING = 0.1
#: As long as less is done, the remaining time cannot be estimated.
ENOUGH = 0.02


def duration(seconds: float) -> str:
    """Seconds for reading."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


class State:
    """How far a run is, from its events."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.stages: list[dict[str, Any]] = []
        self.share = 0.0
        self.left: float | None = None
        self.memory = self.allowed = 0
        self.warnings: list[str] = []
        self.ended = False

    def update(self, event: dict[str, Any]) -> None:
        """Takes an event."""
        match event["event"]:
            case "run_started":
                self.stages = [dict(stage) for stage in event["stages"]]
            case "task_finished":
                stage = self.stages[event["stage"]]
                stage["done"] = min(stage["done"] + 1, stage["tasks"])
            case "progress":
                total = max(event["total"], 1.0)
                self.share = max(self.share, min(event["done"] / total, 1.0))
                new, seconds = event["done"] - event["before"], event["seconds"]
                known = new > 0 and seconds > 0 and event["done"] / total >= ENOUGH
                self.left = (event["total"] - event["done"]) * seconds / new if known else None
                self.memory, self.allowed = event["memory"], event["allowed_mem"]
            case "task_retried":
                self.warnings.append(f"failed ({event['class']}), again in {event['wait']:.1f} s: {event['error']}")
            case "warning":
                self.warnings.append(event["message"])
            case "run_finished":
                self.share, self.left, self.ended = 1.0, None, True

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self.began

    def text(self) -> str:
        """In a line, without the bar."""
        done, tasks = (sum(stage[name] for stage in self.stages) for name in ("done", "tasks"))
        told = [f"{done:,} of {tasks:,} tasks", duration(self.seconds)]
        if self.left is not None:
            told.append(f"about {duration(self.left)} left")
        if self.memory:
            told.append(f"{nbytes(self.memory)} of {nbytes(self.allowed)}")
        return ", ".join(told)


class Display(Protocol):
    """Where progress is shown."""

    def show(self, state: State) -> None:
        """Draws it, perhaps in the place of what was drawn before."""

    def say(self, text: str) -> None:
        """Adds a line that stays."""

    def end(self, state: State) -> None:
        """Draws it for the last time."""


class Lines:
    """A line from time to time, in files and logs."""

    def __init__(self, out: TextIO) -> None:
        self.out, self.said = out, time.monotonic()

    def show(self, state: State) -> None:
        if time.monotonic() - self.said >= EVERY_LINE:
            self.said = time.monotonic()
            self.say(f"{100 * state.share:3.0f} %  {state.text()}")

    def say(self, text: str) -> None:
        print(text, file=self.out, flush=True)

    def end(self, state: State) -> None:
        self.say(f"{100 * state.share:3.0f} %  {state.text()}")


class Bar:
    """A bar in a terminal."""

    WIDTH = 24

    def __init__(self, out: TextIO) -> None:
        self.out, self.drawn = out, 0

    def _line(self, state: State) -> str:
        full = round(self.WIDTH * state.share)
        return f"[{'#' * full}{'-' * (self.WIDTH - full)}] {100 * state.share:3.0f} %  {state.text()}"

    def show(self, state: State) -> None:
        line = self._line(state)
        self.out.write("\r" + line.ljust(self.drawn))
        self.out.flush()
        self.drawn = len(line)

    def say(self, text: str) -> None:
        self.out.write("\r" + text.ljust(self.drawn) + "\n")
        self.drawn = 0

    def end(self, state: State) -> None:
        self.show(state)
        self.out.write("\n")
        self.out.flush()
        self.drawn = 0


class Rich:
    """A bar of the package rich."""

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

        columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"))
        self.progress = Progress(*columns, console=Console(file=out), auto_refresh=False)
        self.task = self.progress.add_task("", total=1.0)
        self.progress.start()

    def show(self, state: State) -> None:
        self.progress.update(self.task, completed=state.share, description=state.text())
        self.progress.refresh()

    def say(self, text: str) -> None:
        self.progress.console.print(text, markup=False, highlight=False)

    def end(self, state: State) -> None:
        self.show(state)
        self.progress.stop()


class Notebook:
    """A display that a notebook replaces in place."""

    def __init__(self) -> None:
        from IPython.display import HTML, display

        self.html = HTML
        self.handle = display(HTML(""), display_id=True)
        self.said: list[str] = []

    def show(self, state: State) -> None:
        rows = "".join(
            f"<tr><td style='text-align:left'>{escape(stage['name'])}</td><td><progress value='{stage['done']}' max='{max(stage['tasks'], 1)}'></progress></td>"
            f"<td style='text-align:right'>{stage['done']:,} of {stage['tasks']:,}</td></tr>"
            for stage in state.stages
        )
        said = "".join(f"<div>{escape(text)}</div>" for text in self.said[-5:])
        total = f"<progress style='width:20em' value='{state.share:.3f}' max='1'></progress> {100 * state.share:.0f} %, {escape(state.text())}"
        self.handle.update(self.html(f"<div>{total}</div><table>{rows}</table>{said}"))

    def say(self, text: str) -> None:
        self.said.append(text)

    def end(self, state: State) -> None:
        self.show(state)


def _in_notebook() -> bool:
    """True in a kernel of Jupyter. A terminal of IPython is a terminal."""
    found = sys.modules.get("IPython")
    shell = found.get_ipython() if found is not None else None
    return shell is not None and hasattr(shell, "kernel")


def _display(out: TextIO) -> Display:
    if _in_notebook():
        return Notebook()
    if not out.isatty():
        return Lines(out)
    try:
        return Rich(out)
    except ImportError:
        return Bar(out)


class ProgressBar:
    """Shows the progress of the runs inside it: tasks, time, what is left, and memory.

    It is a display that is updated in place in a notebook, a bar in a terminal (of the package ``rich``, if that is installed), and a line from time
    to time elsewhere. Failures that are tried again and warnings are told, too.

    >>> import io, chunkwise as cw
    >>> with cw.ProgressBar(file=io.StringIO()):
    ...     cw.ones((10, 10)).sum().compute()
    array(100.)
    """

    def __init__(self, *, file: TextIO | None = None) -> None:
        self._file = file
        self._stack = ExitStack()
        self._display: Display | None = None
        self._state = State()
        self._drawn = 0.0
        self._told = 0

    def __enter__(self) -> ProgressBar:
        self._stack.enter_context(watch(self._tell))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._end()

    def _end(self) -> None:
        if self._display is not None:
            self._display.end(self._state)
            self._display = None

    def _tell(self, event: dict[str, Any]) -> None:
        if event["event"] == "run_started":
            self._end()
            self._display, self._state, self._told = _display(self._file or sys.stderr), State(), 0
        self._state.update(event)
        if self._display is None:
            return
        for text in self._state.warnings[self._told :]:
            self._display.say(text)
        self._told = len(self._state.warnings)
        if self._state.ended:
            self._end()
        elif time.monotonic() - self._drawn >= EVERY_DRAWING:
            self._drawn = time.monotonic()
            self._display.show(self._state)
