"""Running totals along few elements written out: each is an operation more on the one before.

The rewards of the next five steps are discounted as long as nothing has ended: a running product of five, of
which a sum of five is all that is wanted. As a scan it is a kernel of its own, and its totals are written and
read. few_terms.py has the rule's name.
"""

from __future__ import annotations

from workbench.model import DType, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.playbook.ir.operations import MOST_INLINE
from workbench.problem.few_axes import MOST

_JOINS = {"aten.cumsum.default": "aten.add.Tensor", "aten.cumprod.default": "aten.mul.Tensor"}
_ROUNDED = ("f16", "bf16")


def few_totals(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """A running total of few elements, none of which is a result: side by side, each made by itself."""
    match node.args:
        case (Ref() as operand, int(axis), *_) if node.op in _JOINS and None not in edit.users(node):
            dims = node.outs[0].dims
        case _:
            return None
    count = dims[axis] if dims else 1
    if not isinstance(count, int) or not 1 < count <= MOST:
        return None
    axis %= len(dims)
    dtype, shape = node.outs[0].dtype, (*dims[:axis], *dims[axis + 1 :])
    computed: DType = "f32" if dtype in _ROUNDED else dtype
    one, made = OutputSpec(dtype=edit.spec(operand).dtype, dims=shape), OutputSpec(dtype=computed, dims=shape)
    totals = list[Ref]()
    for at in range(count):
        part = edit.converted(edit.add("aten.select.int", (operand, axis, at), one, "element"), computed)
        totals.append(edit.add(_JOINS[node.op], (totals[-1], part), made, "total") if totals else part)
    beside = (*dims[:axis], 1, *dims[axis + 1 :])
    spec = OutputSpec(dtype=dtype, dims=beside)
    parts = [
        edit.add("aten.view.default", (edit.converted(total, dtype), shape_of(beside)), spec)
        for total in totals
    ]
    if count > MOST_INLINE:  # a concatenation of few is read where it is used: so are two of few each
        parts = [_beside(edit, parts[at : at + MOST_INLINE], axis) for at in range(0, count, MOST_INLINE)]
    return node.model_copy(update={"op": "aten.cat.default", "args": (tuple(parts), axis), "kwargs": ()})


def _beside(edit: GraphEdit, parts: list[Ref], axis: int) -> Ref:
    spec = edit.spec(parts[0])
    dims = (*spec.dims[:axis], len(parts), *spec.dims[axis + 1 :])
    return edit.add("aten.cat.default", (tuple(parts), axis), OutputSpec(dtype=spec.dtype, dims=dims))
