"""The model of time for kernels whose warps read many rows once, for all of a few others.

Owns what a block of such a kernel asks for; lifetime.py makes times of it. Counted from its text, or guessed,
but for two numbers, which were fitted to 149 kernels of five products on an H200: what the model says of them
is 0.69 of what they take, and then off by 19% (benchmarks/few_rows.py --told, with the day's receipt).
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.arithmetic import instructions_of, multiply_adds
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.few_rows import FewRows
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import Walk, Work
from workbench.playbook.analysis.pairs import VECTOR_BYTES, Operand
from workbench.playbook.analysis.reach import A_REQUEST
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.estimates.pairs_estimate import taken_in
from workbench.playbook.ir.expr import loads_below, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.few_tiling import LANES, FewTiling
from workbench.playbook.schedules.residency import in_clusters, resident

_LINE = 128
"""Bytes that shared memory gives a clock."""
_STEP = 8.0
"""Instructions of a step beside its loads and sums: the loop, its bounds and addresses (a guess)."""
_BROUGHT = 8.0
"""Instructions to bring an element of the few in, beside its load (a guess)."""
_EXCHANGE = 4.0
"""Instructions of an exchange: two choices, a shuffle, what joins (counted)."""
_BARRIERS_NS = 50.0
"""Two barriers a piece (a guess)."""
_MEETING_NS = 900.0
"""Until the blocks of a cluster have met twice, and read what the others have left (a guess)."""
_UNEVEN = 2.0
"""Clocks over instructions, where loads, shared memory and sums wait for one another (fitted)."""
_BLOCK_NS = 3000.0
"""Of a block's life, around what it does: what it waits for at its begin and end nobody fills (fitted)."""
_HELD = 12.0
"""Registers beside sums and vectors (a guess)."""


def few_time(asked: Asked, kernel: Kernel, few: FewRows, tiling: FewTiling) -> Estimate:
    """Time of all blocks of a kernel."""
    pairs = few.pairs
    turns = math.ceil(asked.at(pairs.axes[few.few]) / few.count)
    groups = math.ceil(asked.at(pairs.axes[few.many]) / tiling.many) * asked.at(pairs.outer)
    blocks = groups * turns * tiling.split
    columns = math.ceil(asked.at(pairs.columns) / tiling.split)
    width = asked.width(pairs.columns)
    fresh = asked.read_once(loads_below([one.operand for one in pairs.accumulators]))
    waiting = columns * sum(_bytes_a_column(asked, one, few.count) for one in few.waiting)
    again = (turns - 1) / turns * fresh / blocks
    pieces = math.ceil(columns / tiling.piece)
    brought = Walk(
        near_bytes=waiting + again,
        instructions=columns * sum(_brought(asked, one, few.count, width) for one in few.waiting),
        trips=float(pieces),
        join_ns=pieces * _BARRIERS_NS,
    )
    deep = tiling.deep
    vectors = math.ceil(columns / (LANES * width))
    sums = few.count * tiling.rows * len(pairs.accumulators)
    each = vectors * (_vector(asked, few, tiling, width) + _STEP / deep)
    each += _EXCHANGE * max(math.log2(LANES), sums)
    results = tiling.many * few.count / tiling.split
    tails = instructions_of([store.value for store in kernel.stores], asked.schedule.fast_math, set())
    summed = Walk(
        fresh_bytes=fresh / blocks,
        stored_bytes=asked.stored(kernel.stores) / blocks,
        instructions=_UNEVEN * each * tiling.threads
        + results * (tails + A_REQUEST * len(kernel.stores) + _STEP),
        lines=max(1.0, width / 4) * vectors * tiling.warps * _on_chip(few) * width * LANES / _LINE,
        chain_cycles=each,
        trips=math.ceil(vectors / deep),
        join_ns=_BARRIERS_NS + (_MEETING_NS if tiling.split > 1 else 0.0),
    )
    held = _HELD + sums + width * tiling.rows * deep * _words(asked, few)
    shared = _on_chip(few) * tiling.piece + 4.0 * sums * tiling.warps
    teams = resident(asked.target, asked.schedule, tiling.threads, held, shared)
    work = Work(blocks, tiling.threads, teams, (brought, summed), 0.0, 0.0, _BLOCK_NS)
    found = launched(asked, work, in_clusters(asked.target, tiling.split) if tiling.split > 1 else 0)
    return replace(found, dram_bytes=fresh + asked.stored(kernel.stores))


def _bytes_a_column(asked: Asked, operand: Operand, count: int) -> float:
    """That a block reads for what waits in shared memory."""
    rows = 1 if operand.axis is None else count
    return float(rows * max((asked.element(load) for load in loads_below([operand.expr])), default=0))


def _brought(asked: Asked, operand: Operand, count: int, width: int) -> float:
    """Instructions of a block, of a column."""
    rows = 1 if operand.axis is None else count
    cost = instructions_of([operand.expr], asked.schedule.fast_math)
    read = _BROUGHT + A_REQUEST * len(loads_below([operand.expr]))
    return rows * (cost + read / (width if operand.loads else 1))


def _on_chip(few: FewRows) -> float:
    """Bytes of shared memory of a column."""
    sizes = [(DTYPE_BYTES[one.expr.dtype], 1 if one.axis is None else few.count) for one in few.waiting]
    return float(sum(size * rows for size, rows in sizes))


def _words(asked: Asked, few: FewRows) -> float:
    """Registers of an element of the many that is on its way."""
    return sum(asked.element(load) for load in loads_below([one.expr for one in few.read])) / 4


def _vector(asked: Asked, few: FewRows, tiling: FewTiling, width: int) -> float:
    """Instructions of a lane, of a vector of every row that its warp has."""
    fast, rows = asked.schedule.fast_math, tiling.rows
    read = [one.expr for one in few.read]
    bodies = [one.operand for one in few.pairs.accumulators]
    known = {below.serial for one in few.pairs.operands for below in walk(one.expr)}
    cost = instructions_of(bodies, fast, known) - multiply_adds(bodies, known)
    cost += sum(taken_in(one, known) for one in few.pairs.accumulators)
    made = rows * (instructions_of(read, fast) * width + A_REQUEST * len(loads_below(read)))
    from_chip = _on_chip(few) * width / VECTOR_BYTES
    return made + from_chip + few.count * rows * width * max(1.0, cost)
