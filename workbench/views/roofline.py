"""The roofline of a case and how a branch came up to it: its ancestors, one after another. Pure.

Both axes are logarithms of ten: operations per byte moved, and operations per second. Bytes are what the
plan moves, as far as the bandwidth lets them through in the time (the rest is served by caches), so that a
branch that reads less goes right and one that waits less goes up, and none lies above the roof.
"""

from __future__ import annotations

import math
from typing import Any

from workbench.model import BranchId, Case, Problem
from workbench.referee.work import sized
from workbench.tree import Node, Tree
from workbench.views.phrases import factor_text

Json = dict[str, Any]


def roofline_json(tree: Tree, node: Node) -> Json | None:
    """Roof, points and the least possible at the first timed case; None before there is a time."""
    opened, evaluation = tree.opened, node.evaluation
    if opened is None or evaluation is None or not evaluation.times:
        return None
    case = next((c for c in opened.problem.cases if c.label == evaluation.times[0].case), None)
    if case is None:
        return None
    operations = _operations(opened.problem, case)
    bandwidth = opened.target.dram_bytes_per_s
    path = [_point(tree.nodes[id], case.label, (operations, bandwidth)) for id in lineage(tree, node)]
    points = [point for point in path if point]
    if not points:
        return None
    target = opened.target
    last = points[-1]
    least = next(facts.bytes_min for facts in evaluation.facts if facts.case == case.label)
    ideal, floor = operations / max(least, 1), max(evaluation.times[0].floor_us, 1e-3)
    return {
        "case": case.label,
        "source": evaluation.times[0].source,
        "bandwidth": math.log10(target.dram_bytes_per_s),
        "peak": math.log10(target.fp32_flops_per_s),
        "ridge": math.log10(target.fp32_flops_per_s / target.dram_bytes_per_s),
        "ideal": {"x": round(math.log10(ideal), 4), "y": round(math.log10(operations / (floor * 1e-6)), 4)},
        "points": points,
        "words": f"{last['id']} at {last['share']}% of the roofline"
        + (f", {points[0]['id']} was at {points[0]['share']}%" if len(points) > 1 else ""),
    }


def lineage(tree: Tree, node: Node) -> tuple[BranchId, ...]:
    """The branch and what it came from along first parents, oldest first."""
    found = [node.id]
    while node.branch.parents:
        node = tree.nodes[node.branch.parents[0]]
        found.append(node.id)
    return tuple(reversed(found))


def _operations(problem: Problem, case: Case) -> float:
    """Operations of the reference: multiply-adds of products, instructions of the rest; at least one each."""
    work = sum(max(one.flops, one.instructions) for one in sized(problem, case))
    return work or float(sum(meta.numel for meta in problem.metas(case).values())) or 1.0


def _point(node: Node, case: str, work: tuple[float, float]) -> Json | None:
    """Where one branch lies; ``work`` is operations and bytes a second. None without a time."""
    operations, bandwidth = work
    evaluation = node.evaluation
    time = next((t for t in evaluation.times if t.case == case), None) if evaluation else None
    facts = next((f for f in evaluation.facts if f.case == case), None) if evaluation else None
    if time is None or facts is None or time.time_us <= 0:
        return None
    moved = max(facts.bytes_min, min(facts.bytes_plan, time.time_us * 1e-6 * bandwidth), 1)
    return {
        "id": node.id,
        "round": node.branch.round,
        "x": round(math.log10(operations / moved), 4),
        "y": round(math.log10(operations / (time.time_us * 1e-6)), 4),
        "share": round(100 * time.roofline_share),
        "label": factor_text(time.speedup),
    }
