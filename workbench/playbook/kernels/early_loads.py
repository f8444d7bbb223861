"""What only later passes over a row read, asked for before the first reduction.

Owns which loads those are, and when a row is short enough that registers hold them too; column_loop.py
writes them. A block that waits for a sum has nothing on its way: its second wait for memory begins when the
first one and the reductions are over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.model import Target
from workbench.playbook.analysis.row_passes import Pass, RowSpace, Waiting
from workbench.playbook.ir.expr import Load
from workbench.playbook.ir.views import View, split
from workbench.playbook.schedules.fitting import RowShape
from workbench.playbook.schedules.schedule import MOST_FITTED, Schedule
from workbench.playbook.text.indexing import is_unit

MOST_EARLY = 16
"""Elements of a row a thread up to which its loads are asked for early: each takes a register until then."""

_AT_ONCE = 2
"""Rows a multiprocessor up to which blocks are so large that each thread has a vector or two."""
_A_WAIT_US = 0.2
"""A load after the reductions, which then has nothing to hide behind. Layer norms of rows of 4096 on an H100:
one row takes 2.69 us without and 2.47 with, 64 rows 3.18 and 3.14, 4096 rows 47.26 and 47.20."""
_FEW_ROWS = 0.125
"""Rows a multiprocessor up to which all of that wait is saved; beyond, a fifth of it."""


def early_loads(space: RowSpace, passes: list[Pass], waiting: Sequence[Waiting]) -> list[Load]:
    """Vectors that can be on their way from the start and only later passes need; none without kept rows."""
    if len(passes) < 2 or not waiting:
        return []
    known = {wait.load.serial for wait in waiting}
    known |= {load.serial for load in space.column_loads(passes[0].roots)}
    found: dict[int, Load] = {}
    for step in passes[1:]:
        for load in space.column_loads(step.roots):
            if load.serial not in known and not load.lookups and is_unit(_column(space, load)):
                found[load.serial] = load
    return list(found.values())


def short_enough(space: RowSpace | RowShape, schedule: Schedule, cases: Sequence[Mapping[str, int]]) -> bool:
    """True where a thread's share of every row is a few elements, and it has the row to itself."""
    lanes = {"block": MOST_FITTED if schedule.fit else schedule.threads, "warp": schedule.lanes}.get(
        schedule.team, 0
    )
    return all(space.columns.at(case) <= lanes * MOST_EARLY for case in cases)


def asked_early_us(us: float, rows: int, target: Target) -> float:
    """Predicted time: a part of one wait for memory less where all rows are under way at once."""
    if rows > _AT_ONCE * target.sm_count:
        return us
    part = 1.0 if rows <= _FEW_ROWS * target.sm_count else 0.2
    return us - min(part * _A_WAIT_US, us / 4)


def _column(space: RowSpace, load: Load) -> View:
    return split(load.view, space.rows, space.columns)[1]
