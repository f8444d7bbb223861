"""Pointwise work on running totals, done where the totals are made: one kernel instead of two.

Owns which kernels after a scan it can take along, and when all that is wanted of a total is what came
before it (an exclusive scan). Never writes text.
"""

from __future__ import annotations

from dataclasses import replace

from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Load, Pool, loads_below, walk
from workbench.playbook.ir.program import (
    Kernel,
    LibraryCall,
    Output,
    ProgramStep,
    RecurrentLayers,
    Scan,
    Scatter,
    Store,
)
from workbench.playbook.ir.sizes import ONE, Size
from workbench.playbook.ir.views import Axis, NotAView, View, merged, permuted, split

EMPTY: dict[str, float] = {"sum": 0, "prod": 1, "max": float("-inf"), "min": float("inf")}
"""The total of nothing; the exclusive total of a row's first column."""


def is_total(load: Load, scan: Scan) -> bool:
    """True for the total of the column at hand."""
    return load.buffer == scan.buffer


def is_before(expr: Expr, scan: Scan) -> bool:
    """True for the total of the columns before the one at hand."""
    return isinstance(expr, Load) and expr.buffer == before_name(scan)


def before_name(scan: Scan) -> str:
    return f"{scan.buffer}, exclusive"


def with_tails(pool: Pool, steps: list[ProgramStep], outputs: tuple[Output, ...]) -> list[ProgramStep]:
    """The steps with pointwise kernels joined to the scans whose totals they read."""
    result = list(steps)
    for flat in [step for step in steps if isinstance(step, Kernel) and step.stores[0].level == "flat"]:
        for position, scan in enumerate(result):
            if not isinstance(scan, Scan) or not _may_join(result, position, flat):
                continue
            tail = _tail(pool, scan, flat)
            if tail is not None:
                result[position] = replace(scan, tail=(*scan.tail, *tail))
                result.remove(flat)
                break
    read = {output.buffer for output in outputs}
    for step in result:
        read |= reads(step)
    for position, step in enumerate(result):
        if isinstance(step, Scan) and step.tail:
            result[position] = replace(step, kept=step.buffer in read)
    return result


def reads(step: ProgramStep) -> set[str]:
    """Buffers a step reads; of a scan, not its own totals."""
    if isinstance(step, LibraryCall | RecurrentLayers):
        return set(step.read)
    if isinstance(step, Scan):
        found = {load.buffer for value in step.values for load in _loads(value)}
        return found - {step.buffer, before_name(step)}
    if isinstance(step, Scatter):
        return step.read
    return {load.buffer for load in loads_below(store.value for store in step.stores)}


def writes(step: ProgramStep) -> set[str]:
    if isinstance(step, LibraryCall | RecurrentLayers):
        return set(step.results)
    if isinstance(step, Scan):
        return {step.buffer, *step.written}
    if isinstance(step, Scatter):
        return {step.buffer}
    return {store.buffer for store in step.stores}


def _loads(value: Expr) -> list[Load]:
    return [expr for expr in walk(value, into_reductions=True) if isinstance(expr, Load)]


def _may_join(steps: list[ProgramStep], position: int, flat: Kernel) -> bool:
    """True when the kernel reads the scan's totals, and nothing it needs is made after the scan."""
    scan = steps[position]
    assert isinstance(scan, Scan)
    where = steps.index(flat)
    if where < position or scan.buffer not in reads(flat):
        return False
    made = set[str]().union(*(writes(step) for step in steps[position + 1 : where]))
    return not made & (reads(flat) | writes(flat))


def _tail(pool: Pool, scan: Scan, flat: Kernel) -> tuple[Store, ...] | None:
    """The kernel's stores over the rows and columns of the scan; None where they do not fit them."""
    shape, order = scan.order
    if not shape or flat.stores[0].columns != scan.rows * scan.columns:
        return None

    def place(view: View) -> View:
        return permuted(view, shape, order)

    stores = []
    for store in flat.stores:
        try:
            value = _replaced(pool, scan, pool.through(store.value, place))
            where = place(store.view)
            split(where, scan.rows, scan.columns)
        except NotAView:
            return None
        if value is None:
            return None
        stores.append(Store(store.buffer, value, where, scan.rows, scan.columns, "full"))
    return tuple(stores)


def _replaced(pool: Pool, scan: Scan, value: Expr) -> Expr | None:
    """The value with exclusive totals named as such; None where it reads totals of other columns."""

    def exclusive(expr: Expr) -> Expr | None:
        if _is_shifted(expr, scan):
            return pool.load(before_name(scan), expr.dtype, scan.view)
        return None

    changed = pool.mapped(value, exclusive)
    for load in _loads(changed):
        if load.buffer == scan.buffer and (load.lookups or load.view != scan.view):
            return None
        if not is_before(load, scan):
            split(load.view, scan.rows, scan.columns)
    for expr in walk(changed):
        if isinstance(expr, Index):
            split(expr.view, scan.rows, scan.columns)
    return changed


def _is_shifted(expr: Expr, scan: Scan) -> bool:
    """The total of the column before, and nothing in front of the first: padded or concatenated."""
    if scan.backwards or scan.op not in EMPTY:
        return False
    match expr:
        case Apply(op="select", args=(Apply(op="ge", args=(at, first)), Load() as load, Const() as empty)):
            pass
        case Apply(op="select", args=(Apply(op="lt", args=(at, first)), Const() as empty, Load() as load)):
            pass
        case _:
            return False
    shifted = merged(View(scan.view.axes, scan.view.offset + -step_of(scan)))
    if (load.buffer, load.view, load.lookups) != (scan.buffer, shifted, ()):
        return False
    return empty.value == EMPTY[scan.op] and is_one(first) and is_column(at, scan)


def step_of(scan: Scan) -> Size:
    return split(scan.view, scan.rows, scan.columns)[1].axes[-1].stride


def is_one(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value in (1, "1")


def is_column(expr: Expr, scan: Scan) -> bool:
    if not isinstance(expr, Index) or not expr.view.offset.is_zero:
        return False
    row, column = split(expr.view, scan.rows, scan.columns)
    return row.is_constant and column.axes == (Axis(scan.columns, ONE),)
