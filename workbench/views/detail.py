"""One branch opened: its card, source, difference from its parent, and every number. Pure; golden-tested."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from workbench.exchange import Exchange
from workbench.model import AccessSite, BranchId, CaseTime, Evaluation
from workbench.search.shapes import source_of
from workbench.tree import Node, Tree
from workbench.views.conversation import texts_json
from workbench.views.differences import parents_diff
from workbench.views.highlight import highlight
from workbench.views.launches import card_words, launches
from workbench.views.numbers import (
    Launched,
    check_json,
    compile_json,
    counts_json,
    diagnostics,
    difference_json,
    facts_json,
    verdict_message,
)
from workbench.views.phrases import factor_text, listed, plural
from workbench.views.printed import printed_json
from workbench.views.profile import profile_json
from workbench.views.project import TITLE_LENGTH, row_json, score_label
from workbench.views.roofline import rooflines
from workbench.views.speed import speed_json, timing_json
from workbench.views.teaching import teaching

Json = dict[str, Any]
SEEN = "seen before: "
"""How evidence begins that earlier searches left."""
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
        "parents": [_parent(tree, id) for id in node.branch.parents],
        "hypothesis": _hypothesis(tree, node),
        "techniques": _techniques(tree, node),
        "note": node.draft.note if node.draft else "",
        "lines": _lines(node),
        "diff": parents_diff(tree, node),
        "choices": _choices(tree, node),
        "conversation": _conversation(tree, node),
        "speaking": tree.speaking[node.id].tail if node.id in tree.speaking else "",
        "rooflines": rooflines(tree, node),
        "receipt": _receipt(tree, node),
        "message": message,
        # Often the explanation begins with the message: once is enough.
        "explanation": node.explanation.removeprefix(message).strip(),
        "lesson": node.lesson.lesson if node.lesson else "",
        "diagnostics": diagnostics(outcome, evaluation),
        **_findings(evaluation, launched(tree, node)),
        "times": [timing_json(time) for time in _times(node)],
    }


def _findings(evaluation: Evaluation | None, found: Launched | None) -> Json:
    """What the referee found; empty lists before it has looked."""
    return {
        "compile": compile_json(evaluation, found) if evaluation else None,
        "profile": profile_json(evaluation) if evaluation else None,
        "facts": [facts_json(facts) for facts in evaluation.facts] if evaluation else [],
        "checks": [check_json(check) for check in evaluation.checks] if evaluation else [],
        "difference": difference_json(evaluation) if evaluation else None,
        "counts": [counts_json(counts) for counts in evaluation.counts] if evaluation else [],
        "line_counts": _line_counts(evaluation) if evaluation else [],
        "speed": speed_json(evaluation) if evaluation else None,
        "printed": printed_json(evaluation.printed) if evaluation else None,
        "seconds": {name: round(s, 3) for name, s in evaluation.seconds} if evaluation else {},
    }


def _times(node: Node) -> tuple[CaseTime, ...]:
    """All times once it is judged; before that the first one, where a device has told it."""
    if node.evaluation is not None:
        return node.evaluation.times
    return (node.first_time,) if node.first_time is not None else ()


def _origin(node: Node) -> str:
    parents = listed(node.branch.parents)
    made = f"{node.operator} of {parents}" if parents else node.operator
    return f"{made}, round {node.branch.round}, by {node.branch.author}"


def _parent(tree: Tree, id: BranchId) -> Json:
    """What a branch came from, on one line."""
    parent = tree.nodes[id]
    return {"id": id, "title": parent.branch.hypothesis.title[:TITLE_LENGTH], "label": score_label(parent)}


def _hypothesis(tree: Tree, node: Node) -> Json:
    card = node.branch.hypothesis
    # A person's edit comes without a hypothesis; what stands in its place says nothing.
    own = node.operator == "edit"
    return {
        "title": card.title,
        "bottleneck": card.bottleneck,
        "cause": "" if own else card.cause,
        "evidence": [text for text in card.evidence if not text.startswith(SEEN)],
        "seen": [text.removeprefix(SEEN) for text in card.evidence if text.startswith(SEEN)],
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
    return f"{predicted}, found {found} ({source_of(node.evaluation)})" if found else predicted


def _found(tree: Tree, node: Node) -> str:
    """Speed over the first parent's, from the lesson or the scores; empty while unknown."""
    if node.lesson and node.lesson.actual_factor is not None:
        return factor_text(node.lesson.actual_factor)
    parent = tree.nodes[node.branch.parents[0]] if node.branch.parents else None
    if parent and source_of(parent.evaluation) != source_of(node.evaluation):
        return ""
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


