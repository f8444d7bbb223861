"""What values that join places which data names are estimated to take.

Owns the model of atomics: how many of them L2 serves, and what it costs where many want the same place.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook import reach
from workbench.playbook.arithmetic import instructions_of
from workbench.playbook.asked_bytes import Asked
from workbench.playbook.expr import loads_below, unguarded
from workbench.playbook.following import Estimate
from workbench.playbook.indexing import is_unit
from workbench.playbook.launch_estimate import launched
from workbench.playbook.lifetime import CLOCK_GHZ, DRAM_TRIP, FLAT_NS, L2_TRIP, Walk, Work
from workbench.playbook.packs import together_where
from workbench.playbook.program import Scatter
from workbench.playbook.residency import resident

_SLICES = 112
"""Of L2, each of which is taken to join 16 bytes a clock. An assumption, fitted to one number: torch.compile
adds 131,072 rows of 512 bytes to 16,384, clearing them included, in 27.6 us on an H200."""
_A_CLOCK = 16
_TRIPS = 2 * L2_TRIP / DRAM_TRIP
"""A gather waits for its index. Both mostly come from L2: neighbouring warps share sectors of indices, and
rows are named by several (a guess)."""
_LANES = 32


def scatter_time(asked: Asked, scatter: Scatter) -> Estimate:
    """Model the kernel: that of a line of elements, or what L2 takes for the atomics if that is longer."""
    count, schedule = asked.at(scatter.columns), asked.schedule
    width = asked.width(scatter.columns)
    loads = loads_below(scatter.values)
    plain = {leaf.serial for root in scatter.values for leaf in unguarded(root)}
    lines = {one: reach.lines_of(one, width, asked.element(one), one.serial in plain) for one in loads}
    together = _is_together(asked, scatter, width)
    each = width if together and scatter.value.dtype == "f32" else 1
    cost = instructions_of([scatter.value], schedule.fast_math) + reach.A_REQUEST / each
    cost += reach.asked(lines.items(), width, schedule.narrow, False)
    warps = max(1, math.ceil(count / width / schedule.items / _LANES))
    fresh, near = asked.from_memory(loads)
    joined = count * asked.element_of(scatter.buffer)
    walk = Walk(
        fresh_bytes=fresh / warps,
        near_bytes=(near + _read_again(asked, scatter)) / warps,
        instructions=cost * count / warps,
        lines=sum(lines.values()) * count / _LANES / warps,
        trips=_TRIPS,
    )
    held = schedule.items * sum(2.0 * width if load.serial in plain else 1.0 for load in loads)
    teams = resident(asked.target, schedule, schedule.threads, held) * schedule.threads // _LANES
    found = launched(asked, Work(warps, _LANES, teams, (walk,), 0.0, 0.0, FLAT_NS))
    moved = joined if is_unit(scatter.place.view) else float(count * _A_CLOCK)
    served = _served_us(asked, scatter, moved)
    own = found.us - asked.target.launch_us
    return replace(found, us=max(own, served) + asked.target.launch_us)


def _is_together(asked: Asked, scatter: Scatter, width: int) -> bool:
    """True where a vector of values belongs in one place."""
    sizes = together_where(scatter.place) if is_unit(scatter.place.view) else None
    return sizes is not None and not any(asked.at(size) % width for size in sizes)


def _read_again(asked: Asked, scatter: Scatter) -> float:
    """Bytes that gathers take from L2: rows that several indices name come from memory once."""
    gathered = [load for load in loads_below(scatter.values) if load.lookups]
    whole = sum(asked.at(scatter.columns) * asked.element(load) for load in gathered)
    return max(0.0, whole - asked.read_once(gathered))


def _served_us(asked: Asked, scatter: Scatter, moved: float) -> float:
    """Until L2 has done all atomics; those of few places have few slices to do them."""
    places = asked.bytes_of(scatter.buffer)
    busy = min(_SLICES, max(1.0, places / _A_CLOCK))
    return moved / (busy * _A_CLOCK * CLOCK_GHZ) * 1e-3
