"""The model of time for convolutions that a kernel makes on float32 units.

Owns what a block asks for, fitted to convolutions timed on an H100 in IEEE float32
(docs/notes/2026-11-25-convolutions.md).
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.lifetime import Walk, Work
from workbench.playbook.analysis.reach import A_REQUEST
from workbench.playbook.estimates.launch_estimate import launched
from workbench.playbook.ir.expr import loads_below
from workbench.playbook.ir.program import Convolution
from workbench.playbook.kernels.convolution_tiling import (
    Tiling,
    lanes_a_bank,
    layers,
    left_free,
    met,
    seen,
    shared_bytes,
    tiling_of,
)
from workbench.playbook.schedules.residency import resident

_LANES = 32
_OF_A_WEIGHT = 1.0
"""Clocks of shared memory for each float that a lane reads, however many lanes read the same: it is the way
to the registers that is narrow."""
_BROUGHT = 8.0
"""Instructions to bring an element or a weight in, whose place is known (counted)."""
_UNEVEN = 1.45
"""Clocks over instructions, where warps wait for registers and for shared memory."""
_USUAL, _OF_LARGE = 128, 0.17
"""Of nine convolutions on an H100, blocks of 256 threads took 1.05 to 1.24 times as long as blocks of 128 in
seven."""
_ALONE = 1.6
_HELD = 40.0
"""Registers of a thread beside its sums: weights, elements and places."""
_BARRIERS_NS = 50.0
_NARROW_US, _FOUR = 3.9e-6, 4
"""More that a result takes where a warp stores to lines of four places: 661 million in planes 10 wide
(level1/59 of KernelBench) took 4354 us of which 1744 were expected."""


def convolution_time(asked: Asked, made: Convolution) -> Estimate:
    """Time of all tiles of the kernel."""
    tiling = tiling_of(made, asked.schedule, asked.declared)
    assert tiling is not None
    down, right = made.down, made.right
    tiles = math.ceil(asked.at(right.made) / tiling.wide)
    tiles *= math.ceil(asked.at(down.made) / tiling.tall) if down else 1
    tiles *= asked.at(made.deep.made) if made.deep else 1
    parts = math.ceil(asked.at(made.made) / tiling.channels) * asked.at(made.groups)
    blocks = tiles * parts * asked.at(made.batch)
    reads = asked.at(made.read)
    pieces = math.ceil(reads / tiling.piece)
    deep = layers(made)
    elements = reads * deep * seen(made, right, tiling.wide) * (seen(made, down, tiling.tall) if down else 1)
    taps = right.taps * (down.taps if down else 1)
    weights = reads * deep * taps * tiling.channels
    loads = [load for load in loads_below(store.value for store in made.stores) if load.buffer != made.buffer]
    fresh = asked.bytes_of(made.source) + asked.bytes_of(made.weight) + asked.read_once(loads)
    near = max(0.0, 4.0 * (elements + weights) * blocks - fresh)
    apart = right.stride * (down.stride if down else 1) if made.transposed else 1
    fused = reads * deep * taps * tiling.each * tiling.below * tiling.beside / apart
    read = _read(made, tiling) * reads * deep
    tail = _tail(asked, made) * tiling.each * tiling.below * tiling.beside
    each = fused + read / 4 + tail
    brought = Walk(
        fresh_bytes=fresh / blocks,
        near_bytes=near / blocks,
        instructions=_BROUGHT * (elements + weights),
        trips=2.0 if tiling.waiting > 1 else 2.0 * pieces,  # until the first is there; others come meanwhile
        join_ns=pieces * _BARRIERS_NS,
    )
    summed = Walk(
        stored_bytes=asked.stored(made.stores) / blocks,
        instructions=_UNEVEN * _meeting(tiling) * each * tiling.threads,
        lines=_OF_A_WEIGHT * read * tiling.threads / _LANES,
        chain_cycles=_ALONE * each,
    )
    sums = tiling.each * tiling.below * tiling.beside
    shared = float(shared_bytes(made, tiling))
    teams = resident(asked.target, asked.schedule, tiling.threads, _HELD + sums, shared)
    found = launched(asked, Work(blocks, tiling.threads, teams, (brought, summed), 0.0, 0.0))
    results = math.prod(asked.at(size) for size in made.shape) if tiling.wide <= _FOUR else 0.0
    return replace(found, us=found.us + _NARROW_US * results, dram_bytes=fresh + asked.stored(made.stores))


def _meeting(tiling: Tiling) -> float:
    """What larger blocks lose: more warps wait for one another at each barrier."""
    return max(1.0, math.pow(tiling.threads / _USUAL, _OF_LARGE))


def _read(made: Convolution, tiling: Tiling) -> float:
    """Floats that a thread reads from shared memory, of a channel and a plane of the input."""
    down, right = made.down, made.right
    across = met(made, right) + (1 if tiling.beside > 1 else 0)
    if down is None:
        return right.taps * tiling.each + tiling.below * across * lanes_a_bank(made, tiling, 0)
    weights = down.taps * right.taps * tiling.each
    lines = met(made, down) - 1 + tiling.below / (down.stride if made.transposed else 1)
    if not made.transposed:
        lines = min((tiling.below - 1) * down.stride + down.taps, tiling.below * down.taps)
    return weights + lines * across * lanes_a_bank(made, tiling, left_free(made, tiling))


def _tail(asked: Asked, made: Convolution) -> float:
    """Instructions of a result, from its sum to memory."""
    values = [store.value for store in made.stores]
    return instructions_of(values, asked.schedule.fast_math) + 2.0 * A_REQUEST * len(values)
