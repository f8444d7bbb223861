"""The order in which a reduction goes over its columns and its rows: as they lie in memory.

A sum over channels and pixels of a channels-last image is the same in any order of its axes, up to rounding.
Taken as torch writes them, neighbouring threads would read what lies a whole pixel apart. So it is with rows
that lie side by side, as the groups of channels of a sound, one for each moment.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.playbook.ir.expr import Expr, Pool, loads_below
from workbench.playbook.ir.sizes import Size, product
from workbench.playbook.ir.views import Axis, NotAView, View, joined, permuted, runs, split


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


def rows_along_memory(
    pool: Pool, body: Expr, rows: Size, columns: Size
) -> tuple[Expr, Callable[[View], View]]:
    """``body`` with its rows as the largest tensor that is read has them, where rows lie side by side; and
    what makes of a view of these rows one of the rows as they were."""
    found = largest_read(body, rows, columns)
    axes = () if found is None else found[0].axes
    if found is None or len(axes) < 2 or not _lie_side_by_side(axes, found[1].axes):
        return body, _as_it_is
    order = sorted(range(len(axes)), key=lambda i: -_apart(axes[i]))
    if order == list(range(len(axes))):
        return body, _as_it_is
    sizes = [axis.size for axis in axes]
    turned_sizes = [sizes[i] for i in order]
    original = [order.index(i) for i in range(len(axes))]

    def turned(view: View) -> View:
        *parts, column = runs(view, (*sizes, columns))
        return joined((*(parts[i] for i in order), column), view.offset)

    try:
        return pool.through(body, turned), lambda view: permuted(view, turned_sizes, original)
    except NotAView:
        return body, _as_it_is


def _as_it_is(view: View) -> View:
    return view


def _lie_side_by_side(rows: tuple[Axis, ...], columns: tuple[Axis, ...]) -> bool:
    """The nearest neighbour of an element is in another row."""
    return min(map(_apart, rows)) < min(map(_apart, columns), default=0.0)


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
