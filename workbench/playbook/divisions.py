"""Division by a number, or by any value that a row shares, as a product with its reciprocal: a named rewrite.

Owns the rewrite where a reciprocal might overflow; where it cannot, reciprocals.py does it unasked. A product
rounds twice where the quotient rounds once; the referee's bound decides whether that may be.
"""

from __future__ import annotations

import math

from workbench.playbook.expr import Apply, Const, Expr, Pool, leaves
from workbench.playbook.program import Kernel, Store
from workbench.playbook.reciprocals import with_reciprocals
from workbench.playbook.row_passes import RowSpace

_MOST_STEPS = 8
"""Divisions below one another; each step takes the outermost."""


def with_products(pool: Pool, kernel: Kernel) -> Kernel:
    """The kernel with a product for every division by a number or, in a row kernel, by a value a row."""
    return Kernel([_store(pool, kernel, store) for store in kernel.stores])


def divides(pool: Pool, kernel: Kernel) -> bool:
    """True where the rewrite changes something."""
    safe = kernel if kernel.stores[0].level == "flat" else with_reciprocals(pool, kernel)
    changed = with_products(pool, safe)
    return any(new.value is not old.value for new, old in zip(changed.stores, safe.stores, strict=True))


def _store(pool: Pool, kernel: Kernel, store: Store) -> Store:
    space = RowSpace(pool, kernel) if store.level == "full" else None
    value = store.value
    if store.level == "row":
        return store  # a division a row is not worth a rewrite
    for _ in range(_MOST_STEPS):
        new = pool.mapped(value, lambda expr: _product(pool, space, expr))
        if new is value:
            break
        value = new
    return Store(store.buffer, value, store.view, store.rows, store.columns, store.level)


def _product(pool: Pool, space: RowSpace | None, expr: Expr) -> Expr | None:
    if not isinstance(expr, Apply) or expr.op != "div" or expr.dtype != "f32":
        return None
    over, under = expr.args
    inverse = _inverse(pool, space, over, under)
    return None if inverse is None else pool.apply("mul", "f32", (over, inverse), expr.name)


def _inverse(pool: Pool, space: RowSpace | None, over: Expr, under: Expr) -> Expr | None:
    match under:
        case Const(value=int() | float() as value) if not isinstance(value, bool):
            exact = math.frexp(value)[0] in (0.5, -0.5)  # the compiler multiplies by itself
            usable = value != 0 and math.isfinite(value) and not exact
            return pool.const(1.0 / value, "f32") if usable else None
        case Const():
            return None
    if space is None or space.row_form(under) is None or not any(True for _ in leaves(under)):
        return None
    if space.row_form(over) is not None:
        return None
    return pool.apply("div", "f32", (pool.const(1.0, "f32"), under))
