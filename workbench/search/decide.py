"""What to do next: reads a tree, returns commands, touches nothing.

Owns the course of a round, dedup and stopping. Never reads a clock, a file or a random number: wall
time comes in as an argument.

``decide`` may be asked at any moment, also while commands are being carried out: a command stays in its
answer until the tree shows that it was done. That is also all there is to resuming.

Ids are given in an order that does not depend on which parallel work returns first: branches of a round
are numbered as asked (``b4``), repairs after the attempt they follow (``b4.1``), and a kernel is judged
only when every earlier branch of its round is written, so that of two equal kernels the later one goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workbench.model import BranchId, Operator, Suspect
from workbench.policy import Policy
from workbench.search.caps import used_up
from workbench.search.commands import (
    Abandon,
    AskPerson,
    Command,
    EndRound,
    Evaluate,
    Propose,
    Reflect,
    Repair,
    StartRound,
    Stop,
    Synthesize,
)
from workbench.search.plan import able_parents, budget_left, joining, plan_round
from workbench.tree import Node, Tree

_QUICK = "playbook"
"""Whose kernels are written within a second or two."""


def decide(tree: Tree, policy: Policy, elapsed_s: float = 0.0) -> tuple[Command, ...]:
    """All that should be under way now, most urgent first; ``elapsed_s`` is the search's wall time.

    Empty when the search is stopped and nothing of the person's is left to judge.
    """
    urgent = (*_reflections(tree), *_edits(tree), *_leftovers(tree))
    if tree.stopped is not None:
        return urgent
    if 0 < policy.seconds <= elapsed_s:
        return (*urgent, Stop(f"the time budget of {policy.seconds:g} s is used"))
    if (policy.tokens or policy.money_usd) and (reason := used_up(tree.spent, policy)):
        return (*urgent, *_paid_for(tree, reason))
    if tree.round_open:
        return (*urgent, *_round_work(tree, policy))
    return (*urgent, *_next_round(tree, policy))


# ------------------------------------------------------------------------------ at any time


def _reflections(tree: Tree) -> tuple[Command, ...]:
    """Judged hypotheses without a lesson; a person's edit predicts nothing."""
    return tuple(
        Reflect(n.id)
        for n in tree.nodes.values()
        if n.evaluation is not None and n.lesson is None and n.operator != "edit"
    )


def _edits(tree: Tree) -> tuple[Command, ...]:
    """A person's kernels are judged at once, even when the search is stopped."""
    edits = (n for n in tree.unsettled if n.operator == "edit")
    return tuple(_judge(tree, n) for n in edits if _open(tree, n) and n.draft is not None)


def _leftovers(tree: Tree) -> tuple[Command, ...]:
    """Branches of finished rounds that a person pruned before they were judged and then took back."""
    finished = tree.round - tree.round_open
    nodes = (n for n in tree.unsettled if n.operator != "edit" and n.branch.round <= finished)
    return _attempts(tree, nodes)


def _paid_for(tree: Tree, reason: str) -> tuple[Command, ...]:
    """Kernels that are written are still judged, which costs no money; then the search stops."""
    nodes = [node for node in tree.unsettled if node.operator != "edit" and _open(tree, node)]
    if judge := tuple(_judge(tree, node) for node in nodes if node.draft is not None):
        return judge
    return () if any(node.stage == "writing" for node in nodes) else (Stop(reason),)


def _open(tree: Tree, node: Node) -> bool:
    """Work is left on it. A pruned branch is left as it is."""
    return not node.settled and not tree.is_pruned(node.id)


def _judge(tree: Tree, node: Node) -> Command:
    twin = _twin(tree, node)
    return Evaluate(node.id) if twin is None else Abandon(node.id, twin)


def _twin(tree: Tree, node: Node) -> BranchId | None:
    """A branch with the very same kernel that is judged already or has the earlier place."""
    if node.draft is None:
        return None
    for other in tree.holding(node.draft.kernel.source):
        if other.id == node.id:
            continue
        judged = other.evaluation is not None
        if judged or (_open(tree, other) and _place(tree, other) < _place(tree, node)):
            return other.id
    return None


