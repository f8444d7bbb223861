"""From a problem and a technique vector to a whole ``.cu`` file with its plan.

Owns the order of the file. The search over vectors lives in moves.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from workbench.model import Draft, Kernel, Problem, Vector
from workbench.playbook.analysis.apart import apart_of
from workbench.playbook.analysis.divisions import with_products, with_quotients
from workbench.playbook.analysis.lines import lines_of, worth_lines
from workbench.playbook.analysis.recurrences import recurrence_of
from workbench.playbook.analysis.row_cuts import cut_of
from workbench.playbook.analysis.row_tables import with_row_tables
from workbench.playbook.analysis.row_totals import with_tails
from workbench.playbook.analysis.scan_chains import chained
from workbench.playbook.analysis.scan_sums import with_sums
from workbench.playbook.analysis.shared_weights import weights_at
from workbench.playbook.analysis.turning import turn_of
from workbench.playbook.analysis.window_parts import in_one_launch
from workbench.playbook.device_functions.cuda_helpers import helper_texts
from workbench.playbook.estimates.ways import with_kernels
from workbench.playbook.files.class_file import MACRO, ClassPart, class_file
from workbench.playbook.files.plan_text import PlanText
from workbench.playbook.files.same_kernels import repeats_of
from workbench.playbook.files.shape_classes import ShapeClass, classes_of
from workbench.playbook.ir.program import (
    Convolution,
    InPlaceOfCall,
    LibraryCall,
    MatrixProduct,
    Program,
    ProgramStep,
    Scan,
    Scatter,
)
from workbench.playbook.ir.program import Kernel as ProgramKernel
from workbench.playbook.ir.sizes import Size, product
from workbench.playbook.ir.stencil import strips_of
from workbench.playbook.kernels.channels_kernel import channels_kernel
from workbench.playbook.kernels.convolution_kernel import convolution_kernel
from workbench.playbook.kernels.convolution_product import convolution_product
from workbench.playbook.kernels.convolution_tiling import tiling_of as tiles_of_convolution
from workbench.playbook.kernels.flat_kernel import flat_kernel
from workbench.playbook.kernels.joint_kernel import sharing_launches
from workbench.playbook.kernels.kernel_text import (
    JointText,
    KernelText,
    MaybeText,
    PreparedText,
    Site,
    Step,
    kernels_of,
)
from workbench.playbook.kernels.lines_kernel import lines_kernel
from workbench.playbook.kernels.lookback_kernel import scan_step
from workbench.playbook.kernels.loop_kernel import loop_kernel
from workbench.playbook.kernels.pair_kernel import pair_kernel
from workbench.playbook.kernels.pair_tiling import tiled_pairs
from workbench.playbook.kernels.patches_kernel import patches_kernel
from workbench.playbook.kernels.patches_tiling import patches_tiling
from workbench.playbook.kernels.pooled_kernel import pooled_kernel
from workbench.playbook.kernels.product_kernel import product_kernel
from workbench.playbook.kernels.row_layers import row_step
from workbench.playbook.kernels.row_tables_kernel import row_tables_kernel
from workbench.playbook.kernels.scan_rows_kernel import scan_rows_kernel
from workbench.playbook.kernels.scatter_kernel import scatter_step
from workbench.playbook.kernels.staged_kernel import staged_kernel
from workbench.playbook.kernels.staged_rows import staged_rows, with_staged
from workbench.playbook.kernels.steps_kernel import steps_kernel
from workbench.playbook.kernels.strip_kernel import strip_kernel
from workbench.playbook.kernels.tile_kernel import tile_kernel
from workbench.playbook.kernels.walk_beside_kernel import walk_beside_kernel
from workbench.playbook.kernels.walk_down_kernel import walk_down_kernel
from workbench.playbook.kernels.weights_pieces import weights_step
from workbench.playbook.kernels.weights_turned import turned_buffer, turned_elements, weights_turned
from workbench.playbook.kernels.window_kernel import window_kernel
from workbench.playbook.schedules.schedule import Schedule, schedule_of
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, rewritten
from workbench.playbook.text.names import Macros, Names


def generate(problem: Problem, vector: Vector) -> Draft:
    """Write the kernel of a technique vector. Raises ``UsageError`` for an unknown technique or value.

    What the vector leaves open gets the plain value; the draft carries the vector that was used.
    """
    whole = settled(problem, vector)
    if classes := classes_of(problem, whole):
        return _by_shape(problem, whole, classes)
    program, schedule = _lowered(problem, whole)
    source = source_of(rewritten(problem, schedule.without), program, schedule)
    return Draft(kernel=Kernel(source=source), vector=whole, note=_note(problem, program, schedule))


def _lowered(problem: Problem, vector: Vector) -> tuple[Program, Schedule]:
    """The program of a settled vector, and its schedule."""
    schedule = schedule_of(vector)
    return program_of(problem, schedule.fuse, schedule.without), schedule


def _by_shape(problem: Problem, vector: Vector, classes: tuple[ShapeClass, ...]) -> Draft:
    """One file for several classes of shapes."""
    parts = []
    for number, one in enumerate(classes, start=1):
        program, schedule = _lowered(one.problem, one.vector)
        plan = PlanText(one.problem, macros=[f'"{MACRO}": {number}'])
        site, steps = _written(rewritten(one.problem, schedule.without), program, schedule, plan)
        kernels = tuple(kernel for step in steps for kernel in kernels_of(step))
        repeats = repeats_of(steps)
        body = plan.body(program, steps, site.macros.used, repeats)
        parts.append(ClassPart(one, tuple(body), kernels, tuple(repeats.written(kernels)), schedule.threads))
    helpers = helper_texts(helper for part in parts for kernel in part.kernels for helper in kernel.helpers)
    headers = _headers([kernel for part in parts for kernel in part.kernels])
    source = class_file(PlanText(problem), parts, [*headers, *helpers])
    note = f"one of {len(parts)} sets of kernels, by the shape"
    return Draft(kernel=Kernel(source=source), vector=vector, note=note)


def _note(problem: Problem, program: Program, schedule: Schedule) -> str:
    steps = with_sums(program, chained(program, program.steps, schedule), schedule, ())
    if schedule.staged:
        steps = with_staged(program, steps, schedule.apart, *_cases(problem))
    cases, count = _cases(problem)
    if schedule.tables:
        steps = with_row_tables(program, steps, cases, count)
    steps = with_kernels(program, steps, schedule, cases[:count])
    kernels = sum(not isinstance(step, LibraryCall) for step in steps)
    calls = [step.op for step in steps if isinstance(step, LibraryCall)]
    words = f"{kernels} kernel{'' if kernels == 1 else 's'}"
    return f"{words}; left to the library: {', '.join(dict.fromkeys(calls))}" if calls else words


def source_of(problem: Problem, program: Program, schedule: Schedule) -> str:
    """The file: plan, headers, helper functions, kernels."""
    plan = PlanText(problem)
    site, steps = _written(problem, program, schedule, plan)
    kernels = [kernel for step in steps for kernel in kernels_of(step)]
    repeats = repeats_of(steps)
    parts = [plan.text(program, steps, site.macros.used, repeats)]
    if kernels:
        texts = helper_texts(helper for kernel in kernels for helper in kernel.helpers)
        texts += repeats.written(kernels)
        parts += _headers(kernels)
        if any("THREADS" in text for text in texts) and not any(kernel.fit for kernel in kernels):
            parts.append(f"constexpr int THREADS = {schedule.threads};")
        parts += texts
    return "\n\n".join(parts) + "\n"


def _written(
    problem: Problem, program: Program, schedule: Schedule, plan: PlanText
) -> tuple[Site, list[Step]]:
    """The kernels with what they share."""
    cases, declared = _cases(problem)
    macros = Macros(program.sizes, plan.locals, plan.canonical)
    for size, stem in program.stems:
        macros.name(size, stem)
    site = Site(program, schedule, plan.locals, plan.canonical, macros, cases, declared)
    return site, _steps(problem, site)


def _cases(problem: Problem) -> tuple[list[Mapping[str, int]], int]:
    """Sizes that kernels have to work for, and how many of them, from the first on, are declared."""
    return [case.size_map for case in (*problem.cases, *problem.proofs)], len(problem.cases)


def _joined(site: Site) -> list[ProgramStep]:
    """The program's steps, those joined that share a kernel."""
    program, schedule = site.program, site.schedule
    joined = with_tails(program) if schedule.join_rows else program.steps
    if schedule.windows_here:
        joined = in_one_launch(program, joined)
    joined = with_sums(program, chained(program, joined, schedule), schedule, site.cases[: site.declared])
    if schedule.staged:
        joined = with_staged(program, joined, schedule.apart, site.cases, site.declared)
    if schedule.tables:
        joined = with_row_tables(program, joined, site.cases, site.declared)
    return with_kernels(program, joined, schedule, site.cases[: site.declared])


