"""How sums, extrema and scans round and pass errors on.

A sum of K terms p, added one after the other in random order, has rounding errors whose squares add to
about u^2 (K^2 mean(p^2) / 6 + K (sum p)^2 / 3): the expected squares of its partial sums. Every tree,
blocked or vector order does better. ``SAFETY`` times u (sqrt(K sum p^2) + sqrt(K) |sum p|) therefore
leaves about four times the worst honest variant, sequential summation of a whole row by one thread.

Equal terms round alike: each addition of the same p inside one binade of the partial sum errs by the same
amount, and the errors add up instead of walking. Where neighbours are equal, as exponentials of sparse
inputs are, sequential summation is off by up to K u |sum| / 4, and that much is allowed twice over. Terms of
few different values in any order are between: the errors of one value add up, and those of the values walk.
With f the part of the terms that has a value, K u |sum| sqrt(sum f^2) / 4 is the same for one value and falls
to the walk where all differ. Terms that differ by less than their sum rounds to, as prices of all but equal
bonds, round alike too: what an addition to a partial sum adds on average is asked of the terms themselves.

Terms that may have fallen over an edge, such as the comparisons that a count adds up, do so or do not: a
sum may be off by all of them where they are few, and by ``CHANCE`` times the root of their squares.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from workbench.model import DType
from workbench.numerics.dtypes import accumulate_unit, is_float
from workbench.numerics.spans import of_sum
from workbench.numerics.steps import CHANCE
from workbench.numerics.tracked import LARGEST, TINY, Tracked, deviation, nothing, rounded, stays_integer

SAFETY = 4.0
EQUAL_TERMS = 0.5
DRAWN = 2.0
"""Errors anywhere within their bounds have a root mean square of 0.58 of them, of what is allowed for a sum
or product 0.29: among a million sums one is off by five times that."""
FEW = 64
"""Up to so many terms the walk allows more than equal ones can err."""
SIDES_LOOKED_AT, MOST_SIDES, SIDES_BY_CHANCE, SHARED_BY = 512, 2**19, 1.0, 4
"""Terms of a sum that are asked what they round to, and of all sums; what chance makes of one, in places:
three times 0.29; how many places: where sixteen threads share a sum, the walk allows more."""
LOOKED_AT, MOST_LOOKED_AT = 128, 2**22
"""Terms of a sum that are compared with each other, and of all sums together."""


def sum_rounding(total: Tensor, squares: Tensor, count: int, dtype: DType) -> Tensor:
    """Own error of a sum: ``total`` of ``count`` terms whose squares add to ``squares``."""
    if count <= 1:
        return torch.zeros_like(total)
    walk = squares.clamp_min(0).sqrt() + total.abs()
    own = SAFETY * accumulate_unit(dtype) * math.sqrt(count) * walk + TINY[dtype]
    return own.nan_to_num(0.0, torch.inf)


def axes_of(dims: int | Sequence[int] | None, rank: int) -> list[int]:
    """Normalise a ``dim`` argument: None or empty means all axes."""
    if dims is None or (not isinstance(dims, int) and len(dims) == 0):
        return list(range(rank))
    listed = [dims] if isinstance(dims, int) else list(dims)
    return [d % rank if rank else 0 for d in listed]


def total(x: Tracked, dims: int | Sequence[int] | None, keepdim: bool, dtype: DType) -> Tracked:
    """Sum over ``dims``."""
    if x.value.dim() == 0:
        return Tracked(x.value.to(torch.float64), x.independent, x.shared, dtype)
    axes = axes_of(dims, x.value.dim())
    if not is_float(dtype):
        value = x.value.sum(dim=axes, keepdim=keepdim)
        return Tracked(value, *_reduced_errors(x, axes, keepdim), dtype)
    terms = x.value.to(torch.float64)
    value = terms.sum(dim=axes, keepdim=keepdim)
    magnitude = terms.abs().sum(dim=axes, keepdim=keepdim)
    count = math.prod(x.value.shape[a] for a in axes)
    errors = _reduced_errors(x, axes, keepdim)
    if x.is_exact and stays_integer(value, magnitude, "f64" if dtype == "f64" else "f32"):
        own = torch.zeros_like(magnitude)
    else:
        squares = terms.square().sum(dim=axes, keepdim=keepdim)
        own = sum_rounding(value, squares, count, dtype)
        equal = torch.maximum(_equal_share(terms, axes, keepdim), _repeated(terms, axes, keepdim))
        drift = EQUAL_TERMS * accumulate_unit(dtype) * count * equal
        own = own + (drift * value.abs()).nan_to_num(0.0, 0.0)
        if dtype != "f64":
            own = own + count * _one_sided(terms, value, axes, keepdim)
        own = torch.where((magnitude == 0) & (errors[0] + errors[1] == 0), 0.0, own)
    return replace(rounded(value, own, errors, dtype), span=of_sum(x.span))


def _equal_share(terms: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    """Share of the summed terms that equal their neighbour along the last summed axis; zeros not counted."""
    axis = max(axes)
    if terms.shape[axis] < 2:
        return torch.zeros_like(terms.sum(dim=axes, keepdim=keepdim))
    later, before = terms.narrow(axis, 1, terms.shape[axis] - 1), terms.narrow(axis, 0, terms.shape[axis] - 1)
    return ((later == before) & (later != 0)).sum(dim=axes, keepdim=keepdim) / math.prod(
        later.shape[a] for a in axes
    )


def _repeated(terms: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    """sqrt(sum f^2) along the last summed axis, from a sample: how often two terms are equal; zeros are not.

    Sorted, a term's number in its run of equal ones is how many earlier ones it is equal to.
    """
    axis = max(axes)
    length = terms.shape[axis]
    sums = max(terms.numel() // max(length, 1), 1)
    count = min(length, LOOKED_AT, max(MOST_LOOKED_AT // sums, 16))
    if length <= FEW:
        return torch.zeros_like(terms.sum(dim=axes, keepdim=keepdim))
    step = length // count
    ordered = terms.movedim(axis, -1)[..., : step * count : step].sort(dim=-1).values
    number = torch.arange(count, device=terms.device)
    begins = torch.nn.functional.pad(ordered[..., 1:] != ordered[..., :-1], (1, 0), value=True)
    earlier = (number - (number * begins).cummax(dim=-1).values) * (ordered != 0)
    pairs = earlier.sum(dim=-1).to(terms.dtype).unsqueeze(-1).movedim(-1, axis)
    share = (pairs * (2 / (count * (count - 1)))).sqrt()
    return share.mean(dim=axes, keepdim=keepdim)


def _one_sided(terms: Tensor, total: Tensor, axes: list[int], keepdim: bool) -> Tensor:
    """What adding one term to a partial sum in float32 adds on average, beyond what chance may have shown.

    A partial sum is a multiple of its last place, so that rounding the sum is rounding the term to such a
    multiple. The largest of the places that partial sums of ``total`` have, which threads may share.
    """
    axis = max(axes)
    length = terms.shape[axis]
    if length <= FEW:
        return torch.zeros_like(total)
    whole = total if keepdim else terms.sum(dim=axes, keepdim=True)
    count = min(length, SIDES_LOOKED_AT, max(MOST_SIDES // max(terms.numel() // length, 1), 16))
    step = length // count
    seen = terms.movedim(axis, -1)[..., : step * count : step].movedim(-1, axis).float().to(torch.float64)
    place = torch.exp2(whole.abs().clamp(1e-30, 1e38).log2().floor() - 23)
    worst = torch.zeros_like(whole)
    chance = SIDES_BY_CHANCE / math.sqrt(math.prod(seen.shape[one] for one in axes))
    for _ in range(SHARED_BY):
        bias = (torch.round(seen / place) * place - seen).mean(dim=axes, keepdim=True).abs()
        worst = torch.maximum(worst, bias - chance * place)
        place = place / 2
    found = worst.nan_to_num(0.0, 0.0, 0.0)
    return found if keepdim else found.squeeze(axes)


def _reduced_errors(x: Tracked, axes: list[int], keepdim: bool) -> tuple[Tensor, Tensor]:
    """Independent errors of terms add in quadrature, ``DRAWN`` times so that no draw of many is larger.

    A count that is one off is so by all of it, and what is rounded behind it comes on top.
    """
    quadrature = x.independent.square().sum(dim=axes, keepdim=keepdim).sqrt()
    times = DRAWN if x.step is None else CHANCE
    drawn = torch.minimum(x.independent.sum(dim=axes, keepdim=keepdim), times * quadrature)
    shared = x.shared.sum(dim=axes, keepdim=keepdim)
    return (drawn, shared) if x.step is None else (torch.zeros_like(drawn), shared + drawn)


def mean(x: Tracked, dims: int | Sequence[int] | None, keepdim: bool, dtype: DType) -> Tracked:
    """Arithmetic mean over ``dims``."""
    axes = axes_of(dims, x.value.dim())
    count = max(math.prod(x.value.shape[a] for a in axes), 1)
    summed = total(x, dims, keepdim, "f64" if dtype == "f64" else "f32")
    value = summed.value / count
    own = 4 * accumulate_unit(dtype) * value.abs().nan_to_num(0.0, torch.inf)
    made = rounded(value, own, (summed.independent / count, summed.shared / count), dtype)
    return replace(made, span=summed.span)


def extremum(op: Any, x: Tracked, dims: int | Sequence[int] | None, keepdim: bool, dtype: DType) -> Tracked:
    """``amax`` or ``amin``."""
    if x.value.dim() == 0:
        return x
    axes = axes_of(dims, x.value.dim())
    value = op(x.value, axes, keepdim)
    worst = order_error(lambda values: op(values, axes, keepdim), x, value)
    return Tracked(value, torch.zeros_like(worst), worst, dtype, span=x.span)


def order_error(pick: Callable[[Tensor], Tensor], x: Tracked, value: Tensor) -> Tensor:
    """Error of an order statistic, ``pick`` of the values: it never falls where an element grows, so that it
    lies between what all elements moved down and all moved up give.

    The error of an element that cannot be picked does not count: a masked score of -3e38 is off by 1e31.
    """
    worst = nothing(value)
    for sign in (1.0, -1.0):
        moved = x.value.to(torch.float64) + sign * x.error
        lost = moved.isnan() & x.error.isinf()  # what may be anything
        off = deviation(value, pick(torch.where(lost, sign * torch.inf, moved)))
        worst = torch.maximum(worst, off.nan_to_num(torch.inf, torch.inf))
    return worst


def product(x: Tracked, dims: int | None, keepdim: bool, dtype: DType) -> Tracked:
    """``prod``: relative errors add up; whole numbers are off where a factor fell over an edge."""
    terms = x.value.reshape(-1) if dims is None else x.value
    axis, keepdim = 0 if dims is None else dims, keepdim and dims is not None
    value = terms.prod(dim=axis, keepdim=keepdim)
    if not is_float(dtype) and x.is_exact:
        return Tracked(value, nothing(value), nothing(value), dtype)
    magnitude, error = terms.to(torch.float64).abs(), x.error.reshape(terms.shape)
    upper = (magnitude + error).prod(dim=axis, keepdim=keepdim)
    spread = (upper - magnitude.prod(dim=axis, keepdim=keepdim)).clamp_min(0)
    if not is_float(dtype):
        # Zero times a number of which nothing is known is zero all the same.
        is_zero = ((magnitude == 0) & (error == 0)).any(dim=axis, keepdim=keepdim)
        return Tracked(
            value, nothing(value), spread.nan_to_num(torch.inf, torch.inf).where(~is_zero, 0.0), dtype
        )
    spread = spread.nan_to_num(0.0, torch.inf)
    own = SAFETY * accumulate_unit(dtype) * terms.shape[axis] * value.abs() + TINY[dtype]
    return rounded(value, own.nan_to_num(0.0, torch.inf), (torch.zeros_like(spread), spread), dtype)


def scattered(op: Any, args: list[Any], data: int, adds: bool, dtype: DType) -> Tracked:
    """Values put into, or added to, known places of a tensor, ``args[0]``; the values are ``args[data]``.

    What is put somewhere brings its error along; what is added there adds its own.
    """

    def run(pick: Callable[[Tracked], Tensor], other: float | None = None) -> Tensor:
        given = [arg if position in (0, data) else _plainly(arg) for position, arg in enumerate(args)]
        made = [pick(one) if isinstance(one, Tracked) else one for one in given]
        if other is not None and not isinstance(args[data], Tracked):
            made[data] = other
        result: Tensor = op(*made)
        return result

    value = run(lambda x: x.value)
    shared = run(lambda x: x.error, 0.0)
    if not adds or not is_float(dtype):
        return Tracked(value, torch.zeros_like(shared), shared, dtype)
    magnitude = run(lambda x: x.value.abs())
    terms = run(lambda x: torch.ones_like(x.value), 1.0).max() if value.numel() else 1.0
    own = SAFETY * accumulate_unit(dtype) * terms * magnitude
    if all(one.is_exact for one in (args[0], args[data])) and stays_integer(value, magnitude, dtype):
        own = torch.zeros_like(own)
    return rounded(value, own.nan_to_num(0.0, torch.inf), (torch.zeros_like(shared), shared), dtype)


def left_open(args: list[Any], data: int) -> Tensor | None:
    """How far values may be from one another that are put at one place, for each place; None where all agree.

    Torch leaves open which of them stays, and on a GPU each run may have another. The arguments are those of
    ``scattered``.
    """
    into, put, places = args[0].value, args[data], _plainly(args[data - 1])
    if not isinstance(put, Tracked):
        return None
    numbered = torch.arange(into.numel(), device=into.device).view(into.shape)
    if isinstance(places, list):  # of ``index_put``: for some axes, and values may be spread
        reached = torch.ops.aten.index.Tensor(numbered, places)
        value, error = (part.expand(reached.shape) for part in (put.value, put.error))
    else:
        reached = numbered.gather(args[1], places)
        value, error = (part[tuple(map(slice, reached.shape))] for part in (put.value, put.error))
    reached, value, error = reached.reshape(-1), value.to(torch.float64).reshape(-1), error.reshape(-1)
    nothing_put = torch.zeros(into.numel(), dtype=torch.float64, device=into.device)
    count = nothing_put.scatter_add(0, reached, torch.ones_like(value))
    least = nothing_put.scatter_reduce(0, reached, value - error, "amin", include_self=False)
    most = nothing_put.scatter_reduce(0, reached, value + error, "amax", include_self=False)
    several = (count > 1) & (least != most)
    if not bool(several.any()):
        return None
    apart = (most - least).nan_to_num(torch.inf, torch.inf)
    return torch.where(several, apart, 0.0).view(into.shape)


def _plainly(arg: Any) -> Any:
    if isinstance(arg, list):
        return [_plainly(one) for one in arg]
    return arg.value if isinstance(arg, Tracked) else arg


def scan_sum(x: Tracked, dim: int, dtype: DType) -> Tracked:
    """``cumsum``: every prefix is a sum of its own length."""
    if x.value.dim() == 0:
        return x
    value = x.value.to(torch.float64).cumsum(dim)
    magnitude = x.value.to(torch.float64).abs().cumsum(dim)
    if not is_float(dtype):
        return Tracked(x.value.cumsum(dim), x.independent.cumsum(dim), x.shared.cumsum(dim), dtype)
    if x.is_exact and stays_integer(value, magnitude, dtype):
        own = torch.zeros_like(magnitude)
    else:
        own = sum_rounding(value, x.value.square().cumsum(dim), x.value.shape[dim], dtype)
    errors = (x.independent.square().cumsum(dim).sqrt(), x.shared.cumsum(dim))
    return rounded(value, own, errors, dtype)


def scan_product(x: Tracked, dim: int, dtype: DType) -> Tracked:
    """``cumprod``: relative errors add up along the way."""
    if x.value.dim() == 0:
        return x
    value = x.value.cumprod(dim)
    if not is_float(dtype):
        whole = x.value.to(torch.int64) if x.value.dtype == torch.bool else x.value
        unsure = (x.error > 0).to(torch.float64).cummax(dim).values * (1 + whole.abs().cumprod(dim))
        return Tracked(value, torch.zeros_like(unsure), unsure, dtype)
    upper = (x.value.abs() + x.error).cumprod(dim)
    count = torch.ones_like(x.value).cumsum(dim)
    own = SAFETY * accumulate_unit(dtype) * count * value.abs() + TINY[dtype]
    spread = (upper - value.abs()).clamp_min(0).nan_to_num(0.0, torch.inf)
    spread = torch.where(_overflows_on_the_way(x.value, dim, dtype), torch.inf, spread)
    return rounded(value, own.nan_to_num(0.0, torch.inf), (torch.zeros_like(spread), spread), dtype)


def _overflows_on_the_way(factors: Tensor, dim: int, dtype: DType) -> Tensor:
    """True from where on some neighbouring factors alone have a product beyond the type's range.

    Threads that multiply their own factors first meet it, in whatever order they are joined: infinity times
    what is small is not what the product is.
    """
    sizes = factors.abs().log2().nan_to_num(0.0, 2.0**20, -(2.0**20))
    up_to = sizes.cumsum(dim)
    before = up_to - sizes
    largest = (up_to - before.cummin(dim).values).cummax(dim).values
    return largest > math.log2(LARGEST[dtype])
