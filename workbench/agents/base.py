"""What each agent is asked and what it answers. The orchestrator is the fifth agent: see search.py.

All requests and answers are frozen values, so that a brain may be a rule base, a model behind an
endpoint, or a recording. An agent that has nothing to say answers with an empty tuple or None; one
that fails raises ``AgentError``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from workbench.model import (
    Branch,
    Draft,
    Evaluation,
    Hypothesis,
    Operator,
    Problem,
    Target,
    Value,
    Vector,
)


class Attempt(Value):
    """A branch with what became of it, as far as known."""

    branch: Branch
    draft: Draft | None = None
    evaluation: Evaluation | None = None


class ReasonRequest(Value):
    """Asks for up to ``count`` hypotheses on ``parents`` (none for seeds, two for a crossover)."""

    problem: Problem
    target: Target
    operator: Operator
    parents: tuple[Attempt, ...]
    count: int
    taken: tuple[Vector, ...] = ()
    """Technique vectors that already have a branch; proposing one again wastes the slot."""
    history: tuple[Attempt, ...] = ()
    """Latest attempts, oldest first."""
    hint: str = ""
    """The person's words for this round."""


class SynthesisRequest(Value):
    """Asks for the kernel of one hypothesis."""

    problem: Problem
    target: Target
    operator: Operator
    hypothesis: Hypothesis
    parents: tuple[Attempt, ...] = ()


class RepairRequest(Value):
    """Asks for a corrected kernel after a compile failure or a wrong result; ``chain`` is oldest first."""

    problem: Problem
    target: Target
    chain: tuple[Attempt, ...]


class Reasoner(Protocol):
    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        """Name the bottleneck and propose what to do about it."""
        ...


class Synthesizer(Protocol):
    async def synthesize(self, request: SynthesisRequest) -> Draft:
        """Write the whole ``.cu`` text with its plan."""
        ...


class Compiler(Protocol):
    async def repair(self, request: RepairRequest) -> Draft | None:
        """Correct the last attempt of the chain; None when it sees no way."""
        ...


class Checker(Protocol):
    def explain(self, problem: Problem, evaluation: Evaluation) -> str:
        """Say in one or two sentences what the outcome means and where to look."""
        ...


@dataclass(frozen=True)
class Team:
    """Who fills the roles; mixed teams are allowed."""

    name: str
    reasoner: Reasoner
    synthesizer: Synthesizer
    compiler: Compiler
    checker: Checker
