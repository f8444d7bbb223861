"""Reflection: what was predicted, what was found, and the one sentence to keep.

Owns the lesson of a branch. Deterministic, for every brain alike; never judges a kernel.
"""

from __future__ import annotations

from workbench.events import LessonLearnt
from workbench.model import BranchId, CompileFailed, Evaluation, LaunchFailed, Outcome, Passed
from workbench.node import Node
from workbench.search.shapes import NOISE, source_of, times_of
from workbench.tree import Tree

_UNFUSED = ("fusion", "none")
"""The choice that makes a seed the one that predictions of seeds are over."""
_BASELINE = "the fastest baseline"
_CLOSE = 0.10
"""Relative distance between found and predicted factor that still counts as predicted."""


def reflect(tree: Tree, id: BranchId) -> LessonLearnt:
    """Lesson of a judged branch: its factor over its best parent.

    A repair is measured against the parents of the hypothesis it repairs. A seed has none: its prediction
    is over one kernel an operation, so that is what it is held against where that was judged; else over the
    fastest baseline, and the two bases are named.
    """
    node = tree.node(id)
    assert node.evaluation is not None  # search asks for judged branches only
    card = node.branch.hypothesis
    origin = tree.nodes[tree.chain(id)[0]]
    actual, over = _factor(tree, node.evaluation, origin)
    if actual is None:
        lesson = f"{card.title}: {_why(node.evaluation.outcome)}"
    else:
        compared = _compare(card.predicted_factor, actual)
        if over == _BASELINE and _is_over_naive(tree, origin):
            predicted = f"{card.predicted_factor:.2f}x predicted over one kernel an operation"
            compared = f"{predicted}, {actual:.2f}x found"
        found = f"{compared} over {over}{_bound(node.evaluation)}"
        lesson = f"{card.title}: {found}{_lost(tree, node.evaluation, origin.branch.parents)}"
    return LessonLearnt(branch=id, expected_factor=card.predicted_factor, actual_factor=actual, lesson=lesson)


def _is_over_naive(tree: Tree, origin: Node) -> bool:
    """True for the prediction of a seed by rules; what a model's is over is the model's to say."""
    brain = tree.opened.brain if tree.opened else ""
    by_rules = "playbook" in brain and "llm" not in brain
    return by_rules and not origin.branch.parents and bool(origin.branch.hypothesis.vector)


def _naive(tree: Tree, evaluation: Evaluation) -> Node | None:
    """The branch with one kernel an operation, where it was judged by the same clock."""
    seeds = (node for node in tree.nodes.values() if not node.branch.parents and _UNFUSED in node.vector)
    judged = (node for node in seeds if node.passed and node.score > 0)
    return next((node for node in judged if source_of(node.evaluation) == source_of(evaluation)), None)


def _factor(tree: Tree, evaluation: Evaluation, origin: Node) -> tuple[float | None, str]:
    if not evaluation.passed or evaluation.score <= 0:
        return None, ""
    parents = origin.branch.parents
    if not parents:
        naive = _naive(tree, evaluation) if _is_over_naive(tree, origin) else None
        if naive is None or naive.evaluation is evaluation:
            return evaluation.score, _BASELINE
        return evaluation.score / naive.score, f"one kernel an operation ({naive.id})"
    best = max(parents, key=lambda parent: tree.nodes[parent].score)
    node = tree.nodes[best]
    if node.score <= 0 or source_of(node.evaluation) != source_of(evaluation):
        return None, ""  # a measured time over a modelled one is no factor
    return evaluation.score / node.score, best


def _lost(tree: Tree, evaluation: Evaluation, parents: tuple[BranchId, ...]) -> str:
    """Where a kernel of several parents is slower than the fastest of them, shape by shape.

    Its mean may hide it: what was fastest in a file of its own may have become another kernel.
    """
    if len(parents) < 2:
        return ""
    known = {id: times_of(tree.nodes[id].evaluation) for id in parents}
    source = source_of(evaluation)
    known = {id: times for id, times in known.items() if source_of(tree.nodes[id].evaluation) == source}
    words = []
    for case, us in times_of(evaluation).items():
        times = {id: own[case] for id, own in known.items() if case in own}
        best = min(times, key=lambda id: times[id], default=None)
        if best is not None and us > (1 + NOISE) * times[best]:
            words.append(f"at {case}, {us:.3g} us against {times[best]:.3g} by {best}")
    return f"; slower than its parents {' and '.join(words)}" if words else ""


def _compare(expected: float, actual: float) -> str:
    numbers = f"{expected:.2f}x predicted, {actual:.2f}x found"
    if actual < expected * (1 - _CLOSE):
        return f"less than expected, {numbers}"
    if actual > expected * (1 + _CLOSE):
        return f"more than expected, {numbers}"
    return f"as expected, {numbers}"


def _bound(evaluation: Evaluation) -> str:
    if not evaluation.times:
        return ""
    time = evaluation.times[0]
    source = "by the model" if time.source == "model" else "measured"
    return f" ({source}); now {time.bound}-bound at {time.roofline_share:.0%} of the roofline"


def _why(outcome: Outcome) -> str:
    """Outcome in a few words."""
    match outcome:
        case Passed():
            return "correct, but there is no time to compare with"
        case CompileFailed(diagnostics=diagnostics) | LaunchFailed(diagnostics=diagnostics):
            return f"does not {'compile' if isinstance(outcome, CompileFailed) else 'launch'}" + (
                f" (line {diagnostics[0].line}: {diagnostics[0].message})" if diagnostics else ""
            )
        case _:
            message = f" ({outcome.message})" if outcome.message else ""
            return outcome.kind.replace("_", " ") + message
