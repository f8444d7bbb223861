"""What one pass over a row asks of the threads that walk over it: bytes, instructions, waits.

Owns the life of a team between two joins; row_estimate.py says which teams there are and how they meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from workbench.playbook.analysis import reach
from workbench.playbook.analysis.arithmetic import (
    accumulated,
    instructions_of,
    join_cycles,
    join_instructions,
    join_ns,
)
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.lifetime import Walk
from workbench.playbook.analysis.row_passes import Pass, RowSpace
from workbench.playbook.ir.expr import Expr, Load, walk_all
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.unkeyed import Unkeyed
from workbench.playbook.ir.views import Axis, NotAView
from workbench.playbook.kernels.in_flight import steps_ahead, vectors_together
from workbench.playbook.kernels.odd_rows import is_peeled
from workbench.playbook.schedules.fitting import in_whole_warps, lanes_of
from workbench.playbook.schedules.schedule import Schedule

LANES = 32
_ABREAST = 4  # loads of a thread that abreast_kernel.py unrolls
_REGISTERS_DEEP = 8  # loads of a thread whose row is in registers
_AHEAD = 32
"""Loads of a thread, of all of its steps, that come before the first use: averages of 4 x 4 places, 128 rows
of them (level2/65 of KernelBench), take blocks of 128 threads on an H100 more than twice as long as blocks of
256, as threads wait for 16 places at a time."""
_BEGUN, _STORED = 12.0, 4.0
"""Instructions until a thread knows its row and where that begins, and of a value that is stored a row:
counted in machine code of groups of 32 that are quantised."""


@dataclass(frozen=True)
class Crew:
    """The teams that walk over rows: a block, a warp, or some lanes of one; and what they keep of a row."""

    space: RowSpace
    passes: tuple[Pass, ...]
    schedule: Schedule
    teams: int
    lanes: int
    """Threads of a team; 1 where threads have rows of their own, and a team is their warp."""
    pieces: int
    """That a row is cut into, a team each."""
    together: int
    """Rows that a team takes at a time."""
    waits: frozenset[int]
    """Serials of loads that are kept from the pass that reads them to a later one, or go into what is."""
    slots: int
    """Values of a column that are kept."""
    held: float
    """Part of those that there is room for; the rest is read again, from L2."""
    apart: bool = False
    """Rows lie side by side in no vectors: a lane reads several, element by element."""

    @property
    def keeps(self) -> bool:
        """True where anything is kept from one pass to the next."""
        return self.schedule.cache != "reread"

    @property
    def threads(self) -> int:
        """Of a team, the idle ones of a warp among them."""
        return max(self.lanes, LANES)

    @cached_property
    def roots(self) -> tuple[tuple[Expr, ...], ...]:
        """What each pass evaluates."""
        return tuple(tuple(step.roots) for step in self.passes)

    @cached_property
    def instructions(self) -> tuple[float, ...]:
        """For each column, pass by pass."""
        space = self.space
        return _of_columns(
            Unkeyed(space), (space.rows, space.columns), self.roots, self.keeps, self.schedule.fast_math
        )

    @cached_property
    def shared_by_rows(self) -> tuple[float, ...]:
        """Those of what is the same in all rows, which a thread with several makes once for them."""
        space = self.space
        sizes = (space.rows, space.columns)
        return _of_columns_alone(Unkeyed(space), sizes, self.roots, self.schedule.fast_math)

    @cached_property
    def loads(self) -> tuple[_Loads, ...]:
        """Of each pass, with what those before it have read."""
        return _loads(Unkeyed(self.space), (self.space.rows, self.space.columns), self.roots)


@dataclass(frozen=True)
class _Loads:
    """What differs from column to column in a pass."""

    all: tuple[Load, ...]
    """Those in branches of a choice, too."""
    before: frozenset[int]
    """Serials of what passes before it have read."""
    always: frozenset[Load]
    """What it and those before it read whichever way conditions go."""
    alike: Counter[tuple[str, tuple[Axis, ...]]]
    """How many of those find elements of one buffer along the same axes."""


@dataclass(frozen=True)
class _Reads:
    """Bytes that all teams read in a pass, and requests of a thread for each column."""

    fresh: float = 0.0
    near: float = 0.0
    again: float = 0.0
    requests: float = 0.0
    streams: int = 0
    """Loads that are in this pass for the first time."""

    @property
    def any(self) -> bool:
        return self.streams > 0 or self.again > 0 or self.near > 0


@dataclass(frozen=True)
class _Steps:
    """How a team walks: columns of its piece, who takes them, how many at a time."""

    columns: float
    lanes: int
    width: int
    joined: int
    """Lanes that join what they found."""
    peeled: bool


def walk_of(asked: Asked, crew: Crew, number: int) -> Walk:
    """Pass ``number`` of one team, after those before it."""
    schedule, space, step = crew.schedule, crew.space, crew.passes[number]
    reads = _reads(asked, crew, crew.loads[number])
    way = _steps(asked, crew, step)
    entered = 0 if asked.as_written else 1 if schedule.chains else way.width
    at_once = vectors_together(schedule, way.width, reads.streams) if entered > 1 else 1
    costs = [accumulated(one.kind, entered * at_once) for one in step.accumulators]
    cost = crew.instructions[number]
    if schedule.bundle and crew.together > 1 and way.width > 1 and not asked.as_written:
        cost -= crew.shared_by_rows[number] * (1 - 1 / way.width)
    cost += (1 + reach.A_REQUEST * (reads.requests + len(step.stores))) / way.width
    cost += sum(issued for issued, _ in costs)
    mine = way.columns / way.lanes
    chain = mine * max((cycles for _, cycles in costs), default=0.0)
    if schedule.chains and way.width > 1:
        joins = max((join_cycles(one.kind) for one in step.accumulators), default=0.0)
        chain = chain / way.width + way.width * joins
    stored = sum(
        asked.stored([store])
        * reach.written_apart(space, store, schedule.team, asked.sizes, asked.element_of(store.buffer))
        for store in step.stores
    )
    joins_ns = (join_ns(one.kind, way.joined, schedule.tree) for one in step.accumulators)
    return Walk(
        fresh_bytes=reads.fresh / crew.teams,
        stored_bytes=stored / crew.teams,
        again_bytes=reads.again / crew.teams,
        near_bytes=reads.near / crew.teams,
        instructions=cost * (way.columns + LANES * way.peeled) * (LANES if way.lanes == 1 else 1),
        lines=0.0 if asked.as_written else _shared_lines(asked, crew, step, way),
        chain_cycles=chain,
        trips=max(mine / way.width / _deep(asked, crew, step, way, entered), 1.0) if reads.any else 0.0,
        join_ns=max(joins_ns, default=0.0),
    )


def row_instructions(asked: Asked, crew: Crew, stored: Sequence[Expr]) -> list[float]:
    """Of a thread in each pass, however few columns it has: joins, values of the row, where the row is."""
    found, space = list[float](), crew.space
    *of_rows, of_stored = _of_rows(
        Unkeyed(space), (space.rows, space.columns), crew.roots, tuple(stored), crew.schedule.fast_math
    )
    for step, cost in zip(crew.passes, of_rows, strict=True):
        lanes = _steps(asked, crew, step).joined
        found.append(cost + sum(join_instructions(one.kind, lanes) for one in step.accumulators))
    found[0] += _BEGUN
    found[-1] += of_stored + _STORED * len(stored)
    return found


# What a pass computes and reads depends on the kernel alone: a search asks again for every vector.

_Roots = tuple[tuple[Expr, ...], ...]


@lru_cache(maxsize=1024)
def _of_rows(
    holder: Unkeyed[RowSpace],
    space: tuple[Size, Size],
    passes: _Roots,
    stored: tuple[Expr, ...],
    fast_math: bool,
) -> tuple[float, ...]:
    """Instructions for values of the row, pass by pass, and at last for what is stored a row."""
    found, seen = list[float](), set[int]()
    for roots in passes:
        parts = [part for root in roots for part in holder.value.row_parts(root)]
        found.append(instructions_of(parts, fast_math, seen))
        seen |= {below.serial for below in walk_all(parts)}
    return *found, instructions_of(stored, fast_math, seen)


@lru_cache(maxsize=1024)
def _of_columns(
    holder: Unkeyed[RowSpace], space: tuple[Size, Size], passes: _Roots, keeps: bool, fast_math: bool
) -> tuple[float, ...]:
    """Instructions for each column, pass by pass, without what is a value of the row or was kept."""
    found = []
    for number, roots in enumerate(passes):
        before = [root for step in passes[:number] for root in step] if keeps else []
        of_row = [part for root in (*before, *roots) for part in holder.value.row_parts(root)]
        known = {expr.serial for expr in walk_all([*of_row, *before])}
        found.append(instructions_of(roots, fast_math, known))
    return tuple(found)


@lru_cache(maxsize=1024)
def _of_columns_alone(
    holder: Unkeyed[RowSpace], space: tuple[Size, Size], passes: _Roots, fast_math: bool
) -> tuple[float, ...]:
    """Instructions, pass by pass, for what is the same in all rows; 0 where it can't be told."""
    found = []
    for roots in passes:
        try:
            alike = [part for part in walk_all(roots) if holder.value.is_of_columns(part)]
        except NotAView:
            alike = []
        found.append(instructions_of(alike, fast_math))
    return tuple(found)