def _steps(problem: Problem, site: Site) -> list[Step]:
    names = Names(["plan"])
    steps: list[tuple[ProgramStep, Step]] = []
    written = _joined(site)
    alone = sum(not isinstance(step, LibraryCall) for step in written) == 1
    for step in written:
        if isinstance(step, LibraryCall):
            steps.append((step, step))
            continue
        if isinstance(step, Scan):
            name = names.new(problem.name if alone else f"{problem.name}_{step.buffer}")
            text = scan_rows_kernel(site, step, name) if step.sums else scan_step(site, step, name, names)
            steps.append((step, text))
            continue
        if isinstance(step, Convolution):
            name = names.new(problem.name if alone else f"{problem.name}_{step.stores[0].buffer}")
            steps.append((step, _convolution_kernel(site, step, name, names)))
            continue
        if isinstance(step, MatrixProduct):
            name = names.new(problem.name if alone else f"{problem.name}_{step.stores[0].buffer}")
            steps.append((step, product_kernel(site, _tail_divided(site, step), name)))
            continue
        if isinstance(step, Scatter):
            name = names.new(f"{problem.name}_at_places")
            steps.append((step, scatter_step(site, step, name, names)))
            continue
        if step.parts:
            name = names.new(problem.name if alone else f"{problem.name}_{step.stores[0].buffer}")
            steps.append((step, _staged_kernel(site, step, name)))
            continue
        if step.tables:
            name = names.new(problem.name if alone else f"{problem.name}_{step.stores[0].buffer}")
            divided = replace(step, tables=tuple(_divided(site, part) for part in step.tables))
            steps.append((step, row_tables_kernel(site, divided, name)))
            continue
        step = _divided(site, step)
        made = (step.tail or step).stores[0].buffer
        name = names.new(problem.name if alone or made.startswith("out") else f"{problem.name}_{made}")
        if step.steps is not None:
            steps.append((step, steps_kernel(site, _each_divided(site, step), name)))
            continue
        if step.stores[0].level == "flat":
            step = _exactly_divided(site, step)
            if step.ahead is not None:
                ahead = _exactly_divided(site, _divided(site, step.ahead))
                steps.append((step, window_kernel(site, step, ahead, name)))
                continue
            steps.append((step, _line_kernel(site, step, name)))
            continue
        declared = site.cases[: site.declared]
        if (tiled := tiled_pairs(site.program.pool, step, site.schedule, declared)) is not None:
            steps.append((step, pair_kernel(site, step, name, tiled[1])))
            continue
        if site.schedule.share_weights and (shared := weights_at(site.program.pool, step, declared)):
            steps.append((step, weights_step(site, step, name, names, shared)))
            continue
        steps.append((step, row_step(site, step, name, names)))
    texts = [text for _, text in steps]
    if site.schedule.launches != "apart":
        texts = sharing_launches(site, steps, names)
    idle = {
        id(text): _idle(site, step)
        for step, text in steps
        if isinstance(step, ProgramKernel | Scatter | InPlaceOfCall) or (isinstance(step, Scan) and step.sums)
    }
    return [_guarded(text, idle.get(id(text), ())) for text in texts]