def launched(tree: Tree, node: Node) -> Launched | None:
    """What the kernel launches on the session's card; None before there is a kernel."""
    if tree.opened is None or node.draft is None:
        return None
    target = tree.opened.target
    return launches(tree.opened.problem, node.draft.kernel, target), target


def _conversation(tree: Tree, node: Node) -> list[Json]:
    """What was said with language models about this branch, oldest first."""
    return [
        {
            "id": one.id,
            "role": one.role,
            "model": one.model,
            "prompt": one.prompt,
            **texts_json(one),
            "failed": one.failed,
            "words": _exchange_words(one),
        }
        for one in tree.exchanges.values()
        if one.branch == node.id or (one.branch is None and _led_to(one, node))
    ]


def _led_to(exchange: Exchange, node: Node) -> bool:
    """True for the reasoner's answer that this branch came from."""
    asked = (exchange.round, exchange.operator, exchange.parents)
    return asked == (node.branch.round, node.operator, node.branch.parents)


def _exchange_words(exchange: Exchange) -> str:
    about = "about " if exchange.counted == "estimate" else ""
    words = [f"{about}{exchange.tokens_in:,} tokens in, {exchange.tokens_out:,} out"]
    if exchange.cost_usd is not None:
        words.append(f"${exchange.cost_usd:.4f}")
    words.append("known already, nobody was asked" if exchange.cached else f"{exchange.seconds:.1f} s")
    return ", ".join([*words, *exchange.tries])


def _choices(tree: Tree, node: Node) -> list[Json]:
    """What a person can choose on a card without a kernel; empty once there is one."""
    if tree.opened is None or node.draft is not None or node.settled:
        return []
    return [
        {
            "name": name,
            "title": teaching(name).title,
            "value": value,
            "values": list(dict.fromkeys((*teaching(name).values, value))),
        }
        for name, value in node.branch.hypothesis.vector
    ]


def _receipt(tree: Tree, node: Node) -> list[list[str]]:
    """What was judged, where and how, as name and value: enough to hold two runs against each other."""
    opened, evaluation = tree.opened, node.evaluation
    if opened is None or evaluation is None:
        return []
    report = evaluation.compiled
    measured = next((time.measured for time in evaluation.times if time.measured), None)
    facts = [
        ("kernel (sha256)", evaluation.kernel),
        ("problem (sha256)", opened.problem.digest),
        ("workbench", opened.version),
        ("device", evaluation.device),
        ("target", evaluation.target),
        ("card", card_words(opened.target)),
        ("precision", opened.problem.contract),
        ("NVRTC", f"{report.nvrtc} for {report.arch}" if report else "nothing was compiled"),
        ("checks", str(len(evaluation.checks))),
        ("shapes", ", ".join(case.label for case in opened.problem.cases)),
        ("times", source_of(evaluation) or "none"),
        ("clock", measured.clock if measured else ""),
        ("raw samples", measured.receipt if measured else ""),
        (
            "repeat it",
            f"workbench replay-receipt {measured.receipt}" if measured and measured.receipt else "",
        ),
        ("seconds", ", ".join(f"{name} {s:.3g}" for name, s in evaluation.seconds if s)),
    ]
    return [[name, value] for name, value in facts if value]


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
