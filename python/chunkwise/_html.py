"""Arrays in notebooks: a table of what they are, and a drawing of their chunks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._array import Array

#: The longest side of a drawing.
_SIDE = 160.0
#: Lines along a side, at most.
_LINES = 40


def nbytes(n: float) -> str:
    """A number of bytes for reading."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"
        n /= 1000
    return f"{n:.1f} PB"


def _cuts(lengths: tuple[int, ...], side: float) -> list[float]:
    """Where chunks end along a side. Of very many some are drawn."""
    total, step = sum(lengths) or 1, max(len(lengths) // _LINES, 1)
    ends, at = [], 0
    for i, n in enumerate(lengths):
        at += n
        if i % step == step - 1 or i == len(lengths) - 1:
            ends.append(side * at / total)
    return ends


def chunks_svg(array: Array) -> str:
    """A drawing of the last two axes, or of the only one, with the chunks as cells."""
    chunks = array.chunks[-2:] if array.ndim > 1 else ((1,), *array.chunks) if array.ndim else ((1,), (1,))
    rows, columns = (sum(c) or 1 for c in chunks)
    scale = _SIDE / max(rows, columns)
    height, width = (max(n * scale, 16.0) for n in (rows, columns))
    lines = [f'<line x1="0" y1="{y:.1f}" x2="{width:.1f}" y2="{y:.1f}"/>' for y in [0.0, *_cuts(chunks[0], height)]]
    lines += [f'<line x1="{x:.1f}" y1="0" x2="{x:.1f}" y2="{height:.1f}"/>' for x in [0.0, *_cuts(chunks[1], width)]]
    return (
        f'<svg width="{width + 2:.0f}" height="{height + 2:.0f}" viewBox="-1 -1 {width + 2:.1f} {height + 2:.1f}">'
        f'<rect width="{width:.1f}" height="{height:.1f}" fill="#7fb3d5" fill-opacity="0.45"/>'
        f'<g stroke="#1b4f72" stroke-width="1">{"".join(lines)}</g></svg>'
    )


def array_html(array: Array) -> str:
    """An array in a notebook."""
    chunk = 1
    for n in array.chunksize:
        chunk *= n
    facts = {
        "Shape": str(array.shape),
        "Chunks": f"{array.chunksize}, {array.npartitions} of them",
        "Size": f"{nbytes(array.nbytes)}, a chunk {nbytes(chunk * array.itemsize)}",
        "Dtype": str(array.dtype),
        "Operation": array._lazy.operation,
    }
    if array.dims:
        facts["Dimensions"] = ", ".join(str(d) for d in array.dims)
    rows = "".join(f"<tr><th style='text-align:left'>{k}</th><td>{escape(v)}</td></tr>" for k, v in facts.items())
    return f"<table><tr><td><table>{rows}</table></td><td>{chunks_svg(array)}</td></tr></table>"