def _staged_kernel(site: Site, step: ProgramKernel, name: str) -> KernelText:
    """The kernel of all parts of some rows."""
    parts = [_exactly_divided(site, _divided(site, part)) for part in step.parts]
    rows = staged_rows(site.program, parts, site.schedule.apart, site.cases)
    assert rows is not None  # products for divisions change neither stores nor their places
    return staged_kernel(site, name, rows)


def _convolution_kernel(site: Site, step: Convolution, name: str, names: Names) -> Step:
    """The kernel of a convolution and what is behind it."""
    if step.way == "patches":
        tiling = patches_tiling(step, step.threads, site.cases[: site.declared])
        assert tiling is not None  # the others are the library's
        write = pooled_kernel if step.windows else patches_kernel
        write = partial(channels_kernel if step.across_channels else write, tiling=tiling)
        return _with_weights_turned(site, _tail_divided(site, step), name, names, write)
    if step.way == "product":
        return _with_weights_turned(site, _tail_divided(site, step), name, names, convolution_product)
    tiles = tiles_of_convolution(step, site.schedule, site.cases[: site.declared])
    assert tiles is not None  # the others are the library's
    return convolution_kernel(site, _tail_divided(site, step), name, tiles)


def _with_weights_turned(
    site: Site, step: Convolution, name: str, names: Names, write: Callable[..., KernelText]
) -> Step:
    """The kernel of a convolution on tensor cores, behind that of its weights where these are laid out."""
    if not (step.transposed or step.paired):
        return write(site, step, name)
    buffer = turned_buffer(site, step)
    first = weights_turned(site, step, names.new(f"{name}_weights"), buffer)
    kernel = write(site, step, name, turned=buffer)
    return PreparedText(first, kernel, buffer, turned_elements(step), step.dtype)


