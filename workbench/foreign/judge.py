"""From a solution's text to its evaluation: the parent side; imports no torch, runs nothing of it."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from workbench.errors import DeviceError, UsageError
from workbench.foreign.values import (
    DRIVER_BYTES,
    ForeignEvaluation,
    ForeignOptions,
    ForeignReport,
    ForeignRequest,
)
from workbench.model import Crashed, Digest, Problem, TimedOut
from workbench.workers import Died, Expired, Limits, Raised, Returned, torch_ready

SPARE_S = 120.0
"""Beyond what the solution may take: oracle, comparisons, baselines."""
SHARED_BYTES = 2**34
"""Largest shared-memory file of the trusted child."""


def place_named(device: str) -> Literal["cpu", "cuda"]:
    """Where a foreign solution runs. Raises ``UsageError`` for what is not here."""
    gpu = Path("/dev/nvidiactl").exists()
    match device:
        case "auto":
            return "cuda" if gpu else "cpu"
        case "cuda" if not gpu:
            raise UsageError("this machine has no NVIDIA GPU; use --device cpu for a verdict without one")
        case "cpu" | "cuda":
            return "cuda" if device == "cuda" else "cpu"
        case _:
            raise UsageError(f"a .py solution runs on cpu or cuda, not on {device!r}; leave --device out")


def judge_solution(problem: Problem, solution: str, options: ForeignOptions) -> ForeignEvaluation:
    """Judge one ``ModelNew``. Blocking; safe to call from many threads.

    Whatever the solution does is an ``Outcome``. Raises ``DeviceError`` when the machine fails, and
    ``UsageError`` for a problem that it cannot be asked.
    """
    if any(spec.in_pairs for spec in problem.tensors) or any(spec.in_pairs for spec in problem.outputs):
        raise UsageError(
            f"{problem.name} has complex tensors, for which only the workbench's own kernels can be judged. "
            "Have the reference take and return torch.view_as_real of them."
        )
    request = ForeignRequest(problem=problem, solution=solution, options=options)
    allowance = options.allowance
    limits = Limits(
        wall_s=allowance.wall_s + SPARE_S,
        cpu_s=int(allowance.wall_s + SPARE_S),
        # On a GPU the baselines are timed there, and what its driver maps counts as private memory.
        memory_bytes=DRIVER_BYTES if options.device == "cuda" else allowance.memory_bytes,
        file_bytes=SHARED_BYTES,
    )
    payload = request.model_dump_json().encode()
    report = _report(torch_ready().call("workbench.foreign.trial:run", payload, limits))
    return ForeignEvaluation(
        solution=Digest(hashlib.sha256(solution.encode()).hexdigest()),
        problem=problem.name,
        device=options.device,
        report=report,
    )


def _report(result: Returned | Raised | Died | Expired) -> ForeignReport:
    match result:
        case Returned(payload=answer):
            try:
                return ForeignReport.model_validate_json(answer)
            except ValidationError as error:
                raise DeviceError("the judging process gave an answer that makes no sense") from error
        case Expired(limit_s=seconds):
            return ForeignReport(
                outcome=TimedOut(case="", limit_s=seconds, message="the judging took too long")
            )
        case Died(message=message):
            return ForeignReport(outcome=Crashed(case="", message=f"while it was judged, {message}"))
        case Raised(type=kind, message=message):
            raise DeviceError(f"the judging process failed: {kind}: {message}")
