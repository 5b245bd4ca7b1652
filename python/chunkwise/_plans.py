"""Plans for reading: as a table, and drawn."""

from __future__ import annotations

import base64
import json
import os
from html import escape
from pathlib import Path
from typing import Any

from ._array import Array
from ._html import nbytes


class Plan(dict[str, Any]):
    """How arrays would be computed.

    ``table`` is a text for reading, ``stages`` and ``tasks`` are numbers, ``projected_mem`` are the bytes of the largest task beside the program
    itself, ``svg`` is a drawing, and ``json`` the plan as ``chunkwise run`` takes it.
    """

    def __repr__(self) -> str:
        return str(self["table"]).rstrip("\n")

    def _repr_html_(self) -> str:
        return plan_html(json.loads(self["json"]))


class Drawing:
    """A drawing of a plan: shown by notebooks, or saved."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_html_(self) -> str:
        # As an image: the styles of an SVG in a page would be those of all others.
        data = base64.b64encode(self.svg.encode()).decode()
        return f'<img alt="plan" style="max-width:100%" src="data:image/svg+xml;base64,{data}"/>'

    def save(self, filename: str | os.PathLike[str]) -> Path:
        """Writes it as ``.svg`` or ``.html``."""
        path = Path(filename)
        if path.suffix == ".svg":
            path.write_text(self.svg, encoding="utf-8")
        elif path.suffix == ".html":
            path.write_text(f"<!DOCTYPE html><meta charset='utf-8'><title>plan</title>{self.svg}", encoding="utf-8")
        else:
            raise ValueError(f"a drawing is saved as .svg or .html, not as {path.suffix or path.name!r}")
        return path


def visualize(*arrays: Array, filename: str | os.PathLike[str] | None = None, spec: Any = None) -> Drawing:
    """Draws how arrays would be computed in one run: what is read, the stages with their tasks and memory, and what is written.

    The drawing is shown in a notebook. With ``filename``, it is also saved, as ``.svg`` or ``.html``. Nothing is computed.

    >>> import chunkwise as cw
    >>> drawing = cw.visualize(cw.ones((1000, 1000)).sum())
    >>> drawing.svg.startswith("<svg")
    True
    """
    from ._run import plan

    drawing = Drawing(plan(*arrays, spec=spec)["svg"])
    if filename is not None:
        drawing.save(filename)
    return drawing


def _tasks(stage: dict[str, Any]) -> int:
    most = 1
    for output in stage["outputs"]:
        n = 1
        for axis in output["tasks"]:
            n *= -(-axis["regular"]["len"] // max(axis["regular"]["size"], 1)) if "regular" in axis else len(axis["irregular"])
        most = max(most, n)
    return most


def plan_html(plan: dict[str, Any]) -> str:
    """A plan in a notebook: its stages, with the memory of a task beside what tasks may use."""
    spec = plan["spec"]
    room = max(spec["allowed_mem"] - spec["reserved_mem"], 1)
    rows = []
    for i, stage in enumerate(plan["stages"]):
        need, cost = stage["projected_mem"], stage["cost"]
        share = min(need / room, 1.0)
        bar = (
            f"<div style='width:8em;border:1px solid #888;height:0.8em'>"
            f"<div style='width:{100 * share:.1f}%;height:100%;background:#7fb3d5'></div></div>"
        )
        cells = (str(i), stage["name"], stage["kind"], f"{_tasks(stage):,}", nbytes(need), nbytes(cost["bytes_read"]), nbytes(cost["bytes_written"]))
        told = [f"<td style='text-align:{'left' if k in (1, 2) else 'right'}'>{escape(cell)}</td>" for k, cell in enumerate(cells)]
        told.insert(5, f"<td>{bar}</td>")
        rows.append(f"<tr>{''.join(told)}</tr>")
    head = "".join(f"<th style='text-align:left'>{name}</th>" for name in ("", "stage", "kind", "tasks", "memory of a task", "", "read", "written"))
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
        f"<div>{nbytes(spec['allowed_mem'])} are allowed, {nbytes(spec['reserved_mem'])} of them for the program; {spec['workers']} tasks at once</div>"
    )
