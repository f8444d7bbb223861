"""Statistics taken out of sums: what a row shares need not be known before the sum that it enters.

Owns one rewrite of what a reduction adds up, and the names of its parts. With p = softmax(t) and log q =
log_softmax(x), a sum of p * (log p - log q) seems to need both sums of exponentials before it. By the
distributive law it is (sum(w * (t - max t)) - sum(w * (x - max x))) / Z and logarithms a row, where
w = exp(t - max t) and Z = sum(w): sums that need the maxima only, and none of one another. Distances from a
maximum stay together: x and max x apart would cancel. Never decides which sums a pass makes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from workbench.playbook.analysis.divisions import LEAST, least
from workbench.playbook.analysis.placement import identity
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.analysis.weighted_sums import distance_of, weight_of
from workbench.playbook.ir.expr import Apply, Const, Expr, Pool, Reduction, leaves
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import Size


@dataclass(frozen=True)
class _Product:
    """weight * (inner - shift) * factors, or weight * factors where there is no ``inner``."""

    weight: Expr | None = None
    """exp(e - max(e)), which lies between 0 and 1; without one, every column counts alike."""
    factors: tuple[Expr, ...] = ()
    """Values a row, full-level; none is infinite or zero where its row is finite."""
    inner: Expr | None = None
    """A distance f - max(f), or what needs no reduction."""
    shift: Expr | None = None
    """A logarithm that is never negative, as a distance is never positive: apart, they do not cancel."""
    guarded: bool = False
    """Nothing where the weight is zero, whatever the rest is."""
    sign: int = 1


def taken_out(pool: Pool, op: str, body: Expr, rows: Size, columns: Size) -> Expr | None:
    """``sum(body)`` over the columns as an expression a row of sums that need less; None where it is not one.

    What comes out is NaN or infinite wherever the sum as it was written is.
    """
    if op != "sum" or body.dtype != "f32":
        return None
    store = Store("", body, identity(rows * columns), rows, columns, "full")
    space = RowSpace(pool, Kernel([store]))
    products = _products(space, body, {})
    if products is None or all(one.shift is None and not one.factors for one in products):
        return None
    return _Sums(space).of(products)


# ------------------------------------------------------------------------------------ reading


def _products(space: RowSpace, expr: Expr, known: dict[int, list[_Product] | None]) -> list[_Product] | None:
    """The terms that ``expr`` is a sum of; None where one of them is nothing that a statistic leaves."""
    if expr.serial not in known:
        known[expr.serial] = _read(space, expr, known)
    return known[expr.serial]


def _read(space: RowSpace, expr: Expr, known: dict[int, list[_Product] | None]) -> list[_Product] | None:
    match expr:
        case Apply(op="sub", dtype="f32", args=(inner, shift)) if distance_of(
            inner
        ) is not None and _is_logarithm(space, shift):
            return [_Product(inner=inner, shift=shift)]
        case Apply(op="add" | "sub" as op, args=(first, second)):
            ones, others = _products(space, first, known), _products(space, second, known)
            if ones is None or others is None:
                return None
            sign = -1 if op == "sub" else 1
            return [*ones, *(replace(other, sign=sign * other.sign) for other in others)]
        case Apply(op="neg", args=(only,)):
            found = _products(space, only, known)
            return None if found is None else [replace(one, sign=-one.sign) for one in found]
        case Apply(
            op="where", args=(Apply(op="isnan", args=(tested,)), Const(value=float() as instead), rest)
        ) if math.isnan(instead):
            return _with_weight_of(space, tested, _products(space, rest, known))
        case Apply(
            op="where", args=(Apply(op="eq", args=(tested, Const(value=limit))), Const(value=instead), rest)
        ) if limit == 0 and instead == 0:
            found = _with_weight_of(space, tested, _products(space, rest, known))
            return None if found is None else [replace(one, guarded=True) for one in found]
        case Apply(op="mul", dtype="f32", args=(first, Apply(op="add" | "sub" as op, args=terms))) if (
            weighted := _product(space, first)
        ) is not None:
            signs = (1, -1 if op == "sub" else 1)
            pair = [_joined(weighted, _product(space, term)) for term in terms]
            signed = [one and replace(one, sign=sign) for one, sign in zip(pair, signs, strict=True)]
            if all(one is not None and one.weight and one.shift for one in signed):
                return [one for one in signed if one is not None]
    one = _product(space, expr)
    return None if one is None or one.weight is None else [one]


def _with_weight_of(space: RowSpace, tested: Expr, found: list[_Product] | None) -> list[_Product] | None:
    """Terms that are zero, or NaN, with ``tested``: all have its weight, and it is nothing but that."""
    one = _product(space, tested)
    if found is None or one is None or one.weight is None or one.inner is not None:
        return None
    return found if all(other.weight is one.weight for other in found) else None


def _product(space: RowSpace, expr: Expr) -> _Product | None:
    """One term, factor by factor."""
    if weight_of(expr) is not None:
        return _Product(weight=expr)
    if _is_factor(space, expr):
        return _Product(factors=(expr,))
    match expr:
        case Apply(op="mul", dtype="f32", args=(first, second)):
            return _joined(_product(space, first), _product(space, second))
        case Apply(op="div", dtype="f32", args=(top, bottom)) if _is_divisor(space, bottom):
            inverse = space.pool.apply("div", "f32", (space.pool.const(1.0, "f32"), bottom))
            return _joined(_product(space, top), _Product(factors=(inverse,)))
        case Apply(op="sub", dtype="f32", args=(inner, shift)) if distance_of(
            inner
        ) is not None and _is_logarithm(space, shift):
            return _Product(inner=inner, shift=shift)
    free = not any(isinstance(leaf, Reduction) for leaf in leaves(expr))
    return _Product(inner=expr) if distance_of(expr) is not None or free else None


def _joined(one: _Product | None, other: _Product | None) -> _Product | None:
    if one is None or other is None or (one.weight and other.weight) or (one.inner and other.inner):
        return None
    return _Product(
        one.weight or other.weight,
        (*one.factors, *other.factors),
        one.inner or other.inner,
        one.shift or other.shift,
    )


def _is_factor(space: RowSpace, expr: Expr) -> bool:
    """1 / d, where d is a value a row that is neither tiny nor, in a finite row, infinite."""
    match expr:
        case Apply(op="div", dtype="f32", args=(Const(value=1.0), bottom)):
            return _is_divisor(space, bottom)
    return False


def _is_divisor(space: RowSpace, expr: Expr) -> bool:
    is_sum = isinstance(expr, Reduction) and weight_of(expr.body) is not None
    return is_sum and space.row_form(expr) is not None and least(expr) >= LEAST


def _is_logarithm(space: RowSpace, expr: Expr) -> bool:
    """The logarithm of a sum of exponentials of which one is 1."""
    match expr:
        case Apply(op="log", dtype="f32", args=(Reduction() as inner,)):
            return _is_divisor(space, inner) and least(inner) >= 1.0
    return False


# ------------------------------------------------------------------------------------ writing


class _Sums:
    """The expression a row."""

    def __init__(self, space: RowSpace) -> None:
        self.space = space
        self.pool = space.pool

    def of(self, products: list[_Product]) -> Expr:
        """The sum of all terms: those that share their factors are divided together."""
        by_factors: dict[tuple[int, ...], list[_Product]] = {}
        for one in products:
            by_factors.setdefault(tuple(factor.serial for factor in one.factors), []).append(one)
        total: Expr | None = None
        for group in by_factors.values():
            part: Expr | None = None
            for one in sorted(group, key=lambda one: -one.sign):
                part = self._added(part, self._term(one), one.sign)
            assert part is not None
            for factor in group[0].factors:
                part = self._two("mul", part, self._a_row(factor))
            total = self._added(total, part, 1)
        assert total is not None
        return total

    def _added(self, total: Expr | None, part: Expr, sign: int) -> Expr:
        if total is None:
            return part if sign > 0 else self.pool.apply("neg", "f32", (part,))
        return self._two("add" if sign > 0 else "sub", total, part)

    def _term(self, one: _Product) -> Expr:
        """sum(weight * inner) - shift * sum(weight)"""
        if one.weight is None:
            assert one.inner is not None and one.shift is not None
            count = self._count()
            return self._two("sub", self._sum(one.inner), self._two("mul", self._a_row(one.shift), count))
        if one.inner is None:
            return self._sum(one.weight)
        body = self._two("mul", one.weight, one.inner)
        if one.guarded:
            zero = self.pool.const(0.0, "f32")
            none = self.pool.apply("eq", "bool", (one.weight, zero))
            body = self.pool.apply("where", "f32", (none, zero, body))
        total = self._sum(body)
        if one.shift is None:
            return total
        return self._two("sub", total, self._two("mul", self._a_row(one.shift), self._sum(one.weight)))

    def _count(self) -> Expr:
        columns = self.space.columns
        return self.pool.const(columns.text if columns.number is None else float(columns.number), "f32")

    def _sum(self, body: Expr) -> Expr:
        rows, columns = identity(self.space.rows), identity(self.space.columns)
        return self.pool.reduction("sum", "f32", body, rows, columns)

    def _a_row(self, expr: Expr) -> Expr:
        form = self.space.row_form(expr)
        assert form is not None
        return form

    def _two(self, op: str, first: Expr, second: Expr) -> Expr:
        return self.pool.apply(op, "f32", (first, second))
