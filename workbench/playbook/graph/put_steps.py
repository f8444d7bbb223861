"""Results that a loop puts at their places one after the other, as one concatenation.

Owns the rule. ``out[:, t] = h`` is exported as a choice: each element of ``out`` is what it was, or ``h``
where its place is ``t``. Of sixty steps that is sixty choices for each element, behind all that the steps
compute. Side by side the values are what they are, each is stored where it belongs, and what reads
``out[:, t]`` in the next step reads ``h``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from workbench.model import Dim, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of

LEAST = 4
"""Values; below that a choice is as short."""


@dataclass(frozen=True)
class Put:
    """A value at one place of an axis of what was there before."""

    axis: int
    place: int
    value: Ref
    before: Ref


def put_steps(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """The last of several such choices, or what is picked out or cut out after one of them."""
    if node.op == "aten.select.int":
        return _picked(edit, node)
    if node.op == "aten.slice.Tensor":
        return _cut(edit, node)
    last = put_at(edit, node)
    if last is None or any(user is not None and _goes_on(edit, user, node) for user in edit.users(node)):
        return None
    count = node.outs[0].dims[last.axis]
    return _side_by_side(edit, node, node, last.axis, range(count)) if isinstance(count, int) else None


def _cut(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``out[:, 1:]``, where some steps have been put."""
    made = edit.made(node.args[0])
    axis, ends = node.args[1] if len(node.args) > 1 else 0, list(node.args[2:])
    start, stop, step = ends + [0, sys.maxsize, 1][len(ends) :]
    if made is None or not isinstance(axis, int) or put_at(edit, made) is None:
        return None
    axis %= len(made.outs[0].dims)
    count = made.outs[0].dims[axis]
    if not (
        isinstance(count, int) and isinstance(start, int) and isinstance(stop, int) and isinstance(step, int)
    ):
        return None
    places = range(count)[start:stop:step]
    return _side_by_side(edit, node, made, axis, places)


def _side_by_side(edit: GraphEdit, node: OpNode, made: OpNode, axis: int, places: range) -> OpNode | None:
    """What lies at these places of an axis after ``made``, where all of it was put or is one number."""
    found: dict[int, Ref] = {}
    base: Ref | None = None
    for put in _chain(edit, made):
        if put.axis != axis:
            return None
        found.setdefault(put.place, put.value)
        base = put.before
    number = edit.constant(base)
    if len(found) < LEAST or (number is None and not found.keys() >= set(places)):
        return None
    out = node.outs[0]
    one = OutputSpec(dtype=out.dtype, dims=(*out.dims[:axis], 1, *out.dims[axis + 1 :]))
    parts = []
    for place in places:
        if place in found:
            flat = OutputSpec(dtype=out.dtype, dims=_without(out.dims, axis))
            parts.append(edit.view(_spread(edit, found[place], flat), one.dims))
        else:
            assert number is not None
            parts.append(edit.add("aten.full.default", (shape_of(one.dims), number), one, "kept"))
    return node.model_copy(update={"op": "aten.cat.default", "args": (tuple(parts), axis), "kwargs": ()})


def _picked(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """``out[:, t]`` as the value that was put there, or of what was there before all that were put."""
    source, axis, place = node.args
    made = edit.made(source)
    if not isinstance(axis, int) or not isinstance(place, int) or made is None:
        return None
    dims = made.outs[0].dims
    axis %= len(dims)
    size, base = dims[axis], source
    if place < 0 and not isinstance(size, int):
        return None
    place = place % size if isinstance(size, int) else place
    for put in _chain(edit, made):
        if put.axis != axis:
            break
        if put.place == place:
            value = _spread(edit, put.value, node.outs[0])
            shape = shape_of(node.outs[0].dims)
            return node.model_copy(update={"op": "aten.view.default", "args": (value, shape)})
        base = put.before
    return None if base is source else node.model_copy(update={"args": (base, axis, place)})


def _chain(edit: GraphEdit, node: OpNode | None) -> Iterator[Put]:
    """What was put, the last first."""
    while node is not None and (put := put_at(edit, node)) is not None:
        yield put
        node = edit.made(put.before)


def put_at(edit: GraphEdit, node: OpNode) -> Put | None:
    """``where(places == t, value, before)``, the value being the same at all places of one axis."""
    if node.op != "aten.where.self":
        return None
    condition, spread, before = node.args
    is_here, expanded = edit.made(condition), edit.made(spread)
    dims = node.outs[0].dims
    if is_here is None or is_here.op != "aten.eq.Scalar" or not isinstance(before, Ref):
        return None
    numbered = edit.made(is_here.args[0])
    place = is_here.args[1]
    if numbered is None or numbered.op != "aten.view.default" or not isinstance(place, int):
        return None
    counted = edit.made(numbered.args[0])
    axes = [axis for axis, size in enumerate(numbered.outs[0].dims) if size != 1]
    if (
        counted is None
        or not _from_zero(counted)
        or len(axes) != 1
        or len(numbered.outs[0].dims) != len(dims)
    ):
        return None
    if edit.spec(before).dims != dims or expanded is None or expanded.op != "aten.expand.default":
        return None
    narrow = edit.made(expanded.args[0])
    if narrow is None or narrow.op != "aten.view.default" or not isinstance(narrow.args[0], Ref):
        return None
    value = narrow.args[0]
    own = _without(dims, axes[0])
    if edit.spec(value).dims != own or narrow.outs[0].dims != (*own[: axes[0]], 1, *own[axes[0] :]):
        return None
    copied = edit.made(value)
    if copied is not None and copied.op == "aten.copy.default" and isinstance(copied.args[1], Ref):
        value = copied.args[1]
    return Put(axes[0], place, value, before)


def _goes_on(edit: GraphEdit, user: OpNode, node: OpNode) -> bool:
    put = put_at(edit, user)
    return put is not None and put.before.ref == node.name


def _from_zero(node: OpNode) -> bool:
    """``arange`` from 0 in steps of one."""
    start, *rest = node.args
    return node.op == "aten.arange.start_step" and start == 0 and rest[1:] in ([], [1])


def _without(dims: tuple[Dim, ...], axis: int) -> tuple[Dim, ...]:
    return (*dims[:axis], *dims[axis + 1 :])


def _spread(edit: GraphEdit, value: Ref, out: OutputSpec) -> Ref:
    """A value as ``copy`` makes it: in the type and the shape of where it goes."""
    value = edit.converted(value, out.dtype)
    if edit.spec(value).dims == out.dims:
        return value
    wide = OutputSpec(dtype=out.dtype, dims=out.dims)
    return edit.add("aten.expand.default", (value, shape_of(out.dims)), wide, "spread")
