"""What a window comes to: its elements added, or the largest of them, along one axis after the other.

Owns the order in which windows of many elements are taken in: first down the columns, where neighbouring
threads read neighbouring elements, then along what is left, which is smaller by the stride and shared by the
windows that overlap. Never decides where that waits: a kernel may keep it on the chip.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.model import DType, OpNode
from workbench.playbook.analysis.placement import identity
from workbench.playbook.ir.expr import Expr
from workbench.playbook.ir.operations import compute_type
from workbench.playbook.ir.sizes import ZERO, Size, number, product
from workbench.playbook.ir.stencil import Window
from workbench.playbook.ir.views import Axis, NotAView, View, joined, merged, runs
from workbench.playbook.lowering import windows as seen_by
from workbench.playbook.lowering.windows import MOST_UNROLLED, elements_of, offsets_of, places_of

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering, Value


@dataclass(frozen=True)
class Fold:
    """An operation that takes elements in, in any order."""

    pair: str
    """Of two."""
    row: str
    """Of all columns of a row."""
    nothing: float
    """What leaves the other as it is: the value of what lies outside."""
    rounds: bool
    """Parts of 16 bits would lose what the whole keeps: they wait in the type that is computed in."""


TOTAL = Fold("add", "sum", 0.0, rounds=True)
LARGEST = Fold("larger", "max", float("-inf"), rounds=False)


def folded(lowering: Lowering, node: OpNode, value: Value, windows: tuple[Window, ...], fold: Fold) -> Expr:
    """Every window's elements folded: an expression over what comes of the windows."""
    parts = stages(windows, value.shape)
    value = seen_by.input_of(lowering, node, value, parts[0].windows)
    for stage in parts:
        expr = taken_in(lowering, value, stage, fold)
        if stage is not parts[-1]:
            value = part_of(lowering, node, stage.results(value.shape), (value.dtype, expr), fold)
    return expr


def part_of(
    lowering: Lowering, node: OpNode, shape: tuple[Size, ...], made: tuple[DType, Expr], fold: Fold
) -> Value:
    """What a stage has come to, in memory, for the next."""
    dtype, expr = made
    whole = lowering.value(node.args[0])
    part = type(whole)(shape, compute_type(dtype) if fold.rounds else dtype, expr)
    return lowering.loaded(lowering.write(part, f"{node.name}_part"))


# ------------------------------------------------------------------------------------ stages


@dataclass(frozen=True)
class Stage:
    """Some axes of the windows; along the others every element is a window of its own."""

    windows: tuple[Window, ...]
    unrolled: bool
    """Each element is an operand of its own; else the columns of a reduction."""

    def results(self, shape: tuple[Size, ...]) -> tuple[Size, ...]:
        """Shape of what comes of it."""
        return (*shape[: len(shape) - len(self.windows)], *(window.out for window in self.windows))


def stages(windows: tuple[Window, ...], shape: tuple[Size, ...]) -> list[Stage]:
    """The windows in as few stages as can be written out, from the slowest axis to the fastest.

    Where windows are as wide as the plane they are stretches of memory, and reduced at once.
    """
    sizes = list(shape[len(shape) - len(windows) :])
    if elements_of(windows) <= MOST_UNROLLED:
        return [Stage(windows, unrolled=True)]
    if _is_stretch(windows[-1], sizes[-1]) and not any(window.dilation > 1 for window in windows):
        return [Stage(windows, unrolled=False)]
    found = []
    for axes in _grouped(windows):
        taken = tuple(w if i in axes else _each(sizes[i]) for i, w in enumerate(windows))
        found.append(Stage(taken, unrolled=elements_of(taken) <= MOST_UNROLLED))
        sizes = [window.out if i in axes else sizes[i] for i, window in enumerate(windows)]
    return found


def _is_stretch(window: Window, size: Size) -> bool:
    return window.count == size.number and window.padding == 0


def _each(size: Size) -> Window:
    return Window(1, 1, 0, 1, size)


def _grouped(windows: Sequence[Window]) -> list[list[int]]:
    """Axes that are taken in together: one of a single element goes with any other."""
    groups: list[list[int]] = []
    elements = 1
    for axis, window in enumerate(windows):
        if groups and (1 in (elements, window.count) or elements * window.count <= MOST_UNROLLED):
            groups[-1].append(axis)
            elements *= window.count
        else:
            groups.append([axis])
            elements = window.count
    return groups


