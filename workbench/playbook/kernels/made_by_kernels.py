"""Which library calls a schedule leaves to kernels, and which kernels behind these are made with them.

Owns the choice, of convolutions and of products of matrices. Never decides what a kernel behind a call needs:
in_place_of_calls.py, windows_behind.py and channels_behind.py do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from workbench.playbook.analysis.channels_behind import with_channels
from workbench.playbook.analysis.convolutions import convolution_of
from workbench.playbook.analysis.in_place_of_calls import in_place_of_calls, is_plain, with_tail
from workbench.playbook.analysis.matrix_products import (
    product_of,
    worth_a_product,
    worth_multiplying,
)
from workbench.playbook.analysis.windows_behind import with_windows
from workbench.playbook.ir.expr import Pool
from workbench.playbook.ir.program import (
    Convolution,
    InPlaceOfCall,
    Kernel,
    LibraryCall,
    Program,
    ProgramStep,
)
from workbench.playbook.kernels.convolution_tiling import tiling_of
from workbench.playbook.kernels.patches_tiling import THREADS, pairable, patches_tiling
from workbench.playbook.schedules.schedule import Schedule, schedule_of


def made_by_kernels(
    program: Program, steps: Sequence[ProgramStep], schedule: Schedule, cases: Sequence[Mapping[str, int]]
) -> list[ProgramStep]:
    """The steps with kernels for the convolutions whose tiles have room, and for products of some size."""
    if not (schedule.convolve[0] or schedule.convolve_as_product or schedule.multiply):
        return list(steps)

    def made_of(call: LibraryCall) -> InPlaceOfCall | None:
        if schedule.convolve[0] and (convolution := convolution_of(program, call)) is not None:
            return convolution if tiling_of(convolution, schedule, cases) is not None else None
        if schedule.convolve_as_product and (convolution := convolution_of(program, call)) is not None:
            if schedule.places_down:
                paired = schedule.channel_pairs and pairable(convolution)
                ways = [replace(convolution, paired=True), convolution] if paired else [convolution]
                fits = (one for one in ways if patches_tiling(one, schedule.threads, cases) is not None)
                return next(fits, None)
            return convolution if worth_a_product(convolution, cases) else None
        product = product_of(program, call) if schedule.multiply else None
        return product if product is not None and worth_multiplying(product, cases) else None

    def joined(pool: Pool, made: InPlaceOfCall, kernel: Kernel) -> InPlaceOfCall | None:
        found = with_tail(pool, made, kernel)
        if found is not None or not isinstance(made, Convolution) or not schedule.places_down:
            return found
        if not is_plain(made):
            return None
        more = with_windows(made, kernel) or with_channels(made, kernel)
        fits = more is not None and patches_tiling(more, schedule.threads, cases) is not None
        return more if fits else None

    return in_place_of_calls(program, steps, made_of, joined)


def behind_patches(program: Program, cases: Sequence[Mapping[str, int]]) -> set[int]:
    """Kernels that convolutions from patches make as well, by identity: pools, and rows of channels.

    Those that any kernel in place of a call makes are not among them.
    """
    schedule = schedule_of((("block_size", str(THREADS[0])), ("convolution", "patches")))
    left = {id(step) for step in made_by_kernels(program, program.steps, schedule, cases)}
    simple = in_place_of_calls(program, program.steps, lambda call: convolution_of(program, call))
    left_by_others = {id(step) for step in simple}
    kernels = {id(step) for step in program.steps if isinstance(step, Kernel)}
    return (kernels & left_by_others) - left
