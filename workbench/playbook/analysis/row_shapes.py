"""The shape of a row kernel, to which a schedule is fitted: what waits, and what lies beside what in memory.

Owns the reading of it off the passes over a row. Never chooses anything.
"""

from __future__ import annotations

from functools import lru_cache

from workbench.playbook.analysis.row_passes import Pass, RowSpace, passes_of, waiting_loads
from workbench.playbook.ir.expr import Index, Load, Pool, leaves, unguarded
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import Size, product
from workbench.playbook.ir.views import Axis, View, distinct, split
from workbench.playbook.schedules.fitting import RowShape
from workbench.playbook.schedules.schedule import Schedule
from workbench.playbook.text.indexing import divisors_of, is_unit

_NEAR = 16
"""Elements from column to column up to which a warp goes along a row: what lies between is mostly read too,
as all eight numbers of an observation are, and rows lie further apart."""


def row_shape(space: RowSpace, passes: list[Pass]) -> RowShape:
    """What a schedule is fitted to."""
    kept = len(waiting_loads(space, passes))
    bundles = bundles_of(space, passes)
    neighbours = _neighbours(space, passes)
    across = neighbours and any(_lies_across(space, store) for step in passes for store in step.stores)
    beside = () if space.rows.is_one or neighbours else _beside(space, passes)
    joint = len(waiting_loads(space, passes, together=True))
    return RowShape(space.rows, space.columns, kept, neighbours, bundles, across, joint, beside)


def _lies_across(space: RowSpace, store: Store) -> bool:
    row, column = split(store.view, space.rows, space.columns)
    return is_unit(row) and not is_unit(column)


def scheduled_shape(space: RowSpace, kernel: Kernel, schedule: Schedule) -> RowShape:
    """The same for a schedule: a row that waits on the chip is not read again by a further pass."""
    stores = tuple(kernel.stores)
    joint = _row_shape(space.pool, stores, schedule.single_pass)
    if schedule.cache == "reread" or not schedule.single_pass or not joint.kept:
        return joint
    return _row_shape(space.pool, stores, False)


@lru_cache(maxsize=1024)
def _row_shape(pool: Pool, stores: tuple[Store, ...], single_pass: bool) -> RowShape:
    """Asked again for every vector of a search."""
    kernel = Kernel(list(stores))
    space = RowSpace(pool, kernel)
    return row_shape(space, passes_of(space, kernel, single_pass))


def _neighbours(space: RowSpace, passes: list[Pass]) -> bool:
    """True when the columns of a row lie next to each other in what is read for every row and column.

    What all rows share, such as a weight a column, is read from the cache and decides only where nothing
    else is read; what only some columns read decides where that is all that is read.
    """
    loads = [load for step in passes for load in space.column_loads(step.roots)]
    loads = loads or [load for step in passes for load in space.column_loads(step.roots, guarded=True)]
    parts = [_walked(space, load) for load in loads]
    everything = product((space.rows, space.columns))
    whole = [(row, column) for row, column in parts if distinct(row, column) == everything]
    return any(_near(row, column) for row, column in whole or parts if column.axes)


def _walked(space: RowSpace, load: Load) -> tuple[View, View]:
    """What a load finds from row to row and from column to column; that may be looked up."""
    row, column = space.places(load)
    for index, stride in load.lookups:
        if space.row_form(index) is None:
            column = View((Axis(space.columns, stride),))
    return row, column


def bundles_of(space: RowSpace, passes: list[Pass]) -> bool:
    """True where the one pass reads, for each row, what lies beside its neighbours', is shared by them or is
    the row's own number, and leaves beside theirs what it stores on its way."""
    if space.rows.is_one or len(passes) != 1 or not passes[0].accumulators or _neighbours(space, passes):
        return False
    if not all(is_unit(split(one.view, space.rows, space.columns)[0]) for one in passes[0].stores):
        return False
    varied = False
    for root in passes[0].roots:
        plain = {expr.serial for expr in unguarded(root)}
        for leaf in leaves(root):
            assert isinstance(leaf, Load | Index)
            lookups = isinstance(leaf, Load) and bool(leaf.lookups)
            rows, _ = space.places(leaf)
            if rows.is_constant and not lookups:
                continue
            if isinstance(leaf, Index):
                varied |= rows.axes[-1].stride.is_one
            elif lookups or leaf.serial not in plain or not (is_unit(rows) or _shared_by_neighbours(rows)):
                return False
            else:
                varied |= is_unit(rows)
    return varied


def _shared_by_neighbours(rows: View) -> bool:
    """True where rows side by side find the same, as experts of one group of tokens do."""
    return rows.axes[-1].stride.is_zero


def _beside(space: RowSpace, passes: list[Pass]) -> tuple[Size, ...]:
    """What a width must divide, where all that differs from row to row lies beside its neighbours'."""
    parts = [split(store.view, space.rows, space.columns)[0] for step in passes for store in step.stores]
    for root in (root for step in passes for root in step.roots):
        plain = {expr.serial for expr in unguarded(root)}
        for leaf in (leaf for leaf in leaves(root) if isinstance(leaf, Load)):
            row, _ = space.places(leaf)
            guarded = leaf.serial not in plain
            a_row = not guarded and space.row_form(leaf) is not None
            if a_row or (row.is_constant and not leaf.lookups):
                continue
            if guarded or leaf.lookups:
                return ()
            parts.append(row)
    if not all(is_unit(part) for part in parts):
        return ()
    return tuple(dict.fromkeys(size for part in parts for size in divisors_of(part)))


def _near(row: View, column: View) -> bool:
    """Next to each other, or a few elements apart as in a pooling, where rows lie further apart."""
    step = column.axes[-1].stride.number
    if step is None or step > _NEAR:
        return False
    apart = row.axes[-1].stride.number if row.axes else None
    return step == 1 or apart is None or apart > step
