"""Which kernels of a program need one another: stages, each of which needs only what earlier ones have made.

Owns that order. Knows buffers alone, neither texts nor schedules.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.playbook.ir.expr import loads_below
from workbench.playbook.ir.program import Kernel, ProgramStep, Scatter

Sharing = Kernel | Scatter
"""Steps that may have a launch in common."""


def runs_of(steps: Sequence[ProgramStep]) -> list[list[Sharing]]:
    """Steps that follow one another and may share launches; calls of a library and scans are between runs."""
    runs: list[list[Sharing]] = [[]]
    for step in steps:
        if isinstance(step, Kernel | Scatter):
            runs[-1].append(step)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def stages_of(kernels: Sequence[Sharing]) -> list[list[int]]:
    """Places of kernels by stage: those of one stage do not need one another, in any order."""
    stages: list[list[int]] = []
    stage_of: list[int] = []
    for place, kernel in enumerate(kernels):
        before = [stage_of[other] for other in range(place) if _in_order(kernels[other], kernel)]
        stage_of.append(max(before, default=-1) + 1)
        stages += [[]] if stage_of[-1] == len(stages) else []
        stages[stage_of[-1]].append(place)
    return stages


def _in_order(first: Sharing, second: Sharing) -> bool:
    """True where the second must wait for the first. Pieces of one buffer have places of their own."""
    return bool(_written(first) & _read(second) or _read(first) & _written(second))


def _written(kernel: Sharing) -> set[str]:
    if isinstance(kernel, Scatter):
        return {kernel.buffer}
    return {store.buffer for store in kernel.all_stores}


def _read(kernel: Sharing) -> set[str]:
    if isinstance(kernel, Scatter):
        return kernel.read
    return {load.buffer for load in loads_below([store.value for store in kernel.all_stores])}
