"""Where integers end that say places: below the size of every axis that they index or are counted along.

Owns what the op graph tells of it: which inputs come unchanged to an index, or to a comparison with the
places of an axis, and which axes those are. Says nothing of places that are computed; those are found out by
running the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from workbench.model import Arg, Dim, OpNode, Problem, Ref, size_of
from workbench.numerics.movement import MOVES

_ALONG = frozenset(
    (
        "gather", "index_select", "scatter", "scatter_add", "scatter_reduce", "index_add", "index_copy",
        "index_fill",
    )
)  # fmt: skip
"""Operations on a tensor, an axis of it, and places along that axis."""
_BY_AXES = frozenset(("index", "index_put", "_unsafe_index", "_unsafe_index_put"))
"""Operations on a tensor and a list of places, one for each axis."""
_CASTS = frozenset(("_to_copy", "convert_element_type", "to"))
_BEYOND = {"eq": 0, "ne": 0, "lt": 1, "le": 1, "gt": 1, "ge": 1}
"""Comparisons with a place, and how far behind the last a number may lie: a length may be all of an axis."""


def indexed_sizes(problem: Problem) -> dict[str, tuple[Dim, ...]]:
    """Sizes of the axes that each integer input indexes, as it is; inputs that index none are left out."""
    nodes = {node.name: node for node in problem.graph.nodes}
    dims = {spec.name: spec.dims for spec in problem.tensors}
    dims |= {node.name: node.outs[0].dims for node in problem.graph.nodes}
    whole = {spec.name for spec in problem.tensors if spec.sampler.kind in ("integers", "labels")}
    found: dict[str, dict[Dim, None]] = {}
    for node in problem.graph.nodes:
        for table, axis, place in _indexed(node):
            if not dims[table.ref]:
                continue
            for name in _sources(place, nodes) & whole:
                found.setdefault(name, {})[dims[table.ref][axis]] = None
    return {name: tuple(sizes) for name, sizes in found.items()}


def counted_ends(problem: Problem) -> dict[str, Dim | tuple[Dim, ...]]:
    """Where each integer input ends that is compared: with the places of an axis, as lengths of sequences
    are, or with one another, as the names of items are.

    Drawn from the range that the person's own have, all lengths would lie beyond an axis that is shorter, and
    of a few names no two would be alike.
    """
    nodes = {node.name: node for node in problem.graph.nodes}
    declared = problem.cases[0].size_map
    highs = {spec.name: spec.sampler.high for spec in problem.tensors if spec.sampler.kind == "integers"}
    dims = {spec.name: spec.dims for spec in problem.tensors}
    found: dict[str, Dim | tuple[Dim, ...]] = {}
    for node in problem.graph.nodes:
        beyond = _BEYOND.get(node.base_name)
        if beyond is None:
            continue
        for places, numbers in (node.args[:2], node.args[1::-1]):
            size = _places_of(places, nodes)
            if not isinstance(size, str):
                continue
            end = f"{size} + {beyond}" if beyond else size
            for name in _sources(numbers, nodes) & highs.keys():
                if highs[name] <= size_of(end, declared):
                    found.setdefault(name, end)
        names = [_sources(side, nodes) & highs.keys() for side in node.args[:2]]
        for name in sorted(names[0] | names[-1]) if not beyond and all(names) else ():
            if dims[name] and isinstance(dims[name][-1], str):
                found.setdefault(name, (int(highs[name]), dims[name][-1]))
    return found


def _places_of(arg: Arg, nodes: Mapping[str, OpNode]) -> Dim | None:
    """The size of the axis whose places these are, first to last; None for anything else."""
    while isinstance(arg, Ref) and arg.ref in nodes:
        node = nodes[arg.ref]
        kind = node.base_name
        if kind == "arange":
            whole = node.args[0] == 0 and node.args[2:] in ((), (1,))
            return node.outs[0].dims[0] if whole else None
        if kind not in MOVES and kind not in _CASTS:
            return None
        arg = node.args[0]
    return None


def _indexed(node: OpNode) -> Iterator[tuple[Ref, int, Arg]]:
    """What an operation indexes, along which axis, and by what."""
    name, args = node.base_name, node.args
    match args:
        case (Ref() as table, int(axis), place, *_) if name in _ALONG:
            yield table, axis, place
        case (Ref() as table, tuple(places), *_) if name in _BY_AXES:
            yield from ((table, axis, place) for axis, place in enumerate(places) if place is not None)
        case (Ref() as table, place, *_) if name == "embedding":
            yield table, 0, place


def _sources(place: Arg, nodes: Mapping[str, OpNode]) -> set[str]:
    """Inputs whose elements are elements of an index: moved, picked or chosen, or no less than some number as
    the first page is where there is none; never computed with."""
    pending, found = [place], set[str]()
    while pending:
        match pending.pop():
            case tuple(several):
                pending += several
            case Ref(ref=name) if name not in nodes:
                found.add(name)
            case Ref(ref=name):
                made = nodes[name]
                kind = made.base_name
                if kind == "where":
                    pending += made.args[1:]
                elif kind in MOVES or kind in _CASTS or _raises(made):
                    pending += made.args[:1]
    return found


def _raises(node: OpNode) -> bool:
    """True for ``x.clamp(min=0)``: what is large stays as it is."""
    if node.base_name == "clamp":
        return len(node.args) < 3 or node.args[2] is None
    return node.base_name == "clamp_min"
