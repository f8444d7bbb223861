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
    last_written: dict[str, int] = {}
    last_read: dict[str, int] = {}
    """By buffer the last stage that does so."""
    for place, kernel in enumerate(kernels):
        # What is read waits for who has written it, and the other way round. Pieces of one buffer have places
        # of their own.
        read, written = _read(kernel), _written(kernel)
        before = [last_written[name] for name in read if name in last_written]
        before += [last_read[name] for name in written if name in last_read]
        stage = max(before, default=-1) + 1
        for names, last in ((read, last_read), (written, last_written)):
            last.update((name, max(stage, last.get(name, stage))) for name in names)
        stages += [[]] if stage == len(stages) else []
        stages[stage].append(place)
    return stages


def _written(kernel: Sharing) -> set[str]:
    if isinstance(kernel, Scatter):
        return {kernel.buffer}
    return {store.buffer for store in kernel.all_stores}


def _read(kernel: Sharing) -> set[str]:
    if isinstance(kernel, Scatter):
        return kernel.read
    return {load.buffer for load in loads_below([store.value for store in kernel.all_stores])}
