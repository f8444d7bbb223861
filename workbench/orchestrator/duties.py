"""How each command is carried out: one method a command, each ending in a recorded event.

Owns the questions to agents and devices and the recording of their answers. Never decides what comes
next. An agent that fails costs a branch, a device that fails stops the search; both are recorded here,
at the task's boundary.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Iterable

from workbench.agents.base import (
    Attempt,
    ReasonRequest,
    ReflectRequest,
    RepairRequest,
    SynthesisRequest,
    Team,
    repair_role,
)
from workbench.agents.reflection import reflect
from workbench.devices.base import Device, Early, Follower, Profiler, Sanitizer
from workbench.errors import SessionError, WorkbenchError
from workbench.events import (
    AgentAnswered,
    AgentFailed,
    BaselinesFollowed,
    BranchAbandoned,
    BranchProposed,
    CaseTimed,
    Event,
    KernelJudged,
    KernelProfiled,
    KernelWritten,
    LessonLearnt,
    RoundEnded,
    RoundStarted,
    SearchStopped,
    StageEntered,
)
from workbench.model import (
    Branch,
    BranchId,
    CaseTime,
    Digest,
    Draft,
    Evaluation,
    Hypothesis,
    Measured,
    Stage,
)
from workbench.playbook.rules.experience import Experience, experience_of
from workbench.search import (
    Abandon,
    EndRound,
    Evaluate,
    Propose,
    Reflect,
    Repair,
    StartRound,
    Stop,
    Synthesize,
    admit,
    budget_left,
    repair_id,
)
from workbench.session import Session
from workbench.tree import Node, Tree

Task = Propose | Synthesize | Evaluate | Repair | Reflect
"""Commands that take time."""
AtOnce = StartRound | Abandon | Reflect | EndRound | Stop
"""Commands that only record; looking back is a task where an agent does it."""

_HISTORY = 8
"""Attempts a reasoner is told of."""
_CHANGES = ("refine", "rewrite")
"""Operators whose cards are a parent with one choice made otherwise."""
_RELATED = 5
"""Correct kernels a synthesizer is shown beside the parents."""


class Duties:
    """Carries out commands with one team and one device."""

    def __init__(self, session: Session, team: Team, device: Device) -> None:
        self.session = session
        self.device = device
        self.over = False
        """True once the run has ended; a device's late word is then dropped."""
        self._team = team
        self._judging: dict[Digest, BranchId] = {}
        self._later: dict[Digest, dict[str, Measured]] = {}
        """How kernels are measured since their baselines came."""
        self._looks: dict[BranchId, asyncio.Future[None]] = {}
        self._sanitized: dict[BranchId, asyncio.Future[None]] = {}
        team.connect(session)
        if isinstance(device, Early):
            device.prepare(session.problem, self._timed)
        if isinstance(device, Follower):
            device.follow(self._followed)

    @property
    def looks_back(self) -> bool:
        """True when an agent puts the lessons into words, which takes time."""
        return self._team.reflector is not None and self.session.tree.stopped is None

    def at_once(self, command: AtOnce) -> None:
        """Record what needs no work."""
        self.session.post(self._record_of(command))

    def _record_of(self, command: AtOnce) -> Event:
        tree = self.session.tree
        match command:
            case StartRound(round=number):
                return RoundStarted(round=number)
            case Abandon(branch=branch, duplicate_of=twin):
                reason = f"the same kernel as {twin}"
                return BranchAbandoned(branch=branch, reason=reason, duplicate_of=twin)
            case Reflect(branch=branch):
                return reflect(tree, branch)
            case EndRound(round=number):
                best = tree.best()
                return RoundEnded(
                    round=number, best=best, score=tree.nodes[best].score if best is not None else 0.0
                )
            case Stop(reason=reason):
                return SearchStopped(reason=reason)

    def perform(self, command: Task) -> Coroutine[None, None, None]:
        """The work of a command; ends with its result recorded. Raises ``SessionError`` only."""
        match command:
            case Propose():
                return self._propose(command)
            case Synthesize(branch=branch):
                return self._synthesize(branch)
            case Evaluate(branch=branch):
                return self._evaluate(branch)
            case Repair(chain=chain):
                return self._repair(chain)
            case Reflect(branch=branch):
                return self._reflect(branch)

    async def _propose(self, ask: Propose) -> None:
        await self._look_closer(ask.parents)
        first, known = _numbering(self.session.tree)
        request = self._reason_request(ask, first)
        answer = AgentAnswered(
            round=ask.round, operator=ask.operator, parents=ask.parents, asked=ask.count, given=len(known)
        )
        try:
            cards = await self._team.reasoner.hypothesize(request)
            most = budget_left(self.session.tree, self.session.policy) + len(known)
            cards = admit(cards, request.taken, ask.count, most)
        except Exception as error:
            self.session.post(_failure("reasoner", error), answer.model_copy(update={"failed": True}))
            return
        # What a crash left of an earlier answer keeps its place.
        new = [self._branch(ask, first + i, card) for i, card in enumerate(cards) if i >= len(known)]
        answer = answer.model_copy(update={"given": len(known) + len(new)})
        self.session.post(*(BranchProposed(branch=branch) for branch in new), answer)

    async def _look_closer(self, parents: tuple[BranchId, ...]) -> None:
        """Have the device profile correct parents before anyone reasons about them, where it can.

        Those the round will ask about next are begun too; nobody waits for them yet.
        """
        for id in (*parents, *self.session.tree.frontier()[: self.session.policy.parents]):
            self._begin_look(id)
        for id in self.session.tree.frontier()[: self.session.policy.sanitize]:
            self._begin_sanitizing(id)
        if looks := [self._looks[id] for id in parents if id in self._looks]:
            await asyncio.wait(looks)  # whoever stops waiting does not end the look

    def _begin_look(self, id: BranchId) -> None:
        """Profile a correct kernel in the background, once."""
        node = self.session.tree.node(id)
        if isinstance(self.device, Profiler) and id not in self._looks and _looked_at_once(node):
            self._looks[id] = asyncio.ensure_future(self._look(node))

    async def _look(self, node: Node) -> None:
        assert isinstance(self.device, Profiler) and node.draft is not None and node.evaluation is not None
        try:
            found = await self.device.profile(self.session.problem, node.draft.kernel, node.evaluation)
        except Exception as error:
            if not self.over:
                self.session.post(_failure("profiler", error))
            return
        now = self.session.tree.node(node.id).evaluation
        if found is not None and now is not None and found != now.profile and not self.over:
            self.session.post(KernelProfiled(branch=node.id, profile=found))

    def _begin_sanitizing(self, id: BranchId) -> None:
        """Have a correct kernel looked at while nobody wants the device, once; no round waits for it."""
        node = self.session.tree.node(id)
        passed = node.evaluation is not None and node.evaluation.passed
        if isinstance(self.device, Sanitizer) and passed and id not in self._sanitized:
            self._sanitized[id] = asyncio.ensure_future(self._sanitize(node))

    async def _sanitize(self, node: Node) -> None:
        """What is found stands behind what the profile says of the kernel."""
        assert isinstance(self.device, Sanitizer) and node.draft is not None
        try:
            told = await self.device.sanitize(self.session.problem, node.draft.kernel)
        except Exception as error:
            if not self.over:
                self.session.post(_failure("compute-sanitizer", error))
            return
        if node.id in self._looks:
            await asyncio.wait([self._looks[node.id]])  # its profile would replace this one
        now = self.session.tree.node(node.id).evaluation
        if now is not None and now.profile is not None and not self.over:
            profile = now.profile.model_copy(update={"sentences": (*now.profile.sentences, told)})
            self.session.post(KernelProfiled(branch=node.id, profile=profile))

    async def let_go(self) -> None:
        """End what nobody waits for."""
        left = (*self._looks.values(), *self._sanitized.values())
        for look in left:
            look.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def _branch(self, ask: Propose, number: int, card: Hypothesis) -> Branch:
        return Branch(
            id=BranchId(f"b{number}"),
            parents=ask.parents,
            round=ask.round,
            operator=ask.operator,
            hypothesis=card,
            author=self._team.author_of("reasoner"),
        )

    def _reason_request(self, ask: Propose, first: int) -> ReasonRequest:
        tree = self.session.tree
        base = tree.base or tree
        origins = _origins(tree)[: first - 1]
        judged = [n for n in base.nodes.values() if n.evaluation is not None]
        judged.sort(key=lambda n: n.branch.round)
        return ReasonRequest(
            problem=self.session.problem,
            target=self.device.target,
            operator=ask.operator,
            parents=_attempts(tree, ask.parents),
            count=ask.count,
            taken=tuple(dict.fromkeys(n.vector for n in origins if n.vector)),
            history=_attempts(tree, tuple(n.id for n in judged[-_HISTORY:])),
            hint=tree.hint_for(ask.round),
            round=ask.round,
            found=_found(judged),
        )

    async def _synthesize(self, id: BranchId) -> None:
        tree = self.session.tree
        branch = tree.node(id).branch
        self._enter(id, "writing")
        request = SynthesisRequest(
            problem=self.session.problem,
            target=self.device.target,
            operator=branch.operator,
            hypothesis=branch.hypothesis,
            parents=_attempts(tree, branch.parents),
            branch=id,
            related=_attempts(tree, _related(tree, branch)),
        )
        await self._record_kernel(id, "synthesizer", lambda: self._team.synthesizer.synthesize(request))

    def place_repair(self, chain: tuple[BranchId, ...]) -> None:
        """Give the repair its place in the tree; after a crash it may have it already."""
        last = self.session.tree.node(chain[-1]).branch
        id = repair_id(chain)
        if id not in self.session.tree.nodes:
            author = self._team.author_of(repair_role(self.session.tree.node(last.id).evaluation))
            update = {"id": id, "parents": (last.id,), "operator": "repair", "author": author}
            self.session.post(BranchProposed(branch=last.model_copy(update=update)))

    async def _repair(self, chain: tuple[BranchId, ...]) -> None:
        id = repair_id(chain)
        self._enter(id, "writing")
        request = RepairRequest(
            problem=self.session.problem,
            target=self.device.target,
            chain=_attempts(self.session.tree, chain),
            branch=id,
        )
        await self._record_kernel(id, "compiler", lambda: self._team.compiler.repair(request))

    async def _record_kernel(
        self, id: BranchId, role: str, write: Callable[[], Awaitable[Draft | None]]
    ) -> None:
        try:
            draft = await write()
            written = KernelWritten(branch=id, draft=draft) if draft is not None else None
        except asyncio.CancelledError:
            # Stopped: nobody works on it any more, and a later run asks again.
            self._enter(id, "waiting")
            raise
        except Exception as error:
            reason = f"the {role} failed: {error}"
            self.session.post(_failure(role, error), BranchAbandoned(branch=id, reason=reason))
            return
        reason = f"the {role} found nothing to write"
        self.session.post(written or BranchAbandoned(branch=id, reason=reason))

    async def _evaluate(self, id: BranchId) -> None:
        draft = self.session.tree.node(id).draft
        assert draft is not None  # search asks for written kernels only
        device, problem = self.device, self.session.problem
        self._judging[draft.kernel.digest] = id
        try:
            evaluation = await device.evaluate(problem, draft.kernel, lambda stage: self._enter(id, stage))
            judged = KernelJudged(branch=id, evaluation=evaluation)
        except Exception as error:
            # Whatever a device raises, the machine failed: a bad kernel would have been an outcome.
            # Nobody works on it any more: whoever waits for the session to come to rest must see that.
            self.session.post(_failure("device", error), StageEntered(branch=id, stage="waiting"))
            self.stop(f"the device failed while judging {id}: {error}")
            return
        finally:
            self._judging.pop(draft.kernel.digest, None)
        self.session.post(*self._explained(judged))
        self._hold_again(draft.kernel.digest)
        tree = self.session.tree
        if tree.best() == id and tree.round < tree.rounds_allowed:
            self._begin_look(id)  # likely a parent of the next round: the look is over when it is asked for

    def _timed(self, kernel: Digest, time: CaseTime) -> None:
        """Show a first time of a kernel while it is judged; a device calls this on a thread of its own."""
        id = self._judging.get(kernel)
        if id is not None and not self.over:
            # As for a stage: only a view would miss it.
            with contextlib.suppress(SessionError):
                self.session.post(CaseTimed(branch=id, time=time))

    def _followed(self, kernel: Digest, measured: dict[str, Measured]) -> None:
        """Baselines came after a verdict; a device calls this on a thread of its own, while nobody waits."""
        self._later[kernel] = measured  # first: the verdict may be on its way to the journal
        self._hold_again(kernel)

    def _hold_again(self, kernel: Digest) -> None:
        """Record what a kernel that is judged is held against by now."""
        measured = self._later.get(kernel)
        if measured is None or self.over:
            return
        nodes = [n for n in self.session.tree.nodes.values() if n.draft and n.draft.kernel.digest == kernel]
        found = [(n.id, n.evaluation, _times_with(n.evaluation, measured)) for n in nodes if n.evaluation]
        events = [BaselinesFollowed(branch=id, times=times) for id, e, times in found if times != e.times]
        with contextlib.suppress(SessionError):  # closed meanwhile: they are remembered for the next session
            self.session.post(*events)

    async def _reflect(self, id: BranchId) -> None:
        """The numbers are the workbench's, the sentence is the agent's; without one, the numbers speak."""
        tree, reflector = self.session.tree, self._team.reflector
        lesson = reflect(tree, id)
        assert reflector is not None  # the loop asked
        request = ReflectRequest(
            problem=self.session.problem,
            attempt=_attempts(tree, (id,))[0],
            parents=_attempts(tree, tree.nodes[tree.chain(id)[0]].branch.parents),
            expected_factor=lesson.expected_factor,
            actual_factor=lesson.actual_factor,
            lesson=lesson.lesson,
        )
        events: tuple[AgentFailed | LessonLearnt, ...]
        try:
            events = (lesson.model_copy(update={"lesson": await reflector.reflect(request)}),)
        except Exception as error:
            events = (_failure("reflection", error), lesson)
        self.session.post(*events)

    def _explained(self, judged: KernelJudged) -> tuple[Event, ...]:
        try:
            text = self._team.checker.explain(self.session.problem, judged.evaluation)
        except Exception as error:
            return (_failure("checker", error), judged)
        return (judged.model_copy(update={"explanation": str(text)}),)

    def _enter(self, id: BranchId, stage: Stage) -> None:
        """Show where the work is; a device may call this from its own thread, and late."""
        if not self.over:
            # Only a view would miss it; the next result meets the same disk and is not suppressed.
            with contextlib.suppress(SessionError):
                self.session.post(StageEntered(branch=id, stage=stage))

    def stop(self, reason: str, by: str = "orchestrator") -> None:
        """Record that no more rounds are planned, unless that is recorded already."""
        if self.session.tree.stopped is None:
            self.session.post(SearchStopped(reason=reason, by=by))


