"""A schedule fitted to one kernel: what the technique vector asks for, as far as the kernel allows it.

Owns the rules that hold whatever the vector says: one row is shared by a block, columns of a matrix get a
thread each so that neighbours read neighbours, a row waits on the chip only where it fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.model import H100, Target
from workbench.playbook.schedule import ALWAYS_SPLIT, SHORT_ROW, Schedule, Team, fit_threads, pieces_of
from workbench.playbook.sizes import Size

_MOST_KEPT = 64
_REGISTERS = 65536
_SHARED_BYTES = 220 * 1024

Cases = Sequence[Mapping[str, int]]
"""Sizes of the symbols, in every case a kernel has to work for."""


@dataclass(frozen=True)
class RowShape:
    """What a fit needs to know of a row kernel."""

    rows: Size
    columns: Size
    kept: int
    """Loads that later passes need again."""
    neighbours: bool
    """Columns lie next to each other in memory."""

    @property
    def always_split(self) -> bool:
        """Rows are so few, whatever the sizes, that a split has no plain kernel beside it."""
        return self.rows.number is not None and self.rows.number <= ALWAYS_SPLIT


def by_length(schedule: Schedule, shape: RowShape, cases: Cases) -> tuple[Schedule | None, Schedule | None]:
    """The schedules for short rows and for long ones; None where no case has such rows."""
    fits = schedule.team_fit and shape.neighbours and not shape.rows.is_one
    if not fits:
        return None, fitted(replace(schedule, team_fit=False), shape, cases)
    short = [case for case in cases if shape.columns.at(case) <= SHORT_ROW]
    long = [case for case in cases if shape.columns.at(case) > SHORT_ROW]
    warp = replace(schedule, team="warp", team_fit=False, split=False)
    block = replace(schedule, team="block", team_fit=False)
    varies = shape.columns.number is None
    return (
        fitted(warp, shape, short) if short else None,
        fitted(block, shape, long) if long or varies else None,
    )


def fitted(schedule: Schedule, shape: RowShape, cases: Cases, target: Target = H100) -> Schedule:
    """The schedule of one row kernel, splitting included."""
    team = team_for(schedule, shape)
    cache = schedule.cache
    whole = replace(schedule, team=team, fit=schedule.fit and team == "block")
    longest = longest_whole_row(whole, shape, cases, target)
    if whole.fit:
        rows = max((shape.rows.at(case) for case in cases), default=0)
        whole = replace(whole, threads=fit_threads(longest, rows, target))
    if cache == "registers" and longest * shape.kept > lanes_of(whole) * most_kept(whole.threads):
        cache = "reread"
    if cache == "shared" and not shared_fits(whole, shape, longest):
        cache = "reread"
    return replace(whole, cache=cache)


def team_for(schedule: Schedule, shape: RowShape) -> Team:
    """Who computes a row of this kernel."""
    if shape.rows.is_one:
        return "block"
    return schedule.team if shape.neighbours else "thread"


def most_kept(threads: int) -> int:
    """Values of a row that a thread may keep: half of the registers it can have in a block so large."""
    return min(_MOST_KEPT, _REGISTERS // threads // 2)


def lanes_of(schedule: Schedule) -> int:
    """Threads of a team."""
    return {"thread": 1, "warp": 32, "block": schedule.threads}[schedule.team]


def shared_fits(schedule: Schedule, shape: RowShape, longest: int) -> bool:
    """True when the rows of a block fit in shared memory."""
    rows = schedule.threads // 32 if schedule.team == "warp" else 1
    return schedule.team != "thread" and longest * shape.kept * rows * 4 <= _SHARED_BYTES


def longest_whole_row(schedule: Schedule, shape: RowShape, cases: Cases, target: Target = H100) -> int:
    """Longest row that a single team computes, over all cases; 0 when every row is split."""
    if schedule.split and shape.always_split:
        return 0
    whole = [c for c in cases if pieces_of(schedule, target, shape.rows.at(c), shape.columns.at(c)) == 1]
    return max((shape.columns.at(c) for c in whole), default=0)
