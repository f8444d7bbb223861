"""What is asked of the process that runs under the profiler: one kernel, one case, one launch of its plan."""

from __future__ import annotations

from workbench.model import Case, Problem, Target, Value

REQUEST, LOADED, GO = "request.json", "loaded", "go"
"""Files by which a profiler that was started beforehand is told what to do, and says how far it is."""


class ProfileRequest(Value):
    """Profile a kernel at one case."""

    problem: Problem
    source: str
    """The whole ``.cu`` text with its plan."""
    case: Case
    target: Target
    device: int = 0
    """Number of the GPU among those visible."""
    warmups: int = 2
    """Calls before the one that is profiled."""
