"""Rows whose columns are made of few elements, each of which many columns read: a thread can have them all.

Owns which kernels those are, and what their tables hold. Sums over all pairs of an ensemble are such rows:
256 columns, made of 16 members. Never writes text; row_tables_kernel.py does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.model import DType
from workbench.playbook.analysis.arithmetic import instructions_of
from workbench.playbook.analysis.row_passes import Pass, RowSpace, passes_of
from workbench.playbook.analysis.stages import stages_of
from workbench.playbook.ir.expr import Load, Pool
from workbench.playbook.ir.program import Kernel, Program, ProgramStep
from workbench.playbook.ir.sizes import ONE, Size, product
from workbench.playbook.ir.views import Axis, View, merged, split
from workbench.playbook.text.indexing import is_unit

MOST_COLUMNS = 1024
"""Of a row: all of them are written out by the compiler, so that each knows its elements' registers."""
_MOST_KEPT = 64
"""Elements that a thread keeps: half of the registers that leave a multiprocessor 512 threads."""
_MOST_WORK = 8192
"""Instructions of a row: what is written out has to fit the instruction cache (a guess)."""
_LEAST_SHARING = 2
"""Columns that read the same element, from which one kernel's table is worth it."""


@dataclass(frozen=True)
class Table:
    """The different elements of a buffer that the columns of one row read."""

    buffer: str
    dtype: DType
    row: View
    """Where they begin, by row."""
    axes: tuple[Axis, ...]
    """From one to the next."""

    @property
    def size(self) -> Size:
        """Elements."""
        return product(axis.size for axis in self.axes)

    def place(self, column: View) -> View:
        """Which element of the table a column reads."""
        axes, left = list[Axis](), ONE
        for axis in reversed(column.axes):
            if axis.stride.is_zero:
                axes.insert(0, axis)
            else:
                axes.insert(0, Axis(axis.size, left))
                left = left * axis.size
        return merged(View(tuple(axes)))


def table_of(space: RowSpace, load: Load) -> Table:
    """The table of what a load reads."""
    row, column = split(load.view, space.rows, space.columns)
    return Table(load.buffer, load.dtype, row, tuple(a for a in column.axes if not a.stride.is_zero))


def tables_of(pool: Pool, kernels: Sequence[Kernel]) -> dict[Table, None]:
    """Those of several kernels over the same rows, each once."""
    found: dict[Table, None] = {}
    for kernel in kernels:
        space = RowSpace(pool, kernel)
        found.update((table_of(space, load), None) for load in _loads(space, _passes(space, kernel)))
    return found


def with_row_tables(
    program: Program, steps: Sequence[ProgramStep], cases: Sequence[Mapping[str, int]], declared: int
) -> list[ProgramStep]:
    """The steps; kernels whose rows are made of few elements are one where they follow one another."""
    found, run = list[ProgramStep](), list[Kernel]()
    for step in steps:
        able = isinstance(step, Kernel) and _is_able(program.pool, step, cases, declared)
        if not able or not _goes_with(program.pool, run, step, cases[:declared]):
            found += _joined(program.pool, run, cases[:declared])
            run = []
        if able and isinstance(step, Kernel):
            run.append(step)
        else:
            found.append(step)
    return [*found, *_joined(program.pool, run, cases[:declared])]


def _joined(pool: Pool, run: list[Kernel], declared: Sequence[Mapping[str, int]]) -> list[Kernel]:
    """One kernel for all of them, where one has elements that many columns read."""
    if not any(_shares(pool, kernel, declared) for kernel in run):
        return run
    return [Kernel([store for kernel in run for store in kernel.stores], tables=tuple(run))]


def _goes_with(
    pool: Pool, run: list[Kernel], step: ProgramStep, declared: Sequence[Mapping[str, int]]
) -> bool:
    """True for a kernel of the same rows that needs nothing of those before it, if all find room."""
    if not run or not isinstance(step, Kernel):
        return not run
    kernels = [*run, step]
    same = step.stores[0].rows == run[0].stores[0].rows
    return same and len(stages_of(kernels)) == 1 and _has_room(pool, kernels, declared)


def _has_room(pool: Pool, kernels: Sequence[Kernel], declared: Sequence[Mapping[str, int]]) -> bool:
    tables = tables_of(pool, kernels)
    return all(sum(one.size.at(case) for one in tables) <= _MOST_KEPT for case in declared)


def _is_able(pool: Pool, kernel: Kernel, cases: Sequence[Mapping[str, int]], declared: int) -> bool:
    """True where a thread can have a row, beside those of its neighbours in memory."""
    first = kernel.stores[0]
    alone = kernel.tail is None and kernel.ahead is None and kernel.steps is None and not kernel.parts
    if not alone or first.rows.is_one or any(store.level != "row" for store in kernel.stores):
        return False
    if any(not 0 < first.columns.at(case) <= MOST_COLUMNS for case in cases):
        return False
    space = RowSpace(pool, kernel)
    passes = _passes(space, kernel)
    plain = {load.serial for step in passes for load in space.column_loads(step.roots)}
    loads = _loads(space, passes)
    rows = [table_of(space, load).row for load in loads]
    if any(load.lookups or load.serial not in plain for load in loads) or not any(map(is_unit, rows)):
        return False
    if not all(is_unit(row) or row.is_constant for row in rows):
        return False
    work = sum(instructions_of(step.roots, False) + len(step.accumulators) for step in passes)
    short = all(work * first.columns.at(case) <= _MOST_WORK for case in cases[:declared])
    return short and _has_room(pool, [kernel], cases[:declared])


def _shares(pool: Pool, kernel: Kernel, declared: Sequence[Mapping[str, int]]) -> bool:
    """True where some element is read by several columns, at every declared shape."""
    space = RowSpace(pool, kernel)
    tables = [table_of(space, load) for load in _loads(space, _passes(space, kernel))]
    return any(
        all(_LEAST_SHARING * one.size.at(case) <= space.columns.at(case) for case in declared)
        for one in tables
    )


def _passes(space: RowSpace, kernel: Kernel) -> list[Pass]:
    return passes_of(space, kernel, single_pass=False)


def _loads(space: RowSpace, passes: Sequence[Pass]) -> list[Load]:
    """What differs from column to column."""
    return space.column_loads([root for step in passes for root in step.roots], guarded=True)
