"""Reductions over pairs: each result is made of a row of one tensor and a row of another.

Owns which kernels are such, and how a block takes a tile of their results. ``(a[:, None] - b[None]).abs()
.sum(-1)`` reads a row of ``a`` and one of ``b`` for every result: each row as often as the other tensor has
rows. Writes no text; pair_kernel.py does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from workbench.model import DTYPE_BYTES
from workbench.playbook.analysis.row_passes import Accumulator, RowSpace, passes_of
from workbench.playbook.ir.expr import Apply, Expr, Index, Load, Pool, leaves, unguarded, walk
from workbench.playbook.ir.program import Kernel
from workbench.playbook.ir.sizes import ONE, ZERO, Size, product
from workbench.playbook.ir.views import Axis, NotAView, View, merged, runs, split

VECTOR_BYTES = 16
"""What a thread takes from shared memory at a time. Rows lie as much further apart than they are long: with
an odd number of vectors from row to row, those of eight rows are on all 32 banks."""
_PLAIN = frozenset(["sum", "prod", "max", "min", "any", "all"])
"""Reductions whose partial result is one number."""
_COLUMNS = -1
"""What is reduced, among the numbers of the axes."""

Needs = frozenset[int]
"""Axes that a value differs along, by number; ``_COLUMNS`` for what is reduced."""


@dataclass(frozen=True)
class Operand:
    """A part of what is reduced that needs one of the paired axes, or neither."""

    expr: Expr
    axis: int | None
    """The axis of the results that it differs along, of the paired two; None for neither."""
    varies: bool
    """It differs from column to column, and waits in shared memory."""
    along: bool
    """Its columns lie side by side in memory, rather than its rows."""
    loads: tuple[Load, ...]
    """What it reads of each column, where vectors of columns can be read; else none."""


@dataclass(frozen=True)
class Pairs:
    """The rows of a kernel as axes, two of which are paired: ``down`` and ``across``."""

    axes: tuple[Size, ...]
    down: int
    across: int
    columns: Size
    accumulators: tuple[Accumulator, ...]
    operands: tuple[Operand, ...]
    results: tuple[int, ...]
    """Bytes of each accumulator."""

    @property
    def vector(self) -> int:
        """Elements of a row that a thread takes from shared memory at a time."""
        return VECTOR_BYTES // max(4, *(DTYPE_BYTES[one.expr.dtype] for one in self.operands))

    @property
    def outer(self) -> Size:
        """Indices of all other axes: a block has one of them."""
        return product(size for at, size in enumerate(self.axes) if at not in (self.down, self.across))

    def held(self, axis: int | None, varies: bool) -> tuple[Operand, ...]:
        """Operands of one kind, in the order in which they are met."""
        return tuple(one for one in self.operands if one.axis == axis and one.varies == varies)

    def steps(self, view: View) -> tuple[Size, ...] | None:
        """What one step of each axis moves in a view over the rows; None where it cuts them otherwise."""
        return steps_along(self.axes, view)


def pairs_of(pool: Pool, kernel: Kernel) -> Pairs | None:
    """How a kernel's results are pairs of rows; None where they are not, or more than numbers are reduced."""
    if kernel.tail or kernel.ahead or any(store.level != "row" for store in kernel.stores):
        return None
    space = RowSpace(pool, kernel)
    passes = passes_of(space, kernel, single_pass=False)
    if len(passes) != 1 or passes[0].stores or {one.kind for one in passes[0].accumulators} - _PLAIN:
        return None
    accumulators = tuple(passes[0].accumulators)
    bodies = [one.operand for one in accumulators]
    axes = _axes(space, bodies)
    needs = None if axes is None else _needs(space, axes, bodies)
    if axes is None or needs is None:
        return None
    paired = _paired(axes, [needs[leaf.serial] for body in bodies for leaf in leaves(body)])
    operands = None if paired is None else _operands(space, axes, bodies, needs, paired)
    if paired is None or operands is None:
        return None
    results = tuple(max(4, DTYPE_BYTES[body.dtype]) for body in bodies)
    return Pairs(axes, *paired, space.columns, accumulators, operands, results)


# ------------------------------------------------------------------------------------ axes


def _parts(space: RowSpace, leaf: Load | Index) -> tuple[View, View]:
    return split(leaf.view, space.rows, space.columns)