@lru_cache(maxsize=1024)
def _loads(holder: Unkeyed[RowSpace], space: tuple[Size, Size], passes: _Roots) -> tuple[_Loads, ...]:
    found, before, always = list[_Loads](), frozenset[int](), list[Load]()
    for roots in passes:
        every = tuple(holder.value.column_loads(roots, guarded=True))
        always += holder.value.column_loads(roots)
        alike = Counter((load.buffer, load.view.axes) for load in always)
        found.append(_Loads(every, before, frozenset(always), alike))
        before |= {load.serial for load in every}
    return tuple(found)


def _reads(asked: Asked, crew: Crew, loads: _Loads) -> _Reads:
    """Of a pass, which knows what those before it have read."""
    space, kept_at = crew.space, crew.schedule.cache
    fresh = near = again = behind = requests = 0.0
    streams = 0
    whole = loads.alike
    for load in loads.all:
        apart = reach.read_apart(space, load, crew.schedule, asked.sizes, asked.element(load))
        if 1 < reach.sectors_over_least(load.view, asked.sizes) <= whole[load.buffer, load.view.axes]:
            apart = 1.0  # others read what lies between, as those of a window do
        size = asked.read(load) * apart
        if load.serial not in loads.before:
            moved = load not in loads.always and (load.buffer, load.view.axes) in whole
            recent = moved or asked.is_recent(load)  # other places of a row that is read anyway
            fresh, near = fresh + size * (not recent), near + size * recent
            streams += 1
            requests += 1
        elif load.serial not in crew.waits:
            again += size
            requests += 1
        else:
            behind += size * (1.0 - crew.held)
            requests += 1 if kept_at == "shared" else 1.0 - crew.held
    return _Reads(fresh, near + behind, again, requests, streams)


