"""The model of time for kernels whose blocks have tiles of results that are pairs of rows.

Owns what such a block asks for; lifetime.py makes times of it. Counted from their text, or guessed: two
problems have been timed since, and nothing was fitted to them (docs/notes/2026-11-23-pairs-by-tiles.md).
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.arithmetic import instructions_of, multiply_adds
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import Walk, Work
from workbench.playbook.analysis.pairs import Operand, Pairs
from workbench.playbook.analysis.reach import A_REQUEST
from workbench.playbook.analysis.row_passes import Accumulator
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import Apply, Load, leaves, loads_below, walk
from workbench.playbook.ir.operations import is_float
from workbench.playbook.ir.program import Kernel
from workbench.playbook.kernels.pair_tiling import Tiling, shared_bytes
from workbench.playbook.schedules.residency import resident

_LANES = 32
_IN_BANKS = 8
"""Vectors of 16 bytes that shared memory serves a clock."""
_LEAST_TURNS = 2.0
"""Clocks of a load of 16 bytes a lane, however many lanes read the same (a guess)."""
_STEP = 6.0
"""Instructions of a step beside its loads and sums: the loop and addresses (a guess)."""
_BROUGHT = 8.0
"""Instructions to bring an element in beside its loads: its place, its bounds, its store (a guess)."""
_EXTREME = 1.0
"""Instructions of the larger of two floats where NaN wins."""
_UNEVEN = 1.2
"""Clocks over instructions, where warps wait for registers and for one another's banks (a guess)."""
_ALONE = 1.6
"""Clocks from an instruction of a thread to its next (a guess)."""
_ON_ITS_WAY = 3.0
"""Registers of a load that is on its way: its address, and what comes."""
_BARRIERS_NS = 50.0
"""Two barriers a piece (a guess)."""


def pairs_time(asked: Asked, kernel: Kernel, pairs: Pairs, tiling: Tiling) -> Estimate:
    """Time of all tiles of a kernel."""
    down, across = (asked.at(pairs.axes[at]) for at in (pairs.down, pairs.across))
    edge, columns = tiling.tile, asked.at(pairs.columns)
    blocks = math.ceil(down / edge) * math.ceil(across / edge) * asked.at(pairs.outer)
    pieces = math.ceil(columns / tiling.piece)
    bodies = [one.operand for one in pairs.accumulators]
    fresh = asked.read_once(loads_below(bodies))
    sides = sum(bool(pairs.held(axis, varies=True)) for axis in (pairs.down, pairs.across))
    trips = pieces * (1 if tiling.is_roomy else sides * math.ceil(tiling.brought / tiling.ahead))
    wanted = blocks * columns * sum(_bytes_a_column(asked, one, edge) for one in pairs.operands)
    near = max(0.0, wanted - fresh)
    share = fresh / max(fresh + near, 1.0)
    brought = Walk(
        near_bytes=near / blocks,
        instructions=columns * sum(_brought(asked, one, tiling) for one in pairs.operands if one.varies),
        trips=trips * (1.0 - share),
        join_ns=pieces * _BARRIERS_NS,
    )
    first = Walk(fresh_bytes=fresh / blocks, trips=trips * share)
    each = _thread(asked, kernel, pairs, tiling)
    summed = Walk(
        stored_bytes=asked.stored(kernel.stores) / blocks,
        instructions=_UNEVEN * each * tiling.threads,
        lines=_turns(pairs, tiling, columns),
        chain_cycles=_ALONE * each,
    )
    held = sum(pairs.results) / 4 * tiling.below * tiling.right + 4.0 * _packs(pairs, tiling)
    held += _ON_ITS_WAY * tiling.ahead * (sides if tiling.is_roomy else 1)
    shared = float(shared_bytes(pairs, edge, tiling.piece))
    teams = resident(asked.target, asked.schedule, tiling.threads, held, shared)
    work = Work(blocks, tiling.threads, teams, (first, brought, summed), 0.0, 0.0)
    found = launched(asked, work)
    return replace(found, dram_bytes=fresh + asked.stored(kernel.stores))


