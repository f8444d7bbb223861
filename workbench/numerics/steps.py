"""Operations whose result jumps: rounding to whole numbers, casts to integers, comparisons, signs.

Owns which operations they are, how far a value lies from the edge where its result jumps, and what becomes
of the two sides of a value further on. An element may differ from float64 only where honest arithmetic may
carry the value across that edge, and then by what lies on the other side of it.

Where many elements may, as in bfloat16, whose rounding is a large part of a step, rounding carries some of
them across and not all: their share is bounded as well, by what the reference itself carries across.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from workbench.model.aten_names import COMPARED
from workbench.numerics.chosen_places import is_later, worse_than_chosen
from workbench.numerics.tracked import Step, Tie, Tracked

_WHOLE = frozenset(("floor", "ceil", "trunc", "frac"))
_SIGNED = frozenset(("sign", "signbit"))
STEPS = frozenset((*_WHOLE, *COMPARED, *_SIGNED, "round", "floor_divide", "fmod", "remainder", "copysign"))
"""Results that jump where their operands pass an edge."""
NOISE = 2.0**-40
"""Of a step, what float64 itself may have added: one that became 1 + 1e-16 leads to the next whole number."""


def edge_distance(name: str, args: Sequence[Any]) -> Tensor | None:
    """How far the operands are from where the result of ``name`` jumps; None where that is not known."""
    given = [a.value.to(torch.float64) if isinstance(a, Tracked) else a for a in args]
    first = given[0] if given else None
    if not isinstance(first, Tensor):
        return None
    if name == "round" and len(given) == 1:
        return (first - first.floor() - 0.5).abs()
    if name in _WHOLE:
        return to_whole(first)
    if name in _SIGNED:
        return first.abs()
    if name in COMPARED and len(given) == 2:
        return (first - given[1]).abs()
    return None


def may_be_equal(name: str, args: Sequence[Any]) -> list[Tensor]:
    """1 where numbers that differ may be equal as their errors allow, which neither end of an error shows.

    A place that was chosen by its size is no number give or take some: it may be another that is as good, of
    the places along the axis, as a one-hot code asks, or a label's.
    """
    errors = [one.error for one in args if isinstance(one, Tracked) and not one.is_exact]
    apart = edge_distance(name, args) if name in ("eq", "ne") and errors else None
    if apart is None:
        return []
    pairs = (args[0], args[1]), (args[1], args[0])
    ties = [(one.tie, other) for one, other in pairs if isinstance(one, Tracked) and one.tie is not None]
    near = [_is_as_good(tie, other, apart.shape) for tie, other in ties]
    by_number = apart <= sum(errors[1:], errors[0])
    found = [by_number if one is None else one for one in near] if ties else [by_number]
    return [((apart > 0) & one).to(torch.float64) for one in found]


def _is_as_good(tie: Tie, places: Any, shape: torch.Size) -> Tensor | None:
    """Which of the places that a choice is compared with are as good as the chosen one, in the comparison's
    shape; None where they do not lie as the choice does."""
    source, error, dim = tie.source.to(torch.float64), tie.error, tie.dim
    if dim is None or source.dim() == 0:
        return None
    dim %= source.dim()
    at = torch.as_tensor(places.value if isinstance(places, Tracked) else places)
    at = at.to(source.device, torch.int64).expand(shape)
    laid = _laid_along(tie.index, at, source.dim(), dim)
    at, index = laid.places, laid.chosen
    others = [(*one.shape[:dim], *one.shape[dim + 1 :]) for one in (source, index, at)]
    if len(set(others)) > 1 or index.shape[dim] not in (1, at.shape[dim]):
        return None
    inside = (at >= 0) & (at < source.shape[dim])
    off, slack = worse_than_chosen(source, error, dim, at.clamp(0, source.shape[dim] - 1), index)
    good = inside & (off <= slack) & ~is_later(tie, at, index, off, slack)
    return laid.put_back(good).reshape(shape)


@dataclass(frozen=True)
class _Laid:
    """Places that a choice is compared with, and what was chosen, both along the axis of the choice."""

    places: Tensor
    chosen: Tensor
    put_back: Callable[[Tensor], Tensor]
    """From there to where the comparison has them."""


def _laid_along(index: Tensor, at: Tensor, rank: int, dim: int) -> _Laid:
    """Of one choice a row, whose places are codes along the axis or one each; or of several, whose codes have
    an axis of their own behind all others."""
    if at.dim() == rank + 1 and at.shape[:-1] == index.shape:
        count = at.shape[-1]

        def behind(good: Tensor) -> Tensor:
            each = good.reshape(*good.shape[:dim], -1, count, *good.shape[dim + 1 :])
            return each.movedim(dim + 1, -1)

        along = at.movedim(-1, dim + 1).flatten(dim, dim + 1)
        return _Laid(along, index.repeat_interleave(count, dim), behind)
    if index.dim() < rank:
        at = at.unsqueeze(dim) if at.shape == index.shape else at
        index = index.unsqueeze(dim)
    return _Laid(at, index, lambda good: good)


def to_whole(value: Tensor) -> Tensor:
    """How far values are from the nearest whole number: the edge of a floor and of a cast to an integer."""
    return (value - value.round()).abs()


def without_noise(values: Tensor) -> Tensor:
    """Whole numbers again, where steps from whole numbers led to them."""
    nearest = values.round()
    return torch.where((values - nearest).abs() <= NOISE * nearest.abs().clamp_min(1), nearest, values)


WRAPS_WITHIN = 2.0**31
"""Floats below this wrap round in a type of fewer bits, wherever they are converted. Larger ones and NaN
become the end of the range here and zero there: nobody promises anything."""
_LONG_ENDS = 2.0**63


def not_promised(low: Tensor, high: Tensor, dtype: torch.dtype) -> Tensor:
    """Where floats between ``low`` and ``high`` may become any integer, or no neighbours."""
    if dtype == torch.bool:
        return torch.zeros(low.shape, dtype=torch.bool, device=low.device)
    reach = _LONG_ENDS if dtype == torch.int64 else WRAPS_WITHIN
    return ~((low > -reach - 1) & (high < reach)) | begins_anew(low, high, dtype)


def begins_anew(low: Tensor, high: Tensor, dtype: torch.dtype) -> Tensor:
    """Where a type begins again between two numbers, as a byte does between 255 and 256."""
    if dtype == torch.bool:
        return torch.zeros(low.shape, dtype=torch.bool, device=low.device)
    ends = torch.iinfo(dtype)
    span = float(ends.max) - ends.min + 1
    below, above = (((end.trunc() - ends.min) / span).floor() for end in (low, high))
    return below != above


def sides_of(value: Tensor, moved: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """How far any of the ``moved`` results lies below ``value``, and how far above."""
    down = torch.zeros(value.shape, dtype=torch.float64, device=value.device)
    up = torch.zeros_like(down)
    wide = value.to(torch.float64)
    for one in moved:
        off = one.to(torch.float64) - wide
        lost = ~torch.isfinite(off) & ~((one == value) | (one.isnan() & value.isnan()))
        off = torch.where(torch.isfinite(off), off, 0.0)
        down = torch.maximum(down, torch.where(lost, torch.inf, -off))
        up = torch.maximum(up, torch.where(lost, torch.inf, off))
    return down, up


def nearest_edge(name: str, args: Sequence[Any], operands: Sequence[Tracked], jumped: Tensor) -> Tensor:
    """Distance to the edge that an element of the result may have fallen over; ``jumped`` where it may."""
    distance = torch.full(jumped.shape, torch.inf, dtype=torch.float64, device=jumped.device)
    for operand in operands:
        if operand.step is not None:
            distance = torch.minimum(distance, operand.step.distance.expand(jumped.shape))
    own = edge_distance(name, args)
    return distance if own is None else first_edge(distance, own.expand(jumped.shape), jumped)


def first_edge(before: Tensor, own: Tensor, jumped: Tensor) -> Tensor:
    """Of a value that has fallen over an edge already, that one: the next may be where it fell to."""
    return torch.where(jumped & before.isinf(), own, before)


def within(down: Tensor, up: Tensor, distance: Tensor, made: Tracked) -> Step:
    """The two sides of a finished node: neither is beyond its error, and both are open where that is."""
    error = made.error
    down, up = (torch.where(error.isinf(), error, torch.minimum(one, error)) for one in (down, up))
    return Step(down, up, distance)


# ------------------------------------------------------------------------------------ shares

SHARE = 0.5
"""Honest kernels use at most so much of what all elements near an edge are allowed together: an error as
large as it may be moves those across that have the edge on its side."""
SHARE_MARGIN = 2.0
"""Or so many times what the reference uses."""
CHANCE = 4.0
"""And so many standard deviations of a share, of as many draws as there are different distances."""


def in_doubt(step: Step) -> Tensor:
    """Elements near an edge that are allowed something, and not anything."""
    side = torch.maximum(step.down, step.up)
    return torch.isfinite(step.distance) & torch.isfinite(side) & (side > 0)


def used_share(off: Tensor, step: Step) -> float:
    """Mean over the elements near an edge of the error over what is allowed to that side, at most 1."""
    near = in_doubt(step)
    if not bool(near.any()):
        return 0.0
    side = torch.where(off < 0, step.down, step.up)
    used = torch.where(off == 0, 0.0, off.abs() / side.clamp_min(1e-300)).nan_to_num(1.0, 1.0)
    return float(used[near].clamp(max=1.0).mean())


def allowed_share(native: Tensor, step: Step) -> float:
    """The largest honest ``used_share``, of a reference that is off by ``native``; 1 or more is any.

    Elements that lie equally far from an edge fall together, and count as one: of a few nothing is asked.
    """
    near = in_doubt(step)
    different = int(torch.unique(step.distance[near]).numel())
    if not different:
        return torch.inf
    chance = CHANCE * 0.5 / math.sqrt(different)
    return max(SHARE, SHARE_MARGIN * used_share(native, step)) + chance
