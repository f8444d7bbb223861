"""What a call to a worker is allowed, and every way it can end. No processes here."""

from __future__ import annotations

from typing import Literal

from workbench.model import Value


class Limits(Value):
    """What one call may use. Every figure is beyond what the fresh child already holds."""

    wall_s: float = 300.0
    """Wall seconds until the child and everything it started are killed; for what waits without end."""
    cpu_s: int = 60
    """CPU seconds, summed over the threads of one process."""
    memory_bytes: int = 4 * 2**30
    """Private writable memory; allocations beyond it fail in the child."""
    file_bytes: int = 2**30
    """Size of one file the child writes."""
    network: bool = False
    """Whether the child may open TCP connections; refused where the kernel can refuse it."""


class Returned(Value):
    """The function returned."""

    payload: bytes


class Raised(Value):
    """The function raised a Python exception."""

    type: str
    """Name of the exception's class."""
    message: str
    traceback: str


class Died(Value):
    """The process ended without an answer, or its answer was garbled."""

    signal: str | None = None
    """Such as ``SIGSEGV``; None when the process exited."""
    exit_code: int | None = None
    message: str
    """One line for people."""
    stderr_tail: str = ""
    """Last few kilobytes written to standard error and output, in order."""


class Expired(Value):
    """A time limit ran out."""

    limit_s: float
    clock: Literal["wall", "cpu"] = "wall"


Result = Returned | Raised | Died | Expired
