"""The plan of a round: which parents, which operators, how many hypotheses.

Made from the tree as the round found it (``tree.base`` later on), so that it comes out the same
whenever it is made again; a person's word that comes later takes effect in the next round. Never
random: ``policy.seed`` only shuffles operators over parents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from random import Random

from workbench.model import BranchId, Hypothesis, Operator, Vector
from workbench.policy import Policy
from workbench.search.commands import Propose
from workbench.search.shapes import shares, source_of, times_of
from workbench.tree import Node, Tree


def plan_round(tree: Tree, policy: Policy) -> tuple[Propose, ...]:
    """Requests of the round that follows this tree.

    A kernel recalled from the archive, and what came of it, are a line beside the search: it is asked about
    on top of what would be asked without it, so that a past that misleads costs kernels, not the result.
    """
    number, left = tree.round + 1, budget_left(tree, policy)
    width = tree.shape.width if tree.shape is not None else None
    parents, recalled = _parents(tree, policy)
    if not parents:
        return (Propose(number, "seed", (), min(width or policy.seeds, left)),)
    slots = min(width or policy.hypotheses * max(policy.parents, len(parents)), left)
    beside = recalled_line(tree)
    own = [node for node in tree.nodes.values() if node.id not in beside or not beside.isdisjoint(parents)]
    asks = _asks(tree, policy, parents, slots, own)
    if recalled is not None and width is None:
        rounds = max(tree.rounds_allowed - tree.round, 1)
        more = min(policy.hypotheses, max(left - rounds * slots, 0))
        asks += _asks(tree, policy, [recalled], more, [tree.nodes[id] for id in beside])
    return tuple(Propose(number, operator, ids, count) for (operator, ids), count in asks.items())


def _asks(
    tree: Tree, policy: Policy, parents: list[BranchId], slots: int, line: Sequence[Node]
) -> Counter[tuple[Operator, tuple[BranchId, ...]]]:
    """An operator for every place, each with the parent it is for; a crossover takes a pair of the line."""
    width = tree.shape.width if tree.shape is not None else None
    # Where there are fewer parents than places, the best take the places that are left.
    share = policy.hypotheses if width is None else max(1, width // len(parents))
    pairs = list(islice(_crossable(tree, parents, line), slots))
    operators = _operators(tree, policy, slots, len(pairs), line)
    asks: Counter[tuple[Operator, tuple[BranchId, ...]]] = Counter()
    for slot, operator in enumerate(operators):
        parent = parents[slot // share % len(parents)]
        asks[operator, pairs.pop(0) if operator == "crossover" else (parent,)] += 1
    return asks


def recalled_line(tree: Tree) -> frozenset[BranchId]:
    """What the archive's kernels have led to, without kernels that this search came to by itself too."""
    line = _below_recalled(tree, frozenset())
    found_too = (n.duplicate_of for n in tree.nodes.values() if n.duplicate_of and n.id not in line)
    return _below_recalled(tree, frozenset(found_too)) if line else line


def _below_recalled(tree: Tree, found_too: frozenset[BranchId]) -> frozenset[BranchId]:
    line: set[BranchId] = set()
    for node in tree.nodes.values():
        if node.id not in found_too and (node.branch.hypothesis.recalled or line & {*node.branch.parents}):
            line.add(node.id)
    return frozenset(line)


def _parents(tree: Tree, policy: Policy) -> tuple[list[BranchId], BranchId | None]:
    """What the person approved, then the best of the last two rounds, or of all when those have none.

    Second, the best of the recalled line where it would be among those.
    """
    approved = [n.id for n in tree.nodes.values() if n.approved and n.evaluation is not None]
    approved = [id for id in approved if not tree.is_pruned(id)]
    able = [id for id in able_parents(tree, policy) if id not in approved]
    recent = [id for id in able if tree.nodes[id].branch.round >= tree.round - 1]
    room, beside = max(policy.parents - len(approved), 0), recalled_line(tree)
    own = [id for id in recent if id not in beside] or [id for id in able if id not in beside]
    best = [id for id in recent or able if id in beside or id in own][:room]
    if not own:
        return approved + best, None
    recalled = next((id for id in best if id in beside), None)
    return approved + own[:room], recalled


def able_parents(tree: Tree, policy: Policy) -> list[BranchId]:
    """Correct branches that may have more children, best first."""
    return [id for id in tree.frontier() if failing_children(tree, id) < policy.prune_after_failures]


def failing_children(tree: Tree, id: BranchId) -> int:
    """Children of which neither the first kernel nor any repair passed."""
    return sum(_failed(tree, tree.nodes[child]) for child in tree.children(id))


