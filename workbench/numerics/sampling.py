"""How reading a tensor at places that are computed, ``grid_sample``, rounds and passes errors on.

A place that lies on an element to within its rounding has the next one, on either side, with a weight of zero
or of next to nothing. Finite neighbours hardly show there. An infinite one or a NaN does: zero times it is
NaN, a little of it is infinite, and who looks no further has a number. What every honest kernel may read is
what is read where all places are off as far as they may be, in each direction along each axis.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from workbench.model import DType
from workbench.numerics.dtypes import accumulate_unit
from workbench.numerics.reductions import sum_rounding
from workbench.numerics.tracked import Tracked, deviation, rounded

PLACE = 8.0
"""Of 1 + |place| in units: three roundings on the way to pixels, and half as much again for reflections."""
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
    terms = 2 ** places.shape[-1]
    weighing = sum_rounding(value, read(values.square(), places), terms, dtype)
    return rounded(value, weighing, (torch.zeros_like(value), shared + passed_on), dtype)


def _corners(places: Tensor, down: Tensor, up: Tensor) -> Iterator[Tensor]:
    """All places moved to one end or the other, alike along an axis."""
    for ends in product((-1, 1), repeat=places.shape[-1]):
        is_up = torch.tensor(ends, device=places.device) > 0
        yield places + torch.where(is_up, up, -down)


def _anywhere(x: Tracked, grid: Tracked, own: Tensor) -> Tensor:
    """What else a place may find that is off by much of an element: any of the source's."""
    sizes = torch.tensor(tuple(reversed(x.value.shape[2:])), dtype=torch.float64, device=own.device)
    off = (grid.error + own) * sizes / 2
    source = x.value.to(torch.float64)
    spread = source.max().clamp_min(0) - source.min().clamp_max(0)  # beyond the ends there are zeros
    spread = spread.nan_to_num(torch.inf, torch.inf)
    return torch.where((off > AN_ELEMENT).any(dim=-1), spread, 0.0)
