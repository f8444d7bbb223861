"""The model of time for products of matrices on tensor cores.

Owns what a block takes, as products timed on an H100 have it (docs/notes/2026-11-26-products-of-matrices.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.ir.expr import loads_below
from workbench.playbook.ir.program import Convolution, InPlaceOfCall, MatrixProduct
from workbench.playbook.kernels.product_tiling import (
    TALL,
    THREADS,
    WIDE,
    clusters_of,
    pieces_of,
    shape_of,
    tall_of,
)

_PIECE_US, _LOW_US = 1.17, 0.9
"""Of 128 rows, and of 64. The latter is a guess for matrices."""
_ACROSS_US = 0.07
"""More where neighbours in memory are columns of the right factor: four terms are in four lines."""
_LOOKED_UP_US = 0.28
"""More where a convolution's elements are looked up one by one."""
_JOINING_US = {1: 0.17, 2: 0.06}
"""More where sums join the totals after every piece, or after two."""
_FIRST_US = 3.0
"""Until the first pieces are there and apart."""
_A_TILE_US = 3.4
"""Until a tile's results are stored: 8 batched rows of 256 terms take 5578 us for 49,152 tiles (level1/11 of
KernelBench), of which their pieces are 3700."""
_MEETING_US = 8.0
"""Of blocks that share a tile, for what they exchange."""
_CLOCK_MHZ, _WARPS_A_SCHEDULER = 1755.0, 2


def product_time(asked: Asked, made: MatrixProduct) -> Estimate:
    """Time of all tiles of the kernel: a multiprocessor has one at a time."""
    more = 0.0 if made.right.lies_by_terms else _ACROSS_US
    return _time(asked, made, [made.left.buffer, made.right.buffer], more)


def convolution_product_time(asked: Asked, made: Convolution) -> Estimate:
    """The same of a convolution: its terms are taps of all channels, its columns places of all images."""
    return _time(asked, made, [made.source, made.weight], _LOOKED_UP_US)


def _time(asked: Asked, made: InPlaceOfCall, factors: Sequence[str], more_us: float) -> Estimate:
    shape = shape_of(made)
    batch, rows, columns, terms = (asked.at(size) for size in shape)
    tall = tall_of(shape[1], [asked.sizes])
    tiles = math.ceil(rows / tall) * math.ceil(columns / WIDE) * batch
    blocks = asked.schedule.split_k
    rounds = math.ceil(tiles / clusters_of(blocks, asked.target.sm_count))
    loads = [load for load in loads_below(store.value for store in made.stores) if load.buffer != made.buffer]
    moved = sum(asked.bytes_of(name) for name in factors) + asked.read_once(loads) + asked.stored(made.stores)
    values = [store.value for store in made.stores]
    behind = instructions_of(values, asked.schedule.fast_math) * _WARPS_A_SCHEDULER / _CLOCK_MHZ
    pieces, joined = pieces_of(terms, blocks)
    piece_us = (_PIECE_US if tall == TALL else _LOW_US) + more_us + _JOINING_US.get(joined, 0.0)
    each = (_A_TILE_US + tall * WIDE / THREADS * behind) / blocks + pieces * piece_us
    each += _MEETING_US if blocks > 1 else 0.0
    us = max(rounds * each, 1e6 * moved / asked.target.dram_bytes_per_s) + _FIRST_US + asked.target.launch_us
    return Estimate(us, moved, 1, 0.0, 1.0)
