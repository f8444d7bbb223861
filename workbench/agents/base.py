"""What each agent is asked and what it answers. The orchestrator is the fifth agent: see search.py.

All requests and answers are frozen values, so that a brain may be a rule base, a model behind an
endpoint, or a recording. An agent that has nothing to say answers with an empty tuple or None; one
that fails raises ``AgentError``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from workbench.events import Event
from workbench.model import (
    Branch,
    BranchId,
    CompileFailed,
    Draft,
    Evaluation,
    Hypothesis,
    LaunchFailed,
    Operator,
    Problem,
    Target,
    Value,
    Vector,
)
from workbench.playbook.rules.experience import NOTHING, Experience, Memory
from workbench.policy import Policy
from workbench.tree import Tree


class Attempt(Value):
    """A branch with what became of it, as far as known."""

    branch: Branch
    draft: Draft | None = None
    evaluation: Evaluation | None = None
    lesson: str = ""
    """What was learnt from it, in a sentence."""


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
    round: int = 0
    conclusions: tuple[str, ...] = ()
    """What earlier sessions taught about problems like this one, a sentence each."""
    memory: Memory = NOTHING
    """The same for rules: vectors that were best, and what techniques brought."""
    found: tuple[Experience, ...] = ()
    """What single choices brought in this search so far, beside what was predicted of them."""


class SynthesisRequest(Value):
    """Asks for the kernel of one hypothesis."""

    problem: Problem
    target: Target
    operator: Operator
    hypothesis: Hypothesis
    parents: tuple[Attempt, ...] = ()
    branch: BranchId | None = None
    """The branch the kernel is for."""
    related: tuple[Attempt, ...] = ()
    """At most five correct kernels for similar problems or of this session, slow to fast."""


class RepairRequest(Value):
    """Asks for a corrected kernel after a compile failure or a wrong result; ``chain`` is oldest first."""

    problem: Problem
    target: Target
    chain: tuple[Attempt, ...]
    branch: BranchId | None = None
    """The branch the repair is for."""


class ReflectRequest(Value):
    """Asks what a judged branch teaches; ``lesson`` is what the numbers alone say."""

    problem: Problem
    attempt: Attempt
    parents: tuple[Attempt, ...] = ()
    expected_factor: float
    actual_factor: float | None
    lesson: str


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


class Reflector(Protocol):
    async def reflect(self, request: ReflectRequest) -> str:
        """The lesson in one sentence; the numbers beside it are not the reflector's."""
        ...


class Recorder(Protocol):
    """What agents that speak, and cost money, need of a session; a ``Session`` is one."""

    @property
    def tree(self) -> Tree: ...
    @property
    def policy(self) -> Policy: ...
    def post(self, *events: Event) -> None: ...
    def subscribe(self, listener: Callable[[Tree], None]) -> Callable[[], None]: ...


def _unheard(_: Recorder) -> None:
    """A team that says nothing but its answers."""


def _free(problem: Problem, target: Target, policy: Policy) -> str:
    """A team that costs nothing."""
    return ""


async def _nothing_open() -> None:
    """A team that holds no connections."""


@dataclass(frozen=True)
class Team:
    """Who fills the roles; mixed teams are allowed."""

    name: str
    reasoner: Reasoner
    synthesizer: Synthesizer
    compiler: Compiler
    checker: Checker
    reflector: Reflector | None = None
    """None: the numbers alone make the lesson."""
    author: str = ""
    """Author of the branches, where that is not the team's name."""
    authors: tuple[tuple[str, str], ...] = ()
    """By role, where the roles are filled differently: who has ideas (``reasoner``), and who mends
    (``compiler``, ``correctness``)."""
    connect: Callable[[Recorder], None] = _unheard
    """Called with the session before the first request."""
    estimate: Callable[[Problem, Target, Policy], str] = _free
    """What a search will cost, in a line or two for the person; empty when it costs nothing."""
    close: Callable[[], Awaitable[None]] = _nothing_open
    """Ends connections; idempotent."""

    def author_of(self, role: str) -> str:
        """Whose work a role's is, for the branch."""
        return dict(self.authors).get(role) or self.author or self.name


def repair_role(evaluation: Evaluation | None) -> str:
    """Who mends it: ``compiler`` what does not build or launch, ``correctness`` what is wrong."""
    builds = evaluation is None or not isinstance(evaluation.outcome, CompileFailed | LaunchFailed)
    return "correctness" if builds else "compiler"
