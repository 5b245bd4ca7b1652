"""What takes the place of functions in xarray and flox that would compute arrays of chunkwise, or refuse them. Other arrays go where they went before."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ._array import Array


def divert(owner: Any, name: str, ours: Callable[..., Any], data: Callable[..., Any] = lambda first=None, *_, **__: first) -> None:
    """Calls ``ours`` in place of a function of ``owner``, if ``data`` of its arguments is an array of chunkwise. Without the function, nothing changes."""
    original = getattr(owner, name, None)
    if original is None or hasattr(original, "__chunkwise__"):
        return

    @wraps(original)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (ours if isinstance(data(*args, **kwargs), Array) else original)(*args, **kwargs)

    setattr(chosen, "__chunkwise__", True)  # noqa: B010
    setattr(owner, name, chosen)
