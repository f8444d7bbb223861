"""What values that join places which data names are estimated to take.

Owns the model of atomics: how many of them L2 serves, and what it costs where many want the same place.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis import reach
from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import CLOCK_GHZ, DRAM_TRIP, FLAT_NS, L2_TRIP, Walk, Work
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import loads_below, unguarded
from workbench.playbook.ir.program import Scatter
from workbench.playbook.kernels.own_sums import has_few_places
from workbench.playbook.kernels.packs import together_where
from workbench.playbook.schedules.residency import resident
from workbench.playbook.text.indexing import is_unit

_SLICES = 112
"""Of L2, each of which is taken to join 16 bytes a clock. An assumption, fitted to one number: torch.compile
adds 131,072 rows of 512 bytes to 16,384, clearing them included, in 27.6 us on an H200."""
A_CLOCK = 16
_TRIPS = 2 * L2_TRIP / DRAM_TRIP
"""A gather waits for its index. Both mostly come from L2: neighbouring warps share sectors of indices, and
rows are named by several (a guess)."""
_SHARED_CYCLES, _TURN_CYCLES = 8.0, 4.0
"""Of a warp's request to a block's own sums, and of each turn that its lanes take at one place (guesses)."""
_CLEARED_US = 2.0
"""To clear them, and to add them in the end (a guess)."""
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
    moved = joined if is_unit(scatter.place.view) else float(count * A_CLOCK)
    served = served_us(asked.bytes_of(scatter.buffer), moved)
    if schedule.own_sums and has_few_places(scatter, [asked.sizes]):
        served = _own_us(asked, scatter)
    own = found.us - asked.target.launch_us
    return replace(found, us=max(own, served) + asked.target.launch_us)


def _own_us(asked: Asked, scatter: Scatter) -> float:
    """Sums of blocks: lanes of a warp that name one place take turns, and a barrier before and after."""
    turns = max(1.0, _LANES / asked.at(scatter.places))
    requests = asked.at(scatter.columns) / _LANES / asked.target.sm_count
    return 1e-3 * requests * (_SHARED_CYCLES + _TURN_CYCLES * turns) / CLOCK_GHZ + _CLEARED_US


def _is_together(asked: Asked, scatter: Scatter, width: int) -> bool:
    """True where a vector of values belongs in one place."""
    sizes = together_where(scatter.place) if is_unit(scatter.place.view) else None
    return sizes is not None and not any(asked.at(size) % width for size in sizes)


def _read_again(asked: Asked, scatter: Scatter) -> float:
    """Bytes that gathers take from L2: rows that several indices name come from memory once."""
    gathered = [load for load in loads_below(scatter.values) if load.lookups]
    whole = sum(asked.at(scatter.columns) * asked.element(load) for load in gathered)
    return max(0.0, whole - asked.read_once(gathered))


def served_us(places_bytes: float, moved: float) -> float:
    """Until L2 has done all atomics; those of few places have few slices to do them."""
    busy = min(_SLICES, max(1.0, places_bytes / A_CLOCK))
    return moved / (busy * A_CLOCK * CLOCK_GHZ) * 1e-3