def _axes(space: RowSpace, bodies: Sequence[Expr]) -> tuple[Size, ...] | None:
    """The rows cut wherever something that is read cuts them; None where cuts cross one another."""
    cuts = {ONE, space.rows}
    for leaf in _elements(bodies):
        row, inner = merged(_parts(space, leaf)[0]), ONE
        for axis in reversed(row.axes):
            inner = inner * axis.size
            cuts.add(inner)
    ordered = sorted(cuts, key=lambda size: sum(size.probes))
    if any(not one.divides(other) for one, other in itertools.pairwise(ordered)):
        return None
    return tuple(other // one for one, other in itertools.pairwise(ordered))[::-1]


def _elements(bodies: Sequence[Expr]) -> Iterator[Load | Index]:
    """What is read below the bodies, indices of what is looked up among it."""
    for body in bodies:
        for leaf in leaves(body):
            if isinstance(leaf, Load | Index):
                yield leaf


def steps_along(axes: Sequence[Size], view: View) -> tuple[Size, ...] | None:
    """What one step of each axis moves in a view over all of them; None where it cuts them otherwise."""
    try:
        found = [merged(View(run)).axes for run in runs(view, axes)]
    except NotAView:
        return None
    if any(len(run) > 1 for run in found):
        return None
    return tuple(run[0].stride if run else ZERO for run in found)


def steps_of_places(axes: Sequence[Size], view: View) -> tuple[Size, ...] | None:
    """What a step of each axis moves in a view over all of them; None where an element is found by the number
    of the result among all: the view is that, cuts axes otherwise, or goes backwards."""
    steps = steps_along(axes, view)
    if view.is_linear or steps is None or view.offset.is_negative or any(step.is_negative for step in steps):
        return None
    return steps


def _needs(space: RowSpace, axes: Sequence[Size], bodies: Sequence[Expr]) -> dict[int, Needs] | None:
    """The axes that every expression differs along, by serial."""
    found: dict[int, Needs] = {}
    for body in bodies:
        for expr in walk(body):
            own: Needs = frozenset()
            if isinstance(expr, Load | Index):
                row, column = _parts(space, expr)
                steps = steps_along(axes, row)
                if steps is None:
                    return None
                own = frozenset(at for at, step in enumerate(steps) if not step.is_zero)
                own |= frozenset() if column.is_constant else {_COLUMNS}
            found[expr.serial] = own.union(*(found[below.serial] for below in expr.operands))
    return found


def _paired(axes: Sequence[Size], read: Sequence[Needs]) -> tuple[int, int] | None:
    """Two axes that nothing needs both of: the result's neighbours along the second, if that may be."""
    needed = frozenset[int]().union(*read)
    able = [
        pair
        for pair in itertools.combinations(range(len(axes)), 2)
        if needed.issuperset(pair) and not any(one.issuperset(pair) for one in read)
    ]
    last = len(axes) - 1
    return max(
        able,
        key=lambda pair: (pair[1] == last, min(sum(axes[at].probes) for at in pair)),
        default=None,
    )


# ------------------------------------------------------------------------------------ operands


def _operands(
    space: RowSpace,
    axes: Sequence[Size],
    bodies: Sequence[Expr],
    needs: Mapping[int, Needs],
    paired: tuple[int, int],
) -> tuple[Operand, ...] | None:
    """The largest parts that need one of the paired axes at most; None where a choice needs both.

    What only one branch reads may not be there for the other: a part is computed wherever it is brought in.
    """
    found: dict[int, Operand] = {}
    seen = set[int]()
    stack = list(reversed(bodies))
    while stack:
        expr = stack.pop()
        if expr.serial in seen:
            continue
        seen.add(expr.serial)
        if needs[expr.serial].issuperset(paired):
            if isinstance(expr, Apply) and expr.op == "select":
                return None
            stack.extend(reversed(expr.operands))
        elif any(True for _ in leaves(expr)):
            axis = next((at for at in paired if at in needs[expr.serial]), None)
            varies = _COLUMNS in needs[expr.serial]
            found[expr.serial] = _operand(space, axes, expr, axis, varies)
    return tuple(found.values())


def _operand(space: RowSpace, axes: Sequence[Size], expr: Expr, axis: int | None, varies: bool) -> Operand:
    along = _lies_along(space, axes, expr, axis)
    read = [leaf for leaf in _elements([expr]) if not _is_same(space, leaf)]
    always = {one.serial for one in unguarded(expr)}
    able = axis is not None and all(
        isinstance(leaf, Load)
        and not leaf.lookups
        and leaf.serial in always
        and _parts(space, leaf)[1].axes == (Axis(space.columns, ONE),)
        for leaf in read
    )
    loads = tuple(leaf for leaf in read if isinstance(leaf, Load)) if able else ()
    return Operand(expr, axis, varies, along, loads)


def _is_same(space: RowSpace, leaf: Load | Index) -> bool:
    """True for what is the same in every column."""
    looked_up = isinstance(leaf, Load) and any(
        not _is_same(space, one) for index, _ in leaf.lookups for one in _elements([index])
    )
    return _parts(space, leaf)[1].is_constant and not looked_up


def _lies_along(space: RowSpace, axes: Sequence[Size], expr: Expr, axis: int | None) -> bool:
    """False where neighbouring rows are neighbours in memory, and neighbouring columns are not."""
    for leaf in leaves(expr):
        if isinstance(leaf, Load) and axis is not None:
            row, column = _parts(space, leaf)
            steps = steps_along(axes, row)
            near = bool(column.axes) and column.axes[-1].stride.is_one
            if not near and steps is not None and steps[axis].is_one and not column.is_constant:
                return False
    return True
