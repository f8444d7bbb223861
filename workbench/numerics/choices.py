"""Operations that choose elements by their size, ``argmax``, ``topk``, ``sort``, and what is put to their
places.

Owns which choices are in doubt: elements that differ by less than their errors may change places. Never
decides whether an index is right, which compare.py does, nor in which order several come (order.py).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from workbench.model import DType
from workbench.numerics.dtypes import is_float
from workbench.numerics.reductions import order_error
from workbench.numerics.tracked import Tie, Tracked, deviation, nothing


def index_of_extremum(op: Any, x: Tracked, dim: int | None, keepdim: bool) -> Tracked:
    """``argmax`` or ``argmin``; ties and near-ties are recorded rather than decided."""
    index, surest = op(x.value, dim, keepdim), _surest(op, x, [dim, keepdim], {})
    tie = Tie(index=surest, source=x.value, error=x.error, dim=dim, first=_is_first_asked(x))
    zero = nothing(index)
    return Tracked(index, zero, _ambiguity(x, dim, surest, keepdim), "i64", tie=tie)


def _is_first_asked(x: Tracked) -> bool:
    """True for whole numbers: equal floats are equal by chance or by rounding, and any of them will do."""
    return not is_float(x.dtype)


def _surest(op: Any, x: Tracked, args: list[Any], kwargs: dict[str, Any]) -> Tensor:
    """The element that is best at its worst: what has no chance against it is wrong, however little is known
    of the one that was chosen, which a doubtful mask may have left out."""
    sign = -1.0 if ".argmin" in str(op) or ".min" in str(op) else 1.0
    worst = x.value
    if not x.is_exact:
        worst = worst.to(torch.float64) - sign * x.error
        worst = torch.where(x.error.isinf() | worst.isnan() & ~x.value.isnan(), -sign * torch.inf, worst)
    found = op(worst, *args, **kwargs)
    place: Tensor = found if isinstance(found, Tensor) else found[1]
    return place


def _ambiguity(x: Tracked, dim: int | None, index: Tensor, keepdim: bool) -> Tensor:
    """Nonzero where another index could have won, for operations that use the index further on."""
    source = x.value.reshape(-1) if dim is None else x.value
    axis = 0 if dim is None else dim
    if source.dim() == 0 or source.shape[axis] < 2:
        return nothing(index)
    error = x.error.reshape(source.shape)
    picked = index.reshape(()) if dim is None else index
    kept = picked if keepdim and dim is not None else picked.unsqueeze(axis)
    best = source.gather(axis, kept)
    slack = error + error.gather(axis, kept)
    close = (source - best).abs() <= slack
    if _is_first_asked(x):
        close &= slack > 0
    others = close.scatter(axis, kept, False).any(axis, keepdim=keepdim)
    return torch.where(others, float(source.shape[axis]), 0.0).reshape(index.shape).to(torch.float64)


def selected(
    op: Any, x: Tracked, args: list[Any], kwargs: dict[str, Any], dtype: DType
) -> tuple[Tracked, Tracked]:
    """``max.dim``, ``min.dim``, ``topk``, ``sort``, ``kthvalue``: values and their indices."""
    values, indices = op(x.value, *args, **kwargs)
    dim = _selection_dim(op, args, kwargs)
    if x.value.dim() == 0:
        return Tracked(values, x.independent, x.shared, dtype), exact_index(indices)
    worst = order_error(lambda moved: op(moved, *args, **kwargs)[0], x, values)
    one_of_all = str(op).startswith(("aten.max.", "aten.min."))
    chosen = _surest(op, x, args, kwargs) if one_of_all else indices
    first = one_of_all and _is_first_asked(x)
    tie = Tie(index=chosen, source=x.value, error=x.error, dim=dim, first=first)
    zero = torch.zeros_like(worst)
    in_place = first or str(op).startswith("aten.sort.")
    unsure = _ambiguous_places(x, dim, indices, _in_order(op, args, kwargs), equals=not in_place)
    return Tracked(values, zero, worst, dtype), Tracked(indices, zero, unsure, "i64", tie=tie)


def _ambiguous_places(x: Tracked, dim: int, indices: Tensor, in_order: bool, equals: bool) -> Tensor:
    """The same for any number of picked elements: in order, one may change places with its neighbours; in no
    order, with what was not picked. Without ``equals``, those that are equal for sure keep their order, as
    they do in a sort on every device of torch's."""
    size = x.value.shape[dim]
    if size < 2:
        return nothing(indices)
    order, group = _as_good(x.value, x.error, dim, equals)
    kept = indices if indices.dim() == x.value.dim() else indices.unsqueeze(dim)
    apart = torch.ones_like(order)
    if not in_order:
        apart = torch.zeros_like(order).scatter(dim, kept, 1).gather(dim, order)
    how = "sum" if in_order else "amin"
    found = torch.zeros_like(order).scatter_reduce(dim, group, apart, how, include_self=False)
    alone = found.gather(dim, group) == 1
    unsure = torch.zeros_like(alone).scatter(dim, order, ~alone)
    return torch.where(unsure.gather(dim, kept), float(size), 0.0).reshape(indices.shape)


