"""The order in which a reduction goes over its columns: as they lie in memory.

A sum over channels and pixels of a channels-last image is the same in any order of its axes, up to rounding.
Taken as torch writes them, neighbouring threads would read what lies a whole pixel apart.
"""

from __future__ import annotations

from workbench.playbook.ir.expr import Expr, Pool, loads_below
from workbench.playbook.ir.sizes import Size, product
from workbench.playbook.ir.views import Axis, NotAView, View, joined, runs, split


def along_memory(pool: Pool, body: Expr, rows: Size, columns: Size) -> Expr:
    """``body`` over (rows, columns) with the columns as the largest tensor that is read has them."""
    axes = _axes_of_columns(body, rows, columns)
    order = sorted(range(len(axes)), key=lambda i: -_apart(axes[i]))
    if order == list(range(len(axes))):
        return body
    sizes = [axis.size for axis in axes]

    def turned(view: View) -> View:
        row, *parts = runs(view, (rows, *sizes))
        return joined((row, *(parts[i] for i in order)), view.offset)

    try:
        return pool.through(body, turned)
    except NotAView:
        return body


def largest_read(body: Expr, rows: Size, columns: Size) -> tuple[View, View] | None:
    """What the largest plain load finds from row to row and from column to column; None without one."""
    largest: tuple[int, tuple[View, View] | None] = (0, None)
    for load in loads_below([body]):
        if load.lookups or load.view.size != rows * columns:
            continue
        try:
            row, along = split(load.view, rows, columns)
        except NotAView:
            continue
        elements = product(axis.size for axis in load.view.axes if not axis.stride.is_zero)
        largest = max(largest, (elements.probes[0], (row, along)), key=lambda found: found[0])
    return largest[1]


def _axes_of_columns(body: Expr, rows: Size, columns: Size) -> tuple[Axis, ...]:
    """Axes of the columns as the largest load has them; none where nothing is read."""
    found = largest_read(body, rows, columns)
    return () if found is None else found[1].axes


def _apart(axis: Axis) -> float:
    """How far steps along an axis lie apart; what is repeated comes first, as the slowest."""
    return abs(axis.stride.probes[0]) or float("inf")
