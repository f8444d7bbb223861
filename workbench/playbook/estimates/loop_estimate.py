"""The model of time for kernels whose threads go through the steps of a recurrence.

Owns what such a thread asks for; lifetime.py makes times of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis import lifetime, reach
from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import FLAT_NS, Walk, Work
from workbench.playbook.analysis.recurrences import Recurrence
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import loads_below, unguarded
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.loop_kernel import ahead_of, early_loads, makes_vectors, vector_sizes
from workbench.playbook.schedules.residency import resident

_LANES = 32
_CONTROL = 3.0
"""Instructions of a step beside its own: the address moves on, the end of the loop is asked for."""


def loop_time(asked: Asked, kernel: Kernel, found: Recurrence) -> Estimate:
    """Time of a kernel with a thread for each index of its line, and a loop in each thread."""
    schedule, roots = asked.schedule, [store.value for store in kernel.stores]
    count = asked.at(kernel.stores[0].columns)
    width = _width(asked, kernel, found)
    warps = math.ceil(count / width / _LANES)
    ahead = ahead_of(found, schedule, width)
    loads = loads_below(roots)
    fresh, near = asked.from_memory(loads)
    stored = asked.stored(kernel.stores)
    always = {leaf.serial for leaf in unguarded(*roots)}
    lines = {one: reach.lines_of(one, width, asked.element(one), one.serial in always) for one in loads}
    cost = instructions_of(roots, schedule.fast_math) + reach.A_REQUEST * len(kernel.stores) / width
    cost += reach.asked(lines.items(), width, schedule.narrow, False) + _CONTROL * found.steps / width
    walk = Walk(
        fresh_bytes=fresh / warps,
        stored_bytes=stored / warps,
        near_bytes=near / warps,
        instructions=cost * count / warps,
        lines=sum(lines.values()) * count / _LANES / warps,
        trips=math.ceil(found.steps / ahead),
    )
    held = 2.0 * width * (ahead * len(early_loads(found)) + len(found.carried))
    teams = resident(asked.target, schedule, schedule.threads, held) * schedule.threads // _LANES
    launch = launched(asked, Work(warps, _LANES, teams, (walk,), 0.0, 0.0, FLAT_NS))
    blocks = math.ceil(count / width / schedule.threads)
    code = cost * width * ahead / found.steps
    us = launch.us + lifetime.crowded_us(asked.target, blocks, fresh + stored) + lifetime.fetched_us(code)
    return replace(launch, us=us)


def _width(asked: Asked, kernel: Kernel, found: Recurrence) -> int:
    """Neighbours a thread: as many as all vectors of the loop have borders for."""
    if asked.schedule.width == 1 or not makes_vectors(found):
        return 1
    sizes = [asked.at(size) for size in vector_sizes(found)]
    most = asked.width(kernel.stores[0].columns)
    return next((one for one in (most, most // 2) if one and not any(size % one for size in sizes)), 1)
