"""Results that lie side by side in memory, all of one thread: rows of few elements, stored in vectors.

Three coordinates of four points are three vectors of four. Stored one coordinate at a time they would be
twelve stores, each of which touches every line of what the warp writes. Owns which stores form such rows and
their text; window_runs.py has the same of loads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.playbook.ir.program import Store
from workbench.playbook.ir.sizes import number
from workbench.playbook.ir.views import View
from workbench.playbook.kernels.kernel_text import Frame
from workbench.playbook.text.indexing import index_text

MOST = 16
"""Elements of a row at most: a thread has a register for each, and for each row that it has."""


@dataclass(frozen=True)
class Row:
    """Stores that take turns at the elements of a tensor, in the order of their elements."""

    stores: tuple[Store, ...]

    @property
    def buffer(self) -> str:
        return self.stores[0].buffer

    @property
    def begin(self) -> View:
        """Where the first element of each row is."""
        return self.stores[0].view

    @property
    def few(self) -> int:
        """Elements of a row: none is left out."""
        return len(self.stores)


def rows_of(stores: Sequence[Store]) -> list[Row]:
    """The rows that stores form, with nothing between one row and the next."""
    found = []
    for first in stores:
        few = _rows_apart(first.view)
        wanted = [View(first.view.axes, number(at)) for at in range(min(few, MOST))]
        places = {store.view: store for store in stores if store.buffer == first.buffer}
        if 1 < few <= MOST and first.view.offset.is_zero and all(view in places for view in wanted):
            found.append(Row(tuple(places[view] for view in wanted)))
    return found


def _rows_apart(view: View) -> int:
    """Elements from one row to the next, where a number; 0 where rows do not follow one another."""
    return (view.axes[0].stride.number or 0) if len(view.axes) == 1 else 0


def together(view: View, few: int) -> int:
    """Vectors of a row's elements that move as one: the power of two that divides their number.

    One where rows do not simply follow one another: they may begin anywhere then.
    """
    follow = view.offset.is_zero and sum(not axis.stride.is_zero for axis in view.axes) == 1
    return few & -few if follow else 1


def declared(frame: Frame, row: Row) -> tuple[str, str, str]:
    """The name of a thread's rows, the statement that declares them, and the one that stores them."""
    view, few = row.begin, row.few
    name = frame.names.new(f"{row.buffer}_rows")
    schedule = frame.site.schedule
    function = "store_rows_once" if schedule.stream or schedule.stream_stores else "store_rows"
    frame.helpers.add(function)
    frame.use_rows_together(row.buffer, together(view, few))
    begin = index_text(view, "i", frame.macros, wide=True).within(12)
    declare = f"Run<{frame.element_type(row.buffer)}, VEC * {few}> {name};"
    return name, declare, f"{function}<VEC, {few}>({frame.pointer(row.buffer)} + {begin}, {name});"
