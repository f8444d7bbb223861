"""From a problem and a technique vector to a whole ``.cu`` file with its plan.

Owns the order of the file. files/forms.py chooses the form of each kernel; the search over vectors lives in
rules/moves.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from workbench.model import Draft, Kernel, Problem, Vector
from workbench.playbook.analysis.row_tables import with_row_tables
from workbench.playbook.analysis.row_totals import with_tails
from workbench.playbook.analysis.scan_chains import chained
from workbench.playbook.analysis.scan_sums import with_sums
from workbench.playbook.analysis.window_parts import in_one_launch
from workbench.playbook.device_functions.cuda_helpers import helper_texts
from workbench.playbook.estimates.ways import with_kernels
from workbench.playbook.files.class_file import MACRO, ClassPart, class_file
from workbench.playbook.files.forms import written
from workbench.playbook.files.plan_text import PlanText
from workbench.playbook.files.same_kernels import repeats_of
from workbench.playbook.files.shape_classes import ShapeClass, classes_of
from workbench.playbook.ir.program import LibraryCall, Program, ProgramStep
from workbench.playbook.kernels.kernel_text import KernelText, Site, Step, kernels_of, threads_of
from workbench.playbook.kernels.staged_rows import with_staged
from workbench.playbook.schedules.schedule import Schedule, schedule_of
from workbench.playbook.techniques.table import settled
from workbench.playbook.techniques.traits import program_of, rewritten
from workbench.playbook.text.names import Macros

_COMMENT = re.compile("//.*")


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
    cases, count = _cases(problem)
    steps = with_sums(program, chained(program, program.steps, schedule), schedule, cases[:count])
    if schedule.staged:
        steps = with_staged(program, steps, schedule.apart, cases, count)
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
        threads = threads_of(kernels, schedule.threads)
        if threads and any("THREADS" in text for text in texts):
            parts.append(f"constexpr int THREADS = {threads};")
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
    return site, written(site, problem.name, _joined(site))


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


def _headers(kernels: list[KernelText]) -> list[str]:
    lines = []
    codes = [_COMMENT.sub("", kernel.code) for kernel in kernels]
    if any("half" in code for code in codes):
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
