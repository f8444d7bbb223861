"""Few rows against many: what a warp has of either, what waits in shared memory, who shares the columns.

Owns where that is worth it, and the numbers; pairs.py says what a result is made of, few_kernel.py writes the
kernel. Sixteen tokens times a weight of 4096 x 4096 are 64 MB to be read and next to nothing to compute.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.pairs import Operand, Pairs, pairs_of
from workbench.playbook.ir.expr import Pool
from workbench.playbook.ir.program import Kernel
from workbench.playbook.schedules.schedule import Schedule

MOST_FEW = 16
"""Rows of the few that a warp goes through with each vector of the many. On an H200 cuBLAS takes 86.7 us for
16 rows times 1024 x 4096 in float32, 17 MB that are read in 4; with 32 it is back at 34 (2026-11-30)."""
LEAST_MANY, LEAST_COLUMNS = 64, 64
"""Rows of the many, and columns, below which there is nothing to share out."""
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
_MOST_SUMS = 128
"""Numbers that a thread adds up at the same time: it has 255 registers at most."""
_KINDS = frozenset(["sum", "max", "min"])
_TYPES = frozenset(["f32", "f64", "i32", "i64"])


@dataclass(frozen=True)
class FewRows:
    """How a kernel's results are pairs of one of few rows and one of many."""

    pairs: Pairs
    few: int
    many: int
    """Axes of the results."""
    count: int
    """Rows of the few that a warp has: a power of two."""

    @property
    def waiting(self) -> tuple[Operand, ...]:
        """What differs from column to column and waits in shared memory: of the few, and what all share."""
        return (*self.pairs.held(self.few, True), *self.pairs.held(None, True))

    @property
    def read(self) -> tuple[Operand, ...]:
        """What is read once: of the many."""
        return self.pairs.held(self.many, True)


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


def few_rows(pairs: Pairs, cases: Sequence[Mapping[str, int]]) -> FewRows | None:
    """How results are such pairs at all of the sizes; None where they are not.

    The many have to lie along their rows, so that the lanes of a warp read neighbours.
    """
    made = pairs.accumulators
    if not cases or any(one.kind not in _KINDS or one.operand.dtype not in _TYPES for one in made):
        return None
    down, across = ([pairs.axes[at].at(case) for case in cases] for at in (pairs.down, pairs.across))
    few, many = (pairs.down, pairs.across) if max(down) <= max(across) else (pairs.across, pairs.down)
    fewest, most = (down, across) if few == pairs.down else (across, down)
    count = 1 << max(1, (max(fewest) - 1).bit_length())
    found = FewRows(pairs, few, many, count)
    able = (
        max(fewest) > 1
        and count <= MOST_FEW
        and min(most) >= LEAST_MANY
        and min(pairs.columns.at(case) for case in cases) >= LEAST_COLUMNS
        and bool(found.read)
        and all(one.loads for one in found.read)
        and count * len(pairs.accumulators) <= _MOST_SUMS
    )
    return found if able else None


def few_tiling(few: FewRows, schedule: Schedule, cases: Sequence[Mapping[str, int]]) -> FewTiling | None:
    """The numbers of a kernel; None where there is no room for sums or for what waits."""
    rows, split = schedule.few_rows, schedule.few_split
    if rows * few.count * len(few.pairs.accumulators) > _MOST_SUMS:
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