def _failed(tree: Tree, node: Node) -> bool:
    if node.operator in ("edit", "repair") or node.evaluation is None:
        return False
    attempt: BranchId | None = node.id
    while attempt is not None and not tree.nodes[attempt].passed:
        attempt = tree.repair_of(attempt)
    return attempt is None


def _operators(
    tree: Tree, policy: Policy, slots: int, crossings: int, line: Sequence[Node]
) -> list[Operator]:
    """An operator a place: always the one furthest behind its share, then shuffled over the parents.

    Counting what was proposed so far keeps the shares over rounds, so that even a tenth comes up
    early; of equals the rarer goes first.
    """
    shares: dict[Operator, float] = {
        "crossover": policy.crossover,
        "rewrite": policy.rewrite,
        "refine": policy.refine,
    }
    if chosen_by_person := tree.shape.operators if tree.shape is not None else ():
        # Only what was chosen; something chosen that the policy leaves out counts like the others.
        shares = {op: (share or 1.0) if op in chosen_by_person else 0.0 for op, share in shares.items()}
    total = sum(shares.values()) or 1.0
    counts = Counter(n.operator for n in line if n.operator in shares)
    chosen: list[Operator] = []
    for _ in range(slots):
        able = [op for op in shares if op != "crossover" or chosen.count("crossover") < crossings]
        able = [op for op in able if shares[op] > 0] or ["refine"]
        size = sum(counts.values()) + 1
        # Rounded, so that equal shortfalls are equal in floating point too.
        operator = max(able, key=lambda op: round(shares[op] / total * size - counts[op], 9))
        chosen.append(operator)
        counts[operator] += 1
    Random(f"{policy.seed}/{tree.round}").shuffle(chosen)
    return chosen


def _crossable(
    tree: Tree, parents: list[BranchId], line: Sequence[Node]
) -> Iterator[tuple[BranchId, BranchId]]:
    """Pairs of correct kernels with different technique vectors, not crossed before, best first."""
    correct = [id for id in parents if tree.nodes[id].passed]
    inside = {node.id for node in line}
    correct += [id for id in tree.frontier() if id not in correct and id in inside]
    crossed = {frozenset(n.branch.parents) for n in tree.nodes.values() if n.operator == "crossover"}
    for first, second in combinations(correct, 2):
        if tree.nodes[first].vector != tree.nodes[second].vector and {first, second} not in crossed:
            yield first, second


def joining(tree: Tree, policy: Policy) -> Propose | None:
    """Asks, at the end of a round, for one kernel of those that were fastest at different shapes.

    None where one kernel is about as good everywhere, or where the person chose how the round is filled.
    """
    assert tree.base is not None  # a round that is open has started
    shape = tree.base.shape
    chosen = shape is not None and (shape.width or "crossover" not in (shape.operators or ("crossover",)))
    if policy.by_shape <= 0 or chosen or budget_left(tree, policy) <= 0:
        return None
    able = [tree.nodes[id] for id in tree.frontier()]
    source = source_of(able[0].evaluation) if able else ""
    able = [node for node in able if source_of(node.evaluation) == source]
    found = shares([times_of(node.evaluation) for node in able])
    if found is None or len(found.kernels) < 2 or found.gain < 1 + policy.by_shape:
        return None
    parents = tuple(able[place].id for place in found.kernels)
    joined = {frozenset(n.branch.parents) for n in tree.nodes.values() if n.operator == "crossover"}
    return None if frozenset(parents) in joined else Propose(tree.round, "crossover", parents, 1)


def budget_left(tree: Tree, policy: Policy) -> int:
    """Branches that may still be proposed; edits and abandoned branches cost nothing."""
    used = sum(n.operator != "edit" and not n.abandoned for n in tree.nodes.values())
    return max(policy.branches + tree.more_branches - used, 0)


def admit(
    cards: tuple[Hypothesis, ...], taken: tuple[Vector, ...], count: int, most: int
) -> tuple[Hypothesis, ...]:
    """The first ``count`` hypotheses whose technique vector has no branch yet; an empty vector is free.

    Recalled ones come on top while all together are at most ``most``; beyond it they take the places of
    the last of the others, but for one.
    """
    seen = set(taken)
    fresh: list[Hypothesis] = []
    for card in cards:
        if not card.vector or card.vector not in seen:
            seen.add(card.vector)
            fresh.append(card)
    own = sum(not card.recalled for card in fresh)
    recalled = min(len(fresh) - own, most - min(own, count, 1))
    room = {True: recalled, False: min(count, most - recalled)}
    admitted: list[Hypothesis] = []
    for card in fresh:
        if room[card.recalled] > 0:
            room[card.recalled] -= 1
            admitted.append(card)
    return tuple(admitted)
