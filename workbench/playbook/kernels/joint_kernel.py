"""Several kernels in one launch: side by side where they do not need one another, else stage by stage.

Owns which kernels may share a launch and its text. A kernel that shares one becomes a device function of a
job, which is what was a block of it; the blocks of the launch take turns at the jobs. Between stages all
blocks wait for one another, which rests on a cooperative launch, as in together_kernel.py.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from workbench.model import H100
from workbench.playbook.analysis.lines import Lines
from workbench.playbook.analysis.plane_turns import goes_in_turns
from workbench.playbook.analysis.stages import Sharing, stages_of
from workbench.playbook.ir.program import Kernel, ProgramStep, Scatter
from workbench.playbook.kernels.joint_calls import Call, knows_place
from workbench.playbook.kernels.kernel_text import (
    JointPart,
    JointText,
    KernelText,
    Site,
    SplitText,
    Step,
    block,
    filled,
    indented,
)
from workbench.playbook.kernels.together_kernel import BARRIER
from workbench.playbook.kernels.turns_kernel import SCALARS, counters, in_turns, words_of
from workbench.playbook.schedules.schedule import LEAST_PIECE, RESIDENT, in_bundles, pieces_of
from workbench.playbook.text.cuda_text import CTYPES
from workbench.playbook.text.names import Names

_LEAVES = re.compile(r"if \(row >= [^{]*\{\s*return;")
"""Threads beyond the last row are done: with their kernel alone, but not with a launch that goes on."""
_MEETS = re.compile(
    r"\b(arrives_last|__syncthreads|block_reduce|block_tree|across_groups|across_lines"
    r"|warp_reduce<(?:\w+, )?\d+>)"
)
"""What threads of a block wait for one another in, or lanes of a warp that has several rows."""
_HEAD = re.compile(r"__global__ __launch_bounds__\([^)]*\) void (\w+)\(")


def sharing_launches(site: Site, steps: Sequence[tuple[ProgramStep, Step]], names: Names) -> list[Step]:
    """The texts of a program's steps, those of neighbouring kernels put into one launch where they may be."""
    found: list[Step] = []
    run: list[JointPart] = []
    for step, text in steps:
        if isinstance(step, Kernel | Scatter) and (part := _part(site, step, text)) is not None:
            run.append(part)
            continue
        found += [*_joined(site, run, names), text]
        run = []
    return [*found, *_joined(site, run, names)]


def _part(site: Site, kernel: Sharing, step: Step) -> JointPart | None:
    """The text that takes part, whatever the size; None where it needs a launch of its own."""
    if isinstance(kernel, Kernel) and (kernel.ahead or kernel.steps or kernel.parts):
        return None
    text: Step | None = step
    split: SplitText | None = None
    if isinstance(step, SplitText):
        split = step if _is_split(site, step) else None
        if split is not None and (len(step.kernels) != 1 or step.together or step.in_turns):
            return None
        text = step.plain if split is None else step.kernels[0]
    if (
        not isinstance(text, KernelText)
        or not isinstance(step, KernelText | SplitText)
        or not _is_plain(text)
    ):
        return None
    return JointPart(kernel, text, step, split)


def _is_split(site: Site, step: SplitText) -> bool:
    """True where some declared case gives a row to several blocks, or a bundle of rows to one."""
    own = replace(site.schedule, team="thread" if step.least == LEAST_PIECE["thread"] else "block")
    sizes = [(step.rows.at(case), step.columns.at(case)) for case in site.cases[: site.declared]]
    return any(
        pieces_of(own, H100, rows, columns) > 1 or (step.alone and in_bundles(own, rows, columns))
        for rows, columns in sizes
    )


def _is_plain(text: KernelText) -> bool:
    """True for a kernel whose blocks know no more of their launch than their own place."""
    needs = text.cooperative or text.cluster > 1 or text.limits.shared or text.fit
    left = _LEAVES.search(text.code)
    waits = left is not None and _MEETS.search(text.code, left.end()) is not None
    return not (needs or waits or text.resident or text.template or "gridDim" in text.code)


def _joined(site: Site, run: Sequence[JointPart], names: Names) -> list[Step]:
    """What neighbouring kernels come to."""
    stages = [[run[place] for place in stage] for stage in stages_of([part.kernel for part in run])]
    if site.schedule.launches == "turns":
        planes = _planes(site, run) if len(stages) == len(run) else None
        return [part.alone for part in run] if planes is None else [_text(site, stages, names, planes)]
    if site.schedule.launches == "together" and len(run) > 1:
        return [_text(site, stages, names)]
    found: list[Step] = []
    for stage in stages:
        found += [_text(site, [stage], names)] if len(stage) > 1 else [part.alone for part in stage]
    return found


def _planes(site: Site, run: Sequence[JointPart]) -> Lines | None:
    """The planes that all go by, where a job of each kernel is of one plane: a bundle, a row, lines."""
    kernels, declared = [part.kernel for part in run], site.cases[: site.declared]
    able = [kernel for kernel in kernels if isinstance(kernel, Kernel)]
    if len(able) < len(kernels):
        return None
    lines = goes_in_turns(site.program, site.schedule, able, declared)
    if lines is None:
        return None
    first, *between, _ = run
    by_row = all(part.split is None and part.text.grid == site.size(lines.planes) for part in between)
    return lines if by_row and first.split is not None and first.split.alone else None


# ------------------------------------------------------------------------------------ the text


