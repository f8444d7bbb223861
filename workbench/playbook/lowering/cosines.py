"""Cosines of pairs of rows in one read: the products of the rows as they are, divided once a row.

Owns one rewrite of what a reduction adds up. A cosine similarity divides both rows by their norms and then
multiplies: a second walk over both, with two divisions an element. A correlation does the same with standard
deviations for norms. The sum of the products of what is not divided goes along with the two sums of squares,
and by Cauchy and Schwarz it is no larger than the product of the norms, so that it overflows only where a sum
of squares does. Never decides which sums a pass makes.
"""

from __future__ import annotations

from workbench.playbook.analysis.divisions import LEAST
from workbench.playbook.analysis.placement import identity
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.ir.expr import Apply, Const, Expr, Pool, Reduction
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import Size


def cosine(pool: Pool, op: str, body: Expr, rows: Size, columns: Size) -> Expr | None:
    """``sum(x / |x| * (y / |y|))`` as ``sum(x * y) / |x| / |y|``, a row; None for other sums."""
    match body:
        case Apply(
            op="mul",
            dtype="f32",
            args=(Apply(op="div", args=(one, under)), Apply(op="div", args=(other, other_under))),
        ) if op == "sum" and _holds_norm(under, one) and _holds_norm(other_under, other):
            pass
        case _:
            return None
    space = RowSpace(pool, Kernel([Store("", body, identity(rows * columns), rows, columns, "full")]))
    total = pool.apply("mul", "f32", (one, other))
    found = pool.reduction("sum", "f32", total, identity(rows), identity(columns))
    for divisor in (space.row_form(under), space.row_form(other_under)):
        if divisor is None:
            return None
        found = pool.apply("div", "f32", (found, divisor))
    return found


def _holds_norm(divisor: Expr, element: Expr) -> bool:
    """True for the root of the sum or the mean of the element's squares, kept away from zero.

    By a number that is added, behind the root or under it, or that is the larger of two.
    """
    match divisor:
        case Apply(op="sqrt", dtype="f32", args=(Apply(op="add", args=(squares, Const() as least)),)):
            return _is_positive(least) and _is_of_squares(squares, element)
        case Apply(op="larger" | "add", dtype="f32", args=(Const() as least, norm)):
            pass
        case Apply(op="larger" | "add", dtype="f32", args=(norm, Const() as least)):
            pass
        case _:
            return False
    match norm:
        case Apply(op="sqrt", args=(squares,)):
            return _is_positive(least) and _is_of_squares(squares, element)
    return False


def _is_positive(least: Const) -> bool:
    return not isinstance(least.value, str) and least.value >= LEAST


def _is_of_squares(squares: Expr, element: Expr) -> bool:
    """True for the sum of the element's squares, or their mean: a variance, where the element is centred."""
    match squares:
        case Apply(op="div", dtype="f32", args=(Reduction() as total, Const())):
            return _is_of_squares(total, element)
        case Reduction(op="sum", body=Apply(op="mul", args=(one, other))):
            return one is other and one is element
    return False
