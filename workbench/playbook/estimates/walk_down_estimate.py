"""The model of time for kernels of sliding windows whose threads walk down their plane.

Owns what such a thread asks for; lifetime.py makes times of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis import lifetime
from workbench.playbook.analysis.arithmetic import instructions_of, multiply_adds
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import FLAT_NS, Walk, Work
from workbench.playbook.analysis.reach import A_REQUEST, read_at_ends
from workbench.playbook.analysis.row_cuts import RowCut, held_by
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import Load, leaves, loads_below, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.stencil import Stencil, seen_of
from workbench.playbook.kernels.walk_down_kernel import vector_of
from workbench.playbook.schedules.residency import resident
from workbench.playbook.schedules.schedule import width_over

_LANES, _LINE = 32, 128
_A_STEP = 8.0
"""Instructions of a step beside what it reads and makes: where its rows are, and the loop."""
_A_READ = 3.0
"""Of each vector of a row: the load, whether it lies inside, and zeros in its place."""
_BEGUN = 60.0
"""Instructions to find a thread's plane, piece and columns."""


def walk_down_time(asked: Asked, kernel: Kernel, cut: RowCut) -> Estimate:
    """Time of a kernel whose threads have ``side`` columns of results each, ``down`` rows at most."""
    schedule, one = asked.schedule, cut.stencils[0]
    height = asked.at(one.down.out)
    pieces = max(1, math.ceil(height / schedule.down))
    down = math.ceil(height / pieces)
    groups = math.ceil(asked.at(one.along.out) / schedule.side)
    warps = max(1, math.ceil(asked.at(one.planes) * pieces * groups / _LANES))
    steps = down + cut.last
    roots = [store.value for store in kernel.stores]
    loads = loads_below(roots)
    inside = {
        below.serial for root in roots for p in walk(root) if p.serial in cut.places for below in walk(p)
    }
    others = [load for load in loads if load.serial not in inside]
    once = [load for load in others if one.of_plane(load.view) is not None and not load.lookups]
    each = len(others) - len(once)
    result = instructions_of(roots, schedule.fast_math, inside) - multiply_adds(roots, inside)
    reads = [_reads(asked, cut, stencil, load) for stencil in cut.stencils for load in _loads(stencil)]
    requests = sum(number for number, _ in reads)
    # Steps before the first whole row make half of their results' parts: the others are above the piece.
    cost = schedule.side * result * (down + cut.last / 2)
    cost += steps * (_A_READ * requests + _A_STEP) + A_REQUEST * len(once) + _BEGUN
    cost += down * A_REQUEST * (len(roots) + schedule.side * each)
    fresh, near = asked.from_memory(loads)
    stored = asked.stored(kernel.stores)
    again = sum(_again(asked, cut, stencil) for stencil in cut.stencils)
    lines = steps * sum(lines for _, lines in reads) + len(once) + down * schedule.side * each
    lines += down * schedule.side * len(roots)
    walked = Walk(
        fresh_bytes=fresh / warps,
        stored_bytes=stored / warps,
        near_bytes=(near + again) / warps,
        instructions=cost * _LANES,
        lines=lines,
        trips=steps / schedule.items,
    )
    held = held_by(cut, schedule.side, schedule.items) + len(once) + schedule.side
    teams = resident(asked.target, schedule, schedule.threads, held) * schedule.threads // _LANES
    found = launched(asked, Work(warps, _LANES, max(1, teams), (walked,), 0.0, 0.0, FLAT_NS))
    blocks = math.ceil(warps * _LANES / schedule.threads)
    return replace(found, us=found.us + lifetime.crowded_us(asked.target, blocks, fresh + stored))


def _loads(stencil: Stencil) -> list[Load]:
    return [leaf for leaf in leaves(stencil.source) if isinstance(leaf, Load)]


def _again(asked: Asked, cut: RowCut, stencil: Stencil) -> float:
    """Bytes that come from L2 once more: rows where pieces of a plane meet, and sectors of two warps."""
    side, height = asked.schedule.side, asked.at(stencil.down.out)
    pieces = math.ceil(height / asked.schedule.down)
    rows = (pieces - 1) * cut.last / max(1, height)
    found = 0.0
    for load in _loads(stencil):
        span = _LANES * side * stencil.along.stride * asked.element(load)
        wider = stencil.along.extent > stencil.along.stride
        found += asked.read(load) * (rows + (read_at_ends(span) if wider else 0.0))
    return found


def _reads(asked: Asked, cut: RowCut, stencil: Stencil, load: Load) -> tuple[float, float]:
    """Loads of a step, and the lines that a warp's 32 threads ask for with them."""
    side, along = asked.schedule.side, stencil.along
    sizes = {one.buffer: asked.element(one) for other in cut.stencils for one in _loads(other)}
    width, row = vector_of(cut, side, sizes), asked.at(stencil.seen[-1])
    width = width_over(width, row)
    before = math.ceil(along.padding / width)
    vectors = before + math.ceil((seen_of(along, side) - along.padding) / width)
    number = float(cut.rows(stencil) * vectors)
    return number, number * max(1.0, _LANES * side * along.stride * asked.element(load) / _LINE)
