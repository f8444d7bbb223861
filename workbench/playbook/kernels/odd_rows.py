"""Rows that begin anywhere between two borders of vectors, because their length is no multiple of the width.

Owns which rows are peeled: single columns up to the first border in the row, vectors from there on, single
columns behind the last. Any row of a buffer then moves in vectors, whatever its length. column_loop.py writes
the two walks, row_kernel.py the borders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.playbook.analysis.row_passes import Pass, RowSpace
from workbench.playbook.ir.sizes import ONE, Size
from workbench.playbook.ir.views import Axis, View, split
from workbench.playbook.schedules.fitting import Cases
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.text.cuda_text import PRODUCT
from workbench.playbook.text.indexing import index_text
from workbench.playbook.text.names import Macros


@dataclass(frozen=True)
class Peeling:
    """Where vectors may begin: at the borders of the rows of ``row_part``."""

    row_part: View
    columns: Size

    def takes(self, row_part: View, column_part: View) -> bool:
        """True where an access has its borders at the same columns."""
        return row_part == self.row_part and _is_whole(column_part, self.columns)

    def begins_at_borders(self, row_part: View, column_part: View) -> bool:
        """True where every row of an access begins at a border if the width divides the length of a row."""
        return _is_whole(column_part, self.columns) and _are_rows(row_part, self.columns)

    def borders(self, macros: Macros, lane: str, begin: str, end: str) -> list[str]:
        """First and last border within ``begin`` and ``end``, and the lane's own column beside them."""
        at = index_text(self.row_part, "row", macros)
        end = end or macros.text(self.columns)
        lane = "int(threadIdx.x)" if lane == "threadIdx.x" else lane
        least = f"{begin} + " if begin else ""
        length = f"{end} - {begin}" if begin else end
        ahead = f"min({length}, int((VEC - {at.within(PRODUCT)} % VEC) % VEC))"
        mine = lane
        lines = [
            "// Not every row begins at a border between vectors. They are used from a row's first border to",
            "// its last; of the few columns before and behind them, each lane takes one.",
            f"const int first = {(begin or '0') if at.code == '0' else least + ahead};",
            f"const int last = {end} - ({end} - first) % VEC;",
        ]
        if begin:
            lines.append(f"const int own = begin + {lane};")
            mine = "own"
        return [
            *lines,
            f"const int edge = {mine} < first ? {mine} : last + {mine} - first;",
            f"const bool has_edge = {macros.text(self.columns)} % VEC != 0 && edge < {end};",
        ]


def peeling_of(
    schedule: Schedule, space: RowSpace, passes: Iterable[Pass], declared: Cases
) -> Peeling | None:
    """How a kernel's rows are peeled; None where whole rows are vectors anyway, or cannot be."""
    if not may_peel(schedule):
        return None
    if all(is_even(schedule.width, space.columns.at(case)) for case in declared):
        return None
    return borders_of(space, passes)


def is_peeled(schedule: Schedule, space: RowSpace, step: Pass, columns: int) -> bool:
    """True where rows of so many columns, if declared, move in vectors for all that."""
    odd = may_peel(schedule) and not is_even(schedule.width, columns)
    return odd and borders_of(space, [step]) is not None


def may_peel(schedule: Schedule) -> bool:
    """A team has lanes for the columns at the ends; a row that is copied ahead is copied in whole vectors."""
    enough = schedule.team == "block" or (
        schedule.team == "warp" and schedule.lanes >= 2 * schedule.width - 2
    )
    return schedule.width > 1 and enough and not schedule.prefetch


def is_even(width: int, columns: int) -> bool:
    """True where at least half of the width divides a row."""
    return columns % max(width // 2, 2) == 0


def borders_of(space: RowSpace, passes: Iterable[Pass]) -> Peeling | None:
    """The rows that most of what is read and written begins with."""
    found: Counter[View] = Counter()
    for step in passes:
        views = [load.view for load in space.column_loads(step.roots) if not load.lookups]
        for view in [*views, *(store.view for store in step.stores)]:
            row_part, column_part = split(view, space.rows, space.columns)
            own = space.rows.is_one or not row_part.is_constant
            if own and _is_whole(column_part, space.columns) and _are_rows(row_part, space.columns):
                found[row_part] += 1
    return Peeling(found.most_common(1)[0][0], space.columns) if found else None


def _is_whole(column_part: View, columns: Size) -> bool:
    return column_part == View((Axis(columns, ONE),))


def _are_rows(row_part: View, columns: Size) -> bool:
    """True where rows begin whole rows apart: at borders, if the width divides a row."""
    apart = [axis.stride for axis in row_part.axes] + [row_part.offset]
    return all(size.is_zero or columns.divides(size) for size in apart)
