"""What a kernel is estimated to take whose threads are at the same place of several lines.

Owns what such a thread asks for; lifetime.py makes a time of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis import lifetime
from workbench.playbook.analysis.again import found_again
from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import FLAT_NS, Walk, Work
from workbench.playbook.analysis.lines import Lines
from workbench.playbook.analysis.reach import A_REQUEST
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import loads_below
from workbench.playbook.ir.program import Kernel
from workbench.playbook.schedules.residency import resident
from workbench.playbook.text.indexing import is_unit

_LANES = 32
_PLACE = 30.0
"""Instructions to find a thread's plane, line and place."""
_DIVIDED = 4.0
"""Instructions to divide a place in its line by a constant."""


def lines_time(asked: Asked, kernel: Kernel, lines: Lines) -> Estimate:
    """Time of such a kernel."""
    schedule = asked.schedule
    count = asked.at(kernel.stores[0].columns)
    items, width = schedule.lines, schedule.width
    beside = max(1, schedule.threads // max(1, asked.at(lines.places) // width))
    blocks = asked.at(lines.planes) * math.ceil(asked.at(lines.lines) / (beside * items))
    warps = max(1, blocks * schedule.threads // _LANES)
    roots = [store.value for store in kernel.stores]
    loads = loads_below(roots)
    whole = [load for load in loads if load.view.is_linear]
    parts = [lines.parts(load) for load in loads if not load.view.is_linear]
    places = [part[1] for part in parts if part is not None]
    apart = sum(1 for place in places if place.axes and not is_unit(place) and not place.is_constant)
    once = _PLACE + A_REQUEST * (len(places) - apart) + apart * width * (A_REQUEST + _DIVIDED)
    each = width * instructions_of(roots, schedule.fast_math) + A_REQUEST * (len(whole) + len(kernel.stores))
    stored = asked.stored(kernel.stores)
    fresh, near = asked.from_memory(loads)
    found = found_again(asked, kernel, in_planes=True)
    walk = Walk(
        fresh_bytes=max(fresh - found, 0.0) / warps,
        stored_bytes=stored / warps,
        near_bytes=(near + found) / warps,
        instructions=_LANES * (once + count / width / (warps * _LANES) * each),
        lines=(len(places) + apart * (width - 1)) + items * width * (len(whole) + len(kernel.stores)),
        trips=1.0,
    )
    held = width * (items * len(whole) + len(places))
    teams = resident(asked.target, schedule, schedule.threads, held) * schedule.threads // _LANES
    time = launched(asked, Work(warps, _LANES, max(1, teams), (walk,), 0.0, 0.0, FLAT_NS))
    return replace(time, us=time.us + lifetime.crowded_us(asked.target, blocks, fresh + stored))
