"""Padding and pooling: an element outside the tensor is a constant, a pool folds shifted slices.

Owns how a window over the last axes becomes one expression that neighbours can be fused with. Returns
False for what it does not cover: adaptive windows, windows of many elements, integer maxima.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product as every
from typing import TYPE_CHECKING

from workbench.model import Arg, OpNode, Ref, Sym
from workbench.playbook.expr import Apply, Const, Expr, Load, walk
from workbench.playbook.operations import compute_type, is_float, is_pointwise
from workbench.playbook.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.stencil import Stencil, Window
from workbench.playbook.views import Axis, NotAView, View, joined, merged, runs, sliced

if TYPE_CHECKING:
    from workbench.playbook.lowering import Lowering, Value

MOST_UNROLLED = 64
"""Elements of a window up to which each is an operand of its own."""
_MOST_REPEATED = 4
"""Operations that may be computed once for every window an element lies in, rather than stored."""
_MOST_WRITTEN = 256
"""Operations of one output's whole window, where no element lies in two."""


_REDUCTIONS = frozenset(["sum", "amax", "amin", "max", "min", "prod", "argmax", "argmin", "any", "all"])


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a node of this kind; False when it is none."""
    rule = _RULES.get(node.op)
    return rule is not None and rule(lowering, node)


@dataclass(frozen=True)
class Padding:
    """Elements around one axis; negative ones cut."""

    before: Size
    after: Size


# ------------------------------------------------------------------------------------ padding


def _pad(lowering: Lowering, node: OpNode) -> bool:
    value = lowering.value(node.args[0])
    sides = node.args[1]
    fill = node.args[2] if len(node.args) > 2 else 0
    if not isinstance(sides, tuple) or not isinstance(fill, (bool, int, float)):
        return False
    amounts = [lowering.sizes.read(side) for side in sides if isinstance(side, int | Sym)]
    if len(amounts) != len(sides):
        return False
    pairs = list(zip(amounts[::2], amounts[1::2], strict=True))
    missing = len(value.shape) - len(pairs)
    padding = [Padding(ZERO, ZERO)] * missing + [Padding(a, b) for a, b in reversed(pairs)]
    dtype = compute_type(node.outs[0].dtype)
    filled = lowering.pool.const(float(fill) if is_float(dtype) else int(fill), dtype)
    lowering.keep_expr(node, padded(lowering, value, padding, filled).expr)
    return True


def padded(lowering: Lowering, value: Value, padding: list[Padding], fill: Expr) -> Value:
    """``value`` with constants around it, as a choice made where an element is used."""
    pool = lowering.pool
    shape = tuple(p.before + size + p.after for p, size in zip(padding, value.shape, strict=True))
    _name(lowering, shape, "PADDED")
    moved = lowering.through(value, _shifted(value.shape, shape, padding), shape)
    inside: Expr | None = None
    for axis, (pad, size) in enumerate(zip(padding, value.shape, strict=True)):
        axes = tuple(Axis(n, ONE if i == axis else ZERO) for i, n in enumerate(shape))
        position = pool.index(merged(View(axes)), "i32")
        for test in _tests(lowering, position, pad, size):
            inside = test if inside is None else pool.apply("and", "bool", (inside, test))
    if inside is None:
        return moved
    return type(value)(shape, value.dtype, pool.apply("select", moved.expr.dtype, (inside, moved.expr, fill)))


def _tests(lowering: Lowering, position: Expr, pad: Padding, size: Size) -> list[Expr]:
    """What has to hold for a padded position to lie in the tensor; nothing for a side without padding."""
    pool = lowering.pool
    found = []
    if not (pad.before.is_zero or _is_cut(pad.before)):
        found.append(pool.apply("ge", "bool", (position, _integer(lowering, pad.before))))
    if not (pad.after.is_zero or _is_cut(pad.after)):
        found.append(pool.apply("lt", "bool", (position, _integer(lowering, pad.before + size))))
    return found


def _is_cut(side: Size) -> bool:
    return side.number is not None and side.number < 0


def _integer(lowering: Lowering, size: Size) -> Expr:
    return lowering.pool.const(size.text if size.number is None else size.number, "i32")


def _shifted(
    own: tuple[Size, ...], shape: tuple[Size, ...], padding: list[Padding]
) -> Callable[[View], View]:
    """The tensor seen from its padded form: valid only inside."""

    def change(view: View) -> View:
        parts = list(runs(view, own))
        offset = view.offset
        for axis, pad in enumerate(padding):
            if pad.before.is_zero and pad.after.is_zero:
                continue
            run = merged(View(parts[axis])).axes
            if len(run) > 1:
                raise NotAView
            stride = run[0].stride if run else ZERO
            parts[axis] = (Axis(shape[axis], stride),)
            offset = offset + -(pad.before * stride)
        return joined(tuple(parts), offset)

    return change


# ------------------------------------------------------------------------------------ pooling


def _max_pool(lowering: Lowering, node: OpNode) -> bool:
    ndim = 3 if "pool3d" in node.op else 2
    value = lowering.value(node.args[0])
    windows = _windows(lowering, node, ndim, dilation=4)
    places_asked = Ref(ref=node.name, item=1) in lowering.used
    # Of equal values the first counts: a window that begins in the padding would have to look for it.
    if windows is None or not is_float(value.dtype) or (places_asked and any(w.padding for w in windows)):
        return False
    pool = lowering.pool
    dtype = compute_type(value.dtype)
    places = places_of(
        lowering, input_of(lowering, node, value, windows), windows, pool.const(float("-inf"), dtype)
    )
    best, found = places[0], _plane_index(lowering, value, windows, (0,) * ndim)
    for seen, at in zip(places[1:], list(offsets_of(windows))[1:], strict=True):
        better = pool.apply("gt", "bool", (seen, best))
        better = pool.apply("or", "bool", (better, pool.apply("isnan", "bool", (seen,))))
        found = pool.apply("where", "i64", (better, _plane_index(lowering, value, windows, at), found))
        best = pool.apply("larger", dtype, (best, seen), node.name)
    keep_result(lowering, node, best, 0 if len(node.outs) > 1 else None)
    if places_asked:
        lowering.keep_expr(node, found, 1)
    return True


def _avg_pool(lowering: Lowering, node: OpNode) -> bool:
    ndim = 3 if "pool3d" in node.op else 2
    value = lowering.value(node.args[0])
    windows = _windows(lowering, node, ndim, dilation=None)
    counts_padding = node.args[5] if len(node.args) > 5 else True
    divisor = node.args[6] if len(node.args) > 6 else None
    if windows is None or not is_float(value.dtype):
        return False
    pool = lowering.pool
    dtype = compute_type(value.dtype)
    total = total_of(
        lowering,
        places_of(lowering, input_of(lowering, node, value, windows), windows, pool.const(0.0, dtype)),
    )
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
    shape, dtype = value.shape, compute_type(value.dtype)
    if counts_padding:
        first = len(shape) - len(windows)
        wider = (size + number(2 * w.padding) for size, w in zip(shape[first:], windows, strict=True))
        shape = (*shape[:first], *wider)
        windows = tuple(replace(window, padding=0) for window in windows)
    ones = type(value)(shape, value.dtype, lowering.pool.const(1.0, dtype))
    return total_of(lowering, places_of(lowering, ones, windows, lowering.pool.const(0.0, dtype)))


def keep_result(lowering: Lowering, node: OpNode, expr: Expr, item: int | None) -> None:
    """Remember a pool's result; one that a reduction and what follows it both read is written out.

    Each of them would read the windows again, which are many times as large as what comes of them.
    """
    lowering.keep_expr(node, expr, item)
    if lowering.fuse and _is_read_again(lowering, node):
        ref = Ref(ref=node.name, item=item)
        written = lowering.write(lowering.value(ref), f"{node.name}_result")
        lowering.keep_view(node, lowering.loaded(written), item)


def _is_read_again(lowering: Lowering, node: OpNode) -> bool:
    """True where several nodes read a result, and a reduction is among them or behind them."""
    users = lowering.users(node.name)
    seen: set[str] = set()
    waiting = list(users) if len(users) > 1 else []
    while waiting:
        user = waiting.pop()
        if user.op.split(".")[1] in _REDUCTIONS:
            return True
        if user.name not in seen and is_pointwise(user):
            waiting += lowering.users(user.name)
        seen.add(user.name)
    return False


def total_of(lowering: Lowering, terms: list[Expr]) -> Expr:
    total = terms[0]
    for term in terms[1:]:
        total = lowering.pool.apply("add", term.dtype, (total, term))
    return total


def _windows(lowering: Lowering, node: OpNode, ndim: int, dilation: int | None) -> tuple[Window, ...] | None:
    """The pooled axes; None when the window is too large to be written out. Strides default to sizes."""
    counts = per_axis(node.args[1], ndim)
    given = node.args[2] if len(node.args) > 2 else ()
    strides = per_axis(given, ndim) if given not in ((), None) else counts
    paddings = per_axis(node.args[3] if len(node.args) > 3 else 0, ndim)
    apart: Arg = 1 if dilation is None or len(node.args) <= dilation else node.args[dilation]
    dilations = per_axis(apart, ndim)
    rounding = 4 if dilation is None else dilation + 1
    ceil = len(node.args) > rounding and bool(node.args[rounding])
    outs = lowering.sizes.shape(node.outs[0].dims)[-ndim:]
    found = tuple(
        Window(count, stride, padding, step, out, ceil)
        for count, stride, padding, step, out in zip(counts, strides, paddings, dilations, outs, strict=True)
    )
    return found if elements_of(found) <= MOST_UNROLLED else None


def per_axis(arg: Arg, ndim: int) -> tuple[int, ...]:
    numbers = arg if isinstance(arg, tuple) else (arg,)
    found = tuple(n for n in numbers if isinstance(n, int))
    return found * ndim if len(found) == 1 else found


def elements_of(windows: tuple[Window, ...]) -> int:
    result = 1
    for window in windows:
        result *= window.count
    return result


def offsets_of(windows: tuple[Window, ...]) -> list[tuple[int, ...]]:
    return list(every(*(range(window.count) for window in windows)))


def input_of(lowering: Lowering, node: OpNode, value: Value, windows: tuple[Window, ...]) -> Value:
    """The tensor itself where computing it in every window is cheap, else written out first.

    Windows that do not overlap compute nothing twice: all that counts there is the length of the text.
    """
    operations = sum(isinstance(expr, Apply) for expr in walk(value.expr))
    overlap = any(window.stride < (window.count - 1) * window.dilation + 1 for window in windows)
    short = operations <= _MOST_REPEATED if overlap else operations * elements_of(windows) <= _MOST_WRITTEN
    if short and all(isinstance(e, (Load, Const)) for e in walk(value.expr) if not e.operands):
        return value
    return lowering.loaded(lowering.write(value, f"{node.name}_input"))


def places_of(lowering: Lowering, value: Value, windows: tuple[Window, ...], fill: Expr) -> list[Expr]:
    """For every element of the window: the tensor as the outputs see it, ``fill`` outside."""
    first = len(value.shape) - len(windows)
    _name(lowering, (*value.shape[:first], *(window.out for window in windows)), "OUT")
    sides = [Padding(ZERO, ZERO)] * first
    for window, size in zip(windows, value.shape[first:], strict=True):
        reach = (window.out + number(-1)) * number(window.stride)
        reach = reach + number((window.count - 1) * window.dilation + 1)
        after = reach + -size + number(-window.padding)
        # Else a window without padding never reaches beyond the end, whatever the size's remainder is.
        may_pass = window.padding or window.ceil
        sides.append(Padding(number(window.padding), after if may_pass else _beyond(after)))
    written = len(lowering.operations)
    around = padded(lowering, value, sides, fill)
    found = []
    for offsets in offsets_of(windows):
        seen = around
        for axis, (window, offset) in enumerate(zip(windows, offsets, strict=True), first):
            seen = _stepped(lowering, seen, axis, window, offset)
        found.append(seen.expr)
    if written == len(lowering.operations):  # read as it is, not a copy of it
        places = {expr.serial: offsets for expr, offsets in zip(found, offsets_of(windows), strict=True)}
        lowering.stencils.append(Stencil(value.expr, value.shape, windows, fill, places))
    return found


_AXES = ("WIDTH", "HEIGHT", "DEPTH")


def _name(lowering: Lowering, shape: tuple[Size, ...], prefix: str) -> None:
    """Telling names for the last axes of a shape that no argument has, and for their planes."""
    for count, (size, axis) in enumerate(zip(reversed(shape[1:]), _AXES, strict=False), 1):
        if len(size.text) > 1 and not size.number:
            lowering.stems.setdefault(size, f"{prefix}_{axis}")
        if count > 1:
            stem = f"{prefix}_{'PLANE' if count == 2 else 'VOLUME'}"
            lowering.stems.setdefault(product(shape[-count:]), stem)


def _beyond(after: Size) -> Size:
    return after if after.number is not None and after.number > 0 else ZERO


def _stepped(lowering: Lowering, value: Value, axis: int, window: Window, offset: int) -> Value:
    shape = (*value.shape[:axis], window.out, *value.shape[axis + 1 :])
    start, step = number(offset * window.dilation), number(window.stride)
    return lowering.through(
        value, lambda view: sliced(view, value.shape, axis, start, step, window.out), shape
    )


def _plane_index(
    lowering: Lowering, value: Value, windows: tuple[Window, ...], offsets: tuple[int, ...]
) -> Expr:
    """Number of an element of the window in its plane, as the pool's second result counts."""
    first = len(value.shape) - len(windows)
    shape = (*value.shape[:first], *(window.out for window in windows))
    axes = [Axis(size, ZERO) for size in shape[:first]]
    offset = ZERO
    for position, (window, at) in enumerate(zip(windows, offsets, strict=True)):
        step = product(value.shape[first + position + 1 :])
        axes.append(Axis(window.out, step * number(window.stride)))
        offset = offset + step * number(at * window.dilation - window.padding)
    return lowering.pool.index(merged(View(tuple(axes), offset)), "i64")


Rule = Callable[["Lowering", OpNode], bool]

_RULES: dict[str, Rule] = {
    "aten.constant_pad_nd.default": _pad,
    "aten.max_pool2d_with_indices.default": _max_pool,
    "aten.max_pool3d_with_indices.default": _max_pool,
    "aten.avg_pool2d.default": _avg_pool,
    "aten.avg_pool3d.default": _avg_pool,
}
