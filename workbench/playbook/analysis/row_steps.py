"""Steps that read elements of the same rows: those of a program that may be one kernel, and what lies where.

Owns which kernels these are, what they keep on the chip, and how rows lie on blocks then. kept_rows.py has
chosen what is kept, and knows that no step looks beyond its row; steps_kernel.py writes the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.model import DTYPE_BYTES, DType
from workbench.playbook.analysis.apart import MOST_BESIDE, gathered
from workbench.playbook.analysis.banks import Access, best_spread, pitch_of
from workbench.playbook.analysis.row_totals import buffers_read
from workbench.playbook.ir.expr import Index, Load, Pool, loads_below, unguarded, walk_all
from workbench.playbook.ir.program import Buffer, Kernel, Program, ProgramStep, RowSteps, Store
from workbench.playbook.ir.sizes import ZERO, Size, product
from workbench.playbook.ir.views import Axis, NotAView, View, joined, merged, split
from workbench.playbook.text.indexing import is_unit

MOST_BYTES = 48 * 1024
"""Of shared memory, that a block has without being asked for more."""
LEAST_THREADS = 64
"""Of a block."""
_LANES = 32
_LEAST_STEPS = 2
"""Before the last one."""


def with_row_steps(program: Program, kept: Mapping[str, Buffer], rows: Size) -> list[ProgramStep] | None:
    """A program's steps, those that make what is kept as part of the one that needs it; None where some value
    cannot wait."""
    makers = [s for s in program.steps if isinstance(s, Kernel) and _written(s) & kept.keys()]
    readers = [step for step in program.steps if buffers_read(step) & kept.keys()]
    ends = [step for step in readers if not any(step is maker for maker in makers)]
    if len(makers) < _LEAST_STEPS or len(ends) != 1 or any(out.buffer in kept for out in program.outputs):
        return None
    (end,) = ends
    places = [at for at, step in enumerate(program.steps) if any(step is maker for maker in makers)]
    if not isinstance(end, Kernel) or program.steps.index(end) < max(places):
        return None
    chain = [_gathered(program.pool, kernel, kept, rows) for kernel in (*makers, end)]
    if not all(_fits(kernel, kept, rows) for kernel in chain):
        return None
    *before, last = chain
    whole = replace(last, steps=RowSteps(tuple(before), rows, tuple(kept)))
    return [
        whole if step is end else step for step in program.steps if not any(step is maker for maker in makers)
    ]


def _written(kernel: Kernel) -> set[str]:
    return {store.buffer for store in kernel.stores}


def _gathered(pool: Pool, kernel: Kernel, kept: Mapping[str, Buffer], rows: Size) -> Kernel:
    """With all that is made of one another in a thread, where its rows can be told apart then too."""
    found = gathered(pool, kernel)
    return found if _fits(found, kept, rows) else kernel


def _fits(kernel: Kernel, kept: Mapping[str, Buffer], rows: Size) -> bool:
    """True for pointwise work whose rows are those of all that is kept."""
    if kernel.tail or kernel.ahead or any(store.level != "flat" for store in kernel.stores):
        return False
    count = kernel.stores[0].columns
    if not rows.divides(count):
        return False
    seen = [(store.buffer, store.view) for store in kernel.stores]
    seen += [(load.buffer, load.view) for load in loads_below(s.value for s in kernel.stores)]
    return all(place_in_row(view, rows, kept[name]) is not None for name, view in seen if name in kept)


def place_in_row(view: View, rows: Size, buffer: Buffer) -> View | None:
    """Where in its own row a view over rows and columns finds an element; None where rows are others."""
    try:
        row, column = split(view, rows, view.size // rows)
    except NotAView:
        return None
    if merged(View(row.axes)).axes != merged(View((Axis(rows, width_of(buffer, rows)),))).axes:
        return None
    return joined((column.axes,), row.offset)


def step_of(view: View, rows: Size) -> Size | None:
    """From one row of a tensor to the next; None where there is no one step."""
    try:
        row, _ = split(view, rows, view.size // rows)
    except NotAView:
        return None
    axes = merged(View(row.axes)).axes
    return None if len(axes) > 1 else axes[0].stride if axes else ZERO


def in_row(view: View, rows: Size, step: Size) -> View | None:
    """Where in such a row an element is; None where rows are not that far apart."""
    if step_of(view, rows) != step:
        return None
    row, column = split(view, rows, view.size // rows)
    return joined((column.axes,), row.offset)


def made_of_neighbours(program: Program, kernel: Kernel, steps: RowSteps) -> bool:
    """True for a step whose places are those of all rows that wait, made of what lies beside them there and
    of rows in memory, as far from one to the next: index 0 may then be that of a team's first row."""
    rows, values = steps.rows, [store.value for store in kernel.stores]
    count = kernel.stores[0].columns // rows
    open_loads = {leaf.serial for leaf in unguarded(*values)}
    begins = dict[str, Size]()
    accesses: list[Store | Load] = [*kernel.stores, *loads_below(values)]
    for one in accesses:
        step = step_of(one.view, rows)
        place = None if step is None else in_row(one.view, rows, step)
        if step is None or place is None or begins.setdefault(one.buffer, step) != step:
            return False
        if one.buffer in steps.kept and width_of(program.buffers[one.buffer], rows) != count:
            return False
        if isinstance(one, Store) and not is_unit(place):
            return False
        if isinstance(one, Load) and one.buffer in steps.kept:
            near = not one.lookups and (is_unit(place) or place.is_constant)
            if one.serial in open_loads and not near:
                return False
    places = [part for part in walk_all(values) if isinstance(part, Index)]
    return all(in_row(part.view, rows, ZERO) is not None for part in places)