def _as_good(source: Tensor, error: Tensor, dim: int, equals: bool = True) -> tuple[Tensor, Tensor]:
    """The order of a sort, and in that order a number for each run of elements of which every one may change
    places with the next; without ``equals``, those that are equal for sure keep their order."""
    ordered, order = source.to(torch.float64).sort(dim=dim, stable=True)
    last = source.shape[dim] - 1
    before, later = ordered.narrow(dim, 0, last), ordered.narrow(dim, 1, last)
    off = error.gather(dim, order)
    off = off.narrow(dim, 0, last) + off.narrow(dim, 1, last)
    same = (later == before) | (later.isnan() & before.isnan())  # infinities are, and have no difference
    close = (same & (equals | (off > 0))) | ((later - before <= off) & ~same)
    first = torch.zeros_like(order.narrow(dim, 0, 1))
    return order, torch.cat((first, (~close).to(torch.int64).cumsum(dim)), dim)


def rearranged(data: Tracked, index: Tracked, dim: int, found: Tensor) -> Tensor | None:
    """How far what is gathered at places of a sort or a choice may lie from what was ``found``.

    What is as good takes one another's places. None where the places are others.
    """
    tie, axis = index.tie, dim % max(1, data.value.dim())
    if tie is None or tie.dim is None or tie.source.dim() == 0 or tie.source.shape != data.value.shape:
        return None
    own = tie.shape if len(tie.shape) == found.dim() else (*tie.shape[:axis], 1, *tie.shape[axis:])
    if tie.dim % tie.source.dim() != axis or tuple(index.value.shape) != own:
        return None
    order, group = _exchangeable(tie, axis)
    values = data.value.to(torch.float64)
    off = torch.zeros(found.shape, dtype=torch.float64, device=found.device)
    for most, ends in (("amin", values - data.error), ("amax", values + data.error)):
        ends = ends.gather(axis, order)
        ends = torch.zeros_like(ends).scatter_reduce(axis, group, ends, most, include_self=False)
        ends = torch.zeros_like(ends).scatter(axis, order, ends.gather(axis, group))
        off = torch.maximum(off, deviation(found, ends.gather(axis, index.value)))
    return torch.where(index.error > 0, off.nan_to_num(torch.inf, torch.inf), 0.0)


def _exchangeable(tie: Tie, dim: int) -> tuple[Tensor, Tensor]:
    """The order of a sort, and in that order a number for each run that no other element can come into."""
    source = tie.source.to(torch.float64)
    order = source.sort(dim=dim, stable=True).indices
    value, error = source.gather(dim, order), tie.error.gather(dim, order)
    least, most = (torch.where(value.isnan(), torch.inf, end) for end in (value - error, value + error))
    least, most = least.nan_to_num(-torch.inf, torch.inf), most.nan_to_num(torch.inf, torch.inf)
    last = value.shape[dim] - 1
    before = most.cummax(dim).values.narrow(dim, 0, last)
    behind = least.flip(dim).cummin(dim).values.flip(dim).narrow(dim, 1, last)
    first = torch.zeros_like(order.narrow(dim, 0, 1))
    return order, torch.cat((first, (before < behind).to(torch.int64).cumsum(dim)), dim)


def is_left_open(index: Tracked) -> bool:
    """True where it is one of several that are as good for sure: no draw of roundings tells of the others."""
    tie = index.tie
    if tie is None or tie.first or index.is_exact:
        return False
    source = tie.source.reshape(-1) if tie.dim is None else tie.source
    ordered = source.sort(dim=0 if tie.dim is None else tie.dim).values
    last = ordered.shape[tie.dim or 0] - 1
    before, later = ordered.narrow(tie.dim or 0, 0, last), ordered.narrow(tie.dim or 0, 1, last)
    return bool(((before == later) | (before.isnan() & later.isnan())).any())


