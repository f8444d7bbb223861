"""The model of time for products of matrices on tensor cores.

Owns what comes on top of the tiles of product_times.py: how factors lie, what follows the product, memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.beside_results import beside_results
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.places import places_of
from workbench.playbook.estimates.patches_estimate import turning_us
from workbench.playbook.ir.expr import loads_below
from workbench.playbook.ir.program import Convolution, InPlaceOfCall, MatrixProduct
from workbench.playbook.kernels.product_tiling import (
    FREE_OF_LINE,
    THREADS,
    VECTOR,
    WIDE,
    shape_of,
    steps_of,
    tall_of,
)
from workbench.playbook.kernels.product_times import blocks_of, tiles_us

_ACROSS_US = 0.05
"""More where neighbours in memory are columns of the right factor: four terms are in four lines."""
_BY_TWO_US, _BY_ONE_US = 0.15, 0.5
"""More where factors come by two floats at a time, a guess, and by one: 8193 x 2949 times 2949 x 5921 take
3836 us."""
_PADDED_US = 0.1
"""More where zeros lie around what a convolution looks up."""
_OWN_US = 5.0
"""More for a tile whose results have elements for themselves, such as what a layer passes on beside itself:
they are read eight rows at a time."""
_FIRST_US = 3.0
"""Until the first pieces are there and apart."""
_CLOCK_MHZ, _WARPS_A_SCHEDULER = 1755.0, 2


def product_time(asked: Asked, made: MatrixProduct) -> Estimate:
    """Time of all tiles of the kernel: a multiprocessor has one at a time."""
    more = 0.0 if made.right.lies_by_terms else _ACROSS_US
    steps = [*steps_of(made.left, made.rows, made.terms), *steps_of(made.right, made.columns, made.terms)]
    together = math.gcd(VECTOR, *(asked.at(step) for step in steps))
    more += {1: _BY_ONE_US, 2: _BY_TWO_US}.get(together, 0.0)
    return _time(asked, made, [made.left.buffer, made.right.buffer], more)


def convolution_product_time(asked: Asked, made: Convolution) -> Estimate:
    """The same of a convolution: its terms are taps of all channels, its columns places of all images."""
    more = _PADDED_US if any(places_of(made, side).may_miss for side in made.sides) else 0.0
    found = _time(asked, made, [made.source, made.weight], more)
    return replace(found, us=found.us + turning_us(asked, made))


def _time(asked: Asked, made: InPlaceOfCall, factors: Sequence[str], more_us: float) -> Estimate:
    tall = tall_of(shape_of(made)[1], asked.declared)
    blocks = blocks_of(made, asked.schedule.split_k, asked.declared, asked.target.sm_count)
    loads = [load for load in loads_below(store.value for store in made.stores) if load.buffer != made.buffer]
    moved = sum(asked.bytes_of(name) for name in factors) + asked.read_once(loads) + asked.stored(made.stores)
    values = [store.value for store in made.stores]
    beside = beside_results(made, FREE_OF_LINE)
    known = beside.known
    behind = instructions_of(values, asked.schedule.fast_math, known) * _WARPS_A_SCHEDULER / _CLOCK_MHZ
    more = (more_us, tall * WIDE / THREADS * behind + (_OWN_US if beside.own else 0.0))
    us = tiles_us(made, blocks, asked.sizes, tall, asked.target.sm_count, more)
    us = max(us, 1e6 * moved / asked.target.dram_bytes_per_s) + _FIRST_US + asked.target.launch_us
    return Estimate(us, moved, 1, 0.0, 1.0)
