"""Reductions over a part of a row that go along the whole of it, so that the row's kernel makes them.

Owns one rewrite of what is stored. A frame of 400 samples loses its mean and is padded to 512: the mean has
rows of 400, the result rows of 512. As spaces of their own these are two kernels, and each reads the frame.
Where the mean goes over all 512, and what is padded adds nothing, one kernel has the row at hand for both.

Never decides which kernel that is; it leaves alone what shares no load with the row, or fills less than half
of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.playbook.analysis.placement import identity, placement_of
from workbench.playbook.graph.rewrites import WIDER_ROWS
from workbench.playbook.ir.expr import Expr, Load, Reduction, leaves
from workbench.playbook.ir.ranges import is_natural
from workbench.playbook.ir.sizes import ONE, ZERO, Size
from workbench.playbook.ir.views import Axis, NotAView, View, joined, merged, runs
from workbench.playbook.lowering.whole_walks import nothing
from workbench.playbook.lowering.windows import integer

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering

_LEAST_FILLED = 0.5
"""Share of the row that is reduced: what is padded is walked over too."""


def over_wider_rows(lowering: Lowering, expr: Expr) -> Expr:
    """What is to be stored, with reductions over parts of its rows as reductions over these rows."""
    found: dict[int, Expr] = {}
    for leaf in leaves(expr):
        if isinstance(leaf, Reduction) and (wide := _widened(lowering, expr, leaf)) is not None:
            found[leaf.serial] = wide
    if not found:
        return expr
    lowering.applied.add(WIDER_ROWS)
    if WIDER_ROWS in lowering.without:
        return expr
    return lowering.pool.mapped(expr, lambda part: found.get(part.serial))


def _widened(lowering: Lowering, expr: Expr, reduction: Reduction) -> Expr | None:
    """The same numbers as a reduction over rows as long as those that ``expr`` has; None where it is none."""
    place = placement_of(reduction)
    if place is None or all(place.is_row) or not place.trailing:
        return None
    columns, wide = reduction.columns.size, place.columns
    cases = [(columns.at(case), wide.at(case)) for case in lowering.cases]
    if columns == wide or not cases or any(not _LEAST_FILLED * w <= c < w for c, w in cases):
        return None
    body = reduction.body
    for start in _starts(expr, body):
        try:
            seen = lowering.pool.through(body, _further(reduction, wide, start))
        except NotAView:
            return None
        shared = _shared(expr, seen)
        if not shared or not _lies_within(start, columns, wide, shared):
            continue
        inside = _inside(lowering, (reduction.rows.size, wide), start, columns)
        return _masked(lowering, expr, reduction, (seen, inside, wide))
    return None


def _masked(
    lowering: Lowering, expr: Expr, reduction: Reduction, wide: tuple[Expr, Expr, Size]
) -> Expr | None:
    """The reduction over wide rows, of its body inside and of what adds nothing beside it."""
    pool, (seen, inside, columns) = lowering.pool, wide
    empty = nothing(lowering, reduction.op, seen.dtype)
    if empty is None:
        return None
    within = dict[int, Expr]()
    for leaf in leaves(seen):
        if isinstance(leaf, Reduction):  # as the mean in a variance: it has to be of the same rows
            again = _widened(lowering, expr, leaf)
            if again is None:
                return None
            within[leaf.serial] = again
    body = pool.mapped(seen, lambda part: within.get(part.serial))
    chosen = pool.apply("select", body.dtype, (inside, body, empty))
    made = pool.reduction(reduction.op, reduction.dtype, chosen, reduction.rows, identity(columns))
    assert isinstance(made, Reduction)
    return pool.seen(made, reduction.view)


def _starts(expr: Expr, body: Expr) -> list[Size]:
    """Columns of the row at which what is reduced may begin: where it begins to be read."""
    found = [ZERO]
    own = [leaf for leaf in leaves(body) if isinstance(leaf, Load) and leaf.view.axes]
    for load in (leaf for leaf in leaves(expr) if isinstance(leaf, Load)):
        for other in own:
            back = other.view.offset + -load.view.offset
            stride = other.view.axes[-1].stride
            if other.buffer != load.buffer or stride.is_zero or not stride.divides(back):
                continue
            found.append(back // stride)
    return list(dict.fromkeys(found))


def _lies_within(start: Size, columns: Size, wide: Size, shared: list[Load]) -> bool:
    """True where what is reduced begins and ends in the wide row at all sizes: a negative padding would cut.

    That no symbol makes it otherwise is enough; so is a part of rows that lie one behind the other, as it
    cannot be longer than they are.
    """
    after = wide + -(start + columns)
    if is_natural(start) and is_natural(after):
        return True
    lines = [load.view.axes[-1].size for load in shared]
    follow = any(line != wide and wide.divides(line) for line in lines)
    return follow and not start.is_negative and not after.is_negative


def _further(reduction: Reduction, wide: Size, start: Size) -> Callable[[View], View]:
    """Rows from ``start`` columns before their first on, as long as the wide ones."""
    rows, columns = reduction.rows.size, reduction.columns.size

    def change(view: View) -> View:
        row_part, column_part = runs(view, (rows, columns))
        axes = merged(View(column_part)).axes
        if len(axes) > 1:
            raise NotAView
        stride = axes[0].stride if axes else ZERO
        return joined((row_part, (Axis(wide, stride),)), view.offset + -(start * stride))

    return change


def _shared(expr: Expr, seen: Expr) -> list[Load]:
    """What of the row is read anyway at the places of what is reduced."""
    own = {leaf.serial for leaf in leaves(expr)}
    loads = [leaf for leaf in leaves(seen) if isinstance(leaf, Load) and leaf.serial in own]
    return [load for load in loads if load.view.axes and not load.view.axes[-1].stride.is_zero]


def _inside(lowering: Lowering, space: tuple[Size, Size], start: Size, columns: Size) -> Expr:
    """Whether a column of the wide row is one of those that are reduced."""
    pool, (rows, wide) = lowering.pool, space
    place = pool.index(merged(View((Axis(rows, ZERO), Axis(wide, ONE)))), "i32")
    below = pool.apply("lt", "bool", (place, integer(lowering, start + columns)))
    if start.is_zero:
        return below
    return pool.apply("and", "bool", (pool.apply("ge", "bool", (place, integer(lowering, start))), below))