def _bytes_a_column(asked: Asked, operand: Operand, edge: int) -> float:
    """What a block reads of a column for an operand."""
    if not operand.varies:
        return 0.0
    loads = [leaf for leaf in leaves(operand.expr) if isinstance(leaf, Load)]
    rows = 1 if operand.axis is None else edge
    return float(rows * max((asked.element(load) for load in loads), default=0))


def _brought(asked: Asked, operand: Operand, tiling: Tiling) -> float:
    """Instructions of a block, of a column."""
    rows = 1 if operand.axis is None else tiling.tile
    cost = instructions_of([operand.expr], asked.schedule.fast_math)
    loads = len(loads_below([operand.expr]))
    if not operand.loads:
        return rows * (_BROUGHT + cost + A_REQUEST * loads)
    wide = len(operand.loads)
    return rows * (cost + A_REQUEST * (loads - wide) + (_BROUGHT + A_REQUEST * wide) / tiling.width)


def _packs(pairs: Pairs, tiling: Tiling) -> int:
    """Vectors that a thread reads a step: its rows beside one another wait for those below one another."""
    beside = sum(one.axis == pairs.across and one.varies for one in pairs.operands)
    return beside * tiling.right + sum(one.axis == pairs.down and one.varies for one in pairs.operands)


def _reads(pairs: Pairs, tiling: Tiling) -> tuple[int, int, int]:
    """Loads from shared memory a step: of rows below one another, of rows beside one another, of neither."""
    varies = [one.axis for one in pairs.operands if one.varies]
    neither = varies.count(None) * pairs.vector
    return varies.count(pairs.down) * tiling.below, varies.count(pairs.across) * tiling.right, neither


def _thread(asked: Asked, kernel: Kernel, pairs: Pairs, tiling: Tiling) -> float:
    """Instructions of a thread, from its first column to its last result."""
    steps = math.ceil(asked.at(pairs.columns) / pairs.vector)
    results = tiling.below * tiling.right
    bodies = [one.operand for one in pairs.accumulators]
    known = {below.serial for one in pairs.operands for below in walk(one.expr)}
    cost = instructions_of(bodies, asked.schedule.fast_math, known) - multiply_adds(bodies, known)
    cost += sum(taken_in(one, known) for one in pairs.accumulators)
    tails = [store.value for store in kernel.stores]
    written = instructions_of(tails, asked.schedule.fast_math, known) + A_REQUEST * len(tails)
    return steps * (sum(_reads(pairs, tiling)) + _STEP + pairs.vector * results * cost) + results * written


def taken_in(accumulator: Accumulator, known: set[int]) -> float:
    """Instructions that take one value in; a product goes with its sum."""
    body = accumulator.operand
    product = isinstance(body, Apply) and body.op == "mul" and is_float(body.dtype)
    if accumulator.kind == "sum" and product and body.serial not in known:
        return 0.0
    return _EXTREME if accumulator.kind in ("max", "min") and is_float(body.dtype) else 1.0


def _turns(pairs: Pairs, tiling: Tiling, columns: int) -> float:
    """Clocks that shared memory serves a block."""
    left, right, neither = _reads(pairs, tiling)
    across = tiling.tile // tiling.right
    rows = max(1, _LANES // across)
    step = left * max(_LEAST_TURNS, rows / _IN_BANKS) + neither
    step += right * max(_LEAST_TURNS, min(across, _LANES) / _IN_BANKS)
    varies = [one for one in pairs.operands if one.varies]
    stored = columns * tiling.tile * sum(DTYPE_BYTES[one.expr.dtype] / 4 for one in varies) / _LANES
    return math.ceil(columns / pairs.vector) * step * tiling.threads / _LANES + 2.0 * stored
