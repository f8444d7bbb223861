"""Which way suits each convolution and each product of a plan: the library's, or a kernel's on tensor cores.

Owns the choice, by the model of time. A network's layers differ: few channels and many places first, many
channels and few places last. A plan that has one way for all of them has the wrong one for most.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from workbench.model import H100, Target
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.in_place_of_calls import tail_of, with_tail
from workbench.playbook.estimates.library_estimate import library_time
from workbench.playbook.estimates.patches_estimate import patches_time
from workbench.playbook.estimates.product_estimate import convolution_product_time, product_time
from workbench.playbook.ir.program import Convolution, InPlaceOfCall, LibraryCall, Program, ProgramStep
from workbench.playbook.kernels.made_by_kernels import made_by_kernels, ways_of_call
from workbench.playbook.schedules.schedule import Schedule


def with_kernels(
    program: Program, steps: Sequence[ProgramStep], schedule: Schedule, cases: Sequence[Mapping[str, int]]
) -> list[ProgramStep]:
    """The steps with kernels in place of library calls, as the schedule has it."""

    def each(call: LibraryCall) -> InPlaceOfCall | None:
        return way_of(program, steps, call, schedule, cases)

    return made_by_kernels(program, steps, schedule, cases, each)


def way_of(
    program: Program,
    steps: Sequence[ProgramStep],
    call: LibraryCall,
    schedule: Schedule,
    cases: Sequence[Mapping[str, int]],
    target: Target = H100,
) -> InPlaceOfCall | None:
    """The kernel that does a call's work in the least time at the declared sizes; None for the library.

    A geometric mean over the sizes. What follows the call and goes into a kernel in its place is made by
    another kernel behind the library's.
    """
    asked = [Asked(program, schedule, target, sizes, cases) for sizes in cases]
    ways = list(ways_of_call(program, call, schedule, cases))
    if not ways:
        return None
    tail = tail_of(program, steps, call, ways[0].buffer)
    goes_along = tail is not None and with_tail(program.pool, ways[0], tail) is not None
    library = math.prod(library_time(one, call).us + goes_along * _behind_us(one, ways[0]) for one in asked)
    times = [math.prod(_time(one, made).us for one in asked) for made in ways]
    return ways[times.index(min(times))] if min(times) < library else None


def _time(asked: Asked, made: InPlaceOfCall) -> Estimate:
    if not isinstance(made, Convolution):
        return product_time(asked, made)
    return patches_time(asked, made) if made.way == "patches" else convolution_product_time(asked, made)


def _behind_us(asked: Asked, made: InPlaceOfCall) -> float:
    """Of a kernel that reads the results and stores as many."""
    return asked.target.launch_us + 2e6 * asked.bytes_of(made.buffer) / asked.target.dram_bytes_per_s
