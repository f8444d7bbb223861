"""A schedule fitted to one kernel: what the technique vector asks for, as far as the kernel allows it.

Owns the rules that hold whatever the vector says: one row is shared by a block, columns of a matrix get a
thread each so that neighbours read neighbours, a row waits on the chip only where it fits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.model import H100, Target
from workbench.playbook.ir.sizes import Size
from workbench.playbook.schedules.schedule import (
    ALWAYS_SPLIT,
    MOST_FITTED,
    SHORT_ROW,
    Schedule,
    Team,
    fit_threads,
    pieces_of,
    split_from,
)

MOST_KEPT = 64
MOST_OF_PIECE, MOST_THREADS_OF_PIECE = 96, 512
_REGISTERS = 65536
_SHARED_BYTES = 220 * 1024
_ENDLESS = 2**62

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
    bundles: bool = False
    """Rows do instead, in the one pass over them."""
    across: bool = False
    """Rows of the result lie side by side, although columns of what is read do."""
    joint: int = 0
    """Values that wait where several of those loads become one, such as their sum; 0 for as many as loads."""
    beside: tuple[Size, ...] = ()
    """Where rows do in all that is read and written: sizes that the width of a vector of them must divide."""


def by_length(schedule: Schedule, shape: RowShape, cases: Cases) -> tuple[Schedule | None, Schedule | None]:
    """The schedules for short rows and for long ones; None where no case has such rows."""
    fits = schedule.team_fit and shape.neighbours and not shape.rows.is_one
    if not fits:
        return None, fitted(schedule.but(team_fit=False), shape, cases)
    short = [case for case in cases if shape.columns.at(case) <= SHORT_ROW]
    long = [case for case in cases if shape.columns.at(case) > SHORT_ROW]
    warp = schedule.but(team="warp", team_fit=False, split=False)
    if schedule.cache == "shared" and warps_keep(schedule, shape):
        warp = warp.but(cache="registers")
    block = schedule.but(team="block", team_fit=False)
    varies = shape.columns.number is None
    return (
        fitted(warp, shape, short) if short else None,
        fitted(block, shape, long) if long or varies else None,
    )


def warps_keep(schedule: Schedule, shape: RowShape) -> bool:
    """True where a warp's registers hold a short row: a tenth faster than shared memory, or the same."""
    return SHORT_ROW * (shape.joint or shape.kept) <= 32 * most_kept(schedule.threads)


