"""Diagonals, sliding windows, means and maxima over blocks of a plane.

Owns how each becomes a change of views or a reduction that is known already. Returns
False for what it does not cover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.model import Arg, Dim, OpNode, OutputSpec, Ref, Sym
from workbench.playbook.operations import compute_type, is_float
from workbench.playbook.sizes import ZERO, Size, number
from workbench.playbook.views import Axis, NotAView, View, joined, merged, runs
from workbench.playbook.windows import MOST_UNROLLED

if TYPE_CHECKING:
    from workbench.playbook.lowering import Lowering


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none."""
    rule = _RULES.get(node.op)
    return rule is not None and rule(lowering, node)


def one_stride(part: tuple[Axis, ...]) -> Size:
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
        along = Axis(shape[-1], one_stride(parts[one]) + one_stride(parts[other]))
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
        stride = one_stride(parts[axis])
        parts[axis] = (Axis(shape[axis], stride * number(step)),)
        return joined((*parts, (Axis(number(size), stride),)), view.offset)

    lowering.keep_view(node, lowering.through(value, change, shape))
    return True


def _strided(lowering: Lowering, node: OpNode) -> bool:
    """Any steps through an argument that lies in one piece; of other tensors the storage is not known."""
    source, given = node.args[0], node.args[1:3]
    if not isinstance(source, Ref) or not all(isinstance(part, tuple) for part in given):
        return False
    buffer = lowering.buffers.get(source.ref)
    if buffer is None or buffer.role != "argument" or buffer.strides is not None:
        return False
    start = node.args[3] if len(node.args) > 3 else 0
    steps = [_read(lowering, step) for step in given[1]] if isinstance(given[1], tuple) else []
    first = ZERO if start is None else _read(lowering, start)
    value, shape = lowering.value(source), _shape(lowering, node)

    def change(view: View) -> View:
        axes = tuple((Axis(size, step),) for size, step in zip(shape, steps, strict=True))
        return joined(axes, view.offset + first)

    lowering.keep_view(node, lowering.through(value, change, shape))
    return True


def _read(lowering: Lowering, arg: Arg) -> Size:
    assert isinstance(arg, int | Sym), f"not a size: {arg}"
    return lowering.sizes.read(arg)


def _copy(lowering: Lowering, node: OpNode) -> bool:
    """The source in the shape and type of what it is copied to."""
    shape = _shape(lowering, node)
    source = lowering.broadcast(lowering.value(node.args[1]), shape)
    lowering.keep_expr(node, lowering.cast(source.expr, compute_type(node.outs[0].dtype)))
    return True


# ------------------------------------------------------------------------------------ means over blocks


def _adaptive(lowering: Lowering, node: OpNode) -> bool:
    """As many means as asked for, where they divide the plane: each over a block of its own."""
    planes = lowering.value(node.args[0]).shape[-2:]
    counts = _shape(lowering, node)[-2:]
    if not all(count.divides(size) for count, size in zip(counts, planes, strict=True)):
        return False
    return _block_means(lowering, node, tuple(s // c for s, c in zip(planes, counts, strict=True)))


def _adaptive_max(lowering: Lowering, node: OpNode) -> bool:
    """As many maxima as asked for, over blocks of the plane; where they were found, nobody asks."""
    if any(ref.ref == node.name and ref.item == 1 for ref in lowering.used):
        return False
    planes = lowering.value(node.args[0]).shape[-2:]
    counts = _shape(lowering, node)[-2:]
    if not all(count.divides(size) for count, size in zip(counts, planes, strict=True)):
        return False
    blocks, axes = _blocks(lowering, node, tuple(s // c for s, c in zip(planes, counts, strict=True)))
    largest = _made(lowering, node, "aten.amax.default", (blocks, axes, False), node.outs[0].dims)
    lowering.keep_view(node, lowering.value(largest), 0)
    return True


def _wide_pool(lowering: Lowering, node: OpNode) -> bool:
    """Means over blocks that are too large to be written out, side by side without overlap."""
    given: tuple[Arg, ...] = node.args[1:]
    defaults: tuple[Arg, ...] = ((), (), 0)
    kernel, stride, padding = (given + defaults[len(given) :])[:3]
    if not isinstance(kernel, tuple) or any(given[3:4]) or any(given[5:]):
        return False
    blocks = kernel * 2 if len(kernel) == 1 else kernel
    if stride not in ((), kernel, blocks) or padding not in (0, (0,), (0, 0)):
        return False
    sizes = tuple(number(n) for n in blocks if isinstance(n, int))
    planes = lowering.value(node.args[0]).shape[-2:]
    wide = (sizes[0] * sizes[1]).number if len(sizes) == 2 else None
    if (
        wide is None
        or wide <= MOST_UNROLLED
        or not all(b.divides(s) for b, s in zip(sizes, planes, strict=True))
    ):
        return False
    return _block_means(lowering, node, sizes)


def _block_means(lowering: Lowering, node: OpNode, sizes: tuple[Size, ...]) -> bool:
    """The plane with its blocks as axes, summed over them."""
    out = node.outs[0]
    if not is_float(out.dtype) or not isinstance(node.args[0], Ref):
        return False
    blocks, axes = _blocks(lowering, node, sizes)
    total = _made(lowering, node, "aten.sum.dim_IntList", (blocks, axes, False), out.dims)
    count = _dim(sizes[0] * sizes[1])
    by: Arg = count if isinstance(count, int) else Sym(sym=count)
    lowering.node(node.model_copy(update={"op": "aten.div.Tensor", "args": (total, by), "kwargs": ()}))
    return True


def _blocks(lowering: Lowering, node: OpNode, sizes: tuple[Size, ...]) -> tuple[Ref, tuple[int, int]]:
    """The plane with its blocks as axes, and which axes they are."""
    *front, height, width = node.outs[0].dims
    high, wide = (_dim(size) for size in sizes)
    cut = (*front, height, high, width, wide)
    blocks = _made(lowering, node, "aten.view.default", (node.args[0], _sizes(cut)), cut)
    return blocks, (len(front) + 1, len(front) + 3)


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
    "aten.as_strided.default": _strided,
    "aten.copy.default": _copy,
    "aten._adaptive_avg_pool2d.default": _adaptive,
    "aten.adaptive_max_pool2d.default": _adaptive_max,
    "aten.avg_pool2d.default": _wide_pool,
}