def _text(
    site: Site, stages: Sequence[Sequence[JointPart]], names: Names, planes: Lines | None = None
) -> JointText:
    """The launch of one stage or several, with barriers between these, or plane by plane."""
    parts = [part for stage in stages for part in stage]
    inner = Names(() if planes is None else words_of(parts))
    waits = len(stages) > 1
    way = "in_turns" if planes is not None else "together" if waits else "beside"
    name = names.new(f"{parts[-1].text.name}_{way}")
    buffers = _buffers(parts)
    pointers = {buffer: inner.new(buffer) for buffer in buffers}
    numbers = iter(range(1, len(parts) + 1))
    calls = [[Call(part, pointers, inner, next(numbers)) for part in stage] for stage in stages]
    flat = [call for stage in calls for call in stage]
    if planes is not None:
        body = in_turns(name, flat)
    else:
        body = _by_stage(calls) if waits else _side_by_side(calls[0])
    head = [call.width for call in flat if call.width]
    threads = site.schedule.threads
    meets = waits and planes is None
    bounds = f"THREADS, {max(RESIDENT, threads)} / THREADS" if meets else "THREADS"
    scalars = [scalar for call in flat for scalar in call.scalars]
    scalars += [] if planes is None else SCALARS
    written = {buffer for part in parts for buffer in _written(part.text)}
    lines = [f"template <{', '.join(f'int {width}' for width in head)}>"] if head else []
    parameters = [_parameter(site, buffer, pointers[buffer], buffer in written, waits) for buffer in buffers]
    parameters += [f"int {scalar}" for scalar in scalars]
    lines += _signature(f"__global__ __launch_bounds__({bounds}) void {name}", parameters)
    functions = [_function(part.text.code) for part in parts]
    told = list[str]() if planes is None else counters(name, len(flat))
    code = "\n\n".join([*functions, "\n".join([*told, *lines, *indented(body), "}"])])
    helpers = frozenset(helper for part in parts for helper in part.text.helpers) | {"job"}
    if planes is not None:
        helpers |= {"plane_turns"}
    kernel = KernelText(name, code, tuple(buffers), helpers, "", threads, cooperative=meets)
    return JointText(kernel, tuple(tuple(stage) for stage in stages), planes)


def _by_stage(stages: Sequence[Sequence[Call]]) -> list[str]:
    """Blocks take turns at the jobs of a stage, and wait for one another before the next."""
    lines = ["// All blocks are on the card at once and take turns at the jobs of a stage."]
    for number, stage in enumerate(stages):
        if number:
            lines += ["// What follows reads what all blocks have made.", BARRIER]
        for place, call in enumerate(stage):
            if place == 1:
                lines.append("// From the other end of the grid, where blocks have had the fewest jobs.")
            lines += _turns(call, from_end=place % 2 == 1)
    return lines


def _turns(call: Call, from_end: bool) -> list[str]:
    """Blocks take turns at the jobs of one kernel."""
    if call.jobs == "1" and not call.pieces:
        return block(f"if (blockIdx.x == {'gridDim.x - 1' if from_end else '0'})", call.at("0"))
    first = "gridDim.x - 1 - blockIdx.x" if from_end else "blockIdx.x"
    again = ["__syncthreads();  // its tile is free again"] if "__shared__" in call.part.text.code else []
    return block(f"for (int i = {first}; i < {call.count}; i += gridDim.x)", [*call.at("i"), *again])


def _side_by_side(stage: Sequence[Call]) -> list[str]:
    """Blocks divided between kernels that do not need one another."""
    lines = ["// Kernels that do not need one another: the first blocks are one's, those behind another's."]
    lines.append("int i = blockIdx.x;")
    for place, call in enumerate(stage[:-1]):
        lines += block(f"if (i < {call.count})", [*call.at("i"), "return;"])
        if any(knows_place(other.part.text.code) for other in stage[place + 1 :]):
            lines.append(f"i -= {call.count};")
    return [*lines, *stage[-1].at("i")]


def _buffers(parts: Sequence[JointPart]) -> list[str]:
    """All buffers, those that some part writes last."""
    names = list(dict.fromkeys(buffer for part in parts for buffer in part.text.buffers))
    written = {buffer for part in parts for buffer in _written(part.text)}
    return sorted(names, key=lambda name: name in written)


def _written(text: KernelText) -> list[str]:
    """Buffers behind pointers that are not to constants, in the order of the parameters."""
    kinds = _parameters(text.code)[: len(text.buffers)]
    return [name for name, kind in zip(text.buffers, kinds, strict=True) if not kind.startswith("const ")]


def _parameters(code: str) -> list[str]:
    match = _HEAD.search(code)
    assert match is not None
    inside = code[match.end() : code.index(") {", match.end())]
    return [part.strip() for part in inside.split(",")]


def _parameter(site: Site, buffer: str, name: str, written: bool, waits: bool) -> str:
    """Another part may read what one writes: then the compiler must not think that nobody does."""
    kind = f"{'' if written else 'const '}{CTYPES[site.buffer(buffer).dtype]}*"
    return f"{kind} {name}" if written and waits else f"{kind} __restrict__ {name}"


def _function(code: str) -> str:
    """The kernel as a function of its job."""
    match = _HEAD.search(code)
    assert match is not None
    before, body = code[: match.start()], code[code.index(") {", match.end()) + len(") {\n") :]
    job = ["const Job job"] if knows_place(body) else []
    head = _signature(f"__device__ void {match[1]}", [*job, *_parameters(code)])
    return before + "\n".join(head) + "\n" + re.sub(r"\bblockIdx\b", "job", body)


def _signature(head: str, parameters: list[str]) -> list[str]:
    line = f"{head}({', '.join(parameters)}) {{"
    if len(line) < 108:
        return [line]
    rows = filled(parameters, 100)
    return [f"{head}(", *(f"    {row}" for row in rows[:-1]), f"    {rows[-1]}) {{"]
