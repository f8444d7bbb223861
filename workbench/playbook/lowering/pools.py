"""Pools: the largest element of every window, or the mean.

Owns what a pooling node asks of its windows. Returns False for what it does not cover: integer maxima, and
places of maxima in windows that are longer than what is written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from workbench.model import Arg, OpNode, Ref
from workbench.playbook.ir.expr import Expr
from workbench.playbook.ir.operations import compute_type, is_float
from workbench.playbook.ir.sizes import number
from workbench.playbook.ir.stencil import Window
from workbench.playbook.lowering.folds import LARGEST, TOTAL, folded, largest_with_place, place_along
from workbench.playbook.lowering.windows import MOST_UNROLLED, elements_of, integer, keep_result, per_axis

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering, Value


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none."""
    rule = _RULES.get(node.op)
    return rule is not None and rule(lowering, node)


def _max_pool(lowering: Lowering, node: OpNode) -> bool:
    ndim = 3 if "pool3d" in node.op else 2
    value = lowering.value(node.args[0])
    windows = _windows(lowering, node, ndim, dilation=4)
    if not is_float(value.dtype):
        return False
    if Ref(ref=node.name, item=1) not in lowering.used:
        best = folded(lowering, node, value, windows, LARGEST)
        keep_result(lowering, node, best, 0 if len(node.outs) > 1 else None)
        return True
    if any(window.count > MOST_UNROLLED for window in windows):
        return False
    best, found = largest_with_place(lowering, node, value, windows)
    keep_result(lowering, node, best, 0)
    lowering.keep_expr(node, found, 1)
    return True


def _avg_pool(lowering: Lowering, node: OpNode) -> bool:
    ndim = 3 if "pool3d" in node.op else 2
    value = lowering.value(node.args[0])
    windows = _windows(lowering, node, ndim, dilation=None)
    counts_padding = node.args[5] if len(node.args) > 5 else True
    divisor = node.args[6] if len(node.args) > 6 else None
    if not is_float(value.dtype):
        return False
    pool = lowering.pool
    dtype = compute_type(value.dtype)
    total = folded(lowering, node, value, windows, TOTAL)
    uneven = any(window.ceil or (window.padding and not counts_padding) for window in windows)
    if uneven and divisor is None:
        by = _counted(lowering, value, windows, bool(counts_padding))
    else:
        whole = divisor if isinstance(divisor, int) else elements_of(windows)
        by = pool.const(float(whole), dtype)
    keep_result(lowering, node, pool.apply("div", dtype, (total, by), node.name), None)
    return True


def _counted(lowering: Lowering, value: Value, windows: tuple[Window, ...], counts_padding: bool) -> Expr:
    """How many elements each window has: never those beyond the padding, and those in it where they count."""
    pool, dtype = lowering.pool, compute_type(value.dtype)
    first = len(value.shape) - len(windows)
    count: Expr | None = None
    for axis, window in enumerate(windows):
        start = place_along(lowering, value.shape, windows, axis, window.padding)
        end = pool.apply("add", "i32", (start, pool.const(window.count, "i32")))
        low, last = (-window.padding, window.padding) if counts_padding else (0, 0)
        size = integer(lowering, value.shape[first + axis] + number(last))
        end = pool.apply("smaller", "i32", (end, size))
        start = pool.apply("larger", "i32", (start, pool.const(low, "i32")))
        along = lowering.cast(pool.apply("sub", "i32", (end, start)), dtype)
        count = along if count is None else pool.apply("mul", dtype, (count, along))
    assert count is not None
    return count


def _windows(lowering: Lowering, node: OpNode, ndim: int, dilation: int | None) -> tuple[Window, ...]:
    """The pooled axes. Strides default to sizes."""
    counts = per_axis(node.args[1], ndim)
    given = node.args[2] if len(node.args) > 2 else ()
    strides = per_axis(given, ndim) if given not in ((), None) else counts
    paddings = per_axis(node.args[3] if len(node.args) > 3 else 0, ndim)
    apart: Arg = 1 if dilation is None or len(node.args) <= dilation else node.args[dilation]
    dilations = per_axis(apart, ndim)
    rounding = 4 if dilation is None else dilation + 1
    ceil = len(node.args) > rounding and bool(node.args[rounding])
    outs = lowering.sizes.shape(node.outs[0].dims)[-ndim:]
    return tuple(
        Window(count, stride, padding, step, out, ceil)
        for count, stride, padding, step, out in zip(counts, strides, paddings, dilations, outs, strict=True)
    )


Rule = Callable[["Lowering", OpNode], bool]

_RULES: dict[str, Rule] = {
    "aten.max_pool2d_with_indices.default": _max_pool,
    "aten.max_pool3d_with_indices.default": _max_pool,
    "aten.avg_pool2d.default": _avg_pool,
    "aten.avg_pool3d.default": _avg_pool,
}