def _place(tree: Tree, node: Node) -> tuple[bool, int, int, int]:
    """Order in which branches are judged; edits come last, since nothing waits for them."""
    position = list(tree.nodes).index(node.id)
    return (node.operator == "edit", node.branch.round, len(tree.chain(node.id)), position)


# ------------------------------------------------------------------------------ within a round


def _round_work(tree: Tree, policy: Policy) -> tuple[Command, ...]:
    """Requests and first attempts; when all are settled, first repairs; and so on; then the end."""
    requests = _requests(tree, policy)
    if tree.holds_cards and (cards := tree.unwritten()):
        known = f"{len(cards)} cards of round {tree.round} wait to be read"
        return requests or (AskPerson(known),)
    if commands := (*requests, *_attempts(tree, _members(tree, 1))):
        return commands
    left = budget_left(tree, policy)
    for depth in range(1, policy.repairs + 1):
        if commands := _attempts(tree, _repairs(tree, _members(tree, depth), left)):
            return commands
    return _joined(tree, policy) or (EndRound(tree.round),)


def _joined(tree: Tree, policy: Policy) -> tuple[Command, ...]:
    """The last request of a round, made once: take every shape's fastest kernel."""
    assert tree.base is not None
    planned = {(ask.operator, ask.parents) for ask in _planned(tree.base, policy)}
    extra = [a for a in tree.answered if a.operator == "crossover" and (a.operator, a.parents) not in planned]
    ask = None if extra or _gave_up(tree) else joining(tree, policy)
    return () if ask is None else (ask,)


def _gave_up(tree: Tree) -> bool:
    return any(answer.failed for answer in tree.answered)


def _members(tree: Tree, depth: int) -> list[Node]:
    """The round's branches that are the ``depth``-th attempt at their hypothesis."""
    return [
        n
        for n in tree.nodes.values()
        if n.branch.round == tree.round and n.operator != "edit" and len(tree.chain(n.id)) == depth
    ]


def _requests(tree: Tree, policy: Policy) -> tuple[Command, ...]:
    """What the reasoner has still to be asked in this round."""
    assert tree.base is not None  # a round that is open has started
    planned = _planned(tree.base, policy)
    if rest := planned[len(tree.answered) :]:
        return rest
    missing = sum(ask.count for ask in planned) - sum(answer.given for answer in tree.answered)
    if missing <= 0 or _gave_up(tree):
        return ()
    return _makeup(tree, policy, missing)


_LATEST: tuple[Tree, Policy, tuple[Propose, ...]] | None = None
"""The plan made last: a round's plan is asked for hundreds of times, and follows from its base alone."""


def _planned(base: Tree, policy: Policy) -> tuple[Propose, ...]:
    """``plan_round``, made once a round."""
    global _LATEST
    latest = _LATEST
    if latest is not None and latest[0] is base and latest[1] == policy:
        return latest[2]
    plan = plan_round(base, policy)
    _LATEST = (base, policy, plan)
    return plan


def _makeup(tree: Tree, policy: Policy, missing: int) -> tuple[Command, ...]:
    """One more request where the reasoner had less to say than it was asked for."""
    assert tree.base is not None
    asked = {(answer.operator, answer.parents) for answer in tree.answered}
    operators: tuple[Operator, ...] = ("refine", "rewrite")
    for parent in able_parents(tree.base, policy):
        for operator in operators:
            if (operator, (parent,)) not in asked:
                return (Propose(tree.round, operator, (parent,), missing),)
    return ()


def _attempts(tree: Tree, places: Iterable[Node | Repair]) -> tuple[Command, ...]:
    """Write what is unwritten; judge a kernel once every place before it is written.

    Of kernels that can be judged those come first of which most is expected: what is there to be compared
    with may take a device as long as all others. It waits for those that are written in no time.
    """
    commands: list[Command] = []
    written: list[Node] = []
    soon = 0.0
    unwritten = False
    for place in places:
        if isinstance(place, Repair):
            commands.append(place)
            unwritten = True
        elif _open(tree, place) and place.draft is None:
            commands.append(_write(tree, place))
            soon = max(soon, _expected(place)) if place.branch.author == _QUICK else soon
            unwritten = True
        elif _open(tree, place) and not unwritten:
            written.append(place)
    ready = [node for node in written if _expected(node) >= soon]
    return (*(_judge(tree, node) for node in sorted(ready, key=_expected, reverse=True)), *commands)


