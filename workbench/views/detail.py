"""One branch opened: its card, source, difference from its parent, and every number. Pure; golden-tested."""

from __future__ import annotations

import difflib
from collections import defaultdict
from typing import Any

from workbench.model import AccessSite, BranchId, Evaluation
from workbench.tree import Node, Tree
from workbench.views.highlight import highlight
from workbench.views.numbers import (
    check_json,
    compile_json,
    counts_json,
    diagnostics,
    facts_json,
    time_json,
    verdict_message,
    worst_difference,
)
from workbench.views.phrases import factor_text, plural
from workbench.views.project import row_json
from workbench.views.teaching import teaching

Json = dict[str, Any]
CONTEXT_LINES = 3
WASTEFUL = 1.25
"""Transactions over the least possible from which a line is pointed out."""


def detail(tree: Tree, branch: BranchId) -> Json:
    """Everything about one branch. Raises ``SessionError`` for an unknown id."""
    node = tree.node(branch)
    evaluation = node.evaluation
    outcome = evaluation.outcome if evaluation else None
    message = node.abandoned or (verdict_message(outcome) if outcome else "")
    return {
        "row": row_json(tree, node, tree.best()),
        "origin": _origin(node),
        "hypothesis": _hypothesis(tree, node),
        "techniques": _techniques(tree, node),
        "note": node.draft.note if node.draft else "",
        "lines": _lines(node),
        "diff": _diff(tree, node),
        "message": message,
        # Often the explanation begins with the message: once is enough.
        "explanation": node.explanation.removeprefix(message).strip(),
        "lesson": node.lesson.lesson if node.lesson else "",
        "diagnostics": diagnostics(outcome, evaluation),
        **_findings(evaluation),
    }


def _findings(evaluation: Evaluation | None) -> Json:
    """What the referee found; empty lists before it has looked."""
    return {
        "compile": compile_json(evaluation) if evaluation else None,
        "facts": [facts_json(facts) for facts in evaluation.facts] if evaluation else [],
        "checks": [check_json(check) for check in evaluation.checks] if evaluation else [],
        "difference": worst_difference(evaluation) if evaluation else None,
        "counts": [counts_json(counts) for counts in evaluation.counts] if evaluation else [],
        "line_counts": _line_counts(evaluation) if evaluation else [],
        "times": [time_json(time) for time in evaluation.times] if evaluation else [],
        "seconds": {name: round(s, 3) for name, s in evaluation.seconds} if evaluation else {},
    }


def _origin(node: Node) -> str:
    parents = " and ".join(node.branch.parents)
    made = f"{node.operator} of {parents}" if parents else node.operator
    return f"{made}, round {node.branch.round}, by {node.branch.author}"


def _hypothesis(tree: Tree, node: Node) -> Json:
    card = node.branch.hypothesis
    # A person's edit comes without a hypothesis; what stands in its place says nothing.
    own = node.operator == "edit"
    return {
        "title": card.title,
        "bottleneck": card.bottleneck,
        "cause": "" if own else card.cause,
        "evidence": list(card.evidence),
        "fix": "" if own else card.fix,
        "risk": card.risk,
        "gain": _gain(tree, node),
    }


def _gain(tree: Tree, node: Node) -> str:
    """Predicted and found speed over the first parent's; empty for a branch without one."""
    if not node.branch.parents or node.operator == "edit":
        return ""
    found = _found(tree, node)
    predicted = f"predicted {factor_text(node.branch.hypothesis.predicted_factor)}"
    return f"{predicted}, found {found}" if found else predicted


def _found(tree: Tree, node: Node) -> str:
    """Speed over the first parent's, from the lesson or the scores; empty while unknown."""
    if node.lesson and node.lesson.actual_factor is not None:
        return factor_text(node.lesson.actual_factor)
    parent = tree.nodes[node.branch.parents[0]] if node.branch.parents else None
    return factor_text(node.score / parent.score) if parent and parent.score and node.score else ""


def _techniques(tree: Tree, node: Node) -> list[Json]:
    parent = dict(tree.nodes[node.branch.parents[0]].vector) if node.branch.parents else None
    return [
        {
            "name": name,
            "value": value,
            "title": teaching(name).title,
            "teaches": teaching(name).paragraph,
            "plain": value == teaching(name).plain,
            "changed": parent is not None and parent.get(name) != value,
        }
        for name, value in node.vector
    ]


def _lines(node: Node) -> list[list[list[str]]] | None:
    """Source as lines of [class, text] runs; None until the kernel is written."""
    if node.draft is None:
        return None
    return [[list(run) for run in line] for line in highlight(node.draft.kernel.source)]


def _diff(tree: Tree, node: Node) -> list[Json] | None:
    """Lines against the first parent's kernel with some context; None without two kernels."""
    parent = tree.nodes[node.branch.parents[0]] if node.branch.parents else None
    if node.draft is None or parent is None or parent.draft is None:
        return None
    old, new = (n.draft.kernel.source.split("\n") for n in (parent, node) if n.draft)
    found: list[Json] = []
    for group in difflib.SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT_LINES):
        if found:
            found.append({"tag": "gap", "old": None, "new": None, "text": ""})
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                found += [_line("same", i + 1, i - i1 + j1 + 1, old[i]) for i in range(i1, i2)]
                continue
            found += [_line("removed", i + 1, None, old[i]) for i in range(i1, i2)]
            found += [_line("added", None, j + 1, new[j]) for j in range(j1, j2)]
    return found


def _line(tag: str, old: int | None, new: int | None, text: str) -> Json:
    return {"tag": tag, "old": old, "new": new, "text": text}


def _line_counts(evaluation: Evaluation) -> list[Json]:
    """Memory requests a source line, over all counted cases."""
    by_line: dict[int, list[AccessSite]] = defaultdict(list)
    for counts in evaluation.counts:
        for site in counts.sites:
            by_line[site.line].append(site)
    return [_line_count(line, sites) for line, sites in sorted(by_line.items())]


def _line_count(line: int, sites: list[AccessSite]) -> Json:
    requests = sum(site.requests for site in sites)
    moved = sum(site.transactions for site in sites)
    least = sum(site.ideal_transactions for site in sites)
    unit = "sector" if sites[0].space == "global" else "wavefront"
    per_request = moved / requests if requests else 0.0
    return {
        "line": line,
        "label": f"{per_request:.3g} {unit}s a request",
        "words": f"{plural(requests, 'request')} of a warp moved {moved:,} {unit}s; {least:,} would do",
        "wasteful": moved > WASTEFUL * least,
    }