def exchanged(made: Tracked, before: Tensor, places: Tracked, dim: int) -> Tracked:
    """What was scattered to the places of a sort or a choice, ``before`` being there.

    Elements of the source that are as good as one another may have one another's, or what was there before
    where not all were chosen. A sort leaves equal ones as they were, on every device of torch's.
    """
    tie, size = places.tie, made.value.shape[dim]
    if tie is None or size < 2:
        return made
    some = places.value.shape[dim] < size
    order, group = _as_good(tie.source, tie.error, dim, equals=some and not tie.first)
    values, earlier = (one.to(torch.float64).gather(dim, order) for one in (made.value, before))
    off = torch.zeros_like(values)
    for most in ("amax", "amin"):
        ends = torch.zeros_like(values).scatter_reduce(dim, group, values, most, include_self=False)
        off = torch.maximum(off, deviation(values, ends.gather(dim, group)))
    if some:
        alone = (
            torch.zeros_like(order).scatter_add(dim, group, torch.ones_like(order)).gather(dim, group) == 1
        )
        off = torch.where(alone, off, torch.maximum(off, deviation(values, earlier)))
    off = torch.zeros_like(off).scatter(dim, order, off.nan_to_num(torch.inf, torch.inf))
    return replace(made, shared=made.shared + off)


def put_anywhere(
    made: Tracked, before: Tensor, put: Tensor, places: Tracked, dim: int | None, adds: bool
) -> Tracked:
    """What was put, or added, at places that are in doubt: any that was put, or what was there before."""
    unsure = _reached(made.value, places, dim)
    put = put.to(torch.float64)
    if adds:
        off = put.abs().sum().expand(made.value.shape)
    else:
        ends = [one.to(torch.float64) for one in (before, put) if one.numel()]
        least, most = min(one.min() for one in ends), max(one.max() for one in ends)
        off = torch.maximum(deviation(made.value, least), deviation(made.value, most))
    off = torch.where(unsure, off.nan_to_num(torch.inf, torch.inf), 0.0)
    return replace(made, shared=made.shared + off)


def _reached(made: Tensor, places: Tracked, dim: int | None) -> Tensor:
    """Where elements may have been put otherwise, by a scatter along ``dim`` or, without one, an index of the
    first axis.

    Places of a sort are all there are, and those next to one another change among themselves. Of a choice
    others may be chosen: all along the axis of a scatter, and all there are without one.
    """
    unsure, tie = places.error > 0, places.tie
    nowhere = torch.zeros(made.shape, dtype=torch.bool, device=made.device)
    sorts = tie is not None and tie.source.shape == unsure.shape == made.shape[: unsure.dim()]
    if tie is not None and sorts and _only_neighbours(tie):
        if dim is not None and unsure.dim() == made.dim():
            return nowhere.scatter(dim, places.value, unsure)
        if dim is None and unsure.dim() == 1:
            nowhere[places.value[unsure]] = True
            return nowhere
    others = [[size for at, size in enumerate(one.shape) if at != dim] for one in (made, unsure)]
    by_row = dim is not None and others[0] == others[1]
    return unsure.any(dim, keepdim=True) if dim is not None and by_row else unsure.any()


def _only_neighbours(tie: Tie) -> bool:
    """True where no element may come before or behind others than its neighbours: an expert that may be any
    moves all tokens between where it is and where it may be."""
    dim = tie.dim or 0
    order, group = _as_good(tie.source, tie.error, dim, equals=False)
    value, error = (one.to(torch.float64).gather(dim, order) for one in (tie.source, tie.error))
    last = value.shape[dim] - 1
    before = (value + error).cummax(dim).values.narrow(dim, 0, last)
    behind = (value - error).flip(dim).cummin(dim).values.flip(dim).narrow(dim, 1, last)
    apart = group.diff(dim=dim) > 0
    return bool((before <= behind)[apart].all())


def exact_index(indices: Tensor) -> Tracked:
    """An index that cannot be ambiguous."""
    zero = nothing(indices)
    return Tracked(indices, zero, zero, "i64")


def _in_order(op: Any, args: list[Any], kwargs: dict[str, Any]) -> bool:
    """False where ``topk`` may give what it found in any order."""
    return ".topk" not in str(op) or bool(args[3] if len(args) > 3 else kwargs.get("sorted", True))


def _selection_dim(op: Any, args: list[Any], kwargs: dict[str, Any]) -> int:
    name = str(op).split(".")[1]
    position = 0 if name in ("max", "min", "sort") else 1
    if "dim" in kwargs:
        return int(kwargs["dim"])
    return int(args[position]) if len(args) > position else -1
