"""Axes that an adaptive pool cuts into windows of one size: a pool like any other, where the sizes are known.

While an axis may have any size, its windows begin and end at places that are computed, and may overlap. Owns
which axes are fixed so that they do not.
"""

from __future__ import annotations

import re

from workbench.model import Dim, Problem, Ref, size_of

_POOLS = re.compile(r"_?adaptive_(avg|max)_pool[123]d")


def equal_windows(problem: Problem) -> tuple[tuple[str, int], ...]:
    """Axes of inputs, by name and place, that adaptive pools of every declared case cut into equal windows.

    Those alone whose sizes are the same in every declared case; not where one window takes in all.
    """
    nodes = {node.name: node.outs for node in problem.graph.nodes}
    given: dict[str, tuple[Dim, ...]] = {spec.name: spec.dims for spec in problem.tensors}
    found = set[str]()
    for node in problem.graph.nodes:
        if not _POOLS.fullmatch(node.base_name) or not isinstance(node.args[0], Ref):
            continue
        name = node.args[0].ref
        shape = nodes[name][0].dims if name in nodes else given.get(name, ())
        wanted = node.args[1] if isinstance(node.args[1], tuple) else (node.args[1],)
        for dim, windows in zip(shape[len(shape) - len(wanted) :], wanted, strict=False):
            if isinstance(dim, str) and isinstance(windows, int) and _cut_evenly(problem, dim, windows):
                found.update(re.findall(r"[A-Za-z_]\w*", dim))
    return tuple(
        (spec.name, axis) for spec in problem.tensors for axis, dim in enumerate(spec.dims) if dim in found
    )


def _cut_evenly(problem: Problem, dim: Dim, windows: int) -> bool:
    sizes = {size_of(dim, dict(case.sizes)) for case in problem.cases}
    return len(sizes) == 1 and windows > 1 and all(size % windows == 0 for size in sizes)
