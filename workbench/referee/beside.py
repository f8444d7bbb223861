"""The emulator beside a GPU: races, stray accesses and unwritten memory, which a GPU does not tell of.

Owns the second look at a kernel that is judged on a card: small sizes, every access looked at, with the
source line. Only what a GPU cannot show is taken from it; numbers and times are the card's. Imports no torch.
"""

from __future__ import annotations

import os
import shutil
import threading

from workbench.errors import DeviceError
from workbench.model import (
    Case,
    CompileFailed,
    Counts,
    Crashed,
    Hazard,
    LaunchFailed,
    Outcome,
    Passed,
    Printed,
    Suspect,
    TimedOut,
)
from workbench.plan.steps import Plan
from workbench.referee.judge import Judgement
from workbench.referee.probing import EMULATED

WAIT_S = 30.0
"""Longest wait for the emulator once the card has said all it can."""
MOST_ELEMENTS = 2**18
_TURNS = threading.Semaphore(max(1, (os.cpu_count() or 1) // 4))
"""A trial on the emulator uses several cores."""


def available() -> bool:
    """The emulator compiles with g++."""
    return shutil.which("g++") is not None


def is_small(case: Case, plan: Plan) -> bool:
    """True for a proof case the emulator runs in moments."""
    return case.origin == "proof" and sum(meta.numel for _, meta in plan.arguments) <= MOST_ELEMENTS


class Beside:
    """One kernel on the emulator, in the background; starts at once, ``found`` waits for it."""

    def __init__(self, judgement: Judgement) -> None:
        """Takes the plans of a judgement that is under way."""
        self._own = Judgement(
            judgement.problem, judgement.kernel, judgement.target, judgement.options, lambda stage: None
        )
        small = {case: plan for case, plan in judgement.plans.items() if is_small(case, plan)}
        self._own.probes = [case for case in judgement.probes if case in small][: EMULATED.most]
        left = set(judgement.probes) - set(self._own.probes)
        self._own.plans = {case: plan for case, plan in small.items() if case not in left}
        self._own.compiled = judgement.compiled
        self._outcome: Outcome | None = None
        self._failed = ""
        if not self._own.plans:
            self._outcome = Suspect(message="no size is small enough for the emulator")
        self._thread = threading.Thread(target=self._run, name="emulator beside", daemon=True)
        self._thread.start()

    def hazard(self, wait_s: float = WAIT_S) -> Hazard | None:
        """Undefined behaviour it saw; None when it saw none, could not run the kernel or takes too long."""
        self._thread.join(wait_s)
        return self._outcome if isinstance(self._outcome, Hazard) else None

    @property
    def unseen(self) -> str:
        """Why the emulator says nothing of hazards, or not of all sizes; empty where it looked."""
        match self._outcome:
            case None:
                return self._failed or "the emulator did not finish in time"
            case Suspect(message=message):
                return message
            case CompileFailed(diagnostics=told):
                return f"the emulator's compiler refuses it: {told[0].message}"
            case LaunchFailed(case=label, diagnostics=told):
                return f"the emulator does not start it at {label}: {told[0].message}"
            case TimedOut(case=label, message=message) | Crashed(case=label, message=message):
                return f"the emulator came no further than {label}: {message}"
            case _:
                return ""

    @property
    def counts(self) -> tuple[Counts, ...]:
        """Memory requests by source line, of a run that found nothing wrong."""
        return self._own._counts() if isinstance(self._outcome, Passed) else ()

    @property
    def printed(self) -> Printed | None:
        """What the kernel printed there, as far as it has run: a GPU's is not caught."""
        return self._own.told_by_printf(isinstance(self._outcome, Passed))

    def _run(self) -> None:
        if self._outcome is not None:
            return
        with _TURNS:
            try:
                self._outcome = self._own._ran()
            except DeviceError as error:
                self._failed = str(error)


def with_cause(hazard: Hazard, seen: Outcome) -> Hazard:
    """Undefined behaviour with its line, and what the card made of it."""
    if isinstance(seen, Passed):
        return hazard.model_copy(
            update={"message": f"{hazard.message}; the GPU's numbers were right by luck"}
        )
    message = getattr(seen, "message", "") or seen.kind
    return hazard.model_copy(update={"message": f"{hazard.message}; on the GPU: {message}"})
