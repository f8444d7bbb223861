"""Which reductions a store can compute itself, and over which rows and columns.

Owns the rule of fusion: a reduction stays in the kernel of its consumer when the consumer's space is
the reduction's own rows and columns, in any order of axes. Rows that a consumer has in another order among
themselves are taken in the reduction's order where their columns are still neighbours in what is written: a
row of a norm whose heads are put before the places goes to another place as a whole. Never makes buffers.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.playbook.ir.expr import Expr, Pool, Reduction, leaves
from workbench.playbook.ir.sizes import ONE, Size, product
from workbench.playbook.ir.views import NotAView, View, contiguous, joined, runs, split


@dataclass(frozen=True)
class Placement:
    """A space cut into ``axes``, which are rows where ``is_row``; rows come first in the new order."""

    axes: tuple[Size, ...]
    is_row: tuple[bool, ...]
    row_order: tuple[int, ...] | None = None
    """The axes that are rows, slowest first, where that is not the order they have in the space."""

    @property
    def rows(self) -> Size:
        return product(size for size, row in zip(self.axes, self.is_row, strict=True) if row)

    @property
    def columns(self) -> Size:
        return product(size for size, row in zip(self.axes, self.is_row, strict=True) if not row)

    @property
    def trailing(self) -> bool:
        """True when the columns already are the fastest axes."""
        return list(self.is_row) == sorted(self.is_row, reverse=True)

    def place(self, view: View) -> View:
        """The view over (rows, columns). Raises ``NotAView``."""
        parts = runs(view, self.axes)
        return joined(tuple(parts[i] for i in (*self._rows(), *self._column_axes())), view.offset)

    def rows_only(self, view: View) -> View:
        """The view over the rows, for a value that is the same in every column. Raises ``NotAView``."""
        parts = runs(view, self.axes)
        if any(not axis.stride.is_zero for i in self._column_axes() for axis in parts[i]):
            raise NotAView
        return joined(tuple(parts[i] for i in self._rows()), view.offset)

    def put_back(self, view: View) -> View:
        """From (rows, columns) back to the order the axes had; the inverse of ``place``."""
        order = [*self._rows(), *self._column_axes()]
        parts = runs(view, [self.axes[i] for i in order])
        return joined(tuple(parts[order.index(i)] for i in range(len(order))), view.offset)

    def _rows(self) -> tuple[int, ...]:
        own = tuple(i for i, row in enumerate(self.is_row) if row)
        return own if self.row_order is None else self.row_order

    def _column_axes(self) -> tuple[int, ...]:
        return tuple(i for i, row in enumerate(self.is_row) if not row)


def placement_of(reduction: Reduction) -> Placement | None:
    """The space in which this use of a reduction is a value a row; None when its rows are permuted."""
    axes = reduction.view.axes
    is_row = tuple(not axis.stride.is_zero for axis in axes)
    kept = joined(
        (tuple(axis for axis, row in zip(axes, is_row, strict=True) if row),), reduction.view.offset
    )
    if not (kept.is_linear and kept.size == reduction.rows.size):
        return None
    return Placement(tuple(axis.size for axis in axes), is_row)


def _in_its_order(reduction: Reduction, where: View) -> Placement | None:
    """The same for a reduction whose rows are permuted: the space with its rows in the reduction's order.

    None where every row is here more or less than once, or where neighbours of a row are none in ``where``.
    """
    axes = reduction.view.axes
    left = [i for i, axis in enumerate(axes) if not axis.stride.is_zero]
    is_row = tuple(i in left for i in range(len(axes)))
    order: list[int] = []
    step = ONE
    while left:
        nearest = next((i for i in left if axes[i].stride == step), None)
        if nearest is None:
            return None
        left.remove(nearest)
        order.insert(0, nearest)
        step = step * axes[nearest].size
    if not reduction.view.offset.is_zero or step != reduction.rows.size or all(is_row):
        return None
    placement = Placement(tuple(axis.size for axis in axes), is_row, tuple(order))
    try:
        along = split(placement.place(where), placement.rows, placement.columns)[1]
    except NotAView:
        return None
    return placement if along.axes and along.axes[-1].stride.is_one else None


def fits(reduction: Reduction, space: Placement, columns: Size) -> bool:
    """True when a kernel over ``space``'s rows and ``columns`` has the reduction as a value a row."""
    if columns != reduction.columns.size:
        return False
    try:
        row_view, column_view = split(reduction.view, space.rows, space.columns)
    except NotAView:
        return False
    same_rows = row_view.is_linear and row_view.size == reduction.rows.size
    return same_rows and column_view.is_constant


def best_placement(pool: Pool, value: Expr, where: View | None = None) -> tuple[Placement, Size] | None:
    """The rows and columns that keep most of the value's reductions, and the number of columns.

    None when no reduction can stay. A value a row has no columns of its own: it takes those of its
    reductions. Rows are taken in another order only where it is known ``where`` the value is written.
    """
    reductions = [leaf for leaf in leaves(value) if isinstance(leaf, Reduction)]
    best: tuple[Placement, Size] | None = None
    most = (0, True)
    known: dict[tuple[Placement, Size], int] = {}
    for reduction in reductions:
        placement = placement_of(reduction)
        if placement is None and where is not None:
            placement = _in_its_order(reduction, where)
        if placement is None:
            continue
        columns = reduction.columns.size if all(placement.is_row) else placement.columns
        if (placement, columns) not in known:
            known[placement, columns] = _kept(pool, value, placement, columns)
        kept = known[placement, columns]
        if (kept, placement.trailing) > most:
            best, most = (placement, columns), (kept, placement.trailing)
    return best


def _kept(pool: Pool, value: Expr, placement: Placement, columns: Size) -> int:
    try:
        placed = pool.through(value, placement.place, ("place", placement))
    except NotAView:
        return 0
    return sum(fits(leaf, placement, columns) for leaf in leaves(placed) if isinstance(leaf, Reduction))


def matrix(rows: Size, columns: Size) -> Placement:
    """The space (rows, columns) as it is."""
    return Placement((rows, columns), (True, False))


def identity(size: Size) -> View:
    """Index ``i`` of a line."""
    return contiguous((size,))
