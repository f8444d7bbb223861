"""Indices that cannot be negative: nothing is counted from an axis's end, as torch counts -1."""

from __future__ import annotations

from workbench.playbook.ir.expr import Apply, Const, Expr, Index, Pool
from workbench.playbook.ir.ranges import is_natural
from workbench.playbook.ir.sizes import ONE, Size


def counts_from_the_front(pool: Pool, index: Expr, size: Size) -> bool:
    """True for an index into ``size`` elements, of which there are some, that cannot be negative."""
    match index:
        case Const(value=int() as value):
            return value >= 0
        case Const(value=str() as text):
            bound = pool.sizes.read(text)
            return is_natural(bound) or is_natural(bound + ONE + -size)
        case Index(view=view):
            return all(is_natural(part) for part in (view.offset, *(axis.stride for axis in view.axes)))
        case Apply(op="remainder", args=(_, Const() as divisor)):  # which has the sign of the divisor
            return counts_from_the_front(pool, divisor, size)
        case Apply(op="larger" | "bit_and", args=args):
            return any(counts_from_the_front(pool, arg, size) for arg in args)
        case Apply(op="smaller" | "add" | "mul", args=args) | Apply(op="where", args=(_, *args)):
            return all(counts_from_the_front(pool, arg, size) for arg in args)
        case Apply(op="cast", dtype="i64", args=(Expr(dtype="i32") as operand,)):
            return counts_from_the_front(pool, operand, size)
        case Apply(op="cast", dtype="i32" | "i64", args=(Expr(dtype="u8" | "bool"),)):
            return True
        case Apply(op="shift_right", args=(shifted, _)):
            return counts_from_the_front(pool, shifted, size)
    return False
