"""The model of time for sums down columns whose weights one lane makes for its neighbours.

Owns what a block of such a kernel asks for; lifetime.py makes times of it.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis import lifetime, reach
from workbench.playbook.analysis.arithmetic import instructions_of, is_long, join_ns
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import Walk, Work
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.analysis.shared_weights import SharedWeights
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import Load, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.weights_kernel import AHEAD
from workbench.playbook.schedules.residency import resident

_LANES = 32
_A_SHUFFLE = 2.0
"""Instructions of one, and of what says whether a column is there."""
_JOINED_US = 3.0
"""The last block of a split learns that it is, and joins what all have left: as other splits are modelled."""
_EACH_ITS_OWN = 1.9
"""Time of kernels whose every thread computes the weights itself, over what is counted of it. Tokens of
64x512x1024 pooled by a softmax of their scores take 100.4 us on an H200 so, where bytes ask for 34: two warps
a scheduler, each of which waits for its own exponentials and quotients."""


def each_its_own(found: Estimate, shared: SharedWeights) -> Estimate:
    """Of a kernel that does not share its weights, given what is counted of it."""
    slow = is_long(shared.parts, [])
    return replace(found, us=found.us * _EACH_ITS_OWN) if slow else found


def weights_time(asked: Asked, kernel: Kernel, found: SharedWeights) -> Estimate:
    """Time of a kernel whose lanes share the weights that are made of its columns."""
    space = RowSpace(asked.program.pool, kernel)
    (step,) = passes_of(space, kernel, single_pass=False)
    schedule, width = asked.schedule, found.width(asked.schedule, asked.sizes)
    pieces = found.pieces(schedule, asked.target, asked.sizes)
    rows, columns = asked.at(space.rows), asked.at(space.columns) / pieces
    blocks, groups = math.ceil(rows / _LANES / width) * pieces, schedule.threads // _LANES
    made = {part.serial for one in found.parts for part in walk(one)}
    loads = space.column_loads(step.roots, guarded=True)
    own = [load for load in loads if load.serial not in made]
    near = float(sum(asked.read(load) for load in loads if asked.is_recent(load)))
    fresh = sum(asked.read(load) for load in loads) - near  # in lines: a warp reads what lies side by side
    stored = asked.stored(kernel.stores)
    ahead = AHEAD * schedule.items
    cost = width * (instructions_of(step.roots, schedule.fast_math, made) + len(step.accumulators))
    cost += reach.A_REQUEST * len(own) + _A_SHUFFLE * len(found.parts)
    cost += _of_weights(asked, found, loads) / lanes_that_share(asked.at(found.neighbours), width)
    walk_down = Walk(
        fresh_bytes=fresh / blocks,
        stored_bytes=stored / blocks,
        near_bytes=near / blocks,
        instructions=cost * columns * _LANES,
        trips=max(1.0, columns / groups / ahead),
        join_ns=width * max(join_ns(one.kind, schedule.threads, False) for one in step.accumulators),
    )
    held = width * (len(step.accumulators) + ahead * sum(asked.element(load) / 4 for load in own))
    beside = resident(asked.target, schedule, schedule.threads, held)
    work = Work(blocks, schedule.threads, beside, (walk_down,), 0.0, 0.0)
    told = launched(asked, work)
    joined_us = _JOINED_US if pieces > 1 else 0.0
    return replace(told, us=told.us + joined_us + lifetime.crowded_us(asked.target, blocks, fresh + stored))


def lanes_that_share(neighbours: int, width: int) -> int:
    """Lanes that hand weights round: the largest power of two that their neighbours divide into."""
    vectors = neighbours // width | _LANES
    return vectors & -vectors


def _of_weights(asked: Asked, found: SharedWeights, loads: list[Load]) -> float:
    """Instructions of the weights of one column."""
    below = {part.serial for one in found.parts for part in walk(one)}
    requests = sum(load.serial in below for load in loads)
    return instructions_of(found.parts, asked.schedule.fast_math) + reach.A_REQUEST * requests
