"""Medians and the like of few elements as elements of a sort, which a plan puts in order by a network.

Owns how; decompositions.py has the table, and unchecked.py what stands for a function in an export. Of rows
of more elements, or of a size that varies, medians stay whole, which a library finds without a sort; a
quantile is two elements of one, as torch has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy
import torch
from torch import Tensor

from workbench.problem.few_axes import SORTED

aten = torch.ops.aten
_WHOLE: Mapping[str, Callable[[float], float]] = {
    "linear": float, "midpoint": float, "lower": math.floor, "higher": math.ceil, "nearest": round
}  # fmt: skip
"""The place that is asked for, by the name of an interpolation."""


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


def quantile(
    x: Tensor, q: float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Any:
    """What a share ``q`` of the elements is below, between the two that are next to it; NaN where one is."""
    if dim is None or x.dim() == 0:
        return NotImplemented
    if not isinstance(x.shape[dim], int):
        return _of_any_size(x, q, dim, keepdim, interpolation)
    last = x.shape[dim] - 1
    # Which whole place it is may be a matter of rounding: torch computes it in the elements' own type.
    is_whole, wide = interpolation not in ("linear", "midpoint"), x.dtype == torch.float64
    rank = _WHOLE[interpolation](
        q * last if wide or not is_whole else float(numpy.float32(q) * numpy.float32(last))
    )
    below = math.floor(rank)
    pair = aten.sort.default(x, dim)
    found = _taken(pair, dim, below, keepdim)[0]
    if below < rank:
        above = _taken(pair, dim, below + 1, keepdim)[0]
        found = torch.lerp(found, above, 0.5 if interpolation == "midpoint" else rank - below)
    end = _taken(pair, dim, last, keepdim)[0]
    return torch.where(end.isnan(), end, found)


def quantile_of(input: Tensor, q: Any, dim: int | None = None, keepdim: bool = False, **named: Any) -> Any:
    """In place of ``torch.quantile``, for an export: torch 2.11 asks there whether ``q`` is a share.

    What is no share, or several, is torch's.
    """
    found = NotImplemented
    if isinstance(q, (float, int)) and 0 <= q <= 1 and named.keys() <= {"interpolation"}:
        found = quantile(input, float(q), dim, keepdim, **named)
    return torch.quantile(input, q, dim, keepdim, **named) if found is NotImplemented else found


def _of_any_size(x: Tensor, q: float, dim: int, keepdim: bool, interpolation: str) -> Tensor:
    """The same where the place is computed: such a size enters the arithmetic, and is fixed before long."""
    last = x.shape[dim] - 1
    rank = torch.full((), q, dtype=x.dtype, device=x.device) * last
    rank = {"lower": rank.floor(), "higher": rank.ceil(), "nearest": rank.round()}.get(interpolation, rank)
    values = aten.sort.default(x, dim)[0]
    below, above = (
        values.index_select(dim, one.to(torch.int64).reshape(1)) for one in (rank.floor(), rank.ceil())
    )
    weight = torch.full_like(rank, 0.5) if interpolation == "midpoint" else rank - rank.floor()
    end = values.narrow(dim, last, 1)
    found = torch.where(end.isnan(), end, torch.lerp(below, above, weight))
    return found if keepdim else found.squeeze(dim)


def _is_few(x: Tensor, dim: int) -> bool:
    return x.dim() > 0 and isinstance(x.shape[dim], int) and x.shape[dim] <= SORTED


def _taken(pair: tuple[Tensor, Tensor], dim: int, place: int, keepdim: bool) -> tuple[Tensor, ...]:
    found = tuple(each.select(dim, place) for each in pair)
    return tuple(each.unsqueeze(dim) for each in found) if keepdim else found
