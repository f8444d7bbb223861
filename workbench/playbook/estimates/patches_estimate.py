"""The model of time for convolutions on tensor cores whose rows are places.

Owns what a tile takes, as convolutions timed on an H100 have it (docs/notes/2026-11-26-patches.md).
"""

from __future__ import annotations

import math

from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.places import flattened, places_of
from workbench.playbook.ir.expr import loads_below
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.patches_tiling import PatchTiling, patches_tiling
from workbench.playbook.kernels.product_tiling import LONG, SOME

_PLACES_US, _COLUMN_US = 0.19, 0.00675
"""A piece of 128 places, without products, and more for each column of their sums."""
_WEIGHT_US = 0.0016
"""More for each channel whose weights come and are taken apart."""
_JOINING_US = {1: 0.1, 2: 0.06, 4: 0.0}
"""More where sums join the totals after every piece, or after two."""
_TILE_US, _RESULT_US, _POOLED = 0.7, 0.016, 0.5
"""Until a tile's results are stored, and more for each column of 128 places; how much of that where they are
pooled: 64 x 3 x 224 x 224 to 64 with windows of 2 x 2 takes 306 us."""
_BETWEEN_US, _NARROW_US, _NARROW = 0.024, 0.04, 16
"""More where neighbouring results belong to different tiles, for each doubling of their distance; and where
rows of results are shorter than so many."""
_LOAD_US = 0.02
"""More for each column of 128 places and each load behind the convolution, but for its bias: with a norm, a
residual and six loads 32 x 64 x 56 x 56 takes 152 us (161 with a square root and a division a result) where
125 was expected."""
_LAID_OUT_US = 1.0
"""A kernel of 300 KB, beside its launch (a guess)."""
_FIRST_US = 4.0
"""Until the first pieces are there and apart."""
_CLOCK_MHZ, _WARPS_A_SCHEDULER = 1755.0, 2


def patches_time(asked: Asked, made: Convolution) -> Estimate:
    """Time of all tiles of the kernel."""
    tiling = patches_tiling(made, asked.schedule.threads, [asked.sizes])
    assert tiling is not None
    rounds = math.ceil(tiling.tiles(made, asked.sizes) / (asked.target.sm_count * tiling.blocks))
    loads = [load for load in loads_below(store.value for store in made.stores) if load.buffer != made.buffer]
    factors = asked.bytes_of(made.source) + asked.bytes_of(made.weight)
    moved = factors + asked.read_once(loads) + asked.stored(made.stores)
    values = [store.value for store in made.stores]
    behind = instructions_of(values, asked.schedule.fast_math) * _WARPS_A_SCHEDULER / _CLOCK_MHZ
    each = tiling.pieces * _piece_us(made, tiling) + _tile_us(asked, made, tiling)
    behind += _LOAD_US * max(0, len(loads) - 1)
    each += tiling.columns * tiling.twice / 2 * behind / math.prod(made.windows)
    us = max(rounds * each, 1e6 * moved / asked.target.dram_bytes_per_s) + _FIRST_US + asked.target.launch_us
    us += turning_us(asked, made)
    return Estimate(us, moved, 1, 0.0, 1.0)


def turning_us(asked: Asked, made: Convolution) -> float:
    """Of the small kernel before it that lays a transposed convolution's weights out."""
    return asked.target.launch_us + _LAID_OUT_US if made.transposed else 0.0


def _piece_us(made: Convolution, tiling: PatchTiling) -> float:
    """Of the blocks of a multiprocessor together."""
    joined = 4 if tiling.pieces >= LONG else 2 if tiling.pieces >= SOME else 1
    found = tiling.twice * (_PLACES_US + _COLUMN_US * tiling.columns) + _JOINING_US[joined]
    if not tiling.kept:
        found += _WEIGHT_US * tiling.stored * tiling.blocks
    return found


def _tile_us(asked: Asked, made: Convolution, tiling: PatchTiling) -> float:
    results = tiling.columns * tiling.twice
    inner = places_of(made, flattened(made).sides[-1])
    each = _RESULT_US * (_POOLED if made.windows else 1.0)
    found = _TILE_US + results * (each + _BETWEEN_US * math.log2(inner.phases))
    return found + (results * _NARROW_US if asked.at(inner.side.made) < _NARROW else 0.0)
