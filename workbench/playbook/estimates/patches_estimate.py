"""The model of time for convolutions on tensor cores whose rows are places.

Owns what a tile takes, as convolutions timed on an H100 have it (docs/notes/2026-11-26-patches.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.beside_results import beside_results
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.places import flattened, met_taps_of, places_of
from workbench.playbook.ir.expr import Load, Reduction, loads_below, walk_all
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.patches_tiling import FREE, THREADS, PatchTiling, patches_tiling
from workbench.playbook.kernels.product_tiling import LONG, SOME, clusters_of


@dataclass(frozen=True)
class _Costs:
    """Microseconds of a tile's parts on a multiprocessor that is full."""

    places: float
    """A piece of 128 places, without products."""
    column: float
    """More for each column of their sums."""
    weight: float
    """More for each channel whose weights come."""
    joining: Mapping[int, float]
    """More where sums join totals after so many pieces."""
    tile: float
    """Until a tile's results are stored."""
    result: float
    """More for each column of 128 places."""
    pooled: float
    """How much of that where they are pooled."""
    between: float
    """More for each of these columns where neighbouring results belong to different tiles, for each
    doubling of their distance."""
    beside: float
    """The power of blocks that share a multiprocessor, by what fills it, that a tile takes longer with."""


_COSTS = {
    4: _Costs(0.19, 0.00675, 0.0016, {1: 0.1, 2: 0.06, 4: 0.0}, 0.7, 0.016, 0.5, 0.024, 0.6),
    2: _Costs(0.377, 0.00217, 0.0, {}, 0.3, 0.0167, 0.75, 0.2, 0.75),
}
"""By the bytes of a factor. Of bfloat16 what takes longest is to read patches, two bytes a lane; and every
second of neighbouring elements is stored slowly: 32 x 64 x 64 x 64 to 64, transposed, 4 x 4 by 2, take 556 us
where float32 takes 271."""
_IN_PAIRS_US, _ARRANGED_US = 0.24, 0.6
"""A piece of 128 places whose channels are read in pairs, and more, divided by taps: each patch is gone
through once more. 32 x 64 x 128 x 128 to 64, 3 x 3, take 167 us, 181 without; 5 x 1 windows 102 and 79."""
_NARROW_US, _NARROW = 0.04, 16
"""More for each column where rows of results are shorter than so many."""
_LOAD_US = 0.02
"""More for each column of 128 places and each load behind the convolution, but for its bias: with a norm, a
residual and six loads 32 x 64 x 56 x 56 takes 152 us (161 with a square root and a division a result) where
125 was expected."""
_MEETING_US, _ONE_MORE_US = 3.0, 1.0
"""Of blocks that share a tile, for what they exchange, and each time that they do. Of DenseNet121, ten
images, 46 such convolutions took 0.75 to 1.03 of what was expected; of 512 channels to 112, one tap, 22.5 us
where results were exchanged seven times."""
_LAID_OUT_US = 1.0
"""A kernel of 300 KB, beside its launch (a guess)."""
_FIRST_US = 4.0
"""Until the first pieces are there and apart."""
_CLOCK_MHZ, _WARPS_A_SCHEDULER = 1755.0, 2


def patches_time(asked: Asked, made: Convolution) -> Estimate:
    """Time of all tiles of the kernel."""
    tiling = patches_tiling(made, made.threads, asked.declared)
    assert tiling is not None
    at_once = clusters_of(made.blocks, asked.target.sm_count) * tiling.blocks
    tiles = tiling.tiles(made, asked.sizes)
    rounds = math.ceil(tiles / at_once)
    loads = [load for load in loads_below(store.value for store in made.stores) if load.buffer != made.buffer]
    factors = asked.bytes_of(made.source) + asked.bytes_of(made.weight)
    moved = factors + asked.read_once(loads) + asked.stored(made.stores)
    each = (tiling.pieces - tiling.is_short / 2) * _piece_us(made, tiling)
    each += _tile_us(asked, made, tiling) / made.blocks
    each += _MEETING_US + _ONE_MORE_US * (tiling.columns // tiling.chunk) if made.blocks > 1 else 0.0
    together = min(tiling.blocks, math.ceil(tiles * made.blocks / asked.target.sm_count))
    beside = together * tiling.threads / THREADS[0]
    each *= math.pow(beside, _COSTS[DTYPE_BYTES[tiling.dtype]].beside)
    behind = _behind_us(asked, made, loads)
    each += tiling.columns * tiling.twice / 2 * behind / math.prod(made.windows) / made.blocks
    us = max(rounds * each, 1e6 * moved / asked.target.dram_bytes_per_s) + _FIRST_US + asked.target.launch_us
    us += turning_us(asked, made)
    return Estimate(us, moved, 1, 0.0, 1.0)


def _behind_us(asked: Asked, made: Convolution, loads: Sequence[Load]) -> float:
    """More for each column of 128 places, of what is computed of a tile's results."""
    values, fast_math = [store.value for store in made.stores], asked.schedule.fast_math
    if made.across_channels:  # a lane has a place: its channels one by one, then what they come to
        channels = [one.body for one in walk_all(values, into_reductions=True) if isinstance(one, Reduction)]
        behind = instructions_of(channels, fast_math) + len(channels)
        behind += instructions_of(values, fast_math) / asked.at(made.made)
        return behind * _WARPS_A_SCHEDULER / _CLOCK_MHZ
    known = beside_results(made, FREE).known
    behind = instructions_of(values, fast_math, known) * _WARPS_A_SCHEDULER / _CLOCK_MHZ
    return behind + _LOAD_US * sum(load.serial not in known for load in loads)


def turning_us(asked: Asked, made: Convolution) -> float:
    """Of the small kernel before it that lays weights out, where there is one."""
    return asked.target.launch_us + _LAID_OUT_US if made.transposed or made.paired else 0.0


def _piece_us(made: Convolution, tiling: PatchTiling) -> float:
    """Of the blocks of a multiprocessor together."""
    costs = _COSTS[DTYPE_BYTES[tiling.dtype]]
    joined = 4 if tiling.pieces >= LONG else 2 if tiling.pieces >= SOME else 1
    places = _IN_PAIRS_US + _ARRANGED_US / met_taps_of(made) if tiling.paired else costs.places
    found = tiling.twice * (places + costs.column * tiling.columns) + costs.joining.get(joined, 0.0)
    if not tiling.kept:
        found += costs.weight * tiling.stored * tiling.blocks
    return found


def _tile_us(asked: Asked, made: Convolution, tiling: PatchTiling) -> float:
    results = tiling.columns * tiling.twice
    inner = places_of(made, flattened(made).sides[-1])
    costs = _COSTS[DTYPE_BYTES[tiling.dtype]]
    each = costs.result * (costs.pooled if made.windows else 1.0)
    found = costs.tile + results * (each + costs.between * math.log2(inner.phases))
    return found + (results * _NARROW_US if asked.at(inner.side.made) < _NARROW else 0.0)
