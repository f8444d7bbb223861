"""What a kernel reads that a kernel before it has read: L2 may still have the end of it.

Owns which buffers these are, in which order they are gone through again, and how much is found in L2 then.
"""

from __future__ import annotations

from workbench.model import Target
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.ir.expr import Load, loads_below
from workbench.playbook.ir.program import Kernel, Program
from workbench.playbook.schedules.schedule import Schedule

BACKWARDS = "// From the last block to the first: what the launch before has read last is still in L2."
ALL_BACKWARDS = "// All planes side by side, each from its end: so the launch before has left them in L2."
_LEFT = 0.5
"""Of L2, that still has what was read last when it is read again: results are written beside it, and each
half of an H100's L2 keeps what its own multiprocessors ask for (a guess)."""


def read_before(program: Program, kernel: Kernel) -> frozenset[str]:
    """Arguments of which the kernel reads an element for each of its own, and that an earlier one reads."""
    made = {store.buffer for store in kernel.stores}
    for number, step in enumerate(program.steps):
        if isinstance(step, Kernel) and made <= {store.buffer for store in step.stores}:
            return program.read_until(number) & _whole(program, kernel)
    return frozenset()


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
    room = _LEFT * target.l2_bytes
    return 1.0 if moved <= room else room / moved if back else 0.0


def found_again(asked: Asked, kernel: Kernel, in_planes: bool = False) -> float:
    """Bytes that the kernel need not read from memory."""
    if asked.as_written:
        return 0.0
    moved = sum(asked.bytes_of(name) for name in read_before(asked.program, kernel))
    back = goes_back(asked.program, asked.schedule, kernel, in_planes)
    return moved * left_in_l2(asked.target, moved, back)


def _whole(program: Program, kernel: Kernel) -> set[str]:
    """Arguments of which the kernel reads an element for each of its own."""
    size = kernel.stores[0].columns
    arguments = [load for load in _loads(kernel) if program.buffers[load.buffer].role == "argument"]
    varying = [load for load in arguments if not any(axis.stride.is_zero for axis in load.view.axes)]
    return {load.buffer for load in varying if load.view.size == size and not load.lookups}


def _loads(kernel: Kernel) -> list[Load]:
    roots = [store.value for store in kernel.stores]
    return loads_below(roots)
