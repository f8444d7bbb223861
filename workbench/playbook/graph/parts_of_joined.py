"""An element of a concatenation at a known place is an element of one of its parts.

Owns the rule, which nothing speaks against: it is no technique. What is put beside one another only to be
taken apart again, as the results of a sort whose middle is a median, is neither written nor chosen at run
time, and what nobody takes is not computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.model import Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.graph.joined_last import stacked_along

_CAT, _VIEW = "aten.cat.default", "aten.view.default"
_SELECT, _SLICE = "aten.select.int", "aten.slice.Tensor"


def parts_of_joined(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``cat(parts)[place]`` and ``stack(parts)[place]``; ``cat(parts)[start:end]`` of single elements."""
    match node:
        case OpNode(op=op, args=(Ref() as joined, int() as axis, int() as place)) if op == _SELECT:
            part = _element(edit, joined, axis % len(edit.spec(joined).dims), place)
            shape = shape_of(node.outs[0].dims)
            changed = {"op": "aten.view.default", "args": (part, shape), "kwargs": ()}
            return node.model_copy(update=changed) if part is not None else None
        case OpNode(op=op, args=(Ref() as joined, int() as axis, int() as start, *_)) if op == _SLICE:
            axis %= len(edit.spec(joined).dims)
            count, first = node.outs[0].dims[axis], _from_the_front(edit, joined, axis, start)
            if not _is_in_steps_of_one(node) or not isinstance(count, int) or first is None or not count:
                return None
            parts = list[Ref]()
            for at in range(count):
                part = _element(edit, joined, axis, first + at, whole=True)
                if part is None:
                    return None
                parts.append(part)
            return node.model_copy(update={"op": _CAT, "args": (tuple(parts), axis), "kwargs": ()})
    return None


def _element(edit: GraphEdit, ref: Ref, axis: int, place: int, *, whole: bool = False) -> Ref | None:
    """One element along ``axis``, which stays, of the part that it lies in; with ``whole`` only where that is
    all of the part. None where nothing is joined along the axis."""
    place_at, made = _from_the_front(edit, ref, axis, place), edit.made(ref)
    if made is None or place_at is None:
        return None
    match made:
        case OpNode(op=op, args=((*parts,), *along)) if op == _CAT and _axis(made, along) == axis:
            for part in parts:
                assert isinstance(part, Ref)
                count, dtype = edit.spec(part).dims[axis], made.outs[0].dtype
                if not isinstance(count, int):
                    return None
                if place_at >= count:
                    place_at -= count
                    continue
                found = part if count == 1 else _element(edit, part, axis, place_at, whole=whole)
                if found is None and not whole:
                    found = _taken(edit, part, axis, place_at)
                return (
                    None if found is None else edit.converted(found, dtype)
                )  # parts may be of several types
        case OpNode(op=op) if op == _VIEW:
            stacked = stacked_along(edit, made, axis - len(made.outs[0].dims))
            if not stacked:
                return None
            one = edit.view(stacked[place_at], _with_axis(edit, stacked[0], axis, 1))
            return edit.converted(one, made.outs[0].dtype)
        case OpNode(op=op, args=(Ref() as of, int() as along, int() as start, *_)) if op == _SLICE:
            first = _from_the_front(edit, of, axis, start)
            if along % len(made.outs[0].dims) == axis and _is_in_steps_of_one(made) and first is not None:
                return _element(edit, of, axis, first + place_at, whole=whole)
    return None


def _with_axis(edit: GraphEdit, ref: Ref, axis: int, size: int) -> tuple[Dim, ...]:
    dims = edit.spec(ref).dims
    return (*dims[:axis], size, *dims[axis:])


def _taken(edit: GraphEdit, part: Ref, axis: int, place: int) -> Ref:
    spec = edit.spec(part)
    one = OutputSpec(dtype=spec.dtype, dims=(*spec.dims[:axis], *spec.dims[axis + 1 :]))
    taken = edit.add(_SELECT, (part, axis, place), one, "element")
    return edit.view(taken, (*spec.dims[:axis], 1, *spec.dims[axis + 1 :]))


def _axis(node: OpNode, along: Sequence[object]) -> int:
    axis = along[0] if along else 0
    assert isinstance(axis, int)
    return axis % len(node.outs[0].dims)


def _from_the_front(edit: GraphEdit, ref: Ref, axis: int, place: int) -> int | None:
    """A place counted from the first element; None where it is counted from an end that nobody knows."""
    length = edit.spec(ref).dims[axis]
    if place >= 0:
        return place
    return place + length if isinstance(length, int) else None


def _is_in_steps_of_one(node: OpNode) -> bool:
    return node.args[4:] in ((), (1,)) and dict(node.kwargs).get("step", 1) == 1