def _failure(role: str, error: Exception) -> AgentFailed:
    name = "" if isinstance(error, WorkbenchError) else f"{type(error).__name__}: "
    return AgentFailed(role=role, message=f"{name}{error}")


def _origins(tree: Tree) -> list[Node]:
    """Branches that came from a hypothesis, in the order they were proposed."""
    return [n for n in tree.nodes.values() if n.operator not in ("edit", "repair")]


def _numbering(tree: Tree) -> tuple[int, list[Node]]:
    """Number of the next branch, and what a crash left of the request that is made now."""
    before = len(_origins(tree.base or tree)) + sum(answer.given for answer in tree.answered)
    return before + 1, _origins(tree)[before:]


def _looked_at_once(node: Node) -> bool:
    """True for a correct kernel whose profile, if it has one, was not read from counters."""
    evaluation = node.evaluation
    if evaluation is None or not evaluation.passed:
        return False
    return evaluation.profile is None or evaluation.profile.source != "counters"


def _attempts(tree: Tree, ids: tuple[BranchId, ...]) -> tuple[Attempt, ...]:
    nodes = [tree.node(id) for id in ids]
    return tuple(
        Attempt(
            branch=n.branch,
            draft=n.draft,
            evaluation=n.evaluation,
            lesson=n.lesson.lesson if n.lesson is not None else "",
        )
        for n in nodes
    )


