"""Adaptive pools: as many windows as asked for, as evenly as they come, each from one bound to the next.

Owns where such windows begin and end: window o of O along n elements has those from floor(o n / O) to
ceil((o + 1) n / O). Windows that divide the axis are pools like any other. Returns False for what it does not
cover: places of maxima along axes whose sizes vary.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.model import Arg, DType, OpNode, Ref, Sym
from workbench.playbook.analysis.placement import identity
from workbench.playbook.graph.graph_edit import shape_of
from workbench.playbook.ir.expr import Expr
from workbench.playbook.ir.operations import compute_type, is_float
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.ir.stencil import Window
from workbench.playbook.ir.views import Axis, View, joined, merged, runs
from workbench.playbook.lowering import folds
from workbench.playbook.lowering import windows as seen_by
from workbench.playbook.lowering.folds import LARGEST, TOTAL, Fold, folded, part_of
from workbench.playbook.lowering.movement import looked_up
from workbench.playbook.lowering.windows import MOST_UNROLLED

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering, Value


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none."""
    if node.op not in _FOLDS or not is_float(node.outs[0].dtype):
        return False
    value, fold = lowering.value(node.args[0]), _FOLDS[node.op]
    ndim = 3 if "pool3d" in node.op else 2
    outs = lowering.sizes.shape(node.outs[0].dims)[-ndim:]
    first = len(value.shape) - ndim
    axes = tuple(_Along(axis, value.shape[axis], out) for axis, out in enumerate(outs, first))
    if Ref(ref=node.name, item=1) in lowering.used:
        return _largest_with_places(lowering, node, value, axes)
    item = 0 if len(node.outs) > 1 else None
    if all(along.each is not None for along in axes):
        if all(along.out.is_one for along in axes) or not all(along.most for along in axes):
            return _of_blocks(lowering, node, axes, fold)
        windows = tuple(Window(along.most, along.most, 0, 1, along.out) for along in axes)
        total = folded(lowering, node, value, windows, fold)
    else:
        total = _folded(lowering, node, value, axes, fold)
    if fold is TOTAL:
        total = _mean(lowering, node, total, axes)
    seen_by.keep_result(lowering, node, total, item)
    return True


