"""Planning only: the same over ten million chunks."""

from .plan_1e6 import cubed, dask, declare, outputs, pipeline  # noqa: F401

TITLE = "plan only, 10⁷ chunks"
CHUNKS = 10**7


def generate(job):
    declare(job, CHUNKS)
