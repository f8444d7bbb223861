"""The model of time for kernels whose rows go through several steps on the chip.

Owns what a team asks for in each step, and how many clocks its lanes take at the banks of shared memory;
lifetime.py makes times of it.
"""

from __future__ import annotations

import math

from workbench.playbook.analysis import lifetime, reach
from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.banks import WORD_BYTES, clocks_of
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import Walk, Work
from workbench.playbook.analysis.row_steps import (
    Layout,
    accesses_of,
    bytes_of,
    has_room,
    layout_of,
    made_of_neighbours,
)
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import Load, loads_below
from workbench.playbook.ir.program import Kernel
from workbench.playbook.schedules.residency import resident

_LANES = 32
_A_BARRIER_NS, _A_WARP_NS = 30.0, 6.0
_SHARED = 2.0
"""Instructions of an element of shared memory: itself and its address, a constant away from another's."""
_SPREAD = 3.0
"""More of them where places are left out."""
_PLACE = 6.0
"""Instructions that find the row and the column of a thread, and go on to the next."""
_WAIT = 30.0
"""Cycles until what was asked of shared memory is there."""


def steps_time(asked: Asked, kernel: Kernel) -> Estimate:
    """Time of a kernel with all steps before its own."""
    assert kernel.steps is not None
    schedule = asked.schedule
    warps = schedule.step_by_warps
    warps = warps and has_room(asked.program, kernel, schedule.threads, True, [asked.sizes])
    layout = layout_of(asked.program, kernel, schedule.threads, warps, asked.sizes)
    teams = math.ceil(asked.at(kernel.steps.rows) / layout.rows(asked.sizes))
    walks = tuple(_walk(asked, kernel, one, layout, teams) for one in (*kernel.steps.kernels, kernel))
    held = max(2.0 * len(_kept_loads(kernel, one)) for one in (*kernel.steps.kernels, kernel))
    shared = bytes_of(asked.program, kernel, layout, asked.sizes)
    beside = resident(asked.target, schedule, schedule.threads, held, shared) * layout.teams
    found = launched(asked, Work(teams, layout.team, beside, walks, 0.0, 0.0))
    moved = sum(walk.fresh_bytes + walk.stored_bytes for walk in walks) * teams
    blocks = math.ceil(teams / layout.teams)
    return Estimate(
        found.us + lifetime.crowded_us(asked.target, blocks, moved), found.dram_bytes, found.launches,
        found.library_us, found.flight_share,
    )  # fmt: skip


def _walk(asked: Asked, kernel: Kernel, step: Kernel, layout: Layout, teams: int) -> Walk:
    """One step of a team's rows."""
    assert kernel.steps is not None
    kept, rows = kernel.steps.kept, layout.rows(asked.sizes)
    places = asked.at(step.stores[0].columns) // max(asked.at(kernel.steps.rows), 1) * rows
    inside = _kept_loads(kernel, step)
    others = [load for load in loads_below(s.value for s in step.stores) if load.buffer not in kept]
    put = [store for store in step.stores if store.buffer in kept]
    out = [store for store in step.stores if store.buffer not in kept]
    fresh, near = asked.from_memory(others)
    beside = not layout.spread and made_of_neighbours(asked.program, kernel=step, steps=kernel.steps)
    in_vectors = beside or (not inside and not out)
    width = asked.width(step.stores[0].columns // kernel.steps.rows) if in_vectors else 1
    cost = instructions_of([s.value for s in step.stores], asked.schedule.fast_math) + _PLACE / width
    cost += (_SHARED * (len(inside) + len(put)) + reach.A_REQUEST * (len(others) + len(out))) / width
    found = accesses_of(asked.program, kernel, step, asked.sizes)
    # Places that data names are neighbours' neighbours more often than not. A vector's bytes take as long as
    # those of all banks at least, and so do lanes that read one element of each vector.
    lines = sum(
        max(clocks_of(access, layout.spread, asked.sizes) / width, access.size / WORD_BYTES)
        if width > 1
        else clocks_of(access, layout.spread, asked.sizes)
        for access in found
    )
    lines += len(inside) + len(put) - len(found) + len(out) + len(others) / width
    cost += _SPREAD * (len(inside) + len(put)) if layout.spread else 0.0
    turns = math.ceil(places / width / layout.team)
    return Walk(
        fresh_bytes=fresh / teams,
        near_bytes=near / teams,
        stored_bytes=asked.stored(out) / teams,
        instructions=cost * places,
        lines=lines * places / _LANES,
        chain_cycles=_WAIT * turns if inside else 0.0,
        trips=float(turns) if others else 0.0,
        join_ns=0.0 if step is kernel else _A_WARP_NS if layout.teams > 1 else _A_BARRIER_NS,
    )


def _kept_loads(kernel: Kernel, step: Kernel) -> list[Load]:
    assert kernel.steps is not None
    return [load for load in loads_below(s.value for s in step.stores) if load.buffer in kernel.steps.kept]
