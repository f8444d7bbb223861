"""Where integers end that say places: below the size of every axis that they index.

Owns what the op graph tells of it: which inputs come to an index unchanged, and which axes that is into.
Says nothing of places that are computed; those are found out by running the reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from workbench.model import Arg, Dim, OpNode, Problem, Ref
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


def _indexed(node: OpNode) -> Iterator[tuple[Ref, int, Arg]]:
    """What an operation indexes, along which axis, and by what."""
    name, args = node.op.split(".")[1], node.args
    match args:
        case (Ref() as table, int(axis), place, *_) if name in _ALONG:
            yield table, axis, place
        case (Ref() as table, tuple(places), *_) if name in _BY_AXES:
            yield from ((table, axis, place) for axis, place in enumerate(places) if place is not None)
        case (Ref() as table, place, *_) if name == "embedding":
            yield table, 0, place


def _sources(place: Arg, nodes: Mapping[str, OpNode]) -> set[str]:
    """Inputs whose elements are elements of an index: moved, picked or chosen, never computed with."""
    pending, found = [place], set[str]()
    while pending:
        match pending.pop():
            case tuple(several):
                pending += several
            case Ref(ref=name) if name not in nodes:
                found.add(name)
            case Ref(ref=name):
                made = nodes[name]
                kind = made.op.split(".")[1]
                if kind == "where":
                    pending += made.args[1:]
                elif kind in MOVES or kind in _CASTS:
                    pending += made.args[:1]
    return found
