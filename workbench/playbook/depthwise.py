"""Depthwise convolutions: each output channel is a weighted sum of one input channel's windows.

Owns how such a convolution becomes one expression that neighbours can be fused with. Returns False for
what it does not cover: convolutions that mix channels, transposed ones, windows of many elements.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.model import Arg, OpNode, Ref, Sym
from workbench.playbook import windows
from workbench.playbook.expr import Expr
from workbench.playbook.operations import compute_type, is_float
from workbench.playbook.rewrites import DEPTHWISE
from workbench.playbook.sizes import ONE, number
from workbench.playbook.stencil import Window
from workbench.playbook.views import View, expanded, sliced

if TYPE_CHECKING:
    from workbench.playbook.lowering import Lowering, Value
    from workbench.playbook.sizes import Size


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a depthwise convolution; False when it is none, or is to be left to the library."""
    seen = _windows(lowering, node) if node.op == "aten.convolution.default" else None
    if seen is None:
        return False
    lowering.applied.add(DEPTHWISE)
    if DEPTHWISE in lowering.without:
        return False
    value, weight = lowering.value(node.args[0]), lowering.value(node.args[1])
    dtype = compute_type(node.outs[0].dtype)
    ready = windows.input_of(lowering, node, value, seen)
    wide = _a_channel_each(lowering, ready, weight.shape[0])
    places = windows.places_of(lowering, wide, seen, lowering.pool.const(0.0, dtype))
    shape = lowering.sizes.shape(node.outs[0].dims)
    factors = [_tap(lowering, weight, offsets, shape) for offsets in windows.offsets_of(seen)]
    total: Expr | None = None
    for place, factor in zip(places, factors, strict=True):
        term = lowering.pool.apply("mul", dtype, (lowering.cast(place, dtype), lowering.cast(factor, dtype)))
        total = term if total is None else lowering.pool.apply("add", dtype, (total, term))
    assert total is not None
    if isinstance(node.args[2], Ref):
        bias = lowering.value(node.args[2])
        upright = type(bias)((ONE, *bias.shape, *(ONE for _ in seen)), bias.dtype, bias.expr)
        along = lowering.cast(lowering.broadcast(upright, shape).expr, dtype)
        total = lowering.pool.apply("add", dtype, (total, along))
    windows.keep_result(lowering, node, total, None)
    return True


def _windows(lowering: Lowering, node: OpNode) -> tuple[Window, ...] | None:
    """The windows that every output sums over; None where channels mix or windows are large."""
    x, weight, _, strides, paddings, dilations, transposed, _, groups = node.args
    source, taps = lowering.value(x), lowering.value(weight)
    channels, kernel = source.shape[1], taps.shape[2:]
    if (
        transposed
        or not is_float(source.dtype)
        or not taps.shape[1].is_one
        or channels != _size(lowering, groups)
    ):
        return None
    if any(size.number is None for size in kernel):
        return None
    outs = lowering.sizes.shape(node.outs[0].dims)[2:]
    axes = (windows.per_axis(arg, len(kernel)) for arg in (strides, paddings, dilations))
    found = tuple(
        Window(size.number or 0, stride, padding, dilation, out)
        for size, stride, padding, dilation, out in zip(kernel, *axes, outs, strict=True)
    )
    return found if windows.elements_of(found) <= windows.MOST_UNROLLED else None


def _size(lowering: Lowering, groups: Arg) -> Size | None:
    return lowering.sizes.read(groups) if isinstance(groups, int | Sym) else None


def _a_channel_each(lowering: Lowering, value: Value, channels: Size) -> Value:
    """The tensor with as many channels as there are results, each repeated next to itself."""
    batch, own, *plane = value.shape
    if own == channels:
        return value
    shape = (batch, own, ONE, *plane)
    wider = (batch, own, channels // own, *plane)
    seen = lowering.through(value, lambda view: expanded(view, shape, wider), wider)
    return type(value)((batch, channels, *plane), value.dtype, seen.expr)


def _tap(lowering: Lowering, weight: Value, offsets: tuple[int, ...], shape: tuple[Size, ...]) -> Expr:
    """One element of every channel's window of weights, as the outputs see it."""
    seen = weight
    for axis, offset in enumerate(offsets, 2):
        cut = (*seen.shape[:axis], ONE, *seen.shape[axis + 1 :])
        seen = lowering.through(seen, _cut(seen.shape, axis, offset), cut)
    upright = type(weight)((ONE, weight.shape[0], *(ONE for _ in offsets)), weight.dtype, seen.expr)
    return lowering.broadcast(upright, shape).expr


def _cut(shape: tuple[Size, ...], axis: int, offset: int) -> Callable[[View], View]:
    """One index of an axis."""
    return lambda view: sliced(view, shape, axis, number(offset), ONE, ONE)
