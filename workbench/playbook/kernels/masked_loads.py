"""Which vectors of a row nobody looks at: a choice by their places alone takes something else.

Owns the analysis. A causal mask hides what lies behind a row's own place: half of a square of scores, which
need not be read. Whether a vector is hidden is known before it is asked for only where the condition compares
indices; what a mask in memory hides is read with it. Of a bound both ends of a vector tell. Writes no text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Load, leaves, walk
from workbench.playbook.ir.views import split


@dataclass(frozen=True)
class Seen:
    """A load is looked at where ``condition`` is ``chosen``."""

    condition: Expr
    chosen: bool


def seen_where(space: RowSpace, roots: Sequence[Expr], load: Load) -> Seen | None:
    """When the expressions look at a load at all; None where they always may, or only memory tells.

    Conditions that are the same for a whole row, or in all rows, are left to the compiler: a row is then read
    as it is, or not at all.
    """
    known: dict[int, frozenset[tuple[int, bool]] | None] = {}
    conditions: dict[int, Expr] = {}
    common: frozenset[tuple[int, bool]] | None = None
    for root in roots:
        found = _ways(root, load, known, conditions)
        if found is not None:
            common = found if common is None else common & found
    for serial, chosen in sorted(common or ()):
        if _by_places(space, conditions[serial]):
            return Seen(conditions[serial], chosen)
    return None


def _ways(
    expr: Expr,
    load: Load,
    known: dict[int, frozenset[tuple[int, bool]] | None],
    conditions: dict[int, Expr],
) -> frozenset[tuple[int, bool]] | None:
    """Choices that lie on every way from an expression to the load; None where there is no way."""
    if expr is load:
        return frozenset()
    if expr.serial in known:
        return known[expr.serial]
    found: frozenset[tuple[int, bool]] | None = None
    for position, operand in enumerate(expr.operands):
        way = _ways(operand, load, known, conditions)
        if way is None:
            continue
        if isinstance(expr, Apply) and expr.op == "where" and position > 0:
            conditions[expr.args[0].serial] = expr.args[0]
            way |= {(expr.args[0].serial, position == 1)}
        found = way if found is None else found & way
    known[expr.serial] = found
    return found


def _by_places(space: RowSpace, condition: Expr) -> bool:
    """True where a bound on the column decides, another for every row: it holds on one side of a place."""
    match condition:
        case Apply(op="and" | "or", args=(one, Const())):
            return _by_places(space, one)
        case Apply(op="and" | "or", args=(Const(), other)):
            return _by_places(space, other)
        case Apply(op="lt" | "le" | "gt" | "ge") if _is_linear(condition):
            parts = [split(leaf.view, space.rows, space.columns) for leaf in leaves(condition)]
            by_row = any(not row.is_constant for row, _ in parts)
            along = [column for _, column in parts if not column.is_constant]
            return by_row and bool(along) and all(len(column.axes) == 1 for column in along)
    return False


def _is_linear(condition: Apply) -> bool:
    """True for sums and differences of indices and numbers on both sides."""
    parts = [part for part in walk(condition) if part is not condition]
    sums = all(part.op in ("add", "sub", "cast") for part in parts if isinstance(part, Apply))
    integers = all(part.dtype in ("i64", "i32") for part in parts)
    return sums and integers and all(isinstance(leaf, Index) for leaf in leaves(condition))
