"""Reductions over parts of a tensor that go over the whole of it, so that they can share one walk.

Owns one rewrite of a reduction. A total variation is two means: over the distances of rows, of which there
is one less than rows, and over the distances of columns. Each has a space of its own, so each would be a
kernel that reads the tensor. Both go over all elements instead, and what is no distance adds nothing: the
spaces are the same then, what is read once serves both, and places follow one another as they lie in
memory, which saves telling row from column and lets vectors begin at borders.

Never decides which kernel walks; it looks at strides, and leaves alone what reads a tensor in one place
only or would read much more than it wants.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from workbench.model import DType
from workbench.playbook.analysis.placement import identity
from workbench.playbook.graph.rewrites import WHOLE_WALKS
from workbench.playbook.ir.expr import Apply, Expr, Load, leaves, walk
from workbench.playbook.ir.operations import is_float
from workbench.playbook.ir.sizes import ONE, ZERO, Size, product
from workbench.playbook.ir.views import Axis, View, merged
from workbench.playbook.lowering.windows import integer

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering

_MOST_IDLE = 0.125
"""Share of the elements walked over that may add nothing."""


def over_whole(
    lowering: Lowering, body: Expr, op: str, dtype: DType, space: tuple[Size, Size]
) -> tuple[Expr, Size]:
    """A body over as many columns as the tensor has elements a row, and these columns; else as it came."""
    rows, columns = space
    empty = nothing(lowering, op, dtype)
    loads = _alike(lowering, body)
    if empty is None or len(loads) < 2:
        return body, columns
    steps = _steps(loads[0].view, rows)
    if steps is None:
        return body, columns
    whole = loads[0].view.axes[0].size * loads[0].view.axes[0].stride
    pairs = [(whole.at(case), (rows * columns).at(case)) for case in lowering.cases]
    if not pairs or any(part < (1 - _MOST_IDLE) * all_ for all_, part in pairs):
        return body, columns
    lowering.applied.add(WHOLE_WALKS)
    if WHOLE_WALKS in lowering.without:
        return body, columns
    inside = _inside(lowering, steps, whole)
    return _widened(lowering, body, loads, (inside, empty), whole), whole // rows


def nothing(lowering: Lowering, op: str, dtype: DType) -> Expr | None:
    """What adds nothing to a reduction."""
    if op in ("max", "min") and is_float(dtype):
        return lowering.pool.const(float("-inf" if op == "max" else "inf"), dtype)
    if op == "sum":
        return lowering.pool.const(0.0 if is_float(dtype) else 0, dtype)
    return None


def _alike(lowering: Lowering, body: Expr) -> list[Load]:
    """The loads of a body that only reads tensors along the same axes, one of them in several places."""
    found: list[Load] = []
    for leaf in leaves(body):
        if isinstance(leaf, Load) and leaf.view.is_constant and not leaf.lookups:
            continue
        if not isinstance(leaf, Load) or leaf.lookups or (found and leaf.view.axes != found[0].view.axes):
            return []
        if lowering.buffers[leaf.buffer].strides is not None:
            return []
        found.append(leaf)
    several = len({load.buffer for load in found}) < len(found)
    guarded = any(isinstance(part, Apply) and part.op == "select" for part in walk(body))
    return found if several and not guarded else []


def _steps(view: View, rows: Size) -> list[tuple[Size, Size, Size]] | None:
    """Of every axis but the first: its size, the size it would have without gaps, and its stride.

    None for a view that has no gaps, or whose elements do not follow one another, or where rows of the
    reduction are cut out of the first axis in another way than one behind the other.
    """
    axes = view.axes
    if len(axes) < 2 or not axes[-1].stride.is_one or not rows.divides(axes[0].size):
        return None
    found = []
    for outer, inner in pairwise(axes):
        if outer.stride.is_negative or not inner.stride.divides(outer.stride):
            return None
        found.append((inner.size, outer.stride // inner.stride, inner.stride))
    return found


def _inside(lowering: Lowering, steps: list[tuple[Size, Size, Size]], whole: Size) -> Expr:
    """Whether a place of the whole is one of those that the reduction goes over."""
    pool = lowering.pool
    found: Expr | None = None
    for size, full, stride in steps:
        if size == full:
            continue
        axes = (Axis(whole // (full * stride), ZERO), Axis(full, ONE), Axis(stride, ZERO))
        place = pool.index(merged(View(axes)), "i32")
        test = pool.apply("lt", "bool", (place, integer(lowering, size)))
        found = test if found is None else pool.apply("and", "bool", (found, test))
    assert found is not None, "a view whose axes have no gaps is merged into one"
    return found


def _widened(
    lowering: Lowering, body: Expr, loads: list[Load], choice: tuple[Expr, Expr], whole: Size
) -> Expr:
    """The body at every place of the whole; what may lie outside the tensor there is read only inside."""
    pool = lowering.pool
    inside, empty = choice
    swaps: dict[int, Expr] = {}
    for load in loads:
        offset = load.view.offset
        seen = pool.load(load.buffer, load.dtype, View(identity(whole).axes, offset))
        if offset.is_zero and whole == product(lowering.buffers[load.buffer].shape):
            swaps[load.serial] = seen
            continue
        other = pool.const(0.0 if is_float(load.dtype) else 0, load.dtype)
        swaps[load.serial] = pool.apply("select", load.dtype, (inside, seen, other))
    everywhere = pool.mapped(body, lambda expr: swaps.get(expr.serial))
    return pool.apply("where", empty.dtype, (inside, everywhere, empty))
