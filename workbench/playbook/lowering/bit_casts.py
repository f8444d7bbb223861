"""Bits of one type read as another of the same size: ``x.view(torch.int32)``.

Owns how such a cast becomes an expression. Returns False for what it does not cover: elements of another
size, and bytes read as bools, of which only two patterns are any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.model import DTYPE_BYTES, DType, OpNode
from workbench.playbook.ir.expr import Apply, Expr, Load
from workbench.playbook.ir.operations import compute_type, is_float

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering, Value


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none."""
    if node.op != "aten.view.dtype":
        return False
    value, dtype = lowering.value(node.args[0]), node.outs[0].dtype
    if value.dtype == dtype:
        lowering.keep_view(node, value)
        return True
    if DTYPE_BYTES[value.dtype] != DTYPE_BYTES[dtype] or dtype == "bool":
        return False
    expr = _bits(lowering, value) if is_float(value.dtype) else value.expr
    if is_float(dtype):
        expr = lowering.pool.apply(f"from_bits_{dtype}", compute_type(dtype), (expr,), node.name)
    lowering.keep_expr(node, lowering.cast(expr, compute_type(dtype)))
    return True


def _bits(lowering: Lowering, value: Value) -> Expr:
    """The bits of a float as a whole number of its size.

    Those of an element in memory are loaded as they are: in float32 a half's NaN would lose its own.
    """
    expr, whole = value.expr, _WHOLE[DTYPE_BYTES[value.dtype]]
    if isinstance(expr, Apply) and expr.op == f"from_bits_{value.dtype}":
        return expr.args[0]
    if isinstance(expr, Load):
        buffer = lowering.buffers[expr.buffer]
        if buffer.dtype == value.dtype and buffer.role in ("argument", "library"):
            return lowering.pool.load(expr.buffer, whole, expr.view, expr.lookups)
    return lowering.pool.apply(f"bits_{value.dtype}", whole, (expr,))


_WHOLE: dict[int, DType] = {2: "i16", 4: "i32", 8: "i64"}
