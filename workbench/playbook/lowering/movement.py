"""Operations that move elements and compute nothing: views, slices, concatenation, gathers, constants.

Owns how each becomes a change of views or a computed index. Returns False for what it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import TYPE_CHECKING

from workbench.model import Arg, OpNode, Sym, refs_in
from workbench.playbook.analysis.placement import best_placement
from workbench.playbook.ir.expr import Expr, Load, walk
from workbench.playbook.ir.operations import MOST_INLINE, compute_type, is_float
from workbench.playbook.ir.signs import counts_from_the_front
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.ir.views import (
    Axis,
    NotAView,
    View,
    contiguous,
    joined,
    merged,
    permuted,
    runs,
    sliced,
)

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering, Value


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none."""
    rule = _RULES.get(node.op)
    return rule is not None and rule(lowering, node)


def _shape(lowering: Lowering, node: OpNode, item: int = 0) -> tuple[Size, ...]:
    return lowering.sizes.shape(node.outs[item].dims)


def _view(lowering: Lowering, node: OpNode) -> bool:
    value = lowering.value(node.args[0])
    lowering.keep_view(node, replace(value, shape=_shape(lowering, node)))
    return True


def _expand(lowering: Lowering, node: OpNode) -> bool:
    value = lowering.value(node.args[0])
    lowering.keep_view(node, lowering.broadcast(value, _shape(lowering, node)))
    return True


def _permute(lowering: Lowering, node: OpNode) -> bool:
    value = lowering.value(node.args[0])
    order = tuple(axis % len(value.shape) for axis in _ints(node.args[1]))
    kind = ("permuted", value.shape, order)
    moved = lowering.through(
        value, lambda view: permuted(view, value.shape, order), _shape(lowering, node), kind
    )
    lowering.keep_view(node, moved)
    return True


def _slice(lowering: Lowering, node: OpNode) -> bool:
    value = lowering.value(node.args[0])
    axis = _int(node.args[1] if len(node.args) > 1 else 0) % len(value.shape)
    start = _bound(lowering, node.args[2] if len(node.args) > 2 else None, value.shape[axis])
    step = _int(node.args[4]) if len(node.args) > 4 else 1
    shape = _shape(lowering, node)
    change, kind = _cut(value.shape, axis, start, number(step), shape[axis])
    lowering.keep_view(node, lowering.through(value, change, shape, kind))
    return True


def _cut(
    shape: tuple[Size, ...], axis: int, start: Size, step: Size, size: Size
) -> tuple[Callable[[View], View], Hashable]:
    """The change of views that leaves ``size`` indices of an axis, and its kind."""
    kind = ("sliced", shape, axis, start, step, size)
    return lambda view: sliced(view, shape, axis, start, step, size), kind


def _bound(lowering: Lowering, start: Arg, size: Size) -> Size:
    if start is None:
        return ZERO
    if isinstance(start, int) and start < 0:
        return size + number(start)
    assert isinstance(start, (int, Sym))
    return lowering.sizes.read(start)


def _select(lowering: Lowering, node: OpNode) -> bool:
    value = lowering.value(node.args[0])
    axis = _int(node.args[1]) % len(value.shape)
    start = _bound(lowering, node.args[2], value.shape[axis])
    change, kind = _cut(value.shape, axis, start, ONE, ONE)
    lowering.keep_view(node, lowering.through(value, change, _shape(lowering, node), kind))
    return True


def _flip(lowering: Lowering, node: OpNode) -> bool:
    value = lowering.value(node.args[0])
    for axis in (a % len(value.shape) for a in _ints(node.args[1])):
        value = lowering.through(value, flipped(value.shape, axis), value.shape)
    lowering.keep_view(node, value)
    return True


def flipped(shape: tuple[Size, ...], axis: int) -> Callable[[View], View]:
    """The change of views that turns one axis round."""
    size = shape[axis]
    return lambda view: sliced(view, shape, axis, size + number(-1), number(-1), size)


