"""What a kernel reads that a kernel before it has read: L2 may still have the end of it.

Owns which buffers these are, in which order they are gone through again, and how much is found in L2 then.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.model import Target
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.plane_turns import LEFT, kept_in_turns
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.analysis.row_shapes import bundles_of
from workbench.playbook.ir.expr import Load, loads_below
from workbench.playbook.ir.program import Kernel, Program
from workbench.playbook.schedules.residency import resident
from workbench.playbook.schedules.schedule import RESIDENT, Schedule, bundle_of, in_bundles

BACKWARDS = "// From the last block to the first: what the launch before has read last is still in L2."
ALL_BACKWARDS = "// All planes side by side, each from its end: so the launch before has left them in L2."

_HELD = 5
"""Vectors that a thread of a bundle has in registers: those on their way, and what its columns come to."""


def read_before(program: Program, kernel: Kernel) -> frozenset[str]:
    """Arguments of which the kernel reads an element for each of its own, and that an earlier one reads."""
    number = program.maker(store.buffer for store in kernel.stores)
    return frozenset() if number is None else program.read_before(number, _whole(program, kernel))


def by_plane(program: Program, kernel: Kernel) -> bool:
    """True where what earlier kernels made differs from one part of the elements to the next.

    Each part has been walked by blocks of its own then, all at the same time: L2 has the end of each.
    """
    made = [load for load in _loads(kernel) if program.buffers[load.buffer].role != "argument"]
    return any(load.view.axes and not load.view.axes[0].stride.is_zero for load in made)


def goes_back(program: Program, schedule: Schedule, kernel: Kernel, in_planes: bool) -> bool:
    """True where a kernel begins at the end of what was read before; ``in_planes``: it can at each one's."""
    in_order = in_planes or not by_plane(program, kernel)
    return schedule.backwards and in_order and bool(read_before(program, kernel))


def left_in_l2(target: Target, moved: float, back: bool) -> float:
    """Part of so many bytes, read again, that L2 has: all of few, of many the end if that comes first."""
    room = LEFT * target.l2_bytes
    return 1.0 if moved <= room else room / moved if back else 0.0


def found_again(asked: Asked, kernel: Kernel, in_planes: bool = False) -> float:
    """Bytes that the kernel need not read from memory."""
    if asked.as_written:
        return 0.0
    names = read_before(asked.program, kernel)
    moved = sum(asked.bytes_of(name) for name in names)
    if kept := kept_in_turns(asked, kernel):
        return moved * kept
    back = goes_back(asked.program, asked.schedule, kernel, in_planes)
    found = moved * left_in_l2(asked.target, moved, back)
    return found / _rounds(asked, names) if by_plane(asked.program, kernel) else found


def _rounds(asked: Asked, names: frozenset[str]) -> float:
    """Rounds of blocks in which the planes are read first: of those that wait for room nobody is at the end
    when the others are, and L2 has the ends of the last round alone."""
    for number in asked.program.readers(names):
        step = asked.program.steps[number]
        assert isinstance(step, Kernel)
        space = RowSpace(asked.program.pool, step)
        if step.stores[0].level == "row" and bundles_of(space, passes_of(space, step, single_pass=True)):
            return _rounds_of_bundles(asked, asked.at(space.rows), asked.at(space.columns))
    return 1.0


def _rounds_of_bundles(asked: Asked, rows: int, columns: int) -> float:
    schedule = replace(asked.schedule, team="thread")
    if not in_bundles(schedule, rows, columns):
        return 1.0
    bundles = math.ceil(rows / bundle_of(rows, schedule.width, schedule.bundle_lanes))
    beside = max(1, RESIDENT // schedule.threads)
    if schedule.launches != "together":
        beside = resident(asked.target, schedule, schedule.threads, _HELD * schedule.width)
    return max(1.0, bundles / (beside * asked.target.sm_count))


def _whole(program: Program, kernel: Kernel) -> set[str]:
    """Arguments of which the kernel reads an element for each of its own."""
    size = kernel.stores[0].columns
    arguments = [load for load in _loads(kernel) if program.buffers[load.buffer].role == "argument"]
    varying = [load for load in arguments if not any(axis.stride.is_zero for axis in load.view.axes)]
    return {load.buffer for load in varying if load.view.size == size and not load.lookups}


def _loads(kernel: Kernel) -> list[Load]:
    roots = [store.value for store in kernel.stores]
    return loads_below(roots)
