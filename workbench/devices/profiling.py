"""Profiles of kernels on one card: an estimate with every verdict, counters for kernels worth a closer look.

Owns what is known of the card's counters: once refused, they are not asked for again. Holds no CUDA.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from workbench.errors import WorkbenchError
from workbench.model import Case, Digest, Evaluation, Kernel, Problem, Profile, Target
from workbench.plan.parse import parse
from workbench.plan.steps import Plan
from workbench.profile import Known, ProfileRequest, Profilers, estimated
from workbench.profile.nsight import NoCounters
from workbench.profile.standby import Alone
from workbench.referee.planning import plan_cases

NOT_ASKED = "they are read for the parents of a round"
Look = Callable[[ProfileRequest, Alone], Profile]


class Profiling:
    """``alone`` gives the card to the profiler; ``index`` is the card's number among those visible."""

    def __init__(self, index: int, alone: Alone, look: Look | None = None) -> None:
        self._profilers = Profilers()
        self._index, self._alone, self._look = index, alone, look or self._profilers.look
        self._refused = ""
        self._known: dict[tuple[Digest, str], Profile] = {}
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Have a profiler ready for the first kernel worth a closer look."""
        if not self._refused:
            self._profilers.begin()

    def close(self) -> None:
        """End the profiler that waits; idempotent."""
        self._profilers.close()

    def with_estimate(
        self, problem: Problem, kernel: Kernel, evaluation: Evaluation, target: Target
    ) -> Evaluation:
        """The evaluation of a correct, timed kernel with an estimated profile; any other as it is."""
        profile = self._estimate(problem, kernel, evaluation, target)
        return evaluation.model_copy(update={"profile": profile}) if profile is not None else evaluation

    def closer(
        self, problem: Problem, kernel: Kernel, evaluation: Evaluation, target: Target
    ) -> Profile | None:
        """Counters of a correct kernel, remembered; an estimate that says why where there are none.

        Blocking, seconds. None where nothing can be said.
        """
        case = _case_of(problem, evaluation)
        if case is None:
            return None
        key = (kernel.digest, case.label)
        with self._lock:
            if key in self._known:
                return self._known[key]
            if not self._refused:
                try:
                    return self._known.setdefault(key, self._counters(problem, kernel, case, target))
                except NoCounters as error:
                    self._refused = str(error)
        return self._estimate(problem, kernel, evaluation, target)

    def _counters(self, problem: Problem, kernel: Kernel, case: Case, target: Target) -> Profile:
        request = ProfileRequest(
            problem=problem, source=kernel.source, case=case, target=target, device=self._index
        )
        return self._look(request, self._alone)

    def _estimate(
        self, problem: Problem, kernel: Kernel, evaluation: Evaluation, target: Target
    ) -> Profile | None:
        case = _case_of(problem, evaluation)
        plan = _plan_of(problem, kernel, case, target) if case is not None else None
        if case is None or plan is None:
            return None
        return estimated(Known(problem, case, plan, evaluation, target), self._refused or NOT_ASKED)


def _case_of(problem: Problem, evaluation: Evaluation) -> Case | None:
    """The most important case that was timed."""
    timed = {time.case for time in evaluation.times} if evaluation.passed else set()
    return next((case for case in problem.cases if case.label in timed), None)


def _plan_of(problem: Problem, kernel: Kernel, case: Case, target: Target) -> Plan | None:
    """None where planning fails: the verdict stands without a profile."""
    try:
        wanted = ((case, tuple(problem.metas(case).items())),)
        (planned,) = plan_cases(parse(kernel.source), wanted, target)
    except WorkbenchError:
        return None
    return planned.plan
