"""The model of time for products of matrices on tensor cores.

Owns what a block takes, as products timed on an H100 have it (docs/notes/2026-11-26-products-of-matrices.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.places import places_of
from workbench.playbook.estimates.patches_estimate import turning_us
from workbench.playbook.ir.expr import loads_below
from workbench.playbook.ir.program import Convolution, InPlaceOfCall, MatrixProduct
from workbench.playbook.kernels.product_tiling import (
    TALL,
    THREADS,
    VECTOR,
    WIDE,
    blocks_of,
    clusters_of,
    pieces_of,
    shape_of,
    steps_of,
    tall_of,
    tiles_of,
)

_PIECE_US, _LOW_US = 1.09, 0.85
"""Of 128 rows, and of 64. The latter is a guess for matrices."""
_ACROSS_US = 0.05
"""More where neighbours in memory are columns of the right factor: four terms are in four lines."""
_BY_TWO_US, _BY_ONE_US = 0.15, 0.5
"""More where factors come by two floats at a time, a guess, and by one: 8193 x 2949 times 2949 x 5921 take
3836 us."""
_LOOKED_UP_US, _PADDED_US = 0.2, 0.1
"""More where a convolution's elements are looked up one by one, and where zeros lie around them."""
_JOINING_US = {1: 0.17, 2: 0.06}
"""More where sums join the totals after every piece, or after two."""
_FIRST_US = 3.0
"""Until the first pieces are there and apart."""
_A_TILE_US, _PLACES_US = 2.1, 1.4
"""Until a tile's results are stored, and more where their places are to be found: 49,152 tiles of 256 terms
take 4352 us (level1/11 of KernelBench), their pieces 3560 of these; 65,536 of 32 terms 1725 (level1/9)."""
_MEETING_US = 8.0
"""Of blocks that share a tile, for what they exchange."""
_CLOCK_MHZ, _WARPS_A_SCHEDULER = 1755.0, 2


def product_time(asked: Asked, made: MatrixProduct) -> Estimate:
    """Time of all tiles of the kernel: a multiprocessor has one at a time."""
    more = 0.0 if made.right.lies_by_terms else _ACROSS_US
    steps = [*steps_of(made.left, made.rows, made.terms), *steps_of(made.right, made.columns, made.terms)]
    together = math.gcd(VECTOR, *(asked.at(step) for step in steps))
    more += {1: _BY_ONE_US, 2: _BY_TWO_US}.get(together, 0.0)
    return _time(asked, made, [made.left.buffer, made.right.buffer], more, _A_TILE_US)


def convolution_product_time(asked: Asked, made: Convolution) -> Estimate:
    """The same of a convolution: its terms are taps of all channels, its columns places of all images."""
    more = _LOOKED_UP_US + (_PADDED_US if any(places_of(made, side).may_miss for side in made.sides) else 0.0)
    found = _time(asked, made, [made.source, made.weight], more, _A_TILE_US + _PLACES_US)
    return replace(found, us=found.us + turning_us(asked, made))


def _time(
    asked: Asked, made: InPlaceOfCall, factors: Sequence[str], more_us: float, tile_us: float
) -> Estimate:
    _, rows, _, terms = shape_of(made)
    tall = tall_of(rows, [asked.sizes])
    blocks = blocks_of(made, asked.schedule.split_k, [asked.sizes], asked.target.sm_count)
    rounds = math.ceil(tiles_of(made, asked.sizes) / clusters_of(blocks, asked.target.sm_count))
    loads = [load for load in loads_below(store.value for store in made.stores) if load.buffer != made.buffer]
    moved = sum(asked.bytes_of(name) for name in factors) + asked.read_once(loads) + asked.stored(made.stores)
    values = [store.value for store in made.stores]
    behind = instructions_of(values, asked.schedule.fast_math) * _WARPS_A_SCHEDULER / _CLOCK_MHZ
    pieces, joined = pieces_of(asked.at(terms), blocks)
    piece_us = (_PIECE_US if tall == TALL else _LOW_US) + more_us + _JOINING_US.get(joined, 0.0)
    each = (tile_us + tall * WIDE / THREADS * behind) / blocks + pieces * piece_us
    each += _MEETING_US if blocks > 1 else 0.0
    us = max(rounds * each, 1e6 * moved / asked.target.dram_bytes_per_s) + _FIRST_US + asked.target.launch_us
    return Estimate(us, moved, 1, 0.0, 1.0)
