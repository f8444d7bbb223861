"""Rows that lie interleaved in memory: lines of many rows are summed whole, then each row's share of them.

Owns one rewrite of a reduction. A group of channels of a channels-last image is a row of a few neighbours in
every pixel, and whole pixels lie between them: a block that walks along one such row moves all of memory's
lines for a few elements of each. Neighbouring threads that each have a channel read lines as they lie,
whatever group the channel is of, and leave a number for every channel; a group's sum is its channels' sum.

A sum of squared distances from what the row shares, as a variance is, needs the group's mean before the first
distance is known. By Steiner's theorem it is the sum of distances from a channel's own mean, which come along
with that mean in one pass, and the squared distance between the means once for each element of the channel.

Rows of one neighbour, which lie side by side, are summed so anyway. Long ones need to be by themselves: a
kernel that also stores something for every element, or needs one statistic for the next, would walk along
each of them twice. Never decides which kernel walks, nor knows of channels and groups: it looks at strides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.model import DType
from workbench.playbook.analysis.memory_order import largest_read
from workbench.playbook.analysis.placement import identity
from workbench.playbook.analysis.row_passes import RowSpace, passes_of
from workbench.playbook.graph.rewrites import INTERLEAVED
from workbench.playbook.ir.expr import Apply, Expr, Reduction, walk
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import ZERO, Size, product
from workbench.playbook.ir.views import Axis, NotAView, View, joined, runs

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering

NARROW = 32
"""Neighbours of a row from which on a walk along it wants most of the lines that it moves; as many lines are
worth a number for each of their places."""
LONG = 1024
"""Columns of rows side by side from which on no block has room for as many rows as fill its lines."""


@dataclass(frozen=True)
class _Cut:
    """Columns of a row: ``lines`` steps from one line to another, ``share`` neighbours in each."""

    lines: Size
    share: Size


def by_lines(
    lowering: Lowering, body: Expr, op: str, dtype: DType, space: tuple[Size, Size]
) -> tuple[Expr, Size]:
    """What is left to be reduced and its columns: a number for each place in a line, or the body as it is.

    The columns of ``body`` have to be in the order in which they lie in memory.
    """
    rows, columns = space
    cut = _cut(lowering, body, rows, columns)
    if cut is None:
        return body, columns
    places = rows * cut.share

    def across(view: View) -> View:
        row, lines, share = runs(view, (rows, cut.lines, cut.share))
        return joined((row, share, lines), view.offset)

    try:
        turned = lowering.pool.through(body, across)
    except NotAView:
        return body, columns
    lowering.applied.add(INTERLEAVED)
    if INTERLEAVED in lowering.without:
        return body, columns
    found = _squares(lowering, turned, op, places, cut.lines)
    if found is None:
        found = _reduced(lowering, turned, op, dtype, (places, cut.lines))
    return found, cut.share


def _reduced(lowering: Lowering, body: Expr, op: str, dtype: DType, space: tuple[Size, Size]) -> Expr:
    """A reduction of lines; what cannot be computed along with it is in memory before."""
    rows, columns = space
    body = lowering.body(body, rows, columns)
    return lowering.pool.reduction(op, dtype, body, identity(rows), identity(columns))


def _squares(lowering: Lowering, body: Expr, op: str, places: Size, lines: Size) -> Expr | None:
    """sum((e - shared) ** 2) as sum((e - mean) ** 2) + lines * (mean - shared) ** 2; None for others."""
    match body:
        case Apply(
            op="mul", dtype="f32", args=(Apply(op="sub", args=(element, shared)) as distance, other)
        ) if op == "sum" and other is distance:
            pass
        case _:
            return None
    pool = lowering.pool
    place = RowSpace(pool, Kernel([Store("", body, identity(places * lines), places, lines, "full")]))
    apart = place.row_form(shared)
    if apart is None or place.row_form(element) is not None:
        return None

    def two(op: str, first: Expr, second: Expr) -> Expr:
        return pool.apply(op, "f32", (first, second))

    element = lowering.body(element, places, lines)
    count = pool.const(float(lines.number) if lines.number is not None else lines.text, "f32")
    mean = two("div", _reduced(lowering, element, "sum", "f32", (places, lines)), count)
    to_mean = two("sub", element, pool.through(mean, lambda view: _repeated(view, lines)))
    within = _reduced(lowering, two("mul", to_mean, to_mean), "sum", "f32", (places, lines))
    to_shared = two("sub", mean, apart)
    return two("add", within, two("mul", count, two("mul", to_shared, to_shared)))


def _repeated(view: View, columns: Size) -> View:
    return joined((view.axes, (Axis(columns, ZERO),)), view.offset)


# ------------------------------------------------------------------------------------ which rows


def _cut(lowering: Lowering, body: Expr, rows: Size, columns: Size) -> _Cut | None:
    """Where the largest tensor that is read has other rows between the neighbours of a row."""
    found = largest_read(body, rows, columns)
    if found is None or not lowering.cases:
        return None
    row, column = found
    known = lowering.cases[0]
    nearest = min((axis.stride.at(known) for axis in row.axes if axis.stride.at(known)), default=0)
    share = product(axis.size for axis in column.axes if axis.stride.at(known) < nearest)
    lines = product(axis.size for axis in column.axes if axis.stride.at(known) >= nearest)
    narrow = all(1 < share.at(case) < NARROW <= lines.at(case) for case in lowering.cases)
    return _Cut(lines, share) if narrow else None


def in_one_pass(lowering: Lowering, body: Expr, op: str, dtype: DType, space: tuple[Size, Size]) -> Expr:
    """The body of a reduction of long rows side by side, whose own statistics are in memory before it begins.

    A bundle of rows that a block sums up is walked once. What comes along in that pass, as a mean does with a
    variance, stays.
    """
    rows, columns = space
    within = any(isinstance(one, Reduction) for one in walk(body))
    if not within or not long_abreast(lowering, body, rows, columns):
        return body
    reduction = lowering.pool.reduction(op, dtype, body, identity(rows), identity(columns))
    kernel = Kernel([Store("", reduction, identity(rows), rows, columns, "row")])
    if len(passes_of(RowSpace(lowering.pool, kernel), kernel, single_pass=True)) == 1:
        return body
    return lowering.without_reductions(body)


def long_abreast(lowering: Lowering, body: Expr, rows: Size, columns: Size) -> bool:
    """True for rows that lie side by side, each too long to wait on the chip until its statistics are known.

    These are made by themselves then, a thread a row and lines as they lie, and what is made of every element
    is a kernel of its own. Notes that the rewrite applies, where it is not wanted too.
    """
    found = largest_read(body, rows, columns)
    if not lowering.fuse or found is None or not found[1].axes or not lowering.cases:
        return False
    row, column = found
    beside = bool(row.axes) and row.axes[-1].stride.is_one
    apart = all(axis.stride.at(case) != 1 for case in lowering.cases for axis in column.axes)
    if not (beside and apart and all(columns.at(case) >= LONG for case in lowering.cases)):
        return False
    lowering.applied.add(INTERLEAVED)
    return INTERLEAVED not in lowering.without
