"""The model of time for kernels whose blocks make rows in shared memory and look at them through windows.

Owns what such a block asks for; lifetime.py makes times of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis import lifetime, reach
from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import Walk, Work
from workbench.playbook.analysis.window_parts import Parts, blocks_of, parts_of
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import Load, loads_below, unguarded, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.schedules.residency import resident

_LANES = 32
_A_BARRIER_NS = 30.0
_BACK = 2.0
"""Instructions to read a part back from shared memory: its address is a constant away from the first."""
_PLACE = 20.0
"""Instructions to find the row and column of a part, or of a result."""


def window_time(asked: Asked, kernel: Kernel, ahead: Kernel) -> Estimate:
    """Time of a kernel that makes ``ahead``'s tensors on the way."""
    schedule = asked.schedule
    parts = parts_of(kernel, asked.program.stencils)
    assert parts is not None
    blocks = blocks_of(parts, schedule.threads)
    results = asked.at(parts.window.out)
    rows, span = blocks.rows(results, asked.at(parts.rows)), blocks.span(results)
    teams = math.ceil(asked.at(parts.rows) / rows) * blocks.stretches(results)
    loads = loads_below(store.value for store in ahead.stores)
    others = _beside(kernel, parts)
    fresh, near = asked.from_memory([*loads, *others])
    first = _made(asked, ahead, rows * min(span, asked.at(parts.width)))
    stored = asked.stored(kernel.stores)
    second = _seen(asked, kernel, parts, others, math.ceil(results / blocks.stretches(results)) * rows)
    walks = (
        replace(first, fresh_bytes=fresh / teams, near_bytes=near / teams, join_ns=_A_BARRIER_NS),
        replace(second, stored_bytes=stored / teams),
    )
    held = 2.0 + len(loads) * asked.width(parts.width)
    shared = sum(asked.element_of(buffer) for buffer in parts.buffers) * rows * span
    beside = resident(asked.target, schedule, schedule.threads, held, shared)
    found = launched(asked, Work(teams, schedule.threads, beside, walks, 0.0, 0.0))
    return replace(found, us=found.us + lifetime.crowded_us(asked.target, teams, fresh + stored))


def _made(asked: Asked, ahead: Kernel, elements: int) -> Walk:
    """What a block does for its parts, without bytes."""
    schedule, roots = asked.schedule, [store.value for store in ahead.stores]
    width = asked.width(ahead.stores[0].columns)
    plain = {leaf.serial for root in roots for leaf in unguarded(root)}
    loads = loads_below(roots)
    lines = {one: reach.lines_of(one, width, asked.element(one), one.serial in plain) for one in loads}
    cost = instructions_of(roots, schedule.fast_math) + (_PLACE + reach.A_REQUEST * len(roots)) / width
    cost += reach.asked(lines.items(), width, schedule.narrow, False)
    steps = math.ceil(elements / width / schedule.threads)
    return Walk(
        instructions=cost * elements, lines=sum(lines.values()) * elements / _LANES, trips=float(steps)
    )


def _seen(asked: Asked, kernel: Kernel, parts: Parts, others: list[Load], results: int) -> Walk:
    """What a block does for its results, without bytes."""
    roots = [store.value for store in kernel.stores]
    places = {serial for one in parts.stencils for serial in one.places}
    inside = {
        below.serial for root in roots for part in walk(root) if part.serial in places for below in walk(part)
    }
    cost = instructions_of(roots, asked.schedule.fast_math, inside) + _BACK * len(places) + _PLACE
    cost += reach.A_REQUEST * (len(roots) + len(others))
    lines = (math.gcd(parts.window.stride, _LANES) * len(places) + len(others)) * results / _LANES
    return Walk(instructions=cost * results, lines=lines, trips=1.0 if others else 0.0)


def _beside(kernel: Kernel, parts: Parts) -> list[Load]:
    """What the results need besides."""
    loads = loads_below(store.value for store in kernel.stores)
    return [load for load in loads if load.buffer not in parts.buffers]
