"""Medians and the like of few elements as elements of a sort, which a plan puts in order by a network.

Owns how; decompositions.py has the table. Of rows of more elements, or of a size that varies, they stay
whole: a library finds a median of many without sorting them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import statically_known_true

from workbench.problem.few_axes import SORTED

aten = torch.ops.aten


def median(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """The lower of the two in the middle, or NaN where one is there: values and places."""
    if not _is_few(x, dim):
        return NotImplemented
    values, places = aten.sort.default(x, dim)
    last = x.shape[dim] - 1
    taken = _taken((values, places), dim, last // 2, keepdim)
    if not x.is_floating_point():
        return taken
    ends = _taken((values, places), dim, last, keepdim)
    is_nan = ends[0].isnan()
    return tuple(torch.where(is_nan, end, one) for end, one in zip(ends, taken, strict=True))


def nanmedian(x: Tensor, dim: int, keepdim: bool = False) -> Any:
    """The same of those that are numbers."""
    if not _is_few(x, dim):
        return NotImplemented
    if not x.is_floating_point():
        return median(x, dim, keepdim)
    pair = aten.sort.default(x, dim)
    numbers = (~x.isnan()).sum(dim, keepdim=keepdim)
    found = _taken(pair, dim, 0, keepdim)  # which is NaN where all are
    for place in range(1, (x.shape[dim] - 1) // 2 + 1):
        others = _taken(pair, dim, place, keepdim)
        # Of 2 place + 1 numbers, and one more, this is the lower of the two in the middle.
        here = numbers > 2 * place
        found = tuple(torch.where(here, other, one) for one, other in zip(found, others, strict=True))
    return found


def kth_value(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """The k-th smallest, counted from one; NaN is the largest."""
    return _taken(aten.sort.default(x, dim), dim, k - 1, keepdim) if _is_few(x, dim) else NotImplemented


def _is_few(x: Tensor, dim: int) -> bool:
    return x.dim() > 0 and statically_known_true(x.shape[dim] <= SORTED) and isinstance(x.shape[dim], int)


def _taken(pair: tuple[Tensor, Tensor], dim: int, place: int, keepdim: bool) -> tuple[Tensor, ...]:
    found = tuple(each.select(dim, place) for each in pair)
    return tuple(each.unsqueeze(dim) for each in found) if keepdim else found
