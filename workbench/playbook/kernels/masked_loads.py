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
from workbench.playbook.ir.paths import choices_before
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
    for condition, chosen in choices_before(roots, load):
        if _by_places(space, condition):
            return Seen(condition, chosen)
    return None


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
