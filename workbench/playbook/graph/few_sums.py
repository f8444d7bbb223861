"""Matrix products of few results and long sums: normal equations, covariances, moments.

Six unknowns and sixty thousand points make thirty-six sums of sixty thousand terms. A library has a tile for
each of its products, of which six rows fill a little, and one block goes along all points; and it reads both
matrices from memory, where a column of them may be a formula. As sums along one axis they are the business of
the kernel that reduces rows: it makes all columns of a point once, adds to all sums, and shares long rows
among blocks. Owns which products those are; rewrites.py has the rule's name.
"""

from __future__ import annotations

from workbench.model import Arg, Dim, DType, OpNode, OutputSpec, Ref
from workbench.playbook.graph.graph_edit import GraphEdit, shape_of
from workbench.problem.few_axes import is_of_few_sums

_PRODUCTS = ("aten.mm.default", "aten.bmm.default")


def few_sums(edit: GraphEdit, node: OpNode) -> OpNode | None:
    """Such a product as its sums, each along the axis that both operands have, put beside one another."""
    if node.op not in _PRODUCTS:
        return None
    left, right = node.args
    assert isinstance(left, Ref) and isinstance(right, Ref)
    out, dtype = node.outs[0], edit.spec(left).dtype
    *batch, rows, columns = out.dims
    depth = edit.spec(left).dims[-1]
    if not isinstance(rows, int) or not isinstance(columns, int):
        return None
    if dtype in ("f64", "i64") or not is_of_few_sums(rows, columns, depth, edit.cases):
        return None
    line, last = (*batch, depth), len(batch)
    computed: DType = "f32"

    def taken(of: Ref, axis: int, at: int) -> Ref:
        one = OutputSpec(dtype=dtype, dims=line)
        return edit.converted(edit.add("aten.select.int", (of, axis, at), one, "element"), computed)

    tops = [taken(left, last, at) for at in range(rows)]
    sides = [taken(right, last + 1, at) for at in range(columns)]
    sums = [_sum(edit, top, side, line) for top in tops for side in sides]
    parts = tuple(edit.view(one, (*batch, 1)) for one in sums)
    beside = OutputSpec(dtype=computed, dims=(*batch, rows * columns))
    joined = edit.converted(edit.add("aten.cat.default", (parts, last), beside), out.dtype)
    shaped: tuple[Arg, ...] = (joined, shape_of(out.dims))
    return node.model_copy(update={"op": "aten.view.default", "args": shaped, "kwargs": ()})


def _sum(edit: GraphEdit, top: Ref, side: Ref, line: tuple[Dim, ...]) -> Ref:
    term = edit.add("aten.mul.Tensor", (top, side), OutputSpec(dtype="f32", dims=line), "term")
    out = OutputSpec(dtype="f32", dims=line[:-1])
    return edit.add("aten.sum.dim_IntList", (term, (len(line) - 1,)), out, "total")
