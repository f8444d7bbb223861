"""Exact divisions of many elements by a value that their row shares: a product, a correction, no jump.

Owns the rewrite of ``a / d`` where the quotient is rounded to a whole number: torch.round, a conversion, what
quantises. There an exact division must stay one, or a number between two whole ones goes to the other. With
``r``, the reciprocal of ``d`` rounded to nearest, ``q = a * r`` is off by less than 1.5 last places, and
corrected by what it leaves of ``a`` it is ``a / d`` rounded to nearest (Markstein, 1990; Brisebarre, Muller
and Raina, 2004; for more than one place see docs/notes/2026-11-24-divisions-of-a-row.md).
That holds while nothing overflows and what is left is no subnormal number. A row's power of two sees to the
divisor; quotients below 2^-17 may be off by a place, and all of them are rounded to 0; where a quotient
overflows, or ``a`` or ``d`` is 0, infinite or NaN, the product is right as it is.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from workbench.playbook.analysis.divisions import with_quotients, with_reciprocals
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.ir.expr import Apply, Const, Expr, Pool, leaves
from workbench.playbook.ir.operations import is_float
from workbench.playbook.ir.program import Kernel, Store

_ROUNDED = frozenset(["round", "trunc", "nearest"])
_BOUNDS = frozenset(["larger", "smaller"])


def row_divisions(pool: Pool, kernel: Kernel, fast_math: bool) -> Kernel:
    """A kernel along rows with the divisions that its text has, whatever its techniques."""
    values = _divided(pool, tuple(kernel.stores), fast_math)
    stores = [replace(store, value=value) for store, value in zip(kernel.stores, values, strict=True)]
    return replace(kernel, stores=stores)


@lru_cache(maxsize=1024)
def _divided(pool: Pool, stores: tuple[Store, ...], fast_math: bool) -> tuple[Expr, ...]:
    """What is stored then: a search asks again for every vector."""
    kernel = with_reciprocals(pool, Kernel(list(stores)))
    if not fast_math:
        kernel = with_shared_divisors(pool, with_quotients(pool, kernel))
    return tuple(store.value for store in kernel.stores)


def with_shared_divisors(pool: Pool, kernel: Kernel) -> Kernel:
    """The kernel with the reciprocal of each such divisor once a row."""
    space = RowSpace(pool, kernel)

    def shared(expr: Expr) -> Expr | None:
        if not _is_rounded(expr):
            return None
        assert isinstance(expr, Apply)
        return _over_shared(pool, space, expr)

    stores = [
        replace(store, value=pool.mapped(store.value, shared)) if store.level == "full" else store
        for store in kernel.stores
    ]
    return replace(kernel, stores=stores)


def _is_rounded(expr: Expr) -> bool:
    """True for what makes a whole number of a float."""
    if not isinstance(expr, Apply) or expr.args[0].dtype != "f32":
        return False
    to_integer = expr.op == "cast" and expr.dtype != "bool" and not is_float(expr.dtype)
    return expr.op in _ROUNDED or to_integer


def _over_shared(pool: Pool, space: RowSpace, expr: Apply) -> Expr | None:
    """The same with another division at the bottom of its bounds; None where there is none."""
    match expr:
        case Apply(op="div", dtype="f32", args=(top, bottom)):
            by_row = space.row_form(bottom) is not None and any(True for _ in leaves(bottom))
            if not by_row or space.row_form(top) is not None:
                return None
            scale = pool.apply("usual_scale", "f32", (bottom,))
            divisor = pool.apply("mul", "f32", (bottom, scale))
            inverse = pool.apply("div", "f32", (pool.const(1.0, "f32"), divisor))
            scaled = pool.apply("mul", "f32", (top, scale))
            return pool.apply("over_shared", "f32", (scaled, divisor, inverse), expr.name)
        case Apply(args=(Apply() as inner, *rest)) if _is_rounded(expr) or (
            expr.op in _BOUNDS and all(isinstance(one, Const) for one in rest)
        ):
            below = _over_shared(pool, space, inner)
            return None if below is None else pool.apply(expr.op, expr.dtype, (below, *rest), expr.name)
    return None
