"""Spectra of xrft. It calls the transforms of Dask for everything that has chunks."""

from __future__ import annotations

from typing import Any

import wrapt

from . import fft
from ._hooks import divert


class _Transforms:
    """The functions of :mod:`chunkwise.fft`, which take arrays of xarray too."""

    def __getattr__(self, name: str) -> Any:
        function = getattr(fft, name)
        return lambda x, *args, **kwargs: function(getattr(x, "data", x), *args, **kwargs)


def install() -> None:
    """Makes xrft hand arrays of chunkwise to the engine, now or when it is imported."""
    wrapt.register_post_import_hook(lambda m: divert(m, "_fft_module", lambda _: _Transforms(), lambda da: da.variable._data), "xrft.xrft")
