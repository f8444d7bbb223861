"""Divisions as products: a reciprocal a row instead of a division an element, and roots to divide by.

Owns the rewrites of ``a / d``. ``with_reciprocals`` is always made: ``d`` is a value a row that cannot be
so small that its reciprocal overflows; the logarithm of a softmax goes the same way. ``with_products`` is the
technique ``reciprocal``: numbers, values that a row shares, or rows side by side, and roots, where
``a / sqrt(d)`` is ``a * rsqrt(d)``. A division is some ten instructions, a product is one and off by a bit or
two in the last place; the referee's bounds leave room for hundreds, and decide. ``with_quotients`` is made
last, of what is still divided. What is reduced is rewritten too: a pass that divides otherwise has another
value to compute.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from workbench.playbook.analysis.placement import identity
from workbench.playbook.analysis.row_passes import RowSpace
from workbench.playbook.ir.expr import Apply, Const, Expr, Load, Pool, Reduction, leaves, walk, walk_all
from workbench.playbook.ir.operations import is_float
from workbench.playbook.ir.program import Kernel, Store
from workbench.playbook.ir.sizes import Size
from workbench.playbook.ir.views import NotAView
from workbench.playbook.text.indexing import is_unit

LEAST = 1e-30
"""Divisors from which on a reciprocal does not overflow; the largest float's is only slightly subnormal."""
_MOST_STEPS = 8
"""Divisions below one another; each step takes the outermost."""


def with_reciprocals(pool: Pool, kernel: Kernel) -> Kernel:
    """The kernel with the divisions of its stores by values a row replaced where that is safe."""
    space = RowSpace(pool, kernel)
    stores = [
        replace(store, value=_multiplied(pool, space, store.value)) if store.level == "full" else store
        for store in kernel.stores
    ]
    return replace(kernel, stores=stores)


def body_with_reciprocals(pool: Pool, body: Expr, rows: Size, columns: Size) -> Expr:
    """The same of what a reduction adds up, over (rows, columns)."""
    store = Store("", body, identity(rows * columns), rows, columns, "full")
    return _multiplied(pool, RowSpace(pool, Kernel([store])), body)


def _multiplied(pool: Pool, space: RowSpace, root: Expr) -> Expr:
    def product(expr: Expr) -> Expr | None:
        match expr:
            case Apply(
                op="log",
                dtype="f32",
                args=(
                    Apply(
                        op="div",
                        args=(
                            Apply(op="exp", args=(Apply(op="sub", args=(_, Reduction(op="max"))) as power,)),
                            bottom,
                        ),
                    ),
                ),
            ) if space.row_form(bottom) is not None and least(bottom) >= LEAST:
                # log(exp(a) / b) is a - log(b): a logarithm a row, and nothing underflows.
                return pool.apply("sub", "f32", (power, pool.apply("log", "f32", (bottom,))))
            case Apply(op="div", dtype="f32", args=(top, bottom)) if (
                not isinstance(bottom, Const)
                and space.row_form(bottom) is not None
                and space.row_form(top) is None
                and least(bottom) >= LEAST
            ):
                inverse = pool.apply("div", "f32", (pool.const(1.0, "f32"), bottom))
                return pool.apply("mul", "f32", (pool.mapped(top, product), inverse))
        return None

    return pool.mapped(root, product)


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


# ------------------------------------------------------------------------------------ without a jump

_STEPS = frozenset(["floor", "ceil", "trunc", "round", "floordiv", "remainder", "fmod", "sign"]) | frozenset(
    ["lt", "le", "gt", "ge", "eq", "ne", "nearest"]
)
"""Operations that make another number of a last place: 6 / 3 rounded down must be 2, not 1."""


def with_quotients(pool: Pool, kernel: Kernel) -> Kernel:
    """The kernel without exact divisions of elements: ``over`` a number, else a ``quotient``.

    Exact stay those once a row, by what is no input's, and of what is rounded or compared afterwards; and a
    kernel that reduces over quotients has one kind of them: where a softmax subtracts the largest of its row,
    two places may be the difference between 1 and infinity.
    """
    if not _has_divisions(kernel):
        return kernel
    if any(map(_divides_elements, _reduced([store.value for store in kernel.stores]))):
        return kernel
    return replace(kernel, stores=[_with_quotients(pool, kernel, store) for store in kernel.stores])


def _with_quotients(pool: Pool, kernel: Kernel, store: Store) -> Store:
    space = RowSpace(pool, kernel) if store.level != "flat" else None
    exact = {part.serial for part in walk_all(list(filter(_is_step, walk(store.value, True))))}
    once = _once(store)

    def op_of(expr: Apply) -> str:
        if expr.op != "div" or expr.dtype != "f32" or expr.serial in exact | once:
            return expr.op
        if space is not None and space.row_form(expr) is not None:
            return expr.op  # once a row: a mean is known as one by its division
        match expr.args[1]:
            case Const(value=int() | float() as value):
                return "over" if _is_ordinary(value) else expr.op
            case Const(value=str()):
                return "over"  # a size, which the compiler knows too
            case bottom:
                read = any(isinstance(part, (Load, Reduction)) for part in leaves(bottom))
                return "quotient" if read else expr.op

    return replace(store, value=pool.respelt(store.value, op_of, bodies=True))


