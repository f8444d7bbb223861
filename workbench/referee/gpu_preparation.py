"""What is asked of the process with the GPU before the first kernel of a problem is written.

The parent side: the request, which needs no kernel. Imports no torch.
"""

from __future__ import annotations

from pydantic import ValidationError

from workbench.model import Case, Problem
from workbench.plan.steps import Plan
from workbench.referee.clock.options import ClockOptions
from workbench.referee.gpu_protocol import PrepareReport, PrepareRequest
from workbench.referee.options import JudgeOptions
from workbench.referee.planning import situations
from workbench.referee.protocol import Trial
from workbench.workers import Result, Returned

WALL_S = 120.0
FIRST_CLOCK = ClockOptions(warmups=2, warmup_s=0.01, min_s=0.03, max_s=0.2, checks=3)
"""Of a first time, which is shown until the verdict is there."""
FIRST_BASELINES = ("eager",)
COMPILING = ("compile", "still being compiled")


def preparation(problem: Problem, options: JudgeOptions) -> PrepareRequest:
    """The checks a kernel that covers every case will meet."""
    trials = tuple(
        Trial(case=case, plan=Plan(arguments=arguments, steps=(), outputs=()))
        for case, arguments in situations(problem)
    )
    return PrepareRequest(problem=problem, trials=trials, options=options)


def first_case(problem: Problem, covered: frozenset[Case]) -> Case | None:
    """The case a first time is taken at: the most important one the kernel covers."""
    return next((case for case in problem.cases if case in covered), None)


def report_of(result: Result) -> PrepareReport | None:
    """What the process says came of it; None when it gave no answer that makes sense."""
    if not isinstance(result, Returned):
        return None
    try:
        return PrepareReport.model_validate_json(result.payload)
    except ValidationError:
        return None


def loss_of(result: Result) -> bool:
    """True when the process may not be used again."""
    report = report_of(result)
    return report is None or report.lost
