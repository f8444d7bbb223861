"""Which way suits each convolution and each product of a plan: the library's, or a kernel's.

Owns the choice, by the model of time. A network's layers differ: few channels and many places first, many
channels and few places last. A plan that has one way for all of them has the wrong one for most.
"""

from __future__ import annotations

import operator
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from workbench.model import H100
from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.following import Estimate
from workbench.playbook.analysis.in_place_of_calls import tail_of, with_tail
from workbench.playbook.estimates.convolution_estimate import convolution_time
from workbench.playbook.estimates.library_estimate import library_time
from workbench.playbook.estimates.patches_estimate import patches_time
from workbench.playbook.estimates.product_estimate import convolution_product_time, product_time
from workbench.playbook.ir.expr import Pool
from workbench.playbook.ir.program import Convolution, InPlaceOfCall, LibraryCall, Program, ProgramStep
from workbench.playbook.ir.unkeyed import Unkeyed
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
) -> InPlaceOfCall | None:
    """The kernel that does a call's work in the least time at the declared sizes; None for the library.

    A geometric mean over the sizes. What follows the call and goes into a kernel in its place is made by
    another kernel behind the library's.
    """
    choice = Schedule(
        threads=schedule.threads,
        split_k=schedule.split_k,
        convolve=schedule.convolve,
        fast_math=schedule.fast_math,
        convolve_each=schedule.convolve_each,
        multiply_each=schedule.multiply_each,
    )
    sizes = tuple(tuple(case.items()) for case in cases)
    found = _least(program.pool, call.results, choice, sizes, Unkeyed((program, call)))
    if found is None or found.us < found.library_us:
        return None if found is None else found.made
    tail = tail_of(program, steps, call, found.made.buffer)
    goes_along = tail is not None and with_tail(program.pool, found.made, tail) is not None
    return found.made if goes_along and found.us < found.library_and_kernel_us else None


@dataclass(frozen=True)
class _Least:
    """The kernel that takes least, and geometric means of times."""

    made: InPlaceOfCall
    us: float
    library_us: float
    library_and_kernel_us: float
    """With another kernel behind it, that reads the results and stores as many."""


@lru_cache(maxsize=2048)
def _least(
    pool: Pool,
    results: tuple[str, ...],
    schedule: Schedule,
    cases: tuple[tuple[tuple[str, int], ...], ...],
    holder: Unkeyed[tuple[Program, LibraryCall]],
) -> _Least | None:
    """Asked again for every vector of a search; None where no kernel can do the work."""
    program, call = holder.value
    declared = [dict(case) for case in cases]
    ways = list(ways_of_call(program, call, schedule, declared))
    if not ways:
        return None
    asked = [Asked(program, schedule, H100, sizes, declared) for sizes in declared]
    times = [_mean(_time(one, made).us for one in asked) for made in ways]
    library = [library_time(one, call).us for one in asked]
    behind = [H100.launch_us + 2e6 * one.bytes_of(ways[0].buffer) / H100.dram_bytes_per_s for one in asked]
    both = _mean(map(operator.add, library, behind))
    return _Least(ways[times.index(min(times))], min(times), _mean(library), both)


def _mean(times: Iterable[float]) -> float:
    return statistics.geometric_mean(times)


def _time(asked: Asked, made: InPlaceOfCall) -> Estimate:
    if not isinstance(made, Convolution):
        return product_time(asked, made)
    times = {"patches": patches_time, "product": convolution_product_time, "tiles": convolution_time}
    return times[made.way](asked, made)
