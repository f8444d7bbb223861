"""The model of time for kernels whose blocks make rows of results in shared memory and then store them.

Owns what such a block asks for; lifetime.py makes times of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis import lifetime, reach
from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.divisions import with_products
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import Walk, Work
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import Load, loads_below, unguarded
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.staged_rows import WORD, Part, StagedRows, staged_rows
from workbench.playbook.schedules.residency import resident

_LANES, _LINE = 32, 128
_A_BARRIER_NS = 30.0
_PUT = 2.0
"""Instructions to put a result into shared memory: it is a constant away from the first of its row."""
_OUT = 6.0
"""Instructions to take a vector out and store it, with what the loop takes."""


def staged_time(asked: Asked, kernel: Kernel) -> Estimate:
    """Time of a kernel that makes the rows its parts have."""
    schedule = asked.schedule
    parts = [with_products(asked.program.pool, one) if schedule.reciprocal else one for one in kernel.parts]
    rows = staged_rows(asked.program, parts, schedule.apart, [asked.sizes])
    assert rows is not None
    each = rows.block_rows(schedule.threads, asked.sizes)
    teams = math.ceil(asked.at(rows.rows) / each)
    loads = loads_below(store.value for part in rows.parts for store in part.kernel.stores)
    fresh, near = asked.from_memory(list(loads))
    stored = asked.stored(store for part in rows.parts for store in part.kernel.stores)
    made = [_made(asked, rows, part, each) for part in rows.parts]
    first = Walk(
        fresh_bytes=fresh / teams,
        near_bytes=near / teams,
        instructions=sum(walk.instructions for walk in made),
        lines=sum(walk.lines for walk in made),
        trips=sum(walk.trips for walk in made),
        join_ns=_A_BARRIER_NS,
    )
    out = sum(asked.at(one.row) * one.bytes for one in rows.tensors) * each
    second = Walk(stored_bytes=stored / teams, instructions=_OUT * out / WORD, lines=2.0 * out / _LINE)
    held = max(2.0 * len(_loads(part)) for part in rows.parts)
    shared = asked.at(rows.row_bytes) * each
    beside = resident(asked.target, schedule, schedule.threads, held, shared)
    found = launched(asked, Work(teams, schedule.threads, beside, (first, second), 0.0, 0.0))
    return replace(found, us=found.us + lifetime.crowded_us(asked.target, teams, fresh + stored))


def _loads(part: Part) -> list[Load]:
    return list(loads_below(store.value for store in part.kernel.stores))


def _made(asked: Asked, rows: StagedRows, part: Part, each: int) -> Walk:
    """What a block does for a part of its rows, without bytes."""
    schedule, roots = asked.schedule, [store.value for store in part.kernel.stores]
    plain = {leaf.serial for leaf in unguarded(*roots)}
    lines = {one: reach.lines_of(one, 1, asked.element(one), one.serial in plain) for one in _loads(part)}
    cost = instructions_of(roots, schedule.fast_math) + _PUT * len(roots)
    cost += reach.asked(lines.items(), 1, schedule.narrow, False)
    results = asked.at(part.places) * each
    return Walk(
        instructions=cost * results,
        lines=(sum(lines.values()) + len(roots)) * results / _LANES,
        trips=float(math.ceil(results / schedule.threads)),
    )