def _found(judged: Iterable[Node]) -> tuple[Experience, ...]:
    """What changes of one technique brought, by choice, as their lessons have it."""
    found = []
    for node in judged:
        card, lesson = node.branch.hypothesis, node.lesson
        value = dict(card.vector).get(card.technique)
        if lesson is None or value is None or node.operator not in _CHANGES:
            continue
        if lesson.actual_factor and lesson.expected_factor > 0:
            found.append((card.technique, value, lesson.expected_factor, lesson.actual_factor))
    return experience_of(found)


def _related(tree: Tree, branch: Branch) -> tuple[BranchId, ...]:
    """Correct kernels of this session that are no parents, slow to fast; as the round found them."""
    found = [id for id in (tree.base or tree).ranked() if id not in branch.parents]
    return tuple(reversed(found[:_RELATED]))


def _times_with(evaluation: Evaluation, measured: dict[str, Measured]) -> tuple[CaseTime, ...]:
    """The evaluation's times, held against more baselines where ``measured`` has more of them."""
    return tuple(_time_with(time, measured.get(time.case)) for time in evaluation.times)


def _time_with(time: CaseTime, measured: Measured | None) -> CaseTime:
    if measured is None or len(measured.rivals) <= len(time.baselines):
        return time
    baselines = tuple((rival.name, rival.time_us) for rival in measured.rivals)
    return time.model_copy(update={"measured": measured, "baselines": baselines})
