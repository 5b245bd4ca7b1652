"""Exceptions of the package that are not Python's own."""


class MemoryLimitError(MemoryError):
    """The allowed memory is too small for a computation, or the ``memory`` of a function for one of its calls.

    All numbers are bytes. A computation is refused before anything is read, and ``enough`` is a budget that would do:
    ``Spec(allowed_mem=error.enough)``. A call of a function is ended when it has taken too much, and ``enough`` is a ``memory`` to try: a
    quarter more than it had taken by then.
    """

    def __init__(
        self, message: str, *, needed: int = 0, reserved: int = 0, allowed: int = 0, enough: int = 0, operations: str = "", version: str = ""
    ) -> None:
        super().__init__(message)
        self.needed = needed
        self.reserved = reserved
        self.allowed = allowed
        self.enough = enough
        self.operations = operations
        #: The version of the function whose call has taken too much.
        self.version = version


class ComputeError(RuntimeError):
    """Something was to be computed inside :func:`chunkwise.raise_if_computes`."""
