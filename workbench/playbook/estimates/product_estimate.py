"""The model of time for products of matrices on tensor cores.

Owns what a block takes, as products timed on an H100 have it (docs/notes/2026-11-26-products-of-matrices.md).
"""

from __future__ import annotations

import math

from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.ir.expr import loads_below
from workbench.playbook.ir.program import MatrixProduct
from workbench.playbook.kernels.product_tiling import TALL, TERMS, WIDE

_PIECE_US = 1.30
_ACROSS_US = 0.14
"""More where neighbours in memory are columns of the right factor: its pieces are turned."""
_FIRST_US = 1.6
"""Until the first pieces are there and apart, and until the last sums are done."""
_A_RESULT_US = 0.019
"""Of a thread, until it has one of its 64 results stored."""
_RESULTS = TALL * WIDE // 256
_CLOCK_MHZ, _WARPS_A_SCHEDULER = 1755.0, 2


def product_time(asked: Asked, made: MatrixProduct) -> Estimate:
    """Time of all tiles of the kernel: a multiprocessor has one at a time."""
    tiles = math.ceil(asked.at(made.rows) / TALL) * math.ceil(asked.at(made.columns) / WIDE)
    rounds = math.ceil(tiles * asked.at(made.batch) / asked.target.sm_count)
    loads = [load for load in loads_below(store.value for store in made.stores) if load.buffer != made.buffer]
    fresh = asked.bytes_of(made.left.buffer) + asked.bytes_of(made.right.buffer) + asked.read_once(loads)
    moved = fresh + asked.stored(made.stores)
    values = [store.value for store in made.stores]
    behind = instructions_of(values, asked.schedule.fast_math) * _WARPS_A_SCHEDULER / _CLOCK_MHZ
    piece = _PIECE_US + (0.0 if made.right.lies_by_terms else _ACROSS_US)
    each = _FIRST_US + math.ceil(asked.at(made.terms) / TERMS) * piece + _RESULTS * (_A_RESULT_US + behind)
    us = max(rounds * each, 1e6 * moved / asked.target.dram_bytes_per_s) + asked.target.launch_us
    return Estimate(us, moved, 1, 0.0, 1.0)
