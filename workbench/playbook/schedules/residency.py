"""What a multiprocessor holds at once, as far as the playbook can tell before anything is compiled.

Owns the count of registers that a kernel is expected to take, and what becomes of those that a promise of
more blocks leaves no room for. The referee counts with what the compiler made; this never does.
"""

from __future__ import annotations

import math

from workbench.model import Target
from workbench.playbook.schedules.schedule import Schedule

REGISTERS = 19
"""Of a thread, beside the values of its row that it keeps: 12 and 16 kept make 32 in compiled kernels."""
SPILLED = 6.0
"""Instructions for each value that a promise of more blocks pushes out of the registers, there and back."""
_LANES = 32
_IN_GPC = 16
"""Multiprocessors that have room for clusters, of each group; an H100's groups have 16 or 18."""


def resident(target: Target, schedule: Schedule, threads: int, kept: float = 0.0, shared: float = 0.0) -> int:
    """Blocks of a multiprocessor, as threads, registers and shared memory allow; at least one.

    ``kept`` counts values of four bytes that a thread keeps, ``shared`` bytes of a block.
    """
    threads = max(threads, _LANES)
    registers = math.ceil((REGISTERS + kept) / 8) * 8
    if schedule.promised:
        registers = min(registers, target.registers_per_sm // max(schedule.promised, threads))
    blocks = min(target.threads_per_sm // threads, target.blocks_per_sm)
    blocks = min(blocks, int(target.registers_per_sm // (threads * registers)))
    if shared:
        blocks = min(blocks, int(target.shared_bytes_per_sm // shared))
    return max(blocks, 1)


def spilled(target: Target, schedule: Schedule, kept: float) -> float:
    """Instructions of a thread for what its share of the registers does not hold."""
    if not schedule.promised or schedule.cache != "registers":
        return 0.0
    share = target.registers_per_sm / max(schedule.promised, schedule.threads)
    return SPILLED * max(0.0, REGISTERS + kept - share)


def in_clusters(target: Target, blocks: int) -> int:
    """Multiprocessors that clusters find room on: those of 16 blocks leave a group or two unused."""
    groups = target.sm_count // _IN_GPC
    return _IN_GPC * max(1, groups if blocks < _IN_GPC else groups - 1)
