"""The plan of a round: which parents, which operators, how many hypotheses.

Made from the tree as the round found it (``tree.base`` later on), so that it comes out the same
whenever it is made again; a person's word that comes later takes effect in the next round. Never
random: ``policy.seed`` only shuffles operators over parents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import combinations, islice
from random import Random

from workbench.model import BranchId, Hypothesis, Operator, Vector
from workbench.policy import Policy
from workbench.search.commands import Propose
from workbench.search.shapes import shares, source_of, times_of
from workbench.tree import Node, Tree


def plan_round(tree: Tree, policy: Policy) -> tuple[Propose, ...]:
    """Requests of the round that follows this tree."""
    number, left = tree.round + 1, budget_left(tree, policy)
    width = tree.shape.width if tree.shape is not None else None
    parents = _parents(tree, policy)
    if not parents:
        return (Propose(number, "seed", (), min(width or policy.seeds, left)),)
    slots = min(width or policy.hypotheses * max(policy.parents, len(parents)), left)
    pairs = list(islice(_crossable(tree, parents), slots))
    operators = _operators(tree, policy, slots, crossings=len(pairs))
    asks: Counter[tuple[Operator, tuple[BranchId, ...]]] = Counter()
    for slot, operator in enumerate(operators):
        # Where there are fewer parents than places, the best take the places that are left.
        share = policy.hypotheses if width is None else max(1, width // len(parents))
        parent = parents[slot // share % len(parents)]
        asks[operator, pairs.pop(0) if operator == "crossover" else (parent,)] += 1
    return tuple(Propose(number, operator, ids, count) for (operator, ids), count in asks.items())


def _parents(tree: Tree, policy: Policy) -> list[BranchId]:
    """What the person approved, then the best of the last two rounds, or of all when those have none."""
    approved = [n.id for n in tree.nodes.values() if n.approved and n.evaluation is not None]
    approved = [id for id in approved if not tree.is_pruned(id)]
    able = [id for id in able_parents(tree, policy) if id not in approved]
    recent = [id for id in able if tree.nodes[id].branch.round >= tree.round - 1]
    return approved + (recent or able)[: max(policy.parents - len(approved), 0)]


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


def _operators(tree: Tree, policy: Policy, slots: int, crossings: int) -> list[Operator]:
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
    counts = Counter(n.operator for n in tree.nodes.values() if n.operator in shares)
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


def _crossable(tree: Tree, parents: list[BranchId]) -> Iterator[tuple[BranchId, BranchId]]:
    """Pairs of correct kernels with different technique vectors, not crossed before, best first."""
    correct = [id for id in parents if tree.nodes[id].passed]
    correct += [id for id in tree.frontier() if id not in correct]
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
    return max(policy.branches - used, 0)


def admit(cards: tuple[Hypothesis, ...], taken: tuple[Vector, ...], count: int) -> tuple[Hypothesis, ...]:
    """The first ``count`` hypotheses whose technique vector has no branch yet; an empty vector is free."""
    seen = set(taken)
    fresh: list[Hypothesis] = []
    for card in cards:
        if card.vector and card.vector in seen:
            continue
        seen.add(card.vector)
        fresh.append(card)
    return tuple(fresh[:count])
