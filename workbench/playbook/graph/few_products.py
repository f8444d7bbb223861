"""Matrix products of a few terms a result, written out: rotations, transforms of colours, small matrices.

Owns which products those are; few_terms.py has the rule's name. A library makes a launch of its own for each,
tiles that three terms do not fill, and reads and writes what the kernel beside it has at hand. A term that is
computed is computed again for each result that it goes into, and so may go into few, or into those that one
reduction makes one number of; or it is made once for a row, all of which it goes into.
"""

from __future__ import annotations

import math

from workbench.model import Arg, Dim, DType, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.ir.operations import VIEWS, is_pointwise
from workbench.problem.components import REDUCTIONS, reduced_axes
from workbench.problem.few_axes import MOST

PRODUCTS = {
    "aten.mm.default": 0,
    "aten.bmm.default": 0,
    "aten.addmm.default": 1,
    "aten.baddbmm.default": 1,
}
"""Operands before the two that are multiplied."""
MOST_IN_TABLE = 512
"""Elements of a table, as of a palette's colours and the squares of their lengths (a guess)."""
MOST_REDUCED = 64
"""Results of one element that one reduction makes one number of (a guess)."""
_PASSED_ON = frozenset([*VIEWS, "convert_element_type"])
"""What costs next to nothing to do again."""
_ROUNDED = ("f16", "bf16")


def few_products(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A product whose results are sums of two to ``MOST`` terms, as these terms added."""
    before = PRODUCTS.get(node.op)
    if before is None or node.kwargs:
        return None
    added, (left, right) = node.args[:before], node.args[before:]
    if not isinstance(left, Ref) or not isinstance(right, Ref):
        return None
    *batch, rows, columns = dims = node.outs[0].dims
    depth = edit.spec(left).dims[-1]
    if not isinstance(depth, int) or not 2 <= depth <= MOST:
        return None
    last = len(dims) - 1
    sides = (left, columns, last), (right, rows, last - 1)
    reduced = [axis for _, _, axis in sides if _is_reduced(edit, node, axis)]
    for operand, times, axis in sides:
        # What a table of few is made of is made once, or is little beside what is reduced.
        table = bool(reduced) and _is_table(edit.spec(operand).dims)
        once = axis in reduced or table or _is_of_a_row(edit, operand, times)
        if not once and not _may_be_in(edit, operand, times):
            return None
    dtype = edit.spec(left).dtype
    computed: DType = "f32" if dtype in _ROUNDED else dtype
    out = OutputSpec(dtype=computed, dims=dims)

    def part(ref: Ref, axis: int, at: int, shape: tuple[Dim, ...]) -> Ref:
        one = OutputSpec(dtype=dtype, dims=shape)
        return edit.converted(edit.add("aten.slice.Tensor", (ref, axis, at, at + 1), one, "term"), computed)

    terms = [edit.converted(ref, computed) for ref in added if isinstance(ref, Ref)]
    for at in range(depth):
        pair = part(left, last, at, (*batch, rows, 1)), part(right, last - 1, at, (*batch, 1, columns))
        terms.append(edit.add("aten.mul.Tensor", pair, out))
    total, *rest = terms
    for term in rest:
        total = edit.add("aten.add.Tensor", (total, term), out)
    shaped: tuple[Arg, ...] = (edit.converted(total, node.outs[0].dtype), shape_of(dims))
    return node.model_copy(update={"op": "aten.view.default", "args": shaped})


def _may_be_in(edit: GraphEdit, ref: Ref, times: Dim) -> bool:
    """True for elements that go into few results, lie in memory as they are, or are made of single numbers:
    these are the same for all results, as the matrix of a rotation by one angle is."""
    if isinstance(times, int) and times <= MOST:
        return True
    if _of_numbers(edit, ref):
        return True
    made = edit.made(ref)
    while made is not None and made.base_name in _PASSED_ON:
        operand = made.args[0]
        assert isinstance(operand, Ref)
        ref, made = operand, edit.made(operand)
    return made is None and not ref.item


def _is_of_a_row(edit: GraphEdit, ref: Ref, times: Dim) -> bool:
    """True for what is made of sums along the very axis that all results lie along: each point wants all
    weights of a line that is fitted to them. The kernel that goes along the row for the sums has them."""
    if not isinstance(times, str) or times in edit.spec(ref).dims:
        return False
    pending, seen = [ref], set[str]()
    while pending:
        made = edit.made(current := pending.pop())
        if made is None or current.ref in seen:
            continue
        seen.add(current.ref)
        if times not in made.outs[0].dims and any(times in edit.spec(one).dims for one in made.refs):
            return True
        pending += made.refs
    return False


def _is_table(dims: tuple[Dim, ...]) -> bool:
    return all(isinstance(dim, int) for dim in dims) and math.prod(map(int, dims)) <= MOST_IN_TABLE


def _is_reduced(edit: GraphEdit, node: OpNode, axis: int) -> bool:
    """True where each result is only reduced, along an axis of up to ``MOST_REDUCED``: the thread that goes
    along it has what all of them are made of, as the distances of a colour from all of a palette."""
    dims = node.outs[0].dims
    count = dims[axis]
    if not isinstance(count, int) or count > MOST_REDUCED:
        return False
    pending, seen = [node], set[str]()
    while pending:
        users = edit.users(pending.pop())
        for user in users:
            if user is None:
                return False
            if user.base_name in REDUCTIONS:
                if reduced_axes(user, len(dims)) != [axis]:
                    return False
            elif not is_pointwise(user) or user.outs[0].dims != dims:
                return False
            elif user.name not in seen:
                seen.add(user.name)
                pending.append(user)
        if not users:
            return False
    return True


def _of_numbers(edit: GraphEdit, ref: Ref) -> bool:
    """True for what is computed of nothing but tensors of one element each."""
    pending, seen = [ref], set[str]()
    while pending:
        current = pending.pop()
        made = edit.made(current)
        if current.ref in seen:
            continue
        seen.add(current.ref)
        if made is not None:
            pending += made.refs
        elif current.item or any(size != 1 for size in edit.spec(current).dims):
            return False
    return True
