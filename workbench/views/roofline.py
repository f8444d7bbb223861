"""The roofline of a case and how a branch came up to it: its ancestors, one after another. Pure.

Both axes are logarithms of ten: operations per byte moved, and operations per second. Bytes are what the
plan moves, as far as the bandwidth lets them through in the time (the rest is served by caches), so that a
branch that reads less goes right and one that waits less goes up, and none lies above the roof.
"""

from __future__ import annotations

import math
from typing import Any

from workbench.model import BranchId, Case, CaseTime, Problem, Target
from workbench.referee.roofline import products_per_s
from workbench.referee.work import sized
from workbench.tree import Node, Tree
from workbench.views.phrases import factor_text
from workbench.views.roofline_plot import roofline_drawing

Json = dict[str, Any]


def rooflines(tree: Tree, node: Node) -> list[Json]:
    """One a timed case, in the order of importance; empty before there is a time."""
    if tree.opened is None or node.evaluation is None:
        return []
    cases = {case.label: case for case in tree.opened.problem.cases}
    times = [time for time in node.evaluation.times if time.case in cases]
    return [found for time in times if (found := _roofline(tree, node, cases[time.case], time))]


def _roofline(tree: Tree, node: Node, case: Case, time: CaseTime) -> Json | None:
    assert tree.opened is not None and node.evaluation is not None  # there is a time
    target = tree.opened.target
    operations = _operations(tree.opened.problem, case)
    work = (operations, target.dram_bytes_per_s)
    points = [point for id in lineage(tree, node) if (point := _point(tree.nodes[id], case.label, work))]
    facts = next((one for one in node.evaluation.facts if one.case == case.label), None)
    if not points or facts is None:
        return None
    others = [point for id in node.branch.parents[1:] if (point := _point(tree.nodes[id], case.label, work))]
    last, first, floor = points[-1], points[0], max(time.floor_us, 1e-3)
    found = {
        "case": case.label,
        "source": time.source,
        "bandwidth": math.log10(target.dram_bytes_per_s),
        "peak": math.log10(_peak(target, tree.opened.problem, case)),
        "ideal": {"x": round(math.log10(operations / max(facts.bytes_min, 1)), 4),
                  "y": round(math.log10(operations / (floor * 1e-6)), 4)},
        "points": points,
        "others": others,
        "words": f"{last['id']} at {last['share']}% of the roofline"
        + (f", {first['id']} was at {first['share']}%" if len(points) > 1 else ""),
    }  # fmt: skip
    return {**found, "drawing": roofline_drawing(found)}


def lineage(tree: Tree, node: Node) -> tuple[BranchId, ...]:
    """The branch and what it came from along first parents, oldest first."""
    found = [node.id]
    while node.branch.parents:
        node = tree.nodes[node.branch.parents[0]]
        found.append(node.id)
    return tuple(reversed(found))


def _peak(target: Target, problem: Problem, case: Case) -> float:
    """Operations a second: of products by the fastest unit of the contract, of others by float32's."""
    multiplies = any(one.flops for one in sized(problem, case))
    return products_per_s(target, problem.contract) if multiplies else target.fp32_flops_per_s


def _operations(problem: Problem, case: Case) -> float:
    """Operations of the reference: multiply-adds of products, instructions of the rest; at least one each."""
    work = sum(max(one.flops, one.instructions) for one in sized(problem, case))
    return work or float(problem.elements(case)) or 1.0


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
