"""The order in which a reduction goes over its columns and its rows: as they lie in memory.

A sum over channels and pixels of a channels-last image is the same in any order of its axes, up to rounding.
Taken as torch writes them, neighbouring threads would read what lies a whole pixel apart. So it is with rows
that lie side by side, as the groups of channels of a sound, one for each moment. Owns both orders; never says
who walks.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.model import DTYPE_BYTES
from workbench.playbook.ir.expr import Expr, Load, Pool, loads_below
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import Axis, NotAView, View, distinct, permuted, split


def columns_along_memory(pool: Pool, body: Expr, rows: Size, columns: Size) -> Expr:
    """``body`` over (rows, columns) with the columns as most of what is read has them, in bytes."""
    axes = _most_read(body, rows, columns)
    order, sizes = _order(axes), [axis.size for axis in axes]
    if order is None:
        return body

    def turned(view: View) -> View:
        return permuted(view, (rows, *sizes), (0, *(i + 1 for i in order)))

    try:
        return pool.through(body, turned)
    except NotAView:
        return body


def _most_read(body: Expr, rows: Size, columns: Size) -> tuple[Axis, ...]:
    """Columns of the tensors that most bytes are read of: two of an image beside its tokens have their say.

    Tensors have the same where their axes are as long and come in the same order. Of as many bytes it is the
    first that is met.
    """
    read: dict[tuple[tuple[Size, ...], tuple[int, ...]], int] = {}
    found: dict[tuple[tuple[Size, ...], tuple[int, ...]], tuple[Axis, ...]] = {}
    for load in loads_below([body]):
        parts = _parts_of(load, rows, columns)
        if parts is None:
            continue
        axes = parts[1].axes
        alike = (tuple(axis.size for axis in axes), tuple(_order(axes) or range(len(axes))))
        read[alike] = read.get(alike, 0) + distinct(load.view).probes[0] * DTYPE_BYTES[load.dtype]
        found.setdefault(alike, axes)
    return found[max(read, key=read.__getitem__)] if read else ()


def rows_along_memory(
    pool: Pool, body: Expr, rows: Size, columns: Size
) -> tuple[Expr, Callable[[View], View]]:
    """``body`` with its rows as the largest tensor that is read has them, where rows lie side by side; and
    what makes of a view of these rows one of the rows as they were."""
    found = largest_read(body, rows, columns)
    if found is None or not _lie_side_by_side(found[0].axes, found[1].axes):
        return body, _as_it_is
    order, sizes = _order(found[0].axes), [axis.size for axis in found[0].axes]
    if order is None:
        return body, _as_it_is

    def turned(view: View) -> View:
        return permuted(view, (*sizes, columns), (*order, len(order)))

    def back(view: View) -> View:
        return permuted(view, [sizes[i] for i in order], [order.index(i) for i in range(len(order))])

    try:
        return pool.through(body, turned), back
    except NotAView:
        return body, _as_it_is


def _as_it_is(view: View) -> View:
    return view


def _order(axes: tuple[Axis, ...]) -> list[int] | None:
    """Axes from those whose steps lie furthest apart; None where they come so."""
    order = sorted(range(len(axes)), key=lambda i: -_apart(axes[i]))
    return None if order == list(range(len(axes))) else order


def _lie_side_by_side(rows: tuple[Axis, ...], columns: tuple[Axis, ...]) -> bool:
    """The nearest neighbour of an element is in another row."""
    return bool(rows and columns) and min(map(_apart, rows)) < min(map(_apart, columns))


def largest_read(body: Expr, rows: Size, columns: Size) -> tuple[View, View] | None:
    """What the largest plain load finds from row to row and from column to column; None without one."""
    largest: tuple[int, tuple[View, View] | None] = (0, None)
    for load in loads_below([body]):
        parts = _parts_of(load, rows, columns)
        if parts is not None:
            elements = distinct(load.view)
            largest = max(largest, (elements.probes[0], parts), key=lambda found: found[0])
    return largest[1]


def _parts_of(load: Load, rows: Size, columns: Size) -> tuple[View, View] | None:
    """What a plain load of every element finds from row to row and from column to column."""
    if load.lookups or load.view.size != rows * columns:
        return None
    try:
        return split(load.view, rows, columns)
    except NotAView:
        return None


def _apart(axis: Axis) -> float:
    """How far steps along an axis lie apart; what is repeated comes first, as the slowest."""
    return abs(axis.stride.probes[0]) or float("inf")
