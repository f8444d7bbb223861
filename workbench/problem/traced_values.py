"""Sizes and layouts of what an export has traced.

Reads the metadata of a traced graph's values; never the values themselves.
"""

from __future__ import annotations

from typing import Any

import sympy
import torch
from torch import Tensor, fx

from workbench.problem.layout import Order, memory_order

_VIEWS = ("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default")


def hint(size: Any) -> int:
    """A size in the tensors that were traced."""
    value = size.meta["val"] if isinstance(size, fx.Node) else size
    return int(value.node.hint if isinstance(value, torch.SymInt) else value)


def sizes_said(node: fx.Node) -> dict[sympy.Expr, sympy.Integer]:
    """Sizes of a view that the reference has as numbers, by what the export has made of them.

    Of ``x.view(-1, 8)`` the export says that the second axis is all elements over the number of rows, which
    is 8 where there are rows of eight, and elsewhere the reference fails.
    """
    if str(node.target) not in _VIEWS or not isinstance(node.args[1], (list, tuple)):
        return {}
    return {
        size.node.expr: sympy.Integer(said)
        for said, size in zip(node.args[1], node.meta["val"].shape, strict=True)
        if isinstance(said, int)
        and said > 0
        and isinstance(size, torch.SymInt)
        and _is_divided(size.node.expr)
    }


def _is_divided(expression: sympy.Expr) -> bool:
    return any(
        type(part).__name__ in ("FloorDiv", "CleanDiv") for part in sympy.preorder_traversal(expression)
    )


def parted_by_others(expression: sympy.Expr) -> bool:
    """True where a size is divided by what is made of another tensor's, as tokens by half the rows
    of an image.

    That these divide those the reference knows, and no expression. Of heads over groups, two sizes as they
    are, a plan asks that nothing is left over.
    """
    return any(
        type(part).__name__ in ("FloorDiv", "CleanDiv")
        and not (part.args[1].is_Symbol or part.args[1].is_number)
        and not part.args[0].free_symbols & part.args[1].free_symbols
        for part in sympy.preorder_traversal(expression)
    )


def order_of(value: Any) -> Order:
    """How a traced tensor lies in memory; None for what is row-major, depends on values, or is no tensor."""
    if not isinstance(value, Tensor) or value.layout is not torch.strided:
        return None
    numbers = (*value.shape, *value.stride())
    if any(isinstance(number, torch.SymInt) and not number.node.has_hint() for number in numbers):
        return None
    return memory_order([hint(size) for size in value.shape], [hint(step) for step in value.stride()])


def as_it_lies(node: fx.Node) -> bool:
    """True for an ``as_strided`` that sees the same elements: only axes of size one get other strides."""
    source, seen = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    shape = [hint(size) for size in seen.shape]
    if [hint(size) for size in source.shape] != shape:
        return False
    steps = zip(shape, source.stride(), seen.stride(), strict=True)
    same = all(size == 1 or hint(old) == hint(new) for size, old, new in steps)
    return same and hint(source.storage_offset()) == hint(seen.storage_offset())
