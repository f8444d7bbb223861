"""The brain that remembers: answers every request as a recorded session did, by its place in the tree.

Owns the reading of a recording (its events, not its file) and the comparison of two trees. Asks no model and
writes no kernel. What the recording does not hold is said, not made up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from workbench.agents.base import (
    ReasonRequest,
    Recorder,
    ReflectRequest,
    RepairRequest,
    SynthesisRequest,
    Team,
    repair_role,
)
from workbench.errors import AgentError
from workbench.events import (
    AgentAnswered,
    AgentFailed,
    BranchAbandoned,
    BranchApproved,
    BranchProposed,
    BranchPruned,
    Event,
    HintGiven,
    KernelJudged,
    KernelProfiled,
    KernelWritten,
    LessonLearnt,
    RoundShaped,
    RoundsRequested,
    RoundStarted,
    SearchStopped,
    SessionOpened,
)
from workbench.exchange import Exchange
from workbench.model import BranchId, Digest, Draft, Evaluation, Hypothesis, Operator, Problem
from workbench.tree import Tree, fold

PERSON = "person"
Place = tuple[int, Operator, tuple[BranchId, ...]]
"""Round, operator and parents of a request to the reasoner."""


@dataclass(frozen=True)
class Act:
    """What a person did in or after a round; ``stopped`` when the search had stopped by then."""

    round: int
    stopped: bool
    event: Event


@dataclass
class Recording:
    """A session's journal, sorted by what was asked."""

    tree: Tree = field(default_factory=Tree)
    cards: dict[Place, list[Hypothesis]] = field(default_factory=dict)
    failed: dict[Place, str] = field(default_factory=dict)
    drafts: dict[BranchId, Draft] = field(default_factory=dict)
    abandoned: dict[BranchId, str] = field(default_factory=dict)
    evaluations: dict[Digest, Evaluation] = field(default_factory=dict)
    explanations: dict[Digest, str] = field(default_factory=dict)
    lessons: dict[BranchId, str] = field(default_factory=dict)
    person: list[Act] = field(default_factory=list)
    """What the person did, oldest first."""

    @classmethod
    def of(cls, events: Sequence[Event], tree: Tree | None = None) -> Recording:
        """``tree`` where the events are folded already, with what was said left on disk.

        Raises ``SessionError`` for events that are no session.
        """
        found = cls(tree=fold(events) if tree is None else tree)
        round, stopped, failure = 0, False, ""
        for event in events:
            if isinstance(event, RoundStarted):
                round = event.round
            if _is_persons(event):
                found.person.append(Act(round, stopped, event))
            if isinstance(event, SearchStopped | RoundsRequested):
                stopped = isinstance(event, SearchStopped)
            if isinstance(event, AgentFailed) and event.role == "reasoner":
                failure = event.message
            elif isinstance(event, AgentAnswered) and event.failed:
                found.failed[event.round, event.operator, event.parents] = failure
            found._note(event)
        return found

    @property
    def opened(self) -> SessionOpened:
        """First event."""
        assert self.tree.opened is not None  # the reader of the journal saw to it
        return self.tree.opened

    def _note(self, event: Event) -> None:
        match event:
            case BranchProposed(branch=branch) if branch.operator not in ("repair", "edit"):
                place = (branch.round, branch.operator, branch.parents)
                # As it was in the end: a person may have rewritten it before its kernel was written.
                card = self.tree.nodes[branch.id].branch.hypothesis
                self.cards.setdefault(place, []).append(card)
            case KernelWritten(branch=id, draft=draft):
                self.drafts[id] = draft
            case BranchAbandoned(branch=id, reason=reason, duplicate_of=None):
                self.abandoned[id] = reason
            case KernelJudged(branch=id, evaluation=evaluation, explanation=explanation):
                # By the digest of today: that of the recording may be another version's.
                self.evaluations[self.drafts[id].kernel.digest] = evaluation
                self.explanations[evaluation.kernel] = explanation
            case KernelProfiled(branch=id, profile=profile):
                # What was seen later is there at once: nobody looks closer in a replay.
                digest = self.drafts[id].kernel.digest
                self.evaluations[digest] = self.evaluations[digest].model_copy(update={"profile": profile})
            case LessonLearnt(branch=id, lesson=lesson):
                self.lessons[id] = lesson
            case AgentAnswered(round=round, operator=operator, parents=parents):
                self.cards.setdefault((round, operator, parents), [])
            case _:
                pass


def _is_persons(event: Event) -> bool:
    """True for what shapes the search and is nobody's answer; reading cards first shapes nothing."""
    match event:
        case BranchApproved() | BranchPruned() | HintGiven() | RoundsRequested() | RoundShaped():
            return True
        case SearchStopped(by=by):
            return by == PERSON
        case BranchProposed(branch=branch):
            return branch.operator == "edit"
        case KernelWritten(branch=id):
            return id.startswith("e")
        case _:
            return False


def replay_team(recording: Recording, source: str) -> Team:
    """All roles filled from a recording; ``source`` is where it lies, as the person wrote it."""
    roles = _Remembered(recording)
    return Team(
        name=f"replay:{source}",
        reasoner=roles,
        synthesizer=roles,
        compiler=roles,
        checker=roles,
        reflector=roles,
        author=recording.opened.brain,
        authors=_authors(recording.tree),
        connect=roles.connect,
    )


def _authors(tree: Tree) -> tuple[tuple[str, str], ...]:
    """Whose the recorded branches are, by the role that made them."""
    found: dict[str, str] = {}
    for node in tree.nodes.values():
        if node.operator == "repair":
            found.setdefault(repair_role(tree.nodes[node.branch.parents[0]].evaluation), node.branch.author)
        elif node.operator != "edit":
            found.setdefault("reasoner", node.branch.author)
    return tuple(found.items())


