"""Windows of a convolution's results, of which a pool behind it makes a value each.

Owns which pools those are: windows that lie side by side, so that each result is needed once. Writes no text;
pooled_kernel.py does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product as every

from workbench.playbook.analysis.pairs import steps_along
from workbench.playbook.ir.expr import Load, loads_below
from workbench.playbook.ir.program import Convolution, Kernel
from workbench.playbook.ir.sizes import ZERO, Size, number, product
from workbench.playbook.ir.views import strides_in

MOST = 32
"""Results of a window: what a warp has side by side."""


def with_windows(made: Convolution, kernel: Kernel) -> Convolution | None:
    """The convolution with the pool's values to store; None where they are no pool's of its results."""
    store = kernel.stores[0]
    loads = _loads(made, kernel)
    if not 1 < len(loads) <= MOST or any(load.lookups for load in loads):
        return None
    if any(one.level != "flat" or one.columns != store.columns for one in kernel.stores):
        return None
    for windows in _windows(len(loads), len(made.sides)):
        found = replace(made, stores=tuple(kernel.stores), windows=windows)
        if product(found.shape_stored) != store.columns:
            continue
        places = [place_in_window(found, load) for load in loads]
        if None not in places and len(set(places)) == len(places):
            return found
    return None


def place_in_window(made: Convolution, load: Load) -> int | None:
    """Which of a window's results a load is, row by row; None where it is none of them."""
    steps = strides_in(made.shape, range(len(made.shape)))
    counts = (1, 1, *made.windows)
    wanted = [step * number(count) for step, count in zip(steps, counts, strict=True)]
    found = steps_along(made.shape_stored, load.view)
    if found is None:
        return None
    for step, one, size in zip(found, wanted, made.shape_stored, strict=True):
        if step != one and not size.is_one:
            return None
    inner = steps[2:]
    for at, place in enumerate(every(*(range(count) for count in made.windows))):
        if _offset(place, inner) == load.view.offset:
            return at
    return None


def _offset(place: Sequence[int], steps: Sequence[Size]) -> Size:
    total = ZERO
    for along, step in zip(place, steps, strict=True):
        total = total + number(along) * step
    return total


def _loads(made: Convolution, kernel: Kernel) -> list[Load]:
    loads = loads_below(store.value for store in kernel.stores)
    return list({load.serial: load for load in loads if load.buffer == made.buffer}.values())


def _windows(count: int, sides: int) -> list[tuple[int, ...]]:
    """Windows of so many results, along so many sides."""
    divisors = [number for number in range(1, count + 1) if count % number == 0]
    return [one for one in every(divisors, repeat=sides) if math.prod(one) == count]
