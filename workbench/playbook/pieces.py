"""Diagonals, sliding windows, tensors with a piece replaced, and means over blocks of a plane.

Owns how each becomes a change of views, a choice an element, or a reduction that is known already. Returns
False for what it does not cover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref, Sym
from workbench.playbook.operations import compute_type, is_float
from workbench.playbook.sizes import ONE, ZERO, Size, number
from workbench.playbook.views import Axis, NotAView, View, joined, merged, runs

if TYPE_CHECKING:
    from workbench.playbook.lowering import Lowering


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none."""
    rule = _RULES.get(node.op)
    return rule is not None and rule(lowering, node)


def _stride(part: tuple[Axis, ...]) -> Size:
    """Elements between neighbours along one logical axis."""
    run = merged(View(part)).axes
    if len(run) > 1:
        raise NotAView
    return run[0].stride if run else ZERO


def _shape(lowering: Lowering, node: OpNode) -> tuple[Size, ...]:
    return lowering.sizes.shape(node.outs[0].dims)


def _diagonal(lowering: Lowering, node: OpNode) -> bool:
    """One axis that steps along two."""
    value = lowering.value(node.args[0])
    given: tuple[Arg, ...] = node.args[1:4]
    defaults: tuple[Arg, ...] = (0, 0, 1)
    offset, first, second = given + defaults[len(given) :]
    if offset != 0 or not isinstance(first, int) or not isinstance(second, int):
        return False
    ndim, shape = len(value.shape), _shape(lowering, node)
    one, other = first % ndim, second % ndim

    def change(view: View) -> View:
        parts = list(runs(view, value.shape))
        along = Axis(shape[-1], _stride(parts[one]) + _stride(parts[other]))
        kept = [part for axis, part in enumerate(parts) if axis not in (one, other)]
        return joined((*kept, (along,)), view.offset)

    lowering.keep_view(node, lowering.through(value, change, shape))
    return True


def _unfold(lowering: Lowering, node: OpNode) -> bool:
    """Windows along an axis, each a slice of it: a further axis with the same stride."""
    value = lowering.value(node.args[0])
    axis, size, step = node.args[1:4]
    if not (isinstance(axis, int) and isinstance(size, int) and isinstance(step, int)) or not value.shape:
        return False
    axis, shape = axis % len(value.shape), _shape(lowering, node)

    def change(view: View) -> View:
        parts = list(runs(view, value.shape))
        stride = _stride(parts[axis])
        parts[axis] = (Axis(shape[axis], stride * number(step)),)
        return joined((*parts, (Axis(number(size), stride),)), view.offset)

    lowering.keep_view(node, lowering.through(value, change, shape))
    return True


def _copy(lowering: Lowering, node: OpNode) -> bool:
    """The source in the shape and type of what it is copied to."""
    shape = _shape(lowering, node)
    source = lowering.broadcast(lowering.value(node.args[1]), shape)
    lowering.keep_expr(node, lowering.cast(source.expr, compute_type(node.outs[0].dtype)))
    return True


def _slice_scatter(lowering: Lowering, node: OpNode) -> bool:
    """A slice replaced: every element is read from where it comes from."""
    into, piece = lowering.value(node.args[0]), lowering.value(node.args[1])
    axis = node.args[2] if len(node.args) > 2 else 0
    start = node.args[3] if len(node.args) > 3 else 0
    if (len(node.args) > 5 and node.args[5] != 1) or not isinstance(axis, int):
        return False
    axis %= len(into.shape)
    first = _from(lowering, start, into.shape[axis])
    if first is None:
        return False
    pool, shape = lowering.pool, into.shape

    def shifted(view: View) -> View:
        parts = list(runs(view, piece.shape))
        stride = _stride(parts[axis])
        parts[axis] = (Axis(shape[axis], stride),)
        return joined(tuple(parts), view.offset + -(first * stride))

    seen = lowering.through(piece, shifted, shape).expr
    places = tuple(Axis(size, ONE if i == axis else ZERO) for i, size in enumerate(shape))
    position = pool.index(merged(View(places)), "i32")
    end = first + piece.shape[axis]
    tests = [
        pool.apply(op, "bool", (position, pool.const(at.text if at.number is None else at.number, "i32")))
        for op, at, always in (("ge", first, first.is_zero), ("lt", end, end == shape[axis]))
        if not always
    ]
    if not tests:  # nothing of the old tensor is left
        lowering.keep_expr(node, seen)
        return True
    inside = tests[0] if len(tests) == 1 else pool.apply("and", "bool", (tests[0], tests[1]))
    lowering.keep_expr(node, pool.apply("select", into.expr.dtype, (inside, seen, into.expr)))
    return True


def _from(lowering: Lowering, start: Arg, size: Size) -> Size | None:
    if start is None:
        return ZERO
    if isinstance(start, int) and start < 0:
        return size + number(start)
    return lowering.sizes.read(start) if isinstance(start, int | Sym) else None


# ------------------------------------------------------------------------------------ means over blocks


def _adaptive(lowering: Lowering, node: OpNode) -> bool:
    """As many means as asked for, where they divide the plane: each over a block of its own."""
    planes = lowering.value(node.args[0]).shape[-2:]
    counts = _shape(lowering, node)[-2:]
    if not all(count.divides(size) for count, size in zip(counts, planes, strict=True)):
        return False
    return _block_means(lowering, node, tuple(s // c for s, c in zip(planes, counts, strict=True)))


def _block_means(lowering: Lowering, node: OpNode, sizes: tuple[Size, ...]) -> bool:
    """The plane with its blocks as axes, summed over them."""
    out = node.outs[0]
    if not is_float(out.dtype) or not isinstance(node.args[0], Ref):
        return False
    *front, height, width = out.dims
    high, wide = (_dim(size) for size in sizes)
    cut = (*front, height, high, width, wide)
    axes = (len(front) + 1, len(front) + 3)
    blocks = _made(lowering, node, "aten.view.default", (node.args[0], _sizes(cut)), cut)
    total = _made(lowering, node, "aten.sum.dim_IntList", (blocks, axes, False), out.dims)
    count = _dim(sizes[0] * sizes[1])
    by: Arg = count if isinstance(count, int) else Sym(sym=count)
    lowering.node(node.model_copy(update={"op": "aten.div.Tensor", "args": (total, by), "kwargs": ()}))
    return True


def _dim(size: Size) -> Dim:
    return size.text if size.number is None else size.number


def _sizes(dims: tuple[Dim, ...]) -> tuple[Arg, ...]:
    return tuple(Sym(sym=dim) if isinstance(dim, str) else dim for dim in dims)


def _made(lowering: Lowering, node: OpNode, op: str, args: tuple[Arg, ...], dims: tuple[Dim, ...]) -> Ref:
    """Lower one more node on the way."""
    name = f"{node.name}_{op.split('.')[1]}"
    out = OutputSpec(dtype=node.outs[0].dtype, dims=dims)
    lowering.node(OpNode(name=name, op=op, args=args, outs=(out,)))
    return Ref(ref=name)


Rule = Callable[["Lowering", OpNode], bool]

_RULES: dict[str, Rule] = {
    "aten.diagonal.default": _diagonal,
    "aten.unfold.default": _unfold,
    "aten.copy.default": _copy,
    "aten.slice_scatter.default": _slice_scatter,
    "aten._adaptive_avg_pool2d.default": _adaptive,
}
