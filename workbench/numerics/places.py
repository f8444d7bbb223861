"""Places among sorted values, ``searchsorted`` and ``bucketize``, and what is looked up at a place in doubt.

A running total of chances is rounded, and so is the number that is looked up in it: one that lies where two
chances meet falls to either. Owns how far such a place may be off, and what that makes of an element found
there. Never decides whether an index is right, which compare.py does.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from workbench.model import DType
from workbench.numerics.dtypes import TORCH
from workbench.numerics.tracked import Step, Tracked, deviation, exact

NEAR = 4
"""Places beside the right one that are looked up one by one; beyond that any element may come."""


def place_among(
    search: Callable[[Tensor, Tensor], Tensor], edges: Tracked, values: Tracked, dtype: DType
) -> Tracked:
    """``search(edges, values)``, where either may be off.

    A place is the number of edges below a value: the least if all of them lie as high as they may and the
    value as low, the most the other way round. Edges that may pass one another stay sorted.
    """
    sorted_edges, looked_up = edges.value.to(torch.float64), values.value.to(torch.float64)
    index = search(sorted_edges, looked_up).to(TORCH[dtype])
    if (edges.is_exact and values.is_exact) or not sorted_edges.numel():
        return exact(index, dtype)
    high = (sorted_edges + edges.error).cummax(-1).values
    low = (sorted_edges - edges.error).flip(-1).cummin(-1).values.flip(-1)
    least, most = search(high, looked_up - values.error), search(low, looked_up + values.error)
    down, up = ((index - least).to(torch.float64), (most - index).to(torch.float64))
    off = torch.maximum(down, up)
    distance = _to_nearest(sorted_edges, index.to(torch.int64), looked_up)
    return Tracked(index, torch.zeros_like(off), off, dtype, step=Step(down, up, distance))


def _to_nearest(edges: Tensor, index: Tensor, values: Tensor) -> Tensor:
    """From values to the edge before or behind their place."""
    flat = edges.dim() == 1
    last = edges.shape[-1] - 1

    def edge(at: Tensor) -> Tensor:
        at = at.clamp(0, last)
        return edges[at] if flat else edges.gather(-1, at)

    return torch.minimum((edge(index - 1) - values).abs(), (edge(index) - values).abs())


def swing_beside(
    look_up: Callable[[Tensor], Tensor], index: Tracked, source: Tensor, axis: int, found: Tensor
) -> Tensor | None:
    """How far elements lie from those that ``look_up`` finds in ``source`` some places beside along ``axis``.

    None where its elements neither rise nor fall all along and places are not known to be within ``NEAR`` of
    the right one.
    """
    off = torch.zeros(found.shape, dtype=torch.float64, device=found.device)
    if not index.value.numel():
        return off
    if bool((index.value < 0).any()):
        return None
    farthest, last = max(float(index.down.max()), float(index.up.max())), source.shape[axis] - 1
    if index.tie is None and _is_monotonic(source, axis):
        ends = index.value - index.down, index.value + index.up
        looked_up = [look_up(end.clamp(0, last).to(index.value.dtype)) for end in ends]
    elif index.step is not None and farthest <= NEAR:
        sides = [(far, side) for far in range(1, int(farthest) + 1) for side in (-1, 1)]
        looked_up = [look_up(_moved_by(index, far, side, last)) for far, side in sides]
    else:
        return None
    for other in looked_up:
        off = torch.maximum(off, deviation(found, other))
    return off.nan_to_num(torch.inf, torch.inf)


def _moved_by(index: Tracked, far: int, side: int, last: int) -> Tensor:
    """Places that lie so far beside, where they may."""
    allowed = index.down if side < 0 else index.up
    return torch.where(allowed >= far, (index.value + side * far).clamp(0, last), index.value)


def _is_monotonic(values: Tensor, axis: int) -> bool:
    """Nothing lies beyond what the ends of a part have: a sort's results, running totals of chances."""
    apart = values.to(torch.float64).diff(dim=axis)
    return bool((apart >= 0).all()) or bool((apart <= 0).all())
