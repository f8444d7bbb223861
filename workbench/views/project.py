"""The tree as small JSON rows: all that a view may know at a glance. Pure; golden-tested.

What one branch shows when it is opened lies in detail.py. Nothing here is NaN or infinite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.events import SessionOpened
from workbench.model import BranchId, Problem, TensorSpec
from workbench.search.shapes import source_of
from workbench.tree import Node, Tree
from workbench.views.phrases import baseline_text, factor_text, plural, spread_text
from workbench.views.progress import progress_json
from workbench.views.verdicts import ABANDONED, BEST, DUPLICATE, STAGES, Look, look_of

Json = dict[str, Any]
TITLE_LENGTH = 160
SAME = 0.995
"""A smaller factor than this is slower."""
REPLAY = "replay:"
"""Begins the name of a brain that repeats a recording; where the recording lies follows."""
DEEDS = 40
"""Latest acts of persons that are listed."""


def project(tree: Tree) -> Json:
    """Header, progress and one row a branch, parents before children."""
    best = tree.best()
    children = Counter(node.branch.parents[0] for node in tree.nodes.values() if node.branch.parents)
    return {
        **_header(tree),
        "state": state_json(tree),
        "progress": progress_json(tree),
        "counts": _counts(tree),
        "best": _best(tree, best),
        "hints": [{"round": hint.round, "text": hint.text} for hint in tree.hints],
        "messages": [f"{failure.role}: {failure.message}" for failure in tree.failures],
        "steering": _steering(tree),
        "spent": _spent(tree),
        "rows": [
            {**row_json(tree, node, best), "depth": depth, "children": children[node.id]}
            for node, depth in walk(tree)
        ],
    }


def _steering(tree: Tree) -> Json:
    """What the person has said: for the next round, and in all."""
    shape = tree.shape
    return {
        "undo": tree.acts[-1].words if tree.acts else "",
        "operators": list(shape.operators) if shape else [],
        "width": shape.width if shape else None,
        "reviews_cards": tree.reviewing,
        "cards": list(tree.unwritten()) if tree.holds_cards else [],
        "deeds": [f"{deed.by} {deed.words}" for deed in tree.deeds[-DEEDS:]],
    }


def _spent(tree: Tree) -> str:
    """Tokens and money so far, before that what to expect; empty where no language model plays."""
    spent = tree.spent
    if not spent.calls:
        estimate = tree.opened.estimate if tree.opened is not None else ""
        return f"expected: {estimate}" if estimate else ""
    money = f", ${spent.money_usd:.2f}" if spent.unpriced < spent.calls else ""
    unknown = f" ({spent.unpriced} calls of unknown price)" if spent.unpriced and money else ""
    return f"{plural(spent.calls, 'call')}, {spent.tokens:,} tokens{money}{unknown}"


def walk(tree: Tree) -> Iterator[tuple[Node, int]]:
    """Every branch with its depth, each parent right before its children."""
    below: dict[BranchId | None, list[BranchId]] = {}
    for id, node in tree.nodes.items():
        below.setdefault(node.branch.parents[0] if node.branch.parents else None, []).append(id)
    pending = [(id, 0) for id in reversed(below.get(None, []))]
    while pending:
        id, depth = pending.pop()
        yield tree.nodes[id], depth
        pending += [(child, depth + 1) for child in reversed(below.get(id, []))]


def row_json(tree: Tree, node: Node, best: BranchId | None) -> Json:
    """One branch on one line, without its place in the tree."""
    look = look_at(node, best)
    return {
        "id": node.id,
        "parents": list(node.branch.parents),
        "operator": node.operator,
        "round": node.branch.round,
        "author": node.branch.author,
        "stage": node.stage,
        "verdict": node.verdict,
        "words": ", ".join(filter(None, (words_of(node), slower(node) if node.id == best else ""))),
        "symbol": look.symbol,
        "shape": look.shape,
        "tone": look.tone,
        "title": node.branch.hypothesis.title[:TITLE_LENGTH],
        "score": round(node.score, 4) if node.passed else None,
        "label": score_label(node),
        "approved": node.approved,
        "pruned": tree.is_pruned(node.id),
        "best": node.id == best,
    }


def look_at(node: Node, best: BranchId | None = None) -> Look:
    """Shape, tone and words of a branch at its present stage."""
    if node.id == best:
        return BEST
    if node.abandoned:
        return DUPLICATE if node.duplicate_of else ABANDONED
    return look_of(node.evaluation.outcome) if node.evaluation else STAGES[node.stage]


def words_of(node: Node) -> str:
    """The verdict or the stage in words; a duplicate names its twin, a card may be struck."""
    if node.pruned and node.draft is None and not node.settled:
        return "struck"
    return f"same as {node.duplicate_of}" if node.duplicate_of else look_at(node).words


def score_label(node: Node) -> str:
    """``1.87x (model)``; empty for a kernel that is not correct or not timed.

    ``1.87x eager so far (measured)`` while it is judged and has been timed once.
    """
    if node.first_time is not None and not node.settled:
        time = node.first_time
        rivals = " and ".join(name for name, _ in time.baselines)
        return f"{factor_text(time.speedup)} {rivals} so far ({time.source})" if rivals else ""
    source = source_of(node.evaluation)
    return f"{factor_text(node.score)} ({source})" if node.passed and source else ""


def spread_label(node: Node) -> str:
    """The worst and the best declared shape against their fastest baselines; empty where they are alike."""
    times = node.evaluation.times if node.evaluation is not None and node.passed else ()
    return spread_text([(time.case, time.speedup) for time in times if time.baselines])


def slower(node: Node) -> str:
    """``slower than torch.compile by the model``: against the fastest baseline; empty if it is not."""
    evaluation = node.evaluation
    if evaluation is None or not node.passed or not 0 < node.score < SAME:
        return ""
    known = [time.baselines for time in evaluation.times if time.baselines]
    fastest = {min(baselines, key=lambda one: one[1])[0] for baselines in known}
    rival = baseline_text(fastest.pop()) if len(fastest) == 1 else "the fastest baseline"
    by = "as measured" if source_of(evaluation) == "measured" else "by the model"
    return f"slower than {rival} {by}"


def standing(node: Node) -> str:
    """``1.87x (model) over the fastest baseline``; ``0.80x (model): slower than eager by the model``."""
    slow = slower(node)
    found = f"{score_label(node)}: {slow}" if slow else f"{score_label(node)} over the fastest baseline"
    return f"{found}; {_only_library(node)}" if _only_library(node) else found


def _only_library(node: Node) -> str:
    """What is said of a plan that launches nothing: its speed is the library's; empty for others."""
    facts = node.evaluation.facts if node.evaluation else ()
    called = dict.fromkeys(call for one in facts for call in one.library_calls)
    if not called or any(one.launches for one in facts):
        return ""
    return f"it only calls the library ({', '.join(called)}), with no kernel of its own to gain from"


