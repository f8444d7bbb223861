"""Rows that repeat over a line, such as positions that all heads share: read once for several copies.

Owns when the elements of a thread lie a whole row apart, and where. Only kernels without rows to reduce,
with several vectors a thread. copy_loop.py writes the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.playbook.analysis.repeats import Repeats, slow_repeats
from workbench.playbook.ir.expr import Expr, Load, Pool, unguarded
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import ONE, Size
from workbench.playbook.ir.views import View
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.text.indexing import is_unit, repeated_row

_BLOCKS_A_ROW = 8
"""From here on the last block of a row, which is partly idle, does not matter."""
_FEW_BLOCKS = 132
"""Up to here idle threads cost nothing."""
UNROLLED = 4
"""Copies whose loads are asked for together; where there are more, a loop goes through them."""


@dataclass(frozen=True)
class Copies:
    """The rows that a thread is at the same place of."""

    repeats: Repeats

    @property
    def values(self) -> tuple[Expr, ...]:
        """What is computed once for all of them."""
        return self.repeats.values

    @property
    def by_row(self) -> bool:
        """Blocks go along a row of their own: one that is only read has to be long, or blocks be few."""
        return not self.values

    @property
    def is_of_one_set(self) -> bool:
        """The whole line is copies of one row."""
        return self.repeats.sets.is_one

    def shares(self, load: Load) -> bool:
        """True for a load of neighbours that all copies have in common."""
        if load.lookups or not is_unit(load.view):
            return False
        return self.is_whole(load.view) if self.by_row else self.repeats.has(load.view)

    def is_whole(self, view: View) -> bool:
        """True for a row that is found again by every copy of the whole line."""
        return repeated_row(view) == self.repeats.row


def copies_of(kernel: Kernel, schedule: Schedule, declared: Sequence[Mapping[str, int]]) -> Copies | None:
    """Rows with values that are slow to compute, else the longest row that is read again and again, where a
    thread's vectors may lie a row apart; else None.

    A row must hold whole vectors; one that is only read fills a few blocks, or there are few altogether.
    """
    if schedule.items == 1 or schedule.width == 1 or schedule.persistent or not declared:
        return None
    slow = slow_repeats(kernel, declared)
    if slow is not None and _in_vectors(slow.row, schedule, declared):
        return Copies(slow)
    found = [
        (load.view.axes[0].size, load.view.axes[1].size)
        for store in kernel.stores
        for load in unguarded(store.value)
        if isinstance(load, Load) and not load.lookups and repeated_row(load.view) is not None
    ]
    whole = [pair for pair in found if all(_is_worth_it(pair, schedule, case) for case in declared)]
    if not whole:
        return None
    times, row = max(whole, key=lambda pair: pair[1].at(declared[0]))
    return Copies(Repeats(ONE, times, row))


def without(pool: Pool, kernel: Kernel, values: Sequence[Expr]) -> Kernel:
    """The kernel with a number in the place of each of some values: what is left to read for one copy.

    Not in places that are looked up: what is read there is the same element.
    """
    if not values:
        return kernel
    serials = {value.serial for value in values}

    def gone(expr: Expr) -> Expr | None:
        return pool.const(0.0, expr.dtype) if expr.serial in serials else None

    left = [pool.mapped(store.value, gone, looked_up=lambda place: place) for store in kernel.stores]
    return Kernel([replace(store, value=value) for store, value in zip(kernel.stores, left, strict=True)])


def _in_vectors(row: Size, schedule: Schedule, declared: Sequence[Mapping[str, int]]) -> bool:
    return all(row.at(case) % schedule.width == 0 for case in declared)


def _is_worth_it(copies: tuple[Size, Size], schedule: Schedule, case: Mapping[str, int]) -> bool:
    times, row = (size.at(case) for size in copies)
    block = schedule.threads * schedule.width
    few = -(-row // block) * -(-times // schedule.items) <= _FEW_BLOCKS
    return row % schedule.width == 0 and (row >= _BLOCKS_A_ROW * block or few)
