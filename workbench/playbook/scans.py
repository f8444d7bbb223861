"""Running totals of the graph as scans along the columns of a (rows, columns) space.

Owns which operations are scans and how a flip on both sides becomes a scan from the end. Never decides
who computes a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.model import Arg, DType, OpNode, Ref
from workbench.playbook.expr import Expr, Reduction, leaves
from workbench.playbook.movement import flipped
from workbench.playbook.operations import compute_type
from workbench.playbook.program import Scan
from workbench.playbook.sizes import Size, product
from workbench.playbook.views import contiguous, permuted

if TYPE_CHECKING:
    from workbench.playbook.lowering import Lowering, Value

_OPS = {"aten.cumsum.default": "sum", "aten.cumprod.default": "prod"}
_TYPES: tuple[DType, ...] = ("f32", "f64", "i32", "i64")


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a running sum or product; False when the node is none."""
    if node.op not in _OPS or not isinstance(node.args[1], int):
        return False
    value = lowering.value(node.args[0])
    dtype = compute_type(node.outs[0].dtype)
    if not value.shape or dtype not in _TYPES:
        return False
    axis = node.args[1] % len(value.shape)
    turned = _is_flip(lowering.nodes.get(_name(node.args[0])), axis, len(value.shape))
    after = lowering.only_user(node.name)
    backwards = turned and after is not None and _is_flip(after, axis, len(value.shape))
    if backwards:
        value = _flipped(lowering, value, axis)
    shape = value.shape
    rows, columns = product(shape) // shape[axis], shape[axis]
    if columns.is_one:
        lowering.keep_expr(node, lowering.cast(value.expr, dtype))
        return True
    order = [*(i for i in range(len(shape)) if i != axis), axis]
    body = _body(lowering, value, order, dtype)
    buffer = lowering.new_buffer(node.name, node.outs[0].dtype, shape)
    where = permuted(contiguous(shape), shape, order)
    lowering.scan(Scan(_OPS[node.op], body, rows, columns, buffer, where, backwards))
    result = lowering.loaded(buffer)
    lowering.keep_view(node, _flipped(lowering, result, axis) if backwards else result)
    return True


def _name(arg: Arg) -> str:
    return arg.ref if isinstance(arg, Ref) else ""


def _is_flip(node: OpNode | None, axis: int, ndim: int) -> bool:
    if node is None or node.op not in ("aten.flip.default", "prims.rev.default"):
        return False
    axes = node.args[1]
    return isinstance(axes, tuple) and [a % ndim for a in axes if isinstance(a, int)] == [axis]


def _flipped(lowering: Lowering, value: Value, axis: int) -> Value:
    return lowering.through(value, flipped(value.shape, axis), value.shape)


def _body(lowering: Lowering, value: Value, order: list[int], dtype: DType) -> Expr:
    """The scanned values with the scanned axis last; what is reduced on the way is written out first."""
    shape: tuple[Size, ...] = tuple(value.shape[i] for i in order)
    if any(isinstance(leaf, Reduction) for leaf in leaves(value.expr)):
        value = lowering.loaded(lowering.write(value, "scanned"))
    moved = lowering.through(value, lambda view: permuted(view, value.shape, order), shape)
    return lowering.cast(moved.expr, dtype)
