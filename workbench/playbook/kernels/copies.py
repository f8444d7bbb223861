"""Rows that repeat over a line, such as positions that all heads share: read once for several copies.

Owns when the elements of a thread lie a whole row apart, and where. Only kernels without rows to reduce,
with several vectors a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.playbook.ir.expr import Load, unguarded
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import Size
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.text.indexing import repeated_row

_BLOCKS_A_ROW = 8
"""From here on the last block of a row, which is partly idle, does not matter."""
_FEW_BLOCKS = 132
"""Up to here idle threads cost nothing."""

Copies = tuple[Size, Size]
"""How often a row repeats, and its elements."""


def copies_of(kernel: Kernel, schedule: Schedule, declared: Sequence[Mapping[str, int]]) -> Copies | None:
    """The longest row that repeats, where a thread's vectors may lie a row apart; else None.

    It must hold whole vectors and fill a few blocks, or there must be few blocks altogether.
    """
    if schedule.items == 1 or schedule.width == 1 or schedule.persistent or not declared:
        return None
    found = [
        (load.view.axes[0].size, load.view.axes[1].size)
        for store in kernel.stores
        for load in unguarded(store.value)
        if isinstance(load, Load) and not load.lookups and repeated_row(load.view) is not None
    ]
    whole = [pair for pair in found if all(_is_worth_it(pair, schedule, case) for case in declared)]
    return max(whole, key=lambda pair: pair[1].at(declared[0]), default=None)


def _is_worth_it(copies: Copies, schedule: Schedule, case: Mapping[str, int]) -> bool:
    times, row = (size.at(case) for size in copies)
    block = schedule.threads * schedule.width
    few = -(-row // block) * -(-times // schedule.items) <= _FEW_BLOCKS
    return row % schedule.width == 0 and (row >= _BLOCKS_A_ROW * block or few)
