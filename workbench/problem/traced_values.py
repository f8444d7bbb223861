"""Sizes and layouts of what an export has traced.

Reads the metadata of a traced graph's values; never the values themselves.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from workbench.problem.layout import Order, memory_order


def hint(size: Any) -> int:
    """A size in the tensors that were traced."""
    value = size.meta["val"] if isinstance(size, fx.Node) else size
    return int(value.node.hint if isinstance(value, torch.SymInt) else value)


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
