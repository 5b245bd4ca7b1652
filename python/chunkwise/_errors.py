"""Exceptions of the package that are not Python's own."""


class MemoryLimitError(MemoryError):
    """The allowed memory is too small for a computation. Nothing was read.

    All numbers are bytes. ``enough`` is a budget that would do: ``Spec(allowed_mem=error.enough)``.
    """

    def __init__(
        self, message: str, *, needed: int = 0, reserved: int = 0, allowed: int = 0, enough: int = 0, operations: str = ""
    ) -> None:
        super().__init__(message)
        self.needed = needed
        self.reserved = reserved
        self.allowed = allowed
        self.enough = enough
        self.operations = operations


class ComputeError(RuntimeError):
    """Something was to be computed inside :func:`chunkwise.raise_if_computes`."""
