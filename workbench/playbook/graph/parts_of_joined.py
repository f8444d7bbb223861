"""An element of a concatenation at a known place is an element of one of its parts.

Owns the rule, which nothing speaks against: it is no technique. What is put beside one another only to be
taken apart again, as the results of a sort whose middle is a median, is neither written nor chosen at run
time, and what nobody takes is not computed.
"""

from __future__ import annotations

from functools import lru_cache

from workbench.model import Dim, OpNode, Ref
from workbench.playbook.graph.elements import Elements, from_the_front, is_in_steps_of_one, joined_along
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.graph.joined_last import stacked_along

_CAT, _VIEW = "aten.cat.default", "aten.view.default"
_SELECT, _SLICE = "aten.select.int", "aten.slice.Tensor"


def parts_of_joined(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``cat(parts)[place]`` and ``stack(parts)[place]``; ``cat(parts)[start:end]`` of single elements."""
    match node:
        case OpNode(op=op, args=(Ref() as joined, int() as axis, int() as place)) if op == _SELECT:
            element = _element(edit, joined, axis, place)
            changed = {"op": "aten.alias.default", "args": (element,), "kwargs": ()}
            return node.model_copy(update=changed) if element is not None else None
        case OpNode(op=op, args=(Ref() as joined, int() as axis, int() as start, *_)) if op == _SLICE:
            axis %= len(edit.spec(joined).dims)
            count, first = node.outs[0].dims[axis], from_the_front(edit, joined, axis, start)
            if not is_in_steps_of_one(node) or not isinstance(count, int) or first is None or not count:
                return None
            if count == 1:
                element = _element(edit, joined, axis, first)
                viewed = {"op": _VIEW, "args": (element, shape_of(node.outs[0].dims)), "kwargs": ()}
                return node.model_copy(update=viewed) if element is not None else None
            parts = list[Ref]()
            for at in range(count):
                part = _part(edit, joined, axis, first + at)
                if part is None:
                    return None
                parts.append(part)
            return node.model_copy(update={"op": _CAT, "args": (tuple(parts), axis), "kwargs": ()})
    return None


def _element(edit: GraphEdit, joined: Ref, axis: int, place: int) -> Ref | None:
    """Without the axis."""
    rank = len(edit.spec(joined).dims)
    first = from_the_front(edit, joined, axis % rank, place)
    places = tuple(first if at == axis % rank else None for at in range(rank))
    return None if first is None else _elements(edit).at(joined, places)


@lru_cache(maxsize=1)
def _elements(edit: GraphEdit) -> Elements:
    return Elements(edit)


def _part(edit: GraphEdit, ref: Ref, axis: int, place: int) -> Ref | None:
    """The part that is one element along ``axis``, at this place; None where there is none."""
    place_at, made = from_the_front(edit, ref, axis, place), edit.made(ref)
    if made is None or place_at is None:
        return None
    match made:
        case OpNode(op=op, args=((*parts,), *_)) if op == _CAT and joined_along(made) == axis:
            for part in parts:
                assert isinstance(part, Ref)
                count = edit.spec(part).dims[axis]
                if not isinstance(count, int):
                    return None
                if place_at < count:
                    found = part if count == 1 else _part(edit, part, axis, place_at)
                    # Parts may be of several types.
                    return None if found is None else edit.converted(found, made.outs[0].dtype)
                place_at -= count
        case OpNode(op=op) if op == _VIEW:
            stacked = stacked_along(edit, made, axis - len(made.outs[0].dims))
            if not stacked:
                return None
            one = edit.view(stacked[place_at], _with_axis(edit, stacked[0], axis, 1))
            return edit.converted(one, made.outs[0].dtype)
        case OpNode(op=op, args=(Ref() as of, int() as along, int() as start, *_)) if op == _SLICE:
            first = from_the_front(edit, of, axis, start)
            if along % len(made.outs[0].dims) == axis and is_in_steps_of_one(made) and first is not None:
                return _part(edit, of, axis, first + place_at)
    return None


def _with_axis(edit: GraphEdit, ref: Ref, axis: int, size: int) -> tuple[Dim, ...]:
    dims = edit.spec(ref).dims
    return (*dims[:axis], size, *dims[axis:])
