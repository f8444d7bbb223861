"""Few rows against many: what a warp has of either, what waits in shared memory, who shares the columns.

Owns the numbers; few_rows.py says which kernels such are, few_kernel.py writes them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.few_rows import MOST_SUMS, FewRows, few_rows
from workbench.playbook.analysis.pairs import pairs_of
from workbench.playbook.ir.expr import Pool
from workbench.playbook.ir.program import Kernel
from workbench.playbook.schedules.schedule import Schedule

LANES = 32
AT_A_TIME = (1, 2, 4)
"""Rows of the many that a warp has at a time."""
SPLITS = (1, 2, 4)
"""Blocks of a cluster that share the columns."""
AT_LEAST_ON_THEIR_WAY = 4
"""Vectors of all rows of a lane: an H200 takes the least time with four or eight, of thirty kernels for each
of five products. One row, of which one vector is on its way, takes up to 1.6 times as long as with four."""
_WAITING = 32 * 1024
"""Bytes of the few that wait in shared memory."""


@dataclass(frozen=True)
class FewTiling:
    """Numbers of a kernel."""

    rows: int
    """Of the many, of a warp."""
    split: int
    """Blocks that share the columns."""
    piece: int
    """Columns that wait in shared memory at a time."""
    threads: int
    deep: int
    """Vectors of each row that a lane has on their way at a time."""

    @property
    def warps(self) -> int:
        return self.threads // LANES

    @property
    def many(self) -> int:
        """Rows of the many, of a block."""
        return self.rows * self.warps


def few_tiling(few: FewRows, schedule: Schedule, cases: Sequence[Mapping[str, int]]) -> FewTiling | None:
    """The numbers of a kernel; None where there is no room for sums or for what waits."""
    rows, split = schedule.few_rows, schedule.few_split
    if rows * few.count * len(few.pairs.accumulators) > MOST_SUMS:
        return None
    sizes = [DTYPE_BYTES[one.expr.dtype] * (1 if one.axis is None else few.count) for one in few.waiting]
    room = _WAITING // max(1, sum(sizes))
    step = LANES * schedule.width
    if step > room:
        return None
    wanted = max(math.ceil(few.pairs.columns.at(case) / split) for case in cases)
    piece = max(step, min(1 << (room.bit_length() - 1), 1 << (wanted - 1).bit_length()))
    deep = schedule.items * max(1, AT_LEAST_ON_THEIR_WAY // rows)
    return FewTiling(rows, split, piece, schedule.threads, min(deep, piece // step))


def few_in(
    pool: Pool, kernel: Kernel, schedule: Schedule, cases: Sequence[Mapping[str, int]]
) -> tuple[FewRows, FewTiling] | None:
    """How a schedule has a kernel's few rows against many; None where it does not."""
    if not schedule.few_rows or kernel.stores[0].level == "flat":
        return None
    pairs = pairs_of(pool, kernel)
    few = None if pairs is None else few_rows(pairs, cases)
    if few is None:
        return None
    tiling = few_tiling(few, schedule, cases)
    return None if tiling is None else (few, tiling)
