"""Running totals of the graph as scans along the columns of a (rows, columns) space.

Owns which operations are scans and how a flip on both sides becomes a scan from the end. Never decides
who computes a row.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.model import Arg, DType, OpNode, Ref
from workbench.playbook.ir.expr import Expr
from workbench.playbook.ir.operations import compute_type
from workbench.playbook.ir.program import Scan
from workbench.playbook.ir.sizes import Size, product
from workbench.playbook.ir.views import contiguous, permuted
from workbench.playbook.lowering.movement import flipped

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering, Value

_OPS = {
    "aten.cumsum.default": ("sum",),
    "aten.cumprod.default": ("prod",),
    "aten.logcumsumexp.default": ("logsumexp",),
    "aten.cummax.default": ("max", "lastmax"),
    "aten.cummin.default": ("min", "lastmin"),
}
"""Scan of every result."""
_TYPES: tuple[DType, ...] = ("f32", "f64", "i32", "i64")


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a running total; False when the node is none."""
    if node.op not in _OPS or not isinstance(node.args[1], int):
        return False
    value = lowering.value(node.args[0])
    dtype = compute_type(node.outs[0].dtype)
    if not value.shape or dtype not in _TYPES or (dtype not in ("f32", "f64") and "log" in node.op):
        return False
    items = [item for item in range(len(node.outs)) if item in _asked(lowering, node)]
    for item in items:
        _scanned(lowering, node, value, dtype, item)
    return True


def _asked(lowering: Lowering, node: OpNode) -> set[int]:
    """Results that somebody reads."""
    if len(node.outs) == 1:
        return {0}
    return {ref.item or 0 for ref in lowering.used if ref.ref == node.name}


def _scanned(lowering: Lowering, node: OpNode, value: Value, dtype: DType, item: int) -> None:
    """One result of a node."""
    op = _OPS[node.op][item]
    kept = None if len(node.outs) == 1 else item
    axis = _axis(node, value)
    backwards = len(node.outs) == 1 and _is_turned(lowering, node, axis, len(value.shape))
    if backwards:
        value = _flipped(lowering, value, axis)
    shape = value.shape
    rows, columns = product(shape) // shape[axis], shape[axis]
    if columns.is_one:
        alone = lowering.pool.const(0, "i64") if item else lowering.cast(value.expr, dtype)
        lowering.keep_expr(node, alone, kept)
        return
    order = [*(i for i in range(len(shape)) if i != axis), axis]
    body = _body(lowering, value, order, dtype)
    name = node.name if kept is None else f"{node.name}_{item}"
    buffer = lowering.new_buffer(name, node.outs[item].dtype, shape)
    where = permuted(contiguous(shape), shape, order)
    lowering.scan(Scan(op, body, rows, columns, buffer, where, backwards, (shape, tuple(order))))
    result = lowering.loaded(buffer)
    lowering.keep_view(node, _flipped(lowering, result, axis) if backwards else result, kept)


def _axis(node: OpNode, value: Value) -> int:
    axis = node.args[1]
    assert isinstance(axis, int)
    return axis % len(value.shape)


def _is_turned(lowering: Lowering, node: OpNode, axis: int, ndim: int) -> bool:
    """True when the input is turned round, and the only use turns the totals back."""
    after = lowering.only_user(node.name)
    return _is_flip(lowering.nodes.get(_name(node.args[0])), axis, ndim) and _is_flip(after, axis, ndim)


def _name(arg: Arg) -> str:
    return arg.ref if isinstance(arg, Ref) else ""


def _is_flip(node: OpNode | None, axis: int, ndim: int) -> bool:
    if node is None or node.op not in ("aten.flip.default", "prims.rev.default"):
        return False
    axes = node.args[1]
    return isinstance(axes, tuple) and [a % ndim for a in axes if isinstance(a, int)] == [axis]


def _flipped(lowering: Lowering, value: Value, axis: int) -> Value:
    return lowering.through(value, flipped(value.shape, axis), value.shape)


def _without_reductions(lowering: Lowering, value: Value) -> Value:
    """The same, reading from memory what reductions come to.

    A softmax that is scanned has a maximum and a sum a row: to read its input again and those is less than to
    write it, and read it.
    """
    return replace(value, expr=lowering.without_reductions(value.expr))


def _body(lowering: Lowering, value: Value, order: list[int], dtype: DType) -> Expr:
    """The scanned values with the scanned axis last; what is reduced on the way is read, a value a row."""
    shape: tuple[Size, ...] = tuple(value.shape[i] for i in order)
    value = _without_reductions(lowering, value)
    moved = lowering.through(value, lambda view: permuted(view, value.shape, order), shape)
    return lowering.cast(moved.expr, dtype)
