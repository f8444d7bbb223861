"""The model of time for kernels of sliding windows whose threads have results one below the other.

Owns what such a thread asks for; lifetime.py makes times of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis import lifetime
from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import FLAT_NS, Walk, Work
from workbench.playbook.analysis.reach import A_REQUEST, read_at_ends
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import Load, leaves, loads_below, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.stencil import Stencil, seen_of
from workbench.playbook.schedules.residency import resident

_LANES = 32
_READ = 2.0
"""Instructions to read an element of a window: itself, and whether it lies inside. Its address is a constant
away from the window's corner."""
_CORNER = 40.0
"""Instructions to find a thread's plane, row and column."""
_STRADDLED = 1.5
"""Lines of a warp's 32 neighbours that begin anywhere."""


def strip_time(asked: Asked, kernel: Kernel, seen: tuple[Stencil, ...]) -> Estimate:
    """Time of a kernel whose threads have ``strip`` results of these windows each."""
    schedule, one = asked.schedule, seen[0]
    results = schedule.strip
    strips = asked.at(one.planes) * math.ceil(asked.at(one.down.out) / results)
    warps = max(1, math.ceil(strips * asked.at(one.along.out) / _LANES))
    roots = [store.value for store in kernel.stores]
    places = {serial for stencil in seen for serial in stencil.places}
    inside = {
        below.serial for root in roots for part in walk(root) if part.serial in places for below in walk(part)
    }
    elements = sum(_elements(stencil, results) for stencil in seen)
    others = [load for load in loads_below(roots) if load.serial not in inside]
    once = [load for load in others if not _varies(load)]
    each = len(others) - len(once)
    cost = results * (instructions_of(roots, schedule.fast_math, inside) + A_REQUEST * len(roots))
    cost += elements * _READ + A_REQUEST * (len(once) + results * each) + _CORNER
    fresh, near = asked.from_memory(loads_below(roots))
    stored = asked.stored(kernel.stores)
    again = sum(_again(asked, stencil, results) for stencil in seen)
    lines = elements * _STRADDLED * max(one.along.stride, 1) + len(once) + results * each
    walk_ = Walk(
        fresh_bytes=fresh / warps,
        stored_bytes=stored / warps,
        near_bytes=(near + again) / warps,
        instructions=cost * _LANES,
        lines=lines,
        trips=1.0,
    )
    held = elements + len(once) + 2.0 * results
    teams = resident(asked.target, schedule, schedule.threads, held) * schedule.threads // _LANES
    found = launched(asked, Work(warps, _LANES, max(1, teams), (walk_,), 0.0, 0.0, FLAT_NS))
    blocks = math.ceil(warps * _LANES / schedule.threads)
    return replace(found, us=found.us + lifetime.crowded_us(asked.target, blocks, fresh + stored))


def _elements(stencil: Stencil, results: int) -> int:
    """Elements that a thread reads."""
    layers = math.prod(window.count for window in stencil.windows[:-2])
    return layers * seen_of(stencil.down, results) * seen_of(stencil.along, 1)


def _again(asked: Asked, stencil: Stencil, results: int) -> float:
    """Bytes that come from L2 once more: rows of which two strips have a part, and sectors of two warps."""
    loads = [leaf for leaf in leaves(stencil.source) if isinstance(leaf, Load)]
    rows = (stencil.down.extent - stencil.down.stride) / (results * stencil.down.stride)
    found = 0.0
    for load in loads:
        span = _LANES * stencil.along.stride * asked.element(load)
        wider = stencil.along.extent > stencil.along.stride
        found += asked.read(load) * (rows + (read_at_ends(span) if wider else 0.0))
    return found


def _varies(load: Load) -> bool:
    """False for what is the same for neighbouring results, as a channel's weights are."""
    return bool(load.lookups) or (bool(load.view.axes) and not load.view.axes[-1].stride.is_zero)