def _once(store: Store) -> set[int]:
    """What a store of one value a row computes from what its reductions come to."""
    if store.level != "row":
        return set()
    reduced = {part.serial for part in _reduced([store.value])}
    return {part.serial for part in walk(store.value)} - reduced


def _reduced(roots: Sequence[Expr]) -> Iterator[Expr]:
    """What the reductions below some roots run over."""
    bodies = [part.body for part in walk_all(roots, into_reductions=True) if isinstance(part, Reduction)]
    return walk_all(bodies, into_reductions=True)


def _has_divisions(kernel: Kernel) -> bool:
    """One walk for all stores, where each store of a loop's steps has all steps before it below."""
    parts = walk_all([store.value for store in kernel.stores], into_reductions=True)
    return any(isinstance(part, Apply) and part.op == "div" for part in parts)


def _divides_elements(expr: Expr) -> bool:
    return isinstance(expr, Apply) and expr.op == "div" and not isinstance(expr.args[1], Const)


def _is_ordinary(number: float) -> bool:
    """True for a divisor whose reciprocal is neither exact, which a compiler knows, nor extreme."""
    return LEAST < abs(number) < 1 / LEAST and math.frexp(number)[0] not in (0.5, -0.5)


def _is_step(expr: Expr) -> bool:
    """True where neighbouring numbers may lead to results that are not neighbours."""
    return isinstance(expr, Apply) and (expr.op in _STEPS or (expr.op == "cast" and not is_float(expr.dtype)))


# ------------------------------------------------------------------------------------ the technique


def with_products(pool: Pool, kernel: Kernel) -> Kernel:
    """The kernel with a product for every division by a number, a root or, in a row kernel, a value a row."""
    if not _has_divisions(kernel):
        return kernel
    return replace(kernel, stores=[_store(pool, kernel, store) for store in kernel.stores])


def divides(pool: Pool, kernel: Kernel) -> bool:
    """True where the rewrite changes something."""
    safe = kernel if kernel.stores[0].level == "flat" else with_reciprocals(pool, kernel)
    changed = with_products(pool, safe)
    return any(new.value is not old.value for new, old in zip(changed.stores, safe.stores, strict=True))


def _store(pool: Pool, kernel: Kernel, store: Store) -> Store:
    space = RowSpace(pool, kernel) if store.level != "flat" else None
    value = store.value
    for _ in range(_MOST_STEPS):
        once = _once(replace(store, value=value))

        def product(expr: Expr, once: set[int] = once) -> Expr | None:
            return None if expr.serial in once else _product(pool, space, expr)

        new = pool.mapped(value, product, bodies=True)
        if new is value:
            break
        value = new
    return replace(store, value=value)


def _product(pool: Pool, space: RowSpace | None, expr: Expr) -> Expr | None:
    if not isinstance(expr, Apply) or expr.op != "div" or expr.dtype != "f32":
        return None
    if space is not None and space.row_form(expr) is not None:
        return None  # once a row: not worth a rewrite, and a mean is known as one by its division
    over, under = expr.args
    inverse = _inverse(pool, space, over, under)
    if inverse is not None and isinstance(over, Const) and over.value == 1.0:
        return inverse
    return None if inverse is None else pool.apply("mul", "f32", (over, inverse), expr.name)


def _inverse(pool: Pool, space: RowSpace | None, over: Expr, under: Expr) -> Expr | None:
    match under:
        case Const(value=int() | float() as value) if not isinstance(value, bool):
            exact = math.frexp(value)[0] in (0.5, -0.5)  # the compiler multiplies by itself
            usable = value != 0 and math.isfinite(value) and not exact
            return pool.const(1.0 / value, "f32") if usable else None
        case Const():
            return None
        case Apply(op="sqrt", dtype="f32", args=args) if space is None or space.row_form(under) is None:
            return pool.apply("rsqrt", "f32", args)
    if space is None or not any(True for _ in leaves(under)):
        return None
    if space.row_form(over) is not None:
        return None
    if space.row_form(under) is None and not _shared_by_rows(space, over, under):
        return None
    return pool.apply("div", "f32", (pool.const(1.0, "f32"), under))


def _shared_by_rows(space: RowSpace, over: Expr, under: Expr) -> bool:
    """True where rows lie side by side and are divided by the same: threads take several rows at a time."""
    try:
        beside = [
            not row.is_constant and is_unit(row)
            for row, column in (space.places(leaf) for leaf in leaves(over) if isinstance(leaf, Load))
            if not column.is_constant
        ]
        return any(beside) and space.is_of_columns(under)
    except NotAView:
        return False
