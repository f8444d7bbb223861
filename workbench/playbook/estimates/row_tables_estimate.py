"""The model of time for rows whose columns are made of few elements, which a thread reads once.

Owns what a warp of such a kernel asks for; lifetime.py makes times of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis import lifetime, reach
from workbench.playbook.analysis.arithmetic import accumulated, instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import FLAT_NS, Walk, Work
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.analysis.row_tables import tables_of
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import Load, loads_below
from workbench.playbook.ir.program import Kernel
from workbench.playbook.schedules.residency import resident

_LANES = 32


def row_tables_time(asked: Asked, kernel: Kernel) -> Estimate:
    """Time of the kernel that has rows of several, a row a thread."""
    schedule, rows = asked.schedule, asked.at(kernel.stores[0].rows)
    warps = math.ceil(rows / _LANES)
    tables = tables_of(asked.program.pool, kernel.tables)
    kept = sum(asked.at(one.size) for one in tables)
    work, chain = _work(asked, kernel)
    work += reach.A_REQUEST * (kept + len(kernel.stores))
    loads = _once(loads_below(store.value for store in kernel.stores))
    fresh, near = asked.from_memory(loads)
    stored = asked.stored(kernel.stores)
    walk = Walk(
        fresh_bytes=fresh / warps,
        stored_bytes=stored / warps,
        near_bytes=near / warps,
        instructions=work * _LANES,
        lines=float(kept + len(kernel.stores)),
        chain_cycles=chain,
        trips=1.0,
    )
    beside = resident(asked.target, schedule, schedule.threads, float(kept)) * schedule.threads // _LANES
    found = launched(asked, Work(warps, _LANES, beside, (walk,), 0.0, 0.0, FLAT_NS))
    blocks = math.ceil(warps * _LANES / schedule.threads)
    return replace(found, us=found.us + lifetime.crowded_us(asked.target, blocks, fresh + stored))


def _work(asked: Asked, kernel: Kernel) -> tuple[float, float]:
    """Instructions of a row, and the cycles of those that wait for one another."""
    work, chain = 0.0, 0.0
    for part in kernel.tables:
        columns = asked.at(part.stores[0].columns)
        for step in passes_of(RowSpace(asked.program.pool, part), part, asked.schedule.single_pass):
            entered = [accumulated(one.kind, 1) for one in step.accumulators]
            work += columns * (
                instructions_of(step.roots, asked.schedule.fast_math) + sum(cost for cost, _ in entered)
            )
            chain += columns * max((cycles for _, cycles in entered), default=0.0)
    return work, chain


def _once(loads: list[Load]) -> list[Load]:
    """Loads without those that find the elements of another: columns of pairs read each of them twice."""
    found: dict[tuple[object, ...], Load] = {}
    for load in loads:
        axes = tuple(axis for axis in load.view.axes if not axis.stride.is_zero)
        found.setdefault((load.buffer, load.view.offset, axes), load)
    return list(found.values())
