"""Matrix products of a few terms a result, written out: rotations, transforms of colours, small matrices.

Owns which products those are; few_terms.py has the rule's name. A library makes a launch of its own for each,
tiles that three terms do not fill, and reads and writes what the kernel beside it has at hand. A term that is
computed is computed again for each result that it goes into, and so may go into few.
"""

from __future__ import annotations

from workbench.model import Arg, Dim, DType, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.ir.operations import VIEWS
from workbench.problem.few_axes import MOST

_PRODUCTS = {
    "aten.mm.default": 0,
    "aten.bmm.default": 0,
    "aten.addmm.default": 1,
    "aten.baddbmm.default": 1,
}
"""Operands before the two that are multiplied."""
_PASSED_ON = frozenset([*VIEWS, "convert_element_type"])
"""What costs next to nothing to do again."""
_ROUNDED = ("f16", "bf16")


def few_products(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A product whose results are sums of two to ``MOST`` terms, as these terms added."""
    before = _PRODUCTS.get(node.op)
    if before is None or node.kwargs:
        return None
    added, (left, right) = node.args[:before], node.args[before:]
    if not isinstance(left, Ref) or not isinstance(right, Ref):
        return None
    *batch, rows, columns = dims = node.outs[0].dims
    depth = edit.spec(left).dims[-1]
    if not isinstance(depth, int) or not 2 <= depth <= MOST:
        return None
    if not _may_be_in(edit, left, columns) or not _may_be_in(edit, right, rows):
        return None
    dtype = edit.spec(left).dtype
    computed: DType = "f32" if dtype in _ROUNDED else dtype
    out, last = OutputSpec(dtype=computed, dims=dims), len(dims) - 1

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
