"""Diagonals, sliding windows, tensors with a piece replaced.

Owns how each becomes a change of views, or a choice an element. Returns False for what it does not cover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.model import Arg, OpNode, Sym
from workbench.playbook.operations import compute_type
from workbench.playbook.sizes import ONE, ZERO, Size, number
from workbench.playbook.views import Axis, NotAView, View, joined, merged, runs

if TYPE_CHECKING:
    from workbench.playbook.lowering import Lowering


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none."""
    rule = _RULES.get(node.op)
    return rule is not None and rule(lowering, node)


def _stride(part: tuple[Axis, ...]) -> Size:
    """Elements between neighbours along one logical axis."""
    run = merged(View(part)).axes
    if len(run) > 1:
        raise NotAView
    return run[0].stride if run else ZERO


def _shape(lowering: Lowering, node: OpNode) -> tuple[Size, ...]:
    return lowering.sizes.shape(node.outs[0].dims)


def _diagonal(lowering: Lowering, node: OpNode) -> bool:
    """One axis that steps along two."""
    value = lowering.value(node.args[0])
    given: tuple[Arg, ...] = node.args[1:4]
    defaults: tuple[Arg, ...] = (0, 0, 1)
    offset, first, second = given + defaults[len(given) :]
    if offset != 0 or not isinstance(first, int) or not isinstance(second, int):
        return False
    ndim, shape = len(value.shape), _shape(lowering, node)
    one, other = first % ndim, second % ndim

    def change(view: View) -> View:
        parts = list(runs(view, value.shape))
        along = Axis(shape[-1], _stride(parts[one]) + _stride(parts[other]))
        kept = [part for axis, part in enumerate(parts) if axis not in (one, other)]
        return joined((*kept, (along,)), view.offset)

    lowering.keep_view(node, lowering.through(value, change, shape))
    return True


def _unfold(lowering: Lowering, node: OpNode) -> bool:
    """Windows along an axis, each a slice of it: a further axis with the same stride."""
    value = lowering.value(node.args[0])
    axis, size, step = node.args[1:4]
    if not (isinstance(axis, int) and isinstance(size, int) and isinstance(step, int)) or not value.shape:
        return False
    axis, shape = axis % len(value.shape), _shape(lowering, node)

    def change(view: View) -> View:
        parts = list(runs(view, value.shape))
        stride = _stride(parts[axis])
        parts[axis] = (Axis(shape[axis], stride * number(step)),)
        return joined((*parts, (Axis(number(size), stride),)), view.offset)

    lowering.keep_view(node, lowering.through(value, change, shape))
    return True


def _copy(lowering: Lowering, node: OpNode) -> bool:
    """The source in the shape and type of what it is copied to."""
    shape = _shape(lowering, node)
    source = lowering.broadcast(lowering.value(node.args[1]), shape)
    lowering.keep_expr(node, lowering.cast(source.expr, compute_type(node.outs[0].dtype)))
    return True


def _slice_scatter(lowering: Lowering, node: OpNode) -> bool:
    """A slice replaced: every element is read from where it comes from."""
    into, piece = lowering.value(node.args[0]), lowering.value(node.args[1])
    axis = node.args[2] if len(node.args) > 2 else 0
    start = node.args[3] if len(node.args) > 3 else 0
    if (len(node.args) > 5 and node.args[5] != 1) or not isinstance(axis, int):
        return False
    axis %= len(into.shape)
    first = _from(lowering, start, into.shape[axis])
    if first is None:
        return False
    pool, shape = lowering.pool, into.shape

    def shifted(view: View) -> View:
        parts = list(runs(view, piece.shape))
        stride = _stride(parts[axis])
        parts[axis] = (Axis(shape[axis], stride),)
        return joined(tuple(parts), view.offset + -(first * stride))

    seen = lowering.through(piece, shifted, shape).expr
    places = tuple(Axis(size, ONE if i == axis else ZERO) for i, size in enumerate(shape))
    position = pool.index(merged(View(places)), "i32")
    end = first + piece.shape[axis]
    tests = [
        pool.apply(op, "bool", (position, pool.const(at.text if at.number is None else at.number, "i32")))
        for op, at, always in (("ge", first, first.is_zero), ("lt", end, end == shape[axis]))
        if not always
    ]
    if not tests:  # nothing of the old tensor is left
        lowering.keep_expr(node, seen)
        return True
    inside = tests[0] if len(tests) == 1 else pool.apply("and", "bool", (tests[0], tests[1]))
    lowering.keep_expr(node, pool.apply("select", into.expr.dtype, (inside, seen, into.expr)))
    return True


def _from(lowering: Lowering, start: Arg, size: Size) -> Size | None:
    if start is None:
        return ZERO
    if isinstance(start, int) and start < 0:
        return size + number(start)
    return lowering.sizes.read(start) if isinstance(start, int | Sym) else None


Rule = Callable[["Lowering", OpNode], bool]

_RULES: dict[str, Rule] = {
    "aten.diagonal.default": _diagonal,
    "aten.unfold.default": _unfold,
    "aten.copy.default": _copy,
    "aten.slice_scatter.default": _slice_scatter,
}
