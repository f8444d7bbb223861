"""What must come of a cell at its first case, as the GPU's lane holds it, without a GPU."""

from __future__ import annotations

from workbench.plan.steps import Plan
from workbench.problem.capture import read_cell
from workbench.problem.intake import open_problem
from workbench.referee.gpu_expectation import Expectations, Prepared
from workbench.referee.matrix import PlannedCheck
from workbench.referee.protocol import Trial


def prepared(cell: str) -> tuple[Expectations, Prepared]:
    """On normal inputs of one seed."""
    problem = open_problem(read_cell(cell))
    first = problem.cases[0]
    plan = Plan(arguments=tuple(problem.metas(first).items()), steps=(), outputs=())
    expectations = Expectations(problem, "cpu")
    made = expectations.prepare(PlannedCheck(Trial(case=first, plan=plan), "normal", 5, "plain"))
    assert made is not None
    return expectations, made