class _Remembered:
    """Every role. Posts the exchanges that led to an answer, so that the conversation can be read again."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._recorder: Recorder | None = None
        self._acts = list(recording.person)

    def connect(self, recorder: Recorder) -> None:
        self._recorder = recorder
        recorder.subscribe(self._act)

    def _act(self, tree: Tree) -> None:
        """Do what the person did, once a round has ended again: it shapes the rounds that follow."""
        assert self._recorder is not None  # connect subscribed
        while self._acts and self._due(self._acts[0], self._recorder.tree):
            event = self._acts.pop(0).event
            known = getattr(event, "branch", None)
            if known is None or isinstance(event, BranchProposed) or known in self._recorder.tree.nodes:
                self._recorder.post(event)

    def _due(self, act: Act, tree: Tree) -> bool:
        at_rest = not tree.round_open and tree.round >= act.round
        return at_rest and (tree.stopped is not None or not act.stopped)

    async def hypothesize(self, request: ReasonRequest) -> tuple[Hypothesis, ...]:
        """The cards of this request. Raises ``AgentError`` where the recording failed, or never asked."""
        parents = tuple(parent.branch.id for parent in request.parents)
        place = (request.round, request.operator, parents)
        self._tell([e for e in self._exchanges() if (e.round, e.operator, e.parents) == place])
        if place in self._recording.failed:
            raise AgentError(self._recording.failed[place])
        if place not in self._recording.cards:
            what = f"{request.operator} of {' and '.join(parents)}" if parents else request.operator
            await self._missing(request.round, f"round {request.round} had no {what}")
        return tuple(self._recording.cards[place])

    async def synthesize(self, request: SynthesisRequest) -> Draft:
        """The kernel of this branch. Raises ``AgentError`` where none was written."""
        draft = self._draft(request.branch, "the synthesizer failed: ")
        if draft is None:
            round = self._told.tree.round
            await self._missing(round, f"{request.branch} had no kernel")
            raise AssertionError("unreachable: a missing answer raises")
        return draft

    async def _missing(self, round: int, what: str) -> None:
        """Where the recording was cut off, stop as it did; elsewhere the replay has left it.

        Raises ``AgentError``, or is cancelled by the stop.
        """
        recorded, tree = self._recording.tree, self._told.tree
        beyond = round > recorded.round or (round == recorded.round and recorded.round_open)
        if beyond and tree.requested_until >= round > recorded.round:
            self._told.post(SearchStopped(reason=f"the recording ends after round {recorded.round}"))
        elif beyond and recorded.stopped is not None:
            self._told.post(recorded.stopped)
        else:
            raise AgentError(f"the replay leaves the recording here: {what}")
        await asyncio.Event().wait()

    @property
    def _told(self) -> Recorder:
        assert self._recorder is not None  # the team was connected
        return self._recorder

    async def repair(self, request: RepairRequest) -> Draft | None:
        """The repair of this branch; None where none was found."""
        return self._draft(request.branch, "the compiler failed: ")

    def _draft(self, branch: BranchId | None, failed: str) -> Draft | None:
        assert branch is not None  # the orchestrator names it
        self._tell([e for e in self._exchanges() if e.branch == branch and e.role != "reflection"])
        reason = self._recording.abandoned.get(branch, "")
        if reason.startswith(failed):
            raise AgentError(reason.removeprefix(failed))
        return self._recording.drafts.get(branch)

    def explain(self, problem: Problem, evaluation: Evaluation) -> str:
        """The recorded reading of the outcome; empty for a kernel that is not recorded."""
        return self._recording.explanations.get(evaluation.kernel, "")

    async def reflect(self, request: ReflectRequest) -> str:
        """The recorded lesson, or what the numbers alone say."""
        id = request.attempt.branch.id
        self._tell([e for e in self._exchanges() if e.branch == id and e.role == "reflection"])
        return self._recording.lessons.get(id, request.lesson)

    def _exchanges(self) -> Sequence[Exchange]:
        return tuple(self._recording.tree.exchanges.values())

    def _tell(self, exchanges: Sequence[Exchange]) -> None:
        new = [e for e in exchanges if e.id not in self._told.tree.exchanges]
        if new:
            self._told.post(*(e.event().model_copy(update={"cached": True}) for e in new))


def differences(recorded: Tree, grown: Tree) -> tuple[str, ...]:
    """Where a replay is not the recorded tree: a line a branch, the earliest first; empty when it is."""
    found: list[str] = []
    ids = [*recorded.nodes, *(id for id in grown.nodes if id not in recorded.nodes)]
    for id in ids:
        old, new = recorded.nodes.get(id), grown.nodes.get(id)
        if old is None or new is None:
            found.append(f"{id}: {'only in the replay' if old is None else 'missing in the replay'}")
            continue
        names = ("branch", "draft", "evaluation", "explanation", "abandoned", "duplicate_of", "lesson")
        differing = [name for name in names if not _same(getattr(old, name), getattr(new, name))]
        if differing:
            found.append(f"{id}: another {', '.join(differing)}")
    if not found and recorded.round != grown.round:
        found.append(
            f"round {min(recorded.round, grown.round) + 1}: the recording has {recorded.round} rounds"
        )
    return tuple(found)


def _same(old: object, new: object) -> bool:
    """Equal, NaN included: a wrong kernel's errors often are."""
    return old == new or repr(old) == repr(new)
