"""Places of elements that were chosen by their size, held against a tie: which of them are right.

An index is right when it is in range and what it points to is as good as the best. Owns that rule, for
kernels and for the reference itself, and in which rows nothing is asked.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from workbench.numerics.tracked import Tie

_MOST_COMPARED = 2**26
"""Pairs of elements that are compared at most to see what one in doubt may have pushed aside."""


def misplaced(got: Tensor, tie: Tie) -> tuple[Tensor, Tensor]:
    """How much worse than the best each place's element is, and the same over what is allowed: 0, or inf
    where it is wrong. Both flat."""
    source, error, axis = _along(tie)
    wanted, index = (_aligned(one, tie, source, axis) for one in (tie.index, got.to(torch.int64)))
    in_range = (index >= 0) & (index < source.shape[axis])
    safe = index.clamp(0, max(source.shape[axis] - 1, 0))
    off, slack = worse_than_chosen(source, error, axis, safe, wanted)
    off = torch.where(in_range & ~_repeated(index, axis), off, torch.inf)
    is_right = (off <= slack) & ~is_later(tie, index, wanted, off, slack)
    is_right |= _pushed_aside(index, wanted, source, error, axis, is_right | ~in_range)
    if tie.unasked is not None:
        is_right |= tie.unasked.reshape(off.shape)
    return off.reshape(-1), torch.where(is_right, 0.0, torch.inf).reshape(-1)


def worse_than_chosen(
    source: Tensor, error: Tensor, axis: int, places: Tensor, chosen: Tensor
) -> tuple[Tensor, Tensor]:
    """How far elements lie from those that were chosen, and how far they may: what is equal is as good, be it
    infinite, and so are two NaN. Both kinds of places lie along ``axis`` and are in range."""
    there, best = source.gather(axis, places), source.gather(axis, chosen)
    slack = error.gather(axis, places) + error.gather(axis, chosen)
    off = (there - best).abs().nan_to_num(torch.inf, torch.inf)
    return torch.where((there == best) | (there.isnan() & best.isnan()), 0.0, off), slack


def is_later(tie: Tie, places: Tensor, chosen: Tensor, off: Tensor, slack: Tensor) -> Tensor:
    """Where a place is not the first of several that are equal for sure, and the first is asked for."""
    if not tie.first:
        return torch.zeros_like(places, dtype=torch.bool)
    return (places > chosen) & (off == 0) & (slack == 0)


def _pushed_aside(
    places: Tensor, chosen: Tensor, source: Tensor, error: Tensor, axis: int, known: Tensor
) -> Tensor:
    """Of several places in order, those of elements that may come where they are: no more others are sure to
    be before them than there are places before theirs, and no fewer may be.

    Where an element may be anything, as one that a doubtful mask may have left out, all behind it move by one
    if it is. ``known`` are those that need no such look; only rows with such an element are looked at.
    """
    found = torch.zeros_like(known)
    count, size = places.shape[axis], source.shape[axis]
    rows = (~known).any(axis) & error.isinf().any(axis)
    if count < 2 or not bool(rows.any()) or int(rows.sum()) * count * size > _MOST_COMPARED:
        return found
    mine, value, off, best = (one.movedim(axis, -1)[rows] for one in (places, source, error, chosen))
    value = torch.where(off.isinf(), 0.0, torch.where(value.isnan(), torch.inf, value))  # NaN are largest
    ends = value.gather(1, best)
    sign = torch.where(ends[:, :1] >= ends[:, -1:], 1.0, -1.0)  # the largest first, or the smallest
    low, high = sign * value - off, sign * value + off
    own_low, own_high = (one.gather(1, mine.clamp(0, size - 1)).unsqueeze(-1) for one in (low, high))
    sure = (low.unsqueeze(1) > own_high).sum(-1)
    may = (high.unsqueeze(1) >= own_low).sum(-1) - 1  # it is not before itself
    rank = torch.arange(count, device=mine.device)
    there = found.movedim(axis, -1).clone()
    there[rows] = (sure <= rank) & (rank <= may) & (mine >= 0) & (mine < size)
    return there.movedim(-1, axis) & ~_repeated(places, axis)


def admitting(tie: Tie, native: Tensor) -> Tie:
    """The same, with nothing asked of rows in which the reference's own places, in its own precision, are not
    right: an infinity there is NaN in float64, and what is chosen beside it is another element."""
    source, _, axis = _along(tie)
    wrong = misplaced(native, tie)[1].reshape(_aligned(tie.index, tie, source, axis).shape) > 0
    if not bool(wrong.any()):
        return tie
    rows = wrong.any(dim=axis, keepdim=True).expand(wrong.shape)
    return replace(tie, unasked=rows.reshape(tie.index.shape))


def _along(tie: Tie) -> tuple[Tensor, Tensor, int]:
    """What was chosen from, its error, and the axis that the choice was along."""
    source, error = tie.source.to(torch.float64), tie.error
    axis = tie.dim if tie.dim is not None else 0
    if tie.dim is None:
        source, error = source.reshape(-1), error.reshape(-1)
    if source.dim() == 0:
        source, error = source.reshape(1), error.reshape(1)
    return source, error, axis % source.dim()


def _aligned(index: Tensor, tie: Tie, source: Tensor, axis: int) -> Tensor:
    """An index shaped so that ``gather`` along ``axis`` takes it."""
    shape = tie.shape
    if len(shape) < source.dim():
        shape = (*shape[:axis], 1, *shape[axis:])
    return index.reshape((1,) if tie.dim is None else shape)


def _repeated(index: Tensor, axis: int) -> Tensor:
    """True along rows of several indices (sort, topk) that name one element twice."""
    if index.shape[axis] < 2:
        return torch.zeros_like(index, dtype=torch.bool)
    ordered = index.sort(dim=axis).values
    twice = (ordered.diff(dim=axis) == 0).any(dim=axis, keepdim=True)
    return twice.expand(index.shape)