@dataclass(frozen=True)
class _Along:
    """The windows along one axis."""

    axis: int
    size: Size
    out: Size

    @property
    def each(self) -> Size | None:
        """Elements of every window, where all have as many."""
        return self.size // self.out if self.out.divides(self.size) else None

    @property
    def lengths(self) -> tuple[int, ...]:
        """Elements of each window, where sizes are known; empty elsewhere."""
        if self.size.number is None or self.out.number is None:
            return ()
        n, o = self.size.number, self.out.number
        return tuple(-(-(at + 1) * n // o) - at * n // o for at in range(o))

    @property
    def most(self) -> int:
        """Elements of the longest window; zero where that is not known."""
        return max(self.lengths, default=0)

    @property
    def bound(self) -> Size:
        """No window has more elements."""
        return number(self.most) if self.most else (self.size + self.out + number(-1)) // self.out + ONE

    @property
    def dtype(self) -> DType:
        """In which bounds are computed."""
        known = self.size.number is not None and self.out.number is not None
        return "i32" if known and (self.size * self.out + self.size + self.out).at({}) < 2**31 else "i64"


# ------------------------------------------------------------------------------------ bounds


def _bounds(lowering: Lowering, shape: tuple[Size, ...], along: _Along) -> tuple[Expr, Expr]:
    """First element of the window of every index of ``shape``, and the one behind its last."""
    pool, dtype = lowering.pool, along.dtype
    axes = tuple(Axis(n, ONE if axis == along.axis else ZERO) for axis, n in enumerate(shape))
    place = pool.apply("cast", dtype, (pool.index(merged(View(axes)), dtype),))

    def const(size: Size) -> Expr:
        return pool.const(size.dim, dtype)

    def at_least(part: Expr, beyond: Size) -> Expr:
        scaled = pool.apply("mul", dtype, (part, const(along.size)))
        if not beyond.is_zero:
            scaled = pool.apply("add", dtype, (scaled, const(beyond)))
        return pool.apply("div", dtype, (scaled, const(along.out)))

    # ceil((o + 1) n / O) = floor((o n + n + O - 1) / O)
    return at_least(place, ZERO), at_least(place, along.size + along.out + number(-1))


def _mean(lowering: Lowering, node: OpNode, total: Expr, axes: tuple[_Along, ...]) -> Expr:
    """A window's sum over its number of elements."""
    pool, shape = lowering.pool, lowering.sizes.shape(node.outs[0].dims)
    even = [along for along in axes if along.each is not None and along.most]
    by = pool.const(float(math.prod(along.most for along in even)), total.dtype) if even else None
    for along in axes:
        if along not in even:
            start, end = _bounds(lowering, shape, along)
            own = lowering.cast(pool.apply("sub", along.dtype, (end, start)), total.dtype)
            by = own if by is None else pool.apply("mul", total.dtype, (by, own))
    assert by is not None
    return pool.apply("div", total.dtype, (total, by), node.name)


# ------------------------------------------------------------------------------------ unequal windows


def _folded(lowering: Lowering, node: OpNode, value: Value, axes: tuple[_Along, ...], fold: Fold) -> Expr:
    """The windows' elements folded, along as many axes at once as can be written out."""
    groups = _grouped([along for along in axes if along.size != along.out])
    dtype = compute_type(value.dtype)
    fill = lowering.pool.const(fold.nothing, dtype)
    longest = math.prod(along.most or 1 for along in groups[0])
    value = seen_by.input_of(lowering, node, value, (Window(longest, longest, 0, 1, ONE),))
    for group in groups:
        shape, expr = _taken_in(lowering, value, group, fold, fill)
        if group is not groups[-1]:
            value = part_of(lowering, node, shape, (value.dtype, expr), fold)
    return expr


def _taken_in(
    lowering: Lowering, value: Value, group: list[_Along], fold: Fold, fill: Expr
) -> tuple[tuple[Size, ...], Expr]:
    """One group of axes: the shape of what is left, and what the windows have come to."""
    if not 0 < group[0].most <= MOST_UNROLLED:
        return _replaced(value.shape, group[0]), _reduced(lowering, value, group[0], fold, fill)
    places = [value]
    for along in group:
        places = [seen for one in places for seen in _places(lowering, one, along, fill)]
    expr = places[0].expr
    for other in places[1:]:
        expr = lowering.pool.apply(fold.pair, expr.dtype, (expr, other.expr))
    return places[0].shape, expr


def _replaced(shape: tuple[Size, ...], along: _Along) -> tuple[Size, ...]:
    return (*shape[: along.axis], along.out, *shape[along.axis + 1 :])


def _grouped(axes: list[_Along]) -> list[list[_Along]]:
    """Axes whose windows are written out together."""
    groups: list[list[_Along]] = []
    for along in axes:
        together = math.prod(one.most for one in groups[-1]) * along.most if groups else 0
        if 0 < together <= MOST_UNROLLED:
            groups[-1].append(along)
        else:
            groups.append([along])
    return groups


def _places(lowering: Lowering, value: Value, along: _Along, fill: Expr) -> list[Value]:
    """The elements of every window along one axis, ``fill`` behind the last."""
    pool, shape = lowering.pool, _replaced(value.shape, along)
    start, end = _bounds(lowering, shape, along)
    found = []
    for k in range(along.most):
        index = pool.apply("add", along.dtype, (start, pool.const(k, along.dtype))) if k else start
        change = _without(value.shape, along)
        if k < min(along.lengths):
            expr = looked_up(lowering, value, index, along.axis, change)
        else:
            expr = _before(lowering, value, along, (index, end, fill), change)
        found.append(type(value)(shape, value.dtype, expr))
    return found


def _before(
    lowering: Lowering,
    value: Value,
    along: _Along,
    bounds: tuple[Expr, Expr, Expr],
    change: Callable[[View], View],
) -> Expr:
    """An element, or ``fill`` from the end on: there the axis's last may be read, so that no load waits."""
    index, end, fill = bounds
    pool, last = lowering.pool, along.size + number(-1)
    there = pool.const(last.dim, along.dtype)
    within = pool.apply("smaller", along.dtype, (index, there))
    seen = looked_up(lowering, value, within, along.axis, change)
    return pool.apply("where", seen.dtype, (pool.apply("lt", "bool", (index, end)), seen, fill))


def _without(shape: tuple[Size, ...], along: _Along, columns: Size | None = None) -> Callable[[View], View]:
    """A tensor over its results: the axis itself is looked up, by ``columns`` places a result."""

    def change(view: View) -> View:
        parts = list(runs(view, shape))
        parts[along.axis] = (Axis(along.out, ZERO),)
        return joined((*parts, *(() if columns is None else ((Axis(columns, ZERO),),))), view.offset)

    return change


def _reduced(lowering: Lowering, value: Value, along: _Along, fold: Fold, fill: Expr) -> Expr:
    """Rows of results, with as many columns as the longest window may have elements."""
    pool, columns, shape = lowering.pool, along.bound, _replaced(value.shape, along)
    space = (*shape, columns)
    start, end = _bounds(lowering, space, along)
    place = View((Axis(product(shape), ZERO), Axis(columns, ONE)))
    column = pool.apply("cast", along.dtype, (pool.index(merged(place), along.dtype),))
    index = pool.apply("add", along.dtype, (start, column))
    change = _without(value.shape, along, columns)
    body = _before(lowering, value, along, (index, end, fill), change)
    rows = product(shape)
    body = lowering.body(body, rows, columns)
    return pool.reduction(fold.row, body.dtype, body, identity(rows), identity(columns))


# ------------------------------------------------------------------------------------ places


def _largest_with_places(lowering: Lowering, node: OpNode, value: Value, axes: tuple[_Along, ...]) -> bool:
    """Down one axis after the other: the largest, and where in its plane it is."""
    if any(not 0 < along.most <= MOST_UNROLLED for along in axes):
        return False
    pool = lowering.pool
    plane = value.shape[axes[0].axis :]
    steps = tuple(product(plane[at + 1 :]) for at in range(len(plane)))
    front = tuple(Axis(size, ZERO) for size in value.shape[: axes[0].axis])
    own = pool.index(merged(View((*front, *map(Axis, plane, steps)))), "i32")
    at = type(value)(value.shape, "i32", pool.apply("cast", "i32", (own,)))
    for along in axes:
        inner = along is not axes[0]
        if inner:
            value, at = folds.written_parts(lowering, node, (value, at))
        seen = _places(lowering, value, along, folds.nothing(lowering, value))
        meet = folds.met_in_any_order if inner else folds.met_in_order
        outside = folds.nowhere(lowering)
        places = _places(lowering, at, along, outside) if inner else _numbers(lowering, value, axes)
        best, found = meet(lowering, node, [one.expr for one in seen], [one.expr for one in places])
        value = type(value)(seen[0].shape, value.dtype, best)
        at = type(at)(seen[0].shape, "i32", found)
    seen_by.keep_result(lowering, node, value.expr, 0)
    lowering.keep_expr(node, lowering.cast(at.expr, "i64"), 1)
    return True


def _numbers(lowering: Lowering, value: Value, axes: tuple[_Along, ...]) -> list[Value]:
    """The numbers in their plane of a window's elements along the first axis."""
    pool, along, shape = lowering.pool, axes[0], _replaced(value.shape, axes[0])
    start, _ = _bounds(lowering, shape, along)
    plane = shape[along.axis :]
    inner = product(plane[1:])
    rest = [Axis(size, ZERO) for size in shape[: along.axis + 1]]
    rest += [Axis(size, product(plane[at + 1 :])) for at, size in enumerate(plane) if at]
    within = pool.apply("cast", "i32", (pool.index(merged(View(tuple(rest))), "i32"),))
    found = []
    for k in range(along.most):
        line = pool.apply("add", "i32", (lowering.cast(start, "i32"), pool.const(k, "i32")))
        line = pool.apply("mul", "i32", (line, seen_by.integer(lowering, inner)))
        found.append(type(value)(shape, "i32", pool.apply("add", "i32", (line, within))))
    return found


# ------------------------------------------------------------------------------------ blocks


def _of_blocks(lowering: Lowering, node: OpNode, axes: tuple[_Along, ...], fold: Fold) -> bool:
    """The plane with its blocks as axes, reduced over them."""
    if not isinstance(node.args[0], Ref):
        return False
    out = node.outs[0]
    front = out.dims[: len(out.dims) - len(axes)]
    sizes = [along.each for along in axes if along.each is not None]
    pairs = zip(out.dims[len(front) :], (size.dim for size in sizes), strict=True)
    cut = (*front, *(dim for pair in pairs for dim in pair))
    within = tuple(range(len(front) + 1, len(cut), 2))
    blocks = lowering.on_the_way(node, "aten.view.default", (node.args[0], shape_of(cut)), cut)
    if fold is LARGEST:
        args = (blocks, within, False)
        lowering.node(node.model_copy(update={"op": "aten.amax.default", "args": args, "outs": (out,)}))
        lowering.keep_view(node, lowering.value(Ref(ref=node.name)), 0)
        return True
    total = lowering.on_the_way(node, "aten.sum.dim_IntList", (blocks, within, False), out.dims)
    count = product(sizes).dim
    by: Arg = count if isinstance(count, int) else Sym(sym=count)
    lowering.node(node.model_copy(update={"op": "aten.div.Tensor", "args": (total, by), "kwargs": ()}))
    return True


_FOLDS = {
    "aten._adaptive_avg_pool2d.default": TOTAL,
    "aten._adaptive_avg_pool3d.default": TOTAL,
    "aten.adaptive_max_pool2d.default": LARGEST,
    "aten.adaptive_max_pool3d.default": LARGEST,
}
