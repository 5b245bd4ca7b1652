"""A plugin for xarray's own tests of duck arrays: chunkwise takes the place of the libraries that they know."""

from __future__ import annotations

import pytest

#: As for the other libraries: tests of methods that there are not.
MISSING = {"argsort": "no argsort", "searchsorted": "no searchsorted"}


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    arrays = getattr(metafunc.module, "NAMESPACE_ARRAYS", None)
    if arrays is not None and "chunkwise" not in arrays:
        arrays.clear()
        arrays["chunkwise"] = {"attrs": {"array": "Array", "constructor": "asarray"}, "xfails": MISSING}