def _repeat(lowering: Lowering, node: OpNode) -> bool:
    value = lowering.value(node.args[0])
    shape = _shape(lowering, node)
    own = (ONE,) * (len(shape) - len(value.shape)) + value.shape
    times = tuple(whole // part for whole, part in zip(shape, own, strict=True))

    def change(view: View) -> View:
        parts = runs(view, own)
        repeated = tuple((Axis(n, ZERO), *run) for n, run in zip(times, parts, strict=True))
        return joined(repeated, view.offset)

    lowering.keep_view(node, lowering.through(value, change, shape))
    return True


def _pieces(lowering: Lowering, node: OpNode) -> bool:
    """``split_with_sizes`` and ``unbind``: every result is a slice."""
    value = lowering.value(node.args[0])
    position = 2 if node.op.startswith("aten.split") else 1
    axis = _int(node.args[position] if len(node.args) > position else 0) % len(value.shape)
    start = ZERO
    for item in range(len(node.outs)):
        shape = _shape(lowering, node, item)
        size = ONE if node.op.startswith("aten.unbind") else shape[axis]
        change = _piece(value.shape, axis, start, size)
        lowering.keep_view(node, lowering.through(value, change, shape), item)
        start = start + size
    return True


def _piece(shape: tuple[Size, ...], axis: int, start: Size, size: Size) -> Callable[[View], View]:
    return lambda view: sliced(view, shape, axis, start, ONE, size)


def _concatenate(lowering: Lowering, node: OpNode) -> bool:
    """Few pieces: an element reads from the piece it lies in. Many, or what one kernel of rows makes: each is
    stored into its slice."""
    parts, shape, axis = _pieces_of(lowering, node)
    chosen = None
    if len(parts) <= MOST_INLINE and lowering.fuse and not _are_of_one_kernel(lowering, parts):
        chosen = _chosen(lowering, parts, shape, axis)
    if chosen is not None:
        lowering.keep_expr(node, chosen)
    else:
        store_in_slices(lowering, node)
    return True


def computed_in_slices(lowering: Lowering, node: OpNode) -> bool:
    """Store the pieces of a concatenation that are all computed; False for any other node."""
    if _RULES.get(node.op) is not _concatenate:
        return False
    parts, _, _ = _pieces_of(lowering, node)
    if any(isinstance(part.expr, Load) for part in parts):
        return False
    store_in_slices(lowering, node)
    return True


def _pieces_of(lowering: Lowering, node: OpNode) -> tuple[list[Value], tuple[Size, ...], int]:
    """The pieces that are not empty, in the type of the whole; the whole's shape, and the axis."""
    parts = [lowering.value(ref) for ref in refs_in(node.args[:1])]
    shape = _shape(lowering, node)
    axis = _int(node.args[1] if len(node.args) > 1 else 0) % len(shape)
    dtype = node.outs[0].dtype
    if node.op.startswith("aten.stack"):
        parts = [lowering.converted(p, (*p.shape[:axis], ONE, *p.shape[axis:]), dtype) for p in parts]
    return [lowering.converted(p, p.shape, dtype) for p in parts if not product(p.shape).is_zero], shape, axis


def store_in_slices(lowering: Lowering, node: OpNode) -> None:
    """Store the pieces of a concatenation where they belong."""
    parts, shape, axis = _pieces_of(lowering, node)
    name = lowering.new_buffer(node.name, node.outs[0].dtype, shape)
    start = ZERO
    for part in parts:
        where = sliced(contiguous(shape), shape, axis, start, ONE, part.shape[axis])
        lowering.store(name, part, where)
        start = start + part.shape[axis]
    lowering.keep_view(node, lowering.loaded(name))


def _are_of_one_kernel(lowering: Lowering, parts: list[Value]) -> bool:
    """True for several values of the same rows: the kernel that reduces these puts each where it belongs."""
    spaces = set()
    for part in parts:
        best = best_placement(lowering.pool, part.expr)
        if best is None or not all(best[0].is_row):
            return False
        spaces.add((best[0].rows, best[1]))
    return len(parts) > 1 and len(spaces) == 1


def _chosen(lowering: Lowering, parts: list[Value], shape: tuple[Size, ...], axis: int) -> Expr | None:
    """One expression over the whole shape; None when a piece cannot be seen from there."""
    pool = lowering.pool
    place = View(tuple(Axis(size, ONE if i == axis else ZERO) for i, size in enumerate(shape)))
    position = pool.index(merged(place), "i32")
    starts = [ZERO]
    for part in parts:
        starts.append(starts[-1] + part.shape[axis])
    try:
        seen = [
            pool.through(part.expr, _shifted(part.shape, shape, axis, start))
            for part, start in zip(parts, starts, strict=False)
        ]
    except NotAView:
        return None
    result = seen[-1]
    for expr, end in zip(reversed(seen[:-1]), reversed(starts[1:-1]), strict=True):
        inside = pool.apply("lt", "bool", (position, pool.const(end.text, "i32")))
        result = pool.apply("select", expr.dtype, (inside, expr, result))
    return result


def _shifted(
    own: tuple[Size, ...], shape: tuple[Size, ...], axis: int, start: Size
) -> Callable[[View], View]:
    """A piece seen from the whole: valid only at the indices of the piece."""

    def change(view: View) -> View:
        parts = list(runs(view, own))
        run = merged(View(parts[axis])).axes
        if len(run) > 1:
            raise NotAView
        stride = run[0].stride if run else ZERO
        parts[axis] = (Axis(shape[axis], stride),)
        return joined(tuple(parts), view.offset + -(start * stride))

    return change


def _constant(lowering: Lowering, node: OpNode) -> bool:
    out = node.outs[0]
    name = node.base_name
    fill: Arg = 0 if "zeros" in name or "empty" in name else 1 if "ones" in name else None
    if fill is None:
        fill = node.args[0 if name == "scalar_tensor" else 1]
        fill = fill.sym if isinstance(fill, Sym) else fill
    if not isinstance(fill, (bool, int, float, str)):
        return False
    dtype = compute_type(out.dtype)
    if not isinstance(fill, str):
        fill = bool(fill) if dtype == "bool" else float(fill) if is_float(dtype) else int(fill)
    lowering.keep_expr(node, lowering.pool.const(fill, dtype))
    return True


def _range(lowering: Lowering, node: OpNode) -> bool:
    """``arange`` and ``iota``: the index itself, scaled and shifted."""
    if node.op.startswith("prims.iota"):
        keywords = dict(node.kwargs)
        start, step = keywords.get("start", 0), keywords.get("step", 1)
    else:
        start, step = node.args[0], node.args[2] if len(node.args) > 2 else 1
    if not (isinstance(start, (int, Sym)) and isinstance(step, (int, Sym))):
        return False
    size = _shape(lowering, node)[0]
    view = View((Axis(size, lowering.sizes.read(step)),), lowering.sizes.read(start))
    index = lowering.pool.index(view, "i64")
    lowering.keep_expr(node, lowering.cast(index, compute_type(node.outs[0].dtype)))
    return True


# ------------------------------------------------------------------------------------ computed indices


def _gather(lowering: Lowering, node: OpNode) -> bool:
    source, index = lowering.value(node.args[0]), lowering.value(node.args[2])
    if not source.shape:
        return False
    axis = _int(node.args[1]) % len(source.shape)
    shape = _shape(lowering, node)
    found = looked_up(lowering, source, index.expr, axis, keep_axes(source.shape, shape, axis))
    lowering.keep_expr(node, found)
    return True


def keep_axes(source: tuple[Size, ...], shape: tuple[Size, ...], axis: int) -> Callable[[View], View]:
    """Every axis but the gathered one, cut to the index's size."""

    def change(view: View) -> View:
        parts = list(runs(view, source))
        for position, size in enumerate(shape):
            if position == axis:
                parts[position] = (Axis(size, ZERO),)
            elif source[position] != size:
                run = merged(View(parts[position])).axes
                if len(run) > 1:
                    raise NotAView
                parts[position] = (Axis(size, run[0].stride if run else ZERO),)
        return joined(tuple(parts), view.offset)

    return change


def _take(lowering: Lowering, node: OpNode) -> bool:
    """``index_select`` and ``embedding``: an axis is replaced by the index's."""
    embedding = node.op.startswith("aten.embedding")
    source = lowering.value(node.args[0])
    axis = 0 if embedding else _int(node.args[1]) % len(source.shape)
    index = lowering.value(node.args[1 if embedding else 2])
    return _kept_lookup(lowering, node, source, [(axis, index)])


def _index(lowering: Lowering, node: OpNode) -> bool:
    """Indexing with tensors along neighbouring axes; an index may count from the end."""
    source = lowering.value(node.args[0])
    given = node.args[1]
    assert isinstance(given, tuple)
    axes = [axis for axis, ref in enumerate(given) if ref is not None]
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        return False
    shape = _shape(lowering, node)
    common = shape[axes[0] : len(shape) - (len(source.shape) - axes[-1] - 1)]
    wrapped = []
    for axis in axes:
        index = lowering.broadcast(lowering.value(given[axis]), common)
        if "unsafe" not in node.op and index.dtype in INDICES:
            index = from_the_end(lowering, index, source.shape[axis])
        wrapped.append((axis, index))
    return _kept_lookup(lowering, node, source, wrapped)


INDICES = ("i64", "i32")
"""Types of indices; a mask is none."""
MOST_PLACES = 32
"""Of looked up elements that one more lookup may read at other places."""


def _kept_lookup(lowering: Lowering, node: OpNode, source: Value, found: list[tuple[int, Value]]) -> bool:
    expr = indexed(lowering, source, found, _shape(lowering, node))
    if expr is not None:
        lowering.keep_expr(node, expr)
    return expr is not None


def indexed(
    lowering: Lowering, source: Value, found: list[tuple[int, Value]], wanted: tuple[Size, ...]
) -> Expr | None:
    """Replace axes by the shape their indices share, from the last axis to the first; None where what comes
    of it is not of the shape that is wanted."""
    if any(index.dtype not in INDICES for _, index in found):
        return None
    (last, index), *others = reversed(found)
    before, after = source.shape[:last], source.shape[last + 1 :]
    shape = (*before, *index.shape, *after)
    if (*before[: len(before) - len(others)], *index.shape, *after) != wanted:
        return None

    def replaced(view: View) -> View:
        parts = runs(view, source.shape)
        middle = tuple((Axis(size, ZERO),) for size in index.shape)
        return joined((*parts[:last], *middle, *parts[last + 1 :]), view.offset)

    expr = looked_up(lowering, source, _spread(lowering, index, before, after), last, replaced)
    value = type(source)(shape, source.dtype, expr)
    for axis, other in others:
        value = _dropped(lowering, value, axis, _spread(lowering, other, value.shape[:axis], after))
    return value.expr


def _spread(lowering: Lowering, index: Value, before: tuple[Size, ...], after: tuple[Size, ...]) -> Expr:
    """An index as the result sees it: the same along every axis that is not its own."""

    def change(view: View) -> View:
        front, back = (tuple((Axis(size, ZERO),) for size in sizes) for sizes in (before, after))
        return joined((*front, *runs(view, index.shape), *back), view.offset)

    return lowering.through(index, change, (*before, *index.shape, *after)).expr


def _dropped(lowering: Lowering, value: Value, axis: int, index: Expr) -> Value:
    """One axis found by an index that lives on axes the value has already."""
    shape = (*value.shape[:axis], *value.shape[axis + 1 :])

    def change(view: View) -> View:
        parts = runs(view, value.shape)
        return joined((*parts[:axis], *parts[axis + 1 :]), view.offset)

    return type(value)(shape, value.dtype, looked_up(lowering, value, index, axis, change))


def from_the_end(lowering: Lowering, value: Value, size: Size) -> Value:
    """An index along an axis of ``size`` elements, counted from the front where it is negative."""
    pool, index = lowering.pool, value.expr
    if counts_from_the_front(pool, index, size):
        return value
    negative = pool.apply("lt", "bool", (index, pool.const(0, index.dtype)))
    counted = pool.apply("add", index.dtype, (index, pool.const(size.text, index.dtype)))
    return type(value)(value.shape, value.dtype, pool.apply("where", index.dtype, (negative, counted, index)))


def looked_up(
    lowering: Lowering, source: Value, index: Expr, axis: int, change: Callable[[View], View]
) -> Expr:
    """``source`` with one logical axis found by ``index``; written out first when no lookup reaches into it,
    and where it is looked up in many places itself: what turns its rows about twice a step reads four places
    after two steps, and a million after twenty.
    """
    places = sum(isinstance(expr, Load) and bool(expr.lookups) for expr in walk(source.expr))
    for attempt in (source, None) if places <= MOST_PLACES else (None,):
        value = attempt or lowering.loaded(lowering.write(source, "table"))
        try:
            return lowering.pool.looked_up(value.expr, index, _stride_along(value.shape, axis), change)
        except NotAView:
            continue
    raise AssertionError("a plain buffer has a stride along every axis")


def _stride_along(shape: tuple[Size, ...], axis: int) -> Callable[[View], Size]:
    def stride(view: View) -> Size:
        run = merged(View(runs(view, shape)[axis])).axes
        if len(run) > 1:
            raise NotAView
        return run[0].stride if run else ZERO

    return stride


# ------------------------------------------------------------------------------------ arguments


def _int(arg: Arg) -> int:
    assert isinstance(arg, int), f"not a number: {arg}"
    return arg


def _ints(arg: Arg) -> tuple[int, ...]:
    assert isinstance(arg, tuple)
    return tuple(_int(item) for item in arg)


Rule = Callable[["Lowering", OpNode], bool]

_RULES: dict[str, Rule] = {
    "aten.view.default": _view,
    "aten.alias.default": _view,
    "aten.clone.default": _view,
    "aten.expand.default": _expand,
    "aten.permute.default": _permute,
    "aten.slice.Tensor": _slice,
    "aten.select.int": _select,
    "aten.flip.default": _flip,
    "prims.rev.default": _flip,
    "aten.repeat.default": _repeat,
    "aten.split_with_sizes.default": _pieces,
    "aten.unbind.int": _pieces,
    "aten.cat.default": _concatenate,
    "aten.stack.default": _concatenate,
    "aten.full.default": _constant,
    "aten.full_like.default": _constant,
    "aten.zeros.default": _constant,
    "aten.zeros_like.default": _constant,
    "aten.empty.memory_format": _constant,
    "aten.empty_permuted.default": _constant,
    "aten.ones.default": _constant,
    "aten.ones_like.default": _constant,
    "aten.scalar_tensor.default": _constant,
    "aten.arange.start_step": _range,
    "prims.iota.default": _range,
    "aten.gather.default": _gather,
    "aten.index_select.default": _take,
    "aten.embedding.default": _take,
    "aten.index.Tensor": _index,
    "aten._unsafe_index.Tensor": _index,
}
