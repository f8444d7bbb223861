"""What can happen in a session. The journal is a list of these and nothing else.

Names are past tense. Every event carries who caused it where that may be a person.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, TypeAdapter

from workbench.model import (
    Branch,
    BranchId,
    CaseTime,
    Digest,
    Draft,
    Evaluation,
    Hypothesis,
    Operator,
    Problem,
    Profile,
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
    estimate: str = ""
    """What language models were expected to cost, in words; empty for a brain that costs nothing."""
    usual: tuple[tuple[Stage, float], ...] = ()
    """Seconds that each stage took in earlier sessions here; empty where there were none."""


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


class CaseTimed(Value):
    """A kernel that is still being judged was timed once, against what is ready. Nothing follows from it.

    Shown until the verdict comes, whose times are others: ``torch.compile`` may take long to compile.
    """

    kind: Literal["case_timed"] = "case_timed"
    branch: BranchId
    time: CaseTime


class KernelJudged(Value):
    kind: Literal["kernel_judged"] = "kernel_judged"
    branch: BranchId
    evaluation: Evaluation
    explanation: str = ""
    """The correctness agent's reading of the outcome, for people."""


class KernelProfiled(Value):
    """A device has looked closer at a kernel it judged before; replaces the evaluation's profile."""

    kind: Literal["kernel_profiled"] = "kernel_profiled"
    branch: BranchId
    profile: Profile


class BaselinesFollowed(Value):
    """Baselines that take long were timed after the verdict: the branch's times are held against them too."""

    kind: Literal["baselines_followed"] = "baselines_followed"
    branch: BranchId
    times: tuple[CaseTime, ...]
    """All times of the evaluation, in its order; they replace those it had."""


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
    """Free text for the next round's reasoner; taken back by ``undo=True`` with the same text."""

    kind: Literal["hint_given"] = "hint_given"
    text: str
    by: Author
    undo: bool = False


class RoundsRequested(Value):
    """The gate opens for this many more rounds, or closes again by ``undo=True`` for those not begun."""

    kind: Literal["rounds_requested"] = "rounds_requested"
    rounds: int
    branches: int = 0
    """So many more branches may be in the tree than were allowed before."""
    by: Author
    undo: bool = False


class RoundShaped(Value):
    """The person chose how the next round is filled; nothing chosen means what the policy says."""

    kind: Literal["round_shaped"] = "round_shaped"
    operators: tuple[Operator, ...] = ()
    """Only these of refine, rewrite and crossover."""
    width: int | None = None
    """Branches of the round."""
    by: Author


class CardReviewSet(Value):
    """From now on the cards of a round wait for the person before a kernel is written, or no longer."""

    kind: Literal["card_review_set"] = "card_review_set"
    on: bool
    by: Author


class CardRewritten(Value):
    """The person put another hypothesis on a branch whose kernel is not written yet."""

    kind: Literal["card_rewritten"] = "card_rewritten"
    branch: BranchId
    hypothesis: Hypothesis
    by: Author


class CardsReleased(Value):
    """The person has read the cards of this round: kernels may be written."""

    kind: Literal["cards_released"] = "cards_released"
    round: int
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


class AgentSpoke(Value):
    """A model is answering: how far it is. Shown while it lasts; nothing follows from it."""

    kind: Literal["agent_spoke"] = "agent_spoke"
    role: str
    branch: BranchId | None = None
    """None for the reasoner, whose branches do not exist yet."""
    characters: int
    """Length of the answer so far, thinking included."""
    tail: str
    """The end of it."""


class Said(Value):
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    text: str


class ModelAnswered(Value):
    """One exchange with a language model, also one that failed. Keys and home folders are redacted."""

    kind: Literal["model_answered"] = "model_answered"
    id: str
    """``b3/synthesizer/1``, or ``r2/refine/b1/reasoner/1`` for what belongs to a request of a round."""
    role: str
    """``reasoner``, ``synthesizer``, ``compiler``, ``correctness`` or ``reflection``."""
    model: str
    prompt: str
    """Name and version of the prompt's file."""
    branch: BranchId | None = None
    round: int = 0
    operator: Operator | None = None
    parents: tuple[BranchId, ...] = ()
    request: Digest
    """Of model, messages and settings: an identical request is answered from here."""
    messages: tuple[Said, ...]
    answer: str
    tokens_in: int = 0
    """Of all tries together."""
    tokens_out: int = 0
    counted: Literal["server", "estimate"] = "server"
    """``estimate`` where a server did not tell, as for a stream that broke off."""
    cost_usd: float | None = None
    """None when the model's price is unknown."""
    seconds: float = 0.0
    tries: tuple[str, ...] = ()
    """What went wrong before, a line a try."""
    failed: str = ""
    """Why there is no usable answer; empty when there is one."""
    cached: bool = False
    """True when nobody was asked: the answer to the same request was known. It cost nothing."""


Event = Annotated[
    SessionOpened
    | RoundStarted
    | BranchProposed
    | AgentAnswered
    | KernelWritten
    | BranchAbandoned
    | StageEntered
    | CaseTimed
    | KernelJudged
    | KernelProfiled
    | BaselinesFollowed
    | LessonLearnt
    | RoundEnded
    | BranchApproved
    | BranchPruned
    | HintGiven
    | RoundsRequested
    | RoundShaped
    | CardReviewSet
    | CardRewritten
    | CardsReleased
    | SearchStopped
    | AgentFailed
    | AgentSpoke
    | ModelAnswered,
    Field(discriminator="kind"),
]
# A wrong kernel's errors are often NaN: without this the adapter writes null and cannot read it back.
EVENT: TypeAdapter[Event] = TypeAdapter(Event, config=ConfigDict(ser_json_inf_nan="constants"))
