"""Diagonals, sliding windows, tensors stepped through as they lie.

Owns how each becomes a change of views. Returns False for what it does not cover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.model import Arg, OpNode, Ref, Sym
from workbench.playbook.ir.operations import compute_type
from workbench.playbook.ir.sizes import ZERO, Size, number
from workbench.playbook.ir.views import Axis, NotAView, View, joined, merged, runs

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none."""
    rule = _RULES.get(node.op)
    return rule is not None and rule(lowering, node)


def one_stride(part: tuple[Axis, ...]) -> Size:
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
        along = Axis(shape[-1], one_stride(parts[one]) + one_stride(parts[other]))
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
        stride = one_stride(parts[axis])
        parts[axis] = (Axis(shape[axis], stride * number(step)),)
        return joined((*parts, (Axis(number(size), stride),)), view.offset)

    lowering.keep_view(node, lowering.through(value, change, shape))
    return True


def _strided(lowering: Lowering, node: OpNode) -> bool:
    """Any steps through an argument that lies in one piece; of other tensors the storage is not known."""
    source, given = node.args[0], node.args[1:3]
    if not isinstance(source, Ref) or not all(isinstance(part, tuple) for part in given):
        return False
    buffer = lowering.buffers.get(source.ref)
    if buffer is None or buffer.role != "argument" or buffer.strides is not None:
        return False
    start = node.args[3] if len(node.args) > 3 else 0
    steps = [_read(lowering, step) for step in given[1]] if isinstance(given[1], tuple) else []
    first = ZERO if start is None else _read(lowering, start)
    value, shape = lowering.value(source), _shape(lowering, node)

    def change(view: View) -> View:
        axes = tuple((Axis(size, step),) for size, step in zip(shape, steps, strict=True))
        return joined(axes, view.offset + first)

    lowering.keep_view(node, lowering.through(value, change, shape))
    return True


def _read(lowering: Lowering, arg: Arg) -> Size:
    assert isinstance(arg, int | Sym), f"not a size: {arg}"
    return lowering.sizes.read(arg)


def _copy(lowering: Lowering, node: OpNode) -> bool:
    """The source in the shape and type of what it is copied to."""
    shape = _shape(lowering, node)
    source = lowering.broadcast(lowering.value(node.args[1]), shape)
    lowering.keep_expr(node, lowering.cast(source.expr, compute_type(node.outs[0].dtype)))
    return True


Rule = Callable[["Lowering", OpNode], bool]

_RULES: dict[str, Rule] = {
    "aten.diagonal.default": _diagonal,
    "aten.unfold.default": _unfold,
    "aten.as_strided.default": _strided,
    "aten.copy.default": _copy,
}
