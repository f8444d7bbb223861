"""Matrix products with a single row or column, as products and sums of elements.

Owns when a product is one: it then moves its operands once and computes next to nothing, so that it is a
reduction like any other and what comes before and after joins it. Larger products stay with the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.model import OpNode, Ref

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering

_PRODUCTS = {"aten.mm.default": 2, "aten.bmm.default": 3}
"""Axes of the operands, by operation."""


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a product of a matrix with a vector; False when the node is none.

    Operation by operation, without fusion, such a product stays a library call.
    """
    ndim = _PRODUCTS.get(node.op)
    if ndim is None or not lowering.fuse:
        return False
    *batch, rows, columns = node.outs[0].dims
    left, right = node.args[:2]
    if 1 not in (rows, columns) or not isinstance(left, Ref) or not isinstance(right, Ref):
        return False
    size = lowering.value(left).shape[-1]
    depth = size.dim
    turn = (*range(ndim - 2), ndim - 1, ndim - 2)
    if columns == 1:
        right = lowering.on_the_way(node, "aten.permute.default", (right, turn), (*batch, 1, depth))
        wide, axis = (*batch, rows, depth), ndim - 1
    else:
        left = lowering.on_the_way(node, "aten.permute.default", (left, turn), (*batch, depth, 1))
        wide, axis = (*batch, depth, columns), ndim - 2
    products = lowering.on_the_way(node, "aten.mul.Tensor", (left, right), wide)
    lowering.node(node.model_copy(update={"op": "aten.sum.dim_IntList", "args": (products, (axis,), True)}))
    return True
