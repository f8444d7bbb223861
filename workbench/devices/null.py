"""A device without hardware: what a kernel gets is read from its first comment.

For tests and demonstrations of everything around a device. The comment is ``// null: WORD`` with
``passed 12.5`` (microseconds at every declared case), ``compile_failed``, ``launch_failed``,
``crashed``, ``timed_out``, ``mismatch``, ``hazard``, ``suspect`` or ``broken`` (the machine fails).
"""

from __future__ import annotations

import asyncio

from workbench.devices.base import OnStage
from workbench.errors import DeviceError
from workbench.model import (
    H100,
    CaseTime,
    CompileFailed,
    Crashed,
    Diagnostic,
    Evaluation,
    Hazard,
    Kernel,
    LaunchFailed,
    Mismatch,
    Outcome,
    Passed,
    Problem,
    Suspect,
    Target,
    TimedOut,
)

MARK = "// null:"
BASELINE_US = 100.0
FLOOR_US = 1.0


class NullDevice:
    """Judges by the kernel's own word, at once."""

    name = "null"
    parallel = 4

    def __init__(self, target: Target = H100) -> None:
        self.target = target

    async def evaluate(self, problem: Problem, kernel: Kernel, on_stage: OnStage) -> Evaluation:
        """Read the verdict. Raises ``DeviceError`` for ``broken``."""
        on_stage("compiling")
        await asyncio.sleep(0)
        on_stage("running")
        word, time_us = _said(kernel.source)
        if word == "broken":
            raise DeviceError("the null device was told to break")
        case = problem.cases[0].label
        outcome = _outcome(word, case)
        times = tuple(_time(c.label, time_us) for c in problem.cases) if word == "passed" else ()
        return Evaluation(
            kernel=kernel.digest, device="null", target=self.target.name, outcome=outcome, times=times
        )

    async def close(self) -> None:
        """Nothing to end."""


def _said(source: str) -> tuple[str, float]:
    """The verdict's word and the time in microseconds, 100 when none is given."""
    first = next((line.strip() for line in source.splitlines() if line.strip()), "")
    if not first.startswith(MARK):
        return "", 0.0
    words = first.removeprefix(MARK).split()
    try:
        time_us = float(words[1]) if len(words) > 1 else BASELINE_US
    except ValueError:
        return "", 0.0
    return (words[0] if words else ""), time_us


def _time(case: str, time_us: float) -> CaseTime:
    return CaseTime(
        case=case, source="model", time_us=time_us, baselines=(("eager", BASELINE_US),), floor_us=FLOOR_US
    )


def _outcome(word: str, case: str) -> Outcome:
    match word:
        case "passed":
            return Passed()
        case "launch_failed":
            return LaunchFailed(case=case, diagnostics=(Diagnostic(line=1, message="as told"),))
        case "crashed":
            return Crashed(case=case, message="as told")
        case "timed_out":
            return TimedOut(case=case, limit_s=1.0)
        case "mismatch":
            return Mismatch(case=case, message="as told")
        case "hazard":
            return Hazard(hazard="out_of_bounds", case=case, line=1, message="as told")
        case "suspect":
            return Suspect(message="as told")
        case "compile_failed":
            message = "as told"
        case _:
            message = f"the null device wants a first line such as '{MARK} passed 12.5'"
    return CompileFailed(stage="nvrtc", diagnostics=(Diagnostic(line=1, message=message),))
