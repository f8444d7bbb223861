"""A verdict and a session for machines: what ``--json`` writes. Finite numbers and words only."""

from __future__ import annotations

from typing import Any

from workbench.model import Check, Evaluation
from workbench.tree import Tree
from workbench.views.numbers import (
    compile_json,
    counts_json,
    diagnostics,
    facts_json,
    verdict_message,
    worst_difference,
)
from workbench.views.phrases import number, plural
from workbench.views.printed import printed_json, printed_lines
from workbench.views.speed import time_json
from workbench.views.verdicts import look_of

Json = dict[str, Any]


def judgement(evaluation: Evaluation) -> Json:
    """One evaluation: ``verdict`` (kind of outcome), ``reason`` in a sentence, and all details."""
    outcome = evaluation.outcome
    return {
        "verdict": outcome.kind,
        "words": look_of(outcome).words,
        "reason": verdict_message(outcome),
        "device": evaluation.device,
        "target": evaluation.target,
        "kernel": evaluation.kernel,
        "outcome": outcome.model_dump(mode="json"),
        "diagnostics": diagnostics(outcome, evaluation),
        "shapes": [_case(evaluation, case) for case in _cases(evaluation)],
        "compile": compile_json(evaluation),
        "facts": [facts_json(facts) for facts in evaluation.facts],
        "counts": [counts_json(counts) for counts in evaluation.counts],
        "times": [time_json(time) for time in evaluation.times],
        "worst": worst_difference(evaluation),
        "seed": evaluation.seed,
        "printed": printed_json(evaluation.printed),
        "notes": list(evaluation.notes),
        "seconds": dict(evaluation.seconds),
    }


def judgement_lines(found: Json, name: str) -> list[str]:
    """For a terminal: what was run, a line a shape; what is wrong and where in ``name``; the time; then the
    verdict, and under it what the kernel printed."""
    width = max([20, *(len(shape["shape"]) + 2 for shape in found["shapes"])])
    lines = [_shape_line(shape, width) for shape in found["shapes"]]
    for diagnostic in found["diagnostics"]:
        lines.append(f"{name}:{diagnostic['line']}: {diagnostic['severity']}: {diagnostic['message']}")
        if diagnostic["caret"]:
            lines.append(diagnostic["caret"])
    lines += [f"note: {note}" for note in found["notes"]]
    lines += [_time_line(time, found["target"]) for time in found["times"]]
    kind = f"hazard, {found['words']}" if found["verdict"] == "hazard" else found["verdict"]
    verdict = f"{kind}: {found['reason']}" if found["reason"] else kind
    return [*lines, verdict, *printed_lines(found["printed"])]


def _shape_line(shape: Json, width: int) -> str:
    line = f"{shape['verdict']:<12}{shape['shape']:<{width}}{plural(len(shape['checks']), 'check')}"
    return f"{line}, the numbers right" if shape["numbers_right"] and shape["verdict"] == "failed" else line


def _time_line(time: Json, target: str) -> str:
    """``time at 4096x1024: 12.3 us by the model of an H100, ...``: never without its source."""
    source = f"by the model for {target}, not measured" if time["source"] == "model" else "measured"
    against = f", {time['speedup']} against the fastest baseline" if time["baselines"] else ""
    share = f"{time['roofline_percent']}% of the roofline"
    return f"time at {time['case']}: {time['time']} {source}{against}, {share}"


def _cases(evaluation: Evaluation) -> list[str]:
    return list(dict.fromkeys(check.case for check in evaluation.checks))


def _case(evaluation: Evaluation, case: str) -> Json:
    checks = [check_json(check) for check in evaluation.checks if check.case == case]
    verdicts = {check["verdict"] for check in checks}
    verdict = next(word for word in ("failed", "passed", "not covered") if word in verdicts)
    right = verdict == "passed"
    # A race or a stray access is no pass, however right the numbers are.
    found = getattr(evaluation.outcome, "case", "") == case and not evaluation.passed
    return {
        "shape": case,
        "verdict": "failed" if found else verdict,
        "numbers_right": right,
        "checks": checks,
    }


def check_json(check: Check) -> Json:
    """One check: its inputs, seed, verdict and worst error."""
    ratios = [found.max_ratio for found in check.differences]
    right = bool(ratios) and all(ratio <= 1 for ratio in ratios)
    return {
        "inputs": check.inputs,
        "seed": check.seed,
        "verdict": ("passed" if right else "failed") if check.covered else "not covered",
        "max_abs": number(max((found.max_abs for found in check.differences), default=None)),
        "max_ratio": number(max(ratios, default=None)),
        "note": check.told,
    }


def session_json(tree: Tree) -> Json:
    """A whole search: the problem's name, the best branch and every branch's judgement."""
    opened, best = tree.opened, tree.best()
    branches = [
        {
            "id": node.id,
            "parents": list(node.branch.parents),
            "operator": node.operator,
            "round": node.branch.round,
            "hypothesis": node.branch.hypothesis.title,
            "techniques": dict(node.vector),
            "score": node.score,
            "judgement": judgement(node.evaluation) if node.evaluation else None,
            "abandoned": node.abandoned,
        }
        for node in tree.nodes.values()
    ]
    return {
        "problem": opened.problem.name if opened else "",
        "device": opened.device if opened else "",
        "brain": opened.brain if opened else "",
        "best": best,
        "score": tree.nodes[best].score if best else 0.0,
        "stopped": tree.stopped.reason if tree.stopped else "",
        "branches": branches,
    }
