"""Which library calls a schedule leaves to kernels, and which kernels behind these are made with them.

Owns the choice, of convolutions and of products of matrices. Never decides what a kernel behind a call needs:
in_place_of_calls.py, windows_behind.py and channels_behind.py do.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from workbench.playbook.analysis.channels_behind import with_channels
from workbench.playbook.analysis.convolutions import convolution_of
from workbench.playbook.analysis.in_place_of_calls import in_place_of_calls, is_plain, with_tail
from workbench.playbook.analysis.matrix_products import (
    product_of,
    worth_a_product,
    worth_multiplying,
)
from workbench.playbook.analysis.recurrent_layers import layers_of
from workbench.playbook.analysis.windows_behind import with_windows
from workbench.playbook.ir.expr import Pool
from workbench.playbook.ir.program import (
    Convolution,
    InPlaceOfCall,
    Kernel,
    LibraryCall,
    Program,
    ProgramStep,
    RecurrentLayers,
)
from workbench.playbook.kernels.convolution_tiling import BLOCKS, tiling_of
from workbench.playbook.kernels.patches_tiling import THREADS, pairable, patches_tiling, shares_of
from workbench.playbook.kernels.recurrent_tiling import recurrent_tiling
from workbench.playbook.schedules.schedule import Schedule, schedule_of


def made_by_kernels(
    program: Program,
    steps: Sequence[ProgramStep],
    schedule: Schedule,
    cases: Sequence[Mapping[str, int]],
    each: Callable[[LibraryCall], InPlaceOfCall | None] | None = None,
) -> list[ProgramStep]:
    """The steps with kernels for the convolutions whose tiles have room, and for products of some size.

    Where a schedule has every call's work done as suits it, ``each`` says how: None for the library.
    """
    steps = [_recurrent(program, step, schedule, cases) or step for step in steps]
    if not (_convolves(schedule) or _multiplies(schedule)):
        return steps

    def made_of(call: LibraryCall) -> InPlaceOfCall | None:
        ways = ways_of_call(program, call, schedule, cases)
        first = next(ways, None)
        if each is None or first is None:
            return first
        has_choice = schedule.convolve_each if isinstance(first, Convolution) else schedule.multiply_each
        return each(call) if has_choice else first

    def joined(pool: Pool, made: InPlaceOfCall, kernel: Kernel) -> InPlaceOfCall | None:
        found = with_tail(pool, made, kernel)
        if found is not None or not isinstance(made, Convolution) or made.way != "patches":
            return found
        if not is_plain(made) or made.blocks > 1:
            return None
        more = with_windows(made, kernel) or with_channels(made, kernel)
        fits = more is not None and patches_tiling(more, more.threads, cases) is not None
        return more if fits else None

    return in_place_of_calls(program, steps, made_of, joined)


def _recurrent(
    program: Program, step: ProgramStep, schedule: Schedule, cases: Sequence[Mapping[str, int]]
) -> RecurrentLayers | None:
    """The layers of a call that a kernel goes through, where the schedule has it so."""
    units = schedule.recurrent_units
    made = layers_of(program, step) if units and isinstance(step, LibraryCall) else None
    if made is None or recurrent_tiling(made, units, cases) is None:
        return None
    return replace(made, warp_units=units)


def ways_of_call(
    program: Program, call: LibraryCall, schedule: Schedule, cases: Sequence[Mapping[str, int]]
) -> Iterator[InPlaceOfCall]:
    """Kernels that may do the work of a call as a schedule allows, the one to prefer first."""
    convolution = convolution_of(program, call) if _convolves(schedule) else None
    if convolution is not None:
        yield from ways_of(convolution, schedule, cases)
        return
    product = product_of(program, call) if _multiplies(schedule) else None
    if product is not None and worth_multiplying(product, cases):
        yield product


def ways_of(
    made: Convolution, schedule: Schedule, cases: Sequence[Mapping[str, int]]
) -> Iterator[Convolution]:
    """The convolution in each way that a schedule allows and that has room, the one to prefer first."""
    in_tiles = schedule.convolve[0] and (not schedule.convolve_each or str(schedule.threads) in BLOCKS)
    if in_tiles and tiling_of(made, schedule, cases) is not None:
        yield made
    if schedule.places_down or schedule.convolve_each:
        pairs = pairable(made) and (schedule.channel_pairs or schedule.convolve_each)
        blocks = THREADS if schedule.convolve_each else (schedule.threads,)
        for paired, threads in itertools.product((True, False) if pairs else (False,), blocks):
            one = replace(made, way="patches", paired=paired, threads=threads)
            for share in shares_of(one, threads, cases) if schedule.convolve_each else (1,):
                shared = replace(one, blocks=share)
                if patches_tiling(shared, threads, cases) is not None:
                    yield shared
    as_product = schedule.convolve_each or (schedule.convolve_as_product and not schedule.places_down)
    if as_product and worth_a_product(made, cases):
        yield replace(made, way="product")


def _convolves(schedule: Schedule) -> bool:
    return bool(schedule.convolve[0]) or schedule.convolve_as_product or schedule.convolve_each


def _multiplies(schedule: Schedule) -> bool:
    return schedule.multiply or schedule.multiply_each


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
