"""Which conditions let a query see the keys up to its own place and no further.

Owns the forms that such a condition takes in a graph: ``tril`` of ones, ``triu`` above the diagonal, ranges
that are compared, and what turns truth into numbers and back.
"""

from __future__ import annotations

from workbench.model import Arg, OpNode, Ref, base_name
from workbench.playbook.graph.graph_edit import GraphEdit

_NOT = ("aten.logical_not.default", "aten.bitwise_not.default")
_AND = ("aten.logical_and.default", "aten.bitwise_and.Tensor", "aten.mul.Tensor")


def keeps_past(edit: GraphEdit, arg: Arg, keeps: bool) -> bool:
    """True where ``arg`` is what is seen (``keeps``) or what is hidden, and each query i sees keys 0 to i.

    Numbers count as true where they are not 0.
    """
    match edit.made(arg):
        case OpNode(op=op, args=(inner,)) if op in _NOT:
            return keeps_past(edit, inner, not keeps)
        case OpNode(op="aten.eq.Scalar", args=(inner, 0)):
            return keeps_past(edit, inner, not keeps)
        case OpNode(op="aten.ne.Scalar", args=(inner, 0)):
            return keeps_past(edit, inner, keeps)
        case OpNode(op="prims.convert_element_type.default", args=(inner, *_)):
            return keeps_past(edit, inner, keeps)
        case OpNode(op="aten.view.default", args=(Ref() as inner, *_), outs=(out,)):
            return edit.spec(inner).dims[-2:] == out.dims[-2:] and keeps_past(edit, inner, keeps)
        case OpNode(op=op, args=(one, other)) if op in _AND and (all_true := _all_true(edit, one, other)):
            return keeps_past(edit, all_true, keeps)
        case OpNode(op="aten.where.self", args=(condition, one, other)):
            return _chosen(edit, condition, edit.constant(one), edit.constant(other), keeps)
        case OpNode() as made:
            return _compares(edit, made) == ("past" if keeps else "future")
    return False


def _all_true(edit: GraphEdit, one: Arg, other: Arg) -> Arg | None:
    """What is left of a conjunction with what is true everywhere."""
    if edit.constant(one):
        return other
    return one if edit.constant(other) else None


def _chosen(edit: GraphEdit, condition: Arg, one: float | None, other: float | None, keeps: bool) -> bool:
    if one is None or other is None or bool(one) == bool(other):
        return False
    return keeps_past(edit, condition, keeps if one else not keeps)


def _compares(edit: GraphEdit, made: OpNode) -> str:
    """``past`` for key <= query, ``future`` for key > query, else nothing."""
    match made:
        case OpNode(op=op, args=(difference, int() as bound)) if op.endswith(".Scalar"):
            pass
        case OpNode(op=op, args=(Ref() as one, Ref() as other)) if op.endswith(".Tensor"):
            return _ordered(edit, base_name(op), one, other)
        case _:
            return ""
    match edit.made(difference):
        case OpNode(op="aten.sub.Tensor", args=(Ref() as key, Ref() as query), kwargs=()):
            if not (_counts(edit, key, -1) and _counts(edit, query, -2)):
                return ""
        case _:
            return ""
    limits = {"le": ("past", 0), "lt": ("past", 1), "gt": ("future", 0), "ge": ("future", 1)}
    side, limit = limits.get(base_name(op), ("", 0))
    return side if bound == limit else ""


def _ordered(edit: GraphEdit, how: str, one: Ref, other: Ref) -> str:
    if _counts(edit, one, -1) and _counts(edit, other, -2):
        return {"le": "past", "gt": "future"}.get(how, "")
    if _counts(edit, one, -2) and _counts(edit, other, -1):
        return {"ge": "past", "lt": "future"}.get(how, "")
    return ""


def _counts(edit: GraphEdit, ref: Ref, axis: int) -> bool:
    """True for 0, 1, 2 and so on along an axis, and the same everywhere else."""
    dims = edit.spec(ref).dims
    at = axis + len(dims)
    if at < 0 or any(dim != 1 for place, dim in enumerate(dims) if place != at):
        return False
    made = edit.made(ref)
    while made is not None and made.op == "aten.view.default":
        made = edit.made(made.args[0])
    match made:
        case OpNode(op="aten.arange.start_step", args=(0, _)):
            return True
    return False
