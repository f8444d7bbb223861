"""Two to four branches side by side: techniques, times, resources, profile, source. Pure; golden-tested."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.model import BranchId
from workbench.tree import Node, Tree
from workbench.views.detail import launched
from workbench.views.differences import changed_lines
from workbench.views.numbers import compile_json, worst_difference
from workbench.views.phrases import count_text
from workbench.views.profile import profile_json
from workbench.views.project import row_json
from workbench.views.speed import time_json
from workbench.views.teaching import teaching

Json = dict[str, Any]


def compare(tree: Tree, branches: tuple[BranchId, ...]) -> Json:
    """Rows of a table with one column a branch; the first branch is what the others are held against.

    Raises ``SessionError`` for an unknown branch.
    """
    nodes = [tree.node(id) for id in branches]
    best = tree.best()
    return {
        "branches": [row_json(tree, node, best) for node in nodes],
        "techniques": _techniques(nodes),
        "times": _times(nodes),
        "facts": _facts(tree, nodes),
        "profile": [profile_json(node.evaluation) if node.evaluation else None for node in nodes],
        "sources": [changed_lines(nodes[0], node) for node in nodes[1:]],
    }


def _row(name: str, cells: list[str]) -> Json:
    known = {cell for cell in cells if cell != "–"}
    return {"name": name, "cells": cells, "differs": len(known) > 1 or (len(known) == 1 and "–" in cells)}


def _techniques(nodes: list[Node]) -> list[Json]:
    vectors = [dict(node.vector) for node in nodes]
    names = dict.fromkeys(name for vector in vectors for name in vector)
    return [_row(teaching(name).title, [vector.get(name, "–") for vector in vectors]) for name in names]


def _times(nodes: list[Node]) -> list[Json]:
    """A row a declared case: time and speedup of every branch, and numbers to draw bars from."""
    timed = [{t.case: t for t in node.evaluation.times} if node.evaluation else {} for node in nodes]
    rows = []
    for case in dict.fromkeys(case for times in timed for case in times):
        found = [times.get(case) for times in timed]
        known = [time_json(time) if time else None for time in found]
        cells = [f"{time['time']}, {time['speedup']}" if time else "–" for time in known]
        times_us = [time.time_us if time else None for time in found]
        rows.append({**_row(case, cells), "times_us": times_us})
    return rows


def _facts(tree: Tree, nodes: list[Node]) -> list[Json]:
    entries = [_found(tree, node) for node in nodes]
    names = dict.fromkeys(name for entry in entries for name in entry)
    return [_row(name, [entry.get(name, "–") for entry in entries]) for name in names]


def _found(tree: Tree, node: Node) -> dict[str, str]:
    """Numbers of one branch by their names; empty before it is judged."""
    evaluation = node.evaluation
    if evaluation is None:
        return {}
    report, worst = compile_json(evaluation, launched(tree, node)), worst_difference(evaluation)
    found: dict[str, str] = {}
    if report:
        kernels = report["kernels"]
        found["registers"] = _each(str(kernel["registers"]) for kernel in kernels)
        found["shared memory"] = _each(kernel["shared"] for kernel in kernels)
        found["spilled bytes"] = _each(str(kernel["spill_bytes"]) for kernel in kernels)
        if occupied := [k["occupancy"] for k in kernels if k["occupancy"]]:
            found["occupancy"] = _each(f"{one['percent']}%, {one['limit']}" for one in occupied)
    if evaluation.facts:
        found["launches"] = str(evaluation.facts[0].launches)
    if evaluation.counts:
        found["32-byte sectors"] = count_text(evaluation.counts[-1].sectors)
    if worst:
        found["largest error"] = f"{worst['max_abs_text']}, {worst['allowed']}"
    return found


def _each(values: Iterable[str]) -> str:
    """The values of several kernels in their order, once where all are the same."""
    found = list(values)
    return found[0] if len(set(found)) == 1 else " / ".join(found)
