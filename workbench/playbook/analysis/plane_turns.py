"""Kernels that go plane by plane: what one makes of a plane, the next needs for that plane alone.

Owns when kernels that follow one another are such: sums over the lines of planes, values made of these, and
then what walks over the same planes. Reads programs; writes no text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from workbench.playbook.analysis.asked_bytes import Asked
from workbench.playbook.analysis.lines import Lines, lines_of, worth_lines
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.analysis.row_shapes import bundles_of
from workbench.playbook.ir.expr import Load, loads_below
from workbench.playbook.ir.program import Kernel, Program
from workbench.playbook.ir.sizes import product
from workbench.playbook.ir.views import split
from workbench.playbook.schedules.schedule import Schedule, bundle_of, in_bundles, pieces_of

MOST_PLANES = 4096
"""Planes that a launch has counters for."""
LAG_BYTES = 2**24
"""Of planes between the first jobs of a plane and its last ones: an H100 reads and writes them in 11 us, and
needs some 8 us until a plane's sums are known (a guess)."""
_MORE_PLANES = 2
"""Planes that are being read beside these."""
LEFT = 0.5
"""Of L2, that still has what was read last when it is read again: results are written beside it, and each
half of an H100's L2 keeps what its own multiprocessors ask for (a guess)."""


def planes_of(program: Program, kernels: Sequence[Kernel]) -> Lines | None:
    """The planes that all kernels of a chain go by; None where some kernel needs more than its own."""
    if len(kernels) < 2 or kernels[-1].stores[0].level != "flat" or not _sums_columns(program, kernels[0]):
        return None
    first, *between, last = kernels
    lines = lines_of(last)
    if lines is None or lines.planes.is_one:
        return None
    rows, columns = first.stores[0].rows, first.stores[0].columns
    if rows != product((lines.planes, lines.places)) or columns != lines.lines:
        return None
    if not all(one.stores[0].level == "row" and one.stores[0].rows == lines.planes for one in between):
        return None
    in_order = all(store.view.is_linear for kernel in kernels for store in kernel.stores)
    made: set[str] = set()
    for kernel in kernels:
        read = [load for load in _loads(kernel) if load.buffer in made]
        if not in_order or not all(_is_own(program, lines, kernel, load) for load in read):
            return None
        made |= {store.buffer for store in kernel.stores}
    return lines


def goes_in_turns(
    program: Program, schedule: Schedule, kernels: Sequence[Kernel], declared: Sequence[Mapping[str, int]]
) -> Lines | None:
    """The planes that kernels go by in one launch under a schedule: a bundle, a row, lines are of one."""
    if schedule.launches != "turns" or not (schedule.lines and schedule.bundle and schedule.join_last):
        return None
    by_row = schedule.team == "block" or len(kernels) == 2
    lines = planes_of(program, kernels) if by_row else None
    return lines if lines is not None and worth_lines(lines, schedule, declared) else None


def kept_in_turns(asked: Asked, kernel: Kernel) -> float:
    """Part of what the last kernel of such a launch reads again that L2 has."""
    schedule, target = asked.schedule, asked.target
    kernels = [step for step in asked.program.steps if isinstance(step, Kernel)]
    lines = goes_in_turns(asked.program, schedule, kernels, [asked.sizes])
    if lines is None or kernel is not kernels[-1]:
        return 0.0
    by_thread = replace(schedule, team="thread")
    rows, columns = asked.at(kernels[0].stores[0].rows), asked.at(lines.lines)
    apart = pieces_of(by_thread, target, rows, columns) == 1 and in_bundles(by_thread, rows, columns)
    bundle = bundle_of(rows, schedule.width, schedule.bundle_lanes)
    if not apart or asked.at(lines.places) % bundle or asked.at(lines.planes) > MOST_PLANES:
        return 0.0
    of_plane = columns * asked.at(lines.places) * asked.element_of(kernel.stores[0].buffer)
    room = LEFT * target.l2_bytes
    return min(1.0, room / (LAG_BYTES + _MORE_PLANES * of_plane))


def _sums_columns(program: Program, kernel: Kernel) -> bool:
    if kernel.stores[0].level != "row":
        return False
    space = RowSpace(program.pool, kernel)
    return bundles_of(space, passes_of(space, kernel, single_pass=True))


def _is_own(program: Program, lines: Lines, kernel: Kernel, load: Load) -> bool:
    """True where plane by plane other elements are read, as many as there are for each."""
    first = kernel.stores[0]
    parts = lines.parts(load) if first.level == "flat" else split(load.view, first.rows, first.columns)
    if parts is None or load.lookups:
        return False
    plane, _ = parts
    if len(plane.axes) != 1 or not plane.offset.is_zero:
        return False
    return product((plane.axes[0].stride, lines.planes)) == product(program.buffers[load.buffer].shape)


def _loads(kernel: Kernel) -> list[Load]:
    return loads_below([store.value for store in kernel.stores])