def _header(tree: Tree) -> Json:
    opened = tree.opened
    if opened is None:
        return {"problem": {"name": "", "cases": [], "tensors": [], "notes": []}, "subtitle": "", "round": 0}
    return {
        "problem": _problem(opened.problem),
        "device": opened.device,
        "target": opened.target.name,
        "brain": opened.brain,
        "review": opened.policy.review,
        "subtitle": _subtitle(opened),
        "round": tree.round,
        "rounds_allowed": tree.rounds_allowed,
    }


def _problem(problem: Problem) -> Json:
    return {
        "name": problem.name,
        "contract": problem.contract,
        "cases": [case.label for case in problem.cases],
        "tensors": [_tensor(spec) for spec in problem.tensors],
        "notes": list(problem.notes),
    }


def _tensor(spec: TensorSpec) -> str:
    dims = ", ".join(map(str, spec.dims))
    return f"{spec.name}: {spec.dtype}[{dims}]" + (" (complex)" if spec.in_pairs else "")


def _subtitle(opened: SessionOpened) -> str:
    """Who works, where, and whether times are measured."""
    clock = "times are measured" if opened.device == "cuda" else "times are a roofline model"
    where = opened.target.name if opened.device == "cuda" else f"the {opened.device} for {opened.target.name}"
    brain = opened.brain
    if brain.startswith(REPLAY):
        brain = f"replay of {Path(brain.removeprefix(REPLAY)).name}, recorded"
    return f"{brain} on {where}; {clock}; {opened.problem.contract}"


def state_json(tree: Tree) -> Json:
    """``opening``, ``running``, ``waiting`` for the person, or ``stopped``, in words.

    ``short`` is for pages that nobody can answer.
    """
    match tree.gate:
        case "closed":
            words = "reading the problem"
            return {"kind": "opening", "tone": "busy", "words": words, "short": words}
        case "stopped":
            words = f"stopped: {tree.stopped.reason if tree.stopped else ''}"
            return {"kind": "stopped", "tone": "quiet", "words": words, "short": words}
        case "reviewing":
            cards = plural(len(tree.unwritten()), "card")
            words = f"round {tree.round}: {cards} to read: strike or rewrite, then Release cards"
            return {"kind": "reviewing", "tone": "best", "words": words, "short": f"{cards} to read"}
        case "asking":
            words = f"round {tree.round} is done: approve, prune, hint, then Next round"
            short = f"round {tree.round} is done"
            return {"kind": "waiting", "tone": "best", "words": words, "short": short}
        case "working":
            words = f"round {tree.round} of {max(tree.round, tree.rounds_allowed)}{_stages(tree)}"
            return {"kind": "running", "tone": "busy", "words": words, "short": words}


def _stages(tree: Tree) -> str:
    busy = Counter(node.stage for node in tree.nodes.values() if not node.settled)
    return ": " + ", ".join(f"{count} {stage}" for stage, count in busy.items()) if busy else ""


def _counts(tree: Tree) -> Json:
    nodes = tree.nodes.values()
    passed = sum(node.passed for node in nodes)
    judged = sum(node.evaluation is not None for node in nodes)
    return {
        "branches": len(tree.nodes),
        "passed": passed,
        "failed": judged - passed,
        "abandoned": sum(bool(node.abandoned) for node in nodes),
        "in_flight": sum(not node.settled and not tree.is_pruned(node.id) for node in nodes),
    }


def _best(tree: Tree, best: BranchId | None) -> Json | None:
    if best is None:
        return None
    node = tree.nodes[best]
    title = node.branch.hypothesis.title[:TITLE_LENGTH]
    return {
        "id": best,
        "title": title,
        "label": score_label(node),
        "standing": standing(node),
        "slower": slower(node),
    }