# ------------------------------------------------------------------------------------ one stage


def taken_in(lowering: Lowering, value: Value, stage: Stage, fold: Fold) -> Expr:
    """What comes of one stage."""
    dtype = compute_type(value.dtype)
    fill = lowering.pool.const(fold.nothing, dtype)
    if not stage.unrolled:
        return _reduced(lowering, value, stage, fold, fill)
    total, *others = places_of(lowering, value, stage.windows, fill)
    for other in others:
        total = lowering.pool.apply(fold.pair, dtype, (total, other))
    return total


def _reduced(lowering: Lowering, value: Value, stage: Stage, fold: Fold, fill: Expr) -> Expr:
    """Rows of results, with the elements of a window as columns."""
    around = seen_by.surrounded(lowering, value, stage.windows, fill)
    results = stage.results(value.shape)
    columns = tuple(number(window.count) for window in stage.windows)
    slid = lowering.through(around, _slid(around.shape, stage.windows), (*results, *columns))
    rows, elements = product(results), product(columns)
    body = lowering.body(slid.expr, rows, elements)
    return lowering.pool.reduction(fold.row, body.dtype, body, identity(rows), identity(elements))


def _slid(shape: tuple[Size, ...], windows: tuple[Window, ...]) -> Callable[[View], View]:
    """The windows as axes of their own, behind those of the results."""
    first = len(shape) - len(windows)

    def change(view: View) -> View:
        parts = list(runs(view, shape))
        within = []
        for axis, window in enumerate(windows, first):
            run = merged(View(parts[axis])).axes
            if len(run) > 1:
                raise NotAView
            stride = run[0].stride if run else ZERO
            parts[axis] = (Axis(window.out, stride * number(window.stride)),)
            within.append((Axis(number(window.count), stride * number(window.dilation)),))
        return joined((*parts, *within), view.offset)

    return change


# ------------------------------------------------------------------------------------ places


def place_along(
    lowering: Lowering, shape: tuple[Size, ...], windows: tuple[Window, ...], axis: int, before: int
) -> Expr:
    """Where the windows begin along one of their axes, less ``before``."""
    outer = shape[: len(shape) - len(windows)]
    axes = [Axis(size, ZERO) for size in outer]
    axes += [Axis(w.out, number(w.stride if i == axis else 0)) for i, w in enumerate(windows)]
    pool = lowering.pool
    place = pool.apply("cast", "i32", (pool.index(merged(View(tuple(axes))), "i32"),))
    return pool.apply("sub", "i32", (place, pool.const(before, "i32"))) if before else place


def largest_with_place(
    lowering: Lowering, node: OpNode, value: Value, windows: tuple[Window, ...]
) -> tuple[Expr, Expr]:
    """The largest element of every window and its number in the plane: of equal ones the first.

    Of several that are not numbers it is the last, as it is in PyTorch.
    """
    first, *later = stages(windows, value.shape)
    value = seen_by.input_of(lowering, node, value, first.windows)
    best, found = _in_order(lowering, node, value, first.windows)
    shape = first.results(value.shape)
    for stage in later:
        values, places = type(value)(shape, value.dtype, best), type(value)(shape, "i32", found)
        best, found = _in_any_order(lowering, node, (values, places), stage.windows)
        shape = stage.results(shape)
    return best, lowering.cast(found, "i64")


def _in_order(
    lowering: Lowering, node: OpNode, value: Value, windows: tuple[Window, ...]
) -> tuple[Expr, Expr]:
    dtype = compute_type(value.dtype)
    lowest = lowering.pool.const(float("-inf"), dtype)
    seen = places_of(lowering, value, windows, lowest)
    places = [_plane_index(lowering, value.shape, windows, at) for at in offsets_of(windows)]
    if any(window.padding for window in windows):
        seen, places = [lowest, *seen], [_first_inside(lowering, value.shape, windows), *places]
    return met_in_order(lowering, node, seen, places)


def met_in_order(
    lowering: Lowering, node: OpNode, seen: Sequence[Expr], places: Sequence[Expr]
) -> tuple[Expr, Expr]:
    """The largest, and its place, of elements in the order of their places: a larger one takes over."""
    pool = lowering.pool
    best, found = seen[0], places[0]
    for other, there in zip(seen[1:], places[1:], strict=True):
        better = pool.apply("gt", "bool", (other, best))
        better = pool.apply("or", "bool", (better, pool.apply("isnan", "bool", (other,))))
        found = pool.apply("where", found.dtype, (better, there, found))
        best = pool.apply("larger", best.dtype, (best, other), node.name)
    return best, found


