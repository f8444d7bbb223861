"""One reciprocal a row instead of a division an element.

Owns the rewrite of ``a / d`` into ``a * (1 / d)`` where ``d`` is a value a row that cannot be so small that
its reciprocal overflows: a division is some ten instructions, a product is one. The product is off by a bit
or two in the last place; the referee's bounds leave room for hundreds.
"""

from __future__ import annotations

import math
from dataclasses import replace

from workbench.playbook.expr import Apply, Const, Expr, Pool, Reduction
from workbench.playbook.program import Kernel
from workbench.playbook.row_passes import RowSpace

_LEAST = 1e-30
"""Divisors from which on a reciprocal does not overflow; the largest float's is only slightly subnormal."""


def with_reciprocals(pool: Pool, kernel: Kernel) -> Kernel:
    """The kernel with the divisions of its stores by values a row replaced where that is safe."""
    space = RowSpace(pool, kernel)

    def product(expr: Expr) -> Expr | None:
        match expr:
            case Apply(op="div", dtype="f32", args=(top, bottom)) if (
                not isinstance(bottom, Const)
                and space.row_form(bottom) is not None
                and space.row_form(top) is None
                and least(bottom) >= _LEAST
            ):
                inverse = pool.apply("div", "f32", (pool.const(1.0, "f32"), bottom))
                return pool.apply("mul", "f32", (pool.mapped(top, product), inverse))
        return None

    stores = [
        replace(store, value=pool.mapped(store.value, product)) if store.level == "full" else store
        for store in kernel.stores
    ]
    return Kernel(stores)


def least(expr: Expr) -> float:
    """A number that the expression is never below, unless it is NaN."""
    match expr:
        case Const(value=bool() | str()):
            return 0.0
        case Const(value=value):
            return float(value)
        case Apply(op="larger", args=args):
            return max(least(arg) for arg in args)
        case Apply(op="add", args=args):
            return sum(least(arg) for arg in args)
        case Apply(op="sqrt", args=(arg,)):
            return math.sqrt(least(arg)) if least(arg) >= 0.0 else 0.0
        case Apply(op="exp" | "abs" | "sqrt"):
            return 0.0
        case Apply(op="mul", args=(one, other)) if one is other:
            return 0.0
        case Apply(op="div", args=(top, Const(value=int() | float() | str() as by))) if least(top) >= 0.0:
            return 0.0 if isinstance(by, str) or by > 0 else -math.inf
        case Reduction(op="sum", body=body) if least(body) >= 0.0:
            return 1.0 if _has_its_own_largest(body) else 0.0
    return -math.inf


def _has_its_own_largest(body: Expr) -> bool:
    """exp(e - max(e)) is 1 at the largest e."""
    match body:
        case Apply(op="exp", args=(Apply(op="sub", args=(operand, Reduction(op="max", body=whole))),)):
            return operand is whole
    return False