def _shared_lines(asked: Asked, crew: Crew, step: Pass, way: _Steps) -> float:
    """Lines that a team asks L1 for, of what its rows share with others."""
    found = 0.0
    for load in crew.space.column_loads(step.roots):
        element = asked.element(load)
        found += reach.shared_lines(crew.space, load, way.lanes, way.width, element, asked.sizes)
    return found * way.columns


def _steps(asked: Asked, crew: Crew, step: Pass) -> _Steps:
    schedule, space = crew.schedule, crew.space
    columns = asked.at(space.columns) / crew.pieces * crew.together
    lanes, width = lanes_of(schedule), asked.width(space.columns)
    if schedule.team == "block" and not asked.as_written and not _any_neighbours(crew):
        width = 1  # a block's row of a pool's windows, say; what threads a column take was measured as it is
    peeled = not asked.as_written and is_peeled(schedule, space, step, asked.at(space.columns))
    width, joined = schedule.width if peeled else width, lanes
    if schedule.team == "warp":
        columns, lanes = in_whole_warps(columns, width, lanes, crew.together), LANES
    elif crew.together > 1:
        lanes = joined = schedule.threads
        width = crew.together // LANES if schedule.team == "bundle" else asked.width(space.rows)
    return _Steps(columns, lanes, width, joined, peeled)


def _any_neighbours(crew: Crew) -> bool:
    """True where elements of some load follow one another along a row: else no kernel has vectors."""
    loads = (load for step in crew.passes for load in crew.space.column_loads(step.roots) if not load.lookups)
    columns = (crew.space.places(load)[1] for load in loads)
    return any(column.axes and column.axes[-1].stride.is_one for column in columns)


def _deep(asked: Asked, crew: Crew, step: Pass, way: _Steps, entered: int) -> int:
    """Steps of a thread whose loads are on their way at the same time."""
    schedule = crew.schedule
    if schedule.cache == "registers" and crew.waits:
        return _REGISTERS_DEEP
    in_turn = crew.pieces > 1 and not crew.waits and crew.together == 1 and not asked.as_written
    deep = steps_ahead(schedule, step, way.width, entered, in_turn)
    if not asked.as_written:
        deep = max(1, min(deep, _AHEAD // max(1, len(crew.space.column_loads(step.roots)))))
    if schedule.team != "bundle":
        return deep
    return min(deep, max(1, _ABREAST // way.width if crew.apart else _ABREAST) * schedule.items)