def width_of(buffer: Buffer, rows: Size) -> Size:
    """Elements of a row."""
    return product(buffer.shape) // rows


def _is_long(program: Program, kernel: Kernel, cases: Sequence[Mapping[str, int]]) -> bool:
    """False for rows that a thread may have whole: nobody else needs to see those."""
    widths = [array.width for array in arrays_of(program, kernel)]
    return any(width.at(case) > MOST_BESIDE for width in widths for case in cases)


@dataclass(frozen=True)
class Array:
    """Shared memory that one buffer after another waits in."""

    dtype: DType
    width: Size
    buffers: tuple[str, ...]


def arrays_of(program: Program, kernel: Kernel) -> list[Array]:
    """What is kept, by where: a value takes the place of one that no later step reads."""
    assert kernel.steps is not None
    chain = (*kernel.steps.kernels, kernel)
    reads = [{load.buffer for load in loads_below(s.value for s in one.stores)} for one in chain]
    found: list[Array] = []
    for at, one in enumerate(chain):
        for name in dict.fromkeys(store.buffer for store in one.stores):
            if name not in kernel.steps.kept:
                continue
            buffer = program.buffers[name]
            width = width_of(buffer, kernel.steps.rows)
            free = (
                place
                for place, array in enumerate(found)
                if (array.dtype, array.width) == (buffer.dtype, width)
                and not any(array.buffers[-1] in later for later in reads[at:])
            )
            place = next(free, None)
            if place is None:
                found.append(Array(buffer.dtype, width, (name,)))
            else:
                found[place] = replace(found[place], buffers=(*found[place].buffers, name))
    return found


@dataclass(frozen=True)
class Layout:
    """How rows lie on teams: a block each, or its warps."""

    team: int
    """Threads that have rows of their own."""
    teams: int
    """Of a block."""
    columns: Size
    """Places of a row that the team has the most rows of."""
    spread: int
    """Elements of a row behind which a place is left out; 0 for none."""

    def rows(self, sizes: Mapping[str, int]) -> int:
        """That a team has at once."""
        return -(-self.team // self.columns.at(sizes))


def layout_of(
    program: Program, kernel: Kernel, threads: int, warps: bool, sizes: Mapping[str, int]
) -> Layout:
    """Rows for all threads of a team in the step that has the fewest places of a row."""
    assert kernel.steps is not None
    rows = kernel.steps.rows
    chain = (*kernel.steps.kernels, kernel)
    least = min((one.stores[0].columns // rows for one in chain), key=lambda size: size.at(sizes))
    found = [access for one in chain for access in accesses_of(program, kernel, one, sizes)]
    spread = best_spread(found, sizes)
    return Layout(_LANES, threads // _LANES, least, spread) if warps else Layout(threads, 1, least, spread)


def accesses_of(program: Program, kernel: Kernel, step: Kernel, sizes: Mapping[str, int]) -> list[Access]:
    """What a step reads and writes of rows that wait on the chip; places that data names are left out."""
    assert kernel.steps is not None
    rows, kept = kernel.steps.rows, kernel.steps.kept
    seen = [(store.buffer, store.view) for store in step.stores]
    loads = loads_below(store.value for store in step.stores)
    seen += [(load.buffer, load.view) for load in loads if not load.lookups]
    places = (step.stores[0].columns // rows).at(sizes)
    found = []
    for name, view in seen:
        buffer = program.buffers[name]
        place = place_in_row(view, rows, buffer) if name in kept else None
        if place is not None:
            width = width_of(buffer, rows).at(sizes)
            found.append(Access(place, places, width, DTYPE_BYTES[buffer.dtype]))
    return found


def bytes_of(program: Program, kernel: Kernel, layout: Layout, sizes: Mapping[str, int]) -> int:
    """Shared memory of a block."""
    a_row = sum(
        pitch_of(array.width.at(sizes), layout.spread) * DTYPE_BYTES[array.dtype]
        for array in arrays_of(program, kernel)
    )
    return a_row * layout.rows(sizes) * layout.teams


def has_room(
    program: Program, kernel: Kernel, threads: int, warps: bool, cases: Sequence[Mapping[str, int]]
) -> bool:
    """True where a block of so many threads can keep its rows, at all sizes."""
    if not cases or not _is_long(program, kernel, cases):
        return False
    layout = layout_of(program, kernel, threads, warps, cases[0])
    return all(layout.columns.at(case) > 0 for case in cases) and all(
        bytes_of(program, kernel, layout, case) <= MOST_BYTES for case in cases
    )
