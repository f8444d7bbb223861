"""Statistics of few long rows in a kernel of their own, and what is made of the elements in another.

Owns the cut: every value a row that elements are made of is stored, and a kernel without rows reads it. Such
a kernel needs no more blocks than its elements ask for, begins each where the last one ends and waits for
nobody: x / norm(x) of 7.5 GB takes 5046 us so on an H100, 5344 where as many blocks as the card holds go
over it side by side (docs/notes/2026-11-28-odd-lines.md). Never decides whether it pays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from workbench.playbook.analysis.placement import identity
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.ir.expr import Expr, Reduction, walk
from workbench.playbook.ir.program import Kernel, ProgramStep, Store
from workbench.playbook.ir.sizes import ONE
from workbench.playbook.ir.views import expanded

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering

LONG = 2**28
"""Elements of all rows from which on it pays: 1 GB in float32, and what lies between is a guess. Of 7.5 GB an
H100 takes 7380 us so and 7723 side by side, a layer norm of 16 rows of 16.8 MB 320 and 302: its weights come
from L2, and its rows are still there in part."""
_FEW = 32
"""Rows; with more of them a row is no longer than what blocks go over side by side."""


def can_be_apart(lowering: Lowering, step: ProgramStep) -> bool:
    """True of a kernel that makes elements of the statistics of their own rows, few and long ones."""
    if not isinstance(step, Kernel) or step.tail or step.ahead or step.parts or step.steps:
        return False
    rows, columns = step.stores[0].rows, step.stores[0].columns
    if not any(_are_few_and_long(rows.at(case), columns.at(case)) for case in lowering.cases):
        return False
    return any(_is_made_of_rows(store) for store in step.stores)


def apart(lowering: Lowering, steps: Sequence[ProgramStep]) -> list[ProgramStep]:
    """The steps with such kernels in two; one whose elements need a statistic under a condition is left."""
    found: list[ProgramStep] = []
    for step in steps:
        if isinstance(step, Kernel) and can_be_apart(lowering, step):
            found += _cut(lowering, step)
        else:
            found.append(step)
    return found


def _are_few_and_long(rows: int, columns: int) -> bool:
    return rows <= _FEW and rows * columns >= LONG


def _is_made_of_rows(store: Store) -> bool:
    return store.level == "full" and any(isinstance(one, Reduction) for one in walk(store.value))


def _cut(lowering: Lowering, kernel: Kernel) -> list[Kernel]:
    pool, space = lowering.pool, RowSpace(lowering.pool, kernel)
    rows, columns = space.rows, space.columns
    made = [store for store in kernel.stores if store.level == "full"]
    parts = {
        part.serial: part
        for store in made
        for part in space.row_parts(store.value)
        if any(isinstance(one, Reduction) for one in walk(part))
    }
    seen = expanded(identity(rows), (rows, ONE), (rows, columns))
    names = {part.serial: lowering.new_buffer("of_row", part.dtype, (rows,)) for part in parts.values()}
    loads = {number: pool.load(names[number], part.dtype, seen) for number, part in parts.items()}
    values = [pool.mapped(store.value, _instead(loads)) for store in made]
    if any(isinstance(one, Reduction) for value in values for one in walk(value)):
        for name in names.values():
            del lowering.buffers[name]
        return [kernel]
    statistics = [store for store in kernel.stores if store.level != "full"]
    for number, part in parts.items():
        form = space.row_form(part)
        assert form is not None
        statistics.append(Store(names[number], form, identity(rows), rows, columns, "row"))
    elements = [
        Store(store.buffer, value, store.view, ONE, rows * columns, "flat")
        for store, value in zip(made, values, strict=True)
    ]
    return [Kernel(statistics), Kernel(elements)]


def _instead(loads: dict[int, Expr]) -> Callable[[Expr], Expr | None]:
    return lambda expr: loads.get(expr.serial)