def _in_any_order(
    lowering: Lowering, node: OpNode, found: tuple[Value, Value], windows: tuple[Window, ...]
) -> tuple[Expr, Expr]:
    values, places = written_parts(lowering, node, found)
    seen = places_of(lowering, values, windows, nothing(lowering, values))
    at = places_of(lowering, places, windows, nowhere(lowering))
    return met_in_any_order(lowering, node, seen, at)


def written_parts(lowering: Lowering, node: OpNode, found: tuple[Value, Value]) -> tuple[Value, Value]:
    """The largest of parts, and their places, in memory."""
    values, places = (
        lowering.loaded(lowering.write(one, f"{node.name}_{word}"))
        for one, word in zip(found, ("part", "place"), strict=True)
    )
    return values, places


def nothing(lowering: Lowering, value: Value) -> Expr:
    """What is larger than nothing."""
    return lowering.pool.const(float("-inf"), compute_type(value.dtype))


def nowhere(lowering: Lowering) -> Expr:
    """The place of an element outside: behind every other."""
    return lowering.pool.const(2**31 - 1, "i32")


def met_in_any_order(
    lowering: Lowering, node: OpNode, seen: Sequence[Expr], places: Sequence[Expr]
) -> tuple[Expr, Expr]:
    """The largest of parts that each know their largest and its place, which decides between equals."""
    pool = lowering.pool
    best, place = seen[0], places[0]
    for other, there in zip(seen[1:], places[1:], strict=True):
        earlier = pool.apply("lt", "bool", (there, place))
        equal = pool.apply("eq", "bool", (other, best))
        nans = [pool.apply("isnan", "bool", (one,)) for one in (other, best)]
        kept = pool.apply("and", "bool", (nans[1], earlier))
        better = pool.apply("gt", "bool", (other, best))
        better = pool.apply("or", "bool", (better, pool.apply("and", "bool", (equal, earlier))))
        last = pool.apply("and", "bool", (nans[0], pool.apply("not", "bool", (kept,))))
        better = pool.apply("or", "bool", (better, last))
        place = pool.apply("where", "i32", (better, there, place))
        best = pool.apply("larger", best.dtype, (best, other), node.name)
    return best, place


def _plane_index(
    lowering: Lowering, shape: tuple[Size, ...], windows: tuple[Window, ...], offsets: tuple[int, ...]
) -> Expr:
    """Number of an element of the window in its plane, as a pool's second result counts."""
    first = len(shape) - len(windows)
    results = (*shape[:first], *(window.out for window in windows))
    axes = [Axis(size, ZERO) for size in results[:first]]
    offset = ZERO
    for position, (window, at) in enumerate(zip(windows, offsets, strict=True)):
        step = product(shape[first + position + 1 :])
        axes.append(Axis(window.out, step * number(window.stride)))
        offset = offset + step * number(at * window.dilation - window.padding)
    return lowering.pool.index(merged(View(tuple(axes), offset)), "i32")


def _first_inside(lowering: Lowering, shape: tuple[Size, ...], windows: tuple[Window, ...]) -> Expr:
    """The number of the first element of a window that is no padding."""
    pool = lowering.pool

    def apply(op: str, left: Expr, right: int | str) -> Expr:
        return pool.apply(op, "i32", (left, pool.const(right, "i32")))

    total: Expr | None = None
    for axis, window in enumerate(windows):
        place = place_along(lowering, shape, windows, axis, window.padding)
        if window.padding and window.dilation == 1:
            place = apply("larger", place, 0)
        elif window.padding:
            beyond = apply("smaller", place, 0)
            steps = apply("floordiv", beyond, window.dilation)
            taken = apply("mul", steps, window.dilation)
            inside = pool.apply("sub", "i32", (place, taken))
            place = pool.apply(
                "where", "i32", (pool.apply("lt", "bool", (place, pool.const(0, "i32"))), inside, place)
            )
        step = product(shape[len(shape) - len(windows) + axis + 1 :])
        part = place if step.is_one else apply("mul", place, step.dim)
        total = part if total is None else pool.apply("add", "i32", (total, part))
    assert total is not None
    return total