def fitted(schedule: Schedule, shape: RowShape, cases: Cases, target: Target = H100) -> Schedule:
    """The schedule of one row kernel, splitting included."""
    team = team_for(schedule, shape)
    cache = schedule.cache
    bundle = schedule.bundle and shape.bundles and team == "thread"
    whole = schedule.but(team=team, fit=schedule.fit and team == "block", bundle=bundle)
    longest = longest_whole_row(whole, shape, cases, target)
    if whole.fit:
        rows = max((shape.rows.at(case) for case in cases), default=0)
        whole = whole.but(threads=fit_threads(longest, rows, target))
    while rows_of_lane(whole, shape) > 1 and longest > most_columns(whole, shape):
        whole = whole.but(width=whole.width // 2)
    waiting = longest * _waiting(whole, shape)
    crowded = cache == "registers" and waiting > lanes_of(whole) * most_kept(whole.threads)
    if crowded or longest > most_columns(whole, shape):
        cache = "reread"
    if team == "bundle" and cache == "reread" and shape.neighbours:
        return fitted(schedule.but(team="block"), shape, cases, target)  # tiles want all reads at once
    single_pass = schedule.single_pass and not (shape.kept and cache != "reread")
    ahead = schedule.prefetch and cache == "registers" and team == "block" and longest > prefetch_from(shape)
    persistent = (whole.persistent or ahead) and team != "bundle" and not shares_warps(whole)
    return whole.but(cache=cache, single_pass=single_pass, prefetch=ahead, persistent=persistent)


def most_columns(schedule: Schedule, shape: RowShape) -> int:
    """Columns up to which a row waits where the schedule wants it."""
    if not shape.kept or schedule.cache == "reread":
        return _ENDLESS
    if schedule.cache == "registers":
        threads = MOST_FITTED if schedule.fit else schedule.threads
        lanes = threads if schedule.team == "block" else lanes_of(schedule)
        return lanes * most_kept(threads) // _waiting(schedule, shape) // rows_of_lane(schedule, shape)
    rows = schedule.threads // 32 if schedule.team == "warp" else 1
    return (
        0
        if schedule.team in ("thread", "bundle") or shares_warps(schedule)
        else _SHARED_BYTES // (4 * _waiting(schedule, shape) * rows)
    )


def _waiting(schedule: Schedule, shape: RowShape) -> int:
    """Values of a column that wait: of a warp's row fewer than loads, where their sum is all it needs."""
    alone = schedule.team == "warp" and not schedule.prefetch and schedule.cluster == 1
    return shape.joint or shape.kept if alone else shape.kept


def kept_part(schedule: Schedule, shape: RowShape, cases: Cases) -> tuple[Schedule, int] | None:
    """Where the longest rows do not fit on the chip: a schedule for those that do, and their most columns."""
    wanted = schedule.but(team=team_for(schedule, shape), team_fit=False)
    wanted = wanted.but(fit=schedule.fit and wanted.team == "block")
    whole = fitted(wanted, shape, cases)
    if (whole.cache, whole.team) == (wanted.cache, wanted.team):
        return None
    most = most_columns(wanted, shape)
    fitting = [case for case in cases if shape.columns.at(case) <= most]
    found = fitted(wanted, shape, fitting)
    useful = found.cache == wanted.cache and longest_whole_row(wanted, shape, fitting)
    return (found, most) if useful else None


FEW_COLUMNS = 256
"""Columns up to which rows may share a warp, eight lanes each."""
FEWER_COLUMNS = 128
"""The same with four lanes each."""


_LONGEST: Mapping[int, int] = {4: FEWER_COLUMNS, 8: FEW_COLUMNS}
"""Columns of the rows that share a warp, by the lanes of each."""


def for_declared(schedule: Schedule, shape: RowShape, declared: Cases) -> Schedule:
    """Only short rows share warps: longer ones, of another kernel beside, have the team of their length."""
    if not shares_warps(schedule):
        return schedule
    longest = max((shape.columns.at(case) for case in declared), default=0)
    if longest <= _LONGEST.get(schedule.lanes, SHORT_ROW):
        return schedule
    return schedule.but(lanes=32, team="warp" if longest <= SHORT_ROW else "block")


def shares_warps(schedule: Schedule) -> bool:
    """True where rows share a warp: its lanes must not go round a loop over rows unequally often."""
    return schedule.team == "warp" and schedule.lanes < 32


def in_whole_warps(columns: float, width: int, lanes: int, rows: int) -> float:
    """Columns that a warp's instructions are for: lanes that have none wait for the others."""
    return math.ceil(columns / rows / lanes / width) * lanes * width * rows


def team_for(schedule: Schedule, shape: RowShape) -> Team:
    """Who computes a row of this kernel."""
    if shape.rows.is_one:
        return "block"
    if schedule.team == "bundle" and lie_abreast(shape):
        return "bundle"
    if shape.neighbours:
        return "block" if schedule.team == "bundle" else schedule.team
    return "thread"


def lie_abreast(shape: RowShape) -> bool:
    """True for rows whose neighbours in memory are other rows' elements, or whose results are and wait."""
    return not shape.rows.is_one and (not shape.neighbours or (shape.across and bool(shape.kept)))


def most_kept(threads: int) -> int:
    """Values of a row that a thread may keep: half of the registers it can have in a block so large."""
    return min(MOST_KEPT, _REGISTERS // threads // 2)


def kept_of_piece(threads: int) -> int:
    """The same where a cluster shares the row: three quarters, as a multiprocessor has room for few blocks.

    A row of 1.5 MB that eight blocks share has 96 values for each of 512 threads, of 128 registers.
    """
    return MOST_OF_PIECE if threads <= MOST_THREADS_OF_PIECE else most_kept(threads)


def lanes_of(schedule: Schedule) -> int:
    """Threads of a team."""
    lanes = {"thread": 1, "warp": schedule.lanes, "block": schedule.threads, "bundle": schedule.threads // 32}
    return lanes[schedule.team]


def rows_of_lane(schedule: Schedule, shape: RowShape) -> int:
    """Rows that a thread has: a vector of neighbours, where they lie so, or as many with others between."""
    return schedule.width if schedule.team == "bundle" and shape.beside else 1


def lie_at_odd_places(shape: RowShape, cases: Cases) -> bool:
    """True where rows that lie side by side begin between vectors, in some case."""
    return any(size.at(case) % 2 for size in shape.beside for case in cases)


def prefetch_from(shape: RowShape) -> int:
    """Columns beyond which one block's row fills the registers of a multiprocessor.

    Softmax of 4096 rows on an H100: 374 us with the next row copied ahead, 388 without, for rows of 32768;
    47 us and 44 us for rows of 4096, whose blocks are four to a multiprocessor and more.
    """
    return _REGISTERS // 4 // max(shape.kept, 1)


@dataclass(frozen=True)
class Clustered:
    """How the blocks of a cluster share rows that are too long for one of them."""

    alone: Schedule
    """Of rows that one block can keep."""
    most_alone: int
    """Columns of the longest of them."""
    most: int
    """Columns of a piece."""
    shared: Schedule
    """Of a piece."""


def clustered_part(schedule: Schedule, shape: RowShape, cases: Cases) -> Clustered | None:
    """Schedules for rows that a cluster shares, and for those that need none; None where none is shared."""
    if schedule.cluster == 1 or schedule.cache == "reread" or not shape.neighbours:
        return None
    found = kept_part(schedule.but(split=False), shape, cases)
    if found is None or found[0].team != "block":
        return None
    alone, most_alone = found
    most = most_of_piece(schedule, shape)
    lengths = [shape.columns.at(case) for case in cases]
    if not any(most_alone < one <= most * schedule.cluster for one in lengths):
        return None
    ahead = goes_ahead(schedule, shape)
    return Clustered(alone, most_alone, most, alone.but(prefetch=ahead, persistent=False))


def goes_ahead(schedule: Schedule, shape: RowShape) -> bool:
    """True where the blocks of a cluster copy the next row's piece ahead: from registers there is room."""
    return schedule.prefetch and schedule.cache == "registers" and not shape.rows.is_one


def most_of_piece(schedule: Schedule, shape: RowShape) -> int:
    """Columns of a row that a block of a cluster keeps."""
    alone = most_columns(schedule.but(team="block", team_fit=False), shape)
    if schedule.cache != "registers":
        return alone
    threads = MOST_FITTED if schedule.fit else schedule.threads
    most = threads * kept_of_piece(threads) // max(shape.kept, 1)
    return min(most, _SHARED_BYTES // (4 * max(shape.kept, 1))) if goes_ahead(schedule, shape) else most


def always_split(schedule: Schedule, shape: RowShape, cases: Cases) -> bool:
    """Rows are so few and so long in every case that a split has no plain kernel beside it.

    Where one block of each row waits for what the others tell, a card of one multiprocessor has no room.
    """
    few = shape.rows.number is not None and shape.rows.number <= (1 if schedule.join_told else ALWAYS_SPLIT)
    return few and all(shape.columns.at(case) > split_from(schedule) for case in cases)


def longest_whole_row(schedule: Schedule, shape: RowShape, cases: Cases, target: Target = H100) -> int:
    """Longest row that a single team computes, over all cases; 0 when every row is split."""
    whole = [c for c in cases if pieces_of(schedule, target, shape.rows.at(c), shape.columns.at(c)) == 1]
    return max((shape.columns.at(c) for c in whole), default=0)
