"""How reading a tensor at places that are computed, ``grid_sample``, rounds and passes errors on.

A place that lies on an element to within its rounding has the next one, on either side, with a weight of zero
or of next to nothing. Finite neighbours hardly show there. An infinite one or a NaN does: zero times it is
NaN, a little of it is infinite, and who looks no further has a number. What every honest kernel may read is
what is read where all places are off as far as they may be, in each direction along each axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import conv2d, conv3d, max_pool2d

from workbench.model import DType
from workbench.numerics.dtypes import accumulate_unit
from workbench.numerics.reductions import sum_rounding
from workbench.numerics.tracked import Tracked, deviation, rounded

NEAREST = 1
"""Torch's number of a mode."""
PLACE = 8.0
"""Of 1 + |place| in units: three roundings on the way to pixels, and half as much again for reflections."""
_CUBIC_REACH = 3
"""Elements to either side of the nearest that a cubic result may be made of, with one for the rounding."""
AN_ELEMENT = 0.5
"""Of a pixel: places that are off by more may be between other elements than their ends are."""


def grid_sampled(op: Any, x: Tracked, grid: Tracked, how: tuple[Any, ...], dtype: DType) -> Tracked:
    """Nearest or linear: weights that are not negative and sum to at most one. ``how`` is what else ``op``
    takes; the last axis of ``grid`` is (x, y) or (x, y, z), from -1 to 1 across the last axes of ``x``."""
    values, places = x.value.to(torch.float64), grid.value.to(torch.float64)
    unit = accumulate_unit(grid.dtype)
    own = (PLACE * unit * (1 + places.abs())).nan_to_num(0.0, 0.0)

    def read(source: Tensor, at: Tensor) -> Tensor:
        made: Tensor = op(source, at, *how)
        return made

    value = read(values, places)
    shared = torch.zeros_like(value)
    passed_on = torch.zeros_like(value) if x.is_exact else read(x.error, places)
    for moved in _corners(places, grid.down + own, grid.up + own):
        shared = torch.maximum(shared, deviation(value, read(values, moved)))
        passed_on = passed_on if x.is_exact else torch.maximum(passed_on, read(x.error, moved))
    # A NaN beside a number, and nothing times an error without bound: either may be anything.
    shared, passed_on = (one.nan_to_num(torch.inf, torch.inf) for one in (shared, passed_on))
    shared = shared + _anywhere(x, grid, own).unsqueeze(1)
    if how[0] != NEAREST and bool(values.isinf().any()):
        shared = torch.where(
            value.isinf() & _may_be_nothing_of_one(op, values, grid, own, how), torch.inf, shared
        )
    terms = 2 ** places.shape[-1]
    weighing = sum_rounding(value, read(values.square(), places), terms, dtype)
    return rounded(value, weighing, (torch.zeros_like(value), shared + passed_on), dtype)


def cubic_beside(op: Any, made: Tracked, x: Tracked, grid: Tracked, how: tuple[Any, ...]) -> Tracked:
    """A cubic result, of which nothing is asked beside what is no number: of four elements along an axis all
    but the one that a place lies on have a weight of zero, or of next to nothing and either sign."""
    wild = ~torch.isfinite(x.value)
    if not bool(wild.any()):
        return made
    near = max_pool2d(wild.to(torch.float64), 2 * _CUBIC_REACH + 1, 1, _CUBIC_REACH)
    seen: Tensor = op(near, grid.value.to(torch.float64).nan_to_num(0.0), NEAREST, *how[1:])
    return replace(made, shared=torch.where(seen > 0, torch.inf, made.shared))


def _corners(places: Tensor, down: Tensor, up: Tensor) -> Iterator[Tensor]:
    """All places moved to one end or the other, alike along an axis."""
    for ends in product((-1, 1), repeat=places.shape[-1]):
        is_up = torch.tensor(ends, device=places.device) > 0
        yield places + torch.where(is_up, up, -down)


def _may_be_nothing_of_one(
    op: Any, values: Tensor, grid: Tracked, own: Tensor, how: tuple[Any, ...]
) -> Tensor:
    """Where one of several infinities may have no weight at all: a place on an element, along some axis.

    Nothing of an infinity is NaN. Moved a little, the place reads some of both, which is as infinite as one
    of them alone.
    """
    places = grid.value.to(torch.float64)
    sizes = torch.tensor(tuple(reversed(values.shape[2:])), dtype=torch.float64, device=places.device)
    pixels = (places + 1) / 2 * (sizes - 1) if how[2] else ((places + 1) * sizes - 1) / 2
    on = (pixels - pixels.round()).abs() <= (grid.error + own) * sizes / 2
    found = torch.zeros(1, dtype=torch.bool, device=places.device)
    for axis in range(places.shape[-1]):
        others: Tensor = op(_off_along(values.isinf(), -1 - axis), places, NEAREST, *how[1:])
        found = found | ((others > 0) & on[..., axis].unsqueeze(1))
    return found


def _off_along(wild: Tensor, dim: int) -> Tensor:
    """How many neighbours of each are ``wild``, corners too, but for those at its place along ``dim``."""
    axes = wild.dim() - 2
    weights = torch.ones((1, 1) + (3,) * axes, dtype=torch.float64, device=wild.device)
    weights.narrow(dim, 1, 1).zero_()
    images = wild.to(torch.float64).reshape(-1, 1, *wild.shape[2:])
    found: Tensor = (conv2d if axes == 2 else conv3d)(images, weights, padding=1)
    return found.reshape(wild.shape)


def _anywhere(x: Tracked, grid: Tracked, own: Tensor) -> Tensor:
    """What else a place may find that is off by much of an element: any of the source's."""
    sizes = torch.tensor(tuple(reversed(x.value.shape[2:])), dtype=torch.float64, device=own.device)
    off = (grid.error + own) * sizes / 2
    source = x.value.to(torch.float64)
    spread = source.max().clamp_min(0) - source.min().clamp_max(0)  # beyond the ends there are zeros
    spread = spread.nan_to_num(torch.inf, torch.inf)
    return torch.where((off > AN_ELEMENT).any(dim=-1), spread, 0.0)
