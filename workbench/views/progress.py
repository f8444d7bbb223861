"""How far the search is, and how long it will take at the pace so far: by stage, from what was judged. Pure.

Knows no clock: how long a stage takes is told by the evaluations and exchanges of this session, and before
there are enough of those by what its first event says of earlier ones.
"""

from __future__ import annotations

import statistics
from typing import Any

from workbench.model import Evaluation, Stage
from workbench.tree import Node, Tree
from workbench.views.phrases import duration_text, plural, short_duration_text

Json = dict[str, Any]
STAGES: tuple[Stage, ...] = ("writing", "compiling", "running")
ENOUGH = 3
"""Judged branches from which this session alone says what is usual."""
COMPILING = ("plan", "compile")
"""Seconds of an evaluation that count as compiling; the rest is running."""


def progress_json(tree: Tree) -> Json:
    """Branches settled of those expected, the time left at the pace so far, and each busy stage."""
    settled = sum(node.settled for node in tree.nodes.values())
    expected = settled + len(_in_hand(tree)) if _is_over(tree) else _expected(tree)
    usual, source = expected_s(tree)
    eta = _eta_s(tree, expected, usual)
    words = f"{settled} of {plural(expected, 'branch')} judged"
    return {
        "settled": settled,
        "expected": expected,
        "percent": round(100 * settled / expected) if expected else 0,
        "eta_s": eta,
        "usual": _usual_words(tree, usual, source),
        "words": f"{words} · {duration_text(eta)} left" if eta else words,
    }


def expected_s(tree: Tree) -> tuple[dict[Stage, float], str]:
    """Seconds of each stage to count on, and whose: this session's, or ``earlier`` ones' at first."""
    judged = sum(node.evaluation is not None for node in tree.nodes.values())
    earlier = dict(tree.opened.usual) if tree.opened is not None else {}
    return (earlier, "earlier") if earlier and judged < ENOUGH else (usual_s(tree), "")


def usual_s(tree: Tree) -> dict[Stage, float]:
    """Median seconds of each stage in this session; empty before anything was judged."""
    judged = [node.evaluation for node in tree.nodes.values() if node.evaluation]
    if not judged:
        return {}
    compiling = [_seconds(evaluation, compiling=True) for evaluation in judged]
    running = [_seconds(evaluation, compiling=False) for evaluation in judged]
    return {
        # Models may be asked about several branches at once, and the reasoner about none yet.
        "writing": tree.spent.seconds / len(judged),
        "compiling": statistics.median(compiling),
        "running": statistics.median(running),
    }


def _seconds(evaluation: Evaluation, compiling: bool) -> float:
    return sum(seconds for name, seconds in evaluation.seconds if (name in COMPILING) == compiling)


def _usual_words(tree: Tree, usual: dict[Stage, float], source: str) -> str:
    """``usually 0.5 s compiling, 12 s running``: of the stages that some branch is in."""
    busy = {node.stage for node in tree.nodes.values() if not node.settled}
    told = [
        f"{short_duration_text(usual[stage])} {stage}"
        for stage in STAGES
        if stage in busy and usual.get(stage)
    ]
    whose = "in earlier sessions" if source == "earlier" else "usually"
    return f"{whose} {', '.join(told)}" if told else ""


def _is_over(tree: Tree) -> bool:
    """True when nothing more is planned: what is in hand is finished, and a person's kernels are judged."""
    return tree.gate in ("asking", "stopped")


def _in_hand(tree: Tree) -> list[Node]:
    """Branches that are judged although nothing more is planned."""
    return [n for n in tree.nodes.values() if not n.settled and (n.stage in STAGES or n.operator == "edit")]


def _expected(tree: Tree) -> int:
    """Branches there will be if every round allowed is filled; repairs are not foreseen."""
    if tree.opened is None:
        return 0
    policy = tree.opened.policy
    in_round = sum(node.branch.round == tree.round for node in tree.nodes.values())
    wide = policy.seeds if tree.round == 1 else policy.parents * policy.hypotheses
    missing = max(0, wide - in_round) if tree.round_open else 0
    for number in range(tree.round + 1, tree.rounds_allowed + 1):
        missing += policy.seeds if number == 1 else policy.parents * policy.hypotheses
    return max(len(tree.nodes), min(policy.branches + tree.more_branches, len(tree.nodes) + missing))


def _eta_s(tree: Tree, expected: int, usual: dict[Stage, float]) -> float | None:
    """What is left of the branches in flight and all of those to come, side by side."""
    if not usual or tree.opened is None:
        return None
    open_ones = [node for node in tree.nodes.values() if not node.settled and not tree.is_pruned(node.id)]
    waiting = _in_hand(tree) if _is_over(tree) else open_ones
    unborn = max(0, expected - len(tree.nodes))
    left = sum(_left_s(node, usual) for node in waiting) + unborn * sum(usual.values())
    abreast = min(tree.opened.policy.parallel, len(waiting) + unborn)
    return round(left / max(1, abreast), 1) or None


def _left_s(node: Node, usual: dict[Stage, float]) -> float:
    """Half of the stage it is in and the stages after it."""
    if node.stage not in STAGES:
        done = ("writing",) if node.draft is not None else ()
        return sum(seconds for stage, seconds in usual.items() if stage not in done)
    place = STAGES.index(node.stage)
    return usual[node.stage] / 2 + sum(usual[stage] for stage in STAGES[place + 1 :])
