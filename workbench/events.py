"""What can happen in a session. The journal is a list of these and nothing else.

Names are past tense. Every event carries who caused it where that may be a person.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from workbench.model import (
    Branch,
    BranchId,
    Draft,
    Evaluation,
    Operator,
    Problem,
    Stage,
    Target,
    Value,
)
from workbench.policy import Policy

Author = str
"""``person``, ``playbook``, ``scripted``, or a model's name."""


class SessionOpened(Value):
    """First line of every journal."""

    kind: Literal["session_opened"] = "session_opened"
    version: str
    """Version of the workbench that wrote it."""
    problem: Problem
    policy: Policy
    target: Target
    device: str
    brain: str


class RoundStarted(Value):
    kind: Literal["round_started"] = "round_started"
    round: int


class BranchProposed(Value):
    """A hypothesis got a place in the tree; its kernel does not exist yet."""

    kind: Literal["branch_proposed"] = "branch_proposed"
    branch: Branch


class AgentAnswered(Value):
    """The reasoner has said all it will on one request; the branches it led to are proposed already.

    Without it a resumed session could not tell a short answer from a lost one.
    """

    kind: Literal["agent_answered"] = "agent_answered"
    round: int
    operator: Operator
    parents: tuple[BranchId, ...] = ()
    asked: int
    given: int
    """Branches that came of it: hypotheses less those whose technique vector was taken."""
    failed: bool = False
    """True when the agent raised; an ``AgentFailed`` before it says why."""


class KernelWritten(Value):
    kind: Literal["kernel_written"] = "kernel_written"
    branch: BranchId
    draft: Draft


class BranchAbandoned(Value):
    """No kernel came, or it was the same as another branch's."""

    kind: Literal["branch_abandoned"] = "branch_abandoned"
    branch: BranchId
    reason: str
    duplicate_of: BranchId | None = None


class StageEntered(Value):
    kind: Literal["stage_entered"] = "stage_entered"
    branch: BranchId
    stage: Stage


class KernelJudged(Value):
    kind: Literal["kernel_judged"] = "kernel_judged"
    branch: BranchId
    evaluation: Evaluation
    explanation: str = ""
    """The correctness agent's reading of the outcome, for people."""


class LessonLearnt(Value):
    """Reflection: predicted against found, and what to keep of it."""

    kind: Literal["lesson_learnt"] = "lesson_learnt"
    branch: BranchId
    expected_factor: float
    actual_factor: float | None
    lesson: str


class RoundEnded(Value):
    kind: Literal["round_ended"] = "round_ended"
    round: int
    best: BranchId | None
    score: float


class BranchApproved(Value):
    """The person wants this branch to be a parent of the next round; undone by ``undo=True``."""

    kind: Literal["branch_approved"] = "branch_approved"
    branch: BranchId
    by: Author
    undo: bool = False


class BranchPruned(Value):
    """This branch and all below it get no more children; undone by ``undo=True``."""

    kind: Literal["branch_pruned"] = "branch_pruned"
    branch: BranchId
    by: Author
    reason: str = ""
    undo: bool = False


class HintGiven(Value):
    """Free text for the next round's reasoner."""

    kind: Literal["hint_given"] = "hint_given"
    text: str
    by: Author


class RoundsRequested(Value):
    """The gate opens for this many more rounds."""

    kind: Literal["rounds_requested"] = "rounds_requested"
    rounds: int
    by: Author


class SearchStopped(Value):
    """No more rounds are planned; a later ``RoundsRequested`` goes on."""

    kind: Literal["search_stopped"] = "search_stopped"
    reason: str
    by: Author = "orchestrator"


class AgentFailed(Value):
    """A brain or the machine failed outside any kernel; the search goes on or stops with this reason."""

    kind: Literal["agent_failed"] = "agent_failed"
    role: str
    message: str


Event = Annotated[
    SessionOpened
    | RoundStarted
    | BranchProposed
    | AgentAnswered
    | KernelWritten
    | BranchAbandoned
    | StageEntered
    | KernelJudged
    | LessonLearnt
    | RoundEnded
    | BranchApproved
    | BranchPruned
    | HintGiven
    | RoundsRequested
    | SearchStopped
    | AgentFailed,
    Field(discriminator="kind"),
]
# A wrong kernel's errors are often NaN: without this the adapter writes null and cannot read it back.
EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(ser_json_inf_nan="constants"))
