"""Tiles of results that are pairs of rows: what a block, a thread and shared memory have of them.

Owns where tiles are worth it and what fits; pairs.py says what a result is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.pairs import VECTOR_BYTES, Pairs, pairs_of
from workbench.playbook.analysis.turning import MOST_STATIC_BYTES
from workbench.playbook.ir.expr import Pool
from workbench.playbook.ir.program import Kernel
from workbench.playbook.schedules.schedule import Schedule

LEAST_PAIRED, LEAST_SUMMED = 16, 8
"""Rows of either operand, and elements of a row, below which tiles are mostly empty or read little twice."""
_LEAST_RESULTS, _MOST_RESULTS = 4, 64
"""Of a thread: with fewer it reads shared memory most of the time, with more it runs out of registers."""
_PIECES = (32, 16)
_ROOMY, _AHEAD = 16, 8
"""Results and loads of a thread up to which it asks for all of a piece at once, and for how much beyond. With
16 results and 16 loads of each operand it has some 160 registers; with 64 and all of 32 it spills."""


@dataclass(frozen=True)
class Tiling:
    """How a block has ``tile`` x ``tile`` results: a thread has ``below`` x ``right`` of them."""

    tile: int
    threads: int
    below: int
    right: int
    piece: int
    """Columns that wait in shared memory at a time."""
    width: int = 1
    """Columns that a thread reads at a time where they lie side by side."""

    @property
    def brought(self) -> int:
        """Loads by which a thread brings its share of an operand in."""
        return self.tile * self.piece // self.threads // self.width

    @property
    def is_roomy(self) -> bool:
        """True where registers hold all that a thread brings in, beside its results."""
        return self.below * self.right <= _ROOMY and self.brought <= _ROOMY

    @property
    def ahead(self) -> int:
        """Loads of an operand that a thread has on their way at a time."""
        return self.brought if self.is_roomy else min(self.brought, _AHEAD)


def worth_pairing(pairs: Pairs, cases: Iterable[Mapping[str, int]]) -> bool:
    """True where every operand is read many times over, and rows are long enough to read them together."""
    rows = pairs.axes[pairs.down], pairs.axes[pairs.across]
    return all(
        min(size.at(case) for size in rows) >= LEAST_PAIRED and pairs.columns.at(case) >= LEAST_SUMMED
        for case in cases
    )


def tiling_of(pairs: Pairs, tile: int, threads: int) -> Tiling | None:
    """The results of a thread and the columns of a piece; None where a block has no room for such a tile."""
    results = tile * tile // threads
    if not _LEAST_RESULTS <= results <= _MOST_RESULTS or results * sum(pairs.results) > 4 * _MOST_RESULTS:
        return None
    right = 1 << (results.bit_length() - 1) // 2
    fits = (piece for piece in _PIECES if shared_bytes(pairs, tile, piece) <= MOST_STATIC_BYTES)
    piece = next(fits, None)
    return None if piece is None else Tiling(tile, threads, results // right, right, piece)


def tiled_pairs(
    pool: Pool, kernel: Kernel, schedule: Schedule, cases: Sequence[Mapping[str, int]]
) -> tuple[Pairs, Tiling] | None:
    """How a schedule has a kernel's results in tiles; None where it does not."""
    if not schedule.pair_tile or kernel.stores[0].level == "flat":
        return None
    pairs = pairs_of(pool, kernel)
    if pairs is None or not worth_pairing(pairs, cases):
        return None
    tiling = tiling_of(pairs, schedule.pair_tile, schedule.threads)
    if tiling is None:
        return None
    if max((pairs.columns.at(case) for case in cases), default=_PIECES[0]) <= _PIECES[1]:
        tiling = replace(tiling, piece=_PIECES[1])
    wide = schedule.width <= pairs.vector and tiling.brought % schedule.width == 0
    able = wide and any(one.loads for one in pairs.operands)
    return pairs, replace(tiling, width=schedule.width if able else 1)


def shared_bytes(pairs: Pairs, tile: int, piece: int) -> int:
    """What waits in shared memory, of a piece of the columns."""
    rows = {True: 1, False: tile}
    held = [one for one in pairs.operands if one.varies]
    sizes = [(DTYPE_BYTES[one.expr.dtype], rows[one.axis is None]) for one in held]
    return sum(size * count * (piece + padding_of(size)) for size, count in sizes)


def padding_of(size: int) -> int:
    """Elements of so many bytes between rows in shared memory."""
    return VECTOR_BYTES // max(size, 4)
