"""Which way suits each convolution of a plan: the library's, or one of those on tensor cores.

Owns the choice, by the model of time. A network's layers differ: few channels and many places first, many
channels and few places last. A plan that has one way for all of them has the wrong one for most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from workbench.model import H100, Target
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.convolutions import convolution_of
from workbench.playbook.estimates.library_estimate import library_time
from workbench.playbook.estimates.patches_estimate import patches_time
from workbench.playbook.estimates.product_estimate import convolution_product_time
from workbench.playbook.ir.program import Convolution, LibraryCall, Program, ProgramStep
from workbench.playbook.kernels.made_by_kernels import made_by_kernels, ways_of
from workbench.playbook.schedules.schedule import Schedule


def with_kernels(
    program: Program, steps: Sequence[ProgramStep], schedule: Schedule, cases: Sequence[Mapping[str, int]]
) -> list[ProgramStep]:
    """The steps with kernels in place of library calls, as the schedule has it."""

    def each(call: LibraryCall) -> Convolution | None:
        return way_of(program, call, schedule, cases)

    return made_by_kernels(program, steps, schedule, cases, each)


def way_of(
    program: Program,
    call: LibraryCall,
    schedule: Schedule,
    cases: Sequence[Mapping[str, int]],
    target: Target = H100,
) -> Convolution | None:
    """The convolution of a call as it takes least at the declared sizes; None for the library's way.

    A geometric mean over the sizes. What follows a convolution is made by its kernel, and by another behind
    the library's.
    """
    made = convolution_of(program, call)
    if made is None:
        return None
    asked = [Asked(program, schedule, target, sizes, cases) for sizes in cases]
    least = math.prod(library_time(one, call).us + _behind_us(one, made) for one in asked)
    best = None
    for way in ways_of(made, schedule, cases):
        time = patches_time if way.way == "patches" else convolution_product_time
        us = math.prod(time(one, way).us for one in asked)
        if us < least:
            best, least = way, us
    return best


def _behind_us(asked: Asked, made: Convolution) -> float:
    """Of a kernel that reads the results and stores as many."""
    return asked.target.launch_us + 2e6 * asked.bytes_of(made.buffer) / asked.target.dram_bytes_per_s
