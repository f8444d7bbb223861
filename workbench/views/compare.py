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
    columns = [column(tree, node) for node in nodes]
    best = tree.best()
    return {
        "branches": [row_json(tree, node, best) for node in nodes],
        "techniques": _rows([made["techniques"] for made in columns]),
        "times": _rows([made["times"] for made in columns], with_times=True),
        "facts": _rows([made["facts"] for made in columns]),
        "profile": [made["profile"] for made in columns],
        "sources": [changed_lines(nodes[0], node) for node in nodes[1:]],
    }


def column(tree: Tree, node: Node) -> Json:
    """What one branch brings to a comparison: entries of name and text, of a time also microseconds.

    The page that can be clicked through puts the same columns beside each other by itself.
    """
    evaluation = node.evaluation
    times = [time_json(time) for time in evaluation.times] if evaluation else []
    return {
        "techniques": [[teaching(name).title, value] for name, value in node.vector],
        "times": [[time["case"], f"{time['time']}, {time['speedup']}", time["time_us"]] for time in times],
        "facts": [list(entry) for entry in _found(tree, node).items()],
        "profile": profile_json(evaluation) if evaluation else None,
    }


def _rows(columns: list[list[list[Any]]], with_times: bool = False) -> list[Json]:
    """A row a name, in the order in which names first come up; a dash where a branch lacks it."""
    known = [{entry[0]: entry for entry in entries} for entries in columns]
    rows = []
    for name in dict.fromkeys(entry[0] for entries in columns for entry in entries):
        found = [entries.get(name) for entries in known]
        row = _row(name, [entry[1] if entry else "–" for entry in found])
        rows.append(
            {**row, "times_us": [entry[2] if entry else None for entry in found]} if with_times else row
        )
    return rows


def _row(name: str, cells: list[str]) -> Json:
    known = {cell for cell in cells if cell != "–"}
    return {"name": name, "cells": cells, "differs": len(known) > 1 or (len(known) == 1 and "–" in cells)}


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
