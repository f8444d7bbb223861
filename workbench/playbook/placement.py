"""Which reductions a store can compute itself, and over which rows and columns.

Owns the rule of fusion: a reduction stays in the kernel of its consumer when the consumer's space is
the reduction's own rows and columns, in any order of axes. Never makes buffers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.playbook.expr import Expr, Pool, Reduction, leaves
from workbench.playbook.sizes import Size, product
from workbench.playbook.views import Axis, NotAView, View, contiguous, joined, runs, split


@dataclass(frozen=True)
class Placement:
    """A space cut into ``axes``, which are rows where ``is_row``; rows come first in the new order."""

    axes: tuple[Size, ...]
    is_row: tuple[bool, ...]

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
        rows = tuple(part for part, row in zip(parts, self.is_row, strict=True) if row)
        columns = tuple(part for part, row in zip(parts, self.is_row, strict=True) if not row)
        return joined(rows + columns, view.offset)

    def rows_only(self, view: View) -> View:
        """The view over the rows, for a value that is the same in every column. Raises ``NotAView``."""
        parts = runs(view, self.axes)
        if any(not axis.stride.is_zero for part in self._columns(parts) for axis in part):
            raise NotAView
        rows = tuple(part for part, row in zip(parts, self.is_row, strict=True) if row)
        return joined(rows, view.offset)

    def put_back(self, view: View) -> View:
        """From (rows, columns) back to the order the axes had; the inverse of ``place``."""
        count = range(len(self.axes))
        order = [i for i in count if self.is_row[i]] + [i for i in count if not self.is_row[i]]
        parts = runs(view, [self.axes[i] for i in order])
        return joined(tuple(parts[order.index(i)] for i in count), view.offset)

    def _columns(self, parts: Sequence[tuple[Axis, ...]]) -> list[tuple[Axis, ...]]:
        return [part for part, row in zip(parts, self.is_row, strict=True) if not row]


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


def best_placement(pool: Pool, value: Expr) -> tuple[Placement, Size] | None:
    """The rows and columns that keep most of the value's reductions, and the number of columns.

    None when no reduction can stay. A value a row has no columns of its own: it takes those of its
    reductions.
    """
    reductions = [leaf for leaf in leaves(value) if isinstance(leaf, Reduction)]
    best: tuple[Placement, Size] | None = None
    most = (0, True)
    for reduction in reductions:
        placement = placement_of(reduction)
        if placement is None:
            continue
        columns = reduction.columns.size if all(placement.is_row) else placement.columns
        kept = _kept(pool, value, placement, columns)
        if (kept, placement.trailing) > most:
            best, most = (placement, columns), (kept, placement.trailing)
    return best


def _kept(pool: Pool, value: Expr, placement: Placement, columns: Size) -> int:
    try:
        placed = pool.through(value, placement.place)
    except NotAView:
        return 0
    return sum(fits(leaf, placement, columns) for leaf in leaves(placed) if isinstance(leaf, Reduction))


def matrix(rows: Size, columns: Size) -> Placement:
    """The space (rows, columns) as it is."""
    return Placement((rows, columns), (True, False))


def identity(size: Size) -> View:
    """Index ``i`` of a line."""
    return contiguous((size,))
