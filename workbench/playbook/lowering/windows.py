"""Padding and windows: an element outside the tensor is a constant, a window is as many shifted slices.

Owns how what a window sees becomes expressions that neighbours can be fused with. pools.py, folds.py and
depthwise.py say what is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product as every
from typing import TYPE_CHECKING

from workbench.model import Arg, OpNode, Ref, Sym
from workbench.playbook.ir.expr import Apply, Const, Expr, Load, walk
from workbench.playbook.ir.operations import compute_type, is_float, is_pointwise
from workbench.playbook.ir.sizes import ONE, ZERO, Size, number, product
from workbench.playbook.ir.stencil import Stencil, Window
from workbench.playbook.ir.views import Axis, NotAView, View, joined, merged, runs, sliced

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering, Value

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
        found.append(pool.apply("ge", "bool", (position, integer(lowering, pad.before))))
    if not (pad.after.is_zero or _is_cut(pad.after)):
        found.append(pool.apply("lt", "bool", (position, integer(lowering, pad.before + size))))
    return found


def _is_cut(side: Size) -> bool:
    return side.number is not None and side.number < 0


def integer(lowering: Lowering, size: Size) -> Expr:
    """A size as a number to compute with."""
    return lowering.pool.const(size.dim, "i32")


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


# ------------------------------------------------------------------------------------ windows


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
        if user.base_name in _REDUCTIONS:
            return True
        if user.name not in seen and is_pointwise(user):
            waiting += lowering.users(user.name)
        seen.add(user.name)
    return False


def total_of(lowering: Lowering, terms: list[Expr]) -> Expr:
    """The sum of all."""
    total = terms[0]
    for term in terms[1:]:
        total = lowering.pool.apply("add", term.dtype, (total, term))
    return total


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
    written = len(lowering.operations)
    around = surrounded(lowering, value, windows, fill)
    # Elements at the same places of the first axes share what is seen from there.
    seen: dict[tuple[int, ...], Value] = {(): around}
    for offsets in offsets_of(windows):
        for at, (window, offset) in enumerate(zip(windows, offsets, strict=True)):
            if offsets[: at + 1] not in seen:
                seen[offsets[: at + 1]] = _stepped(lowering, seen[offsets[:at]], first + at, window, offset)
    found = [seen[offsets].expr for offsets in offsets_of(windows)]
    if written == len(lowering.operations):  # read as it is, not a copy of it
        places = {expr.serial: offsets for expr, offsets in zip(found, offsets_of(windows), strict=True)}
        lowering.stencils.append(Stencil(value.expr, value.shape, windows, fill, places))
    return found


def surrounded(lowering: Lowering, value: Value, windows: tuple[Window, ...], fill: Expr) -> Value:
    """``value`` with all that its windows reach around it."""
    first = len(value.shape) - len(windows)
    _name(lowering, (*value.shape[:first], *(window.out for window in windows)), "OUT")
    sides = [Padding(ZERO, ZERO)] * first
    for window, size in zip(windows, value.shape[first:], strict=True):
        reach = (window.out + number(-1)) * number(window.stride)
        after = reach + number(window.extent) + -size + number(-window.padding)
        # Else a window without padding never reaches beyond the end, whatever the size's remainder is.
        may_pass = window.padding or window.ceil
        sides.append(Padding(number(window.padding), after if may_pass else _beyond(after)))
    return padded(lowering, value, sides, fill)


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


Rule = Callable[["Lowering", OpNode], bool]

_RULES: dict[str, Rule] = {
    "aten.constant_pad_nd.default": _pad,
}
