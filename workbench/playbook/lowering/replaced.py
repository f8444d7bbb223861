"""Tensors of which a part is replaced: a slice, what a mask names, a few places along an axis.

Owns how each becomes a choice an element makes where it is used, so that neither a copy nor a launch is spent
on it. Returns False for what it does not cover: places that only data counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

from workbench.model import Arg, OpNode, Ref, Sym
from workbench.playbook.ir.expr import Expr
from workbench.playbook.ir.operations import constant
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.ir.views import Axis, View, joined, merged, runs
from workbench.playbook.lowering.movement import keep_axes, looked_up
from workbench.playbook.lowering.pieces import one_stride
from workbench.playbook.lowering.windows import integer

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering, Value


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none."""
    rule = _RULES.get(node.op)
    return rule is not None and rule(lowering, node)


def _slice_scatter(lowering: Lowering, node: OpNode) -> bool:
    """A slice replaced: every element is read from where it comes from."""
    into, piece = lowering.value(node.args[0]), lowering.value(node.args[1])
    axis = node.args[2] if len(node.args) > 2 else 0
    start = node.args[3] if len(node.args) > 3 else 0
    step = node.args[5] if len(node.args) > 5 else 1
    if not isinstance(axis, int) or not isinstance(step, int):
        return False
    axis %= len(into.shape)
    first = _from(lowering, start, into.shape[axis])
    if first is None:
        return False
    pool, shape = lowering.pool, into.shape
    position = _position(lowering, shape, axis)
    end = first + (piece.shape[axis] + number(-1)) * number(step) + ONE
    tests = [
        pool.apply(op, "bool", (position, pool.const(at.dim, "i32")))
        for op, at, always in (("ge", first, first.is_zero), ("lt", end, end == shape[axis]))
        if not always
    ]
    if step == 1:
        seen = lowering.through(piece, _shifted(piece.shape, axis, first, shape[axis]), shape).expr
    else:
        past = position if first.is_zero else pool.apply("sub", "i32", (position, integer(lowering, first)))
        by = pool.const(step, "i32")
        left = pool.apply("fmod", "i32", (past, by))
        tests.append(pool.apply("eq", "bool", (left, pool.const(0, "i32"))))
        place = pool.apply("cast", "i64", (pool.apply("div", "i32", (past, by)),))
        seen = looked_up(lowering, piece, place, axis, keep_axes(piece.shape, shape, axis))
    if not tests:  # nothing of the old tensor is left
        lowering.keep_expr(node, seen)
        return True
    inside = reduce(lambda one, other: pool.apply("and", "bool", (one, other)), tests)
    lowering.keep_expr(node, pool.apply("select", into.expr.dtype, (inside, seen, into.expr)))
    return True


def _shifted(own: tuple[Size, ...], axis: int, first: Size, size: Size) -> Callable[[View], View]:
    """A slice seen from the tensor it is put into: valid only at its own indices."""

    def change(view: View) -> View:
        parts = list(runs(view, own))
        stride = one_stride(parts[axis])
        parts[axis] = (Axis(size, stride),)
        return joined(tuple(parts), view.offset + -(first * stride))

    return change


def _masked(lowering: Lowering, node: OpNode) -> bool:
    """``x[mask] = number``: each element is its own or the number."""
    into, given = lowering.value(node.args[0]), node.args[1]
    adds = len(node.args) > 3 and bool(node.args[3])
    if adds or not isinstance(given, tuple) or len(given) != 1 or given[0] is None:
        return False
    mask, put = lowering.value(given[0]), lowering.value(node.args[2])
    if mask.dtype != "bool" or not product(put.shape).is_one or mask.shape != into.shape[: len(mask.shape)]:
        return False
    pool, shape = lowering.pool, into.shape
    wide = type(mask)((*mask.shape, *(ONE for _ in shape[len(mask.shape) :])), mask.dtype, mask.expr)
    one = type(put)((ONE,) * len(shape), put.dtype, put.expr)
    where = lowering.broadcast(wide, shape).expr
    new = lowering.cast(lowering.broadcast(one, shape).expr, into.expr.dtype)
    lowering.keep_expr(node, pool.apply("where", into.expr.dtype, (where, new, into.expr)))
    return True


_MOST_PLACES = 8
"""Places along an axis up to which every element looks whether it is one of them."""


def _scatter(lowering: Lowering, node: OpNode) -> bool:
    """A few places along an axis get other values: an element asks of each whether it is that place."""
    into, index = lowering.value(node.args[0]), lowering.value(node.args[2])
    axis, adds = node.args[1], node.op.startswith("aten.scatter_add")
    if not isinstance(axis, int) or not into.shape or node.kwargs or len(node.args) != 4:
        return False
    axis %= len(into.shape)
    count = index.shape[axis].number
    if count is None or count > _MOST_PLACES:
        return False
    source = lowering.value(node.args[3]) if isinstance(node.args[3], Ref) else None
    pool, shape, dtype = lowering.pool, into.shape, into.expr.dtype
    position = lowering.cast(_position(lowering, shape, axis), index.expr.dtype)
    result = into.expr
    for turn in range(count):
        here = pool.apply("eq", "bool", (position, _one_place(lowering, index, axis, turn, shape)))
        if source is not None:
            new = lowering.cast(_one_place(lowering, source, axis, turn, shape), dtype)
        else:
            new = constant(pool, node.args[3], dtype)
        if adds:
            new = pool.apply("add", dtype, (result, new))
        result = pool.apply("where", dtype, (here, new, result))
    reached = [
        pool.apply("lt", "bool", (_position(lowering, shape, i), integer(lowering, size)))
        for i, size in enumerate(index.shape)
        if i != axis and size != shape[i]
    ]
    if reached:  # rows that the index does not have stay as they are
        inside = reduce(lambda one, other: pool.apply("and", "bool", (one, other)), reached)
        result = pool.apply("select", dtype, (inside, result, into.expr))
    lowering.keep_expr(node, result)
    return True


def _position(lowering: Lowering, shape: tuple[Size, ...], axis: int) -> Expr:
    """Where along an axis an element is."""
    places = tuple(Axis(size, ONE if i == axis else ZERO) for i, size in enumerate(shape))
    return lowering.pool.index(merged(View(places)), "i32")


def _one_place(lowering: Lowering, value: Value, axis: int, turn: int, shape: tuple[Size, ...]) -> Expr:
    """One slice along an axis, the same for every place of the axis in ``shape``."""

    def change(view: View) -> View:
        parts = list(runs(view, value.shape))
        start = one_stride(parts[axis]) * number(turn)
        for i, size in enumerate(shape):
            if i == axis:
                parts[i] = (Axis(size, ZERO),)
            elif value.shape[i] != size:
                parts[i] = (Axis(size, one_stride(parts[i])),)
        return joined(tuple(parts), view.offset + start)

    return lowering.through(value, change, shape).expr


def _from(lowering: Lowering, start: Arg, size: Size) -> Size | None:
    if start is None:
        return ZERO
    if isinstance(start, int) and start < 0:
        return size + number(start)
    return lowering.sizes.read(start) if isinstance(start, int | Sym) else None


Rule = Callable[["Lowering", OpNode], bool]

_RULES: dict[str, Rule] = {
    "aten.slice_scatter.default": _slice_scatter,
    "aten.index_put.default": _masked,
    "aten.scatter.src": _scatter,
    "aten.scatter.value": _scatter,
    "aten.scatter_add.default": _scatter,
}