_Made = TypeVar("_Made", Convolution, MatrixProduct)


def _tail_divided(site: Site, step: _Made) -> _Made:
    """The step whose pointwise work divides as the schedule has it."""
    tail = _exactly_divided(site, _divided(site, ProgramKernel(list(step.stores))))
    return replace(step, stores=tuple(tail.stores))


def _line_kernel(site: Site, kernel: ProgramKernel, name: str) -> KernelText:
    """The kernel of stores over one line: in tiles, down planes, in strips, or along the line."""
    schedule, known = site.schedule, site.program.stencils
    if schedule.rolled and (loop := recurrence_of(kernel)) is not None:
        return loop_kernel(site, kernel, name, loop)
    if schedule.tile and (turn := turn_of(kernel)) is not None:
        return tile_kernel(site, kernel, name, turn)
    if schedule.side and (cut := cut_of(kernel, known)) is not None:
        write = walk_beside_kernel if cut.is_beside else walk_down_kernel
        return write(site, kernel, name, cut)
    if schedule.strip and (seen := strips_of(kernel, known)):
        return strip_kernel(site, kernel, name, seen)
    if schedule.apart and (apart := apart_of(site.program.pool, kernel)) is not None:
        return flat_kernel(site, apart.kernel, name)
    lines = lines_of(kernel) if schedule.lines else None
    if lines is not None and worth_lines(lines, schedule, site.cases[: site.declared]):
        return lines_kernel(site, kernel, name, lines)
    return flat_kernel(site, kernel, name)


def _idle(site: Site, step: ProgramKernel | Scatter | Scan | InPlaceOfCall) -> tuple[Size, ...]:
    """Factors of a kernel's blocks that are zero at a known size, as ``x[:, 1:]`` of one column is empty.

    None of a kernel that joins its rows: of no rows too there is a result.
    """
    if isinstance(step, Scan):
        blocks = step.rows
    elif isinstance(step, InPlaceOfCall):
        blocks = product(step.shape)
    else:
        kernel = step.stored if isinstance(step, Scatter) else step
        if kernel.tail is not None:
            return ()
        first = kernel.stores[0]
        blocks = first.columns if first.level == "flat" else first.rows
    factors = [site.program.sizes.read(factor) for factor in blocks.factors]
    return tuple(size for size in factors if site.may_be_empty(size))


def _guarded(text: Step, idle: tuple[Size, ...]) -> Step:
    """The step, not launched where it has nothing to do."""
    if not idle or isinstance(text, LibraryCall | JointText | MaybeText):
        return text
    return MaybeText(text, idle)


def _divided(site: Site, kernel: ProgramKernel) -> ProgramKernel:
    """The kernel with products for divisions, where they are wanted."""
    return with_products(site.program.pool, kernel) if site.schedule.reciprocal else kernel


def _exactly_divided(site: Site, kernel: ProgramKernel) -> ProgramKernel:
    """The kernel with what is still divided rounded as divisions are."""
    return kernel if site.schedule.fast_math else with_quotients(site.program.pool, kernel)


def _each_divided(site: Site, kernel: ProgramKernel) -> ProgramKernel:
    """The same of each of its steps."""
    assert kernel.steps is not None
    before = [_exactly_divided(site, _divided(site, one)) for one in kernel.steps.kernels]
    steps = replace(kernel.steps, kernels=tuple(before))
    return replace(_exactly_divided(site, kernel), steps=steps)


def _headers(kernels: list[KernelText]) -> list[str]:
    lines = []
    if any("half" in kernel.code for kernel in kernels):
        lines.append("#include <cuda_fp16.h>")
    if any("bfloat16" in kernel.code or "nearest_bf16" in kernel.helpers for kernel in kernels):
        lines.append("#include <cuda_bf16.h>")
    waited_for = {"fetch", "fetch_or_zero", "copy_or_zero", "copy_or_zero_16bit"}
    if any(kernel.helpers & waited_for for kernel in kernels):
        lines.append("#include <cuda_pipeline.h>")
    if any(kernel.cluster > 1 or kernel.cooperative for kernel in kernels):
        lines += [
            "// Barriers and clusters, without the C++ library: that would be most of what is compiled.",
            "#define _CG_LIMIT_INCLUDED_DEPENDENCIES",
            "#include <cooperative_groups.h>",
        ]
    return ["\n".join(lines)] if lines else []
