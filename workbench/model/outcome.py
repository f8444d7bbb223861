"""What came of judging a kernel: one outcome of many kinds, with all that was learnt on the way.

A bad kernel is a value like any other; only a broken machine raises.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import Field

from workbench.model.checks import Check, Printed
from workbench.model.compiled import CompileReport, Counts, Diagnostic, PlanFacts
from workbench.model.problem import Layout
from workbench.model.times import CaseTime, Profile
from workbench.model.value import Digest, Value


class CompileFailed(Value):
    """The plan or the CUDA text does not compile."""

    kind: Literal["compile_failed"] = "compile_failed"
    stage: Literal["plan", "nvrtc", "emulator", "solution"]
    diagnostics: tuple[Diagnostic, ...]


class LaunchFailed(Value):
    """The plan asked for something a GPU refuses, or argument types do not fit the kernel."""

    kind: Literal["launch_failed"] = "launch_failed"
    case: str
    diagnostics: tuple[Diagnostic, ...]


class Crashed(Value):
    """The process that ran the kernel died."""

    kind: Literal["crashed"] = "crashed"
    case: str
    message: str


class TimedOut(Value):
    """Compilation or the kernel ran past its limit."""

    kind: Literal["timed_out"] = "timed_out"
    case: str
    limit_s: float
    message: str = ""
    line: int | None = None
    """Where a thread of the kernel was when its time was up."""


class Mismatch(Value):
    """Wrong numbers. The failing check is the last of the evaluation's checks."""

    kind: Literal["mismatch"] = "mismatch"
    case: str
    message: str
    """One sentence: what differs, where, by how much."""


class Hazard(Value):
    """Undefined behaviour that was seen: the numbers may be right by luck."""

    kind: Literal["hazard"] = "hazard"
    hazard: Literal[
        "out_of_bounds", "misaligned", "race", "barrier", "uninitialised", "warp_sync", "input_written"
    ]
    case: str
    line: int | None
    message: str


class Suspect(Value):
    """Too good or inconsistent: nothing is claimed."""

    kind: Literal["suspect"] = "suspect"
    message: str


class Passed(Value):
    """Right on every covered check."""

    kind: Literal["passed"] = "passed"
    not_covered: tuple[str, ...] = ()
    """Cases the plan's ``require`` turned away."""
    deterministic: bool = True
    layouts: tuple[tuple[Layout, ...], ...] = Field(default=(), exclude_if=lambda layouts: not layouts)
    """Inputs that lay otherwise than declared, in one check each, and the kernel was right."""


Outcome = Annotated[
    CompileFailed | LaunchFailed | Crashed | TimedOut | Mismatch | Hazard | Suspect | Passed,
    Field(discriminator="kind"),
]


class Evaluation(Value):
    """All that was learnt about one kernel on one device."""

    kernel: Digest
    device: Literal["emulator", "cuda", "null"]
    target: str
    outcome: Outcome
    compiled: CompileReport | None = None
    facts: tuple[PlanFacts, ...] = ()
    checks: tuple[Check, ...] = ()
    counts: tuple[Counts, ...] = ()
    times: tuple[CaseTime, ...] = ()
    """One a declared case, most important first; empty unless the outcome is Passed."""
    seconds: tuple[tuple[str, float], ...] = ()
    """Wall seconds a stage of judging took: ``compile``, ``run``, ..."""
    card_bytes: tuple[tuple[str, int, int], ...] = ()
    """By declared case, on a GPU: most memory held at once while checking, and that of inputs and outputs."""
    profile: Profile | None = None
    """Of the most important declared case; only of a kernel that passed on a GPU."""
    seed: int = 0
    """What all inputs' seeds followed from; ``WORKBENCH_SEED`` set to it repeats the judgement."""
    printed: Printed | None = None
    """What the kernel printed: in the check that failed, else in the first; only on the emulator."""
    notes: tuple[str, ...] = ()
    """What a reader of the verdict must know: what was not looked at, and why."""

    @property
    def passed(self) -> bool:
        """True for a correct kernel."""
        return isinstance(self.outcome, Passed)

    @property
    def score(self) -> float:
        """Geometric mean over the declared cases of fastest baseline over time; 0 unless passed."""
        if not self.passed or not self.times:
            return 0.0
        return math.exp(sum(math.log(time.speedup) for time in self.times) / len(self.times))

    @property
    def worst_ratio(self) -> float | None:
        """Largest error over bound in any check; None when nothing was compared."""
        return max((d.max_ratio for c in self.checks for d in c.differences), default=None)

    @property
    def worst_abs(self) -> float | None:
        """Largest absolute error against float64 in any check; None when nothing was compared."""
        return max((d.max_abs for c in self.checks for d in c.differences), default=None)


Stage = Literal["waiting", "writing", "compiling", "running", "done"]
