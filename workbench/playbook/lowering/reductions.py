"""Reductions of the graph as reductions over the columns of a (rows, columns) space.

Owns the table of reducing operations. Never decides which kernel computes one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from workbench.model import Arg, DType, OpNode
from workbench.playbook.analysis.divisions import body_with_reciprocals
from workbench.playbook.analysis.memory_order import columns_along_memory, rows_along_memory
from workbench.playbook.analysis.placement import Placement, best_placement, identity
from workbench.playbook.graph.rewrites import TAKEN_OUT
from workbench.playbook.ir.expr import Expr
from workbench.playbook.ir.operations import compute_type
from workbench.playbook.ir.sizes import ONE, Size, product
from workbench.playbook.ir.views import permuted
from workbench.playbook.lowering.cosines import cosine
from workbench.playbook.lowering.interleaved import by_lines, in_one_pass
from workbench.playbook.lowering.taken_out import taken_out
from workbench.playbook.lowering.whole_walks import over_whole

if TYPE_CHECKING:
    from workbench.playbook.lowering.lower import Lowering

_OPS = {
    "sum": "sum", "prod": "prod", "amax": "max", "amin": "min", "max": "max", "min": "min",
    "argmax": "argmax", "argmin": "argmin", "any": "any", "all": "all",
}  # fmt: skip
_IN_TWO_STEPS = frozenset(["sum", "prod", "max", "min", "any", "all"])
"""Operations for which the parts of a row may be reduced first, and then joined by the same operation."""


def lower(lowering: Lowering, node: OpNode) -> bool:
    """Lower a reducing node; False when it is none."""
    name = node.base_name
    if not node.op.startswith("aten.") or name not in _OPS or node.op.endswith(".other"):
        return False
    axes = _axes(node, len(lowering.value(node.args[0]).shape))
    if axes is None:
        return False
    if len(node.outs) == 1:
        lowering.keep_expr(node, _reduced(lowering, node, _OPS[name], axes, 0))
        return True
    lowering.keep_expr(node, _reduced(lowering, node, _OPS[name], axes, 0), 0)
    lowering.keep_expr(node, _reduced(lowering, node, f"arg{_OPS[name]}", axes, 1), 1)
    return True


def _axes(node: OpNode, ndim: int) -> tuple[int, ...] | None:
    given: Arg = node.args[1] if len(node.args) > 1 else None
    if given is None or given == ():
        return tuple(range(ndim))
    if isinstance(given, bool):
        return None
    if isinstance(given, int):
        given = (given,)
    if not isinstance(given, tuple):
        return None
    return tuple(sorted(axis % ndim if ndim else 0 for axis in given if isinstance(axis, int)))


def _reduced(lowering: Lowering, node: OpNode, op: str, axes: tuple[int, ...], item: int) -> Expr:
    value = lowering.value(node.args[0])
    dtype = compute_type(node.outs[item].dtype)
    shape = value.shape
    axes = tuple(axis for axis in axes if axis < len(shape))
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    rows, columns = product(shape[axis] for axis in kept), product(shape[axis] for axis in axes)
    if columns.is_one:
        return _of_one(lowering, value.expr, op, dtype)
    order = (*kept, *axes)
    moved = lowering.through(
        value,
        lambda view: permuted(view, shape, order),
        tuple(shape[i] for i in order),
        ("permuted", shape, order),
    )
    body = moved.expr
    if op in ("sum", "prod"):
        body = lowering.cast(body, dtype)
    elif op in ("any", "all"):
        body = lowering.cast(body, "bool")
    if op in _IN_TWO_STEPS:
        body = columns_along_memory(lowering.pool, body, rows, columns)
    if lowering.fuse and op in _IN_TWO_STEPS:
        body, columns = over_whole(lowering, body, op, dtype, (rows, columns))
        body, columns = by_lines(lowering, body, op, dtype, (rows, columns))
        body, rows, columns = _row_by_row(lowering, body, op, dtype, (rows, columns))
    body, back = rows_along_memory(lowering.pool, body, rows, columns)
    body = lowering.body(body, rows, columns)
    body = in_one_pass(lowering, body, op, dtype, (rows, columns))
    return lowering.pool.through(_reduction(lowering, body, op, dtype, (rows, columns)), back)


def _reduction(lowering: Lowering, body: Expr, op: str, dtype: DType, space: tuple[Size, Size]) -> Expr:
    """The reduction of a body over (rows, columns), or what comes out of it when statistics are taken out.

    Its type is not always the body's: an arg-reduction of floats is a place.
    """
    rows, columns = space
    if TAKEN_OUT not in lowering.without:
        multiplied = body_with_reciprocals(lowering.pool, body, rows, columns)
        found = cosine(lowering.pool, op, body, rows, columns)
        found = found or taken_out(lowering.pool, op, multiplied, rows, columns)
        if found is not None:
            lowering.applied.add(TAKEN_OUT)
            return found
    return lowering.pool.reduction(op, dtype, body, identity(rows), identity(columns))


def _row_by_row(
    lowering: Lowering, body: Expr, op: str, dtype: DType, space: tuple[Size, Size]
) -> tuple[Expr, Size, Size]:
    """A reduction of what needs reductions along shorter rows: along these rows first, then over the rows.

    A loss that is summed over a whole batch of softmaxes is so computed where a row's maximum and sum are
    at hand: its inputs are read once, and what is left is a number for each of the shorter rows.
    """
    best = best_placement(lowering.pool, body)
    rows, columns = space
    if best is None:
        return body, rows, columns
    place, shorter = best
    if shorter != place.columns or place.rows.is_one or place.columns == columns or not _leads(place, rows):
        return body, rows, columns
    placed = lowering.body(lowering.pool.through(body, place.place, ("place", place)), place.rows, shorter)
    placed = body_with_reciprocals(lowering.pool, placed, place.rows, shorter)
    inner = _reduction(lowering, placed, op, dtype, (place.rows, shorter))
    return inner, rows, place.rows // rows


def _leads(place: Placement, rows: Size) -> bool:
    """True when the slowest axes of ``place`` are ``rows`` and are rows there too."""
    left = ONE
    for size, row in zip(place.axes, place.is_row, strict=True):
        if rows.divides(left) or not row:
            break
        left = left * size
    return rows.divides(left)


def _of_one(lowering: Lowering, expr: Expr, op: str, dtype: DType) -> Expr:
    """A reduction of a single element."""
    if op.startswith("arg"):
        return lowering.pool.const(0, dtype)
    return lowering.cast(expr, dtype)