def _expected(node: Node) -> float:
    """The factor that a branch's hypothesis promises."""
    return node.branch.hypothesis.predicted_factor


def _write(tree: Tree, node: Node) -> Command:
    return Repair(tree.chain(node.id)[:-1]) if node.operator == "repair" else Synthesize(node.id)


def _repairs(tree: Tree, failed: list[Node], left: int) -> Iterator[Node | Repair]:
    """The repairs that follow these attempts: those there are, and new ones as far as the budget goes."""
    for node in failed:
        repair = tree.repair_of(node.id)
        if repair is not None:
            yield tree.nodes[repair]
        elif repairable(tree, node) and left > 0:
            yield Repair(tree.chain(node.id))
            left -= 1


def repairable(tree: Tree, node: Node) -> bool:
    """True for a kernel that does not compile, run or agree; a suspect one is left alone."""
    if node.evaluation is None or node.passed or isinstance(node.evaluation.outcome, Suspect):
        return False
    return node.operator != "edit" and not tree.is_pruned(node.id)


def repair_id(chain: tuple[BranchId, ...]) -> BranchId:
    """Id of the repair that follows a chain of attempts: ``b4.2`` after ``b4``, ``b4.1``."""
    return BranchId(f"{chain[0]}.{len(chain)}")


# ------------------------------------------------------------------------------ between rounds


def _next_round(tree: Tree, policy: Policy) -> tuple[Command, ...]:
    reason = _reason_to_stop(tree, policy) if tree.round >= tree.requested_until else ""
    done = tree.round >= tree.rounds_allowed
    if tree.round == 0 and done:
        return (Stop("no round was asked for; your own kernels are judged"),)
    if policy.review == "manual" and done:
        return (AskPerson(reason or f"round {tree.round} is done"),)
    if budget_left(tree, policy) <= 0:
        budget = policy.branches + tree.more_branches
        reason = f"the budget of {budget} {'branch' if budget == 1 else 'branches'} is used"
    if reason or done:
        rounds = "round is" if tree.round == 1 else "rounds are"
        return (Stop(reason or f"{tree.round} {rounds} done"),)
    return (StartRound(tree.round + 1), *plan_round(tree, policy))


def _reason_to_stop(tree: Tree, policy: Policy) -> str:
    """Why going on makes no sense; empty when it does."""
    if tree.round == 0:
        return ""
    if _at_roofline(tree, policy):
        return f"{tree.best()} reaches {policy.stop_at_roofline:.0%} of the roofline in every declared case"
    if _stagnant(tree, policy) >= policy.stagnant_rounds:
        return f"no better kernel in {policy.stagnant_rounds} rounds"
    if tree.answered and not _members(tree, 1):
        failed = any(answer.failed for answer in tree.answered)
        return "the reasoner failed" if failed else "the reasoner has nothing more to propose"
    return ""


def _at_roofline(tree: Tree, policy: Policy) -> bool:
    best = tree.best()
    evaluation = tree.nodes[best].evaluation if best is not None else None
    if evaluation is None or not evaluation.times:
        return False
    declared = len(tree.opened.problem.cases) if tree.opened is not None else 1
    reached = all(time.roofline_share >= policy.stop_at_roofline for time in evaluation.times)
    return reached and len(evaluation.times) >= declared


def _stagnant(tree: Tree, policy: Policy) -> int:
    """Finished rounds since the last one that brought a better kernel."""
    record, rounds = 0.0, 0
    for end in tree.ended:
        if end.score > record * (1 + policy.improvement):
            record, rounds = end.score, 0
        else:
            rounds += 1
    return rounds
