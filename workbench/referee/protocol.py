"""What the judge and the process that runs a kernel say to each other; JSON, never pickles.

Owns the messages. The child's words are data from an untrusted process: they are validated, and a
malformed answer becomes a verdict rather than an exception.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from workbench.emulator.values import RunReport
from workbench.model import Case, Check, Diagnostic, Outcome, Printed, Problem, Target, TensorMeta, Value
from workbench.plan.interpret import Path
from workbench.plan.steps import Plan
from workbench.referee.baselines import EagerOp
from workbench.referee.options import JudgeOptions

NO_NUMBERS = "nothing but NaN or infinity in it, so that the check on your own inputs says little"
"""Of a tensor the person gave."""


LEAST_ROOM = 2
"""Blocks that any card has room for: one that waits, and one that it waits for."""


class Trial(Value):
    """A case the kernel claims to handle, with its plan."""

    case: Case
    plan: Plan
    once: bool = False
    """True for a case that is tried on ordinary values only."""
    probe: bool = False
    """True for sizes a plan's conditions asked for: whether the reference takes them is not known yet."""
    room: int = LEAST_ROOM
    """Blocks that the plan may count on to be on the card at the same time, however they begin: one a
    multiprocessor of the card it is for; the least where a card with one multiprocessor has the same plan."""


class Kept(Value):
    """Where what must come of checks is kept for the next kernel of a problem."""

    folder: str
    secret: str
    """Its files are signed with it; the process that runs a kernel never hears of it."""


class TrialRequest(Value):
    """Parent to child: check this kernel at these cases."""

    problem: Problem
    source: str
    trials: tuple[Trial, ...]
    options: JudgeOptions
    own_tensors: bool = False
    """True when the first trial is also run on the person's own tensors."""
    eager: bool = False
    """True when the operations of the eager reference are wanted as well."""
    kept: Kept | None = None
    """Where what must come of checks is kept for other kernels; None where there are no others."""


class CheckStarted(Value):
    """Child to parent, so that a crash or a hang has a name."""

    kind: Literal["started"] = "started"
    case: str
    inputs: str
    seed: int


class CheckDone(Value):
    """Child to parent: one check's numbers and what the run did."""

    kind: Literal["done"] = "done"
    check: Check
    report: RunReport = RunReport(mode="plain")
    """What the emulator saw; empty from a GPU, which shows nothing of a run but its results."""


Message = Annotated[CheckStarted | CheckDone, Field(discriminator="kind")]
MESSAGE: TypeAdapter[CheckStarted | CheckDone] = TypeAdapter(Message)


class EagerCase(Value):
    """What the eager reference dispatches at one declared case."""

    case: str
    operations: tuple[EagerOp, ...]


class TrialReport(Value):
    """Child to parent, last: the verdict on the run."""

    outcome: Outcome
    printed: Printed | None = None
    """What a run that had to be stopped had printed."""
    eager: tuple[EagerCase, ...] = ()
    seconds: tuple[tuple[str, float], ...] = ()


# ------------------------------------------------------------------------------------ plans


class PlanRequest(Value):
    """Parent to child: interpret a plan that calls the library, which only torch knows the results of."""

    source: str
    cases: tuple[tuple[Case, tuple[tuple[str, TensorMeta], ...]], ...]
    target: Target


class Planned(Value):
    """One case's plan, or why there is none."""

    case: Case
    plan: Plan | None = None
    covered: bool = True
    """False when a ``require`` turned the case away."""
    diagnostics: tuple[Diagnostic, ...] = ()
    path: Path = ()
    """Which way the plan's conditions went."""


class PlanAnswer(Value):
    """Child to parent: every case in the order asked."""

    planned: tuple[Planned, ...]
