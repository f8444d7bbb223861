"""Elements taken from a short last axis at places that are known: slices, side by side.

A cross product and a roll take coordinates at (0, 1, 2) + 1 modulo 3, which torch computes as a tensor of
indices and looks up. Owns the rule that reads such indices. Never decides how slices are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from operator import add, mod, mul, sub

from workbench.model import Arg, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit
from workbench.problem.few_axes import MOST

_COMPUTED: dict[str, Callable[[int, int], int]] = {
    "add": add,
    "sub": sub,
    "mul": mul,
    "remainder": mod,
    "fmod": lambda one, by: int(math.fmod(one, by)),
}


def constant_places(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``index_select`` along the last axis, of a known length, at up to ``MOST`` places that are numbers."""
    if node.op != "aten.index_select.default":
        return None
    source, axis, index = node.args[:3]
    assert isinstance(source, Ref) and isinstance(axis, int)
    spec = edit.spec(source)
    length, last = spec.dims[-1] if spec.dims else None, len(spec.dims) - 1
    places = _numbers(edit, index)
    if places is None or not isinstance(length, int) or axis % max(len(spec.dims), 1) != last:
        return None
    if not all(0 <= place < length for place in places):
        return None
    pieces = _pieces(places)
    if len(pieces) == 1:
        args: tuple[Arg, ...] = (source, last, *pieces[0])
        return node.model_copy(update={"op": "aten.slice.Tensor", "args": args})
    found = tuple(
        edit.add(
            "aten.slice.Tensor",
            (source, last, start, end),
            OutputSpec(dtype=spec.dtype, dims=(*spec.dims[:-1], end - start)),
            "piece",
        )
        for start, end in pieces
    )
    return node.model_copy(update={"op": "aten.cat.default", "args": (found, last)})


def _pieces(places: list[int]) -> list[tuple[int, int]]:
    """Neighbours that follow one another, as begin and end."""
    breaks = [at for at, (one, other) in enumerate(pairwise(places), 1) if other != one + 1]
    bounds = [0, *breaks, len(places)]
    return [(places[start], places[end - 1] + 1) for start, end in pairwise(bounds)]


def _numbers(edit: GraphEdit, arg: Arg) -> list[int] | None:
    """The elements of a short row of integers that depends on nothing; None for any other tensor."""
    made = edit.made(arg)
    if made is None or len(made.outs[0].dims) != 1:
        return None
    if made.op in ("aten.arange.start_step", "prims.iota.default"):
        return _range(made)
    name = made.base_name
    match made.args:
        case (Ref() as row, int() as by) if name in _COMPUTED and not isinstance(by, bool):
            found = _numbers(edit, row)
            if found is None or made.kwargs or (name in ("remainder", "fmod") and by == 0):
                return None
            return [_COMPUTED[name](one, by) for one in found]
    return None


def _range(made: OpNode) -> list[int] | None:
    if made.op.startswith("prims.iota"):
        keywords = dict(made.kwargs)
        start, step, count = keywords.get("start", 0), keywords.get("step", 1), made.args[0]
    else:
        start, step, count = made.args[0], made.args[2] if len(made.args) > 2 else 1, made.outs[0].dims[0]
    if not (isinstance(start, int) and isinstance(step, int) and isinstance(count, int)):
        return None
    return [start + step * at for at in range(count)] if 0 < count <= MOST else None
