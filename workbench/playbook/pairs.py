"""Reductions over pairs: each result is made of a row of one tensor and a row of another.

Owns which kernels are such, and how a block takes a tile of their results. ``(a[:, None] - b[None]).abs()
.sum(-1)`` reads a row of ``a`` and one of ``b`` for every result: each row as often as the other tensor has
rows. Writes no text; pair_kernel.py does.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from workbench.model import DTYPE_BYTES
from workbench.playbook.expr import Apply, Expr, Index, Load, Pool, leaves, unguarded, walk
from workbench.playbook.program import Kernel
from workbench.playbook.row_passes import Accumulator, RowSpace, passes_of
from workbench.playbook.schedule import Schedule
from workbench.playbook.sizes import ONE, ZERO, Size, product
from workbench.playbook.turning import MOST_STATIC_BYTES
from workbench.playbook.views import Axis, NotAView, View, merged, runs, split

LEAST_PAIRED, LEAST_SUMMED = 16, 8
"""Rows of either operand, and elements of a row, below which tiles are mostly empty or read little twice."""
_VECTOR_BYTES = 16
"""What a thread takes from shared memory at a time. Rows lie as much further apart than they are long: with
an odd number of vectors from row to row, those of eight rows are on all 32 banks."""
_PLAIN = frozenset(["sum", "prod", "max", "min", "any", "all"])
"""Reductions whose partial result is one number."""
_LEAST_RESULTS, _MOST_RESULTS = 4, 64
"""Of a thread: with fewer it reads shared memory most of the time, with more it runs out of registers."""
_PIECES = (32, 16)
_ROOMY, _AHEAD = 16, 8
"""Results and loads of a thread up to which it asks for all of a piece at once, and for how much beyond. With
16 results and 16 loads of each operand it has some 160 registers; with 64 and all of 32 it spills."""
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
        return _VECTOR_BYTES // max(4, *(DTYPE_BYTES[one.expr.dtype] for one in self.operands))

    @property
    def outer(self) -> Size:
        """Indices of all other axes: a block has one of them."""
        return product(size for at, size in enumerate(self.axes) if at not in (self.down, self.across))

    def held(self, axis: int | None, varies: bool) -> tuple[Operand, ...]:
        """Operands of one kind, in the order in which they are met."""
        return tuple(one for one in self.operands if one.axis == axis and one.varies == varies)

    def steps(self, view: View) -> tuple[Size, ...] | None:
        """What one step of each axis moves in a view over the rows; None where it cuts them otherwise."""
        return _steps(self.axes, view)


@dataclass(frozen=True)
class Tiling:
    """How a block has ``tile`` x ``tile`` results: a thread has ``below`` x ``right`` of them."""

    tile: int
    threads: int
    below: int
    right: int
    piece: int
    """Columns that wait in shared memory at a time."""
    width: int = 1
    """Columns that a thread reads at a time where they lie side by side."""

    @property
    def brought(self) -> int:
        """Loads by which a thread brings its share of an operand in."""
        return self.tile * self.piece // self.threads // self.width

    @property
    def is_roomy(self) -> bool:
        """True where registers hold all that a thread brings in, beside its results."""
        return self.below * self.right <= _ROOMY and self.brought <= _ROOMY

    @property
    def ahead(self) -> int:
        """Loads of an operand that a thread has on their way at a time."""
        return self.brought if self.is_roomy else min(self.brought, _AHEAD)


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


def worth_pairing(pairs: Pairs, cases: Iterable[Mapping[str, int]]) -> bool:
    """True where every operand is read many times over, and rows are long enough to read them together."""
    rows = pairs.axes[pairs.down], pairs.axes[pairs.across]
    return all(
        min(size.at(case) for size in rows) >= LEAST_PAIRED and pairs.columns.at(case) >= LEAST_SUMMED
        for case in cases
    )


def tiling_of(pairs: Pairs, tile: int, threads: int) -> Tiling | None:
    """The results of a thread and the columns of a piece; None where a block has no room for such a tile."""
    results = tile * tile // threads
    if not _LEAST_RESULTS <= results <= _MOST_RESULTS or results * sum(pairs.results) > 4 * _MOST_RESULTS:
        return None
    right = 1 << (results.bit_length() - 1) // 2
    fits = (piece for piece in _PIECES if shared_bytes(pairs, tile, piece) <= MOST_STATIC_BYTES)
    piece = next(fits, None)
    return None if piece is None else Tiling(tile, threads, results // right, right, piece)


def tiled_pairs(
    pool: Pool, kernel: Kernel, schedule: Schedule, cases: Sequence[Mapping[str, int]]
) -> tuple[Pairs, Tiling] | None:
    """How a schedule has a kernel's results in tiles; None where it does not."""
    if not schedule.pair_tile or kernel.stores[0].level == "flat":
        return None
    pairs = pairs_of(pool, kernel)
    if pairs is None or not worth_pairing(pairs, cases):
        return None
    tiling = tiling_of(pairs, schedule.pair_tile, schedule.threads)
    if tiling is None:
        return None
    if max((pairs.columns.at(case) for case in cases), default=_PIECES[0]) <= _PIECES[1]:
        tiling = replace(tiling, piece=_PIECES[1])
    wide = schedule.width <= pairs.vector and tiling.brought % schedule.width == 0
    able = wide and any(one.loads for one in pairs.operands)
    return pairs, replace(tiling, width=schedule.width if able else 1)


def shared_bytes(pairs: Pairs, tile: int, piece: int) -> int:
    """What waits in shared memory, of a piece of the columns."""
    rows = {True: 1, False: tile}
    held = [one for one in pairs.operands if one.varies]
    sizes = [(DTYPE_BYTES[one.expr.dtype], rows[one.axis is None]) for one in held]
    return sum(size * count * (piece + padding_of(size)) for size, count in sizes)


def padding_of(size: int) -> int:
    """Elements of so many bytes between rows in shared memory."""
    return _VECTOR_BYTES // max(size, 4)


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


def _steps(axes: Sequence[Size], view: View) -> tuple[Size, ...] | None:
    try:
        found = [merged(View(run)).axes for run in runs(view, axes)]
    except NotAView:
        return None
    if any(len(run) > 1 for run in found):
        return None
    return tuple(run[0].stride if run else ZERO for run in found)


def _needs(space: RowSpace, axes: Sequence[Size], bodies: Sequence[Expr]) -> dict[int, Needs] | None:
    """The axes that every expression differs along, by serial."""
    found: dict[int, Needs] = {}
    for body in bodies:
        for expr in walk(body):
            own: Needs = frozenset()
            if isinstance(expr, Load | Index):
                row, column = _parts(space, expr)
                steps = _steps(axes, row)
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
            steps = _steps(axes, row)
            near = bool(column.axes) and column.axes[-1].stride.is_one
            if not near and steps is not None and steps[axis].is_one and not column.is_constant:
                return False
    return True
